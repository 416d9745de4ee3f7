//! What the pipeline measures of itself, always.
//!
//! One rule holds for all stages: each piece of work (a request, a row, a batch, an element) is
//! timed, and its duration goes into the stage's [`Timer`], a histogram of relaxed atomics. That
//! takes two readings of the clock and two additions, about a tenth of a microsecond. What keeps
//! readers from working is added up whenever it changes ([`Idle`]).

mod consumer;
mod cpu;
mod idle;
mod latency;
mod requests;
mod shard;
mod snapshot;
mod timer;

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

pub(crate) use self::{
    consumer::Consumer,
    cpu::CpuTimes,
    idle::Idle,
    requests::{FileMetrics, RequestMetrics},
    shard::RowCounts,
    timer::Timer,
};
pub use self::{
    cpu::CpuTime,
    shard::ShardRows,
    snapshot::{
        Caches, Depths, Memory, Pauses, Percentiles, ReaderWaits, ShardReads, Snapshot, StageTimes,
        StorageTimes, ThreadTimes,
    },
};

/// What the threads of one pipeline write as they go.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// When the pipeline was started.
    pub(crate) began: Instant,
    pub(crate) opened: OnceLock<Opening>,
    /// When the last row was finished, or the pipeline was closed.
    pub(crate) ended: OnceLock<Instant>,
    /// Record batches: from the place in the file to columns.
    pub(crate) columns: Timer,
    /// Rows: from encoded bytes to samples at their own rate.
    pub(crate) decode: Timer,
    /// Rows that were resampled.
    pub(crate) resample: Timer,
    /// Batches: joining their rows.
    pub(crate) assemble: Timer,
    /// The consumer's side.
    pub(crate) consumer: Consumer,
    /// Readers without work.
    pub(crate) idle: Idle,
    /// Bad rows in the batches that were taken.
    pub(crate) n_bad: AtomicU64,
}

/// When the shards were open, and what reading had come to by then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) at: Instant,
    pub(crate) requests: u64,
    pub(crate) busy: Duration,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            opened: OnceLock::new(),
            ended: OnceLock::new(),
            columns: Timer::default(),
            decode: Timer::default(),
            resample: Timer::default(),
            assemble: Timer::default(),
            consumer: Consumer::default(),
            idle: Idle::default(),
            n_bad: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// The shards are open, after these requests.
    pub(crate) fn opened(&self, requests: &RequestMetrics) {
        let (requests, busy) = (requests.timer().count(), requests.timer().sum());
        self.opened.get_or_init(|| Opening { at: Instant::now(), requests, busy });
    }

    /// No more will be measured: what is alive ends here.
    pub(crate) fn end(&self) {
        self.ended.get_or_init(Instant::now);
    }

    /// So many rows more could not be used.
    pub(crate) fn bad_rows(&self, n: usize) {
        if n > 0 {
            self.n_bad.fetch_add(n as u64, Relaxed);
        }
    }
}
