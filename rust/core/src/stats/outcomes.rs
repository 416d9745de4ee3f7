//! What came of the rows of one shard that were decoded.

use std::{
    sync::atomic::{AtomicU64, Ordering::Relaxed},
    time::Duration,
};

use super::on;

/// Counts the rows of one shard by what became of them, each time that one is decoded.
#[derive(Debug, Default)]
pub(crate) struct Outcomes {
    decoded: AtomicU64,
    bad: AtomicU64,
    damaged: AtomicU64,
    bad_ns: AtomicU64,
}

/// The rows of one shard that were decoded so far, those read ahead and those tried in the place of
/// bad ones among them. A row counts each time that it comes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardRows {
    /// All of them.
    pub decoded: u64,
    /// Those that could not be used.
    pub bad: u64,
    /// Those that were used though something is wrong with them.
    pub damaged: u64,
    /// Decoders' time that went to bad ones: until that was known, and for reading others instead.
    pub bad_busy: Duration,
}

impl Outcomes {
    /// A row could be used.
    pub(crate) fn good(&self, is_damaged: bool) {
        if on() {
            self.decoded.fetch_add(1, Relaxed);
            if is_damaged {
                self.damaged.fetch_add(1, Relaxed);
            }
        }
    }

    /// A row could not be used, which took so long to find.
    pub(crate) fn bad(&self, took: Duration) {
        if on() {
            self.decoded.fetch_add(1, Relaxed);
            self.bad.fetch_add(1, Relaxed);
        }
        self.bad_took(took);
    }

    /// Another row had to be read in the place of one of this shard, which took so long.
    pub(crate) fn bad_took(&self, took: Duration) {
        if on() {
            self.bad_ns.fetch_add(took.as_nanos() as u64, Relaxed);
        }
    }

    /// What has been counted.
    pub(crate) fn rows(&self) -> ShardRows {
        ShardRows {
            decoded: self.decoded.load(Relaxed),
            bad: self.bad.load(Relaxed),
            damaged: self.damaged.load(Relaxed),
            bad_busy: Duration::from_nanos(self.bad_ns.load(Relaxed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_counted_by_what_became_of_them() {
        let outcomes = Outcomes::default();
        outcomes.good(false);
        outcomes.good(true);
        outcomes.bad(Duration::from_millis(3));
        outcomes.bad_took(Duration::from_millis(2));
        let wanted =
            ShardRows { decoded: 3, bad: 1, damaged: 1, bad_busy: Duration::from_millis(5) };
        assert_eq!(outcomes.rows(), wanted);
    }
}
