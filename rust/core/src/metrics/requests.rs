//! How long requests to the storage take.

use std::{
    io,
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{Timer, latency::LatencyFit};
use crate::sync::lock_std;

/// All requests of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct RequestMetrics {
    files_opened: AtomicU64,
    retries: AtomicU64,
    paused_ns: AtomicU64,
    throttled: AtomicU64,
    bytes: AtomicU64,
    /// Bytes that pending requests have asked for.
    in_flight: AtomicU64,
    timer: Timer,
    page_cache_hits: AtomicU64,
    latency: Mutex<LatencyFit>,
    cache_hits: AtomicU64,
    cache_hits_in_page_cache: AtomicU64,
    cached_bytes: AtomicU64,
}

/// The requests to one file.
#[derive(Debug, Default)]
pub(crate) struct FileMetrics {
    requests: AtomicU64,
    bytes: AtomicU64,
    busy_ns: AtomicU64,
    throttled: AtomicU64,
    retries: AtomicU64,
}

impl FileMetrics {
    /// Requests, bytes that they returned, and thread time inside them.
    pub(crate) fn totals(&self) -> (u64, u64, Duration) {
        let busy = Duration::from_nanos(self.busy_ns.load(Relaxed));
        (self.requests.load(Relaxed), self.bytes.load(Relaxed), busy)
    }

    /// Requests among them that the server had too many of.
    pub(crate) fn n_throttled(&self) -> u64 {
        self.throttled.load(Relaxed)
    }

    /// Requests among them that failed and were repeated.
    pub(crate) fn n_retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }
}

impl RequestMetrics {
    /// Runs and measures a request for `wanted` bytes of a file.
    pub(crate) fn time(
        &self,
        file: &FileMetrics,
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
        file.requests.fetch_add(1, Relaxed);
        file.bytes.fetch_add(n_bytes, Relaxed);
        file.busy_ns.fetch_add(took.as_nanos() as u64, Relaxed);
        if result.is_ok() {
            lock_std(&self.latency).add(in_flight, took.as_secs_f64());
        }
        result
    }

    /// Counts a request, timed already, that the server had too many of.
    pub(crate) fn throttled(&self, file: &FileMetrics) {
        self.throttled.fetch_add(1, Relaxed);
        file.throttled.fetch_add(1, Relaxed);
    }

    /// Requests that servers had too many of.
    pub(crate) fn n_throttled(&self) -> u64 {
        self.throttled.load(Relaxed)
    }

    /// Counts a file that was opened.
    pub(crate) fn file_opened(&self) {
        self.files_opened.fetch_add(1, Relaxed);
    }

    /// Counts a request that failed and is repeated.
    pub(crate) fn retried(&self, file: &FileMetrics) {
        self.retries.fetch_add(1, Relaxed);
        file.retries.fetch_add(1, Relaxed);
    }

    /// A thread has waited for this long before it repeats a request.
    pub(crate) fn paused(&self, nap: Duration) {
        self.paused_ns.fetch_add(nap.as_nanos() as u64, Relaxed);
    }

    /// Thread time in which requests that failed were not repeated yet.
    pub(crate) fn pauses(&self) -> Duration {
        Duration::from_nanos(self.paused_ns.load(Relaxed))
    }

    /// Counts a request, timed already, that the page cache answered at once.
    pub(crate) fn page_cache_hit(&self) {
        self.page_cache_hits.fetch_add(1, Relaxed);
    }

    /// Reads so far that waited for the storage, and those that the page cache answered, of shards and of
    /// the range cache.
    pub(crate) fn waited_and_cached(&self) -> (u64, u64) {
        let in_range_cache = self.cache_hits_in_page_cache.load(Relaxed);
        let cached = self.page_cache_hits.load(Relaxed) + in_range_cache;
        let all = self.timer.count() + self.cache_hits.load(Relaxed);
        (all.saturating_sub(cached), cached)
    }

    /// Counts bytes that the range cache had, in the page cache or on its disk: no request.
    pub(crate) fn cache_hit(&self, n_bytes: usize, is_in_page_cache: bool) {
        self.cache_hits.fetch_add(1, Relaxed);
        self.cache_hits_in_page_cache.fetch_add(u64::from(is_in_page_cache), Relaxed);
        self.cached_bytes.fetch_add(n_bytes as u64, Relaxed);
    }

    /// Hits of the range cache, and their bytes.
    pub(crate) fn cache_hits(&self) -> (u64, u64) {
        (self.cache_hits.load(Relaxed), self.cached_bytes.load(Relaxed))
    }

    /// Files opened, and retries.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.files_opened.load(Relaxed), self.retries.load(Relaxed))
    }

    /// Bytes that requests returned.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// How long requests took.
    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// `(latency in seconds, seconds for each byte in flight)`, if requests tell.
    pub(crate) fn latency(&self) -> Option<(f64, f64)> {
        lock_std(&self.latency).get()
    }
}
