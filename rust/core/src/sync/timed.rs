//! A mutex that measures how long threads wait for it, and how long they hold it: for benches.
//!
//! Nothing is measured before [`measure_locks`]. Locks are told apart by the type that they guard.

use std::{
    any::type_name,
    collections::BTreeMap,
    ops::{Deref, DerefMut},
    sync::{
        self, Arc, LockResult, PoisonError, WaitTimeoutResult,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

static IS_MEASURING: AtomicBool = AtomicBool::new(false);
static ALL: sync::Mutex<BTreeMap<&'static str, Arc<Times>>> = sync::Mutex::new(BTreeMap::new());

/// What was measured of all locks around values of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockTimes {
    /// The type.
    pub guards: &'static str,
    /// How often a lock was taken.
    pub n: u64,
    /// How long threads waited for it, all together.
    pub waited: Duration,
    /// How long it was held.
    pub held: Duration,
    /// The part of that in holds of more than 5 us.
    pub long: Duration,
}

/// Holds that are longer have a reason of their own: memory from the system, or a thread that lost
/// its CPU while it held the lock.
const LONG: Duration = Duration::from_micros(5);

/// Begins to measure: counts start at 0.
pub fn measure_locks() {
    for times in all().values() {
        for n in [&times.n, &times.waited_ns, &times.held_ns, &times.long_ns] {
            n.store(0, Relaxed);
        }
    }
    IS_MEASURING.store(true, Relaxed);
}

/// What was measured since [`measure_locks`].
pub fn lock_times() -> Vec<LockTimes> {
    let told = |(guards, times): (&&'static str, &Arc<Times>)| LockTimes {
        guards,
        n: times.n.load(Relaxed),
        waited: Duration::from_nanos(times.waited_ns.load(Relaxed)),
        held: Duration::from_nanos(times.held_ns.load(Relaxed)),
        long: Duration::from_nanos(times.long_ns.load(Relaxed)),
    };
    all().iter().map(told).collect()
}

fn all() -> sync::MutexGuard<'static, BTreeMap<&'static str, Arc<Times>>> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug, Default)]
struct Times {
    n: AtomicU64,
    waited_ns: AtomicU64,
    held_ns: AtomicU64,
    long_ns: AtomicU64,
}

/// As [`std::sync::Mutex`].
#[derive(Debug)]
pub(crate) struct Mutex<T> {
    inner: sync::Mutex<T>,
    times: Arc<Times>,
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Self {
        Self::new(T::default())
    }
}

impl<T> Mutex<T> {
    pub(crate) fn new(value: T) -> Self {
        let times = Arc::clone(all().entry(type_name::<T>()).or_default());
        Self { inner: sync::Mutex::new(value), times }
    }

    pub(crate) fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        let asked = IS_MEASURING.load(Relaxed).then(Instant::now);
        let inner = self.inner.lock();
        let waited = asked.map(|asked| asked.elapsed()).unwrap_or_default();
        let since = asked.map(|asked| asked + waited);
        wrap(inner, Held { times: &self.times, waited, since })
    }
}

fn wrap<'a, T>(
    inner: LockResult<sync::MutexGuard<'a, T>>,
    held: Held<'a>,
) -> LockResult<MutexGuard<'a, T>> {
    match inner {
        Ok(inner) => Ok(MutexGuard { held, inner }),
        Err(error) => Err(PoisonError::new(MutexGuard { held, inner: error.into_inner() })),
    }
}

fn add(to: &AtomicU64, time: Duration) {
    to.fetch_add(time.as_nanos() as u64, Relaxed);
}

/// From taking a lock to leaving it.
#[derive(Debug)]
struct Held<'a> {
    times: &'a Times,
    waited: Duration,
    since: Option<Instant>,
}

impl<'a> Held<'a> {
    /// Again after a sleep, from which a thread wakes with the lock.
    fn again(times: &'a Times) -> Self {
        let since = IS_MEASURING.load(Relaxed).then(Instant::now);
        Self { times, waited: Duration::ZERO, since }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        if let Some(since) = self.since {
            let left = Instant::now();
            // Without what reading the clock takes, which the users' build does not.
            let held = (left - since).saturating_sub(left.elapsed());
            add(&self.times.waited_ns, self.waited);
            add(&self.times.held_ns, held);
            if held > LONG {
                add(&self.times.long_ns, held);
            }
            self.times.n.fetch_add(1, Relaxed);
        }
    }
}

/// As [`std::sync::MutexGuard`].
#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    // Dropped first: while the lock is still held.
    held: Held<'a>,
    inner: sync::MutexGuard<'a, T>,
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.inner
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.inner
    }
}

/// As [`std::sync::Condvar`]. What it sleeps is neither waited for the lock nor held.
#[derive(Debug, Default)]
pub(crate) struct Condvar(sync::Condvar);

impl Condvar {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn notify_one(&self) {
        self.0.notify_one();
    }

    pub(crate) fn notify_all(&self) {
        self.0.notify_all();
    }

    pub(crate) fn wait<'a, T>(
        &self,
        MutexGuard { held, inner }: MutexGuard<'a, T>,
    ) -> LockResult<MutexGuard<'a, T>> {
        let times = held.times;
        drop(held);
        wrap(self.0.wait(inner), Held::again(times))
    }

    pub(crate) fn wait_timeout<'a, T>(
        &self,
        MutexGuard { held, inner }: MutexGuard<'a, T>,
        timeout: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let times = held.times;
        drop(held);
        let result = self.0.wait_timeout(inner, timeout);
        let held = Held::again(times);
        match result {
            Ok((inner, result)) => Ok((MutexGuard { held, inner }, result)),
            Err(error) => {
                let (inner, result) = error.into_inner();
                Err(PoisonError::new((MutexGuard { held, inner }, result)))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    struct Guarded;

    #[test]
    fn waiting_and_holding_are_told_apart() {
        const PAUSE: Duration = Duration::from_millis(20);
        let (mutex, condition) = (Mutex::new(Guarded), Condvar::new());
        drop(mutex.lock());
        measure_locks();
        thread::scope(|scope| {
            let guard = mutex.lock();
            let waiting = scope.spawn(|| drop(mutex.lock()));
            thread::sleep(PAUSE);
            drop(guard);
            waiting.join().unwrap();
        });
        let guard = mutex.lock().unwrap();
        drop(condition.wait_timeout(guard, PAUSE));
        let times = lock_times().into_iter().find(|of| of.guards == type_name::<Guarded>());
        let times = times.unwrap();
        // Two locks, one wait for the first, and the third before and after its sleep.
        assert_eq!(times.n, 4);
        assert!(times.held >= PAUSE, "{times:?}");
        assert!(times.waited > Duration::ZERO, "{times:?}");
    }
}
