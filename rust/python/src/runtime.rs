//! What all iterators of a process share.

use std::{
    mem, process,
    sync::{Mutex, PoisonError},
};

use gristmill_core::engine::Runtime;
use pyo3::Python;

/// The runtime, and the process that it belongs to.
static RUNTIME: Mutex<Option<(u32, Runtime)>> = Mutex::new(None);

/// The runtime of this process. A forked child gets one of its own, as threads do not survive a fork.
///
/// Callers hold the GIL, and so does a thread that forks from Python: no child finds the lock taken by
/// a thread that it does not have.
pub(crate) fn of_this_process(_py: Python<'_>) -> Runtime {
    let mut held = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = process::id();
    if let Some((owner, runtime)) = &*held
        && *owner == pid
    {
        return runtime.clone();
    }
    let runtime = Runtime::default();
    // The parent's: its locks may be taken for ever, and nothing of it is touched.
    mem::forget(held.replace((pid, runtime.clone())));
    runtime
}
