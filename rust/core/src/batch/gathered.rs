//! What gathering comes to: a column, or why there is none.

use super::Column;
use crate::error::Error;

/// Why values do not form a column.
#[derive(Debug)]
pub(super) enum Fault {
    /// The value at this place of the column does not fit in.
    At {
        /// The dotted path of the column.
        path: String,
        /// The place, counted as the caller counts.
        at: usize,
        /// What does not fit, and what to do.
        reason: String,
    },
    /// Not one value's fault.
    Whole(Error),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Self {
        Self::Whole(error)
    }
}

impl Fault {
    /// As an error, and the place that it is about.
    pub(super) fn into_error(self) -> (Error, Option<usize>) {
        match self {
            Self::At { path, at, reason } => (Error::schema(path, reason), Some(at)),
            Self::Whole(error) => (error, None),
        }
    }

    /// The same fault with places counted by a level above.
    pub(super) fn lift(self, place: impl FnOnce(usize) -> usize) -> Self {
        match self {
            Self::At { path, at, reason } => Self::At { path, at: place(at), reason },
            whole @ Self::Whole(_) => whole,
        }
    }
}

/// A column, and what comes beside it: the lengths of padded lists, outermost first.
#[derive(Debug)]
pub(super) struct Gathered {
    pub(super) column: Column,
    pub(super) lengths: Vec<Column>,
}

impl From<Column> for Gathered {
    fn from(column: Column) -> Self {
        Self { column, lengths: Vec::new() }
    }
}

/// The name of the lengths of a padded column, for the `depth`-th of its lists.
pub(super) fn lengths_name(column: &str, depth: usize) -> String {
    match depth {
        0 => format!("{column}_lengths"),
        deeper => format!("{column}_lengths_{}", deeper + 1),
    }
}

impl Gathered {
    /// Adds the column by its name, and the lengths by names made of it.
    pub(super) fn add_to(self, columns: &mut Vec<(String, Column)>, name: &str) {
        columns.push((name.to_owned(), self.column));
        let lengths = self.lengths.into_iter().enumerate();
        columns.extend(lengths.map(|(depth, lengths)| (lengths_name(name, depth), lengths)));
    }

    /// Folds the first axis into `n` rows of `width`.
    pub(super) fn fold(&mut self, n: usize, width: usize) {
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
