//! Which row comes next: a pure function of (seed, epoch, position).
//!
//! Nothing here depends on threads, timing or where a run stopped, so a checkpoint is a position.
//! `docs/order.md` states the function in full. It is versioned: the same version gives the same
//! order for ever.

mod bitmap;
mod elements;
mod fingerprint;
mod mixture;
mod partition;
mod permutation;
mod row_order;
mod rows;
mod sampling;
mod schedule;
mod shuffle;
mod slice;
mod substitute;
#[cfg(test)]
mod tests;

pub use bitmap::Bitmap;
pub use elements::{Part, PartCounts};
pub use fingerprint::Fingerprint;
pub use mixture::Stop;
pub use partition::Partition;
pub use permutation::Permutation;
pub use rows::{RowId, Rows};
pub use sampling::{Draws, Sampling};
pub use schedule::{MAX_TOTAL, Schedule};
pub use shuffle::{Shuffle, Window};
pub use slice::{RowSlice, Slice};
pub use substitute::Substitutes;

use self::{mixture::Mixture, row_order::RowOrder};
use crate::{
    error::{Error, Result},
    hash::{extend, hash},
};

/// The version of the order function, and of the states that refer to it.
pub const VERSION: u64 = 1;

/// A stream is resumed here at the latest: so many rows take longer than any run, and counts of those
/// behind it fit into 64 bits.
const LAST: u64 = 1 << 62;

/// The options of an order.
#[derive(Clone, Debug)]
pub struct OrderSpec {
    /// The shuffle; `None` is file order.
    pub shuffle: Option<Shuffle>,
    /// Draws with replacement, instead of a shuffle; `None` is each row once.
    pub draws: Option<Draws>,
    /// Whether the rows are a list, in an order of its own.
    pub is_list: bool,
    /// Slices of each epoch's positions, each applied to the one before.
    pub slices: Vec<Slice>,
    /// Passes over the data; `None` is for ever.
    pub epochs: Option<u64>,
    /// The part of the stream that is delivered here.
    pub partition: Partition,
}

impl OrderSpec {
    /// Whether neighbouring rows of the shards are delivered one after another.
    pub fn is_file_order(&self) -> bool {
        let is_reordered = self.shuffle.is_some() || self.draws.is_some() || self.is_list;
        !is_reordered && self.slices.is_empty() && self.partition.stride == 1
    }

    /// Whether neighbouring rows of the shards are delivered at about the same time: in file order,
    /// or with windows of which whole streams are delivered here.
    pub fn is_nearly_file_order(&self) -> bool {
        if self.draws.is_some() || self.is_list {
            return false;
        }
        let window = self.shuffle.and_then(|shuffle| shuffle.window);
        let stride = self.partition.stride.max(1);
        let streams_are_whole = window.is_some_and(|window| window.streams.is_multiple_of(stride));
        self.is_file_order() || (streams_are_whole && self.slices.is_empty())
    }

    /// Whether a row may follow any other of the shards.
    pub fn is_scattered(&self) -> bool {
        let shuffle_is_global = self.shuffle.is_some_and(|shuffle| shuffle.window.is_none());
        self.draws.is_some() || self.is_list || shuffle_is_global
    }

    /// Every row in file order, once.
    pub const ONCE: Self = Self {
        shuffle: None,
        draws: None,
        is_list: false,
        slices: Vec::new(),
        epochs: Some(1),
        partition: Partition::ALL,
    };
}

/// The order of the rows that one iterator delivers, over all its epochs.
///
/// The *stream* is all epochs concatenated, for all hosts and workers together. The rows delivered
/// here are numbered from 0: number `i` is row `offset + i * stride` of the stream.
#[derive(Clone, Debug)]
pub struct Order {
    stream: Stream,
    partition: Partition,
    /// The stream index at which the stream was resumed.
    start: u64,
}

/// The rows of the whole stream.
#[derive(Clone, Debug)]
enum Stream {
    /// Those of one data set.
    Rows(Box<RowOrder>),
    /// Those of several in turn.
    Mixture(Box<Mixture>),
}

