//! The tables of recently used record batches, bounded by bytes.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, TryLockError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    error::Result,
    shard::{Counted, Table, TableSize},
    stats,
};

/// A (shard, record batch) pair.
type Key = (u32, usize);
/// Filled by the first thread that needs it, while others that need it too wait.
type Cell = Arc<Mutex<Option<Arc<Table>>>>;

/// A least-recently-used cache of tables. One that alone exceeds the limit stays until the next.
#[derive(Debug)]
pub(super) struct Tables {
    limit: usize,
    bytes: AtomicUsize,
    loads: AtomicU64,
    /// Thread time spent waiting for another thread's load.
    waited_ns: AtomicU64,
    /// Of the largest table so far; 0 before the first.
    largest: AtomicUsize,
    /// Of all tables, also those that rows hold on to after they have left here.
    live: Arc<AtomicUsize>,
    /// How many sixteenths of its bytes in the file a compressed table takes, of the worst so far;
    /// 0 before the first.
    growth: AtomicUsize,
    /// Bytes that loading took, of the worst so far.
    most_demanding: AtomicUsize,
    /// Up to this size tables are loaded by all readers at once, larger ones one after another.
    small: usize,
    one_by_one: Mutex<()>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    clock: u64,
    /// Rows that asked for their table.
    asked: u64,
    entries: HashMap<Key, Entry>,
}

#[derive(Debug)]
struct Entry {
    cell: Cell,
    used_at: u64,
    bytes: usize,
}

impl Tables {
    /// A cache of at most `limit` bytes, which `n_readers` threads fill.
    pub(super) fn new(limit: usize, n_readers: usize) -> Self {
        Self {
            limit,
            bytes: AtomicUsize::new(0),
            loads: AtomicU64::new(0),
            waited_ns: AtomicU64::new(0),
            largest: AtomicUsize::new(0),
            live: Arc::default(),
            growth: AtomicUsize::new(0),
            most_demanding: AtomicUsize::new(0),
            small: limit / n_readers.max(1),
            one_by_one: Mutex::default(),
            inner: Mutex::default(),
        }
    }

