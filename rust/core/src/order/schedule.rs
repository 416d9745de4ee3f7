//! Which data set of a mixture has which position: a fixed schedule that follows the weights closely.

use std::{cmp::Reverse, collections::BinaryHeap};

use crate::{
    error::{Error, Result},
    hash::{below, hash},
};

/// The most that weights may add up to, after division by their common divisor. A schedule keeps six
/// bytes for each position of a round.
pub const MAX_TOTAL: u64 = 1 << 20;

/// Positions after which a schedule repeats, at least: so many that each of several hosts, which take
/// alternate positions, gets about the same share of each data set.
const MIN_LEN: u64 = 1 << 14;

/// Words that are hashed for the draws of a round: the precedence of the data sets, and their leads.
const PRECEDENCE: u64 = 25;
const LEAD: u64 = 26;

/// The schedule of a mixture: position -> data set, and the number of its turns before.
///
/// After any number `n` of positions, a data set of weight `w` out of `W` has had more than
/// `n * w / W - 1` turns and fewer than `n * w / W + 1`. That is so where its turn `m` comes no
/// earlier than position `floor(m * W / w)`, and before position `ceil((m + 1) * W / w)`. Of the data
/// sets whose next turn may come already, the one with the earliest deadline has the position. Such a
/// schedule keeps all deadlines, as "Proportionate progress" (Baruah, Cohen, Plaxton and Varvel, 1996)
/// proves.
///
/// Positions come in rounds of `W`. In each, data sets get drawn leads `f` that add up to less than
/// `W`: turn `m` then comes before `ceil(((m + 1) * W - f) / w)`. All of them are kept still: the
/// turns that must lie between two positions `s < t` are at most `(t - s) * w / W + f / W` of each data
/// set, of all together less than `t - s + 1`. So rounds differ, and no host that takes every second
/// position gets one data set only.
#[derive(Clone, Debug)]
pub struct Schedule {
    weights: Vec<u64>,
    /// For each position, the data set.
    data_sets: Vec<u16>,
    /// Its turns before.
    turns: Vec<u32>,
    /// The number of rounds.
    n_rounds: u64,
}

impl Schedule {
    /// The schedule of data sets with these weights, of which only the ratios count. One of weight 0
    /// has no turns.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Config`] where there is no weight above 0, or there are too many, or they
    /// add up to more than [`MAX_TOTAL`] after division by their common divisor.
    pub fn new(weights: &[u64]) -> Result<Self> {
        let divisor = weights.iter().copied().fold(0, gcd);
        if divisor == 0 || u16::try_from(weights.len()).is_err() {
            return Err(Error::config(
                "a mixture has 1 to 65,535 weights, and at least one is above 0",
            ));
        }
        let weights: Vec<u64> = weights.iter().map(|weight| weight / divisor).collect();
        let total = weights.iter().try_fold(0u64, |sum, &weight| sum.checked_add(weight));
        let Some(total) = total.filter(|&total| total <= MAX_TOTAL) else {
            return Err(Error::config(format!(
                "the weights of a mixture add up to at most {MAX_TOTAL}"
            )));
        };
        let n_rounds = MIN_LEN.div_ceil(total);
        let mut data_sets = Vec::with_capacity((n_rounds * total) as usize);
        let mut turns = Vec::with_capacity((n_rounds * total) as usize);
        for number in 0..n_rounds {
            let round = Round::new(&weights, total, number);
            for (data_set, turn) in round.positions()? {
                data_sets.push(data_set as u16);
                let weight = weights.get(data_set).copied().unwrap_or(0);
                turns.push((number * weight + turn) as u32);
            }
        }
        Ok(Self { weights, data_sets, turns, n_rounds })
    }

    /// The weights, without a common divisor.
    pub(super) fn weights(&self) -> &[u64] {
        &self.weights
    }

