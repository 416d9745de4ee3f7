//! Fetching what rows lack: the only part of a row's way that does I/O.

mod tables;

use std::{cell::Cell, ops::Range, slice, sync::Arc};

pub(crate) use self::tables::{Fetched, Tables};
use super::{
    context::Context,
    in_turn::LastRow,
    plan::{
        Facts, Fetch, Need, Planners, TableRead, need, place_of, table_read, wait_for_decoding,
    },
    recording_file,
    replace::{Replacement, column_of, replacement},
    task::{Attempt, Parts, RawBlob, RowTask, Stage, copy_of},
};
use crate::{
    engine::{
        cache::{BatchId, BlockCache, Known, Recording, RowInBlock, RowLookup, TableCache},
        dataset::{AudioColumn, Dataset},
        wait::{ReadEvents, WaitFor},
    },
    error::{Error, Result},
    memory::{Buffer, Permit},
    shard::{Blob, BlobBlock, Shard, Table},
};
use gristmill_audio::PartPlan;

/// Reads the rows of one stream, or those that are asked for, on any thread.
#[derive(Debug)]
pub(crate) struct RowReader {
    context: Arc<Context>,
    events: Arc<dyn ReadEvents>,
    pub(crate) tables: Tables,
    /// `None` where neighbouring rows are hardly ever read at about the same time.
    blocks: Option<BlockCache>,
    /// Tells whether rows that may be read alone are wanted in turn.
    last_row: LastRow,
    planners: Planners,
}

impl RowReader {
    pub(crate) fn new(
        context: &Arc<Context>,
        events: &Arc<dyn ReadEvents>,
        tables: TableCache,
        blocks: Option<BlockCache>,
    ) -> Self {
        Self {
            context: Arc::clone(context),
            events: Arc::clone(events),
            tables: Tables::new(context, events, tables),
            blocks,
            last_row: LastRow::default(),
            planners: Planners::default(),
        }
    }

    /// Frees cached tables and blocks.
    pub(crate) fn clear(&self) {
        self.tables.clear();
        if let Some(blocks) = &self.blocks {
            blocks.clear();
        }
    }

    /// Reads a row as far as possible now. Returns what it must wait for, or `None` once it is
    /// [`Stage::Ready`]. `permit` is what it waited for before.
    ///
    /// Blocks for requests to the storage only.
    ///
    /// # Errors
    ///
    /// Those of reading, with shard and row; that of a bad row, if nothing is delivered in its place.
    pub(crate) fn advance(
        &self,
        dataset: &Dataset,
        row: &mut RowTask,
        permit: Option<Permit>,
    ) -> Result<Option<WaitFor>> {
        self.replace_bad(dataset, row)?;
        let id = row.attempt.step.row;
        let shard = dataset.shard(row.attempt.step)?;
        self.advance_in(dataset, shard, row, permit)
            .map_err(|error| error.in_shard(shard.name()).in_row(id.row))
    }

    /// Decides what is delivered in place of a row whose audio cannot be used.
    fn replace_bad(&self, dataset: &Dataset, row: &mut RowTask) -> Result<()> {
        if !matches!(row.stage, Stage::Bad(..)) {
            return Ok(());
        }
        let Stage::Bad(ready, error) = std::mem::replace(&mut row.stage, Stage::New) else {
            return Ok(());
        };
        let id = row.attempt.step.row;
        let column = column_of(dataset.source(id.shard), &error);
        let path = column.and_then(|column| self.tables.path_of(dataset, column, id));
        let policy = self.context.options.on_error;
        match replacement(policy, (dataset, column), (row, &ready), error, path)? {
            Replacement::Row(attempt) => row.attempt = attempt,
            Replacement::Without(outcome) => {
                row.attempt.outcome = outcome;
                row.stage = Stage::Ready(ready);
            }
        }
        Ok(())
    }

