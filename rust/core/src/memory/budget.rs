//! One budget in bytes for a process, with a share for each of its iterators.
//!
//! The process may hold as much as the largest `memory_budget` of its open iterators, and each
//! iterator a share of it in proportion to its own: one iterator all of it, two with equal budgets
//! half each. So iterators never wait for each other's memory, and sixty hold no more than one.

use std::{
    fmt, process,
    sync::{Arc, OnceLock, Weak},
};

use super::{Buffer, BufferPool};
use crate::{
    error::Result,
    sync::{AtomicBool, AtomicUsize, Mutex, Ordering::SeqCst, lock},
};

/// The part of the budget that idle buffers may take, as a divisor.
const IDLE_SHARE: usize = 8;

/// The memory of a process. Clones are the same pool.
///
/// Locks do not survive a fork: a child process needs a pool of its own.
#[derive(Clone, Debug, Default)]
pub struct MemoryPool(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// The most bytes that all open accounts may hold together.
    limit: AtomicUsize,
    used: AtomicUsize,
    accounts: Mutex<Vec<Weak<Account>>>,
    buffers: Arc<BufferPool>,
}

impl MemoryPool {
    /// Opens the account of an iterator with this `memory_budget`.
    pub fn open(&self, budget: usize) -> Arc<Account> {
        let account = Arc::new(Account {
            pool: self.clone(),
            budget,
            share: AtomicUsize::new(budget),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            reserve: AtomicUsize::new(0),
            has_waiter: AtomicBool::new(false),
            on_free: OnceLock::new(),
            pid: process::id(),
        });
        let mut accounts = lock(&self.0.accounts);
        accounts.push(Arc::downgrade(&account));
        self.compute_shares(&mut accounts);
        account
    }

    /// Bytes that all accounts hold together.
    pub fn used(&self) -> usize {
        self.0.used.load(SeqCst)
    }

    /// The idle buffers.
    pub(crate) fn buffers(&self) -> Arc<BufferPool> {
        Arc::clone(&self.0.buffers)
    }

    /// Bytes of idle buffers.
    pub fn idle_bytes(&self) -> usize {
        self.0.buffers.idle_bytes()
    }

    /// Computes the shares of the open accounts, and returns these.
    fn compute_shares(&self, accounts: &mut Vec<Weak<Account>>) -> Vec<Arc<Account>> {
        let open: Vec<_> = accounts.iter().filter_map(Weak::upgrade).collect();
        accounts.retain(|account| account.strong_count() > 0);
        let limit = open.iter().map(|account| account.budget).max().unwrap_or(0);
        let total: u128 = open.iter().map(|account| account.budget as u128).sum();
        for account in &open {
            let share = account.budget as u128 * limit as u128 / total.max(1);
            account.share.store(share as usize, SeqCst);
        }
        self.0.limit.store(limit, SeqCst);
        self.trim_idle();
        open
    }

    /// Frees idle buffers beyond the unused budget, and beyond a part of it: Python objects take more
    /// memory than is counted for them.
    fn trim_idle(&self) {
        let limit = self.0.limit.load(SeqCst);
        let max = limit / IDLE_SHARE;
        self.0.buffers.set_limit(limit.saturating_sub(self.used()).min(max), max);
    }
}

/// The bytes that one iterator holds of its process's memory.
pub struct Account {
    pool: MemoryPool,
    /// The iterator's `memory_budget`.
    budget: usize,
    /// The most bytes that it may hold now.
    share: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
    /// Bytes that only [`Self::try_take_reserved`] takes; at most half of the share counts.
    reserve: AtomicUsize,
    /// Whether `on_free` is called.
    has_waiter: AtomicBool,
    on_free: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pid: u32,
}

impl Account {
    /// Sets the function that is called when bytes are freed, while [`Self::notify_when_freed`] asks
    /// for it. The thread that frees them calls it, so it must neither block nor take a permit.
    pub fn on_free(&self, on_free: impl Fn() + Send + Sync + 'static) {
        self.on_free.get_or_init(|| Box::new(on_free));
    }

    /// Whether `n_bytes` more fit without the reserve.
    pub fn fits(&self, n_bytes: usize) -> bool {
        self.fits_reserved(n_bytes.saturating_add(self.reserve()))
    }

    /// Whether `n_bytes` more fit, the reserve included.
    pub fn fits_reserved(&self, n_bytes: usize) -> bool {
        self.used().saturating_add(n_bytes) <= self.share.load(SeqCst)
    }

    /// A permit for `n_bytes`, if they fit without the reserve.
    pub fn try_take(self: &Arc<Self>, n_bytes: usize) -> Option<Permit> {
        self.try_take_leaving(n_bytes, self.reserve())
    }

