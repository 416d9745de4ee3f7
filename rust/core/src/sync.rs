//! Locks and atomics. Under the feature `shuttle` those of the model checker of that name, which
//! runs the tests of this crate's concurrency through many interleavings.

#[cfg(not(feature = "shuttle"))]
pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

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
