//! A large binary column: where each row's bytes are, read one row at a time.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::{
    body::CompactBody,
    layout::{BatchLayout, FieldSpan, Node},
};
use crate::{Error, Result};

/// One row's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Blob {
    /// In the file, at these absolute offsets; [`Shard::read_blob`](super::Shard::read_blob) reads
    /// them.
    Range(Range<u64>),
    /// In memory already, since the record batch is compressed and was read as a whole. All rows
    /// of the record batch share one allocation.
    Bytes(Buffer),
}

/// The rows of one large binary column in one record batch.
#[derive(Debug)]
pub(super) struct BlobColumn {
    nulls: Option<NullBuffer>,
    /// One more than rows: absolute file offsets, or offsets into `bytes`.
    offsets: Vec<u64>,
    bytes: Option<Buffer>,
}

/// Rows of a column of small blobs that lie one after another and are read in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobRun {
    /// Counted in its column of its record batch, from 0.
    pub number: usize,
    /// The rows that have bytes.
    pub n_rows: usize,
    /// In the file.
    pub bytes: Range<u64>,
    /// What a row of the column takes on average.
    pub mean_bytes: u64,
}

impl BlobRun {
    /// A run is about this long: its rows begin in one stretch of so many bytes.
    pub const BYTES: u64 = 1 << 20;

    /// Rows that take less than this on average are read in runs.
    pub const SMALL_BLOB: u64 = 64 << 10;

    /// A run that one long row makes longer than this is none.
    const LONGEST: u64 = 8 << 20;
}

/// Where a blob column's nodes and buffers are: its own, and those of the struct around it.
#[derive(Clone, Debug)]
pub(super) struct BlobSpan {
    pub(super) parent: Option<FieldSpan>,
    pub(super) leaf: FieldSpan,
    /// 64-bit offsets.
    pub(super) large: bool,
}

impl BlobSpan {
    fn leaf_buffer(&self, layout: &BatchLayout, which: usize) -> Result<Range<u64>> {
        layout.buffer(self.leaf.buffers.start + which)
    }

    /// What must be read to know the rows' ranges: validity and offsets.
    pub(super) fn index_ranges(&self, layout: &BatchLayout) -> Result<Vec<Range<u64>>> {
        let mut ranges = vec![self.leaf_buffer(layout, 0)?, self.leaf_buffer(layout, 1)?];
        if let Some(parent) = &self.parent {
            ranges.push(layout.buffer(parent.buffers.start)?);
        }
        Ok(ranges)
    }
}

impl BlobColumn {
    /// From the validity and offset buffers of an uncompressed record batch whose body begins at
    /// `body_start`.
    pub(super) fn in_file(
        span: &BlobSpan,
        layout: &BatchLayout,
        body: &CompactBody,
        body_start: u64,
    ) -> Result<Self> {
        let leaf = layout.node(span.leaf.nodes.start)?;
        if leaf.length != layout.n_rows {
            return Err(Error::corrupt(format!(
                "a binary column of {} rows in a record batch of {}",
                leaf.length, layout.n_rows
            )));
        }
        let mut nulls = nulls(leaf, body.bytes(&span.leaf_buffer(layout, 0)?)?)?;
        if let Some(parent) = &span.parent {
            let validity = body.bytes(&layout.buffer(parent.buffers.start)?)?;
            let outer = self::nulls(layout.node(parent.nodes.start)?, validity)?;
            nulls = NullBuffer::union(nulls.as_ref(), outer.as_ref());
        }
        let data = span.leaf_buffer(layout, 2)?;
        let raw = body.bytes(&span.leaf_buffer(layout, 1)?)?;
        let base = body_start + data.start;
        let offsets = offsets(raw, span.large, leaf.length, data.end - data.start, base)?;
        Ok(Self { nulls, offsets, bytes: None })
    }

