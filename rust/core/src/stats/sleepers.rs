//! Who sleeps, for which reason, and for how long together.

use std::time::{Duration, Instant};

use super::{FAST, ON};

/// Where threads fall asleep and wake so often, the clock is read for one in so many of that.
const CHANGES: u32 = 8;
/// The time between two changes is a running average, of which each reading is one part in so many.
const AVERAGED: u32 = 8;

/// A census of the sleepers by `N` reasons, under the lock that those hold who fall asleep or wake.
///
/// While that happens seldom the clock is read each time, and the integral of their number is exact.
/// Where it happens every few microseconds, changes between two readings of the clock are taken for
/// evenly spread: reading it each time would cost a percent of what the threads do.
#[derive(Debug)]
pub(crate) struct Sleepers<const N: usize> {
    n: [u32; N],
    totals: [Duration; N],
    read_at: Option<Instant>,
    /// Since then: changes, and the sum of the numbers that there were before each of them.
    changes: u32,
    sums: [u32; N],
    /// Running average of the time between two changes.
    pause: Duration,
}

impl<const N: usize> Default for Sleepers<N> {
    fn default() -> Self {
        Self {
            n: [0; N],
            totals: [Duration::ZERO; N],
            read_at: None,
            changes: 0,
            sums: [0; N],
            pause: Duration::MAX,
        }
    }
}

impl<const N: usize> Sleepers<N> {
    /// One more sleeps for this reason.
    pub(crate) fn enter(&mut self, reason: usize, clock: impl FnOnce() -> Instant) {
        self.change(clock);
        if let Some(n) = self.n.get_mut(reason) {
            *n += 1;
        }
    }

    /// One fewer does.
    pub(crate) fn leave(&mut self, reason: usize, clock: impl FnOnce() -> Instant) {
        self.change(clock);
        if let Some(n) = self.n.get_mut(reason) {
            *n = n.saturating_sub(1);
        }
    }

    /// How many sleep for this reason.
    pub(crate) fn n(&self, reason: usize) -> u32 {
        self.n.get(reason).copied().unwrap_or_default()
    }

    fn change(&mut self, clock: impl FnOnce() -> Instant) {
        if !ON {
            return;
        }
        self.changes += 1;
        for (sum, n) in self.sums.iter_mut().zip(self.n) {
            *sum += n;
        }
        if self.pause < FAST && self.changes < CHANGES {
            return;
        }
        let (now, changes) = (clock(), self.changes);
        let since = self.since(now);
        for (total, sum) in self.totals.iter_mut().zip(&mut self.sums) {
            *total += since * std::mem::take(sum) / changes;
        }
        if self.read_at.is_some() {
            self.pause = match self.pause {
                Duration::MAX => since / changes,
                pause => (pause * (AVERAGED - 1) + since / changes) / AVERAGED,
            };
        }
        (self.read_at, self.changes) = (Some(now), 0);
    }

    fn since(&self, now: Instant) -> Duration {
        self.read_at.map_or(Duration::ZERO, |at| now.saturating_duration_since(at))
    }

    /// Thread time asleep until `now`, by reason.
    pub(crate) fn totals(&self, now: Instant) -> [Duration; N] {
        let since = self.since(now);
        // The changes took the time that they usually take; since then nothing has.
        let changing = if self.changes == 0 {
            Duration::ZERO
        } else {
            self.pause.saturating_mul(self.changes).min(since)
        };
        let mut totals = self.totals;
        for ((total, sum), n) in totals.iter_mut().zip(self.sums).zip(self.n) {
            *total += changing * sum / self.changes.max(1) + since.saturating_sub(changing) * n;
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn while_changes_are_seldom_it_is_the_integral_of_the_number() {
        let began = Instant::now();
        let at = |ms| began + Duration::from_millis(ms);
        let mut sleepers = Sleepers::<2>::default();
        assert_eq!(sleepers.totals(at(50)), [Duration::ZERO; 2]);
        sleepers.enter(0, || at(100));
        sleepers.enter(1, || at(200));
        sleepers.enter(0, || at(300));
        assert_eq!((sleepers.n(0), sleepers.n(1)), (2, 1));
        // One for 200 ms, two for 100; and one for 200 ms.
        let wanted = [400, 200].map(Duration::from_millis);
        assert_eq!(sleepers.totals(at(400)), wanted);
        sleepers.leave(0, || at(400));
        sleepers.leave(1, || at(400));
        sleepers.leave(0, || at(500));
        assert_eq!(sleepers.totals(at(5000)), [500, 200].map(Duration::from_millis));
    }

    proptest! {
        // Threads sleep and wake at random; the exact integral beside it.
        #[test]
        fn fast_changes_add_up_to_a_few_percent(
            changes in prop::collection::vec((any::<bool>(), 1_u64..20_000), 2000..3000),
            pause_ms in 0_u64..50,
        ) {
            let mut now = Instant::now();
            let (mut sleepers, mut n_readings) = (Sleepers::<1>::default(), 0);
            let (mut n, mut exact, mut changed) = (0_u32, Duration::ZERO, 0);
            for (enters, ns) in changes {
                if (enters && n < 8) || (!enters && n > 0) {
                    let clock = || { n_readings += 1; now };
                    if enters {
                        sleepers.enter(0, clock);
                        n += 1;
                    } else {
                        sleepers.leave(0, clock);
                        n -= 1;
                    }
                    changed += 1;
                }
                now += Duration::from_nanos(ns);
                exact += Duration::from_nanos(ns) * n;
            }
            let error = |exact: Duration, told: Duration| told.as_secs_f64() - exact.as_secs_f64();
            let found = error(exact, sleepers.totals(now)[0]).abs();
            prop_assert!(found <= 0.05 * exact.as_secs_f64() + 1e-4, "{found} of {exact:?}");
            prop_assert!(n_readings < changed / 4);
            // A long sleep after that counts in full, while it lasts and when it has ended.
            let pause = Duration::from_millis(pause_ms);
            exact += pause * n;
            now += pause;
            let found = error(exact, sleepers.totals(now)[0]).abs();
            prop_assert!(found <= 0.05 * exact.as_secs_f64() + 1e-3, "{found} of {exact:?}");
        }
    }

    #[test]
    fn after_a_long_pause_each_change_is_timed_again() {
        let mut now = Instant::now();
        let mut sleepers = Sleepers::<1>::default();
        for _ in 0..1000 {
            sleepers.enter(0, || now);
            now += Duration::from_micros(1);
            sleepers.leave(0, || now);
            now += Duration::from_micros(1);
        }
        assert!(sleepers.pause < FAST);
        now += Duration::from_millis(100);
        let mut n_readings = 0;
        for _ in 0..50 {
            for _ in 0..4 {
                sleepers.enter(0, || {
                    n_readings += 1;
                    now
                });
                now += Duration::from_micros(1);
                sleepers.leave(0, || {
                    n_readings += 1;
                    now
                });
                now += Duration::from_micros(1);
            }
            now += Duration::from_millis(100);
        }
        assert!(n_readings > 8 * 48, "{n_readings}");
    }
}
