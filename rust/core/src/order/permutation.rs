//! A keyed permutation of `0..n`, in constant memory and time a position.

use crate::hash::{below, extend, hash, mix64};

/// Rounds of the Feistel network. Four suffice for a pseudo-random permutation with ideal round
/// functions (Luby and Rackoff, 1988). Very small domains, with halves of two or three values, need
/// more.
const ROUNDS: usize = 12;

/// A permutation of `0..n`, chosen by (seed, epoch).
///
/// A Feistel network over pairs `(l, r)` of residues modulo `a = ceil(sqrt(n))`, whose rounds add
/// `floor(mix64(r + k_j) * a / 2^64)` to the other half; positions that land at or above `n` are
/// sent through again until they do not ("cycle walking", Black and Rogaway, 2002). Since `a * a`
/// exceeds `n` by less than `2 * sqrt(n) + 1`, walks are short.
///
/// Every key gives rounds of the same parity, so that half of the orders of a few rows would never
/// occur. A key bit therefore decides whether positions 0 and 1 are swapped first.
///
/// The construction is part of format version 1 and never changes.
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    half: u64,
    keys: [u64; ROUNDS],
    /// 1 where positions 0 and 1 are swapped, else 0.
    swap: u64,
}

impl Permutation {
    /// The permutation of `0..n` for this seed and epoch.
    pub fn new(n: u64, seed: u64, epoch: u64) -> Self {
        let root = n.isqrt();
        let half = if root * root < n { root + 1 } else { root };
        let common = hash(&[seed, epoch]);
        let mut keys = [0; ROUNDS];
        for (j, key) in (0u64..).zip(&mut keys) {
            *key = extend(common, j);
        }
        Self { n, half, keys, swap: extend(common, ROUNDS as u64) & 1 }
    }

    /// The image of `position`; `None` at or above `n`.
    pub fn get(&self, position: u64) -> Option<u64> {
        if position >= self.n {
            return None;
        }
        let position = if position < 2 && self.n > 1 { position ^ self.swap } else { position };
        let mut x = self.round_trip(position);
        while x >= self.n {
            x = self.round_trip(x);
        }
        Some(x)
    }

    fn round_trip(&self, x: u64) -> u64 {
        let (mut l, mut r) = (x / self.half, x % self.half);
        for key in self.keys {
            let sum = l + below(mix64(r.wrapping_add(key)), self.half);
            (l, r) = (r, if sum >= self.half { sum - self.half } else { sum });
        }
        l * self.half + r
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_is_a_bijection(n in 1u64..3_000, seed: u64, epoch: u64) {
            let permutation = Permutation::new(n, seed, epoch);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let x = permutation.get(i).unwrap();
                prop_assert!(!std::mem::replace(&mut seen[x as usize], true));
            }
            prop_assert_eq!(permutation.get(n), None);
        }

        #[test]
        fn it_stays_inside_large_domains(n in 1u64..u64::MAX / 4, seed: u64, i: u64) {
            let x = Permutation::new(n, seed, 0).get(i % n).unwrap();
            prop_assert!(x < n);
        }
    }

    #[test]
    fn an_empty_domain_has_no_positions() {
        assert_eq!(Permutation::new(0, 1, 2).get(0), None);
    }

    /// Golden: changing these is changing format version 1.
    #[test]
    fn version_1_is_fixed() {
        let ten: Vec<_> = (0..10).filter_map(|i| Permutation::new(10, 42, 0).get(i)).collect();
        assert_eq!(ten, [5, 4, 7, 3, 9, 1, 8, 2, 0, 6]);
        let big = Permutation::new(1_000_000_007, 7, 3);
        let some: Vec<_> = [0, 1, 2, 999_999_999].into_iter().filter_map(|i| big.get(i)).collect();
        assert_eq!(some, [787_081_509, 904_841_868, 380_984_326, 90_788_840]);
    }

    /// Over many seeds all n! orders of a few rows come out equally often: chi-squared against
    /// the uniform distribution, at five standard deviations above its mean.
    #[test]
    fn small_orders_are_uniform() {
        for n in 2u64..=5 {
            let orders: u32 = (1..=n as u32).product();
            let trials = 2_000 * orders;
            let mut counts: HashMap<Vec<u64>, u32> = HashMap::new();
            for seed in 0..u64::from(trials) {
                let permutation = Permutation::new(n, seed, 0);
                let order = (0..n).filter_map(|i| permutation.get(i)).collect();
                *counts.entry(order).or_default() += 1;
            }
            assert_eq!(counts.len(), orders as usize);
            let chi2: f64 = counts.values().map(|&c| (f64::from(c) - 2e3).powi(2) / 2e3).sum();
            let df = f64::from(orders - 1);
            assert!(chi2 < df + 5.0 * (2.0 * df).sqrt(), "n = {n}: chi2 {chi2} for {df} degrees");
        }
    }
}
