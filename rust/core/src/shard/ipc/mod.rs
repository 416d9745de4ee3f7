//! The Arrow IPC formats: a stream of messages, and a file whose footer lists its messages.
//!
//! See <https://arrow.apache.org/docs/format/Columnar.html#serialization-and-interprocess-communication-ipc>.

mod blob;
mod body;
mod decompress;
mod dictionaries;
mod footer;
mod framing;
mod index;
mod layout;
mod schema;
mod selection;
mod sidecar;
mod slice;
mod table;

use std::ops::Range;

use arrow_ipc::CompressionType;
use arrow_schema::SchemaRef;

use self::{dictionaries::DictionaryCache, index::MessageIndex};
use super::{
    Projection, RowSize, Table, TableSize,
    blob_field::BlobKind,
    format::{Format, FormatReader},
    index_file::IndexWriter,
    table::Readahead,
};
use crate::{Result, store::RangeReader};

/// The file format.
pub(super) const FILE: Format = Format {
    name: "file",
    id: 1,
    matches: |head| head.starts_with(footer::MAGIC),
    open: |window| Ok(IpcReader::boxed(footer::read(window)?)),
    restore: |saved, len| sidecar::restore(saved, len, true).map(IpcReader::boxed),
};

/// The stream format, which has no magic bytes.
pub(super) const STREAM: Format = Format {
    name: "stream",
    id: 0,
    matches: |_| true,
    open: |window| Ok(IpcReader::boxed(MessageIndex::read_stream(window)?)),
    restore: |saved, len| sidecar::restore(saved, len, false).map(IpcReader::boxed),
};

/// A shard in one of the two formats.
#[derive(Debug)]
struct IpcReader {
    index: MessageIndex,
    dictionaries: DictionaryCache,
}

impl IpcReader {
    fn boxed(index: MessageIndex) -> Box<dyn FormatReader> {
        Box::new(Self { index, dictionaries: DictionaryCache::default() })
    }
}

impl FormatReader for IpcReader {
    fn format(&self) -> &'static Format {
        if self.index.is_file { &FILE } else { &STREAM }
    }

    fn schema(&self) -> &SchemaRef {
        &self.index.schema
    }

    fn row_starts(&self) -> &[u64] {
        &self.index.row_starts
    }

    fn compression(&self, reader: &RangeReader) -> Result<Option<&'static str>> {
        let Some(first) = self.index.batches.first() else { return Ok(None) };
        let compression = first.with_header(reader, |message| {
            let batch = message.header_as_record_batch().ok_or_else(index::changed)?;
            layout::compression(&batch)
        })?;
        Ok(compression.map(|codec| if codec == CompressionType::ZSTD { "zstd" } else { "lz4" }))
    }

    fn table_size(
        &self,
        batch: usize,
        projection: &Projection,
        gap: u64,
    ) -> Result<Option<TableSize>> {
        let Some(entry) = self.index.batches.get(batch) else { return Ok(None) };
        table::size(&self.index, entry, projection, gap).map_err(|e| entry.span.locate(e))
    }

    fn readahead(&self, batch: usize, row: usize, projection: &Projection) -> Result<Readahead> {
        let Some(entry) = self.index.batches.get(batch) else { return Ok(Readahead::default()) };
        table::readahead(&self.index, entry, projection, row)
    }

    fn load_table(
        &self,
        reader: &RangeReader,
        batch: usize,
        projection: &Projection,
        limit: usize,
        on_size: &dyn Fn(usize),
    ) -> Result<Table> {
        let entry = self.index.batches.get(batch).ok_or_else(index::changed)?;
        let dictionaries = |fields: &_| {
            self.dictionaries.needed(reader, &self.index, fields, entry.span.number, limit)
        };
        let table = table::Loading { reader, index: &self.index, entry, limit, on_size }
            .load(projection, dictionaries);
        // A header that was read again, or a sidecar, may have other rows than the index.
        let table = table.and_then(|table| {
            let is_right = table.n_rows() == self.index.rows_in(batch);
            if is_right { Ok(table) } else { Err(index::changed()) }
        });
        table.map_err(|e| entry.span.locate(e))
    }

    fn has_slices(&self, projection: &Projection) -> bool {
        let fields = projection.small_fields(&self.index.schema);
        let is_whole = projection.small.iter().all(|small| small.children.is_none());
        !fields.is_empty()
            && is_whole
            && projection.blobs.iter().all(|blob| blob.kind != BlobKind::Dictionary)
            && fields.iter().all(|field| slice::has_slices(field.data_type()))
    }

    fn row_size(&self, batch: usize, projection: &Projection, gap: u64) -> Result<Option<RowSize>> {
        let Some(entry) = self.index.batches.get(batch) else { return Ok(None) };
        if !self.has_slices(projection) {
            return Ok(None);
        }
        table::row_size(&self.index, entry, projection, gap).map_err(|e| entry.span.locate(e))
    }

    fn load_slice(
        &self,
        reader: &RangeReader,
        batch: usize,
        rows: &Range<usize>,
        projection: &Projection,
        limit: usize,
    ) -> Result<Option<Table>> {
        let entry = self.index.batches.get(batch).ok_or_else(index::changed)?;
        let n_rows = self.index.rows_in(batch);
        table::Loading { reader, index: &self.index, entry, limit, on_size: &|_| () }
            .load_slice(projection, rows, n_rows)
            .map_err(|e| entry.span.locate(e))
    }

    fn save(&self, out: &mut IndexWriter) {
        sidecar::save(&self.index, out);
    }
}
