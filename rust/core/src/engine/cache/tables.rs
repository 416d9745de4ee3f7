//! The tables of recently used record batches.

use std::{
    cell::RefCell,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::load::{LoadCache, Lookup};
use crate::{
    engine::dataset::TABLES_SHARE,
    error::Result,
    memory::{Account, Permit},
    shard::{Table, TableSize},
};

/// A shard, and a record batch of it.
pub(crate) type BatchId = (u32, usize);

/// The least growth that is expected of the first compressed table.
const FIRST_GROWTH: usize = 4;

/// Tables, and estimates of their sizes. Each table holds a permit for its bytes, also after it was
/// evicted, as long as rows refer to it.
#[derive(Debug)]
pub(crate) struct TableCache {
    cache: LoadCache<BatchId, Table>,
    account: Arc<Account>,
    /// Loads that would take more are refused.
    budget: usize,
    /// The size of the largest table so far; 0 before the first.
    largest: AtomicUsize,
    /// The highest ratio so far of a compressed table's size to its bytes in the file, in sixteenths;
    /// 0 before the first.
    growth: AtomicUsize,
    /// The most bytes that loading a table took so far.
    peak_load: AtomicUsize,
    /// Rows copy what they need out of larger tables.
    max_referenced: usize,
}

impl TableCache {
    /// Rows refer to tables of at most `max_referenced` bytes.
    pub(crate) fn new(account: &Arc<Account>, budget: usize, max_referenced: usize) -> Self {
        Self {
            cache: LoadCache::new(budget / TABLES_SHARE),
            account: Arc::clone(account),
            budget,
            largest: AtomicUsize::new(0),
            growth: AtomicUsize::new(0),
            peak_load: AtomicUsize::new(0),
            max_referenced,
        }
    }

    /// Looks up the table of a record batch.
    pub(crate) fn find(&self, batch: BatchId) -> Lookup<Table> {
        self.cache.find(batch)
    }

    /// Whether the table is cached or being loaded.
    pub(crate) fn has(&self, batch: BatchId) -> bool {
        self.cache.has(batch)
    }

    /// The record batch whose load began last, where tables are so large that one is loaded after the other.
    pub(crate) fn last_in_turn(&self) -> Option<BatchId> {
        let is_in_turn = !self.has_room(2, self.largest.load(Relaxed));
        is_in_turn.then(|| self.cache.last_begun()).flatten()
    }

    /// Whether a load must wait for others.
    pub(crate) fn is_crowded(&self, known: Option<TableSize>) -> bool {
        self.cache.is_crowded(self.expected_bytes(known))
    }

    /// Whether this many tables of this size fit at the same time.
    pub(crate) fn has_room(&self, n_tables: usize, n_bytes: usize) -> bool {
        n_bytes.saturating_mul(n_tables) <= self.cache.limit()
    }

    /// Whether rows copy what they need out of this table, so that it can be freed soon.
    pub(crate) fn is_heavy(&self, table: &Table) -> bool {
        table.n_bytes > self.max_referenced
    }

    /// The expected size of a table: what is known of it, or else the size of the largest so far. Of a
    /// compressed one, the growth of the worst so far. The first is expected to fill the cache, so that
    /// it is loaded alone: several that grow more than expected would pass the budget together.
    pub(crate) fn expected_bytes(&self, known: Option<TableSize>) -> usize {
        let expected = match known {
            None => self.largest.load(Relaxed),
            Some(TableSize { stored, besides, is_compressed: false }) => {
                stored.saturating_add(besides)
            }
            Some(TableSize { stored, besides, .. }) => match self.growth.load(Relaxed) {
                0 => self.cache.limit().max(stored.saturating_mul(FIRST_GROWTH)),
                sixteenths => (stored.saturating_mul(sixteenths) / 16).saturating_add(besides),
            },
        };
        expected.min(self.budget)
    }

    /// Loads a table, for which `permit` is. `None` where it is cached or being loaded by now, or must
    /// wait for others.
    ///
    /// # Errors
    ///
    /// Those of `load`, which calls its argument with the size of the table.
    pub(crate) fn load(
        &self,
        batch: BatchId,
        known: Option<TableSize>,
        permit: Permit,
        load: impl FnOnce(&dyn Fn(usize)) -> Result<Table>,
    ) -> Result<Option<Arc<Table>>> {
        // This table has its permit already. If all permits fit the budget, the last table may stay as well.
        let keeps_last = self.account.fits_reserved(0);
        let loading = self.cache.begin(batch, permit.n_bytes(), keeps_last);
        let Some(loading) = loading else { return Ok(None) };
        self.account.trim_idle();
        let permit = RefCell::new(permit);
        let on_size = |n_bytes: usize| {
            permit.borrow_mut().set(n_bytes);
            self.account.trim_idle();
            self.peak_load.fetch_max(n_bytes, Relaxed);
            if let Some(TableSize { stored, is_compressed: true, .. }) = known {
                let sixteenths = n_bytes.saturating_mul(16) / stored.max(1) + 1;
                self.growth.fetch_max(sixteenths, Relaxed);
            }
        };
        let mut table = load(&on_size)?;
        self.largest.fetch_max(table.n_bytes.max(1), Relaxed);
        let mut permit = permit.into_inner();
        permit.set(table.n_bytes);
        table.permit = Some(Arc::new(permit));
        let (n_bytes, table) = (table.n_bytes, Arc::new(table));
        loading.finish(&table, n_bytes);
        self.reserve();
        Ok(Some(table))
    }

    /// Reserves what the largest load so far would take beyond the cached tables. Otherwise rows could
    /// take these bytes, and the next load would exceed the budget.
    fn reserve(&self) {
        let peak = self.peak_load.load(Relaxed);
        self.account.set_reserve(peak.saturating_sub(self.cache.n_bytes()));
    }

    /// Removes tables before this record batch while tables take more than `limit` bytes: in file
    /// order their rows were delivered, and the next tables reuse their memory.
    pub(crate) fn remove_before(&self, batch: BatchId, limit: usize) {
        self.cache.trim(limit, |other| *other < batch);
    }

    /// Removes all tables.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }

    /// `(hits, loads, bytes now)`.
    pub(crate) fn counts(&self) -> (u64, u64, usize) {
        let (hits, loads) = self.cache.counts();
        (hits, loads, self.cache.n_bytes())
    }
}
