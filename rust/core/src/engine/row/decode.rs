//! Decoding a row that was read: without I/O, and without a change to any cache. What is worth remembering
//! of a recording is returned, before it is decoded: other rows of it may be planned by then.

use std::sync::Arc;

use super::{
    crop::crop_of_others,
    slots::Slots,
    task::{Attempt, Finish, Parts, RawBlob, Ready},
};
use crate::{
    batch::{BlobValue, DamagedRow, RowCrop, RowOutcome},
    engine::dataset::{AudioColumn, Dataset},
    error::{Error, Result},
    memory::{Account, AlignedBuf, Buffer},
    shard::Shard,
};
use gristmill_audio::{
    AudioSpec, Channels, DecodeError, DecodeReport, Decoder, Entry, Plan, Reason,
};

/// What is decoded of a row's recording in one column.
#[derive(Debug)]
struct Planned<'a> {
    column: &'a AudioColumn,
    /// The plan of a whole recording. That of parts is beside their bytes.
    whole: Option<Plan>,
}

/// What planning a row has told of its recording.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// What was found in the recording that begins at this byte of the shard.
    pub(crate) entry: Option<(u64, Result<Option<Entry>, DecodeError>)>,
    /// Bytes that were read and that a part would not have needed.
    pub(crate) spared: Option<u64>,
}

/// What comes of decoding a row.
#[derive(Debug)]
pub(crate) enum Decoded {
    /// Its audio.
    Done(Finish),
    /// The parts of the recording that begins at this byte of the shard are not what the audio index says: all
    /// of it must be read.
    Again(u64),
}

/// Decodes the recordings of a row one after another, into `slots` if there are some, or else into memory of the
/// row's permit. What planning each has told goes to `learn` before it is decoded. On an error, and where the row
/// must be read again, the slots stay with the caller.
///
/// # Errors
///
/// Those of decoding, and why the row lacks a recording.
pub(crate) fn decode(
    dataset: &Dataset,
    decoder: &mut Decoder,
    (attempt, ready): (&Attempt, &mut Ready),
    (slots, account): (&mut Option<Slots>, &Arc<Account>),
    learn: impl Fn(Learned),
) -> Result<Decoded> {
    let id = attempt.step.row;
    let source = dataset.source(id.shard);
    let mut finish = Finish { crop: Some(RowCrop::default()), ..Finish::default() };
    let Some(of_row) = ready.crop.take().transpose()? else {
        source.audio.iter().for_each(|column| ready.set_decoded(column.blob, BlobValue::Null));
        return Ok(Decoded::Done(finish));
    };
    let mut of_others = None;
    for (n, column) in source.audio.iter().enumerate() {
        let in_column = |error| source.in_column(column, error);
        let of_other = of_others.filter(|_| n > 0);
        let of_other = of_other.map(|crop| AudioSpec { crop, ..column.spec.clone() });
        let (spec, draw) = match &of_other {
            Some(spec) => (spec, 0),
            None => (of_row.spec(&column.spec), of_row.draw),
        };
        let mut learned = Learned::default();
        let planned = plan(decoder, column, ready, (spec, draw), &mut learned);
        learn(learned);
        let planned = planned.map_err(in_column)?;
        let recording = planned.recording(ready).map_err(in_column)?;
        let plan = recording.plan();
        if n == 0 {
            of_others = crop_of_others(&column.spec, Some(plan));
        }
        let frames = plan.crop();
        let crop = RowCrop {
            start_s: frames.start as f64 / f64::from(plan.rate_hz()),
            n_frames: frames.end - frames.start,
            ..of_row.crop
        };
        let codec = plan.info().codec;
        let slot = slots.as_mut().and_then(|slots| slots.get_mut(n));
        let (value, report) = render(decoder, (column, recording), slot).map_err(in_column)?;
        let report = match report {
            Ok(report) => report,
            Err(Changed { start }) => return Ok(Decoded::Again(start)),
        };
        report.check_missing(codec, column.max_missing).map_err(|error| in_column(error.into()))?;
        if !report.damage.is_empty() {
            let shard = dataset.shards.get(id.shard as usize).map(Shard::name);
            let shard = shard.map(Arc::clone).unwrap_or_default();
            let name = (source.audio.len() > 1).then(|| Arc::clone(&column.name));
            finish.extras.damage.push(DamagedRow {
                shard,
                row: id.row,
                column: name,
                codec,
                report,
            });
        }
        if let Some((buf, shape)) = value {
            let decoding = ready.decoding.get_or_insert_with(|| account.take(0));
            let permit = decoding.split(buf.as_bytes().len());
            let value = BlobValue::Own(Buffer::with_permit(buf, permit), shape);
            ready.set_decoded(column.blob, value);
        }
        match n {
            0 => finish.crop = Some(crop),
            _ => finish.extras.other_crops.push(crop),
        }
    }
    for (column, slot) in source.audio.iter().zip(slots.take().into_iter().flatten()) {
        ready.set_decoded(column.blob, BlobValue::Slot(slot));
    }
    Ok(Decoded::Done(finish))
}

/// Plans what is decoded of a row's recording in a column, and adds to `learned` what that tells of it.
///
/// # Errors
///
/// Those of planning, and why the row has no recording.
fn plan<'a>(
    decoder: &mut Decoder,
    column: &'a AudioColumn,
    ready: &Ready,
    (spec, draw): (&AudioSpec, u64),
    learned: &mut Learned,
) -> Result<Planned<'a>> {
    let whole = match ready.blobs.get(column.blob) {
        Some(RawBlob::Parts(_)) => None,
        blob => {
            let bytes = blob.and_then(RawBlob::as_slice);
            let bytes = bytes.ok_or_else(|| why_unread(spec, blob))?;
            let unindexed = ready.unindexed.iter().find(|of| of.blob == column.blob);
            let learns = unindexed.and_then(|of| of.learns);
            let plan = plan_whole(decoder, (bytes, learns), (spec, draw), learned)?;
            if unindexed.is_some_and(|of| of.is_unknown) {
                learned.spared = Some(plan.spared_bytes(bytes.len() as u64));
            }
            Some(plan)
        }
    };
    Ok(Planned { column, whole })
}

