//! Where the values of columns are, as far as it was found out.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::super::blob::BlobColumn;
use crate::sync::lock_std;

/// Rows of fewer bytes on average are found again each time: they are near each other.
const KEPT_ROW: u64 = 4 << 10;

/// The most bytes that are kept of one shard, which has 80,000 rows then.
const KEPT_BYTES: usize = 1 << 20;

/// A run of rows, and a leaf.
pub(super) type ColumnId = (usize, usize);

/// Columns whose values were located. Threads share it.
#[derive(Debug, Default)]
pub(super) struct Located {
    columns: Mutex<BTreeMap<ColumnId, Arc<BlobColumn>>>,
    n_unsaved: AtomicUsize,
}

impl Located {
    pub(super) fn get(&self, id: ColumnId) -> Option<Arc<BlobColumn>> {
        lock_std(&self.columns).get(&id).cloned()
    }

    /// Keeps a column, if its rows are large and there is room. Returns whether it is kept.
    pub(super) fn put(&self, id: ColumnId, column: &Arc<BlobColumn>) -> bool {
        let offsets = column.offsets();
        let Some((first, last)) = offsets.first().zip(offsets.last()) else { return false };
        let mean = (last - first).checked_div(offsets.len() as u64 - 1);
        let mut columns = lock_std(&self.columns);
        let n_bytes: usize = columns.values().map(|column| column.n_bytes()).sum();
        if mean.is_none_or(|mean| mean < KEPT_ROW) || n_bytes + column.n_bytes() > KEPT_BYTES {
            return false;
        }
        columns.insert(id, Arc::clone(column));
        self.n_unsaved.fetch_add(1, Relaxed);
        true
    }

    /// All columns, in order.
    pub(super) fn all(&self) -> Vec<(ColumnId, Arc<BlobColumn>)> {
        lock_std(&self.columns).iter().map(|(id, column)| (*id, Arc::clone(column))).collect()
    }

    /// Whether enough was found since this was last true that saving all of it is worthwhile.
    pub(super) fn take_news(&self) -> bool {
        let n_unsaved = self.n_unsaved.load(Relaxed);
        let has_news = n_unsaved > 0 && n_unsaved * 8 >= lock_std(&self.columns).len();
        if has_news {
            self.n_unsaved.store(0, Relaxed);
        }
        has_news
    }

    /// Forgets that any of it was not saved.
    pub(super) fn saved(&self) {
        self.n_unsaved.store(0, Relaxed);
    }
}
