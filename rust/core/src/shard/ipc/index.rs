//! Where the record batches and dictionary batches of a shard lie, and how many rows they hold.

use std::{ops::Range, sync::Arc};

use arrow_ipc::{Message, MessageHeader};
use arrow_schema::{Schema, SchemaRef};

use super::{
    super::{Projection, blob::BlobColumn, blob_field::BlobKind},
    blob::BlobSpan,
    body::CompactBody,
    framing::{self, MessageSpan},
    layout::{BatchLayout, FieldSpan},
    schema,
    selection::blob_spans,
};
use crate::{
    Error, Result,
    memory::BufferPool,
    store::{GAP, RangeReader, WindowReader},
};

/// Headers kept in memory, in bytes for each shard. Others are read again when needed.
const KEPT_HEADERS: usize = 256 << 10;

/// Row offsets of large columns kept in memory, in bytes for each shard. Others are read with their
/// record batch's table.
const KEPT_OFFSETS: usize = 256 << 10;

/// A binary column is large where its rows take this many bytes on average: then an offset is less
/// than a thousandth of its row.
const LARGE_ROW: u64 = 8 << 10;

/// One record batch or dictionary batch.
#[derive(Debug)]
pub(super) struct BatchEntry {
    pub(super) span: MessageSpan,
    pub(super) body: Range<u64>,
    /// The verified flatbuffer, if it is kept.
    pub(super) header: Option<Box<[u8]>>,
    /// The rows of large binary columns that are kept, by the index of the column's first buffer.
    pub(super) rows: Vec<(usize, Arc<BlobColumn>)>,
}

impl BatchEntry {
    /// Calls `use_header` with the parsed header: the kept one, or read and verified again.
    pub(super) fn with_header<T>(
        &self,
        reader: &RangeReader,
        use_header: impl FnOnce(&Message<'_>) -> Result<T>,
    ) -> Result<T> {
        if let Some(header) = &self.header {
            return use_header(&framing::parse_message(header)?);
        }
        let mut header = Vec::new();
        reader.read_range(self.span.metadata.clone(), &mut header)?;
        use_header(&framing::parse_message(&header)?)
    }

    /// The checked header of a record batch.
    pub(super) fn layout(&self, message: &Message<'_>) -> Result<BatchLayout> {
        let batch = message.header_as_record_batch().ok_or_else(changed)?;
        BatchLayout::new(&batch, self.body.end - self.body.start, message.version())
    }

    /// The rows of a blob column, if they are kept.
    pub(super) fn kept_rows(&self, span: &BlobSpan) -> Option<Arc<BlobColumn>> {
        let first = span.first_buffer();
        self.rows.iter().find(|(buffer, _)| *buffer == first).map(|(_, rows)| Arc::clone(rows))
    }
}

/// A header that is no longer what it was when the shard was opened.
pub(super) fn changed() -> Error {
    Error::corrupt("the message changed after the shard was opened; start again")
}

/// One dictionary batch.
#[derive(Debug)]
pub(super) struct DictionaryEntry {
    /// The dictionary's id.
    pub(super) id: i64,
    /// Whether its values are appended to the dictionary's earlier ones.
    pub(super) is_delta: bool,
    pub(super) batch: BatchEntry,
}

/// The contents of a shard's headers.
#[derive(Debug)]
pub(super) struct MessageIndex {
    pub(super) schema: SchemaRef,
    /// The flatbuffer that the schema was read from, for the sidecar.
    pub(super) schema_source: Vec<u8>,
    pub(super) batches: Vec<BatchEntry>,
    /// The first row of each record batch, and at the end the number of rows.
    pub(super) row_starts: Vec<u64>,
    /// By their ids, and those of one id in the order of the shard.
    dictionaries: Vec<DictionaryEntry>,
    /// In the file format a dictionary holds for all record batches, in a stream for later ones.
    pub(super) is_file: bool,
}

impl MessageIndex {
    /// All dictionary batches.
    pub(super) fn dictionaries(&self) -> &[DictionaryEntry] {
        &self.dictionaries
    }

    /// The dictionary batches of this id that may hold for a record batch that is message `before`. A shard
    /// may have one for each record batch, so others are not looked at.
    pub(super) fn dictionaries_of(&self, id: i64, before: u64) -> &[DictionaryEntry] {
        let start = self.dictionaries.partition_point(|d| d.id < id);
        let holds =
            |d: &DictionaryEntry| d.id == id && (self.is_file || d.batch.span.number < before);
        let from = self.dictionaries.get(start..).unwrap_or_default();
        from.get(..from.partition_point(holds)).unwrap_or_default()
    }

