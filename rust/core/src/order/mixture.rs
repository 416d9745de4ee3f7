//! Several data sets in one stream: which row comes next.

use super::{Schedule, Step, row_order::RowOrder};
use crate::error::{Error, Result};

/// When a mixture ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Stop {
    /// Where the first data set that has run out would have its turn.
    #[default]
    First,
    /// When all data sets have run out. Until then those that have go on with further epochs, so that
    /// the weights hold to the end.
    All,
}

impl Stop {
    /// Both, by their names in Python.
    pub const ALL: [(&'static str, Self); 2] = [("first", Self::First), ("all", Self::All)];
}

/// The rows of several data sets in turn. Each keeps its own order and epochs: its turns, in their
/// order, are the stream that it is alone.
#[derive(Clone, Debug)]
pub(super) struct Mixture {
    schedule: Schedule,
    orders: Vec<RowOrder>,
    /// The number of each data set's first shard among the shards of all.
    first_shards: Vec<u32>,
    per_epoch: u64,
    total: Option<u64>,
}

impl Mixture {
    pub(super) fn new(orders: Vec<RowOrder>, schedule: Schedule, stop: Stop) -> Result<Self> {
        let n = schedule.weights().len();
        if n != orders.len() {
            return Err(Error::config(format!("{} data sets have {n} weights", orders.len())));
        }
        let mut first_shards = Vec::with_capacity(n);
        let mut next = 0u32;
        for order in &orders {
            first_shards.push(next);
            let n_shards = u32::try_from(order.elements.rows.n_shards()).ok();
            next = n_shards.and_then(|n| next.checked_add(n)).ok_or_else(|| {
                Error::limit("the data sets of a mixture have more than 2^32 shards")
            })?;
        }
        let weights = schedule.weights().iter();
        let mixed: Vec<(usize, &RowOrder)> = orders
            .iter()
            .enumerate()
            .zip(weights)
            .filter_map(|(order, weight)| (*weight > 0).then_some(order))
            .collect();
        if let Some((k, _)) = mixed.iter().find(|(_, order)| order.per_epoch() == 0) {
            return Err(Error::config(format!(
                "data set {k} of the mixture has no rows; leave it out, or give it the weight 0"
            )));
        }
        // Behind the last turn of a data set's first `len` rows.
        let end_of = |k, len: u64| {
            schedule.position(k, len.saturating_sub(1)).map_or(MAX_LEN, |position| position + 1)
        };
        let per_epoch = mixed.iter().map(|(k, order)| end_of(*k, order.per_epoch())).max();
        let total = match stop {
            Stop::First => {
                let ends = mixed.iter().filter_map(|(k, order)| {
                    order.total().map(|len| schedule.position(*k, len).unwrap_or(MAX_LEN))
                });
                ends.min()
            }
            Stop::All => {
                let ends = mixed.iter().map(|(k, order)| order.total().map(|len| end_of(*k, len)));
                ends.collect::<Option<Vec<_>>>().and_then(|ends| ends.into_iter().max())
            }
        };
        let per_epoch = per_epoch.unwrap_or(0);
        Ok(Self { schedule, orders, first_shards, per_epoch, total })
    }

    /// Rows after which each data set has come to the end of an epoch.
    pub(super) fn per_epoch(&self) -> u64 {
        self.per_epoch
    }

    /// All rows; `None` without end.
    pub(super) fn total(&self) -> Option<u64> {
        self.total
    }

    /// The row at `index`, which may be past the end.
    pub(super) fn step(&self, index: u64) -> Option<Step> {
        let (order, first_shard, turn) = self.locate(index)?;
        order.step(turn).map(|step| step.behind(first_shard))
    }

    /// The order of the data set at `index`, the number of its first shard, and the index in its own
    /// stream.
    pub(super) fn locate(&self, index: u64) -> Option<(&RowOrder, u32, u64)> {
        let (k, turn) = self.schedule.get(index);
        Some((self.orders.get(k)?, *self.first_shards.get(k)?, turn))
    }

    /// The data set that has the shard of this number, and the shard's number in it.
    pub(super) fn locate_shard(&self, shard: u32) -> (usize, u32) {
        let behind = self.first_shards.partition_point(|first| *first <= shard);
        let k = behind.saturating_sub(1);
        (k, shard - self.first_shards.get(k).copied().unwrap_or(0))
    }

    pub(super) fn weights(&self) -> &[u64] {
        self.schedule.weights()
    }

    pub(super) fn orders(&self) -> &[RowOrder] {
        &self.orders
    }
}

/// A mixture ends here at the latest.
const MAX_LEN: u64 = 1 << 62;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        super::{Fingerprint, Order, OrderSpec, Partition, Rows, Shuffle},
        *,
    };

    fn spec(seed: u64, epochs: Option<u64>, partition: Partition) -> OrderSpec {
        let shuffle = Some(Shuffle { seed, window: None, reshuffle: true });
        OrderSpec { shuffle, epochs, partition, ..OrderSpec::ONCE }
    }

    /// One with these row counts in two shards each, weights and epochs.
    fn mixed(sets: &[(u64, u64, Option<u64>)], stop: Stop, partition: Partition) -> Result<Order> {
        let orders = sets.iter().zip(0..).map(|(&(n, _, epochs), seed)| {
            Order::new(Rows::new(&[n / 2, n - n / 2], &[]).unwrap(), &spec(seed, epochs, partition))
        });
        let weights: Vec<u64> = sets.iter().map(|(_, weight, _)| *weight).collect();
        let schedule = Schedule::new(&weights)?;
        Order::mixed(orders.collect::<Result<_>>().unwrap(), schedule, stop)
    }

