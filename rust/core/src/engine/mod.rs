//! The threads between the shards and the consumer.
//!
//! The path of a row: a reading thread ([`readers`]) opens the shards, claims the row, and reads it
//! by its table ([`row_reader`]; rows without blobs: [`batch_task`]). A decoding thread
//! ([`decoders`]) decodes it into its slot. The thread that finishes the last row of a batch joins
//! them ([`assembler`]). The consumer takes batches in order ([`Pipeline::next`]).
//!
//! [`queue`] has the rules, without threads; [`shared_queue`] the lock and the wake-ups around it.
//! Threads are those of a [`pool`], which all iterators of a process share. None ever touches
//! Python.

mod assembler;
mod audio_index;
mod bad_rows;
mod batch_task;
mod block_cache;
mod context;
mod copied_rows;
mod dataset;
mod dataset_columns;
mod decode_work;
mod decoders;
mod decoding_bytes;
#[cfg(any(test, feature = "bench"))]
#[cfg_attr(not(feature = "bench"), allow(dead_code, unreachable_pub))] // then only for its test
mod drive;
mod durations;
mod element_spec;
mod features_rate;
mod index_room;
mod joined_columns;
mod load_ahead;
mod load_cache;
mod options;
mod part_counts;
mod part_reads;
mod pool;
mod queue;
mod random_access;
mod reader_count;
mod readers;
mod recording_file;
mod resume;
mod row_alone;
mod row_loop;
mod row_reader;
mod row_spec;
mod row_task;
mod shared_queue;
mod source;
mod stats;
mod table_cache;

