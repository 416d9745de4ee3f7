//! Decoding a row that was read: without I/O, and without a change to any cache. What is worth remembering
//! of a recording is returned, before it is decoded: other rows of it may be planned by then.

use std::sync::Arc;

use super::{
    crop::CropSpec,
    task::{Attempt, Finish, Parts, RawBlob, Ready},
};
use crate::{
    batch::{BlobValue, DamagedRow, RowCrop, RowOutcome},
    engine::dataset::Dataset,
    error::{Error, Result},
    memory::{Account, AlignedBuf, Buffer},
    shard::Shard,
};
use gristmill_audio::{
    AudioSpec, Channels, DecodeError, DecodeReport, Decoder, Entry, Plan, Reason,
};

/// What is decoded of a row's recording.
#[derive(Debug)]
pub(crate) struct Planned {
    crop: CropSpec,
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

/// Plans what is decoded of a row, and adds to `learned` what that tells of its recording; `None` where nothing is
/// decoded.
///
/// # Errors
///
/// Those of planning, and why the row has no recording.
pub(crate) fn plan(
    dataset: &Dataset,
    decoder: &mut Decoder,
    (attempt, ready): (&Attempt, &mut Ready),
    learned: &mut Learned,
) -> Result<Option<Planned>> {
    let source = dataset.source(attempt.step.row.shard);
    let Some(((k, spec), crop)) = source.audio.as_ref().zip(ready.crop.take()) else {
        return Ok(None);
    };
    let crop = crop?;
    let spec = crop.spec(spec);
    let whole = match ready.blobs.get(*k) {
        Some(RawBlob::Parts(_)) => None,
        blob => {
            let bytes = blob.and_then(RawBlob::as_slice);
            let bytes = bytes.ok_or_else(|| why_unread(spec, blob))?;
            let plan = plan_whole(decoder, (bytes, ready.learns), (spec, crop.draw), learned)?;
            if ready.is_unknown {
                learned.spared = Some(plan.spared_bytes(bytes.len() as u64));
            }
            Some(plan)
        }
    };
    Ok(Some(Planned { crop, whole }))
}

/// Decodes what was planned of a row, into `slot` if there is one, or else into memory of the row's permit. On an
/// error, and where the row must be read again, the slot stays with the caller.
///
/// # Errors
///
/// Those of decoding.
pub(crate) fn render(
    dataset: &Dataset,
    decoder: &mut Decoder,
    (attempt, ready): (&Attempt, &mut Ready),
    planned: Option<Planned>,
    (slot, account): (&mut Option<AlignedBuf>, &Arc<Account>),
) -> Result<Decoded> {
    let id = attempt.step.row;
    let source = dataset.source(id.shard);
    let Some(((k, spec), Planned { crop: of_row, whole })) = source.audio.as_ref().zip(planned)
    else {
        let (audio, crop) = (with_audio(dataset, BlobValue::Null), Some(RowCrop::default()));
        return Ok(Decoded::Done(Finish { audio, crop, damage: None }));
    };
    let spec = of_row.spec(spec);
    let recording = match (ready.blobs.get(*k), &whole) {
        (Some(RawBlob::Parts(parts)), _) => Recording::Parts(parts),
        (Some(blob), Some(plan)) => Recording::Whole(blob.as_slice().unwrap_or_default(), plan),
        _ => return Err(Error::internal("a row has no plan")),
    };
    let plan = recording.plan();
    let codec = plan.info().codec;
    let frames = plan.crop();
    let crop = RowCrop {
        start_s: frames.start as f64 / f64::from(plan.rate_hz()),
        n_frames: frames.end - frames.start,
        ..of_row.crop
    };
    let (value, report) = if let Some(slot) = slot {
        (None, recording.render(decoder, slot.as_bytes_mut())?)
    } else {
        let shape = match spec.channels {
            Channels::Mono => vec![plan.n_frames()],
            _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
        };
        let mut buf = AlignedBuf::zeroed(plan.n_bytes())?;
        let report = recording.render(decoder, buf.as_bytes_mut())?;
        let decoding = ready.decoding.get_or_insert_with(|| account.take(0));
        let permit = decoding.split(plan.n_bytes());
        (Some(BlobValue::Own(Buffer::with_permit(buf, permit), shape)), report)
    };
    let report = match report {
        Ok(report) => report,
        Err(Changed { start }) => return Ok(Decoded::Again(start)),
    };
    report.check_missing(codec, source.max_missing)?;
    let damage = (!report.damage.is_empty()).then(|| {
        let shard = dataset.shards.get(id.shard as usize).map(Shard::name);
        let shard = shard.map(Arc::clone).unwrap_or_default();
        Box::new(DamagedRow { shard, row: id.row, codec, report })
    });
    let in_slot = || slot.take().map_or(BlobValue::Null, BlobValue::Slot);
    let audio = with_audio(dataset, value.unwrap_or_else(in_slot));
    Ok(Decoded::Done(Finish { audio, crop: Some(crop), damage }))
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

/// A row without its audio: zeros in the slot, or no frames where rows have no slots; nothing if it is skipped.
pub(crate) fn without_audio(
    dataset: &Dataset,
    outcome: RowOutcome,
    slot: &mut Option<AlignedBuf>,
) -> Finish {
    let value = match outcome {
        RowOutcome::Skipped => slot.take().map_or(BlobValue::Null, BlobValue::Slot),
        _ => zeros(dataset, slot),
    };
    Finish { audio: with_audio(dataset, value), ..Finish::default() }
}

/// This value as the decoded column of a row. All data sets decode the same column.
fn with_audio(dataset: &Dataset, value: BlobValue) -> Option<(usize, BlobValue)> {
    dataset.first_source().audio.as_ref().map(|(k, _)| (*k, value))
}

fn zeros(dataset: &Dataset, slot: &mut Option<AlignedBuf>) -> BlobValue {
    if let Some(mut slot) = slot.take() {
        slot.as_bytes_mut().fill(0);
        return BlobValue::Slot(slot);
    }
    let shape = match dataset.first_source().audio.as_ref().map(|(_, spec)| spec.channels) {
        Some(Channels::Exact(n)) => vec![usize::from(n), 0],
        Some(Channels::Picked(picked)) => vec![picked.places().len(), 0],
        Some(Channels::Keep) => vec![1, 0],
        Some(Channels::Mono) | None => vec![0],
    };
    BlobValue::Own(Buffer::default(), shape)
}
