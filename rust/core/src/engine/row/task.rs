//! A row between its claim and its place in a batch.

use std::sync::Arc;

use arrow_buffer::Buffer as ArrowBuffer;

use super::{
    crop::CropSpec,
    plan::{Need, TableRead},
};
use crate::{
    batch::{BadRow, BlobValue, Row, RowCrop, RowExtras, RowOutcome},
    engine::cache::Recording,
    error::{Error, Result},
    memory::{Account, Buffer, Permit},
    order::Step,
    shard::Table,
};
use gristmill_audio::{DecodeError, PartPlan, Reason};

/// A row on its way.
#[derive(Debug)]
pub(crate) struct RowTask {
    /// Its index in the stream.
    pub(crate) index: u64,
    pub(crate) attempt: Attempt,
    pub(crate) stage: Stage,
}

/// The row that is read for an index of the stream: that of the order, or a substitute.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) step: Step,
    /// The rows that could not be used: those tried before, and this one if it is delivered without audio.
    pub(crate) bad: Vec<BadRow>,
    /// The error of the first of them.
    pub(crate) error: Option<Error>,
    /// Substitutes that were tried, this one included.
    pub(crate) n_tried: u64,
    pub(crate) outcome: RowOutcome,
    /// Whether to read the whole recording, because a part of it turned out not to match the audio index.
    pub(crate) is_whole: bool,
}

/// How far a row is.
#[derive(Debug)]
pub(crate) enum Stage {
    /// Nothing was done.
    New,
    /// Its table is needed.
    Table(TableRead),
    /// Bytes are needed.
    Need(Need),
    /// Everything was read. Memory for decoding may be needed.
    Ready(Ready),
    /// Its audio cannot be used: what to deliver in its place is needed.
    Bad(Ready, Error),
}

/// The table of a row and its blobs: what decoding needs of the shards.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) table: Arc<Table>,
    /// The row's index in the table.
    pub(crate) table_row: usize,
    /// What is decoded of it; `None` where nothing is.
    pub(crate) crop: Option<Result<CropSpec, DecodeError>>,
    /// In the order of their columns.
    pub(crate) blobs: Vec<RawBlob>,
    /// For the memory that decoding takes, where rows have no slots.
    pub(crate) decoding: Option<Permit>,
    /// What no audio index has of the recordings that were read whole.
    pub(crate) unindexed: Vec<Unindexed>,
}

/// A recording that was read whole and is in no audio index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Unindexed {
    /// The number of its blob.
    pub(crate) blob: usize,
    /// Where it begins in the shard, if the audio index should get its entry.
    pub(crate) learns: Option<u64>,
    /// Whether that is the only reason why all of it was read.
    pub(crate) is_unknown: bool,
}

/// The bytes of one blob of a row.
#[derive(Debug)]
pub(crate) enum RawBlob {
    /// Null.
    Null,
    /// Read for this row alone.
    Own(Buffer),
    /// Shared with other parts of the recording.
    Recording(Recording),
    /// Part of a body that was decompressed as a whole.
    Shared(ArrowBuffer),
    /// A recording of this many bytes, more than its limit, which was not read.
    TooLong(u64),
    /// The row names a file that cannot be used.
    Unreadable(Reason),
    /// The parts of the recording that the crop needs.
    Parts(Box<Parts>),
    /// It was decoded.
    Decoded(BlobValue),
}

/// Parts of a recording.
#[derive(Debug)]
pub(crate) struct Parts {
    pub(crate) plan: PartPlan,
    /// The bytes of the plan's ranges.
    pub(crate) bytes: Vec<Buffer>,
    /// Where the recording begins in the shard.
    pub(crate) start: u64,
}

/// What decoding adds to a row.
#[derive(Debug, Default)]
pub(crate) struct Finish {
    /// The part of the first recording; `None` for that of the order.
    pub(crate) crop: Option<RowCrop>,
    pub(crate) extras: RowExtras,
}

impl RowTask {
    pub(crate) fn new(index: u64, attempt: Attempt) -> Self {
        Self { index, attempt, stage: Stage::New }
    }

    /// Takes what was read.
    ///
    /// # Errors
    ///
    /// Where something was not read yet.
    pub(crate) fn take_ready(&mut self) -> Result<Ready> {
        match std::mem::replace(&mut self.stage, Stage::New) {
            Stage::Ready(ready) => Ok(ready),
            _ => Err(Error::internal("a row was not read to its end")),
        }
    }

