//! What decoding the pages of a column takes, from their headers, before anything is decompressed.

use std::{cmp::min, ops::Range};

use ::parquet::{
    basic::{Compression, ConvertedType, Encoding, LogicalType, Type},
    file::metadata::ColumnChunkMetaData,
};

use super::{
    delta,
    fetch::Fetched,
    footer::chunk_range,
    page::{PageHeader, PageKind, encoding},
    page_index::Page,
    pages::Sections,
    table::MAX_DECODED,
};
use crate::{Error, Result};

/// Where values could grow to more by references, these are decompressed and added up.
const MUCH: u64 = 16 << 20;

/// Bytes of an array for one value of a type that is not fixed: its offset and its length.
const OFFSETS: u64 = 16;

/// The size of a decoded column.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DecodedSize {
    /// The most bytes of memory that decoding takes.
    pub(super) bytes: u64,
    /// Values in the pages, null ones and empty lists included.
    pub(super) n_values: u64,
}

/// A column chunk, or the part of it that has some rows.
#[derive(Clone, Debug)]
pub(super) struct ChunkPart<'a> {
    pub(super) chunk: &'a ColumnChunkMetaData,
    /// All pages of the chunk, where they are known.
    pub(super) pages: Option<&'a [Page]>,
    pub(super) rows: Range<u64>,
    /// Of the row group.
    pub(super) n_rows: u64,
    /// Values that the column has for a row at least, null ones included: of lists of fixed size.
    pub(super) padding: u64,
}

