//! Ranges of a file in memory, which the crate `parquet` reads as if they were the file.

use std::ops::Range;

use ::parquet::{
    errors::{ParquetError, Result as ParquetResult},
    file::reader::{ChunkReader, Length},
};
use bytes::{Buf, Bytes, buf::Reader};

use super::super::gathered::Gathered;
use crate::{Result, memory::Buffer, store::RangeReader};

/// Ranges of a file, and the length of the whole.
#[derive(Clone, Debug)]
pub(super) struct Fetched {
    /// In the file's order.
    extents: Vec<(u64, Bytes)>,
    file_len: u64,
}

impl Fetched {
    /// Reads ranges that were checked to lie inside the file.
    pub(super) fn read(
        reader: &RangeReader,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<Self> {
        let mut fetched = Self { extents: Vec::new(), file_len: reader.len() };
        fetched.add(reader, ranges)?;
        Ok(fetched)
    }

    /// Reads more ranges, outside of those that were read.
    pub(super) fn add(
        &mut self,
        reader: &RangeReader,
        ranges: impl Iterator<Item = Range<u64>>,
    ) -> Result<()> {
        let gathered = Gathered::new(ranges, reader.gap());
        let buffers = reader.store().buffers();
        let mut memory = Vec::with_capacity(gathered.extents().len());
        for range in gathered.extents() {
            reader.check_range(range)?;
            memory.push(buffers.take((range.end - range.start) as usize, None)?);
        }
        let into = memory.iter_mut().map(Buffer::as_bytes_mut);
        gathered.read(into, buffers, |range, into| reader.read_exact_at(range.start, into))?;
        let starts = gathered.extents().iter().map(|range| range.start);
        self.extents.extend(starts.zip(memory.into_iter().map(Bytes::from_owner)));
        self.extents.sort_by_key(|(start, _)| *start);
        Ok(())
    }

    /// The bytes from `start` on, as far as they were read.
    pub(super) fn from(&self, start: u64) -> Option<Bytes> {
        let after = self.extents.partition_point(|(at, _)| *at <= start);
        let (at, bytes) = self.extents.get(after.checked_sub(1)?)?;
        let skip = usize::try_from(start - at).ok().filter(|skip| *skip < bytes.len())?;
        Some(bytes.slice(skip..))
    }

    /// Bytes of memory.
    pub(super) fn n_bytes(&self) -> usize {
        self.extents.iter().map(|(_, bytes)| bytes.len()).sum()
    }
}

impl Length for Fetched {
    fn len(&self) -> u64 {
        self.file_len
    }
}

impl ChunkReader for Fetched {
    type T = Reader<Bytes>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        self.from(start).map(Buf::reader).ok_or_else(|| missing(start))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let bytes = self.from(start).filter(|bytes| bytes.len() >= length);
        bytes.map(|bytes| bytes.slice(..length)).ok_or_else(|| missing(start))
    }
}

fn missing(start: u64) -> ParquetError {
    ParquetError::EOF(format!("a page at byte {start} lies outside its column chunk"))
}
