//! A row between its claim and its place in a batch.

use std::{collections::VecDeque, ops::Range, sync::Arc};

use arrow_buffer::Buffer as ArrowBuffer;

use super::{queue::Items, runs::InRun, whole::BatchReading};
use crate::{
    batch::{BadRow, Batch, BlobValue, Row},
    error::{Error, Result},
    memory::{Account, AlignedBuf, Buffer, Lease, Permit},
    order::Step,
    shard::Table,
};

/// What passes through the queue of a stream.
#[derive(Debug)]
pub(super) struct Flow;

impl Items for Flow {
    type Parked = Reading;
    type Read = ReadRow;
    type Row = Row;
    type Slot = AlignedBuf;
    type Rest = Lease;
    type Batch = Batch;
}

/// What a reader has of the rows that it claimed.
#[derive(Debug)]
pub(super) enum Reading {
    /// One row.
    Row(Box<RowReading>),
    /// A batch of rows that have no bytes of their own.
    Batch(Box<BatchReading>),
}

/// A row whose bytes are not all here.
#[derive(Debug)]
pub(super) struct RowReading {
    pub(super) index: u64,
    pub(super) attempt: Attempt,
    pub(super) stage: Stage,
}

/// The row that is read for a place of the stream.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) step: Step,
    /// The rows before it that could not be used in this place.
    pub(super) bad: Vec<BadRow>,
    /// What was wrong with the first of them.
    pub(super) error: Option<Error>,
    /// Substitutes that were tried, this one included.
    pub(super) n_tried: u64,
}

impl Attempt {
    /// The row that the order has there.
    pub(super) fn first(step: Step) -> Self {
        Self { step, bad: Vec::new(), error: None, n_tried: 0 }
    }
}

/// How far the reading of a row has come.
#[derive(Debug)]
pub(super) enum Stage {
    /// Its table is needed.
    Table,
    /// Its bytes are needed.
    Bytes(Located),
    /// What decoding will take is needed.
    Decoding(Located),
}

/// A row whose place in its shard is known.
#[derive(Debug)]
pub(super) struct Located {
    pub(super) table: Arc<Table>,
    /// The row's index in the table.
    pub(super) place: usize,
    /// Blobs that are not here, in the order of their columns.
    pub(super) missing: VecDeque<BlobPlace>,
    /// Those before them.
    pub(super) blobs: Vec<RawBlob>,
    /// For the bytes that are not here; `None` where it was not asked for yet.
    pub(super) permit: Option<Permit>,
}

/// A blob's bytes, or where they are.
#[derive(Debug)]
pub(super) enum BlobPlace {
    Here(RawBlob),
    At(Range<u64>),
    InRun(InRun),
}

/// The bytes of one blob of a row.
#[derive(Debug)]
pub(super) enum RawBlob {
    /// Null.
    Null,
    /// Read for this row alone.
    Read(Buffer),
    /// Part of a body that was decompressed as a whole.
    Shared(ArrowBuffer),
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

    /// The bytes in memory of their own, without a copy where they have that.
    pub(super) fn into_value(self, account: &Arc<Account>) -> Result<BlobValue> {
        Ok(match self {
            Self::Null | Self::TooLong(_) => BlobValue::Null,
            Self::Read(bytes) => BlobValue::Bytes(bytes),
            Self::Shared(buffer) => BlobValue::Bytes(copy_of(&buffer, account)?),
        })
    }
}

/// A copy, for which the budget makes room.
pub(super) fn copy_of(bytes: &[u8], account: &Arc<Account>) -> Result<Buffer> {
    let mut copy = account.buffer(bytes.len(), account.take(bytes.len()))?;
    copy.as_bytes_mut().copy_from_slice(bytes);
    Ok(copy)
}

/// A row that is read, and waits to be decoded.
#[derive(Debug)]
pub(super) struct ReadRow {
    pub(super) attempt: Attempt,
    pub(super) table: Arc<Table>,
    pub(super) place: usize,
    pub(super) blobs: Vec<RawBlob>,
    /// For what decoding will take, where rows have no slots.
    pub(super) decoding: Option<Permit>,
}

impl ReadRow {
    /// Bytes that it holds, those that decoding will take included.
    pub(super) fn n_bytes(&self) -> usize {
        let blobs = self.blobs.iter().filter_map(RawBlob::n_bytes).sum::<u64>() as usize;
        blobs.saturating_add(self.decoding.as_ref().map_or(0, Permit::n_bytes))
    }
}
