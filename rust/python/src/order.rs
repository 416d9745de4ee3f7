//! `gristmill._core.Order`: any part of an order, without reading data.

use gristmill_core::{
    engine::open_order,
    order::{self, Rows},
};
use pyo3::{
    exceptions::PyMemoryError,
    prelude::*,
    types::{PyDict, PyTuple},
};

use crate::{convert::from_bytes, detach::Detach, options, runtime};

/// The order of a data set, or of shards with these row counts: see the core's `Order`.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Order {
    inner: order::Order,
}

#[pymethods]
impl Order {
    #[new]
    #[pyo3(signature = (**kwargs))]
    fn new(py: Python<'_>, kwargs: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let empty = PyDict::new(py);
        let kwargs = kwargs.unwrap_or(&empty);
        let inner = if kwargs.contains("counts")? {
            let counts: Vec<u64> = options::get(kwargs, "counts")?;
            let spec = options::order_spec(kwargs)?;
            py.detach_core(move || order::Order::new(Rows::new(&counts, &[])?, &spec))?
        } else {
            let (options, _) = options::parse(kwargs)?;
            let runtime = runtime::of_this_process(py);
            py.detach_core(move || open_order(&options, &runtime))?
        };
        Ok(Self { inner })
    }

    /// Rows delivered here in all epochs; `None` without end.
    fn total(&self) -> Option<u64> {
        self.inner.len()
    }

    /// Rows in an epoch, for all hosts and workers together.
    fn rows_per_epoch(&self) -> u64 {
        self.inner.rows_per_epoch()
    }

    /// `(epoch, shard, row)` arrays, int64, of `n` positions from `start` on, `step` apart.
    fn take<'py>(
        &self,
        py: Python<'py>,
        start: u64,
        step: i64,
        n: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let columns = py.detach(|| self.rows(start, step, n)).ok_or_else(|| {
            PyMemoryError::new_err(format!("{n} positions of an order do not fit into memory"))
        })?;
        let arrays = columns
            .iter()
            .map(|column| from_bytes(py, column, "int64", column.len() / 8))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, arrays)
    }
}

impl Order {
    fn rows(&self, start: u64, step: i64, n: usize) -> Option<[Vec<u8>; 3]> {
        let mut columns = [const { Vec::<u8>::new() }; 3];
        for column in &mut columns {
            column.try_reserve_exact(n.checked_mul(8)?).ok()?;
        }
        let positions = (0..n as i64)
            .map_while(|k| start.checked_add_signed(step.checked_mul(k)?))
            .map_while(|position| self.inner.step(position));
        for found in positions {
            let words = [found.epoch, u64::from(found.row.shard), found.row.row];
            for (column, word) in columns.iter_mut().zip(words) {
                column.extend_from_slice(&word.to_ne_bytes());
            }
        }
        Some(columns)
    }
}
