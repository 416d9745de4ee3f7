//! Reading a row: find its table, find its blobs in it, read them.

use std::{cell::Cell, collections::VecDeque, ops::Range, slice, sync::Arc};

use super::{
    alone::LastRow,
    context::Context,
    decoding_bytes::decoding_bytes,
    parts::Found,
    recording_file,
    task::{BlobLocation, EncodedRow, Located, RawBlob, ReadStage, RowTask, copy_of},
};
use crate::{
    engine::{
        cache::{BatchId, BlockCache, Lookup, RowLookup, TableCache},
        dataset::{Dataset, Source},
        wait::{ReadEvents, WaitFor},
    },
    error::{Error, Result},
    memory::{Buffer, Permit},
    shard::{Blob, BlobBlock, Shard, Table},
    store::RangeReader,
};
use gristmill_audio::Reason;

/// Reads the rows of one stream, or those that are asked for, on any thread.
#[derive(Debug)]
pub(crate) struct RowReader {
    pub(crate) context: Arc<Context>,
    pub(crate) events: Arc<dyn ReadEvents>,
    pub(crate) tables: TableCache,
    /// `None` where neighbouring rows are hardly ever read at about the same time.
    pub(crate) blocks: Option<BlockCache>,
    /// Tells whether rows that may be read alone are wanted in turn.
    pub(crate) last_row: LastRow,
}

/// A table, or what must happen before it can be loaded.
pub(crate) enum TableLookup {
    Loaded(Arc<Table>),
    Wait(WaitFor),
}

impl RowReader {
    /// Reads a row as far as possible now. Returns what it must wait for, or `None` once it is read.
    /// `permit` is what it waited for before.
    ///
    /// Blocks for requests to the storage only.
    ///
    /// # Errors
    ///
    /// Those of reading, with shard and row.
    pub(crate) fn advance(
        &self,
        dataset: &Dataset,
        row: &mut RowTask,
        permit: Option<Permit>,
    ) -> Result<Option<WaitFor>> {
        let id = row.attempt.step.row;
        let shard = dataset.shard(row.attempt.step)?;
        self.advance_in(dataset, shard, row, permit)
            .map_err(|error| error.in_shard(shard.name()).in_row(id.row))
    }

    fn advance_in(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        row: &mut RowTask,
        mut permit: Option<Permit>,
    ) -> Result<Option<WaitFor>> {
        loop {
            match &mut row.stage {
                ReadStage::Start => {
                    let id = row.attempt.step.row;
                    let may_be_alone = dataset.source(id.shard).row_alone_bytes.is_some();
                    // Decided once: bytes that it waits for are those of one way.
                    let is_alone = may_be_alone && !self.follows_last(id);
                    row.stage = if is_alone { ReadStage::Alone } else { ReadStage::Table };
                }
                ReadStage::Alone => {
                    let (batch, table_row) = place_of(shard, row)?;
                    match self.row_alone(dataset, (batch, table_row), permit.take())? {
                        Some(TableLookup::Loaded(table)) => {
                            let wait = self.locate(dataset, table, (batch, 0), row)?;
                            if wait.is_some() {
                                return Ok(wait);
                            }
                        }
                        Some(TableLookup::Wait(wait)) => return Ok(Some(wait)),
                        None => row.stage = ReadStage::Table,
                    }
                }
                ReadStage::Table => {
                    let (batch, table_row) = place_of(shard, row)?;
                    if permit.is_none() && !self.tables.has(batch) && !row.attempt.is_padding {
                        self.readahead(dataset, shard, row.index, (batch, table_row));
                    }
                    let (table, table_row) = match self.table(dataset, shard, batch, permit.take())
                    {
                        Ok(TableLookup::Loaded(table)) => (table, table_row),
                        Ok(TableLookup::Wait(wait)) => return Ok(Some(wait)),
                        // Damage of other rows does not count, whatever was asked for before.
                        Err(error) if dataset.source(batch.0).row_alone_bytes.is_some() => {
                            let permit = Some(self.context.account.take(0));
                            match self.row_alone(dataset, (batch, table_row), permit)? {
                                Some(TableLookup::Loaded(table)) => (table, 0),
                                _ => return Err(error),
                            }
                        }
                        Err(error) => return Err(error),
                    };
                    let wait = self.locate(dataset, table, (batch, table_row), row)?;
                    if wait.is_some() {
                        return Ok(wait);
                    }
                }
                ReadStage::Blobs(located) => {
                    if located.permit.is_none() {
                        located.permit = permit.take();
                    }
                    let wait =
                        self.read_blobs(dataset, shard, row.index, located, permit.take())?;
                    if wait.is_some() {
                        return Ok(wait);
                    }
                    let source = dataset.source(row.attempt.step.row.shard);
                    let has_slots = dataset.slot_shape.is_some();
                    let n_bytes =
                        if has_slots { 0 } else { decoding_bytes(source, &located.blobs) };
                    let stage = std::mem::replace(&mut row.stage, ReadStage::Start);
                    let ReadStage::Blobs(located) = stage else { return Ok(None) };
                    row.stage = ReadStage::Decoding(Located { permit: None, ..located });
                    if n_bytes > 0 {
                        return Ok(Some(WaitFor::Bytes { n_bytes, from_reserve: false }));
                    }
                }
                ReadStage::Decoding(located) => {
                    located.permit = permit.take();
                    return Ok(None);
                }
            }
        }
    }

