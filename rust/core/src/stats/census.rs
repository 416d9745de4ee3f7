//! How long threads spend in a place, summed over them.

use std::time::{Duration, Instant};

use super::ON;

/// Counts who is in a place and adds up the time: the integral of their number.
///
/// Whoever keeps it holds a lock. Unlike a stopwatch in each thread, it is right at any moment,
/// also while threads stay in.
#[derive(Debug, Default)]
pub(crate) struct Census {
    n: usize,
    total: Duration,
    counted_to: Option<Instant>,
}

impl Census {
    /// One more is in.
    pub(crate) fn enter(&mut self, now: Instant) {
        self.count_to(now);
        self.n += 1;
    }

    /// One fewer is in.
    pub(crate) fn leave(&mut self, now: Instant) {
        self.count_to(now);
        self.n = self.n.saturating_sub(1);
    }

    /// So many are in.
    pub(crate) fn set(&mut self, n: usize, now: Instant) {
        self.count_to(now);
        self.n = n;
    }

    fn count_to(&mut self, now: Instant) {
        if ON {
            self.total = self.total(now);
            self.counted_to = Some(now);
        }
    }

    /// How many are in.
    pub(crate) fn n(&self) -> usize {
        self.n
    }

    /// Thread time spent in until `now`.
    pub(crate) fn total(&self, now: Instant) -> Duration {
        let since = self.counted_to.map_or(Duration::ZERO, |t| now.saturating_duration_since(t));
        self.total.saturating_add(since.saturating_mul(u32::try_from(self.n).unwrap_or(u32::MAX)))
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
