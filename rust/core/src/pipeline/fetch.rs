//! Reader threads: claim the next row, find its bytes, read them.

use std::{ops::Range, sync::Arc};

use arrow_buffer::Buffer;

use super::{Job, Shared, dataset::Dataset, runs::InRun};
use crate::{
    audio::{self, AudioInfo, AudioSpec, Channels, SampleType},
    batch::{BlobValue, PooledBuf, Recycler},
    error::{Error, Result},
    order::Step,
    shard::{Blob, BlobRun, Shard, Table},
    stats,
};

/// The bytes of one blob of a row.
#[derive(Debug)]
pub(super) enum RawBlob {
    /// Null.
    Null,
    /// Read for this row alone.
    Read(PooledBuf),
    /// Part of a body that was decompressed as a whole.
    Shared(Buffer),
    /// A recording of more bytes than its limit, which were not read.
    TooLong(u64),
}

impl RawBlob {
    /// The bytes; `None` for null, and for what was not read.
    pub(super) fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Self::Null | Self::TooLong(_) => None,
            Self::Read(bytes) => Some(bytes.as_ref()),
            Self::Shared(buffer) => Some(buffer.as_slice()),
        }
    }

    /// How many bytes there are; `None` for null.
    pub(super) fn n_bytes(&self) -> Option<u64> {
        match self {
            Self::TooLong(n_bytes) => Some(*n_bytes),
            other => other.as_slice().map(|bytes| bytes.len() as u64),
        }
    }

    /// The bytes in memory of their own, without a copy where they have that. Leaves null.
    pub(super) fn take_bytes(&mut self, buffers: &Arc<Recycler>) -> BlobValue {
        match std::mem::replace(self, Self::Null) {
            Self::Null | Self::TooLong(_) => BlobValue::Null,
            Self::Read(bytes) => BlobValue::Bytes(bytes),
            Self::Shared(buffer) => BlobValue::Bytes(copy_of(&buffer, buffers)),
        }
    }
}

pub(super) fn copy_of(bytes: &[u8], buffers: &Arc<Recycler>) -> PooledBuf {
    let mut copy = buffers.take(bytes.len());
    copy.buf_mut().as_bytes_mut().copy_from_slice(bytes);
    copy
}

/// How a row comes to the bytes of the budget that it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    /// A reader waits until they fit, or everything waits for its row.
    Awaited,
    /// A decoder, which reads in the place of a bad row, takes them at once: the row that
    /// everything waits for may be waiting for this very thread. Each has one such row at most.
    Taken,
}

/// A claimed row, before its bytes are read.
struct Located {
    table: Arc<Table>,
    place: usize,
    blobs: Vec<Found>,
    /// Bytes that were copied so that nothing else of a large table is held.
    copied: usize,
    /// Those of them that stay until the batch is delivered.
    kept: usize,
}

/// A blob's bytes, or where they are.
enum Found {
    Here(RawBlob),
    At(Range<u64>),
    InRun(InRun),
}

impl Shared {
    /// The body of a reader thread: until the stream ends or the pipeline closes.
    pub(super) fn read_rows(self: &Arc<Self>) {
        let Some(dataset) = self.dataset.get() else { return };
        let _counted = self.at_work();
        if dataset.blobs.is_empty() {
            return self.read_batches(dataset);
        }
        while let Some(Range { start: index, .. }) = self.queue.claim(self, false) {
            let mut charged = 0;
            let job = self.read_row(dataset, index, &mut charged);
            // Where nothing was to be read, or reading failed before.
            self.queue.asked(self, index);
            match job {
                Ok(job) if dataset.audio.is_some() => self.hand_over(job),
                Ok(job) => self.file_encoded(dataset, job),
                Err(error) => self.file(dataset, index, Err(error), charged, 0),
            }
        }
    }

    fn read_row(&self, dataset: &Dataset, index: u64, charged: &mut usize) -> Result<Job> {
        let step = dataset.step(index)?;
        self.read_step(dataset, (index, step), Room::Awaited, charged)
    }

    /// Reads this row for that place of the stream, and adds what was charged for it to `charged`.
    pub(super) fn read_step(
        &self,
        dataset: &Dataset,
        (index, step): (u64, Step),
        room: Room,
        charged: &mut usize,
    ) -> Result<Job> {
        let began = self.stats.plan.is_timed(index).then(stats::now);
        let shard = dataset.shard(step)?;
        let name = |error: Error| error.in_shard(shard.name()).in_row(step.row.row);
        let located = self.locate(dataset, shard, (index, step), room).map_err(name)?;
        if let Some(began) = began {
            self.stats.plan.record(stats::since(began));
        }
        let Located { table, place, blobs, kept, copied } = located;
        if copied > 0 {
            // They are there already: others see them while this waits.
            self.queue.charge_at_once(self, copied);
            *charged += copied;
            if room == Room::Awaited {
                self.queue.charge(self, index, 0);
            }
        }
        let blobs = blobs
            .into_iter()
            .enumerate()
            .map(|(k, blob)| match blob {
                Found::Here(raw) => Ok(raw),
                Found::At(range) if dataset.is_too_long(k, range.end - range.start) => {
                    Ok(RawBlob::TooLong(range.end - range.start))
                }
                Found::InRun(place) => {
                    self.read_in_run(shard, &place, (index, room), charged).map(RawBlob::Read)
                }
                Found::At(range) => {
                    self.read_blob(shard, range, (index, room), charged).map(RawBlob::Read)
                }
            })
            .collect::<Result<Vec<_>>>()
            .map_err(name)?;
        // Whole recordings have no slot: what decoding will take is charged from the header.
        if let (Some((k, spec)), None) = (&dataset.audio, &dataset.slot_shape)
            && let Some(bytes) = blobs.get(*k).and_then(RawBlob::as_slice)
            && let Ok(info) = audio::probe(bytes)
        {
            let decoded = decoded_bytes(spec, &info);
            self.charge(room, index, decoded);
            *charged += decoded;
        }
        Ok(Job { index, step, table, place, blobs, charged: *charged, kept })
    }