    /// The row, once it is read.
    pub(crate) fn finish(row: RowTask) -> Result<EncodedRow> {
        match row.stage {
            ReadStage::Decoding(located) => {
                let Located { table, table_row, blobs, permit, learns, is_unknown, .. } = located;
                let (attempt, decoding) = (row.attempt, permit);
                Ok(EncodedRow { attempt, table, table_row, blobs, decoding, learns, is_unknown })
            }
            ReadStage::Start | ReadStage::Alone | ReadStage::Table | ReadStage::Blobs(_) => {
                Err(Error::internal("a row was not read to its end"))
            }
        }
    }

    /// Starts readahead for a row's table, and for its blobs as far as the shard's index has their
    /// ranges. Small blobs are left to their blocks, and what may be read in parts to its plan.
    fn readahead(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        index: u64,
        ((shard_number, batch), table_row): (BatchId, usize),
    ) {
        let source = dataset.source(shard_number);
        let has_blocks = self.blocks.is_some() && source.order.is_nearly_file_order();
        let has_parts = Cell::new(false);
        let wanted = |k, range: &Range<u64>| {
            let n_bytes = range.end - range.start;
            if source.decodes(k) && self.may_have_parts(shard_number, range) {
                has_parts.set(true);
                return false;
            }
            (!has_blocks || n_bytes >= BlobBlock::SMALL_BLOB) && !source.is_too_long(k, n_bytes)
        };
        let has_all = shard.readahead_row(batch, table_row, &source.projection, wanted);
        if has_all && !has_parts.get() && !has_blocks && dataset.is_urgent(index) {
            self.events.requested(index);
        }
    }

    /// The table of a record batch, which is loaded if there is a permit for it.
    pub(crate) fn table(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        batch: BatchId,
        permit: Option<Permit>,
    ) -> Result<TableLookup> {
        let Source { projection, class_ids, .. } = dataset.source(batch.0);
        if let Some(permit) = permit {
            let budget = self.context.options.memory_budget;
            let known = shard.table_size(batch.1, projection)?;
            let loaded = self.tables.load(batch, known, permit, |on_size| {
                let metrics = &self.context.metrics;
                metrics.tables.time(|| {
                    let table = shard.load_table_within(batch.1, projection, budget, on_size)?;
                    class_ids.apply(table)
                })
            });
            self.events.load_ended();
            if let Some(table) = loaded? {
                return Ok(TableLookup::Loaded(table));
            }
        }
        if let Lookup::Loaded(table) = self.tables.find(batch) {
            return Ok(TableLookup::Loaded(table));
        }
        // Counted before the look-up, so that a load which ends after it is noticed.
        let after = self.events.n_loads();
        let known = shard.table_size(batch.1, projection)?;
        Ok(match self.tables.find(batch) {
            Lookup::Loaded(table) => TableLookup::Loaded(table),
            Lookup::Missing if !self.tables.is_crowded(known) => {
                let n_bytes = self.tables.expected_bytes(known);
                TableLookup::Wait(WaitFor::Bytes { n_bytes, from_reserve: true })
            }
            Lookup::Missing | Lookup::Loading => TableLookup::Wait(WaitFor::Load { after }),
        })
    }

