//! The consumer's loop: what it waits for data, what making elements takes, and what it does with
//! them.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use super::{Mean, Pauses, Percentiles, StageTimes, Timer, on};

/// Of a loop whose rounds are fast, one in so many is timed: a prime number, so that no batch that
/// is made of rows further on falls in with it.
const STRIDE: u64 = 17;
/// Work of the consumer's own that takes so many times the mean is a pause.
const PAUSE: u32 = 10;

/// Follows the one thread that takes elements.
///
/// Waits are timed where it falls asleep, always. Where a round of its loop takes microseconds, the
/// making of one element in [`STRIDE`] is timed and stands for the others; what is left of the loop's
/// time is the consumer's own. The others cost no lock and no clock: what is atomic here is only
/// loaded and stored.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    waits: Timer,
    deliver: Timer,
    /// What making an element takes.
    making: Mean,
    /// What a round of the loop takes.
    round: Mean,
    /// What the consumer did of its own between two elements that were timed.
    own: Timer,
    /// The next element is not timed.
    is_skipping: AtomicBool,
    /// Elements since the last one that was timed.
    skipped: AtomicU64,
    /// The next element was not slept for, nor is it the first.
    is_settled: AtomicBool,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// When it asked for the element that is being timed.
    asked: Option<Instant>,
    /// When it asked for the one that was timed before.
    asked_before: Option<Instant>,
    /// It sleeps since then.
    asleep_from: Option<Instant>,
    /// How long it has slept so far for the element that it is waiting for, or for the last one.
    wait: Duration,
    first: Option<Duration>,
    /// The first element was there; time before that is told by itself.
    began: Option<Instant>,
    ended: Option<Instant>,
    /// Since `began`: asleep, and at the making of elements but the first.
    waiting: Duration,
    making: Duration,
    /// What these two were together when an element was asked for and timed, the last time.
    counted: Duration,
    has_first: bool,
}

impl Consumer {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer comes and asks, perhaps for the same element as before.
    pub(crate) fn asks(&self, clock: impl FnOnce() -> Instant) {
        if !on() || self.is_skipping.load(Relaxed) {
            return;
        }
        let mut inner = self.lock();
        if inner.asked.is_some() {
            return;
        }
        let now = clock();
        // The first round is no measure: it waits for the shards to be opened.
        if inner.has_first
            && let Some(before) = inner.asked_before.replace(now)
        {
            let rounds = self.skipped.load(Relaxed) + 1;
            let took = now.saturating_duration_since(before);
            self.round.add(took / rounds as u32);
            let not_its_own = (inner.waiting + inner.making).saturating_sub(inner.counted);
            self.own.record(took.saturating_sub(not_its_own));
        }
        inner.counted = inner.waiting + inner.making;
        inner.asked = Some(now);
        if self.is_settled.load(Relaxed) {
            inner.wait = Duration::ZERO;
        }
    }

    /// There is no element for it: it falls asleep.
    pub(crate) fn sleeps(&self, now: Instant) {
        if on() {
            let mut inner = self.lock();
            if self.is_settled.swap(false, Relaxed) {
                inner.wait = Duration::ZERO;
            }
            inner.asleep_from = Some(now);
        }
    }

    /// It is awake.
    pub(crate) fn wakes(&self, now: Instant) {
        if on() {
            let mut inner = self.lock();
            if let Some(from) = inner.asleep_from.take() {
                inner.wait += now.saturating_duration_since(from);
            }
        }
    }

    /// It has an element's rows.
    pub(crate) fn takes(&self, clock: impl FnOnce() -> Instant) {
        if !on() || self.is_settled.load(Relaxed) {
            return;
        }
        let mut inner = self.lock();
        self.is_settled.store(true, Relaxed);
        // The first one waits for the shards to be opened: that is told by itself.
        if inner.first.is_none() {
            inner.first = Some(inner.wait);
            inner.began = Some(clock());
        } else {
            let wait = inner.wait;
            inner.waiting += wait;
            self.waits.record(wait);
        }
    }

