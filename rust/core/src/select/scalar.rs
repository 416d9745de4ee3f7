//! Values that users write, as a column's type takes them.

use std::{cmp::Ordering, fmt};

use super::{
    cell::{Cell, Kind, TimeKind},
    column::Column,
};
use crate::error::{Error, Result};

/// A value as it was written.
#[derive(Clone, Debug, PartialEq)]
pub enum Scalar {
    /// `None`.
    Null,
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i128),
    /// Another number.
    Float(f64),
    /// A string.
    Text(String),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A date or time, in nanoseconds.
    Time(TimeKind, i128),
}

impl fmt::Display for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => write!(f, "None"),
            Self::Bool(true) => write!(f, "True"),
            Self::Bool(false) => write!(f, "False"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => write!(f, "{value}"),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Bytes(bytes) => write!(f, "{} bytes", bytes.len()),
            Self::Time(TimeKind::Naive, _) => write!(f, "a time without a time zone"),
            Self::Time(TimeKind::Aware, _) => write!(f, "a time with a time zone"),
            Self::Time(TimeKind::Duration, _) => write!(f, "a timedelta"),
            Self::Time(TimeKind::OfDay, _) => write!(f, "a time of the day"),
        }
    }
}

/// A value that was checked against a column.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Bound {
    Null,
    Int(i128),
    Float(f64),
    Bytes(Vec<u8>),
}

impl Bound {
    /// A value for this column, by which `option` was given. The name of a class becomes its number,
    /// and a number for a column of floats of 32 bits is rounded to one.
    pub(super) fn new(option: &str, column: &Column, value: &Scalar) -> Result<Self> {
        Ok(match (column.kind, value) {
            (_, Scalar::Null) => Self::Null,
            (Kind::Bool, Scalar::Bool(value)) => Self::Int((*value).into()),
            (Kind::Int | Kind::Float { .. }, Scalar::Int(value)) => Self::Int(*value),
            (Kind::Int, Scalar::Text(name)) if column.classes.is_some() => {
                Self::Int(class_of(option, column, name)?)
            }
            (Kind::Int, Scalar::Float(value)) => Self::Float(*value),
            (Kind::Float { is_narrow }, Scalar::Float(value)) => {
                Self::Float(if is_narrow { f64::from(*value as f32) } else { *value })
            }
            (Kind::Text, Scalar::Text(text)) => Self::Bytes(text.clone().into_bytes()),
            (Kind::Bytes, Scalar::Bytes(bytes)) => Self::Bytes(bytes.clone()),
            (Kind::Time(kind), Scalar::Time(other, value)) if kind == *other => Self::Int(*value),
            (kind, _) => {
                return Err(Error::schema(
                    &column.name,
                    format!(
                        "{option} has {value} for this column of type {}: write {}{}",
                        column.data_type,
                        kind.example(),
                        if column.classes.is_some() { ", or the name of a class" } else { "" }
                    ),
                ));
            }
        })
    }

    /// How a value of the column compares with this one; `None` for nulls and NaN.
    pub(super) fn compare(&self, cell: &Cell<'_>) -> Option<Ordering> {
        match (cell, self) {
            (Cell::Int(a), Self::Int(b)) => Some(a.cmp(b)),
            (Cell::Float(a), Self::Float(b)) => a.partial_cmp(b),
            (Cell::Int(a), Self::Float(b)) => compare_mixed(*a, *b),
            (Cell::Float(a), Self::Int(b)) => compare_mixed(*b, *a).map(Ordering::reverse),
            (Cell::Bytes(a), Self::Bytes(b)) => Some((*a).cmp(b)),
            _ => None,
        }
    }

    /// As the values of the column are, so that equal ones are the same; `None` where none of them is
    /// equal to it.
    pub(super) fn as_cell(&self, kind: Kind) -> Option<Cell<'_>> {
        Some(match (kind, self) {
            (_, Self::Null) => Cell::Null,
            (Kind::Float { .. }, Self::Int(value)) => {
                let float = *value as f64;
                (compare_mixed(*value, float) == Some(Ordering::Equal)).then_some(())?;
                Cell::Float(float)
            }
            (Kind::Int, Self::Float(value)) => {
                let whole = *value as i128;
                (compare_mixed(whole, *value) == Some(Ordering::Equal)).then_some(())?;
                Cell::Int(whole)
            }
            (_, Self::Int(value)) => Cell::Int(*value),
            (_, Self::Float(value)) => Cell::Float(*value),
            (_, Self::Bytes(bytes)) => Cell::Bytes(bytes),
        })
    }
}

/// Compares exactly, where either would be rounded as the other.
fn compare_mixed(whole: i128, float: f64) -> Option<Ordering> {
    if float.is_nan() {
        return None;
    }
    // Casts saturate: infinities are beyond all integers that columns have.
    let truncated = float.trunc() as i128;
    Some(whole.cmp(&truncated).then_with(|| 0f64.total_cmp(&(float - float.trunc() + 0.0))))
}

/// The number of a class.
fn class_of(option: &str, column: &Column, name: &str) -> Result<i128> {
    let classes = column.classes.as_deref().unwrap_or_default();
    let found = classes.iter().position(|class| class == name);
    found.map(|id| id as i128).ok_or_else(|| {
        let shown: Vec<_> = classes.iter().take(8).map(|class| format!("{class:?}")).collect();
        let more = if classes.len() > 8 { ", ..." } else { "" };
        Error::schema(
            &column.name,
            format!(
                "{option} names the class {name:?}, which is none of its {}: {}{more}; write one of \
                 these, or its number",
                classes.len(),
                shown.join(", ")
            ),
        )
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn mixed_numbers_compare_exactly(whole in -1_000i64..1_000, float in -1_000f64..1_000.0) {
            let expected = (whole as f64).partial_cmp(&float);
            prop_assert_eq!(compare_mixed(whole.into(), float), expected);
        }
    }

    #[test]
    fn large_numbers_are_not_rounded() {
        let big = (1i128 << 53) + 1;
        assert_eq!(compare_mixed(big, (1u64 << 53) as f64), Some(Ordering::Greater));
        assert_eq!(compare_mixed(i64::MAX.into(), f64::INFINITY), Some(Ordering::Less));
        assert_eq!(compare_mixed(i64::MIN.into(), f64::NEG_INFINITY), Some(Ordering::Greater));
        assert_eq!(compare_mixed(-1, -1.5), Some(Ordering::Greater));
        assert_eq!(compare_mixed(-2, -1.5), Some(Ordering::Less));
        assert_eq!(compare_mixed(0, -0.0), Some(Ordering::Equal));
        assert_eq!(compare_mixed(3, f64::NAN), None);
    }
}
