//! Where the record batches and dictionary batches of a shard lie, and how many rows they hold.

use std::{ops::Range, sync::Arc};

use arrow_ipc::{Message, MessageHeader};
use arrow_schema::{Schema, SchemaRef};

use super::{
    file_format,
    framing::{self, Frame, HeaderReader},
    layout::BatchLayout,
    schema,
    source::Source,
};
use crate::{Error, Result};

/// Headers kept in memory, in bytes for each shard. Those beyond are read again when needed.
const KEPT_HEADERS: usize = 256 << 10;

/// One record batch or dictionary batch.
#[derive(Debug)]
pub(super) struct BatchEntry {
    pub(super) frame: Frame,
    pub(super) body: Range<u64>,
    /// The verified flatbuffer, where it is kept.
    pub(super) header: Option<Box<[u8]>>,
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
        let mut builder = IndexBuilder::new(schema::read(&message).map_err(at_start)?);
        let mut next = framing::body(&first, &message, end).map_err(at_start)?.end;
        for number in 1.. {
            let Some(frame) = reader.frame(next, end, number)? else { break };
            let start = frame.start;
            next =
                builder.add(frame, reader, end).map_err(|e| e.in_message(number).at_byte(start))?;
        }
        Ok(builder.finish(false))
    }

    /// The number of rows of all record batches.
    pub(super) fn n_rows(&self) -> u64 {
        self.row_starts.last().copied().unwrap_or(0)
    }
}

/// Gathers batches one by one, checking each against the schema.
pub(super) struct IndexBuilder {
    index: MessageIndex,
    kept: usize,
}

impl IndexBuilder {
    pub(super) fn new(schema: Schema) -> Self {
        let index = MessageIndex {
            schema: Arc::new(schema),
            batches: Vec::new(),
            row_starts: vec![0],
            dictionaries: Vec::new(),
            is_file: false,
        };
        Self { index, kept: 0 }
    }

    /// Adds the message in `frame` and returns where its body ends.
    pub(super) fn add(
        &mut self,
        frame: Frame,
        reader: &mut HeaderReader<'_>,
        end: u64,
    ) -> Result<u64> {
        let bytes = reader.metadata(&frame)?;
        let message = framing::parse_message(bytes)?;
        let body = framing::body(&frame, &message, end)?;
        let body_end = body.end;
        let contents = contents(&message)?;
        let header = (self.kept + bytes.len() <= KEPT_HEADERS).then(|| Box::from(bytes));
        self.kept += header.as_deref().map_or(0, <[u8]>::len);
        let entry = |header| BatchEntry { frame, body: body.clone(), header };
        match contents {
            Contents::RecordBatch(batch) => {
                let layout = BatchLayout::new(&batch, body_end - body.start, message.version())?;
                layout.spans(self.index.schema.fields())?;
                let rows = self.index.n_rows().checked_add(layout.n_rows as u64);
                let rows = rows.ok_or_else(|| Error::corrupt("more rows than can be counted"))?;
                self.index.batches.push(entry(header));
                self.index.row_starts.push(rows);
            }
            Contents::Dictionary { id, is_delta } => {
                let batch = entry(header);
                self.index.dictionaries.push(DictionaryEntry { id, is_delta, batch });
            }
        }
        Ok(body_end)
    }

    pub(super) fn finish(mut self, is_file: bool) -> MessageIndex {
        self.index.is_file = is_file;
        self.index
    }
}

enum Contents<'a> {
    RecordBatch(arrow_ipc::RecordBatch<'a>),
    Dictionary { id: i64, is_delta: bool },
}

fn contents<'a>(message: &Message<'a>) -> Result<Contents<'a>> {
    let malformed = || Error::corrupt("the header's type and contents differ");
    match message.header_type() {
        MessageHeader::RecordBatch => {
            message.header_as_record_batch().map(Contents::RecordBatch).ok_or_else(malformed)
        }
        MessageHeader::DictionaryBatch => {
            let batch = message.header_as_dictionary_batch().ok_or_else(malformed)?;
            if batch.data().is_none() {
                return Err(Error::corrupt("a dictionary batch without data"));
            }
            Ok(Contents::Dictionary { id: batch.id(), is_delta: batch.isDelta() })
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
