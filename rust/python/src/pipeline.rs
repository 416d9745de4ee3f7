//! `gristmill._core.Pipeline`: a running stream of batches.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use gristmill_audio::Codec;
use gristmill_core::{
    batch::{BadRow, Batch, DamagedRow},
    engine::{self, Next, OnError, usable_cpus},
};
use pyo3::{
    prelude::*,
    types::{PyDict, PyString},
};

use crate::{
    audio::{Report, report_to_py},
    convert::{Handing, batch_to_dict, described_to_py},
    detach::Detach,
    options, runtime, stats,
    text::text,
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
    inner: engine::Pipeline,
    handing: Handing,
    /// Damaged rows that were delivered and not yet asked for: those of one batch, as a rule.
    damaged: Mutex<Vec<DamagedRow>>,
    /// Bad rows, likewise.
    bad: Mutex<Vec<BadRow>>,
}

/// The fields of `gristmill.BadRow`.
type BadFields<'py> = (
    Bound<'py, PyString>,
    u64,
    Option<String>,
    Option<&'static str>,
    &'static str,
    Bound<'py, PyString>,
    Option<u64>,
    u64,
);

/// The fields of `gristmill.DamagedRow`.
type DamagedFields<'py> = (Bound<'py, PyString>, u64, Report<'py>);

#[pymethods]
impl Pipeline {
    #[new]
    #[pyo3(signature = (**kwargs))]
    fn new(py: Python<'_>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let (options, start) = match kwargs {
            Some(kwargs) => options::parse(kwargs)?,
            None => options::parse(&PyDict::new(py))?,
        };
        let runtime = runtime::of_this_process(py);
        let n_threads = options.n_threads.unwrap_or_else(usable_cpus);
        let handing = Handing { binary: options.binary, n_threads };
        let inner = py.detach_core(move || engine::Pipeline::start(options, start, &runtime))?;
        Ok(Self { inner, handing, damaged: Mutex::default(), bad: Mutex::default() })
    }

    /// `(rows of the stream, columns)` of the next element, whose columns are `None` where all of
    /// its rows were left out; `None` at the end.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(usize, Option<Bound<'py, PyDict>>)>> {
        let element = self.wait(py).and_then(|batch| {
            let Some(mut batch) = batch else { return Ok(None) };
            lock(&self.damaged).append(&mut batch.damaged);
            lock(&self.bad).append(&mut batch.bad);
            let (n_rows, is_empty) = (batch.n_rows, batch.n_delivered == 0);
            let columns =
                (!is_empty).then(|| batch_to_dict(py, batch, self.handing)).transpose()?;
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
    fn take_damaged<'py>(&self, py: Python<'py>) -> PyResult<Vec<DamagedFields<'py>>> {
        let taken = std::mem::take(&mut *lock(&self.damaged));
        let row = |DamagedRow { shard, row, codec, report }| {
            Ok((text(py, &shard)?, row, report_to_py(py, codec, report)?))
        };
        taken.into_iter().map(row).collect()
    }

    /// The bad rows in the places of those delivered since the last call: the fields of
    /// `gristmill.BadRow`, and whether it was tried in the place of another.
    fn take_bad<'py>(&self, py: Python<'py>) -> PyResult<Vec<(BadFields<'py>, bool)>> {
        let taken = std::mem::take(&mut *lock(&self.bad));
        let row = |bad: BadRow| {
            let codec = bad.codec.map(Codec::key);
            let fields = (
                text(py, &bad.shard)?,
                bad.row,
                bad.path,
                codec,
                bad.reason,
                text(py, &bad.message)?,
                bad.n_bytes,
                bad.shard_rows,
            );
            Ok((fields, bad.is_substitute))
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
    // Only a last batch can be short, unless bad rows are left out.
    let is_full = (options.drop_remainder || options.order.epochs.is_none())
        && options.on_error != OnError::Skip;
    let batch: Option<Option<usize>> = options.batch_size.map(|n| is_full.then_some(n));
    let runtime = runtime::of_this_process(py);
    let described = py.detach_core(move || engine::element_spec(&options, &runtime))?;
    described_to_py(py, &described, batch.as_slice())
}
