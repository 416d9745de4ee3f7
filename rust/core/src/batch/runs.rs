//! Which values of which arrays stand one after another: the plan that columns are copied by.
//!
//! A batch takes rows from several record batches. Neighbouring values of one array are one run, so
//! that rows of fixed size, and lists that follow each other, are copied as they lie, whole.

use arrow_array::{
    Array, ArrayRef, RunArray,
    cast::AsArray,
    types::{
        Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::DataType;

use super::limit::Limit;
use crate::error::{Error, Result};

/// Where the values of a run come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The array of this number.
    Part(usize),
    /// Nowhere: something around them is null.
    Null,
    /// Nowhere: a padded row ends before them.
    Pad,
}

/// Values `start..start + len` of an array, or `len` missing ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) from: Origin,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Runs one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    runs: Vec<Run>,
    len: usize,
}

impl Runs {
    /// One value, or all of one array.
    pub(super) fn of(start: usize, len: usize) -> Self {
        let mut runs = Self::default();
        runs.push(Origin::Part(0), start, len);
        runs
    }

    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds values; those that follow the last ones in the same array lengthen its run.
    pub(super) fn push(&mut self, from: Origin, start: usize, len: usize) {
        self.len += len;
        match self.runs.last_mut() {
            Some(last) if last.from == from && (is_nowhere(from) || last.end() == start) => {
                last.len += len;
            }
            _ if len > 0 => self.runs.push(Run { from, start, len }),
            _ => {}
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Run> {
        self.runs.iter().copied()
    }

    /// The same values, missing where these arrays are null.
    pub(super) fn without_nulls(&self, parts: &[ArrayRef], limit: &Limit) -> Result<Self> {
        let mut runs = Self::default();
        for run in self.iter() {
            let Origin::Part(part) = run.from else {
                runs.push(run.from, 0, run.len);
                continue;
            };
            let array = part_of(parts, part, run)?;
            match array.nulls().filter(|nulls| nulls.slice(run.start, run.len).null_count() > 0) {
                None => runs.push(run.from, run.start, run.len),
                Some(nulls) => {
                    limit.take(run.len, size_of::<Run>())?;
                    for at in run.start..run.end() {
                        let from = if nulls.is_null(at) { Origin::Null } else { run.from };
                        runs.push(from, at, 1);
                    }
                }
            }
        }
        Ok(runs)
    }

    /// The values that these refer to, in the value arrays of dictionaries or of run-end encoded
    /// arrays.
    pub(super) fn referred(&self, parts: &[ArrayRef], limit: &Limit) -> Result<Self> {
        let mut runs = Self::default();
        for run in self.iter() {
            let Origin::Part(part) = run.from else {
                runs.push(run.from, 0, run.len);
                continue;
            };
            let array = part_of(parts, part, run)?;
            limit.take(run.len, size_of::<Run>())?;
            for at in run.start..run.end() {
                if array.is_null(at) {
                    runs.push(Origin::Null, 0, 1);
                } else {
                    runs.push(run.from, referred(array, at)?, 1);
                }
            }
        }
        Ok(runs)
    }
}

impl Run {
    pub(super) fn end(&self) -> usize {
        self.start + self.len
    }
}

fn is_nowhere(from: Origin) -> bool {
    !matches!(from, Origin::Part(_))
}

/// The array of this number, which holds the run.
pub(super) fn part_of(parts: &[ArrayRef], part: usize, run: Run) -> Result<&ArrayRef> {
    let array = parts.get(part).filter(|array| run.end() <= array.len());
    array.ok_or_else(|| Error::corrupt("a nested column is shorter than what refers to it"))
}

/// The index of value `at` among the values of a dictionary or run-end encoded array.
pub(super) fn referred(array: &ArrayRef, at: usize) -> Result<usize> {
    macro_rules! key {
        ($keys:expr, $type:ty) => {
            $keys
                .as_primitive_opt::<$type>()
                .and_then(|keys| keys.values().get(at).copied())
                .and_then(|key| usize::try_from(key).ok())
        };
    }
    let found = match array.data_type() {
        DataType::Dictionary(key, _) => {
            let keys = array.as_any_dictionary().keys();
            match **key {
                DataType::Int8 => key!(keys, Int8Type),
                DataType::Int16 => key!(keys, Int16Type),
                DataType::Int32 => key!(keys, Int32Type),
                DataType::Int64 => key!(keys, Int64Type),
                DataType::UInt8 => key!(keys, UInt8Type),
                DataType::UInt16 => key!(keys, UInt16Type),
                DataType::UInt32 => key!(keys, UInt32Type),
                _ => key!(keys, UInt64Type),
            }
        }
        DataType::RunEndEncoded(..) if at < array.len() => {
            if let Some(runs) = array.as_run_opt::<Int16Type>() {
                Some(runs.get_physical_index(at))
            } else if let Some(runs) = array.as_run_opt::<Int32Type>() {
                Some(runs.get_physical_index(at))
            } else {
                array.as_run_opt::<Int64Type>().map(|runs| runs.get_physical_index(at))
            }
        }
        _ => None,
    };
    found.ok_or_else(|| Error::corrupt("a key of a dictionary lies outside it"))
}

/// The value arrays of dictionaries or run-end encoded arrays.
pub(super) fn referred_values(array: &ArrayRef) -> Result<ArrayRef> {
    let found = if let Some(dictionary) = array.as_any_dictionary_opt() {
        Some(dictionary.values())
    } else if let Some(runs) = array.as_run_opt::<Int16Type>() {
        Some(runs.values())
    } else if let Some(runs) = array.as_run_opt::<Int32Type>() {
        Some(runs.values())
    } else {
        array.as_run_opt::<Int64Type>().map(RunArray::values)
    };
    found.cloned().ok_or_else(|| Error::corrupt("an encoded column without values"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_run() {
        let mut runs = Runs::default();
        for (from, start, len) in [
            (Origin::Part(0), 3, 2),
            (Origin::Part(0), 5, 1),
            (Origin::Part(0), 7, 0),
            (Origin::Part(0), 6, 4),
            (Origin::Null, 0, 1),
            (Origin::Null, 0, 2),
            (Origin::Pad, 0, 1),
            (Origin::Part(1), 10, 1),
            (Origin::Part(0), 11, 1),
        ] {
            runs.push(from, start, len);
        }
        let found: Vec<_> = runs.iter().map(|run| (run.from, run.start, run.len)).collect();
        let expected = [
            (Origin::Part(0), 3, 7),
            (Origin::Null, 0, 3),
            (Origin::Pad, 0, 1),
            (Origin::Part(1), 10, 1),
            (Origin::Part(0), 11, 1),
        ];
        assert_eq!(found, expected);
        assert_eq!(runs.len(), 13);
    }
}
