//! Streams Arrow IPC shards of audio, row by row, into aligned batches.
//!
//! The path of the data, one module a step:
//!
//! 1. [`order`]: which row comes next, as a pure function of (seed, epoch, position), among the rows
//!    that [`select`] finds to take part;
//! 2. [`shard`]: where that row's bytes are, and positional reads of just those;
//! 3. `gristmill-audio`, a crate of its own: from encoded bytes to the crop, at the target rate;
//! 4. [`batch`]: into its slot of an aligned buffer;
//! 5. [`engine`]: the threads, and the queue between these.
//!
//! All of them take their bytes from one budget, in [`memory`]; [`metrics`] is what they measure of
//! themselves on the way.
//!
//! There is no Python here and no `unsafe`. Every parse of outside bytes ends in data or in an
//! [`Error`] that names shard, row and byte.
#![forbid(unsafe_code)]

pub mod batch;
pub mod engine;
pub mod error;
pub mod hash;
pub mod memory;
pub mod metrics;
pub mod order;
pub mod select;
pub mod shard;
pub mod shown;
pub mod store;
mod sync;
mod threads;

pub use error::{Error, ErrorKind, Position, Result};

/// Ways into what is private, for `benches/`.
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench {
    pub use crate::engine::pass_rows;
}
