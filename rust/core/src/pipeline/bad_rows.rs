//! What becomes of rows whose audio cannot be used: an error, another row, zeros, or nothing.

use std::sync::Arc;

use arrow_array::{Array, cast::AsArray};
use arrow_schema::{DataType, Schema};

use super::{
    Job, Shared,
    dataset::Dataset,
    decode::{Decoded, Finished},
    fetch::Room,
    options::OnError,
};
use crate::{
    audio::{Channels, Decoder, Reason},
    batch::{AlignedBuf, BadRow, BlobValue, Fate, Limit, Value, value},
    error::{Error, ErrorKind, Result},
    order::{RowId, Step, hash::hash},
    shard::{Projection, Shard},
    stats,
};

/// Bytes of the tables that tell paths which are kept: those of a few record batches.
pub(super) const PATHS_LIMIT: usize = 1 << 20;

/// The longest path that is looked at.
const MAX_PATH_BYTES: usize = 1 << 16;

/// Where rows say what their audio is called: `path`, beside `bytes`.
#[derive(Debug)]
pub(super) struct PathColumn(Projection);

impl PathColumn {
    const NAME: &'static str = "path";

    /// That of this audio column; `None` where there is none, or it is no text.
    pub(super) fn find(schema: &Schema, audio: &str) -> Option<Self> {
        let (_, column) = schema.column_with_name(audio)?;
        let DataType::Struct(children) = column.data_type() else { return None };
        let (_, path) = children.find(Self::NAME)?;
        let is_text =
            matches!(path.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        is_text.then(|| Projection::of_siblings(schema, audio).map(Self)).flatten()
    }
}

impl Shared {
    /// What this row calls its audio. What is wrong with that is no reason to fail: it is about a
    /// row that could not be used anyway.
    fn path_of(&self, dataset: &Dataset, shard: &Shard, id: RowId) -> Option<String> {
        let PathColumn(projection) = dataset.paths.as_ref()?;
        let (batch, place) = shard.locate(id.row)?;
        let budget = self.options.memory_budget;
        let load =
            |takes: &dyn Fn(usize)| shard.load_table_within(batch, projection, budget, takes);
        let table = self.path_tables.get((id.shard, batch), None, load).ok()?;
        let audio = table.columns.columns().first()?.as_struct_opt()?;
        if place >= audio.len() || audio.is_null(place) {
            return None;
        }
        let path = audio.column_by_name(PathColumn::NAME)?;
        match value(path, place, &Limit::new(MAX_PATH_BYTES)) {
            Ok(Value::Text(path)) => Some(path),
            _ => None,
        }
    }

    fn bad_row(
        &self,
        dataset: &Dataset,
        job: &Job,
        error: &Error,
        is_substitute: bool,
    ) -> Option<BadRow> {
        let ErrorKind::Decode(cause) = error.kind() else { return None };
        let id = job.step.row;
        let shard = dataset.shards.get(id.shard as usize)?;
        let blob = dataset.audio.as_ref().and_then(|(k, _)| job.blobs.get(*k)?.n_bytes());
        Some(BadRow {
            shard: Arc::clone(shard.name()),
            row: id.row,
            shard_rows: shard.n_rows(),
            path: self.path_of(dataset, shard, id),
            codec: cause.codec,
            reason: match &cause.reason {
                Reason::Limit(exceeded) => exceeded.limit,
                reason => reason.key(),
            },
            message: error.to_string(),
            n_bytes: blob,
            is_substitute,
        })
    }

