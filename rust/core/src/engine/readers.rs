//! The reading threads' work for a stream: opening its shards, then claiming and reading rows.

use std::{
    ops::Range,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Instant,
};

use super::{
    assembler::Assembler,
    batch_task::BatchTask,
    context::{Context, StreamContext},
    dataset::Dataset,
    decoders::DecodedRow,
    load_cache::Lookup,
    options::Remainder,
    pool::{TIME_SLICE, Work},
    queue::{Grant, Limits},
    resume::Start,
    row_reader::RowReader,
    row_task::{Attempt, ReadStage, ReadTask, RowTask},
};
use crate::{
    batch::Row,
    error::{Error, ErrorKind, Result},
    memory::{AlignedBuf, Lease, Permit},
    shard::{Blob, open_files},
};

/// The files of the shards of the first rows are opened at the start, before they are read: of at
/// most this many rows and shards.
const MAX_FIRST_ROWS: u64 = 4096;
const MAX_FIRST_SHARDS: usize = 128;

/// The part of the budget that tables whose rows were all delivered may take in file order, as a
/// divisor: enough to keep a small data set for the next epoch.
const DELIVERED_SHARE: usize = 64;

/// The readers of one stream.
#[derive(Debug)]
pub(super) struct Readers {
    context: Arc<StreamContext>,
    start: Start,
    is_opening: AtomicBool,
    reader: RowReader,
    assembler: Arc<Assembler>,
}

impl Work for Readers {
    fn n_ready(&self) -> usize {
        self.context.queue.n_readable()
    }

    fn max_threads(&self) -> usize {
        let options = &self.context.options;
        match self.context.dataset.get() {
            // A reader claims a whole batch, so that no more of them than open batches have work.
            Some(dataset) if dataset.blobs.is_empty() => {
                options.n_readers().min(options.max_open_batches())
            }
            _ => self.context.reader_count.get(),
        }
    }

    fn run(&self, is_alone: bool) {
        let Some(dataset) = self.context.dataset.get() else { return self.open() };
        let began = Instant::now();
        while !self.context.is_closed() && self.read_next(dataset) {
            if !is_alone || began.elapsed() > TIME_SLICE {
                break;
            }
        }
    }

