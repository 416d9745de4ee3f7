//! A finished row of a batch.

use std::sync::Arc;

use super::{BadRow, DamagedRow};
use crate::{
    memory::{AlignedBuf, Buffer},
    order::RowId,
    shard::Table,
};

/// A row whose blobs are read and decoded.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) id: RowId,
    pub(crate) table: Arc<Table>,
    /// The row's index in the table.
    pub(crate) index: usize,
    pub(crate) blobs: Vec<BlobValue>,
    /// The damage of its audio, if there is any.
    pub(crate) damage: Option<Box<DamagedRow>>,
    /// Rows that could not be used, and which this one replaces.
    pub(crate) bad: Vec<BadRow>,
    pub(crate) outcome: RowOutcome,
}

/// The outcome of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// It is delivered.
    Valid,
    /// It is delivered with zeros, or nothing, for audio.
    Masked,
    /// It is left out.
    Skipped,
}

/// One blob of a finished row.
#[derive(Debug)]
pub(crate) enum BlobValue {
    /// Null.
    Null,
    /// Encoded.
    Bytes(Buffer),
    /// Decoded, in its slot of the batch's buffer.
    Slot(AlignedBuf),
    /// Decoded, in a buffer of its own, of this shape.
    Own(Buffer, Vec<usize>),
}

impl BlobValue {
    pub(super) fn into_slot(self) -> Option<AlignedBuf> {
        match self {
            Self::Slot(slot) => Some(slot),
            _ => None,
        }
    }
}
