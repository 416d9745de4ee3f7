//! The one lock of a pipeline: which rows are claimed, read, decoded and delivered, and how many
//! bytes that takes.
//!
//! Rows are claimed in the order of the stream. Two rules bound memory and cannot deadlock: a row
//! may be claimed only into a batch that is open, and a batch is opened only within the look-ahead
//! and the budget, the next one to deliver always; a row's bytes are charged only within the
//! budget, those of the lowest unfinished row always. So the row that everything waits for is
//! never kept waiting itself.

mod budget;
mod wake;

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    ops::Range,
    sync::{
        Condvar, Mutex,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use self::wake::Locked;
use super::{
    Job, Next, Shared,
    measure::{Lengths, Tally, Why},
    progress::Progress,
};
use crate::{
    batch::{AlignedBuf, Batch, Binary, Row},
    error::{Error, Result},
    shard::ReadCounters,
    stats::{self, Snapshot},
};

/// The queues, and what wakes their threads.
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    /// Readers wait here for a row that they may claim.
    room: Condvar,
    /// Readers wait here for the bytes of a row that they have claimed.
    budget: Condvar,
    /// Rows that are read and wait for a decoder, and whether no more will come: what the pool asks
    /// without the lock.
    n_read: AtomicUsize,
    is_over: AtomicBool,
    /// The consumer waits here for a batch.
    ready: Condvar,
    /// Rows before this one are those of the first batch: no later one is claimed while the storage
    /// was not yet asked for all of them, so that what is read ahead takes no bandwidth from them.
    first_end: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// Stream index of the first row claimed.
    first: u64,
    /// Stream index of the next row to claim.
    next_row: u64,
    /// Stream index of the first row of `batches[0]`.
    head: u64,
    /// Stream index at which the stream ends.
    end: Option<u64>,
    batches: VecDeque<Progress>,
    /// Rows of the first batch that are claimed, and whose bytes the storage was not yet asked for.
    asking: BTreeSet<u64>,
    /// Rows that are claimed and not yet filed: the first of those claimed together, and how many.
    unfinished: BTreeMap<u64, usize>,
    /// Rows that are read and wait for a decoder, the lowest first.
    jobs: BTreeMap<u64, Job>,
    /// Bytes charged: encoded rows, decoded ones that have buffers of their own, and objects.
    used: usize,
    /// Of the last two batches that were delivered: what Python made of such bytes is with the
    /// consumer, who holds a batch while he asks for the next, and cannot be seen to die.
    delivered: [usize; 2],
    /// Counts the threads asleep at `room` and `budget`: waking nobody is a system call
    /// too, and waking all for one row cost more than a percent of the throughput.
    tally: Tally,
    failure: Option<Error>,
}

/// What a reader may do next.
enum Claim {
    /// Claim the next row; how many bytes are taken then, where that was worked out.
    Now(Option<usize>),
    /// Wait for room.
    Wait(Why),
    /// Stop: the stream ends, or closes.
    Over,
}

impl State {
    /// Whether the next row may be claimed.
    fn claimable(&self, shared: &Shared) -> Claim {
        if shared.is_closed() || self.end.is_none_or(|end| self.next_row >= end) {
            return Claim::Over;
        }
        if !self.asking.is_empty() && self.next_row >= shared.queue.first_end() {
            return Claim::Wait(Why::LookAhead);
        }
        let place = (self.next_row - self.head) / shared.options.rows_per_batch() as u64;
        let place = place as usize;
        if place < self.batches.len() || place == 0 {
            return Claim::Now(None);
        }
        if place >= shared.options.look_ahead() {
            return Claim::Wait(Why::LookAhead);
        }
        let needed = self.used.saturating_add(shared.next_batch_bytes());
        let taken = needed.saturating_add(shared.other_bytes());
        let fits = taken.saturating_add(shared.room_to_keep()) <= shared.options.memory_budget;
        if fits { Claim::Now(Some(taken)) } else { Claim::Wait(Why::NoRoomForBatch) }
    }
}

impl Queue {
    /// Sets where the stream starts and ends, and how many rows of it are asked for before any that
    /// are read ahead. `counters` are of what opening has read.
    pub(super) fn open(&self, rows: Range<u64>, at_first: u64, counters: &ReadCounters) {
        let Range { start, end } = rows;
        let mut state = self.lock();
        state.tally.opened(counters);
        (state.first, state.next_row, state.head, state.end) = (start, start, start, Some(end));
        self.first_end.store(start.saturating_add(at_first), Ordering::Relaxed);
        state.wake_consumer();
    }

    /// The storage has been asked for this row's bytes, or will not be.
    pub(super) fn asked(&self, shared: &Shared, index: u64) {
        if !self.is_in_first_batch(index) {
            return;
        }
        let mut state = self.lock();
        if state.asking.remove(&index) && state.asking.is_empty() {
            state.wake_claiming(shared);
        }
    }

