//! Rows that are read alone, and not with the small columns of the rest of their record batch.
//!
//! Where any row may follow any other, and all of them take more than the table cache, a record batch
//! would be loaded for each of its rows, and evicted before the next is wanted.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use super::{
    dataset::Dataset,
    options::Options,
    queue::WaitFor,
    row_reader::{RowReader, TableLookup},
    table_cache::{BatchId, SHARE},
};
use crate::{
    error::Result,
    memory::Permit,
    order::RowId,
    shard::{Projection, Shard},
};

/// The least bytes of tables that would be loaded for a row, on average. Storage sends about as much, or
/// more, in the time of a request.
const MIN_LOADED: usize = 1 << 18;

/// Bits of a row's number in its shard, in [`LastRow`].
const ROW_BITS: u32 = 40;

/// The bytes that a row of these columns takes on average, where rows in a scattered order are read alone;
/// `None` where they are not. The first record batch tells for all.
pub(super) fn row_bytes(
    options: &Options,
    shards: &[Shard],
    projection: &Projection,
) -> Option<usize> {
    let first = shards.iter().find(|shard| shard.n_rows() > 0)?;
    let (batch, _) = first.locate(0)?;
    let size = first.table_size(batch, projection).ok().flatten()?;
    let row_bytes = size.stored as u64 / first.n_rows_of(batch).max(1);
    let n_rows: u64 = shards.iter().map(Shard::n_rows).sum();
    let all_bytes = row_bytes.saturating_mul(n_rows);
    // Of the tables that rows need, those that are not cached are loaded.
    let missing = all_bytes.saturating_sub((options.memory_budget / SHARE) as u64);
    let loaded = size.stored as f64 * missing as f64 / all_bytes.max(1) as f64;
    let is_alone =
        !size.is_compressed && loaded >= MIN_LOADED as f64 && first.has_slices(projection);
    is_alone.then_some(row_bytes as usize)
}

/// The row that was wanted last.
#[derive(Debug, Default)]
pub(super) struct LastRow(AtomicU64);

impl LastRow {
    /// Whether this row is the one after the last, or the last again: so that the rest of its record
    /// batch is probably wanted as well.
    fn is_before(&self, id: RowId) -> bool {
        let row = u64::from(id.shard) << ROW_BITS | id.row;
        let last = self.0.swap(row + 1, Relaxed);
        last == row || last == row + 1
    }
}

impl RowReader {
    /// Whether a row follows the one that was wanted before.
    pub(super) fn follows_last(&self, id: RowId) -> bool {
        self.last_row.is_before(id)
    }

    /// A table of one row alone, of a source whose rows may be read so; `None` where only its whole
    /// record batch can be read. `permit` is what the row waited for.
    ///
    /// Blocks for requests to the storage only.
    pub(super) fn row_alone(
        &self,
        dataset: &Dataset,
        ((shard, batch), table_row): (BatchId, usize),
        permit: Option<Permit>,
    ) -> Result<Option<TableLookup>> {
        let source = dataset.source(shard);
        let (Some(n_bytes), Some(shard)) =
            (source.row_alone_bytes, dataset.shards.get(shard as usize))
        else {
            return Ok(None);
        };
        let Some(mut permit) = permit.or_else(|| self.context.account.try_take(n_bytes)) else {
            let wait = WaitFor::Bytes { n_bytes, from_reserve: false };
            return Ok(Some(TableLookup::Wait(wait)));
        };
        let budget = self.context.options.memory_budget;
        let rows = table_row..table_row + 1;
        let slice = self.context.metrics.tables.time(|| {
            let slice = shard.load_slice(batch, &rows, &source.projection, budget)?;
            slice.map(|slice| source.class_ids.apply(slice)).transpose()
        })?;
        Ok(slice.map(|mut slice| {
            permit.set(slice.n_bytes);
            slice.permit = Some(Arc::new(permit));
            TableLookup::Loaded(Arc::new(slice))
        }))
    }
}
