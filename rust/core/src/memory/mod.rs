//! The memory of a process: one budget in bytes, and a pool of buffers.
//!
//! Whatever holds bytes (a row, a table, a batch, an array in the consumer's hands) holds a
//! [`Permit`] for them, which returns them to the budget when it is dropped.

mod aligned;
mod budget;
mod buffer_part;
mod buffer_pool;

pub use aligned::{ALIGNMENT, AlignedBuf, LARGE_BUFFER, PAGE};
pub use budget::{Account, MemoryPool, Permit};
pub use buffer_part::BufferPart;
pub use buffer_pool::{Buffer, BufferPool, Lease};
