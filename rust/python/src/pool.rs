//! The process's one pool of decode threads.

use std::{
    mem, process,
    sync::{Mutex, PoisonError},
};

use gristmill_core::pool::Pool;
use pyo3::Python;

/// The pool, and the process that it belongs to.
static POOL: Mutex<Option<(u32, Pool)>> = Mutex::new(None);

/// The pool of this process. A forked child gets one of its own, as threads do not survive a fork.
///
/// Whoever calls this holds the GIL, and so does whoever forks from Python: no child finds the lock
/// taken by a thread that it does not have.
pub(crate) fn of_this_process(_py: Python<'_>) -> Pool {
    let mut held = POOL.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = process::id();
    if let Some((owner, pool)) = &*held
        && *owner == pid
    {
        return pool.clone();
    }
    let pool = Pool::default();
    // The parent's: its locks may be taken for ever, and nothing of it is touched.
    mem::forget(held.replace((pid, pool.clone())));
    pool
}