    /// From what a sidecar says of `n_rows` rows whose bytes lie in `data`.
    pub(super) fn known(
        validity: Vec<u8>,
        offsets: Vec<u64>,
        n_rows: usize,
        data: &Range<u64>,
    ) -> Result<Self> {
        let inside = offsets.iter().all(|at| (data.start..=data.end).contains(at));
        let n_valid = if validity.is_empty() { 0 } else { n_rows.div_ceil(8) };
        if !inside
            || !offsets.is_sorted()
            || offsets.len() != n_rows + 1
            || validity.len() != n_valid
        {
            return Err(Error::corrupt("the sidecar's rows do not fit the record batch"));
        }
        let nulls = (!validity.is_empty())
            .then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from(validity), 0, n_rows)));
        Ok(Self { nulls, offsets, bytes: None })
    }

    /// One more than rows: where they lie in the file.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The validity bitmap; empty without nulls.
    pub(super) fn validity(&self) -> Vec<u8> {
        let nulls = self.nulls.as_ref();
        nulls.map_or_else(Vec::new, |nulls| nulls.inner().sliced().as_slice().to_vec())
    }

    /// From a decoded column: a binary array, or a struct with nothing but one in it.
    pub(super) fn in_memory(column: &ArrayRef) -> Result<Self> {
        let (leaf, outer) = match column.as_struct_opt() {
            Some(parent) => (parent.columns().first().cloned(), parent.nulls().cloned()),
            None => (Some(column.clone()), None),
        };
        let leaf = leaf.ok_or_else(|| Error::corrupt("a struct without bytes"))?;
        let (offsets, bytes) = if let Some(array) = leaf.as_binary_opt::<i32>() {
            (array.value_offsets().iter().map(|o| *o as u64).collect(), array.values().clone())
        } else if let Some(array) = leaf.as_binary_opt::<i64>() {
            (array.value_offsets().iter().map(|o| *o as u64).collect(), array.values().clone())
        } else {
            return Err(Error::corrupt("a blob column that is not binary"));
        };
        let nulls = NullBuffer::union(leaf.nulls(), outer.as_ref());
        Ok(Self { nulls, offsets, bytes: Some(bytes) })
    }

    /// One row's bytes; `None` where they, or the struct around them, are null, and beyond the end.
    pub(super) fn get(&self, row: usize) -> Option<Blob> {
        let range = *self.offsets.get(row)?..*self.offsets.get(row + 1)?;
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match &self.bytes {
            None => Blob::Range(range),
            Some(bytes) => {
                let len = (range.end - range.start) as usize;
                Blob::Bytes(bytes.slice_with_length(range.start as usize, len))
            }
        })
    }

    /// The run that a row lies in; `None` where rows are read by themselves or are in memory.
    pub(super) fn run(&self, row: usize) -> Option<BlobRun> {
        let start = self.offsets.get(row)?.checked_sub(*self.offsets.first()?)?;
        self.numbered_run((start / BlobRun::BYTES) as usize)
    }

    /// The run of this number; `None` where there is none.
    pub(super) fn numbered_run(&self, number: usize) -> Option<BlobRun> {
        let ((last, starts), base) = (self.offsets.split_last()?, *self.offsets.first()?);
        let mean_bytes = (last - base).checked_div(starts.len() as u64)?;
        if self.bytes.is_some() || mean_bytes >= BlobRun::SMALL_BLOB {
            return None;
        }
        let begin = base.checked_add((number as u64).checked_mul(BlobRun::BYTES)?)?;
        let first = starts.partition_point(|start| *start < begin);
        let behind = starts.partition_point(|start| *start < begin.saturating_add(BlobRun::BYTES));
        let bytes = *self.offsets.get(first)?..*self.offsets.get(behind)?;
        if first == behind || bytes.end - bytes.start > BlobRun::LONGEST {
            return None;
        }
        let nulls = self.nulls.as_ref();
        let n_null = nulls.map_or(0, |nulls| nulls.slice(first, behind - first).null_count());
        Some(BlobRun { number, n_rows: behind - first - n_null, bytes, mean_bytes })
    }

    /// Its size in memory, shared bytes aside.
    pub(super) fn n_bytes(&self) -> usize {
        self.offsets.capacity() * size_of::<u64>()
            + self.nulls.as_ref().map_or(0, |nulls| nulls.len().div_ceil(8))
    }
}

