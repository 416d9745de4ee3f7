//! A large binary column: where each row's bytes are, to be read one row at a time.

use std::ops::Range;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_buffer::{BooleanBuffer, Buffer, NullBuffer};

use super::memory_rows::MemoryRows;
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
    /// One more than rows: absolute file offsets, or offsets into `memory`.
    offsets: Vec<u64>,
    /// The rows' lengths, where they do not follow each other.
    lens: Option<Vec<u32>>,
    /// Whether rows may lie in any order, and in each other.
    in_any_order: bool,
    memory: Option<MemoryBuffers>,
}

/// What the rows lie in that are in memory.
#[derive(Debug)]
pub(super) struct MemoryBuffers {
    pub(super) buffers: Vec<Buffer>,
    /// By row; empty where all lie in the first.
    pub(super) of_row: Vec<u32>,
}

/// Neighbouring rows of a column of small blobs, which are read in one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobBlock {
    /// Its number in its column of its record batch, from 0.
    pub number: usize,
    /// The rows in it that are not null.
    pub n_rows: usize,
    /// Its range in the file.
    pub bytes: Range<u64>,
    /// The mean length of the column's rows.
    pub mean_bytes: u64,
}

impl BlobBlock {
    /// A block has the rows that begin in a stretch of this many bytes, so it is about this long.
    pub const BYTES: u64 = 1 << 20;

    /// Rows are read in blocks where their mean length is less than this.
    pub const SMALL_BLOB: u64 = 64 << 10;

    /// Rows of longer blocks, which have one long row, are read one by one.
    const LONGEST: u64 = 8 << 20;
}

impl BlobColumn {
    /// Rows that lie in the file: their absolute offsets, one more than rows, and which are null.
    pub(super) fn in_file(nulls: Option<NullBuffer>, offsets: Vec<u64>) -> Self {
        Self { nulls, offsets, lens: None, in_any_order: false, memory: None }
    }

    /// Rows that lie in the file with other bytes between them: where they begin, and at the end the
    /// end of the last; their lengths; and which are null.
    pub(super) fn scattered(
        nulls: Option<NullBuffer>,
        offsets: Vec<u64>,
        lens: Vec<u32>,
    ) -> Result<Self> {
        let ends = offsets.iter().zip(&lens).map(|(start, len)| start.checked_add((*len).into()));
        let mut nexts = offsets.iter().skip(1);
        let ascend = ends.into_iter().all(|end| end.is_some_and(|end| nexts.next() >= Some(&end)));
        if !ascend || offsets.len() != lens.len() + 1 {
            return Err(Error::corrupt("rows that lie in each other"));
        }
        Ok(Self { nulls, offsets, lens: Some(lens), in_any_order: false, memory: None })
    }

    /// Rows that lie in the file in any order: their offsets, and their lengths.
    pub(super) fn in_any_order(
        nulls: Option<NullBuffer>,
        mut offsets: Vec<u64>,
        lens: Vec<u32>,
    ) -> Self {
        offsets.push(0);
        Self { nulls, offsets, lens: Some(lens), in_any_order: true, memory: None }
    }

    /// From a sidecar: `n_rows` rows whose bytes must lie in `data`.
    pub(super) fn from_sidecar(
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
        Ok(Self::in_file(nulls_of(validity, n_rows), offsets))
    }

    /// As [`BlobColumn::from_sidecar`], of rows with other bytes between them.
    pub(super) fn scattered_from_sidecar(
        validity: Vec<u8>,
        offsets: Vec<u64>,
        lens: Vec<u32>,
        n_rows: usize,
        data: &Range<u64>,
    ) -> Result<Self> {
        let column = Self::from_sidecar(validity, offsets, n_rows, data)?;
        Self::scattered(column.nulls, column.offsets, lens)
    }

