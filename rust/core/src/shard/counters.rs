//! What was read through the files of one pipeline.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::stats::{self, Requests};

/// How many requests were sent to the storage, and how many bytes they brought.
#[derive(Debug, Default)]
pub struct ReadCounters {
    requests: AtomicU64,
    bytes: AtomicU64,
    retries: AtomicU64,
    times: Requests,
}

impl ReadCounters {
    /// Positional reads so far. Opening a file is not counted.
    pub fn requests(&self) -> u64 {
        self.requests.load(Relaxed)
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// Requests that were sent again after a failure.
    pub fn retries(&self) -> u64 {
        self.retries.load(Relaxed)
    }

    /// What requests took, and the files opened for them.
    pub(crate) fn times(&self) -> &Requests {
        &self.times
    }

    /// A request for `wanted` bytes is about to be sent, which are counted as read: see
    /// [`Self::unread`].
    pub(super) fn sends(&self, wanted: usize) {
        if stats::on() {
            self.requests.fetch_add(1, Relaxed);
            self.bytes.fetch_add(wanted as u64, Relaxed);
        }
    }

    /// So many of the bytes did not come.
    pub(super) fn unread(&self, bytes: usize) {
        if stats::on() {
            self.bytes.fetch_sub(bytes as u64, Relaxed);
        }
    }

    /// A request is sent again.
    pub(super) fn retries_once(&self) {
        self.retries.fetch_add(1, Relaxed);
    }
}