    /// Returns the bytes of the budget that nothing is charged for then.
    pub(super) fn charge(&self, room: Room, index: u64, bytes: usize) -> usize {
        match room {
            Room::Awaited => self.queue.charge(self, index, bytes),
            Room::Taken => self.queue.charge_at_once(self, bytes),
        }
    }

    /// The table of this record batch, for row `index` of the stream.
    pub(super) fn table(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        key: (u32, usize),
        (index, room): (u64, Room),
    ) -> Result<Arc<Table>> {
        match self.tables.cached(key) {
            Some(table) => Ok(table),
            None => self.load_table(dataset, shard, key, (index, room)),
        }
    }

    fn load_table(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        key: (u32, usize),
        (index, room): (u64, Room),
    ) -> Result<Arc<Table>> {
        // Known before it is read, and waited for before anything that others wait for is held.
        let (projection, budget) = (&dataset.projection, self.options.memory_budget);
        let known = shard.table_bytes(key.1, projection)?;
        let added = self.tables.added(self.tables.expected(known));
        if room == Room::Awaited {
            self.queue.wait_for(self, index, added);
        }
        self.row_buffers.trim(self.queue.headroom(self).saturating_sub(added));
        let load =
            |takes: &dyn Fn(usize)| shard.load_table_within(key.1, projection, budget, takes);
        self.tables.get(key, known, load)
    }

    /// Finds the row. Of a large table only a copy of the row is held on to, however long the
    /// budget makes the row wait.
    fn locate(
        &self,
        dataset: &Dataset,
        shard: &Shard,
        (index, step): (u64, Step),
        room: Room,
    ) -> Result<Located> {
        let (batch, place) = shard
            .locate(step.row.row)
            .ok_or_else(|| Error::corrupt("the row is in no record batch"))?;
        let key = (step.row.shard, batch);
        let table = if let Some(table) = self.tables.cached(key) {
            table
        } else {
            // The row's bytes are on their way meanwhile, where the index has its place.
            let alone = !self.options.plan.is_nearly_file_order();
            let wanted = |k, n_bytes| {
                (alone || n_bytes >= BlobRun::SMALL_BLOB) && !dataset.is_too_long(k, n_bytes)
            };
            let all_known = shard.announce(batch, place, &dataset.projection, wanted);
            if all_known && alone && room == Room::Awaited {
                self.queue.asked(self, index);
            }
            self.load_table(dataset, shard, key, (index, room))?
        };
        let is_heavy = self.tables.is_passing(&table);
        let mut copied = 0;
        // A decoder reads the one row that it needs.
        let in_run = |k, range: &Range<u64>| {
            let is_read = room == Room::Awaited && !dataset.is_too_long(k, range.end - range.start);
            is_read.then(|| self.in_run(&table, key, (k, place), range)).flatten()
        };
        let blobs = (0..dataset.blobs.len())
            .map(|k| match table.blob(k, place) {
                None => Found::Here(RawBlob::Null),
                Some(Blob::Range(range)) => match in_run(k, &range) {
                    Some(place) => Found::InRun(place),
                    None => Found::At(range),
                },
                Some(Blob::Bytes(buffer)) if is_heavy => {
                    copied += buffer.len();
                    Found::Here(RawBlob::Read(copy_of(&buffer, &self.row_buffers)))
                }
                Some(Blob::Bytes(buffer)) => Found::Here(RawBlob::Shared(buffer)),
            })
            .collect();
        if !is_heavy {
            return Ok(Located { table, place, blobs, copied, kept: 0 });
        }
        let row = table.rows(&[place as u64])?;
        let kept = row.n_bytes;
        Ok(Located { table: Arc::new(row), place: 0, blobs, copied: copied + kept, kept })
    }

    fn read_blob(
        &self,
        shard: &Shard,
        range: Range<u64>,
        (index, room): (u64, Room),
        charged: &mut usize,
    ) -> Result<PooledBuf> {
        let n_bytes = usize::try_from(range.end - range.start)
            .map_err(|_| Error::limit("the row is larger than the address space"))?;
        let left = self.charge(room, index, n_bytes);
        *charged += n_bytes;
        if room == Room::Awaited && self.queue.is_in_first_batch(index) {
            // Before others may go on, so that the requests have their order.
            shard.announce_bytes(&range);
            self.queue.asked(self, index);
        }
        // Unused memory stays only where the budget has room for it.
        self.row_buffers.trim(left);
        shard.read_blob(range, &self.row_buffers)
    }
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
    (seconds * bytes_per_s) as usize * usize::from(channels)
}
