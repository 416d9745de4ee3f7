//! The footer of a Parquet file, and its offset indexes, which say where pages begin.

use std::{ops::Range, sync::Arc};

use arrow_schema::SchemaRef;
use parquet::{
    arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions},
    errors::ParquetError,
    file::metadata::{
        ColumnChunkMetaData, ParquetMetaData, ParquetMetaDataOptions, ParquetMetaDataReader,
        ParquetStatisticsPolicy, RowGroupMetaData,
    },
};

use super::{
    super::guard, dictionaries::without_dictionaries, page_index::PageIndex, thrift::Thrift,
};
use crate::{Error, Result, store::WindowReader};

/// The bytes at both ends of a file.
pub(super) const MAGIC: &[u8; 4] = b"PAR1";

/// The same where the footer is encrypted.
pub(super) const ENCRYPTED_MAGIC: &[u8; 4] = b"PARE";

/// The length of the footer, and the magic bytes.
const TAIL_BYTES: u64 = 8;

/// The largest footer. One of 1,000 columns in 100 row groups has about a quarter of that.
const MAX_FOOTER: u64 = 64 << 20;

/// The largest stretch of offset indexes that is read. Without them, reading is by row group.
const MAX_INDEXES: u64 = 32 << 20;

/// Groups in groups of the schema.
const MAX_DEPTH: usize = 64;

/// The most bytes of the names of all columns, each with those of the groups around it.
const MAX_NAMES: u64 = 64 << 20;

/// A file's metadata.
#[derive(Debug)]
pub(super) struct Footer {
    pub(super) schema: SchemaRef,
    pub(super) arrow: ArrowReaderMetadata,
    /// Of each row group, of each of its column chunks.
    pub(super) pages: PageIndex,
    /// The bytes of the footer, for the sidecar.
    pub(super) source: Box<[u8]>,
    /// The bytes of the offset indexes and where they begin, for the sidecar.
    pub(super) index_start: u64,
    pub(super) index_source: Box<[u8]>,
}

impl Footer {
    /// Reads the footer and the offset indexes.
    pub(super) fn read(window: &mut WindowReader<'_>) -> Result<Self> {
        let len = window.reader().len();
        let too_short = || Error::corrupt("the file ends before its footer").at_byte(len);
        let tail_start = len.checked_sub(TAIL_BYTES).ok_or_else(too_short)?;
        let tail = window.bytes(tail_start..len)?;
        let (n_bytes, magic) = tail.split_first_chunk::<4>().ok_or_else(too_short)?;
        if magic == ENCRYPTED_MAGIC {
            return Err(encrypted().at_byte(tail_start));
        }
        if magic != MAGIC {
            let what = "the file does not end as Parquet does: it was cut short, or is still \
                        being written";
            return Err(Error::corrupt(what).at_byte(tail_start));
        }
        let n_bytes = u64::from(u32::from_le_bytes(*n_bytes));
        let start = tail_start.checked_sub(n_bytes).filter(|start| *start >= MAGIC.len() as u64);
        let start = start.ok_or_else(|| {
            let what = format!("a footer of {n_bytes} bytes in a file of {len}");
            Error::corrupt(what).at_byte(tail_start)
        })?;
        if n_bytes > MAX_FOOTER {
            let what = format!(
                "the footer has {n_bytes} bytes, where {MAX_FOOTER} are the most; write fewer row \
                 groups a file"
            );
            return Err(Error::limit(what).at_byte(start));
        }
        let source: Box<[u8]> = window.bytes(start..tail_start)?.into();
        let metadata = parse(&source, start).map_err(|e| e.at_byte(start))?;
        let indexes = index_range(&metadata, start);
        let index_source: Box<[u8]> = window.bytes(indexes.clone())?.into();
        Self::new(metadata, source, indexes.start, index_source).map_err(|e| e.at_byte(start))
    }

    /// From a sidecar of a file of `len` bytes.
    pub(super) fn restore(
        source: &[u8],
        index_start: u64,
        index_source: &[u8],
        len: u64,
    ) -> Result<Self> {
        let data_end = len.checked_sub(TAIL_BYTES + source.len() as u64);
        let data_end = data_end.ok_or_else(|| Error::corrupt("a footer that is too long"))?;
        Self::new(parse(source, data_end)?, source.into(), index_start, index_source.into())
    }

    fn new(
        metadata: ParquetMetaData,
        source: Box<[u8]>,
        index_start: u64,
        index_source: Box<[u8]>,
    ) -> Result<Self> {
        let pages = PageIndex::read(&metadata, index_start, &index_source);
        let metadata = pages.put_into(metadata);
        let metadata = Arc::new(metadata);
        let arrow = guard::contain("the schema", || {
            let read = |options| {
                ArrowReaderMetadata::try_new(Arc::clone(&metadata), options)
                    .map_err(|e| refused(&e, "the schema is not supported"))
            };
            let arrow = read(ArrowReaderOptions::new())?;
            match without_dictionaries(arrow.schema()) {
                None => Ok(arrow),
                Some(schema) => read(ArrowReaderOptions::new().with_schema(schema)),
            }
        })?;
        let schema = Arc::clone(arrow.schema());
        Ok(Self { schema, arrow, pages, source, index_start, index_source })
    }

    pub(super) fn row_groups(&self) -> &[RowGroupMetaData] {
        self.arrow.metadata().row_groups()
    }

    /// A column chunk of a row group, by the number of its leaf.
    pub(super) fn chunk(&self, group: usize, leaf: usize) -> Result<&ColumnChunkMetaData> {
        let group = self.row_groups().get(group);
        let chunk = group.and_then(|group| group.columns().get(leaf));
        chunk.ok_or_else(|| Error::corrupt("a column chunk is missing"))
    }
}

