//! Reading a row: find its table, find its bytes, read them.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use super::{
    cache::Found,
    context::Context,
    dataset::Dataset,
    queue::{Need, Queue},
    row::{BlobPlace, Located, RawBlob, ReadRow, RowReading, Stage, copy_of},
    runs::{RowOfRun, Runs},
    tables::{Key, Tables},
};
use crate::{
    error::{Error, Result},
    memory::Permit,
    shard::{Blob, BlobBlock, Shard, Table},
};
use gristmill_audio::{self as audio, AudioInfo, AudioSpec, Channels, SampleType};

/// What readers read with.
#[derive(Debug)]
pub(super) struct Reader {
    pub(super) context: Arc<Context>,
    pub(super) tables: Tables,
    pub(super) runs: Runs,
}

/// What came of looking for a table.
pub(super) enum TableOr {
    Here(Arc<Table>),
    Needs(Need),
}

impl Reader {
    /// Reads on, as far as that goes without waiting: what it then needs, or `None` once the row is
    /// read. `permit` is for what it needed before.
    ///
    /// Blocks for requests to the storage.
    ///
    /// # Errors
    ///
    /// As from reading, with shard and row.
    pub(super) fn advance(
        &self,
        dataset: &Dataset,
        row: &mut RowReading,
        permit: Option<Permit>,
    ) -> Result<Option<Need>> {
        let id = row.attempt.step.row;
        let shard = dataset.shard(row.attempt.step)?;
        self.advance_in(dataset, shard, row, permit)
            .map_err(|error| error.in_shard(shard.name()).in_row(id.row))
    }

    fn advance_in(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        row: &mut RowReading,
        mut permit: Option<Permit>,
    ) -> Result<Option<Need>> {
        loop {
            match &mut row.stage {
                Stage::Table => {
                    let id = row.attempt.step.row;
                    let place = shard.locate(id.row);
                    let (batch, place) =
                        place.ok_or_else(|| Error::corrupt("the row is in no record batch"))?;
                    let key = (id.shard, batch);
                    if permit.is_none() && !self.tables.has(key) {
                        self.announce(dataset, shard, row.index, (batch, place));
                    }
                    let table = match self.table(dataset, shard, key, permit.take())? {
                        TableOr::Here(table) => table,
                        TableOr::Needs(need) => return Ok(Some(need)),
                    };
                    let (located, need) = self.locate(dataset, table, key, place)?;
                    row.stage = Stage::Bytes(located);
                    if need.is_some() {
                        return Ok(need);
                    }
                }
                Stage::Bytes(located) => {
                    if located.permit.is_none() {
                        located.permit = permit.take();
                    }
                    if let Some(need) =
                        self.fetch(dataset, shard, row.index, located, permit.take())?
                    {
                        return Ok(Some(need));
                    }
                    let n_bytes = decoding_bytes(dataset, &located.blobs);
                    let Stage::Bytes(located) = std::mem::replace(&mut row.stage, Stage::Table)
                    else {
                        return Ok(None);
                    };
                    row.stage = Stage::Decoding(Located { permit: None, ..located });
                    if n_bytes > 0 {
                        return Ok(Some(Need::Bytes { n_bytes, of_reserve: false }));
                    }
                }
                Stage::Decoding(located) => {
                    located.permit = permit.take();
                    return Ok(None);
                }
            }
        }
    }

    /// The row, once it is read.
    pub(super) fn finished(row: RowReading) -> Result<ReadRow> {
        match row.stage {
            Stage::Decoding(Located { table, place, blobs, permit, .. }) => {
                Ok(ReadRow { attempt: row.attempt, table, place, blobs, decoding: permit })
            }
            Stage::Table | Stage::Bytes(_) => Err(Error::config("a row was not read to its end")),
        }
    }

    /// Has the storage begin to read what the index tells of, before the table is there.
    fn announce(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        index: u64,
        (batch, place): (usize, usize),
    ) {
        let alone = !self.context.options.order.is_nearly_file_order();
        let wanted = |k, n_bytes| {
            (alone || n_bytes >= BlobBlock::SMALL_BLOB) && !dataset.is_too_long(k, n_bytes)
        };
        let all_known = shard.readahead_row(batch, place, &dataset.projection, wanted);
        if all_known && alone && dataset.is_in_first_batch(index) {
            self.context.change(|queue| queue.asked(index));
        }
    }

    /// The table of this record batch, loaded if there is a permit for that.
    pub(super) fn table(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        key: Key,
        permit: Option<Permit>,
    ) -> Result<TableOr> {
        if let Some(permit) = permit {
            let (projection, budget) = (&dataset.projection, self.context.options.memory_budget);
            let known = shard.table_size(key.1, projection)?;
            let loaded = self.tables.load(key, known, permit, |takes| {
                self.context
                    .metrics
                    .tables
                    .time(|| shard.load_table_within(key.1, projection, budget, takes))
            });
            self.context.change(Queue::loaded);
            if let Some(table) = loaded? {
                return Ok(TableOr::Here(table));
            }
        }
        if let Found::Loaded(table) = self.tables.find(key) {
            return Ok(TableOr::Here(table));
        }
        // Before the look: a load that ends after it is told apart.
        let after = self.context.queue.look(Queue::loads);
        let known = shard.table_size(key.1, &dataset.projection)?;
        Ok(match self.tables.find(key) {
            Found::Loaded(table) => TableOr::Here(table),
            Found::Missing if !self.tables.is_crowded(known) => {
                let n_bytes = self.tables.expected(known);
                TableOr::Needs(Need::Bytes { n_bytes, of_reserve: true })
            }
            Found::Missing | Found::Loading => TableOr::Needs(Need::Load { after }),
        })
    }

