//! Ranges of a file that are read together with what is between them, of which only they are kept.
//!
//! A request takes as long as sending the bytes of a gap. But of rows that are read alone, the gaps
//! between many columns are most of their record batch. So memory has the wanted bytes only, and no more
//! of the gaps is read than [`MAX_WASTE`] says.

use std::{ops::Range, sync::Arc};

use super::ranges::coalesced;
use crate::{Result, memory::BufferPool};

/// The most bytes of gaps that are read with some ranges, beyond as many as these have.
const MAX_WASTE: u64 = 1 << 20;

/// Ranges this close stay one in memory: buffers of Arrow are padded to this.
const PADDING: u64 = 64;

/// The most that is read at once where there are gaps: so many of the longest, and this at least.
const GAPS_AT_ONCE: u64 = 4;
const MIN_AT_ONCE: u64 = 64 << 10;

/// Which ranges are kept, and how they are read.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// Sorted, with those in one that touch each other.
    extents: Vec<Range<u64>>,
    /// Extents that are read at once, as ranges of their numbers.
    requests: Vec<Range<usize>>,
}

impl Gathered {
    /// With at most `gap` bytes between ranges that are read at once.
    pub(super) fn new(ranges: impl Iterator<Item = Range<u64>>, gap: u64) -> Self {
        let extents = coalesced(ranges, PADDING.min(gap));
        let at_once = (GAPS_AT_ONCE * gap).max(MIN_AT_ONCE);
        let gap = narrowed(&extents, gap);
        let mut requests: Vec<Range<usize>> = Vec::new();
        let mut last: Range<u64> = 0..0;
        for (number, extent) in extents.iter().enumerate() {
            let is_near = extent.start - last.end <= gap && extent.end - last.start <= at_once;
            match requests.last_mut() {
                Some(request) if is_near => {
                    request.end = number + 1;
                    last.end = extent.end;
                }
                _ => {
                    requests.push(number..number + 1);
                    last = extent.clone();
                }
            }
        }
        Self { extents, requests }
    }

    /// Sorted ranges that have all wanted ones. They do not touch each other.
    pub(super) fn extents(&self) -> &[Range<u64>] {
        &self.extents
    }

    /// The bytes that each request reads.
    pub(super) fn requests(&self) -> impl Iterator<Item = Range<u64>> {
        self.requests.iter().filter_map(|request| {
            let (first, rest) = self.extents.get(request.clone())?.split_first()?;
            Some(first.start..rest.last().unwrap_or(first).end)
        })
    }

    /// The most bytes of memory that are taken while gaps are read.
    pub(super) fn scratch_bytes(&self) -> u64 {
        let with_gaps = self.requests.iter().map(|request| request.len() > 1);
        let sizes = self.requests().map(|bytes| bytes.end - bytes.start);
        let sizes = sizes.zip(with_gaps).filter(|(_, has_gaps)| *has_gaps).map(|(size, _)| size);
        sizes.max().unwrap_or(0)
    }

    /// Reads the extents, by `read`, into the memory that is for each of them.
    pub(super) fn read<'a>(
        &self,
        mut into: impl Iterator<Item = &'a mut [u8]>,
        buffers: &Arc<BufferPool>,
        mut read: impl FnMut(Range<u64>, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        for (request, bytes) in self.requests.iter().zip(self.requests()) {
            if request.len() == 1 {
                into.next().map_or(Ok(()), |into| read(bytes, into))?;
                continue;
            }
            let (start, n_bytes) = (bytes.start, (bytes.end - bytes.start) as usize);
            let mut scratch = buffers.take(n_bytes, None)?;
            read(bytes, scratch.as_bytes_mut())?;
            for extent in self.extents.get(request.clone()).unwrap_or_default() {
                let from = (extent.start - start) as usize..(extent.end - start) as usize;
                let from = scratch.as_bytes().get(from).unwrap_or_default();
                if let Some(into) = into.next().filter(|into| into.len() == from.len()) {
                    into.copy_from_slice(from);
                }
            }
        }
        Ok(())
    }
}

