//! How long threads spend in a place, summed over them.

use std::time::{Duration, Instant};

use super::{now, on};

/// Counts who is in a place and adds up the time: the integral of their number.
///
/// Whoever keeps it holds a lock. Unlike a stopwatch in each thread, it is right at any moment,
/// also while threads stay in. Who comes takes the time off the sum, who goes adds it: an addition
/// each.
#[derive(Debug)]
pub(crate) struct Census {
    n: usize,
    since: Instant,
    sum_ns: i64,
}

impl Default for Census {
    fn default() -> Self {
        Self { n: 0, since: now(), sum_ns: 0 }
    }
}

impl Census {
    /// One more is in.
    pub(crate) fn enter(&mut self, now: Instant) {
        self.set(self.n + 1, now);
    }

    /// One fewer is in.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.set(self.n.saturating_sub(1), now);
    }

    /// So many are in.
    pub(crate) fn set(&mut self, n: usize, now: Instant) {
        if on() {
            let fewer = (self.n as i64).saturating_sub(n as i64);
            self.sum_ns = self.sum_ns.saturating_add(fewer.saturating_mul(self.ns(now)));
        }
        self.n = n;
    }

    /// How many are in.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Thread time spent in until `now`.
    pub(crate) fn total(&self, now: Instant) -> Duration {
        let inside = if on() { (self.n as i64).saturating_mul(self.ns(now)) } else { 0 };
        Duration::from_nanos(self.sum_ns.saturating_add(inside).max(0) as u64)
    }

    fn ns(&self, now: Instant) -> i64 {
        now.saturating_duration_since(self.since).as_nanos() as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_integral_of_the_number() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut census = Census::default();
        assert_eq!(census.total(at(50)), Duration::ZERO);
        census.enter(at(100));
        census.enter(at(300));
        assert_eq!(census.n(), 2);
        // One for 200 ms, two for 100.
        assert_eq!(census.total(at(400)), Duration::from_millis(400));
        census.leave(at(400));
        census.leave(at(1000));
        assert_eq!((census.n(), census.total(at(5000))), (0, Duration::from_secs(1)));
        census.set(3, at(5000));
        census.set(1, at(5100));
        assert_eq!((census.n(), census.total(at(5200))), (1, Duration::from_millis(1400)));
    }
}
