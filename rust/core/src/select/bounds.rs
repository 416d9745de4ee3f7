//! What statistics say of the values of a column in a record batch.

use std::cmp::Ordering;

use arrow_array::ArrayRef;

use super::cell::{Cell, Cells};
use crate::shard::Statistics;

/// Between which values all of them are, as far as that is known.
#[derive(Debug)]
pub(super) struct Bounds {
    /// The least and the greatest.
    ends: Option<(ArrayRef, ArrayRef)>,
    pub(super) may_have_nulls: bool,
    pub(super) may_have_values: bool,
}

impl Bounds {
    pub(super) fn new(statistics: Statistics) -> Self {
        let Statistics { bounds, may_have_nulls, may_have_values } = statistics;
        // A writer that has confused them is not believed.
        let is_sound = |(least, greatest): &(ArrayRef, ArrayRef)| {
            matches!(
                value_of(least).compare(&value_of(greatest)),
                Some(Ordering::Less | Ordering::Equal)
            )
        };
        Self { ends: bounds.filter(is_sound), may_have_nulls, may_have_values }
    }

    /// None of the values is less; null where that is not known.
    pub(super) fn least(&self) -> Cell<'_> {
        self.ends.as_ref().map_or(Cell::Null, |(least, _)| value_of(least))
    }

    /// None of the values is greater; null where that is not known.
    pub(super) fn greatest(&self) -> Cell<'_> {
        self.ends.as_ref().map_or(Cell::Null, |(_, greatest)| value_of(greatest))
    }
}

fn value_of(array: &ArrayRef) -> Cell<'_> {
    Cells::new(array, &[]).map_or(Cell::Null, |cells| cells.get(0))
}
