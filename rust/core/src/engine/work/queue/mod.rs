//! Which rows are claimed, read, decoded and delivered: a state machine.
//!
//! It has no threads, no locks, no clock and does no I/O. Events are method calls; they return what
//! may be done next: a [`Grant`], a row to decode, or a batch to deliver. The lock around it and the
//! wake-ups are in [`super::shared_queue`].
//!
//! Rows are claimed in the order of the stream, into batches that are opened within the prefetch
//! depth and the memory budget. A reader whose row needs more bytes than are free does not wait: the
//! row is *parked*, and the reader goes on with something else. Bytes are granted in the order of the
//! stream. There is one exception to the budget, so that the stream always goes on: a row of the
//! next batch to deliver gets its bytes beyond the budget if the consumer waits for it, and nothing
//! else is being done that could free some. A consumer that does not wait may free the batch before.

mod status;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    ops::Range,
    sync::Arc,
};

pub(crate) use self::status::QueueDepths;
use crate::{
    engine::wait::WaitFor,
    error::{Error, Result},
    memory::{Account, Permit},
};

/// The types of what passes through a queue.
pub(crate) trait Items {
    /// A claimed row (or batch) that cannot go on yet.
    type Parked: fmt::Debug;
    /// A row that is read, and waits for a decoder.
    type Read: fmt::Debug;
    /// A finished row.
    type Row: fmt::Debug;
    /// The part of its batch's buffer that one row fills.
    type Slot: fmt::Debug;
    /// The batch's buffer while its slots are filled.
    type Lease: Default + fmt::Debug;
    /// A batch.
    type Batch: fmt::Debug;
}

/// The limits that a queue keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Rows in a batch, at least 1.
    pub(crate) rows_per_batch: u64,
    /// The prefetch depth: batches that may be incomplete or wait for the consumer, at least 1.
    pub(crate) max_open_batches: usize,
    /// Bytes of a batch's buffer.
    pub(crate) batch_bytes: usize,
    /// Whether a reader claims all rows of a batch at once.
    pub(crate) whole_batches: bool,
    /// No rows are claimed while this many are parked.
    pub(crate) max_parked: usize,
    /// Rows of the first batch whose requests go first: no later row is claimed before all of them
    /// were sent, so that prefetching takes no bandwidth from the first batch.
    pub(crate) n_urgent: u64,
}

impl Default for Limits {
    /// Those of a queue that has not begun.
    fn default() -> Self {
        Self {
            rows_per_batch: 1,
            max_open_batches: 1,
            batch_bytes: 0,
            whole_batches: false,
            max_parked: 0,
            n_urgent: 0,
        }
    }
}

/// What a reader may do next.
#[derive(Debug)]
pub(crate) enum Grant<P> {
    /// Allocate a batch's buffer, for which this is the permit, call [`Queue::open_batch`], and ask
    /// again.
    Open(Permit),
    /// Read these rows: one, or those of a batch.
    Claim(Range<u64>),
    /// Go on with a parked row, with the bytes that it waited for.
    Resume { parked: P, permit: Option<Permit> },
}

/// All rows of a batch.
#[derive(Debug)]
pub(crate) struct CompleteBatch<W: Items> {
    /// The index of the first row.
    pub(crate) first: u64,
    /// The rows in their order, or their errors.
    rows: Vec<Option<Result<W::Row>>>,
    pub(crate) lease: W::Lease,
    /// Bytes that were reserved for the other columns.
    pub(crate) reserved: Option<Permit>,
}

impl<W: Items> CompleteBatch<W> {
    /// Takes the rows in their order, or the error of the first that failed. This takes a while: not
    /// under the lock.
    pub(crate) fn take_rows(&mut self) -> Result<Vec<W::Row>> {
        std::mem::take(&mut self.rows).into_iter().flatten().collect()
    }
}

