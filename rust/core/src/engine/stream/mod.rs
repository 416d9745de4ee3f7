//! A stream of batches, and the work that threads do for it.

mod context;
mod decoders;
mod readers;
mod stats;

use std::{
    process,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use self::{
    context::{BudgetNotice, StreamContext},
    decoders::Decoders,
    readers::Readers,
};
use crate::{
    batch::{Batch, Binary},
    engine::{
        cache::{BlockCache, Known, TableCache},
        count::Progress,
        dataset::{Options, Start},
        row::{Context, RowReader},
        runtime::Runtime,
        work::{Next, Queue, ReaderCount, SharedQueue},
    },
    error::Result,
    memory::Permit,
    metrics::Snapshot,
    order::Fingerprint,
    sync::lock_std,
};
use gristmill_audio::{DecodeError, Entry, warm_up};

/// The facts about a data set that are known once its shards are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Rows in one epoch, for all hosts and workers together.
    pub rows_per_epoch: u64,
    /// Rows in all epochs, for all hosts and workers together; `None` for an endless stream.
    pub stream_len: Option<u64>,
    /// The fingerprint of the data set and its order.
    pub fingerprint: Fingerprint,
    /// The position at which the stream was resumed, as (epoch, index).
    pub start: (u64, u64),
    /// The columns of elements that are ours and not the data's.
    pub added_columns: Vec<String>,
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
    /// Permits for the Python objects of the last two batches. Their end is not reported: a consumer holds
    /// a batch while it asks for the next, and not the one before.
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
        let reader_count =
            ReaderCount::new(options.n_requests, options.n_readers(), options.n_threads());
        let store = runtime.store(&options, &closed);
        let context = runtime.context(options, store, &closed);
        let queue = Arc::new(SharedQueue::new(Arc::clone(&context.account)));
        queue.watch_account();
        let stream = Arc::new(StreamContext {
            context: Arc::clone(&context),
            queue,
            reader_count,
            progress: Progress::default(),
            budget_notice: BudgetNotice::default(),
        });
        let tables = TableCache::new(&context.account, budget, max_referenced);
        let blocks = Some(BlockCache::new(&context.account, budget));
        let events = Arc::clone(&stream) as _;
        let reader = RowReader::new(&context, &events, tables, blocks);
        let decoders = Arc::new(Decoders::new(&stream));
        let readers = Arc::new(Readers::new(&stream, start, reader));
        let pipeline = Self {
            context: stream,
            readers,
            decoders,
            delivered: Arc::default(),
            pid: process::id(),
        };
        let (readers, decoders) = (&pipeline.readers, &pipeline.decoders);
        let (reading, decoding) =
            runtime.join(Arc::clone(readers) as _, Arc::clone(decoders) as _)?;
        pipeline.context.queue.set_clients(reading, decoding);
        Ok(pipeline)
    }

    /// Waits at most `timeout` for the next batch. After an error the pipeline cannot go on.
    ///
    /// # Errors
    ///
    /// That of opening the shards, or of the first row of this batch that failed;
    /// [`ErrorKind::Closed`](crate::ErrorKind::Closed) after [`Self::close`], also while waiting.
    pub fn next(&self, timeout: Duration) -> Result<Next<Batch>> {
        let StreamContext { context, queue, .. } = &*self.context;
        let Context { metrics, options, .. } = &**context;
        let consumer = &metrics.consumer;
        consumer.requested();
        let before_last = lock_std(&self.delivered).1.take();
        drop(before_last);
        let mut next = queue.next(timeout, |waited| consumer.waited(waited));
        match &mut next {
            Ok(Next::Batch(batch)) => {
                metrics.bad_rows(batch.bad.iter().filter(|bad| !bad.is_substitute).count());
                let depths = queue.read(Queue::depths);
                consumer.took(batch.n_delivered, (depths.ready + 1, depths.read));
                let permit = batch.take_object_permit(options.binary == Binary::Bytes);
                let mut delivered = lock_std(&self.delivered);
                delivered.1 = std::mem::replace(&mut delivered.0, permit);
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
            added_columns: dataset.layout.added.iter().map(|(name, _)| name.clone()).collect(),
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
        if let Known::Unseen = context.audio_index.find(shard, &range) {
            context.audio_index.learned(shard, range.start, found);
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
        let StreamContext { context, budget_notice, .. } = &*self.context;
        budget_notice.take(context.options.memory_budget, context.account.peak())
    }

    /// Ends all work, waits for its end, and frees memory and descriptors. Safe to call again, and
    /// from any thread.
    pub fn close(&self) {
        if self.pid != process::id() {
            return;
        }
        let StreamContext { context, queue, .. } = &*self.context;
        let Context { closed, account, store, metrics, .. } = &**context;
        closed.store(true, Ordering::Release);
        queue.close();
        queue.join();
        metrics.end();
        context.audio_index.close();
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
