//! Which rows are claimed, read, decoded and delivered: a state machine.
//!
//! It has no threads, no locks, no clock and does no I/O. Events come in as method calls; what may
//! be done next comes out as a [`Grant`], a row to decode or a batch to deliver. The lock around it
//! and the wake-ups are in [`super::shell`].
//!
//! Rows are claimed in the order of the stream, into batches that are opened within the look-ahead
//! and the budget. A reader whose row needs more bytes than there are does not wait: the row is
//! *parked*, and the reader goes on with something else. Bytes are granted in the order of the
//! stream. One rule keeps everything going: a row of the next batch to deliver gets its bytes beyond
//! the budget where nothing is under way that could free some, since everything waits for it.

mod look;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    fmt,
    ops::Range,
    sync::Arc,
};

use crate::{
    error::{Error, Result},
    memory::{Account, Permit},
};

/// What passes through a queue.
pub(crate) trait Items {
    /// A claimed row (or batch) that cannot go on yet.
    type Parked: fmt::Debug;
    /// A row that is read, and waits for a decoder.
    type Read: fmt::Debug;
    /// A finished row.
    type Row: fmt::Debug;
    /// The place of one row in its batch's buffer.
    type Slot: fmt::Debug;
    /// What is left of a batch's buffer while its slots are filled.
    type Rest: Default + fmt::Debug;
    /// A batch.
    type Batch: fmt::Debug;
}

/// The numbers that a queue keeps to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Rows in a batch, at least 1.
    pub(crate) rows_per_batch: u64,
    /// Batches that may be under way or waiting, at least 1.
    pub(crate) look_ahead: usize,
    /// Bytes of a batch's buffer.
    pub(crate) batch_bytes: usize,
    /// Whether a reader claims all rows of a batch at once.
    pub(crate) whole_batches: bool,
    /// Rows that may be parked: no more are claimed then.
    pub(crate) max_parked: usize,
    /// Rows of the first batch: no later row is claimed before the storage was asked for all of
    /// them, so that what is read ahead takes no bandwidth from them.
    pub(crate) asked_first: u64,
}

/// What a reader may do next.
#[derive(Debug)]
pub(crate) enum Grant<P> {
    /// Open a batch: give [`Queue::open_batch`] its buffer, for which this is the permit, and ask
    /// again.
    Open(Permit),
    /// Read these rows: one, or those of a batch.
    Claim(Claim),
    /// Go on with what was parked.
    Resume {
        /// What was parked.
        parked: P,
        /// The bytes that it needed.
        permit: Option<Permit>,
    },
}

/// Rows that a reader has claimed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) rows: Range<u64>,
}

/// What a parked row waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Bytes of the budget; of the reserve too, where they are for what that is kept for.
    Bytes { n_bytes: usize, of_reserve: bool },
    /// The end of a load that another reader does: any that ends after this many have ended.
    Load { after: u64 },
    /// Nothing: any reader may go on.
    Nothing,
}

/// All rows of a batch.
#[derive(Debug)]
pub(crate) struct Complete<W: Items> {
    /// The index of the first one.
    pub(crate) first: u64,
    /// In their order, or the error of the first that failed.
    pub(crate) rows: Result<Vec<W::Row>>,
    pub(crate) rest: W::Rest,
    /// Bytes that were set aside for the other columns.
    pub(crate) reserved: Option<Permit>,
}

/// What a row needs is not there.
struct NotYet;

/// What there is for the consumer.
#[derive(Debug)]
pub(crate) enum Taken<B> {
    Batch(Result<B>),
    End,
    NotYet,
}

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Queue<W: Items> {
    limits: Limits,
    account: Arc<Account>,
    /// Index of the first row of the stream, of the next row to claim, and of the first row of
    /// `batches[0]`.
    first: u64,
    next_row: u64,
    head: u64,
    /// Where the stream ends; `None` before it has begun.
    end: Option<u64>,
    batches: VecDeque<OpenBatch<W>>,
    /// Claimed and not filed: the first of the rows that were claimed together.
    unfinished: BTreeSet<u64>,
    parked: BTreeMap<u64, (W::Parked, Need)>,
    /// Read, and waiting for a decoder.
    read: BTreeMap<u64, W::Read>,
    /// Rows of the first batch for whose bytes the storage was not asked yet.
    unasked: BTreeSet<u64>,
    n_reading: usize,
    n_decoding: usize,
    n_assembling: usize,
    loads: u64,
    /// What the largest batch so far took besides its buffer; `None` before the first.
    other_bytes: Option<usize>,
    failure: Option<Error>,
}

