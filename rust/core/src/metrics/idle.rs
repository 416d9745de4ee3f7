//! Readers that could work and have nothing to do, by the reason.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Thread time of readers without work, by `N` reasons.
///
/// It is told of every change of the number or the reason. While there is work for all, that costs
/// no reading of the clock.
#[derive(Debug, Default)]
pub(crate) struct Idle(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    totals: [Duration; Idle::REASONS],
    /// How many idle now, for which reason, and since when.
    now: Option<(u32, usize, Instant)>,
}

impl Idle {
    /// Reasons are numbered from 0 to this.
    pub(crate) const REASONS: usize = 3;

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on `n` readers have nothing to do, for this reason.
    pub(crate) fn change(&self, n: u32, reason: usize) {
        let mut inner = self.lock();
        if n == 0 && inner.now.is_none() {
            return;
        }
        if inner.now.is_some_and(|(before, why, _)| (before, why) == (n, reason)) {
            return;
        }
        let now = Instant::now();
        inner.totals = inner.totals_at(now);
        inner.now = (n > 0).then_some((n, reason, now));
    }

    /// Thread time until now, by reason.
    pub(crate) fn totals(&self) -> [Duration; Self::REASONS] {
        self.lock().totals_at(Instant::now())
    }
}

impl Inner {
    fn totals_at(&self, now: Instant) -> [Duration; Idle::REASONS] {
        let mut totals = self.totals;
        if let Some((n, reason, since)) = self.now
            && let Some(total) = totals.get_mut(reason)
        {
            *total += now.saturating_duration_since(since) * n;
        }
        totals
    }
}

#[cfg(test)]
mod tests {
    use std::thread::sleep;

    use super::*;

    #[test]
    fn thread_time_is_added_up_by_reason() {
        let (idle, began) = (Idle::default(), Instant::now());
        let pause = Duration::from_millis(5);
        idle.change(3, 1);
        sleep(pause);
        idle.change(2, 0);
        sleep(pause);
        idle.change(0, 0);
        let elapsed = began.elapsed();
        sleep(pause);
        let [look_ahead, budget, load] = idle.totals();
        assert!(2 * pause <= look_ahead && 3 * pause <= budget && load.is_zero());
        assert!(look_ahead + budget <= 3 * elapsed);
    }
}
