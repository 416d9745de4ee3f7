//! The time that readers have nothing to do, by the reason.

use std::{
    sync::Mutex,
    time::{Duration, Instant},
};

use crate::sync::lock_std;

/// Why no reader can do anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IdleReason {
    /// As many batches are open as may be, or the stream has ended.
    PrefetchDepth,
    /// A batch or a row does not fit into the memory budget.
    Memory,
    /// Rows wait for tables or blocks that other readers are loading.
    Load,
}

/// Thread time of idle readers, by the reason.
///
/// While no reader is idle, an update does not read the clock.
#[derive(Debug, Default)]
pub(crate) struct IdleTime(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    totals: [Duration; 3],
    /// How many are idle now, for which reason, and since when.
    now: Option<(u32, IdleReason, Instant)>,
}

impl IdleTime {
    /// From now on `n` readers are idle, for this reason.
    pub(crate) fn set(&self, n: u32, reason: IdleReason) {
        let mut inner = lock_std(&self.0);
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

    /// From now on no reader is idle.
    pub(crate) fn clear(&self) {
        self.set(0, IdleReason::PrefetchDepth);
    }

    /// Thread time until now, in the order of the reasons.
    pub(crate) fn totals(&self) -> [Duration; 3] {
        lock_std(&self.0).totals_at(Instant::now())
    }
}

impl Inner {
    fn totals_at(&self, now: Instant) -> [Duration; 3] {
        let mut totals = self.totals;
        if let Some((n, reason, since)) = self.now
            && let Some(total) = totals.get_mut(reason as usize)
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
        let (idle, began) = (IdleTime::default(), Instant::now());
        let pause = Duration::from_millis(5);
        idle.set(3, IdleReason::Memory);
        sleep(pause);
        idle.set(2, IdleReason::PrefetchDepth);
        sleep(pause);
        idle.clear();
        let elapsed = began.elapsed();
        sleep(pause);
        let [prefetch, memory, load] = idle.totals();
        assert!(2 * pause <= prefetch && 3 * pause <= memory && load.is_zero());
        assert!(prefetch + memory <= 3 * elapsed);
    }
}