    /// Positions after which the schedule repeats.
    pub fn len(&self) -> u64 {
        self.data_sets.len() as u64
    }

    /// Whether there are none, which is never so.
    pub fn is_empty(&self) -> bool {
        self.data_sets.is_empty()
    }

    /// The data set that has this position, and the number of its turns before it.
    pub fn get(&self, position: u64) -> (usize, u64) {
        let at = (position % self.len()) as usize;
        let data_set = self.data_sets.get(at).map_or(0, |&data_set| usize::from(data_set));
        let before = self.turns.get(at).map_or(0, |&turn| u64::from(turn));
        (data_set, (position / self.len()) * self.turns_of(data_set) + before)
    }

    /// The position of a data set's turn; `None` where it has none, or beyond 2^62.
    pub fn position(&self, data_set: usize, turn: u64) -> Option<u64> {
        let n_turns = self.turns_of(data_set);
        let (pass, before) = (turn.checked_div(n_turns)?, turn % n_turns);
        let mut turns = self.data_sets.iter().zip(&self.turns);
        let at = turns
            .position(|(&of, &turn)| usize::from(of) == data_set && u64::from(turn) == before)?;
        let position = pass.checked_mul(self.len())?.checked_add(at as u64)?;
        (position <= 1 << 62).then_some(position)
    }

    /// A data set's turns, until the schedule repeats.
    fn turns_of(&self, data_set: usize) -> u64 {
        self.weights.get(data_set).map_or(0, |weight| weight * self.n_rounds)
    }
}

/// A round: as many positions as the weights add up to.
struct Round<'a> {
    weights: &'a [u64],
    total: u64,
    /// By data set: its precedence among equal deadlines, and its lead.
    drawn: Vec<(usize, u64)>,
}

impl<'a> Round<'a> {
    fn new(weights: &'a [u64], total: u64, number: u64) -> Self {
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by_key(|&k| hash(&[PRECEDENCE, number, k as u64]));
        let mut left = total - 1;
        let mut drawn = vec![(0, 0); weights.len()];
        for (precedence, k) in order.into_iter().enumerate() {
            let lead = below(hash(&[LEAD, number, k as u64]), left + 1);
            left -= lead;
            if let Some(drawn) = drawn.get_mut(k) {
                *drawn = (precedence, lead);
            }
        }
        Self { weights, total, drawn }
    }

