//! Where the values of an uncompressed column are: one walk over their lengths.
//!
//! A PLAIN page of binary values is its definition levels, and then each value behind its length of
//! four bytes. So the walk reads four bytes of each value, and later each row is read by itself.

use std::ops::Range;

use ::parquet::{
    basic::{Compression, Encoding, Type},
    file::metadata::ColumnChunkMetaData,
};
use arrow_buffer::{BooleanBufferBuilder, NullBuffer};

use super::{
    super::blob::BlobColumn,
    footer::chunk_range,
    levels,
    page::{FIRST_READ, MAX_HEADER, PageHeader, PageKind, encoding},
    page_index::Page,
};
use crate::{
    Error, Result,
    store::{RangeReader, WindowReader},
};

/// Bytes of memory for where a row is.
pub(super) const ROW_BYTES: u64 = 13;

/// Bytes of a value's length.
const LENGTH: u64 = 4;

/// The highest definition level of values that are read one by one: in how many nullable structs they
/// are, and whether they are nullable themselves.
const MAX_LEVEL: i16 = 7;

/// Whether the values of this column chunk can be read one by one.
pub(super) fn is_readable_by_value(chunk: &ColumnChunkMetaData) -> bool {
    let column = chunk.column_descr();
    // The old encoding of levels does not matter where there are none.
    let is_plain = |encoding| match encoding {
        Encoding::PLAIN | Encoding::RLE => true,
        #[expect(deprecated, reason = "files have it")]
        Encoding::BIT_PACKED => column.max_def_level() == 0,
        _ => false,
    };
    chunk.column_type() == Type::BYTE_ARRAY
        && chunk.compression() == Compression::UNCOMPRESSED
        && column.max_rep_level() == 0
        && (0..=MAX_LEVEL).contains(&column.max_def_level())
        && chunk.dictionary_page_offset().is_none()
        && chunk.encodings().all(is_plain)
}

/// Finds the values of these rows of a row group in a column chunk, whose `pages` are known where it
/// has an index.
///
/// Blocks for a request for each value, or for each 4 KiB where they are smaller.
pub(super) fn locate(
    reader: &RangeReader,
    chunk: &ColumnChunkMetaData,
    pages: Option<&[Page]>,
    rows: &Range<u64>,
) -> Result<BlobColumn> {
    let mut walk = Walk::new(reader, chunk, rows);
    if let Some(pages) = pages {
        let is_needed = |page: &&Page| page.rows.start < rows.end && page.rows.end > rows.start;
        for page in pages.iter().filter(is_needed) {
            let (n_rows, _) = walk.page(&page.bytes, page.rows.start)?;
            if n_rows != page.rows.end - page.rows.start {
                let what = "a page has other rows than the index says";
                return Err(Error::corrupt(what).at_byte(page.bytes.start));
            }
        }
    } else {
        let (mut left, mut row) = (chunk_range(chunk), 0);
        while row < rows.end && !left.is_empty() {
            let (n_rows, next) = walk.page(&left, row)?;
            (row, left.start) = (row + n_rows, next);
        }
    }
    walk.finish()
}

struct Walk<'a> {
    window: WindowReader<'a>,
    chunk: Range<u64>,
    /// The definition level of rows with a value.
    max_level: u8,
    rows: Range<u64>,
    starts: Vec<u64>,
    lens: Vec<u32>,
    is_valid: BooleanBufferBuilder,
}

impl<'a> Walk<'a> {
    fn new(reader: &'a RangeReader, chunk: &ColumnChunkMetaData, rows: &Range<u64>) -> Self {
        Self {
            window: WindowReader::new(reader),
            chunk: chunk_range(chunk),
            max_level: chunk.column_descr().max_def_level() as u8,
            rows: rows.clone(),
            starts: Vec::new(),
            lens: Vec::new(),
            is_valid: BooleanBufferBuilder::new(0),
        }
    }

    /// Walks over the page at the beginning of `bytes`, whose first row is `first`. Returns its
    /// number of rows, and where the next page begins.
    fn page(&mut self, bytes: &Range<u64>, first: u64) -> Result<(u64, u64)> {
        let at = bytes.start;
        let header = self.header(bytes).map_err(|e| e.at_byte(at))?;
        let payload = at + header.header_bytes;
        let end = payload.checked_add(header.stored_bytes).filter(|end| *end <= bytes.end);
        let end = end.ok_or_else(|| {
            let what = format!("a page of {} bytes behind its header", header.stored_bytes);
            Error::corrupt(format!("{what} goes beyond {}", bytes.end)).at_byte(at)
        })?;
        let Some(n_rows) = header.n_values() else {
            return match header.kind {
                PageKind::Other => Ok((0, end)),
                _ => {
                    Err(Error::corrupt("a dictionary, which the footer does not list").at_byte(at))
                }
            };
        };
        if first + n_rows > self.rows.start {
            let levels = self.levels(&header, payload..end).map_err(|e| e.at_byte(at))?;
            self.values(&levels, n_rows, first, payload, end).map_err(|e| e.at_byte(at))?;
        }
        Ok((n_rows, end))
    }

