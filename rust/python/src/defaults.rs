//! Defaults of the core that Python needs too.

use gristmill_core::engine;
use pyo3::prelude::*;

/// CPUs that this process may use, by affinity and cgroup quota.
#[pyfunction]
pub(crate) fn usable_cpus() -> usize {
    engine::usable_cpus()
}

/// Requests to the storage at a time, by the number of threads that decode.
#[pyfunction]
pub(crate) fn default_requests(num_threads: usize) -> usize {
    engine::default_requests(num_threads)
}

/// Single rows that count as one of `prefetch_batches`.
#[pyfunction]
pub(crate) fn single_rows_of_a_batch(num_threads: usize) -> usize {
    engine::single_rows_of_a_batch(num_threads)
}

/// Single rows that may be under way or waiting.
#[pyfunction]
pub(crate) fn max_open_rows(prefetch_batches: usize, num_threads: usize) -> usize {
    engine::max_open_rows(prefetch_batches, num_threads)
}
