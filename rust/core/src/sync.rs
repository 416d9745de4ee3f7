//! Locks and atomics. Under the feature `shuttle` those of the model checker of that name, which
//! runs the tests of this crate's concurrency through many interleavings. Under the feature `bench`
//! locks can be measured.

#[cfg(any(test, feature = "bench"))]
// Without the feature, only for its test.
#[cfg_attr(not(feature = "bench"), allow(dead_code, unreachable_pub))]
mod timed;

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
#[cfg(not(any(feature = "bench", feature = "shuttle")))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};
#[cfg(all(feature = "bench", not(feature = "shuttle")))]
pub(crate) use timed::{Condvar, Mutex, MutexGuard};
#[cfg(feature = "bench")]
pub use timed::{LockTimes, lock_times, measure_locks};

#[cfg(feature = "shuttle")]
pub(crate) use shuttle::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use std::{
    sync::{self, PoisonError},
    time::Duration,
};

/// Locks. Poisoning is ignored: panics are contained and reported elsewhere, and no lock guards
/// state that a panic could leave invalid.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// As [`lock`], for a mutex of the standard library, whose interleavings are not explored.
pub(crate) fn lock_std<T>(mutex: &sync::Mutex<T>) -> sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition is notified.
pub(crate) fn wait<'a, T>(condition: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    condition.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// Waits until the condition is notified, at most for `timeout`.
pub(crate) fn wait_timeout<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    timeout: Duration,
) -> MutexGuard<'a, T> {
    condition.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0
}
