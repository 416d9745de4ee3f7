//! Joining decoded rows into one array of samples.

use super::{
    Reservation,
    gathered_column::ColumnError,
    row::{BlobValue, Row, RowOutcome},
};
use crate::memory::{AlignedBuf, Buffer, Lease};

/// The buffer of all rows' slots, with those of skipped rows removed; `None` where rows have buffers
/// of their own.
pub(super) fn join(rows: &mut [Row], blob: usize, lease: Lease) -> Option<Buffer> {
    let is_slot = |row: &Row| matches!(row.blobs.get(blob), Some(BlobValue::Slot(_)));
    if rows.is_empty() || !rows.iter().all(is_slot) {
        return None;
    }
    let taken = rows.iter_mut().filter_map(|row| row.blobs.get_mut(blob));
    let taken = taken.map(|value| std::mem::replace(value, BlobValue::Null));
    let parts: Vec<AlignedBuf> = taken.filter_map(BlobValue::into_slot).collect();
    let slot_bytes = parts.first().map_or(0, |slot| slot.as_bytes().len());
    let mut whole = lease.join(parts);
    let kept = rows.iter().enumerate().filter(|(_, row)| row.outcome != RowOutcome::Skipped);
    let mut n_kept = 0;
    for (index, _) in kept {
        let start = index * slot_bytes;
        let bytes = whole.as_bytes_mut();
        if n_kept < index && start + slot_bytes <= bytes.len() {
            bytes.copy_within(start..start + slot_bytes, n_kept * slot_bytes);
        }
        n_kept += 1;
    }
    whole.truncate(n_kept * slot_bytes);
    Some(whole)
}

/// The rows' own buffers in one, and the shape that they all have.
///
/// # Errors
///
/// For the first row of another shape.
pub(super) fn stack(
    rows: &mut [Row],
    (name, blob): (&str, usize),
    reservation: &Reservation,
) -> Result<(Buffer, Vec<usize>), ColumnError> {
    let error = |at, reason| ColumnError::At { path: name.to_owned(), at, reason };
    let mut owned = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter_mut().enumerate() {
        match row.blobs.get_mut(blob).map(|value| std::mem::replace(value, BlobValue::Null)) {
            Some(BlobValue::Own(buf, shape)) => owned.push((buf, shape)),
            _ => return Err(error(at, "has no audio".to_owned())),
        }
    }
    // A row that is not valid has no samples of its own: in a batch it gets the shape of the others.
    let valid = rows.iter().position(|row| row.outcome == RowOutcome::Valid).unwrap_or(0);
    let Some((first, shape)) = owned.get(valid).map(|(buf, shape)| (buf, shape.clone())) else {
        return Err(error(0, "has no audio".to_owned()));
    };
    let n_bytes = first.as_bytes().len();
    let is_masked = |at: usize| rows.get(at).is_some_and(|r| r.outcome != RowOutcome::Valid);
    if let Some(at) = (0..owned.len())
        .find(|at| !is_masked(*at) && owned.get(*at).is_some_and(|(_, other)| *other != shape))
    {
        let other = owned.get(at).map(|(_, shape)| shape.clone()).unwrap_or_default();
        let reason = format!(
            "has shape {other:?} where the batch's first row has {shape:?}; give Audio a crop= \
             with pad=, a sample_rate= and channels=, or take single rows (batch_size=None)"
        );
        return Err(error(at, reason));
    }
    if let [_] = owned.as_slice()
        && let Some((buf, shape)) = owned.pop()
    {
        return Ok((buf, shape));
    }
    let mut whole = reservation.buffer(n_bytes.saturating_mul(owned.len()))?;
    let slots = whole.as_bytes_mut().chunks_exact_mut(n_bytes.max(1));
    for (slot, (buf, _)) in slots.zip(&owned) {
        match buf.as_bytes() {
            bytes if bytes.len() == slot.len() => slot.copy_from_slice(bytes),
            _ => slot.fill(0),
        }
    }
    Ok((whole, shape))
}
