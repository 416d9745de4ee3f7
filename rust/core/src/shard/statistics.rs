//! What a shard says of the values of a column before they are read.

use arrow_array::ArrayRef;

/// Of a small column in one record batch.
#[derive(Clone, Debug)]
pub(crate) struct Statistics {
    /// Two arrays of one value each: no value is less than the first or greater than the second. NaN
    /// is neither. They need not be values of the column.
    pub(crate) bounds: Option<(ArrayRef, ArrayRef)>,
    /// Whether there may be nulls.
    pub(crate) may_have_nulls: bool,
    /// Whether there may be anything else.
    pub(crate) may_have_values: bool,
}

impl Default for Statistics {
    /// Those that say nothing.
    fn default() -> Self {
        Self { bounds: None, may_have_nulls: true, may_have_values: true }
    }
}
