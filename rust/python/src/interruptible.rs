//! Work that may wait for storage for minutes, and that Ctrl-C ends at once.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    thread,
    time::Duration,
};

use gristmill_core::{Error, Result, engine::cannot_start};
use pyo3::prelude::*;

use crate::{errors::into_py_err, room};

/// How long a wait lasts before it looks for signals: well under the 100 ms in which Ctrl-C is to
/// be answered.
pub(crate) const SIGNAL_CHECK: Duration = Duration::from_millis(25);

/// Does `work` in a thread of its own and waits for it without the GIL. `tick` is called at each look
/// for signals. After a signal the work is told to end, and nobody waits for it.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&Arc<AtomicBool>) -> Result<T> + Send + 'static,
    mut tick: impl FnMut() -> PyResult<()>,
) -> PyResult<T> {
    room::ensure()?;
    let cancel = Arc::<AtomicBool>::default();
    let (send, receive) = sync_channel(1);
    let cancelled = Arc::clone(&cancel);
    let run = move || {
        // Nobody receives it after a signal.
        let _ = send.send(work(&cancelled));
    };
    let failed = |e: std::io::Error| into_py_err(py, &Error::from(cannot_start(e)));
    thread::Builder::new().name("gristmill-open".to_owned()).spawn(run).map_err(failed)?;
    let receive = Mutex::new(receive);
    loop {
        let received = py.detach(|| {
            receive.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(SIGNAL_CHECK)
        });
        match received {
            Ok(done) => return done.map_err(|error| into_py_err(py, &error)),
            Err(RecvTimeoutError::Timeout) => {
                if let Err(signal) = py.check_signals().and_then(|()| tick()) {
                    cancel.store(true, Ordering::Release);
                    return Err(signal);
                }
            }
            Err(RecvTimeoutError::Disconnected) => {
                let error = Error::internal("the thread that opens shards ended without a word");
                return Err(into_py_err(py, &error));
            }
        }
    }
}

/// Ends calls that were given it, from any thread: Python tells signals to its main thread alone.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug, Default)]
pub(crate) struct Cancel(Arc<AtomicBool>);

#[pymethods]
impl Cancel {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    /// Ends them, and those to come.
    fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Whether they are ended.
    fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Cancel {
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}
