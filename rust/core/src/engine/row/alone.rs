//! Rows that are read alone, and not with the small columns of the rest of their record batch.
//!
//! Where any row may follow any other, and all of them take more than the table cache, a record batch
//! would be loaded for each of its rows, and evicted before the next is wanted. In file order, large
//! rows of one batch are read together: what is read of a column may become that of the batch without a
//! copy (`batch/taken_over.rs`), and no reader waits for another one's record batch.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use super::reader::{RowReader, TableLookup};
use crate::{
    engine::{cache::BatchId, dataset::Dataset, wait::WaitFor},
    error::Result,
    memory::Permit,
    order::RowId,
};

/// Bits of a row's number in its shard, in [`LastRow`].
const ROW_BITS: u32 = 40;

/// The row that was wanted last.
#[derive(Debug, Default)]
pub(crate) struct LastRow(AtomicU64);

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
    pub(crate) fn follows_last(&self, id: RowId) -> bool {
        self.last_row.is_before(id)
    }

    /// A table of one row alone, of a source whose rows may be read so; `None` where only its whole
    /// record batch can be read. `permit` is what the row waited for.
    ///
    /// Blocks for requests to the storage only.
    pub(crate) fn row_alone(
        &self,
        dataset: &Dataset,
        (batch, table_row): (BatchId, usize),
        mut permit: Option<Permit>,
    ) -> Result<Option<TableLookup>> {
        let Some(n_bytes) = dataset.source(batch.0).row_alone_bytes else { return Ok(None) };
        self.rows_alone(dataset, batch, &(table_row..table_row + 1), n_bytes, &mut permit)
    }

    /// A table of these rows of a record batch alone, which take about `n_bytes` bytes; `None` where only
    /// the whole record batch can be read. `permit` is what they waited for, and stays where it is then.
    ///
    /// Blocks for requests to the storage only.
    pub(crate) fn rows_alone(
        &self,
        dataset: &Dataset,
        (number, batch): BatchId,
        rows: &Range<usize>,
        n_bytes: usize,
        permit: &mut Option<Permit>,
    ) -> Result<Option<TableLookup>> {
        let Some(shard) = dataset.shards.get(number as usize) else { return Ok(None) };
        let own = if permit.is_some() { None } else { self.context.account.try_take(n_bytes) };
        if permit.is_none() && own.is_none() {
            let wait = WaitFor::Bytes { n_bytes, from_reserve: false };
            return Ok(Some(TableLookup::Wait(wait)));
        }
        let source = dataset.source(number);
        let budget = self.context.options.memory_budget;
        let slice = self.context.metrics.tables.time(|| {
            let slice = shard.load_slice(batch, rows, &source.projection, budget)?;
            slice.map(|slice| source.class_ids.apply(slice)).transpose()
        })?;
        Ok(slice.map(|mut slice| {
            slice.permit = own.or_else(|| permit.take()).map(|mut permit| {
                permit.set(slice.n_bytes);
                Arc::new(permit)
            });
            TableLookup::Loaded(Arc::new(slice))
        }))
    }
}