impl ChunkPart<'_> {
    /// The pages that have rows of the part; `None` where pages are not known.
    pub(super) fn needed(&self) -> Option<&[Page]> {
        let pages = self.pages?;
        let first = pages.partition_point(|page| page.rows.end <= self.rows.start);
        let end = pages.partition_point(|page| page.rows.start < self.rows.end);
        pages.get(first..end)
    }

    /// Where the dictionary lies, before the first page.
    pub(super) fn dictionary(&self) -> Range<u64> {
        let chunk = chunk_range(self.chunk);
        let end = self.pages.and_then(<[Page]>::first).map_or(chunk.start, |page| page.bytes.start);
        chunk.start..end
    }

    /// The bytes of the file that decoding needs at most.
    pub(super) fn ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let dictionary = Some(self.dictionary()).filter(|range| !range.is_empty());
        dictionary.into_iter().chain(self.pages_range())
    }

    /// The bytes that are read first: without the dictionary where it is likely that no page of the part
    /// refers to it. Writers begin with references, and give them up where the dictionary is too large.
    pub(super) fn first_ranges(&self) -> impl Iterator<Item = Range<u64>> {
        let encodings = self.chunk.page_encoding_stats_mask();
        let is_mixed = encodings.is_some_and(|mask| mask.encodings().any(|one| !is_reference(one)));
        let is_unlikely = is_mixed && self.rows.start > 0 && self.pages.is_some();
        let dictionary = Some(self.dictionary()).filter(|range| !range.is_empty() && !is_unlikely);
        dictionary.into_iter().chain(self.pages_range())
    }

    /// The dictionary, if it was not read and a page refers to it.
    pub(super) fn missing_dictionary(&self, fetched: &Fetched) -> Result<Option<Range<u64>>> {
        let dictionary = self.dictionary();
        if dictionary.is_empty() || fetched.from(dictionary.start).is_some() {
            return Ok(None);
        }
        for page in self.needed().unwrap_or_default() {
            let encoding = match self.header(fetched, &page.bytes)?.kind {
                PageKind::Data { encoding, .. } | PageKind::DataV2 { encoding, .. } => encoding,
                PageKind::Dictionary { .. } | PageKind::Other => continue,
            };
            if encoding == encoding::PLAIN_DICTIONARY || encoding == encoding::RLE_DICTIONARY {
                return Ok(Some(dictionary));
            }
        }
        Ok(None)
    }

    /// The bytes of the data pages.
    fn pages_range(&self) -> Option<Range<u64>> {
        let part = match self.needed() {
            None => chunk_range(self.chunk),
            Some([]) => 0..0,
            Some([first, rest @ ..]) => first.bytes.start..rest.last().unwrap_or(first).bytes.end,
        };
        (!part.is_empty()).then_some(part)
    }

    /// Checks the pages' headers, and adds up what they decode to.
    pub(super) fn decoded_size(&self, fetched: &Fetched) -> Result<DecodedSize> {
        let mut sum = PageSum::default();
        let dictionary = self.dictionary();
        if !dictionary.is_empty() && fetched.from(dictionary.start).is_some() {
            sum.add(&self.header(fetched, &dictionary)?, dictionary);
        }
        let is_flat = self.chunk.column_descr().max_rep_level() == 0;
        let mut n_values = 0_u64;
        if let Some(pages) = self.needed() {
            for page in pages {
                let header = self.header(fetched, &page.bytes)?;
                let n_rows = page.rows.end - page.rows.start;
                let found = match header.kind {
                    PageKind::Data { n_values, .. } if is_flat => n_values,
                    PageKind::DataV2 { n_rows, .. } => n_rows,
                    _ => n_rows,
                };
                if header.n_values().is_none() || found != n_rows {
                    let what = format!("a page of {found} rows, where the index says {n_rows}");
                    return Err(Error::corrupt(what).at_byte(page.bytes.start));
                }
                n_values = n_values.saturating_add(sum.add(&header, page.bytes.clone()));
            }
        } else {
            let mut left = chunk_range(self.chunk);
            let start = left.start;
            while n_values < self.chunk.num_values() as u64 && !left.is_empty() {
                let header = self.header(fetched, &left)?;
                let end = left.start + header.header_bytes + header.stored_bytes;
                n_values = n_values.saturating_add(sum.add(&header, left.start..end));
                left.start = end;
            }
            if is_flat && n_values != self.n_rows {
                let what = format!("pages of {n_values} values for {} rows", self.n_rows);
                return Err(Error::corrupt(what).at_byte(start));
            }
        }
        self.size(fetched, &sum, n_values, is_flat)
    }

    /// The header of the page at the beginning of `bytes`, inside which it lies.
    fn header(&self, file: &Fetched, bytes: &Range<u64>) -> Result<PageHeader> {
        let header = || {
            let short = || Error::corrupt("a page that goes beyond its column chunk");
            let fetched = file.from(bytes.start).ok_or_else(short)?;
            let len = min(fetched.len() as u64, bytes.end - bytes.start);
            let header = PageHeader::parse(fetched.get(..len as usize).unwrap_or_default())?;
            let header = header.ok_or_else(short)?;
            let end = header.header_bytes.checked_add(header.stored_bytes);
            if end.is_none_or(|end| end > len) {
                return Err(short());
            }
            let most = most_decoded(self.chunk.compression(), header.stored_bytes);
            if header.decoded_bytes > most {
                return Err(Error::corrupt(format!(
                    "a page of {} bytes says that it decompresses to {}",
                    header.stored_bytes, header.decoded_bytes
                )));
            }
            if matches!(header.kind, PageKind::Dictionary { n_values } if n_values > header.decoded_bytes)
            {
                return Err(Error::corrupt("a dictionary of more values than bytes"));
            }
            self.check_lengths(file, bytes, &header)?;
            Ok(header)
        };
        header().map_err(|e| e.at_byte(bytes.start))
    }

    /// Checks the number of lengths in a page of a DELTA encoding, which is decompressed for it.
    fn check_lengths(&self, file: &Fetched, bytes: &Range<u64>, header: &PageHeader) -> Result<()> {
        let n_sequences = match header.kind {
            PageKind::Data { encoding, .. } | PageKind::DataV2 { encoding, .. } => match encoding {
                encoding::DELTA_LENGTH_BYTE_ARRAY => 1,
                encoding::DELTA_BYTE_ARRAY => 2, // of what is shared, and of what is not
                _ => return Ok(()),
            },
            PageKind::Dictionary { .. } | PageKind::Other => return Ok(()),
        };
        let n_bytes = header.header_bytes + header.stored_bytes;
        let page = self.page(file, &(bytes.start..bytes.start + n_bytes))?;
        let Some(page) = page else { return Ok(()) };
        let values = Sections::of(&page, self.chunk.column_descr())?.values;
        if values.is_empty() {
            return Ok(()); // of a page of nulls
        }
        delta::check_counts(values, page.num_values().into(), n_sequences)
    }

    fn size(
        &self,
        fetched: &Fetched,
        sum: &PageSum,
        n_values: u64,
        is_flat: bool,
    ) -> Result<DecodedSize> {
        let column = self.chunk.column_descr();
        // A page may have more rows than are asked for.
        let n_rows = self.rows.end - self.rows.start;
        let n = if is_flat { min(n_values, n_rows) } else { n_values };
        let n_padded = n.max(n_rows.saturating_mul(self.padding));
        let levels = if is_flat { 1 } else { 4 };
        let is_decimal = column.converted_type() == ConvertedType::DECIMAL
            || matches!(column.logical_type_ref(), Some(LogicalType::Decimal { .. }));
        let width = match self.chunk.column_type() {
            _ if is_decimal => 32,
            Type::BOOLEAN => 1,
            Type::INT32 | Type::FLOAT | Type::INT64 | Type::DOUBLE => 8,
            Type::INT96 => 12,
            Type::FIXED_LEN_BYTE_ARRAY => column.type_length().max(1) as u64,
            Type::BYTE_ARRAY => OFFSETS,
        };
        let bytes = sum.decoded_bytes.saturating_add(n_padded.saturating_mul(width + levels));
        let n_referring = min(n, sum.n_referring);
        if self.chunk.column_type() != Type::BYTE_ARRAY || n_referring == 0 {
            return Ok(DecodedSize { bytes, n_values });
        }
        let most = sum.dictionary_bytes.max(sum.delta_bytes).saturating_mul(n_referring);
        // What is refused in any case is not looked through: its numbers of values may be false.
        let is_enough = most <= MUCH || bytes > MAX_DECODED;
        let growth = if is_enough { most } else { self.growth(fetched, &sum.referring)? };
        Ok(DecodedSize { bytes: bytes.saturating_add(growth), n_values })
    }
}

