//! The rows of a data set: all rows of all shards without the excluded ones, numbered from 0.

use std::ops::Range;

use crate::error::{Error, Result};

/// One row of the data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId {
    /// Index of the shard in the list of paths.
    pub shard: u32,
    /// Index of the row in its shard.
    pub row: u64,
}

/// The rows of all shards without the excluded ones.
#[derive(Clone, Debug)]
pub struct Rows {
    /// `starts[s]` is the ordinal of shard `s`'s first row among all rows, the excluded ones included;
    /// the last entry is their number.
    starts: Vec<u64>,
    /// For the j-th excluded ordinal `e`, in rising order: `e - j`, the number of rows before it that
    /// are not excluded. A binary search in it turns a row's number into its ordinal.
    kept_before: Vec<u64>,
    /// `kept_starts[s]` is the number of shard `s`'s first row that is not excluded.
    kept_starts: Vec<u64>,
}

impl Rows {
    /// The rows of shards with these row counts, without the excluded (shard, row) pairs.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for an excluded pair that does not exist;
    /// [`crate::ErrorKind::Limit`] for more than 2^62 rows.
    pub fn new(counts: &[u64], excluded: &[(u32, u64)]) -> Result<Self> {
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
        let kept = |start: &u64| start - ordinals.partition_point(|e| e < start) as u64;
        let kept_starts = starts.iter().map(kept).collect();
        let kept_before = (0u64..).zip(ordinals).map(|(j, e)| e - j).collect();
        Ok(Self { starts, kept_before, kept_starts })
    }

    /// The number of rows.
    pub fn len(&self) -> u64 {
        self.starts.last().unwrap_or(&0) - self.kept_before.len() as u64
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The row of number `n`; `None` at or above [`Self::len`].
    pub fn get(&self, n: u64) -> Option<RowId> {
        if n >= self.len() {
            return None;
        }
        let ordinal = n + self.kept_before.partition_point(|&before| before <= n) as u64;
        let shard = self.starts.partition_point(|&start| start <= ordinal).checked_sub(1)?;
        Some(RowId { shard: shard as u32, row: ordinal - self.starts.get(shard)? })
    }

    /// The number of shards, empty ones included.
    pub fn n_shards(&self) -> u64 {
        self.starts.len().saturating_sub(1) as u64
    }

    /// The numbers of a shard's rows; empty for a shard that does not exist.
    pub(super) fn of_shard(&self, shard: usize) -> Range<u64> {
        let start = self.kept_starts.get(shard).copied().unwrap_or_default();
        start..self.kept_starts.get(shard + 1).copied().unwrap_or(start)
    }

    /// The shards' first rows, for the fingerprint.
    pub(super) fn starts(&self) -> &[u64] {
        &self.starts
    }

    /// The excluded rows, for the fingerprint.
    pub(super) fn kept_before(&self) -> &[u64] {
        &self.kept_before
    }
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
            for shard in 0..counts.len() {
                let of_shard: Vec<_> = rows.of_shard(shard).filter_map(|n| rows.get(n)).collect();
                let theirs = naive.iter().filter(|id| id.shard as usize == shard);
                prop_assert!(of_shard.iter().eq(theirs));
            }
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
