//! Drawing rows with replacement, by weights: a pure function of (seed, epoch, position).

use std::sync::Arc;

use crate::{
    error::{Error, Result},
    hash::{below, extend, hash},
};

/// Words that are hashed for a draw: for its cell of the table, and for the side of the cell.
const CELL: u64 = 20;
const SIDE: u64 = 21;

/// How many draws an epoch has, and by which seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draws {
    /// The seed.
    pub seed: u64,
    /// Draws of an epoch; `None` is the number of rows.
    pub per_epoch: Option<u64>,
    /// Whether each epoch has draws of its own; otherwise all have those of epoch 0.
    pub reshuffle: bool,
}

/// Draws of rows by their weights, with replacement.
#[derive(Clone, Debug)]
pub struct Sampling {
    draws: Draws,
    per_epoch: u64,
    table: Arc<AliasTable>,
}

impl Sampling {
    /// Draws of rows with these weights.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] for weights that are no weights: negative, NaN, infinite, or all
    /// zero; [`crate::ErrorKind::Limit`] for more than 2^32 of them.
    pub fn new(draws: Draws, weights: Vec<f64>) -> Result<Self> {
        let per_epoch = draws.per_epoch.unwrap_or(weights.len() as u64);
        Ok(Self { draws, per_epoch, table: Arc::new(AliasTable::new(weights)?) })
    }

    /// Draws in an epoch.
    pub fn per_epoch(&self) -> u64 {
        self.per_epoch
    }

    /// The key of an epoch's draws.
    pub(super) fn key(&self, epoch: u64) -> u64 {
        hash(&[self.draws.seed, if self.draws.reshuffle { epoch } else { 0 }])
    }

    /// The number of the k-th row that is drawn by `key`.
    pub(super) fn draw(&self, key: u64, k: u64) -> Option<u64> {
        self.table.get(extend(extend(key, CELL), k), extend(extend(key, SIDE), k))
    }

    /// The options that the draws depend on, for the fingerprint.
    pub(super) fn words(&self) -> [u64; 5] {
        let Draws { seed, reshuffle, .. } = self.draws;
        [2, seed, self.per_epoch, self.table.hash, u64::from(reshuffle)]
    }
}

/// A table by which one of n is drawn by weight in constant time (Walker, 1977), built as by Vose
/// ("A linear algorithm for generating random numbers with a given distribution", 1991).
///
/// Cell `i` stands for row `i` below its threshold, and for row `alias[i]` above.
#[derive(Debug)]
struct AliasTable {
    thresholds: Vec<f64>,
    aliases: Vec<u32>,
    /// A hash of the weights.
    hash: u64,
}

impl AliasTable {
    /// `docs/order.md` states the steps: all sums are of doubles, in this order, and so the same on
    /// every machine.
    fn new(weights: Vec<f64>) -> Result<Self> {
        let n = u32::try_from(weights.len())
            .map_err(|_| Error::limit("sampling= draws from at most 4,294,967,295 rows"))?;
        let is_weight = |weight: &f64| weight.is_finite() && *weight >= 0.0;
        if let Some((row, weight)) = weights.iter().enumerate().find(|(_, w)| !is_weight(w)) {
            return Err(Error::config(format!(
                "sampling= gives row {row} of those that take part the weight {weight}; a weight is \
                 a number of at least 0, so give it another one, or leave the row out by filters="
            )));
        }
        let total: f64 = weights.iter().sum();
        if total <= 0.0 {
            return Err(Error::config(format!(
                "the weights of sampling= add up to 0 over {n} rows; give at least one row a weight \
                 above 0"
            )));
        }
        if !total.is_finite() {
            return Err(Error::config(format!(
                "the weights of sampling= over {n} rows add up to more than float64 allows; give \
                 smaller ones"
            )));
        }
        let hash = weights.iter().fold(0, |h, weight| extend(h, weight.to_bits()));
        let mut thresholds = weights;
        let scale = f64::from(n) / total;
        // An infinite scale would give NaN where a weight is 0.
        if !scale.is_finite() {
            return Err(Error::config(format!(
                "the weights of sampling= add up to {total}, which is too little to tell them apart; \
                 give larger ones"
            )));
        }
        for weight in &mut thresholds {
            *weight *= scale;
        }
        let mut aliases: Vec<u32> = (0..n).collect();
        let is_small = |i: &u32| thresholds.get(*i as usize).is_some_and(|share| *share < 1.0);
        let (mut small, mut large): (Vec<u32>, Vec<u32>) = (0..n).partition(is_small);
        while let (Some(less), Some(more)) = (small.pop(), large.pop()) {
            let (less_at, more_at) = (less as usize, more as usize);
            let Some(&share) = thresholds.get(less_at) else { break };
            let Some(left) = thresholds.get_mut(more_at) else { break };
            *left = (*left + share) - 1.0;
            let side = if *left < 1.0 { &mut small } else { &mut large };
            side.push(more);
            if let Some(alias) = aliases.get_mut(less_at) {
                *alias = more;
            }
        }
        // What is left over is 1 but for rounding. It is never a row of weight 0, whose cell takes a
        // whole share of another row: rounding does not add up to that.
        for i in small.into_iter().chain(large) {
            if let Some(share) = thresholds.get_mut(i as usize) {
                *share = 1.0;
            }
        }
        Ok(Self { thresholds, aliases, hash })
    }

