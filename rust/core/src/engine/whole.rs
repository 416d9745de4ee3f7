//! Batches without large values: a reader claims one as a whole, and looks its rows up in their
//! tables.
//!
//! Such rows cost a fraction of a microsecond each to copy. Claimed, handed over and filed one by
//! one, they would cost several in locks and wake-ups alone.

use std::{ops::Range, sync::Arc};

use super::{
    cache::Found,
    dataset::Dataset,
    queue::Need,
    read::{Reader, TableOr},
    tables::Key,
};
use crate::{
    batch::{Row, RowOutcome},
    error::{Error, Result},
    memory::Permit,
    order::RowId,
    shard::{Shard, Table},
};

/// Room for this many rows is taken at once; a batch may have any number.
const MANY: usize = 4096;

/// A claimed batch whose rows are not all found.
#[derive(Debug)]
pub(super) struct BatchReading {
    /// The index of its first row.
    pub(super) first: u64,
    /// By record batch, so that each is needed once, however the rows are shuffled.
    wanted: Vec<Wanted>,
    /// Record batches whose rows were not looked up, as ranges of `wanted`.
    groups: Vec<Range<usize>>,
    /// The group that a permit was asked for.
    loading: Option<usize>,
    rows: Vec<Option<Row>>,
    /// Bytes of the rows that were copied out of their tables.
    copied: usize,
    /// The error of the first row in the stream's order that has one.
    failed: Option<(u64, Error)>,
    /// Bytes that were set aside for its columns.
    pub(super) reserved: Option<Permit>,
}

/// A row of a batch: its place in the stream, and in the shards.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    index: u64,
    id: RowId,
    batch: usize,
    place: u64,
}

impl Wanted {
    fn key(&self) -> Key {
        (self.id.shard, self.batch)
    }
}

impl BatchReading {
    /// Its rows, or the error of the first that has one.
    pub(super) fn into_rows(self) -> Result<Vec<Row>> {
        match self.failed {
            Some((_, error)) => Err(error),
            None => Ok(self.rows.into_iter().flatten().collect()),
        }
    }
}

impl Reader {
    /// Finds where the rows of a batch lie.
    ///
    /// # Errors
    ///
    /// Where the order names rows that the shards do not have.
    pub(super) fn batch(
        &self,
        dataset: &Dataset,
        rows: &Range<u64>,
        reserved: Option<Permit>,
    ) -> Result<BatchReading> {
        let mut wanted = Vec::with_capacity(self.context.options.rows_per_batch().min(MANY));
        for index in rows.clone() {
            let id = dataset.step(index)?.row;
            let (batch, place) = place_of(dataset, id)?;
            wanted.push(Wanted { index, id, batch, place });
        }
        wanted.sort_by_key(Wanted::key);
        let mut start = 0;
        let mut groups: Vec<Range<usize>> = wanted
            .chunk_by(|a, b| a.key() == b.key())
            .map(|group| {
                let range = start..start + group.len();
                start = range.end;
                range
            })
            .collect();
        let at = self.ask_for(dataset, rows.start, &wanted, &groups);
        groups.rotate_left(at);
        let rows_found = wanted.iter().map(|_| None).collect();
        let (loading, failed) = (None, None);
        let first = rows.start;
        let rows = rows_found;
        Ok(BatchReading { first, wanted, groups, loading, rows, copied: 0, failed, reserved })
    }

    /// Asks the storage for the record batches of the batch that begins at `first`, if there is room
    /// for all, and says which one to take first.
    ///
    /// Batches of a window share theirs, so each reader begins with another one: otherwise all would
    /// wait for the same load, one request at a time.
    fn ask_for(
        &self,
        dataset: &Dataset,
        first: u64,
        wanted: &[Wanted],
        groups: &[Range<usize>],
    ) -> usize {
        let options = &self.context.options;
        if groups.len() <= 1 || options.order.is_file_order() {
            return 0;
        }
        let firsts = groups.iter().filter_map(|group| wanted.get(group.start));
        let missing: Vec<_> = firsts.filter(|one| !self.tables.has(one.key())).collect();
        let Some(one) = missing.first() else { return 0 };
        let shard = |one: &Wanted| dataset.shards.get(one.id.shard as usize);
        // What is wrong with one, loading it tells.
        let known = shard(one).map(|shard| shard.table_size(one.batch, &dataset.projection));
        let size = self.tables.expected(known.and_then(Result::ok).flatten());
        if size == 0 || !self.tables.have_room(groups.len(), size) {
            return 0;
        }
        for one in missing {
            if let Some(shard) = shard(one) {
                shard.readahead_row(one.batch, one.place as usize, &dataset.projection, |_, _| {
                    false
                });
            }
        }
        let n_readers = options.n_readers().min(options.look_ahead()).max(1);
        let reader = (first / options.rows_per_batch().max(1) as u64) as usize % n_readers;
        reader * groups.len() / n_readers
    }

