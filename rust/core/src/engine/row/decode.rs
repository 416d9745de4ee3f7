//! Decoding rows into their slots, or putting others in the places of bad ones.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use super::{
    context::Context,
    replace::{BadRows, Replacement, is_of_row},
    spec::RowSpec,
    task::{Attempt, EncodedRow, Parts, RawBlob, ReadStage, RowTask},
};
use crate::{
    batch::{BadRow, BlobValue, DamagedRow, Row, RowCrop, RowOutcome},
    engine::dataset::Dataset,
    error::Result,
    memory::{Account, AlignedBuf, Buffer, Permit},
    shard::Shard,
    sync::lock_std,
};
use gristmill_audio::{AudioSpec, Channels, DecodeError, DecodeReport, Decoder, Plan, Reason};

/// Decodes the rows of one stream, or those that are asked for, on any thread.
#[derive(Debug)]
pub(crate) struct RowDecoder {
    context: Arc<Context>,
    bad_rows: BadRows,
    /// Decoders that no thread uses, which keep tables between rows.
    idle: Mutex<Vec<Decoder>>,
}

/// What comes of decoding a row.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// The finished row, or its error.
    Row(Result<Row>),
    /// Another row takes its place, or this one is read whole: this must be read before.
    Reads(Box<RowTask>),
}

/// A row's decoded audio.
#[derive(Debug)]
struct DecodedAudio {
    value: BlobValue,
    crop: RowCrop,
    /// Its damage, if there is any.
    damage: Option<Box<DamagedRow>>,
}

