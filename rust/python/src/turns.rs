//! One caller at a time.

use std::{
    process,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, ThreadId},
};

use pyo3::{exceptions::PyValueError, prelude::*};

use crate::interruptible::SIGNAL_CHECK;

/// Hands out turns, one after the other.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug, Default)]
pub(crate) struct Turns(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The thread whose turn it is, and its process.
    owner: Mutex<Option<(ThreadId, u32)>>,
    ended: Condvar,
}

/// A turn. It ends when it is dropped, which no signal comes between: a lock that Python code releases
/// may be interrupted before what follows.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Turn {
    of: Arc<Shared>,
    is_over: AtomicBool,
}

impl Shared {
    fn owner(&self) -> MutexGuard<'_, Option<(ThreadId, u32)>> {
        self.owner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Turns {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Waits for a turn, without the GIL, and answers signals meanwhile.
    fn take(&self, py: Python<'_>) -> PyResult<Turn> {
        loop {
            {
                let mut owner = self.0.owner();
                // A forked child has the turns of threads that it does not have.
                if owner.is_none_or(|(_, pid)| pid != process::id()) {
                    *owner = Some((thread::current().id(), process::id()));
                    return Ok(Turn { of: Arc::clone(&self.0), is_over: AtomicBool::new(false) });
                }
                if owner.is_some_and(|(id, _)| id == thread::current().id()) {
                    return Err(PyValueError::new_err(
                        "the iterator is already executing: a signal handler or callback inside of \
                         its `next` cannot call it; set a flag there, and look at it after `next`",
                    ));
                }
            }
            py.detach(|| {
                let owner = self.0.owner();
                let waited =
                    self.0.ended.wait_timeout_while(owner, SIGNAL_CHECK, |it| it.is_some());
                drop(waited);
            });
            py.check_signals()?;
        }
    }
}

#[pymethods]
impl Turn {
    /// Ends it. Does nothing when it is over.
    fn end(&self) {
        if !self.is_over.swap(true, Relaxed) {
            *self.of.owner() = None;
            self.of.ended.notify_one();
        }
    }

    fn __enter__(slf: Bound<'_, Self>) -> Bound<'_, Self> {
        slf
    }

    fn __exit__(&self, _kind: Py<PyAny>, _error: Py<PyAny>, _traceback: Py<PyAny>) {
        self.end();
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.end();
    }
}
