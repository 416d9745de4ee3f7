//! Which rows may replace one that cannot be used: a pure function of the order.

use std::ops::Range;

use super::{Order, Permutation, Step, Stream, row_order::RowOrder};
use crate::hash::extend;

/// Words that are hashed for the draws of candidates, other than those of the shuffle.
const NEAR: u64 = 16;
const SHARD: u64 = 17;
const SLICE: u64 = 18;
const DRAW: u64 = 19;

/// The most candidates that are tried, and the most of the same window among them.
const ATTEMPTS: u64 = 32;
const NEAR_ATTEMPTS: u64 = 16;

/// The candidates for replacing one row of the stream, in the order in which they are tried.
///
/// They are other rows of the same shard, or of the same list. In a windowed order those of the same window come first,
/// since they are read at that time anyway. Where epochs are sliced, they are of the same slice
/// instead: rows outside it may be held out on purpose. Excluded rows are never among them. A row of
/// the window may be tried again among those of the shard. With sampling they are further draws. In a
/// mixture they are those that the data set has alone.
#[derive(Clone, Debug)]
pub struct Substitutes<'a> {
    order: &'a RowOrder,
    /// The number of the order's first shard.
    first_shard: u32,
    epoch: u64,
    /// As in the step of the row itself.
    repeat: Option<u64>,
    key: u64,
    near: AllBut,
    wide: AllBut,
}

/// All numbers of a range but one.
#[derive(Clone, Debug)]
struct AllBut {
    range: Range<u64>,
    own: u64,
}

impl AllBut {
    fn len(&self) -> u64 {
        (self.range.end - self.range.start).saturating_sub(1)
    }

    /// The k-th in an order drawn by (key, word).
    fn get(&self, k: u64, key: u64, word: u64) -> Option<u64> {
        let drawn = self.range.start + Permutation::new(self.len(), key, word).get(k)?;
        Some(drawn + u64::from(drawn >= self.own))
    }
}

impl Order {
    /// The candidates for the `i`-th row that is delivered here, drawn by `key`; `None` past the
    /// end.
    pub fn substitutes(&self, i: u64, key: u64) -> Option<Substitutes<'_>> {
        let index = self.index(i)?;
        let (order, first_shard, index) = match &self.stream {
            Stream::Rows(rows) => (&**rows, 0, index),
            Stream::Mixture(mixture) => mixture.locate(index)?,
        };
        let (epoch, i) = order.position(index)?;
        let at = order.slice.get(i)?;
        let own = order.number(epoch, at)?;
        let repeat = order.step_of(epoch, at, own)?.repeat;
        let others = |range| AllBut { range, own };
        let (near, wide) = if order.slice.is_whole(order.n_positions()) {
            let shard = order.elements.run_around(own);
            let near = order.shuffle.as_ref().and_then(|shuffle| {
                shuffle
                    .neighbours(&order.elements, &order.sequences, epoch, i)
                    .filter(|near| *near != shard)
            });
            (others(near.unwrap_or(own..own)), others(shard))
        } else {
            (others(own..own), AllBut { range: 0..order.slice.len(), own: i })
        };
        Some(Substitutes { order, first_shard, epoch, repeat, key, near, wide })
    }
}

