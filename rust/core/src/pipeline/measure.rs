//! The pipeline's statistics: what is counted under the queue's lock, and a snapshot of it all.

use std::{
    path::PathBuf,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use super::{Shared, dataset::Dataset};
use crate::{
    pool::Seat,
    shard::ReadCounters,
    stats::{
        self, Caches, Census, Depths, Memory, Paced, ReaderWaits, SeatTimes, Sleepers, Snapshot,
        StageTimes, StorageTimes, ThreadTimes, Timer,
    },
    threads::usable_cpus,
};

/// Why a reader is asleep at the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// No more batches may be open.
    LookAhead,
    /// One more batch does not fit into the budget.
    NoRoomForBatch,
    /// The row that it has claimed does not fit into the budget.
    NoRoomForRow,
}

/// What the queue's lock guards of the statistics.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Readers that sleep, by [`Why`].
    asleep: Sleepers<3>,
    /// Readers.
    alive: Census,
    opened: Option<Opening>,
    /// Assembled batches that wait for the consumer.
    n_ready: usize,
    peak: usize,
    /// Batches that were assembled, and those of them that the consumer took; their rows.
    n_assembled: u64,
    n_taken: u64,
    n_rows: u64,
    sum_read_rows: u64,
    sum_ready: u64,
}

/// When the shards were open, and what reading had come to by then.
#[derive(Clone, Copy, Debug)]
struct Opening {
    at: Instant,
    requests: u64,
    busy: Duration,
}

/// What the queue knows at one moment, besides the tally.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lengths {
    pub(super) claimed: u64,
    pub(super) read_bytes: usize,
    pub(super) unfinished_rows: usize,
    pub(super) read_rows: usize,
    pub(super) open_batches: usize,
    pub(super) used: usize,
}

impl Tally {
    /// A thread falls asleep for this reason.
    pub(super) fn sleeps(&mut self, why: Why) {
        self.asleep.enter(why as usize, stats::now);
    }

    /// A thread that slept for this reason is awake.
    pub(super) fn wakes(&mut self, why: Why) {
        self.asleep.leave(why as usize, stats::now);
    }

    /// How many threads are asleep for one of these reasons.
    pub(super) fn n_asleep(&self, reasons: &[Why]) -> u32 {
        reasons.iter().map(|why| self.asleep.n(*why as usize)).sum()
    }

    /// The readers.
    pub(super) fn alive(&mut self) -> &mut Census {
        &mut self.alive
    }

    /// The shards are open, after these reads.
    pub(super) fn opened(&mut self, counters: &ReadCounters) {
        let busy = counters.times().timer().sum();
        self.opened = Some(Opening { at: stats::now(), requests: counters.requests(), busy });
    }

    /// Bytes in flight have grown to this.
    pub(super) fn uses(&mut self, bytes: usize) {
        if stats::on() {
            self.peak = self.peak.max(bytes);
        }
    }

    /// A batch is ready for the consumer.
    pub(super) fn assembled(&mut self) {
        if stats::on() {
            self.n_assembled += 1;
        }
        self.n_ready += 1;
    }

    /// The consumer takes a batch of so many rows, or the error in its place.
    pub(super) fn taken(&mut self, read_rows: usize, n_rows: Option<usize>) {
        if let Some(n_rows) = n_rows.filter(|_| stats::on()) {
            self.n_taken += 1;
            self.n_rows += n_rows as u64;
            self.sum_read_rows += read_rows as u64;
            self.sum_ready += self.n_ready as u64;
        }
        self.n_ready = self.n_ready.saturating_sub(1);
    }

    /// Fills in what this and the counters of all reads tell.
    pub(super) fn describe(
        &self,
        now: Instant,
        lengths: Lengths,
        reads: &ReadCounters,
        into: &mut Snapshot,
    ) {
        let readers = self.alive.total(now);
        let [look_ahead, batch, row] = self.asleep.totals(now);
        (into.elements, into.rows) = (self.n_taken, self.n_rows);
        into.assemble.count = self.n_assembled;
        let (requests, storage) =
            self.opened.map_or((0, Duration::ZERO), |opening| (opening.requests, opening.busy));
        let busy = reads.times().timer().sum();
        let (request_s, fit) = (reads.times().timer().percentiles(), reads.times().fit());
        into.storage = StorageTimes {
            requests: reads.requests(),
            bytes: reads.bytes(),
            busy,
            latency: fit.and_then(|(latency_s, _)| Duration::try_from_secs_f64(latency_s).ok()),
            seconds_per_byte: fit.map(|(_, seconds)| seconds),
        };
        let waiting = look_ahead + batch + row;
        into.waits.look_ahead = look_ahead;
        into.waits.memory_budget = batch + row;
        into.opening = self.opened.and_then(|opening| {
            into.elapsed.checked_sub(now.saturating_duration_since(opening.at))
        });
        into.read = StageTimes {
            count: reads.requests().saturating_sub(requests),
            busy: busy.saturating_sub(storage),
            waiting,
            percentiles: request_s,
        };
        let awake = readers.saturating_sub(waiting + into.read.busy + into.waits.tables);
        into.plan = StageTimes {
            count: lengths.claimed,
            busy: awake,
            waiting: into.waits.tables,
            percentiles: into.plan.percentiles,
        };
        into.decode.count = lengths.claimed.saturating_sub(lengths.unfinished_rows as u64);
        into.readers.alive = readers;
        let n_taken = self.n_taken.max(1) as f64;
        into.depths = Depths {
            unfinished_rows: lengths.unfinished_rows,
            read_rows: lengths.read_rows,
            read_bytes: lengths.read_bytes,
            open_batches: lengths.open_batches,
            ready_batches: self.n_ready,
            mean_read_rows: self.sum_read_rows as f64 / n_taken,
            mean_ready_batches: self.sum_ready as f64 / n_taken,
        };
        into.memory.peak = self.peak;
        into.memory.used = lengths.used;
    }
}

