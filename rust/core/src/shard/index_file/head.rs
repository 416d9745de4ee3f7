//! The head of an index file: what the file belongs to, and its sections.

use super::{IndexReader, IndexWriter, blocks};

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"GMINDEX\x02";

/// The most sections of a file. There may be one for each column and limit by which windows or events
/// were ever counted.
pub(super) const MAX_SECTIONS: usize = 16;

/// What a file is read by at first, beside its key: more than all entries take.
const MAX_ENTRIES_BYTES: usize = 4096;

/// One of a file's sections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Section {
    /// Sections of lower kinds come first.
    pub(super) kind: u64,
    /// Which one of its kind.
    pub(super) of: u64,
    /// Of its contents. A file has one version of a section.
    pub(super) version: u64,
}

impl Section {
    /// What is known of a shard's record batches.
    pub(in crate::shard) const BATCHES: Self = Self { kind: 1, of: 0, version: 1 };

    /// The answer to a question about the rows of several shards.
    pub(crate) const ANSWER: Self = Self { kind: 4, of: 0, version: 1 };

    /// What is known of a shard's recordings, in entries of this version.
    pub(in crate::shard) fn audio(version: u64) -> Self {
        Self { kind: 2, of: 0, version }
    }

    /// Numbers for each row of a shard; the key says what of.
    pub(in crate::shard) fn rows(key: u64) -> Self {
        Self { kind: 3, of: key, version: 1 }
    }

    /// Whether it is the other one, perhaps in another version.
    pub(super) fn is_same(self, other: Self) -> bool {
        (self.kind, self.of) == (other.kind, other.of)
    }
}

/// A section in a file's head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) section: Section,
    /// In bytes.
    pub(super) len: u64,
}

/// No head of a file with this key is longer.
pub(super) fn max_bytes(key: &[u8]) -> usize {
    key.len() + MAX_ENTRIES_BYTES
}

pub(super) fn encode(key: &[u8], entries: &[Entry]) -> Vec<u8> {
    let mut head = IndexWriter::default();
    head.bytes(key);
    head.number(entries.len() as u64);
    for Entry { section: Section { kind, of, version }, len } in entries {
        head.numbers(&[*kind, *of, *version, *len]);
    }
    let mut out = MAGIC.to_vec();
    blocks::write(&mut out, &head.into_bytes());
    out
}

/// The entries of a file's head, and the head's length; `None` where it is damaged or has another key.
pub(super) fn decode(bytes: &[u8], key: &[u8]) -> Option<(Vec<Entry>, u64)> {
    let (head, rest) = blocks::first(bytes.strip_prefix(MAGIC)?)?;
    let mut head = IndexReader::new(head);
    if head.bytes()? != key {
        return None;
    }
    let mut entries = Vec::new();
    for _ in 0..head.number()?.min(MAX_SECTIONS as u64) {
        let (kind, of, version) = (head.number()?, head.number()?, head.number()?);
        entries.push(Entry { section: Section { kind, of, version }, len: head.number()? });
    }
    head.is_empty().then_some((entries, (bytes.len() - rest.len()) as u64))
}
