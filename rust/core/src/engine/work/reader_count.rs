//! How many threads read at a time: as many as bring more bytes.
//!
//! Where the page cache answers nearly all requests, these are copies, which one thread for each CPU does
//! best: more would take turns on the CPUs, and each turn costs system calls.
//!
//! Else it begins with a number that hides the round trips of most storage. While requests take nearly
//! all of the readers' time, their number is doubled, and stays so if that brought a tenth more bytes in
//! the same time. Otherwise the storage sends what it can: the number goes back, and is tried again after
//! some seconds, for what is asked for changes, and other jobs on the same storage come and go.

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
/// Whether the page cache answers them is seen sooner.
const SPAN: Duration = Duration::from_millis(100);
const LOOK: Duration = Duration::from_millis(10);
const REQUESTS_EACH: u64 = 4;
/// One of this many rows looks at the clock.
const ROWS: u64 = 8;
/// The page cache has nearly all where it answers this many requests for one that waits.
const CACHED: u64 = 16;
/// The share of the readers' time that requests take where the storage limits.
const BUSY: f64 = 0.75;
/// How many times as many bytes arrive where doubling the readers was right.
const GAIN: f64 = 1.1;
const PAUSE: Duration = Duration::from_secs(15);

/// All requests of a pipeline until `at`.
#[derive(Clone, Copy, Debug)]
struct Requests {
    at: Instant,
    /// Those that waited for the storage.
    waited: u64,
    /// Those that the page cache answered.
    cached: u64,
    bytes: u64,
    busy: Duration,
}

/// Numbers of readers.
#[derive(Clone, Copy, Debug)]
struct Limits {
    /// Out of the page cache.
    cached: usize,
    /// From storage, at first and at most.
    first: usize,
    most: usize,
}

/// What one number of readers is compared with.
#[derive(Debug)]
struct Trial {
    began: Requests,
    /// Bytes a second with half as many readers, if that is what came before.
    before: Option<f64>,
    /// Until when there are no more readers, and no fewer.
    no_more_until: Option<Instant>,
    no_fewer_until: Option<Instant>,
}

impl Trial {
    fn new(at: Instant) -> Self {
        let began = Requests { at, waited: 0, cached: 0, bytes: 0, busy: Duration::ZERO };
        Self { began, before: None, no_more_until: None, no_fewer_until: None }
    }

    /// How many readers there should be from now on, where `n` made these requests.
    fn next(&mut self, n: usize, limits: Limits, now: Requests) -> usize {
        let Requests { at, waited, cached, bytes, busy } = self.began;
        let took = now.at.saturating_duration_since(at);
        let waited = now.waited.saturating_sub(waited);
        let cached = now.cached.saturating_sub(cached);
        let enough = (REQUESTS_EACH * n as u64).max(2 * CACHED);
        let is_cached = waited.saturating_mul(CACHED) <= cached;
        let is_over = took >= SPAN || is_cached || n < limits.first;
        if took < LOOK || !is_over || waited + cached < enough {
            return n;
        }
        self.began = now;
        let before = self.before.take();
        let is_paused = |until: Option<Instant>| until.is_some_and(|until| now.at < until);
        if is_cached {
            return if is_paused(self.no_fewer_until) { n } else { n.min(limits.cached) };
        }
        if n < limits.first {
            // It has some of the rows: the number does not change with each of them.
            self.no_fewer_until = now.at.checked_add(PAUSE);
            return limits.first;
        }
        let share = now.busy.saturating_sub(busy).as_secs_f64() / (took.as_secs_f64() * n as f64);
        let speed = now.bytes.saturating_sub(bytes) as f64 / took.as_secs_f64();
        if share < BUSY {
            return n;
        }
        if before.is_some_and(|before| speed < GAIN * before) {
            self.no_more_until = now.at.checked_add(PAUSE);
            return n / 2;
        }
        if 2 * n > limits.most || is_paused(self.no_more_until) {
            return n;
        }
        self.before = Some(speed);
        2 * n
    }
}