    /// A permit for `n_bytes`, if they fit, the reserve included.
    pub fn try_take_reserved(self: &Arc<Self>, n_bytes: usize) -> Option<Permit> {
        self.try_take_leaving(n_bytes, 0)
    }

    fn try_take_leaving(self: &Arc<Self>, n_bytes: usize, reserve: usize) -> Option<Permit> {
        let share = self.share.load(SeqCst);
        let grown = |used: usize| {
            let wanted = used.saturating_add(n_bytes);
            (wanted.saturating_add(reserve) <= share).then_some(wanted)
        };
        let before = self.used.fetch_update(SeqCst, SeqCst, grown).ok()?;
        self.peak.fetch_max(before + n_bytes, SeqCst);
        self.pool.0.used.fetch_add(n_bytes, SeqCst);
        Some(Permit { account: Arc::clone(self), n_bytes })
    }

    /// A permit for `n_bytes`, even beyond the budget: for bytes that are already there, or that
    /// everything else waits for.
    pub fn take(self: &Arc<Self>, n_bytes: usize) -> Permit {
        self.add(n_bytes);
        Permit { account: Arc::clone(self), n_bytes }
    }

    /// A buffer of `n_bytes` arbitrary bytes, which holds `permit`. Idle buffers beyond the budget are
    /// freed.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub fn buffer(&self, n_bytes: usize, permit: Permit) -> Result<Buffer> {
        let buffer = self.pool.0.buffers.take(n_bytes, Some(permit));
        self.trim_idle();
        buffer
    }

    /// Frees idle buffers beyond the budget: for callers that take memory elsewhere.
    pub fn trim_idle(&self) {
        self.pool.trim_idle();
    }

    /// Sets the reserve, of which at most half of the account's share counts.
    pub fn set_reserve(&self, n_bytes: usize) {
        self.reserve.store(n_bytes, SeqCst);
    }

    /// The reserve by the share now, which is smaller while other iterators are open.
    fn reserve(&self) -> usize {
        self.reserve.load(SeqCst).min(self.share.load(SeqCst) / 2)
    }

    /// Whether to call the function set by [`Self::on_free`]. Check for free bytes after asking: some
    /// may have been freed before.
    pub fn notify_when_freed(&self, notify: bool) {
        self.has_waiter.store(notify, SeqCst);
    }

    /// Bytes held now.
    pub fn used(&self) -> usize {
        self.used.load(SeqCst)
    }

    /// The most bytes held so far.
    pub fn peak(&self) -> usize {
        self.peak.load(SeqCst)
    }

    /// The most bytes that may be held now: less than the budget while other iterators are open.
    pub fn limit(&self) -> usize {
        self.share.load(SeqCst)
    }

    /// Gives the share to the other accounts. Permits that are still held count until they are
    /// dropped.
    pub fn close(&self) {
        let mut accounts = lock(&self.pool.0.accounts);
        accounts.retain(|account| !std::ptr::eq(account.as_ptr(), self));
        let others = self.pool.compute_shares(&mut accounts);
        drop(accounts);
        for account in others {
            account.notify();
        }
    }

    fn add(&self, n_bytes: usize) {
        let used = self.used.fetch_add(n_bytes, SeqCst).saturating_add(n_bytes);
        self.peak.fetch_max(used, SeqCst);
        self.pool.0.used.fetch_add(n_bytes, SeqCst);
    }

    fn free(&self, n_bytes: usize) {
        self.pool.0.used.fetch_sub(n_bytes, SeqCst);
        self.used.fetch_sub(n_bytes, SeqCst);
        self.notify();
    }

    fn notify(&self) {
        // A forked child frees copies of the parent's arrays, and must not touch its locks.
        if self.has_waiter.load(SeqCst)
            && self.pid == process::id()
            && let Some(on_free) = self.on_free.get()
        {
            on_free();
        }
    }
}

impl fmt::Debug for Account {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (used, limit) = (self.used(), self.limit());
        f.debug_struct("Account")
            .field("used", &used)
            .field("limit", &limit)
            .finish_non_exhaustive()
    }
}

/// Bytes of the budget, held until this is dropped.
#[derive(Debug)]
pub struct Permit {
    account: Arc<Account>,
    n_bytes: usize,
}

impl Permit {
    /// The number of bytes.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// The account that they are of.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Changes the number of bytes, even beyond the budget.
    pub fn set(&mut self, n_bytes: usize) {
        match n_bytes.checked_sub(self.n_bytes) {
            Some(more) => self.account.add(more),
            None => self.account.free(self.n_bytes - n_bytes),
        }
        self.n_bytes = n_bytes;
    }

    /// Moves `n_bytes` into a permit of their own. Bytes that this one lacks are taken even beyond the
    /// budget.
    #[must_use]
    pub fn split(&mut self, n_bytes: usize) -> Self {
        self.account.add(n_bytes.saturating_sub(self.n_bytes));
        self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
        Self { account: Arc::clone(&self.account), n_bytes }
    }

