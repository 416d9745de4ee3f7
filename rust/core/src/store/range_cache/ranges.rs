//! Which ranges of a shard are cached: a sorted map in which no range contains another.

use std::{collections::BTreeMap, ops::Range};

/// Ranges end where a multiple of this does, so that a crop out of a row that was read whole needs
/// little of it: a range is read as a whole, for its checksum.
pub(super) const CELL: u64 = 64 << 10;

/// A range of bytes within one cell, and their checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct CachedRange {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) sum: u64,
}

impl CachedRange {
    /// Whether it may be one of a shard of `len` bytes, whoever says so.
    pub(super) fn is_possible(&self, len: u64) -> bool {
        self.start < self.end && self.end <= len && self.start / CELL == (self.end - 1) / CELL
    }

    pub(super) fn n_bytes(&self) -> usize {
        (self.end - self.start) as usize
    }
}

/// A range in pieces that lie in one cell each.
pub(super) fn cells(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let end = range.end.min((at / CELL + 1).saturating_mul(CELL));
        let cell = (at < end).then_some(at..end);
        at = end;
        cell
    })
}

/// End and checksum by start. As no range contains another, ends rise as starts do.
#[derive(Debug, Default)]
pub(super) struct RangeMap(BTreeMap<u64, (u64, u64)>);

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
            self.0.insert(new.start, (new.end, new.sum));
        }
    }

    /// Removes exactly this range.
    pub(super) fn remove(&mut self, range: &CachedRange) {
        if self.0.get(&range.start) == Some(&(range.end, range.sum)) {
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
        let near = near.map(|(&start, &(end, sum))| CachedRange { start, end, sum });
        near.filter(|near| near.end >= range.start).collect()
    }

    /// The last range that begins at `at` or before.
    fn last_from(&self, at: u64) -> Option<CachedRange> {
        let (&start, &(end, sum)) = self.0.range(..=at).next_back()?;
        Some(CachedRange { start, end, sum })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn pieces_lie_in_one_cell_each() {
        let cells = |range| cells(range).collect::<Vec<_>>();
        assert_eq!(cells(5..5), []);
        assert_eq!(cells(3..2 * CELL), [3..CELL, CELL..2 * CELL]);
        assert_eq!(cells(CELL - 1..3 * CELL), [CELL - 1..CELL, CELL..2 * CELL, 2 * CELL..3 * CELL]);
        assert_eq!(cells(u64::MAX - 1..u64::MAX).len(), 1);
    }

    proptest! {
        #[test]
        fn what_is_covered_is_what_was_added(
            added in prop::collection::vec((0..60_u64, 1..30_u64), 0..30),
            (start, n) in (0..90_u64, 0..40_u64),
        ) {
            let mut map = RangeMap::default();
            for (sum, (start, n)) in added.iter().enumerate() {
                map.insert(CachedRange { start: *start, end: start + n, sum: sum as u64 }, 100);
            }
            let wanted = start..start + n;
            // Of overlapping ranges none is lost but those inside another.
            let has = |at| added.iter().any(|(start, n)| (*start..start + n).contains(&at));
            let found = map.cover(&wanted);
            prop_assert_eq!(found.is_some(), wanted.clone().all(has));
            let mut at = wanted.start;
            for range in found.unwrap_or_default() {
                let (start, n) = added[range.sum as usize];
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
            map.insert(CachedRange { start: 10 * k, end: 10 * k + 5, sum: k }, 3);
        }
        assert_eq!(map.0.len(), 3);
        map.insert(CachedRange { start: 0, end: 30, sum: 0 }, 3);
        assert_eq!(map.0.len(), 1);
    }
}
