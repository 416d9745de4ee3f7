//! Tables of rows without blobs that are loaded before their rows are claimed.
//!
//! In file order all open batches may be of one record batch. While one reader loads it, the others
//! could only wait, and one core would do all of the reading and decoding.

use super::{dataset::Dataset, row_reader::RowReader, table_cache::BatchId};

impl RowReader {
    /// In file order, loads the first table behind this row of the stream that nobody loads yet: for a
    /// reader whose batch waits for another reader's load. As many are loaded at a time as decoding has
    /// threads, and none before the first table of the stream is there, which comes sooner so.
    ///
    /// Blocks for requests to the storage only. Errors are left to the batch that needs the table.
    pub(super) fn load_ahead(&self, dataset: &Dataset, index: u64) {
        let options = &self.context.options;
        let is_first = self.tables.expected_bytes(None) == 0;
        let Some((own, mut n_rows)) = table_at(dataset, index) else { return };
        if is_first || !options.is_file_order() {
            return;
        }
        let mut next = index;
        for _ in 1..options.n_threads() {
            next = next.saturating_add(n_rows);
            // Those of the next epoch come before this one's in the file, and would be dropped as delivered.
            let found = table_at(dataset, next).filter(|(id, _)| *id > own);
            let Some((id, n_rows_of_next)) = found else { return };
            if !self.tables.has(id) {
                return self.load_if_free(dataset, id);
            }
            n_rows = n_rows_of_next;
        }
    }

    /// Loads a table, if there is room for all that are loaded at a time and for the one in use.
    fn load_if_free(&self, dataset: &Dataset, id: BatchId) {
        let Some(shard) = dataset.shards.get(id.0 as usize) else { return };
        let Ok(known) = shard.table_size(id.1, &dataset.source(id.0).projection) else { return };
        let n_bytes = self.tables.expected_bytes(known);
        if self.tables.has_room(self.context.options.n_threads() + 1, n_bytes)
            && let Some(permit) = self.context.account.try_take(n_bytes)
        {
            let _ = self.table(dataset, shard, id, Some(permit));
        }
    }
}

/// The record batch of a row of the stream, and how many of its rows the file has from there on.
fn table_at(dataset: &Dataset, index: u64) -> Option<(BatchId, u64)> {
    let id = dataset.step(index).ok()?.row;
    let shard = dataset.shards.get(id.shard as usize)?;
    let (batch, row) = shard.locate(id.row)?;
    Some(((id.shard, batch), shard.n_rows_of(batch).saturating_sub(row as u64)))
}
