//! What the pipelines of this process share.

use std::{
    mem, process,
    sync::{Mutex, PoisonError},
};

use gristmill_core::process::Process;
use pyo3::Python;

/// What they share, and the process that it belongs to.
static SHARED: Mutex<Option<(u32, Process)>> = Mutex::new(None);

/// The decode threads and open files of this process. A forked child gets its own, as threads do
/// not survive a fork.
///
/// Whoever calls this holds the GIL, and so does whoever forks from Python: no child finds the lock
/// taken by a thread that it does not have.
pub(crate) fn of_this_one(_py: Python<'_>) -> Process {
    let mut held = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
    let pid = process::id();
    if let Some((owner, shared)) = &*held
        && *owner == pid
    {
        return shared.clone();
    }
    let shared = Process::default();
    // The parent's: its locks may be taken for ever, and nothing of it is touched.
    mem::forget(held.replace((pid, shared.clone())));
    shared
}
