//! `gristmill._core.RandomAccess`: rows by their index.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use gristmill_core::{
    batch::Batch,
    engine::{self, usable_cpus},
};
use pyo3::prelude::*;

use crate::{
    classes,
    convert::Conversion,
    detach::Detach,
    interruptible::{self, SIGNAL_CHECK},
    options::{self, Group},
    pipeline::Element,
    runtime,
};

/// The rows of a data set by their index: see the core's `RandomAccess`.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct RandomAccess {
    inner: engine::RandomAccess,
    conversion: Conversion,
}

#[pymethods]
impl RandomAccess {
    /// Opens the shards.
    #[new]
    fn new(py: Python<'_>, options: Group<'_>) -> PyResult<Self> {
        classes::load(py)?;
        let options = options::stream(&options)?;
        let runtime = runtime::of_this_process(py);
        let n_threads = options.n_threads.unwrap_or_else(usable_cpus);
        let conversion = Conversion { binary: options.binary, n_threads };
        let open = move |cancel: &_| engine::RandomAccess::open(options, &runtime, cancel);
        let inner = interruptible::run(py, open, || Ok(()))?;
        Ok(Self { inner, conversion })
    }

    /// The number of rows, without those that are excluded.
    fn n_rows(&self) -> u64 {
        self.inner.n_rows()
    }

    /// The elements of these rows of an epoch.
    fn take(&self, py: Python<'_>, indices: Vec<u64>, epoch: u64) -> PyResult<Vec<Element>> {
        let rows = self.wait(py, &indices, epoch)?;
        rows.into_iter().map(|row| Element::new(py, row, self.conversion)).collect()
    }

    /// Why nothing more is written to the cache folder; once.
    fn take_cache_problem(&self) -> Option<String> {
        self.inner.take_cache_problem()
    }

    /// That recordings are resampled to the rate of the features; once.
    fn take_rate_notice(&self) -> Option<String> {
        self.inner.take_rate_notice()
    }

    /// Ends all work and frees all memory.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}

impl RandomAccess {
    fn wait(&self, py: Python<'_>, indices: &[u64], epoch: u64) -> PyResult<Vec<Batch>> {
        let request = py.detach_core(|| self.inner.request(indices, epoch))?;
        loop {
            match py.detach_core(|| request.wait(SIGNAL_CHECK))? {
                Some(rows) => return Ok(rows),
                None => py.check_signals()?,
            }
        }
    }
}

impl Drop for RandomAccess {
    fn drop(&mut self) {
        // As for a pipeline: a thread that this waits for may be in the middle of a slow read.
        Python::try_attach(|py| py.detach(|| self.inner.close()));
    }
}