    /// Looks rows up, as far as that goes without waiting: what is needed then, or `None` once all
    /// are found or cannot be. `permit` is for what was needed before.
    ///
    /// Blocks for requests to the storage.
    pub(super) fn advance_batch(
        &self,
        dataset: &Dataset,
        batch: &mut BatchReading,
        mut permit: Option<Permit>,
    ) -> Option<Need> {
        if let Some(at) = batch.loading.take().filter(|_| permit.is_some()) {
            self.look_up(dataset, batch, at, permit.take());
        }
        loop {
            let here = batch.groups.iter().position(|group| {
                let one = batch.wanted.get(group.start);
                one.is_some_and(|one| matches!(self.tables.find(one.key()), Found::Loaded(_)))
            });
            let at = here.or_else(|| (!batch.groups.is_empty()).then_some(0))?;
            if let Some((need, at)) = self.look_up(dataset, batch, at, None) {
                if matches!(need, Need::Bytes { .. }) {
                    batch.loading = Some(at);
                    return Some(need);
                }
                // That one is on its way: another one may be neither here nor on its way.
                let next = (1..batch.groups.len()).find(|at| {
                    let one = batch.groups.get(*at).and_then(|g| batch.wanted.get(g.start));
                    one.is_some_and(|one| !self.tables.has(one.key()))
                });
                match next.and_then(|at| self.look_up(dataset, batch, at, None)) {
                    Some((other @ Need::Bytes { .. }, at)) => {
                        batch.loading = Some(at);
                        return Some(other);
                    }
                    None if next.is_some() => {}
                    _ => return Some(need),
                }
            }
        }
    }

    /// Looks the rows of one group up, which is done with then. Returns what that needs, and the
    /// group, if it cannot be done now.
    fn look_up(
        &self,
        dataset: &Dataset,
        batch: &mut BatchReading,
        at: usize,
        permit: Option<Permit>,
    ) -> Option<(Need, usize)> {
        let group = batch.groups.get(at)?.clone();
        let rows = batch.wanted.get(group).unwrap_or_default();
        let index = rows.iter().map(|row| row.index).min().unwrap_or(batch.first);
        // The error is that of the first row in the stream's order.
        let is_wanted = batch.failed.as_ref().is_none_or(|(failed, _)| index < *failed);
        if let Some(one) = rows.first().filter(|_| is_wanted)
            && let Some(shard) = dataset.shards.get(one.id.shard as usize)
        {
            let found = self.table(dataset, shard, one.key(), permit);
            let filled = match found {
                Ok(TableOr::Needs(need)) => return Some((need, at)),
                Ok(TableOr::Here(table)) => {
                    self.fill(table, rows, batch.first, &mut batch.rows, &mut batch.copied)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = filled {
                batch.failed = Some((index, named(error, shard, one)));
            }
        }
        batch.groups.remove(at);
        None
    }

    /// Refuses a batch whose rows take more than its columns may grow to, before all of it is there:
    /// rows of many record batches, each with large values of its own.
    fn check_copied(&self, n_bytes: usize, n_columns: usize) -> Result<()> {
        let limit = self.context.options.column_limit();
        // Copies take up to twice what is in them.
        if n_bytes / 2 <= limit.saturating_mul(n_columns.max(1)) {
            return Ok(());
        }
        Err(Error::limit(format!(
            "the rows of one batch take {n_bytes} bytes, and a column of it may have the memory \
             budget of {limit} bytes; raise memory_budget, lower batch_size, or leave columns out"
        )))
    }

    /// Puts the rows of one record batch into their places of the batch that begins at `first`.
    fn fill(
        &self,
        all: Arc<Table>,
        group: &[Wanted],
        first: u64,
        rows: &mut [Option<Row>],
        copied: &mut usize,
    ) -> Result<()> {
        let is_copied = self.tables.is_heavy(&all);
        let table = if is_copied {
            let places: Vec<u64> = group.iter().map(|row| row.place).collect();
            let mut copy = all.take(&places)?;
            // The next load may be waiting for its bytes.
            drop(all);
            *copied = copied.saturating_add(copy.n_bytes);
            self.check_copied(*copied, copy.columns.num_columns())?;
            copy.permit = Some(Arc::new(self.context.account.take(copy.n_bytes)));
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
                    outcome: RowOutcome::Valid,
                });
            }
        }
        Ok(())
    }
}

fn named(error: Error, shard: &Shard, row: &Wanted) -> Error {
    error.in_shard(shard.name()).in_row(row.id.row)
}

/// The record batch of a row, and its place there.
fn place_of(dataset: &Dataset, id: RowId) -> Result<(usize, u64)> {
    let shard = dataset.shards.get(id.shard as usize);
    let place = shard.and_then(|shard| shard.locate(id.row));
    let place = place.map(|(batch, place)| (batch, place as u64));
    place.ok_or_else(|| Error::corrupt("the row is in no record batch").in_row(id.row))
}
