//! The file of an audio index: `<name>.gmaudio`, beside the shard's sidecar.
//!
//! What is said of sidecars in [`super::super::sidecar`] holds for it: it is never needed, never trusted,
//! of one version of the shard, and replaced as a whole. Processes that learn of different rows of a
//! shard each add theirs to what the file has.
//!
//! The bytes, version 1: eight bytes that name the format and its version, then blocks
//! ([`super::blocks`]), so that a damaged one costs its entries alone. The first byte of a block's payload
//! is its kind; numbers are varints, and bytes follow their number.
//!
//! * 0, the first block: the shard, as in its sidecar (path, length, modification time as `u64`), and the
//!   version of the entries;
//! * 1: the number of the first of some headers, then headers;
//! * 2: entries in the order of their recordings: how far the recording's first byte lies behind that of
//!   the one before (in a block's first: behind the shard's), the number of its headers from 1 on (0 for
//!   none), and the entry.

use std::{collections::HashMap, os::unix::ffi::OsStrExt, path::PathBuf};

use super::{
    super::{
        IndexDir,
        sidecar::{self, MAX_BYTES},
    },
    AudioIndex, MAX_ENTRY_BYTES, blocks, varint,
};
use crate::store::RangeReader;

/// The last byte is the version.
const MAGIC: &[u8; 8] = b"GMAUDIO\x01";

/// A block is full when its payload is this long.
const FULL: usize = 16 << 10;

const SHARD: u8 = 0;
const HEADERS: u8 = 1;
const ENTRIES: u8 = 2;

/// What the file of this shard has; nothing where there is none that is valid.
pub(in crate::shard) fn load(reader: &RangeReader, dir: &IndexDir, version: u64) -> AudioIndex {
    let loaded = || {
        if !reader.may_be_kept() {
            return None;
        }
        let bytes = sidecar::read(&path(reader, dir)?, MAX_BYTES).ok()?;
        decode(&bytes, &identity(reader, dir, version)?)
    };
    loaded().unwrap_or_default()
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
    let Some((path, identity)) = path(reader, dir).zip(identity(reader, dir, version)) else {
        return false;
    };
    if !reader.may_be_kept() {
        return false;
    }
    index.merge(&load(reader, dir, version));
    let bytes = encode(index, &identity);
    dir.make();
    bytes.len() as u64 <= MAX_BYTES && sidecar::replace(&path, &bytes).is_ok()
}

/// The file's path.
fn path(reader: &RangeReader, dir: &IndexDir) -> Option<PathBuf> {
    Some(dir.path(reader.path())?.with_extension("gmaudio"))
}

/// The payload of the first block.
fn identity(reader: &RangeReader, dir: &IndexDir, version: u64) -> Option<Vec<u8>> {
    let shard = dir.shard_path(reader.path())?;
    let mut out = vec![SHARD];
    put(&mut out, shard.as_os_str().as_bytes());
    let of = reader.version();
    for word in [of.len, of.modified.0 as u64, of.modified.1 as u64, version] {
        out.extend(word.to_le_bytes());
    }
    Some(out)
}

fn encode(index: &AudioIndex, identity: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    blocks::write(&mut out, identity);
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
            varint::write(&mut block.payload, number as u64);
        }
        put(&mut block.payload, headers);
        block.end_item(&mut out);
    }
    block.end(&mut out);
    let (mut block, mut last) = (Block::new(ENTRIES), 0);
    for (start, stored) in &index.entries {
        let before = if block.is_new { 0 } else { last };
        varint::write(&mut block.payload, start - before);
        let number = stored.header.and_then(|old| numbers.get(&old));
        varint::write(&mut block.payload, number.copied().unwrap_or(0));
        put(&mut block.payload, &stored.bytes);
        last = *start;
        block.end_item(&mut out);
    }
    block.end(&mut out);
    out
}

/// The entries in the sound blocks of a file; `None` where it is not of this version of this shard.
fn decode(bytes: &[u8], identity: &[u8]) -> Option<AudioIndex> {
    let bytes = bytes.strip_prefix(MAGIC)?;
    let mut blocks = blocks::read(bytes);
    if blocks.next()? != identity {
        return None;
    }
    let mut index = AudioIndex::default();
    // Their numbers in the index by those in the file, some of which may be lost.
    let mut headers = HashMap::new();
    for block in blocks {
        // What a block has before damage that its checksum missed is as good as another's.
        let _ = match block.split_first() {
            Some((&HEADERS, items)) => add_headers(items, &mut headers, &mut index),
            Some((&ENTRIES, items)) => add_entries(items, &headers, &mut index),
            _ => None,
        };
    }
    Some(index)
}

fn add_headers(
    mut items: &[u8],
    headers: &mut HashMap<u64, Option<u32>>,
    index: &mut AudioIndex,
) -> Option<()> {
    let mut number = varint::read(&mut items)?;
    while !items.is_empty() {
        headers.insert(number, index.number_of(take(&mut items)?));
        number = number.checked_add(1)?;
    }
    Some(())
}

