//! What becomes of nulls and of lists of unequal lengths in batches.

use std::fmt;

use super::dtype::FillValue;
use crate::error::{Error, Result};

/// How a batch holds lists of variable length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ragged {
    /// An array of objects, each row's list an array of its own.
    #[default]
    Object,
    /// One array, rows lengthened to the longest of the batch, with their lengths beside it.
    Pad,
    /// One array; rows of unequal lengths are an error.
    Error,
}

impl Ragged {
    /// All of them, by the names that users give.
    pub const ALL: [(&'static str, Self); 3] =
        [("object", Self::Object), ("pad", Self::Pad), ("error", Self::Error)];
}

/// What binary values become in Python.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binary {
    /// `bytes`, which are a copy.
    #[default]
    Bytes,
    /// Arrays of `uint8`; those of encoded rows are the memory that they were read into.
    Numpy,
}

impl Binary {
    /// All of them, by the names that users give.
    pub const ALL: [(&'static str, Self); 2] = [("bytes", Self::Bytes), ("numpy", Self::Numpy)];
}

/// How batches hold one column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Style {
    /// Lists of variable length.
    pub ragged: Ragged,
    /// What stands where there is no value; `None` makes a null an error.
    pub fill: Option<FillValue>,
}

/// How batches hold all columns; a name overrides what holds for the others.
#[derive(Clone, Debug, Default)]
pub struct Styles {
    /// For columns that are not named.
    pub default: Style,
    /// By column.
    pub ragged: Vec<(String, Ragged)>,
    /// By column.
    pub fill: Vec<(String, FillValue)>,
}

impl Styles {
    /// What holds for this column.
    pub fn of(&self, column: &str) -> Style {
        fn named<T: Copy>(all: &[(String, T)], column: &str) -> Option<T> {
            all.iter().find(|(name, _)| name == column).map(|(_, value)| *value)
        }
        Style {
            ragged: named(&self.ragged, column).unwrap_or(self.default.ragged),
            fill: named(&self.fill, column).or(self.default.fill),
        }
    }

    /// Refuses names of columns that are not delivered.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Schema`] naming the first.
    pub fn check(&self, is_there: impl Fn(&str) -> bool) -> Result<()> {
        let ragged = self.ragged.iter().map(|(name, _)| ("ragged", name));
        let fill = self.fill.iter().map(|(name, _)| ("fill_value", name));
        match ragged.chain(fill).find(|(_, name)| !is_there(name)) {
            None => Ok(()),
            Some((option, name)) => Err(Error::schema(
                name,
                format!("{option} names this column, which is not among those delivered"),
            )),
        }
    }
}

impl fmt::Display for FillValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(i) => i.fmt(f),
            Self::Float(x) => x.fmt(f),
        }
    }
}
