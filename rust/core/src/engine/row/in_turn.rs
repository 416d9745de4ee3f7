//! Whether rows that may be read alone are wanted one after another.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::order::RowId;

/// Bits of a row's number in its shard, in [`LastRow`].
const ROW_BITS: u32 = 40;

/// The row that was wanted last.
#[derive(Debug, Default)]
pub(crate) struct LastRow(AtomicU64);

impl LastRow {
    /// Whether this row is the one after the last, or the last again: so that the rest of its record
    /// batch is probably wanted as well.
    pub(crate) fn is_before(&self, id: RowId) -> bool {
        let row = u64::from(id.shard) << ROW_BITS | id.row;
        let last = self.0.swap(row + 1, Relaxed);
        last == row || last == row + 1
    }
}
