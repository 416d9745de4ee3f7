//! The threads between the shards and the consumer.
//!
//! A row's way: a reading thread ([`readers`]) opens the shards, claims the row, finds it (`read`,
//! `whole`) in its table (`tables`) and reads its bytes; a decoding thread ([`decoders`]) decodes it
//! into its slot; whoever files the last row of a batch joins them (`assembler`); the consumer takes
//! batches in order. [`queue`] holds the rules, without threads; [`shell`] the lock and the wake-ups
//! around it. Threads are those of a [`pool`], for all iterators of a process. No thread ever
//! touches Python.

mod assembler;
mod bad_rows;
mod cache;
mod context;
mod dataset;
mod decoders;
mod describe;
mod measure;
mod options;
mod pool;
mod queue;
mod read;
mod readers;
mod resume;
mod row;
mod runs;
mod shell;
mod tables;
mod whole;

use std::{
    process,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

pub use dataset::open_order;
pub use describe::describe;
pub use options::{AudioRequest, OnError, Options};
pub use resume::Start;
pub use shell::Next;

pub use crate::threads::{parallel_for_each, usable_cpus};

use self::{
    assembler::Assembler,
    context::Context,
    decoders::Decoders,
    pool::{Floor, Pool},
    queue::{Limits, Queue},
    read::Reader,
    readers::Readers,
    runs::Runs,
    shell::Shell,
    tables::Tables,
};
use crate::{
    batch::{Batch, Binary},
    error::Result,
    memory::{MemoryPool, Permit},
    metrics::{Metrics, Snapshot},
    order::Fingerprint,
    store::DescriptorCache,
};
use gristmill_audio::warm_up;

/// Reading threads that a process may have though no iterator alone asks for as many.
const MIN_READERS: usize = 8;

/// What all iterators of a process share: threads, memory and open files. Clones are the same.
///
/// Neither threads nor locks survive a fork: a child process needs a runtime of its own.
#[derive(Clone, Debug)]
pub struct Runtime {
    readers: Pool,
    decoders: Pool,
    memory: MemoryPool,
    descriptors: DescriptorCache,
}

impl Default for Runtime {
    fn default() -> Self {
        Self {
            readers: Pool::new("gristmill-read", Floor::Fixed(MIN_READERS)),
            decoders: Pool::new("gristmill-decode", Floor::Cpus),
            memory: MemoryPool::default(),
            descriptors: DescriptorCache::default(),
        }
    }
}

impl Runtime {
    /// The open files of shards.
    pub fn descriptors(&self) -> &DescriptorCache {
        &self.descriptors
    }
}

/// What is known once the shards are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Rows in one epoch, for all hosts and workers together.
    pub rows_per_epoch: u64,
    /// Rows in all epochs, for all hosts and workers together; `None` without end.
    pub stream_len: Option<u64>,
    /// What the order depends on.
    pub fingerprint: Fingerprint,
    /// The position at which the stream was taken up: epoch, and rows of it.
    pub start: (u64, u64),
}

/// A running stream of batches.
///
/// Dropping it closes it: nothing works for it any more when `drop` or [`Pipeline::close`] returns,
/// after at most one read block and one packet each. Its threads are then at work for other
/// pipelines, or end a moment later where there is none.
#[derive(Debug)]
pub struct Pipeline {
    context: Arc<Context>,
    readers: Arc<Readers>,
    decoders: Arc<Decoders>,
    /// For what Python made of the last two batches: the consumer holds a batch while he asks for
    /// the next, and the end of objects cannot be seen.
    delivered: Arc<Mutex<(Option<Permit>, Option<Permit>)>>,
    /// Threads do not survive a fork: in a child there is nothing to join, and locks may be held
    /// for ever.
    pid: u32,
}