/// A batch between its opening and its delivery.
#[derive(Debug)]
struct OpenBatch<W: Items> {
    slots: Vec<Option<W::Slot>>,
    rest: W::Rest,
    reserved: Option<Permit>,
    rows: Vec<Option<Result<W::Row>>>,
    missing: usize,
    finished: Option<Result<W::Batch>>,
}

impl<W: Items> Queue<W> {
    pub(crate) fn new(limits: Limits, account: Arc<Account>) -> Self {
        Self {
            limits,
            account,
            first: 0,
            next_row: 0,
            head: 0,
            end: None,
            batches: VecDeque::new(),
            unfinished: BTreeSet::new(),
            parked: BTreeMap::new(),
            read: BTreeMap::new(),
            unasked: BTreeSet::new(),
            n_reading: 0,
            n_decoding: 0,
            n_assembling: 0,
            loads: 0,
            other_bytes: None,
            failure: None,
        }
    }

    /// The stream begins: these rows, by these limits.
    pub(crate) fn begin(&mut self, rows: Range<u64>, limits: Limits) {
        self.limits = limits;
        (self.first, self.next_row, self.head) = (rows.start, rows.start, rows.start);
        self.end = Some(rows.end.max(rows.start));
    }

    /// Whether the stream has begun.
    pub(crate) fn has_begun(&self) -> bool {
        self.end.is_some()
    }

    /// What the calling reader may do.
    pub(crate) fn next_read(&mut self) -> Option<Grant<W::Parked>> {
        if let Some((index, permit)) = self.resumable() {
            let (parked, _) = self.parked.remove(&index)?;
            self.n_reading += 1;
            return Some(Grant::Resume { parked, permit });
        }
        if !self.may_claim() {
            return None;
        }
        let place = self.place_of(self.next_row);
        if place >= self.batches.len() {
            return self.permit_for_batch().map(Grant::Open);
        }
        let start = self.next_row;
        let end = if self.limits.whole_batches { self.batch_end(place) } else { start + 1 };
        self.next_row = end;
        self.n_reading += 1;
        self.unfinished.insert(start);
        if start < self.asked_first() {
            self.unasked.insert(start);
        }
        Some(Grant::Claim(Claim { rows: start..end }))
    }

    /// The first parked row that can go on, with the bytes that it needs.
    fn resumable(&self) -> Option<(u64, Option<Permit>)> {
        let mut waits_for_bytes = false;
        for (index, (_, need)) in &self.parked {
            // In the order of the stream: what does not fit keeps those behind it waiting.
            let is_first = !matches!(need, Need::Bytes { .. })
                || !std::mem::replace(&mut waits_for_bytes, true);
            if is_first && let Ok(permit) = self.granted(*index, *need) {
                return Some((*index, permit));
            }
        }
        None
    }

    /// What a parked row needs, if it can be had; it is the first of those that wait for bytes.
    fn granted(&self, index: u64, need: Need) -> Result<Option<Permit>, NotYet> {
        match need {
            Need::Nothing => Ok(None),
            Need::Load { after } if after != self.loads => Ok(None),
            Need::Load { .. } => Err(NotYet),
            Need::Bytes { n_bytes, of_reserve } => {
                let fitting = if of_reserve {
                    self.account.try_take_reserved(n_bytes)
                } else {
                    self.account.try_take(n_bytes)
                };
                let forced = || self.is_awaited(index).then(|| self.account.take(n_bytes));
                fitting.or_else(forced).map(Some).ok_or(NotYet)
            }
        }
    }

    /// Whether everything waits for this parked row: its batch is the next to deliver, and nothing
    /// is under way that may free bytes.
    fn is_awaited(&self, index: u64) -> bool {
        self.place_of(index) == 0 && !self.is_anything_under_way()
    }

    /// Whether something goes on that may free bytes without the consumer.
    fn is_anything_under_way(&self) -> bool {
        self.n_reading + self.n_decoding + self.n_assembling > 0 || !self.read.is_empty()
    }

    /// Whether the next row may be claimed as far as other rows go.
    fn may_claim(&self) -> bool {
        let is_over = self.end.is_none_or(|end| self.next_row >= end);
        let is_early = self.next_row >= self.asked_first() && !self.unasked.is_empty();
        let waits_for_bytes =
            || self.parked.values().any(|(_, need)| matches!(need, Need::Bytes { .. }));
        !is_over
            && !is_early
            && self.failure.is_none()
            && self.parked.len() < self.limits.max_parked
            && !waits_for_bytes()
    }