impl RowDecoder {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        let bad_rows = BadRows::new(context);
        Self { context: Arc::clone(context), bad_rows, idle: Mutex::default() }
    }

    /// Runs `work` with a decoder of this thread's own.
    pub(crate) fn with_decoder<T>(&self, work: impl FnOnce(&mut Decoder) -> T) -> T {
        let mut decoder = lock_std(&self.idle).pop().unwrap_or_else(|| {
            let mut decoder = Decoder::default();
            decoder.set_cancel(Arc::clone(&self.context.closed));
            decoder
        });
        let result = work(&mut decoder);
        lock_std(&self.idle).push(decoder);
        result
    }

    /// Frees what is kept between rows.
    pub(crate) fn clear(&self) {
        lock_std(&self.idle).clear();
        self.bad_rows.clear();
    }

    /// Decodes the row at `index` of the stream, in `slot` if there is one. The slot stays with the
    /// caller where something else must be read for it.
    pub(crate) fn decode_row(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        (index, read): (u64, EncodedRow),
        slot: &mut Option<AlignedBuf>,
    ) -> Decoded {
        let began = Instant::now();
        let (id, step) = (read.attempt.step.row, read.attempt.step);
        let mut row = DecodedRow::new(read);
        if row.read.attempt.is_padding {
            let value = masked(dataset, slot);
            return Decoded::Row(row.finish(dataset, &self.context.account, value, None));
        }
        let decoded = self.decode(dataset, decoder, &mut row, slot);
        let (took, resampling) = (began.elapsed(), decoder.take_resampling());
        let metrics = &self.context.metrics;
        metrics.decode.record(took.saturating_sub(resampling));
        if !resampling.is_zero() {
            metrics.resample.record(resampling);
        }
        let counts = dataset.row_counts.get(id.shard as usize);
        let account = &self.context.account;
        Decoded::Row(match decoded {
            Ok(None) => {
                let attempt = Attempt { is_whole: true, bad: row.bad, ..row.read.attempt };
                let task = RowTask { index, attempt, stage: ReadStage::Start };
                return Decoded::Reads(Box::new(task));
            }
            Ok(Some(audio)) => {
                if let Some(counts) = counts {
                    counts.good(audio.damage.is_some(), took);
                }
                row.crop = audio.crop;
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
                    Ok(Replacement::Row(task)) => return Decoded::Reads(task),
                    Ok(Replacement::Zeros) => {
                        let value = masked(dataset, slot);
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
        })
    }

    /// The row's audio, in `slot` if there is one; `None` where its recording must be read whole. Then,
    /// and on an error, the slot stays with the caller.
    fn decode(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        row: &mut DecodedRow,
        slot: &mut Option<AlignedBuf>,
    ) -> Result<Option<DecodedAudio>> {
        let step = row.read.attempt.step;
        let source = dataset.source(step.row.shard);
        let Some((k, spec)) = &source.audio else {
            let (value, crop) = (BlobValue::Null, RowCrop::default());
            return Ok(Some(DecodedAudio { value, crop, damage: None }));
        };
        let id = step.row;
        let shard = dataset.shards.get(id.shard as usize);
        let of_row = (&*row.read.table, row.read.table_row);
        let row_spec = RowSpec::new(dataset, spec, step, of_row)?;
        let spec = row_spec.spec(spec);
        let blob = row.read.blobs.get(*k);
        let whole_plan;
        let (recording, plan) = match blob {
            Some(RawBlob::Parts(parts)) => (Recording::Parts(parts), parts.plan.plan()),
            blob => {
                let bytes = blob.and_then(RawBlob::as_slice);
                let bytes = bytes.ok_or_else(|| why_unread(spec, blob))?;
                whole_plan = self.plan_whole(decoder, bytes, spec, row_spec.draw, &row.read)?;
                if row.read.is_unknown {
                    self.context.metrics.spared(whole_plan.spared_bytes(bytes.len() as u64));
                }
                (Recording::Whole(bytes), &whole_plan)
            }
        };
        let codec = plan.info().codec;
        let frames = plan.crop();
        let crop = RowCrop {
            start_s: frames.start as f64 / f64::from(plan.rate_hz()),
            n_frames: frames.end - frames.start,
            ..row_spec.crop
        };
        let (value, report) = if let Some(slot) = slot {
            (None, recording.render(decoder, plan, slot.as_bytes_mut())?)
        } else {
            let shape = match spec.channels {
                Channels::Mono => vec![plan.n_frames()],
                _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
            };
            let mut buf = AlignedBuf::zeroed(plan.n_bytes())?;
            let report = recording.render(decoder, plan, buf.as_bytes_mut())?;
            let account = &self.context.account;
            let decoding = row.read.decoding.get_or_insert_with(|| account.take(0));
            let permit: Permit = decoding.split(plan.n_bytes());
            (Some(BlobValue::Own(Buffer::with_permit(buf, permit), shape)), report)
        };
        let Some(report) = report else {
            if let Some(RawBlob::Parts(parts)) = row.read.blobs.get(*k) {
                self.context.audio_index.forget(id.shard, parts.start);
            }
            return Ok(None);
        };
        report.check_missing(codec, source.max_missing)?;
        let damage = (!report.damage.is_empty()).then(|| {
            let shard = shard.map(|shard| Arc::clone(shard.name())).unwrap_or_default();
            Box::new(DamagedRow { shard, row: id.row, codec, report })
        });
        let in_slot = || slot.take().map_or(BlobValue::Null, BlobValue::Slot);
        Ok(Some(DecodedAudio { value: value.unwrap_or_else(in_slot), crop, damage }))
    }

    /// The plan of a recording that was read whole, of which what is worth knowing is remembered.
    fn plan_whole(
        &self,
        decoder: &mut Decoder,
        bytes: &[u8],
        spec: &AudioSpec,
        draw: u64,
        row: &EncodedRow,
    ) -> Result<Plan> {
        let Some(start) = row.learns else { return Ok(decoder.plan(bytes, spec, draw)?) };
        let planned = decoder.plan_and_learn(bytes, spec, draw);
        let found = planned.as_ref().map(|(_, entry)| entry.as_ref());
        let shard = row.attempt.step.row.shard;
        self.context.audio_index.learned(shard, start, found);
        Ok(planned?.0)
    }
}

/// What was read of a recording.
#[derive(Clone, Copy, Debug)]
enum Recording<'a> {
    Whole(&'a [u8]),
    Parts(&'a Parts),
}

impl Recording<'_> {
    /// Decodes what was planned of it; `None` where it must be read whole.
    fn render(
        self,
        decoder: &mut Decoder,
        plan: &Plan,
        out: &mut [u8],
    ) -> Result<Option<DecodeReport>> {
        Ok(match self {
            Self::Whole(bytes) => Some(decoder.render_bytes(bytes, plan, out)?),
            Self::Parts(parts) => {
                let bytes: Vec<&[u8]> = parts.bytes.iter().map(AsRef::as_ref).collect();
                decoder.render_part(&bytes, &parts.plan, out)?
            }
        })
    }
}

/// Why a row has no recording.
fn why_unread(spec: &AudioSpec, blob: Option<&RawBlob>) -> DecodeError {
    let reason = match blob {
        Some(RawBlob::Unreadable(reason)) => Some(reason.clone()),
        Some(RawBlob::TooLong(n_bytes)) => spec.limits.check_bytes(*n_bytes).err(),
        _ => None,
    };
    reason.unwrap_or(Reason::Null).of_unknown()
}

/// A row that was read, and the outcome of decoding it.
#[derive(Debug)]
pub(crate) struct DecodedRow {
    pub(crate) read: EncodedRow,
    pub(crate) crop: RowCrop,
    pub(crate) bad: Vec<BadRow>,
    pub(crate) outcome: RowOutcome,
}

impl DecodedRow {
    pub(crate) fn new(mut read: EncodedRow) -> Self {
        let bad = std::mem::take(&mut read.attempt.bad);
        let is_padding = read.attempt.is_padding;
        let part = read.attempt.step.part.filter(|_| !is_padding);
        let part = part.map(|part| (part.number, part.count));
        let (number, count) = part.unwrap_or_default();
        let crop = RowCrop { number, count, ..RowCrop::default() };
        let outcome = if is_padding { RowOutcome::Padding } else { RowOutcome::Valid };
        Self { read, crop, bad, outcome }
    }

    /// The finished row with all of its blobs encoded.
    pub(crate) fn encoded(self, account: &Arc<Account>) -> Result<Row> {
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
        let decoded = dataset.first_source().audio.as_ref().map(|(k, _)| *k);
        self.with_blobs(decoded.map(|k| (k, audio)), account, damage)
    }

    fn with_blobs(
        self,
        mut audio: Option<(usize, BlobValue)>,
        account: &Arc<Account>,
        damage: Option<Box<DamagedRow>>,
    ) -> Result<Row> {
        let Self { read, crop, bad, outcome } = self;
        let EncodedRow { attempt, table, table_row, blobs, .. } = read;
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
        Ok(Row { id, table, index: table_row, blobs, damage, crop, bad, outcome })
    }
}

/// Zeros in the slot; no frames where rows have no slots.
fn masked(dataset: &Dataset, slot: &mut Option<AlignedBuf>) -> BlobValue {
    if let Some(mut slot) = slot.take() {
        slot.as_bytes_mut().fill(0);
        return BlobValue::Slot(slot);
    }
    let shape = match dataset.first_source().audio.as_ref().map(|(_, spec)| spec.channels) {
        Some(Channels::Exact(n)) => vec![usize::from(n), 0],
        Some(Channels::Keep) => vec![1, 0],
        Some(Channels::Mono) | None => vec![0],
    };
    BlobValue::Own(Buffer::default(), shape)
}
