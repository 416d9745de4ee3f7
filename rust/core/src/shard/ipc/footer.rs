//! The IPC file format: a footer at the end says where the messages are.
//!
//! See <https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format>.

use arrow_ipc::{Block, Footer, root_as_footer_with_opts};
use arrow_schema::Schema;

use super::{
    super::schema::first_difference,
    framing::{self, MessageSpan},
    index::{IndexBuilder, MessageIndex},
    schema,
};
use crate::{
    Error, Result,
    store::{RangeReader, WindowReader},
};

/// At both ends of a file.
pub(super) const MAGIC: &[u8] = b"ARROW1";

/// The magic and its padding at the start, where the schema message follows.
const HEAD: u64 = 8;

/// The footer's length and the magic at the end.
const TAIL: u64 = 10;

/// Reads the footer, then the header of each message that it lists.
pub(super) fn read(window: &mut WindowReader<'_>) -> Result<MessageIndex> {
    let reader = window.reader();
    // The schema message comes first: the window has it already.
    let first_schema = first_schema(window, reader.len());
    let (first_schema, (footer_at, bytes)) = match (first_schema, footer_bytes(reader)) {
        (Ok(schema), footer) => (Some(schema), footer?),
        // Polars writes a schema here with no message around it. That of the footer is what counts.
        (Err(_), Ok(footer)) if !has_marker(window)? => (None, footer),
        (Err(e), _) => return Err(e),
    };
    let at_footer = |e: Error| e.at_byte(footer_at);
    let footer = parse_footer(&bytes).map_err(at_footer)?;
    let footer_schema = footer_schema(&bytes).map_err(at_footer)?;
    let first_fields = first_schema.as_ref().unwrap_or(&footer_schema).fields();
    if let Some((column, what)) = first_difference(first_fields, footer_schema.fields()) {
        return Err(at_footer(Error::corrupt(format!(
            "the schemas at the start and in the footer differ: column '{column}', {what}"
        ))));
    }
    let blocks = Blocks::new(&footer, footer_at).map_err(at_footer)?;
    let mut builder = IndexBuilder::new(footer_schema, &bytes);
    for (number, block) in blocks.dictionaries.iter().chain(&blocks.batches) {
        let start = block.offset() as u64;
        let added = add(&mut builder, window, block, *number, footer_at);
        added.map_err(|e| e.in_message(*number).at_byte(start))?;
    }
    let index = builder.finish(true);
    if index.batches.len() != blocks.batches.len() {
        let what = "the footer lists dictionaries as record batches, or the reverse";
        return Err(at_footer(Error::corrupt(what)));
    }
    Ok(index)
}

fn parse_footer(bytes: &[u8]) -> Result<Footer<'_>> {
    let options = framing::verifier_options(bytes.len());
    root_as_footer_with_opts(&options, bytes).map_err(|e| framing::invalid_flatbuffer(&e))
}

/// The schema in a footer.
pub(super) fn footer_schema(bytes: &[u8]) -> Result<Schema> {
    let schema = parse_footer(bytes)?.schema();
    schema::convert(schema.ok_or_else(|| Error::corrupt("a footer without a schema"))?)
}

/// The schema in the first message.
fn first_schema(window: &mut WindowReader<'_>, end: u64) -> Result<Schema> {
    let first = first_message(window, end)?;
    framing::parse_message(window.bytes(first.metadata.clone())?)
        .and_then(|message| schema::read(&message))
        .map_err(|e| first.locate(e))
}

/// Whether what follows the magic and its padding begins as messages do since Arrow 0.15.
fn has_marker(window: &mut WindowReader<'_>) -> Result<bool> {
    let len = window.reader().len();
    let start = window.bytes(HEAD.min(len)..(64 + HEAD).min(len))?;
    let first = start.as_chunks::<8>().0.iter().find(|word| **word != [0; 8]);
    Ok(first.is_some_and(|word| word.starts_with(&[0xff; 4])))
}

/// The schema message, which follows the magic and its padding: to 8 bytes by the specification,
/// to 64 by arrow-rs.
fn first_message(window: &mut WindowReader<'_>, end: u64) -> Result<MessageSpan> {
    for start in (HEAD..=64).step_by(HEAD as usize) {
        if let Some(span) = framing::message_at(window, start.min(end), end, 0)? {
            return Ok(span);
        }
    }
    Err(Error::corrupt("a file without a schema").in_message(0).at_byte(HEAD))
}

