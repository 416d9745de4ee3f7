//! What the reading threads do for a stream: open its shards, then claim rows and read them.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use super::{
    assembler::Assembler,
    context::Context,
    dataset::Dataset,
    decoders::Finishing,
    pool::Work,
    queue::{Claim, Grant, Limits},
    read::Reader,
    resume::Start,
    row::{Attempt, Reading, RowReading, Stage},
    whole::BatchReading,
};
use crate::{
    batch::Row,
    error::{Error, ErrorKind, Result},
    memory::{AlignedBuf, Lease, Permit},
    shard::open_files,
};

/// For this many rows of the stream the files are opened ahead at the start, and of this many shards.
const MAX_ROWS: u64 = 4096;
const MAX_OPENED: usize = 128;

/// A thread reads on for this long before it asks again whose turn it is, while no other iterator
/// has work.
const TURN: Duration = Duration::from_millis(1);

/// In file order, tables whose rows have all gone may take one part in this many of the budget:
/// enough to keep a small data set for the next epoch.
const KEPT_BEHIND: usize = 64;

/// The readers of one stream.
#[derive(Debug)]
pub(super) struct Readers {
    context: Arc<Context>,
    start: Start,
    is_opening: AtomicBool,
    reader: Reader,
    assembler: Arc<Assembler>,
}

impl Work for Readers {
    fn n_ready(&self) -> usize {
        self.context.queue.n_readable()
    }

    fn max_threads(&self) -> usize {
        let options = &self.context.options;
        match self.context.dataset.get() {
            // A reader takes a batch at a time: more of them than may be open find nothing to do.
            Some(dataset) if dataset.blobs.is_empty() => {
                options.n_readers().min(options.look_ahead())
            }
            _ => options.n_readers(),
        }
    }

    fn run(&self, is_alone: bool) {
        let Some(dataset) = self.context.dataset.get() else { return self.open() };
        let began = Instant::now();
        while !self.context.is_closed() && self.read_next(dataset) {
            if !is_alone || began.elapsed() > TURN {
                break;
            }
        }
    }