    fn all(order: &Order) -> Vec<Step> {
        (0..).map_while(|i| order.step(i)).collect()
    }

    fn sets() -> impl Strategy<Value = Vec<(u64, u64, Option<u64>)>> {
        prop::collection::vec((1u64..12, 1u64..6, (1u64..4).prop_map(Some)), 1..4)
    }

    proptest! {
        /// The turns of each data set are its own stream; it ends where the rule says.
        #[test]
        fn data_sets_keep_their_streams(sets in sets(), is_all: bool) {
            let stop = if is_all { Stop::All } else { Stop::First };
            let order = mixed(&sets, stop, Partition::ALL).unwrap();
            let steps = all(&order);
            prop_assert_eq!(Some(steps.len() as u64), order.len());
            let mut most = 0.0f64;
            for (k, &(n, _, epochs)) in (0u32..).zip(&sets) {
                let of_set = |step: &&Step| step.row.shard / 2 == k;
                let turns: Vec<Step> = steps.iter().filter(of_set).copied().collect();
                let endless = spec(u64::from(k), None, Partition::ALL);
                let alone = Order::new(Rows::new(&[n / 2, n - n / 2], &[]).unwrap(), &endless).unwrap();
                for (i, turn) in (0..).zip(&turns) {
                    prop_assert_eq!(*turn, alone.step(i).unwrap().behind(2 * k));
                }
                let len = n * epochs.unwrap();
                most = most.max(turns.len() as f64 / len as f64);
                let n = turns.len() as u64;
                let is_sound = if is_all { n >= len } else { n <= len };
                prop_assert!(is_sound);
            }
            if !is_all {
                prop_assert!(most >= 1.0, "one has run out");
            }
        }

        /// From any position, any number of hosts together deliver the rest, in step.
        #[test]
        fn hosts_share_the_rest(sets in sets(), n_hosts in 1u64..9, at in 0u64..60) {
            let order = mixed(&sets, Stop::First, Partition::ALL).unwrap();
            let (whole, per_epoch) = (all(&order), order.rows_per_epoch());
            let at = at.min(whole.len() as u64);
            let mut joined = vec![None; whole.len()];
            for offset in 0..n_hosts {
                let partition = Partition { offset, stride: n_hosts, multiple_of: 1 };
                let mut order = mixed(&sets, Stop::First, partition).unwrap();
                let start = order.resume_at(at / per_epoch, at % per_epoch, 0).unwrap();
                for i in start.. {
                    let Some(step) = order.step(i) else { break };
                    joined[(offset + i * n_hosts) as usize] = Some(step);
                }
            }
            let rest: Vec<Step> = joined[at as usize..].iter().map(|step| step.unwrap()).collect();
            prop_assert_eq!(&rest, &whole[at as usize..]);
        }
    }

    #[test]
    fn one_without_end_makes_all_endless_but_the_first_ends() {
        let sets = [(4, 1, Some(2)), (3, 1, None)];
        let of = |stop| mixed(&sets, stop, Partition::ALL).unwrap();
        assert_eq!(of(Stop::All).len(), None);
        let len = of(Stop::First).len().unwrap();
        assert!((16..=17).contains(&len), "{len}");
        assert_eq!(mixed(&[(3, 1, None)], Stop::First, Partition::ALL).unwrap().len(), None);
    }

    #[test]
    fn a_data_set_of_weight_0_never_comes_and_may_be_empty() {
        let order = mixed(&[(4, 2, Some(1)), (0, 0, None)], Stop::All, Partition::ALL).unwrap();
        assert_eq!(all(&order).len(), 4);
        let error = mixed(&[(4, 2, Some(1)), (0, 1, None)], Stop::All, Partition::ALL).unwrap_err();
        assert!(error.to_string().contains("data set 1 of the mixture has no rows"), "{error}");
    }

    #[test]
    fn long_streams_do_not_overflow() {
        let sets = [(1 << 40, 1, Some(1 << 60)), (1, (1 << 20) - 1, None)];
        for stop in [Stop::First, Stop::All] {
            let order = mixed(&sets, stop, Partition::ALL).unwrap();
            assert!(order.len().is_none_or(|len| len == MAX_LEN));
            assert!(order.step(MAX_LEN - 1).is_some());
        }
    }

    #[test]
    fn the_fingerprint_names_what_differs() {
        let of = |sets: &[(u64, u64, Option<u64>)], key: u64| {
            let order = mixed(sets, Stop::First, Partition::ALL).unwrap();
            let data_sets: Vec<_> = sets.iter().map(|_| (vec![key, 2], vec![7])).collect();
            Fingerprint::new(&order, &data_sets)
        };
        let base = of(&[(4, 1, None), (5, 2, None)], 1);
        assert_eq!(base.difference(&of(&[(4, 2, Some(3)), (5, 4, None)], 1)), None);
        assert_eq!(Fingerprint::parse(&base.to_string()), Some(base));
        for (other, word) in [
            (of(&[(4, 1, None), (5, 3, None)], 1), "mixed otherwise"),
            (of(&[(5, 1, None), (4, 2, None)], 1), "row counts"),
            (of(&[(4, 1, None), (5, 2, None)], 3), "base names"),
        ] {
            let difference = base.difference(&other).unwrap();
            assert!(difference.contains(word), "{difference}");
        }
    }
}
