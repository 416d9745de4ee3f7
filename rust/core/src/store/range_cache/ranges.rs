//! Which ranges of a shard are cached: a sorted map in which no range contains another.

use std::{collections::BTreeMap, ops::Range};

/// Ranges do not cross multiples of this: it is what one entry of the map, and one record of the log,
/// says something of.
pub(super) const CELL: u64 = 64 << 10;

/// A range's bytes are checked in pieces that do not cross multiples of this, so that a crop out of a
/// row that was read whole needs little more than its own bytes.
pub(super) const PIECE: u64 = 16 << 10;

/// The most pieces of a range.
pub(super) const N_SUMS: usize = (CELL / PIECE) as usize;

/// The checksums of a range's pieces, in their order, and zeros behind them.
pub(super) type Sums = [u64; N_SUMS];

/// A range of bytes within one cell, and the checksums of its pieces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) sums: Sums,
}

impl CachedRange {
    /// Whether it may be one of a shard of `len` bytes, whoever says so.
    pub(super) fn is_possible(&self, len: u64) -> bool {
        self.start < self.end && self.end <= len && self.start / CELL == (self.end - 1) / CELL
    }

    pub(super) fn bytes(&self) -> Range<u64> {
        self.start..self.end
    }

    /// The pieces in which these of its bytes lie, as a whole, each with its checksum.
    pub(super) fn pieces(&self, wanted: &Range<u64>) -> impl Iterator<Item = (Range<u64>, u64)> {
        let pieces = split(self.bytes(), PIECE).zip(self.sums);
        pieces.filter(|(piece, _)| piece.start < wanted.end && wanted.start < piece.end)
    }
}

/// A range in parts that do not cross multiples of `unit`.
pub(super) fn split(range: Range<u64>, unit: u64) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((at / unit + 1).saturating_mul(unit));
        let part = (at < end).then_some(at..end);
        at = end;
        part
    })
}

/// End and checksums by start. As no range contains another, ends rise as starts do.
#[derive(Debug, Default)]
pub(super) struct RangeMap(BTreeMap<u64, (u64, Sums)>);

impl RangeMap {
    /// Adds a range, unless there are `most`. A range that another contains is left out; of equal ones
    /// the later stays.
    pub(super) fn insert(&mut self, new: CachedRange, most: usize) {
        let contains =
            |old: &CachedRange| old.end > new.end || (old.end == new.end && old.start < new.start);
        if self.last_from(new.start).is_some_and(|old| contains(&old)) {
            return;
        }
        while let Some((&start, _)) =
            self.0.range(new.start..).next().filter(|(_, (end, _))| *end <= new.end)
        {
            self.0.remove(&start);
        }
        if self.0.len() < most {
            self.0.insert(new.start, (new.end, new.sums));
        }
    }

    /// Removes exactly this range.
    pub(super) fn remove(&mut self, range: &CachedRange) {
        if self.0.get(&range.start) == Some(&(range.end, range.sums)) {
            self.0.remove(&range.start);
        }
    }

    /// Ranges that have all of these bytes, in their order; `None` where some are missing.
    pub(super) fn cover(&self, wanted: &Range<u64>) -> Option<Vec<CachedRange>> {
        let (mut at, mut found) = (wanted.start, Vec::new());
        while at < wanted.end {
            let next = self.last_from(at).filter(|next| next.end > at)?;
            at = next.end;
            found.push(next);
        }
        Some(found)
    }

    /// The ranges of the same cell that overlap or touch this one.
    pub(super) fn touching(&self, range: &Range<u64>) -> Vec<CachedRange> {
        let cell = range.start / CELL * CELL;
        let near = self.0.range(cell..=range.end.min(cell + CELL - 1));
        let near = near.map(|(&start, &(end, sums))| CachedRange { start, end, sums });
        near.filter(|near| near.end >= range.start).collect()
    }

    /// The last range that begins at `at` or before.
    fn last_from(&self, at: u64) -> Option<CachedRange> {
        let (&start, &(end, sums)) = self.0.range(..=at).next_back()?;
        Some(CachedRange { start, end, sums })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_lie_in_one_cell_each() {
        let cells = |range| split(range, CELL).collect::<Vec<_>>();
        assert_eq!(cells(5..5), []);
        assert_eq!(cells(3..2 * CELL), [3..CELL, CELL..2 * CELL]);
        assert_eq!(cells(CELL - 1..3 * CELL), [CELL - 1..CELL, CELL..2 * CELL, 2 * CELL..3 * CELL]);
        assert_eq!(cells(u64::MAX - 1..u64::MAX).len(), 1);
    }

    #[test]
    fn pieces_are_those_that_hold_something_wanted() {
        let range = CachedRange { start: CELL + 5, end: CELL + 2 * PIECE + 7, sums: [1, 2, 3, 0] };
        let pieces = |wanted| range.pieces(&wanted).collect::<Vec<_>>();
        let [one, two, three] =
            [CELL + 5..CELL + PIECE, CELL + PIECE..CELL + 2 * PIECE, CELL + 2 * PIECE..range.end];
        let all = [(one, 1), (two, 2), (three, 3)];
        assert_eq!(pieces(range.bytes()), all);
        assert_eq!(pieces(0..u64::MAX), all);
        assert_eq!(pieces(CELL + 5..CELL + 6), all[..1]);
        assert_eq!(pieces(CELL + PIECE - 1..CELL + PIECE + 1), all[..2]);
        assert_eq!(pieces(CELL + PIECE..CELL + 2 * PIECE), all[1..2]);
        assert_eq!(pieces(0..CELL + 5), []);
        let whole = CachedRange { start: 0, end: CELL, sums: [1, 2, 3, 4] };
        assert_eq!(whole.pieces(&(0..CELL)).count(), N_SUMS);
    }

    proptest! {
        #[test]
        fn what_is_covered_is_what_was_added(
            added in prop::collection::vec((0..60_u64, 1..30_u64), 0..30),
            (start, n) in (0..90_u64, 0..40_u64),
        ) {
            let mut map = RangeMap::default();
            for (sum, (start, n)) in added.iter().enumerate() {
                let sums = [sum as u64; N_SUMS];
                map.insert(CachedRange { start: *start, end: start + n, sums }, 100);
            }
            let wanted = start..start + n;
            // Of overlapping ranges none is lost but those inside another.
            let has = |at| added.iter().any(|(start, n)| (*start..start + n).contains(&at));
            let found = map.cover(&wanted);
            prop_assert_eq!(found.is_some(), wanted.clone().all(has));
            let mut at = wanted.start;
            for range in found.unwrap_or_default() {
                let (start, n) = added[range.sums[0] as usize];
                prop_assert_eq!((range.start, range.end), (start, start + n));
                prop_assert!(range.start <= at && at < range.end);
                at = range.end;
            }
            let near = map.touching(&wanted);
            prop_assert!(near.iter().all(|near| near.start <= wanted.end && near.end >= wanted.start));
        }
    }

    #[test]
    fn there_are_no_more_than_may_be() {
        let mut map = RangeMap::default();
        for k in 0..10 {
            map.insert(CachedRange { start: 10 * k, end: 10 * k + 5, sums: [k; N_SUMS] }, 3);
        }
        assert_eq!(map.0.len(), 3);
        map.insert(CachedRange { start: 0, end: 30, sums: [0; N_SUMS] }, 3);
        assert_eq!(map.0.len(), 1);
    }
}
