//! The consumer's loop: what it waits for data, what making elements takes, and what it does with
//! them.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Pauses, Percentiles, StageTimes, Timer};

/// Work of the consumer's own that takes this many times the mean is a pause.
const PAUSE: u32 = 10;

/// Follows the one thread that takes elements.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    waits: Timer,
    deliver: Timer,
    /// What the consumer did between two elements.
    own: Timer,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// When it asked for the element that it is waiting for or that is being made.
    asked: Option<Instant>,
    /// When it had that element's rows.
    taken: Option<Instant>,
    /// When it had the last element.
    had: Option<Instant>,
    /// How long it has slept for this element.
    slept: Duration,
    /// How long it slept for the first one, which waits for the shards to be opened.
    first: Option<Duration>,
    /// When it had the first one; what follows is the loop.
    began: Option<Instant>,
    ended: Option<Instant>,
    /// In the loop, asleep and at the making of elements.
    waiting: Duration,
    making: Duration,
    elements: u64,
    rows: u64,
    /// Sums over the elements: batches that were ready, and rows that were read, when it was taken.
    ready: u64,
    read: u64,
}

impl Consumer {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer comes and asks, perhaps for the same element as before.
    pub(crate) fn asks(&self) {
        let mut inner = self.lock();
        if inner.asked.is_some() {
            return;
        }
        let now = Instant::now();
        if let Some(had) = inner.had {
            self.own.record(now.saturating_duration_since(had));
        }
        (inner.asked, inner.slept) = (Some(now), Duration::ZERO);
    }

    /// There was no element for it, and it slept so long.
    pub(crate) fn slept(&self, duration: Duration) {
        self.lock().slept += duration;
    }

    /// It has the rows of an element, which are so many; batches that were `ready`, and rows that
    /// were `read` by then.
    pub(crate) fn takes(&self, n_rows: usize, (ready, read): (usize, usize)) {
        let mut inner = self.lock();
        inner.taken = Some(Instant::now());
        let slept = inner.slept;
        if inner.first.is_none() {
            inner.first = Some(slept);
        } else {
            inner.waiting += slept;
            self.waits.record(slept);
        }
        inner.elements += 1;
        inner.rows += n_rows as u64;
        inner.ready += ready as u64;
        inner.read += read as u64;
    }

    /// The rows have become an element.
    pub(crate) fn has_it(&self) {
        let mut inner = self.lock();
        let Some(taken) = inner.taken.take() else { return };
        let now = Instant::now();
        let took = now.saturating_duration_since(taken);
        self.deliver.record(took);
        if inner.began.is_some() {
            inner.making += took;
        }
        inner.began.get_or_insert(now);
        (inner.asked, inner.had) = (None, Some(now));
    }

    /// There are no more.
    pub(crate) fn ends(&self) {
        self.lock().ended.get_or_insert_with(Instant::now);
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

    /// Elements and rows that were taken.
    pub(crate) fn taken(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.elements, inner.rows)
    }

    /// Means over the elements: batches that were ready, and rows that were read.
    pub(crate) fn mean_depths(&self) -> (f64, f64) {
        let inner = self.lock();
        let n = inner.elements.max(1) as f64;
        (inner.ready as f64 / n, inner.read as f64 / n)
    }

    /// The making of elements as a stage.
    pub(crate) fn deliveries(&self) -> StageTimes {
        self.deliver.stage()
    }

    /// The consumer as a stage: its own work between elements, and its waiting.
    pub(crate) fn times(&self) -> StageTimes {
        let inner = self.lock();
        let now = inner.ended.unwrap_or_else(Instant::now);
        let since = |then: Option<Instant>| {
            then.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
        };
        // It waits now, where it has asked and does not have it.
        let waits = inner.asked.filter(|_| inner.taken.is_none() && inner.began.is_some());
        let waiting = inner.waiting + since(waits);
        let busy = since(inner.began).saturating_sub(waiting + inner.making);
        let percentiles: Percentiles = self.waits.percentiles();
        StageTimes { count: inner.elements, busy, waiting, percentiles }
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    const STEP: Duration = Duration::from_millis(4);

    #[test]
    fn waiting_making_and_own_work_are_told_apart() {
        let consumer = Consumer::default();
        for k in 0..5 {
            consumer.asks();
            consumer.asks();
            sleep(STEP);
            consumer.slept(STEP);
            consumer.takes(3, (2, 7));
            sleep(STEP / 2);
            consumer.has_it();
            if k < 4 {
                sleep(2 * STEP);
            }
        }
        consumer.ends();
        let (times, making) = (consumer.times(), consumer.deliveries());
        assert_eq!((times.count, making.count), (5, 5));
        assert_eq!(consumer.taken(), (5, 15));
        assert_eq!(consumer.mean_depths(), (2.0, 7.0));
        assert_eq!((consumer.first(), times.waiting), (Some(STEP), 4 * STEP));
        assert!(making.busy >= 5 * STEP / 2);
        // The sleeps that it was told of may have been longer than it was told.
        assert!(times.busy >= 8 * STEP, "{times:?}");
    }

    #[test]
    fn long_absences_are_pauses() {
        let consumer = Consumer::default();
        for k in 0..60 {
            consumer.asks();
            consumer.takes(1, (0, 0));
            consumer.has_it();
            if k % 20 == 19 {
                sleep(5 * STEP);
            }
        }
        consumer.asks();
        let pauses = consumer.pauses();
        assert_eq!(pauses.count, 3);
        assert!(pauses.total >= 14 * STEP, "{pauses:?}");
    }
}
