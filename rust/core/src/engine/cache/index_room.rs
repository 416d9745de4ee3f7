//! The memory that the audio indexes of a stream may take, and which of them gives way to another.
//!
//! An index gives way once as many recordings of other shards were looked up, since one of its own was, as
//! it has entries. In file order and in a window shards come and go, and their indexes with them: each is
//! loaded once. In a global shuffle each shard is soon needed again, and those whose indexes came first
//! keep them: reading a whole index for a row would take more than it saves.

use std::sync::{
    Mutex,
    atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
};

use lru::LruCache;

use crate::sync::lock_std;

/// Who counts bytes, and uses.
#[derive(Debug)]
pub(crate) struct IndexRoom {
    limit: usize,
    n_bytes: AtomicUsize,
    n_lookups: AtomicU64,
    /// The number of lookups before the last one in each shard whose index is in memory.
    last_uses: Mutex<LruCache<u32, u64>>,
}

impl IndexRoom {
    /// Room for `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let (n_bytes, n_lookups) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { limit, n_bytes, n_lookups, last_uses: Mutex::new(LruCache::unbounded()) }
    }

    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether there is room for so many bytes more.
    pub(crate) fn has(&self, n_bytes: usize) -> bool {
        self.n_bytes.load(Relaxed).saturating_add(n_bytes) <= self.limit
    }

    /// Takes so many bytes more, if there is room for them.
    pub(crate) fn take(&self, n_bytes: usize) -> bool {
        let before = self.n_bytes.fetch_add(n_bytes, Relaxed);
        let has_room = before.saturating_add(n_bytes) <= self.limit;
        if !has_room {
            self.give_back(n_bytes);
        }
        has_room
    }

    /// Takes so many bytes more in any case.
    pub(crate) fn grow(&self, n_bytes: usize) {
        self.n_bytes.fetch_add(n_bytes, Relaxed);
    }

    pub(crate) fn give_back(&self, n_bytes: usize) {
        self.n_bytes.fetch_sub(n_bytes, Relaxed);
    }

    /// Counts a lookup in the index of this shard; `None`: in one that has none in memory.
    pub(crate) fn looked_up(&self, shard: Option<u32>) {
        let now = self.n_lookups.fetch_add(1, Relaxed);
        if let Some(shard) = shard {
            lock_std(&self.last_uses).put(shard, now);
        }
    }

    /// The shard whose index was not used for the longest time, and the number of lookups since then.
    pub(crate) fn oldest(&self) -> Option<(u32, u64)> {
        let last_uses = lock_std(&self.last_uses);
        let (shard, last) = last_uses.peek_lru()?;
        Some((*shard, self.n_lookups.load(Relaxed).saturating_sub(*last)))
    }

    /// The index of this shard is no longer in memory.
    pub(crate) fn removed(&self, shard: u32) {
        lock_std(&self.last_uses).pop(&shard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_taken_within_the_limit() {
        let room = IndexRoom::new(100);
        assert!(room.take(60) && !room.take(41) && room.has(40) && room.take(40));
        room.grow(5);
        assert!(!room.has(0));
        room.give_back(65);
        assert!(room.has(60) && !room.has(61));
    }

    #[test]
    fn the_oldest_is_that_not_looked_up_for_the_longest_time() {
        let room = IndexRoom::new(100);
        assert_eq!(room.oldest(), None);
        for shard in [Some(7), Some(8), Some(7), None, None] {
            room.looked_up(shard);
        }
        assert_eq!(room.oldest(), Some((8, 4)));
        room.looked_up(Some(8));
        assert_eq!(room.oldest(), Some((7, 4)));
        room.removed(7);
        room.removed(8);
        assert_eq!(room.oldest(), None);
    }
}