    /// Finds the row's bytes, and what reading them needs. Of a heavy table only a copy of the row is
    /// held on to, however long the budget makes the row wait.
    fn locate(
        &self,
        dataset: &Dataset,
        table: Arc<Table>,
        key: Key,
        place: usize,
    ) -> Result<(Located, Option<Need>)> {
        let account = &self.context.account;
        let is_heavy = self.tables.is_heavy(&table);
        let mut n_bytes = 0_u64;
        let mut missing = VecDeque::with_capacity(dataset.blobs.len());
        for k in 0..dataset.blobs.len() {
            missing.push_back(match table.blob(k, place) {
                None => BlobPlace::Here(RawBlob::Null),
                Some(Blob::Bytes(buffer)) if is_heavy => {
                    BlobPlace::Here(RawBlob::Read(copy_of(&buffer, account)?))
                }
                Some(Blob::Bytes(buffer)) => BlobPlace::Here(RawBlob::Shared(buffer)),
                Some(Blob::Range(range)) if dataset.is_too_long(k, range.end - range.start) => {
                    BlobPlace::Here(RawBlob::TooLong(range.end - range.start))
                }
                Some(Blob::Range(range)) => {
                    n_bytes = n_bytes.saturating_add(range.end - range.start);
                    let options = &self.context.options;
                    match self.runs.of_row(options, &table, key, (k, place), &range) {
                        Some(run) => BlobPlace::InRun(run),
                        None => BlobPlace::At(range),
                    }
                }
            });
        }
        let n_bytes = usize::try_from(n_bytes)
            .map_err(|_| Error::limit("the row is larger than the address space"))?;
        // What was copied is there, within the budget or not: the row waits until it is within.
        let need = (n_bytes > 0 || is_heavy).then_some(Need::Bytes { n_bytes, of_reserve: false });
        let (table, place) = if is_heavy {
            let mut row = table.take(&[place as u64])?;
            row.permit = Some(Arc::new(account.take(row.n_bytes)));
            (Arc::new(row), 0)
        } else {
            (table, place)
        };
        Ok((Located { table, place, missing, blobs: Vec::new(), permit: None }, need))
    }

    /// Reads the row's bytes. `permit` is for the run that it needed before.
    fn fetch(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        index: u64,
        located: &mut Located,
        mut permit: Option<Permit>,
    ) -> Result<Option<Need>> {
        let Located { missing, blobs, permit: own, .. } = located;
        while let Some(next) = missing.pop_front() {
            let raw = match next {
                BlobPlace::Here(raw) => raw,
                BlobPlace::At(range) => {
                    RawBlob::Read(self.read_blob(dataset, shard, index, &range, own)?)
                }
                BlobPlace::InRun(row) => {
                    let own = own.get_or_insert_with(|| self.context.account.take(0));
                    if let Some(permit) = permit.take() {
                        let loaded = self.runs.load(&row, shard, permit);
                        self.context.change(Queue::loaded);
                        loaded?;
                    }
                    let after = self.context.queue.look(Queue::loads);
                    let need = match self.runs.copy(&row, own)? {
                        RowOfRun::Copied(bytes) => {
                            blobs.push(RawBlob::Read(bytes));
                            continue;
                        }
                        RowOfRun::Loading => Need::Load { after },
                        RowOfRun::Missing => {
                            Need::Bytes { n_bytes: row.run_bytes(), of_reserve: false }
                        }
                    };
                    missing.push_front(BlobPlace::InRun(row));
                    return Ok(Some(need));
                }
            };
            blobs.push(raw);
        }
        Ok(None)
    }

    fn read_blob(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        index: u64,
        range: &Range<u64>,
        own: &mut Option<Permit>,
    ) -> Result<crate::memory::Buffer> {
        let account = &self.context.account;
        let n_bytes = (range.end - range.start) as usize;
        if dataset.is_in_first_batch(index) {
            // Before others may go on, so that the requests have their order.
            shard.readahead(range);
            self.context.change(|queue| queue.asked(index));
        }
        let permit = own.get_or_insert_with(|| account.take(0)).split(n_bytes);
        let mut bytes = account.buffer(n_bytes, permit)?;
        shard.read_blob(range, bytes.as_bytes_mut())?;
        Ok(bytes)
    }
}

/// Whole recordings have no slot: what decoding will take, from the header.
fn decoding_bytes(dataset: &Dataset, blobs: &[RawBlob]) -> usize {
    let Some((k, spec)) = dataset.audio.as_ref().filter(|_| dataset.slot_shape.is_none()) else {
        return 0;
    };
    let bytes = blobs.get(*k).and_then(RawBlob::as_slice);
    bytes.and_then(|bytes| audio::probe(bytes).ok()).map_or(0, |info| decoded_bytes(spec, &info))
}

/// What decoding a recording takes: its samples at its own rate and at the target's, as `f32`, and
/// those of the result once more where it has another type.
fn decoded_bytes(spec: &AudioSpec, info: &AudioInfo) -> usize {
    let whole_s = info.n_frames as f64 / f64::from(info.rate_hz.max(1));
    let seconds = spec.crop.seconds().map_or(whole_s, |crop_s| crop_s.min(whole_s));
    let target_hz = f64::from(spec.rate_hz.unwrap_or(info.rate_hz));
    let result = match spec.sample_type {
        SampleType::F32 => 0,
        other => other.n_bytes(),
    };
    let rates = size_of::<f32>() as f64 * (f64::from(info.rate_hz) + target_hz);
    let bytes_per_s = rates + result as f64 * target_hz;
    let channels = match spec.channels {
        Channels::Mono => 1,
        Channels::Keep => info.n_channels,
        Channels::Exact(n) => n,
    };
    ((seconds * bytes_per_s) as usize).saturating_mul(usize::from(channels))
}
