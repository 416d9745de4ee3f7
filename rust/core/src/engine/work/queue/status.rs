//! What can be done at a queue, and how full it is.

use super::{Items, Queue};
use crate::{engine::wait::WaitFor, metrics::IdleReason};

/// How full a queue is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct QueueDepths {
    /// Rows that have been claimed so far.
    pub(crate) claimed: u64,
    /// Rows that are claimed and not finished.
    pub(crate) unfinished: usize,
    /// Rows that wait for a decoder.
    pub(crate) read: usize,
    /// Batches that are incomplete or wait for the consumer.
    pub(crate) open: usize,
    /// Batches that wait for the consumer.
    pub(crate) ready: usize,
}

impl<W: Items> Queue<W> {
    /// How many readers would find something to do, at least one; or why none would.
    pub(crate) fn readable(&self) -> Result<usize, IdleReason> {
        let (mut n_ready, mut first_bytes) = (0, None);
        for (index, (_, wait)) in &self.parked {
            match *wait {
                WaitFor::Reader => n_ready += 1,
                WaitFor::Load { after } if after != self.n_loads => n_ready += 1,
                WaitFor::Load { .. } => {}
                WaitFor::Bytes { n_bytes, from_reserve } => {
                    first_bytes.get_or_insert((*index, n_bytes, from_reserve));
                }
            }
        }
        let is_granted = |(index, n_bytes, from_reserve)| {
            let fits = if from_reserve {
                self.account.fits_reserved(n_bytes)
            } else {
                self.account.fits(n_bytes)
            };
            fits || self.may_exceed(index)
        };
        n_ready += usize::from(first_bytes.is_some_and(is_granted));
        let mut reason = match first_bytes {
            Some(_) => IdleReason::Memory,
            None if self.parked.is_empty() => IdleReason::PrefetchDepth,
            None => IdleReason::Load,
        };
        if self.may_claim() {
            let batch = self.batch_of(self.next_row);
            let is_open = batch < self.batches.len() || self.batches.is_empty();
            if is_open || self.may_open_more() && self.account.fits(self.next_batch_bytes()) {
                let n_rows = self.batch_end(batch) - self.next_row;
                n_ready += if self.limits.whole_batches { 1 } else { n_rows as usize };
            } else if self.may_open_more() {
                reason = IdleReason::Memory;
            }
        }
        if n_ready > 0 { Ok(n_ready) } else { Err(reason) }
    }

    /// Whether the stream has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.end.is_some()
    }

    /// Whether all rows of the stream are finished.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.next_row >= end) && self.n_unfinished == 0
    }

    /// Whether [`Self::take`] returns anything but [`super::Next::Pending`].
    pub(crate) fn is_ready(&self) -> bool {
        self.failure.is_some()
            || self.is_head_finished
            || self.end.is_some_and(|end| self.head >= end)
    }

    /// Whether the consumer waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Readers that are working.
    pub(crate) fn n_reading(&self) -> usize {
        self.n_reading
    }

    /// The number of rows that wait for a decoder.
    pub(crate) fn n_read(&self) -> usize {
        self.read.len()
    }

    /// Rows that wait for a decoder.
    pub(crate) fn read(&self) -> impl Iterator<Item = &W::Read> {
        self.read.iter().map(|(_, read)| read)
    }

    /// The first row of the first batch that is not finished.
    pub(crate) fn first_unfinished(&self) -> u64 {
        let n_finished = self.batches.iter().take_while(|batch| batch.finished.is_some()).count();
        let first = self.head + n_finished as u64 * self.limits.rows_per_batch;
        first.min(self.next_row)
    }

    /// How full it is.
    pub(crate) fn depths(&self) -> QueueDepths {
        QueueDepths {
            claimed: self.next_row - self.first,
            unfinished: self.n_unfinished as usize,
            read: self.read.len(),
            open: self.batches.len(),
            ready: self.batches.iter().filter(|batch| batch.finished.is_some()).count(),
        }
    }
}