/// A decoded row with a buffer of its own, and its shape.
type OwnRow = (AlignedBuf, Vec<usize>);

/// Decodes what was planned of a recording, into `slot` or else into a buffer of its own.
///
/// # Errors
///
/// Those of decoding.
fn render(
    decoder: &mut Decoder,
    (column, recording): (&AudioColumn, Recording<'_>),
    slot: Option<&mut AlignedBuf>,
) -> Result<(Option<OwnRow>, Result<DecodeReport, Changed>)> {
    if let Some(slot) = slot {
        return Ok((None, recording.render(decoder, slot.as_bytes_mut())?));
    }
    let plan = recording.plan();
    let shape = match column.spec.channels {
        Channels::Mono => vec![plan.n_frames()],
        _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
    };
    let mut buf = AlignedBuf::zeroed(plan.n_bytes())?;
    let report = recording.render(decoder, buf.as_bytes_mut())?;
    Ok((Some((buf, shape)), report))
}

impl Planned<'_> {
    /// What was read of the recording, and the plan of it.
    fn recording<'a>(&'a self, ready: &'a Ready) -> Result<Recording<'a>> {
        match (ready.blobs.get(self.column.blob), &self.whole) {
            (Some(RawBlob::Parts(parts)), _) => Ok(Recording::Parts(parts)),
            (Some(blob), Some(plan)) => {
                Ok(Recording::Whole(blob.as_slice().unwrap_or_default(), plan))
            }
            _ => Err(Error::internal("a row has no plan")),
        }
    }
}

/// The plan of a recording that was read whole. If the audio index should get its entry, `learns` says where
/// the recording begins.
fn plan_whole(
    decoder: &mut Decoder,
    (bytes, learns): (&[u8], Option<u64>),
    (spec, draw): (&AudioSpec, u64),
    learned: &mut Learned,
) -> Result<Plan> {
    let Some(start) = learns else { return Ok(decoder.plan(bytes, spec, draw)?) };
    match decoder.plan_and_learn(bytes, spec, draw) {
        Ok((plan, entry)) => {
            learned.entry = Some((start, Ok(entry)));
            Ok(plan)
        }
        Err(error) => {
            learned.entry = Some((start, Err(error.clone())));
            Err(error.into())
        }
    }
}

/// What was read of a recording.
#[derive(Clone, Copy, Debug)]
enum Recording<'a> {
    Whole(&'a [u8], &'a Plan),
    Parts(&'a Parts),
}

/// The parts of the recording that begins here are not what they should be.
struct Changed {
    start: u64,
}

impl<'a> Recording<'a> {
    fn plan(self) -> &'a Plan {
        match self {
            Self::Whole(_, plan) => plan,
            Self::Parts(parts) => parts.plan.plan(),
        }
    }

    /// Decodes what was planned of it.
    fn render(
        self,
        decoder: &mut Decoder,
        out: &mut [u8],
    ) -> Result<Result<DecodeReport, Changed>> {
        match self {
            Self::Whole(bytes, plan) => Ok(Ok(decoder.render_bytes(bytes, plan, out)?)),
            Self::Parts(parts) => {
                let bytes: Vec<&[u8]> = parts.bytes.iter().map(AsRef::as_ref).collect();
                let report = decoder.render_part(&bytes, &parts.plan, out)?;
                Ok(report.ok_or(Changed { start: parts.start }))
            }
        }
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

/// A row without its audio: zeros in the slots, or no frames where the lengths of rows differ; nothing if it is
/// skipped.
///
/// # Errors
///
/// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
pub(crate) fn without_audio(
    dataset: &Dataset,
    (ready, outcome): (&mut Ready, RowOutcome),
    (slots, account): (&mut Option<Slots>, &Arc<Account>),
) -> Result<()> {
    let mut slots = slots.take().into_iter().flatten();
    // All data sets decode the same columns.
    for column in &dataset.first_source().audio {
        let value = match (slots.next(), outcome) {
            (Some(slot), RowOutcome::Skipped) => BlobValue::Slot(slot),
            (None, RowOutcome::Skipped) => BlobValue::Null,
            (Some(mut slot), _) => {
                slot.as_bytes_mut().fill(0);
                BlobValue::Slot(slot)
            }
            (None, _) => zeros(column, account)?,
        };
        ready.set_decoded(column.blob, value);
    }
    Ok(())
}

/// The zeros of a row without a slot.
fn zeros(column: &AudioColumn, account: &Arc<Account>) -> Result<BlobValue> {
    if let (Some(shape), Some(n_bytes)) = (&column.shape, column.row_bytes()) {
        let permit = account.take(n_bytes);
        let buf = AlignedBuf::zeroed(n_bytes)?;
        return Ok(BlobValue::Own(Buffer::with_permit(buf, permit), shape.clone()));
    }
    let shape = match column.spec.channels {
        Channels::Exact(n) => vec![usize::from(n), 0],
        Channels::Picked(picked) => vec![picked.places().len(), 0],
        Channels::Keep => vec![1, 0],
        Channels::Mono => vec![0],
    };
    Ok(BlobValue::Own(Buffer::default(), shape))
}