fn is_reference(encoding: Encoding) -> bool {
    matches!(encoding, Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY)
}

#[derive(Default)]
struct PageSum {
    /// Of all pages.
    decoded_bytes: u64,
    /// Of the dictionary.
    dictionary_bytes: u64,
    /// Of the largest page whose values may repeat a part of the value before.
    delta_bytes: u64,
    /// Values that refer to the dictionary or to the value before.
    n_referring: u64,
    /// The dictionary and the pages that have these values.
    referring: Vec<Range<u64>>,
}

impl PageSum {
    /// Adds the page at these bytes, and returns its number of values.
    fn add(&mut self, page: &PageHeader, bytes: Range<u64>) -> u64 {
        self.decoded_bytes = self.decoded_bytes.saturating_add(page.decoded_bytes);
        match page.kind {
            PageKind::Dictionary { n_values } => {
                // Each value has its length before it.
                let lengths = n_values.saturating_mul(4);
                self.dictionary_bytes = page.decoded_bytes.saturating_sub(lengths);
                self.referring.push(bytes);
            }
            PageKind::Data { encoding, .. } | PageKind::DataV2 { encoding, .. } => {
                if encoding == encoding::DELTA_BYTE_ARRAY {
                    self.delta_bytes = self.delta_bytes.max(page.decoded_bytes);
                }
                if !matches!(encoding, encoding::PLAIN | encoding::DELTA_LENGTH_BYTE_ARRAY) {
                    let n_values = page.n_values().unwrap_or(0);
                    self.n_referring = self.n_referring.saturating_add(n_values);
                    self.referring.push(bytes);
                }
            }
            PageKind::Other => {}
        }
        page.n_values().unwrap_or(0)
    }
}

/// The most bytes that compressed ones can become, by what the formats can express.
fn most_decoded(codec: Compression, stored: u64) -> u64 {
    let ratio = match codec {
        Compression::UNCOMPRESSED => 1,
        Compression::SNAPPY => 64, // a copy of at most 64 bytes takes two bytes and more
        Compression::LZ4 | Compression::LZ4_RAW => 256,
        Compression::GZIP(_) => 1100,
        _ => 1 << 20,
    };
    stored.saturating_mul(ratio).saturating_add(64)
}