impl Stream {
    /// Rows of one epoch. That of a mixture ends when each data set has come to the end of its own.
    fn per_epoch(&self) -> u64 {
        match self {
            Self::Rows(rows) => rows.per_epoch(),
            Self::Mixture(mixture) => mixture.per_epoch(),
        }
    }

    /// Rows of all epochs; `None` without end.
    fn total(&self) -> Option<u64> {
        match self {
            Self::Rows(rows) => rows.total(),
            Self::Mixture(mixture) => mixture.total(),
        }
    }

    /// The row at `index`, which may be past the end.
    fn step(&self, index: u64) -> Option<Step> {
        match self {
            Self::Rows(rows) => rows.step(index),
            Self::Mixture(mixture) => mixture.step(index),
        }
    }
}

/// One row of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The pass over the data, from 0.
    pub epoch: u64,
    /// The row.
    pub row: RowId,
    /// The part of the row, where elements are parts of rows.
    pub part: Option<Part>,
    /// The position in the epoch, where a row may come more than once in an epoch: then it is one more
    /// word of all that is drawn for the row.
    pub repeat: Option<u64>,
}

impl Step {
    /// What is drawn for this row, or for this part of it, of a shard with this key, by this seed.
    pub fn draw(&self, seed: u64, shard_key: u64) -> u64 {
        let draw = hash(&[seed, self.epoch, shard_key, self.row.row]);
        let draw = self.part.map_or(draw, |part| extend(draw, part.number));
        self.repeat.map_or(draw, |position| extend(draw, position))
    }

    /// The same step, its shard numbered behind this many others.
    fn behind(self, n_shards: u32) -> Self {
        let row = RowId { shard: self.row.shard.saturating_add(n_shards), ..self.row };
        Self { row, ..self }
    }
}

impl Order {
    /// The order of `rows` by `spec`, each of them once an epoch.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a slice with step 0, an empty window, no streams, or a
    /// partition without a stride.
    pub fn new(rows: Rows, spec: &OrderSpec) -> Result<Self> {
        Self::build(RowOrder::new(rows, None, spec, None)?, spec)
    }