    /// From a decoded column: a binary array of any layout, or structs around it that have no other
    /// field.
    pub(super) fn in_memory(column: &ArrayRef) -> Result<Self> {
        let (mut leaf, mut outer) = (column, None);
        while let Some(parent) = leaf.as_struct_opt() {
            outer = NullBuffer::union(outer.as_ref(), parent.nulls());
            let bytes = parent.columns().first();
            leaf = bytes.ok_or_else(|| Error::corrupt("a struct without bytes"))?;
        }
        let MemoryRows { offsets, lens, buffers } = MemoryRows::of(leaf)?;
        let nulls = NullBuffer::union(leaf.logical_nulls().as_ref(), outer.as_ref());
        let in_any_order = lens.is_some();
        Ok(Self { nulls, offsets, lens, in_any_order, memory: Some(buffers) })
    }

    /// One more than rows: their offsets in the file.
    pub(super) fn offsets(&self) -> &[u64] {
        &self.offsets
    }

    /// The rows' lengths, where they do not follow each other.
    pub(super) fn lens(&self) -> Option<&[u32]> {
        self.lens.as_deref()
    }

    /// The validity bitmap; empty without nulls.
    pub(super) fn validity(&self) -> Vec<u8> {
        let nulls = self.nulls.as_ref();
        nulls.map_or_else(Vec::new, |nulls| nulls.inner().sliced().as_slice().to_vec())
    }

    /// One row's bytes; `None` where they, or the struct around them, are null, and beyond the end.
    pub(super) fn get(&self, row: usize) -> Option<Blob> {
        let range = self.range(row)?;
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return None;
        }
        Some(match &self.memory {
            None => Blob::Range(range),
            Some(MemoryBuffers { buffers, of_row }) => {
                let number = of_row.get(row).map_or(0, |number| *number as usize);
                let len = (range.end - range.start) as usize;
                Blob::Bytes(buffers.get(number)?.slice_with_length(range.start as usize, len))
            }
        })
    }

    fn range(&self, row: usize) -> Option<Range<u64>> {
        let start = *self.offsets.get(row)?;
        let next = *self.offsets.get(row + 1)?;
        let len = self.lens.as_ref().and_then(|lens| lens.get(row));
        Some(start..len.map_or(next, |len| start + u64::from(*len)))
    }

    /// The block of a row; `None` where rows are read one by one or are in memory.
    pub(super) fn block_of(&self, row: usize) -> Option<BlobBlock> {
        if self.in_any_order {
            return None;
        }
        let start = self.offsets.get(row)?.checked_sub(*self.offsets.first()?)?;
        self.block((start / BlobBlock::BYTES) as usize)
    }

    /// The block of this number; `None` where there is none.
    pub(super) fn block(&self, number: usize) -> Option<BlobBlock> {
        if self.in_any_order {
            return None;
        }
        let ((last, starts), base) = (self.offsets.split_last()?, *self.offsets.first()?);
        let mean_bytes = (last - base).checked_div(starts.len() as u64)?;
        if self.memory.is_some() || mean_bytes >= BlobBlock::SMALL_BLOB {
            return None;
        }
        let begin = base.checked_add((number as u64).checked_mul(BlobBlock::BYTES)?)?;
        let first = starts.partition_point(|start| *start < begin);
        let end = starts.partition_point(|start| *start < begin.saturating_add(BlobBlock::BYTES));
        let last = self.range(end.checked_sub(1)?)?;
        let bytes = *self.offsets.get(first)?..last.end;
        if first == end || bytes.end - bytes.start > BlobBlock::LONGEST {
            return None;
        }
        let nulls = self.nulls.as_ref();
        let n_null = nulls.map_or(0, |nulls| nulls.slice(first, end - first).null_count());
        Some(BlobBlock { number, n_rows: end - first - n_null, bytes, mean_bytes })
    }

    /// These rows, of a column that lies in the file.
    pub(super) fn slice(&self, rows: &Range<usize>) -> Self {
        let nulls = self.nulls.as_ref().map(|nulls| nulls.slice(rows.start, rows.len()));
        let offsets = self.offsets.get(rows.start..=rows.end).unwrap_or_default().to_vec();
        let lens =
            self.lens.as_ref().map(|lens| lens.get(rows.clone()).unwrap_or_default().to_vec());
        Self { nulls, offsets, lens, in_any_order: self.in_any_order, memory: None }
    }

    /// Bytes of memory, shared ones not counted.
    pub(super) fn n_bytes(&self) -> usize {
        self.offsets.capacity() * size_of::<u64>()
            + self.lens.as_ref().map_or(0, |lens| lens.capacity() * size_of::<u32>())
            + self.nulls.as_ref().map_or(0, |nulls| nulls.len().div_ceil(8))
            + self.memory.as_ref().map_or(0, |memory| memory.of_row.capacity() * size_of::<u32>())
    }
}

