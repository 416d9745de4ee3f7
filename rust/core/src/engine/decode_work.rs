//! The decoding threads' work for a stream.

use std::{sync::Arc, time::Instant};

use super::{
    assembler::Assembler,
    context::StreamContext,
    dataset::Dataset,
    decoders::{Decoded, RowDecoder},
    pool::{TIME_SLICE, Work},
    queue::Queue,
    row_task::ReadTask,
};
use crate::error::{Error, ErrorKind};
use gristmill_audio::Decoder;

/// The decoders of one stream.
#[derive(Debug)]
pub(super) struct Decoders {
    context: Arc<StreamContext>,
    assembler: Arc<Assembler>,
    rows: RowDecoder,
}

impl Work for Decoders {
    fn n_ready(&self) -> usize {
        self.context.queue.n_read()
    }

    fn max_threads(&self) -> usize {
        self.context.options.n_threads()
    }

    fn run(&self, is_alone: bool) {
        let Some(dataset) = self.context.dataset.get() else { return };
        self.rows.with_decoder(|decoder| {
            let began = Instant::now();
            while !self.context.is_closed() && self.decode_next(dataset, decoder) {
                if !is_alone || began.elapsed() > TIME_SLICE {
                    break;
                }
            }
        });
    }

    fn panicked(&self, message: String) {
        self.context.queue.fail(Error::new(ErrorKind::WorkerPanicked(message)));
    }
}

impl Decoders {
    pub(super) fn new(context: &Arc<StreamContext>, assembler: Arc<Assembler>) -> Self {
        let rows = RowDecoder::new(&context.context);
        Self { context: Arc::clone(context), assembler, rows }
    }

    /// Frees what is kept between rows.
    pub(super) fn clear(&self) {
        self.rows.clear();
    }

    /// Decodes the first of the rows that are read. Returns whether there was one.
    fn decode_next(&self, dataset: &Dataset, decoder: &mut Decoder) -> bool {
        let next = self.context.update(Queue::next_decode);
        let Some((index, read, mut slot)) = next else { return false };
        match self.rows.decode_row(dataset, decoder, (index, read), &mut slot) {
            Decoded::Row(row) => {
                let complete = self.context.update(|queue| queue.finish_decoded(index, row));
                if let Some(complete) = complete {
                    self.assembler.finish(dataset, complete);
                }
            }
            Decoded::Reads(task) => {
                let task = ReadTask::Row(task);
                self.context.update(|queue| queue.replace(index, task, slot));
            }
        }
        true
    }
}
