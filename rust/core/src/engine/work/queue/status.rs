//! What can be done at a queue, and how full it is.

use super::{Items, Order, Queue};
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

impl<W: Items, O: Order<W>> Queue<W, O> {
    /// How many readers would find something to do, at least one; or why none would.
    pub(crate) fn readable(&self) -> Result<usize, IdleReason> {
        let Self { rows, order } = self;
        let (mut n_ready, mut first_bytes) = (0, None);
        for (index, (_, wait)) in &rows.parked {
            match *wait {
                WaitFor::Reader => n_ready += 1,
                WaitFor::Load { after } if after != rows.n_loads => n_ready += 1,
                WaitFor::Load { .. } => n_ready += usize::from(order.goes_on(rows, *index, *wait)),
                WaitFor::Bytes { n_bytes, from_reserve } => {
                    first_bytes.get_or_insert((*index, n_bytes, from_reserve));
                }
            }
        }
        let is_granted = |(index, n_bytes, from_reserve)| {
            let fits = if from_reserve {
                rows.account.fits_reserved(n_bytes)
            } else {
                rows.account.fits(n_bytes)
            };
            fits || order.goes_on(rows, index, WaitFor::Bytes { n_bytes, from_reserve })
        };
        n_ready += usize::from(first_bytes.is_some_and(is_granted));
        let of_parked = match first_bytes {
            Some(_) => IdleReason::Memory,
            None if rows.parked.is_empty() => IdleReason::PrefetchDepth,
            None => IdleReason::Load,
        };
        let claimable = order.n_claimable(rows);
        n_ready += claimable.unwrap_or(0);
        let reason = claimable.err().flatten().unwrap_or(of_parked);
        if n_ready > 0 { Ok(n_ready) } else { Err(reason) }
    }

    /// Whether a consumer that waits would get something.
    pub(crate) fn is_ready(&self) -> bool {
        self.order.is_ready()
    }

    /// Readers that are working.
    pub(crate) fn n_reading(&self) -> usize {
        self.rows.n_reading
    }

    /// The number of rows that wait for a decoder.
    pub(crate) fn n_read(&self) -> usize {
        self.rows.read.len()
    }

    /// Rows that wait for a decoder.
    pub(crate) fn read(&self) -> impl Iterator<Item = &W::Read> {
        self.rows.read.iter().map(|(_, read)| read)
    }
}

impl<W: Items> Queue<W> {
    /// Whether the stream has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.order.end.is_some()
    }

    /// Whether all rows of the stream are finished.
    pub(crate) fn is_over(&self) -> bool {
        let order = &self.order;
        order.end.is_some_and(|end| order.next_row >= end) && order.n_unfinished == 0
    }

    /// Whether the consumer waits.
    pub(crate) fn is_awaited(&self) -> bool {
        self.order.is_awaited
    }

    /// The first row of the first batch that is not finished.
    pub(crate) fn first_unfinished(&self) -> u64 {
        let order = &self.order;
        let n_finished = order.batches.iter().take_while(|batch| batch.finished.is_some()).count();
        let first = order.head + n_finished as u64 * order.limits.rows_per_batch;
        first.min(order.next_row)
    }

    /// How full it is.
    pub(crate) fn depths(&self) -> QueueDepths {
        let order = &self.order;
        QueueDepths {
            claimed: order.next_row - order.first,
            unfinished: order.n_unfinished as usize,
            read: self.rows.read.len(),
            open: order.batches.len(),
            ready: order.batches.iter().filter(|batch| batch.finished.is_some()).count(),
        }
    }
}
