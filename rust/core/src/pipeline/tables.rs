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
    shard::{Counted, Live, Table, TableSize},
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
    live: Arc<Live>,
    /// How many sixteenths of its bytes in the file a compressed table takes, of the worst so far;
    /// 0 before the first.
    growth: AtomicUsize,
    /// Bytes that loading took, of the worst so far.
    most_demanding: AtomicUsize,
    /// Up to this size tables are loaded by all readers at once, larger ones one after another.
    small: usize,
    one_by_one: Mutex<()>,
    /// Larger tables are only held on to for a moment, in which nothing is waited for.
    passing_from: usize,
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
    /// And not being loaded.
    is_loaded: bool,
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
            passing_from: usize::MAX,
            inner: Mutex::default(),
        }
    }

    /// As [`Self::new`], told that whoever has a table of more than `n_bytes` bytes lets it go without
    /// waiting for anything. So a large one is loaded once those that make room for it have gone.
    pub(super) fn with_passing(self, n_bytes: usize) -> Self {
        Self { passing_from: n_bytes, ..self }
    }

    /// Whether whoever has this table lets it go without waiting for anything.
    pub(super) fn is_passing(&self, table: &Table) -> bool {
        table.n_bytes > self.passing_from
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
        inner.asked += u64::from(stats::on());
        inner.clock += 1;
        let now = inner.clock;
        let entry = inner.entries.get_mut(&key)?;
        entry.used_at = now;
        // One that is being loaded is waited for in `get`.
        entry.cell.try_lock().ok()?.clone()
    }

    /// Bytes of all tables that there are.
    pub(super) fn live_bytes(&self) -> usize {
        self.live.bytes()
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

    /// Those of them whose tables are neither here nor on their way.
    pub(super) fn missing<'a, T>(
        &self,
        wanted: impl Iterator<Item = &'a T>,
        key: impl Fn(&T) -> Key,
    ) -> Vec<&'a T> {
        let inner = self.lock();
        wanted.filter(|one| !inner.entries.contains_key(&key(one))).collect()
    }

    /// Whether so many tables of this size are loaded by all readers at once, and kept.
    pub(super) fn have_room(&self, n_tables: usize, size: usize) -> bool {
        size <= self.small && size.saturating_mul(n_tables) <= self.limit
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
                is_loaded: false,
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
        self.account(key, expected, false);
        if turn.is_some() {
            // What was freed for it is in the hands of threads that may not run for a while, and the
            // next loads with them: on few CPUs four tables were there at once.
            let began = stats::now();
            self.live.wait_for_leaving();
            self.waited_ns.fetch_add(stats::since(began).as_nanos() as u64, Ordering::Relaxed);
        }
        let takes = |n_bytes: usize| {
            counted.set(n_bytes);
            self.most_demanding.fetch_max(n_bytes, Ordering::Relaxed);
            self.account(key, n_bytes, false);
            if let Some(TableSize { stored, is_compressed: true }) = known {
                let sixteenths = n_bytes.saturating_mul(16) / stored.max(1) + 1;
                self.growth.fetch_max(sixteenths, Ordering::Relaxed);
            }
        };
        let mut table = load(&takes).inspect_err(|_| self.account(key, 0, false))?;
        self.largest.fetch_max(table.n_bytes.max(1), Ordering::Relaxed);
        counted.set(table.n_bytes);
        table.counted = Some(Arc::new(counted));
        let table = Arc::new(table);
        *slot = Some(Arc::clone(&table));
        drop(slot);
        self.account(key, table.n_bytes, true);
        // The next one finds it where it can be evicted.
        drop(turn);
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
            let goes = *k < key && total > limit && entry.is_loaded;
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
    fn account(&self, key: Key, bytes: usize, is_loaded: bool) {
        let mut inner = self.lock();
        if let Some(entry) = inner.entries.get_mut(&key) {
            (entry.bytes, entry.is_loaded) = (bytes, is_loaded);
        }
        let mut total: usize = inner.entries.values().map(|entry| entry.bytes).sum();
        let mut evicted = Vec::new();
        while total > self.limit {
            let loaded = inner.entries.iter().filter(|(k, entry)| **k != key && entry.is_loaded);
            let Some(oldest) = loaded.min_by_key(|(_, entry)| entry.used_at).map(|(k, _)| *k)
            else {
                break;
            };
            let entry = inner.entries.remove(&oldest);
            total -= entry.as_ref().map_or(0, |entry| entry.bytes);
            evicted.extend(entry);
        }
        self.bytes.store(total, Ordering::Relaxed);
        drop(inner);
        // Freeing takes its time too.
        for entry in evicted {
            let table = entry.cell.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if let Some(table) = table.filter(|table| self.is_passing(table))
                && let Some(counted) = &table.counted
            {
                counted.leave();
            }
        }
    }
}

/// The sixteenths of the first compressed table, before one was seen.
const FIRST_GROWTH: usize = 4 * 16;

#[cfg(test)]
mod tests {
    use std::{sync::atomic::AtomicBool, thread};

    use super::*;

    const LARGE: usize = 1000;

    fn get(tables: &Tables, batch: usize, while_loading: impl FnOnce()) -> Arc<Table> {
        let known = Some(TableSize { stored: LARGE, is_compressed: false });
        let load = |_: &dyn Fn(usize)| {
            while_loading();
            Ok(Table::of_size(LARGE))
        };
        tables.get((0, batch), known, load).unwrap()
    }

    #[test]
    fn a_large_table_is_loaded_once_the_one_before_it_has_gone() {
        let tables = Tables::new(LARGE, 2).with_passing(LARGE / 2);
        let (in_hand, is_free) = (get(&tables, 0, || ()), AtomicBool::new(false));
        thread::scope(|scope| {
            let waits = scope.spawn(|| {
                get(&tables, 1, || {
                    assert!(is_free.load(Ordering::SeqCst), "loaded beside the one in hand");
                    assert_eq!(tables.live_bytes(), LARGE);
                })
            });
            // Enough for it to begin; no test fails for its being too short.
            thread::sleep(Duration::from_millis(50));
            assert!(!waits.is_finished());
            is_free.store(true, Ordering::SeqCst);
            drop(in_hand);
            waits.join().unwrap();
        });
    }

    #[test]
    fn nothing_waits_for_what_rows_hold_on_to() {
        let tables = Tables::new(LARGE, 2).with_passing(LARGE);
        let held = get(&tables, 0, || ());
        drop(get(&tables, 1, || assert_eq!(tables.live_bytes(), 2 * LARGE)));
        drop(held);
        assert_eq!(tables.live_bytes(), LARGE, "one is kept");
    }

    #[test]
    fn a_table_that_was_loaded_makes_room_for_the_next_at_once() {
        let tables = Tables::new(LARGE, 2).with_passing(0);
        for batch in 0..3 {
            drop(get(&tables, batch, || assert_eq!(tables.live_bytes(), LARGE)));
        }
    }
}
