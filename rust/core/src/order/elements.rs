//! The elements of an epoch in file order: rows, or the parts of rows, numbered from 0.

use std::{ops::Range, sync::Arc};

use super::{RowId, Rows, Sampling};
use crate::{
    error::{Error, Result},
    hash::{below, extend, hash},
};

/// A word that is hashed for the draw of a row's part.
const PART: u64 = 24;

/// One of a row's parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Part {
    /// Its number, from 0.
    pub number: u64,
    /// The number of the row's parts.
    pub count: u64,
}

/// How many parts each row has, as running sums over the rows as [`Rows`] numbers them.
#[derive(Clone, Debug)]
pub struct PartCounts {
    ends: Vec<u64>,
}

impl PartCounts {
    /// The sums of these counts.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Limit`] beyond 2^62 parts.
    pub fn new(counts: impl Iterator<Item = u64>) -> Result<Self> {
        let mut total = 0u64;
        let end = |count: u64| {
            total = total
                .checked_add(count)
                .filter(|&n| n <= 1 << 62)
                .ok_or_else(|| Error::limit("the rows have more than 2^62 parts"))?;
            Ok(total)
        };
        Ok(Self { ends: counts.map(end).collect::<Result<_>>()? })
    }

    /// A hash of all of them.
    pub(super) fn hash(&self) -> u64 {
        self.ends.iter().fold(hash(&[self.ends.len() as u64]), |h, &end| extend(h, end))
    }

