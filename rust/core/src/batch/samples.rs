//! Decoded rows become one array of samples.

use super::{
    Space,
    gathered::Fault,
    row::{BlobValue, Row, RowOutcome},
};
use crate::memory::{AlignedBuf, Buffer, Lease};

/// The slots of all rows as the buffer that they were cut from, in which those of rows that are not
/// skipped stand together at the front; `None` where rows have buffers of their own.
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
    let places = rows.iter().enumerate();
    let kept = places.filter(|(_, row)| row.outcome != RowOutcome::Skipped);
    let mut n_kept = 0;
    for (place, _) in kept {
        let start = place * slot_bytes;
        let bytes = whole.as_bytes_mut();
        if n_kept < place && start + slot_bytes <= bytes.len() {
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
/// The first row that does not fit, and why.
pub(super) fn stack(
    rows: &mut [Row],
    (name, blob): (&str, usize),
    space: &Space,
) -> Result<(Buffer, Vec<usize>), Fault> {
    let fault = |at, reason| Fault::At { path: name.to_owned(), at, reason };
    let mut owned = Vec::with_capacity(rows.len());
    for (at, row) in rows.iter_mut().enumerate() {
        match row.blobs.get_mut(blob).map(|value| std::mem::replace(value, BlobValue::Null)) {
            Some(BlobValue::Own(buf, shape)) => owned.push((buf, shape)),
            _ => return Err(fault(at, "has no audio".to_owned())),
        }
    }
    // A masked row has no shape of its own: in a batch it takes that of the others.
    let valid = rows.iter().position(|row| row.outcome == RowOutcome::Valid).unwrap_or(0);
    let Some((first, shape)) = owned.get(valid).map(|(buf, shape)| (buf, shape.clone())) else {
        return Err(fault(0, "has no audio".to_owned()));
    };
    let n_bytes = first.as_bytes().len();
    let is_masked = |at: usize| rows.get(at).is_some_and(|r| r.outcome == RowOutcome::Masked);
    if let Some(at) = (0..owned.len())
        .find(|at| !is_masked(*at) && owned.get(*at).is_some_and(|(_, other)| *other != shape))
    {
        let other = owned.get(at).map(|(_, shape)| shape.clone()).unwrap_or_default();
        let reason = format!(
            "has shape {other:?} where the batch's first row has {shape:?}; give Audio a crop= \
             with pad=, a sample_rate= and channels=, or take single rows (batch_size=None)"
        );
        return Err(fault(at, reason));
    }
    if let [_] = owned.as_slice()
        && let Some((buf, shape)) = owned.pop()
    {
        return Ok((buf, shape));
    }
    let mut whole = space.buffer(n_bytes.saturating_mul(owned.len()))?;
    let places = whole.as_bytes_mut().chunks_exact_mut(n_bytes.max(1));
    for (place, (buf, _)) in places.zip(&owned) {
        match buf.as_bytes() {
            bytes if bytes.len() == place.len() => place.copy_from_slice(bytes),
            _ => place.fill(0),
        }
    }
    Ok((whole, shape))
}