use std::{
    process,
    sync::{
        Arc, Mutex, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use audio_index::audio_coverage;
pub use dataset::open_order;
#[cfg(feature = "bench")]
pub use drive::pass_rows;
pub use element_spec::element_spec;
pub use options::{
    AudioRequest, EventOptions, MixtureOptions, OnError, Options, Pick, Remainder, SourceOptions,
    default_requests, max_open_rows, single_rows_of_a_batch,
};
pub use part_counts::Progress;
pub use queue::Next;
pub use random_access::{RandomAccess, Request};
pub use recording_file::Recordings;
pub use resume::Start;

pub use crate::threads::{cannot_start, parallel_for_each, usable_cpus};

use self::{
    assembler::Assembler,
    audio_index::{AudioIndexes, Known},
    block_cache::BlockCache,
    context::{BudgetNotice, Context, StreamContext},
    decode_work::Decoders,
    pool::{Floor, Pool},
    queue::Queue,
    readers::Readers,
    row_alone::LastRow,
    row_reader::RowReader,
    shared_queue::SharedQueue,
    table_cache::TableCache,
};
use crate::{
    batch::{Batch, Binary},
    error::Result,
    memory::{AlignedBuf, Buffer, BufferPool, LARGE_BUFFER, MemoryPool, Permit},
    metrics::{Metrics, Snapshot},
    order::Fingerprint,
    store::DescriptorCache,
    sync::lock_std,
};
use gristmill_audio::{DecodeError, Entry, warm_up};

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

/// The facts about a data set that are known once its shards are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Rows in one epoch, for all hosts and workers together.
    pub rows_per_epoch: u64,
    /// Rows in all epochs, for all hosts and workers together; `None` for an endless stream.
    pub stream_len: Option<u64>,
    /// The fingerprint of the data set and its order.
    pub fingerprint: Fingerprint,
    /// The position at which the stream was resumed, as (epoch, index).
    pub start: (u64, u64),
}

/// A running stream of batches.
///
/// Dropping it closes it. When `drop` or [`Pipeline::close`] returns, no thread works for it any more;
/// each has finished at most one block of a read or one packet. The threads then work for other
/// pipelines, or end a moment later if there are none.
#[derive(Debug)]
pub struct Pipeline {
    context: Arc<StreamContext>,
    readers: Arc<Readers>,
    decoders: Arc<Decoders>,
    /// Permits for the Python objects of the last two batches. Their end is not reported, and a
    /// consumer holds a batch while it asks for the next.
    delivered: Arc<Mutex<(Option<Permit>, Option<Permit>)>>,
    /// A forked child has no threads to join, and a thread of the parent may hold any lock.
    pid: u32,
}

impl Pipeline {
    /// Starts a stream on the threads of `runtime`, which open the shards.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for invalid options;
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) where no thread can be started. Errors of opening the
    /// shards are returned by [`Self::next`].
    pub fn start(options: Options, start: Start, runtime: &Runtime) -> Result<Self> {
        options.check()?;
        let options = options.resolved();
        if options.is_decoding() {
            warm_up();
        }
        let (budget, max_referenced) = (options.memory_budget, options.max_referenced_table());
        let closed = Arc::<AtomicBool>::default();
        let account = runtime.memory.open(budget);
        let store = options
            .store(&runtime.descriptors)
            .with_cancel(Arc::clone(&closed))
            .with_buffers(runtime.memory.buffers());
        let queue = Arc::new(SharedQueue::new(Arc::clone(&account)));
        queue.watch_account();
        let context = Arc::new(Context {
            audio_index: AudioIndexes::new(&options),
            reader_count: options.reader_count(),
            options,
            dataset: OnceLock::new(),
            account,
            store: Arc::new(store),
            metrics: Metrics::default(),
            progress: Progress::default(),
            budget_notice: BudgetNotice::default(),
            closed,
        });
        let stream = Arc::new(StreamContext { context: Arc::clone(&context), queue });
        let assembler = Arc::new(Assembler { context: Arc::clone(&stream) });
        let tables = TableCache::new(&context.account, budget, max_referenced);
        let blocks = Some(BlockCache::new(&context.account, budget));
        let events = Arc::clone(&stream) as _;
        let reader = RowReader { context, events, tables, blocks, last_row: LastRow::default() };
        let decoders = Arc::new(Decoders::new(&stream, Arc::clone(&assembler)));
        let readers = Arc::new(Readers::new(start, reader, assembler));
        let pipeline = Self {
            context: stream,
            readers,
            decoders,
            delivered: Arc::default(),
            pid: process::id(),
        };
        let decoding = runtime.decoders.join(Arc::clone(&pipeline.decoders) as _)?;
        match runtime.readers.join(Arc::clone(&pipeline.readers) as _) {
            Ok(reading) => pipeline.context.queue.set_clients(reading, decoding),
            Err(error) => {
                decoding.leave();
                return Err(error.into());
            }
        }
        Ok(pipeline)
    }

    /// Waits at most `timeout` for the next batch. After an error the pipeline cannot go on.
    ///
    /// # Errors
    ///
    /// That of opening the shards, or of the first row of this batch that failed;
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) after [`Self::close`], also while waiting.
    pub fn next(&self, timeout: Duration) -> Result<Next<Batch>> {
        let StreamContext { context, queue } = &*self.context;
        let Context { metrics, options, .. } = &**context;
        let consumer = &metrics.consumer;
        consumer.requested();
        let mut next = queue.next(timeout, |waited| consumer.waited(waited));
        match &mut next {
            Ok(Next::Batch(batch)) => {
                metrics.bad_rows(batch.bad.iter().filter(|bad| !bad.is_substitute).count());
                let depths = queue.read(Queue::depths);
                consumer.took(batch.n_delivered, (depths.ready + 1, depths.read));
                let permit = batch.take_object_permit(options.binary == Binary::Bytes);
                let mut delivered = lock_std(&self.delivered);
                let older = std::mem::replace(&mut delivered.0, permit);
                let oldest = std::mem::replace(&mut delivered.1, older);
                drop(delivered);
                drop(oldest);
            }
            Ok(Next::Pending) => {}
            Ok(Next::End) | Err(_) => {
                consumer.ended();
                metrics.end();
            }
        }
        next
    }

    /// Reports that the last batch was converted to an element of the consumer's language: the time
    /// since [`Self::next`] counts as delivery, and not as the consumer's own work.
    pub fn handed_over(&self) {
        self.context.metrics.consumer.delivered();
    }

    /// The statistics so far, also after [`Self::close`]; `None` in a forked child, where a thread of
    /// the parent may hold any lock. Takes the queue's lock for a microsecond.
    pub fn stats(&self) -> Option<Snapshot> {
        (self.pid == process::id())
            .then(|| stats::snapshot(&self.context, self.readers.table_counts()))
    }

    /// The facts about the data set, once its shards are open.
    pub fn opened(&self) -> Option<Opened> {
        let dataset = self.context.dataset.get()?;
        Some(Opened {
            rows_per_epoch: dataset.order.rows_per_epoch(),
            stream_len: dataset.order.stream_len(),
            fingerprint: dataset.fingerprint,
            start: dataset.start,
        })
    }

    /// How far the pass over the rows is that may be needed before the first batch.
    pub fn progress(&self) -> &Progress {
        &self.context.progress
    }

    /// Waits at most `timeout` until the shards are open or have failed to open. Returns whether they
    /// have.
    pub fn wait_open(&self, timeout: Duration) -> bool {
        self.context.queue.wait_begun(timeout)
    }

    /// Adds what planning a recording has found ([`Decoder::plan_and_learn`]) to the audio index of its
    /// shard, unless that knows the recording. For streams that deliver recordings encoded, of a row
    /// that was delivered: of its first column of recordings.
    ///
    /// [`Decoder::plan_and_learn`]: gristmill_audio::Decoder::plan_and_learn
    pub fn learned(
        &self,
        shard: u32,
        row: u64,
        found: std::result::Result<Option<&Entry>, &DecodeError>,
    ) {
        let context = &self.context.context;
        let dataset = context.dataset.get().filter(|_| self.pid == process::id());
        let Some(dataset) = dataset.filter(|_| !context.is_closed()) else { return };
        let Some(range) = self.readers.find_range(dataset, shard, row) else { return };
        if let Known::Unseen = context.audio_index.find(context, shard, &range) {
            context.audio_index.learned(context, shard, range.start, found);
        }
    }

    /// Requests to the storage so far, and their bytes.
    pub fn reads(&self) -> (u64, u64) {
        self.context.store.reads()
    }

    /// Thread time inside requests so far.
    pub fn read_time(&self) -> Duration {
        self.context.store.metrics().timer().sum()
    }

    /// Why nothing more is written to the cache folder, if that has come to pass; once.
    pub fn take_cache_problem(&self) -> Option<String> {
        // A thread of a forked child's parent may hold the lock.
        (self.pid == process::id()).then(|| self.context.store.take_cache_problem())?
    }

    /// That recordings are resampled to the rate of the features, if they are; once.
    pub fn take_rate_notice(&self) -> Option<String> {
        self.context.take_rate_notice()
    }

    /// That rows took more than the budget, if they did; once.
    pub fn take_budget_notice(&self) -> Option<String> {
        self.context.take_budget_notice()
    }

    /// Ends all work, waits for its end, and frees memory and descriptors. Safe to call again, and
    /// from any thread.
    pub fn close(&self) {
        if self.pid != process::id() {
            return;
        }
        let StreamContext { context, queue } = &*self.context;
        let Context { closed, account, store, metrics, .. } = &**context;
        closed.store(true, Ordering::Release);
        queue.close();
        queue.join();
        metrics.end();
        context.audio_index.close(context);
        // Explicitly, since a traceback may keep the pipeline alive.
        self.readers.clear();
        self.decoders.clear();
        *lock_std(&self.delivered) = (None, None);
        account.close();
        store.close();
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.pid == process::id() {
            self.close();
        } else {
            // In a forked child a thread of the parent may hold any lock: leak everything.
            std::mem::forget(Arc::clone(&self.context));
            std::mem::forget(Arc::clone(&self.readers));
            std::mem::forget(Arc::clone(&self.decoders));
            std::mem::forget(Arc::clone(&self.delivered));
        }
    }
}
