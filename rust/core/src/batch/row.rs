//! A finished row, on its way into a batch.

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
    /// What is wrong with its audio, if something is.
    pub(crate) damage: Option<Box<DamagedRow>>,
    /// The rows that could not be used in this place.
    pub(crate) bad: Vec<BadRow>,
    pub(crate) outcome: RowOutcome,
}

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// It is delivered.
    Valid,
    /// It is delivered with zeros, or nothing, for audio.
    Masked,
    /// It is left out.
    Skipped,
}

/// What became of one blob of a row.
#[derive(Debug)]
pub(crate) enum BlobValue {
    /// Null.
    Null,
    /// Bytes as they are.
    Bytes(Buffer),
    /// Audio in its slot of the batch's buffer.
    Slot(AlignedBuf),
    /// Audio in a buffer of its own, of this shape.
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
