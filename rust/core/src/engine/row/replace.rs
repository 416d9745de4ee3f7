//! Rows whose audio cannot be used: an error, or another row, zeros, or nothing in their place.

use std::sync::Arc;

use super::{
    context::Context,
    decode::DecodedRow,
    spec::draw,
    task::{Attempt, RawBlob, ReadStage, RowTask},
};
use crate::{
    batch::BadRow,
    engine::{
        cache::{BatchId, LoadCache, Lookup},
        dataset::{Dataset, OnError, path_in, without_root},
    },
    error::{Error, ErrorKind, Result},
    order::RowId,
    shard::{Projection, Shard, Table},
};
use gristmill_audio::Reason;

/// Cached bytes of the tables of paths: those of a few record batches.
const PATHS_LIMIT: usize = 1 << 20;

/// What is delivered in place of a bad row.
#[derive(Debug)]
pub(crate) enum Replacement {
    /// Another row, once it is read.
    Row(Box<RowTask>),
    Zeros,
    Nothing,
}

/// The policy for bad rows of one stream.
#[derive(Debug)]
pub(crate) struct BadRows {
    context: Arc<Context>,
    /// Tables of paths.
    paths: LoadCache<BatchId, Table>,
}

impl BadRows {
    pub(crate) fn new(context: &Arc<Context>) -> Self {
        Self { context: Arc::clone(context), paths: LoadCache::new(PATHS_LIMIT) }
    }

    /// Frees cached paths.
    pub(crate) fn clear(&self) {
        self.paths.clear();
    }

    /// What is delivered in place of this row, whose audio could not be used. For another row, this
    /// one's bytes are freed.
    ///
    /// # Errors
    ///
    /// `error` itself, if the policy is to raise it, or if it is not about the row alone. With
    /// substitutes, the error of the first row, if none can be used.
    pub(crate) fn replacement(
        &self,
        dataset: &Dataset,
        index: u64,
        row: &mut DecodedRow,
        error: Error,
    ) -> Result<Replacement> {
        let policy = self.context.options.on_error;
        let is_raised = policy == OnError::Raise;
        if !is_of_row(&error) || is_raised && !is_null(&error) {
            return Err(error);
        }
        let source = dataset.source(row.read.attempt.step.row.shard);
        // Looked up once: the table may be large.
        let path = self.path_of(dataset, row.read.attempt.step.row);
        let error = match &path {
            Some(path) if is_null(&error) && source.files.is_none() => {
                with_reason(error, without_root(path))
            }
            _ => error,
        };
        if is_raised {
            return Err(error);
        }
        row.bad.extend(bad_row(dataset, row, &error, path));
        match policy {
            OnError::Raise => Err(error),
            OnError::Mask => Ok(Replacement::Zeros),
            OnError::Skip => Ok(Replacement::Nothing),
            OnError::Substitute => substitute(dataset, index, row, error),
        }
    }

    /// The original path of this row's recording. Errors are ignored: the row is bad anyway.
    fn path_of(&self, dataset: &Dataset, id: RowId) -> Option<String> {
        let projection = dataset.source(id.shard).paths.as_ref()?.projection();
        let shard = dataset.shards.get(id.shard as usize)?;
        let (batch, table_row) = shard.locate(id.row)?;
        let table = self.path_table(shard, (id.shard, batch), projection)?;
        let audio = table.columns.columns().first()?;
        path_in(audio, table_row)
    }

    fn path_table(
        &self,
        shard: &Shard,
        batch: BatchId,
        projection: &Projection,
    ) -> Option<Arc<Table>> {
        if let Lookup::Loaded(table) = self.paths.find(batch) {
            return Some(table);
        }
        // `None` where another thread loads it too: then this one does not add its own.
        let loading = self.paths.begin(batch, 0);
        let budget = self.context.options.memory_budget;
        let mut table = shard.load_table_within(batch.1, projection, budget, &|_| ()).ok()?;
        let n_bytes = table.n_bytes;
        table.permit = Some(Arc::new(self.context.account.take(n_bytes)));
        let table = Arc::new(table);
        if let Some(loading) = loading {
            loading.finish(&table, n_bytes);
        }
        Some(table)
    }
}

/// The next substitute for the order's row at `index`.
fn substitute(
    dataset: &Dataset,
    index: u64,
    row: &mut DecodedRow,
    error: Error,
) -> Result<Replacement> {
    let key = draw(dataset, dataset.step(index)?);
    let attempt = &mut row.read.attempt;
    let (error, n_tried) = (attempt.error.take().unwrap_or(error), attempt.n_tried);
    let candidates = dataset.order.substitutes(index, key);
    let Some(next) = candidates.as_ref().and_then(|all| all.get(n_tried)) else {
        return Err(without_substitute(error, n_tried as usize));
    };
    row.read.blobs.clear();
    let attempt = Attempt {
        step: next,
        bad: std::mem::take(&mut row.bad),
        error: Some(error),
        n_tried: n_tried + 1,
        is_padding: false,
        is_whole: false,
    };
    let task = RowTask { index, attempt, stage: ReadStage::Start };
    Ok(Replacement::Row(Box::new(task)))
}

/// What is remembered of a row whose audio could not be used.
fn bad_row(
    dataset: &Dataset,
    row: &DecodedRow,
    error: &Error,
    path: Option<String>,
) -> Option<BadRow> {
    let ErrorKind::Decode(cause) = error.kind() else { return None };
    let id = row.read.attempt.step.row;
    let shard = dataset.shards.get(id.shard as usize)?;
    let blob = dataset.source(id.shard).audio.as_ref();
    let n_bytes = blob.and_then(|(k, _)| row.read.blobs.get(*k).and_then(RawBlob::n_bytes));
    Some(BadRow {
        shard: Arc::clone(shard.name()),
        row: id.row,
        shard_rows: shard.n_rows(),
        path,
        codec: cause.codec,
        reason: match &cause.reason {
            Reason::Limit(exceeded) => exceeded.limit,
            reason => reason.key(),
        },
        message: error.to_string(),
        n_bytes,
        is_substitute: row.read.attempt.n_tried > 0,
    })
}

/// Whether an error is about one row's audio, so that the policy for bad rows applies.
pub(crate) fn is_of_row(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Decode(cause) if cause.reason.is_of_row())
}

fn is_null(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Decode(cause) if matches!(cause.reason, Reason::Null))
}

fn without_substitute(error: Error, tried: usize) -> Error {
    let ErrorKind::Decode(cause) = error.kind() else { return error };
    let of = Box::new(cause.reason.clone());
    with_reason(error, Reason::NoSubstitute { of, tried })
}

/// The same error, at the same place, for another reason.
fn with_reason(error: Error, reason: Reason) -> Error {
    let ErrorKind::Decode(cause) = error.kind() else { return error };
    let mut cause = cause.clone();
    cause.reason = reason;
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
