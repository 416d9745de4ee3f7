//! Streams Arrow IPC shards of audio, row by row, into aligned batches.
//!
//! The path of the data, one module a step:
//!
//! 1. [`order`]: which row comes next, as a pure function of (seed, epoch, position);
//! 2. [`shard`]: where that row's bytes are, and positional reads of just those;
//! 3. [`audio`]: from encoded bytes to the crop, at the target rate;
//! 4. [`batch`]: into its slot of an aligned buffer;
//! 5. [`pipeline`]: the threads and the bounded queues between these; those that decode are of the
//!    [`pool`] that all pipelines of a process share.
//!
//! [`stats`] is what all of them measure of themselves on the way.
//!
//! There is no Python here and no `unsafe`. Every parse of outside bytes ends in data or in an
//! [`Error`] that names shard, row and byte.
#![forbid(unsafe_code)]

pub mod audio;
pub mod batch;
pub mod error;
pub mod order;
pub mod pipeline;
pub mod pool;
pub mod process;
pub mod shard;
pub mod stats;
mod threads;

pub use error::{Error, ErrorKind, Position, Result};
