//! The bytes of a sidecar, version 1.
//!
//! All numbers are little-endian `u64`; bytes follow their length. A sidecar is a prefix of eight
//! bytes that names the format and its version, the FNV-1a hash of what follows, and then
//!
//! * the shard: its path, length, and modification time (seconds, nanoseconds);
//! * its format (1 for the file format) and the flatbuffer that holds its schema: that of the first
//!   message, or the footer;
//! * the number of messages and for each: its number, where it, its flatbuffer, its body and the
//!   next message begin, its kind (0 record batch, 1 dictionary, 2 delta), the rows or the
//!   dictionary's id, its flatbuffer (empty where it is not kept), and the number of columns whose
//!   rows are kept, and for each: its first buffer, its validity bitmap (empty without nulls) and
//!   the offsets of its rows in the shard.
//!
//! FNV-1a maps each byte one to one, so that no single changed byte leaves the hash as it was. What
//! passes it is checked like the shard's own bytes: kept flatbuffers are parsed and verified as
//! when they were first read, and every offset must lie in its place inside the shard.

use super::{
    file_format,
    framing::{self, Frame},
    index::{Contents, IndexBuilder, KnownMessage, KnownRows, MessageIndex},
    schema,
    storage::Stamp,
};
use crate::hash;

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"GMINDEX\x01";

/// Which state of which file a sidecar belongs to.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Key {
    path: Vec<u8>,
    len: u64,
    modified: (i64, i64),
}

impl Key {
    pub(super) fn new(path: &[u8], stamp: &Stamp) -> Self {
        Self { path: path.to_owned(), len: stamp.len, modified: stamp.modified }
    }
}

/// The sidecar of a shard with this index.
pub(super) fn encode(key: &Key, index: &MessageIndex) -> Vec<u8> {
    let mut out = Out(Vec::new());
    out.bytes(&key.path);
    out.words(&[key.len, key.modified.0 as u64, key.modified.1 as u64]);
    out.words(&[u64::from(index.is_file)]);
    out.bytes(&index.schema_source);
    let counts = index.row_starts.iter().zip(index.row_starts.iter().skip(1));
    let batches =
        index.batches.iter().zip(counts).map(|(entry, (start, end))| (entry, 0, end - start));
    let dictionaries =
        index.dictionaries.iter().map(|d| (&d.batch, 1 + u64::from(d.is_delta), d.id as u64));
    out.words(&[(index.batches.len() + index.dictionaries.len()) as u64]);
    // In the order of the index: a footer may list record batches in any.
    for (entry, kind, value) in dictionaries.chain(batches) {
        let Frame { message, start, metadata } = &entry.frame;
        out.words(&[*message, *start, metadata.start, entry.body.start, entry.body.end]);
        out.words(&[kind, value]);
        out.bytes(entry.header.as_deref().unwrap_or_default());
        out.words(&[entry.rows.len() as u64]);
        for (first_buffer, column) in &entry.rows {
            out.words(&[*first_buffer as u64]);
            out.bytes(&column.validity());
            out.words(&[column.offsets().len() as u64]);
            out.words(column.offsets());
        }
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend(hash::fnv1a(&out.0).to_le_bytes());
    bytes.extend(out.0);
    bytes
}

/// The index in a sidecar; `None` where it is not whole and sound, or not of this key.
pub(super) fn decode(bytes: &[u8], key: &Key) -> Option<MessageIndex> {
    let (sum, payload) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
    if u64::from_le_bytes(*sum) != hash::fnv1a(payload) {
        return None;
    }
    let mut input = In(payload);
    let path = input.bytes()?;
    let (len, modified) = (input.word()?, (input.word()? as i64, input.word()? as i64));
    if *key != (Key { path: path.to_vec(), len, modified }) {
        return None;
    }
    let is_file = input.word()? == 1;
    let source = input.bytes()?;
    let schema = if is_file {
        file_format::footer_schema(source).ok()?
    } else {
        framing::parse_message(source).and_then(|message| schema::read(&message)).ok()?
    };
    let mut builder = IndexBuilder::new(schema, source);
    for _ in 0..input.word()? {
        let known = message(&mut input, len)?;
        builder.add_known(known).ok()?;
    }
    input.0.is_empty().then(|| builder.finish(is_file))
}

fn message(input: &mut In<'_>, len: u64) -> Option<KnownMessage> {
    let (message, start) = (input.word()?, input.word()?);
    let (metadata, body) = (input.word()?, input.word()?);
    let end = input.word()?;
    if !(start < metadata && metadata < body && body <= end && end <= len) {
        return None;
    }
    let frame = Frame { message, start, metadata: metadata..body };
    let contents = match (input.word()?, input.word()?) {
        (0, n_rows) => Contents::RecordBatch { n_rows: usize::try_from(n_rows).ok()? },
        (kind @ (1 | 2), id) => Contents::Dictionary { id: id as i64, is_delta: kind == 2 },
        _ => return None,
    };
    let header = input.bytes()?;
    if !header.is_empty() && header.len() as u64 != body - metadata {
        return None;
    }
    let mut rows = Vec::new();
    for _ in 0..input.word()? {
        let first_buffer = usize::try_from(input.word()?).ok()?;
        let validity = input.bytes()?.to_vec();
        let n_offsets = usize::try_from(input.word()?).ok()?;
        let offsets = words(input.take(n_offsets.checked_mul(8)?)?);
        rows.push(KnownRows { first_buffer, validity, offsets });
    }
    let header = (!header.is_empty()).then(|| Box::from(header));
    Some(KnownMessage { frame, body: body..end, contents, header, rows })
}

fn words(bytes: &[u8]) -> Vec<u64> {
    bytes
        .chunks_exact(8)
        .filter_map(|word| word.first_chunk())
        .map(|w| u64::from_le_bytes(*w))
        .collect()
}

struct Out(Vec<u8>);

impl Out {
    fn words(&mut self, words: &[u64]) {
        self.0.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.words(&[bytes.len() as u64]);
        self.0.extend(bytes);
    }
}

struct In<'a>(&'a [u8]);

impl<'a> In<'a> {
    fn take(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(n_bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn word(&mut self) -> Option<u64> {
        self.take(8)?.first_chunk().map(|word| u64::from_le_bytes(*word))
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.word()?).ok()?;
        self.take(len)
    }
}
