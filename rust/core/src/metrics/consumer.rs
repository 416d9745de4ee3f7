//! The consumer's loop: its waits for data, the conversion of elements, and its own work.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use super::{Pauses, Percentiles, StageTimes, Timer};
use crate::sync::lock_std;

/// The consumer's own work between two elements is a pause if it takes this many times the mean.
const PAUSE: u32 = 10;

/// Times the thread that takes elements.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    waits: Timer,
    deliver: Timer,
    /// The consumer's own work between two elements.
    own: Timer,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// When it asked for the element that it waits for or that is being converted.
    requested: Option<Instant>,
    /// When it took that element's rows.
    taken: Option<Instant>,
    /// When the last element was delivered.
    delivered: Option<Instant>,
    /// How long it has waited for this element.
    waited: Duration,
    /// How long it waited for the first element, which needs the shards to be opened.
    first_wait: Option<Duration>,
    /// When the first element was delivered. Totals are of what follows.
    began: Option<Instant>,
    ended: Option<Instant>,
    waiting: Duration,
    converting: Duration,
    elements: u64,
    rows: u64,
    /// Sums over the elements: batches that were ready, and rows that were read, when it was taken.
    ready: u64,
    read: u64,
}

impl Consumer {
    /// The consumer asks for an element, which may be the one that it already waits for.
    pub(crate) fn requested(&self) {
        let mut inner = lock_std(&self.inner);
        if inner.requested.is_some() {
            return;
        }
        let now = Instant::now();
        if let Some(delivered) = inner.delivered {
            self.own.record(now.saturating_duration_since(delivered));
        }
        (inner.requested, inner.waited) = (Some(now), Duration::ZERO);
    }

    /// It has waited for the element.
    pub(crate) fn waited(&self, duration: Duration) {
        lock_std(&self.inner).waited += duration;
    }

    /// It takes an element of `n_rows` rows, when this many batches were ready and rows were read.
    pub(crate) fn took(&self, n_rows: usize, (ready, read): (usize, usize)) {
        let mut inner = lock_std(&self.inner);
        inner.taken = Some(Instant::now());
        let waited = inner.waited;
        if inner.first_wait.is_none() {
            inner.first_wait = Some(waited);
        } else {
            inner.waiting += waited;
            self.waits.record(waited);
        }
        inner.elements += 1;
        inner.rows += n_rows as u64;
        inner.ready += ready as u64;
        inner.read += read as u64;
    }

    /// The element has been converted for it.
    pub(crate) fn delivered(&self) {
        let mut inner = lock_std(&self.inner);
        let Some(taken) = inner.taken.take() else { return };
        let now = Instant::now();
        let took = now.saturating_duration_since(taken);
        self.deliver.record(took);
        if inner.began.is_some() {
            inner.converting += took;
        }
        inner.began.get_or_insert(now);
        (inner.requested, inner.delivered) = (None, Some(now));
    }

    /// There are no more elements.
    pub(crate) fn ended(&self) {
        lock_std(&self.inner).ended.get_or_insert_with(Instant::now);
    }

    /// Its pauses, without one that has not ended.
    pub(crate) fn pauses(&self) -> Pauses {
        let mean = self.own.sum() / self.own.count().clamp(1, u32::MAX.into()) as u32;
        let (count, total) = self.own.at_least((mean * PAUSE).max(Duration::from_nanos(1)));
        Pauses { count, total }
    }

    /// The wait for the first element.
    pub(crate) fn first_wait(&self) -> Option<Duration> {
        lock_std(&self.inner).first_wait
    }

    /// Elements and rows that were taken.
    pub(crate) fn taken(&self) -> (u64, u64) {
        let inner = lock_std(&self.inner);
        (inner.elements, inner.rows)
    }

    /// Means over the elements: batches that were ready, and rows that were read.
    pub(crate) fn mean_depths(&self) -> (f64, f64) {
        let inner = lock_std(&self.inner);
        let n = inner.elements.max(1) as f64;
        (inner.ready as f64 / n, inner.read as f64 / n)
    }

    /// The conversion of elements as a stage.
    pub(crate) fn deliveries(&self) -> StageTimes {
        self.deliver.stage()
    }

    /// The consumer as a stage: its own work between elements, and its waits.
    pub(crate) fn times(&self) -> StageTimes {
        let inner = lock_std(&self.inner);
        let now = inner.ended.unwrap_or_else(Instant::now);
        let since = |then: Option<Instant>| {
            then.map_or(Duration::ZERO, |then| now.saturating_duration_since(then))
        };
        // The wait that has not ended, if there is one.
        let waits = inner.requested.filter(|_| inner.taken.is_none() && inner.began.is_some());
        let waiting = inner.waiting + since(waits);
        let busy = since(inner.began).saturating_sub(waiting + inner.converting);
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
    fn waits_conversion_and_own_work_are_told_apart() {
        let consumer = Consumer::default();
        for k in 0..5 {
            consumer.requested();
            consumer.requested();
            sleep(STEP);
            consumer.waited(STEP);
            consumer.took(3, (2, 7));
            sleep(STEP / 2);
            consumer.delivered();
            if k < 4 {
                sleep(2 * STEP);
            }
        }
        consumer.ended();
        let (times, deliveries) = (consumer.times(), consumer.deliveries());
        assert_eq!((times.count, deliveries.count), (5, 5));
        assert_eq!(consumer.taken(), (5, 15));
        assert_eq!(consumer.mean_depths(), (2.0, 7.0));
        assert_eq!((consumer.first_wait(), times.waiting), (Some(STEP), 4 * STEP));
        assert!(deliveries.busy >= 5 * STEP / 2);
        // The sleeps may have been longer than the waits that were reported.
        assert!(times.busy >= 8 * STEP, "{times:?}");
    }

    #[test]
    fn long_absences_are_pauses() {
        let consumer = Consumer::default();
        for k in 0..60 {
            consumer.requested();
            consumer.took(1, (0, 0));
            consumer.delivered();
            if k % 20 == 19 {
                sleep(5 * STEP);
            }
        }
        consumer.requested();
        let pauses = consumer.pauses();
        assert_eq!(pauses.count, 3);
        assert!(pauses.total >= 14 * STEP, "{pauses:?}");
    }
}
