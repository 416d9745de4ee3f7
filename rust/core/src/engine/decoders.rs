//! The decoding threads' work for a stream: decoding rows into their slots.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use super::{
    assembler::Assembler,
    bad_rows::{BadRows, Replacement, is_of_row},
    context::Context,
    dataset::Dataset,
    pool::{TIME_SLICE, Work},
    queue::Queue,
    row_task::{EncodedRow, RawBlob},
};
use crate::{
    batch::{BadRow, BlobValue, DamagedRow, Row, RowOutcome},
    error::{Error, ErrorKind, Result},
    memory::{Account, AlignedBuf, Buffer, Permit},
    shard::Shard,
    sync::lock_std,
};
use gristmill_audio::{Channels, Codec, DecodeError, DecodeReport, Decoder, Reason};

/// The decoders of one stream.
#[derive(Debug)]
pub(super) struct Decoders {
    context: Arc<Context>,
    assembler: Arc<Assembler>,
    bad_rows: BadRows,
    /// Decoders that no thread uses, which keep tables between rows.
    idle: Mutex<Vec<Decoder>>,
}

impl Work for Decoders {
    fn n_ready(&self) -> usize {
        self.context.queue.n_read()
    }

    fn max_threads(&self) -> usize {
        self.context.options.n_threads()
    }

    fn run(&self, is_alone: bool) {
        let Some(dataset) = self.context.dataset.get() else { return };
        let mut decoder = lock_std(&self.idle).pop().unwrap_or_else(|| {
            let mut decoder = Decoder::default();
            decoder.set_cancel(Arc::clone(&self.context.closed));
            decoder
        });
        let began = Instant::now();
        while !self.context.is_closed() && self.decode_next(dataset, &mut decoder) {
            if !is_alone || began.elapsed() > TIME_SLICE {
                break;
            }
        }
        lock_std(&self.idle).push(decoder);
    }