    /// The row of a draw by two uniform hashes.
    fn get(&self, cell: u64, side: u64) -> Option<u64> {
        let cell = below(cell, self.thresholds.len() as u64) as usize;
        // 53 bits, as many as a double tells apart.
        let side = (side >> 11) as f64 / (1u64 << 53) as f64;
        let is_own = side < *self.thresholds.get(cell)?;
        Some(if is_own { cell as u64 } else { u64::from(*self.aliases.get(cell)?) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DRAWS: Draws = Draws { seed: 7, per_epoch: None, reshuffle: true };

    proptest! {
        /// The shares that the cells stand for, added up by row, are the weights.
        #[test]
        fn the_table_has_the_weights(
            weights in prop::collection::vec(prop_oneof![Just(0.0), 0.0..1.0f64, 0.0..1e6f64], 1..60),
        ) {
            let total: f64 = weights.iter().sum();
            prop_assume!(total > 0.0);
            let table = AliasTable::new(weights.clone()).unwrap();
            let mut shares = vec![0.0; weights.len()];
            for (i, (threshold, alias)) in table.thresholds.iter().zip(&table.aliases).enumerate() {
                shares[i] += threshold / weights.len() as f64;
                shares[*alias as usize] += (1.0 - threshold) / weights.len() as f64;
            }
            for (share, weight) in shares.iter().zip(&weights) {
                prop_assert!((share - weight / total).abs() < 1e-12, "{share} for {weight}");
                prop_assert!(*weight > 0.0 || *share == 0.0);
            }
        }
    }

    /// Chi-squared against the weights, at five standard deviations above its mean; a row of weight 0
    /// never comes.
    #[test]
    fn draws_are_by_weight() {
        let weights: Vec<f64> = (0..40).map(|i| f64::from(i * i)).collect();
        let total: f64 = weights.iter().sum();
        let sampling = Sampling::new(DRAWS, weights.clone()).unwrap();
        let n = 400_000;
        let mut counts = vec![0.0; 40];
        for i in 0..n {
            counts[sampling.draw(sampling.key(3), i).unwrap() as usize] += 1.0;
        }
        assert!(counts[0] < 0.5);
        let expected = |weight: f64| weight / total * n as f64;
        let parts = counts.iter().zip(&weights).skip(1);
        let chi2: f64 = parts.map(|(count, w)| (count - expected(*w)).powi(2) / expected(*w)).sum();
        assert!(chi2 < 38.0 + 5.0 * 76f64.sqrt(), "{chi2}");
    }

    /// Golden: changing these is changing the order.
    #[test]
    fn draws_are_fixed() {
        let sampling = Sampling::new(DRAWS, vec![1.0, 2.0, 0.0, 5.0, 0.5]).unwrap();
        let drawn: Vec<_> = (0..12).filter_map(|i| sampling.draw(sampling.key(1), i)).collect();
        assert_eq!(drawn, GOLDEN);
        let fixed = Draws { reshuffle: false, ..DRAWS };
        let fixed = Sampling::new(fixed, vec![1.0, 2.0, 0.0, 5.0, 0.5]).unwrap();
        assert_eq!(fixed.key(4), sampling.key(0));
    }

    #[test]
    fn what_is_no_weight_is_refused() {
        for weights in [vec![], vec![0.0; 3], vec![1.0, -1.0], vec![f64::NAN], vec![f64::INFINITY]]
        {
            assert!(Sampling::new(DRAWS, weights.clone()).is_err(), "{weights:?}");
        }
        assert!(Sampling::new(DRAWS, vec![f64::MAX, f64::MAX]).is_err());
        assert!(Sampling::new(DRAWS, vec![5e-324, 0.0]).is_err());
    }

    const GOLDEN: [u64; 12] = [1, 3, 1, 3, 1, 3, 4, 1, 3, 1, 3, 3];
}