/// The number of threads that read for one pipeline.
#[derive(Debug)]
pub(crate) struct ReaderCount {
    limits: Limits,
    n: AtomicUsize,
    n_rows: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    trial: Trial,
    /// Thread seconds, until `changed`, beyond those of as many readers as at first.
    extra: f64,
    changed: Instant,
}

impl ReaderCount {
    /// `asked`, or else as many as bring more bytes, which are `first` at first.
    pub(crate) fn new(asked: Option<usize>, first: usize, n_cpus: usize) -> Self {
        match asked {
            Some(n) => Self::fixed(n),
            None => Self::adaptive(first, n_cpus),
        }
    }

    /// This number.
    fn fixed(n: usize) -> Self {
        Self::within(Limits { cached: n, first: n, most: n })
    }

    /// As many as bring more bytes: `first` at first, and out of the page cache one for each CPU.
    fn adaptive(first: usize, n_cpus: usize) -> Self {
        Self::within(Limits { cached: first.min(n_cpus), first, most: first.max(MOST) })
    }

    fn within(limits: Limits) -> Self {
        let now = Instant::now();
        let state = State { trial: Trial::new(now), extra: 0.0, changed: now };
        Self {
            limits,
            n: AtomicUsize::new(limits.first),
            n_rows: AtomicU64::new(0),
            state: Mutex::new(state),
        }
    }

    pub(crate) fn get(&self) -> usize {
        self.n.load(Relaxed)
    }

    /// The most that it may come to.
    pub(crate) fn most(&self) -> usize {
        self.limits.most
    }

    /// The time of all readers in the time `alive` until now.
    pub(crate) fn thread_time(&self, alive: Duration) -> Duration {
        let state = lock_std(&self.state);
        let first = alive.as_secs_f64() * self.limits.first as f64;
        let seconds = first + state.extra + self.extra_since(state.changed);
        Duration::try_from_secs_f64(seconds).unwrap_or_default()
    }

    fn extra_since(&self, changed: Instant) -> f64 {
        changed.elapsed().as_secs_f64() * (self.get() as f64 - self.limits.first as f64)
    }

