//! The threads between the shards and the consumer, and the bounded queues between them.
//!
//! One thread opens the shards; then `n_readers` threads claim rows in order and read them
//! (`fetch`), up to `n_threads` threads of the [`Pool`] that all pipelines share decode them into
//! their slots (`decode`), and the one that files the last row of a batch assembles it. The
//! consumer takes batches in order. `queue` holds the one lock and the rules that bound memory. No
//! thread ever touches Python.

mod bad_rows;
mod dataset;
mod decode;
mod describe;
mod fetch;
mod measure;
mod options;
mod progress;
mod queue;
mod runs;
mod start;
mod tables;
mod turn;
mod whole;

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    process,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
    time::Duration,
};

pub use dataset::open_order;
pub use describe::describe;
pub use options::{AudioRequest, OnError, Options};
pub use start::Start;

pub use crate::threads::{share_out, usable_cpus};

use self::{dataset::Dataset, queue::Queue, runs::Runs, tables::Tables};
use crate::{
    audio::{Decoder, warm_up},
    batch::{AlignedBuf, Batch, BufferPool, Loans, Recycler, Row},
    error::{Error, ErrorKind, Result},
    order::{Fingerprint, Step},
    pool::{Pool, Seat},
    process::Process,
    shard::{Files, Table, open_ahead},
    stats::{self, Snapshot, Stats},
    threads,
};

/// One part in so many of the budget may lie unused, for the next columns and record batches.
const SPARE: usize = 32;

/// For so many rows of the stream the files are opened ahead at the start, and of so many shards.
const MAX_ROWS: u64 = 4096;
const MAX_OPENED: usize = 128;

/// What a wait for the next batch came to.
#[derive(Debug)]
pub enum Next {
    /// A batch.
    Batch(Batch),
    /// The stream has ended.
    End,
    /// Nothing yet; ask again.
    Pending,
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
/// Dropping it closes it: all its threads have ended when `drop` or [`Pipeline::close`] returns,
/// after at most one read block and one packet each. Those of the pool are then at work for other
/// pipelines, or end a moment later where there is none.
#[derive(Debug)]
pub struct Pipeline {
    shared: Arc<Shared>,
    /// Threads do not survive a fork: in a child there is nothing to join, and locks may be held
    /// for ever.
    pid: u32,
}

/// What the threads of one pipeline share.
#[derive(Debug)]
struct Shared {
    options: Options,
    dataset: OnceLock<Dataset>,
    /// Where the stream was taken up, set before `dataset`.
    started: OnceLock<(u64, u64)>,
    queue: Queue,
    tables: Tables,
    /// Those that tell what bad rows call their audio.
    path_tables: Tables,
    /// Of small blobs.
    runs: Runs,
    /// Of encoded rows: fresh pages cost more than reading into them, and memory that comes and goes
    /// on many threads leaves the allocator with holes that are nobody's budget.
    row_buffers: Arc<Recycler>,
    /// Of encoded rows that the consumer has in the memory they were read into.
    lent_rows: Arc<Loans>,
    /// Decoders that no thread uses, with what they keep between rows.
    decoders: Mutex<Vec<Decoder>>,
    /// Set once, as soon as the slots' size is known.
    batch_buffers: OnceLock<Arc<BufferPool>>,
    /// Of columns that are not decoded audio.
    column_buffers: Arc<Recycler>,
    files: Arc<Files>,
    stats: Stats,
    closed: Arc<AtomicBool>,
    pool: Pool,
    /// Taken once the shards are open, before the first reader starts.
    seat: OnceLock<Seat>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

/// A row that is read and waits to be decoded.
#[derive(Debug)]
struct Job {
    index: u64,
    step: Step,
    table: Arc<Table>,
    place: usize,
    blobs: Vec<fetch::RawBlob>,
    /// Bytes charged to the budget for this row.
    charged: usize,
    /// Those of them that stay until the batch is delivered.
    kept: usize,
}

impl Pipeline {
    /// Starts a stream, whose rows the threads of `process` decode. Opens nothing here: the first
    /// thread does.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Config`] for options that cannot mean anything; [`ErrorKind::Io`] where no
    /// thread can be had. What opening finds comes from [`Self::next`].
    pub fn start(options: Options, start: Start, process: &Process) -> Result<Self> {
        options.check()?;
        let options = options.settled();
        if !matches!(options.audio, AudioRequest::Encoded) {
            warm_up();
        }
        let (budget, n_readers) = (options.memory_budget, options.n_readers());
        let closed = Arc::<AtomicBool>::default();
        let files = options.files(&process.open_files);
        let files = files.with_cancel(Arc::clone(&closed)).with_spare_memory(budget / SPARE);
        let largest_held = options.largest_table_held();
        let shared = Arc::new_cyclic(|shared: &Weak<Shared>| Shared {
            options,
            dataset: OnceLock::new(),
            started: OnceLock::new(),
            queue: Queue::default(),
            tables: Tables::new(budget / 4, n_readers).with_passing(largest_held),
            runs: Runs::new(budget / runs::SHARE),
            path_tables: Tables::new(bad_rows::PATHS_LIMIT, 1),
            row_buffers: Recycler::new(budget),
            lent_rows: Loans::new(Shared::waking(shared.clone())),
            decoders: Mutex::default(),
            batch_buffers: OnceLock::new(),
            column_buffers: Recycler::calling(budget / SPARE, Shared::waking(shared.clone())),
            files: Arc::new(files),
            stats: Stats::default(),
            closed,
            pool: process.pool.clone(),
            seat: OnceLock::new(),
            threads: Mutex::default(),
        });
        shared.spawn("open", move |shared| shared.open(&start))?;
        Ok(Self { shared, pid: process::id() })
    }