    /// Waits for other loads to end where this table is large, or not known to be small.
    fn turn(&self, known: Option<TableSize>) -> Option<MutexGuard<'_, ()>> {
        let is_small = || match known {
            Some(size) if size.is_compressed && self.growth.load(Ordering::Relaxed) == 0 => false,
            Some(_) => self.expected(known) <= self.small,
            None => (1..=self.small).contains(&self.largest.load(Ordering::Relaxed)),
        };
        if is_small() {
            return None;
        }
        let turn = self.lock_timed(&self.one_by_one);
        (!is_small()).then_some(turn)
    }

    /// Locks, and adds what others kept us waiting.
    fn lock_timed<'a, T>(&self, mutex: &'a Mutex<T>) -> MutexGuard<'a, T> {
        match mutex.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(guard)) => guard.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let began = stats::now();
                let guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
                let waited = stats::since(began).as_nanos() as u64;
                self.waited_ns.fetch_add(waited, Ordering::Relaxed);
                guard
            }
        }
    }

    /// `(asked for, loaded)` tables, and the thread time spent waiting for others' loads.
    pub(super) fn counts(&self) -> (u64, u64, Duration) {
        let asked = self.lock().asked;
        let waited = Duration::from_nanos(self.waited_ns.load(Ordering::Relaxed));
        (asked, self.loads.load(Ordering::Relaxed), waited)
    }

    /// Bytes held now.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The table of this record batch, if it is loaded.
    pub(super) fn cached(&self, key: Key) -> Option<Arc<Table>> {
        let mut inner = self.lock();
        inner.asked += u64::from(stats::ON);
        inner.clock += 1;
        let now = inner.clock;
        let entry = inner.entries.get_mut(&key)?;
        entry.used_at = now;
        // One that is being loaded is waited for in `get`.
        entry.cell.try_lock().ok()?.clone()
    }

    /// Bytes of all tables that there are.
    pub(super) fn live_bytes(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// What loading the most demanding table so far would take beyond the tables there are; half
    /// of the budget at most, which is four times the limit.
    pub(super) fn room_to_keep(&self) -> usize {
        let most = self.most_demanding.load(Ordering::Relaxed).min(self.limit.saturating_mul(2));
        most.saturating_sub(self.live_bytes())
    }

    /// What a table will take of which this much is known: as a rule no more than the largest so
    /// far, and no more than others grew to.
    pub(super) fn expected(&self, known: Option<TableSize>) -> usize {
        match known {
            None => self.largest.load(Ordering::Relaxed),
            Some(TableSize { stored, is_compressed: false }) => stored,
            Some(TableSize { stored, is_compressed: true }) => {
                let sixteenths = match self.growth.load(Ordering::Relaxed) {
                    0 => FIRST_GROWTH,
                    worst => worst,
                };
                stored.saturating_mul(sixteenths) / 16
            }
        }
    }

    /// The bytes that a table which takes `expected` adds, once others have made room for it.
    pub(super) fn added(&self, expected: usize) -> usize {
        let held = self.bytes();
        held.saturating_add(expected).min(self.limit.max(expected)).saturating_sub(held)
    }

    /// The table of this record batch, loaded at most once at a time. While it is being loaded it
    /// counts for what is expected of it, and others have made room for it.
    pub(super) fn get(
        &self,
        key: Key,
        known: Option<TableSize>,
        load: impl FnOnce(&dyn Fn(usize)) -> Result<Table>,
    ) -> Result<Arc<Table>> {
        let cell = {
            let mut inner = self.lock();
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
        let mut slot = self.lock_timed(&cell);
        if let Some(table) = &*slot {
            return Ok(Arc::clone(table));
        }
        let turn = self.turn(known);
        self.loads.fetch_add(1, Ordering::Relaxed);
        let expected = self.expected(known);
        let counted = Counted::new(expected, &self.live);
        self.account(key, expected);
        let takes = |n_bytes: usize| {
            counted.set(n_bytes);
            self.most_demanding.fetch_max(n_bytes, Ordering::Relaxed);
            self.account(key, n_bytes);
            if let Some(TableSize { stored, is_compressed: true }) = known {
                let sixteenths = n_bytes.saturating_mul(16) / stored.max(1) + 1;
                self.growth.fetch_max(sixteenths, Ordering::Relaxed);
            }
        };
        let mut table = load(&takes).inspect_err(|_| self.account(key, 0))?;
        self.largest.fetch_max(table.n_bytes.max(1), Ordering::Relaxed);
        counted.set(table.n_bytes);
        table.counted = Some(Arc::new(counted));
        let table = Arc::new(table);
        drop(turn);
        *slot = Some(Arc::clone(&table));
        drop(slot);
        self.account(key, table.n_bytes);
        Ok(table)
    }

    /// Frees the tables before this one, in file order, while there are more than `limit` bytes of
    /// tables: their rows have been delivered, and their memory is what the next ones are read into.
    pub(super) fn forget_before(&self, key: Key, limit: usize) {
        if self.bytes() <= limit {
            return;
        }
        let mut inner = self.lock();
        let (mut total, mut freed) = (self.bytes(), Vec::new());
        inner.entries.retain(|k, entry| {
            let goes = *k < key && total > limit && entry.is_loaded();
            if goes {
                total -= entry.bytes;
                freed.push(Arc::clone(&entry.cell));
            }
            !goes
        });
        self.bytes.store(total, Ordering::Relaxed);
        drop(inner);
        drop(freed);
    }

    /// Frees all tables.
    pub(super) fn clear(&self) {
        self.lock().entries.clear();
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Charges a table and evicts the least recently used others while over the limit.
    fn account(&self, key: Key, bytes: usize) {
        let mut inner = self.lock();
        if let Some(entry) = inner.entries.get_mut(&key) {
            entry.bytes = bytes;
        }
        let mut total: usize = inner.entries.values().map(|entry| entry.bytes).sum();
        let mut evicted = Vec::new();
        while total > self.limit {
            let loaded = inner.entries.iter().filter(|(k, entry)| **k != key && entry.is_loaded());
            let Some(oldest) = loaded.min_by_key(|(_, entry)| entry.used_at).map(|(k, _)| *k)
            else {
                break;
            };
            let entry = inner.entries.remove(&oldest);
            total -= entry.as_ref().map_or(0, |entry| entry.bytes);
            evicted.push(entry);
        }
        self.bytes.store(total, Ordering::Relaxed);
        drop(inner);
        // Freeing takes its time too.
        drop(evicted);
    }
}

/// The sixteenths of the first compressed table, before one was seen.
const FIRST_GROWTH: usize = 4 * 16;

impl Entry {
    /// Not while it is being loaded: its bytes are on their way then.
    fn is_loaded(&self) -> bool {
        self.bytes > 0 && self.cell.try_lock().is_ok_and(|slot| slot.is_some())
    }
}
