//! A row group as the crate reads it, whose pages are checked on the way.
//!
//! The crate believes levels: one beyond its column's highest makes other lists of the same values, and
//! values that are missing are filled up. Here pages are decompressed already, and their runs are walked
//! once.

use std::{iter, sync::Arc};

use ::parquet::{
    arrow::arrow_reader::RowGroups,
    basic::Encoding,
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result as ParquetResult},
    file::{
        metadata::{ParquetMetaData, RowGroupMetaData},
        serialized_reader::SerializedPageReader,
    },
    schema::types::ColumnDescPtr,
};

use super::{fetch::Fetched, hybrid, levels, pages::Sections};
use crate::Result;

/// A row group, and what was read of it.
pub(super) struct CheckedGroup {
    pub(super) fetched: Arc<Fetched>,
    pub(super) metadata: Arc<ParquetMetaData>,
    pub(super) group: usize,
}

impl CheckedGroup {
    fn row_group(&self) -> Option<&RowGroupMetaData> {
        self.metadata.row_groups().get(self.group)
    }

    fn pages(&self, leaf: usize) -> ParquetResult<CheckedPages> {
        let missing = || ParquetError::General("a column chunk is missing".to_owned());
        let group = self.row_group().ok_or_else(missing)?;
        let chunk = group.columns().get(leaf).ok_or_else(missing)?;
        let index = self.metadata.page_index();
        let locations = index.and_then(|index| index.page_locations(self.group, leaf).cloned());
        let n_rows = group.num_rows() as usize;
        let file = Arc::clone(&self.fetched);
        let pages = SerializedPageReader::new(file, chunk, n_rows, locations)?;
        Ok(CheckedPages { pages, column: chunk.column_descr_ptr() })
    }
}

impl RowGroups for CheckedGroup {
    fn num_rows(&self) -> usize {
        self.row_group().map_or(0, |group| group.num_rows() as usize)
    }

    fn column_chunks(&self, leaf: usize) -> ParquetResult<Box<dyn PageIterator>> {
        let pages = self.pages(leaf).map(|pages| Box::new(pages) as Box<dyn PageReader>);
        Ok(Box::new(OneChunk(iter::once(pages))))
    }

    fn row_groups(&self) -> Box<dyn Iterator<Item = &RowGroupMetaData> + '_> {
        Box::new(self.row_group().into_iter())
    }

    fn metadata(&self) -> &ParquetMetaData {
        &self.metadata
    }
}

type ChunkPages = ParquetResult<Box<dyn PageReader>>;

/// The pages of the only chunk of a column.
struct OneChunk(iter::Once<ChunkPages>);

impl Iterator for OneChunk {
    type Item = ChunkPages;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next()
    }
}

impl PageIterator for OneChunk {}

struct CheckedPages {
    pages: SerializedPageReader<Fetched>,
    column: ColumnDescPtr,
}

impl CheckedPages {
    fn checked(&self, page: Option<Page>) -> ParquetResult<Option<Page>> {
        let check = |page: &Page| check(page, &self.column);
        page.as_ref().map_or(Ok(()), check).map_err(|e| ParquetError::General(e.to_string()))?;
        Ok(page)
    }
}

impl Iterator for CheckedPages {
    type Item = ParquetResult<Page>;

    fn next(&mut self) -> Option<Self::Item> {
        self.get_next_page().transpose()
    }
}

impl PageReader for CheckedPages {
    fn get_next_page(&mut self) -> ParquetResult<Option<Page>> {
        let page = self.pages.get_next_page()?;
        self.checked(page)
    }

    fn peek_next_page(&mut self) -> ParquetResult<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> ParquetResult<()> {
        self.pages.skip_next_page()
    }

    fn supports_deferred_dictionary(&self) -> bool {
        self.pages.supports_deferred_dictionary()
    }

    fn take_deferred_dictionary(&mut self) -> ParquetResult<Option<Page>> {
        self.pages.take_deferred_dictionary()
    }

    fn at_record_boundary(&mut self) -> ParquetResult<bool> {
        self.pages.at_record_boundary()
    }
}

/// Checks that a data page has as many levels as it says, none of them beyond its column's highest, and a
/// reference to the dictionary for each value. The crate checks what references lead to.
fn check(page: &Page, column: &ColumnDescPtr) -> Result<()> {
    match page {
        Page::DictionaryPage { .. } => return Ok(()),
        // Levels of the first years, which the crate reads by other rules.
        Page::DataPage { rep_level_encoding, def_level_encoding, .. }
            if *rep_level_encoding != Encoding::RLE || *def_level_encoding != Encoding::RLE =>
        {
            return Ok(());
        }
        Page::DataPage { .. } | Page::DataPageV2 { .. } => {}
    }
    let sections = Sections::of(page, column)?;
    let n = page.num_values().into();
    levels::count_highest(sections.repetition, column.max_rep_level(), n)?;
    let n_values = levels::count_highest(sections.definition, column.max_def_level(), n)?;
    let is_reference =
        matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
    if is_reference && n_values > 0 {
        hybrid::check_references(sections.values, n_values)?;
    }
    Ok(())
}