    /// Finds the row's blobs, and returns what reading them must wait for. Of a heavy table only the
    /// row is kept, as a copy.
    fn locate(
        &self,
        dataset: &Dataset,
        table: Arc<Table>,
        (batch, table_row): (BatchId, usize),
        row: &mut RowTask,
    ) -> Result<Option<WaitFor>> {
        let attempt = &row.attempt;
        let account = &self.context.account;
        let source = dataset.source(batch.0);
        let is_heavy = table.n_rows() > 1 && self.tables.is_heavy(&table);
        let (mut n_bytes, mut learns, mut is_unknown) = (0_u64, None, false);
        let mut pending = VecDeque::with_capacity(dataset.blobs.len());
        for k in 0..dataset.blobs.len() {
            pending.push_back(match table.blob(k, table_row).filter(|_| !attempt.is_padding) {
                None if attempt.is_padding => BlobLocation::Loaded(RawBlob::Null),
                None => match self.own_file(source, k, &table, table_row)? {
                    Some(Ok(file)) if source.is_too_long(k, file.len()) => {
                        BlobLocation::Loaded(RawBlob::TooLong(file.len()))
                    }
                    Some(Ok(file)) => {
                        n_bytes = n_bytes.saturating_add(file.len());
                        BlobLocation::OwnFile(Box::new(file))
                    }
                    Some(Err(reason)) => BlobLocation::Loaded(RawBlob::Unreadable(reason)),
                    None => BlobLocation::Loaded(RawBlob::Null),
                },
                Some(Blob::Bytes(buffer)) if is_heavy => {
                    BlobLocation::Loaded(RawBlob::Own(copy_of(&buffer, account)?))
                }
                Some(Blob::Bytes(buffer)) => BlobLocation::Loaded(RawBlob::Shared(buffer)),
                Some(Blob::Range(range)) if source.is_too_long(k, range.end - range.start) => {
                    BlobLocation::Loaded(RawBlob::TooLong(range.end - range.start))
                }
                Some(Blob::Range(range)) => {
                    let (place, part) = ((k, table_row), attempt.step.part);
                    let block = self.blocks.as_ref().and_then(|blocks| {
                        blocks.block_of(&source.order, &table, batch, place, &range, part)
                    });
                    let recording = if source.decodes(k) {
                        self.find_recording(dataset, attempt, (&table, table_row), &range)
                    } else {
                        Found::WHOLE
                    };
                    match (recording, block) {
                        (Found::Parts(plan), None) => {
                            n_bytes = n_bytes.saturating_add(plan.n_bytes());
                            BlobLocation::Parts(plan, range)
                        }
                        // The recording is read once for its windows, and none of them walks
                        // over all of it.
                        (Found::Parts(plan), Some(block)) if block.is_shared => {
                            n_bytes = n_bytes.saturating_add(plan.n_bytes());
                            BlobLocation::InBlock(block, Some(plan))
                        }
                        (found, block) => {
                            if let Found::Whole { learns: start, is_unknown: unknown } = found {
                                learns = learns.or(start);
                                // Blocks are shared by rows, and windows by a recording.
                                is_unknown |= unknown && block.is_none();
                            }
                            if !block.as_ref().is_some_and(|row| row.is_shared) {
                                n_bytes = n_bytes.saturating_add(range.end - range.start);
                            }
                            let in_block = |block| BlobLocation::InBlock(block, None);
                            block.map_or(BlobLocation::InFile(range), in_block)
                        }
                    }
                }
            });
        }
        let n_bytes = usize::try_from(n_bytes)
            .map_err(|_| Error::limit("the row is larger than the address space"))?;
        // A copy may exceed the budget. Then the row waits here until it does not.
        let wait =
            (n_bytes > 0 || is_heavy).then_some(WaitFor::Bytes { n_bytes, from_reserve: false });
        let (table, table_row) = if is_heavy {
            let mut row = table.take(&[table_row as u64])?;
            row.permit = Some(Arc::new(account.take(row.n_bytes)));
            (Arc::new(row), 0)
        } else {
            (table, table_row)
        };
        let (blobs, permit) = (Vec::new(), None);
        let located = Located { table, table_row, pending, blobs, permit, learns, is_unknown };
        row.stage = ReadStage::Blobs(located);
        Ok(wait)
    }

