//! What the pipeline measures of itself, always: for less than a percent of the time of rows
//! that take microseconds, and for nothing that can be told of crops.
//!
//! Time spent asleep is kept by counting sleepers under the queue's lock, which is held at that
//! moment anyway ([`Census`], [`Sleepers`]); the time spent working is the rest of a thread's life.
//! So no clock is read for a row that only passes through. Durations with percentiles go into
//! histograms of relaxed atomics ([`Timer`]); what takes less than 200 us is sampled ([`Paced`]), and
//! so are requests ([`Requests`]) and the consumer's rounds ([`Consumer`]). What is counted for
//! each row is counted under a lock that is held at that moment.

mod census;
mod consumer;
mod cpu;
mod line;
mod outcomes;
mod paced;
mod requests;
mod sleepers;
mod snapshot;
mod switch;
mod timer;

use std::{
    ops::Range,
    sync::{OnceLock, atomic::AtomicU64},
    time::{Duration, Instant},
};

#[cfg(feature = "stats-switch")]
pub use self::switch::switch;
pub(crate) use self::{
    census::Census,
    consumer::Consumer,
    cpu::CpuTimes,
    line::Line,
    outcomes::Outcomes,
    paced::{Mean, Paced},
    requests::{FileRequests, Requests, Timed},
    sleepers::Sleepers,
    snapshot::SeatTimes,
    switch::on,
    timer::Timer,
};
pub use self::{
    cpu::CpuTime,
    outcomes::ShardRows,
    snapshot::{
        Caches, Depths, Memory, Pauses, Percentiles, ReaderWaits, ShardReads, Snapshot, StageTimes,
        StorageTimes, ThreadTimes,
    },
};

/// One row in so many is timed where a batch is taken as a whole: a prime number.
const SAMPLED_OF_MANY: u64 = 127;

/// What the threads of one pipeline write as they go.
#[derive(Debug)]
pub(crate) struct Stats {
    /// When the pipeline was started.
    pub(crate) began: Instant,
    /// Finding a row: order, record batch, and its table where it must be loaded.
    pub(crate) plan: Paced,
    /// From encoded bytes to samples at their own rate.
    pub(crate) decode: Paced,
    /// The resampler's part of a row.
    pub(crate) resample: Timer,
    /// Joining the rows of a batch.
    pub(crate) assemble: Paced,
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
            plan: Paced::default(),
            decode: Paced::default(),
            resample: Timer::default(),
            assemble: Paced::default(),
            consumer: Consumer::default(),
            n_bad: AtomicU64::new(0),
            cpu: CpuTimes::default(),
        }
    }
}

/// The row among these that is timed, where a batch is taken at once: not always at the same place
/// of the batch.
pub(crate) fn sampled_of_many(indices: &Range<u64>) -> Option<u64> {
    let next = indices.start.checked_next_multiple_of(SAMPLED_OF_MANY);
    next.filter(|next| on() && *next < indices.end)
}

/// The clock, for what only measuring needs it.
pub(crate) fn now() -> Instant {
    static STOPPED: OnceLock<Instant> = OnceLock::new();
    if on() { Instant::now() } else { *STOPPED.get_or_init(Instant::now) }
}

/// The time since `began`, likewise.
pub(crate) fn since(began: Instant) -> Duration {
    now().saturating_duration_since(began)
}
