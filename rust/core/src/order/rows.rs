//! The rows of a data set, numbered from 0: all rows of all shards without the excluded ones, a
//! selection of them, or a list.

use std::{ops::Range, sync::Arc};

use super::Bitmap;
use crate::{
    error::{Error, Result},
    hash::extend,
};

/// The word that begins the hash of a list. No other hash of rows begins with it.
const LIST: u64 = u64::MAX;

/// One row of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId {
    /// Index of the shard in the list of paths.
    pub shard: u32,
    /// Index of the row in its shard.
    pub row: u64,
}

/// The rows that take part.
///
/// A row's *ordinal* counts all rows of all shards in file order; its *number* counts those that take
/// part.
#[derive(Clone, Debug)]
pub struct Rows {
    /// `starts[s]` is the ordinal of shard `s`'s first row; the last entry is the number of all rows.
    starts: Vec<u64>,
    members: Members,
    /// `runs[s]` is the number of the first row of run `s`: of shard `s`, or of the whole list.
    runs: Vec<u64>,
}

/// Which rows take part, and their order.
#[derive(Clone, Debug)]
enum Members {
    /// All but a few, in file order. For the j-th excluded ordinal `e`, in rising order: `e - j`, the
    /// number of rows before it that are not excluded. A binary search in it turns a row's number
    /// into its ordinal.
    AllBut(Vec<u64>),
    /// These ordinals, in file order.
    Selection(Arc<Bitmap>),
    /// These ordinals, in this order.
    List(Arc<[u64]>, HasRepeats),
}

/// Whether a row is in a list more than once.
type HasRepeats = bool;

impl Rows {
    /// The rows of shards with these row counts, without the excluded (shard, row) pairs.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for an excluded pair that does not exist;
    /// [`crate::ErrorKind::Limit`] for more than 2^62 rows.
    pub fn new(counts: &[u64], excluded: &[(u32, u64)]) -> Result<Self> {
        let starts = starts_of(counts)?;
        let ordinals = excluded_ordinals(counts, &starts, excluded)?;
        let kept = |start: &u64| start - ordinals.partition_point(|e| e < start) as u64;
        let runs = starts.iter().map(kept).collect();
        let kept_before = (0u64..).zip(ordinals).map(|(j, e)| e - j).collect();
        Ok(Self { starts, members: Members::AllBut(kept_before), runs })
    }

    /// The rows of these ordinals, in file order.
    ///
    /// # Errors
    ///
    /// As [`Self::new`].
    pub fn selection(counts: &[u64], ordinals: Bitmap) -> Result<Self> {
        let starts = starts_of(counts)?;
        let runs = starts.iter().map(|start| ordinals.rank(*start)).collect();
        Ok(Self { starts, members: Members::Selection(Arc::new(ordinals)), runs })
    }

