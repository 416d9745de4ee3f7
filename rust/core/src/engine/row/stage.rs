//! What decoding threads do with a row: decode it, remember what was learned of its recording, and have
//! something else read if its audio cannot be used.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use super::{
    context::Context,
    decode::{Decoded, Learned, decode, without_audio},
    replace::{is_of_row, is_replaced},
    slots::Slots,
    task::{Finish, RowTask, Stage},
};
use crate::{
    batch::{Row, RowOutcome},
    engine::dataset::Dataset,
    error::{Error, Result},
    shard::Shard,
    sync::lock_std,
};
use gristmill_audio::Decoder;

/// Decodes the rows of one stream, or those that are asked for, on any thread.
#[derive(Debug)]
pub(crate) struct RowDecoder {
    context: Arc<Context>,
    /// Decoders that no thread uses, which keep tables between rows.
    idle: Mutex<Vec<Decoder>>,
}

/// What is to be done with a row next.
#[derive(Debug)]
pub(crate) enum AfterDecoding {
    /// It is finished, or has failed.
    Finished(Result<Row>),
    /// Something must be read for it.
    Reads(Box<RowTask>),
}

impl RowDecoder {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), idle: Mutex::default() }
    }

    /// Runs `work` with a decoder of this thread's own.
    pub(crate) fn with_decoder<T>(&self, work: impl FnOnce(&mut Decoder) -> T) -> T {
        let mut decoder = lock_std(&self.idle).pop().unwrap_or_else(|| {
            let mut decoder = Decoder::default();
            decoder.set_cancel(Arc::clone(&self.context.closed));
            decoder
        });
        let result = work(&mut decoder);
        lock_std(&self.idle).push(decoder);
        result
    }

    /// Frees what is kept between rows.
    pub(crate) fn clear(&self) {
        lock_std(&self.idle).clear();
    }

    /// Decodes a row that was read, in `slots` if there are some. The slots stay with the caller where something
    /// else must be read for the row.
    pub(crate) fn decode_row(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        mut row: Box<RowTask>,
        slots: &mut Option<Slots>,
    ) -> AfterDecoding {
        let mut ready = match row.take_ready() {
            Ok(ready) => ready,
            Err(error) => return AfterDecoding::Finished(Err(error)),
        };
        let account = &self.context.account;
        let outcome = row.attempt.outcome;
        if outcome != RowOutcome::Valid {
            let emptied = without_audio(dataset, (&mut ready, outcome), (slots, account));
            let row = emptied.and_then(|()| ready.finish(row.attempt, account, Finish::default()));
            return AfterDecoding::Finished(row);
        }
        let began = Instant::now();
        let id = row.attempt.step.row;
        let (of_row, into) = ((&row.attempt, &mut ready), (slots, account));
        let learn = |learned| self.learn(id.shard, learned);
        let decoded = decode(dataset, decoder, of_row, into, learn);
        let (took, resampling) = (began.elapsed(), decoder.take_resampling());
        let metrics = &self.context.metrics;
        metrics.decode.record(took.saturating_sub(resampling));
        if !resampling.is_zero() {
            metrics.resample.record(resampling);
        }
        let counts = dataset.row_counts.get(id.shard as usize);
        match decoded {
            Ok(Decoded::Done(finish)) => {
                if let Some(counts) = counts {
                    counts.good(!finish.extras.damage.is_empty(), took);
                }
                AfterDecoding::Finished(ready.finish(row.attempt, account, finish))
            }
            Ok(Decoded::Again(start)) => {
                self.context.audio_index.forget(id.shard, start);
                row.attempt.is_whole = true;
                AfterDecoding::Reads(row)
            }
            Err(error) => {
                if let Some(counts) = counts.filter(|_| is_of_row(&error)) {
                    counts.bad(took);
                }
                let error = located(dataset, &row, error);
                if !is_replaced(self.context.options.on_error, &error) {
                    return AfterDecoding::Finished(Err(error));
                }
                row.stage = Stage::Bad(ready, error);
                AfterDecoding::Reads(row)
            }
        }
    }

    /// Remembers what was learned of a recording of this shard.
    fn learn(&self, shard: u32, Learned { entry, spared }: Learned) {
        let Context { audio_index, metrics, .. } = &*self.context;
        if let Some((start, found)) = &entry {
            audio_index.learned(shard, *start, found.as_ref().map(Option::as_ref));
        }
        if let Some(n_bytes) = spared {
            metrics.spared(n_bytes);
        }
    }
}

fn located(dataset: &Dataset, row: &RowTask, error: Error) -> Error {
    let shard = dataset.shard(row.attempt.step).ok().map(Shard::name);
    let error = match shard {
        Some(shard) => error.in_shard(shard),
        None => error,
    };
    error.in_row(row.attempt.step.row.row)
}
