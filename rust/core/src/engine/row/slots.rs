//! Where the samples of rows are written: places in the buffers of their batch.

use std::{iter, sync::Arc};

use crate::{
    error::Result,
    memory::{Account, AlignedBuf, Lease, Permit},
};

/// The slots of one row: one in the buffer of each column that is decoded.
#[derive(Debug)]
pub(crate) struct Slots {
    first: AlignedBuf,
    others: Vec<AlignedBuf>,
}

impl Slots {
    /// Those of `n` rows, where one row takes these bytes in each column, and the leases of the columns'
    /// buffers, which take their bytes out of `permit`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub(crate) fn of_rows(
        n: usize,
        sizes: &[usize],
        (account, permit): (&Arc<Account>, &mut Permit),
    ) -> Result<(Vec<Self>, Vec<Lease>)> {
        let mut rows: Vec<Self> = Vec::new();
        let mut leases = Vec::with_capacity(sizes.len());
        for size in sizes {
            let n_bytes = size.saturating_mul(n);
            let buffer = account.buffer(n_bytes, permit.split(n_bytes))?;
            let (slots, lease) = buffer.into_slots(n, *size);
            if leases.is_empty() {
                let row = |first| Self { first, others: Vec::new() };
                rows = slots.into_iter().map(row).collect();
            } else {
                for (row, slot) in rows.iter_mut().zip(slots) {
                    row.others.push(slot);
                }
            }
            leases.push(lease);
        }
        Ok((rows, leases))
    }

    /// The slot in the buffer of the n-th column.
    pub(crate) fn get_mut(&mut self, n: usize) -> Option<&mut AlignedBuf> {
        match n.checked_sub(1) {
            None => Some(&mut self.first),
            Some(n) => self.others.get_mut(n),
        }
    }
}

impl IntoIterator for Slots {
    type Item = AlignedBuf;
    type IntoIter = iter::Chain<iter::Once<AlignedBuf>, std::vec::IntoIter<AlignedBuf>>;

    /// In the order of the columns.
    fn into_iter(self) -> Self::IntoIter {
        iter::once(self.first).chain(self.others)
    }
}