    /// The rows of these ordinals, in this order. A list that rises strictly is a selection.
    ///
    /// # Errors
    ///
    /// As [`Self::new`]; [`crate::ErrorKind::Config`] for an ordinal that does not exist.
    pub fn list(counts: &[u64], ordinals: Vec<u64>) -> Result<Self> {
        let starts = starts_of(counts)?;
        let total = starts.last().copied().unwrap_or(0);
        if let Some(beyond) = ordinals.iter().find(|ordinal| **ordinal >= total) {
            return Err(Error::config(format!("there is no row {beyond}, but {total} rows")));
        }
        if ordinals.is_sorted_by(|a, b| a < b) {
            return Self::selection(counts, Bitmap::of(ordinals, total));
        }
        let distinct = Bitmap::of(ordinals.iter().copied(), total).count();
        let n = ordinals.len() as u64;
        let members = Members::List(ordinals.into(), distinct < n);
        Ok(Self { starts, members, runs: vec![0, n] })
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        match &self.members {
            Members::AllBut(before) => self.n_all() - before.len() as u64,
            Members::Selection(ordinals) => ordinals.count(),
            Members::List(ordinals, _) => ordinals.len() as u64,
        }
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row of number `n`; `None` at or above [`Self::len`].
    pub fn get(&self, n: u64) -> Option<RowId> {
        let ordinal = self.ordinal(n)?;
        let shard = self.starts.partition_point(|&start| start <= ordinal).checked_sub(1)?;
        Some(RowId { shard: shard as u32, row: ordinal - self.starts.get(shard)? })
    }

    /// The ordinal of the row of number `n`.
    pub fn ordinal(&self, n: u64) -> Option<u64> {
        match &self.members {
            Members::AllBut(before) => {
                (n < self.len()).then(|| n + before.partition_point(|&before| before <= n) as u64)
            }
            Members::Selection(ordinals) => ordinals.select(n),
            Members::List(ordinals, _) => ordinals.get(usize::try_from(n).ok()?).copied(),
        }
    }

    /// Whether a row may come more than once in an epoch.
    pub fn has_repeats(&self) -> bool {
        matches!(self.members, Members::List(_, true))
    }

    /// The number of shards, empty ones included.
    pub fn n_shards(&self) -> u64 {
        self.starts.len().saturating_sub(1) as u64
    }

    /// The number of runs of rows that lie one after the other: one a shard, empty ones included; a
    /// list is one.
    pub(super) fn n_runs(&self) -> u64 {
        self.runs.len().saturating_sub(1) as u64
    }

    /// The numbers of a run's rows; empty for a run that does not exist.
    pub(super) fn of_run(&self, run: usize) -> Range<u64> {
        let start = self.runs.get(run).copied().unwrap_or_default();
        start..self.runs.get(run + 1).copied().unwrap_or(start)
    }

    /// The numbers of the rows in the run of row number `n`.
    pub(super) fn run_around(&self, n: u64) -> Range<u64> {
        // The last run that begins at or before it: empty ones begin where the next does.
        let run = self.runs.partition_point(|start| *start <= n);
        self.of_run(run.saturating_sub(1))
    }

    /// The shards' first rows, for the fingerprint.
    pub(super) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// A hash of which rows take part, for the fingerprint. A selection counts as all rows but those
    /// that it leaves out.
    pub fn hash(&self) -> u64 {
        match &self.members {
            Members::AllBut(before) => before.iter().fold(0, |h, word| extend(h, *word)),
            Members::Selection(ordinals) => {
                let left_out = (0..ordinals.len()).filter(|ordinal| !ordinals.contains(*ordinal));
                (0u64..).zip(left_out).fold(0, |h, (j, e)| extend(h, e - j))
            }
            Members::List(ordinals, _) => {
                ordinals.iter().fold(extend(0, LIST), |h, ordinal| extend(h, *ordinal))
            }
        }
    }

    /// The number of all rows of all shards.
    fn n_all(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }
}

/// The ordinals of the shards' first rows, and at the end the number of rows.
fn starts_of(counts: &[u64]) -> Result<Vec<u64>> {
    let mut starts = Vec::with_capacity(counts.len() + 1);
    let mut total = 0u64;
    starts.push(0);
    for count in counts {
        total = total
            .checked_add(*count)
            .filter(|&n| n <= 1 << 62)
            .ok_or_else(|| Error::limit("the shards claim more than 2^62 rows"))?;
        starts.push(total);
    }
    Ok(starts)
}

/// The ordinals of excluded rows, in rising order.
fn excluded_ordinals(counts: &[u64], starts: &[u64], excluded: &[(u32, u64)]) -> Result<Vec<u64>> {
    let ordinal = |&(shard, row): &(u32, u64)| match counts.get(shard as usize) {
        Some(&count) if row < count => Ok(starts.get(shard as usize).unwrap_or(&0) + row),
        Some(count) => Err(Error::config(format!(
            "exclude names row {row} of shard {shard}, which has {count} rows"
        ))),
        None => Err(Error::config(format!(
            "exclude names shard {shard}, but there are {} shards",
            counts.len()
        ))),
    };
    let mut ordinals = excluded.iter().map(ordinal).collect::<Result<Vec<_>>>()?;
    ordinals.sort_unstable();
    ordinals.dedup();
    Ok(ordinals)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_equals_a_plain_list(
            counts in prop::collection::vec(0u64..20, 0..8),
            picks in prop::collection::vec((0u32..8, 0u64..20), 0..10),
        ) {
            let exists = |&(s, r): &(u32, u64)| counts.get(s as usize).is_some_and(|&n| r < n);
            let excluded: Vec<_> = picks.into_iter().filter(exists).collect();
            let rows = Rows::new(&counts, &excluded).unwrap();
            let naive: Vec<RowId> = (0u32..)
                .zip(&counts)
                .flat_map(|(shard, &n)| (0..n).map(move |row| RowId { shard, row }))
                .filter(|id| !excluded.contains(&(id.shard, id.row)))
                .collect();
            prop_assert_eq!(rows.len(), naive.len() as u64);
            let listed: Vec<_> = (0..).map_while(|n| rows.get(n)).collect();
            prop_assert_eq!(&listed, &naive);
            check_runs(&rows, &naive, counts.len());

            // A selection of the same rows is the same rows.
            let ordinals: Vec<u64> = (0..).map_while(|n| rows.ordinal(n)).collect();
            let selection = Rows::list(&counts, ordinals).unwrap();
            prop_assert!((0..).map_while(|n| selection.get(n)).eq(naive.iter().copied()));
            prop_assert_eq!(selection.len(), rows.len());
            prop_assert_eq!(selection.hash(), rows.hash());
            check_runs(&selection, &naive, counts.len());
        }

        #[test]
        fn a_list_keeps_its_order(
            counts in prop::collection::vec(0u64..20, 1..8),
            picks in prop::collection::vec(0u64..140, 0..30),
        ) {
            let all: Vec<RowId> = {
                let rows = Rows::new(&counts, &[]).unwrap();
                (0..).map_while(|n| rows.get(n)).collect()
            };
            let exists = |pick: &u64| (*pick as usize) < all.len();
            let is_sound = picks.iter().all(exists);
            let made = Rows::list(&counts, picks.clone());
            prop_assert_eq!(made.is_ok(), is_sound);
            let Ok(rows) = made else { return Ok(()) };
            let naive: Vec<RowId> = picks.iter().map(|pick| all[*pick as usize]).collect();
            prop_assert!((0..).map_while(|n| rows.get(n)).eq(naive.iter().copied()));
            let distinct: std::collections::HashSet<_> = naive.iter().collect();
            prop_assert_eq!(rows.has_repeats(), distinct.len() < naive.len());
            if !picks.is_sorted_by(|a, b| a < b) {
                prop_assert_eq!(rows.n_runs(), 1);
                prop_assert_eq!(rows.run_around(0), 0..rows.len());
            }
        }
    }

    fn check_runs(rows: &Rows, naive: &[RowId], n_shards: usize) {
        assert_eq!(rows.n_runs(), n_shards as u64);
        for shard in 0..n_shards {
            let of_run: Vec<_> = rows.of_run(shard).filter_map(|n| rows.get(n)).collect();
            let theirs = naive.iter().filter(|id| id.shard as usize == shard);
            assert!(of_run.iter().eq(theirs));
            rows.of_run(shard).for_each(|n| assert_eq!(rows.run_around(n), rows.of_run(shard)));
        }
    }

    #[test]
    fn excluded_rows_must_exist() {
        let message = |excluded| Rows::new(&[2], &[excluded]).unwrap_err().to_string();
        assert!(message((0, 2)).contains("row 2 of shard 0"));
        assert!(message((1, 0)).contains("1 shards"));
    }

    #[test]
    fn lying_counts_are_a_limit() {
        assert!(Rows::new(&[u64::MAX, 2], &[]).is_err());
    }
}
