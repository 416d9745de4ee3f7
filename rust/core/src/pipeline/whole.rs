//! Batches without large values: a reader thread claims one as a whole, looks its rows up in their
//! tables, and assembles it.
//!
//! Such rows cost a fraction of a microsecond each to copy. Claimed, handed over and filed one by
//! one, they would cost several in locks and wake-ups alone.

use std::{ops::Range, sync::Arc};

use super::{Shared, dataset::Dataset, fetch::Room};
use crate::{
    batch::{Batch, Fate, Row},
    error::{Error, Result},
    shard::Table,
    stats,
};

/// The last table that a row came from, and the rows of its record batch, by shard.
struct Last {
    shard: u32,
    batch: usize,
    table: Arc<Table>,
}

impl Shared {
    /// The body of a reader thread where rows have no bytes of their own to be read.
    pub(super) fn read_batches(&self, dataset: &Dataset) {
        while let Some(rows) = self.queue.claim(self, true) {
            let (first, mut charged) = (rows.start, 0);
            let batch = self.read_batch(dataset, rows, &mut charged);
            let unfinished = self.queue.file_whole(self, first, charged, batch);
            if self.options.plan.is_file_order()
                && let Ok(step) = dataset.step(unfinished)
                && let Ok(shard) = dataset.shard(step)
                && let Some((batch, _)) = shard.locate(step.row.row)
            {
                let kept = self.options.memory_budget / KEPT_BEHIND;
                self.tables.forget_before((step.row.shard, batch), kept);
            }
        }
    }

    fn read_batch(
        &self,
        dataset: &Dataset,
        indices: Range<u64>,
        charged: &mut usize,
    ) -> Result<Batch> {
        let first = indices.start;
        let mut last: Option<Last> = None;
        let mut rows = Vec::with_capacity(self.options.rows_per_batch().min(MANY));
        for index in indices {
            let began = stats::sampled_of_many(index);
            let step = dataset.step(index)?;
            let shard = dataset.shard(step)?;
            let id = step.row;
            let name = |error: Error| error.in_shard(shard.name()).in_row(id.row);
            let (batch, place) = shard.locate(id.row).unwrap_or_default();
            let known = last.as_ref().filter(|last| last.shard == id.shard && last.batch == batch);
            let (table, place) = if let Some(last) = known {
                (Arc::clone(&last.table), place)
            } else {
                let located =
                    self.locate(dataset, shard, (first, step), Room::Awaited).map_err(name)?;
                if located.copied > 0 {
                    self.queue.charge(self, first, located.copied);
                    *charged += located.copied;
                    last = None;
                } else {
                    let table = Arc::clone(&located.table);
                    last = Some(Last { shard: id.shard, batch, table });
                }
                (located.table, located.place)
            };
            if let Some(began) = began {
                self.stats.plan.record(stats::since(began));
            }
            rows.push(Row {
                id,
                table,
                place,
                blobs: Vec::new(),
                damage: None,
                bad: Vec::new(),
                fate: Fate::Valid,
            });
        }
        self.assembled(dataset, Ok(rows))
    }
}

/// In file order, tables whose rows have all gone may take one part in so many of the budget: enough
/// to keep a small data set for the next epoch.
const KEPT_BEHIND: usize = 64;

/// Room for so many rows is taken at once; a batch may have any number.
const MANY: usize = 4096;