    fn advance_in(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        row: &mut RowTask,
        mut permit: Option<Permit>,
    ) -> Result<Option<WaitFor>> {
        let id = row.attempt.step.row;
        loop {
            match &mut row.stage {
                Stage::New => {
                    let source = dataset.source(id.shard);
                    let is_in_turn = || self.last_row.is_before(id);
                    // Decided once: a permit for one way of reading is not valid for the other.
                    row.stage = Stage::Table(table_read(source, place_of(shard, id)?, is_in_turn));
                }
                Stage::Table(TableRead::Rows(batch, rows, n_bytes)) => {
                    let (batch, read) = (*batch, (*batch, &*rows));
                    match self.tables.rows(dataset, read, *n_bytes, &mut permit.take())? {
                        Some(Fetched::Done(table)) => {
                            let wait = self.plan(dataset, row, (table, 0, batch), None)?;
                            if wait.is_some() {
                                return Ok(wait);
                            }
                        }
                        Some(Fetched::Wait(wait)) => return Ok(Some(wait)),
                        None => row.stage = Stage::Table(TableRead::Whole(batch)),
                    }
                }
                Stage::Table(TableRead::Whole(batch)) => {
                    let batch = *batch;
                    let (_, table_row) = place_of(shard, id)?;
                    let mut known = None;
                    if permit.is_none()
                        && !self.tables.cache.has(batch)
                        && !row.attempt.is_padding()
                    {
                        known = self.readahead(dataset, shard, row, (batch, table_row));
                    }
                    let fetched = self.tables.whole(dataset, shard, batch, permit.take());
                    let (table, table_row) = match fetched {
                        Ok(Fetched::Done(table)) => (table, table_row),
                        Ok(Fetched::Wait(wait)) => return Ok(Some(wait)),
                        Err(error) => (self.without_others(dataset, batch, table_row, error)?, 0),
                    };
                    let wait = self.plan(dataset, row, (table, table_row, batch), known)?;
                    if wait.is_some() {
                        return Ok(wait);
                    }
                }
                Stage::Need(need) => {
                    let wait = self.fetch(dataset, (shard, row.index), need, permit.take())?;
                    if wait.is_some() {
                        return Ok(wait);
                    }
                    let need = std::mem::replace(&mut row.stage, Stage::New);
                    let Stage::Need(Need { ready, .. }) = need else { return Ok(None) };
                    let wait = wait_for_decoding(dataset, id.shard, &ready);
                    row.stage = Stage::Ready(ready);
                    if wait.is_some() {
                        return Ok(wait);
                    }
                }
                Stage::Ready(ready) => {
                    ready.decoding = permit.take();
                    return Ok(None);
                }
                Stage::Bad(..) => return Err(Error::internal("a bad row was not replaced")),
            }
        }
    }

    /// The table of a row alone whose record batch cannot be read, since damage of other rows does not count
    /// where rows may be read alone.
    ///
    /// # Errors
    ///
    /// `error`, which is that of the record batch, where rows are not read alone; that of the row.
    fn without_others(
        &self,
        dataset: &Dataset,
        batch: BatchId,
        table_row: usize,
        error: Error,
    ) -> Result<Arc<Table>> {
        let Some(n_bytes) = dataset.source(batch.0).row_alone_bytes else { return Err(error) };
        let mut permit = Some(self.context.account.take(0));
        let rows = table_row..table_row + 1;
        match self.tables.rows(dataset, (batch, &rows), n_bytes, &mut permit)? {
            Some(Fetched::Done(table)) => Ok(table),
            _ => Err(error),
        }
    }

    /// Starts readahead for a row's table, and for its blobs as far as the shard's index has their
    /// ranges. Small blobs are left to their blocks, and what may be read in parts to its plan. Returns what
    /// the audio index has of the first recording, if its range is known.
    fn readahead(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        row: &RowTask,
        ((number, batch), table_row): (BatchId, usize),
    ) -> Option<(Range<u64>, Known)> {
        let source = dataset.source(number);
        let has_blocks = self.blocks.is_some() && source.order.is_nearly_file_order();
        let (known, has_parts) = (Cell::new(None), Cell::new(false));
        let wanted = |k, range: &Range<u64>| {
            let n_bytes = range.end - range.start;
            if source.is_too_long(k, n_bytes) {
                return false;
            }
            if let Some((n, _)) = source.column_of(k)
                && !row.attempt.is_whole
            {
                let found = self.context.audio_index.find(number, range);
                let may_have_parts = matches!(found, Known::Entry(_));
                if n == 0 {
                    known.set(Some((range.clone(), found)));
                }
                if may_have_parts {
                    has_parts.set(true);
                    return false;
                }
            }
            !has_blocks || n_bytes >= BlobBlock::SMALL_BLOB
        };
        let has_all = shard.readahead_row(batch, table_row, &source.projection, wanted);
        if has_all && !has_parts.get() && !has_blocks && dataset.is_urgent(row.index) {
            self.events.requested(row.index);
        }
        known.take()
    }