    /// What is delivered in the place of `job`'s row, whose audio could not be used.
    ///
    /// # Errors
    ///
    /// `error` itself where that is asked for, or is not about the row alone.
    pub(super) fn instead(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        job: Job,
        slot: &mut Option<AlignedBuf>,
        error: Error,
        charged: &mut usize,
    ) -> Result<Finished> {
        if self.options.on_error == OnError::Raise || !is_of_row(&error) {
            return Err(error);
        }
        let bad = self.bad_row(dataset, &job, &error, false).into_iter().collect();
        match self.options.on_error {
            OnError::Raise => Err(error),
            OnError::Substitute => {
                self.substitute(dataset, decoder, job, slot, (error, bad), charged)
            }
            OnError::Mask => {
                let audio = Decoded { value: masked(dataset, slot), damage: None };
                Ok(self.finished(dataset, job, Some(audio), bad, Fate::Masked))
            }
            OnError::Skip => {
                let kept = slot.take().map_or(BlobValue::Null, BlobValue::Slot);
                let audio = Decoded { value: kept, damage: None };
                Ok(self.finished(dataset, job, Some(audio), bad, Fate::Skipped))
            }
        }
    }

    /// Another row in the place of `job`'s: the first of its substitutes that can be used.
    fn substitute(
        &self,
        dataset: &Dataset,
        decoder: &mut Decoder,
        mut job: Job,
        slot: &mut Option<AlignedBuf>,
        (error, mut bad): (Error, Vec<BadRow>),
        charged: &mut usize,
    ) -> Result<Finished> {
        let (index, epoch) = (job.index, job.step.epoch);
        let shard = dataset.shards.get(job.step.row.shard as usize).map_or(0, Shard::key);
        let key = hash(&[self.options.crop_seed, epoch, shard, job.step.row.row]);
        let outcomes = dataset.outcomes.get(job.step.row.shard as usize);
        let candidates = dataset.order.substitutes(index, key);
        let mut tried = 0;
        while let Some(row) = candidates.as_ref().and_then(|all| all.get(tried)) {
            if self.is_closed() {
                return Err(Error::new(ErrorKind::Closed));
            }
            tried += 1;
            let began = stats::now();
            // The row before must make room for this one.
            self.give_back(&mut job);
            self.queue.release(self, std::mem::take(charged));
            job = self.read_step(dataset, (index, Step { epoch, row }), Room::Taken, charged)?;
            if let Some(outcomes) = outcomes {
                outcomes.bad_took(stats::since(began));
            }
            match self.decode_audio(dataset, decoder, (&job, stats::now()), slot) {
                Ok(audio) => return Ok(self.finished(dataset, job, audio, bad, Fate::Valid)),
                Err(error) if is_of_row(&error) => {
                    bad.extend(self.bad_row(dataset, &job, &error, true));
                }
                Err(error) => return Err(error),
            }
        }
        Err(without_substitute(error, tried as usize))
    }
}

/// Whether it is about one row's audio, so that another policy than to raise applies.
pub(super) fn is_of_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Decode(cause) if cause.reason.is_of_row())
}

fn without_substitute(error: Error, tried: usize) -> Error {
    let ErrorKind::Decode(cause) = error.kind() else { return error };
    let of = Box::new(cause.reason.clone());
    let mut cause = cause.clone();
    cause.reason = Reason::NoSubstitute { of, tried };
    let at = error.at();
    let error = Error::from(cause);
    let error = match &at.shard {
        Some(shard) => error.in_shard(shard),
        None => error,
    };
    match at.row {
        Some(row) => error.in_row(row),
        None => error,
    }
}

/// Zeros in the slot; where rows have none, no frames.
fn masked(dataset: &Dataset, slot: &mut Option<AlignedBuf>) -> BlobValue {
    if let Some(mut slot) = slot.take() {
        slot.as_bytes_mut().fill(0);
        return BlobValue::Slot(slot);
    }
    let shape = match dataset.audio.as_ref().map(|(_, spec)| spec.channels) {
        Some(Channels::Exact(n)) => vec![usize::from(n), 0],
        Some(Channels::Keep) => vec![1, 0],
        Some(Channels::Mono) | None => vec![0],
    };
    BlobValue::Own(AlignedBuf::default(), shape)
}