    fn panicked(&self, message: String) {
        self.context.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

impl Readers {
    pub(super) fn new(start: Start, reader: Reader, assembler: Arc<Assembler>) -> Self {
        let context = Arc::clone(&reader.context);
        Self { context, start, is_opening: AtomicBool::new(false), reader, assembler }
    }

    /// Frees what was read for several rows.
    pub(super) fn clear(&self) {
        self.reader.tables.clear();
        self.reader.runs.clear();
    }

    /// `(found, loaded, bytes now)` of tables.
    pub(super) fn table_counts(&self) -> (u64, u64, usize) {
        self.reader.tables.counts()
    }

    /// Opens the shards, and lets the stream begin.
    fn open(&self) {
        if self.is_opening.swap(true, Ordering::SeqCst) {
            return;
        }
        // Until the stream begins, which another thread must not take back.
        self.context.queue.nothing_to_read();
        if let Err(error) = self.try_open() {
            self.context.queue.fail(error);
        }
    }

    fn try_open(&self) -> Result<()> {
        let Context { options, store, metrics, .. } = &*self.context;
        let mut dataset = Dataset::open(options, store)?;
        let rows_per_batch = options.rows_per_batch() as u64;
        let (first, position) = self.start.find(&mut dataset, rows_per_batch)?;
        let mut end = dataset.order.len().unwrap_or(u64::MAX);
        if options.drop_remainder {
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
        // Rows that have bytes of their own to be read.
        let whole_batches = dataset.blobs.is_empty();
        let asked_first =
            if whole_batches { 0 } else { rows_per_batch.min(end.saturating_sub(first)) };
        dataset.opened_at(first, asked_first, position);
        metrics.opened(store.metrics());
        let dataset = self.context.dataset.get_or_init(|| dataset);
        let limits = Limits {
            rows_per_batch,
            look_ahead: options.look_ahead(),
            batch_bytes,
            whole_batches,
            max_parked: 2 * options.n_readers(),
            asked_first,
        };
        self.context.change(|queue| queue.begin(first..end, limits));
        let soon = rows_per_batch.saturating_mul(options.look_ahead() as u64).min(MAX_ROWS);
        let mut shards = dataset.shards_of(first..end.min(first.saturating_add(soon)));
        shards.truncate(MAX_OPENED);
        open_files(shards, options.n_openers());
        Ok(())
    }

    /// Claims what can be read next and reads it, or as much of it as goes without waiting. Whether
    /// there was something.
    fn read_next(&self, dataset: &Dataset) -> bool {
        let mut reserved = None;
        let grant = self.context.change(|queue| {
            loop {
                match queue.next_read() {
                    Some(Grant::Open(permit)) => {
                        match self.batch_buffer(dataset, queue.n_rows_to_open(), permit) {
                            Ok((slots, rest, reserved)) => queue.open_batch(slots, rest, reserved),
                            Err(error) => {
                                queue.fail(error);
                                return None;
                            }
                        }
                    }
                    // What is set aside for a whole batch goes with it.
                    Some(Grant::Claim(Claim { rows })) if dataset.blobs.is_empty() => {
                        reserved = queue.take_reserved(rows.start);
                        return Some(Grant::Claim(Claim { rows }));
                    }
                    other => return other,
                }
            }
        });
        match grant {
            None | Some(Grant::Open(_)) => return false,
            Some(Grant::Resume { parked: Reading::Row(row), permit }) => {
                self.read(dataset, row, permit);
            }
            Some(Grant::Resume { parked: Reading::Batch(batch), permit }) => {
                self.read_batch(dataset, batch, permit);
            }
            Some(Grant::Claim(Claim { rows })) if dataset.blobs.is_empty() => {
                match self.reader.batch(dataset, &rows, reserved) {
                    Ok(batch) => self.read_batch(dataset, Box::new(batch), None),
                    Err(error) => {
                        self.context.change(|q| q.finish_whole(rows.start, Err(error), 0));
                    }
                }
            }
            Some(Grant::Claim(Claim { rows })) => match dataset.step(rows.start) {
                Ok(step) => {
                    let (index, attempt) = (rows.start, Attempt::first(step));
                    let row = RowReading { index, attempt, stage: Stage::Table };
                    self.read(dataset, Box::new(row), None);
                }
                Err(error) => self.file(dataset, rows.start, Err(error)),
            },
        }
        true
    }

    /// The slots of a new batch of `n_rows` rows, what is left of their buffer, and what is set aside
    /// for other columns.
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
        let (mut slots, rest) = buffer.into_slots(rows_per_batch, slot_bytes);
        slots.truncate(n_rows);
        Ok((slots, rest, Some(permit)))
    }

    /// Reads a row to its end, or parks it.
    fn read(&self, dataset: &Dataset, mut row: Box<RowReading>, mut permit: Option<Permit>) {
        let index = row.index;
        loop {
            match self.reader.advance(dataset, &mut row, permit.take()) {
                Ok(None) => break,
                Ok(Some(need)) => {
                    let parked = Reading::Row(row);
                    match self.context.change(|queue| queue.park(index, parked, need)) {
                        Some((Reading::Row(back), granted)) => (row, permit) = (back, granted),
                        Some((Reading::Batch(_), _)) | None => return,
                    }
                }
                Err(error) => return self.file(dataset, index, Err(error)),
            }
        }
        match Reader::finished(*row) {
            Ok(read) if dataset.audio.is_some() => {
                self.context.change(|queue| queue.push_read(index, read));
            }
            // Nothing of it is decoded: handing it over would cost more.
            Ok(read) => {
                let row = Finishing::of(read).encoded(&self.context.account);
                self.file(dataset, index, row);
            }
            Err(error) => self.file(dataset, index, Err(error)),
        }
    }

    fn file(&self, dataset: &Dataset, index: u64, row: Result<Row>) {
        let complete = self.context.change(|queue| queue.file_read(index, row));
        if let Some(complete) = complete {
            self.assembler.finish(dataset, complete);
        }
    }

    /// Finds the rows of a batch and assembles it, or parks it.
    fn read_batch(
        &self,
        dataset: &Dataset,
        mut batch: Box<BatchReading>,
        mut permit: Option<Permit>,
    ) {
        let first = batch.first;
        while let Some(need) = self.reader.advance_batch(dataset, &mut batch, permit.take()) {
            let parked = Reading::Batch(batch);
            match self.context.change(|queue| queue.park(first, parked, need)) {
                Some((Reading::Batch(back), granted)) => (batch, permit) = (back, granted),
                Some((Reading::Row(_), _)) | None => return,
            }
        }
        let reserved = batch.reserved.take();
        let (batch, other_bytes) =
            self.assembler.join(dataset, batch.into_rows(), Lease::default(), reserved);
        let unfinished = self.context.change(|queue| {
            queue.finish_whole(first, batch, other_bytes);
            queue.first_unfinished()
        });
        let options = &self.context.options;
        if options.order.is_file_order()
            && let Ok(step) = dataset.step(unfinished)
            && let Ok(shard) = dataset.shard(step)
            && let Some((batch, _)) = shard.locate(step.row.row)
        {
            let kept = options.memory_budget / KEPT_BEHIND;
            self.reader.tables.forget_before((step.row.shard, batch), kept);
        }
    }
}
