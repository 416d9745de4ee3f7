//! Rows in the order of a stream, in batches.
//!
//! Rows are claimed in the order of the stream, into batches that are opened within the prefetch
//! depth and the memory budget. A row of the next batch to deliver gets its bytes beyond the budget if the consumer
//! waits for it, and nothing else is being done that could free some. A consumer that does not wait may free the
//! batch before.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::Range,
    sync::Arc,
};

use super::{Grant, Items, Order, Queue, Rows};
use crate::{
    engine::wait::WaitFor,
    error::{Error, Result},
    memory::{Account, Permit},
    metrics::IdleReason,
};

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

/// The batches of a stream.
#[derive(Debug)]
pub(crate) struct InOrder<W: Items> {
    pub(super) limits: Limits,
    /// Indices of the stream's first row, of the next row to claim, and of the first row of
    /// `batches[0]`.
    pub(super) first: u64,
    pub(super) next_row: u64,
    pub(super) head: u64,
    /// The end of the stream; `None` before it has begun.
    pub(super) end: Option<u64>,
    pub(super) batches: VecDeque<OpenBatch<W>>,
    /// Whether the first of them is finished.
    pub(super) is_head_finished: bool,
    /// Whether the consumer has asked for it in vain.
    pub(super) is_awaited: bool,
    /// Rows that are claimed and not finished.
    pub(super) n_unfinished: u64,
    /// Urgent rows whose requests were not sent.
    unrequested: BTreeSet<u64>,
    n_assembling: usize,
    /// The most bytes that a batch took besides its buffer; `None` before the first.
    pub(super) other_bytes: Option<usize>,
    pub(super) failure: Option<Error>,
}

/// A batch between its opening and its delivery.
#[derive(Debug)]
pub(crate) struct OpenBatch<W: Items> {
    slots: Vec<Option<W::Slot>>,
    lease: W::Lease,
    reserved: Option<Permit>,
    rows: Vec<Option<Result<W::Row>>>,
    n_missing: usize,
    pub(super) finished: Option<Result<W::Batch>>,
}

impl<W: Items> Default for InOrder<W> {
    /// That of a queue that has not begun.
    fn default() -> Self {
        Self {
            limits: Limits::default(),
            first: 0,
            next_row: 0,
            head: 0,
            end: None,
            batches: VecDeque::new(),
            is_head_finished: false,
            is_awaited: false,
            n_unfinished: 0,
            unrequested: BTreeSet::new(),
            n_assembling: 0,
            other_bytes: None,
            failure: None,
        }
    }
}

impl<W: Items> Order<W> for InOrder<W> {
    type Held = VecDeque<OpenBatch<W>>;

    fn claim(&mut self, rows: &mut Rows<W>) -> Option<Grant<W::Parked>> {
        if !self.may_claim(rows) {
            return None;
        }
        let batch = self.batch_of(self.next_row);
        if batch >= self.batches.len() {
            return self.permit_for_batch(rows).map(Grant::Open);
        }
        let start = self.next_row;
        let end = if self.limits.whole_batches { self.batch_end(batch) } else { start + 1 };
        self.next_row = end;
        rows.n_reading += 1;
        self.n_unfinished += end - start;
        if start < self.urgent_end() {
            self.unrequested.insert(start);
        }
        Some(Grant::Claim(start..end))
    }

    fn n_claimable(&self, rows: &Rows<W>) -> Result<usize, Option<IdleReason>> {
        if !self.may_claim(rows) {
            return Err(None);
        }
        let batch = self.batch_of(self.next_row);
        let is_open = batch < self.batches.len() || self.batches.is_empty();
        if is_open || self.may_open_more() && rows.account.fits(self.next_batch_bytes()) {
            let n_rows = self.batch_end(batch) - self.next_row;
            return Ok(if self.limits.whole_batches { 1 } else { n_rows as usize });
        }
        Err(self.may_open_more().then_some(IdleReason::Memory))
    }

    fn goes_on(&self, rows: &Rows<W>, index: u64, wait: WaitFor) -> bool {
        matches!(wait, WaitFor::Bytes { .. })
            && self.is_awaited
            && self.batch_of(index) == 0
            && !self.is_anything_active(rows)
    }

    fn was_read(&mut self, index: u64) {
        self.unrequested.remove(&index);
    }

