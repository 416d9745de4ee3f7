//! The reading threads' work for a stream: opening its shards, then claiming and reading rows.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::context::{ReadTask, StreamContext, StreamItems};
use crate::{
    batch::Row,
    engine::{
        cache::Lookup,
        dataset::{Dataset, KEPT_SHARE, Remainder, Start},
        join::join,
        opening,
        row::{Attempt, BatchTask, Context, RowReader, RowTask, Slots, load_ahead},
        wait::WaitFor,
        work::{CompleteBatch, Grant, Limits, Queue, RowLoop, Work},
    },
    error::{Error, ErrorKind, Result},
    memory::{Lease, Permit},
    shard::{Blob, open_files},
};

/// The files of the shards of the first rows are opened at the start, before they are read: of at
/// most this many rows and shards.
const MAX_FIRST_ROWS: u64 = 4096;
const MAX_FIRST_SHARDS: usize = 128;

/// How many tables idle readers load ahead in file order: with one alone, a round trip of the storage
/// would be waited for between two loads.
const IDLE_TABLES: usize = 2;

/// The readers of one stream.
#[derive(Debug)]
pub(crate) struct Readers {
    context: Arc<StreamContext>,
    start: Start,
    is_opening: AtomicBool,
    reader: RowReader,
}

/// What a reader has claimed.
enum Claimed {
    /// A row.
    Row(u64),
    /// The rows of a batch, and the bytes that are reserved for its columns.
    Batch(Range<u64>, Option<Permit>),
    /// What was parked, with the bytes that it waited for.
    Parked(ReadTask, Option<Permit>),
}

/// What has come of a row.
enum ReadOutcome {
    /// It is to be decoded.
    Read(u64, Box<RowTask>),
    Finished(u64, Result<Box<Row>>),
}

/// The work of one thread.
struct Reading<'a> {
    readers: &'a Readers,
    dataset: &'a Dataset,
}

impl RowLoop for Reading<'_> {
    type Items = StreamItems;
    type Claimed = Claimed;
    type Outcome = ReadOutcome;

    fn update<T>(&self, change: impl FnOnce(&mut Queue<StreamItems>) -> T) -> T {
        self.readers.context.update(change)
    }

    fn claim(&self, queue: &mut Queue<StreamItems>) -> Option<Claimed> {
        self.readers.claim(self.dataset, queue)
    }

    fn work(&mut self, claimed: Claimed) -> Option<ReadOutcome> {
        self.readers.read(self.dataset, claimed)
    }

    fn report(
        outcome: ReadOutcome,
        queue: &mut Queue<StreamItems>,
    ) -> Option<CompleteBatch<StreamItems>> {
        match outcome {
            ReadOutcome::Read(index, read) => {
                queue.push_read(index, read);
                None
            }
            ReadOutcome::Finished(index, row) => queue.finish_read(index, row),
        }
    }

    fn join(&self, complete: CompleteBatch<StreamItems>) {
        self.readers.context.finish(self.dataset, complete);
    }
}

impl Work for Readers {
    fn n_ready(&self) -> usize {
        self.context.queue.n_readable()
    }

    fn max_threads(&self) -> usize {
        let options = &self.context.options;
        match self.context.dataset.get() {
            // A reader claims a whole batch, so that no more of them than open batches have work. Others
            // load ahead meanwhile, so that no batch whose rows are there waits for such a load.
            Some(dataset) if dataset.has_whole_batches => {
                let n_idle = if dataset.loads_ahead(options) { IDLE_TABLES } else { 0 };
                let most = options.max_open_batches().saturating_add(n_idle);
                self.context.reader_count.get().min(most)
            }
            _ => self.context.reader_count.get(),
        }
    }

    fn run(&self, slice: Duration) {
        let Some(dataset) = self.context.dataset.get() else { return self.open() };
        if self.context.is_closed() {
            return;
        }
        let began = Instant::now();
        let goes_on = || !self.context.is_closed() && began.elapsed() < slice;
        Reading { readers: self, dataset }.run(goes_on);
        if dataset.has_whole_batches && self.context.queue.n_readable() == 0 {
            let next = self.context.queue.read(Queue::first_unfinished);
            load_ahead(&self.reader.tables, dataset, next, IDLE_TABLES);
        }
    }

