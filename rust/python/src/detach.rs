//! The one place that releases the GIL for the core.

use pyo3::{marker::Ungil, prelude::*};

use crate::{errors::into_py_err, room};

/// How entry points leave Python.
pub(crate) trait Detach {
    /// Runs `work` without the GIL and turns its error into a Python exception.
    ///
    /// Every call into the core that may wait or compute goes through here, so that no lock of the
    /// core is ever taken by a thread that holds the GIL and waits for one that needs it. `MemoryError`
    /// where the process has no room for it.
    fn detach_core<T: Send>(
        self,
        work: impl Ungil + FnOnce() -> gristmill_core::Result<T>,
    ) -> PyResult<T>;
}

impl Detach for Python<'_> {
    fn detach_core<T: Send>(
        self,
        work: impl Ungil + FnOnce() -> gristmill_core::Result<T>,
    ) -> PyResult<T> {
        room::ensure()?;
        self.detach(work).map_err(|error| into_py_err(self, &error))
    }
}