/// The bytes of a column chunk. They were checked to lie inside the file.
pub(super) fn chunk_range(chunk: &ColumnChunkMetaData) -> Range<u64> {
    let (start, len) = chunk.byte_range();
    start..start + len
}

/// What the crate refuses.
pub(super) fn refused(error: &ParquetError, what: &str) -> Error {
    match error {
        ParquetError::NYI(reason) => Error::schema("", format!("{what}: {reason}")),
        ParquetError::General(reason) | ParquetError::EOF(reason) => {
            Error::corrupt(format!("{what}: {reason}"))
        }
        other => Error::corrupt(format!("{what}: {other}")),
    }
}

fn encrypted() -> Error {
    let what = "the file is encrypted Parquet, which gristmill does not read; decrypt it first";
    Error::schema("", what)
}

/// Parses a footer, behind `data_end` bytes of data.
fn parse(source: &[u8], data_end: u64) -> Result<ParquetMetaData> {
    check_structure(source)?;
    let metadata = guard::contain("the footer", || {
        let options = ParquetMetaDataOptions::new()
            .with_column_stats_policy(ParquetStatisticsPolicy::SkipAll)
            .with_size_stats_policy(ParquetStatisticsPolicy::SkipAll);
        ParquetMetaDataReader::decode_metadata_with_options(source, Some(&options))
            .map_err(|e| refused(&e, "the footer does not decode"))
    })?;
    let mut n_rows = 0_i64;
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let sum = n_rows.checked_add(group.num_rows()).filter(|_| group.num_rows() >= 0);
        n_rows = sum.ok_or_else(|| {
            Error::corrupt(format!("row group {number} has {} rows", group.num_rows()))
        })?;
        for chunk in group.columns() {
            check_chunk(chunk, data_end).map_err(|what| {
                let column = chunk.column_path().string();
                Error::corrupt(format!("column '{column}' of row group {number}: {what}"))
            })?;
        }
    }
    if n_rows != metadata.file_metadata().num_rows() {
        return Err(Error::corrupt(format!(
            "the row groups have {n_rows} rows together, and the footer says {}",
            metadata.file_metadata().num_rows()
        )));
    }
    Ok(metadata)
}

fn check_chunk(chunk: &ColumnChunkMetaData, data_end: u64) -> Result<(), String> {
    if chunk.file_path().is_some() {
        return Err("it lies in another file, which is not supported".to_owned());
    }
    let start = chunk.dictionary_page_offset().unwrap_or_else(|| chunk.data_page_offset());
    let range = u64::try_from(start).ok().zip(u64::try_from(chunk.compressed_size()).ok());
    let end = range.and_then(|(start, len)| start.checked_add(len));
    if end.is_none_or(|end| end > data_end) {
        let len = chunk.compressed_size();
        return Err(format!("{len} bytes at {start} lie outside the file's {data_end} of data"));
    }
    if chunk.num_values() < 0 || chunk.uncompressed_size() < 0 {
        return Err("a number below zero".to_owned());
    }
    Ok(())
}

/// Checks that lists, depth and names of a footer are bounded by its bytes, so that the crate can
/// parse it.
fn check_structure(source: &[u8]) -> Result<()> {
    let mut thrift = Thrift::new(source);
    let mut last = 0;
    while let Some(field) = thrift.field(&mut last)? {
        match field.id {
            2 => {
                let n = thrift.structures(field)?;
                check_schema(&mut thrift, n)?;
            }
            // How it is encrypted, where only columns are.
            8 => return Err(encrypted()),
            _ => thrift.skip(field)?,
        }
    }
    Ok(())
}

fn check_schema(thrift: &mut Thrift<'_>, n_elements: usize) -> Result<()> {
    // Of each group: the elements that it still has, and the bytes of the names around them.
    let mut groups: Vec<(u64, u64)> = Vec::new();
    let mut all_names = 0_u64;
    for _ in 0..n_elements {
        let (name, n_children) = schema_element(thrift)?;
        let around = groups.last().map_or(0, |(_, names)| *names);
        let names = around.saturating_add(name);
        all_names = all_names.saturating_add(names);
        if let Some((left, _)) = groups.last_mut() {
            *left -= 1;
        }
        if n_children > 0 {
            groups.push((n_children, names));
        }
        while groups.last().is_some_and(|(left, _)| *left == 0) {
            groups.pop();
        }
        if groups.len() > MAX_DEPTH || all_names > MAX_NAMES {
            return Err(Error::limit(format!(
                "the schema is nested deeper than {MAX_DEPTH} groups, or its names take more than \
                 {MAX_NAMES} bytes"
            )));
        }
    }
    Ok(())
}

/// The length of an element's name, and the number of its children.
fn schema_element(thrift: &mut Thrift<'_>) -> Result<(u64, u64)> {
    let (mut name, mut n_children, mut last) = (0, 0, 0);
    while let Some(field) = thrift.field(&mut last)? {
        match field.id {
            4 => name = thrift.text_bytes(field)?,
            5 => n_children = u64::try_from(thrift.integer_32(field)?).unwrap_or(0),
            _ => thrift.skip(field)?,
        }
    }
    Ok((name, n_children))
}

/// The stretch in which all offset indexes lie; empty where there are none or it is too long.
fn index_range(metadata: &ParquetMetaData, data_end: u64) -> Range<u64> {
    let chunks = metadata.row_groups().iter().flat_map(RowGroupMetaData::columns);
    let ranges = chunks.filter_map(|chunk| super::page_index::index_range(chunk, data_end));
    let all = ranges.reduce(|a, b| a.start.min(b.start)..a.end.max(b.end));
    all.filter(|all| all.end - all.start <= MAX_INDEXES).unwrap_or(0..0)
}