/// What the consumer gets.
#[derive(Debug)]
pub enum Next<B> {
    /// A batch.
    Batch(B),
    /// The stream has ended.
    End,
    /// Nothing yet; ask again.
    Pending,
}

/// The event that a parked row waits for has not happened.
struct NotYet;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Queue<W: Items> {
    limits: Limits,
    account: Arc<Account>,
    /// Indices of the stream's first row, of the next row to claim, and of the first row of
    /// `batches[0]`.
    first: u64,
    next_row: u64,
    head: u64,
    /// The end of the stream; `None` before it has begun.
    end: Option<u64>,
    batches: VecDeque<OpenBatch<W>>,
    /// Whether the first of them is finished.
    is_head_finished: bool,
    /// Whether the consumer has asked for it in vain.
    is_awaited: bool,
    /// Rows that are claimed and not finished.
    n_unfinished: u64,
    parked: BTreeMap<u64, (W::Parked, WaitFor)>,
    /// Rows that wait for a decoder, in their order.
    read: VecDeque<(u64, W::Read)>,
    /// Urgent rows whose requests were not sent.
    unrequested: BTreeSet<u64>,
    n_reading: usize,
    n_decoding: usize,
    n_assembling: usize,
    /// Loads that have ended.
    n_loads: u64,
    /// The most bytes that a batch took besides its buffer; `None` before the first.
    other_bytes: Option<usize>,
    failure: Option<Error>,
}

/// A batch between its opening and its delivery.
#[derive(Debug)]
struct OpenBatch<W: Items> {
    slots: Vec<Option<W::Slot>>,
    lease: W::Lease,
    reserved: Option<Permit>,
    rows: Vec<Option<Result<W::Row>>>,
    n_missing: usize,
    finished: Option<Result<W::Batch>>,
}