    /// Plans what is fetched of a row whose table is there. Of a heavy table only the row is kept, as a
    /// copy. Returns what the row must wait for.
    fn plan(
        &self,
        dataset: &Dataset,
        row: &mut RowTask,
        (table, table_row, batch): (Arc<Table>, usize, BatchId),
        mut known: Option<(Range<u64>, Known)>,
    ) -> Result<Option<WaitFor>> {
        let is_heavy = table.n_rows() > 1 && self.tables.cache.is_heavy(&table);
        let facts = |table: &Table, n: usize, column: &AudioColumn| {
            let known = known.take_if(|_| n == 0);
            self.facts(dataset, (&row.attempt, column), (table, table_row), known)
        };
        let with = (self.blocks.as_ref(), &self.planners);
        let mut need = need(dataset, &row.attempt, (table, table_row, batch), facts, with)?;
        let n_bytes = need.n_bytes;
        if is_heavy {
            self.detach(&mut need)?;
        }
        row.stage = Stage::Need(need);
        // A copy may exceed the budget. Then the row waits here until it does not.
        Ok((n_bytes > 0 || is_heavy).then_some(WaitFor::Bytes { n_bytes, from_reserve: false }))
    }

    /// What is known of a row's recording in this column; `known` is what the audio index said already of a
    /// recording in this range.
    fn facts(
        &self,
        dataset: &Dataset,
        (attempt, column): (&Attempt, &AudioColumn),
        (table, table_row): (&Table, usize),
        known: Option<(Range<u64>, Known)>,
    ) -> Result<Facts> {
        let shard = attempt.step.row.shard;
        let (source, k) = (dataset.source(shard), column.blob);
        Ok(match (table.blob(k, table_row), &column.files) {
            (None, Some(files)) => {
                let file = recording_file::find(files, &self.context.store, table, table_row)?;
                Facts { file, ..Facts::NONE }
            }
            (Some(Blob::Range(range)), _)
                if !attempt.is_whole && !source.is_too_long(k, range.end - range.start) =>
            {
                let find = || self.context.audio_index.find(shard, &range);
                let known = known.filter(|(of, _)| *of == range).map(|(_, known)| known);
                Facts { known: known.unwrap_or_else(find), ..Facts::NONE }
            }
            _ => Facts::NONE,
        })
    }

    /// Copies what is in memory of a row, so that its table can be freed.
    fn detach(&self, need: &mut Need) -> Result<()> {
        let account = &self.context.account;
        for fetch in &mut need.fetches {
            if let Fetch::Nothing(RawBlob::Shared(buffer)) = fetch {
                *fetch = Fetch::Nothing(RawBlob::Own(copy_of(buffer, account)?));
            }
        }
        let ready = &mut need.ready;
        let mut table = ready.table.take(&[ready.table_row as u64])?;
        table.permit = Some(Arc::new(account.take(table.n_bytes)));
        (ready.table, ready.table_row) = (Arc::new(table), 0);
        Ok(())
    }

    /// Fetches the row's blobs, in memory of its own permit. `permit` is that, or else for the block that the
    /// row waited for.
    fn fetch(
        &self,
        dataset: &Dataset,
        (shard, index): (&Shard, u64),
        Need { ready, fetches, own, .. }: &mut Need,
        mut permit: Option<Permit>,
    ) -> Result<Option<WaitFor>> {
        let granted = || permit.take().unwrap_or_else(|| self.context.account.take(0));
        let own = own.get_or_insert_with(granted);
        while let Some(next) = fetches.pop_front() {
            let blob = match next {
                Fetch::Nothing(blob) => blob,
                Fetch::Blob(range) => {
                    self.announce(dataset, shard, index, slice::from_ref(&range));
                    RawBlob::Own(self.read_range(shard, &range, own)?)
                }
                Fetch::Parts(plan, range) => {
                    self.read_parts((dataset, shard, index), *plan, &range, own)?
                }
                Fetch::File(file) => recording_file::read(&file, &self.context.account, own)?
                    .map_or_else(RawBlob::Unreadable, RawBlob::Own),
                Fetch::Block(block, plan) => {
                    match self.read_block(shard, &block, own, permit.take())? {
                        Fetched::Wait(wait) => {
                            fetches.push_front(Fetch::Block(block, plan));
                            return Ok(Some(wait));
                        }
                        Fetched::Done(RawBlob::Recording(recording)) => match plan {
                            Some(plan) => self.copy_parts(*plan, &recording, block.start(), own)?,
                            None => RawBlob::Recording(recording),
                        },
                        Fetched::Done(blob) => blob,
                    }
                }
            };
            ready.blobs.push(blob);
        }
        Ok(None)
    }