/// Counts the thread that holds it among the readers.
pub(super) struct AtWork<'a> {
    shared: &'a Shared,
    file: Option<PathBuf>,
}

impl Drop for AtWork<'_> {
    fn drop(&mut self) {
        if let Some(file) = &self.file {
            self.shared.stats.cpu.leave(file);
        }
        self.shared.queue.tally(|tally| tally.alive().leave(stats::now()));
    }
}

impl Shared {
    /// Counts the calling thread until the result is dropped.
    pub(super) fn at_work(&self) -> AtWork<'_> {
        self.queue.tally(|tally| tally.alive().enter(stats::now()));
        AtWork { shared: self, file: self.stats.cpu.enter() }
    }

    /// Files the time that a row took in its decoder thread, where that was timed.
    pub(super) fn decoded(&self, took: Option<Duration>, resampling: Duration) {
        if resampling > Duration::ZERO {
            self.stats.resample.record(resampling);
        }
        if let Some(took) = took {
            self.stats.decode.record(took.saturating_sub(resampling));
        }
    }

    /// What has been measured until now.
    pub(super) fn snapshot(&self) -> Snapshot {
        let now = stats::now();
        let (stats, counters) = (&self.stats, self.files.counters());
        let (asked, table_loads, waited) = self.tables.counts();
        let file_opens = counters.times().n_opened();
        let file_hits = counters.requests().saturating_sub(file_opens);
        let mut snapshot = Snapshot {
            elapsed: now.saturating_duration_since(stats.began),
            first_element: stats.consumer.first(),
            bad_rows: stats.n_bad.load(Ordering::Relaxed),
            plan: paced(&stats.plan),
            decode: paced(&stats.decode),
            resample: stage(&stats.resample),
            assemble: paced(&stats.assemble),
            deliver: stats.consumer.deliveries(),
            pauses: stats.consumer.pauses(),
            usable_cpus: usable_cpus(),
            waits: ReaderWaits { tables: waited, ..ReaderWaits::default() },
            ..Snapshot::default()
        };
        self.queue.describe(now, counters, &mut snapshot);
        snapshot.consumer = stats.consumer.times(now, snapshot.elements);
        snapshot.assemble.busy = stats.assemble.busy(snapshot.assemble.count);
        let used = snapshot.memory.used.saturating_add(self.other_bytes());
        // Buffers may have grown since rows were charged last.
        self.queue.tally(|tally| tally.uses(used));
        let (peak, budget) = (snapshot.memory.peak.max(used), self.options.memory_budget);
        snapshot.memory = Memory { used, peak, budget };
        snapshot.caches = Caches {
            table_hits: asked.saturating_sub(table_loads),
            table_loads,
            table_bytes: self.tables.bytes(),
            file_hits,
            file_opens,
        };
        snapshot.readers.count = self.options.n_readers();
        snapshot.readers.cpu = stats.cpu.total();
        let SeatTimes { alive, turns, elsewhere, cpu } =
            self.seat.get().map(Seat::times).unwrap_or_default();
        let count = self.options.n_threads();
        snapshot.decoders = ThreadTimes { count, alive, elsewhere, cpu };
        let others = snapshot.resample.busy + snapshot.assemble.busy;
        snapshot.decode.busy = turns.saturating_sub(others);
        snapshot.decode.waiting = alive.saturating_sub(turns + elsewhere);
        snapshot.shards = self.dataset.get().map(Dataset::reads).unwrap_or_default();
        snapshot
    }
}

/// A stage of whose work a part is timed; how much there was of it is counted elsewhere.
fn paced(timer: &Paced) -> StageTimes {
    StageTimes { percentiles: timer.percentiles(), ..StageTimes::default() }
}

/// A stage all of whose work is timed.
fn stage(timer: &Timer) -> StageTimes {
    StageTimes {
        count: timer.count(),
        busy: timer.sum(),
        waiting: Duration::ZERO,
        percentiles: timer.percentiles(),
    }
}
