//! The log of a shard's ranges: records of 32 bytes, which are only ever added.
//!
//! A record is four little-endian `u64`: start, end and checksum of a range, and a hash of these and
//! of the shard's key. Nothing in it is trusted. What does not hash right is skipped, byte by byte
//! to the next record that does: a process may have been killed in the middle of one.

use super::ranges::CachedRange;
use crate::hash;

pub(super) const RECORD: usize = 32;

/// The record of a range.
pub(super) fn encode(key: u64, range: &CachedRange) -> [u8; RECORD] {
    let words = [range.start, range.end, range.sum, check(key, range)];
    let mut record = [0; RECORD];
    for (bytes, word) in record.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    record
}

/// Gives the ranges of all records of a shard of `len` bytes to `found`. Returns how many bytes were
/// read: a record may not be there to its end yet.
pub(super) fn decode(
    key: u64,
    len: u64,
    bytes: &[u8],
    mut found: impl FnMut(CachedRange),
) -> usize {
    let mut at = 0;
    while let Some(record) = bytes.get(at..).and_then(<[u8]>::first_chunk::<RECORD>) {
        let range = of_record(key, record).filter(|range| range.is_possible(len));
        at += range.map_or(1, |_| RECORD);
        range.into_iter().for_each(&mut found);
    }
    at
}

fn of_record(key: u64, record: &[u8; RECORD]) -> Option<CachedRange> {
    let [start, end, sum, check_sum] = record.as_chunks::<8>().0 else { return None };
    let [start, end, sum] = [start, end, sum].map(|word| u64::from_le_bytes(*word));
    let range = CachedRange { start, end, sum };
    (u64::from_le_bytes(*check_sum) == check(key, &range)).then_some(range)
}

fn check(key: u64, range: &CachedRange) -> u64 {
    hash::hash(&[key, range.start, range.end, range.sum])
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: u64 = 1 << 20;

    fn ranges() -> Vec<CachedRange> {
        (0..20).map(|k| CachedRange { start: k * 1000, end: k * 1000 + 77, sum: k * k }).collect()
    }

    fn log() -> Vec<u8> {
        ranges().iter().flat_map(|range| encode(5, range)).collect()
    }

    fn read(key: u64, bytes: &[u8]) -> Vec<CachedRange> {
        let mut found = Vec::new();
        assert!(decode(key, LEN, bytes, |range| found.push(range)) <= bytes.len());
        found
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
            assert_eq!(read(5, &encode(5, &CachedRange { start, end, sum: 1 })), []);
        }
        assert_eq!(read(5, &encode(5, &CachedRange { start: LEN - 1, end: LEN, sum: 1 })).len(), 1);
    }
}
