//! Which row comes next: a pure function of (seed, epoch, position).
//!
//! Nothing here depends on threads, timing or where a run stopped, so a checkpoint is a position.
//! `docs/order.md` states the function in full; it is versioned and does not change under the same
//! version.

mod fingerprint;
mod lane;
mod permutation;
mod rows;
mod shuffle;
mod slice;
mod substitute;
#[cfg(test)]
mod tests;

pub use fingerprint::Fingerprint;
pub use lane::Lane;
pub use permutation::Permutation;
pub use rows::{RowId, Rows};
pub use shuffle::{Shuffle, Window};
pub use slice::{RowSlice, Slice};
pub use substitute::Substitutes;

use self::shuffle::LaidOut;
use crate::error::{Error, Result};

/// The version of the order function, and of the states that refer to it.
pub const VERSION: u64 = 1;

/// What is asked of an order, before the rows are known.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The shuffle; `None` is file order.
    pub shuffle: Option<Shuffle>,
    /// Slices of each epoch's positions, applied one after the other.
    pub slices: Vec<Slice>,
    /// Passes over the data; `None` is for ever.
    pub epochs: Option<u64>,
    /// The part of the stream that is delivered here.
    pub lane: Lane,
}

impl Plan {
    /// Whether the rows that are delivered one after another also lie so in the shards.
    pub fn is_file_order(&self) -> bool {
        self.shuffle.is_none() && self.slices.is_empty() && self.lane.stride == 1
    }

    /// Whether rows that lie together are also delivered about together: in file order, or with
    /// windows whose streams are delivered here whole.
    pub fn is_nearly_file_order(&self) -> bool {
        let window = self.shuffle.and_then(|shuffle| shuffle.window);
        let streams_are_whole =
            window.is_some_and(|window| window.streams.is_multiple_of(self.lane.stride.max(1)));
        self.is_file_order() || (streams_are_whole && self.slices.is_empty())
    }

    /// Every row in file order, once.
    pub const ONCE: Self =
        Self { shuffle: None, slices: Vec::new(), epochs: Some(1), lane: Lane::ALL };
}

/// The order of the rows that one iterator delivers, over all its epochs.
///
/// The *stream* is all epochs on end, for all hosts and workers together. The rows delivered here
/// are numbered from 0: number `i` is row `offset + i * stride` of the stream.
#[derive(Clone, Debug)]
pub struct Order {
    rows: Rows,
    shuffle: Option<Shuffle>,
    laid: LaidOut,
    slice: RowSlice,
    epochs: Option<u64>,
    lane: Lane,
    /// Rows of the stream that were delivered before it was taken up.
    start: u64,
}

/// One step of the stream: which epoch, which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The pass over the data, from 0.
    pub epoch: u64,
    /// The row.
    pub row: RowId,
}

impl Order {
    /// The order of `rows` by `plan`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a slice with step 0, an empty window, no streams, or a
    /// lane without a stride.
    pub fn new(rows: Rows, plan: &Plan) -> Result<Self> {
        plan.lane.check()?;
        if let Some(window) = plan.shuffle.and_then(|shuffle| shuffle.window)
            && (window.rows == 0 || window.streams == 0)
        {
            return Err(Error::config("a window has at least one row and one stream"));
        }
        let all = RowSlice::all(rows.len());
        let slice = plan.slices.iter().try_fold(all, |all, s| all.narrow(s))?;
        Ok(Self {
            rows,
            shuffle: plan.shuffle,
            laid: LaidOut::default(),
            slice,
            epochs: plan.epochs,
            lane: plan.lane,
            start: 0,
        })
    }

    /// Rows of one epoch of the stream.
    pub fn rows_per_epoch(&self) -> u64 {
        self.slice.len()
    }

    /// Rows of all epochs of the stream, cut even where that is asked; `None` without end. Without
    /// rows the stream ends at once, even for ever.
    pub fn stream_len(&self) -> Option<u64> {
        self.uncut().map(|total| self.lane.end(self.start, total))
    }

    fn uncut(&self) -> Option<u64> {
        match self.epochs {
            _ if self.slice.is_empty() => Some(0),
            epochs => Some(self.slice.len().saturating_mul(epochs?)),
        }
    }

    /// Rows delivered here, in all epochs; `None` without end.
    pub fn len(&self) -> Option<u64> {
        self.stream_len().map(|end| self.lane.n_before(end))
    }

    /// Rows of the stream for each one that is delivered here.
    pub fn stride(&self) -> u64 {
        self.lane.stride
    }

    /// Whether nothing is delivered here.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The `i`-th row that is delivered here, counted over all epochs; `None` past the end.
    pub fn step(&self, i: u64) -> Option<Step> {
        let (epoch, i) = self.place(i)?;
        Some(Step { epoch, row: self.rows.get(self.number(epoch, i)?)? })
    }

    /// The epoch of the `i`-th row that is delivered here, and its place in it.
    fn place(&self, i: u64) -> Option<(u64, u64)> {
        let index = self.lane.get(i)?;
        if self.stream_len().is_some_and(|end| index >= end) {
            return None;
        }
        Some((index / self.slice.len(), index % self.slice.len()))
    }

    /// The number of the `i`-th row of an epoch, after slicing.
    fn number(&self, epoch: u64, i: u64) -> Option<u64> {
        let position = self.slice.get(i)?;
        match &self.shuffle {
            Some(shuffle) => shuffle.get(&self.rows, &self.laid, epoch, position),
            None => Some(position),
        }
    }

    /// Takes the stream up where all hosts and workers together have delivered it up to row
    /// `next_index` of `epoch`, and gives the row that is the next to deliver here.
    ///
    /// Other hosts may have got there: what is left is what is cut even, and so hosts that their
    /// number does not divide the position stay in step to the end.
    ///
    /// A position up to `slack` rows past the end stands for the end: an index that was counted in
    /// batches takes the last one for a full one.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] where that lies further past the end: the state is of other
    /// data.
    pub fn resume_at(&mut self, epoch: u64, next_index: u64, slack: u64) -> Result<u64> {
        let limit = self.uncut().map(|total| total.saturating_add(slack));
        let position = epoch
            .checked_mul(self.rows_per_epoch())
            .and_then(|start| start.checked_add(next_index))
            .filter(|&position| limit.is_none_or(|limit| position <= limit))
            .ok_or_else(|| {
                Error::config(format!(
                    "the state stands at row {next_index} of epoch {epoch}, past the end of this \
                     data set with {} rows in an epoch; restore it into the data set that it was \
                     saved from",
                    self.rows_per_epoch()
                ))
            })?;
        self.start = position;
        let index = self.lane.n_before(position);
        Ok(self.len().map_or(index, |len| index.min(len)))
    }

    /// The position of a state that was saved from other data: its place in this data's epochs.
    pub fn nearest(&self, epoch: u64, next_index: u64) -> (u64, u64) {
        match self.epochs {
            Some(epochs) if epoch >= epochs => (epochs, 0),
            _ => (epoch, next_index.min(self.rows_per_epoch())),
        }
    }
}
