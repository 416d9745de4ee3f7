//! One batch under way: its slots, the rows that are done, and how many are missing.

use crate::{
    batch::{AlignedBuf, Batch, Row},
    error::Result,
};

/// A batch between its first row's claim and its delivery.
#[derive(Debug)]
pub(super) struct Progress {
    /// Free slots of the batch's buffer, by row; empty where rows have buffers of their own.
    pub(super) slots: Vec<Option<AlignedBuf>>,
    rows: Vec<Option<Result<Row>>>,
    missing: usize,
    /// Bytes charged to the budget for rows with buffers of their own.
    pub(super) bytes: usize,
    /// The assembled batch, or the error of its first failed row.
    pub(super) finished: Option<Result<Batch>>,
}

impl Progress {
    /// A batch of `n_rows` rows with nothing done yet.
    pub(super) fn new(n_rows: usize, slots: Vec<AlignedBuf>) -> Self {
        Self {
            slots: slots.into_iter().map(Some).collect(),
            rows: (0..n_rows).map(|_| None).collect(),
            missing: n_rows,
            bytes: 0,
            finished: None,
        }
    }

    /// Files a row; with the last missing one, returns all of them in order, or the first error.
    pub(super) fn put(&mut self, row: usize, result: Result<Row>) -> Option<Result<Vec<Row>>> {
        let place = self.rows.get_mut(row)?;
        if place.replace(result).is_none() {
            self.missing -= 1;
        }
        if self.missing > 0 {
            return None;
        }
        Some(std::mem::take(&mut self.rows).into_iter().flatten().collect())
    }
}
