//! The tables of recently used record batches.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::cache::{Found, LoadCache};
use crate::{
    error::Result,
    memory::{Account, Permit},
    shard::{Table, TableSize},
};

/// A (shard, record batch) pair.
pub(super) type Key = (u32, usize);

/// One part in this many of the budget may hold tables.
const SHARE: usize = 4;

/// The sixteenths of the first compressed table, before one was seen.
const FIRST_GROWTH: usize = 4 * 16;

/// Tables, and what was learned of their sizes. Each holds its bytes of the budget, also once it
/// has left here and rows hold on to it.
#[derive(Debug)]
pub(super) struct Tables {
    cache: LoadCache<Key, Table>,
    account: Arc<Account>,
    /// Of the largest table so far; 0 before the first.
    largest: AtomicUsize,
    /// How many sixteenths of its bytes in the file a compressed table takes, of the worst so far;
    /// 0 before the first.
    growth: AtomicUsize,
    /// Bytes that loading took, of the worst so far.
    most_demanding: AtomicUsize,
    /// Rows copy what they need of larger ones.
    largest_held: usize,
}

impl Tables {
    /// Rows hold on to tables of at most `largest_held` bytes.
    pub(super) fn new(account: &Arc<Account>, budget: usize, largest_held: usize) -> Self {
        Self {
            cache: LoadCache::new(budget / SHARE),
            account: Arc::clone(account),
            largest: AtomicUsize::new(0),
            growth: AtomicUsize::new(0),
            most_demanding: AtomicUsize::new(0),
            largest_held,
        }
    }

    /// Looks for the table of a record batch, of which this much is known.
    pub(super) fn find(&self, key: Key) -> Found<Table> {
        self.cache.find(key)
    }

    /// Whether the table is here or on its way.
    pub(super) fn has(&self, key: Key) -> bool {
        self.cache.has(key)
    }

    /// Whether a load has to wait for others.
    pub(super) fn is_crowded(&self, known: Option<TableSize>) -> bool {
        self.cache.is_crowded(self.expected(known))
    }

    /// Whether this many tables of this size fit in at the same time.
    pub(super) fn have_room(&self, n_tables: usize, size: usize) -> bool {
        size.saturating_mul(n_tables) <= self.cache.limit()
    }

    /// Whether rows copy what they need of this table, so that it goes soon.
    pub(super) fn is_heavy(&self, table: &Table) -> bool {
        table.n_bytes > self.largest_held
    }

    /// What a table will take of which this much is known: as a rule no more than the largest so
    /// far, and no more than others grew to.
    pub(super) fn expected(&self, known: Option<TableSize>) -> usize {
        match known {
            None => self.largest.load(Relaxed),
            Some(TableSize { stored, is_compressed: false }) => stored,
            Some(TableSize { stored, is_compressed: true }) => {
                let sixteenths = match self.growth.load(Relaxed) {
                    0 => FIRST_GROWTH,
                    worst => worst,
                };
                stored.saturating_mul(sixteenths) / 16
            }
        }
    }

    /// Loads a table, for which `permit` is. `None` where it is here or on its way by now, or has to
    /// wait for others.
    ///
    /// # Errors
    ///
    /// As `load`, which is given a function that it tells what the table takes.
    pub(super) fn load(
        &self,
        key: Key,
        known: Option<TableSize>,
        permit: Permit,
        load: impl FnOnce(&dyn Fn(usize)) -> Result<Table>,
    ) -> Result<Option<Arc<Table>>> {
        let Some(loading) = self.cache.begin(key, permit.n_bytes()) else { return Ok(None) };
        self.account.trim_idle();
        let permit = RefCell::new(permit);
        let takes = |n_bytes: usize| {
            permit.borrow_mut().set(n_bytes);
            self.account.trim_idle();
            self.most_demanding.fetch_max(n_bytes, Relaxed);
            if let Some(TableSize { stored, is_compressed: true }) = known {
                let sixteenths = n_bytes.saturating_mul(16) / stored.max(1) + 1;
                self.growth.fetch_max(sixteenths, Relaxed);
            }
        };
        let mut table = load(&takes)?;
        self.largest.fetch_max(table.n_bytes.max(1), Relaxed);
        let mut permit = permit.into_inner();
        permit.set(table.n_bytes);
        table.permit = Some(Arc::new(permit));
        let (n_bytes, table) = (table.n_bytes, Arc::new(table));
        loading.finish(&table, n_bytes);
        self.keep_room();
        Ok(Some(table))
    }

    /// Rows leave the bytes free that the most demanding table would take beyond those that are
    /// here: rows that had taken them would have the next table pass the budget.
    fn keep_room(&self) {
        let most = self.most_demanding.load(Relaxed);
        self.account.set_reserve(most.saturating_sub(self.cache.n_bytes()));
    }

    /// Frees the tables before this one, in file order, while there are more than `limit` bytes of
    /// tables: their rows have been delivered, and their memory is what the next ones are read into.
    pub(super) fn forget_before(&self, key: Key, limit: usize) {
        self.cache.shed(limit, |other| *other < key);
    }

    /// Frees all tables.
    pub(super) fn clear(&self) {
        self.cache.clear();
    }

    /// `(found, loaded, bytes now)`.
    pub(super) fn counts(&self) -> (u64, u64, usize) {
        let (found, loaded) = self.cache.counts();
        (found, loaded, self.cache.n_bytes())
    }
}