    /// This many rows were read, by which the number may change.
    pub(crate) fn rows_read(&self, n_rows: u64, metrics: &RequestMetrics) {
        if self.limits.most == self.limits.cached {
            return;
        }
        let before = self.n_rows.fetch_add(n_rows, Relaxed);
        if before / ROWS == before.wrapping_add(n_rows) / ROWS {
            return;
        }
        // Another reader's look is as good.
        let Ok(mut state) = self.state.try_lock() else { return };
        let at = Instant::now();
        if at.saturating_duration_since(state.trial.began.at) < LOOK {
            return;
        }
        let (waited, cached) = metrics.waited_and_cached();
        let (bytes, busy) = (metrics.bytes(), metrics.timer().sum());
        let n = self.get();
        let next = state.trial.next(n, self.limits, Requests { at, waited, cached, bytes, busy });
        if next != n {
            state.extra += self.extra_since(state.changed);
            state.changed = at;
            self.n.store(next, Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { cached: 2, first: 8, most: 128 };

    /// Storage that answers after `latency` and sends `bandwidth`, asked for rows of 50 kB by readers
    /// that decoding lets no more than `wanted` rows a second. The page cache has this share of them.
    struct Storage {
        latency: f64,
        bandwidth: f64,
        wanted: f64,
        cached: fn(f64) -> f64,
    }

    const UNCACHED: Storage =
        Storage { latency: 0.02, bandwidth: 1e9, wanted: 1e9, cached: |_| 0.0 };

    /// The numbers of readers over these seconds.
    fn numbers(storage: &Storage, seconds: f64) -> Vec<usize> {
        let start = Instant::now();
        let (mut trial, mut n, mut numbers) = (Trial::new(start), 8, vec![8]);
        let (mut waited, mut cached, mut busy, mut t) = (0.0, 0.0, 0.0, 0.0);
        while t < seconds {
            t += 0.01;
            let most = (n as f64 / storage.latency).min(storage.bandwidth / 50e3);
            let speed = most.min(storage.wanted);
            let share = (storage.cached)(t);
            waited += 0.01 * speed * (1.0 - share);
            cached += 0.01 * speed * share;
            busy += 0.01 * n as f64 * speed / most;
            let now = Requests {
                at: start + Duration::from_secs_f64(t),
                waited: waited as u64,
                cached: cached as u64,
                bytes: ((waited + cached) * 50e3) as u64,
                busy: Duration::from_secs_f64(busy),
            };
            let next = trial.next(n, LIMITS, now);
            if next != n {
                numbers.push(next);
            }
            n = next;
        }
        numbers
    }

    #[test]
    fn latency_is_hidden_by_more_readers() {
        assert_eq!(numbers(&UNCACHED, 5.0), [8, 16, 32, 64, 128]);
    }

    #[test]
    fn no_more_than_the_bandwidth_asks_for() {
        let storage = Storage { bandwidth: 100e6, ..UNCACHED };
        assert_eq!(numbers(&storage, 14.0), [8, 16, 32, 64, 128, 64]);
        let storage = Storage { latency: 0.002, bandwidth: 100e6, ..UNCACHED };
        assert_eq!(numbers(&storage, 14.0), [8, 16, 8]);
        assert_eq!(numbers(&storage, 34.0), [8, 16, 8, 16, 8, 16, 8]);
    }

    #[test]
    fn no_more_than_decoding_asks_for() {
        let storage = Storage { wanted: 250.0, ..UNCACHED };
        assert_eq!(numbers(&storage, 60.0), [8]);
        let storage = Storage { wanted: 550.0, ..UNCACHED };
        assert_eq!(numbers(&storage, 60.0), [8, 16]);
    }

    #[test]
    fn no_more_than_the_cpus_out_of_a_cache() {
        let storage = Storage { wanted: 250.0, cached: |_| 0.99, ..UNCACHED };
        assert_eq!(numbers(&storage, 60.0), [8, 2]);
        let storage = Storage { cached: |t| if t < 2.0 { 0.0 } else { 1.0 }, ..UNCACHED };
        assert_eq!(numbers(&storage, 5.0), [8, 16, 32, 64, 128, 2]);
    }

    #[test]
    fn as_many_as_at_first_once_the_cache_has_no_more() {
        let storage =
            Storage { wanted: 250.0, cached: |t| if t < 5.0 { 1.0 } else { 0.5 }, ..UNCACHED };
        assert_eq!(numbers(&storage, 60.0), [8, 2, 8]);
        // It has some rows and not others, in turns of a second.
        let storage = Storage { cached: |t| f64::from((t as u32) % 2), ..storage };
        assert_eq!(numbers(&storage, 14.0), [8, 2, 8]);
    }

    #[test]
    fn a_number_that_was_asked_for_stays() {
        let count = ReaderCount::fixed(8);
        let metrics = RequestMetrics::default();
        (0..100).for_each(|_| count.rows_read(1, &metrics));
        assert_eq!((count.get(), count.most()), (8, 8));
    }

    #[test]
    fn hits_of_the_range_cache_count_as_the_page_cache_has_them() {
        for (is_in_page_cache, n) in [(true, 2), (false, 8)] {
            let (count, metrics) = (ReaderCount::adaptive(8, 2), RequestMetrics::default());
            (0..100).for_each(|_| metrics.cache_hit(1_000, is_in_page_cache));
            std::thread::sleep(2 * LOOK);
            count.rows_read(ROWS, &metrics);
            assert_eq!(count.get(), n);
        }
    }
}
