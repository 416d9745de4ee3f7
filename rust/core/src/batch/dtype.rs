//! The NumPy dtypes of Arrow types.

use arrow_array::types::{ArrowPrimitiveType, Float16Type};
use arrow_schema::{DataType, TimeUnit};

/// The NumPy dtype of an Arrow type whose values convert one by one and without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dtype {
    /// As `numpy.dtype` takes it; native byte order.
    pub name: &'static str,
    /// Bytes of one value in NumPy, 8 at most.
    pub width: usize,
    kind: Kind,
    /// Bytes of one value in Arrow; 0 for bits.
    stored: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Bool,
    Int,
    UInt,
    Float,
    /// A date, time or duration: counts of a unit, in NumPy always 64 bits.
    Time,
}

/// `NaT`, "not a time", in NumPy: the smallest integer.
const NAT: i64 = i64::MIN;

/// Padding without a fill value: zero of any dtype.
pub(super) const ZERO: [u8; 8] = [0; 8];

/// The value of a batch where there is none: for nulls, and behind the end of padded rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum FillValue {
    /// A Boolean.
    Bool(bool),
    /// A whole number; a count of units since 1970 or midnight for dates and times.
    Int(i128),
    /// A floating-point number; NaN stands for `NaT` among dates and times.
    Float(f64),
}

impl Dtype {
    /// The dtype of Booleans.
    pub const BOOL: Self = Self { name: "?", width: 1, kind: Kind::Bool, stored: 0 };

    /// The dtype of bytes.
    pub const U8: Self = Self { name: "u1", width: 1, kind: Kind::UInt, stored: 1 };

    /// The dtype of lengths.
    pub const I32: Self = Self { name: "i4", width: 4, kind: Kind::Int, stored: 4 };

    /// The dtype of arrays of 0 and 1.
    pub const F32: Self = Self { name: "f4", width: 4, kind: Kind::Float, stored: 4 };

    /// The dtype of times in a recording, in seconds.
    pub const F64: Self = Self { name: "f8", width: 8, kind: Kind::Float, stored: 8 };

    /// The dtype of the numbers of rows.
    pub const I64: Self = Self { name: "i8", width: 8, kind: Kind::Int, stored: 8 };

    /// The long name, such as `int64`; `i8` would look like a byte.
    pub(super) fn long_name(self) -> String {
        let bits = 8 * self.width;
        match self.kind {
            Kind::Bool => "bool".to_owned(),
            Kind::Int => format!("int{bits}"),
            Kind::UInt => format!("uint{bits}"),
            Kind::Float => format!("float{bits}"),
            Kind::Time => self.name.replace("M8", "datetime64").replace("m8", "timedelta64"),
        }
    }

    /// The dtype of an Arrow type; `None` where it has none.
    pub fn of(data_type: &DataType) -> Option<Self> {
        use DataType as T;
        let plain = |name, kind, width| Self { name, width, kind, stored: width };
        let time = |name, stored| Self { name, width: 8, kind: Kind::Time, stored };
        Some(match data_type {
            T::Boolean => Self::BOOL,
            T::Int8 => plain("i1", Kind::Int, 1),
            T::Int16 => plain("i2", Kind::Int, 2),
            T::Int32 => Self::I32,
            T::Int64 => Self::I64,
            T::UInt8 => Self::U8,
            T::UInt16 => plain("u2", Kind::UInt, 2),
            T::UInt32 => plain("u4", Kind::UInt, 4),
            T::UInt64 => plain("u8", Kind::UInt, 8),
            T::Float16 => plain("f2", Kind::Float, 2),
            T::Float32 => Self::F32,
            T::Float64 => Self::F64,
            T::Date32 => time("M8[D]", 4),
            T::Timestamp(TimeUnit::Second, _) => time("M8[s]", 8),
            T::Date64 | T::Timestamp(TimeUnit::Millisecond, _) => time("M8[ms]", 8),
            T::Timestamp(TimeUnit::Microsecond, _) => time("M8[us]", 8),
            T::Timestamp(TimeUnit::Nanosecond, _) => time("M8[ns]", 8),
            T::Time32(TimeUnit::Second) => time("m8[s]", 4),
            T::Time32(TimeUnit::Millisecond) => time("m8[ms]", 4),
            T::Time64(TimeUnit::Microsecond) | T::Duration(TimeUnit::Microsecond) => {
                time("m8[us]", 8)
            }
            T::Time64(TimeUnit::Nanosecond) | T::Duration(TimeUnit::Nanosecond) => {
                time("m8[ns]", 8)
            }
            T::Duration(TimeUnit::Second) => time("m8[s]", 8),
            T::Duration(TimeUnit::Millisecond) => time("m8[ms]", 8),
            _ => return None,
        })
    }

