//! Page headers.
//!
//! See <https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift>.

use super::thrift::{ENDS, Field, Thrift};
use crate::{Error, ErrorKind, Result};

/// Headers hold statistics: the least and the greatest value, twice. More than this they never have.
pub(super) const MAX_HEADER: usize = 16 << 20;

/// What is asked for first of a header that is to be read.
pub(super) const FIRST_READ: usize = 1 << 10;

/// Parquet's numbers of encodings.
pub(super) mod encoding {
    pub(in super::super) const PLAIN: i32 = 0;
    pub(in super::super) const PLAIN_DICTIONARY: i32 = 2;
    pub(in super::super) const RLE: i32 = 3;
    pub(in super::super) const DELTA_LENGTH_BYTE_ARRAY: i32 = 6;
    pub(in super::super) const DELTA_BYTE_ARRAY: i32 = 7;
    pub(in super::super) const RLE_DICTIONARY: i32 = 8;
}

/// What a page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageKind {
    Data {
        n_values: u64,
        encoding: i32,
        definition_encoding: i32,
    },
    DataV2 {
        n_values: u64,
        n_rows: u64,
        encoding: i32,
        /// Bytes of the levels, which are never compressed.
        repetition_bytes: u64,
        definition_bytes: u64,
    },
    Dictionary {
        n_values: u64,
    },
    /// An index page, or one of a type that came later: its values are not read.
    Other,
}

/// The header of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PageHeader {
    pub(super) kind: PageKind,
    /// Bytes of the header itself.
    pub(super) header_bytes: u64,
    /// Bytes behind the header.
    pub(super) stored_bytes: u64,
    /// The same, decompressed.
    pub(super) decoded_bytes: u64,
}

impl PageHeader {
    /// The values of a data page; `None` for others.
    pub(super) fn n_values(&self) -> Option<u64> {
        match self.kind {
            PageKind::Data { n_values, .. } | PageKind::DataV2 { n_values, .. } => Some(n_values),
            PageKind::Dictionary { .. } | PageKind::Other => None,
        }
    }

    /// Parses the header at the beginning of these bytes; `None` where it goes on behind them.
    pub(super) fn parse(bytes: &[u8]) -> Result<Option<Self>> {
        match parse(bytes) {
            Ok(header) => Ok(Some(header)),
            Err(e) if matches!(e.kind(), ErrorKind::Corrupt(what) if what == ENDS) => Ok(None),
            Err(e) => Err(Error::corrupt(format!("a page header: {e}"))),
        }
    }
}

#[derive(Default)]
struct DataHeader {
    n_values: Option<u64>,
    n_rows: u64,
    encoding: Option<i32>,
    definition_encoding: i32,
    definition_bytes: u64,
    repetition_bytes: u64,
}

fn parse(bytes: &[u8]) -> Result<PageHeader> {
    let mut thrift = Thrift::new(bytes);
    let (mut kind, mut stored, mut decoded) = (None, None, None);
    let (mut data, mut data_v2, mut dictionary) = (None, None, None);
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last)? {
        match field.id {
            1 => kind = Some(thrift.integer(field)?),
            2 => decoded = Some(size(&mut thrift, field)?),
            3 => stored = Some(size(&mut thrift, field)?),
            5 => data = Some(data_header(&mut thrift, field, false)?),
            7 => dictionary = Some(data_header(&mut thrift, field, false)?),
            8 => data_v2 = Some(data_header(&mut thrift, field, true)?),
            _ => thrift.skip(field)?,
        }
    }
    let (Some(kind), Some(stored_bytes), Some(decoded_bytes)) = (kind, stored, decoded) else {
        return Err(Error::corrupt("it has no type or no size"));
    };
    let missing = || Error::corrupt("it lacks a number of values or an encoding");
    let kind = match kind {
        0 => {
            let data = data.ok_or_else(missing)?;
            PageKind::Data {
                n_values: data.n_values.ok_or_else(missing)?,
                encoding: data.encoding.ok_or_else(missing)?,
                definition_encoding: data.definition_encoding,
            }
        }
        2 => PageKind::Dictionary {
            n_values: dictionary.and_then(|header| header.n_values).ok_or_else(missing)?,
        },
        3 => {
            let data = data_v2.ok_or_else(missing)?;
            let levels = data.repetition_bytes + data.definition_bytes;
            if levels > stored_bytes || levels > decoded_bytes {
                return Err(Error::corrupt("its levels are longer than the page"));
            }
            PageKind::DataV2 {
                n_values: data.n_values.ok_or_else(missing)?,
                n_rows: data.n_rows,
                encoding: data.encoding.ok_or_else(missing)?,
                repetition_bytes: data.repetition_bytes,
                definition_bytes: data.definition_bytes,
            }
        }
        _ => PageKind::Other,
    };
    Ok(PageHeader { kind, header_bytes: thrift.at() as u64, stored_bytes, decoded_bytes })
}

/// The header of one kind of pages.
fn data_header(thrift: &mut Thrift<'_>, field: Field, is_v2: bool) -> Result<DataHeader> {
    Thrift::structure(field)?;
    let mut header = DataHeader::default();
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last)? {
        match (field.id, is_v2) {
            (1, _) => header.n_values = Some(size(thrift, field)?),
            (2, false) | (4, true) => header.encoding = Some(thrift.integer_32(field)?),
            (3, true) => header.n_rows = size(thrift, field)?,
            (5, true) => header.definition_bytes = size(thrift, field)?,
            (6, true) => header.repetition_bytes = size(thrift, field)?,
            // Of a dictionary, this is whether it is sorted.
            (3, false) if field.is_integer() => {
                header.definition_encoding = thrift.integer_32(field)?;
            }
            _ => thrift.skip(field)?,
        }
    }
    Ok(header)
}

fn size(thrift: &mut Thrift<'_>, field: Field) -> Result<u64> {
    let value = thrift.integer_32(field)?;
    u64::try_from(value).map_err(|_| Error::corrupt(format!("a size of {value}")))
}