    /// The weights of the rows, 0 for those without parts: there is nothing of them to draw.
    pub fn drawable(&self, mut weights: Vec<f64>) -> Vec<f64> {
        let starts = std::iter::once(&0).chain(&self.ends);
        let counts = self.ends.iter().zip(starts).map(|(end, start)| end - start);
        for (weight, _) in weights.iter_mut().zip(counts).filter(|(_, count)| *count == 0) {
            *weight = 0.0;
        }
        weights
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of all of them.
    pub fn len(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The first part of a row, by the row's number; behind the last row the number of all parts.
    fn start(&self, row: u64) -> u64 {
        let before = usize::try_from(row).ok().and_then(|row| row.checked_sub(1));
        before.map_or(0, |k| self.ends.get(k).copied().unwrap_or_else(|| self.len()))
    }

    /// The number of the row that has this part, and the part.
    fn locate(&self, part: u64) -> Option<(u64, Part)> {
        let row = self.ends.partition_point(|end| *end <= part) as u64;
        let start = self.start(row);
        let end = self.ends.get(usize::try_from(row).ok()?)?;
        Some((row, Part { number: part - start, count: end - start }))
    }
}

/// The elements of an epoch: what is shuffled, sliced and counted.
#[derive(Clone, Debug)]
pub(super) struct Elements {
    pub(super) rows: Rows,
    /// Where elements are parts of rows.
    pub(super) parts: Option<Arc<PartCounts>>,
}

impl Elements {
    pub(super) fn len(&self) -> u64 {
        self.parts.as_ref().map_or_else(|| self.rows.len(), |parts| parts.len())
    }

    /// The row and the part of the element of this number.
    pub(super) fn get(&self, n: u64) -> Option<(RowId, Option<Part>)> {
        let Some(parts) = &self.parts else { return Some((self.rows.get(n)?, None)) };
        let (row, part) = parts.locate(n)?;
        Some((self.rows.get(row)?, Some(part)))
    }

    /// The number of the element that is the k-th draw by `key`: a row by its weight, then one of its
    /// parts, all equally likely.
    pub(super) fn draw(&self, sampling: &Sampling, key: u64, k: u64) -> Option<u64> {
        let row = sampling.draw(key, k)?;
        let parts = self.of_rows(row..row + 1);
        Some(parts.start + below(extend(extend(key, PART), k), parts.end - parts.start))
    }

    /// The number of runs of elements that lie one after the other: see [`Rows::n_runs`].
    pub(super) fn n_runs(&self) -> u64 {
        self.rows.n_runs()
    }

    /// The numbers of a run's elements.
    pub(super) fn of_run(&self, run: usize) -> Range<u64> {
        self.of_rows(self.rows.of_run(run))
    }

    /// The numbers of the elements in the run of element number `n`.
    pub(super) fn run_around(&self, n: u64) -> Range<u64> {
        let row = match &self.parts {
            None => Some(n),
            Some(parts) => parts.locate(n).map(|(row, _)| row),
        };
        row.map_or(0..0, |row| self.of_rows(self.rows.run_around(row)))
    }

    /// The numbers of the elements of these rows.
    fn of_rows(&self, rows: Range<u64>) -> Range<u64> {
        match &self.parts {
            None => rows,
            Some(parts) => parts.start(rows.start)..parts.start(rows.end),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::Draws, *};

    proptest! {
        /// Elements are those of a list that is written down.
        #[test]
        fn it_equals_a_plain_list(
            shards in prop::collection::vec(prop::collection::vec(0u64..5, 0..6), 0..6),
            excluded in prop::option::of((0u32..6, 0u64..6)),
        ) {
            let row_counts: Vec<u64> = shards.iter().map(|rows| rows.len() as u64).collect();
            let exists = |&(s, r): &(u32, u64)| row_counts.get(s as usize).is_some_and(|n| r < *n);
            let excluded: Vec<_> = excluded.into_iter().filter(exists).collect();
            let rows = Rows::new(&row_counts, &excluded).unwrap();
            let count = |id: RowId| shards[id.shard as usize][id.row as usize];
            let counts = (0..rows.len()).map(|n| count(rows.get(n).unwrap()));
            let parts = Some(Arc::new(PartCounts::new(counts).unwrap()));
            let naive: Vec<_> = (0..rows.len()).flat_map(|n| {
                let id = rows.get(n).unwrap();
                (0..count(id)).map(move |k| (id, Some(Part { number: k, count: count(id) })))
            }).collect();
            let elements = Elements { rows, parts };
            prop_assert_eq!(elements.len(), naive.len() as u64);
            let listed: Vec<_> = (0..).map_while(|n| elements.get(n)).collect();
            prop_assert_eq!(&listed, &naive);
            for shard in 0..shards.len() {
                let run = elements.of_run(shard);
                let of_run: Vec<_> = run.clone().filter_map(|n| elements.get(n)).collect();
                prop_assert!(of_run.iter().eq(naive.iter().filter(|(id, _)| id.shard as usize == shard)));
                run.clone().for_each(|n| assert_eq!(elements.run_around(n), run));
            }
        }
    }

    /// Chi-squared against equal shares of the rows' weights, at five standard deviations above its
    /// mean.
    #[test]
    fn parts_share_the_weight_of_their_row() {
        let counts = PartCounts::new([2, 0, 1, 4].into_iter()).unwrap();
        let weights = counts.drawable(vec![1.0, 5.0, 3.0, 2.0]);
        assert_eq!(weights, [1.0, 0.0, 3.0, 2.0]);
        let draws = Draws { seed: 7, per_epoch: None, reshuffle: true };
        let sampling = Sampling::new(draws, weights).unwrap();
        let rows = Rows::new(&[4], &[]).unwrap();
        let elements = Elements { rows, parts: Some(Arc::new(counts)) };
        let n = 100_000;
        let mut seen = [0.0; 7];
        for k in 0..n {
            seen[elements.draw(&sampling, sampling.key(0), k).unwrap() as usize] += 1.0;
        }
        let shares = [0.5, 0.5, 3.0, 0.5, 0.5, 0.5, 0.5].map(|share| share / 6.0 * n as f64);
        let parts = seen.iter().zip(shares);
        let chi2: f64 = parts.map(|(seen, share)| (seen - share).powi(2) / share).sum();
        assert!(chi2 < 6.0 + 5.0 * 12f64.sqrt(), "{chi2}");
    }

    #[test]
    fn a_list_with_repeats_has_the_parts_of_each_entry() {
        let rows = Rows::list(&[3], vec![2, 0, 2]).unwrap();
        let parts = Some(Arc::new(PartCounts::new([2, 1, 2].into_iter()).unwrap()));
        let elements = Elements { rows, parts };
        let listed: Vec<_> = (0..).map_while(|n| elements.get(n)).map(|(id, _)| id.row).collect();
        assert_eq!(listed, [2, 2, 0, 2, 2]);
        assert_eq!(elements.run_around(3), 0..5);
    }

    #[test]
    fn sums_are_bounded() {
        assert!(PartCounts::new([1 << 62, 1].into_iter()).is_err());
        assert!(PartCounts::new([u64::MAX].into_iter()).is_err());
    }
}