    /// Waits at most `timeout` for the next batch. After an error the pipeline is of no more use.
    ///
    /// # Errors
    ///
    /// Whatever kept the shards from opening or a row of this batch from being delivered, the
    /// first row's first; [`ErrorKind::Closed`] after [`Self::close`], also while waiting.
    pub fn next(&self, timeout: Duration) -> Result<Next> {
        let consumer = &self.shared.stats.consumer;
        consumer.asks(stats::now);
        let next = self.shared.queue.next(&self.shared, timeout);
        match &next {
            Ok(Next::Batch(batch)) => {
                let n_bad = batch.bad.iter().filter(|bad| !bad.is_substitute).count();
                if n_bad > 0 {
                    self.shared.stats.n_bad.fetch_add(n_bad as u64, Ordering::Relaxed);
                }
                consumer.takes(stats::now);
            }
            Ok(Next::Pending) => {}
            Ok(Next::End) | Err(_) => consumer.ends(stats::now),
        }
        next
    }

    /// Tells that the last batch has been made an element of the consumer's language: the time
    /// since [`Self::next`] counts as delivery, and not as the consumer's own.
    pub fn handed_over(&self) {
        self.shared.stats.consumer.has_it(stats::now);
    }

    /// What has been measured so far, also after [`Self::close`]; `None` in a forked child, where
    /// a thread of the parent may hold any lock. Takes the queue's lock for a microsecond.
    pub fn stats(&self) -> Option<Snapshot> {
        (self.pid == process::id()).then(|| self.shared.snapshot())
    }

    /// What is known of the data set, once it is open.
    pub fn opened(&self) -> Option<Opened> {
        let dataset = self.shared.dataset.get()?;
        Some(Opened {
            rows_per_epoch: dataset.order.rows_per_epoch(),
            stream_len: dataset.order.stream_len(),
            fingerprint: dataset.fingerprint,
            start: *self.shared.started.get()?,
        })
    }

    /// Waits at most `timeout` until the shards are open; whether they are, or have failed to.
    pub fn wait_open(&self, timeout: Duration) -> bool {
        self.shared.queue.wait_open(&self.shared, timeout)
    }

    /// Positional reads, and their bytes, so far.
    pub fn reads(&self) -> (u64, u64) {
        let counters = self.shared.files.counters();
        (counters.requests(), counters.bytes())
    }

    /// Thread time spent inside positional reads so far.
    pub fn read_time(&self) -> Duration {
        self.shared.files.counters().times().timer().sum()
    }

