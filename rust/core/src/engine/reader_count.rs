//! How many threads read at a time: as many as bring more bytes.
//!
//! While requests take nearly all of the readers' time, their number is doubled, and stays so if that
//! brought a tenth more bytes in the same time. Otherwise the storage sends what it can: the number goes
//! back, and is tried again after some seconds, for what is asked for changes, and other jobs on the same
//! storage come and go.

use std::{
    sync::{
        Mutex,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use crate::{metrics::RequestMetrics, sync::lock_std};

/// The most threads that read where no number is asked for.
const MOST: usize = 128;
/// How long a number of readers is measured at least, and how many requests each makes meanwhile.
const SPAN: Duration = Duration::from_millis(100);
const REQUESTS_EACH: u64 = 4;
/// One of this many rows looks at the clock.
const ROWS: u64 = 8;
/// The share of the readers' time that requests take where the storage limits.
const BUSY: f64 = 0.75;
/// How many times as many bytes arrive where doubling the readers was right.
const GAIN: f64 = 1.1;
const PAUSE: Duration = Duration::from_secs(15);

/// All requests of a pipeline until `at`.
#[derive(Clone, Copy, Debug)]
struct Requests {
    at: Instant,
    count: u64,
    bytes: u64,
    busy: Duration,
}

/// What one number of readers is compared with.
#[derive(Debug)]
struct Trial {
    began: Requests,
    /// Bytes a second with half as many readers, if that is what came before.
    before: Option<f64>,
    paused_until: Option<Instant>,
}

impl Trial {
    fn new(at: Instant) -> Self {
        let began = Requests { at, count: 0, bytes: 0, busy: Duration::ZERO };
        Self { began, before: None, paused_until: None }
    }

    /// How many readers there should be from now on, where `n` made these requests.
    fn next(&mut self, n: usize, most: usize, now: Requests) -> usize {
        let Requests { at, count, bytes, busy } = self.began;
        let took = now.at.saturating_duration_since(at);
        if took < SPAN || now.count.saturating_sub(count) < REQUESTS_EACH * n as u64 {
            return n;
        }
        self.began = now;
        let share = now.busy.saturating_sub(busy).as_secs_f64() / (took.as_secs_f64() * n as f64);
        let speed = now.bytes.saturating_sub(bytes) as f64 / took.as_secs_f64();
        let before = self.before.take();
        if share < BUSY {
            return n;
        }
        if before.is_some_and(|before| speed < GAIN * before) {
            self.paused_until = now.at.checked_add(PAUSE);
            return n / 2;
        }
        if 2 * n > most || self.paused_until.is_some_and(|until| now.at < until) {
            return n;
        }
        self.before = Some(speed);
        2 * n
    }
}

/// The number of threads that read for one pipeline.
#[derive(Debug)]
pub(super) struct ReaderCount {
    first: usize,
    most: usize,
    n: AtomicUsize,
    n_rows: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    trial: Trial,
    /// The time, until `changed`, of readers beyond the first ones.
    extra: Duration,
    changed: Instant,
}

impl ReaderCount {
    /// This number, which grows if `is_adaptive`.
    pub(super) fn new(n: usize, is_adaptive: bool) -> Self {
        let now = Instant::now();
        let state = State { trial: Trial::new(now), extra: Duration::ZERO, changed: now };
        Self {
            first: n,
            most: if is_adaptive { n.max(MOST) } else { n },
            n: AtomicUsize::new(n),
            n_rows: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    pub(super) fn get(&self) -> usize {
        self.n.load(Relaxed)
    }

    /// The most that it may come to.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// The time of all readers in the time `alive` until now.
    pub(super) fn thread_time(&self, alive: Duration) -> Duration {
        let state = lock_std(&self.state);
        alive * self.first as u32 + state.extra + self.extra_since(state.changed)
    }

    fn extra_since(&self, changed: Instant) -> Duration {
        changed.elapsed() * (self.get() - self.first) as u32
    }

    /// A row was read. Returns whether there should be more readers now.
    pub(super) fn row_read(&self, metrics: &RequestMetrics) -> bool {
        if self.most == self.first || !self.n_rows.fetch_add(1, Relaxed).is_multiple_of(ROWS) {
            return false;
        }
        // Another reader's look is as good.
        let Ok(mut state) = self.state.try_lock() else { return false };
        let at = Instant::now();
        if at.saturating_duration_since(state.trial.began.at) < SPAN {
            return false;
        }
        let timer = metrics.timer();
        let now = Requests { at, count: timer.count(), bytes: metrics.bytes(), busy: timer.sum() };
        let n = self.get();
        let next = state.trial.next(n, self.most, now);
        if next != n {
            let extra = self.extra_since(state.changed);
            state.extra += extra;
            state.changed = at;
            self.n.store(next, Relaxed);
        }
        next > n
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Storage that answers after `latency` and sends `bandwidth`, asked for rows of 50 kB by readers
    /// that decoding lets no more than `wanted` rows a second.
    struct Storage {
        latency: f64,
        bandwidth: f64,
        wanted: f64,
    }

    /// The numbers of readers over these seconds.
    fn numbers(storage: &Storage, seconds: f64) -> Vec<usize> {
        let start = Instant::now();
        let (mut trial, mut n, mut numbers) = (Trial::new(start), 8, vec![8]);
        let (mut rows, mut busy, mut t) = (0.0, 0.0, 0.0);
        while t < seconds {
            t += 0.01;
            let most = (n as f64 / storage.latency).min(storage.bandwidth / 50e3);
            let speed = most.min(storage.wanted);
            rows += 0.01 * speed;
            busy += 0.01 * n as f64 * speed / most;
            let now = Requests {
                at: start + Duration::from_secs_f64(t),
                count: rows as u64,
                bytes: (rows * 50e3) as u64,
                busy: Duration::from_secs_f64(busy),
            };
            let next = trial.next(n, 128, now);
            if next != n {
                numbers.push(next);
            }
            n = next;
        }
        numbers
    }

    #[test]
    fn latency_is_hidden_by_more_readers() {
        let storage = Storage { latency: 0.02, bandwidth: 1e9, wanted: 1e9 };
        assert_eq!(numbers(&storage, 5.0), [8, 16, 32, 64, 128]);
    }

    #[test]
    fn no_more_than_the_bandwidth_asks_for() {
        let storage = Storage { latency: 0.02, bandwidth: 100e6, wanted: 1e9 };
        assert_eq!(numbers(&storage, 14.0), [8, 16, 32, 64, 128, 64]);
        let storage = Storage { latency: 0.002, bandwidth: 100e6, wanted: 1e9 };
        assert_eq!(numbers(&storage, 14.0), [8, 16, 8]);
        assert_eq!(numbers(&storage, 34.0), [8, 16, 8, 16, 8, 16, 8]);
    }

    #[test]
    fn no_more_than_decoding_asks_for() {
        let storage = Storage { latency: 0.02, bandwidth: 1e9, wanted: 250.0 };
        assert_eq!(numbers(&storage, 60.0), [8]);
        let storage = Storage { latency: 0.02, bandwidth: 1e9, wanted: 550.0 };
        assert_eq!(numbers(&storage, 60.0), [8, 16]);
    }

    #[test]
    fn a_number_that_was_asked_for_stays() {
        let count = ReaderCount::new(8, false);
        let metrics = RequestMetrics::default();
        assert!((0..100).all(|_| !count.row_read(&metrics)));
        assert_eq!((count.get(), count.most()), (8, 8));
    }
}
