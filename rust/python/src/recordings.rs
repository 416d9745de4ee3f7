//! `gristmill._core.Recordings`: the files that rows with a path name, one by one.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use std::path::PathBuf;

use gristmill_core::{engine, store::shown_path};
use pyo3::{prelude::*, types::PyBytes};

use crate::{detach::Detach, options::Limits, runtime};

/// The folder of recordings: see the core's `Recordings`.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Recordings {
    inner: engine::Recordings,
}

#[pymethods]
impl Recordings {
    #[new]
    #[pyo3(signature = (root, *, retries))]
    fn new(py: Python<'_>, root: Option<PathBuf>, retries: u32) -> PyResult<Self> {
        let runtime = runtime::of_this_process(py);
        let open = || engine::Recordings::open(root.as_deref(), retries, runtime.descriptors());
        Ok(Self { inner: py.detach_core(open)? })
    }

    /// The bytes of the file that a row's path names.
    #[pyo3(signature = (path, *, limits, shard=None, row=None))]
    fn read<'py>(
        &self,
        py: Python<'py>,
        path: Option<&str>,
        limits: Limits,
        shard: Option<PathBuf>,
        row: Option<u64>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let limits = limits.parse()?;
        let bytes = py.detach_core(|| {
            self.inner.read(path, &limits).map_err(|error| {
                let error = match &shard {
                    Some(shard) => error.in_shard(&shown_path(shard)),
                    None => error,
                };
                match row {
                    Some(row) => error.in_row(row),
                    None => error,
                }
            })
        })?;
        Ok(PyBytes::new(py, &bytes))
    }
}
