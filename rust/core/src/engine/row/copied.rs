//! The rows of a batch that were copied out of their tables. Those of many small columns share a table.
//!
//! The arrays of such a row take more memory than its values: a batch of 64 rows of 1,100 columns had 22 MB of
//! them. So each few of these rows become one table.

use std::{mem, sync::Arc};

use crate::{batch::Row, memory::Account, shard::Table};

/// As many tables become one.
const N_MERGED: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct CopiedRows {
    n_bytes: usize,
    /// Tables that are mostly arrays, with the places of their rows in the batch.
    light: Vec<(Arc<Table>, Vec<usize>)>,
}

impl CopiedRows {
    /// Counts the bytes of a copy. Returns those of all.
    pub(crate) fn count(&mut self, n_bytes: usize) -> usize {
        self.n_bytes = self.n_bytes.saturating_add(n_bytes);
        self.n_bytes
    }

    /// A copy is in the batch, at these places of it in the order of its rows.
    pub(crate) fn add(
        &mut self,
        copy: &Arc<Table>,
        places: Vec<usize>,
        rows: &mut [Option<Row>],
        account: &Arc<Account>,
    ) {
        if !copy.is_mostly_arrays() {
            return;
        }
        self.light.push((Arc::clone(copy), places));
        if self.light.len() == N_MERGED {
            merge(mem::take(&mut self.light), rows, account);
        }
    }
}

/// Makes one table of these. If that is impossible, they stay as they are.
fn merge(light: Vec<(Arc<Table>, Vec<usize>)>, rows: &mut [Option<Row>], account: &Arc<Account>) {
    let Some(mut merged) = Table::concat(light.iter().map(|(table, _)| &**table)) else { return };
    merged.permit = Some(Arc::new(account.take(merged.n_bytes)));
    let merged = Arc::new(merged);
    let places = light.into_iter().flat_map(|(_, places)| places);
    for (index, place) in places.enumerate() {
        if let Some(Some(row)) = rows.get_mut(place) {
            (row.table, row.index) = (Arc::clone(&merged), index);
        }
    }
}
