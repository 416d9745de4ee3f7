//! The pages of a part of a column, decompressed one by one. Their headers were checked before.

use std::{ops::Range, sync::Arc};

use ::parquet::{
    basic::Encoding,
    column::page::{Page as CratePage, PageReader},
    file::serialized_reader::SerializedPageReader,
    schema::types::ColumnDescriptor,
};

use super::{super::guard, fetch::Fetched, footer::refused, page_index::Page, size::ChunkPart};
use crate::{Error, Result};

/// The sections of a data page.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sections<'a> {
    /// The repetition levels, as runs.
    pub(super) repetition: &'a [u8],
    /// The definition levels, as runs.
    pub(super) definition: &'a [u8],
    pub(super) values: &'a [u8],
}

impl<'a> Sections<'a> {
    /// Those of a page of this column. A dictionary is values alone.
    pub(super) fn of(page: &'a CratePage, column: &ColumnDescriptor) -> Result<Self> {
        let buffer = page.buffer().as_ref();
        let (repetition, definition, values) = match page {
            CratePage::DictionaryPage { .. } => (&[][..], &[][..], buffer),
            CratePage::DataPage { rep_level_encoding, def_level_encoding, .. } => {
                let split = |bytes, max_level, encoding| match (max_level, encoding) {
                    (0, _) => Ok((&[][..], bytes)),
                    (_, Encoding::RLE) => with_length(bytes),
                    // No writer of the last ten years has these.
                    _ => Err(Error::corrupt(
                        "levels in another encoding than runs; write the shard again",
                    )),
                };
                let (repetition, rest) =
                    split(buffer, column.max_rep_level(), *rep_level_encoding)?;
                let (definition, values) =
                    split(rest, column.max_def_level(), *def_level_encoding)?;
                (repetition, definition, values)
            }
            CratePage::DataPageV2 { rep_levels_byte_len, def_levels_byte_len, .. } => {
                let split =
                    |bytes, at: u32| <[u8]>::split_at_checked(bytes, at as usize).ok_or_else(ends);
                let (repetition, rest) = split(buffer, *rep_levels_byte_len)?;
                let (definition, values) = split(rest, *def_levels_byte_len)?;
                (repetition, definition, values)
            }
        };
        Ok(Self { repetition, definition, values })
    }
}

/// Splits off what has its length of four bytes before it.
fn with_length(bytes: &[u8]) -> Result<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk().ok_or_else(ends)?;
    rest.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(ends)
}

fn ends() -> Error {
    Error::corrupt("a page ends before its values")
}

impl ChunkPart<'_> {
    /// The rows of the row group that are in the pages of the part.
    pub(super) fn rows_of_pages(&self) -> Range<u64> {
        match self.needed() {
            None => 0..self.n_rows,
            Some([]) => self.rows.start..self.rows.start,
            Some([first, rest @ ..]) => first.rows.start..rest.last().unwrap_or(first).rows.end,
        }
    }

    /// Calls `each` with the dictionary, if it was read, and the data pages, until it returns `false`.
    pub(super) fn for_each_page(
        &self,
        fetched: &Fetched,
        mut each: impl FnMut(CratePage) -> Result<bool>,
    ) -> Result<()> {
        let Some(pages) = self.needed() else {
            let mut pages = self.reader(fetched, None)?;
            while let Some(page) = next(&mut pages)? {
                if !each(page)? {
                    break;
                }
            }
            return Ok(());
        };
        let is_read = |range: &Range<u64>| !range.is_empty() && fetched.from(range.start).is_some();
        let dictionary = Some(self.dictionary()).filter(is_read);
        for range in
            dictionary.into_iter().chain(pages.iter().map(|page: &Page| page.bytes.clone()))
        {
            let page = self.page(fetched, &range)?;
            if !page.map_or(Ok(true), &mut each)? {
                break;
            }
        }
        Ok(())
    }

    /// The page at these bytes.
    pub(super) fn page(&self, fetched: &Fetched, bytes: &Range<u64>) -> Result<Option<CratePage>> {
        next(&mut self.reader(fetched, Some(bytes))?)
    }

    /// Reads the pages at these bytes, or all of the chunk.
    fn reader(
        &self,
        fetched: &Fetched,
        bytes: Option<&Range<u64>>,
    ) -> Result<SerializedPageReader<Fetched>> {
        guard::contain("a column chunk", || {
            let chunk = bytes.map(|bytes| {
                let builder = self.chunk.clone().into_builder();
                builder
                    .set_dictionary_page_offset(None)
                    .set_data_page_offset(bytes.start as i64)
                    .set_total_compressed_size((bytes.end - bytes.start) as i64)
                    .build()
            });
            let file = Arc::new(fetched.clone());
            let n_rows = self.n_rows as usize;
            chunk
                .transpose()
                .and_then(|chunk| {
                    SerializedPageReader::new(
                        file,
                        chunk.as_ref().unwrap_or(self.chunk),
                        n_rows,
                        None,
                    )
                })
                .map_err(|e| refused(&e, "a column chunk does not decode"))
        })
    }
}

fn next(pages: &mut SerializedPageReader<Fetched>) -> Result<Option<CratePage>> {
    guard::contain("a page", || {
        pages.get_next_page().map_err(|e| refused(&e, "a page does not decode"))
    })
}
