//! The rows that are read at a time: a row group, or some pages of it.

use std::ops::Range;

use super::{footer::Footer, page_index::Page};

/// About as many stored bytes of decoded columns are read at a time, where pages are known. One page
/// at least, which most writers fill with 1 MB.
const RUN_BYTES: u64 = 1 << 20;

/// Rows of one row group that are read at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RowRun {
    pub(super) group: usize,
    /// In the row group.
    pub(super) rows: Range<u64>,
}

/// All rows, cut where the largest column that must be decoded has pages that begin. Columns that
/// are read value by value (`by_value`, a group and a leaf) do not count.
pub(super) fn cut(footer: &Footer, by_value: impl Fn(usize, usize) -> bool) -> Vec<RowRun> {
    let mut runs = Vec::new();
    for (number, group) in footer.row_groups().iter().enumerate() {
        let n_rows = group.num_rows().max(0) as u64;
        let chunks = group.columns().iter().enumerate();
        let decoded = chunks
            .filter(|(leaf, _)| !by_value(number, *leaf))
            .map(|(leaf, chunk)| (chunk.compressed_size().max(0) as u64, leaf));
        let sizes: Vec<_> = decoded.collect();
        let total: u64 = sizes.iter().fold(0, |sum, (size, _)| sum.saturating_add(*size));
        // The first of the largest.
        let largest = sizes.iter().rev().max_by_key(|(size, _)| *size);
        let pages = largest.and_then(|(_, leaf)| footer.pages.pages(number, *leaf));
        let starts = match pages.zip(largest) {
            Some((pages, (size, _))) if total > RUN_BYTES => {
                starts(pages, (RUN_BYTES as f64 * *size as f64 / total as f64) as u64)
            }
            _ => vec![0],
        };
        let ends = starts.iter().skip(1).copied().chain([n_rows]);
        let rows = starts.iter().zip(ends).map(|(start, end)| *start..end);
        runs.extend(
            rows.filter(|rows| !rows.is_empty()).map(|rows| RowRun { group: number, rows }),
        );
    }
    runs
}

/// The first rows of runs of pages that have `n_bytes` bytes or a little more.
fn starts(pages: &[Page], n_bytes: u64) -> Vec<u64> {
    let (mut starts, mut sum) = (vec![0], 0_u64);
    for page in pages {
        if sum >= n_bytes && starts.last() < Some(&page.rows.start) {
            starts.push(page.rows.start);
            sum = 0;
        }
        sum = sum.saturating_add(page.bytes.end - page.bytes.start);
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_begin_at_pages() {
        let page = |k: u64, bytes| Page { bytes, rows: 10 * k..10 * k + 10 };
        let pages: Vec<_> = (0..7).map(|k| page(k, 100 * k..100 * k + 100)).collect();
        assert_eq!(starts(&pages, 100), [0, 10, 20, 30, 40, 50, 60]);
        assert_eq!(starts(&pages, 101), [0, 20, 40, 60]);
        assert_eq!(starts(&pages, 10_000), [0]);
    }
}
