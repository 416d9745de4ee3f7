//! Where the record batches and dictionary batches of a shard lie, and how many rows they hold.

use std::{ops::Range, sync::Arc};

use arrow_ipc::{Message, MessageHeader};
use arrow_schema::{Schema, SchemaRef};

use super::{
    blob::BlobColumn,
    body::CompactBody,
    file_format,
    framing::{self, Frame, HeaderReader},
    layout::{BatchLayout, FieldSpan},
    projection::Projection,
    schema,
    source::Source,
};
use crate::{Error, Result, memory::Recycler};

/// Headers kept in memory, in bytes for each shard. Those beyond are read again when needed.
const KEPT_HEADERS: usize = 256 << 10;

/// Row offsets of large columns kept in memory, in bytes for each shard. Those beyond are read with
/// their record batch's table.
const KEPT_OFFSETS: usize = 256 << 10;

/// A binary column is large where its rows take this many bytes on average: then an offset is less
/// than a thousandth of its row.
const LARGE_ROW: u64 = 8 << 10;

/// One record batch or dictionary batch.
#[derive(Debug)]
pub(super) struct BatchEntry {
    pub(super) frame: Frame,
    pub(super) body: Range<u64>,
    /// The verified flatbuffer, where it is kept.
    pub(super) header: Option<Box<[u8]>>,
    /// Where the rows of large binary columns lie, by the index of the column's first buffer.
    pub(super) rows: Vec<(usize, Arc<BlobColumn>)>,
}

impl BatchEntry {
    /// Gives `use_it` the parsed header: the kept one, or read and verified again.
    pub(super) fn with_header<T>(
        &self,
        source: &Source,
        use_it: impl FnOnce(&Message<'_>) -> Result<T>,
    ) -> Result<T> {
        if let Some(header) = &self.header {
            return use_it(&framing::parse_message(header)?);
        }
        let mut header = Vec::new();
        source.read_range(self.frame.metadata.clone(), &mut header)?;
        use_it(&framing::parse_message(&header)?)
    }
}

/// A header that is no longer what it was when the shard was opened.
pub(super) fn changed() -> Error {
    Error::corrupt("the message changed after the shard was opened; start again")
}

/// One dictionary batch: whose values, and whether they follow earlier ones.
#[derive(Debug)]
pub(super) struct DictionaryEntry {
    pub(super) id: i64,
    pub(super) is_delta: bool,
    pub(super) batch: BatchEntry,
}

/// What the headers of a shard say.
#[derive(Debug)]
pub(super) struct MessageIndex {
    pub(super) schema: SchemaRef,
    /// The flatbuffer that the schema came from, for the sidecar.
    pub(super) schema_source: Vec<u8>,
    pub(super) batches: Vec<BatchEntry>,
    /// The first row of each record batch, and at the end the number of rows.
    pub(super) row_starts: Vec<u64>,
    pub(super) dictionaries: Vec<DictionaryEntry>,
    /// In the file format a dictionary holds for all record batches, in a stream for later ones.
    pub(super) is_file: bool,
}

impl MessageIndex {
    /// Reads the headers of a shard, in either format.
    pub(super) fn read(source: &Source) -> Result<Self> {
        let mut reader = HeaderReader::new(source);
        let head = reader.bytes(0..source.len().min(8))?;
        if head.is_empty() {
            return Err(Error::corrupt("the file is empty").at_byte(0));
        }
        if let Some(what) = other_format(head) {
            return Err(Error::corrupt(format!("not Arrow IPC but {what}")).at_byte(0));
        }
        if head.starts_with(file_format::MAGIC) {
            file_format::read(source, &mut reader)
        } else {
            Self::read_stream(source.len(), &mut reader)
        }
    }

