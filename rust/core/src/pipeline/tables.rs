//! The tables of recently used record batches, bounded by bytes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{error::Result, shard::Table};

/// A (shard, record batch) pair.
type Key = (u32, usize);
/// Filled by the first thread that needs it, while others that need it too wait.
type Cell = Arc<Mutex<Option<Arc<Table>>>>;

/// A least-recently-used cache of tables. One that alone exceeds the limit stays until the next.
#[derive(Debug)]
pub(super) struct Tables {
    limit: usize,
    bytes: AtomicUsize,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    clock: u64,
    entries: HashMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    cell: Cell,
    used_at: u64,
    bytes: usize,
}

impl Tables {
    /// A cache of at most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        Self { limit, bytes: AtomicUsize::new(0), inner: Mutex::default() }
    }

    /// Bytes held now.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The table of this record batch, loaded at most once at a time.
    pub(super) fn get(&self, key: Key, load: impl FnOnce() -> Result<Table>) -> Result<Arc<Table>> {
        let cell = {
            let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
            inner.clock += 1;
            let now = inner.clock;
            let entry = inner.entries.entry(key).or_insert_with(|| Entry {
                cell: Cell::default(),
                used_at: now,
                bytes: 0,
            });
            entry.used_at = now;
            Arc::clone(&entry.cell)
        };
        let mut slot = cell.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(table) = &*slot {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(load()?);
        *slot = Some(Arc::clone(&table));
        drop(slot);
        self.account(key, table.n_bytes);
        Ok(table)
    }

    /// Frees all tables.
    pub(super) fn clear(&self) {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner).entries.clear();
        self.bytes.store(0, Ordering::Relaxed);
    }

    /// Charges a loaded table and evicts the least recently used others while over the limit.
    fn account(&self, key: Key, bytes: usize) {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(entry) = inner.entries.get_mut(&key) {
            entry.bytes = bytes;
        }
        let mut total: usize = inner.entries.values().map(|entry| entry.bytes).sum();
        while total > self.limit {
            let loaded = inner.entries.iter().filter(|(k, entry)| **k != key && entry.bytes > 0);
            let Some(oldest) = loaded.min_by_key(|(_, entry)| entry.used_at).map(|(k, _)| *k)
            else {
                break;
            };
            total -= inner.entries.remove(&oldest).map_or(0, |entry| entry.bytes);
        }
        self.bytes.store(total, Ordering::Relaxed);
    }
}