    fn header(&mut self, bytes: &Range<u64>) -> Result<PageHeader> {
        let mut n = FIRST_READ;
        loop {
            let end = bytes.end.min(bytes.start.saturating_add(n as u64));
            if let Some(header) = PageHeader::parse(self.window.bytes(bytes.start..end)?)? {
                return Ok(header);
            }
            if end == bytes.end || n >= MAX_HEADER {
                return Err(Error::corrupt("a page header that does not end"));
            }
            n *= 16;
        }
    }

    /// The bytes of a page's definition levels, and where they end in the page.
    fn levels(&mut self, header: &PageHeader, payload: Range<u64>) -> Result<(Vec<u8>, u64)> {
        let is_plain = |encoding| {
            if encoding == encoding::PLAIN {
                return Ok(());
            }
            Err(Error::corrupt(format!(
                "a page in encoding {encoding}, which the footer does not list"
            )))
        };
        let levels = match header.kind {
            PageKind::DataV2 { encoding, repetition_bytes, definition_bytes, .. } => {
                is_plain(encoding)?;
                let start = payload.start + repetition_bytes;
                start..start + definition_bytes
            }
            PageKind::Data { encoding, definition_encoding, .. } => {
                is_plain(encoding)?;
                if self.max_level == 0 {
                    payload.start..payload.start
                } else {
                    is_level_encoding(definition_encoding)?;
                    let start = payload.start + LENGTH;
                    start..start + u64::from(self.length(payload.start, payload.end)?)
                }
            }
            PageKind::Dictionary { .. } | PageKind::Other => payload.start..payload.start,
        };
        if levels.end > payload.end {
            return Err(Error::corrupt("the definition levels are longer than their page"));
        }
        let bytes = self.window.bytes(levels.clone())?.to_vec();
        Ok((bytes, levels.end - payload.start))
    }

    fn values(
        &mut self,
        (levels, skip): &(Vec<u8>, u64),
        n_rows: u64,
        first: u64,
        payload: u64,
        end: u64,
    ) -> Result<()> {
        let (max_level, mut at, mut row) = (self.max_level, payload + skip, first);
        let on_run = |is_valid: bool, n: u64| {
            let n = n.min(self.rows.end.saturating_sub(row));
            if is_valid {
                for row in row..row + n {
                    let start = at + LENGTH;
                    let len = self.length(at, end)?;
                    at = start + u64::from(len);
                    if at > end {
                        let what = format!("a value of {len} bytes goes beyond its page");
                        return Err(Error::corrupt(what).at_byte(start));
                    }
                    self.push(row, start, len, true);
                }
            } else {
                (row..row + n).for_each(|row| self.push(row, at, 0, false));
            }
            row += n;
            Ok(())
        };
        levels::for_each_run(levels, max_level, n_rows, on_run)
    }

    fn push(&mut self, row: u64, start: u64, len: u32, is_valid: bool) {
        if row >= self.rows.start {
            self.starts.push(start);
            self.lens.push(len);
            self.is_valid.append(is_valid);
        }
    }

    /// The length of a value, before `end`.
    fn length(&mut self, at: u64, end: u64) -> Result<u32> {
        if at.checked_add(LENGTH).is_none_or(|behind| behind > end) {
            return Err(Error::corrupt("a page ends before its values").at_byte(at));
        }
        let length = self.window.bytes(at..at + LENGTH)?.first_chunk().copied();
        Ok(u32::from_le_bytes(length.unwrap_or_default()))
    }

    fn finish(mut self) -> Result<BlobColumn> {
        let n_rows = self.rows.end - self.rows.start;
        if self.starts.len() as u64 != n_rows {
            let what = format!("{} values for {n_rows} rows", self.starts.len());
            return Err(Error::corrupt(what).at_byte(self.chunk.start));
        }
        let last = self.starts.last().zip(self.lens.last());
        self.starts.push(last.map_or(self.chunk.start, |(start, len)| start + u64::from(*len)));
        let nulls = NullBuffer::new(self.is_valid.finish());
        let nulls = (nulls.null_count() > 0).then_some(nulls);
        BlobColumn::scattered(nulls, self.starts, self.lens)
    }
}

fn is_level_encoding(found: i32) -> Result<()> {
    if found == encoding::RLE {
        return Ok(());
    }
    Err(Error::corrupt(format!("definition levels in encoding {found}, which is not supported")))
}