    fn read_stream(end: u64, reader: &mut HeaderReader<'_>) -> Result<Self> {
        let Some(first) = reader.frame(0, end, 0)? else {
            return Err(Error::corrupt("a stream without a schema").at_byte(0));
        };
        let at_start = |e: Error| e.in_message(0).at_byte(0);
        let message = framing::parse_message(reader.metadata(&first)?).map_err(at_start)?;
        let schema = schema::read(&message).map_err(at_start)?;
        let mut next = framing::body(&first, &message, end).map_err(at_start)?.end;
        let mut builder = IndexBuilder::new(schema, reader.metadata(&first)?);
        for number in 1.. {
            let Some(frame) = reader.frame(next, end, number)? else { break };
            let start = frame.start;
            next =
                builder.add(frame, reader, end).map_err(|e| e.in_message(number).at_byte(start))?;
        }
        Ok(builder.finish(false))
    }

    /// The number of rows of one record batch.
    pub(super) fn rows_in(&self, batch: usize) -> usize {
        let starts = self.row_starts.get(batch).zip(self.row_starts.get(batch + 1));
        starts.map_or(0, |(start, end)| (end - start) as usize)
    }

    /// The number of rows of all record batches.
    pub(super) fn n_rows(&self) -> u64 {
        self.row_starts.last().copied().unwrap_or(0)
    }
}

/// A message as a sidecar remembers it.
pub(super) struct KnownMessage {
    pub(super) frame: Frame,
    pub(super) body: Range<u64>,
    pub(super) contents: Contents,
    pub(super) header: Option<Box<[u8]>>,
    pub(super) rows: Vec<KnownRows>,
}

/// The rows of a large binary column as a sidecar remembers them.
pub(super) struct KnownRows {
    pub(super) first_buffer: usize,
    pub(super) validity: Vec<u8>,
    pub(super) offsets: Vec<u64>,
}

/// What a message holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Contents {
    RecordBatch { n_rows: usize },
    Dictionary { id: i64, is_delta: bool },
}

/// A record batch's header and its columns' shares of it.
type Checked = (BatchLayout, Vec<FieldSpan>);

