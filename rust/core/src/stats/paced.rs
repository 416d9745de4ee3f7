//! Durations of which only a part is looked at where they are short.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::{Percentiles, Timer, on};

/// What takes less than this on average is sampled: two clock readings, and filing what lies between
/// them, are then a thousandth of what takes longer.
pub(crate) const FAST: Duration = Duration::from_micros(200);
/// Of what is fast one in so many is timed: a prime number, so that no batch size falls in with it.
const STRIDE: u64 = 61;
/// The average is a running one, in which each counts for one part in so many: one that is slow
/// has the next ones timed for some time.
const AVERAGED: u64 = 8;

/// A running average of durations; 0 before the first. Threads may overwrite each other's.
#[derive(Debug, Default)]
pub(crate) struct Mean(AtomicU64);

impl Mean {
    pub(crate) fn ns(&self) -> u64 {
        self.0.load(Relaxed)
    }

    /// Whether sampling is enough. Before the first it is not.
    pub(crate) fn is_fast(&self) -> bool {
        (1..FAST.as_nanos() as u64).contains(&self.ns())
    }

    /// Takes one more in. Returns what others take that it stands for: one that was slow by chance,
    /// or had no CPU, must not count for others as well.
    pub(crate) fn add(&self, took: Duration) -> Duration {
        let (ns, mean) = ((took.as_nanos() as u64).max(1), self.ns());
        let next = if mean == 0 { ns } else { mean - mean / AVERAGED + ns / AVERAGED };
        self.0.store(next, Relaxed);
        let is_fast = (1..FAST.as_nanos() as u64).contains(&mean);
        Duration::from_nanos(if is_fast { ns.min(mean) } else { ns })
    }

    #[cfg(test)]
    pub(crate) fn of(duration: Duration) -> Self {
        Self((duration.as_nanos() as u64).into())
    }
}

/// A [`Timer`] of things that are numbered, and counted elsewhere: all are timed while they are
/// slow, one in [`STRIDE`] where they are fast. Those that are not cost a load.
#[derive(Debug, Default)]
pub(crate) struct Paced {
    timer: Timer,
    mean: Mean,
}

impl Paced {
    /// Whether the one of this number is timed.
    pub(crate) fn is_timed(&self, number: u64) -> bool {
        on() && (!self.mean.is_fast() || number.is_multiple_of(STRIDE))
    }

    /// Adds one that was.
    pub(crate) fn record(&self, took: Duration) {
        let is_sampled = self.mean.is_fast();
        let others = self.mean.add(took);
        self.timer.record(took);
        if is_sampled {
            self.timer.record_as(others, STRIDE - 1);
        }
    }

    /// What `count` of them took, by those that were timed.
    pub(crate) fn busy(&self, count: u64) -> Duration {
        let timed = self.timer.count().max(1);
        self.timer.sum().mul_f64(count as f64 / timed as f64)
    }

    pub(crate) fn percentiles(&self) -> Percentiles {
        self.timer.percentiles()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is recorded of `n` durations of this length, numbered from `first` on.
    fn all(paced: &Paced, first: u64, n: u64, took: Duration) -> u64 {
        let timed = (first..first + n).filter(|number| paced.is_timed(*number));
        timed.map(|_| paced.record(took)).count() as u64
    }

    #[test]
    fn of_fast_ones_some_stand_for_all() {
        let paced = Paced::default();
        let took = Duration::from_micros(3);
        assert_eq!(all(&paced, 1, 10 * STRIDE, took), 1 + 10);
        assert_eq!(paced.busy(10 * STRIDE), 10 * STRIDE as u32 * took);
        // One that lost its CPU counts for itself.
        let slow = Duration::from_millis(100);
        paced.record(slow);
        let busy = paced.busy(11 * STRIDE).as_secs_f64();
        let wanted = (slow + 11 * STRIDE as u32 * took).as_secs_f64();
        assert!((busy / wanted - 1.0).abs() < 0.02, "{busy} for {wanted}");
    }

    #[test]
    fn slow_ones_are_all_timed() {
        let paced = Paced::default();
        let took = 2 * FAST;
        assert_eq!(all(&paced, 1, 100, took), 100);
        assert_eq!(paced.busy(100), 100 * took);
        // Those that were fast and become slow: from the second that is looked at on.
        let paced = Paced { mean: Mean::of(Duration::from_micros(1)), ..Paced::default() };
        let n_timed = all(&paced, 1, 10 * STRIDE, 100 * FAST);
        assert_eq!(n_timed, 9 * STRIDE + 1);
    }
}
