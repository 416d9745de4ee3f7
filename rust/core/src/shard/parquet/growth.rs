//! What values take that pages do not have in full: references to a dictionary, and to the beginning of
//! the value before.
//!
//! A page of some kilobytes can refer to a long value a million times. So what is referred to is added
//! up before anything is decoded.

use std::ops::Range;

use ::parquet::{basic::Encoding, column::page::Page, schema::types::ColumnDescriptor};

use super::{
    delta,
    fetch::Fetched,
    hybrid::{Hybrid, MAX_WIDTH, Stretch, unpack},
    levels,
    pages::Sections,
    size::ChunkPart,
};
use crate::{Error, Result};

impl ChunkPart<'_> {
    /// The bytes of the values that these pages refer to, each as often as it is referred to. The
    /// dictionary is the first of them.
    pub(super) fn growth(&self, fetched: &Fetched, pages: &[Range<u64>]) -> Result<u64> {
        let column = self.chunk.column_descr();
        let mut sum = Growth { column, lengths: Vec::new(), bytes: 0 };
        for bytes in pages {
            self.page(fetched, bytes)?.map_or(Ok(()), |page| sum.add(&page))?;
        }
        Ok(sum.bytes)
    }
}

struct Growth<'a> {
    column: &'a ColumnDescriptor,
    /// Of the values in the dictionary.
    lengths: Vec<u32>,
    bytes: u64,
}

impl Growth<'_> {
    fn add(&mut self, page: &Page) -> Result<()> {
        if let Page::DictionaryPage { buf, .. } = page {
            self.lengths = lengths(buf);
            return Ok(());
        }
        let sections = Sections::of(page, self.column)?;
        let (values, mut n) = (sections.values, 0);
        let max_level = u8::try_from(self.column.max_def_level()).unwrap_or(u8::MAX);
        levels::for_each_run(
            sections.definition,
            max_level,
            page.num_values().into(),
            |is_value, more| {
                n += if is_value { more } else { 0 };
                Ok(())
            },
        )?;
        let bytes = match page.encoding() {
            Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY => self.referred(values, n)?,
            Encoding::DELTA_BYTE_ARRAY if n > 0 => delta::sum(values, n)?,
            _ => 0,
        };
        self.bytes = self.bytes.saturating_add(bytes);
        Ok(())
    }

    /// The bytes of the `n` values that references stand for. One to nothing is found when it is decoded.
    fn referred(&self, bytes: &[u8], n: u64) -> Result<u64> {
        let Some((width, bytes)) = bytes.split_first() else { return Ok(0) };
        let width = u32::from(*width);
        if width > MAX_WIDTH {
            return Err(Error::corrupt(format!("references of {width} bits")));
        }
        let length = |at: u32| u64::from(self.lengths.get(at as usize).copied().unwrap_or(0));
        let mut references = Hybrid::new(bytes, width, n);
        let mut sum = 0_u64;
        while let Some(stretch) = references.next()? {
            let bytes = match stretch {
                Stretch::Run(at, n) => length(at).saturating_mul(n),
                Stretch::Packed(packed, n) => {
                    let mut bytes = 0;
                    unpack(packed, width, n, |block| {
                        bytes += block.iter().map(|at| length(*at)).sum::<u64>();
                    });
                    bytes
                }
            };
            sum = sum.saturating_add(bytes);
        }
        Ok(sum)
    }
}

/// The lengths of plain values.
fn lengths(values: &[u8]) -> Vec<u32> {
    let (mut rest, mut lengths) = (values, Vec::new());
    while let Some((length, behind)) = rest.split_first_chunk() {
        let length = u32::from_le_bytes(*length);
        lengths.push(length);
        rest = behind.get(length as usize..).unwrap_or_default();
    }
    lengths
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use ::parquet::{
        basic::Type,
        schema::types::{ColumnPath, Type as SchemaType},
    };

    use super::*;

    fn of(pages: &[Page]) -> Result<u64> {
        let text = SchemaType::primitive_type_builder("text", Type::BYTE_ARRAY).build().unwrap();
        let column = ColumnDescriptor::new(Arc::new(text), 1, 0, ColumnPath::from("text"));
        let mut growth = Growth { column: &column, lengths: Vec::new(), bytes: 0 };
        pages.iter().try_for_each(|page| growth.add(page))?;
        Ok(growth.bytes)
    }

    fn dictionary() -> Page {
        let buf = [&[2, 0, 0, 0], &b"ab"[..], &[5, 0, 0, 0], b"abcde"].concat().into();
        Page::DictionaryPage { buf, num_values: 2, encoding: Encoding::PLAIN, is_sorted: false }
    }

    fn page(defined: &[u8], values: &[u8], num_values: u32, encoding: Encoding) -> Page {
        Page::DataPageV2 {
            buf: [defined, values].concat().into(),
            num_values,
            encoding,
            num_nulls: 0,
            num_rows: num_values,
            def_levels_byte_len: defined.len() as u32,
            rep_levels_byte_len: 0,
            is_compressed: false,
            statistics: None,
        }
    }

    #[test]
    fn references_are_added_up_without_nulls() {
        // Twelve levels of 1 and 4 of 0; three times the second value, and 1 0 1 0 0 0 0 0 and one more.
        let levels = [24, 1, 8, 0];
        let references = [1, 6, 1, 5, 0b0000_0101, 0b0000_0001];
        let encoding = Encoding::RLE_DICTIONARY;
        let pages = [dictionary(), page(&levels, &references, 16, encoding)];
        assert_eq!(of(&pages).unwrap(), 3 * 5 + 2 * 5 + 6 * 2 + 5);
        let plain = page(&levels, &[0; 200], 16, Encoding::PLAIN);
        assert_eq!(of(&[dictionary(), plain]).unwrap(), 0);
        let short = page(&[32, 1], &references[..3], 16, encoding);
        assert!(of(&[dictionary(), short]).is_err());
        let wide = page(&[32, 1], &[33, 32, 0], 16, encoding);
        assert!(of(&[dictionary(), wide]).is_err());
        let all_null = page(&[32, 0], &[], 16, encoding);
        assert_eq!(of(&[dictionary(), all_null]).unwrap(), 0);
    }

    #[test]
    fn a_run_is_multiplied_and_not_walked() {
        let n = u32::MAX >> 1;
        let run = [0xfe, 0xff, 0xff, 0xff, 0x0f, 1]; // 2^31 - 1 times
        let pages =
            [dictionary(), page(&run, &[&[1], &run[..]].concat(), n, Encoding::RLE_DICTIONARY)];
        assert_eq!(of(&pages).unwrap(), u64::from(n) * 5);
    }
}
