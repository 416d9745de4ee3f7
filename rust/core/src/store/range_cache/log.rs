//! The log of a shard's ranges: records of 56 bytes, which are only ever added.
//!
//! A record is seven little-endian `u64`: start, end and the four checksums of a range, and a hash of
//! these and of the shard's key. With start and end exchanged it says that this range is damaged. Nothing
//! in it is trusted. What does not hash right is skipped, byte by byte to the next record that does: a
//! process may have been killed in the middle of one.

use super::ranges::CachedRange;
use crate::hash;

pub(super) const RECORD: usize = 56;

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entry {
    /// The range is there.
    Added(CachedRange),
    /// Its bytes were found to be others.
    Damaged(CachedRange),
}

/// The record that a range is damaged.
pub(super) fn encode_damaged(key: u64, range: &CachedRange) -> [u8; RECORD] {
    encode(key, &CachedRange { start: range.end, end: range.start, ..*range })
}

/// The record of a range.
pub(super) fn encode(key: u64, range: &CachedRange) -> [u8; RECORD] {
    let [a, b, c, d] = range.sums;
    let words = [range.start, range.end, a, b, c, d, check(key, range)];
    let mut record = [0; RECORD];
    for (bytes, word) in record.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    record
}

/// Gives what all records of a shard of `len` bytes say to `found`. Returns how many bytes were
/// read: a record may not be there to its end yet.
pub(super) fn decode(key: u64, len: u64, bytes: &[u8], mut found: impl FnMut(Entry)) -> usize {
    let mut at = 0;
    while let Some(record) = bytes.get(at..).and_then(<[u8]>::first_chunk::<RECORD>) {
        let entry = of_record(key, record).filter(|entry| match entry {
            Entry::Added(range) | Entry::Damaged(range) => range.is_possible(len),
        });
        at += entry.map_or(1, |_| RECORD);
        entry.into_iter().for_each(&mut found);
    }
    at
}

fn of_record(key: u64, record: &[u8; RECORD]) -> Option<Entry> {
    let words = record.as_chunks::<8>().0.first_chunk()?;
    let [start, end, a, b, c, d, hashed] = words.map(u64::from_le_bytes);
    let range = CachedRange { start, end, sums: [a, b, c, d] };
    let is_sound = hashed == check(key, &range);
    is_sound.then_some(if start < end {
        Entry::Added(range)
    } else {
        Entry::Damaged(CachedRange { start: end, end: start, ..range })
    })
}

fn check(key: u64, range: &CachedRange) -> u64 {
    let [a, b, c, d] = range.sums;
    hash::hash(&[key, range.start, range.end, a, b, c, d])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1 << 20;

    fn ranges() -> Vec<CachedRange> {
        let range = |k| CachedRange { start: k * 1000, end: k * 1000 + 77, sums: [k, 0, k * k, 7] };
        (0..20).map(range).collect()
    }

    fn log() -> Vec<u8> {
        ranges().iter().flat_map(|range| encode(5, range)).collect()
    }

    fn read(key: u64, bytes: &[u8]) -> Vec<CachedRange> {
        let mut found = Vec::new();
        let add = |entry| match entry {
            Entry::Added(range) => found.push(range),
            Entry::Damaged(range) => found.retain(|old| *old != range),
        };
        assert!(decode(key, LEN, bytes, add) <= bytes.len());
        found
    }

    #[test]
    fn damage_is_recorded() {
        let range = ranges()[3];
        let mut bytes = [log(), encode_damaged(5, &range).to_vec()].concat();
        assert!(!read(5, &bytes).contains(&range) && read(5, &bytes).len() == 19);
        bytes.extend(encode(5, &range));
        assert!(read(5, &bytes).contains(&range));
    }

    #[test]
    fn records_come_back() {
        assert_eq!(read(5, &log()), ranges());
        assert_eq!(read(6, &log()), []);
    }

    #[test]
    fn a_changed_byte_costs_its_record_alone() {
        for at in 0..log().len() {
            let mut bytes = log();
            bytes[at] ^= 1 << (at % 8);
            let mut expected = ranges();
            expected.remove(at / RECORD);
            assert_eq!(read(5, &bytes), expected, "{at}");
        }
    }

    #[test]
    fn what_is_cut_or_put_in_costs_no_other_record() {
        let (log, all) = (log(), ranges());
        for cut in 0..log.len() {
            assert_eq!(read(5, &log[..cut]), all[..cut / RECORD], "{cut}");
            // A record that was cut short, and then all of them again.
            let both = [&log[..cut], &log].concat();
            assert_eq!(read(5, &both), [&all[..cut / RECORD], &all].concat(), "{cut}");
        }
    }

    #[test]
    fn ranges_that_cannot_be_are_left_out() {
        use super::super::ranges::CELL;
        for (start, end) in [
            (5, 5),
            (6, 5),
            (0, CELL + 1),
            (CELL - 1, CELL + 1),
            (0, u64::MAX),
            (LEN, LEN + 1),
            (u64::MAX, 0),
            (u64::MAX - 1, u64::MAX),
        ] {
            assert_eq!(read(5, &encode(5, &CachedRange { start, end, sums: [1; 4] })), []);
        }
        let last = CachedRange { start: LEN - 1, end: LEN, sums: [1; 4] };
        assert_eq!(read(5, &encode(5, &last)), [last]);
    }
}
