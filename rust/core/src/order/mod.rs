//! Which row comes next: a pure function of (seed, epoch, position).
//!
//! Nothing here depends on threads, timing or where a run stopped, so a checkpoint is a position.
//! `docs/order.md` states the function in full; it is versioned and does not change under the same
//! version.

pub mod hash;
mod permutation;
mod rows;
mod slice;

pub use permutation::Permutation;
pub use rows::{RowId, Rows};
pub use slice::{RowSlice, Slice};

use crate::error::{Error, Result};

/// The version of the order function, and of the states that refer to it.
pub const VERSION: u64 = 1;

/// The order of the rows that one iterator delivers, over all its epochs.
#[derive(Clone, Debug)]
pub struct Order {
    rows: Rows,
    /// The seed of the global shuffle; `None` is file order.
    seed: Option<u64>,
    slice: RowSlice,
    epochs: Option<u64>,
}

/// One step of the stream: which epoch, which row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// The pass over the data, from 0.
    pub epoch: u64,
    /// The row.
    pub row: RowId,
}

impl Order {
    /// The order of `rows`, shuffled by `seed`, thinned by `slices` one after the other, for so
    /// many epochs (`None`: for ever).
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for a slice with step 0.
    pub fn new(
        rows: Rows,
        seed: Option<u64>,
        slices: &[Slice],
        epochs: Option<u64>,
    ) -> Result<Self> {
        let slice = slices.iter().try_fold(RowSlice::all(rows.len()), |all, s| all.narrow(s))?;
        Ok(Self { rows, seed, slice, epochs })
    }

    /// Rows of one epoch of this slice.
    pub fn len(&self) -> u64 {
        self.slice.len()
    }

    /// Whether an epoch of this slice has no rows.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows of all epochs; `None` without end. An empty slice ends at once, even for ever.
    pub fn total(&self) -> Option<u64> {
        match self.epochs {
            _ if self.is_empty() => Some(0),
            Some(epochs) => Some(self.len().saturating_mul(epochs)),
            None => None,
        }
    }

    /// The row at `index` of the stream, counted over all epochs; `None` past the end.
    pub fn step(&self, index: u64) -> Option<Step> {
        if self.total().is_some_and(|total| index >= total) {
            return None;
        }
        let (epoch, i) = (index / self.len(), index % self.len());
        let position = self.slice.get(i)?;
        let nth = match self.seed {
            Some(seed) => Permutation::new(self.rows.len(), seed, epoch).get(position)?,
            None => position,
        };
        Some(Step { epoch, row: self.rows.get(nth)? })
    }

    /// The stream index of `next_index` rows into `epoch`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] where that lies past the end: the state is of other data.
    pub fn index_at(&self, epoch: u64, next_index: u64) -> Result<u64> {
        epoch
            .checked_mul(self.len())
            .and_then(|start| start.checked_add(next_index))
            .filter(|&index| self.total().is_none_or(|total| index <= total))
            .ok_or_else(|| {
                Error::config(format!(
                    "the state stands at row {next_index} of epoch {epoch}, past the end of this \
                     data set with {} rows in an epoch; restore it into the data set and the \
                     sharding that it was saved from",
                    self.len()
                ))
            })
    }

    /// A hash of what the stream depends on: shards (by base name) and their row counts, seeds and
    /// exclusions; not of the slice, since every worker starts from the same initial state.
    pub fn fingerprint(&self, shard_keys: &[u64], crop_seed: u64) -> u64 {
        let shuffled = u64::from(self.seed.is_some());
        let mut words = vec![VERSION, shuffled, self.seed.unwrap_or(0), crop_seed];
        words.extend(shard_keys);
        words.extend(self.rows.words());
        hash::hash(&words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Rows {
        Rows::new(&[3, 0, 4], &[(2, 1)]).unwrap()
    }

    #[test]
    fn file_order_runs_through_shards_and_epochs() {
        let order = Order::new(rows(), None, &[], Some(2)).unwrap();
        let all: Vec<_> = (0..).map_while(|i| order.step(i)).collect();
        let epoch: Vec<_> = [(0, 0), (0, 1), (0, 2), (2, 0), (2, 2), (2, 3)]
            .map(|(shard, row)| RowId { shard, row })
            .to_vec();
        assert_eq!(all.iter().map(|s| s.row).collect::<Vec<_>>(), [epoch.clone(), epoch].concat());
        assert_eq!(all.iter().map(|s| s.epoch).collect::<Vec<_>>(), [[0; 6], [1; 6]].concat());
    }

    #[test]
    fn slices_of_a_shuffle_are_disjoint_and_complete() {
        let whole = Order::new(rows(), Some(1), &[], Some(1)).unwrap();
        let part = |k| {
            let slice = Slice { start: Some(k), stop: None, step: Some(2), sequential: false };
            Order::new(rows(), Some(1), &[slice], Some(1)).unwrap()
        };
        let (even, odd) = (part(0), part(1));
        for i in 0..3 {
            assert_eq!(even.step(i), whole.step(2 * i));
            assert_eq!(odd.step(i), whole.step(2 * i + 1));
        }
        assert_eq!(even.step(3), None);
    }

    #[test]
    fn an_empty_slice_ends_at_once_even_for_ever() {
        let none = Slice { start: Some(9), stop: None, step: None, sequential: false };
        let order = Order::new(rows(), None, &[none], None).unwrap();
        assert_eq!(order.step(0), None);
    }

    #[test]
    fn the_fingerprint_knows_seed_shards_and_exclusions() {
        let base = Order::new(rows(), Some(1), &[], None).unwrap().fingerprint(&[1, 2, 3], 7);
        let other = |seed, keys: &[u64], excluded: &[(u32, u64)]| {
            let rows = Rows::new(&[3, 0, 4], excluded).unwrap();
            Order::new(rows, seed, &[], Some(5)).unwrap().fingerprint(keys, 7)
        };
        assert_eq!(base, other(Some(1), &[1, 2, 3], &[(2, 1)]));
        assert_ne!(base, other(Some(2), &[1, 2, 3], &[(2, 1)]));
        assert_ne!(base, other(None, &[1, 2, 3], &[(2, 1)]));
        assert_ne!(base, other(Some(1), &[1, 3, 2], &[(2, 1)]));
        assert_ne!(base, other(Some(1), &[1, 2, 3], &[(2, 2)]));
        let recropped = Order::new(rows(), Some(1), &[], None).unwrap().fingerprint(&[1, 2, 3], 8);
        assert_ne!(base, recropped);
    }
}
