//! The log of the pass over all rows that counting windows or events may take.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use gristmill_core::{
    engine::{Options, Progress, Runtime, open_order},
    order::Order,
};
use pyo3::prelude::*;

use crate::interruptible;

/// Between two lines of the log.
const INTERVAL: Duration = Duration::from_secs(10);

/// Says in the log how far a pass is: now and then, and at its end.
#[derive(Debug)]
pub(crate) struct ProgressLog(Mutex<Lines>);

#[derive(Debug)]
struct Lines {
    began: Instant,
    last: Option<Instant>,
    is_over: bool,
}

impl ProgressLog {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Lines { began: Instant::now(), last: None, is_over: false }))
    }

    /// Writes a line if one is due.
    pub(crate) fn tick(&self, py: Python<'_>, progress: &Progress) -> PyResult<()> {
        let (done, total) = progress.rows();
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = lines.last.unwrap_or(lines.began);
        if total == 0 || done >= total || last.elapsed() < INTERVAL {
            return Ok(());
        }
        lines.last = Some(Instant::now());
        drop(lines);
        log(py, format!("counting the parts of rows: {done} of {total} rows"))
    }

    /// Writes the last line, once, if there was a pass.
    pub(crate) fn end(&self, py: Python<'_>, progress: &Progress) -> PyResult<()> {
        let mut lines = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::replace(&mut lines.is_over, true) {
            return Ok(());
        }
        let took = lines.began.elapsed().as_secs_f64();
        drop(lines);
        match progress.rows() {
            (_, 0) => Ok(()),
            (done, _) => log(py, format!("counted the parts of {done} rows in {took:.1} s")),
        }
    }
}

fn log(py: Python<'_>, line: String) -> PyResult<()> {
    let logger = py.import("logging")?.call_method1("getLogger", ("gristmill",))?;
    logger.call_method1("info", ("%s", line)).map(drop)
}

/// The order of a data set. Waits without the GIL, answers signals, and says in the log how far it is.
pub(crate) fn order(py: Python<'_>, options: Options, runtime: Runtime) -> PyResult<Order> {
    let progress = Arc::<Progress>::default();
    let (of_thread, lines) = (Arc::clone(&progress), ProgressLog::new());
    let order = interruptible::run(
        py,
        move |cancel| open_order(&options, &runtime, &of_thread, cancel),
        || lines.tick(py, &progress),
    );
    lines.end(py, &progress)?;
    order
}
