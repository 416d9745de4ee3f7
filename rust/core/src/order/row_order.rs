//! The order of the rows of one data set, over all its epochs.

use std::sync::Arc;

use super::{
    OrderSpec, Part, PartCounts, RowId, RowSlice, Rows, Sampling, Shuffle, Step,
    elements::Elements, shuffle::SequenceCache,
};
use crate::error::{Error, Result};

/// The order of the rows of one data set: its epochs concatenated, for all hosts and workers together.
#[derive(Clone, Debug)]
pub(super) struct RowOrder {
    pub(super) elements: Elements,
    pub(super) shuffle: Option<Shuffle>,
    pub(super) sampling: Option<Sampling>,
    pub(super) sequences: SequenceCache,
    pub(super) slice: RowSlice,
    epochs: Option<u64>,
}

impl RowOrder {
    /// The order of `rows`, or of their parts, by `spec`, or by draws.
    pub(super) fn new(
        rows: Rows,
        parts: Option<PartCounts>,
        spec: &OrderSpec,
        sampling: Option<Sampling>,
    ) -> Result<Self> {
        if let Some(window) = spec.shuffle.and_then(|shuffle| shuffle.window)
            && (window.rows == 0 || window.streams == 0)
        {
            return Err(Error::config("a window has at least one row and one stream"));
        }
        let elements = Elements { rows, parts: parts.map(Arc::new) };
        let n = sampling.as_ref().map_or(elements.len(), Sampling::per_epoch);
        let all = RowSlice::all(n);
        let slice = spec.slices.iter().try_fold(all, |all, s| all.narrow(s))?;
        Ok(Self {
            elements,
            shuffle: spec.shuffle.filter(|_| sampling.is_none()),
            sampling,
            sequences: SequenceCache::default(),
            slice,
            epochs: spec.epochs,
        })
    }

    /// Rows of one epoch.
    pub(super) fn per_epoch(&self) -> u64 {
        self.slice.len()
    }

    /// Rows of all epochs; `None` for an endless stream. A stream without rows ends at once, even with
    /// endless epochs.
    pub(super) fn total(&self) -> Option<u64> {
        match self.epochs {
            _ if self.slice.is_empty() => Some(0),
            epochs => Some(self.slice.len().saturating_mul(epochs?)),
        }
    }

    /// The row at `index` of the stream, which may be past its last epoch; `None` without rows.
    pub(super) fn step(&self, index: u64) -> Option<Step> {
        let (epoch, i) = self.position(index)?;
        let position = self.slice.get(i)?;
        self.step_of(epoch, position, self.number(epoch, position)?)
    }

    /// The epoch of the row at `index`, and its index in the epoch.
    pub(super) fn position(&self, index: u64) -> Option<(u64, u64)> {
        Some((index.checked_div(self.slice.len())?, index % self.slice.len()))
    }

    /// The step of the element of this number, at a position of an epoch.
    pub(super) fn step_of(&self, epoch: u64, position: u64, number: u64) -> Option<Step> {
        let (row, part): (RowId, Option<Part>) = self.elements.get(number)?;
        let repeats = self.sampling.is_some() || self.elements.rows.has_repeats();
        Some(Step { epoch, row, part, repeat: repeats.then_some(position) })
    }

    /// The number of the element at a position of an epoch.
    pub(super) fn number(&self, epoch: u64, position: u64) -> Option<u64> {
        match (&self.sampling, &self.shuffle) {
            (Some(sampling), _) => self.elements.draw(sampling, sampling.key(epoch), position),
            (None, Some(shuffle)) => shuffle.get(&self.elements, &self.sequences, epoch, position),
            (None, None) => Some(position),
        }
    }

    /// Positions of an epoch, before slicing.
    pub(super) fn n_positions(&self) -> u64 {
        self.sampling.as_ref().map_or(self.elements.len(), Sampling::per_epoch)
    }
}