    fn panicked(&self, message: String) {
        self.context.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

impl Readers {
    pub(super) fn new(start: Start, reader: RowReader, assembler: Arc<Assembler>) -> Self {
        let context = Arc::clone(&assembler.context);
        Self { context, start, is_opening: AtomicBool::new(false), reader, assembler }
    }

    /// Frees cached tables and blocks.
    pub(super) fn clear(&self) {
        self.reader.tables.clear();
        if let Some(blocks) = &self.reader.blocks {
            blocks.clear();
        }
    }

    /// `(hits, loads, bytes now)` of tables.
    pub(super) fn table_counts(&self) -> (u64, u64, usize) {
        self.reader.tables.counts()
    }

    /// Where the recording of a row lies in its shard: the value of the first column that is read row by
    /// row. `None` where it is nowhere by itself, and once the table that tells is no longer cached.
    pub(super) fn find_range(&self, dataset: &Dataset, shard: u32, row: u64) -> Option<Range<u64>> {
        let (batch, table_row) = dataset.shards.get(shard as usize)?.locate(row)?;
        let Lookup::Loaded(table) = self.reader.tables.find((shard, batch)) else { return None };
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
        let mut dataset = Dataset::open(options, store, Some(&self.context.progress))?;
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
        let whole_batches = dataset.blobs.is_empty();
        let n_urgent =
            if whole_batches { 0 } else { rows_per_batch.min(end.saturating_sub(first)) };
        dataset.set_start(position, first..first.saturating_add(n_urgent));
        metrics.opened(store.metrics());
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

    /// Claims what can be read next, and reads it as far as possible now. Returns whether there was
    /// something.
    fn read_next(&self, dataset: &Dataset) -> bool {
        let mut reserved = None;
        let grant = self.context.update(|queue| {
            loop {
                match queue.next_read() {
                    Some(Grant::Open(permit)) => {
                        match self.batch_buffer(dataset, queue.n_rows_to_open(), permit) {
                            Ok((slots, lease, reserved)) => {
                                queue.open_batch(slots, lease, reserved);
                            }
                            Err(error) => {
                                queue.fail(error);
                                return None;
                            }
                        }
                    }
                    Some(Grant::Claim(rows)) if dataset.blobs.is_empty() => {
                        reserved = queue.take_reserved(rows.start);
                        return Some(Grant::Claim(rows));
                    }
                    other => return other,
                }
            }
        });
        match grant {
            None | Some(Grant::Open(_)) => return false,
            Some(Grant::Resume { parked: ReadTask::Row(row), permit }) => {
                self.read_row(dataset, row, permit);
            }
            Some(Grant::Resume { parked: ReadTask::Batch(batch), permit }) => {
                self.read_batch(dataset, batch, permit);
            }
            Some(Grant::Claim(rows)) if dataset.blobs.is_empty() => {
                match self.reader.batch_task(dataset, &rows, reserved) {
                    Ok(batch) => self.read_batch(dataset, Box::new(batch), None),
                    Err(error) => {
                        self.context.update(|q| q.finish_whole(rows.start, Err(error), 0));
                    }
                }
            }
            Some(Grant::Claim(rows)) => match dataset.step(rows.start) {
                Ok(step) => {
                    let (index, mut attempt) = (rows.start, Attempt::first(step));
                    attempt.is_padding = dataset.is_padding(index);
                    let row = RowTask { index, attempt, stage: ReadStage::Table };
                    self.read_row(dataset, Box::new(row), None);
                }
                Err(error) => self.finish(dataset, rows.start, Err(error)),
            },
        }
        true
    }

    /// The slots of a new batch of `n_rows` rows, the lease of their buffer, and the bytes that are
    /// reserved for other columns.
    fn batch_buffer(
        &self,
        dataset: &Dataset,
        n_rows: usize,
        mut permit: Permit,
    ) -> Result<(Vec<AlignedBuf>, Lease, Option<Permit>)> {
        let slot_bytes = dataset.slot_bytes();
        if slot_bytes == 0 {
            return Ok((Vec::new(), Lease::default(), Some(permit)));
        }
        let rows_per_batch = self.context.options.rows_per_batch();
        let n_bytes = slot_bytes.saturating_mul(rows_per_batch);
        let buffer = self.context.account.buffer(n_bytes, permit.split(n_bytes))?;
        let (mut slots, lease) = buffer.into_slots(rows_per_batch, slot_bytes);
        slots.truncate(n_rows);
        Ok((slots, lease, Some(permit)))
    }

    /// Reads a row to its end, or parks it.
    fn read_row(&self, dataset: &Dataset, mut row: Box<RowTask>, mut permit: Option<Permit>) {
        let index = row.index;
        loop {
            match self.reader.advance(dataset, &mut row, permit.take()) {
                Ok(None) => break,
                Ok(Some(wait)) => {
                    let parked = ReadTask::Row(row);
                    match self.context.update(|queue| queue.park(index, parked, wait)) {
                        Some((ReadTask::Row(back), granted)) => (row, permit) = (back, granted),
                        Some((ReadTask::Batch(_), _)) | None => return,
                    }
                }
                Err(error) => return self.finish(dataset, index, Err(error)),
            }
        }
        let Context { reader_count, store, .. } = &**self.context;
        reader_count.row_read(store.metrics());
        match RowReader::finish(*row) {
            Ok(read) if dataset.is_decoding() => {
                self.context.update(|queue| queue.push_read(index, read));
            }
            // Handing a row over that is not decoded would take longer than finishing it here.
            Ok(read) => {
                let row = DecodedRow::new(read).encoded(&self.context.account);
                self.finish(dataset, index, row);
            }
            Err(error) => self.finish(dataset, index, Err(error)),
        }
    }

    fn finish(&self, dataset: &Dataset, index: u64, row: Result<Row>) {
        let complete = self.context.update(|queue| queue.finish_read(index, row));
        if let Some(complete) = complete {
            self.assembler.finish(dataset, complete);
        }
    }

    /// Looks up the rows of a batch and joins them, or parks it.
    fn read_batch(&self, dataset: &Dataset, mut batch: Box<BatchTask>, mut permit: Option<Permit>) {
        let first = batch.first;
        while let Some(wait) = self.reader.advance_batch(dataset, &mut batch, permit.take()) {
            let parked = ReadTask::Batch(batch);
            match self.context.update(|queue| queue.park(first, parked, wait)) {
                Some((ReadTask::Batch(back), granted)) => (batch, permit) = (back, granted),
                Some((ReadTask::Row(_), _)) | None => return,
            }
        }
        let reserved = batch.reserved.take();
        let (batch, other_bytes) =
            self.context.join(dataset, batch.into_rows(), Lease::default(), reserved);
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
            let kept = options.memory_budget / DELIVERED_SHARE;
            self.reader.tables.remove_before((step.row.shard, batch), kept);
        }
    }
}