fn add_entries(
    mut items: &[u8],
    headers: &HashMap<u64, Option<u32>>,
    index: &mut AudioIndex,
) -> Option<()> {
    let mut start = 0_u64;
    while !items.is_empty() {
        start = start.checked_add(varint::read(&mut items)?)?;
        let number = varint::read(&mut items)?;
        let bytes = take(&mut items)?;
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

/// A block that is being filled.
struct Block {
    payload: Vec<u8>,
    kind: u8,
    is_new: bool,
}

impl Block {
    fn new(kind: u8) -> Self {
        Self { payload: vec![kind], kind, is_new: true }
    }

    fn end_item(&mut self, out: &mut Vec<u8>) {
        self.is_new = false;
        if self.payload.len() >= FULL {
            self.end(out);
        }
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if !self.is_new {
            blocks::write(out, &self.payload);
            *self = Self::new(self.kind);
        }
    }
}

/// Appends bytes after their number.
fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    varint::write(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Takes what [`put`] appended.
fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = usize::try_from(varint::read(bytes)?).ok()?;
    let (taken, rest) = bytes.split_at_checked(len).filter(|_| len <= MAX_ENTRY_BYTES)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::AudioEntry, *};

    const IDENTITY: &[u8] = b"\0of a shard";

    fn index(entries: &[(u64, Vec<u8>, u8)]) -> AudioIndex {
        let mut index = AudioIndex::default();
        for (start, bytes, header) in entries {
            let headers = vec![*header; usize::from(*header) * 100];
            index.add(*start, AudioEntry { bytes, headers: &headers });
        }
        index
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
            let back = decode(&encode(&index, IDENTITY), IDENTITY).unwrap();
            prop_assert!(back.iter().eq(index.iter()));
            prop_assert_eq!(back.n_bytes(), index.n_bytes());
        }

        #[test]
        fn the_order_in_which_entries_are_found_does_not_matter(
            entries in prop::collection::btree_map(any::<u64>(), 0..5_u8, 0..50),
        ) {
            let mut found: Vec<_> = entries.iter().map(|(at, kind)| (*at, vec![*kind], *kind)).collect();
            let bytes = encode(&index(&found), IDENTITY);
            found.reverse();
            prop_assert_eq!(bytes, encode(&index(&found), IDENTITY));
        }

        #[test]
        fn payloads_that_say_anything_are_read(
            payloads in prop::collection::vec(
                (0..4_u8, prop::collection::vec(any::<u8>(), 0..60)), 0..8),
        ) {
            let mut bytes = MAGIC.to_vec();
            blocks::write(&mut bytes, IDENTITY);
            for (kind, payload) in &payloads {
                blocks::write(&mut bytes, &[&[*kind], payload.as_slice()].concat());
            }
            prop_assert!(decode(&bytes, IDENTITY).unwrap().len() < 8 * 60);
        }
    }

    #[test]
    fn a_changed_byte_costs_few_entries_and_changes_none() {
        let index = sample();
        let bytes = encode(&index, IDENTITY);
        let n_before_blocks = MAGIC.len() + 16 + IDENTITY.len();
        for at in (0..bytes.len()).step_by(7).chain(0..1000) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            let found = decode(&damaged, IDENTITY);
            let Some(found) = found else {
                assert!(at < n_before_blocks, "{at}");
                continue;
            };
            assert!(found.iter().all(|(start, entry)| index.get(start) == Some(entry)), "{at}");
            // Without its headers, an entry is none.
            let is_header = at < n_before_blocks + 700;
            assert!(found.len() >= if is_header { 175 } else { 500 }, "{at}: {}", found.len());
        }
    }

    #[test]
    fn a_file_that_is_cut_has_what_is_left() {
        let index = sample();
        let bytes = encode(&index, IDENTITY);
        for len in (0..bytes.len()).step_by(101) {
            let found = decode(&bytes[..len], IDENTITY).unwrap_or_default();
            assert!(found.iter().all(|(start, entry)| index.get(start) == Some(entry)), "{len}");
        }
        assert!(decode(&bytes[..bytes.len() - 1], IDENTITY).unwrap().len() > 500);
    }

    #[test]
    fn another_shard_s_file_and_another_version_are_none() {
        let bytes = encode(&sample(), IDENTITY);
        assert!(decode(&bytes, b"\0of another").is_none());
        let mut newer = bytes.clone();
        newer[7] = 2;
        assert!(decode(&newer, IDENTITY).is_none());
        assert!(decode(b"", IDENTITY).is_none());
    }

    #[test]
    fn equal_headers_are_written_once() {
        let headers = [7; 5000];
        let mut index = AudioIndex::default();
        for k in 0..100 {
            index.add(k, AudioEntry { bytes: &[1; 50], headers: &headers });
        }
        assert!(encode(&index, IDENTITY).len() < 5000 + 100 * 60);
    }
    #[test]
    fn long_headers_of_many_entries_take_no_time() {
        let mut bytes = MAGIC.to_vec();
        blocks::write(&mut bytes, IDENTITY);
        let mut headers = vec![HEADERS, 0];
        put(&mut headers, &vec![7; MAX_ENTRY_BYTES]);
        blocks::write(&mut bytes, &headers);
        let n_entries = 300_000;
        blocks::write(&mut bytes, &[&[ENTRIES][..], &[1, 1, 0].repeat(n_entries)].concat());
        let found = decode(&bytes, IDENTITY).unwrap();
        assert_eq!(found.len(), n_entries);
        let mut index = AudioIndex::default();
        index.merge(&found);
        assert_eq!((index.len(), index.n_bytes()), (n_entries, found.n_bytes()));
    }
}
