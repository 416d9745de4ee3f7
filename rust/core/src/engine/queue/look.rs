//! What can be done at a queue, and how full it is.

use super::{Items, Need, Queue};
use crate::metrics::IdleReason;

impl<W: Items> Queue<W> {
    /// How many readers would find something to do, at least one; or why none would.
    pub(crate) fn readable(&self) -> Result<usize, IdleReason> {
        let (mut n_ready, mut first_bytes) = (0, None);
        for (index, (_, need)) in &self.parked {
            match *need {
                Need::Nothing => n_ready += 1,
                Need::Load { after } if after != self.loads => n_ready += 1,
                Need::Load { .. } => {}
                Need::Bytes { n_bytes, of_reserve } => {
                    first_bytes.get_or_insert((*index, n_bytes, of_reserve));
                }
            }
        }
        let is_granted = |(index, n_bytes, of_reserve)| {
            let fits = if of_reserve {
                self.account.fits_reserved(n_bytes)
            } else {
                self.account.fits(n_bytes)
            };
            fits || self.is_awaited(index)
        };
        n_ready += usize::from(first_bytes.is_some_and(is_granted));
        let mut blocked = match first_bytes {
            Some(_) => IdleReason::Memory,
            None if self.parked.is_empty() => IdleReason::PrefetchDepth,
            None => IdleReason::Load,
        };
        if self.may_claim() {
            let place = self.place_of(self.next_row);
            let is_open = place < self.batches.len() || self.batches.is_empty();
            if is_open || self.may_open_more() && self.account.fits(self.next_batch_bytes()) {
                let n_rows = self.batch_end(place) - self.next_row;
                n_ready += if self.limits.whole_batches { 1 } else { n_rows as usize };
            } else if self.may_open_more() {
                blocked = IdleReason::Memory;
            }
        }
        if n_ready > 0 { Ok(n_ready) } else { Err(blocked) }
    }

    /// Readers that are at work.
    pub(crate) fn n_reading(&self) -> usize {
        self.n_reading
    }

    /// Rows that wait for a decoder.
    pub(crate) fn n_read(&self) -> usize {
        self.read.len()
    }

    /// The first row that is not filed.
    pub(crate) fn first_unfinished(&self) -> u64 {
        self.unfinished.first().copied().unwrap_or(self.next_row)
    }

    /// Whether all rows of the stream are filed.
    pub(crate) fn is_over(&self) -> bool {
        self.end.is_some_and(|end| self.next_row >= end) && self.unfinished.is_empty()
    }

    /// Rows that wait for a decoder.
    pub(crate) fn read(&self) -> impl Iterator<Item = &W::Read> {
        self.read.values()
    }

    /// `(rows claimed, rows unfinished, rows read, open batches, finished batches)`.
    pub(crate) fn depths(&self) -> (u64, usize, usize, usize, usize) {
        let ready = self.batches.iter().filter(|batch| batch.finished.is_some()).count();
        let claimed = self.next_row - self.first;
        let whole = self.limits.whole_batches;
        let n_rows = |first: &u64| {
            if whole { self.batch_end(self.place_of(*first)) - first } else { 1 }
        };
        let unfinished = self.unfinished.iter().map(n_rows).sum::<u64>() as usize;
        (claimed, unfinished, self.read.len(), self.batches.len(), ready)
    }
}
