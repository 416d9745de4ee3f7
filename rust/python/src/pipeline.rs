//! `gristmill._core.Pipeline`: a running stream of batches.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use gristmill_audio::{Codec, DecodeError, Entry};
use gristmill_core::{
    batch::{BadRow, Batch, DamagedRow},
    engine::{self, Next, OnError, Remainder, usable_cpus},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::{
    audio::report_to_py,
    classes::{self, make},
    convert::{Conversion, batch_to_dict, element_spec_to_py},
    detach::Detach,
    interruptible::{self, SIGNAL_CHECK},
    opening::ProgressLog,
    options::{self, Group, Start},
    runtime, stats,
    text::text,
};

/// A running stream: see the core's `Pipeline`.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Pipeline {
    inner: engine::Pipeline,
    conversion: Conversion,
    /// Of the pass that may come before the first batch.
    progress: ProgressLog,
}

/// One element, as it is delivered.
#[pyclass(frozen, get_all, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Element {
    n_rows: usize,
    columns: Option<Py<PyDict>>,
    damaged_rows: Py<PyTuple>,
    bad_rows: Py<PyTuple>,
    n_bad: usize,
}

/// What is known once the shards are open.
#[pyclass(frozen, get_all, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Opened {
    rows_per_epoch: u64,
    stream_rows: Option<u64>,
    fingerprint: String,
    start_epoch: u64,
    start_index: u64,
    added_columns: Vec<String>,
}

/// Positional reads so far.
#[pyclass(frozen, get_all, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Reads {
    requests: u64,
    bytes: u64,
    seconds: f64,
}

#[pymethods]
impl Pipeline {
    #[new]
    fn new(py: Python<'_>, options: Group<'_>, start: Start) -> PyResult<Self> {
        classes::load(py)?;
        let (options, start) = (options::stream(&options)?, start.parse()?);
        let runtime = runtime::of_this_process(py);
        let n_threads = options.n_threads.unwrap_or_else(usable_cpus);
        let conversion = Conversion { binary: options.binary, n_threads };
        let inner = py.detach_core(move || engine::Pipeline::start(options, start, &runtime))?;
        Ok(Self { inner, conversion, progress: ProgressLog::new() })
    }

    /// The next element; `None` at the end.
    fn next(&self, py: Python<'_>) -> PyResult<Option<Element>> {
        let element = self.wait(py).and_then(|batch| {
            let Some(batch) = batch else { return Ok(None) };
            let element = Element::new(py, batch, self.conversion)?;
            self.inner.handed_over();
            Ok(Some(element))
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
            self.progress.tick(py, self.inner.progress())?;
        }
        self.progress.end(py, self.inner.progress())
    }

    /// What is known of the data set, once the shards are open.
    fn opened(&self) -> Option<Opened> {
        let opened = self.inner.opened()?;
        Some(Opened {
            rows_per_epoch: opened.rows_per_epoch,
            stream_rows: opened.stream_len,
            fingerprint: opened.fingerprint.to_string(),
            start_epoch: opened.start.0,
            start_index: opened.start.1,
            added_columns: opened.added_columns,
        })
    }

    /// Positional reads so far.
    fn reads(&self) -> Reads {
        let (requests, bytes) = self.inner.reads();
        Reads { requests, bytes, seconds: self.inner.read_time().as_secs_f64() }
    }

    /// What has been measured so far; `None` in a forked child.
    fn stats<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let snapshot = py.detach(|| self.inner.stats());
        snapshot.map(|snapshot| stats::to_python(py, &snapshot)).transpose()
    }

    /// Why nothing more is written to the cache folder; once.
    fn take_cache_problem(&self) -> Option<String> {
        self.inner.take_cache_problem()
    }

    /// That recordings are resampled to the rate of the features; once.
    fn take_rate_notice(&self) -> Option<String> {
        self.inner.take_rate_notice()
    }

    /// That rows took more than the budget; once.
    fn take_budget_notice(&self) -> Option<String> {
        self.inner.take_budget_notice()
    }

