//! What requests to the storage take.

use std::{
    io,
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use super::{Line, Mean, Timer, now, on, since};

/// Of a file whose requests are fast, since they find their bytes in memory, one request in so many
/// is timed and stands for those since the one before: timing each would take a twentieth of what
/// they do.
const SAMPLED: u64 = 32;

/// All requests of a pipeline.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    opened: AtomicU64,
    /// Bytes that requests under way have asked for, without those that are not timed.
    in_flight: AtomicU64,
    timer: Timer,
    line: Mutex<Line>,
}

/// How a request is measured: not, or timed, with so many others that it stands for.
pub(crate) type Timed = Option<u64>;

/// The requests to one file.
#[derive(Debug, Default)]
pub(crate) struct FileRequests {
    sent: AtomicU64,
    bytes: AtomicU64,
    /// Those since the last one that was timed.
    untimed: AtomicU64,
    busy_ns: AtomicU64,
    /// Of those that were timed.
    mean: Mean,
}

impl FileRequests {
    /// A request for `wanted` bytes is about to be sent, which are counted as read: see
    /// [`Self::unread`].
    pub(crate) fn send(&self, wanted: usize) -> Timed {
        if !on() {
            return None;
        }
        let before = self.sent.fetch_add(1, Relaxed);
        self.bytes.fetch_add(wanted as u64, Relaxed);
        if self.mean.is_fast() && !(before + 1).is_multiple_of(SAMPLED) {
            self.untimed.fetch_add(1, Relaxed);
            None
        } else {
            Some(self.untimed.swap(0, Relaxed))
        }
    }

    /// So many of the bytes did not come.
    pub(crate) fn unread(&self, bytes: usize) {
        if on() {
            self.bytes.fetch_sub(bytes as u64, Relaxed);
        }
    }

    /// `(requests, bytes)`.
    pub(crate) fn counts(&self) -> (u64, u64) {
        (self.sent.load(Relaxed), self.bytes.load(Relaxed))
    }

    /// Thread time inside requests, estimated where they are fast.
    pub(crate) fn busy(&self) -> Duration {
        Duration::from_nanos(self.busy_ns.load(Relaxed))
    }
}

impl Requests {
    /// Sends a request for `wanted` bytes, and adds up here and for its file what it took.
    pub(crate) fn time(
        &self,
        file: &FileRequests,
        timed: Timed,
        wanted: usize,
        read: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let Some(n_others) = timed else { return read() };
        let wanted = wanted as u64;
        let in_flight = wanted + self.in_flight.fetch_add(wanted, Relaxed);
        let began = now();
        let result = read();
        let took = since(began).max(Duration::from_nanos(1));
        self.in_flight.fetch_sub(wanted, Relaxed);
        let bytes = result?;
        let others = file.mean.add(took);
        self.timer.record(took);
        self.timer.record_as(others, n_others);
        let busy = took.saturating_add(others.saturating_mul(n_others as u32));
        file.busy_ns.fetch_add(busy.as_nanos() as u64, Relaxed);
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.add(in_flight, took.as_secs_f64());
        Ok(bytes)
    }

    /// A file is opened.
    pub(crate) fn opens(&self) {
        if on() {
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

    use super::{super::paced::FAST, *};

    fn send(
        all: &Requests,
        file: &FileRequests,
        wanted: usize,
        read: impl FnOnce() -> io::Result<usize>,
    ) -> io::Result<usize> {
        let timed = file.send(wanted);
        let result = all.time(file, timed, wanted, read);
        file.unread(wanted - result.as_ref().map_or(0, |n| *n));
        result
    }

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
            assert_eq!(send(&all, file, 100, || slow(n)).unwrap(), n);
        }
        assert!(send(&all, &one, 100, || Err(io::ErrorKind::NotFound.into())).is_err());
        assert_eq!(all.timer().count(), 10);
        assert_eq!((one.counts(), other.counts()), ((6, 30), (5, 25)));
        assert_eq!(one.busy() + other.busy(), all.timer().sum());
        assert!(one.busy() >= 10 * FAST);
        assert_eq!(all.in_flight.load(Relaxed), 0);
    }

    #[test]
    fn of_fast_requests_some_stand_for_all() {
        let (all, file) = (Requests::default(), FileRequests::default());
        let mut n_timed = 0;
        for n in 1..=10 * SAMPLED {
            let before = all.timer().count();
            send(&all, &file, 10, || Ok(10)).unwrap();
            // However busy the machine: those that were timed speak for all that came since.
            if all.timer().count() > before {
                n_timed += 1;
                assert_eq!(all.timer().count(), n);
            }
        }
        assert_eq!(file.counts(), (10 * SAMPLED, 100 * SAMPLED));
        assert!(n_timed >= 11);
        assert_eq!(file.busy(), all.timer().sum());
    }

    #[test]
    fn requests_that_become_slow_are_timed_again() {
        let all = Requests::default();
        let mean = Mean::of(Duration::from_micros(1));
        let file = FileRequests { mean, ..FileRequests::default() };
        let slow = || {
            thread::sleep(10 * FAST);
            Ok(1)
        };
        for _ in 0..4 * SAMPLED {
            send(&all, &file, 10, slow).unwrap();
        }
        assert!(!file.mean.is_fast());
        let (before, n) = (all.timer().count(), file.untimed.load(Relaxed));
        assert_eq!((before, n), (4 * SAMPLED, 0));
        send(&all, &file, 10, slow).unwrap();
        assert_eq!(all.timer().count(), before + 1);
    }
}
