//! Statistics of a pipeline, which are always on.
//!
//! All stages follow one rule: each piece of work (a request, a row, a batch, an element) is timed,
//! and its duration goes into the stage's [`Timer`], a histogram of relaxed atomics. That takes two
//! readings of the clock and two additions, about a tenth of a microsecond. The time that readers
//! are idle is added up by the reason ([`IdleTime`]).

mod consumer;
mod cpu;
mod idle_time;
mod latency;
mod requests;
mod row_counts;
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
    idle_time::{IdleReason, IdleTime},
    requests::{FileMetrics, RequestMetrics},
    row_counts::RowCounts,
    timer::Timer,
};
pub use self::{
    cpu::CpuTime,
    row_counts::ShardRows,
    snapshot::{
        Caches, Depths, MemoryUse, Pauses, Percentiles, ReaderWaits, ShardReads, Snapshot,
        StageTimes, StorageTimes, ThreadTimes,
    },
};

/// What the threads of one pipeline measure.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// When the pipeline was started.
    pub(crate) began: Instant,
    pub(crate) opened: OnceLock<Opening>,
    /// When the last row was finished, or the pipeline was closed.
    pub(crate) ended: OnceLock<Instant>,
    /// Loading tables: one for each record batch.
    pub(crate) tables: Timer,
    /// Decoding rows, without resampling.
    pub(crate) decode: Timer,
    /// Resampling rows.
    pub(crate) resample: Timer,
    /// Joining the rows of batches.
    pub(crate) assemble: Timer,
    pub(crate) consumer: Consumer,
    pub(crate) idle: IdleTime,
    /// Bad rows in the batches that were taken.
    pub(crate) n_bad: AtomicU64,
    /// Bytes that audio indexes would have spared.
    pub(crate) spare_bytes: AtomicU64,
}

/// When the shards were open, and the requests until then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Opening {
    pub(crate) at: Instant,
    pub(crate) requests: u64,
    pub(crate) busy: Duration,
    pub(crate) pauses: Duration,
}

impl Default for Metrics {
    fn default() -> Self {
        Self {
            began: Instant::now(),
            opened: OnceLock::new(),
            ended: OnceLock::new(),
            tables: Timer::default(),
            decode: Timer::default(),
            resample: Timer::default(),
            assemble: Timer::default(),
            consumer: Consumer::default(),
            idle: IdleTime::default(),
            n_bad: AtomicU64::new(0),
            spare_bytes: AtomicU64::new(0),
        }
    }
}

impl Metrics {
    /// The shards are open.
    pub(crate) fn opened(&self, requests: &RequestMetrics) {
        let (timer, pauses) = (requests.timer(), requests.pauses());
        let (requests, busy) = (timer.count(), timer.sum());
        self.opened.get_or_init(|| Opening { at: Instant::now(), requests, busy, pauses });
    }

    /// The stream has ended, or was closed.
    pub(crate) fn end(&self) {
        self.ended.get_or_init(Instant::now);
    }

    /// Counts bytes that an audio index would have spared.
    pub(crate) fn spared(&self, n_bytes: u64) {
        self.spare_bytes.fetch_add(n_bytes, Relaxed);
    }

    /// Counts bad rows.
    pub(crate) fn bad_rows(&self, n: usize) {
        if n > 0 {
            self.n_bad.fetch_add(n as u64, Relaxed);
        }
    }
}