    /// Reads the headers of a stream.
    pub(super) fn read_stream(window: &mut WindowReader<'_>) -> Result<Self> {
        let end = window.reader().len();
        let Some(first) = framing::message_at(window, 0, end, 0)? else {
            return Err(Error::corrupt("a stream without a schema").at_byte(0));
        };
        let source = window.bytes(first.metadata.clone())?;
        let located = |e: Error| first.locate(e);
        let message = framing::parse_message(source).map_err(located)?;
        let schema = schema::read(&message).map_err(located)?;
        let mut next = framing::body(&first, &message, end).map_err(located)?.end;
        let mut builder = IndexBuilder::new(schema, source);
        for number in 1.. {
            let Some(span) = framing::message_at(window, next, end, number)? else { break };
            let start = span.start;
            next =
                builder.add(span, window, end).map_err(|e| e.in_message(number).at_byte(start))?;
        }
        Ok(builder.finish(false))
    }

    /// The number of rows of one record batch.
    pub(super) fn rows_in(&self, batch: usize) -> usize {
        let starts = self.row_starts.get(batch).zip(self.row_starts.get(batch + 1));
        starts.map_or(0, |(start, end)| (end - start) as usize)
    }
}

/// A message as a sidecar has it.
pub(super) struct SavedMessage {
    pub(super) span: MessageSpan,
    pub(super) body: Range<u64>,
    pub(super) contents: Contents,
    pub(super) header: Option<Box<[u8]>>,
    pub(super) rows: Vec<SavedRows>,
}

/// The rows of a large binary column as a sidecar has them.
pub(super) struct SavedRows {
    pub(super) first_buffer: usize,
    pub(super) validity: Vec<u8>,
    pub(super) offsets: Vec<u64>,
}

/// The contents of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    RecordBatch { n_rows: usize },
    Dictionary { id: i64, is_delta: bool },
}

/// A record batch's layout, and the span of each column.
type Columns = (BatchLayout, Vec<FieldSpan>);

/// Adds messages one by one, and checks each against the schema.
pub(super) struct IndexBuilder {
    index: MessageIndex,
    /// All columns whose rows may be large.
    binary: Option<Projection>,
    kept_headers: usize,
    kept_offsets: usize,
}

impl IndexBuilder {
    /// For this schema, which was read from the flatbuffer `source`.
    pub(super) fn new(schema: Schema, source: &[u8]) -> Self {
        let binary = Projection::of_blobs(&schema);
        let index = MessageIndex {
            schema: Arc::new(schema),
            schema_source: source.to_vec(),
            batches: Vec::new(),
            row_starts: vec![0],
            dictionaries: Vec::new(),
            is_file: false,
        };
        Self { index, binary, kept_headers: 0, kept_offsets: 0 }
    }

    /// Reads and adds the message at `span`. Returns the end of its body.
    pub(super) fn add(
        &mut self,
        span: MessageSpan,
        window: &mut WindowReader<'_>,
        end: u64,
    ) -> Result<u64> {
        let header: Box<[u8]> = window.bytes(span.metadata.clone())?.into();
        let message = framing::parse_message(&header)?;
        let body = framing::body(&span, &message, end)?;
        let body_end = body.end;
        let (contents, layout) = self.check(&message, body_end - body.start)?;
        let rows = match &layout {
            Some((layout, spans)) => self.read_rows(window, layout, spans, body.start),
            None => Vec::new(),
        };
        let is_kept = self.kept_headers + header.len() <= KEPT_HEADERS;
        self.kept_headers += if is_kept { header.len() } else { 0 };
        let header = is_kept.then_some(header);
        self.push(BatchEntry { span, body, header, rows }, contents)?;
        Ok(body_end)
    }

    /// Adds a message from a sidecar, with the checks of one that was just read.
    pub(super) fn add_saved(&mut self, saved: SavedMessage) -> Result<()> {
        let SavedMessage { span, body, contents, header, rows } = saved;
        let damaged = || Error::corrupt("the sidecar contradicts itself");
        let mut columns = Vec::new();
        match &header {
            Some(header) => {
                let message = framing::parse_message(header)?;
                let end = framing::body(&span, &message, body.end)?.end;
                let (found, layout) = self.check(&message, body.end - body.start)?;
                if end != body.end || found != contents {
                    return Err(damaged());
                }
                for SavedRows { first_buffer, validity, offsets } in rows {
                    let (layout, _) = layout.as_ref().ok_or_else(damaged)?;
                    let data = layout.buffer(first_buffer.checked_add(2).ok_or_else(damaged)?)?;
                    let data = body.start + data.start..body.start + data.end;
                    let column = BlobColumn::from_sidecar(validity, offsets, layout.n_rows, &data)?;
                    columns.push((first_buffer, Arc::new(column)));
                }
            }
            None if rows.is_empty() => {}
            None => return Err(damaged()),
        }
        self.push(BatchEntry { span, body, header, rows: columns }, contents)
    }