/// A validity bitmap, present only where there are nulls.
fn nulls(node: Node, bitmap: &[u8]) -> Result<Option<NullBuffer>> {
    if node.null_count == 0 {
        return Ok(None);
    }
    let Some(bitmap) = bitmap.get(..node.length.div_ceil(8)) else {
        return Err(Error::corrupt(format!(
            "a validity bitmap of {} bytes for {} rows",
            bitmap.len(),
            node.length
        )));
    };
    let nulls = NullBuffer::new(BooleanBuffer::new(Buffer::from(bitmap), 0, node.length));
    if nulls.null_count() != node.null_count {
        return Err(Error::corrupt(format!(
            "a column of {} nulls says that it has {}",
            nulls.null_count(),
            node.null_count
        )));
    }
    Ok(Some(nulls))
}

/// Row offsets from `base` on, checked to run forward inside `data_len` bytes.
fn offsets(raw: &[u8], large: bool, n_rows: usize, data_len: u64, base: u64) -> Result<Vec<u64>> {
    if n_rows == 0 {
        return Ok(vec![base]); // the one offset may be left out
    }
    let width = if large { 8 } else { 4 };
    let Some(raw) = raw.get(..(n_rows + 1) * width) else {
        return Err(Error::corrupt(format!("{} bytes of offsets for {n_rows} rows", raw.len())));
    };
    let mut last = 0;
    raw.chunks_exact(width)
        .map(|bytes| {
            let offset = match (bytes.first_chunk::<8>(), bytes.first_chunk::<4>()) {
                (Some(wide), _) => i64::from_le_bytes(*wide),
                (None, Some(narrow)) => i64::from(i32::from_le_bytes(*narrow)),
                (None, None) => -1,
            };
            match u64::try_from(offset) {
                Ok(offset) if (last..=data_len).contains(&offset) => {
                    last = offset;
                    Ok(base + offset)
                }
                _ => Err(Error::corrupt(format!(
                    "offset {offset} follows {last} in {data_len} bytes of data"
                ))),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_row_of_small_blobs_lies_in_one_run(
            base in 0u64..1 << 40,
            rows in prop::collection::vec((0u64..120_000, any::<bool>()), 1..200),
            is_small in any::<bool>(),
        ) {
            let scale = if is_small { 1 } else { 8 };
            let mut offsets = vec![base];
            for (len, _) in &rows {
                offsets.push(offsets.last().unwrap() + len * scale);
            }
            let nulls: NullBuffer = rows.iter().map(|(_, valid)| *valid).collect();
            let column = BlobColumn { nulls: Some(nulls), offsets: offsets.clone(), bytes: None };
            let mean = (offsets.last().unwrap() - base) / rows.len() as u64;
            let mut runs: Vec<(BlobRun, usize)> = Vec::new();
            for (row, (_, valid)) in rows.iter().enumerate() {
                let Some(run) = column.run(row) else {
                    prop_assert!(mean >= 64 << 10);
                    continue;
                };
                prop_assert!(mean < 64 << 10 && run.mean_bytes == mean);
                prop_assert!(run.bytes.start <= offsets[row] && offsets[row + 1] <= run.bytes.end);
                prop_assert_eq!(column.numbered_run(run.number), Some(run.clone()));
                if runs.last().is_none_or(|(last, _)| *last != run) {
                    let before = runs.last().map_or(base, |(last, _)| last.bytes.end);
                    prop_assert_eq!(run.bytes.start, before, "runs follow each other");
                    runs.push((run, 0));
                }
                runs.last_mut().unwrap().1 += usize::from(*valid);
            }
            for (run, n_rows) in &runs {
                prop_assert_eq!(run.n_rows, *n_rows);
                prop_assert!(run.bytes.end - run.bytes.start < BlobRun::BYTES + 120_000);
            }
        }
    }

    #[test]
    fn a_long_row_among_small_ones_is_read_by_itself() {
        let mut offsets: Vec<u64> = (0..1000).map(|row| row * 100).collect();
        offsets.push(offsets[999] + (9 << 20));
        let column = BlobColumn { nulls: None, offsets, bytes: None };
        assert_eq!(column.run(5), None);
        assert_eq!(column.numbered_run(1), None);
    }
}