    /// Whether nothing may be read ahead of this row.
    pub(super) fn is_in_first_batch(&self, index: u64) -> bool {
        index < self.first_end()
    }

    fn first_end(&self) -> u64 {
        self.first_end.load(Ordering::Relaxed)
    }

    /// Waits at most `timeout` until [`Self::open`], [`Self::fail`] or [`Self::close`] was called.
    pub(super) fn wait_open(&self, shared: &Shared, timeout: Duration) -> bool {
        let mut state = self.lock();
        let deadline = Instant::now() + timeout;
        while state.end.is_none() && state.failure.is_none() && !shared.is_closed() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = state.until_ready(left);
        }
        true
    }

    /// Waits for room and claims the next row, or with `whole` all that are left of its batch;
    /// `None` at the end of the stream or on closing.
    pub(super) fn claim(&self, shared: &Shared, whole: bool) -> Option<Range<u64>> {
        let rows_per_batch = shared.options.rows_per_batch() as u64;
        let mut state = self.lock();
        let taken = loop {
            match state.claimable(shared) {
                Claim::Over => {
                    state.wake_claiming(shared);
                    return None;
                }
                Claim::Now(taken) => break taken,
                Claim::Wait(why) => state = state.sleep(why),
            }
        };
        let index = state.next_row;
        if (index - state.head) / rows_per_batch >= state.batches.len() as u64 {
            let n_rows = rows_per_batch.min(state.end? - index) as usize;
            state.batches.push_back(Progress::new(n_rows, shared.new_slots(n_rows)));
            let taken = taken.unwrap_or_else(|| state.used.saturating_add(shared.other_bytes()));
            state.tally.uses(taken);
        }
        let n_rows = if whole {
            let behind =
                state.end?.min(index - (index - state.head) % rows_per_batch + rows_per_batch);
            behind - index
        } else {
            1
        };
        state.next_row += n_rows;
        if self.is_in_first_batch(index) {
            state.asking.insert(index);
        }
        state.unfinished.insert(index, n_rows as usize);
        state.wake_claiming(shared);
        Some(index..index + n_rows)
    }

    /// Takes a row that has been read; the pool has to be told of it.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.lock();
        state.jobs.insert(job.index, job);
        self.n_read.store(state.jobs.len(), Ordering::SeqCst);
    }

    /// How many rows are read and wait for a decoder.
    pub(super) fn n_read(&self) -> usize {
        self.n_read.load(Ordering::SeqCst)
    }

    /// Whether the last row has been filed.
    pub(super) fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    /// Takes the lowest of the rows that are read, with its slot; `None` where there is none.
    pub(super) fn pop(&self, shared: &Shared) -> Option<(Job, Option<AlignedBuf>)> {
        if shared.is_closed() {
            return None;
        }
        let rows_per_batch = shared.options.rows_per_batch() as u64;
        let mut state = self.lock();
        let (index, job) = state.jobs.pop_first()?;
        self.n_read.store(state.jobs.len(), Ordering::SeqCst);
        let offset = index - state.head;
        let (batch, row) = (offset / rows_per_batch, offset % rows_per_batch);
        let slot = state
            .batches
            .get_mut(batch as usize)
            .and_then(|batch| batch.slots.get_mut(row as usize))
            .and_then(Option::take);
        Some((job, slot))
    }

    /// Files a finished or failed row, and frees `charged` bytes. `own` bytes stay charged to the
    /// batch. Returns the batch's rows when this was the last one.
    pub(super) fn file(
        &self,
        shared: &Shared,
        index: u64,
        row: Result<Row>,
        charged: usize,
        own: usize,
    ) -> Option<Result<Vec<Row>>> {
        let rows_per_batch = shared.options.rows_per_batch() as u64;
        let mut state = self.lock();
        state.used = (state.used + own).saturating_sub(charged);
        state.unfinished.remove(&index);
        let offset = index.checked_sub(state.head)?;
        let batch = state.batches.get_mut((offset / rows_per_batch) as usize)?;
        batch.bytes += own;
        let complete = batch.put((offset % rows_per_batch) as usize, row);
        state.wake_after_freeing(shared);
        if state.end == Some(state.next_row) && state.unfinished.is_empty() {
            self.is_over.store(true, Ordering::SeqCst);
        }
        complete
    }

    /// Files all rows of a batch, which begin at `index` and were claimed together, assembled, and
    /// frees `charged` bytes. Returns the first row that is not filed yet.
    pub(super) fn file_whole(
        &self,
        shared: &Shared,
        index: u64,
        charged: usize,
        batch: Result<Batch>,
    ) -> u64 {
        let mut state = self.lock();
        state.used = state.used.saturating_sub(charged);
        state.unfinished.remove(&index);
        let unwanted = state.finish(shared, index, batch);
        state.wake_after_freeing(shared);
        if state.end == Some(state.next_row) && state.unfinished.is_empty() {
            self.is_over.store(true, Ordering::SeqCst);
        }
        let first = state.unfinished.first_key_value().map(|(first, _)| *first);
        let first = first.unwrap_or(state.next_row);
        drop(state);
        drop(unwanted);
        first
    }

    /// Files the batch that row `index` belongs to as assembled.
    pub(super) fn finish(&self, shared: &Shared, index: u64, batch: Result<Batch>) {
        let mut state = self.lock();
        let unwanted = state.finish(shared, index, batch);
        drop(state);
        drop(unwanted);
    }

    /// Waits at most `timeout` for the next batch.
    pub(super) fn next(&self, shared: &Shared, timeout: Duration) -> Result<Next> {
        let (consumer, mut deadline) = (&shared.stats.consumer, None);
        let mut state = self.lock();
        loop {
            if shared.is_closed() {
                return Err(Error::new(crate::ErrorKind::Closed));
            }
            if state.batches.front().is_some_and(|batch| batch.finished.is_some()) {
                let mut batch = state.batches.pop_front();
                if let Some(batch) = &mut batch
                    && shared.options.binary == Binary::Numpy
                    && let Some(Ok(finished)) = &mut batch.finished
                {
                    // From here on it counts for as long as it lives.
                    let lent = finished.lend(&shared.lent_rows);
                    batch.bytes = batch.bytes.saturating_sub(lent);
                    state.used = state.used.saturating_sub(lent);
                }
                let read_rows = state.jobs.len();
                let finished = batch.as_ref().and_then(|batch| batch.finished.as_ref());
                let n_rows = finished.and_then(|batch| Some(batch.as_ref().ok()?.n_delivered));
                state.tally.taken(read_rows, n_rows);
                state.head += shared.options.rows_per_batch() as u64;
                let [older, newer] = state.delivered;
                state.delivered = [newer, batch.as_ref().map_or(0, |batch| batch.bytes)];
                state.used = state.used.saturating_sub(older);
                state.wake_after_freeing(shared);
                let finished = batch.and_then(|batch| batch.finished);
                return finished.map_or(Ok(Next::Pending), |batch| batch.map(Next::Batch));
            }
            if let Some(failure) = state.failure.take() {
                return Err(failure);
            }
            if state.end.is_some_and(|end| state.head >= end) {
                return Ok(Next::End);
            }
            let now = Instant::now();
            let left = deadline.get_or_insert(now + timeout).saturating_duration_since(now);
            if left.is_zero() {
                return Ok(Next::Pending);
            }
            consumer.sleeps(now);
            state = state.until_ready(left);
            consumer.wakes(stats::now());
        }
    }

    /// Counts under the lock.
    pub(super) fn tally(&self, count: impl FnOnce(&mut Tally)) {
        count(&mut self.lock().tally);
    }

    /// Fills in what is known here.
    pub(super) fn describe(&self, now: Instant, reads: &ReadCounters, into: &mut Snapshot) {
        let state = self.lock();
        let lengths = Lengths {
            claimed: state.next_row - state.first,
            read_bytes: state.jobs.values().map(|job| job.charged).sum(),
            unfinished_rows: state.unfinished.values().sum(),
            read_rows: state.jobs.len(),
            open_batches: state.batches.len(),
            used: state.used,
        };
        state.tally.describe(now, lengths, reads, into);
    }

    /// Reports what stops the whole pipeline.
    pub(super) fn fail(&self, error: Error) {
        let mut state = self.lock();
        state.failure.get_or_insert(error);
        state.wake_consumer();
    }

    /// Sets the closed flag under the lock, so that no thread can miss it, and wakes them all.
    pub(super) fn close(&self, shared: &Shared) {
        let state = self.lock();
        shared.closed.store(true, Ordering::Release);
        drop(state);
        for condition in [&self.room, &self.budget, &self.ready] {
            condition.notify_all();
        }
    }

    /// Frees what was read and decoded and never delivered.
    pub(super) fn clear(&self) {
        let mut state = self.lock();
        let freed = (std::mem::take(&mut state.jobs), std::mem::take(&mut state.batches));
        // A batch's buffer wakes the readers as it goes, which takes this lock.
        drop(state);
        drop(freed);
    }
}

impl Locked<'_> {
    /// Files the batch that row `index` belongs to. Returns what nobody waits for, to be dropped
    /// without the lock: its buffers wake the readers as they go.
    fn finish(
        &mut self,
        shared: &Shared,
        index: u64,
        batch: Result<Batch>,
    ) -> Option<Result<Batch>> {
        let place = index.checked_sub(self.head);
        let place = place.map(|offset| (offset / shared.options.rows_per_batch() as u64) as usize);
        let held = batch.as_ref().map_or(0, Batch::held_bytes);
        let Some(progress) = place.and_then(|place| self.batches.get_mut(place)) else {
            return Some(batch);
        };
        progress.bytes += held;
        progress.finished = Some(batch);
        self.used += held;
        self.tally.assembled();
        if place == Some(0) {
            self.wake_consumer();
        }
        None
    }
}
