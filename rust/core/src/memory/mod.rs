//! The memory of a process: one budget in bytes, and buffers that are used again.
//!
//! Whoever holds bytes (a row, a table, a batch, an array in the consumer's hands) holds a
//! [`Permit`] for them, which gives them back to the budget when it is dropped.

mod aligned;
mod budget;
mod recycler;

pub use aligned::{ALIGNMENT, AlignedBuf, OWN_PAGES, PAGE};
pub use budget::{Account, Memory, Permit};
pub use recycler::{Buffer, Recycler, Slots};
