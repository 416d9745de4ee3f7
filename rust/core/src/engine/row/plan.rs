//! What a row lacks: its table, then bytes of its blobs, then memory for decoding. Without I/O.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Mutex},
};

use super::{
    crop::{CropSpec, crop_of_others},
    task::{Attempt, RawBlob, Ready, Unindexed},
};
use crate::{
    engine::{
        cache::{BatchId, BlockCache, Known, RowInBlock},
        dataset::{AudioColumn, Dataset, Source},
        wait::WaitFor,
    },
    error::{Error, Result},
    memory::Permit,
    order::RowId,
    shard::{Blob, Shard, Table},
    store::RangeReader,
    sync::lock_std,
};
use gristmill_audio::{
    self as audio, AudioInfo, AudioSpec, Channels, Decoder, Entry, PartPlan, Reason, SampleType,
};

/// How the table of one or more rows is read.
#[derive(Clone, Debug)]
pub(crate) enum TableRead {
    /// With the rest of their record batch, through the cache.
    Whole(BatchId),
    /// These rows of the record batch alone, which take about so many bytes.
    Rows(BatchId, Range<usize>, usize),
}

/// The bytes that a row lacks, beside what was read of it.
#[derive(Debug)]
pub(crate) struct Need {
    /// The row, with the blobs that were fetched.
    pub(crate) ready: Ready,
    /// The blobs behind those, in the order of their columns.
    pub(crate) fetches: VecDeque<Fetch>,
    /// The memory that they take, without what is shared with other rows.
    pub(crate) n_bytes: usize,
    /// That memory, once it was granted.
    pub(crate) own: Option<Permit>,
}

/// How one blob of a row is fetched.
#[derive(Debug)]
pub(crate) enum Fetch {
    /// Not at all: this is in memory.
    Nothing(RawBlob),
    /// From this range of the shard.
    Blob(Range<u64>),
    /// These parts of the recording in this range of the shard.
    Parts(Box<PartPlan>, Range<u64>),
    /// Out of a block of small blobs, or out of a recording that its windows share: of that, these parts.
    Block(RowInBlock, Option<Box<PartPlan>>),
    /// The whole of this file.
    File(Box<RangeReader>),
}

/// What is known of a row's recording before it is fetched.
#[derive(Debug)]
pub(crate) struct Facts {
    /// What the audio index has of it.
    pub(crate) known: Known,
    /// The file that the row names, or why that cannot be used.
    pub(crate) file: Option<Result<RangeReader, Reason>>,
}

impl Facts {
    /// Nothing that could spare reading it whole.
    pub(crate) const NONE: Self = Self { known: Known::Nothing, file: None };
}

/// Decoders that plan parts of recordings, while no thread does.
#[derive(Debug, Default)]
pub(crate) struct Planners(Mutex<Vec<Decoder>>);

impl Planners {
    /// Which bytes of a recording a row needs; `None` where it is read whole.
    fn plan(&self, entry: &Entry, spec: &AudioSpec, draw: u64) -> Option<PartPlan> {
        let mut planner = lock_std(&self.0).pop().unwrap_or_default();
        let plan = planner.plan_part(entry, spec, draw);
        lock_std(&self.0).push(planner);
        plan
    }
}

/// The record batch of a row, and the row's number in it.
pub(crate) fn place_of(shard: &Shard, id: RowId) -> Result<(BatchId, usize)> {
    let located = shard.locate(id.row);
    let (batch, row) = located.ok_or_else(|| Error::corrupt("the row is in no record batch"))?;
    Ok(((id.shard, batch), row))
}

/// How the table of a row is read. `is_in_turn` tells whether the row follows the one that was wanted before,
/// so that the rest of its record batch is probably wanted as well.
pub(crate) fn table_read(
    source: &Source,
    (batch, table_row): (BatchId, usize),
    is_in_turn: impl FnOnce() -> bool,
) -> TableRead {
    match source.row_alone_bytes {
        Some(n_bytes) if !is_in_turn() => TableRead::Rows(batch, table_row..table_row + 1, n_bytes),
        _ => TableRead::Whole(batch),
    }
}

