//! The audio index in a shard's index file.
//!
//! Processes that learn of different rows of a shard each add theirs to what the file has.
//!
//! The section has many blocks, so that a damaged one costs its entries alone. The first number of a
//! block's payload is its kind:
//!
//! * 1: the number of the first of some headers, then headers: bytes that many recordings share;
//! * 2: entries in the order of their recordings: how far the recording's first byte lies behind that of
//!   the one before (in a block's first: behind the shard's), the number of its headers from 1 on (0 for
//!   none), and the entry.

use std::collections::HashMap;

use super::{
    super::index_file::{
        IndexDir, IndexFile, IndexReader, IndexWriter, MAX_BYTES, Section, blocks,
    },
    AudioIndex, MAX_ENTRY_BYTES,
};
use crate::store::RangeReader;

/// A block is full when its payload is this long.
const FULL: usize = 16 << 10;

const HEADERS: u64 = 1;
const ENTRIES: u64 = 2;

/// What the file of this shard has; nothing where there is none that is valid.
pub(in crate::shard) fn load(reader: &RangeReader, dir: &IndexDir, version: u64) -> AudioIndex {
    let file = IndexFile::of_shard(reader, dir);
    file.map(|file| load_from(&file, version)).unwrap_or_default()
}

fn load_from(file: &IndexFile<'_>, version: u64) -> AudioIndex {
    let section = file.read(Section::audio(version), MAX_BYTES);
    section.map(|section| decode(section.sound())).unwrap_or_default()
}

/// Adds entries to the file, and what the file has to the entries. Returns whether it was written.
///
/// Errors (a read-only folder, a full disk) are ignored: what was learned is learned again.
pub(in crate::shard) fn save(
    reader: &RangeReader,
    dir: &IndexDir,
    version: u64,
    index: &mut AudioIndex,
) -> bool {
    let Some(file) = IndexFile::of_shard(reader, dir) else { return false };
    index.merge(&load_from(&file, version));
    let bytes = encode(index);
    bytes.len() as u64 <= MAX_BYTES && file.write_blocks(Section::audio(version), &bytes)
}

fn encode(index: &AudioIndex) -> Vec<u8> {
    let mut out = Vec::new();
    // Headers are numbered anew, by the first entry that needs them. So the file does not depend on the
    // order in which its recordings were read.
    let (mut headers, mut numbers) = (Vec::new(), HashMap::new());
    for old in index.entries.values().filter_map(|stored| stored.header) {
        numbers.entry(old).or_insert_with(|| {
            headers.extend(index.headers.get(old as usize));
            headers.len() as u64
        });
    }
    let mut block = Block::new(HEADERS);
    for (number, headers) in headers.into_iter().enumerate() {
        if block.is_new {
            block.payload.number(number as u64);
        }
        block.payload.bytes(headers);
        block.end_item(&mut out);
    }
    block.end(&mut out);
    let (mut block, mut last) = (Block::new(ENTRIES), 0);
    for (start, stored) in &index.entries {
        let before = if block.is_new { 0 } else { last };
        let number = stored.header.and_then(|old| numbers.get(&old));
        block.payload.numbers(&[start - before, number.copied().unwrap_or(0)]);
        block.payload.bytes(&stored.bytes);
        last = *start;
        block.end_item(&mut out);
    }
    block.end(&mut out);
    out
}

/// The entries in these blocks.
fn decode<'a>(blocks: impl Iterator<Item = &'a [u8]>) -> AudioIndex {
    let mut index = AudioIndex::default();
    // Their numbers in the index by those in the file, some of which may be lost.
    let mut headers = HashMap::new();
    for block in blocks {
        let mut items = IndexReader::new(block);
        // What a block has before damage that its checksum missed is as good as another's.
        let _ = match items.number() {
            Some(HEADERS) => add_headers(items, &mut headers, &mut index),
            Some(ENTRIES) => add_entries(items, &headers, &mut index),
            _ => None,
        };
    }
    index
}

fn add_headers(
    mut items: IndexReader<'_>,
    headers: &mut HashMap<u64, Option<u32>>,
    index: &mut AudioIndex,
) -> Option<()> {
    let mut number = items.number()?;
    while !items.is_empty() {
        headers.insert(number, index.number_of(short(&mut items)?));
        number = number.checked_add(1)?;
    }
    Some(())
}

fn add_entries(
    mut items: IndexReader<'_>,
    headers: &HashMap<u64, Option<u32>>,
    index: &mut AudioIndex,
) -> Option<()> {
    let mut start = 0_u64;
    while !items.is_empty() {
        start = start.checked_add(items.number()?)?;
        let number = items.number()?;
        let bytes = short(&mut items)?;
        let header = match number.checked_sub(1) {
            None => Some(None),
            Some(number) => headers.get(&number).copied(),
        };
        if let Some(header) = header {
            index.insert(start, header, bytes);
        }
    }
    Some(())
}