    fn panicked(&self, message: String) {
        self.context.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

impl Readers {
    pub(crate) fn new(context: &Arc<StreamContext>, start: Start, reader: RowReader) -> Self {
        let context = Arc::clone(context);
        Self { context, start, is_opening: AtomicBool::new(false), reader }
    }

    /// Frees cached tables and blocks.
    pub(crate) fn clear(&self) {
        self.reader.clear();
    }

    /// `(hits, loads, bytes now)` of tables.
    pub(crate) fn table_counts(&self) -> (u64, u64, usize) {
        self.reader.tables.cache.counts()
    }

    /// Where the recording of a row lies in its shard: the value of the first column that is read row by
    /// row. `None` where it is nowhere by itself, and once the table that tells is no longer cached.
    pub(crate) fn find_range(&self, dataset: &Dataset, shard: u32, row: u64) -> Option<Range<u64>> {
        let (batch, table_row) = dataset.shards.get(shard as usize)?.locate(row)?;
        let Lookup::Loaded(table) = self.reader.tables.cache.find((shard, batch)) else {
            return None;
        };
        match table.blob(0, table_row)? {
            Blob::Range(range) => Some(range),
            Blob::Bytes(_) => None,
        }
    }

    /// Opens the shards, and begins the stream.
    fn open(&self) {
        if self.is_opening.swap(true, Ordering::SeqCst) {
            return;
        }
        // Only the thread that opens: another could undo the beginning of the stream.
        self.context.queue.clear_readable();
        if let Err(error) = self.try_open() {
            self.context.queue.fail(error);
        }
    }

    fn try_open(&self) -> Result<()> {
        let Context { options, store, metrics, .. } = &**self.context;
        let mut dataset = opening::open(options, store, Some(&self.context.progress))?;
        let rows_per_batch = options.rows_per_batch() as u64;
        let (first, position) = self.start.resume(&mut dataset, rows_per_batch)?;
        let mut end = dataset.order.len().unwrap_or(u64::MAX);
        if options.remainder == Remainder::Pad
            && let Some(most) = dataset.order.most_left()
        {
            dataset.set_own_end(end);
            end = first.saturating_add(most.next_multiple_of(rows_per_batch));
        }
        if options.remainder == Remainder::Drop {
            end = first.saturating_add(end.saturating_sub(first) / rows_per_batch * rows_per_batch);
        }
        let batch_bytes = dataset.slot_bytes().saturating_mul(options.rows_per_batch());
        let bookkeeping = size_of::<Result<Row>>().saturating_mul(options.rows_per_batch());
        if batch_bytes.saturating_add(bookkeeping) > options.memory_budget {
            return Err(Error::limit(format!(
                "a batch of {rows_per_batch} rows takes {} bytes, more than the memory budget of {} \
                 bytes; raise memory_budget to several times that, or lower batch_size",
                batch_bytes.saturating_add(bookkeeping),
                options.memory_budget
            )));
        }
        let whole_batches = dataset.has_whole_batches;
        let n_urgent = if dataset.blobs.is_empty() {
            0
        } else {
            rows_per_batch.min(end.saturating_sub(first))
        };
        dataset.set_start(position, first..first.saturating_add(n_urgent));
        metrics.opened(store.metrics());
        self.context.audio_index.open(&dataset.shards);
        let dataset = self.context.dataset.get_or_init(|| dataset);
        let limits = Limits {
            rows_per_batch,
            max_open_batches: options.max_open_batches(),
            batch_bytes,
            whole_batches,
            max_parked: 2 * self.context.reader_count.most(),
            n_urgent,
        };
        self.context.update(|queue| queue.begin(first..end, limits));
        let n_first = rows_per_batch.saturating_mul(options.max_open_batches() as u64);
        let first_end = first.saturating_add(n_first.min(MAX_FIRST_ROWS));
        let mut shards = dataset.shards_of(first..end.min(first_end));
        shards.truncate(MAX_FIRST_SHARDS);
        open_files(shards, options.n_openers());
        Ok(())
    }

    /// Claims what can be read next. Called under the queue's lock.
    fn claim(&self, dataset: &Dataset, queue: &mut Queue<StreamItems>) -> Option<Claimed> {
        loop {
            match queue.next_read()? {
                Grant::Open(permit) => {
                    match self.batch_buffer(dataset, queue.n_rows_to_open(), permit) {
                        Ok((slots, leases, reserved)) => {
                            queue.open_batch(slots, leases, reserved);
                        }
                        Err(error) => {
                            queue.fail(error);
                            return None;
                        }
                    }
                }
                Grant::Claim(rows) if dataset.has_whole_batches => {
                    let reserved = queue.take_reserved(rows.start);
                    return Some(Claimed::Batch(rows, reserved));
                }
                Grant::Claim(rows) => return Some(Claimed::Row(rows.start)),
                Grant::Resume { parked, permit } => return Some(Claimed::Parked(parked, permit)),
            }
        }
    }

    /// Reads what was claimed as far as possible now. Returns what has come of a row.
    fn read(&self, dataset: &Dataset, claimed: Claimed) -> Option<ReadOutcome> {
        match claimed {
            Claimed::Parked(ReadTask::Row(row), permit) => self.read_row(dataset, row, permit),
            Claimed::Parked(ReadTask::Batch(batch), permit) => {
                self.read_batch(dataset, batch, permit);
                None
            }
            Claimed::Batch(rows, reserved) => {
                match BatchTask::new(&self.reader.tables, dataset, &rows, reserved) {
                    Ok(batch) => self.read_batch(dataset, Box::new(batch), None),
                    Err(error) => {
                        self.context.update(|q| q.finish_whole(rows.start, Err(error), 0));
                    }
                }
                None
            }
            Claimed::Row(index) => match dataset.step(index) {
                Ok(step) => {
                    let is_padding = dataset.is_padding(index);
                    let attempt =
                        if is_padding { Attempt::padding(step) } else { Attempt::first(step) };
                    self.read_row(dataset, Box::new(RowTask::new(index, attempt)), None)
                }
                Err(error) => Some(ReadOutcome::Finished(index, Err(error))),
            },
        }
    }

    /// The slots of a new batch of `n_rows` rows, the leases of their buffers, and the bytes that are
    /// reserved for other columns.
    fn batch_buffer(
        &self,
        dataset: &Dataset,
        n_rows: usize,
        mut permit: Permit,
    ) -> Result<(Vec<Slots>, Vec<Lease>, Option<Permit>)> {
        let memory = (&self.context.account, &mut permit);
        let rows_per_batch = self.context.options.rows_per_batch();
        let (mut slots, leases) = Slots::of_rows(rows_per_batch, &dataset.slot_sizes, memory)?;
        slots.truncate(n_rows);
        Ok((slots, leases, Some(permit)))
    }

    /// Reads a row to its end, or parks it.
    fn read_row(
        &self,
        dataset: &Dataset,
        mut row: Box<RowTask>,
        mut permit: Option<Permit>,
    ) -> Option<ReadOutcome> {
        let index = row.index;
        loop {
            let wait = match self.reader.advance(dataset, &mut row, permit.take()) {
                Ok(None) => break,
                Ok(Some(wait)) => wait,
                Err(error) => return Some(ReadOutcome::Finished(index, Err(error))),
            };
            permit = self.context.queue.bytes_at_once(wait);
            if permit.is_none() {
                let parked = ReadTask::Row(row);
                match self.context.update(|queue| queue.park(index, parked, wait)) {
                    Some((ReadTask::Row(back), granted)) => (row, permit) = (back, granted),
                    Some((ReadTask::Batch(_), _)) | None => return None,
                }
            }
        }
        self.context.reader_count.rows_read(1, self.context.store.metrics());
        Some(if dataset.is_decoding() {
            ReadOutcome::Read(index, row)
        } else {
            // Handing a row over that is not decoded would take longer than finishing it here.
            let row = row.into_encoded(&self.context.account);
            ReadOutcome::Finished(index, row.map(Box::new))
        })
    }

    /// Looks up the rows of a batch and joins them, or parks it.
    fn read_batch(&self, dataset: &Dataset, mut batch: Box<BatchTask>, mut permit: Option<Permit>) {
        let first = batch.first;
        let tables = &self.reader.tables;
        while let Some(wait) = batch.advance(tables, dataset, permit.take()) {
            let parked = ReadTask::Batch(batch);
            match self.context.update(|queue| queue.park(first, parked, wait)) {
                Some((ReadTask::Batch(back), granted)) => (batch, permit) = (back, granted),
                None if matches!(wait, WaitFor::Load { .. }) => {
                    let n_ahead = self.context.options.n_threads().saturating_sub(1);
                    return load_ahead(tables, dataset, first, n_ahead);
                }
                Some((ReadTask::Row(_), _)) | None => return,
            }
        }
        let n_rows = self.context.options.rows_per_batch() as u64;
        self.context.reader_count.rows_read(n_rows, self.context.store.metrics());
        let reserved = batch.reserved.take();
        let (batch, other_bytes) =
            join(&self.context, dataset, batch.into_rows(), Vec::new(), reserved);
        let unfinished = self.context.update(|queue| {
            queue.finish_whole(first, batch, other_bytes);
            queue.first_unfinished()
        });
        let options = &self.context.options;
        if options.is_file_order()
            && let Ok(step) = dataset.step(unfinished)
            && let Ok(shard) = dataset.shard(step)
            && let Some((batch, _)) = shard.locate(step.row.row)
        {
            let kept = options.memory_budget / KEPT_SHARE;
            tables.cache.remove_before((step.row.shard, batch), kept);
        }
    }
}
