//! What is remembered of the recordings of a shard, so that a crop of one is a short read.
//!
//! What is remembered of one recording, its entry, is written and read by `gristmill_audio`. Here entries
//! are bytes that are found by where the recording begins in the shard, whatever its column or row.
//! Many recordings have the same headers, which are kept once. An empty entry says that the recording
//! was looked at, and has none.
//!
//! [`file`] keeps them in the shard's index file.

mod file;

use std::{
    collections::{BTreeMap, HashMap, btree_map::Entry},
    sync::Arc,
};

pub(super) use file::{load, save};

/// What B-tree and allocator take for an entry beside its bytes, roughly.
const ENTRY_OVERHEAD: usize = 64;

/// The longest entry, and the longest headers of one. A recording that needs more is read whole.
const MAX_ENTRY_BYTES: usize = 256 << 10;

/// The entries of a shard's recordings.
#[derive(Clone, Debug, Default)]
pub struct AudioIndex {
    /// By the offset of the recording's first byte in the shard.
    entries: BTreeMap<u64, Stored>,
    /// Headers and their numbers.
    numbers: HashMap<Arc<[u8]>, u32>,
    headers: Vec<Arc<[u8]>>,
    n_bytes: usize,
}

#[derive(Clone, Debug)]
struct Stored {
    /// `None` for none.
    header: Option<u32>,
    bytes: Box<[u8]>,
}

/// What is remembered of one recording.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AudioEntry<'a> {
    /// Empty where nothing is remembered, and so the recording must be read whole.
    pub bytes: &'a [u8],
    /// The headers that the entry needs, which other recordings may have too; may be empty.
    pub headers: &'a [u8],
}

impl AudioIndex {
    /// The number of recordings that were looked at.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no recording was looked at.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of memory, roughly.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// What is remembered of the recording that begins at this byte of the shard.
    pub fn get(&self, start: u64) -> Option<AudioEntry<'_>> {
        self.entries.get(&start).map(|stored| self.entry(stored))
    }

    /// All entries, by the first byte of the recording.
    pub fn iter(&self) -> impl Iterator<Item = (u64, AudioEntry<'_>)> {
        self.entries.iter().map(|(start, stored)| (*start, self.entry(stored)))
    }

    fn entry<'a>(&'a self, stored: &'a Stored) -> AudioEntry<'a> {
        let headers = stored.header.and_then(|number| self.headers.get(number as usize));
        AudioEntry { bytes: &stored.bytes, headers: headers.map_or(&[], |headers| headers) }
    }

    /// Adds what is remembered of a recording, unless something is already: what was found first stays.
    /// Returns whether it was added. Of an entry that is too long, only that there is none is kept.
    pub fn add(&mut self, start: u64, entry: AudioEntry<'_>) -> bool {
        if self.entries.contains_key(&start) {
            return false;
        }
        let is_too_long = entry.bytes.len().max(entry.headers.len()) > MAX_ENTRY_BYTES;
        let AudioEntry { bytes, headers } =
            if is_too_long { AudioEntry { bytes: &[], headers: &[] } } else { entry };
        let header = self.number_of(headers);
        self.insert(start, header, bytes)
    }

    /// As [`Self::add`], of an entry that is short enough, with the number of its headers.
    fn insert(&mut self, start: u64, header: Option<u32>, bytes: &[u8]) -> bool {
        let Entry::Vacant(place) = self.entries.entry(start) else { return false };
        self.n_bytes += ENTRY_OVERHEAD + bytes.len();
        place.insert(Stored { header, bytes: bytes.into() });
        true
    }

    /// Removes what is remembered of a recording.
    pub fn remove(&mut self, start: u64) {
        if let Some(stored) = self.entries.remove(&start) {
            self.n_bytes -= ENTRY_OVERHEAD + stored.bytes.len();
        }
    }

    /// Adds the entries of another index of the shard that this one lacks.
    pub fn merge(&mut self, other: &Self) {
        // Headers are looked up once, and not once an entry: a file may have long ones for many short
        // entries.
        let mut numbers = HashMap::new();
        for (start, stored) in &other.entries {
            if self.entries.contains_key(start) {
                continue;
            }
            let header = stored.header.and_then(|number| {
                let headers = other.headers.get(number as usize)?;
                *numbers.entry(number).or_insert_with(|| self.number_of(headers))
            });
            self.insert(*start, header, &stored.bytes);
        }
    }

    /// The number of these headers, new ones included; `None` for none.
    fn number_of(&mut self, headers: &[u8]) -> Option<u32> {
        if headers.is_empty() {
            return None;
        }
        if let Some(number) = self.numbers.get(headers) {
            return Some(*number);
        }
        let number = self.headers.len() as u32;
        let headers: Arc<[u8]> = headers.into();
        self.n_bytes += ENTRY_OVERHEAD + headers.len();
        self.headers.push(Arc::clone(&headers));
        self.numbers.insert(headers, number);
        Some(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry<'a>(bytes: &'a [u8], headers: &'a [u8]) -> AudioEntry<'a> {
        AudioEntry { bytes, headers }
    }

    #[test]
    fn what_was_found_first_stays() {
        let mut index = AudioIndex::default();
        assert!(index.add(9, entry(b"one", b"head")));
        assert!(!index.add(9, entry(b"two", b"head")));
        assert!(index.add(3, entry(b"", b"")));
        let mut other = AudioIndex::default();
        assert!(other.add(9, entry(b"three", b"")) && other.add(11, entry(b"four", b"head")));
        index.merge(&other);
        assert!(index.iter().eq([
            (3, entry(b"", b"")),
            (9, entry(b"one", b"head")),
            (11, entry(b"four", b"head")),
        ]));
        assert_eq!((index.len(), index.headers.len(), index.get(4)), (3, 1, None));
        let before = index.n_bytes();
        index.remove(9);
        index.remove(9);
        assert!(index.get(9).is_none() && index.add(9, entry(b"two", b"head")));
        assert_eq!(index.n_bytes(), before);
    }

    #[test]
    fn an_entry_that_is_too_long_is_none() {
        let long = vec![1; MAX_ENTRY_BYTES + 1];
        let mut index = AudioIndex::default();
        assert!(index.add(1, entry(&long, b"head")) && index.add(2, entry(b"entry", &long)));
        assert!(index.iter().all(|(_, found)| found == entry(b"", b"")));
        assert!(index.n_bytes() < 1000);
    }
}
