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

/// A file whose requests take less on average is sampled: they find their bytes in memory, and
/// timing each would take a twentieth of what they do.
const FAST: Duration = Duration::from_micros(50);
/// Of such a file one request in so many is timed, and stands for those since the one before.
const SAMPLED: u64 = 16;
/// The average is a running one, in which each request counts for one part in so many: one that is
/// slow has the next ones timed for some time.
const AVERAGED: u64 = 8;

/// All requests of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    opened: AtomicU64,
    /// Bytes that requests under way have asked for, without those that are not timed.
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
    /// Those since the last one that was timed.
    untimed: AtomicU64,
    /// Running average of those that were; 0 before the first. Threads may overwrite each other's.
    mean_ns: AtomicU64,
}

impl FileRequests {
    /// `(requests, bytes, thread time inside them)`; the time is estimated where requests are fast.
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
        let number = 1 + file.requests.fetch_add(1, Relaxed);
        let mean_ns = file.mean_ns.load(Relaxed);
        let is_fast = (1..FAST.as_nanos() as u64).contains(&mean_ns);
        if is_fast && !number.is_multiple_of(SAMPLED) {
            let bytes = read()?;
            file.untimed.fetch_add(1, Relaxed);
            file.bytes.fetch_add(bytes as u64, Relaxed);
            return Ok(bytes);
        }
        let wanted = wanted as u64;
        let in_flight = wanted + self.in_flight.fetch_add(wanted, Relaxed);
        let began = now();
        let result = read();
        let took = since(began);
        self.in_flight.fetch_sub(wanted, Relaxed);
        let bytes = result?;
        let took_ns = (took.as_nanos() as u64).max(1);
        let next_ns =
            if mean_ns == 0 { took_ns } else { mean_ns - mean_ns / AVERAGED + took_ns / AVERAGED };
        file.mean_ns.store(next_ns, Relaxed);
        let n_others = file.untimed.swap(0, Relaxed);
        // One that was slow by chance, or had no CPU, must not count for others as well.
        let other_ns = if is_fast { took_ns.min(mean_ns) } else { took_ns };
        self.timer.record(took);
        self.timer.record_as(Duration::from_nanos(other_ns), n_others);
        file.bytes.fetch_add(bytes as u64, Relaxed);
        file.busy_ns.fetch_add(took_ns.saturating_add(other_ns.saturating_mul(n_others)), Relaxed);
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.add(in_flight, took.as_secs_f64());
        Ok(bytes)
    }

    /// A file is opened.
    pub(crate) fn opens(&self) {
        if ON {
            self.opened.fetch_add(1, Relaxed);
        }
    }

    /// Files opened.
    pub(crate) fn n_opened(&self) -> u64 {
        self.opened.load(Relaxed)
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
    use std::thread;

    use super::*;

    #[test]
    fn requests_add_up_here_and_for_their_file() {
        let (all, one, other) =
            (Requests::default(), FileRequests::default(), FileRequests::default());
        let slow = |n| {
            thread::sleep(2 * FAST);
            Ok(n)
        };
        for n in 1..=10 {
            let file = if n % 2 == 0 { &one } else { &other };
            assert_eq!(all.time(file, 100, || slow(n)).unwrap(), n);
        }
        assert!(all.time(&one, 100, || Err(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(all.timer().count(), 10);
        let (a, b) = (one.counts(), other.counts());
        assert_eq!((a.0, a.1, b.0, b.1), (6, 30, 5, 25));
        assert_eq!(a.2 + b.2, all.timer().sum());
        assert!(a.2 >= 10 * FAST);
        assert_eq!(all.in_flight.load(Relaxed), 0);
    }

    #[test]
    fn of_fast_requests_some_stand_for_all() {
        let (all, file) = (Requests::default(), FileRequests::default());
        let mut n_timed = 0;
        for n in 1..=10 * SAMPLED {
            let before = all.timer().count();
            all.time(&file, 10, || Ok(10)).unwrap();
            // However busy the machine: those that were timed speak for all that came since.
            if all.timer().count() > before {
                n_timed += 1;
                assert_eq!(all.timer().count(), n);
            }
        }
        assert_eq!((file.counts().0, file.counts().1), (10 * SAMPLED, 100 * SAMPLED));
        assert!(n_timed >= 11);
        assert_eq!(file.counts().2, all.timer().sum());
    }

    #[test]
    fn requests_that_become_slow_are_timed_again() {
        let (all, file) = (Requests::default(), FileRequests::default());
        file.mean_ns.store(1000, Relaxed);
        let slow = || {
            thread::sleep(2 * FAST);
            Ok(1)
        };
        for _ in 0..4 * SAMPLED {
            all.time(&file, 10, slow).unwrap();
        }
        let is_exact = |file: &FileRequests| file.mean_ns.load(Relaxed) >= FAST.as_nanos() as u64;
        assert!(is_exact(&file));
        let (before, n) = (all.timer().count(), file.untimed.load(Relaxed));
        assert_eq!((before, n), (4 * SAMPLED, 0));
        all.time(&file, 10, slow).unwrap();
        assert_eq!(all.timer().count(), before + 1);
    }
}
