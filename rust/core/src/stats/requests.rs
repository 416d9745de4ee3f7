//! What requests to the storage take.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{Line, ON, Timer, now, since};

/// All requests of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    opened: AtomicU64,
    found_open: AtomicU64,
    /// Bytes that requests under way have asked for.
    in_flight: AtomicU64,
    timer: Timer,
    line: Mutex<Line>,
}

/// The requests to one file.
#[derive(Debug, Default)]
pub(crate) struct FileRequests {
    requests: AtomicU64,
    bytes: AtomicU64,
    busy_ns: AtomicU64,
}

impl FileRequests {
    /// `(requests, bytes, thread time inside them)`.
    pub(crate) fn counts(&self) -> (u64, u64, Duration) {
        let busy = Duration::from_nanos(self.busy_ns.load(Relaxed));
        (self.requests.load(Relaxed), self.bytes.load(Relaxed), busy)
    }
}

impl Requests {
    /// Sends a request for `wanted` bytes, and adds up here and for its file what it took.
    pub(crate) fn time(
        &self,
        file: &FileRequests,
        wanted: usize,
        read: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        if !ON {
            return read();
        }
        let wanted = wanted as u64;
        let in_flight = wanted + self.in_flight.fetch_add(wanted, Relaxed);
        let began = now();
        let result = read();
        let took = since(began);
        self.in_flight.fetch_sub(wanted, Relaxed);
        if let Ok(bytes) = &result {
            self.timer.record(took);
            file.requests.fetch_add(1, Relaxed);
            file.bytes.fetch_add(*bytes as u64, Relaxed);
            file.busy_ns.fetch_add(took.as_nanos() as u64, Relaxed);
            let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
            line.add(in_flight, took.as_secs_f64());
        }
        result
    }

    /// A file is opened.
    pub(crate) fn opens(&self) {
        if ON {
            self.opened.fetch_add(1, Relaxed);
        }
    }

    /// A read finds its file open.
    pub(crate) fn finds_open(&self) {
        if ON {
            self.found_open.fetch_add(1, Relaxed);
        }
    }

    /// `(files opened, reads that found their file open)`.
    pub(crate) fn files(&self) -> (u64, u64) {
        (self.opened.load(Relaxed), self.found_open.load(Relaxed))
    }

    /// How long requests took.
    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    /// What a request costs, as `(seconds, seconds a byte that is in flight)`.
    pub(crate) fn fit(&self) -> Option<(f64, f64)> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).fit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_add_up_here_and_for_their_file() {
        let (all, one, other) =
            (Requests::default(), FileRequests::default(), FileRequests::default());
        for n in 1..=10 {
            let file = if n % 2 == 0 { &one } else { &other };
            assert_eq!(all.time(file, 100, || Ok(n)).unwrap(), n);
        }
        assert!(all.time(&one, 100, || Err(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(all.timer().count(), 10);
        let (a, b) = (one.counts(), other.counts());
        assert_eq!((a.0, a.1, b.0, b.1), (5, 30, 5, 25));
        assert_eq!(a.2 + b.2, all.timer().sum());
        assert_eq!(all.in_flight.load(Relaxed), 0);
    }
}
