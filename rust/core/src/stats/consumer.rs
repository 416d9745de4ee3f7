//! The consumer's loop: what it waits for data, and what it does with them.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{ON, Percentiles, StageTimes, Timer};

/// Follows the one thread that takes batches.
#[derive(Debug, Default)]
pub(crate) struct Consumer {
    waits: Timer,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    /// When the last batch was handed over; `None` while the next is waited for.
    left: Option<Instant>,
    /// How long the batch that is being waited for has let it sleep so far.
    wait: Duration,
    /// How long it has asked for it, asleep or not.
    asked: Duration,
    /// What asking for the last one took, without sleep.
    handing: Duration,
    first: Option<Duration>,
    elements: u64,
    rows: u64,
    busy: Duration,
    waiting: Duration,
}

impl Consumer {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer comes and asks.
    pub(crate) fn asks(&self, now: Instant) {
        if !ON {
            return;
        }
        let mut inner = self.lock();
        if let Some(left) = inner.left.take() {
            inner.busy += now.saturating_duration_since(left);
        }
    }

    /// There is no batch for it: it sleeps for so long.
    pub(crate) fn sleeps(&self, slept: Duration) {
        if ON {
            self.lock().wait += slept;
        }
    }

    /// It asked at `since` and leaves with a batch of so many rows, or to ask again.
    pub(crate) fn leaves(&self, since: Instant, now: Instant, n_rows: Option<usize>) {
        if !ON {
            return;
        }
        let mut inner = self.lock();
        inner.asked += now.saturating_duration_since(since);
        let Some(n_rows) = n_rows else { return };
        let wait = std::mem::take(&mut inner.wait);
        inner.handing = std::mem::take(&mut inner.asked).saturating_sub(wait);
        inner.elements += 1;
        inner.rows += n_rows as u64;
        inner.left = Some(now);
        // The first batch waits for the shards to be opened: that is told by itself.
        if inner.first.is_none() {
            inner.first = Some(wait);
        } else {
            inner.waiting += wait;
            self.waits.record(wait);
        }
    }

    /// The batch has become an element; how long that took, with the asking.
    pub(crate) fn has_it(&self, now: Instant) -> Duration {
        if !ON {
            return Duration::ZERO;
        }
        let mut inner = self.lock();
        let left = inner.left.replace(now);
        let made = left.map_or(Duration::ZERO, |left| now.saturating_duration_since(left));
        made + std::mem::take(&mut inner.handing)
    }

    /// `(elements, rows)` that were delivered, and how long the first one took.
    pub(crate) fn delivered(&self) -> (u64, u64, Option<Duration>) {
        let inner = self.lock();
        (inner.elements, inner.rows, inner.first)
    }

    /// The consumer as a stage: its own work between elements, and its waiting.
    pub(crate) fn times(&self, now: Instant) -> StageTimes {
        let inner = self.lock();
        let working = inner.left.map_or(Duration::ZERO, |t| now.saturating_duration_since(t));
        let percentiles: Percentiles = self.waits.percentiles();
        StageTimes {
            count: inner.elements,
            busy: inner.busy + working,
            waiting: inner.waiting + inner.wait,
            percentiles,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_either_waiting_or_work() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let consumer = Consumer::default();
        for (asked, got) in [(0, 100), (150, 155)] {
            consumer.asks(at(asked));
            consumer.sleeps(Duration::from_millis(got - asked - 1));
            consumer.leaves(at(asked), at(got), Some(8));
            // One millisecond awake, and five for the element.
            assert_eq!(consumer.has_it(at(got + 5)), Duration::from_millis(6));
        }
        consumer.asks(at(200));
        consumer.sleeps(Duration::from_millis(25));
        consumer.leaves(at(200), at(225), None);
        assert_eq!(consumer.delivered(), (2, 16, Some(Duration::from_millis(99))));
        let times = consumer.times(at(225));
        assert_eq!(times.count, 2);
        assert_eq!(times.busy, Duration::from_millis(45 + 40));
        assert_eq!(times.waiting, Duration::from_millis(4 + 25));
    }
}
