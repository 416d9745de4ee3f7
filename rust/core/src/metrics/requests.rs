//! What requests to the storage take.

use std::{
    io,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{Timer, latency::LatencyFit};

/// All requests of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    opened: AtomicU64,
    retries: AtomicU64,
    bytes: AtomicU64,
    /// Bytes that requests under way have asked for.
    in_flight: AtomicU64,
    timer: Timer,
    fit: Mutex<LatencyFit>,
}

/// The requests to one shard.
#[derive(Debug, Default)]
pub(crate) struct ShardRequests {
    requests: AtomicU64,
    bytes: AtomicU64,
    busy_ns: AtomicU64,
}

impl ShardRequests {
    /// Requests, bytes that they brought, and thread time inside them.
    pub(crate) fn totals(&self) -> (u64, u64, Duration) {
        let busy = Duration::from_nanos(self.busy_ns.load(Relaxed));
        (self.requests.load(Relaxed), self.bytes.load(Relaxed), busy)
    }
}

impl Requests {
    /// Sends a request for `wanted` bytes of a shard, and adds up what it took.
    pub(crate) fn time(
        &self,
        shard: &ShardRequests,
        wanted: usize,
        read: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let wanted = wanted as u64;
        let in_flight = wanted + self.in_flight.fetch_add(wanted, Relaxed);
        let began = Instant::now();
        let result = read();
        let took = began.elapsed();
        self.in_flight.fetch_sub(wanted, Relaxed);
        let n_bytes = *result.as_ref().unwrap_or(&0) as u64;
        self.timer.record(took);
        self.bytes.fetch_add(n_bytes, Relaxed);
        shard.requests.fetch_add(1, Relaxed);
        shard.bytes.fetch_add(n_bytes, Relaxed);
        shard.busy_ns.fetch_add(took.as_nanos() as u64, Relaxed);
        if result.is_ok() {
            self.fit().add(in_flight, took.as_secs_f64());
        }
        result
    }

    fn fit(&self) -> MutexGuard<'_, LatencyFit> {
        self.fit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A file is opened.
    pub(crate) fn opens(&self) {
        self.opened.fetch_add(1, Relaxed);
    }

    /// A request is sent again.
    pub(crate) fn retries(&self) {
        self.retries.fetch_add(1, Relaxed);
    }

    /// Files opened, and requests that were sent again.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.opened.load(Relaxed), self.retries.load(Relaxed))
    }

    /// Bytes that came.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How long requests took.
    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// What a request takes, as `(seconds, seconds a byte that is in flight)`.
    pub(crate) fn latency(&self) -> Option<(f64, f64)> {
        self.fit().get()
    }
}