fn add(
    builder: &mut IndexBuilder,
    window: &mut WindowReader<'_>,
    block: &Block,
    number: u64,
    footer_at: u64,
) -> Result<()> {
    let start = block.offset() as u64;
    let span = framing::message_at(window, start, footer_at, number)?;
    let span = span.ok_or_else(|| Error::corrupt("the footer points to where nothing is"))?;
    let metadata_end = span.metadata.end;
    let body_end = builder.add(span, window, footer_at)?;
    let (metadata_len, body_len) = (metadata_end - start, body_end - metadata_end);
    if i64::from(block.metaDataLength()) != metadata_len as i64
        || block.bodyLength() != body_len as i64
    {
        return Err(Error::corrupt(format!(
            "the footer says {} + {} bytes, the message {metadata_len} + {body_len}",
            block.metaDataLength(),
            block.bodyLength()
        )));
    }
    Ok(())
}

/// The footer's offset and bytes.
fn footer_bytes(reader: &RangeReader) -> Result<(u64, Vec<u8>)> {
    let end = reader.len();
    let unfinished = || {
        Error::corrupt(
            "the file has no footer: it is truncated or still being written; write it again",
        )
        .at_byte(end)
    };
    let tail_at = end.checked_sub(TAIL).filter(|at| *at >= HEAD).ok_or_else(unfinished)?;
    // Most footers fit into the last 4 KiB.
    let window_at = end.saturating_sub(4096).max(HEAD);
    let mut window = Vec::new();
    reader.read_range(window_at..end, &mut window)?;
    let tail = window.split_off((tail_at - window_at) as usize);
    let length = match tail.split_first_chunk() {
        Some((length, magic)) if magic == MAGIC => i32::from_le_bytes(*length),
        _ => return Err(unfinished()),
    };
    let footer_at = u64::try_from(length)
        .ok()
        .and_then(|length| tail_at.checked_sub(length))
        .filter(|at| length > 0 && *at >= HEAD)
        .ok_or_else(|| Error::corrupt(format!("a footer of length {length}")).at_byte(tail_at))?;
    if footer_at < window_at {
        reader.read_range(footer_at..tail_at, &mut window)?;
    } else {
        window.drain(..(footer_at - window_at) as usize);
    }
    Ok((footer_at, window))
}

/// The footer's blocks, numbered in the order of their offsets, the schema being 0.
struct Blocks {
    dictionaries: Vec<(u64, Block)>,
    batches: Vec<(u64, Block)>,
}

impl Blocks {
    fn new(footer: &Footer<'_>, footer_at: u64) -> Result<Self> {
        let list = |blocks: Option<flatbuffers::Vector<'_, Block>>| -> Vec<Block> {
            blocks.into_iter().flatten().copied().collect()
        };
        let (dictionaries, batches) = (list(footer.dictionaries()), list(footer.recordBatches()));
        let mut spans = Vec::with_capacity(dictionaries.len() + batches.len());
        for block in dictionaries.iter().chain(&batches) {
            spans.push(span(block, footer_at)?);
        }
        spans.sort_unstable();
        if spans.iter().zip(spans.iter().skip(1)).any(|(a, b)| b.0 < a.1) {
            return Err(Error::corrupt("the footer lists messages that overlap"));
        }
        let number = |block: Block| {
            let before = spans.partition_point(|(start, _)| *start < block.offset() as u64);
            (before as u64 + 1, block)
        };
        Ok(Self {
            dictionaries: dictionaries.into_iter().map(number).collect(),
            batches: batches.into_iter().map(number).collect(),
        })
    }
}

fn span(block: &Block, footer_at: u64) -> Result<(u64, u64)> {
    let (start, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
    let end = start.checked_add(i64::from(metadata)).and_then(|end| end.checked_add(body));
    match end {
        Some(end)
            if start >= HEAD as i64 && metadata > 0 && body >= 0 && end as u64 <= footer_at =>
        {
            Ok((start as u64, end as u64))
        }
        _ => Err(Error::corrupt(format!(
            "the footer lists a message at byte {start} of {metadata} + {body} bytes, outside the \
             file"
        ))),
    }
}
