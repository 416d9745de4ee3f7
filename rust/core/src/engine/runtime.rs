//! What all iterators of a process share.

use std::sync::{Arc, OnceLock, atomic::AtomicBool};

use super::{
    cache::AudioIndexes,
    dataset::Options,
    row::Context,
    work::{Client, Floor, Pool, Work},
};
use crate::{
    error::Result,
    memory::{AlignedBuf, Buffer, BufferPool, LARGE_BUFFER, MemoryPool},
    metrics::Metrics,
    store::{DescriptorCache, Store},
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
    readers: Pool,
    decoders: Pool,
    memory: MemoryPool,
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
    /// A store for these options. Its requests end once `closed` is set.
    pub(super) fn store(&self, options: &Options, closed: &Arc<AtomicBool>) -> Arc<Store> {
        let store = options.store(&self.descriptors).with_cancel(Arc::clone(closed));
        Arc::new(store.with_buffers(self.memory.buffers()))
    }

    /// What reading and decoding rows refers to, without the data set. The caller closes its account.
    pub(super) fn context(
        &self,
        options: Options,
        store: Arc<Store>,
        closed: &Arc<AtomicBool>,
    ) -> Arc<Context> {
        let account = self.memory.open(options.memory_budget);
        Arc::new(Context {
            audio_index: AudioIndexes::new(&options, &account),
            options,
            dataset: OnceLock::new(),
            account,
            store,
            metrics: Metrics::default(),
            closed: Arc::clone(closed),
        })
    }

    /// Has threads do this reading and decoding.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) where no thread can be started. Then none works.
    pub(super) fn join(
        &self,
        reading: Arc<dyn Work>,
        decoding: Arc<dyn Work>,
    ) -> Result<(Client, Client)> {
        let decoding = self.decoders.join(decoding)?;
        match self.readers.join(reading) {
            Ok(reading) => Ok((reading, decoding)),
            Err(error) => {
                decoding.leave();
                Err(error.into())
            }
        }
    }

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
