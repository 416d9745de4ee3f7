//! Columns of lists of numbers, such as tokens and embeddings, without nulls and empty lists.
//!
//! The crate makes a level of each number, and then looks at each of them twice. Here levels stay the
//! runs that they are in the file: a list of 2,048 numbers is three of them.

use std::sync::Arc;

use ::parquet::{
    basic::{Encoding, Type},
    column::page::Page,
    schema::types::ColumnDescriptor,
};
use arrow_array::{ArrayRef, FixedSizeListArray, LargeListArray, ListArray, make_array};
use arrow_buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayDataBuilder;
use arrow_schema::{DataType, FieldRef};
use bytes::Bytes;

use super::{fetch::Fetched, levels, numbers::Numbers, pages::Sections, size::ChunkPart};
use crate::{
    Error, Result,
    memory::{self, BufferPool},
};

/// The rows of a part of a column, whose pages have `n` numbers; `None` where it is of another type, or
/// has what the crate is for.
pub(super) fn decode(
    fetched: &Fetched,
    part: &ChunkPart<'_>,
    data_type: &DataType,
    n: u64,
    pool: &Arc<BufferPool>,
) -> Result<Option<ArrayRef>> {
    let Some(item) = item_of(data_type) else { return Ok(None) };
    match (item.data_type(), part.chunk.column_type()) {
        (DataType::Int32 | DataType::UInt32, Type::INT32) | (DataType::Float32, Type::FLOAT) => {
            lists::<4>(fetched, part, data_type, n, pool)
        }
        (DataType::Int64 | DataType::UInt64, Type::INT64) | (DataType::Float64, Type::DOUBLE) => {
            lists::<8>(fetched, part, data_type, n, pool)
        }
        _ => Ok(None),
    }
}

/// The items of a type of lists.
fn item_of(data_type: &DataType) -> Option<&FieldRef> {
    match data_type {
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            Some(item)
        }
        _ => None,
    }
}

fn lists<const N: usize>(
    fetched: &Fetched,
    part: &ChunkPart<'_>,
    data_type: &DataType,
    n: u64,
    pool: &Arc<BufferPool>,
) -> Result<Option<ArrayRef>> {
    let rows = part.rows_of_pages();
    let n_bytes = usize::try_from(n).ok().and_then(|n| n.checked_mul(N)).ok_or_else(ends)?;
    let buffer = pool.take(n_bytes, None)?;
    let mut lists = Lists::<N>::new(part.chunk.column_descr(), rows.end - rows.start, buffer);
    let mut is_known = true;
    part.for_each_page(fetched, |page| {
        is_known = is_known && lists.add(&page)?;
        Ok(is_known)
    })?;
    if !is_known {
        return Ok(None);
    }
    let Some(all) = lists.finish(data_type)? else { return Ok(None) };
    // Pages may have more rows than the part.
    let skip = part.rows.start.saturating_sub(rows.start);
    Ok(Some(all.slice(skip as usize, (part.rows.end - part.rows.start) as usize)))
}

/// The lists so far.
struct Lists<'a, const N: usize> {
    column: &'a ColumnDescriptor,
    numbers: Numbers<N>,
    /// Where each list begins among the numbers.
    starts: Vec<i32>,
    n_rows: u64,
    max_level: u8,
}

impl<'a, const N: usize> Lists<'a, N> {
    fn new(column: &'a ColumnDescriptor, n_rows: u64, buffer: memory::Buffer) -> Self {
        let max_level = u8::try_from(column.max_def_level()).unwrap_or(0);
        Self { column, numbers: Numbers::new(buffer), starts: Vec::new(), n_rows, max_level }
    }

    /// Adds a page; `false` where it has nulls, empty lists or another encoding.
    fn add(&mut self, page: &Page) -> Result<bool> {
        let (n, encoding) = (page.num_values() as usize, page.encoding());
        match page {
            Page::DictionaryPage { buf, .. } => {
                self.numbers.set_dictionary(buf, n)?;
                return Ok(true);
            }
            Page::DataPage { def_level_encoding, rep_level_encoding, .. }
                if *def_level_encoding != Encoding::RLE || *rep_level_encoding != Encoding::RLE =>
            {
                return Ok(false);
            }
            Page::DataPage { .. } | Page::DataPageV2 { .. } => {}
        }
        let Sections { repetition, definition, values } = Sections::of(page, self.column)?;
        let mut has_all = true;
        levels::for_each_run(definition, self.max_level, n as u64, |is_number, _| {
            has_all &= is_number;
            Ok(())
        })?;
        if !has_all {
            return Ok(false);
        }
        self.add_starts(repetition, n as u64)?;
        self.numbers.add(values, n, encoding)
    }

    /// Adds where lists begin among the `n` numbers of a page.
    fn add_starts(&mut self, continuing: &[u8], n: u64) -> Result<()> {
        let (starts, n_rows) = (&mut self.starts, self.n_rows);
        let mut at = self.numbers.len() as u64;
        levels::for_each_run(continuing, 1, n, |is_continuing, n| {
            if is_continuing && starts.is_empty() {
                return Err(Error::corrupt("a list that does not begin"));
            }
            if !is_continuing {
                if starts.len() as u64 + n > n_rows {
                    return Err(Error::corrupt(format!("more lists than its {n_rows} rows")));
                }
                let end = i32::try_from(at + n).map_err(|_| ends())?;
                starts.extend(at as i32..end);
            }
            at += n;
            Ok(())
        })
    }

    /// The lists as this type; `None` where they have not the length that it fixes.
    fn finish(mut self, data_type: &DataType) -> Result<Option<ArrayRef>> {
        if self.starts.len() as u64 != self.n_rows {
            let what = format!("{} lists for {} rows", self.starts.len(), self.n_rows);
            return Err(Error::corrupt(what));
        }
        let n = self.numbers.len();
        self.starts.push(i32::try_from(n).map_err(|_| ends())?);
        let Some(item) = item_of(data_type) else { return Ok(None) };
        if let DataType::FixedSizeList(_, size) = data_type
            && self.starts.windows(2).any(|pair| !matches!(pair, [a, b] if b - a == *size))
        {
            return Ok(None);
        }
        let numbers = ArrayDataBuilder::new(item.data_type().clone())
            .len(n)
            .add_buffer(Buffer::from(Bytes::from_owner(self.numbers.into_buffer())))
            .build()
            .map(make_array);
        let (item, starts) = (Arc::clone(item), self.starts);
        let lists = numbers.and_then(|numbers| {
            Ok(match data_type {
                DataType::FixedSizeList(_, size) => {
                    Arc::new(FixedSizeListArray::try_new(item, *size, numbers, None)?) as ArrayRef
                }
                DataType::LargeList(_) => {
                    let starts: Vec<i64> = starts.into_iter().map(i64::from).collect();
                    let offsets = OffsetBuffer::new(ScalarBuffer::from(starts));
                    Arc::new(LargeListArray::try_new(item, offsets, numbers, None)?)
                }
                _ => {
                    let offsets = OffsetBuffer::new(ScalarBuffer::from(starts));
                    Arc::new(ListArray::try_new(item, offsets, numbers, None)?)
                }
            })
        });
        lists.map(Some).map_err(|e| Error::corrupt(format!("lists of numbers: {e}")))
    }
}

fn ends() -> Error {
    Error::corrupt("a page ends before its values")
}
