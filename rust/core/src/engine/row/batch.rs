//! Batches of rows without blobs: a reader claims a whole batch, and looks its rows up in their
//! tables.
//!
//! Copying such a row takes a fraction of a microsecond. Claiming, handing over and finishing rows
//! one by one would take several, in locks and wake-ups.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use super::{
    context::Context,
    copied::CopiedRows,
    fetch::{Fetched, Tables},
    plan::TableRead,
};
use crate::{
    batch::{Row, RowCrop, RowOutcome},
    engine::{
        cache::{BatchId, Lookup},
        dataset::Dataset,
        wait::WaitFor,
    },
    error::{Error, Result},
    memory::Permit,
    order::RowId,
    shard::{Shard, Table},
};

/// The most rows for which memory is allocated at once: a batch may have any number.
const MAX_CAPACITY: usize = 4096;

/// How many record batches are looked for in the cache before each load, once all of the batch were: all of
/// them each time would take quadratic time.
const LOOKS_PER_LOAD: usize = 64;

/// A claimed batch whose rows are being looked up.
#[derive(Debug)]
pub(crate) struct BatchTask {
    /// The stream index of its first row.
    pub(crate) first: u64,
    /// Its rows, sorted by record batch, so that each is needed once however rows are shuffled.
    wanted: Vec<WantedRow>,
    /// The rows of each record batch that is still needed, as ranges of `wanted`.
    groups: VecDeque<Range<usize>>,
    looks: Looks,
    /// The group for whose record batch it waits for a permit, and which was loaded before that.
    loading: Option<(usize, Option<BatchId>)>,
    /// The rows that were looked up.
    rows: Vec<Option<Row>>,
    /// The rows that were copied out of their tables.
    copied: CopiedRows,
    /// The error of the first row in the stream's order that has one, and its index.
    failed: Option<(u64, Error)>,
    /// Bytes that were reserved for its columns.
    pub(crate) reserved: Option<Permit>,
}

/// A row of a batch: its index in the stream, and its place in the shards.
#[derive(Clone, Copy, Debug)]
struct WantedRow {
    index: u64,
    id: RowId,
    batch: usize,
    table_row: u64,
    outcome: RowOutcome,
}

impl WantedRow {
    fn batch_id(&self) -> BatchId {
        (self.id.shard, self.batch)
    }
}

/// Which groups are looked for in the cache: those that are there come first, before loads evict them.
#[derive(Debug)]
struct Looks {
    /// The group that is looked for next.
    next: usize,
    /// How many may be before the next load.
    left: usize,
}

impl Looks {
    /// The next of `n` groups that is cached, as far as may be looked now. The caller removes it.
    fn find(&mut self, n: usize, mut is_cached: impl FnMut(usize) -> bool) -> Option<usize> {
        while self.left > 0 {
            let group = self.next.checked_rem(n)?;
            self.next = group;
            if is_cached(group) {
                return Some(group);
            }
            self.next += 1;
            self.left -= 1;
        }
        None
    }
}

impl BatchTask {
    /// Its rows, or the error of the first that has one.
    pub(crate) fn into_rows(self) -> Result<Vec<Row>> {
        match self.failed {
            Some((_, error)) => Err(error),
            None => Ok(self.rows.into_iter().flatten().collect()),
        }
    }

    /// The first row of a group.
    fn first_of(&self, group: usize) -> Option<&WantedRow> {
        self.wanted.get(self.groups.get(group)?.start)
    }
}

impl BatchTask {
    /// Locates the rows of a batch.
    ///
    /// # Errors
    ///
    /// Where the order names rows that the shards do not have.
    pub(crate) fn new(
        tables: &Tables,
        dataset: &Dataset,
        rows: &Range<u64>,
        reserved: Option<Permit>,
    ) -> Result<Self> {
        let mut wanted =
            Vec::with_capacity(tables.context.options.rows_per_batch().min(MAX_CAPACITY));
        for index in rows.clone() {
            let id = dataset.step(index)?.row;
            let shard = dataset.shards.get(id.shard as usize);
            let (batch, row) = shard
                .and_then(|shard| shard.locate(id.row))
                .ok_or_else(|| Error::corrupt("the row is in no record batch").in_row(id.row))?;
            let is_padding = dataset.is_padding(index);
            let outcome = if is_padding { RowOutcome::Padding } else { RowOutcome::Valid };
            wanted.push(WantedRow { index, id, batch, table_row: row as u64, outcome });
        }
        wanted.sort_by_key(WantedRow::batch_id);
        let mut start = 0;
        let groups = wanted.chunk_by(|a, b| a.batch_id() == b.batch_id()).map(|group| {
            let range = start..start + group.len();
            start = range.end;
            range
        });
        let groups: VecDeque<_> = groups.collect();
        let mut task = Self {
            first: rows.start,
            looks: Looks { next: 0, left: groups.len() },
            groups,
            loading: None,
            rows: wanted.iter().map(|_| None).collect(),
            wanted,
            copied: CopiedRows::default(),
            failed: None,
            reserved,
        };
        let first_group = task.readahead_tables(tables, dataset);
        task.groups.rotate_left(first_group);
        Ok(task)
    }

