//! `gristmill._core.Order`: any part of an order, without reading data.
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands arguments over by value")]

use gristmill_core::order::{self, Rows};
use pyo3::{exceptions::PyMemoryError, prelude::*};

use crate::{
    convert::from_bytes,
    detach::Detach,
    opening,
    options::{self, Group},
    runtime,
};

/// The order of a data set, or of shards with these row counts: see the core's `Order`.
#[pyclass(frozen, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Order {
    inner: order::Order,
}

/// Rows at some positions: int64 arrays, one entry a position.
#[pyclass(frozen, get_all, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Positions {
    epoch: Py<PyAny>,
    dataset: Py<PyAny>,
    shard: Py<PyAny>,
    row: Py<PyAny>,
}

#[pymethods]
impl Order {
    /// That of a data set, whose headers it reads.
    #[new]
    fn new(py: Python<'_>, options: Group<'_>) -> PyResult<Self> {
        let options = options::stream(&options)?;
        let inner = opening::order(py, options, runtime::of_this_process(py))?;
        Ok(Self { inner })
    }

    /// That of shards with these row counts.
    #[staticmethod]
    #[pyo3(signature = (counts, shuffle, epochs))]
    fn of_counts(
        py: Python<'_>,
        counts: Vec<u64>,
        shuffle: Option<Group<'_>>,
        epochs: Option<u64>,
    ) -> PyResult<Self> {
        let spec = options::order(shuffle, epochs)?;
        let inner = py.detach_core(move || order::Order::new(Rows::new(&counts, &[])?, &spec))?;
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

    /// The rows at `n` positions from `start` on, `step` apart.
    fn take(&self, py: Python<'_>, start: u64, step: i64, n: usize) -> PyResult<Positions> {
        let columns = py.detach(|| self.rows(start, step, n)).ok_or_else(|| {
            PyMemoryError::new_err(format!("{n} positions of an order do not fit into memory"))
        })?;
        let array =
            |column: Vec<u8>| from_bytes(py, &column, "int64", column.len() / 8).map(Bound::unbind);
        let [epoch, dataset, shard, row] = columns;
        Ok(Positions {
            epoch: array(epoch)?,
            dataset: array(dataset)?,
            shard: array(shard)?,
            row: array(row)?,
        })
    }
}

impl Order {
    fn rows(&self, start: u64, step: i64, n: usize) -> Option<[Vec<u8>; 4]> {
        let mut columns = [const { Vec::<u8>::new() }; 4];
        for column in &mut columns {
            column.try_reserve_exact(n.checked_mul(8)?).ok()?;
        }
        let positions = (0..n as i64)
            .map_while(|k| start.checked_add_signed(step.checked_mul(k)?))
            .map_while(|position| self.inner.step(position));
        for found in positions {
            let (dataset, shard) = self.inner.locate_shard(found.row.shard);
            let words = [found.epoch, dataset as u64, u64::from(shard), found.row.row];
            for (column, word) in columns.iter_mut().zip(words) {
                column.extend_from_slice(&word.to_ne_bytes());
            }
        }
        Some(columns)
    }
}
