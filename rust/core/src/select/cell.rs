//! Single values of small columns, to compare and to hash.

use std::cmp::Ordering;

use arrow_array::{
    Array, ArrayRef, ArrowPrimitiveType,
    cast::AsArray,
    types::{
        ArrowDictionaryKeyType, BinaryViewType, Date32Type, Date64Type, DurationMicrosecondType,
        DurationMillisecondType, DurationNanosecondType, DurationSecondType, Float16Type,
        Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, StringViewType,
        Time32MillisecondType, Time32SecondType, Time64MicrosecondType, Time64NanosecondType,
        TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
        TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
    },
};
use arrow_schema::{DataType, TimeUnit};

use crate::{
    batch::items_of,
    error::{Error, Result},
    hash::{fnv1a, hash},
};

/// The kinds of values that are compared with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    /// Of 32 bits or fewer, or of 64.
    Float {
        is_narrow: bool,
    },
    Text,
    Bytes,
    Time(TimeKind),
}

/// What a time is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeKind {
    /// A date, or a time without a time zone.
    Naive,
    /// A time with a time zone.
    Aware,
    /// A difference of times.
    Duration,
    /// A time of the day.
    OfDay,
}

impl Kind {
    /// The kind of a type's values; `None` where they are not compared.
    pub(super) fn of(data_type: &DataType) -> Option<Self> {
        use DataType as T;
        Some(match data_type {
            T::Boolean => Self::Bool,
            whole if whole.is_integer() => Self::Int,
            T::Float16 | T::Float32 => Self::Float { is_narrow: true },
            T::Float64 => Self::Float { is_narrow: false },
            T::Utf8 | T::LargeUtf8 | T::Utf8View => Self::Text,
            T::Binary | T::LargeBinary | T::BinaryView | T::FixedSizeBinary(_) => Self::Bytes,
            T::Timestamp(_, zone) => {
                Self::Time(if zone.is_some() { TimeKind::Aware } else { TimeKind::Naive })
            }
            T::Date32 | T::Date64 => Self::Time(TimeKind::Naive),
            T::Duration(_) => Self::Time(TimeKind::Duration),
            T::Time32(_) | T::Time64(_) => Self::Time(TimeKind::OfDay),
            T::Dictionary(_, values) if !matches!(**values, T::Dictionary(..)) => Self::of(values)?,
            _ => return None,
        })
    }

    /// What to write for a value of this kind.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Bool => "True or False",
            Self::Int | Self::Float { .. } => "a number",
            Self::Text => "a string",
            Self::Bytes => "bytes",
            Self::Time(TimeKind::Naive) => "a datetime without a time zone, or a date",
            Self::Time(TimeKind::Aware) => "a datetime with a time zone",
            Self::Time(TimeKind::Duration) => "a timedelta",
            Self::Time(TimeKind::OfDay) => "a datetime.time",
        }
    }
}

/// One value. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Cell<'a> {
    Null,
    Int(i128),
    Float(f64),
    Bytes(&'a [u8]),
}

impl Cell<'_> {
    /// How values of one column compare; `None` for nulls and NaN.
    pub(super) fn compare(&self, other: &Cell<'_>) -> Option<Ordering> {
        match (self, other) {
            (Self::Int(a), Cell::Int(b)) => Some(a.cmp(b)),
            (Self::Float(a), Cell::Float(b)) => a.partial_cmp(b),
            (Self::Bytes(a), Cell::Bytes(b)) => Some((*a).cmp(*b)),
            _ => None,
        }
    }

    /// A hash that is the same for equal values, whatever their type: one null makes pandas write a
    /// column of integers as floats, and no row may move to another split by that.
    pub(super) fn word(&self) -> u64 {
        match self {
            Self::Null => hash(&[0]),
            Self::Int(value) => hash(&[1, *value as u64]),
            Self::Float(value) => match whole(*value) {
                Some(whole) => Self::Int(whole).word(),
                None => hash(&[2, float_bits(*value)]),
            },
            Self::Bytes(bytes) => hash(&[3, fnv1a(bytes)]),
        }
    }
}

/// The integer that equals a float, if a column of integers can have it.
fn whole(value: f64) -> Option<i128> {
    const INTEGERS: std::ops::Range<f64> =
        -9_223_372_036_854_775_808.0..18_446_744_073_709_551_616.0;
    (value.fract() == 0.0 && INTEGERS.contains(&value)).then_some(value as i128)
}