    /// Bytes for one more batch; what is delivered next gets them beyond the budget.
    fn permit_for_batch(&self) -> Option<Permit> {
        if self.batches.is_empty() {
            return Some(self.account.take(self.next_batch_bytes()));
        }
        self.may_open_more().then(|| self.account.try_take(self.next_batch_bytes())).flatten()
    }

    /// Whether the look-ahead has room for another batch beside those that are open.
    fn may_open_more(&self) -> bool {
        // What whole batches take is known when the first one is there.
        let is_sized = !self.limits.whole_batches || self.other_bytes.is_some();
        self.batches.len() < self.limits.look_ahead && is_sized
    }

    fn next_batch_bytes(&self) -> usize {
        self.limits.batch_bytes.saturating_add(self.other_bytes.unwrap_or(0))
    }

    /// Rows of the next batch to open.
    pub(crate) fn n_rows_to_open(&self) -> usize {
        let place = self.batches.len();
        let start = self.head + place as u64 * self.limits.rows_per_batch;
        (self.batch_end(place) - start) as usize
    }

    /// Opens a batch, whose slots are these: after [`Grant::Open`]. `reserved` is for its other
    /// columns.
    pub(crate) fn open_batch(
        &mut self,
        slots: Vec<W::Slot>,
        rest: W::Rest,
        reserved: Option<Permit>,
    ) {
        let n_rows = self.n_rows_to_open();
        self.batches.push_back(OpenBatch {
            slots: slots.into_iter().map(Some).collect(),
            rest,
            reserved,
            rows: (0..n_rows).map(|_| None).collect(),
            missing: n_rows,
            finished: None,
        });
    }

    /// A claimed row cannot go on. Returns it with what it needs, where that is there after all.
    pub(crate) fn park(
        &mut self,
        index: u64,
        parked: W::Parked,
        need: Need,
    ) -> Option<(W::Parked, Option<Permit>)> {
        // This reader is no longer one that could free bytes.
        self.n_reading = self.n_reading.saturating_sub(1);
        let waits_for_bytes = |(_, need): &(_, Need)| matches!(need, Need::Bytes { .. });
        let is_behind = matches!(need, Need::Bytes { .. })
            && self.parked.range(..index).any(|(_, parked)| waits_for_bytes(parked));
        let granted = if is_behind { Err(NotYet) } else { self.granted(index, need) };
        let Ok(permit) = granted else {
            self.parked.insert(index, (parked, need));
            return None;
        };
        self.n_reading += 1;
        Some((parked, permit))
    }

    /// A load has ended, whatever came of it.
    pub(crate) fn loaded(&mut self) {
        self.loads += 1;
    }

    /// How many loads have ended.
    pub(crate) fn loads(&self) -> u64 {
        self.loads
    }

    /// The storage has been asked for this row's bytes, or will not be.
    pub(crate) fn asked(&mut self, index: u64) {
        self.unasked.remove(&index);
    }

    fn asked_first(&self) -> u64 {
        self.first.saturating_add(self.limits.asked_first)
    }

    /// A row has been read.
    pub(crate) fn push_read(&mut self, index: u64, read: W::Read) {
        self.n_reading = self.n_reading.saturating_sub(1);
        self.unasked.remove(&index);
        self.read.insert(index, read);
    }

    /// The lowest of the rows that are read, with its slot.
    pub(crate) fn next_decode(&mut self) -> Option<(u64, W::Read, Option<W::Slot>)> {
        let (index, read) = self.read.pop_first()?;
        self.n_decoding += 1;
        let (place, row) = (self.place_of(index), self.row_of(index));
        let slot = self.batches.get_mut(place).and_then(|batch| batch.slots.get_mut(row)?.take());
        Some((index, read, slot))
    }

    /// A row that was being decoded is to be read again, as another one: its slot is free again.
    pub(crate) fn read_again(&mut self, index: u64, parked: W::Parked, slot: Option<W::Slot>) {
        self.n_decoding = self.n_decoding.saturating_sub(1);
        let (place, row) = (self.place_of(index), self.row_of(index));
        if let Some(of_row) = self.batches.get_mut(place).and_then(|batch| batch.slots.get_mut(row))
        {
            *of_row = slot;
        }
        self.parked.insert(index, (parked, Need::Nothing));
    }