    /// The rows have become an element.
    pub(crate) fn has_it(&self, clock: impl FnOnce() -> Instant) {
        if !on() {
            return;
        }
        if self.is_skipping.load(Relaxed) {
            let skipped = self.skipped.load(Relaxed) + 1;
            self.skipped.store(skipped, Relaxed);
            if skipped + 1 >= STRIDE {
                self.is_skipping.store(false, Relaxed);
            }
            return;
        }
        let mut inner = self.lock();
        let Some(asked) = inner.asked.take() else { return };
        let now = clock();
        let took = now.saturating_duration_since(asked).saturating_sub(inner.wait);
        let (others, skipped) = (self.making.add(took), self.skipped.load(Relaxed));
        self.skipped.store(0, Relaxed);
        self.deliver.record(took);
        self.deliver.record_as(others, skipped);
        if inner.has_first {
            inner.making += took + others * skipped as u32;
        } else {
            (inner.has_first, inner.began) = (true, Some(now));
        }
        self.is_skipping.store(self.round.is_fast(), Relaxed);
    }

    /// There are no more.
    pub(crate) fn ends(&self, clock: impl FnOnce() -> Instant) {
        if on() {
            self.lock().ended.get_or_insert_with(clock);
        }
    }

    /// When it did something else for long. It need not have come back from the last one.
    pub(crate) fn pauses(&self) -> Pauses {
        let mean = self.own.sum() / self.own.count().clamp(1, u32::MAX.into()) as u32;
        let (count, total) = self.own.from((mean * PAUSE).max(Duration::from_nanos(1)));
        Pauses { count, total }
    }

    /// How long the first element was waited for.
    pub(crate) fn first(&self) -> Option<Duration> {
        self.lock().first
    }

    /// What making those took that were skipped.
    fn making_skipped(&self) -> Duration {
        Duration::from_nanos(self.making.ns() * self.skipped.load(Relaxed))
    }

    /// The making of elements as a stage.
    pub(crate) fn deliveries(&self) -> StageTimes {
        StageTimes {
            count: self.deliver.count() + self.skipped.load(Relaxed),
            busy: self.deliver.sum() + self.making_skipped(),
            waiting: Duration::ZERO,
            percentiles: self.deliver.percentiles(),
        }
    }