    /// Ends all threads and waits for them.
    fn close(&self, py: Python<'_>) {
        py.detach(|| self.inner.close());
    }
}

impl Pipeline {
    /// See the core's. Needs no interpreter.
    pub(crate) fn learned(
        &self,
        shard: u32,
        row: u64,
        found: Result<Option<&Entry>, &DecodeError>,
    ) {
        self.inner.learned(shard, row, found);
    }

    fn wait(&self, py: Python<'_>) -> PyResult<Option<Batch>> {
        loop {
            let next = match py.detach_core(|| self.inner.next(SIGNAL_CHECK))? {
                Next::Batch(batch) => Some(batch),
                Next::End => None,
                Next::Pending => {
                    py.check_signals()?;
                    self.progress.tick(py, self.inner.progress())?;
                    continue;
                }
            };
            self.progress.end(py, self.inner.progress())?;
            return Ok(next);
        }
    }
}

impl Element {
    /// What a batch becomes.
    pub(crate) fn new(py: Python<'_>, mut batch: Batch, conversion: Conversion) -> PyResult<Self> {
        let (bad, damaged) = (std::mem::take(&mut batch.bad), std::mem::take(&mut batch.damaged));
        let n_bad = bad.iter().filter(|bad| !bad.is_substitute).count();
        let n_rows = batch.n_rows;
        let columns = match batch.n_delivered {
            0 => None,
            _ => Some(batch_to_dict(py, batch, conversion)?.unbind()),
        };
        let bad = bad.into_iter().map(|row| bad_row(py, row)).collect::<PyResult<Vec<_>>>()?;
        let damaged = damaged.into_iter().map(|row| damaged_row(py, row));
        let damaged = damaged.collect::<PyResult<Vec<_>>>()?;
        Ok(Self {
            n_rows,
            columns,
            damaged_rows: PyTuple::new(py, damaged)?.unbind(),
            bad_rows: PyTuple::new(py, bad)?.unbind(),
            n_bad,
        })
    }
}

fn bad_row(py: Python<'_>, bad: BadRow) -> PyResult<Bound<'_, PyAny>> {
    make!(BAD_ROW {
        py,
        shard: text(py, &bad.shard)?,
        row: bad.row,
        path: bad.path,
        codec: bad.codec.map(Codec::key),
        reason: bad.reason,
        message: text(py, &bad.message)?,
        bytes: bad.n_bytes,
        shard_rows: bad.shard_rows,
    })
}

fn damaged_row(py: Python<'_>, damaged: DamagedRow) -> PyResult<Bound<'_, PyAny>> {
    make!(DAMAGED_ROW {
        py,
        shard: text(py, &damaged.shard)?,
        row: damaged.row,
        column: damaged.column.as_deref().map(|column| text(py, column)).transpose()?,
        report: report_to_py(py, damaged.codec, damaged.report)?,
    })
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // The threads that this waits for may be in the middle of a slow read. Without an
        // interpreter to go back to, the core closes when its part is dropped.
        Python::try_attach(|py| py.detach(|| self.inner.close()));
    }
}

/// The shape and dtype of each column, nested for structs, from the first shard's header.
#[pyfunction]
pub(crate) fn element_spec<'py>(
    py: Python<'py>,
    options: Group<'py>,
) -> PyResult<Bound<'py, PyDict>> {
    let options = options::stream(&options)?;
    // Only a last batch can be short, unless bad rows are left out.
    let is_full = (options.remainder != Remainder::Keep || options.is_endless())
        && options.on_error != OnError::Skip;
    let batch: Option<Option<usize>> = options.batch_size.map(|n| is_full.then_some(n));
    let runtime = runtime::of_this_process(py);
    let open = move |cancel: &_| engine::element_spec(&options, &runtime, cancel);
    let spec = interruptible::run(py, open, || Ok(()))?;
    element_spec_to_py(py, &spec, batch.as_slice())
}
