//! `gristmill._core.MeasuredFile`: single requests, for measuring a store.

use std::path::PathBuf;

use gristmill_core::store::{self, StorageOptions};
use pyo3::prelude::*;

use crate::{detach::Detach, runtime};

/// A file of which ranges are asked for: see the core's `MeasuredFile`.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct MeasuredFile {
    inner: store::MeasuredFile,
}

#[pymethods]
impl MeasuredFile {
    #[new]
    #[pyo3(signature = (path, storage_options))]
    fn new(py: Python<'_>, path: PathBuf, storage_options: Vec<(String, String)>) -> Self {
        let runtime = runtime::of_this_process(py);
        let options = StorageOptions::new(storage_options);
        Self { inner: store::MeasuredFile::new(runtime.descriptors(), path, options) }
    }

    /// Bytes that came; `None` where the server has too many requests.
    fn request(&self, py: Python<'_>, offset: u64, n_bytes: u64) -> PyResult<Option<u64>> {
        py.detach_core(|| self.inner.request(offset, n_bytes))
    }
}