    /// The message's contents, and the columns of a record batch, which must fit the schema.
    fn check(&self, message: &Message<'_>, body_len: u64) -> Result<(Contents, Option<Columns>)> {
        let malformed = || Error::corrupt("the header's type and contents differ");
        match message.header_type() {
            MessageHeader::RecordBatch => {
                let batch = message.header_as_record_batch().ok_or_else(malformed)?;
                let layout = BatchLayout::new(&batch, body_len, message.version())?;
                let spans = layout.spans(self.index.schema.fields())?;
                Ok((Contents::RecordBatch { n_rows: layout.n_rows }, Some((layout, spans))))
            }
            MessageHeader::DictionaryBatch => {
                let batch = message.header_as_dictionary_batch().ok_or_else(malformed)?;
                if batch.data().is_none() {
                    return Err(Error::corrupt("a dictionary batch without data"));
                }
                Ok((Contents::Dictionary { id: batch.id(), is_delta: batch.isDelta() }, None))
            }
            MessageHeader::Schema => Err(Error::corrupt(
                "a second schema: streams laid end to end are not one shard; split them",
            )),
            other => Err(Error::schema(
                "",
                format!(
                    "a message of type {}, where only record batches are read",
                    other.variant_name().unwrap_or("unknown")
                ),
            )),
        }
    }

    /// The rows of large binary columns. Columns that cannot be read or are damaged are left out:
    /// loading them reports the error.
    fn read_rows(
        &mut self,
        window: &mut WindowReader<'_>,
        layout: &BatchLayout,
        spans: &[FieldSpan],
        body_start: u64,
    ) -> Vec<(usize, Arc<BlobColumn>)> {
        let Some(binary) = &self.binary else { return Vec::new() };
        if layout.compression.is_some() {
            return Vec::new();
        }
        let fields = self.index.schema.fields();
        let buffers = Arc::<BufferPool>::default();
        let mut rows = Vec::new();
        for span in blob_spans(binary, layout, fields, spans).unwrap_or_default() {
            // Views are as many bytes as the offsets of the rows would be here.
            if !matches!(span.kind, BlobKind::Offsets { .. }) {
                continue;
            }
            let bytes = (layout.n_rows + 1) * size_of::<u64>();
            let data = span.data(layout).map_or(0, |data| data.end - data.start);
            if data < LARGE_ROW.saturating_mul(layout.n_rows.max(1) as u64)
                || self.kept_offsets + bytes > KEPT_OFFSETS
            {
                continue;
            }
            let column = span.index_ranges(layout).and_then(|ranges| {
                let body =
                    CompactBody::read_with(&buffers, ranges.into_iter(), GAP, |range, into| {
                        let range = body_start + range.start..body_start + range.end;
                        into.copy_from_slice(window.bytes(range)?);
                        Ok(())
                    })?;
                span.rows(layout, &body, body_start)
            });
            if let Ok(column) = column {
                self.kept_offsets += bytes;
                rows.push((span.first_buffer(), Arc::new(column)));
            }
        }
        rows
    }

    fn push(&mut self, entry: BatchEntry, contents: Contents) -> Result<()> {
        match contents {
            Contents::RecordBatch { n_rows } => {
                let rows = self.index.row_starts.last().unwrap_or(&0).checked_add(n_rows as u64);
                let rows = rows.ok_or_else(|| Error::corrupt("more rows than can be counted"))?;
                self.index.batches.push(entry);
                self.index.row_starts.push(rows);
            }
            Contents::Dictionary { id, is_delta } => {
                self.index.dictionaries.push(DictionaryEntry { id, is_delta, batch: entry });
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self, is_file: bool) -> MessageIndex {
        self.index.is_file = is_file;
        self.index.dictionaries.sort_by_key(|d| d.id);
        self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An index with dictionary batches of these ids, as messages 1, 2, ...
    fn index(ids: &[i64], is_file: bool) -> MessageIndex {
        let mut builder = IndexBuilder::new(Schema::empty(), &[]);
        for (number, id) in (1..).zip(ids) {
            let span = MessageSpan { number, start: 0, metadata: 0..0 };
            let entry = BatchEntry { span, body: 0..0, header: None, rows: Vec::new() };
            builder.push(entry, Contents::Dictionary { id: *id, is_delta: false }).unwrap();
        }
        builder.finish(is_file)
    }

    fn numbers(index: &MessageIndex, id: i64, before: u64) -> Vec<u64> {
        index.dictionaries_of(id, before).iter().map(|d| d.batch.span.number).collect()
    }

    #[test]
    fn dictionaries_are_found_by_their_ids() {
        let stream = index(&[7, 3, 7, 9, 3, 7], false);
        assert_eq!(numbers(&stream, 7, 6), [1, 3]);
        assert_eq!(numbers(&stream, 3, u64::MAX), [2, 5]);
        assert_eq!(numbers(&stream, 9, 4), Vec::<u64>::new());
        assert_eq!(numbers(&stream, 8, 9), Vec::<u64>::new());
        assert_eq!(numbers(&index(&[7, 3, 7], true), 7, 0), [1, 3]);
    }
}
