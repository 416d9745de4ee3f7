//! A histogram of durations that any thread may add to.

use std::{
    array,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::{Percentiles, StageTimes};

/// Buckets for each power of two: a percentile is off by at most a sixteenth of itself.
const PER_OCTAVE: usize = 8;
/// Buckets for all 64-bit numbers of nanoseconds.
const N_BUCKETS: usize = 62 * PER_OCTAVE;

/// The sum of durations, and their counts in buckets of a constant relative width, as in HDR
/// histograms (<https://github.com/HdrHistogram/HdrHistogram>).
#[derive(Debug)]
pub(crate) struct Timer {
    sum_ns: AtomicU64,
    buckets: [AtomicU64; N_BUCKETS],
}

impl Default for Timer {
    fn default() -> Self {
        Self { sum_ns: AtomicU64::new(0), buckets: array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl Timer {
    /// Adds a duration: two relaxed additions.
    pub(crate) fn record(&self, duration: Duration) {
        let ns = duration.as_nanos() as u64;
        self.sum_ns.fetch_add(ns, Relaxed);
        if let Some(bucket) = self.buckets.get(bucket_of(ns)) {
            bucket.fetch_add(1, Relaxed);
        }
    }

    /// Runs `work` and adds its duration.
    pub(crate) fn time<T>(&self, work: impl FnOnce() -> T) -> T {
        let began = Instant::now();
        let result = work();
        self.record(began.elapsed());
        result
    }

    /// The durations as a stage's.
    pub(crate) fn stage(&self) -> StageTimes {
        StageTimes {
            count: self.count(),
            busy: self.sum(),
            waiting: Duration::ZERO,
            percentiles: self.percentiles(),
        }
    }

    /// The number of durations.
    pub(crate) fn count(&self) -> u64 {
        self.buckets.iter().map(|bucket| bucket.load(Relaxed)).sum()
    }

    /// Their sum.
    pub(crate) fn sum(&self) -> Duration {
        Duration::from_nanos(self.sum_ns.load(Relaxed))
    }

    /// The number and the sum of durations of at least `shortest`, by the middles of their buckets.
    pub(crate) fn at_least(&self, shortest: Duration) -> (u64, Duration) {
        let (mut count, mut ns) = (0_u64, 0_u64);
        for (bucket, n) in self.buckets.iter().enumerate() {
            let (n, middle) = (n.load(Relaxed), middle_of(bucket));
            if u128::from(middle) >= shortest.as_nanos() {
                count += n;
                ns = ns.saturating_add(n.saturating_mul(middle));
            }
        }
        (count, Duration::from_nanos(ns))
    }

    /// The percentiles; zero without durations.
    pub(crate) fn percentiles(&self) -> Percentiles {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Relaxed)).collect();
        let count: u64 = counts.iter().sum();
        let at = |share: f64| {
            let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
            let mut seen = 0;
            let bucket = counts.iter().position(|n| {
                seen += n;
                seen >= rank
            });
            Duration::from_nanos(bucket.map_or(0, middle_of))
        };
        Percentiles { p50: at(0.5), p90: at(0.9), p99: at(0.99) }
    }
}

/// The bucket of a number: its own up to 7, then by its highest four bits.
fn bucket_of(ns: u64) -> usize {
    let exponent = 63 - (ns | 1).leading_zeros() as usize;
    match exponent.checked_sub(3) {
        None => ns as usize,
        Some(shift) => (shift + 1) * PER_OCTAVE + ((ns >> shift) as usize - PER_OCTAVE),
    }
}

/// The middle of a bucket.
fn middle_of(bucket: usize) -> u64 {
    match (bucket / PER_OCTAVE).checked_sub(1) {
        None => bucket as u64,
        Some(shift) => {
            let low = ((PER_OCTAVE + bucket % PER_OCTAVE) as u64) << shift;
            low + ((1_u64 << shift) >> 1)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_cover_all_numbers() {
        assert_eq!(bucket_of(0), 0);
        assert_eq!(bucket_of(7), 7);
        assert_eq!(bucket_of(8), 8);
        assert_eq!(bucket_of(u64::MAX), N_BUCKETS - 1);
        assert_eq!(Timer::default().percentiles(), Percentiles::default());
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_durations(
            mut ns in prop::collection::vec(0_u64..1 << 40, 1..300)
        ) {
            let timer = Timer::default();
            for n in &ns {
                timer.record(Duration::from_nanos(*n));
            }
            prop_assert_eq!(timer.count(), ns.len() as u64);
            prop_assert_eq!(timer.sum(), Duration::from_nanos(ns.iter().sum()));
            ns.sort_unstable();
            let found = timer.percentiles();
            for (share, found) in [(0.5, found.p50), (0.9, found.p90), (0.99, found.p99)] {
                let rank = (ns.len() as f64 * share).ceil() as usize;
                let wanted = ns[rank - 1] as f64;
                let error = (found.as_nanos() as f64 - wanted).abs();
                prop_assert!(error <= wanted / 16.0 + 0.5, "{found:?} for {wanted}");
            }
        }

        #[test]
        fn long_durations_are_counted_and_added_up(
            ns in prop::collection::vec(0_u64..1 << 40, 1..300), shortest in 0_u64..1 << 40
        ) {
            let timer = Timer::default();
            for n in &ns {
                timer.record(Duration::from_nanos(*n));
            }
            // Durations in the bucket of `shortest` may count or not.
            let sum_from = |bucket: usize| {
                let long = ns.iter().filter(|n| bucket_of(**n) >= bucket);
                (long.clone().count() as u64, long.sum::<u64>() as f64)
            };
            let (most, longest) = sum_from(bucket_of(shortest));
            let (least, at_least) = sum_from(bucket_of(shortest) + 1);
            let (count, sum) = timer.at_least(Duration::from_nanos(shortest));
            let sum = sum.as_nanos() as f64;
            prop_assert!(least <= count && count <= most);
            prop_assert!(at_least * 15.0 / 16.0 - 300.0 <= sum && sum <= longest * 17.0 / 16.0 + 300.0);
        }
    }
}
