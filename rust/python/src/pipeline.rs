//! `gristmill._core.Pipeline`: a running stream of batches.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gristmill_core::{
    batch::{Batch, DamagedRow},
    pipeline::{self, Next, describe},
};
use pyo3::{prelude::*, types::PyDict};

use crate::{
    audio::{Report, report_to_py},
    convert::{batch_to_dict, described_to_py},
    detach::Detach,
    options, stats,
};

/// How long a wait lasts before it looks for signals: well under the 100 ms in which Ctrl-C is to
/// be answered.
const SIGNAL_CHECK: Duration = Duration::from_millis(25);

/// The fields of `gristmill.state.Opened`.
type OpenedFields = (u64, Option<u64>, String, (u64, u64));

/// A running stream: see the core's `Pipeline`.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Pipeline {
    inner: pipeline::Pipeline,
    /// Damaged rows that were delivered and not yet asked for: those of one batch, as a rule.
    damaged: Mutex<Vec<DamagedRow>>,
}

#[pymethods]
impl Pipeline {
    #[new]
    #[pyo3(signature = (**kwargs))]
    fn new(py: Python<'_>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (options, start) = match kwargs {
            Some(kwargs) => options::parse(kwargs)?,
            None => options::parse(&PyDict::new(py))?,
        };
        let inner = py.detach_core(move || pipeline::Pipeline::start(options, start))?;
        Ok(Self { inner, damaged: Mutex::default() })
    }

    /// `(rows, columns)` of the next element; `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(usize, Bound<'py, PyDict>)>> {
        let element = self.wait(py).and_then(|batch| {
            let Some(mut batch) = batch else { return Ok(None) };
            self.lock_damaged().append(&mut batch.damaged);
            let (n_rows, columns) = (batch.n_rows, batch_to_dict(py, batch)?);
            self.inner.handed_over();
            Ok(Some((n_rows, columns)))
        });
        if element.is_err() {
            // No thread outlives a failed or interrupted call.
            self.close(py);
        }
        element
    }

    /// Waits until the shards are open, or have failed to open.
    fn wait_open(&self, py: Python<'_>) -> PyResult<()> {
        while !py.detach(|| self.inner.wait_open(SIGNAL_CHECK)) {
            py.check_signals()?;
        }
        Ok(())
    }

    /// `(rows in an epoch, rows in all epochs, fingerprint, (epoch, row) of the start)`, once the
    /// shards are open.
    fn opened(&self) -> Option<OpenedFields> {
        let opened = self.inner.opened()?;
        let fingerprint = opened.fingerprint.to_string();
        Some((opened.rows_per_epoch, opened.stream_len, fingerprint, opened.start))
    }

    /// `(requests, bytes)` read so far.
    fn reads(&self) -> (u64, u64) {
        self.inner.reads()
    }

    /// The damaged rows among those delivered since the last call: `(shard, row, report)`.
    fn take_damaged<'py>(&self, py: Python<'py>) -> PyResult<Vec<(String, u64, Report<'py>)>> {
        let taken = std::mem::take(&mut *self.lock_damaged());
        let row = |DamagedRow { shard, row, codec, report }| {
            Ok((str::to_owned(&*shard), row, report_to_py(py, codec, report)?))
        };
        taken.into_iter().map(row).collect()
    }

    /// Thread seconds spent inside reads so far.
    fn read_seconds(&self) -> f64 {
        self.inner.read_time().as_secs_f64()
    }

    /// What has been measured so far; `None` in a forked child.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let snapshot = py.detach(|| self.inner.stats());
        snapshot.map(|snapshot| stats::to_dict(py, &snapshot)).transpose()
    }

    /// Ends all threads and waits for them.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}

impl Pipeline {
    fn lock_damaged(&self) -> MutexGuard<'_, Vec<DamagedRow>> {
        self.damaged.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            match py.detach_core(|| self.inner.next(SIGNAL_CHECK))? {
                Next::Batch(batch) => return Ok(Some(batch)),
                Next::End => return Ok(None),
                Next::Pending => py.check_signals()?,
            }
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // The threads that this waits for may be in the middle of a slow read. Without an
        // interpreter to go back to, the core closes when its part is dropped.
        Python::try_attach(|py| py.detach(|| self.inner.close()));
    }
}

/// `{column: (shape, dtype)}`, nested for structs, from the first shard's header.
#[pyfunction]
#[pyo3(signature = (**kwargs))]
pub(crate) fn element_spec<'py>(
    py: Python<'py>,
    kwargs: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyDict>> {
    let (options, _) = match kwargs {
        Some(kwargs) => options::parse(kwargs)?,
        None => options::parse(&PyDict::new(py))?,
    };
    // Only a last batch can be short.
    let is_full = options.drop_remainder || options.plan.epochs.is_none();
    let batch: Option<Option<usize>> = options.batch_size.map(|n| is_full.then_some(n));
    let described = py.detach_core(move || describe(&options))?;
    described_to_py(py, &described, batch.as_slice())
}