/// The longest gap of at most `gap` bytes with which no more of gaps is read than [`MAX_WASTE`] says.
fn narrowed(extents: &[Range<u64>], gap: u64) -> u64 {
    let wanted = extents.iter().map(|extent| extent.end - extent.start).sum::<u64>();
    let pairs = extents.iter().zip(extents.iter().skip(1));
    let gaps = pairs.map(|(before, after)| after.start - before.end);
    let mut gaps: Vec<u64> = gaps.filter(|length| *length <= gap).collect();
    let (most, mut wasted) = (wanted.saturating_add(MAX_WASTE), 0);
    if gaps.iter().sum::<u64>() <= most {
        return gap;
    }
    gaps.sort_unstable();
    let mut narrowed = 0;
    for same in gaps.chunk_by(|a, b| a == b) {
        wasted += same.iter().sum::<u64>();
        if wasted > most {
            break;
        }
        narrowed = same.first().copied().unwrap_or(0);
    }
    narrowed
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GAP: u64 = 4 << 10;

    #[test]
    fn requests_have_short_gaps_and_are_not_much_more_than_is_wanted() {
        let requests = |ranges: &[Range<u64>], gap| {
            let gathered = Gathered::new(ranges.iter().cloned(), gap);
            (
                gathered.requests().map(|r| (r.start, r.end)).collect::<Vec<_>>(),
                gathered.scratch_bytes(),
            )
        };
        assert_eq!(requests(&[10..20, 30..40], GAP), (vec![(10, 40)], 0));
        assert_eq!(requests(&[4_000..5_000, 0..100], GAP), (vec![(0, 5_000)], 5_000));
        assert_eq!(requests(&[0..100, 5_000..5_100], GAP), (vec![(0, 100), (5_000, 5_100)], 0));
        let large = [0..1 << 20, (1 << 20) + 100..2 << 20];
        assert_eq!(requests(&large, GAP), (large.iter().map(|r| (r.start, r.end)).collect(), 0));
        // The same column of a row, a hundred times: behind a URL they would be read as 16 MB.
        let columns = |n: u64, of: u64| (0..n).map(move |k| k * of..k * of + 8).collect::<Vec<_>>();
        assert_eq!(requests(&columns(100, 160_000), 256 << 10).0.len(), 100);
        assert_eq!(requests(&columns(6, 160_000), 256 << 10), (vec![(0, 800_008)], 800_008));
        // Of many gaps the shortest are read.
        let mut both = columns(100, 160_000);
        both.extend((0..20).map(|k| 20_000_000 + k * 1_000..20_000_000 + k * 1_000 + 8));
        assert_eq!(requests(&both, 256 << 10).0.len(), 101);
    }

    proptest! {
        #[test]
        fn extents_are_read_as_one_by_one(
            ranges in prop::collection::vec((0_u64..200_000, 0_u64..3_000), 0..60),
            gap in 0_u64..20_000,
        ) {
            let file: Vec<u8> = (0..210_000_u64).map(|at| (at * at % 251) as u8).collect();
            let ranges: Vec<_> = ranges.iter().map(|(start, len)| *start..start + len).collect();
            let gathered = Gathered::new(ranges.iter().cloned(), gap);
            let sizes = gathered.extents().iter().map(|extent| extent.end - extent.start);
            let mut memory: Vec<Vec<u8>> = sizes.map(|n| vec![0; n as usize]).collect();
            let mut most = 0;
            gathered.read(memory.iter_mut().map(Vec::as_mut_slice), &Arc::default(), |range, into| {
                most = most.max(into.len());
                into.copy_from_slice(&file[range.start as usize..range.end as usize]);
                Ok(())
            }).unwrap();
            for (extent, bytes) in gathered.extents().iter().zip(&memory) {
                prop_assert!(*bytes == file[extent.start as usize..extent.end as usize]);
            }
            let is_in = |range: &Range<u64>| {
                range.is_empty()
                    || gathered.extents().iter().any(|e| e.start <= range.start && range.end <= e.end)
            };
            prop_assert!(ranges.iter().all(is_in));
            prop_assert!(gathered.scratch_bytes() <= most as u64);
        }
    }
}