impl Pipeline {
    /// Starts a stream on the threads of `runtime`. Opens nothing here: the first thread does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`](crate::ErrorKind::Config) for options that cannot mean anything;
    /// [`ErrorKind::Io`](crate::ErrorKind::Io) where no thread can be had. What opening finds comes
    /// from [`Self::next`].
    pub fn start(options: Options, start: Start, runtime: &Runtime) -> Result<Self> {
        options.check()?;
        let options = options.settled();
        if !matches!(options.audio, AudioRequest::Encoded) {
            warm_up();
        }
        let (budget, largest_held) = (options.memory_budget, options.largest_table_held());
        let closed = Arc::<AtomicBool>::default();
        let account = runtime.memory.open(budget);
        let store = options
            .store(&runtime.descriptors)
            .with_cancel(Arc::clone(&closed))
            .with_buffers(runtime.memory.buffers());
        let limits = Limits {
            rows_per_batch: options.rows_per_batch() as u64,
            look_ahead: options.look_ahead(),
            batch_bytes: 0,
            whole_batches: false,
            max_parked: 0,
            asked_first: 0,
        };
        let queue = Arc::new(Shell::new(limits, Arc::clone(&account)));
        queue.watch_account();
        let context = Arc::new(Context {
            options,
            dataset: OnceLock::new(),
            queue,
            account,
            store: Arc::new(store),
            metrics: Metrics::default(),
            closed,
        });
        let assembler = Arc::new(Assembler { context: Arc::clone(&context) });
        let tables = Tables::new(&context.account, budget, largest_held);
        let runs = Runs::new(&context.account, budget);
        let reader = Reader { context: Arc::clone(&context), tables, runs };
        let decoders = Arc::new(Decoders::new(&context, Arc::clone(&assembler)));
        let readers = Arc::new(Readers::new(start, reader, assembler));
        let pipeline =
            Self { context, readers, decoders, delivered: Arc::default(), pid: process::id() };
        let decoding = runtime.decoders.join(Arc::clone(&pipeline.decoders) as _)?;
        match runtime.readers.join(Arc::clone(&pipeline.readers) as _) {
            Ok(reading) => pipeline.context.queue.serve(reading, decoding),
            Err(error) => {
                decoding.leave();
                return Err(error.into());
            }
        }
        Ok(pipeline)
    }

    /// Waits at most `timeout` for the next batch. After an error the pipeline is of no more use.
    ///
    /// # Errors
    ///
    /// Whatever kept the shards from opening or a row of this batch from being delivered, the
    /// first row's first; [`ErrorKind::Closed`](crate::ErrorKind::Closed) after [`Self::close`],
    /// also while waiting.
    pub fn next(&self, timeout: Duration) -> Result<Next<Batch>> {
        let Context { metrics, queue, options, .. } = &*self.context;
        let consumer = &metrics.consumer;
        consumer.requested();
        let mut next = queue.next(timeout, |slept| consumer.waited(slept));
        match &mut next {
            Ok(Next::Batch(batch)) => {
                metrics.bad_rows(batch.bad.iter().filter(|bad| !bad.is_substitute).count());
                let (_, _, n_read, _, n_ready) = queue.look(Queue::depths);
                consumer.took(batch.n_delivered, (n_ready + 1, n_read));
                let permit = batch.take_permit(options.binary == Binary::Bytes);
                let mut delivered = self.lock_delivered();
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

    fn lock_delivered(&self) -> MutexGuard<'_, (Option<Permit>, Option<Permit>)> {
        self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that the last batch has been made an element of the consumer's language: the time
    /// since [`Self::next`] counts as delivery, and not as the consumer's own.
    pub fn handed_over(&self) {
        self.context.metrics.consumer.delivered();
    }

    /// What has been measured so far, also after [`Self::close`]; `None` in a forked child, where
    /// a thread of the parent may hold any lock. Takes the queue's lock for a microsecond.
    pub fn stats(&self) -> Option<Snapshot> {
        (self.pid == process::id())
            .then(|| measure::snapshot(&self.context, self.readers.table_counts()))
    }

    /// What is known of the data set, once it is open.
    pub fn opened(&self) -> Option<Opened> {
        let dataset = self.context.dataset.get()?;
        Some(Opened {
            rows_per_epoch: dataset.order.rows_per_epoch(),
            stream_len: dataset.order.stream_len(),
            fingerprint: dataset.fingerprint,
            start: dataset.start,
        })
    }

    /// Waits at most `timeout` until the shards are open; whether they are, or have failed to.
    pub fn wait_open(&self, timeout: Duration) -> bool {
        self.context.queue.wait_begun(timeout)
    }

    /// Positional reads, and their bytes, so far.
    pub fn reads(&self) -> (u64, u64) {
        self.context.store.reads()
    }

    /// Thread time spent inside positional reads so far.
    pub fn read_time(&self) -> Duration {
        self.context.store.metrics().timer().sum()
    }

    /// Ends all work, waits for it, and frees memory and descriptors. Safe to call again, and from
    /// any thread.
    pub fn close(&self) {
        if self.pid != process::id() {
            return;
        }
        let Context { closed, queue, account, store, metrics, .. } = &*self.context;
        closed.store(true, Ordering::Release);
        queue.close();
        queue.leave();
        metrics.end();
        // A traceback may keep the pipeline itself alive for long.
        self.readers.clear();
        self.decoders.clear();
        *self.lock_delivered() = (None, None);
        account.close();
        store.close();
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.pid == process::id() {
            self.close();
        } else {
            // In a forked child another thread may have held any lock: touch nothing, free nothing.
            std::mem::forget(Arc::clone(&self.context));
            std::mem::forget(Arc::clone(&self.readers));
            std::mem::forget(Arc::clone(&self.decoders));
            std::mem::forget(Arc::clone(&self.delivered));
        }
    }
}