    /// The bytes of a row in a block, which is loaded if there is a permit for it.
    fn read_block(
        &self,
        shard: &Shard,
        block: &RowInBlock,
        own: &mut Permit,
        permit: Option<Permit>,
    ) -> Result<Fetched<RawBlob>> {
        let blocks = self.blocks.as_ref();
        let blocks = blocks.ok_or_else(|| Error::internal("there are no blocks"))?;
        if let Some(permit) = permit {
            let loaded = blocks.load(block, shard, permit);
            self.events.load_ended();
            loaded?;
        }
        // Counted before the look-up, so that a load which ends after it is noticed.
        let after = self.events.n_loads();
        Ok(match blocks.take(block, own)? {
            RowLookup::Copied(bytes) => Fetched::Done(RawBlob::Own(bytes)),
            RowLookup::Shared(recording) => Fetched::Done(RawBlob::Recording(recording)),
            RowLookup::Loading => Fetched::Wait(WaitFor::Load { after }),
            RowLookup::Missing => {
                let n_bytes = block.block_bytes();
                Fetched::Wait(WaitFor::Bytes { n_bytes, from_reserve: false })
            }
        })
    }

    /// Starts reading these bytes for a row that others must not overtake.
    fn announce(&self, dataset: &Dataset, shard: &Shard, index: u64, ranges: &[Range<u64>]) {
        if dataset.is_urgent(index) {
            // Before other rows may be claimed, so that this request comes before theirs.
            for range in ranges {
                shard.readahead(range);
            }
            self.events.requested(index);
        }
    }

    /// Reads these bytes of the shard into memory of the row's permit.
    fn read_range(&self, shard: &Shard, range: &Range<u64>, own: &mut Permit) -> Result<Buffer> {
        let n_bytes = (range.end - range.start) as usize;
        let mut bytes = self.context.account.buffer(n_bytes, own.split(n_bytes))?;
        shard.read_blob(range, bytes.as_bytes_mut())?;
        Ok(bytes)
    }

    /// Reads what is planned of the recording in the range `whole` of its shard.
    fn read_parts(
        &self,
        (dataset, shard, index): (&Dataset, &Shard, u64),
        plan: PartPlan,
        whole: &Range<u64>,
        own: &mut Permit,
    ) -> Result<RawBlob> {
        let at = |offset: u64| whole.start.saturating_add(offset).min(whole.end);
        let ranges = plan.ranges().iter().map(|range| at(range.start)..at(range.end));
        let ranges: Vec<Range<u64>> = ranges.collect();
        if ranges.len() > 1 {
            // All at once, and not one after the other.
            for range in &ranges {
                shard.readahead(range);
            }
        }
        self.announce(dataset, shard, index, &ranges);
        let bytes = ranges.iter().map(|range| self.read_range(shard, range, own));
        let bytes = bytes.collect::<Result<_>>()?;
        Ok(RawBlob::Parts(Box::new(Parts { plan, bytes, start: whole.start })))
    }

    /// Copies what is planned out of a recording that is in memory for its windows, and begins at
    /// `start` in its shard.
    fn copy_parts(
        &self,
        plan: PartPlan,
        recording: &Recording,
        start: u64,
        own: &mut Permit,
    ) -> Result<RawBlob> {
        let account = &self.context.account;
        let copy = |range: &Range<u64>| {
            let part = recording.as_slice().get(range.start as usize..range.end as usize);
            let part = part.ok_or_else(|| Error::internal("a part lies outside its recording"))?;
            let mut bytes = account.buffer(part.len(), own.split(part.len()))?;
            bytes.as_bytes_mut().copy_from_slice(part);
            Ok(bytes)
        };
        let bytes = plan.ranges().iter().map(copy).collect::<Result<_>>()?;
        Ok(RawBlob::Parts(Box::new(Parts { plan, bytes, start })))
    }
}
