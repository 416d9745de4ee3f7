//! What all iterators of a process share.

use std::sync::Arc;

use super::work::{Floor, Pool};
use crate::{
    error::Result,
    memory::{AlignedBuf, Buffer, BufferPool, LARGE_BUFFER, MemoryPool},
    store::DescriptorCache,
};

/// Reading threads that a process may have even if no single iterator asks for as many.
const MIN_READERS: usize = 8;

/// The most bytes of idle buffers of recordings that were decoded by themselves. Fresh pages take a
/// fifth of the time of a crop of 5 s in stereo, and the C library keeps as much in its heap.
const DECODED_IDLE: usize = 32 << 20;

/// The resources that all iterators of a process share: threads, memory and open files. Clones are
/// the same.
///
/// Neither threads nor locks survive a fork: a child process needs a runtime of its own.
#[derive(Clone, Debug)]
pub struct Runtime {
    pub(super) readers: Pool,
    pub(super) decoders: Pool,
    pub(super) memory: MemoryPool,
    decoded: Arc<BufferPool>,
    descriptors: DescriptorCache,
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            readers: Pool::new("gristmill-read", Floor::Fixed(MIN_READERS)),
            decoders: Pool::new("gristmill-decode", Floor::Cpus),
            memory: MemoryPool::default(),
            decoded: Arc::new(BufferPool::new(DECODED_IDLE)),
            descriptors: DescriptorCache::default(),
        }
    }
}

impl Runtime {
    /// The open files of shards.
    pub fn descriptors(&self) -> &DescriptorCache {
        &self.descriptors
    }

    /// A buffer of `n_bytes` arbitrary bytes for a recording that is decoded by itself, outside of
    /// iterators and their budgets.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub fn decoded_buffer(&self, n_bytes: usize) -> Result<Buffer> {
        if n_bytes < LARGE_BUFFER {
            return AlignedBuf::zeroed(n_bytes).map(Buffer::unpooled);
        }
        self.decoded.take(n_bytes, None)
    }
}