/// What is fetched of the row of `attempt`, which is this row of its table, of this record batch. `facts` has
/// what is known of the recording of a column, the n-th that is decoded.
///
/// # Errors
///
/// Those of `facts`; [`ErrorKind::Limit`](crate::ErrorKind::Limit) for more bytes than there are addresses.
pub(crate) fn need(
    dataset: &Dataset,
    attempt: &Attempt,
    (table, table_row, batch): (Arc<Table>, usize, BatchId),
    mut facts: impl FnMut(&Table, usize, &AudioColumn) -> Result<Facts>,
    (blocks, planners): (Option<&BlockCache>, &Planners),
) -> Result<Need> {
    let source = dataset.source(batch.0);
    let first = source.audio.first().filter(|_| !attempt.is_padding());
    let crop =
        first.map(|first| CropSpec::new(dataset, &first.spec, attempt.step, (&table, table_row)));
    let mut of_others = first.and_then(|first| crop_of_others(&first.spec, None));
    let (mut n_bytes, mut unindexed) = (0_u64, Vec::new());
    let mut fetches = VecDeque::with_capacity(dataset.blobs.len());
    for k in 0..dataset.blobs.len() {
        let column = source.column_of(k).filter(|_| !attempt.is_padding());
        let Facts { known, file } =
            column.map_or(Ok(Facts::NONE), |(n, column)| facts(&table, n, column))?;
        let fetch = match table.blob(k, table_row).filter(|_| !attempt.is_padding()) {
            None => match file {
                Some(Ok(file)) if source.is_too_long(k, file.len()) => {
                    Fetch::Nothing(RawBlob::TooLong(file.len()))
                }
                Some(Ok(file)) => {
                    n_bytes = n_bytes.saturating_add(file.len());
                    Fetch::File(Box::new(file))
                }
                Some(Err(reason)) => Fetch::Nothing(RawBlob::Unreadable(reason)),
                None => Fetch::Nothing(RawBlob::Null),
            },
            Some(Blob::Bytes(buffer)) => Fetch::Nothing(RawBlob::Shared(buffer)),
            Some(Blob::Range(range)) if source.is_too_long(k, range.end - range.start) => {
                Fetch::Nothing(RawBlob::TooLong(range.end - range.start))
            }
            Some(Blob::Range(range)) => {
                let (place, part) = ((k, table_row), attempt.step.part);
                let block = blocks.and_then(|blocks| {
                    blocks.block_of(&source.order, &table, batch, place, &range, part)
                });
                let is_shared = block.as_ref().is_some_and(|block| block.is_shared);
                let plan = match (column, known) {
                    // A shared recording is read once for all of its windows, and each window walks over
                    // its own parts of it alone.
                    (Some((0, column)), Known::Entry(entry)) if is_shared || block.is_none() => {
                        // What is wrong with the row is told when it is decoded.
                        let crop = crop.as_ref().and_then(|crop| crop.as_ref().ok());
                        let plan = crop.and_then(|crop| {
                            planners.plan(&entry, crop.spec(&column.spec), crop.draw)
                        });
                        of_others = crop_of_others(&column.spec, plan.as_ref().map(PartPlan::plan));
                        plan
                    }
                    (Some((_, column)), Known::Entry(entry)) if is_shared || block.is_none() => {
                        of_others.and_then(|crop| {
                            let spec = AudioSpec { crop, ..column.spec.clone() };
                            planners.plan(&entry, &spec, 0)
                        })
                    }
                    (None, _) | (_, Known::Nothing | Known::Entry(_)) => None,
                    (Some(_), unknown) => {
                        let learns = matches!(unknown, Known::Unseen).then_some(range.start);
                        // Rows share blocks, and windows share a recording.
                        let is_unknown = block.is_none();
                        unindexed.push(Unindexed { blob: k, learns, is_unknown });
                        None
                    }
                };
                let plan = plan.map(Box::new);
                n_bytes = n_bytes.saturating_add(match &plan {
                    Some(plan) => plan.n_bytes(),
                    None if is_shared => 0,
                    None => range.end - range.start,
                });
                match (block, plan) {
                    (Some(block), plan) => Fetch::Block(block, plan),
                    (None, Some(plan)) => Fetch::Parts(plan, range),
                    (None, None) => Fetch::Blob(range),
                }
            }
        };
        fetches.push_back(fetch);
    }
    let n_bytes = usize::try_from(n_bytes)
        .map_err(|_| Error::limit("the row is larger than the address space"))?;
    let (blobs, decoding) = (Vec::with_capacity(fetches.len()), None);
    let ready = Ready { table, table_row, crop, blobs, decoding, unindexed };
    Ok(Need { ready, fetches, n_bytes, own: None })
}

/// What a row that was fetched must wait for: memory that decoding it takes, where its batch has no slots for
/// it. That follows from the recordings' headers; one whose header does not parse needs none.
pub(crate) fn wait_for_decoding(dataset: &Dataset, shard: u32, ready: &Ready) -> Option<WaitFor> {
    if !dataset.slot_sizes.is_empty() {
        return None;
    }
    let needs = dataset.source(shard).audio.iter().filter_map(|column| {
        let info = match ready.blobs.get(column.blob)? {
            RawBlob::Parts(parts) => *parts.plan.plan().info(),
            blob => audio::probe(blob.as_slice()?).ok()?,
        };
        Some(decoded_bytes(&column.spec, &info))
    });
    let n_bytes = needs.fold(0, usize::saturating_add);
    (n_bytes > 0).then_some(WaitFor::Bytes { n_bytes, from_reserve: false })
}

/// The bytes that decoding a recording takes: its samples at its own rate and at the target's as
/// `f32`, and the result's if it has another type.
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
        Channels::Picked(picked) => picked.places().len() as u16,
    };
    ((seconds * bytes_per_s) as usize).saturating_mul(usize::from(channels))
}
