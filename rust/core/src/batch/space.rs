//! Where the memory of a batch's columns comes from.

use std::cell::{Cell, RefCell};

use crate::{
    error::Result,
    memory::{AlignedBuf, Buffer, Permit},
};

/// Bytes that were set aside for the columns of one batch. What they lack is taken as well: the rows
/// are there, and only a batch gives their memory back.
#[derive(Debug)]
pub(crate) struct Space {
    reserved: RefCell<Permit>,
    taken: Cell<usize>,
}

impl Space {
    pub(crate) fn new(reserved: Permit) -> Self {
        Self { reserved: RefCell::new(reserved), taken: Cell::new(0) }
    }

    /// A permit for `n_bytes`.
    pub(crate) fn permit(&self, n_bytes: usize) -> Permit {
        self.taken.set(self.taken.get().saturating_add(n_bytes));
        self.reserved.borrow_mut().split(n_bytes)
    }

    /// A buffer of `n_bytes`, with anything in it.
    pub(super) fn buffer(&self, n_bytes: usize) -> Result<Buffer> {
        let permit = self.permit(n_bytes);
        permit.account().clone().buffer(n_bytes, permit)
    }

    /// Bytes of all permits that were given out.
    pub(crate) fn taken(&self) -> usize {
        self.taken.get()
    }
}

/// A buffer of `n_bytes`, of the batch's space if there is one.
pub(super) fn buffer(space: Option<&Space>, n_bytes: usize) -> Result<Buffer> {
    match space {
        Some(space) => space.buffer(n_bytes),
        None => AlignedBuf::zeroed(n_bytes).map(Buffer::unpooled),
    }
}

/// A buffer of these values, one after another.
pub(super) fn filled<const N: usize>(
    space: Option<&Space>,
    values: impl ExactSizeIterator<Item = [u8; N]>,
) -> Result<Buffer> {
    let mut buffer = buffer(space, values.len() * N)?;
    for (place, value) in buffer.as_bytes_mut().chunks_exact_mut(N).zip(values) {
        place.copy_from_slice(&value);
    }
    Ok(buffer)
}