impl Substitutes<'_> {
    /// The step to try after `attempt` others; `None` when there are no more.
    pub fn get(&self, attempt: u64) -> Option<Step> {
        let (row, part) = self.order.elements.get(self.number(attempt)?)?;
        let step = Step { epoch: self.epoch, row, part, repeat: self.repeat };
        Some(step.behind(self.first_shard))
    }

    /// The number of its element.
    fn number(&self, attempt: u64) -> Option<u64> {
        if let Some(sampling) = &self.order.sampling {
            let draw = || self.order.elements.draw(sampling, extend(self.key, DRAW), attempt);
            return (attempt < ATTEMPTS).then(draw)?;
        }
        let n_near = self.near.len().min(NEAR_ATTEMPTS);
        if attempt < n_near {
            return self.near.get(attempt, self.key, NEAR);
        }
        if attempt >= ATTEMPTS {
            return None;
        }
        let attempt = attempt - n_near;
        if self.order.slice.is_whole(self.order.n_positions()) {
            return self.wide.get(attempt, self.key, SHARD);
        }
        let index = self.wide.get(attempt, self.key, SLICE)?;
        let position = self.order.slice.get(index)?;
        self.order.number(self.epoch, position)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::{
        super::{OrderSpec, RowId, Rows, Shuffle, Slice, Window},
        *,
    };

    fn candidates(order: &Order, i: u64, key: u64) -> Vec<RowId> {
        let substitutes = order.substitutes(i, key).unwrap();
        (0..).map_while(|attempt| substitutes.get(attempt)).map(|step| step.row).collect()
    }

    fn order(counts: &[u64], excluded: &[(u32, u64)], shuffle: Option<Shuffle>) -> Order {
        let spec = OrderSpec { shuffle, epochs: Some(3), ..OrderSpec::ONCE };
        Order::new(Rows::new(counts, excluded).unwrap(), &spec).unwrap()
    }

    fn shuffles() -> impl Strategy<Value = Option<Shuffle>> {
        let window = prop::option::of((1u64..30, 1u64..5));
        prop::option::of((any::<u64>(), window)).prop_map(|shuffle| {
            shuffle.map(|(seed, window)| Shuffle {
                seed,
                window: window.map(|(rows, streams)| Window { rows, streams }),
                reshuffle: true,
            })
        })
    }

    proptest! {
        /// All other rows of a small shard are tried once each, or its window's first.
        #[test]
        fn they_are_the_others_of_the_shard(
            counts in prop::collection::vec(1u64..16, 1..5), picks in prop::collection::vec((0u32..5, 0u64..16), 0..6),
            shuffle in shuffles(), key: u64, i in 0u64..200,
        ) {
            let exists = |&(s, r): &(u32, u64)| counts.get(s as usize).is_some_and(|&n| r < n);
            let excluded: Vec<_> = picks.into_iter().filter(exists).collect();
            let order = order(&counts, &excluded, shuffle);
            let Some(step) = order.step(i) else { return Ok(()) };
            let found = candidates(&order, i, key);
            prop_assert!(found.len() <= ATTEMPTS as usize);
            let shard = step.row.shard;
            let others: BTreeSet<_> = (0..counts[shard as usize])
                .map(|row| RowId { shard, row })
                .filter(|id| *id != step.row && !excluded.contains(&(id.shard, id.row)))
                .collect();
            prop_assert_eq!(&found.iter().copied().collect::<BTreeSet<_>>(), &others);
            if shuffle.is_none_or(|shuffle| shuffle.window.is_none()) {
                prop_assert_eq!(found.len(), others.len(), "none twice");
            }
            prop_assert_eq!(found, candidates(&order, i, key), "always the same");
        }

        /// In a window the first ones are delivered at about the same time as the row itself.
        #[test]
        fn in_a_window_they_are_near(seed: u64, key: u64, i in 0u64..400, rows in 2u64..60, streams in 1u64..4) {
            let window = Window { rows, streams };
            let shuffle = Shuffle { seed, window: Some(window), reshuffle: true };
            let order = order(&[100, 7, 120, 60], &[(2, 5)], Some(shuffle));
            let Some(step) = order.step(i) else { return Ok(()) };
            let epoch_rows = order.rows_per_epoch();
            let start = i / epoch_rows * epoch_rows;
            let of_epoch: Vec<RowId> =
                (start..start + epoch_rows).map(|i| order.step(i).unwrap().row).collect();
            let near = order.substitutes(i, key).unwrap();
            let n_near = near.near.len().min(NEAR_ATTEMPTS);
            for attempt in 0..n_near {
                let id = near.get(attempt).unwrap().row;
                let at = of_epoch.iter().position(|row| *row == id).unwrap() as u64 + start;
                prop_assert!(at.abs_diff(i) < window.rows_per_stream() * streams);
                prop_assert_eq!(id.shard, step.row.shard);
            }
        }

        /// None is outside the slice.
        #[test]
        fn they_keep_to_the_slice(seed: u64, key: u64, from in 0i64..10, to in 11i64..20, i in 0u64..30) {
            let shuffle = Some(Shuffle { seed, window: None, reshuffle: true });
            let slice = Slice { start: Some(from), stop: Some(to), step: None, sequential: false };
            let slices = vec![slice];
            let spec = OrderSpec { shuffle, slices, epochs: Some(3), ..OrderSpec::ONCE };
            let order = Order::new(Rows::new(&[9, 14], &[]).unwrap(), &spec).unwrap();
            let Some(step) = order.step(i) else { return Ok(()) };
            let n = order.rows_per_epoch();
            let mut epoch: Vec<RowId> = (step.epoch * n..(step.epoch + 1) * n)
                .map(|i| order.step(i).unwrap().row)
                .filter(|id| *id != step.row)
                .collect();
            let mut found = candidates(&order, i, key);
            epoch.sort_unstable();
            found.sort_unstable();
            prop_assert_eq!(found, epoch);
        }
    }

    #[test]
    fn large_shards_bound_the_attempts() {
        let order = order(&[1_000_000], &[], None);
        let found = candidates(&order, 17, 4);
        assert_eq!(found.len(), ATTEMPTS as usize);
        assert_ne!(found, candidates(&order, 17, 5));
        assert!(order.substitutes(3_000_000, 0).is_none());
    }

    #[test]
    fn the_only_row_has_none() {
        assert_eq!(candidates(&order(&[1, 1], &[], None), 0, 9), []);
        assert_eq!(candidates(&order(&[3], &[(0, 0), (0, 2)], None), 0, 9), []);
    }

    /// Golden: changing these is changing format version 1.
    #[test]
    fn version_1_is_fixed() {
        let rows = |found: Vec<RowId>| found.iter().map(|id| id.row).take(6).collect::<Vec<_>>();
        let plain = order(&[40, 50], &[], None);
        assert_eq!(rows(candidates(&plain, 45, 42)), GOLDEN[0]);
        let window = Some(Window { rows: 16, streams: 2 });
        let windowed = order(&[40, 50], &[], Some(Shuffle { seed: 3, window, reshuffle: true }));
        assert_eq!(rows(candidates(&windowed, 45, 42)), GOLDEN[1]);
    }

    const GOLDEN: [[u64; 6]; 2] = [[19, 24, 30, 34, 48, 4], [20, 13, 15, 14, 17, 18]];
}
