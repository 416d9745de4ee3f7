//! What is delivered in place of a row whose audio cannot be used: another row, zeros, nothing, or an error.

use std::sync::Arc;

use super::{
    crop::draw,
    task::{Attempt, RawBlob, Ready, RowTask},
};
use crate::{
    batch::{BadRow, RowOutcome},
    engine::dataset::{AudioColumn, Dataset, OnError, Source, without_root},
    error::{Error, ErrorKind, Result},
};
use gristmill_audio::Reason;

/// What is delivered in place of a bad row.
#[derive(Debug)]
pub(crate) enum Replacement {
    /// Another row, which is to be read.
    Row(Attempt),
    /// The same row without its audio, with this outcome.
    Without(RowOutcome),
}

/// Whether something may be delivered in place of a row that has this error. A row without audio has it even
/// where errors are raised, since its message names the row's path.
pub(crate) fn is_replaced(policy: OnError, error: &Error) -> bool {
    is_of_row(error) && (policy != OnError::Raise || is_null(error))
}

/// What is delivered in place of this row, whose recording in this column could not be used because of
/// `error`, and has this original path. The row remembers that it is bad.
///
/// # Errors
///
/// `error` itself, if the policy is to raise it. With substitutes, the error of the first row, if none can
/// be used.
pub(crate) fn replacement(
    policy: OnError,
    (dataset, column): (&Dataset, Option<&AudioColumn>),
    (row, ready): (&mut RowTask, &Ready),
    error: Error,
    path: Option<String>,
) -> Result<Replacement> {
    let error = match &path {
        Some(path) if is_null(&error) && column.is_some_and(|column| column.files.is_none()) => {
            with_reason(error, without_root(path))
        }
        _ => error,
    };
    if policy != OnError::Raise {
        let bad = bad_row((dataset, column), (&row.attempt, ready), &error, path);
        row.attempt.bad.extend(bad);
    }
    match policy {
        OnError::Raise => Err(error),
        OnError::Mask => Ok(Replacement::Without(RowOutcome::Masked)),
        OnError::Skip => Ok(Replacement::Without(RowOutcome::Skipped)),
        OnError::Substitute => substitute(dataset, row, error).map(Replacement::Row),
    }
}

/// The next substitute for the order's row at the index of `row`.
fn substitute(dataset: &Dataset, row: &mut RowTask, error: Error) -> Result<Attempt> {
    let key = draw(dataset, dataset.step(row.index)?);
    let attempt = &mut row.attempt;
    let (error, n_tried) = (attempt.error.take().unwrap_or(error), attempt.n_tried);
    let candidates = dataset.order.substitutes(row.index, key);
    let Some(next) = candidates.as_ref().and_then(|all| all.get(n_tried)) else {
        return Err(without_substitute(error, n_tried as usize));
    };
    let bad = std::mem::take(&mut attempt.bad);
    Ok(Attempt { bad, error: Some(error), n_tried: n_tried + 1, ..Attempt::first(next) })
}

/// What is remembered of a row whose audio could not be used.
fn bad_row(
    (dataset, column): (&Dataset, Option<&AudioColumn>),
    (attempt, ready): (&Attempt, &Ready),
    error: &Error,
    path: Option<String>,
) -> Option<BadRow> {
    let ErrorKind::Decode(cause) = error.kind() else { return None };
    let id = attempt.step.row;
    let shard = dataset.shards.get(id.shard as usize)?;
    let blob = column.and_then(|column| ready.blobs.get(column.blob));
    let n_bytes = blob.and_then(RawBlob::n_bytes);
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
        is_substitute: attempt.n_tried > 0,
    })
}

/// The column whose recording an error of a row is about.
pub(crate) fn column_of<'a>(source: &'a Source, error: &Error) -> Option<&'a AudioColumn> {
    match &error.at().column {
        Some(name) => source.audio.iter().find(|column| column.name == *name),
        None => source.audio.first(),
    }
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
    let error = match at.row {
        Some(row) => error.in_row(row),
        None => error,
    };
    match &at.column {
        Some(column) => error.in_column(column),
        None => error,
    }
}
