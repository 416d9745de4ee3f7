//! The rows of one shard that were decoded, by their outcome.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

/// Counts the rows of one shard, each time that one is decoded.
#[derive(Debug, Default)]
pub(crate) struct RowCounts {
    decoded: AtomicU64,
    bad: AtomicU64,
    damaged: AtomicU64,
    ns: AtomicU64,
    bad_ns: AtomicU64,
}

/// The rows of one shard that were decoded so far, substitutes and rows that are not delivered yet
/// included. A row counts each time that it is decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardRows {
    /// All of them.
    pub decoded: u64,
    /// Those that could not be used.
    pub bad: u64,
    /// Those that were used although they are damaged.
    pub damaged: u64,
    /// Thread time spent on decoding all of them.
    pub busy: Duration,
    /// Thread time spent on decoding bad ones.
    pub bad_busy: Duration,
}

impl RowCounts {
    /// A row was used, on which this time was spent.
    pub(crate) fn good(&self, is_damaged: bool, took: Duration) {
        self.ns.fetch_add(took.as_nanos() as u64, Relaxed);
        self.decoded.fetch_add(1, Relaxed);
        self.damaged.fetch_add(is_damaged.into(), Relaxed);
    }

    /// A row could not be used, on which this time was spent.
    pub(crate) fn bad(&self, took: Duration) {
        self.decoded.fetch_add(1, Relaxed);
        self.bad.fetch_add(1, Relaxed);
        self.ns.fetch_add(took.as_nanos() as u64, Relaxed);
        self.bad_ns.fetch_add(took.as_nanos() as u64, Relaxed);
    }

    /// The counts.
    pub(crate) fn rows(&self) -> ShardRows {
        ShardRows {
            decoded: self.decoded.load(Relaxed),
            bad: self.bad.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
            busy: Duration::from_nanos(self.ns.load(Relaxed)),
            bad_busy: Duration::from_nanos(self.bad_ns.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_outcome() {
        let counts = RowCounts::default();
        counts.good(false, Duration::from_millis(1));
        counts.good(true, Duration::from_millis(2));
        counts.bad(Duration::from_millis(3));
        let (busy, bad_busy) = (Duration::from_millis(6), Duration::from_millis(3));
        let wanted = ShardRows { decoded: 3, bad: 1, damaged: 1, busy, bad_busy };
        assert_eq!(counts.rows(), wanted);
    }
}
