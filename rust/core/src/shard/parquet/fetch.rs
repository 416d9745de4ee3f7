//! Ranges of a file in memory, which the crate `parquet` reads as if they were the file.

use std::ops::Range;

use ::parquet::{
    errors::{ParquetError, Result as ParquetResult},
    file::reader::{ChunkReader, Length},
};
use bytes::{Buf, Bytes, buf::Reader};

use super::super::ranges::coalesced;
use crate::{Result, store::RangeReader};

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
        for range in coalesced(ranges, reader.gap()) {
            reader.check_range(&range)?;
            let mut data =
                reader.store().buffers().take((range.end - range.start) as usize, None)?;
            reader.read_exact_at(range.start, data.as_bytes_mut())?;
            self.extents.push((range.start, Bytes::from_owner(data)));
        }
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