fn nulls_of(validity: Vec<u8>, n_rows: usize) -> Option<NullBuffer> {
    (!validity.is_empty())
        .then(|| NullBuffer::new(BooleanBuffer::new(Buffer::from(validity), 0, n_rows)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_row_of_small_blobs_lies_in_one_block(
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
            let column = BlobColumn::in_file(Some(nulls), offsets.clone());
            let mean = (offsets.last().unwrap() - base) / rows.len() as u64;
            let mut blocks: Vec<(BlobBlock, usize)> = Vec::new();
            for (row, (_, valid)) in rows.iter().enumerate() {
                let Some(block) = column.block_of(row) else {
                    prop_assert!(mean >= 64 << 10);
                    continue;
                };
                prop_assert!(mean < 64 << 10 && block.mean_bytes == mean);
                prop_assert!(block.bytes.start <= offsets[row]);
                prop_assert!(offsets[row + 1] <= block.bytes.end);
                prop_assert_eq!(column.block(block.number), Some(block.clone()));
                if blocks.last().is_none_or(|(last, _)| *last != block) {
                    let before = blocks.last().map_or(base, |(last, _)| last.bytes.end);
                    prop_assert_eq!(block.bytes.start, before, "blocks follow each other");
                    blocks.push((block, 0));
                }
                blocks.last_mut().unwrap().1 += usize::from(*valid);
            }
            for (block, n_rows) in &blocks {
                prop_assert_eq!(block.n_rows, *n_rows);
                prop_assert!(block.bytes.end - block.bytes.start < BlobBlock::BYTES + 120_000);
            }
        }
    }

    #[test]
    fn small_rows_beside_a_long_one_are_read_one_by_one() {
        let mut offsets: Vec<u64> = (0..1000).map(|row| row * 100).collect();
        offsets.push(offsets[999] + (9 << 20));
        let column = BlobColumn::in_file(None, offsets);
        assert_eq!(column.block_of(5), None);
        assert_eq!(column.block(1), None);
    }

    #[test]
    fn rows_with_bytes_between_them_are_apart() {
        let rows = |offsets: &[u64], lens: &[u32]| {
            BlobColumn::scattered(None, offsets.to_vec(), lens.to_vec())
        };
        let column = rows(&[10, 30, 30, 60], &[20, 0, 26]).unwrap();
        let ranges: Vec<_> = (0..4).map(|row| column.get(row)).collect();
        let range = |range| Some(Blob::Range(range));
        assert_eq!(ranges, [range(10..30), range(30..30), range(30..56), None]);
        let block = column.block_of(2).unwrap();
        assert_eq!((block.bytes, block.n_rows), (10..56, 3));
        assert!(rows(&[10, 30, 60], &[21, 30]).is_err(), "a row that lies in the next");
        assert!(rows(&[10, 30], &[20, 0]).is_err());
        assert!(rows(&[u64::MAX, u64::MAX], &[1]).is_err());
        assert!(rows(&[10], &[]).unwrap().get(0).is_none());
    }
}