    /// The file that a row without bytes names; `None` where it names none, or none is wanted.
    fn own_file(
        &self,
        source: &Source,
        blob: usize,
        table: &Table,
        table_row: usize,
    ) -> Result<Option<Result<RangeReader, Reason>>> {
        match &source.files {
            Some(files) if source.audio.as_ref().is_some_and(|(audio, _)| *audio == blob) => {
                recording_file::find(files, &self.context.store, table, table_row)
            }
            _ => Ok(None),
        }
    }

    /// Reads the row's blobs. `permit` is for the block that it waited for.
    fn read_blobs(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        index: u64,
        located: &mut Located,
        mut permit: Option<Permit>,
    ) -> Result<Option<WaitFor>> {
        let Located { pending, blobs, permit: own, .. } = located;
        while let Some(next) = pending.pop_front() {
            let raw = match next {
                BlobLocation::Loaded(raw) => raw,
                BlobLocation::InFile(range) => {
                    self.announce(dataset, shard, index, slice::from_ref(&range));
                    RawBlob::Own(self.read_range(shard, &range, own)?)
                }
                BlobLocation::Parts(plan, range) => {
                    RawBlob::Parts(self.read_parts((dataset, shard, index), *plan, &range, own)?)
                }
                BlobLocation::OwnFile(file) => {
                    let account = &self.context.account;
                    let own = own.get_or_insert_with(|| account.take(0));
                    recording_file::read(&file, account, own)?
                        .map_or_else(RawBlob::Unreadable, RawBlob::Own)
                }
                BlobLocation::InBlock(row, plan) => {
                    let blocks = self.blocks.as_ref();
                    let blocks = blocks.ok_or_else(|| Error::internal("there are no blocks"))?;
                    let own = own.get_or_insert_with(|| self.context.account.take(0));
                    if let Some(permit) = permit.take() {
                        let loaded = blocks.load(&row, shard, permit);
                        self.events.load_ended();
                        loaded?;
                    }
                    let after = self.events.n_loads();
                    let wait = match blocks.take(&row, own)? {
                        RowLookup::Copied(bytes) => {
                            blobs.push(RawBlob::Own(bytes));
                            continue;
                        }
                        RowLookup::Shared(recording) => {
                            blobs.push(match plan {
                                Some(plan) => {
                                    self.copy_parts(*plan, &recording, row.start(), own)?
                                }
                                None => RawBlob::Recording(recording),
                            });
                            continue;
                        }
                        RowLookup::Loading => WaitFor::Load { after },
                        RowLookup::Missing => {
                            WaitFor::Bytes { n_bytes: row.block_bytes(), from_reserve: false }
                        }
                    };
                    pending.push_front(BlobLocation::InBlock(row, plan));
                    return Ok(Some(wait));
                }
            };
            blobs.push(raw);
        }
        Ok(None)
    }

    /// Starts reading these bytes for a row that others must not overtake.
    pub(crate) fn announce(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        index: u64,
        ranges: &[Range<u64>],
    ) {
        if dataset.is_urgent(index) {
            // Before other rows may be claimed, so that this request comes before theirs.
            for range in ranges {
                shard.readahead(range);
            }
            self.events.requested(index);
        }
    }

    /// Reads these bytes of the shard into memory of the row's permit.
    pub(crate) fn read_range(
        &self,
        shard: &Shard,
        range: &Range<u64>,
        own: &mut Option<Permit>,
    ) -> Result<Buffer> {
        let account = &self.context.account;
        let n_bytes = (range.end - range.start) as usize;
        let permit = own.get_or_insert_with(|| account.take(0)).split(n_bytes);
        let mut bytes = account.buffer(n_bytes, permit)?;
        shard.read_blob(range, bytes.as_bytes_mut())?;
        Ok(bytes)
    }
}

/// The record batch of a row, and the row's number in it.
fn place_of(shard: &Shard, row: &RowTask) -> Result<(BatchId, usize)> {
    let id = row.attempt.step.row;
    let located = shard.locate(id.row);
    let (batch, row) = located.ok_or_else(|| Error::corrupt("the row is in no record batch"))?;
    Ok(((id.shard, batch), row))
}
