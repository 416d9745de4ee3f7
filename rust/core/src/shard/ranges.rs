//! Ranges of a file that are read together.

use std::ops::Range;

/// The ranges sorted, with those coalesced that have at most `gap` bytes between them.
pub(super) fn coalesced(ranges: impl Iterator<Item = Range<u64>>, gap: u64) -> Vec<Range<u64>> {
    let mut sorted: Vec<_> = ranges.filter(|r| !r.is_empty()).collect();
    sorted.sort_unstable_by_key(|r| (r.start, r.end));
    let mut coalesced: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match coalesced.last_mut() {
            Some(last) if range.start <= last.end.saturating_add(gap) => {
                last.end = last.end.max(range.end);
            }
            _ => coalesced.push(range),
        }
    }
    coalesced
}