/// Gathers batches one by one, checking each against the schema.
pub(super) struct IndexBuilder {
    index: MessageIndex,
    /// All columns whose rows may be large.
    binary: Option<Projection>,
    kept: usize,
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
        Self { index, binary, kept: 0, kept_offsets: 0 }
    }

    /// Adds the message in `frame` and returns where its body ends.
    pub(super) fn add(
        &mut self,
        frame: Frame,
        reader: &mut HeaderReader<'_>,
        end: u64,
    ) -> Result<u64> {
        let header: Box<[u8]> = reader.metadata(&frame)?.into();
        let message = framing::parse_message(&header)?;
        let body = framing::body(&frame, &message, end)?;
        let body_end = body.end;
        let (contents, layout) = self.check(&message, body_end - body.start)?;
        let rows = match &layout {
            Some((layout, spans)) => self.read_rows(reader, layout, spans, body.start),
            None => Vec::new(),
        };
        let keep = self.kept + header.len() <= KEPT_HEADERS;
        self.kept += if keep { header.len() } else { 0 };
        let header = keep.then_some(header);
        self.push(BatchEntry { frame, body, header, rows }, contents)?;
        Ok(body_end)
    }

    /// Adds a message from a sidecar, checking what it says as if it had just been read.
    pub(super) fn add_known(&mut self, known: KnownMessage) -> Result<()> {
        let KnownMessage { frame, body, contents, header, rows } = known;
        let damaged = || Error::corrupt("the sidecar contradicts itself");
        let mut columns = Vec::new();
        match &header {
            Some(header) => {
                let message = framing::parse_message(header)?;
                let end = framing::body(&frame, &message, body.end)?.end;
                let (found, layout) = self.check(&message, body.end - body.start)?;
                if end != body.end || found != contents {
                    return Err(damaged());
                }
                for KnownRows { first_buffer, validity, offsets } in rows {
                    let (layout, _) = layout.as_ref().ok_or_else(damaged)?;
                    let data = layout.buffer(first_buffer.checked_add(2).ok_or_else(damaged)?)?;
                    let data = body.start + data.start..body.start + data.end;
                    let column = BlobColumn::known(validity, offsets, layout.n_rows, &data)?;
                    columns.push((first_buffer, Arc::new(column)));
                }
            }
            None if rows.is_empty() => {}
            None => return Err(damaged()),
        }
        self.push(BatchEntry { frame, body, header, rows: columns }, contents)
    }

    /// What the message holds, and a record batch's layout, which must suit the schema.
    fn check(&self, message: &Message<'_>, body_len: u64) -> Result<(Contents, Option<Checked>)> {
        match contents(message)? {
            Parsed::RecordBatch(batch) => {
                let layout = BatchLayout::new(&batch, body_len, message.version())?;
                let spans = layout.spans(self.index.schema.fields())?;
                Ok((Contents::RecordBatch { n_rows: layout.n_rows }, Some((layout, spans))))
            }
            Parsed::Dictionary { id, is_delta } => {
                Ok((Contents::Dictionary { id, is_delta }, None))
            }
        }
    }

    /// Where the rows of large binary columns lie. What cannot be read or is damaged is left out:
    /// whoever wants that column is told then.
    fn read_rows(
        &mut self,
        reader: &mut HeaderReader<'_>,
        layout: &BatchLayout,
        spans: &[FieldSpan],
        body_start: u64,
    ) -> Vec<(usize, Arc<BlobColumn>)> {
        let Some(binary) = &self.binary else { return Vec::new() };
        if layout.compression.is_some() {
            return Vec::new();
        }
        let fields = self.index.schema.fields();
        let bodies = Arc::<Recycler>::default();
        let mut rows = Vec::new();
        for span in binary.blob_spans(layout, fields, spans).unwrap_or_default() {
            let first = span.leaf.buffers.start;
            let bytes = (layout.n_rows + 1) * size_of::<u64>();
            let data = layout.buffer(first + 2).map_or(0, |data| data.end - data.start);
            if data < LARGE_ROW.saturating_mul(layout.n_rows.max(1) as u64)
                || self.kept_offsets + bytes > KEPT_OFFSETS
            {
                continue;
            }
            let column = span.index_ranges(layout).and_then(|ranges| {
                let body = CompactBody::read_with(&bodies, ranges.into_iter(), |range, into| {
                    let bytes = reader.bytes(body_start + range.start..body_start + range.end)?;
                    into.copy_from_slice(bytes);
                    Ok(())
                })?;
                BlobColumn::in_file(&span, layout, &body, body_start)
            });
            if let Ok(column) = column {
                self.kept_offsets += bytes;
                rows.push((first, Arc::new(column)));
            }
        }
        rows
    }

    fn push(&mut self, entry: BatchEntry, contents: Contents) -> Result<()> {
        match contents {
            Contents::RecordBatch { n_rows } => {
                let rows = self.index.n_rows().checked_add(n_rows as u64);
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
        self.index
    }
}

enum Parsed<'a> {
    RecordBatch(arrow_ipc::RecordBatch<'a>),
    Dictionary { id: i64, is_delta: bool },
}

fn contents<'a>(message: &Message<'a>) -> Result<Parsed<'a>> {
    let malformed = || Error::corrupt("the header's type and contents differ");
    match message.header_type() {
        MessageHeader::RecordBatch => {
            message.header_as_record_batch().map(Parsed::RecordBatch).ok_or_else(malformed)
        }
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch().ok_or_else(malformed)?;
            if batch.data().is_none() {
                return Err(Error::corrupt("a dictionary batch without data"));
            }
            Ok(Parsed::Dictionary { id: batch.id(), is_delta: batch.isDelta() })
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

/// Formats that are easily taken for Arrow IPC.
fn other_format(head: &[u8]) -> Option<&'static str> {
    [
        (&b"PAR1"[..], "Parquet; write it as Arrow IPC first"),
        (b"FEA1", "Feather version 1; write it again as version 2"),
        (b"RIFF", "a RIFF (WAV) recording"),
        (b"OggS", "an Ogg recording"),
        (b"fLaC", "a FLAC recording"),
    ]
    .into_iter()
    .find_map(|(magic, name)| head.starts_with(magic).then_some(name))
}
