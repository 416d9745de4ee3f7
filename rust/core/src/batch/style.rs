//! How batches represent nulls, lists of unequal lengths, and binary values.

use std::fmt;

use super::{dtype::FillValue, multi_hot::Classes};
use crate::error::{Error, Result};

/// How a batch represents lists of variable length.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ragged {
    /// An array of objects, each row's list an array of its own.
    #[default]
    Object,
    /// One array, rows padded to the longest of the batch, and an array of their lengths.
    Pad,
    /// One array, rows padded or cut to this length, and an array of their lengths. Lists within them
    /// are as with `Pad`.
    Width(usize),
    /// One array; rows of unequal lengths are an error.
    Error,
}

impl Ragged {
    /// Those without a length, by their names in Python.
    pub const ALL: [(&'static str, Self); 3] =
        [("object", Self::Object), ("pad", Self::Pad), ("error", Self::Error)];

    /// How the lists within a row's list are represented.
    #[must_use]
    pub(super) fn within(self) -> Self {
        match self {
            Self::Width(_) => Self::Pad,
            other => other,
        }
    }
}

/// The Python type of binary values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Binary {
    /// `bytes`, which are copies.
    #[default]
    Bytes,
    /// Arrays of `uint8`. Those of encoded rows are not copied.
    Numpy,
}

impl Binary {
    /// All of them, by their names in Python.
    pub const ALL: [(&'static str, Self); 2] = [("bytes", Self::Bytes), ("numpy", Self::Numpy)];
}

/// How batches represent one column.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Style {
    /// Lists of variable length.
    pub ragged: Ragged,
    /// The value for nulls; `None` makes a null an error.
    pub fill: Option<FillValue>,
}

/// How batches represent all columns.
#[derive(Clone, Debug, Default)]
pub struct Styles {
    /// For columns that are not named.
    pub default: Style,
    /// Exceptions, by column.
    pub ragged: Vec<(String, Ragged)>,
    /// Exceptions, by column.
    pub fill: Vec<(String, FillValue)>,
    /// Columns of classes that become arrays of 0 and 1, and their classes; `None` takes the names in
    /// the shards' features.
    pub multi_hot: Vec<(String, Option<Classes>)>,
}

impl Styles {
    /// The style of this column.
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
        let multi_hot = self.multi_hot.iter().map(|(name, _)| ("multi_hot", name));
        match ragged.chain(fill).chain(multi_hot).find(|(_, name)| !is_there(name)) {
            None => Ok(()),
            Some((option, name)) => Err(Error::schema(
                name,
                format!("{option} names this column, which is not among those delivered"),
            )),
        }
    }

    /// Refuses a mode of lists for recordings, decoded or not, which are none.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Schema`] naming the first.
    pub fn check_audio(&self, recordings: &[String]) -> Result<()> {
        let is_list = |of: &(String, Ragged)| of.1 != Ragged::Object && recordings.contains(&of.0);
        match self.ragged.iter().find(|of| is_list(of)) {
            None => Ok(()),
            Some((name, _)) => Err(Error::schema(
                name,
                "ragged= names this column, which contains recordings, not lists; give recordings \
                 one length with gm.Audio(crop=gm.StartCrop(seconds=5), pad=\"zero\"), or take \
                 single rows (batch_size=None)",
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