    /// Ends all threads, waits for them, and frees memory and descriptors. Safe to call again, and
    /// from any thread.
    pub fn close(&self) {
        if self.pid != process::id() {
            return;
        }
        self.shared.queue.close(&self.shared);
        loop {
            let thread = self.shared.lock_threads().pop();
            let Some(thread) = thread else { break };
            // A panic was reported when it was contained.
            let _ = thread.join();
        }
        // No reader is left to hand rows over, and no opening thread to take a seat.
        if let Some(seat) = self.shared.seat.get() {
            seat.leave();
        }
        // A traceback may keep the pipeline itself alive for long.
        self.shared.queue.clear();
        self.shared.tables.clear();
        self.shared.path_tables.clear();
        self.shared.runs.clear();
        self.shared.row_buffers.retire();
        self.shared.column_buffers.retire();
        self.shared.lock_decoders().clear();
        self.shared.files.close();
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        if self.pid == process::id() {
            self.close();
        } else {
            // In a forked child another thread may have held any lock: touch nothing, free nothing.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

impl Shared {
    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    fn lock_decoders(&self) -> MutexGuard<'_, Vec<Decoder>> {
        self.decoders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock_threads(&self) -> MutexGuard<'_, Vec<JoinHandle<()>>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a thread whose panic stops the pipeline with an error instead of silence.
    fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let mut threads = self.lock_threads();
        if self.is_closed() {
            return Ok(());
        }
        let shared = Arc::clone(self);
        threads.push(threads::spawn(format!("gristmill-{name}"), move || {
            let result = catch_unwind(AssertUnwindSafe(|| body(&shared)));
            let error = match result {
                Ok(Ok(())) => return,
                Ok(Err(error)) => error,
                Err(panic) => {
                    Error::new(ErrorKind::WorkerPanicked(threads::panic_message(&*panic)))
                }
            };
            shared.queue.fail(error);
        })?);
        Ok(())
    }

    /// Opens the shards, then starts the threads that work on them.
    fn open(self: &Arc<Self>, start: &Start) -> Result<()> {
        let mut dataset = Dataset::open(&self.options, &self.files)?;
        let rows_per_batch = self.options.rows_per_batch() as u64;
        let (first, position) = start.find(&mut dataset, rows_per_batch)?;
        self.started.get_or_init(|| position);
        let mut end = dataset.order.len().unwrap_or(u64::MAX);
        if self.options.drop_remainder {
            end = first.saturating_add(end.saturating_sub(first) / rows_per_batch * rows_per_batch);
        }
        let batch_bytes = dataset.slot_bytes().saturating_mul(self.options.rows_per_batch());
        let bookkeeping = size_of::<Result<Row>>().saturating_mul(self.options.rows_per_batch());
        if batch_bytes.saturating_add(bookkeeping) > self.options.memory_budget {
            return Err(Error::limit(format!(
                "a batch of {rows_per_batch} rows takes more than the memory budget of {} bytes; \
                 raise memory_budget or lower batch_size",
                self.options.memory_budget
            )));
        }
        self.batch_buffers.get_or_init(|| {
            let keep = if batch_bytes == 0 { 0 } else { self.options.look_ahead() };
            BufferPool::new(batch_bytes, keep, Self::waking(Arc::downgrade(self)))
        });
        // Rows that have bytes of their own to be read.
        let gated = if dataset.blobs.is_empty() { 0 } else { rows_per_batch.min(end - first) };
        let dataset = self.dataset.get_or_init(|| dataset);
        self.queue.open(first..end, gated, self.files.counters());
        self.take_seat()?;
        // Where rows have no bytes of their own a reader takes a batch at a time: more of them than
        // batches may be open would only wait, and be taken for a sign that more should be.
        let most = if gated == 0 { self.options.look_ahead() } else { usize::MAX };
        for k in 0..self.options.n_readers().min(most) {
            self.spawn(&format!("read-{k}"), |shared| {
                shared.read_rows();
                Ok(())
            })?;
        }
        // Beside the readers, each of which would otherwise open one file at a time.
        let soon = rows_per_batch.saturating_mul(self.options.look_ahead() as u64).min(MAX_ROWS);
        let mut shards = dataset.shards_of(first..end.min(first.saturating_add(soon)));
        shards.truncate(MAX_OPENED);
        open_ahead(shards, self.options.n_openers());
        Ok(())
    }

    /// Lets waiting readers look again for room.
    fn waking(shared: Weak<Self>) -> impl Fn() {
        move || {
            if let Some(shared) = shared.upgrade() {
                shared.queue.wake_readers(&shared);
            }
        }
    }

    /// Bytes taken besides what the queue charges: tables, and the buffers of batches, of their large
    /// columns and of rows that are lent out, these until the consumer's array over them has died.
    fn other_bytes(&self) -> usize {
        let buffers = self.batch_buffers.get().map_or(0, |pool| pool.live_bytes());
        let (tables, spare) = (self.tables.live_bytes(), self.files.spare_bytes());
        let (columns, lent) = (self.column_buffers.n_bytes(), self.lent_rows.bytes());
        [tables, self.runs.bytes(), spare, buffers, columns, lent]
            .into_iter()
            .fold(0, usize::saturating_add)
    }

    /// What the next table will need: rows that had taken that would have the one that all wait for
    /// pass the budget by it.
    fn room_to_keep(&self) -> usize {
        self.tables.room_to_keep()
    }

    /// What is left where so many bytes are taken, and the next table has its room.
    fn left_of_budget(&self, taken: usize) -> usize {
        self.options.memory_budget.saturating_sub(taken.saturating_add(self.room_to_keep()))
    }

    /// Bytes that the buffer of one more batch adds.
    fn next_batch_bytes(&self) -> usize {
        self.batch_buffers.get().map_or(0, |pool| pool.next_bytes())
    }

    /// The slots of a new batch of `n_rows` rows; none where rows have buffers of their own.
    fn new_slots(&self, n_rows: usize) -> Vec<AlignedBuf> {
        let slot_bytes = self.dataset.get().map_or(0, Dataset::slot_bytes);
        match self.batch_buffers.get() {
            Some(pool) if slot_bytes > 0 => {
                let mut slots = pool.take().split(self.options.rows_per_batch(), slot_bytes);
                slots.truncate(n_rows);
                slots
            }
            _ => Vec::new(),
        }
    }
}