impl<W: Items> Queue<W> {
    /// A queue that has not begun.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self {
            limits: Limits::default(),
            account,
            first: 0,
            next_row: 0,
            head: 0,
            end: None,
            batches: VecDeque::new(),
            is_head_finished: false,
            is_awaited: false,
            n_unfinished: 0,
            parked: BTreeMap::new(),
            read: VecDeque::new(),
            unrequested: BTreeSet::new(),
            n_reading: 0,
            n_decoding: 0,
            n_assembling: 0,
            n_loads: 0,
            other_bytes: None,
            failure: None,
        }
    }

    /// Begins a stream of these rows.
    pub(crate) fn begin(&mut self, rows: Range<u64>, limits: Limits) {
        self.limits = limits;
        (self.first, self.next_row, self.head) = (rows.start, rows.start, rows.start);
        self.end = Some(rows.end.max(rows.start));
    }

    /// What the calling reader may do; `None` for nothing.
    pub(crate) fn next_read(&mut self) -> Option<Grant<W::Parked>> {
        if let Some((index, permit)) = self.resumable() {
            let (parked, _) = self.parked.remove(&index)?;
            self.n_reading += 1;
            return Some(Grant::Resume { parked, permit });
        }
        if !self.may_claim() {
            return None;
        }
        let batch = self.batch_of(self.next_row);
        if batch >= self.batches.len() {
            return self.permit_for_batch().map(Grant::Open);
        }
        let start = self.next_row;
        let end = if self.limits.whole_batches { self.batch_end(batch) } else { start + 1 };
        self.next_row = end;
        self.n_reading += 1;
        self.n_unfinished += end - start;
        if start < self.urgent_end() {
            self.unrequested.insert(start);
        }
        Some(Grant::Claim(start..end))
    }

    /// The first parked row that can go on, with the bytes that it waited for.
    fn resumable(&self) -> Option<(u64, Option<Permit>)> {
        let mut waits_for_bytes = false;
        for (index, (_, wait)) in &self.parked {
            // In the order of the stream: rows behind one that does not fit wait too.
            let is_first = !matches!(wait, WaitFor::Bytes { .. })
                || !std::mem::replace(&mut waits_for_bytes, true);
            if is_first && let Ok(permit) = self.granted(*index, *wait) {
                return Some((*index, permit));
            }
        }
        None
    }

    /// Whether a parked row can go on, and the bytes that it waited for. Of the rows that wait for
    /// bytes, it must be the first.
    fn granted(&self, index: u64, wait: WaitFor) -> Result<Option<Permit>, NotYet> {
        match wait {
            WaitFor::Reader => Ok(None),
            WaitFor::Load { after } if after != self.n_loads => Ok(None),
            WaitFor::Load { .. } => Err(NotYet),
            WaitFor::Bytes { n_bytes, from_reserve } => {
                let fitting = if from_reserve {
                    self.account.try_take_reserved(n_bytes)
                } else {
                    self.account.try_take(n_bytes)
                };
                let forced = || self.may_exceed(index).then(|| self.account.take(n_bytes));
                fitting.or_else(forced).map(Some).ok_or(NotYet)
            }
        }
    }

    /// Whether this parked row gets its bytes beyond the budget: the consumer waits for its batch, and
    /// nothing is being done that may free bytes.
    fn may_exceed(&self, index: u64) -> bool {
        self.is_awaited && self.batch_of(index) == 0 && !self.is_anything_active()
    }

    /// Whether something is being done that may free bytes without the consumer.
    fn is_anything_active(&self) -> bool {
        self.n_reading + self.n_decoding + self.n_assembling > 0 || !self.read.is_empty()
    }

    /// Whether the next row may be claimed, as far as that depends on other rows.
    fn may_claim(&self) -> bool {
        let is_over = self.end.is_none_or(|end| self.next_row >= end);
        let is_early = self.next_row >= self.urgent_end() && !self.unrequested.is_empty();
        !is_over
            && !is_early
            && self.failure.is_none()
            && self.parked.len() < self.limits.max_parked
            && !self.waits_for_bytes()
    }

    /// Whether a parked row waits for bytes.
    pub(crate) fn waits_for_bytes(&self) -> bool {
        self.parked.values().any(|(_, wait)| matches!(wait, WaitFor::Bytes { .. }))
    }

    /// Bytes for one more batch. The next one to deliver gets them beyond the budget.
    fn permit_for_batch(&self) -> Option<Permit> {
        if self.batches.is_empty() {
            return Some(self.account.take(self.next_batch_bytes()));
        }
        self.may_open_more().then(|| self.account.try_take(self.next_batch_bytes())).flatten()
    }

    /// Whether the prefetch depth has room for another batch.
    fn may_open_more(&self) -> bool {
        // The size of whole batches is known once the first one is finished.
        let is_sized = !self.limits.whole_batches || self.other_bytes.is_some();
        self.batches.len() < self.limits.max_open_batches && is_sized
    }

    fn next_batch_bytes(&self) -> usize {
        self.limits.batch_bytes.saturating_add(self.other_bytes.unwrap_or(0))
    }

    /// Rows of the next batch to open.
    pub(crate) fn n_rows_to_open(&self) -> usize {
        let batch = self.batches.len();
        let start = self.head + batch as u64 * self.limits.rows_per_batch;
        (self.batch_end(batch) - start) as usize
    }

    /// Opens a batch, after [`Grant::Open`]. `reserved` is for its other columns.
    pub(crate) fn open_batch(
        &mut self,
        slots: Vec<W::Slot>,
        lease: W::Lease,
        reserved: Option<Permit>,
    ) {
        let n_rows = self.n_rows_to_open();
        self.batches.push_back(OpenBatch {
            slots: slots.into_iter().map(Some).collect(),
            lease,
            reserved,
            rows: (0..n_rows).map(|_| None).collect(),
            n_missing: n_rows,
            finished: None,
        });
    }

    /// Parks a claimed row that cannot go on. Returns it, with the bytes that it waited for, if it can
    /// go on by now.
    pub(crate) fn park(
        &mut self,
        index: u64,
        parked: W::Parked,
        wait: WaitFor,
    ) -> Option<(W::Parked, Option<Permit>)> {
        // This reader no longer counts as one that may free bytes.
        self.n_reading = self.n_reading.saturating_sub(1);
        let waits_for_bytes = |(_, wait): &(_, WaitFor)| matches!(wait, WaitFor::Bytes { .. });
        let is_behind = matches!(wait, WaitFor::Bytes { .. })
            && self.parked.range(..index).any(|(_, parked)| waits_for_bytes(parked));
        let granted = if is_behind { Err(NotYet) } else { self.granted(index, wait) };
        let Ok(permit) = granted else {
            self.parked.insert(index, (parked, wait));
            return None;
        };
        self.n_reading += 1;
        Some((parked, permit))
    }

    /// A load has ended, successfully or not.
    pub(crate) fn load_ended(&mut self) {
        self.n_loads += 1;
    }

    /// The number of loads that have ended.
    pub(crate) fn n_loads(&self) -> u64 {
        self.n_loads
    }

    /// All requests of an urgent row were sent, or none will be.
    pub(crate) fn requested(&mut self, index: u64) {
        self.unrequested.remove(&index);
    }

    /// The end of the urgent rows.
    fn urgent_end(&self) -> u64 {
        self.first.saturating_add(self.limits.n_urgent)
    }

    /// A row has been read, and waits for a decoder.
    pub(crate) fn push_read(&mut self, index: u64, read: W::Read) {
        self.n_reading = self.n_reading.saturating_sub(1);
        self.unrequested.remove(&index);
        // Most rows are read in their order.
        let before = self.read.iter().rposition(|(other, _)| *other < index);
        self.read.insert(before.map_or(0, |at| at + 1), (index, read));
    }

    /// The first of the rows that wait for a decoder, with its slot.
    pub(crate) fn next_decode(&mut self) -> Option<(u64, W::Read, Option<W::Slot>)> {
        let (index, read) = self.read.pop_front()?;
        self.n_decoding += 1;
        let (batch, row) = (self.batch_of(index), self.row_in_batch(index));
        let slot = self.batches.get_mut(batch).and_then(|batch| batch.slots.get_mut(row)?.take());
        Some((index, read, slot))
    }

    /// Another row is to be read in place of one that was being decoded. Its slot is free again.
    pub(crate) fn replace(&mut self, index: u64, parked: W::Parked, slot: Option<W::Slot>) {
        self.n_decoding = self.n_decoding.saturating_sub(1);
        let (batch, row) = (self.batch_of(index), self.row_in_batch(index));
        let of_row = self.batches.get_mut(batch).and_then(|batch| batch.slots.get_mut(row));
        if let Some(of_row) = of_row {
            *of_row = slot;
        }
        self.parked.insert(index, (parked, WaitFor::Reader));
    }

    /// A decoder has finished a row. With the last one of a batch, its rows are to be joined, and
    /// then [`Self::finish_batch`] is to be called.
    pub(crate) fn finish_decoded(
        &mut self,
        index: u64,
        row: Result<W::Row>,
    ) -> Option<CompleteBatch<W>> {
        self.n_decoding = self.n_decoding.saturating_sub(1);
        self.finish_row(index, row)
    }

    /// As [`Self::finish_decoded`], for a row that a reader has finished, or could not read.
    pub(crate) fn finish_read(
        &mut self,
        index: u64,
        row: Result<W::Row>,
    ) -> Option<CompleteBatch<W>> {
        self.n_reading = self.n_reading.saturating_sub(1);
        self.unrequested.remove(&index);
        self.finish_row(index, row)
    }

    fn finish_row(&mut self, index: u64, row: Result<W::Row>) -> Option<CompleteBatch<W>> {
        self.n_unfinished = self.n_unfinished.saturating_sub(1);
        let (batch, row_in_batch) = (self.batch_of(index), self.row_in_batch(index));
        let batch = self.batches.get_mut(batch)?;
        if batch.rows.get_mut(row_in_batch)?.replace(row).is_none() {
            batch.n_missing -= 1;
        }
        if batch.n_missing > 0 {
            return None;
        }
        self.n_assembling += 1;
        Some(CompleteBatch {
            first: index - row_in_batch as u64,
            rows: std::mem::take(&mut batch.rows),
            lease: std::mem::take(&mut batch.lease),
            reserved: batch.reserved.take(),
        })
    }

    /// The rows of the batch that begins at `first` were joined. `other_bytes` are those that it
    /// takes besides its buffer.
    pub(crate) fn finish_batch(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        self.n_assembling = self.n_assembling.saturating_sub(1);
        self.set_finished(first, batch, other_bytes);
    }

    /// The bytes that were reserved for the batch that begins at `first`, which a reader has claimed
    /// whole.
    pub(crate) fn take_reserved(&mut self, first: u64) -> Option<Permit> {
        let batch = self.batch_of(first);
        self.batches.get_mut(batch)?.reserved.take()
    }

    /// As [`Self::finish_batch`], for a batch that a reader has claimed whole.
    pub(crate) fn finish_whole(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        self.n_reading = self.n_reading.saturating_sub(1);
        let n_rows = self.batch_end(self.batch_of(first)) - first;
        self.n_unfinished = self.n_unfinished.saturating_sub(n_rows);
        self.unrequested.remove(&first);
        self.set_finished(first, batch, other_bytes);
    }

    fn set_finished(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        if batch.is_ok() {
            self.other_bytes = Some(self.other_bytes.unwrap_or(0).max(other_bytes));
        }
        let index = self.batch_of(first);
        if let Some(open) = self.batches.get_mut(index) {
            (open.finished, open.reserved) = (Some(batch), None);
            self.is_head_finished |= index == 0;
        }
    }

    /// The next batch for the consumer, if it is finished. If not, the consumer waits for it from now on.
    ///
    /// # Errors
    ///
    /// That of the batch; that of the stream, once the batches that were finished are delivered.
    pub(crate) fn take(&mut self) -> Result<Next<W::Batch>> {
        if self.is_head_finished {
            let finished = self.batches.pop_front().and_then(|batch| batch.finished);
            let next = self.batches.front();
            self.is_head_finished = next.is_some_and(|batch| batch.finished.is_some());
            self.is_awaited = false;
            self.head += self.limits.rows_per_batch;
            return finished.map_or(Ok(Next::Pending), |batch| batch.map(Next::Batch));
        }
        if let Some(failure) = self.failure.take() {
            return Err(failure);
        }
        match self.end {
            Some(end) if self.head >= end => Ok(Next::End),
            _ => {
                self.is_awaited = true;
                Ok(Next::Pending)
            }
        }
    }

    /// Stops the whole stream.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Takes out everything that holds memory, for the caller to drop without the lock.
    pub(crate) fn clear(&mut self) -> impl Sized + use<W> {
        self.unrequested.clear();
        self.is_head_finished = false;
        (
            std::mem::take(&mut self.batches),
            std::mem::take(&mut self.parked),
            std::mem::take(&mut self.read),
        )
    }

    /// The index in `batches` of a row's batch.
    fn batch_of(&self, index: u64) -> usize {
        (index.saturating_sub(self.head) / self.limits.rows_per_batch) as usize
    }

    fn row_in_batch(&self, index: u64) -> usize {
        (index.saturating_sub(self.head) % self.limits.rows_per_batch) as usize
    }

    /// The end of the batch with this index in `batches`.
    fn batch_end(&self, batch: usize) -> u64 {
        let end = self.head + (batch as u64 + 1) * self.limits.rows_per_batch;
        self.end.map_or(end, |last| end.min(last))
    }
}
