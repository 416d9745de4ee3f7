//! What the pipeline measures of itself, always, for well under a percent of its throughput.
//!
//! Time spent asleep is kept exactly, by counting sleepers under the queue's lock, which is held
//! at that moment anyway ([`Census`]); the time spent working is the rest of a thread's life. So no
//! clock is read for a row that only passes through. Durations with percentiles go into histograms
//! of relaxed atomics ([`Timer`]); rows that cost less than a few clock readings are sampled.

mod census;
mod consumer;
mod cpu;
mod line;
mod outcomes;
mod requests;
mod snapshot;
mod timer;

use std::{
    sync::{OnceLock, atomic::AtomicU64},
    time::{Duration, Instant},
};

pub(crate) use self::{
    census::Census,
    consumer::Consumer,
    cpu::CpuTimes,
    line::Line,
    outcomes::Outcomes,
    requests::{FileRequests, Requests},
    snapshot::SeatTimes,
    timer::Timer,
};
pub use self::{
    cpu::CpuTime,
    outcomes::ShardRows,
    snapshot::{
        Caches, Depths, Memory, Percentiles, ReaderWaits, ShardReads, Snapshot, StageTimes,
        StorageTimes, ThreadTimes,
    },
};

/// Whether anything is measured: not in a build with the feature `no-stats`, which is there to be
/// compared with one that measures. What it leaves out is decided when compiling.
pub(crate) const ON: bool = !cfg!(feature = "no-stats");

/// One row in so many is timed where rows may cost no more than a microsecond.
const SAMPLED: u64 = 16;

/// Likewise where it may be a fraction of that: a prime number.
const SAMPLED_OF_MANY: u64 = 127;

/// What the threads of one pipeline write as they go.
#[derive(Debug)]
pub(crate) struct Stats {
    /// When the pipeline was started.
    pub(crate) began: Instant,
    /// Finding a row: order, record batch, and its table where it must be loaded; sampled.
    pub(crate) plan: Timer,
    /// From encoded bytes to samples at their own rate; sampled where nothing is decoded.
    pub(crate) decode: Timer,
    /// The resampler's part of a row.
    pub(crate) resample: Timer,
    /// Joining the rows of a batch.
    pub(crate) assemble: Timer,
    /// Making an element of the consumer's language of a batch.
    pub(crate) deliver: Timer,
    /// The consumer's side.
    pub(crate) consumer: Consumer,
    /// Bad rows in the batches that were taken.
    pub(crate) n_bad: AtomicU64,
    /// What the operating system says of the readers.
    pub(crate) cpu: CpuTimes,
}

impl Default for Stats {
    fn default() -> Self {
        Self {
            began: now(),
            plan: Timer::default(),
            decode: Timer::default(),
            resample: Timer::default(),
            assemble: Timer::default(),
            deliver: Timer::default(),
            consumer: Consumer::default(),
            n_bad: AtomicU64::new(0),
            cpu: CpuTimes::default(),
        }
    }
}

/// The clock for the row of this index, if it is one of those that are timed.
pub(crate) fn sampled(index: u64) -> Option<Instant> {
    (ON && index.is_multiple_of(SAMPLED)).then(now)
}

/// As [`sampled`], for rows of which a batch is taken at once: one in fewer, and not always at the
/// same place of the batch.
pub(crate) fn sampled_of_many(index: u64) -> Option<Instant> {
    (ON && index.is_multiple_of(SAMPLED_OF_MANY)).then(now)
}

/// The clock, for what only measuring needs it.
pub(crate) fn now() -> Instant {
    static STOPPED: OnceLock<Instant> = OnceLock::new();
    if ON { Instant::now() } else { *STOPPED.get_or_init(Instant::now) }
}

/// The time since `began`, likewise.
pub(crate) fn since(began: Instant) -> Duration {
    now().saturating_duration_since(began)
}
