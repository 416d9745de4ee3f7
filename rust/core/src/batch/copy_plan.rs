//! Which values of which arrays are copied, in order, into a column.
//!
//! A batch takes rows from several record batches. Neighbouring values of one array are one range,
//! so that rows of fixed size, and lists that follow each other, are copied whole.

use arrow_array::{Array, ArrayRef};

use super::{encoded::referred, size_limit::SizeLimit};
use crate::error::{Error, Result};

/// What a range of values is copied from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopySource {
    /// The array of this number.
    Array(usize),
    /// Nothing: a value around them is null.
    Null,
    /// Nothing: they pad a shorter row.
    Padding,
}

/// Values `start..start + len` of an array, or `len` missing ones.
#[derive(Clone, Copy, Debug)]
pub(super) struct CopyRange {
    pub(super) source: CopySource,
    pub(super) start: usize,
    pub(super) len: usize,
}

/// Ranges of values one after another.
#[derive(Clone, Debug, Default)]
pub(super) struct CopyPlan {
    ranges: Vec<CopyRange>,
    len: usize,
}

impl CopyPlan {
    /// These values of one array.
    pub(super) fn of(start: usize, len: usize) -> Self {
        let mut plan = Self::default();
        plan.push(CopySource::Array(0), start, len);
        plan
    }

    /// The number of values.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds values. Those that follow the last ones in the same array extend its range.
    pub(super) fn push(&mut self, source: CopySource, start: usize, len: usize) {
        self.len += len;
        let is_missing = !matches!(source, CopySource::Array(_));
        match self.ranges.last_mut() {
            Some(last) if last.source == source && (is_missing || last.end() == start) => {
                last.len += len;
            }
            _ if len > 0 => self.ranges.push(CopyRange { source, start, len }),
            _ => {}
        }
    }

    /// The range that all values are in, if it is one.
    pub(super) fn only(&self) -> Option<CopyRange> {
        match *self.ranges {
            [range] => Some(range),
            _ => None,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = CopyRange> {
        self.ranges.iter().copied()
    }

    /// Another plan, to which `add` adds the ranges of these arrays. Missing values are kept.
    fn map(
        &self,
        arrays: &[ArrayRef],
        add: impl Fn(&mut Self, &ArrayRef, CopyRange) -> Result<()>,
    ) -> Result<Self> {
        let mut plan = Self::default();
        for range in self.iter() {
            match range.source {
                CopySource::Array(number) => {
                    add(&mut plan, array_of(arrays, number, range)?, range)?;
                }
                missing => plan.push(missing, 0, range.len),
            }
        }
        Ok(plan)
    }

    /// The same values, missing where these arrays are null.
    pub(super) fn without_nulls(&self, arrays: &[ArrayRef], limit: &SizeLimit) -> Result<Self> {
        self.map(arrays, |plan, array, range| {
            let nulls = array.nulls();
            match nulls.filter(|nulls| nulls.slice(range.start, range.len).null_count() > 0) {
                None => plan.push(range.source, range.start, range.len),
                Some(nulls) => {
                    limit.take(range.len, size_of::<CopyRange>())?;
                    for at in range.start..range.end() {
                        let source =
                            if nulls.is_null(at) { CopySource::Null } else { range.source };
                        plan.push(source, at, 1);
                    }
                }
            }
            Ok(())
        })
    }

    /// The values that these refer to, in the value arrays of dictionaries or of run-end encoded
    /// arrays.
    pub(super) fn referred(&self, arrays: &[ArrayRef], limit: &SizeLimit) -> Result<Self> {
        self.map(arrays, |plan, array, range| {
            limit.take(range.len, size_of::<CopyRange>())?;
            for at in range.start..range.end() {
                if array.is_null(at) {
                    plan.push(CopySource::Null, 0, 1);
                } else {
                    plan.push(range.source, referred(array, at)?, 1);
                }
            }
            Ok(())
        })
    }
}

impl CopyRange {
    pub(super) fn end(&self) -> usize {
        self.start + self.len
    }
}

/// The array of this number, which must hold the range.
pub(super) fn array_of(arrays: &[ArrayRef], number: usize, range: CopyRange) -> Result<&ArrayRef> {
    let array = arrays.get(number).filter(|array| range.end() <= array.len());
    array.ok_or_else(|| Error::corrupt("a nested column is shorter than what refers to it"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range() {
        use CopySource::{Array, Null, Padding};
        let mut plan = CopyPlan::default();
        for (source, start, len) in [
            (Array(0), 3, 2),
            (Array(0), 5, 1),
            (Array(0), 7, 0),
            (Array(0), 6, 4),
            (Null, 0, 1),
            (Null, 0, 2),
            (Padding, 0, 1),
            (Array(1), 10, 1),
            (Array(0), 11, 1),
        ] {
            plan.push(source, start, len);
        }
        let found: Vec<_> =
            plan.iter().map(|range| (range.source, range.start, range.len)).collect();
        let expected =
            [(Array(0), 3, 7), (Null, 0, 3), (Padding, 0, 1), (Array(1), 10, 1), (Array(0), 11, 1)];
        assert_eq!(found, expected);
        assert_eq!(plan.len(), 13);
    }
}
