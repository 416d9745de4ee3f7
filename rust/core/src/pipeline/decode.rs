//! What decoders do: from a read row to its slot, and from the last row to the batch.

use std::{sync::Arc, time::Instant};

use super::{Job, Shared, bad_rows::is_of_row, dataset::Dataset, fetch::RawBlob};
use crate::{
    audio::{AudioSpec, Channels, Codec, DecodeReport, Decoder, Reason},
    batch::{AlignedBuf, BadRow, Batch, BlobValue, DamagedRow, Fate, Row, Slots, assemble},
    error::{Error, Result},
    order::hash::hash,
    shard::Shard,
    stats,
};

/// A row's audio.
pub(super) struct Decoded {
    pub(super) value: BlobValue,
    /// What is wrong with it, if something is.
    pub(super) damage: Option<Box<DamagedRow>>,
}

/// A row that may go into its batch.
pub(super) struct Finished {
    pub(super) row: Row,
    /// Bytes of buffers of its own.
    pub(super) own_bytes: usize,
}

/// Audio in a buffer of its own, and its shape.
type OwnAudio = (AlignedBuf, Vec<usize>);

impl Shared {
    /// A turn of a decoder thread, which began at `began`: one row.
    pub(super) fn decode_next(&self, began: Instant) {
        let Some(dataset) = self.dataset.get() else { return };
        let Some((job, slot)) = self.queue.pop(self) else { return };
        let mut decoder = self.lock_decoders().pop().unwrap_or_else(|| {
            let mut decoder = Decoder::default();
            decoder.set_cancel(Arc::clone(&self.closed));
            decoder
        });
        let (index, mut charged) = (job.index, job.charged);
        let is_timed = self.stats.decode.is_timed(index);
        let row = self.decode_row(dataset, &mut decoder, (job, began), slot, &mut charged);
        self.decoded(is_timed.then(|| stats::since(began)), decoder.take_resampling());
        self.lock_decoders().push(decoder);
        let own = row.as_ref().map_or(0, |finished| finished.own_bytes);
        self.file(dataset, index, row.map(|finished| finished.row), charged, own);
    }

    /// Files a row of which nothing is decoded. Its reader does: handing it over costs more.
    pub(super) fn file_encoded(&self, dataset: &Dataset, job: Job) {
        let (index, charged) = (job.index, job.charged);
        let Finished { row, own_bytes } =
            self.finished(dataset, job, None, Vec::new(), Fate::Valid);
        self.file(dataset, index, Ok(row), charged, own_bytes);
    }

    /// Gives the memory of a row back. It is charged still: it may stay where the row had room.
    pub(super) fn give_back(&self, job: &mut Job) {
        if job.blobs.iter().all(|blob| matches!(blob, RawBlob::Null)) {
            return;
        }
        let room = self.queue.headroom(self).saturating_add(job.charged);
        job.blobs.clear();
        self.row_buffers.trim(room);
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
        let batch = self.assembled(dataset, index, rows);
        self.queue.finish(self, index, batch);
    }

    /// The rows of the batch with row `index` as the batch, or the first row's error.
    pub(super) fn assembled(
        &self,
        dataset: &Dataset,
        index: u64,
        rows: Result<Vec<Row>>,
    ) -> Result<Batch> {
        let Some(pool) = self.batch_buffers.get() else {
            return Err(Error::config("rows are there before the shards are open"));
        };
        let shape = dataset.slot_shape.as_deref().unwrap_or_default();
        let single = self.options.batch_size.is_none();
        let sample_type = dataset.sample_type();
        let slots = Slots { shape, sample_type, pool, buffers: &self.column_buffers };
        let limit = self.options.column_limit();
        let timer = &self.stats.assemble;
        let began = timer.is_timed(index / self.options.rows_per_batch() as u64).then(stats::now);
        let batch = rows.and_then(|rows| {
            assemble(rows, &dataset.layout, &dataset.shards, &slots, single, limit)
        });
        if let Some(began) = began {
            timer.record(stats::since(began));
        }
        batch
    }

    /// The row, or what is delivered in its place.
    fn decode_row(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        (job, began): (Job, Instant),
        mut slot: Option<AlignedBuf>,
        charged: &mut usize,
    ) -> Result<Finished> {
        match self.decode_audio(dataset, decoder, (&job, began), &mut slot) {
            Ok(audio) => Ok(self.finished(dataset, job, audio, Vec::new(), Fate::Valid)),
            Err(error) => self.instead(dataset, decoder, job, &mut slot, error, charged),
        }
    }

