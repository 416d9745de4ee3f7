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
    order::RowId,
    shard::Table,
    stats,
};

/// A row of a batch: its place in the stream, and in the shards.
struct Wanted {
    index: u64,
    id: RowId,
    batch: usize,
    place: u64,
}

impl Wanted {
    fn key(&self) -> (u32, usize) {
        (self.id.shard, self.batch)
    }
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
        let (first, timed) = (indices.start, stats::sampled_of_many(&indices));
        let mut wanted = Vec::with_capacity(self.options.rows_per_batch().min(MANY));
        for index in indices {
            let id = dataset.step(index)?.row;
            let (batch, place) = place_of(dataset, id)?;
            wanted.push(Wanted { index, id, batch, place });
        }
        // By record batch, so that each is there once a batch, however the rows are shuffled.
        wanted.sort_by_key(Wanted::key);
        let mut rows: Vec<Option<Row>> = wanted.iter().map(|_| None).collect();
        let mut failed: Option<(u64, Error)> = None;
        let groups: Vec<_> = wanted.chunk_by(|a, b| a.key() == b.key()).collect();
        let (others, begun) = groups.split_at(self.ask_for(dataset, first, &groups));
        for group in begun.iter().chain(others) {
            let index = group.first().map_or(first, |row| row.index);
            // The error is that of the first row in the stream's order.
            if failed.as_ref().is_some_and(|(before, _)| *before < index) {
                continue;
            }
            let is_timed = |row: &Wanted| Some(row.index) == timed;
            let began = (timed.is_some() && group.iter().any(is_timed)).then(stats::now);
            if let Err(error) = self.group(dataset, first, group, &mut rows, charged) {
                failed = Some((index, error));
            }
            if let Some(began) = began {
                self.stats.plan.record(stats::since(began) / group.len() as u32);
            }
        }
        match failed {
            Some((_, error)) => Err(error),
            None => self.assembled(dataset, first, Ok(rows.into_iter().flatten().collect())),
        }
    }

    /// Asks the storage for the record batches of the batch that begins at `first`, if there is room
    /// for all, and says which one to take first.
    ///
    /// Batches of a window share theirs. Readers that all began with the same one would wait for each
    /// other at each: one request at a time, however many are allowed. So each begins with another.
    fn ask_for(&self, dataset: &Dataset, first: u64, groups: &[&[Wanted]]) -> usize {
        if groups.len() == 1 || self.options.plan.is_file_order() {
            return 0;
        }
        let firsts = groups.iter().filter_map(|group| group.first());
        let missing = self.tables.missing(firsts, Wanted::key);
        let Some(one) = missing.first() else { return 0 };
        let shard = |one: &Wanted| dataset.shards.get(one.id.shard as usize);
        // What is wrong with one, loading it tells.
        let known = shard(one).map(|shard| shard.table_bytes(one.batch, &dataset.projection));
        let size = self.tables.expected(known.and_then(Result::ok).flatten());
        if size == 0 || !self.tables.have_room(groups.len(), size) {
            return 0;
        }
        for one in missing {
            if let Some(shard) = shard(one) {
                shard.announce(one.batch, one.place as usize, &dataset.projection, |_, _| false);
            }
        }
        let n_readers = self.options.n_readers().min(self.options.look_ahead()).max(1);
        let reader = (first / self.options.rows_per_batch().max(1) as u64) as usize % n_readers;
        reader * groups.len() / n_readers
    }

    /// Puts the rows of one record batch into their places of the batch that begins at `first`.
    fn group(
        &self,
        dataset: &Dataset,
        first: u64,
        group: &[Wanted],
        rows: &mut [Option<Row>],
        charged: &mut usize,
    ) -> Result<()> {
        let Some(one) = group.first() else { return Ok(()) };
        let Some(shard) = dataset.shards.get(one.id.shard as usize) else { return Ok(()) };
        let name = |error: Error| error.in_shard(shard.name()).in_row(one.id.row);
        let all = self.table(dataset, shard, one.key(), (first, Room::Awaited)).map_err(name)?;
        let is_copied = self.tables.is_passing(&all);
        let table = if is_copied {
            let places: Vec<u64> = group.iter().map(|row| row.place).collect();
            let copy = all.rows(&places).map_err(name)?;
            // Whoever loads the next table may be waiting for it, and this row for him.
            drop(all);
            self.queue.charge(self, first, copy.n_bytes);
            *charged += copy.n_bytes;
            Arc::new(copy)
        } else if group.len() > 1 {
            // Counted apart from the one that all threads share: two increments a row of one
            // counter, in several threads at once, cost more than the row.
            Arc::new(Table::clone(&all))
        } else {
            all
        };
        for (k, row) in group.iter().enumerate() {
            let place = if is_copied { k } else { row.place as usize };
            if let Some(slot) = rows.get_mut((row.index - first) as usize) {
                *slot = Some(Row {
                    id: row.id,
                    table: Arc::clone(&table),
                    place,
                    blobs: Vec::new(),
                    damage: None,
                    bad: Vec::new(),
                    fate: Fate::Valid,
                });
            }
        }
        Ok(())
    }
}

/// The record batch of a row, and its place there.
fn place_of(dataset: &Dataset, id: RowId) -> Result<(usize, u64)> {
    let shard = dataset.shards.get(id.shard as usize);
    let place = shard.and_then(|shard| shard.locate(id.row));
    let place = place.map(|(batch, place)| (batch, place as u64));
    place.ok_or_else(|| Error::corrupt("the row is in no record batch").in_row(id.row))
}

/// In file order, tables whose rows have all gone may take one part in so many of the budget: enough
/// to keep a small data set for the next epoch.
const KEPT_BEHIND: usize = 64;

/// Room for so many rows is taken at once; a batch may have any number.
const MANY: usize = 4096;