    /// Of each position, the data set and the number of its turns before.
    fn positions(&self) -> Result<Vec<(usize, u64)>> {
        // Turns that may not come yet, by the position from which on they may.
        let active = self.weights.iter().enumerate().filter(|(_, weight)| **weight > 0);
        let mut waiting: BinaryHeap<_> = active.map(|(k, _)| Reverse((0, k, 0))).collect();
        let mut ready = BinaryHeap::new();
        let mut positions = Vec::with_capacity(self.total as usize);
        for position in 0..self.total {
            while let Some(&Reverse((release, k, turn))) = waiting.peek()
                && release <= position
                && let (Some(&weight), Some(&(precedence, lead))) =
                    (self.weights.get(k), self.drawn.get(k))
            {
                waiting.pop();
                let deadline = ((turn + 1) * self.total - lead).div_ceil(weight);
                ready.push(Reverse((deadline, precedence, k, turn)));
            }
            let Some(Reverse((_, _, k, turn))) = ready.pop() else {
                return Err(Error::internal("no data set has its turn"));
            };
            positions.push((k, turn));
            if let Some(&weight) = self.weights.get(k) {
                waiting.push(Reverse(((turn + 1) * self.total / weight, k, turn + 1)));
            }
        }
        Ok(positions)
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Each bound of each prefix, over two passes and a little; turns count up; positions are found.
    fn check(weights: &[u64]) {
        let schedule = Schedule::new(weights).unwrap();
        let total: u64 = weights.iter().sum();
        let mut counts = vec![0u64; weights.len()];
        for position in 0..2 * schedule.len() + 3 {
            let (data_set, turn) = schedule.get(position);
            assert_eq!(turn, counts[data_set], "{weights:?} at {position}");
            if position % 997 == 0 {
                assert_eq!(schedule.position(data_set, turn), Some(position));
            }
            counts[data_set] += 1;
            for (&count, &weight) in counts.iter().zip(weights) {
                let ideal = i128::from(position + 1) * i128::from(weight);
                let error = i128::from(count) * i128::from(total) - ideal;
                assert!(error.abs() < i128::from(total), "{weights:?} at {position}");
            }
        }
    }

    #[test]
    fn counts_are_within_one_of_the_weights() {
        for a in 1..8 {
            for b in 1..8 {
                check(&[a, b]);
            }
        }
        for weights in [&[7, 3][..], &[5], &[5, 0, 2], &[1; 50], &[1, 1_000, 2, 77, 1, 9_999, 12]] {
            check(weights);
        }
    }

    proptest! {
        #[test]
        fn any_weights_keep_the_bounds(weights in prop::collection::vec(0u64..40, 1..8)) {
            prop_assume!(weights.iter().any(|weight| *weight > 0));
            check(&weights);
        }
    }

    /// Hosts that take alternate positions get each data set about as often.
    #[test]
    fn hosts_have_like_shares() {
        for weights in [&[1, 1][..], &[3, 1], &[7, 3], &[1, 1, 1, 1], &[9, 1]] {
            let schedule = Schedule::new(weights).unwrap();
            let total: u64 = weights.iter().sum();
            for n_hosts in [2, 4, 8] {
                for host in 0..n_hosts {
                    let mine = (host..schedule.len()).step_by(n_hosts as usize);
                    let n = mine.clone().count() as f64;
                    for (k, weight) in weights.iter().enumerate() {
                        let turns = mine.clone().filter(|i| schedule.get(*i).0 == k).count();
                        let share = turns as f64 / n;
                        let expected = *weight as f64 / total as f64;
                        assert!((share - expected).abs() < 0.06, "{weights:?} {n_hosts} {share}");
                    }
                }
            }
        }
    }

    #[test]
    fn ratios_alone_count() {
        let short = Schedule::new(&[7, 3]).unwrap();
        let long = Schedule::new(&[7 << 50, 3 << 50]).unwrap();
        assert_eq!(long.len(), short.len());
        assert!((0..100).all(|i| short.get(i) == long.get(i)));
    }

    #[test]
    fn a_turn_far_away_has_no_position() {
        let schedule = Schedule::new(&[1, MAX_TOTAL - 1, 0]).unwrap();
        assert_eq!(schedule.position(0, u64::MAX), None);
        assert_eq!(schedule.position(2, 0), None);
        assert_eq!(schedule.position(3, 0), None);
    }

    /// Golden: changing these is changing the order.
    #[test]
    fn a_schedule_never_changes() {
        let first = |weights: &[u64]| -> Vec<usize> {
            let schedule = Schedule::new(weights).unwrap();
            (0..20).map(|position| schedule.get(position).0).collect()
        };
        assert_eq!(first(&[7, 3]), GOLDEN[0]);
        assert_eq!(first(&[5, 3, 2]), GOLDEN[1]);
    }

    #[test]
    fn weights_that_are_none_are_refused() {
        for weights in [&[][..], &[0], &[0, 0], &[MAX_TOTAL, 1], &[u64::MAX, u64::MAX - 1]] {
            assert!(Schedule::new(weights).is_err());
        }
        assert!(Schedule::new(&[MAX_TOTAL - 1, 1]).is_ok());
    }

    const GOLDEN: [[usize; 20]; 2] = [
        [0, 1, 0, 0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 1],
        [0, 1, 0, 2, 0, 1, 0, 1, 0, 2, 0, 1, 0, 2, 0, 1, 0, 1, 0, 2],
    ];
}