    fn take_slot(&mut self, index: u64) -> Option<W::Slot> {
        self.slot(index)?.take()
    }

    fn put_slot(&mut self, index: u64, slot: Option<W::Slot>) {
        if let Some(of_row) = self.slot(index) {
            *of_row = slot;
        }
    }

    fn is_ready(&self) -> bool {
        self.failure.is_some()
            || self.is_head_finished
            || self.end.is_some_and(|end| self.head >= end)
    }

    fn take_held(&mut self) -> Self::Held {
        self.unrequested.clear();
        self.is_head_finished = false;
        std::mem::take(&mut self.batches)
    }
}

impl<W: Items> InOrder<W> {
    /// Whether something is being done that may free bytes without the consumer.
    fn is_anything_active(&self, rows: &Rows<W>) -> bool {
        rows.n_reading + rows.n_decoding + self.n_assembling > 0 || !rows.read.is_empty()
    }

    /// The place of a row's slot.
    fn slot(&mut self, index: u64) -> Option<&mut Option<W::Slot>> {
        let (batch, row) = (self.batch_of(index), self.row_in_batch(index));
        self.batches.get_mut(batch)?.slots.get_mut(row)
    }

    /// Whether the next row may be claimed, as far as that depends on other rows.
    pub(super) fn may_claim(&self, rows: &Rows<W>) -> bool {
        let is_over = self.end.is_none_or(|end| self.next_row >= end);
        let is_early = self.next_row >= self.urgent_end() && !self.unrequested.is_empty();
        !is_over
            && !is_early
            && self.failure.is_none()
            && rows.parked.len() < self.limits.max_parked
            && !rows.waits_for_bytes()
    }

    /// Bytes for one more batch. The next one to deliver gets them beyond the budget.
    fn permit_for_batch(&self, rows: &Rows<W>) -> Option<Permit> {
        if self.batches.is_empty() {
            return Some(rows.account.take(self.next_batch_bytes()));
        }
        self.may_open_more().then(|| rows.account.try_take(self.next_batch_bytes())).flatten()
    }

    /// Whether the prefetch depth has room for another batch.
    pub(super) fn may_open_more(&self) -> bool {
        // The size of whole batches is known once the first one is finished.
        let is_sized = !self.limits.whole_batches || self.other_bytes.is_some();
        self.batches.len() < self.limits.max_open_batches && is_sized
    }

    pub(super) fn next_batch_bytes(&self) -> usize {
        self.limits.batch_bytes.saturating_add(self.other_bytes.unwrap_or(0))
    }

    /// The end of the urgent rows.
    fn urgent_end(&self) -> u64 {
        self.first.saturating_add(self.limits.n_urgent)
    }

    /// The index in `batches` of a row's batch.
    pub(super) fn batch_of(&self, index: u64) -> usize {
        (index.saturating_sub(self.head) / self.limits.rows_per_batch) as usize
    }

    fn row_in_batch(&self, index: u64) -> usize {
        (index.saturating_sub(self.head) % self.limits.rows_per_batch) as usize
    }

    /// The end of the batch with this index in `batches`.
    pub(super) fn batch_end(&self, batch: usize) -> u64 {
        let end = self.head + (batch as u64 + 1) * self.limits.rows_per_batch;
        self.end.map_or(end, |last| end.min(last))
    }
}

impl<W: Items> Queue<W> {
    /// A queue that has not begun.
    pub(crate) fn new(account: Arc<Account>) -> Self {
        Self::with_order(account, InOrder::default())
    }

    /// Begins a stream of these rows.
    pub(crate) fn begin(&mut self, rows: Range<u64>, limits: Limits) {
        self.order.limits = limits;
        (self.order.first, self.order.next_row, self.order.head) =
            (rows.start, rows.start, rows.start);
        self.order.end = Some(rows.end.max(rows.start));
    }

    /// Rows of the next batch to open.
    pub(crate) fn n_rows_to_open(&self) -> usize {
        let batch = self.order.batches.len();
        let start = self.order.head + batch as u64 * self.order.limits.rows_per_batch;
        (self.order.batch_end(batch) - start) as usize
    }