    /// Starts readahead for the tables of a batch, if there is room for all of them. Returns the group
    /// to begin with.
    ///
    /// Batches of a shuffle window share their record batches, so each reader begins with another
    /// one. Otherwise all readers would wait for the same load, one request after the other.
    fn readahead_tables(&self, tables: &Tables, dataset: &Dataset) -> usize {
        let options = &tables.context.options;
        let n_groups = self.groups.len();
        if n_groups <= 1 || options.is_file_order() {
            return 0;
        }
        let firsts = (0..n_groups).filter_map(|group| self.first_of(group));
        let missing: Vec<_> = firsts.filter(|row| !tables.cache.has(row.batch_id())).collect();
        let Some(row) = missing.first() else { return 0 };
        let shard = |row: &WantedRow| dataset.shards.get(row.id.shard as usize);
        // Errors are left to the load.
        let projection = |row: &WantedRow| &dataset.source(row.id.shard).projection;
        let known = shard(row).map(|shard| shard.table_size(row.batch, projection(row)));
        let size = tables.cache.expected_bytes(known.and_then(Result::ok).flatten());
        if size == 0 || !tables.cache.has_room(n_groups, size) {
            return 0;
        }
        for row in missing {
            if let Some(shard) = shard(row) {
                let table_row = row.table_row as usize;
                shard.readahead_row(row.batch, table_row, projection(row), |_, _| false);
            }
        }
        let n_readers = options.n_readers().min(options.max_open_batches()).max(1);
        let batch = self.first / options.rows_per_batch().max(1) as u64;
        let reader = batch as usize % n_readers;
        reader * n_groups / n_readers
    }

    /// Looks up a batch's rows as far as possible now. Returns what it must wait for, or `None` once
    /// all rows are found or have failed. `permit` is what it waited for before.
    ///
    /// Blocks for requests to the storage only.
    pub(crate) fn advance(
        &mut self,
        tables: &Tables,
        dataset: &Dataset,
        mut permit: Option<Permit>,
    ) -> Option<WaitFor> {
        if let Some((group, last)) = self.loading.take().filter(|_| permit.is_some()) {
            let permit = permit.take();
            // Otherwise this one may have been loaded and evicted, and another one be next.
            if tables.cache.last_in_turn() == last {
                self.look_up(tables, dataset, group, permit);
            }
        }
        self.looks.left = self.looks.left.max(LOOKS_PER_LOAD);
        loop {
            let Self { looks, groups, wanted, .. } = &mut *self;
            let cached = looks.find(groups.len(), |group| {
                let first = groups.get(group).and_then(|rows| wanted.get(rows.start));
                first.is_some_and(|row| {
                    matches!(tables.cache.find(row.batch_id()), Lookup::Loaded(_))
                })
            });
            let last = tables.cache.last_in_turn();
            let group = cached.or_else(|| self.next_group(last))?;
            let Some(wait) = self.look_up(tables, dataset, group, None) else { continue };
            if matches!(wait, WaitFor::Bytes { .. }) {
                self.loading = Some((group, last));
                return Some(wait);
            }
            // Another reader loads this one. Is there one that this reader can load?
            let other = (1..self.groups.len().min(LOOKS_PER_LOAD)).find(|group| {
                self.first_of(*group).is_some_and(|row| !tables.cache.has(row.batch_id()))
            });
            let Some(other) = other else { return Some(wait) };
            match self.look_up(tables, dataset, other, None) {
                Some(bytes @ WaitFor::Bytes { .. }) => {
                    self.loading = Some((other, last));
                    return Some(bytes);
                }
                None => {}
                Some(_) => return Some(wait),
            }
        }
    }

    /// The group whose table is loaded next. Where tables are loaded one after the other, that is the next one
    /// behind the `last`, for all batches: each load serves every open batch.
    fn next_group(&self, last: Option<BatchId>) -> Option<usize> {
        let is_before = |group: &Range<usize>| {
            let first = self.wanted.get(group.start);
            first.zip(last).is_some_and(|(first, last)| first.batch_id() <= last)
        };
        self.groups.partition_point(is_before).checked_rem(self.groups.len())
    }