    /// The row's audio, in `slot` if there is one, which is left where it is on an error; `None`
    /// where no column is decoded. It is worked at since `began`.
    pub(super) fn decode_audio(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        (job, began): (&Job, Instant),
        slot: &mut Option<AlignedBuf>,
    ) -> Result<Option<Decoded>> {
        let Some((k, spec)) = &dataset.audio else { return Ok(None) };
        let id = job.step.row;
        let shard = dataset.shards.get(id.shard as usize);
        let key = shard.map_or(0, Shard::key);
        let draw = hash(&[self.options.crop_seed, job.step.epoch, key, id.row]);
        let blob = job.blobs.get(*k);
        let decoded = match blob.and_then(RawBlob::as_slice) {
            Some(bytes) => decode(decoder, bytes, spec, draw, slot),
            None if let Some(n_bytes) = blob.and_then(RawBlob::n_bytes) => {
                let limit = spec.limits.check_bytes(n_bytes).err().unwrap_or(Reason::Null);
                Err(limit.of_unknown().into())
            }
            None => Err(Reason::Null.of_unknown().into()),
        };
        let decoded = decoded.and_then(|(codec, report, own)| {
            let (wanted, missing) = (report.frames_wanted, report.frames_missing());
            match self.options.max_missing {
                Some(share) if missing as f64 > share * wanted as f64 => {
                    Err(Reason::Missing { missing, wanted }.of(codec).into())
                }
                _ => Ok((codec, report, own)),
            }
        });
        let outcomes = dataset.outcomes.get(id.shard as usize);
        let (codec, report, own) = decoded.map_err(|e| {
            if let Some(outcomes) = outcomes.filter(|_| is_of_row(&e)) {
                outcomes.bad(stats::since(began));
            }
            let error = e.in_row(id.row);
            match shard {
                Some(shard) => error.in_shard(shard.name()),
                None => error,
            }
        })?;
        let damage = (!report.damage.is_empty()).then(|| {
            let shard = shard.map(|shard| Arc::clone(shard.name())).unwrap_or_default();
            Box::new(DamagedRow { shard, row: id.row, codec, report })
        });
        if let Some(outcomes) = outcomes {
            outcomes.good(damage.is_some());
        }
        let value = match own {
            Some((buf, shape)) => BlobValue::Own(buf, shape),
            None => slot.take().map_or(BlobValue::Null, BlobValue::Slot),
        };
        Ok(Some(Decoded { value, damage }))
    }

    /// The row as it goes into its batch.
    pub(super) fn finished(
        &self,
        dataset: &Dataset,
        mut job: Job,
        audio: Option<Decoded>,
        bad: Vec<BadRow>,
        fate: Fate,
    ) -> Finished {
        let (mut audio, damage) = audio.map_or((None, None), |a| (Some(a.value), a.damage));
        let decoded = dataset.audio.as_ref().map(|(k, _)| *k);
        let mut own_bytes = job.kept;
        let mut blobs = Vec::with_capacity(job.blobs.len());
        for (k, blob) in job.blobs.iter_mut().enumerate() {
            let value = match blob.as_slice() {
                _ if decoded == Some(k) => audio.take().unwrap_or(BlobValue::Null),
                Some(_) if fate != Fate::Skipped => blob.take_bytes(&self.row_buffers),
                _ => BlobValue::Null,
            };
            own_bytes += match &value {
                BlobValue::Bytes(bytes) => bytes.as_ref().len(),
                BlobValue::Own(buf, _) => buf.as_bytes().len(),
                BlobValue::Null | BlobValue::Slot(_) => 0,
            };
            blobs.push(value);
        }
        self.give_back(&mut job);
        let (id, table, place) = (job.step.row, job.table, job.place);
        Finished { row: Row { id, table, place, blobs, damage, bad, fate }, own_bytes }
    }
}

/// Decodes into the slot, or without one into a buffer of the recording's own size, which is
/// returned with its shape; with the codec and what came of it.
fn decode(
    decoder: &mut Decoder,
    bytes: &[u8],
    spec: &AudioSpec,
    draw: u64,
    slot: &mut Option<AlignedBuf>,
) -> Result<(Codec, DecodeReport, Option<OwnAudio>)> {
    let plan = decoder.plan(bytes, spec, draw)?;
    let codec = plan.info().codec;
    if let Some(slot) = slot {
        let report = decoder.render_bytes(bytes, &plan, slot.as_bytes_mut())?;
        return Ok((codec, report, None));
    }
    let shape = match spec.channels {
        Channels::Mono => vec![plan.n_frames()],
        _ => vec![usize::from(plan.n_channels()), plan.n_frames()],
    };
    let mut buf = AlignedBuf::try_zeroed(plan.n_bytes())?;
    let report = decoder.render_bytes(bytes, &plan, buf.as_bytes_mut())?;
    Ok((codec, report, Some((buf, shape))))
}
