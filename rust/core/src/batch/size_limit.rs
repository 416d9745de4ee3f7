//! A bound on the size of an element.

use std::cell::Cell;

use crate::error::{Error, Result};

/// Lists that share items, keys that share values and runs that repeat one can describe columns
/// much larger than their bytes. Values are charged to this limit before they are made.
#[derive(Debug)]
pub struct SizeLimit {
    bytes: usize,
    left: Cell<usize>,
}

impl SizeLimit {
    /// At most `bytes`.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, left: Cell::new(bytes) }
    }

    /// Charges `n` values of `bytes` each.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Limit`] where they exceed what is left.
    pub(super) fn take(&self, n: usize, bytes: usize) -> Result<()> {
        let left = n.checked_mul(bytes).and_then(|taken| self.left.get().checked_sub(taken));
        let left = left.ok_or_else(|| {
            Error::limit(format!(
                "an element of the columns grows to at least {} bytes, more than the memory budget \
                 of {} bytes; raise memory_budget, lower batch_size, or leave columns out",
                n.saturating_mul(bytes).saturating_add(self.bytes.saturating_sub(self.left.get())),
                self.bytes
            ))
        })?;
        self.left.set(left);
        Ok(())
    }
}
