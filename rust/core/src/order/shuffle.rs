//! How positions of an epoch become numbers of rows: file order, a global or a windowed shuffle.

use std::{
    ops::Range,
    sync::{Arc, Mutex},
};

use super::{elements::Elements, permutation::Permutation};
use crate::{
    hash::{below, hash},
    sync::lock_std,
};

/// Words that are hashed for the draws of the windowed order: the permutation of the shards, those
/// of a stream's blocks, and where its blocks begin.
const SHARDS: u64 = 13;
const BLOCKS: u64 = 14;
const PHASE: u64 = 15;

/// A shuffle, as the user states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shuffle {
    /// The seed.
    pub seed: u64,
    /// The window within which rows are shuffled; `None` is all rows.
    pub window: Option<Window>,
    /// Whether each epoch has an order of its own; otherwise all have that of epoch 0.
    pub reshuffle: bool,
}

/// A shuffle window over several streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Rows in all streams together, at least 1.
    pub rows: u64,
    /// Contiguous parts of the data that are read concurrently, at least 1.
    pub streams: u64,
}

impl Window {
    /// Rows of one stream that are shuffled together.
    pub fn rows_per_stream(&self) -> u64 {
        self.rows.div_ceil(self.streams.max(1)).max(1)
    }
}

impl Shuffle {
    /// The options that the order depends on, for the fingerprint.
    pub(super) fn words(shuffle: Option<&Self>) -> [u64; 5] {
        let Some(shuffle) = shuffle else { return [0; 5] };
        let (rows, streams) =
            shuffle.window.map_or((0, 0), |window| (window.rows_per_stream(), window.streams));
        [1, shuffle.seed, rows, streams, u64::from(shuffle.reshuffle)]
    }

    /// The number of the row at `position` of `epoch`; `None` past the last.
    pub(super) fn get(
        &self,
        elements: &Elements,
        sequences: &SequenceCache,
        epoch: u64,
        position: u64,
    ) -> Option<u64> {
        let epoch = if self.reshuffle { epoch } else { 0 };
        match self.window {
            None => Permutation::new(elements.len(), self.seed, epoch).get(position),
            Some(window) => {
                let (index, _) = self.locate(window, elements.len(), epoch, position)?;
                sequences.of_epoch(elements, self.seed, epoch).get(index)
            }
        }
    }

    /// The numbers of the rows that share both block and shard with the one at `position`; `None`
    /// without windows.
    pub(super) fn neighbours(
        &self,
        elements: &Elements,
        sequences: &SequenceCache,
        epoch: u64,
        position: u64,
    ) -> Option<Range<u64>> {
        let epoch = if self.reshuffle { epoch } else { 0 };
        let (index, block) = self.locate(self.window?, elements.len(), epoch, position)?;
        sequences.of_epoch(elements, self.seed, epoch).same_shard(index, &block)
    }

    /// The index in the epoch's sequence of shards of its row at `position`, and the block of
    /// indices that are shuffled together.
    ///
    /// The sequence is cut into `streams` parts, the first ones longer by one where they cannot be
    /// equal, which are interleaved. Each is permuted block by block. Its first block is shorter by
    /// a drawn number of rows, so that neighbours do not share a block in every epoch.
    fn locate(
        &self,
        window: Window,
        n: u64,
        epoch: u64,
        position: u64,
    ) -> Option<(u64, Range<u64>)> {
        if position >= n {
            return None;
        }
        let streams = window.streams.max(1);
        let (stream, i) = (position % streams, position / streams);
        let (share, extra) = (n / streams, n % streams);
        let start = stream * share + stream.min(extra);
        let len = share + u64::from(stream < extra);
        let size = window.rows_per_stream();
        let phase = below(hash(&[self.seed, epoch, PHASE, stream]), size);
        let block = i.checked_add(phase)? / size;
        let first = block.saturating_mul(size).saturating_sub(phase);
        let end = len.min((block + 1).saturating_mul(size) - phase);
        let key = hash(&[self.seed, epoch, BLOCKS, stream]);
        let within = Permutation::new(end - first, key, block).get(i - first)?;
        Some((start + first + within, start + first..start + end))
    }
}

/// The shards of an epoch in their drawn order.
#[derive(Debug)]
pub(super) struct Sequence {
    epoch: u64,
    /// By shard: the index of its first row in this sequence, and the number of that row.
    shards: Vec<(u64, u64)>,
}

impl Sequence {
    fn new(elements: &Elements, seed: u64, epoch: u64) -> Self {
        let drawn = Permutation::new(elements.n_runs(), hash(&[seed, epoch, SHARDS]), 0);
        let mut start = 0;
        let shards = (0..elements.n_runs()).filter_map(|k| {
            let numbers = elements.of_run(drawn.get(k)? as usize);
            let shard = (start, numbers.start);
            start += numbers.end - numbers.start;
            Some(shard)
        });
        Self { epoch, shards: shards.collect() }
    }

    /// The number of the row at `index`, which must lie inside.
    fn get(&self, index: u64) -> Option<u64> {
        let next = self.shards.partition_point(|(start, _)| *start <= index);
        let (start, first) = self.shards.get(next.checked_sub(1)?)?;
        Some(first + (index - start))
    }