    /// The consumer, who took so many elements, as a stage: its own work between elements, and its
    /// waiting.
    pub(crate) fn times(&self, now: Instant, count: u64) -> StageTimes {
        let inner = self.lock();
        let now = inner.ended.unwrap_or(now);
        let since = |then: Option<Instant>| {
            then.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
        };
        let awaited = if self.is_settled.load(Relaxed) { Duration::ZERO } else { inner.wait };
        let waiting = inner.waiting + awaited + since(inner.asleep_from);
        let making = inner.making + self.making_skipped();
        // Most elements are not waited for at all.
        let without = count.saturating_sub(self.waits.count() + 1);
        let percentiles: Percentiles = self.waits.percentiles_with(without);
        let busy = since(inner.began).saturating_sub(waiting + making);
        StageTimes { count, busy, waiting, percentiles }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(n: u64) -> Duration {
        Duration::from_millis(n)
    }

    const fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    /// A loop with a clock of its own.
    struct Loop {
        consumer: Consumer,
        now: Instant,
        n_readings: u64,
    }

    impl Loop {
        fn new() -> Self {
            Self { consumer: Consumer::default(), now: Instant::now(), n_readings: 0 }
        }

        fn round(&mut self, wait: Duration, making: Duration, busy: Duration) {
            let mut n_readings = 0;
            self.consumer.asks(|| {
                n_readings += 1;
                self.now
            });
            if wait > Duration::ZERO {
                self.consumer.sleeps(self.now);
                self.now += wait;
                self.consumer.wakes(self.now);
            }
            self.consumer.takes(|| self.now);
            self.now += making;
            self.consumer.has_it(|| {
                n_readings += 1;
                self.now
            });
            self.now += busy;
            self.n_readings += n_readings;
        }
    }

    #[test]
    fn time_is_waiting_or_delivery_or_work() {
        let mut l = Loop::new();
        l.round(ms(100), ms(6), ms(44));
        l.round(ms(4), ms(6), ms(40));
        assert_eq!(l.consumer.first(), Some(ms(100)));
        // Asked for in vain, and once more.
        for _ in 0..2 {
            l.consumer.asks(|| l.now);
            l.consumer.sleeps(l.now);
            l.now += ms(25);
            l.consumer.wakes(l.now);
        }
        l.consumer.sleeps(l.now);
        l.now += ms(5);
        let times = l.consumer.times(l.now, 2);
        assert_eq!((times.count, times.busy, times.waiting), (2, ms(84), ms(4 + 55)));
        l.consumer.wakes(l.now);
        l.consumer.takes(|| l.now);
        l.now += ms(7);
        l.consumer.has_it(|| l.now);
        let times = l.consumer.times(l.now, 3);
        assert_eq!((times.busy, times.waiting), (ms(84), ms(4 + 55)));
        assert!(times.percentiles.p99.abs_diff(ms(55)) < ms(4));
        let deliver = l.consumer.deliveries();
        assert_eq!((deliver.count, deliver.busy), (3, ms(19)));
        l.consumer.ends(|| l.now);
        assert_eq!(l.consumer.times(l.now + ms(500), 3).busy, ms(84));
    }

    #[test]
    fn a_loop_that_comes_in_runs_has_pauses() {
        // A window is filled, slowly or out of what is ready, and then used up.
        for (n, wait, making) in
            [(300, ms(2), us(5)), (300, Duration::ZERO, us(5)), (40, ms(2), us(5))]
        {
            let mut l = Loop::new();
            for _ in 0..8 {
                for k in 0..n {
                    l.round(wait, making, if k + 1 == n { ms(500) } else { us(3) });
                }
            }
            // It has not come back from the last one.
            let pauses = l.consumer.pauses();
            assert_eq!(pauses.count, 7, "{n} {wait:?}");
            assert!(pauses.total.abs_diff(7 * ms(500)) <= 7 * ms(500) / 16, "{pauses:?}");
        }
    }

    #[test]
    fn a_loop_of_steps_that_are_alike_has_none() {
        for (waits, busy) in
            [(ms(2), ms(100)), (Duration::ZERO, ms(100)), (ms(2), us(5)), (us(10), us(5))]
        {
            let mut l = Loop::new();
            for k in 0..2000_u32 {
                // Steps differ, and some have to wait.
                l.round(waits * (k % 3), us(20), busy * (1 + k % 5));
            }
            assert_eq!(l.consumer.pauses(), Pauses::default(), "{waits:?} {busy:?}");
        }
        assert_eq!(Consumer::default().pauses(), Pauses::default());
    }

    #[test]
    fn of_a_fast_loop_some_rounds_stand_for_all() {
        let mut l = Loop::new();
        l.round(ms(100), us(2), us(3));
        let (n, before) = (1000, l.n_readings);
        for k in 1..=n {
            // Some are slept for, whether they are timed or not.
            let wait = if k % 10 == 0 { us(20) } else { Duration::ZERO };
            l.round(wait, us(2), us(3));
            let (times, deliver) = (l.consumer.times(l.now, k + 1), l.consumer.deliveries());
            assert_eq!((deliver.count, deliver.busy), (k + 1, us(2 * (k + 1))));
            assert_eq!(times.waiting, us(20) * (k / 10) as u32);
            assert_eq!(times.busy, us(3 * (k + 1)));
        }
        let n_readings = l.n_readings - before;
        assert!(n_readings < 2 * n / STRIDE + 8, "{n_readings}");
        let times = l.consumer.times(l.now, n + 1);
        assert_eq!(times.percentiles.p50, Duration::ZERO);
        assert!(times.percentiles.p99.abs_diff(us(20)) <= us(2));
        // It becomes slow, in its own work: nothing is lost, and soon all of it is timed.
        for _ in 0..4 * STRIDE {
            l.round(Duration::ZERO, us(2), ms(10));
        }
        assert_eq!(l.consumer.times(l.now, 0).busy, us(3 * (n + 1)) + ms(10 * 4 * STRIDE));
        let before = l.n_readings;
        l.round(Duration::ZERO, us(2), ms(10));
        assert_eq!(l.n_readings, before + 2);
    }
}
