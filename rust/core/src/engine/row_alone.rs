//! Rows without blobs that are read alone, and not with the rest of their record batch.
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
    row_reader::RowReader,
    row_task::{Located, ReadStage, RowTask},
    table_cache::{BatchId, SHARE},
};
use crate::{
    error::Result,
    memory::Permit,
    order::RowId,
    shard::{Projection, Shard},
};

/// The least bytes of a record batch's columns for that. Storage sends about as much, or more, in the time
/// of a request.
const MIN_TABLE: usize = 1 << 18;

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
    let is_alone = projection.n_blobs() == 0
        && !size.is_compressed
        && size.stored >= MIN_TABLE
        && row_bytes.saturating_mul(n_rows) > (options.memory_budget / SHARE) as u64
        && first.has_slices(projection);
    is_alone.then_some(row_bytes as usize)
}

/// What has come of reading a row alone.
pub(super) enum RowAlone {
    /// The row is read.
    Read,
    Wait(WaitFor),
    /// Only its whole record batch can be read.
    Impossible,
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

    /// Reads a row alone, of a source whose rows may be. `permit` is what it waited for; what is left of
    /// it stays there.
    ///
    /// Blocks for requests to the storage only.
    pub(super) fn row_alone(
        &self,
        dataset: &Dataset,
        ((shard, batch), table_row): (BatchId, usize),
        row: &mut RowTask,
        permit: &mut Option<Permit>,
    ) -> Result<RowAlone> {
        let source = dataset.source(shard);
        let (Some(n_bytes), Some(shard)) =
            (source.row_alone_bytes, dataset.shards.get(shard as usize))
        else {
            return Ok(RowAlone::Impossible);
        };
        let account = &self.context.account;
        let mut own = None;
        let granted = match permit {
            Some(granted) => granted,
            None => match account.try_take(n_bytes) {
                Some(taken) => own.insert(taken),
                None => {
                    return Ok(RowAlone::Wait(WaitFor::Bytes { n_bytes, from_reserve: false }));
                }
            },
        };
        let budget = self.context.options.memory_budget;
        let rows = table_row..table_row + 1;
        let slice = self.context.metrics.tables.time(|| {
            let slice = shard.load_slice(batch, &rows, &source.projection, budget)?;
            slice.map(|slice| source.class_ids.apply(slice)).transpose()
        })?;
        let Some(mut slice) = slice else { return Ok(RowAlone::Impossible) };
        slice.permit = Some(Arc::new(granted.split(slice.n_bytes)));
        row.stage = ReadStage::Decoding(Located::without_blobs(Arc::new(slice)));
        Ok(RowAlone::Read)
    }
}