/// Bytes that are no longer than an entry, or headers, may be.
fn short<'a>(items: &mut IndexReader<'a>) -> Option<&'a [u8]> {
    items.bytes().filter(|bytes| bytes.len() <= MAX_ENTRY_BYTES)
}

/// A block that is being filled.
struct Block {
    payload: IndexWriter,
    kind: u64,
    is_new: bool,
}

impl Block {
    fn new(kind: u64) -> Self {
        let mut payload = IndexWriter::default();
        payload.number(kind);
        Self { payload, kind, is_new: true }
    }

    fn end_item(&mut self, out: &mut Vec<u8>) {
        self.is_new = false;
        if self.payload.len() >= FULL {
            self.end(out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.is_new {
            blocks::write(out, self.payload.as_bytes());
            *self = Self::new(self.kind);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::AudioEntry, *};

    fn index(entries: &[(u64, Vec<u8>, u8)]) -> AudioIndex {
        let mut index = AudioIndex::default();
        for (start, bytes, header) in entries {
            let headers = vec![*header; usize::from(*header) * 100];
            index.add(*start, AudioEntry { bytes, headers: &headers });
        }
        index
    }

    fn read(bytes: &[u8]) -> AudioIndex {
        decode(blocks::read(bytes))
    }

    fn sample() -> AudioIndex {
        let entries: Vec<_> =
            (0..700_u64).map(|k| (k * k * 1000, vec![k as u8; 100], (k % 4) as u8)).collect();
        index(&entries)
    }

    proptest! {
        #[test]
        fn entries_come_back(
            entries in prop::collection::vec(
                (any::<u64>(), prop::collection::vec(any::<u8>(), 0..200), 0..5_u8), 0..300),
        ) {
            let index = index(&entries);
            let back = read(&encode(&index));
            prop_assert!(back.iter().eq(index.iter()));
            prop_assert_eq!(back.n_bytes(), index.n_bytes());
        }

        #[test]
        fn the_order_in_which_entries_are_found_does_not_matter(
            entries in prop::collection::btree_map(any::<u64>(), 0..5_u8, 0..50),
        ) {
            let mut found: Vec<_> = entries.iter().map(|(at, kind)| (*at, vec![*kind], *kind)).collect();
            let bytes = encode(&index(&found));
            found.reverse();
            prop_assert_eq!(bytes, encode(&index(&found)));
        }

        #[test]
        fn payloads_that_say_anything_are_read(
            payloads in prop::collection::vec(
                (0..4_u8, prop::collection::vec(any::<u8>(), 0..60)), 0..8),
        ) {
            let mut bytes = Vec::new();
            for (kind, payload) in &payloads {
                blocks::write(&mut bytes, &[&[*kind], payload.as_slice()].concat());
            }
            prop_assert!(read(&bytes).len() < 8 * 60);
        }
    }

    #[test]
    fn a_changed_byte_costs_few_entries_and_changes_none() {
        let index = sample();
        let bytes = encode(&index);
        for at in (0..bytes.len()).step_by(7).chain(0..1000) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let found = read(&damaged);
            assert!(found.iter().all(|(start, entry)| index.get(start) == Some(entry)), "{at}");
            // Without its headers, an entry is none.
            let is_header = at < 700;
            assert!(found.len() >= if is_header { 175 } else { 500 }, "{at}: {}", found.len());
        }
    }

    #[test]
    fn a_file_that_is_cut_has_what_is_left() {
        let index = sample();
        let bytes = encode(&index);
        for len in (0..bytes.len()).step_by(101) {
            let found = read(&bytes[..len]);
            assert!(found.iter().all(|(start, entry)| index.get(start) == Some(entry)), "{len}");
        }
        assert!(read(&bytes[..bytes.len() - 1]).len() > 500);
    }

    #[test]
    fn equal_headers_are_written_once() {
        let headers = [7; 5000];
        let mut index = AudioIndex::default();
        for k in 0..100 {
            index.add(k, AudioEntry { bytes: &[1; 50], headers: &headers });
        }
        assert!(encode(&index).len() < 5000 + 100 * 60);
    }

    #[test]
    fn long_headers_of_many_entries_take_no_time() {
        let mut bytes = Vec::new();
        let mut headers = IndexWriter::default();
        headers.numbers(&[HEADERS, 0]);
        headers.bytes(&vec![7; MAX_ENTRY_BYTES]);
        blocks::write(&mut bytes, headers.as_bytes());
        let n_entries = 300_000;
        let entries = [1, 1, 0].repeat(n_entries);
        blocks::write(&mut bytes, &[&[ENTRIES as u8][..], &entries].concat());
        let found = read(&bytes);
        assert_eq!(found.len(), n_entries);
        let mut index = AudioIndex::default();
        index.merge(&found);
        assert_eq!((index.len(), index.n_bytes()), (n_entries, found.n_bytes()));
    }
}
