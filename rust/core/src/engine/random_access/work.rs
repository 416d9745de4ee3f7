//! What reading and decoding threads do for random access.

use std::{
    sync::{Arc, atomic::AtomicU64},
    time::{Duration, Instant},
};

use super::requests::{RequestQueue, Ticket};
use crate::{
    batch::{Batch, Row},
    engine::{
        cache::Lookup,
        dataset::Dataset,
        join::join,
        row::{
            AfterDecoding, Attempt, Context, Ready, RowDecoder, RowReader, RowTask, Slots, Stage,
        },
        work::{Grant, Queue, ReaderCount, Work},
    },
    error::{Error, Result},
    memory::{Lease, Permit},
};
use gristmill_audio::Decoder;

/// What all threads of random access refer to.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) context: Arc<Context>,
    pub(super) reader_count: ReaderCount,
    pub(super) reader: RowReader,
    pub(super) decoder: RowDecoder,
    pub(super) queue: Arc<RequestQueue>,
    /// Counts the tickets of the queue.
    pub(super) numbers: AtomicU64,
}

impl Shared {
    pub(super) fn dataset(&self) -> Result<&Dataset> {
        let dataset = self.context.dataset.get();
        dataset.ok_or_else(|| Error::internal("the shards are not open"))
    }

    /// A row without blobs whose table is cached: handing it to a thread would take longer than
    /// copying it here.
    pub(super) fn cached(&self, dataset: &Dataset, index: u64) -> Result<Option<Result<Batch>>> {
        if !dataset.blobs.is_empty() || self.context.is_closed() {
            return Ok(None);
        }
        let step = dataset.step(index)?;
        let Some((batch, table_row)) = dataset.shard(step)?.locate(step.row.row) else {
            return Ok(None);
        };
        let Lookup::Loaded(table) = self.reader.tables.cache.find((step.row.shard, batch)) else {
            return Ok(None);
        };
        let ready = Ready::without_blobs(table, table_row);
        let stage = Stage::Ready(ready);
        let row = RowTask { index, attempt: Attempt::first(step), stage };
        let row = row.into_encoded(&self.context.account);
        Ok(Some(self.element(dataset, row, Vec::new())))
    }

    /// The element of one row.
    fn element(&self, dataset: &Dataset, row: Result<Row>, leases: Vec<Lease>) -> Result<Batch> {
        join(&self.context, dataset, row.map(|row| vec![row]), leases, None).0
    }

    /// Reads a row to its end, or parks it.
    fn read(
        &self,
        dataset: &Dataset,
        (mut task, mut ticket): (Box<RowTask>, Ticket),
        mut permit: Option<Permit>,
    ) {
        let number = ticket.number();
        loop {
            match self.reader.advance(dataset, &mut task, permit.take()) {
                Ok(Some(wait)) => {
                    permit = self.queue.bytes_at_once(wait);
                    if permit.is_some() {
                        continue;
                    }
                    let row = (task, ticket);
                    match self.queue.update(|queue| queue.park(number, row, wait)) {
                        Some((back, granted)) => ((task, ticket), permit) = (back, granted),
                        None => return,
                    }
                }
                Ok(None) => break,
                Err(_) if self.context.is_closed() => return drop(ticket),
                Err(error) => return ticket.finish(Err(error)),
            }
        }
        self.reader_count.rows_read(1, self.context.store.metrics());
        if dataset.is_decoding() {
            self.queue.update(|queue| queue.push_read(number, (task, ticket)));
        } else {
            let row = task.into_encoded(&self.context.account);
            ticket.finish(self.element(dataset, row, Vec::new()));
        }
    }

    fn decode(&self, dataset: &Dataset, decoder: &mut Decoder, row: Box<RowTask>, ticket: Ticket) {
        match self.try_decode(dataset, decoder, row, ticket) {
            Ok(()) => {}
            Err((error, ticket)) => ticket.finish(Err(error)),
        }
    }

    fn try_decode(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        row: Box<RowTask>,
        ticket: Ticket,
    ) -> Result<(), (Error, Ticket)> {
        let account = &self.context.account;
        let mut permit = account.take(dataset.slot_bytes());
        let (mut slots, leases) =
            match Slots::of_rows(1, &dataset.slot_sizes, (account, &mut permit)) {
                Ok((mut rows, leases)) => (rows.pop(), leases),
                Err(error) => return Err((error, ticket)),
            };
        match self.decoder.decode_row(dataset, decoder, row, &mut slots) {
            // What was cancelled is closed, and nothing is known about the row.
            AfterDecoding::Finished(Err(_)) if self.context.is_closed() => drop(ticket),
            AfterDecoding::Finished(row) => ticket.finish(self.element(dataset, row, leases)),
            AfterDecoding::Reads(task) => {
                let number = ticket.number();
                self.queue.update(|queue| queue.replace(number, (task, ticket), None));
            }
        }
        Ok(())
    }
}

/// What reading threads do.
pub(super) struct ReadWork(pub(super) Arc<Shared>);

impl Work for ReadWork {
    fn n_ready(&self) -> usize {
        self.0.queue.n_readable()
    }

    fn max_threads(&self) -> usize {
        self.0.reader_count.get()
    }

    fn run(&self, slice: Duration) {
        let Shared { context, queue, .. } = &*self.0;
        let Ok(dataset) = self.0.dataset() else { return };
        let began = Instant::now();
        while !context.is_closed()
            && let Some(Grant::Resume { parked, permit }) = queue.update(Queue::next_read)
        {
            self.0.read(dataset, parked, permit);
            if began.elapsed() >= slice {
                break;
            }
        }
    }

    /// The row's ticket has told its caller.
    fn panicked(&self, _message: String) {}
}

/// What decoding threads do.
pub(super) struct DecodeWork(pub(super) Arc<Shared>);

impl Work for DecodeWork {
    fn n_ready(&self) -> usize {
        self.0.queue.n_read()
    }

    fn max_threads(&self) -> usize {
        self.0.context.options.n_threads()
    }

    fn run(&self, slice: Duration) {
        let Shared { context, queue, decoder: decoders, .. } = &*self.0;
        let Ok(dataset) = self.0.dataset() else { return };
        decoders.with_decoder(|decoder| {
            let began = Instant::now();
            while !context.is_closed()
                && let Some((_, (row, ticket), _)) = queue.update(Queue::next_decode)
            {
                self.0.decode(dataset, decoder, row, ticket);
                if began.elapsed() >= slice {
                    break;
                }
            }
        });
    }

    /// As for reading.
    fn panicked(&self, _message: String) {}
}
