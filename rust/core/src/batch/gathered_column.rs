//! A gathered column, or the reason why there is none.

use super::Column;
use crate::error::Error;

/// Why values do not form a column.
#[derive(Debug)]
pub(super) enum ColumnError {
    /// One value does not fit.
    At {
        /// The dotted path of the column.
        path: String,
        /// The index of the value, counted as the caller counts.
        at: usize,
        /// What does not fit, and what to do.
        reason: String,
    },
    /// The error is not about one value.
    Whole(Error),
}

impl From<Error> for ColumnError {
    fn from(error: Error) -> Self {
        Self::Whole(error)
    }
}

impl ColumnError {
    /// As an error, and the index of its value.
    pub(super) fn into_error(self) -> (Error, Option<usize>) {
        match self {
            Self::At { path, at, reason } => (Error::schema(path, reason), Some(at)),
            Self::Whole(error) => (error, None),
        }
    }

    /// The same error with the index of the level above.
    pub(super) fn map_index(self, index: impl FnOnce(usize) -> usize) -> Self {
        match self {
            Self::At { path, at, reason } => Self::At { path, at: index(at), reason },
            whole @ Self::Whole(_) => whole,
        }
    }
}

/// A column, and the lengths of its padded lists, outermost first.
#[derive(Debug)]
pub(super) struct GatheredColumn {
    pub(super) column: Column,
    pub(super) lengths: Vec<Column>,
}

impl From<Column> for GatheredColumn {
    fn from(column: Column) -> Self {
        Self { column, lengths: Vec::new() }
    }
}

/// The name of the lengths of a padded column's lists at this depth.
pub(super) fn lengths_name(column: &str, depth: usize) -> String {
    match depth {
        0 => format!("{column}_lengths"),
        deeper => format!("{column}_lengths_{}", deeper + 1),
    }
}

impl GatheredColumn {
    /// Adds the column and its lengths, by their names.
    pub(super) fn add_to(self, columns: &mut Vec<(String, Column)>, name: &str) {
        columns.push((name.to_owned(), self.column));
        let lengths = self.lengths.into_iter().enumerate();
        columns.extend(lengths.map(|(depth, lengths)| (lengths_name(name, depth), lengths)));
    }

    /// Reshapes the first axis to `(n, width)`.
    pub(super) fn reshape(&mut self, n: usize, width: usize) {
        for column in std::iter::once(&mut self.column).chain(&mut self.lengths) {
            if let Column::Values { shape, .. }
            | Column::Objects { shape, .. }
            | Column::Ragged { shape, .. } = column
                && let Some(first) = shape.first_mut()
            {
                *first = n;
                shape.insert(1, width);
            }
        }
    }
}
