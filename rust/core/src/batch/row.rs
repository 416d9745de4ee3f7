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
    /// The part of the recording that was decoded; of several, that of the first.
    pub(crate) crop: RowCrop,
    /// What few rows have.
    pub(crate) extras: Option<Box<RowExtras>>,
    /// Rows that could not be used, and which this one replaces.
    pub(crate) bad: Vec<BadRow>,
    pub(crate) outcome: RowOutcome,
}

/// What a row has only if a recording is damaged or several are decoded: millions of rows have neither.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct RowExtras {
    /// The damage of its recordings.
    pub(crate) damage: Vec<DamagedRow>,
    /// The parts of the recordings behind the first that were decoded.
    pub(crate) other_crops: Vec<RowCrop>,
}

impl RowExtras {
    /// These, if there is anything.
    pub(crate) fn boxed(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

impl Row {
    /// The part of its n-th recording that was decoded.
    pub(super) fn crop_of(&self, n: usize) -> RowCrop {
        match n.checked_sub(1) {
            None => self.crop,
            Some(n) => {
                let crop = self.extras.as_ref().and_then(|extras| extras.other_crops.get(n));
                crop.copied().unwrap_or_default()
            }
        }
    }
}

/// The part of a recording that a row holds; zeros where nothing was decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct RowCrop {
    /// Where it begins in the recording.
    pub(crate) start_s: f64,
    /// Frames of the recording in it, at the rate of the result: what is no padding.
    pub(crate) n_frames: u64,
    /// The number of the window or event, and how many the row has.
    pub(crate) number: u64,
    pub(crate) count: u64,
}

/// The outcome of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RowOutcome {
    /// It is delivered.
    Valid,
    /// It is delivered with zeros, or nothing, for audio.
    Masked,
    /// It only fills up the last batch.
    Padding,
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
