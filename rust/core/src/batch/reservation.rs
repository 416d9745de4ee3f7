//! The memory of a batch's columns.

use std::cell::{Cell, RefCell};

use crate::{
    error::Result,
    memory::{AlignedBuf, Buffer, Permit},
};

/// Bytes that were reserved for the columns of one batch. Columns that need more get it even beyond
/// the budget: the rows' memory is only freed once their batch is made.
#[derive(Debug)]
pub(crate) struct Reservation {
    permit: RefCell<Permit>,
    taken: Cell<usize>,
}

impl Reservation {
    pub(crate) fn new(permit: Permit) -> Self {
        Self { permit: RefCell::new(permit), taken: Cell::new(0) }
    }

    /// A permit for `n_bytes`.
    pub(crate) fn permit(&self, n_bytes: usize) -> Permit {
        self.taken.set(self.taken.get().saturating_add(n_bytes));
        self.permit.borrow_mut().split(n_bytes)
    }

    /// A buffer of `n_bytes` arbitrary bytes.
    pub(super) fn buffer(&self, n_bytes: usize) -> Result<Buffer> {
        let permit = self.permit(n_bytes);
        permit.account().clone().buffer(n_bytes, permit)
    }

    /// The bytes of all permits that were taken.
    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }
}

/// A buffer of `n_bytes`, of the reservation if there is one.
pub(super) fn buffer(reservation: Option<&Reservation>, n_bytes: usize) -> Result<Buffer> {
    match reservation {
        Some(reservation) => reservation.buffer(n_bytes),
        None => AlignedBuf::zeroed(n_bytes).map(Buffer::unpooled),
    }
}

/// A buffer of these values, one after another.
pub(super) fn filled<const N: usize>(
    reservation: Option<&Reservation>,
    values: impl ExactSizeIterator<Item = [u8; N]>,
) -> Result<Buffer> {
    let mut buffer = buffer(reservation, values.len() * N)?;
    for (place, value) in buffer.as_bytes_mut().chunks_exact_mut(N).zip(values) {
        place.copy_from_slice(&value);
    }
    Ok(buffer)
}
