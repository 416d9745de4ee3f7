//! The part of a sidecar that is the IPC formats' own.
//!
//! * the flatbuffer that holds the schema: that of the first message, or the footer;
//! * the number of messages and for each: its number, the offsets of it, its flatbuffer, its body
//!   and the next message, its kind (0 record batch, 1 dictionary, 2 delta), the number of rows or
//!   the dictionary's id, its flatbuffer (empty where it is not kept), and the number of columns
//!   whose rows are kept, and for each: its first buffer, its validity bitmap (empty without nulls)
//!   and the offsets of its rows in the shard.
//!
//! Flatbuffers are parsed and verified as when they were first read, and every offset must lie in
//! its place inside the shard.

use super::{
    super::index_file::{IndexReader, IndexWriter},
    footer,
    framing::{self, MessageSpan},
    index::{Contents, IndexBuilder, MessageIndex, SavedMessage, SavedRows},
    schema,
};

/// Writes an index.
pub(super) fn save(index: &MessageIndex, out: &mut IndexWriter) {
    out.bytes(&index.schema_source);
    let counts = index.row_starts.iter().zip(index.row_starts.iter().skip(1));
    let batches =
        index.batches.iter().zip(counts).map(|(entry, (start, end))| (entry, 0, end - start));
    let dictionaries =
        index.dictionaries().iter().map(|d| (&d.batch, 1 + u64::from(d.is_delta), d.id as u64));
    out.numbers(&[(index.batches.len() + index.dictionaries().len()) as u64]);
    // In the order of the index, which a footer may list in any order.
    for (entry, kind, value) in dictionaries.chain(batches) {
        let MessageSpan { number, start, metadata } = &entry.span;
        out.numbers(&[*number, *start, metadata.start, entry.body.start, entry.body.end]);
        out.numbers(&[kind, value]);
        out.bytes(entry.header.as_deref().unwrap_or_default());
        out.numbers(&[entry.rows.len() as u64]);
        for (first_buffer, column) in &entry.rows {
            out.numbers(&[*first_buffer as u64]);
            out.bytes(&column.validity());
            out.words(column.offsets());
        }
    }
}

/// Reads the index of a shard of `len` bytes; `None` for damage.
pub(super) fn restore(
    saved: &mut IndexReader<'_>,
    len: u64,
    is_file: bool,
) -> Option<MessageIndex> {
    let source = saved.bytes()?;
    let schema = if is_file {
        footer::footer_schema(source).ok()?
    } else {
        framing::parse_message(source).and_then(|message| schema::read(&message)).ok()?
    };
    let mut builder = IndexBuilder::new(schema, source);
    for _ in 0..saved.number()? {
        let message = message(saved, len)?;
        builder.add_saved(message).ok()?;
    }
    Some(builder.finish(is_file))
}

fn message(saved: &mut IndexReader<'_>, len: u64) -> Option<SavedMessage> {
    let (number, start) = (saved.number()?, saved.number()?);
    let (metadata, body) = (saved.number()?, saved.number()?);
    let end = saved.number()?;
    if !(start < metadata && metadata < body && body <= end && end <= len) {
        return None;
    }
    let span = MessageSpan { number, start, metadata: metadata..body };
    let contents = match (saved.number()?, saved.number()?) {
        (0, n_rows) => Contents::RecordBatch { n_rows: usize::try_from(n_rows).ok()? },
        (kind @ (1 | 2), id) => Contents::Dictionary { id: id as i64, is_delta: kind == 2 },
        _ => return None,
    };
    let header = saved.bytes()?;
    if !header.is_empty() && header.len() as u64 != body - metadata {
        return None;
    }
    let mut rows = Vec::new();
    for _ in 0..saved.number()? {
        let first_buffer = usize::try_from(saved.number()?).ok()?;
        let validity = saved.bytes()?.to_vec();
        let offsets = saved.words()?;
        rows.push(SavedRows { first_buffer, validity, offsets });
    }
    let header = (!header.is_empty()).then(|| Box::from(header));
    Some(SavedMessage { span, body: body..end, contents, header, rows })
}