    /// Opens a batch, after [`Grant::Open`]. `reserved` is for its other columns.
    pub(crate) fn open_batch(
        &mut self,
        slots: Vec<W::Slot>,
        lease: W::Lease,
        reserved: Option<Permit>,
    ) {
        let n_rows = self.n_rows_to_open();
        self.order.batches.push_back(OpenBatch {
            slots: slots.into_iter().map(Some).collect(),
            lease,
            reserved,
            rows: (0..n_rows).map(|_| None).collect(),
            n_missing: n_rows,
            finished: None,
        });
    }

    /// All requests of an urgent row were sent, or none will be.
    pub(crate) fn requested(&mut self, index: u64) {
        self.order.unrequested.remove(&index);
    }

    /// A decoder has finished a row. With the last one of a batch, its rows are to be joined, and
    /// then [`Self::finish_batch`] is to be called.
    pub(crate) fn finish_decoded(
        &mut self,
        index: u64,
        row: Result<W::Row>,
    ) -> Option<CompleteBatch<W>> {
        self.rows.n_decoding = self.rows.n_decoding.saturating_sub(1);
        self.finish_row(index, row)
    }

    /// As [`Self::finish_decoded`], for a row that a reader has finished, or could not read.
    pub(crate) fn finish_read(
        &mut self,
        index: u64,
        row: Result<W::Row>,
    ) -> Option<CompleteBatch<W>> {
        self.rows.n_reading = self.rows.n_reading.saturating_sub(1);
        self.order.unrequested.remove(&index);
        self.finish_row(index, row)
    }

    fn finish_row(&mut self, index: u64, row: Result<W::Row>) -> Option<CompleteBatch<W>> {
        self.order.n_unfinished = self.order.n_unfinished.saturating_sub(1);
        let (batch, row_in_batch) = (self.order.batch_of(index), self.order.row_in_batch(index));
        let batch = self.order.batches.get_mut(batch)?;
        if batch.rows.get_mut(row_in_batch)?.replace(row).is_none() {
            batch.n_missing -= 1;
        }
        if batch.n_missing > 0 {
            return None;
        }
        self.order.n_assembling += 1;
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
        self.order.n_assembling = self.order.n_assembling.saturating_sub(1);
        self.set_finished(first, batch, other_bytes);
    }

    /// The bytes that were reserved for the batch that begins at `first`, which a reader has claimed
    /// whole.
    pub(crate) fn take_reserved(&mut self, first: u64) -> Option<Permit> {
        let batch = self.order.batch_of(first);
        self.order.batches.get_mut(batch)?.reserved.take()
    }

    /// As [`Self::finish_batch`], for a batch that a reader has claimed whole.
    pub(crate) fn finish_whole(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        self.rows.n_reading = self.rows.n_reading.saturating_sub(1);
        let n_rows = self.order.batch_end(self.order.batch_of(first)) - first;
        self.order.n_unfinished = self.order.n_unfinished.saturating_sub(n_rows);
        self.order.unrequested.remove(&first);
        self.set_finished(first, batch, other_bytes);
    }

    fn set_finished(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        if batch.is_ok() {
            self.order.other_bytes = Some(self.order.other_bytes.unwrap_or(0).max(other_bytes));
        }
        let index = self.order.batch_of(first);
        if let Some(open) = self.order.batches.get_mut(index) {
            (open.finished, open.reserved) = (Some(batch), None);
            self.order.is_head_finished |= index == 0;
        }
    }

    /// The next batch for the consumer, if it is finished. If not, the consumer waits for it from now on.
    ///
    /// # Errors
    ///
    /// That of the batch; that of the stream, once the batches that were finished are delivered.
    pub(crate) fn take(&mut self) -> Result<Next<W::Batch>> {
        if self.order.is_head_finished {
            let finished = self.order.batches.pop_front().and_then(|batch| batch.finished);
            let next = self.order.batches.front();
            self.order.is_head_finished = next.is_some_and(|batch| batch.finished.is_some());
            self.order.is_awaited = false;
            self.order.head += self.order.limits.rows_per_batch;
            return finished.map_or(Ok(Next::Pending), |batch| batch.map(Next::Batch));
        }
        if let Some(failure) = self.order.failure.take() {
            return Err(failure);
        }
        match self.order.end {
            Some(end) if self.order.head >= end => Ok(Next::End),
            _ => {
                self.order.is_awaited = true;
                Ok(Next::Pending)
            }
        }
    }

    /// Stops the whole stream.
    pub(crate) fn fail(&mut self, error: Error) {
        self.order.failure.get_or_insert(error);
    }
}