/// The bits of a number: those of all NaNs, and of both zeros, are the same.
pub(super) fn float_bits(value: f64) -> u64 {
    if value.is_nan() { f64::NAN.to_bits() } else { (value + 0.0).to_bits() }
}

/// The values of an array.
#[derive(Debug)]
pub(super) struct Cells<'a> {
    /// Structs around it, which may be null.
    parents: Vec<&'a dyn Array>,
    array: &'a ArrayRef,
    /// Of a dictionary: the index of each value.
    keys: Option<Vec<usize>>,
}

impl<'a> Cells<'a> {
    /// Those of the column, or of the child of a struct at this path of indices.
    pub(super) fn new(column: &'a ArrayRef, path: &[usize]) -> Result<Self> {
        let (mut array, mut parents) = (column, Vec::new());
        for child in path {
            parents.push(&**array as &dyn Array);
            let next = array.as_struct_opt().and_then(|fields| fields.columns().get(*child));
            array = next.ok_or_else(|| Error::corrupt("a struct lacks a field of its schema"))?;
        }
        Ok(Self { parents, array, keys: dictionary_keys(array) })
    }

    /// The value at `at`; that of a list is null.
    pub(super) fn get(&self, at: usize) -> Cell<'a> {
        let outside = self.parents.iter().any(|parent| at >= parent.len() || parent.is_null(at));
        if outside || at >= self.array.len() || self.array.is_null(at) {
            return Cell::Null;
        }
        match (&self.keys, self.array.as_any_dictionary_opt()) {
            (Some(keys), Some(dictionary)) => {
                let (key, values) = (keys.get(at).copied(), dictionary.values());
                key.filter(|key| *key < values.len() && !values.is_null(*key))
                    .map_or(Cell::Null, |key| plain(values, key))
            }
            _ => plain(self.array, at),
        }
    }

    /// Calls `each` with the items of the list at `at`, nulls left out; with none for a null list.
    pub(super) fn items(&self, at: usize, mut each: impl FnMut(Cell<'_>)) -> Result<()> {
        let outside = self.parents.iter().any(|parent| at >= parent.len() || parent.is_null(at));
        if outside || at >= self.array.len() || self.array.is_null(at) {
            return Ok(());
        }
        let (items, start, len) = items_of(self.array, at)?;
        let items = Cells { parents: Vec::new(), keys: dictionary_keys(&items), array: &items };
        for k in start..start + len {
            let cell = items.get(k);
            if cell != Cell::Null {
                each(cell);
            }
        }
        Ok(())
    }
}

/// The index of each value of a dictionary array; `None` for other arrays.
fn dictionary_keys(array: &ArrayRef) -> Option<Vec<usize>> {
    let DataType::Dictionary(key_type, _) = array.data_type() else { return None };
    Some(match **key_type {
        DataType::Int8 => keys_of::<Int8Type>(array),
        DataType::Int16 => keys_of::<Int16Type>(array),
        DataType::Int32 => keys_of::<Int32Type>(array),
        DataType::Int64 => keys_of::<Int64Type>(array),
        DataType::UInt8 => keys_of::<UInt8Type>(array),
        DataType::UInt16 => keys_of::<UInt16Type>(array),
        DataType::UInt32 => keys_of::<UInt32Type>(array),
        _ => keys_of::<UInt64Type>(array),
    })
}

fn keys_of<K: ArrowDictionaryKeyType>(array: &ArrayRef) -> Vec<usize>
where
    usize: TryFrom<K::Native>,
{
    let keys = array.as_dictionary_opt::<K>().map(|dictionary| dictionary.keys().values());
    let index = |key: &K::Native| usize::try_from(*key).unwrap_or(usize::MAX);
    keys.map(|keys| keys.iter().map(index).collect()).unwrap_or_default()
}

fn native<T: ArrowPrimitiveType>(array: &ArrayRef, at: usize) -> T::Native {
    array.as_primitive::<T>().value(at)
}

