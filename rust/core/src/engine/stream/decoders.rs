//! The decoding threads' work for a stream.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::context::{ReadTask, StreamContext, StreamItems};
use crate::{
    batch::Row,
    engine::{
        dataset::Dataset,
        row::{AfterDecoding, RowDecoder, RowTask, Slots},
        work::{CompleteBatch, Queue, RowLoop, Work},
    },
    error::{Error, ErrorKind, Result},
};
use gristmill_audio::Decoder;

/// The decoders of one stream.
#[derive(Debug)]
pub(crate) struct Decoders {
    context: Arc<StreamContext>,
    rows: RowDecoder,
}

impl Work for Decoders {
    fn n_ready(&self) -> usize {
        self.context.queue.n_read()
    }

    fn max_threads(&self) -> usize {
        self.context.options.n_threads()
    }

    fn run(&self, slice: Duration) {
        let Some(dataset) = self.context.dataset.get() else { return };
        if self.context.is_closed() {
            return;
        }
        self.rows.with_decoder(|decoder| {
            let began = Instant::now();
            let goes_on = || !self.context.is_closed() && began.elapsed() < slice;
            Decoding { decoders: self, dataset, decoder }.run(goes_on);
        });
    }

    fn panicked(&self, message: String) {
        self.context.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

impl Decoders {
    pub(crate) fn new(context: &Arc<StreamContext>) -> Self {
        let rows = RowDecoder::new(&context.context);
        Self { context: Arc::clone(context), rows }
    }

    /// Frees what is kept between rows.
    pub(crate) fn clear(&self) {
        self.rows.clear();
    }
}

/// A row that is read, and its slots.
type ReadRow = (u64, Box<RowTask>, Option<Slots>);

/// What has come of a row.
enum DecodeOutcome {
    Finished(u64, Result<Box<Row>>),
    /// Something must be read for it. Its slots are free again.
    Replaced(u64, Box<RowTask>, Option<Slots>),
}

/// The work of one thread.
struct Decoding<'a> {
    decoders: &'a Decoders,
    dataset: &'a Dataset,
    decoder: &'a mut Decoder,
}

impl RowLoop for Decoding<'_> {
    type Items = StreamItems;
    type Claimed = ReadRow;
    type Outcome = DecodeOutcome;

    fn update<T>(&self, change: impl FnOnce(&mut Queue<StreamItems>) -> T) -> T {
        self.decoders.context.update(change)
    }

    fn claim(&self, queue: &mut Queue<StreamItems>) -> Option<ReadRow> {
        queue.next_decode()
    }

    fn work(&mut self, (index, read, mut slots): ReadRow) -> Option<DecodeOutcome> {
        let Self { decoders, dataset, decoder } = self;
        Some(match decoders.rows.decode_row(dataset, decoder, read, &mut slots) {
            AfterDecoding::Finished(row) => DecodeOutcome::Finished(index, row.map(Box::new)),
            AfterDecoding::Reads(task) => DecodeOutcome::Replaced(index, task, slots),
        })
    }

    fn report(
        outcome: DecodeOutcome,
        queue: &mut Queue<StreamItems>,
    ) -> Option<CompleteBatch<StreamItems>> {
        match outcome {
            DecodeOutcome::Finished(index, row) => queue.finish_decoded(index, row),
            DecodeOutcome::Replaced(index, task, slots) => {
                queue.replace(index, ReadTask::Row(task), slots);
                None
            }
        }
    }

    fn join(&self, complete: CompleteBatch<StreamItems>) {
        self.decoders.context.finish(self.dataset, complete);
    }
}
