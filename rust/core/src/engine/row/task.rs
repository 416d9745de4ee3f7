//! A row between its claim and its slot in a batch.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use arrow_buffer::Buffer as ArrowBuffer;

use crate::{
    batch::{BadRow, BlobValue},
    engine::cache::{Recording, RowInBlock},
    error::{Error, Result},
    memory::{Account, Buffer, Permit},
    order::Step,
    shard::Table,
    store::RangeReader,
};
use gristmill_audio::{PartPlan, Reason};

/// A row that is being read.
#[derive(Debug)]
pub(crate) struct RowTask {
    /// Its index in the stream.
    pub(crate) index: u64,
    pub(crate) attempt: Attempt,
    pub(crate) stage: ReadStage,
}

/// The row that is read for an index of the stream: that of the order, or a substitute.
#[derive(Debug)]
pub(crate) struct Attempt {
    pub(crate) step: Step,
    /// The rows that were tried before and could not be used.
    pub(crate) bad: Vec<BadRow>,
    /// The error of the first of them.
    pub(crate) error: Option<Error>,
    /// Substitutes that were tried, this one included.
    pub(crate) n_tried: u64,
    /// Whether the row only fills up the last batch.
    pub(crate) is_padding: bool,
    /// Whether its recording is read whole though a part of it would do: that was not what it should be.
    pub(crate) is_whole: bool,
}

impl Attempt {
    /// The row of the order.
    pub(crate) fn first(step: Step) -> Self {
        let (bad, error, n_tried) = (Vec::new(), None, 0);
        Self { step, bad, error, n_tried, is_padding: false, is_whole: false }
    }
}

/// The progress of reading a row.
#[derive(Debug)]
pub(crate) enum ReadStage {
    /// Nothing was done.
    Start,
    /// It is read without the rest of its record batch.
    Alone,
    /// Its table is needed.
    Table,
    /// Its blobs are needed.
    Blobs(Located),
    /// Memory for decoding it is needed.
    Decoding(Located),
}

/// A row whose table is loaded.
#[derive(Debug)]
pub(crate) struct Located {
    pub(crate) table: Arc<Table>,
    /// The row's index in the table.
    pub(crate) table_row: usize,
    /// The blobs that are not read yet, in the order of their columns.
    pub(crate) pending: VecDeque<BlobLocation>,
    /// The blobs before them.
    pub(crate) blobs: Vec<RawBlob>,
    /// For the pending blobs, or for decoding; `None` before it was granted.
    pub(crate) permit: Option<Permit>,
    /// Where the recording begins in the shard, if what is learned of it is worth keeping.
    pub(crate) learns: Option<u64>,
    /// Whether the recording is read whole, by itself, since no audio index tells which part would do.
    pub(crate) is_unknown: bool,
}

/// Where a blob is.
#[derive(Debug)]
pub(crate) enum BlobLocation {
    /// In memory.
    Loaded(RawBlob),
    /// At this range of the shard.
    InFile(Range<u64>),
    /// In a block of small blobs, or in a recording that its windows share; of that these parts.
    InBlock(RowInBlock, Option<Box<PartPlan>>),
    /// The whole of this file.
    OwnFile(Box<RangeReader>),
    /// These parts of the recording at this range of the shard.
    Parts(Box<PartPlan>, Range<u64>),
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

impl RawBlob {
    /// The bytes; `None` for null, and for a recording that was not read, or not as a whole.
    pub(crate) fn as_slice(&self) -> Option<&[u8]> {
        match self {
            Self::Null | Self::TooLong(_) | Self::Unreadable(_) | Self::Parts(_) => None,
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
    pub(crate) fn into_value(self, account: &Arc<Account>) -> Result<BlobValue> {
        Ok(match self {
            Self::Null | Self::TooLong(_) | Self::Unreadable(_) | Self::Parts(_) => BlobValue::Null,
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

/// A row that is read, and waits to be decoded.
#[derive(Debug)]
pub(crate) struct EncodedRow {
    pub(crate) attempt: Attempt,
    pub(crate) table: Arc<Table>,
    pub(crate) table_row: usize,
    pub(crate) blobs: Vec<RawBlob>,
    /// For the memory that decoding takes, where rows have no slots.
    pub(crate) decoding: Option<Permit>,
    /// As in [`Located`].
    pub(crate) learns: Option<u64>,
    /// As in [`Located`].
    pub(crate) is_unknown: bool,
}

impl EncodedRow {
    /// Bytes that it holds, those for decoding included.
    pub(crate) fn n_bytes(&self) -> usize {
        let blobs = self.blobs.iter().filter_map(RawBlob::n_bytes).sum::<u64>() as usize;
        blobs.saturating_add(self.decoding.as_ref().map_or(0, Permit::n_bytes))
    }
}