    /// The numbers of the rows in `block` that are of the same shard as the one at `index`.
    fn same_shard(&self, index: u64, block: &Range<u64>) -> Option<Range<u64>> {
        let next = self.shards.partition_point(|(start, _)| *start <= index);
        let (start, first) = *self.shards.get(next.checked_sub(1)?)?;
        let end = self.shards.get(next).map_or(u64::MAX, |(start, _)| *start).min(block.end);
        let from = start.max(block.start);
        Some(first + (from - start)..first + (end - start))
    }
}

/// The sequences of the last two epochs that were asked for: around the end of an epoch, rows of
/// two are needed at the same time.
#[derive(Clone, Debug, Default)]
pub(super) struct SequenceCache(Arc<Mutex<[Option<Arc<Sequence>>; 2]>>);

impl SequenceCache {
    fn of_epoch(&self, elements: &Elements, seed: u64, epoch: u64) -> Arc<Sequence> {
        let mut cached = lock_std(&self.0);
        let [even, odd] = &mut *cached;
        let slot = if epoch.is_multiple_of(2) { even } else { odd };
        if let Some(sequence) = slot.as_ref().filter(|sequence| sequence.epoch == epoch) {
            return Arc::clone(sequence);
        }
        Arc::clone(slot.insert(Arc::new(Sequence::new(elements, seed, epoch))))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{super::Rows, *};

    fn elements(counts: &[u64], excluded: &[(u32, u64)]) -> Elements {
        Elements { rows: Rows::new(counts, excluded).unwrap(), parts: None }
    }

    fn windowed(seed: u64, rows: u64, streams: u64) -> Shuffle {
        Shuffle { seed, window: Some(Window { rows, streams }), reshuffle: true }
    }

    fn numbers(shuffle: &Shuffle, elements: &Elements, epoch: u64) -> Vec<u64> {
        let sequences = SequenceCache::default();
        (0..).map_while(|i| shuffle.get(elements, &sequences, epoch, i)).collect()
    }

    proptest! {
        #[test]
        fn a_windowed_epoch_has_every_row_once(
            counts in prop::collection::vec(0u64..40, 0..8),
            seed: u64, epoch: u64, rows in 1u64..200, streams in 1u64..20,
        ) {
            let all = elements(&counts, &[]);
            let mut found = numbers(&windowed(seed, rows, streams), &all, epoch);
            found.sort_unstable();
            prop_assert!(found.into_iter().eq(0..all.len()));
        }

        /// Each row of a stream is less than a block away from its index in file order.
        #[test]
        fn streams_move_forward(
            n in 1u64..500, seed: u64, rows in 1u64..100, streams in 1u64..10,
        ) {
            let window = Window { rows, streams };
            let shuffle = windowed(seed, rows, streams);
            for position in 0..n {
                let (index, block) = shuffle.locate(window, n, 0, position).unwrap();
                prop_assert!(block.contains(&index) && block.end <= n);
                let (stream, i) = (position % streams, position / streams);
                let straight = stream * (n / streams) + stream.min(n % streams) + i;
                prop_assert!(index.abs_diff(straight) < window.rows_per_stream());
            }
        }

        #[test]
        fn extreme_windows_do_not_overflow(
            n in 1u64..(1 << 62), rows in 1u64.., streams in 1u64.., i: u64, seed: u64,
        ) {
            let shuffle = windowed(seed, rows, streams);
            let located = shuffle.locate(Window { rows, streams }, n, 0, i % n);
            prop_assert!(located.is_some_and(|(index, _)| index < n));
        }
    }

    #[test]
    fn epochs_share_one_order_on_request() {
        let rows = elements(&[5, 0, 9, 1], &[(0, 3)]);
        for window in [None, Some(Window { rows: 4, streams: 2 })] {
            let orders = |reshuffle| {
                let shuffle = Shuffle { seed: 3, window, reshuffle };
                [0, 1, 2].map(|epoch| numbers(&shuffle, &rows, epoch))
            };
            let [fixed, fresh] = [orders(false), orders(true)];
            assert_eq!(fixed[0], fresh[0]);
            assert_eq!(fixed[1], fixed[0]);
            assert_ne!(fresh[1], fresh[0]);
            assert_ne!(fresh[2], fresh[1]);
        }
    }

    /// Golden: changing these is changing format version 1.
    #[test]
    fn version_1_is_fixed() {
        let rows = elements(&[4, 0, 5, 1, 6], &[]);
        let orders = [(6, 2), (5, 3), (100, 1)]
            .map(|(window, streams)| numbers(&windowed(42, window, streams), &rows, 1));
        assert_eq!(orders, GOLDEN);
    }

    const GOLDEN: [[u64; 16]; 3] = [
        [0, 8, 1, 11, 3, 12, 2, 10, 4, 15, 6, 13, 7, 14, 5, 9],
        [0, 6, 13, 2, 8, 12, 1, 7, 14, 4, 11, 15, 3, 10, 9, 5],
        [11, 14, 13, 9, 1, 6, 12, 8, 4, 15, 10, 3, 5, 7, 0, 2],
    ];
}