/// The value of an array that is no dictionary, at an index inside it that is not null.
fn plain(array: &ArrayRef, at: usize) -> Cell<'_> {
    use DataType as T;
    const DAY_S: i128 = 86_400;
    let time = |value: i64, unit: TimeUnit| Cell::Int(i128::from(value) * nanoseconds(unit));
    match array.data_type() {
        T::Boolean => Cell::Int(array.as_boolean().value(at).into()),
        T::Int8 => Cell::Int(native::<Int8Type>(array, at).into()),
        T::Int16 => Cell::Int(native::<Int16Type>(array, at).into()),
        T::Int32 => Cell::Int(native::<Int32Type>(array, at).into()),
        T::Int64 => Cell::Int(native::<Int64Type>(array, at).into()),
        T::UInt8 => Cell::Int(native::<UInt8Type>(array, at).into()),
        T::UInt16 => Cell::Int(native::<UInt16Type>(array, at).into()),
        T::UInt32 => Cell::Int(native::<UInt32Type>(array, at).into()),
        T::UInt64 => Cell::Int(native::<UInt64Type>(array, at).into()),
        T::Float16 => Cell::Float(native::<Float16Type>(array, at).into()),
        T::Float32 => Cell::Float(native::<Float32Type>(array, at).into()),
        T::Float64 => Cell::Float(native::<Float64Type>(array, at)),
        T::Utf8 => Cell::Bytes(array.as_string::<i32>().value(at).as_bytes()),
        T::LargeUtf8 => Cell::Bytes(array.as_string::<i64>().value(at).as_bytes()),
        T::Utf8View => Cell::Bytes(array.as_byte_view::<StringViewType>().value(at).as_bytes()),
        T::Binary => Cell::Bytes(array.as_binary::<i32>().value(at)),
        T::LargeBinary => Cell::Bytes(array.as_binary::<i64>().value(at)),
        T::BinaryView => Cell::Bytes(array.as_byte_view::<BinaryViewType>().value(at)),
        T::FixedSizeBinary(_) => Cell::Bytes(array.as_fixed_size_binary().value(at)),
        T::Date32 => Cell::Int(i128::from(native::<Date32Type>(array, at)) * DAY_S * 1_000_000_000),
        T::Date64 => time(native::<Date64Type>(array, at), TimeUnit::Millisecond),
        T::Timestamp(unit, _) => time(
            match unit {
                TimeUnit::Second => native::<TimestampSecondType>(array, at),
                TimeUnit::Millisecond => native::<TimestampMillisecondType>(array, at),
                TimeUnit::Microsecond => native::<TimestampMicrosecondType>(array, at),
                TimeUnit::Nanosecond => native::<TimestampNanosecondType>(array, at),
            },
            *unit,
        ),
        T::Duration(unit) => time(
            match unit {
                TimeUnit::Second => native::<DurationSecondType>(array, at),
                TimeUnit::Millisecond => native::<DurationMillisecondType>(array, at),
                TimeUnit::Microsecond => native::<DurationMicrosecondType>(array, at),
                TimeUnit::Nanosecond => native::<DurationNanosecondType>(array, at),
            },
            *unit,
        ),
        T::Time32(TimeUnit::Second) => {
            time(native::<Time32SecondType>(array, at).into(), TimeUnit::Second)
        }
        T::Time32(_) => {
            time(native::<Time32MillisecondType>(array, at).into(), TimeUnit::Millisecond)
        }
        T::Time64(TimeUnit::Microsecond) => {
            time(native::<Time64MicrosecondType>(array, at), TimeUnit::Microsecond)
        }
        T::Time64(_) => time(native::<Time64NanosecondType>(array, at), TimeUnit::Nanosecond),
        _ => Cell::Null,
    }
}

fn nanoseconds(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_float_has_the_hash_of_its_integer() {
        let ints: [i64; 6] = [0, 1, -1, 1 << 53, i64::MIN, -(1 << 40)];
        for value in ints {
            assert_eq!(Cell::Float(value as f64).word(), Cell::Int(value.into()).word(), "{value}");
        }
        assert_eq!(Cell::Float(2f64.powi(63)).word(), Cell::Int(1 << 63).word());
        assert_eq!(Cell::Float(-0.0).word(), Cell::Int(0).word());
        // Other numbers have their bits.
        for value in [0.5, -1.25, 2f64.powi(64), -2f64.powi(64), f64::INFINITY, f64::NAN] {
            assert_eq!(Cell::Float(value).word(), hash(&[2, float_bits(value)]), "{value}");
        }
    }
}
