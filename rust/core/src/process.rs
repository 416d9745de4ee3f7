//! What the pipelines of a process share.

use crate::{pool::Pool, shard::OpenFiles};

/// The decode threads and the open files of a process.
///
/// Clones are the same. Neither survives a fork: a child process needs one of its own.
#[derive(Clone, Debug, Default)]
pub struct Process {
    /// The decode threads.
    pub pool: Pool,
    /// The descriptors of shards, bounded when this is made.
    pub open_files: OpenFiles,
}
