//! The IPC file format: a footer at the end says where the messages are.
//!
//! See <https://arrow.apache.org/docs/format/Columnar.html#ipc-file-format>.

use arrow_ipc::{Block, Footer, root_as_footer_with_opts};
use arrow_schema::Schema;

use super::{
    framing::{self, Frame, HeaderReader},
    index::{IndexBuilder, MessageIndex},
    schema,
    source::Source,
};
use crate::{Error, Result};

/// At both ends of a file.
pub(super) const MAGIC: &[u8] = b"ARROW1";

/// The magic and its padding at the start, where the schema message follows.
const HEAD: u64 = 8;

/// The footer's length and the magic at the end.
const TAIL: u64 = 10;

/// Reads the footer, then the header of each message that it lists.
pub(super) fn read(source: &Source, reader: &mut HeaderReader<'_>) -> Result<MessageIndex> {
    // The schema message comes first, being in the window already.
    let first = first_message(source.len(), reader)?;
    let at_first = |e: Error| e.in_message(0).at_byte(first.start);
    let message = framing::parse_message(reader.metadata(&first)?).map_err(at_first)?;
    let first_schema = schema::read(&message).map_err(at_first)?;

    let (footer_at, bytes) = footer_bytes(source)?;
    let at_footer = |e: Error| e.at_byte(footer_at);
    let footer = parse_footer(&bytes).map_err(at_footer)?;
    let footer_schema = footer_schema(&bytes).map_err(at_footer)?;
    if let Some((column, what)) =
        schema::first_difference(first_schema.fields(), footer_schema.fields())
    {
        return Err(at_footer(Error::corrupt(format!(
            "the schemas at the start and in the footer differ: column '{column}', {what}"
        ))));
    }
    let blocks = Blocks::new(&footer, footer_at).map_err(at_footer)?;
    let mut builder = IndexBuilder::new(footer_schema, &bytes);
    for (number, block) in blocks.dictionaries.iter().chain(&blocks.batches) {
        let start = block.offset() as u64;
        let added = add(&mut builder, reader, block, *number, footer_at);
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

/// The schema message, which follows the magic and its padding: to 8 bytes by the specification,
/// to 64 by arrow-rs.
fn first_message(end: u64, reader: &mut HeaderReader<'_>) -> Result<Frame> {
    for start in (HEAD..=64).step_by(HEAD as usize) {
        if let Some(frame) = reader.frame(start.min(end), end, 0)? {
            return Ok(frame);
        }
    }
    Err(Error::corrupt("a file without a schema").in_message(0).at_byte(HEAD))
}

fn add(
    builder: &mut IndexBuilder,
    reader: &mut HeaderReader<'_>,
    block: &Block,
    number: u64,
    footer_at: u64,
) -> Result<()> {
    let start = block.offset() as u64;
    let frame = reader.frame(start, footer_at, number)?;
    let frame = frame.ok_or_else(|| Error::corrupt("the footer points to where nothing is"))?;
    let metadata_end = frame.metadata.end;
    let body_end = builder.add(frame, reader, footer_at)?;
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

/// The footer's place and bytes.
fn footer_bytes(source: &Source) -> Result<(u64, Vec<u8>)> {
    let end = source.len();
    let unfinished = || {
        Error::corrupt(
            "the file has no footer: it is truncated or still being written; write it again",
        )
        .at_byte(end)
    };
    let tail_at = end.checked_sub(TAIL).filter(|at| *at >= HEAD).ok_or_else(unfinished)?;
    // Most footers are in the last 4 KiB.
    let window_at = end.saturating_sub(4096).max(HEAD);
    let mut window = Vec::new();
    source.read_range(window_at..end, &mut window)?;
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
        source.read_range(footer_at..tail_at, &mut window)?;
    } else {
        window.drain(..(footer_at - window_at) as usize);
    }
    Ok((footer_at, window))
}

/// The footer's blocks, numbered as the messages lie in the file, the schema being 0.
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