    /// Looks up the rows of one group, and removes the group. Returns what this must wait for, if it
    /// is not possible now.
    fn look_up(
        &mut self,
        tables: &Tables,
        dataset: &Dataset,
        group: usize,
        permit: Option<Permit>,
    ) -> Option<WaitFor> {
        let rows = self.wanted.get(self.groups.get(group)?.clone()).unwrap_or_default();
        let index = rows.iter().map(|row| row.index).min().unwrap_or(self.first);
        // Rows behind one that has failed do not matter.
        let is_needed = self.failed.as_ref().is_none_or(|(failed, _)| index < *failed);
        if let Some(row) = rows.first().filter(|_| is_needed)
            && let Some(shard) = dataset.shards.get(row.id.shard as usize)
        {
            let mut read = table_read(dataset, rows, row);
            let filled = match tables.read((dataset, shard), &mut read, permit) {
                Ok(Fetched::Wait(wait)) => return Some(wait),
                Ok(Fetched::Done(table)) => {
                    let is_alone = matches!(read, TableRead::Rows(..));
                    let into = (self.first, self.rows.as_mut_slice(), &mut self.copied);
                    fill(tables, (table, is_alone), rows, into)
                }
                Err(error) => Err(error),
            };
            if let Err(error) = filled {
                self.failed = Some((index, located(error, shard, row)));
            }
        }
        self.groups.remove(group);
        None
    }
}

/// How the table of one group is read.
fn table_read(dataset: &Dataset, group: &[WantedRow], first: &WantedRow) -> TableRead {
    let follow = |(row, number): (&WantedRow, u64)| row.table_row == number;
    match dataset.source(first.id.shard).batch_row_bytes {
        Some(row_bytes) if group.iter().zip(first.table_row..).all(follow) => {
            let start = first.table_row as usize;
            let n_bytes = row_bytes.saturating_mul(group.len());
            TableRead::Rows(first.batch_id(), start..start + group.len(), n_bytes)
        }
        _ => TableRead::Whole(first.batch_id()),
    }
}

/// Refuses a batch whose copied rows take more than its columns may, before all of them are there:
/// rows of many record batches, each with large values of its own.
fn check_copied(limit: usize, n_bytes: usize, n_columns: usize) -> Result<()> {
    // Copies take up to twice the bytes of their values.
    if n_bytes / 2 <= limit.saturating_mul(n_columns.max(1)) {
        return Ok(());
    }
    Err(Error::limit(format!(
        "the rows of one batch take {n_bytes} bytes, and a column of it may have the memory \
         budget of {limit} bytes; raise memory_budget, lower batch_size, or leave columns out"
    )))
}

/// Puts the rows of one record batch, whose table may have them alone, into the batch that begins at
/// `first`.
fn fill(
    tables: &Tables,
    (table, is_alone): (Arc<Table>, bool),
    group: &[WantedRow],
    (first, rows, copied): (u64, &mut [Option<Row>], &mut CopiedRows),
) -> Result<()> {
    let Context { options, account, .. } = &*tables.context;
    let is_copied = !is_alone && tables.cache.is_heavy(&table);
    let table = if is_copied {
        let wanted: Vec<u64> = group.iter().map(|row| row.table_row).collect();
        let mut copy = table.take(&wanted)?;
        // Before the copy's bytes are taken: the next load may be waiting for them.
        drop(table);
        let n_bytes = copied.count(copy.n_bytes);
        check_copied(options.column_limit(), n_bytes, copy.columns.num_columns())?;
        copy.permit = Some(Arc::new(account.take(copy.n_bytes)));
        Arc::new(copy)
    } else if group.len() > 1 {
        // A reference count of its own: incrementing one that several threads share, for each
        // row, takes longer than copying the row.
        Arc::new(Table::clone(&table))
    } else {
        table
    };
    for (k, row) in group.iter().enumerate() {
        let table_row = if is_copied || is_alone { k } else { row.table_row as usize };
        if let Some(slot) = rows.get_mut((row.index - first) as usize) {
            *slot = Some(Row {
                id: row.id,
                table: Arc::clone(&table),
                index: table_row,
                blobs: Vec::new(),
                crop: RowCrop::default(),
                extras: None,
                bad: Vec::new(),
                outcome: row.outcome,
            });
        }
    }
    if is_copied {
        let places = group.iter().map(|row| (row.index - first) as usize).collect();
        copied.add(&table, places, rows, account);
    }
    Ok(())
}

fn located(error: Error, shard: &Shard, row: &WantedRow) -> Error {
    error.in_shard(shard.name()).in_row(row.id.row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cached_groups_come_first_and_looks_are_in_proportion_to_groups() {
        let n = 10_000;
        // Every third record batch is cached.
        let mut groups: VecDeque<usize> = (0..n).collect();
        let mut looks = Looks { next: 0, left: n };
        let (mut n_looks, mut taken) = (0, Vec::new());
        while !groups.is_empty() {
            looks.left = looks.left.max(LOOKS_PER_LOAD);
            let found = looks.find(groups.len(), |group| {
                n_looks += 1;
                groups[group].is_multiple_of(3)
            });
            taken.extend(groups.remove(found.unwrap_or(0)));
        }
        let n_cached = n.div_ceil(3);
        assert!(taken[..n_cached].iter().all(|group| group.is_multiple_of(3)));
        assert!(taken[n_cached..].is_sorted());
        assert!(n_looks <= n * (LOOKS_PER_LOAD + 2), "{n_looks}");
    }
}
