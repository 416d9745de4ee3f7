//! Where the pages of column chunks begin, as offset indexes say.
//!
//! Old writers have none, and one that contradicts itself is ignored: reading is by column chunk then.

use std::{ops::Range, sync::Arc};

use parquet::file::{
    metadata::{
        ColumnChunkMetaData, OffsetIndexBuilder, ParquetMetaData, page_index::PageIndexBuilder,
    },
    page_index::offset_index::PageLocation,
};

use super::thrift::Thrift;
use crate::{Error, Result};

/// One data page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Page {
    /// Its bytes in the file, its header included.
    pub(super) bytes: Range<u64>,
    /// Its rows in the row group.
    pub(super) rows: Range<u64>,
}

/// The data pages of column chunks.
#[derive(Debug)]
pub(super) struct PageIndex {
    /// By row group, by leaf; empty where a chunk has no index.
    chunks: Vec<Vec<Vec<Page>>>,
}

impl PageIndex {
    /// The indexes in `source`, which begins at `start` in the file.
    pub(super) fn read(metadata: &ParquetMetaData, start: u64, source: &[u8]) -> Self {
        let pages = |chunk: &ColumnChunkMetaData, n_rows: u64| {
            let range = index_range(chunk, u64::MAX)?;
            let from = usize::try_from(range.start.checked_sub(start)?).ok()?;
            let len = usize::try_from(range.end - range.start).ok()?;
            let bytes = source.get(from..from.checked_add(len)?)?;
            parse(bytes, &super::footer::chunk_range(chunk), n_rows).ok()
        };
        let chunks = metadata.row_groups().iter().map(|group| {
            let n_rows = group.num_rows().max(0) as u64;
            group.columns().iter().map(|chunk| pages(chunk, n_rows).unwrap_or_default()).collect()
        });
        Self { chunks: chunks.collect() }
    }

    /// The data pages of a column chunk, in order; `None` where it has no index.
    pub(super) fn pages(&self, group: usize, leaf: usize) -> Option<&[Page]> {
        let pages = self.chunks.get(group)?.get(leaf)?;
        (!pages.is_empty()).then_some(pages)
    }

    /// Adds the pages to the metadata that the crate reads by.
    pub(super) fn put_into(&self, metadata: ParquetMetaData) -> ParquetMetaData {
        let n_columns = metadata.file_metadata().schema_descr().num_columns();
        let mut all = PageIndexBuilder::default();
        all.allocate_offset_indexes(metadata.num_row_groups(), n_columns);
        for (group, chunks) in self.chunks.iter().enumerate() {
            for (leaf, pages) in chunks.iter().enumerate().filter(|(_, pages)| !pages.is_empty()) {
                let mut index = OffsetIndexBuilder::new();
                for page in pages {
                    index.append_row_count((page.rows.end - page.rows.start) as i64);
                    let n_bytes = page.bytes.end - page.bytes.start;
                    index.append_offset_and_size(page.bytes.start as i64, n_bytes as i32);
                }
                all.put_offset_index(index.build(), group, leaf);
            }
        }
        metadata.into_builder().set_page_index(Some(Arc::new(all.build()))).build()
    }
}

/// Where the offset index of a column chunk lies, before `data_end`.
pub(super) fn index_range(chunk: &ColumnChunkMetaData, data_end: u64) -> Option<Range<u64>> {
    let start = u64::try_from(chunk.offset_index_offset()?).ok()?;
    let len = u64::try_from(chunk.offset_index_length()?).ok()?;
    let end = start.checked_add(len).filter(|end| *end <= data_end && len > 0)?;
    Some(start..end)
}

/// The pages that an index lists. They follow each other in the chunk and have all of its rows.
fn parse(bytes: &[u8], chunk: &Range<u64>, n_rows: u64) -> Result<Vec<Page>> {
    let mut pages: Vec<Page> = Vec::new();
    for location in locations(bytes)? {
        let wrong = || Error::corrupt("a page lies outside its column chunk");
        let start = u64::try_from(location.offset).map_err(|_| wrong())?;
        let len = u64::try_from(location.compressed_page_size).map_err(|_| wrong())?;
        let row = u64::try_from(location.first_row_index).map_err(|_| wrong())?;
        let end = start.checked_add(len).ok_or_else(wrong)?;
        let (after, first_row) = match pages.last_mut() {
            None => (chunk.start, 0),
            Some(last) => {
                last.rows.end = row;
                (last.bytes.end, last.rows.start)
            }
        };
        let is_first = pages.is_empty();
        let rows_ascend = if is_first { row == 0 } else { row > first_row };
        if !rows_ascend || row >= n_rows || len == 0 || start < after || end > chunk.end {
            return Err(wrong());
        }
        pages.push(Page { bytes: start..end, rows: row..n_rows });
    }
    Ok(pages)
}

fn locations(bytes: &[u8]) -> Result<Vec<PageLocation>> {
    let mut thrift = Thrift::new(bytes);
    let (mut found, mut last) = (Vec::new(), 0);
    while let Some(field) = thrift.field(&mut last)? {
        if field.id != 1 {
            thrift.skip(field)?;
            continue;
        }
        for _ in 0..thrift.structures(field)? {
            found.push(location(&mut thrift)?);
        }
    }
    Ok(found)
}

fn location(thrift: &mut Thrift<'_>) -> Result<PageLocation> {
    let (mut offset, mut size, mut row, mut last) = (-1, -1, -1, 0);
    while let Some(field) = thrift.field(&mut last)? {
        match field.id {
            1 => offset = thrift.integer(field)?,
            2 => size = thrift.integer_32(field)?,
            3 => row = thrift.integer(field)?,
            _ => thrift.skip(field)?,
        }
    }
    Ok(PageLocation { offset, compressed_page_size: size, first_row_index: row })
}