    /// Adds the bytes of another permit of this account.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.account, &other.account));
        self.n_bytes += std::mem::take(&mut other.n_bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.n_bytes > 0 {
            self.account.free(self.n_bytes);
        }
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use std::{sync::atomic::AtomicU64, thread};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_permit_returns_its_bytes() {
        let memory = MemoryPool::default();
        let account = memory.open(100);
        let mut one = account.try_take(60).unwrap();
        assert!(account.try_take(41).is_none() && account.fits(40));
        let part = one.split(20);
        assert_eq!((account.used(), one.n_bytes(), part.n_bytes()), (60, 40, 20));
        one.merge(part);
        one.set(10);
        assert_eq!((account.used(), memory.used()), (10, 10));
        let over = account.take(200);
        assert_eq!((account.used(), account.peak()), (210, 210));
        drop((one, over));
        assert_eq!((account.used(), memory.used(), account.peak()), (0, 0, 210));
    }

    #[test]
    fn the_reserve_is_left_free_by_other_requests() {
        let account = MemoryPool::default().open(100);
        account.set_reserve(30);
        let held = account.try_take(70).unwrap();
        assert!(account.try_take(1).is_none());
        assert!(account.try_take_reserved(31).is_none());
        assert_eq!(account.try_take_reserved(30).unwrap().n_bytes(), 30);
        drop(held);
        account.set_reserve(1000);
        assert!(account.fits(50) && !account.fits(51), "half of the share at most");
    }

    #[test]
    fn the_reserve_falls_with_the_share() {
        let memory = MemoryPool::default();
        let account = memory.open(100);
        account.set_reserve(50);
        let other = memory.open(100);
        assert!(account.fits(25) && !account.fits(26), "half of a share of 50");
        other.close();
        assert!(account.fits(50) && !account.fits(51));
    }

    #[test]
    fn accounts_share_the_largest_budget() {
        let memory = MemoryPool::default();
        let one = memory.open(1000);
        let other = memory.open(1000);
        assert_eq!((one.limit(), other.limit()), (500, 500));
        let small = memory.open(500);
        assert_eq!((one.limit(), other.limit(), small.limit()), (400, 400, 200));
        other.close();
        drop(small);
        let again = memory.open(1000);
        assert_eq!((one.limit(), again.limit()), (500, 500));
        again.close();
        one.close();
        assert_eq!(memory.idle_bytes(), 0);
    }

    #[test]
    fn freed_bytes_are_notified() {
        let memory = MemoryPool::default();
        let (account, n_calls) = (memory.open(100), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&n_calls);
        account.on_free(move || {
            count.fetch_add(1, SeqCst);
        });
        drop(account.take(10));
        assert_eq!(n_calls.load(SeqCst), 0);
        account.notify_when_freed(true);
        drop(account.take(10));
        assert_eq!(n_calls.load(SeqCst), 1);
        let other = memory.open(100);
        other.close();
        assert_eq!(n_calls.load(SeqCst), 2, "a larger share frees bytes too");
    }

    #[test]
    fn idle_buffers_take_only_the_unused_budget() {
        let memory = MemoryPool::default();
        let account = memory.open(1_000_000);
        let buffer = |n| account.buffer(n, account.take(n)).unwrap();
        assert!(buffer(100_000).is_kept() && !buffer(150_000).is_kept());
        drop((buffer(40_000), buffer(50_000)));
        assert!(memory.idle_bytes() >= 90_000);
        drop((buffer(60_000), buffer(70_000), buffer(80_000)));
        assert!(memory.idle_bytes() <= 1_000_000 / IDLE_SHARE, "{}", memory.idle_bytes());
        let all = account.take(950_000);
        account.trim_idle();
        assert!(memory.idle_bytes() <= 50_000, "{}", memory.idle_bytes());
        let others = account.take(50_000);
        account.trim_idle();
        assert_eq!(memory.idle_bytes(), 0);
        drop((others, all));
        account.close();
        assert_eq!((memory.used(), memory.idle_bytes()), (0, 0));
    }

    proptest! {
        #[test]
        fn threads_never_pass_the_limit(
            limit in 1usize..1000, asked in prop::collection::vec(1usize..600, 1..40),
        ) {
            let account = MemoryPool::default().open(limit);
            thread::scope(|scope| {
                for part in asked.chunks(10) {
                    let account = &account;
                    scope.spawn(move || {
                        let held: Vec<_> =
                            part.iter().filter_map(|n| account.try_take(*n)).collect();
                        assert!(held.iter().map(Permit::n_bytes).sum::<usize>() <= limit);
                    });
                }
            });
            prop_assert_eq!(account.used(), 0);
        }
    }
}
