//! A row group as the crate reads it, whose pages are checked on the way.
//!
//! The crate believes levels: one beyond its column's highest makes other lists of the same values, and
//! values that are missing are filled up. Here pages are decompressed already, and their runs are walked
//! once.

use std::{iter, sync::Arc};

use ::parquet::{
    arrow::arrow_reader::RowGroups,
    basic::{Encoding, Repetition},
    column::page::{Page, PageIterator, PageMetadata, PageReader},
    errors::{ParquetError, Result as ParquetResult},
    file::{
        metadata::{ParquetMetaData, RowGroupMetaData},
        serialized_reader::SerializedPageReader,
    },
    schema::types::{ColumnDescPtr, Type},
};

use super::{
    fetch::Fetched,
    hybrid,
    levels::{self, Runs},
    pages::Sections,
};
use crate::{Error, Result};

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
        let column = chunk.column_descr_ptr();
        let schema = self.metadata.file_metadata().schema_descr();
        let list_levels = list_levels(schema.get_column_root(leaf), column.path().parts());
        Ok(CheckedPages { pages, column, list_levels, before: None })
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
    /// The definition level of a value in the lists of each depth.
    list_levels: Vec<u8>,
    /// The definition level of the value before the next page, if that was read.
    before: Option<u8>,
}

/// The definition levels at which each repeated field on the way to a leaf has a value.
fn list_levels(root: &Type, path: &[String]) -> Vec<u8> {
    let (mut field, mut names, mut level, mut levels) = (root, path.iter().skip(1), 0, Vec::new());
    loop {
        let info = field.get_basic_info();
        let repetition =
            if info.has_repetition() { info.repetition() } else { Repetition::REQUIRED };
        level += u8::from(repetition != Repetition::REQUIRED);
        if repetition == Repetition::REPEATED {
            levels.push(level);
        }
        let Some(name) = names.next().filter(|_| field.is_group()) else { return levels };
        let child = field.get_fields().iter().find(|child| child.name() == name);
        let Some(child) = child else { return levels };
        field = child;
    }
}

impl CheckedPages {
    fn checked(&mut self, page: Option<Page>) -> ParquetResult<Option<Page>> {
        page.as_ref()
            .map_or(Ok(()), |page| self.check(page))
            .map_err(|e| ParquetError::General(e.to_string()))?;
        Ok(page)
    }

    /// Checks that a data page has as many levels as it says, that no level is beyond its column's highest,
    /// that no list goes on that has no value, and that there is a reference to the dictionary for each
    /// value. The crate checks what references lead to.
    fn check(&mut self, page: &Page) -> Result<()> {
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
        let sections = Sections::of(page, &self.column)?;
        let n = page.num_values().into();
        let level = |level: i16| {
            u8::try_from(level).map_err(|_| Error::corrupt(format!("a highest level of {level}")))
        };
        let repeats = level(self.column.max_rep_level())?;
        let highest = level(self.column.max_def_level())?;
        let n_values = if repeats == 0 {
            levels::count_highest(sections.definition, highest, n)?
        } else {
            let repeated = Runs::new(sections.repetition, repeats, n);
            self.count_in_lists(repeated, Runs::new(sections.definition, highest, n), highest)?
        };
        let is_reference =
            matches!(page.encoding(), Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY);
        if is_reference && n_values > 0 {
            hybrid::check_references(sections.values, n_values)?;
        }
        Ok(())
    }

    /// Checks that what continues a list is a value in it, as is what comes before it. Returns how many
    /// values there are.
    fn count_in_lists(
        &mut self,
        mut repeated: Runs<'_>,
        mut defined: Runs<'_>,
        highest: u8,
    ) -> Result<u64> {
        let mut before = self.before.unwrap_or(u8::MAX);
        let (mut repeat, mut define, mut n_values) = ((0, 0), (0, 0), 0);
        loop {
            if repeat.1 == 0 {
                repeat = repeated.next()?.unwrap_or_default();
            }
            if define.1 == 0 {
                define = defined.next()?.unwrap_or_default();
            }
            let n = repeat.1.min(define.1);
            if n == 0 {
                break;
            }
            let (depth, level) = (usize::from(repeat.0), define.0);
            let in_list = depth.checked_sub(1).and_then(|depth| self.list_levels.get(depth));
            // The first of the run stands behind another level, the others behind their own.
            if in_list.is_some_and(|in_list| *in_list > before.min(level)) {
                return Err(Error::corrupt("a list that goes on has no value there"));
            }
            before = level;
            n_values += if level == highest { n } else { 0 };
            (repeat.1, define.1) = (repeat.1 - n, define.1 - n);
        }
        self.before = Some(before);
        Ok(n_values)
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
        self.before = None;
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
