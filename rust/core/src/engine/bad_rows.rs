//! What becomes of rows whose audio cannot be used: an error, another row, zeros, or nothing.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arrow_array::{Array, cast::AsArray};
use arrow_schema::{DataType, Schema};

use super::{
    context::Context,
    dataset::Dataset,
    decoders::Finishing,
    options::OnError,
    row::{Attempt, RawBlob, Reading, RowReading, Stage},
    tables::Key,
};
use crate::{
    batch::{BadRow, Limit, Value, value},
    error::{Error, ErrorKind, Result},
    hash::hash,
    order::{RowId, Step},
    shard::{Projection, Shard, Table},
};
use gristmill_audio::Reason;

/// Bytes of the tables that tell paths which are kept: those of a few record batches.
const PATHS_LIMIT: usize = 1 << 20;

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

/// What is delivered in the place of a bad row.
#[derive(Debug)]
pub(super) enum Instead {
    /// Another row, once it is read.
    Another(Reading),
    Zeros,
    Nothing,
}

/// The policy for bad rows of one stream.
#[derive(Debug)]
pub(super) struct BadRows {
    context: Arc<Context>,
    /// Tables of what rows call their audio, the one used last at the end.
    paths: Mutex<Vec<(Key, Arc<Table>)>>,
}

impl BadRows {
    pub(super) fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), paths: Mutex::default() }
    }

    fn lock_paths(&self) -> MutexGuard<'_, Vec<(Key, Arc<Table>)>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees what was read of paths.
    pub(super) fn clear(&self) {
        self.lock_paths().clear();
    }

    /// What is delivered in the place of this row, whose audio could not be used. Its bytes are
    /// given back where another one is.
    ///
    /// # Errors
    ///
    /// `error` itself where that is asked for, or is not about the row alone; with a substitute, the
    /// error of the first row where none can be used.
    pub(super) fn instead(
        &self,
        dataset: &Dataset,
        index: u64,
        row: &mut Finishing,
        error: Error,
    ) -> Result<Instead> {
        let policy = self.context.options.on_error;
        if policy == OnError::Raise || !is_of_row(&error) {
            return Err(error);
        }
        let is_substitute = row.read.attempt.n_tried > 0;
        row.bad.extend(self.bad_row(dataset, row, &error, is_substitute));
        match policy {
            OnError::Raise => Err(error),
            OnError::Mask => Ok(Instead::Zeros),
            OnError::Skip => Ok(Instead::Nothing),
            OnError::Substitute => self.substitute(dataset, index, row, error),
        }
    }

    /// The next of the substitutes for the row that the order has at `index`.
    fn substitute(
        &self,
        dataset: &Dataset,
        index: u64,
        row: &mut Finishing,
        error: Error,
    ) -> Result<Instead> {
        let Step { epoch, row: wanted } = dataset.step(index)?;
        let shard = dataset.shards.get(wanted.shard as usize).map_or(0, Shard::key);
        let key = hash(&[self.context.options.crop_seed, epoch, shard, wanted.row]);
        let attempt = &mut row.read.attempt;
        let (error, n_tried) = (attempt.error.take().unwrap_or(error), attempt.n_tried);
        let candidates = dataset.order.substitutes(index, key);
        let Some(next) = candidates.as_ref().and_then(|all| all.get(n_tried)) else {
            return Err(without_substitute(error, n_tried as usize));
        };
        row.read.blobs.clear();
        let attempt = Attempt {
            step: Step { epoch, row: next },
            bad: std::mem::take(&mut row.bad),
            error: Some(error),
            n_tried: n_tried + 1,
        };
        Ok(Instead::Another(Reading::Row(Box::new(RowReading {
            index,
            attempt,
            stage: Stage::Table,
        }))))
    }

    fn bad_row(
        &self,
        dataset: &Dataset,
        row: &Finishing,
        error: &Error,
        is_substitute: bool,
    ) -> Option<BadRow> {
        let ErrorKind::Decode(cause) = error.kind() else { return None };
        let id = row.read.attempt.step.row;
        let shard = dataset.shards.get(id.shard as usize)?;
        let blob = dataset.audio.as_ref();
        let n_bytes = blob.and_then(|(k, _)| row.read.blobs.get(*k).and_then(RawBlob::n_bytes));
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
            n_bytes,
            is_substitute,
        })
    }

    /// What this row calls its audio. What is wrong with that is no reason to fail: it is about a
    /// row that could not be used anyway.
    fn path_of(&self, dataset: &Dataset, shard: &Shard, id: RowId) -> Option<String> {
        let PathColumn(projection) = dataset.paths.as_ref()?;
        let (batch, place) = shard.locate(id.row)?;
        let table = self.path_table(shard, (id.shard, batch), projection)?;
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

    fn path_table(&self, shard: &Shard, key: Key, projection: &Projection) -> Option<Arc<Table>> {
        let mut paths = self.lock_paths();
        if let Some(at) = paths.iter().position(|(other, _)| *other == key) {
            let found = paths.remove(at);
            let table = Arc::clone(&found.1);
            paths.push(found);
            return Some(table);
        }
        drop(paths);
        let budget = self.context.options.memory_budget;
        let mut table = shard.load_table_within(key.1, projection, budget, &|_| ()).ok()?;
        table.permit = Some(Arc::new(self.context.account.take(table.n_bytes)));
        let table = Arc::new(table);
        let mut paths = self.lock_paths();
        let mut n_bytes: usize = paths.iter().map(|(_, table)| table.n_bytes).sum();
        while n_bytes + table.n_bytes > PATHS_LIMIT && !paths.is_empty() {
            n_bytes -= paths.remove(0).1.n_bytes;
        }
        paths.push((key, Arc::clone(&table)));
        Some(table)
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