    /// Whether Arrow stores values as bits.
    pub(super) fn is_bits(self) -> bool {
        self.stored == 0
    }

    /// Bytes of one value in Arrow.
    pub(super) fn stored(self) -> usize {
        self.stored
    }

    /// The fill value in this dtype, in the first `width` bytes; `None` if it does not fit.
    pub(super) fn fill(self, value: FillValue) -> Option<[u8; 8]> {
        let int = match value {
            FillValue::Bool(b) => Some(i128::from(b)),
            FillValue::Int(i) => Some(i),
            FillValue::Float(f) if f.fract() == 0.0 && f.abs() < 2_f64.powi(65) => Some(f as i128),
            FillValue::Float(_) => None,
        };
        let float = match value {
            FillValue::Bool(b) => f64::from(u8::from(b)),
            FillValue::Int(i) => i as f64,
            FillValue::Float(f) => f,
        };
        let bits = 8 * self.width as u32;
        let signed = -(1_i128 << (bits - 1))..1_i128 << (bits - 1);
        match (self.kind, self.width) {
            (Kind::Bool, _) => int.filter(|i| (0..2).contains(i)).map(|i| padded(&[i as u8])),
            (Kind::Int, _) => int.filter(|i| signed.contains(i)).map(|i| low(self.width, i)),
            (Kind::UInt, _) => {
                int.filter(|i| (0..1 << bits).contains(i)).map(|i| low(self.width, i))
            }
            (Kind::Float, 2) => {
                let half = <Float16Type as ArrowPrimitiveType>::Native::from_f64(float);
                Some(padded(&half.to_ne_bytes()))
            }
            (Kind::Float, 4) => Some(padded(&(float as f32).to_ne_bytes())),
            (Kind::Float, _) => Some(float.to_ne_bytes()),
            (Kind::Time, _) if float.is_nan() => Some(NAT.to_ne_bytes()),
            (Kind::Time, _) => int.filter(|i| signed.contains(i)).map(|i| low(8, i)),
        }
    }
}

fn padded(bytes: &[u8]) -> [u8; 8] {
    let mut whole = [0; 8];
    whole.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    whole
}

/// The low `width` bytes of a number, in native order.
fn low(width: usize, value: i128) -> [u8; 8] {
    match width {
        1 => padded(&(value as u8).to_ne_bytes()),
        2 => padded(&(value as u16).to_ne_bytes()),
        4 => padded(&(value as u32).to_ne_bytes()),
        _ => (value as u64).to_ne_bytes(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fill_values_fit_or_are_refused() {
        let fill = |data_type, value| Dtype::of(&data_type).unwrap().fill(value);
        let int = FillValue::Int;
        assert_eq!(fill(DataType::Int8, int(-128)), Some([0x80, 0, 0, 0, 0, 0, 0, 0]));
        assert_eq!(fill(DataType::Int8, int(-129)), None);
        assert_eq!(fill(DataType::UInt8, int(-1)), None);
        assert_eq!(fill(DataType::UInt8, int(256)), None);
        assert_eq!(fill(DataType::UInt64, int(u64::MAX.into())), Some([0xFF; 8]));
        assert_eq!(fill(DataType::UInt64, int(1 << 64)), None);
        assert_eq!(fill(DataType::Int64, int(1 << 63)), None);
        assert_eq!(fill(DataType::Int32, FillValue::Float(0.5)), None);
        assert_eq!(fill(DataType::Int32, FillValue::Float(f64::NAN)), None);
        assert_eq!(fill(DataType::Int32, FillValue::Float(7.0)), Some(padded(&[7])));
        assert_eq!(fill(DataType::Boolean, int(2)), None);
        assert_eq!(fill(DataType::Boolean, FillValue::Bool(true)), Some(padded(&[1])));
        let nan = fill(DataType::Float32, FillValue::Float(f64::NAN)).unwrap();
        assert!(f32::from_ne_bytes(*nan.first_chunk().unwrap()).is_nan());
        assert_eq!(fill(DataType::Float16, int(1)), Some(padded(&0x3C00_u16.to_ne_bytes())));
        assert_eq!(fill(DataType::Date32, FillValue::Float(f64::NAN)), Some(NAT.to_ne_bytes()));
        assert_eq!(fill(DataType::Date32, FillValue::Float(1.5)), None);
        assert_eq!(fill(DataType::Date64, int(-3)), Some((-3_i64).to_ne_bytes()));
    }
}
