//! Tables of rows without blobs that are loaded before their rows are claimed.
//!
//! In file order all open batches may be of one record batch. While one reader loads it, the others
//! could only wait, and one core would do all of the reading and decoding. And where the consumer is
//! slower than the readers, these would be idle until it comes to the next record batch, and then have
//! it wait for a whole load.

use super::fetch::Tables;
use crate::engine::{cache::BatchId, dataset::Dataset};

/// In file order, loads the first table from this row of the stream on that nobody loads yet: of its
/// own and the next `n_ahead`. None before the first table of the stream is there, which comes
/// sooner so.
///
/// Blocks for requests to the storage only. Errors are left to the batch that needs the table.
pub(crate) fn load_ahead(tables: &Tables, dataset: &Dataset, index: u64, n_ahead: usize) {
    if !dataset.loads_ahead(&tables.context.options) || tables.cache.expected_bytes(None) == 0 {
        return;
    }
    let Some((own, mut n_rows)) = table_at(dataset, index) else { return };
    let (mut id, mut next) = (own, index);
    for _ in 0..n_ahead {
        if !tables.cache.has(id) {
            break;
        }
        next = next.saturating_add(n_rows);
        // Those of the next epoch come before this one's in the file, and would be dropped as
        // delivered.
        let Some(found) = table_at(dataset, next).filter(|(id, _)| *id > own) else { return };
        (id, n_rows) = found;
    }
    load_if_free(tables, dataset, id, n_ahead);
}

/// Loads a table, if there is room for the one in use and `n_ahead` others.
fn load_if_free(tables: &Tables, dataset: &Dataset, id: BatchId, n_ahead: usize) {
    let Some(shard) = dataset.shards.get(id.0 as usize) else { return };
    let Ok(known) = shard.table_size(id.1, &dataset.source(id.0).projection) else { return };
    let n_bytes = tables.cache.expected_bytes(known);
    if !tables.cache.has(id)
        && tables.cache.has_room(n_ahead + 2, n_bytes)
        && let Some(permit) = tables.context.account.try_take(n_bytes)
    {
        let _ = tables.whole(dataset, shard, id, Some(permit));
    }
}

/// The record batch of a row of the stream, and how many of its rows the file has from there on.
fn table_at(dataset: &Dataset, index: u64) -> Option<(BatchId, u64)> {
    let id = dataset.step(index).ok()?.row;
    let shard = dataset.shards.get(id.shard as usize)?;
    let (batch, row) = shard.locate(id.row)?;
    Some(((id.shard, batch), shard.n_rows_of(batch).saturating_sub(row as u64)))
}
