//! Who sleeps, for which reason, and for how long together.

use std::{
    mem,
    time::{Duration, Instant},
};

use super::{on, paced::FAST};

/// Where threads fall asleep and wake so often, the clock is read for one in so many of that.
const CHANGES: u32 = 8;
/// The time between two changes is a running average, of which each reading is one part in so many.
const AVERAGED: u64 = 8;

/// A census of the sleepers by `N` reasons, under the lock that those hold who fall asleep or wake.
///
/// While that happens seldom the clock is read each time, and the integral of their number is exact.
/// Where it happens every few microseconds, changes between two readings of the clock are taken for
/// evenly spread: reading it each time would cost a percent of what the threads do.
#[derive(Debug)]
pub(crate) struct Sleepers<const N: usize> {
    n: [u32; N],
    totals_ns: [u64; N],
    read_at: Option<Instant>,
    /// Since then: changes, and the sum of the numbers that there were before each of them.
    changes: u32,
    sums: [u32; N],
    /// Running average of the time between two changes; `None` before the first.
    pause_ns: Option<u64>,
}

impl<const N: usize> Default for Sleepers<N> {
    fn default() -> Self {
        Self {
            n: [0; N],
            totals_ns: [0; N],
            read_at: None,
            changes: 0,
            sums: [0; N],
            pause_ns: None,
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
        if !on() {
            return;
        }
        self.changes += 1;
        for (sum, n) in self.sums.iter_mut().zip(self.n) {
            *sum += n;
        }
        if self.changes < CHANGES && self.is_fast() {
            return;
        }
        let now = clock();
        let (since_ns, changes) = (self.since_ns(now), u64::from(self.changes));
        for (total, sum) in self.totals_ns.iter_mut().zip(&mut self.sums) {
            *total += since_ns * u64::from(mem::take(sum)) / changes;
        }
        if self.read_at.is_some() {
            let pause = since_ns / changes;
            let average = |before| (before * (AVERAGED - 1) + pause) / AVERAGED;
            self.pause_ns = Some(self.pause_ns.map_or(pause, average));
        }
        (self.read_at, self.changes) = (Some(now), 0);
    }

    fn is_fast(&self) -> bool {
        self.pause_ns.is_some_and(|ns| ns < FAST.as_nanos() as u64)
    }

    fn since_ns(&self, now: Instant) -> u64 {
        self.read_at.map_or(0, |at| now.saturating_duration_since(at).as_nanos() as u64)
    }

    /// Thread time asleep until `now`, by reason.
    pub(crate) fn totals(&self, now: Instant) -> [Duration; N] {
        let (since_ns, changes) = (self.since_ns(now), u64::from(self.changes));
        // The changes took the time that they usually take; since then nothing has.
        let changing_ns = self.pause_ns.unwrap_or(0).saturating_mul(changes).min(since_ns);
        let mut totals = self.totals_ns;
        for ((total, sum), n) in totals.iter_mut().zip(self.sums).zip(self.n) {
            *total += changing_ns * u64::from(sum) / changes.max(1);
            *total += (since_ns - changing_ns) * u64::from(n);
        }
        totals.map(Duration::from_nanos)
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
        assert!(sleepers.is_fast());
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