    fn panicked(&self, message: String) {
        self.context.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

/// A row's decoded audio.
#[derive(Debug)]
struct DecodedAudio {
    value: BlobValue,
    /// Its damage, if there is any.
    damage: Option<Box<DamagedRow>>,
}

impl Decoders {
    pub(super) fn new(context: &Arc<Context>, assembler: Arc<Assembler>) -> Self {
        let bad_rows = BadRows::new(context);
        Self { context: Arc::clone(context), assembler, bad_rows, idle: Mutex::default() }
    }

    /// Frees what is kept between rows.
    pub(super) fn clear(&self) {
        lock_std(&self.idle).clear();
        self.bad_rows.clear();
    }

    /// Decodes the first of the rows that are read. Returns whether there was one.
    fn decode_next(&self, dataset: &Dataset, decoder: &mut Decoder) -> bool {
        let next = self.context.update(Queue::next_decode);
        let Some((index, read, mut slot)) = next else { return false };
        let began = Instant::now();
        let (id, step) = (read.attempt.step.row, read.attempt.step);
        let mut row = DecodedRow::new(read);
        let decoded = self.decode(dataset, decoder, &mut row, &mut slot);
        let (took, resampling) = (began.elapsed(), decoder.take_resampling());
        let metrics = &self.context.metrics;
        metrics.decode.record(took.saturating_sub(resampling));
        if !resampling.is_zero() {
            metrics.resample.record(resampling);
        }
        let counts = dataset.row_counts.get(id.shard as usize);
        let account = &self.context.account;
        let row = match decoded {
            Ok(audio) => {
                if let Some(counts) = counts {
                    counts.good(audio.damage.is_some());
                }
                row.finish(dataset, account, audio.value, audio.damage)
            }
            Err(error) => {
                if let Some(counts) = counts.filter(|_| is_of_row(&error)) {
                    counts.bad(took);
                }
                let shard = dataset.shard(step).ok().map(Shard::name);
                let error = match shard {
                    Some(shard) => error.in_shard(shard),
                    None => error,
                };
                let error = error.in_row(id.row);
                match self.bad_rows.replacement(dataset, index, &mut row, error) {
                    Ok(Replacement::Row(task)) => {
                        drop(row);
                        self.context.update(|queue| queue.replace(index, task, slot));
                        return true;
                    }
                    Ok(Replacement::Zeros) => {
                        let value = masked(dataset, &mut slot);
                        row.outcome = RowOutcome::Masked;
                        row.finish(dataset, account, value, None)
                    }
                    Ok(Replacement::Nothing) => {
                        let value = slot.take().map_or(BlobValue::Null, BlobValue::Slot);
                        row.outcome = RowOutcome::Skipped;
                        row.finish(dataset, account, value, None)
                    }
                    Err(error) => Err(error),
                }
            }
        };
        let complete = self.context.update(|queue| queue.finish_decoded(index, row));
        if let Some(complete) = complete {
            self.assembler.finish(dataset, complete);
        }
        true
    }

    /// The row's audio, in `slot` if there is one. On an error the slot stays with the caller.
    fn decode(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        row: &mut DecodedRow,
        slot: &mut Option<AlignedBuf>,
    ) -> Result<DecodedAudio> {
        let Some((k, spec)) = &dataset.audio else {
            return Ok(DecodedAudio { value: BlobValue::Null, damage: None });
        };
        let step = row.read.attempt.step;
        let id = step.row;
        let shard = dataset.shards.get(id.shard as usize);
        let key = shard.map_or(0, Shard::key);
        let draw = step.draw(self.context.options.crop_seed, key);
        let blob = row.read.blobs.get(*k);
        let Some(bytes) = blob.and_then(RawBlob::as_slice) else {
            let too_long = blob.and_then(RawBlob::n_bytes);
            let too_long = too_long.and_then(|n_bytes| spec.limits.check_bytes(n_bytes).err());
            let reason = too_long.unwrap_or(Reason::Null);
            return Err(reason.of_unknown().into());
        };
        let plan = decoder.plan(bytes, spec, draw)?;
        let codec = plan.info().codec;
        let (value, report) = if let Some(slot) = slot {
            let report = decoder.render_bytes(bytes, &plan, slot.as_bytes_mut())?;
            (None, report)
        } else {
            let shape = match spec.channels {
                Channels::Mono => vec![plan.n_frames()],
                _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
            };
            let mut buf = AlignedBuf::zeroed(plan.n_bytes())?;
            let report = decoder.render_bytes(bytes, &plan, buf.as_bytes_mut())?;
            let account = &self.context.account;
            let decoding = row.read.decoding.get_or_insert_with(|| account.take(0));
            let permit: Permit = decoding.split(plan.n_bytes());
            (Some(BlobValue::Own(Buffer::with_permit(buf, permit), shape)), report)
        };
        self.check_missing(codec, &report)?;
        let damage = (!report.damage.is_empty()).then(|| {
            let shard = shard.map(|shard| Arc::clone(shard.name())).unwrap_or_default();
            Box::new(DamagedRow { shard, row: id.row, codec, report })
        });
        let in_slot = || slot.take().map_or(BlobValue::Null, BlobValue::Slot);
        Ok(DecodedAudio { value: value.unwrap_or_else(in_slot), damage })
    }

    /// Refuses a row of which more frames are missing than allowed.
    fn check_missing(&self, codec: Codec, report: &DecodeReport) -> Result<(), DecodeError> {
        let (wanted, missing) = (report.frames_wanted, report.frames_missing());
        match self.context.options.max_missing {
            Some(share) if missing as f64 > share * wanted as f64 => {
                Err(Reason::Missing { missing, wanted }.of(codec))
            }
            _ => Ok(()),
        }
    }
}

/// A row that was read, and the outcome of decoding it.
#[derive(Debug)]
pub(super) struct DecodedRow {
    pub(super) read: EncodedRow,
    pub(super) bad: Vec<BadRow>,
    pub(super) outcome: RowOutcome,
}

impl DecodedRow {
    pub(super) fn new(mut read: EncodedRow) -> Self {
        let bad = std::mem::take(&mut read.attempt.bad);
        Self { read, bad, outcome: RowOutcome::Valid }
    }

    /// The finished row with all of its blobs encoded.
    pub(super) fn encoded(self, account: &Arc<Account>) -> Result<Row> {
        self.with_blobs(None, account, None)
    }

    /// The finished row with its audio.
    fn finish(
        self,
        dataset: &Dataset,
        account: &Arc<Account>,
        audio: BlobValue,
        damage: Option<Box<DamagedRow>>,
    ) -> Result<Row> {
        let decoded = dataset.audio.as_ref().map(|(k, _)| *k);
        self.with_blobs(decoded.map(|k| (k, audio)), account, damage)
    }

    fn with_blobs(
        self,
        mut audio: Option<(usize, BlobValue)>,
        account: &Arc<Account>,
        damage: Option<Box<DamagedRow>>,
    ) -> Result<Row> {
        let Self { read: EncodedRow { attempt, table, table_row, blobs, .. }, bad, outcome } = self;
        let values = blobs.into_iter().enumerate().map(|(k, blob)| {
            if let Some((_, value)) = audio.take_if(|(decoded, _)| *decoded == k) {
                return Ok(value);
            }
            match outcome {
                RowOutcome::Skipped => Ok(BlobValue::Null),
                _ => blob.into_value(account),
            }
        });
        let blobs = values.collect::<Result<_>>()?;
        let id = attempt.step.row;
        Ok(Row { id, table, index: table_row, blobs, damage, bad, outcome })
    }
}

/// Zeros in the slot; no frames where rows have no slots.
fn masked(dataset: &Dataset, slot: &mut Option<AlignedBuf>) -> BlobValue {
    if let Some(mut slot) = slot.take() {
        slot.as_bytes_mut().fill(0);
        return BlobValue::Slot(slot);
    }
    let shape = match dataset.audio.as_ref().map(|(_, spec)| spec.channels) {
        Some(Channels::Exact(n)) => vec![usize::from(n), 0],
        Some(Channels::Keep) => vec![1, 0],
        Some(Channels::Mono) | None => vec![0],
    };
    BlobValue::Own(Buffer::default(), shape)
}