    /// Bytes that it holds once it is read, those for decoding included.
    pub(crate) fn n_bytes(&self) -> usize {
        let Stage::Ready(ready) = &self.stage else { return 0 };
        let blobs = ready.blobs.iter().filter_map(RawBlob::n_bytes).sum::<u64>() as usize;
        blobs.saturating_add(ready.decoding.as_ref().map_or(0, Permit::n_bytes))
    }

    /// The row with all of its blobs encoded.
    pub(crate) fn into_encoded(mut self, account: &Arc<Account>) -> Result<Row> {
        let ready = self.take_ready()?;
        ready.finish(self.attempt, account, Finish::default())
    }
}

impl Attempt {
    /// The row of the order.
    pub(crate) fn first(step: Step) -> Self {
        let (bad, error, n_tried) = (Vec::new(), None, 0);
        Self { step, bad, error, n_tried, outcome: RowOutcome::Valid, is_whole: false }
    }

    /// A row that only fills up the last batch.
    pub(crate) fn padding(step: Step) -> Self {
        Self { outcome: RowOutcome::Padding, ..Self::first(step) }
    }

    /// Whether the row only fills up the last batch.
    pub(crate) fn is_padding(&self) -> bool {
        self.outcome == RowOutcome::Padding
    }
}

impl Ready {
    /// A row of this table, of which no blobs are wanted.
    pub(crate) fn without_blobs(table: Arc<Table>, table_row: usize) -> Self {
        let (crop, blobs, decoding, unindexed) = (None, Vec::new(), None, Vec::new());
        Self { table, table_row, crop, blobs, decoding, unindexed }
    }

    /// This blob was decoded.
    pub(crate) fn set_decoded(&mut self, blob: usize, value: BlobValue) {
        if let Some(of_row) = self.blobs.get_mut(blob) {
            *of_row = RawBlob::Decoded(value);
        }
    }

    /// The finished row. Blobs that were not decoded stay encoded.
    pub(crate) fn finish(
        self,
        attempt: Attempt,
        account: &Arc<Account>,
        Finish { crop, extras }: Finish,
    ) -> Result<Row> {
        let Attempt { step, bad, outcome, .. } = attempt;
        let values = self.blobs.into_iter().map(|blob| match blob {
            RawBlob::Decoded(value) => Ok(value),
            _ if outcome == RowOutcome::Skipped => Ok(BlobValue::Null),
            blob => blob.into_value(account),
        });
        let blobs = values.collect::<Result<_>>()?;
        let part = step.part.filter(|_| outcome != RowOutcome::Padding);
        let (number, count) = part.map(|part| (part.number, part.count)).unwrap_or_default();
        let crop = crop.unwrap_or(RowCrop { number, count, ..RowCrop::default() });
        let (table, index) = (self.table, self.table_row);
        let extras = extras.boxed();
        Ok(Row { id: step.row, table, index, blobs, crop, extras, bad, outcome })
    }
}

impl RawBlob {
    /// The bytes; `None` for null, and for a recording that was not read, or not as a whole.
    pub(crate) fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Self::Null
            | Self::TooLong(_)
            | Self::Unreadable(_)
            | Self::Parts(_)
            | Self::Decoded(_) => None,
            Self::Own(bytes) => Some(bytes.as_ref()),
            Self::Recording(recording) => Some(recording.as_slice()),
            Self::Shared(buffer) => Some(buffer.as_slice()),
        }
    }

    /// The number of bytes; `None` for null.
    pub(crate) fn n_bytes(&self) -> Option<u64> {
        match self {
            Self::TooLong(n_bytes) => Some(*n_bytes),
            Self::Parts(parts) => Some(parts.plan.n_bytes()),
            other => other.as_slice().map(|bytes| bytes.len() as u64),
        }
    }

    /// The bytes in memory of their own; shared ones are copied.
    fn into_value(self, account: &Arc<Account>) -> Result<BlobValue> {
        Ok(match self {
            Self::Null | Self::TooLong(_) | Self::Unreadable(_) | Self::Parts(_) => BlobValue::Null,
            Self::Decoded(value) => value,
            Self::Own(bytes) => BlobValue::Bytes(bytes),
            Self::Recording(whole) => BlobValue::Bytes(copy_of(whole.as_slice(), account)?),
            Self::Shared(buffer) => BlobValue::Bytes(copy_of(&buffer, account)?),
        })
    }
}

/// A copy, with a permit even beyond the budget.
pub(crate) fn copy_of(bytes: &[u8], account: &Arc<Account>) -> Result<Buffer> {
    let mut copy = account.buffer(bytes.len(), account.take(bytes.len()))?;
    copy.as_bytes_mut().copy_from_slice(bytes);
    Ok(copy)
}
