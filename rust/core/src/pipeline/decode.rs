//! Decoder threads: from a read row to its slot, and from the last row to the batch.

use std::{sync::Arc, time::Instant};

use super::{Job, Shared, dataset::Dataset, fetch::RawBlob};
use crate::{
    audio::{AudioSpec, Channels, Codec, DecodeError, DecodeReport, Decoder, Reason},
    batch::{AlignedBuf, Batch, BlobValue, DamagedRow, Row, Slots, assemble},
    error::{Error, Result},
    order::hash::hash,
    shard::Shard,
    stats::{self, Role},
};

impl Shared {
    /// The body of a decoder thread: until the stream ends or the pipeline closes.
    pub(super) fn decode_rows(self: &Arc<Self>) {
        let Some(dataset) = self.dataset.get() else { return };
        let _counted = self.at_work(Role::Decoder);
        let mut decoder = Decoder::default();
        decoder.set_cancel(Arc::clone(&self.closed));
        while let Some((mut job, slot)) = self.queue.pop(self) {
            let (index, charged) = (job.index, job.charged);
            let mut blobs = std::mem::take(&mut job.blobs);
            let began = match dataset.audio {
                Some(_) => Some(Instant::now()),
                None => stats::sampled(index),
            };
            let row = self.decode_row(dataset, &mut decoder, job, &mut blobs, slot);
            if let Some(began) = began {
                self.decoded(began.elapsed(), decoder.take_resampling());
            }
            drop(blobs);
            // The row is charged still: its memory may stay where the row itself had room.
            self.row_buffers.trim(self.queue.headroom(self).saturating_add(charged));
            let own = row.as_ref().map_or(0, |(_, own)| *own);
            self.file(dataset, index, row.map(|(row, _)| row), charged, own);
        }
    }

    /// Files a row; whoever files the last one of a batch assembles the batch.
    pub(super) fn file(
        &self,
        dataset: &Dataset,
        index: u64,
        row: Result<Row>,
        charged: usize,
        own: usize,
    ) {
        let Some(rows) = self.queue.file(self, index, row, charged, own) else { return };
        let batch = self.assembled(dataset, rows);
        self.queue.finish(self, index, batch);
    }

    /// The rows of a batch as the batch, or the first row's error.
    pub(super) fn assembled(&self, dataset: &Dataset, rows: Result<Vec<Row>>) -> Result<Batch> {
        let Some(pool) = self.batch_buffers.get() else {
            return Err(Error::config("rows are there before the shards are open"));
        };
        let shape = dataset.slot_shape.as_deref().unwrap_or_default();
        let single = self.options.batch_size.is_none();
        let sample_type = dataset.sample_type();
        let slots = Slots { shape, sample_type, pool, buffers: &self.column_buffers };
        let limit = self.options.column_limit();
        let began = Instant::now();
        let batch = rows.and_then(|rows| {
            assemble(rows, &dataset.layout, &dataset.shards, &slots, single, limit)
        });
        self.stats.assemble.record(began.elapsed());
        batch
    }

    /// The decoded row, and the bytes of buffers of its own.
    fn decode_row(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        job: Job,
        blobs: &mut [RawBlob],
        mut slot: Option<AlignedBuf>,
    ) -> Result<(Row, usize)> {
        let id = job.step.row;
        let shard = dataset.shards.get(id.shard as usize);
        let mut values = Vec::with_capacity(blobs.len());
        let mut own = job.kept;
        let mut damage = None;
        for (k, blob) in blobs.iter_mut().enumerate() {
            let value = match (&dataset.audio, blob.as_slice()) {
                (Some((audio, spec)), bytes) if *audio == k => {
                    let key = shard.map_or(0, Shard::key);
                    let draw = hash(&[self.options.crop_seed, job.step.epoch, key, id.row]);
                    let value = match bytes {
                        Some(bytes) => decode(decoder, bytes, spec, draw, slot.take()),
                        None => Err(DecodeError { codec: None, reason: Reason::Null }),
                    };
                    let (value, codec, report) = value.map_err(|e| {
                        let error = Error::from(e).in_row(id.row);
                        match shard {
                            Some(shard) => error.in_shard(shard.name()),
                            None => error,
                        }
                    })?;
                    if !report.damage.is_empty() {
                        let shard = shard.map(|shard| Arc::clone(shard.name())).unwrap_or_default();
                        let row = id.row;
                        damage = Some(Box::new(DamagedRow { shard, row, codec, report }));
                    }
                    value
                }
                (_, Some(_)) => blob.take_bytes(&self.row_buffers),
                (_, None) => BlobValue::Null,
            };
            own += match &value {
                BlobValue::Bytes(bytes) => bytes.as_ref().len(),
                BlobValue::Own(buf, _) => buf.as_bytes().len(),
                BlobValue::Null | BlobValue::Slot(_) => 0,
            };
            values.push(value);
        }
        let (table, place) = (job.table, job.place);
        Ok((Row { id, table, place, blobs: values, damage }, own))
    }
}

/// Decodes into the slot, or without one into a buffer of the recording's own size; with the codec
/// and what came of it.
fn decode(
    decoder: &mut Decoder,
    bytes: &[u8],
    spec: &AudioSpec,
    draw: u64,
    slot: Option<AlignedBuf>,
) -> Result<(BlobValue, Codec, DecodeReport), DecodeError> {
    let plan = decoder.plan(bytes, spec, draw)?;
    let codec = plan.info().codec;
    if let Some(mut slot) = slot {
        let report = decoder.render_bytes(bytes, &plan, slot.as_bytes_mut())?;
        return Ok((BlobValue::Slot(slot), codec, report));
    }
    let shape = match spec.channels {
        Channels::Mono => vec![plan.n_frames()],
        _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
    };
    let mut buf = AlignedBuf::zeroed(plan.n_bytes());
    let report = decoder.render_bytes(bytes, &plan, buf.as_bytes_mut())?;
    Ok((BlobValue::Own(buf, shape), codec, report))
}