    /// The order of the parts of `rows` by `spec`: what is said of rows here holds for parts then.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn of_parts(rows: Rows, parts: PartCounts, spec: &OrderSpec) -> Result<Self> {
        Self::build(RowOrder::new(rows, Some(parts), spec, None)?, spec)
    }

    /// The order of draws from `rows`, or from their parts. The shuffle of `spec` is not used. The
    /// weights of `sampling` are those of the rows: see [`PartCounts::drawable`].
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn sampled(
        rows: Rows,
        parts: Option<PartCounts>,
        spec: &OrderSpec,
        sampling: Sampling,
    ) -> Result<Self> {
        Self::build(RowOrder::new(rows, parts, spec, Some(sampling))?, spec)
    }

    /// The orders of several data sets in turn, by a schedule. Shards count over all of them, and of
    /// the orders' partitions, which are the same, one counts.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] where the schedule is of another number of data sets, or one that
    /// has turns has no rows.
    pub fn mixed(orders: Vec<Self>, schedule: Schedule, stop: Stop) -> Result<Self> {
        let partition = orders.first().map_or(Partition::ALL, |order| order.partition);
        let rows = orders.into_iter().map(|order| match order.stream {
            Stream::Rows(rows) => Ok(*rows),
            Stream::Mixture(_) => Err(Error::config("a mixture has no mixtures in it")),
        });
        let mixture = Mixture::new(rows.collect::<Result<_>>()?, schedule, stop)?;
        Ok(Self { stream: Stream::Mixture(Box::new(mixture)), partition, start: 0 })
    }

    fn build(rows: RowOrder, spec: &OrderSpec) -> Result<Self> {
        spec.partition.check()?;
        let stream = Stream::Rows(Box::new(rows));
        Ok(Self { stream, partition: spec.partition, start: 0 })
    }

    /// Rows of one epoch of the stream. That of a mixture ends when each data set has come to the end
    /// of its own.
    pub fn rows_per_epoch(&self) -> u64 {
        self.stream.per_epoch()
    }

    /// Rows of all epochs of the stream, as far as all hosts get equally many; `None` for an endless
    /// stream. A stream without rows ends at once, even with endless epochs.
    pub fn stream_len(&self) -> Option<u64> {
        self.stream.total().map(|total| self.partition.end(self.start, total))
    }

    /// Rows delivered here, in all epochs; `None` for an endless stream.
    pub fn len(&self) -> Option<u64> {
        self.stream_len().map(|end| self.partition.n_before(end))
    }

    /// The most rows that any part of the partition has left from the start on; `None` for an endless
    /// stream.
    pub fn most_left(&self) -> Option<u64> {
        let left = self.stream_len()?.saturating_sub(self.start);
        Some(left.div_ceil(self.partition.stride))
    }

    /// The step whose row fills up batches behind the end: the last one here, or the stream's first.
    pub fn padding_step(&self) -> Option<Step> {
        let last = self.len().and_then(|len| self.step(len.checked_sub(1)?));
        last.or_else(|| self.stream.step(0))
    }

    /// The partition's stride.
    pub fn stride(&self) -> u64 {
        self.partition.stride
    }

    /// The data set that has the shard of this number, and the shard's number in it.
    pub fn locate_shard(&self, shard: u32) -> (usize, u32) {
        match &self.stream {
            Stream::Rows(_) => (0, shard),
            Stream::Mixture(mixture) => mixture.locate_shard(shard),
        }
    }

    /// Whether nothing is delivered here.
    pub fn is_empty(&self) -> bool {
        self.len() == Some(0)
    }

    /// The `i`-th row that is delivered here, counted over all epochs; `None` past the end.
    pub fn step(&self, i: u64) -> Option<Step> {
        self.stream.step(self.index(i)?)
    }

    /// The stream index of the `i`-th row that is delivered here; `None` past the end.
    fn index(&self, i: u64) -> Option<u64> {
        let index = self.partition.get(i)?;
        self.stream_len().is_none_or(|end| index < end).then_some(index)
    }

    /// Resumes the stream where all hosts and workers together have delivered it up to row
    /// `next_index` of `epoch`. Returns the number of the next row to deliver here.
    ///
    /// The number of hosts may have been another one before, and need not divide the position: what
    /// remains of the stream is what hosts share equally.
    ///
    /// A position up to `slack` rows past the end means the end: an index that was counted in batches
    /// counts a short last batch as a full one.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] where the position is further past the end, or beyond 2^62: the
    /// state is of other data.
    pub fn resume_at(&mut self, epoch: u64, next_index: u64, slack: u64) -> Result<u64> {
        let limit = self.stream.total().map_or(LAST, |total| total.saturating_add(slack).min(LAST));
        let position = epoch
            .checked_mul(self.rows_per_epoch())
            .and_then(|start| start.checked_add(next_index))
            .filter(|&position| position <= limit)
            .ok_or_else(|| {
                Error::config(format!(
                    "the state stands at row {next_index} of epoch {epoch}, past the end of this \
                     data set with {} rows in an epoch; restore it into the data set that it was \
                     saved from",
                    self.rows_per_epoch()
                ))
            })?;
        self.start = position;
        let index = self.partition.n_before(position);
        Ok(self.len().map_or(index, |len| index.min(len)))
    }

    /// The position in this data's epochs that is nearest to that of a state of other data.
    pub fn nearest(&self, epoch: u64, next_index: u64) -> (u64, u64) {
        let per_epoch = self.rows_per_epoch();
        let next_index = next_index.min(per_epoch);
        let index = epoch.saturating_mul(per_epoch).saturating_add(next_index);
        match self.stream.total() {
            Some(total) if index > total => (
                total.checked_div(per_epoch).unwrap_or(0),
                total.checked_rem(per_epoch).unwrap_or(0),
            ),
            _ => (epoch, next_index),
        }
    }
}