    /// Files a row that a decoder has finished, or could not. With the last one of a batch, its
    /// rows are to be joined: [`Self::finish`] takes the batch then.
    pub(crate) fn file_decoded(&mut self, index: u64, row: Result<W::Row>) -> Option<Complete<W>> {
        self.n_decoding = self.n_decoding.saturating_sub(1);
        self.file(index, row)
    }

    /// As [`Self::file_decoded`], for a row that a reader has finished, or could not read.
    pub(crate) fn file_read(&mut self, index: u64, row: Result<W::Row>) -> Option<Complete<W>> {
        self.n_reading = self.n_reading.saturating_sub(1);
        self.unasked.remove(&index);
        self.file(index, row)
    }

    fn file(&mut self, index: u64, row: Result<W::Row>) -> Option<Complete<W>> {
        self.unfinished.remove(&index);
        let (place, row_place) = (self.place_of(index), self.row_of(index));
        let batch = self.batches.get_mut(place)?;
        if batch.rows.get_mut(row_place)?.replace(row).is_none() {
            batch.missing -= 1;
        }
        if batch.missing > 0 {
            return None;
        }
        self.n_assembling += 1;
        Some(Complete {
            first: index - row_place as u64,
            rows: std::mem::take(&mut batch.rows).into_iter().flatten().collect(),
            rest: std::mem::take(&mut batch.rest),
            reserved: batch.reserved.take(),
        })
    }

    /// The rows of the batch that begins at `first` were joined. `other_bytes` is what it takes
    /// besides its buffer.
    pub(crate) fn finish(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        self.n_assembling = self.n_assembling.saturating_sub(1);
        self.set_finished(first, batch, other_bytes);
    }

    /// The bytes that were set aside for the batch that begins at `first`, which a reader has
    /// claimed as a whole.
    pub(crate) fn take_reserved(&mut self, first: u64) -> Option<Permit> {
        let place = self.place_of(first);
        self.batches.get_mut(place)?.reserved.take()
    }

    /// As [`Self::finish`], for a batch that a reader has claimed as a whole.
    pub(crate) fn finish_whole(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        self.n_reading = self.n_reading.saturating_sub(1);
        self.unfinished.remove(&first);
        self.unasked.remove(&first);
        self.set_finished(first, batch, other_bytes);
    }

    fn set_finished(&mut self, first: u64, batch: Result<W::Batch>, other_bytes: usize) {
        if batch.is_ok() {
            self.other_bytes = Some(self.other_bytes.unwrap_or(0).max(other_bytes));
        }
        let place = self.place_of(first);
        if let Some(open) = self.batches.get_mut(place) {
            (open.finished, open.reserved) = (Some(batch), None);
        }
    }

    /// What there is for the consumer now.
    pub(crate) fn take(&mut self) -> Taken<W::Batch> {
        if self.batches.front().is_some_and(|batch| batch.finished.is_some()) {
            let finished = self.batches.pop_front().and_then(|batch| batch.finished);
            self.head += self.limits.rows_per_batch;
            return finished.map_or(Taken::NotYet, Taken::Batch);
        }
        if let Some(failure) = self.failure.take() {
            return Taken::Batch(Err(failure));
        }
        match self.end {
            Some(end) if self.head >= end => Taken::End,
            _ => Taken::NotYet,
        }
    }

    /// Whether [`Self::take`] has something to say.
    pub(crate) fn has_something(&self) -> bool {
        self.failure.is_some()
            || self.batches.front().is_some_and(|batch| batch.finished.is_some())
            || self.end.is_some_and(|end| self.head >= end)
    }

    /// What stops the whole stream.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// Takes out everything that holds memory, to be dropped without the lock.
    pub(crate) fn clear(&mut self) -> impl Sized + use<W> {
        self.unasked.clear();
        (
            std::mem::take(&mut self.batches),
            std::mem::take(&mut self.parked),
            std::mem::take(&mut self.read),
        )
    }

    /// The number of the open batch that a row belongs to.
    fn place_of(&self, index: u64) -> usize {
        (index.saturating_sub(self.head) / self.limits.rows_per_batch) as usize
    }

    /// The place of a row in its batch.
    fn row_of(&self, index: u64) -> usize {
        (index.saturating_sub(self.head) % self.limits.rows_per_batch) as usize
    }

    /// Where the open batch of this number ends.
    fn batch_end(&self, place: usize) -> u64 {
        let end = self.head + (place as u64 + 1) * self.limits.rows_per_batch;
        self.end.map_or(end, |last| end.min(last))
    }
}
