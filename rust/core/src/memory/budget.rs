//! One budget in bytes for a process, with a share for each of its iterators.
//!
//! The process may hold as much as the largest `memory_budget` of its open iterators, and each
//! iterator its proportional part of that: one iterator all of it, two with equal budgets half each.
//! So iterators never wait for each other's memory, and sixty of them hold no more than one.

use std::{
    fmt, process,
    sync::{Arc, OnceLock, Weak},
};

use super::{Buffer, Recycler};
use crate::{
    error::Result,
    sync::{AtomicBool, AtomicUsize, Mutex, Ordering::SeqCst, lock},
};

/// One part in this many of the budget may be unused buffers.
const IDLE: usize = 8;

/// The memory of a process. Clones are the same memory.
///
/// Locks do not survive a fork: a child process needs a memory of its own.
#[derive(Clone, Debug, Default)]
pub struct Memory(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// What all open accounts may hold together.
    limit: AtomicUsize,
    used: AtomicUsize,
    accounts: Mutex<Vec<Weak<Account>>>,
    recycler: Arc<Recycler>,
}

impl Memory {
    /// Opens the account of an iterator that may hold `budget` bytes.
    pub fn open(&self, budget: usize) -> Arc<Account> {
        let account = Arc::new(Account {
            memory: self.clone(),
            budget,
            share: AtomicUsize::new(budget),
            used: AtomicUsize::new(0),
            peak: AtomicUsize::new(0),
            reserve: AtomicUsize::new(0),
            is_awaited: AtomicBool::new(false),
            on_free: OnceLock::new(),
            pid: process::id(),
        });
        let mut accounts = lock(&self.0.accounts);
        accounts.push(Arc::downgrade(&account));
        self.share_out(&mut accounts);
        account
    }

    /// Bytes that are held by all accounts together.
    pub fn used(&self) -> usize {
        self.0.used.load(SeqCst)
    }

    /// The unused buffers.
    pub(crate) fn buffers(&self) -> Arc<Recycler> {
        Arc::clone(&self.0.recycler)
    }

    /// Bytes of unused buffers.
    pub fn idle_bytes(&self) -> usize {
        self.0.recycler.idle_bytes()
    }

    /// Works out the shares of the open accounts. Returns those that may have gained.
    fn share_out(&self, accounts: &mut Vec<Weak<Account>>) -> Vec<Arc<Account>> {
        let open: Vec<_> = accounts.iter().filter_map(Weak::upgrade).collect();
        accounts.retain(|account| account.strong_count() > 0);
        let limit = open.iter().map(|account| account.budget).max().unwrap_or(0);
        let total: u128 = open.iter().map(|account| account.budget as u128).sum();
        for account in &open {
            let share = account.budget as u128 * limit as u128 / total.max(1);
            account.share.store(share as usize, SeqCst);
        }
        self.0.limit.store(limit, SeqCst);
        self.keep_idle();
        open
    }

    /// Unused buffers may take what nothing else does, up to a part of the budget: objects of
    /// Python's take more than is counted for them.
    fn keep_idle(&self) {
        let limit = self.0.limit.load(SeqCst);
        let most = limit / IDLE;
        self.0.recycler.set_limit(limit.saturating_sub(self.used()).min(most), most);
    }
}

/// What one iterator holds of the memory of its process.
pub struct Account {
    memory: Memory,
    /// What it was opened with.
    budget: usize,
    /// What it may hold now.
    share: AtomicUsize,
    used: AtomicUsize,
    peak: AtomicUsize,
    /// Bytes that requests leave free, for what only [`Self::try_take_reserved`] may take: of these,
    /// half of the share at most.
    reserve: AtomicUsize,
    /// Somebody wants more than there is, and is to be told when some comes back.
    is_awaited: AtomicBool,
    on_free: OnceLock<Box<dyn Fn() + Send + Sync>>,
    pid: u32,
}

impl Account {
    /// Calls `on_free` when bytes come back while they are awaited. It is called by whichever
    /// thread gave them back, and must neither block nor take a permit.
    pub fn call_when_freed(&self, on_free: impl Fn() + Send + Sync + 'static) {
        self.on_free.get_or_init(|| Box::new(on_free));
    }

    /// Whether `n_bytes` more fit, with the reserve left free.
    pub fn fits(&self, n_bytes: usize) -> bool {
        self.fits_reserved(n_bytes.saturating_add(self.reserve()))
    }

    /// Whether `n_bytes` more fit, out of the reserve too.
    pub fn fits_reserved(&self, n_bytes: usize) -> bool {
        self.used().saturating_add(n_bytes) <= self.share.load(SeqCst)
    }

    /// A permit for `n_bytes`, if they fit with the reserve left free.
    pub fn try_take(self: &Arc<Self>, n_bytes: usize) -> Option<Permit> {
        self.try_take_beside(n_bytes, self.reserve())
    }

    /// A permit for `n_bytes`, if they fit, out of the reserve too.
    pub fn try_take_reserved(self: &Arc<Self>, n_bytes: usize) -> Option<Permit> {
        self.try_take_beside(n_bytes, 0)
    }

    fn try_take_beside(self: &Arc<Self>, n_bytes: usize, reserve: usize) -> Option<Permit> {
        let share = self.share.load(SeqCst);
        let grown = |used: usize| {
            let wanted = used.saturating_add(n_bytes);
            (wanted.saturating_add(reserve) <= share).then_some(wanted)
        };
        let before = self.used.fetch_update(SeqCst, SeqCst, grown).ok()?;
        self.peak.fetch_max(before + n_bytes, SeqCst);
        self.memory.0.used.fetch_add(n_bytes, SeqCst);
        Some(Permit { account: Arc::clone(self), n_bytes })
    }

    /// A permit for `n_bytes`, whether they fit or not: for what everything else waits for.
    pub fn take(self: &Arc<Self>, n_bytes: usize) -> Permit {
        self.add(n_bytes);
        Permit { account: Arc::clone(self), n_bytes }
    }

    /// A buffer of `n_bytes` bytes with anything in it, which holds `permit`. Unused buffers make
    /// room for it.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::OutOfMemory`] where the system has none.
    pub fn buffer(&self, n_bytes: usize, permit: Permit) -> Result<Buffer> {
        let buffer = self.memory.0.recycler.take(n_bytes, Some(permit));
        self.make_room();
        buffer
    }

    /// Frees unused buffers beyond what the budget leaves: before memory is taken elsewhere.
    pub fn make_room(&self) {
        self.memory.keep_idle();
    }

    /// Bytes that requests leave free from now on, half of the account's share at most.
    pub fn set_reserve(&self, n_bytes: usize) {
        self.reserve.store(n_bytes, SeqCst);
    }

    /// Asked for anew each time, since the share falls when another iterator opens.
    fn reserve(&self) -> usize {
        self.reserve.load(SeqCst).min(self.share.load(SeqCst) / 2)
    }

    /// Asks to be told when bytes come back, or no longer. Look again after asking: some may have
    /// come back before.
    pub fn await_free(&self, is_awaited: bool) {
        self.is_awaited.store(is_awaited, SeqCst);
    }

    /// Bytes held now.
    pub fn used(&self) -> usize {
        self.used.load(SeqCst)
    }

    /// The most bytes that were held so far.
    pub fn peak(&self) -> usize {
        self.peak.load(SeqCst)
    }

    /// Bytes that may be held now: less than the budget while other iterators are open.
    pub fn limit(&self) -> usize {
        self.share.load(SeqCst)
    }

    /// Gives up the share. What is still held counts until it is dropped.
    pub fn close(&self) {
        let mut accounts = lock(&self.memory.0.accounts);
        accounts.retain(|account| !std::ptr::eq(account.as_ptr(), self));
        let others = self.memory.share_out(&mut accounts);
        drop(accounts);
        for account in others {
            account.tell();
        }
    }

    fn add(&self, n_bytes: usize) {
        let used = self.used.fetch_add(n_bytes, SeqCst).saturating_add(n_bytes);
        self.peak.fetch_max(used, SeqCst);
        self.memory.0.used.fetch_add(n_bytes, SeqCst);
    }

    fn give_back(&self, n_bytes: usize) {
        self.memory.0.used.fetch_sub(n_bytes, SeqCst);
        self.used.fetch_sub(n_bytes, SeqCst);
        self.tell();
    }

    fn tell(&self) {
        // A forked child has copies of the parent's arrays, and touches none of its locks.
        if self.is_awaited.load(SeqCst)
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
    /// How many.
    pub fn n_bytes(&self) -> usize {
        self.n_bytes
    }

    /// Whose they are.
    pub fn account(&self) -> &Arc<Account> {
        &self.account
    }

    /// Holds `n_bytes` from now on, whether they fit or not.
    pub fn set(&mut self, n_bytes: usize) {
        match n_bytes.checked_sub(self.n_bytes) {
            Some(more) => self.account.add(more),
            None => self.account.give_back(self.n_bytes - n_bytes),
        }
        self.n_bytes = n_bytes;
    }

    /// Takes `n_bytes` out of it into a permit of their own; what it lacks is taken whether it
    /// fits or not.
    #[must_use]
    pub fn split(&mut self, n_bytes: usize) -> Self {
        self.account.add(n_bytes.saturating_sub(self.n_bytes));
        self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
        Self { account: Arc::clone(&self.account), n_bytes }
    }

    /// Adds the bytes of another permit of the same account.
    pub fn merge(&mut self, mut other: Self) {
        debug_assert!(Arc::ptr_eq(&self.account, &other.account));
        self.n_bytes += std::mem::take(&mut other.n_bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.n_bytes > 0 {
            self.account.give_back(self.n_bytes);
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
    fn a_permit_gives_its_bytes_back() {
        let memory = Memory::default();
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
    fn the_reserve_stays_free_but_for_its_own() {
        let account = Memory::default().open(100);
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
        let memory = Memory::default();
        let account = memory.open(100);
        account.set_reserve(50);
        let other = memory.open(100);
        assert!(account.fits(25) && !account.fits(26), "half of a share of 50");
        other.close();
        assert!(account.fits(50) && !account.fits(51));
    }

    #[test]
    fn accounts_share_the_largest_budget() {
        let memory = Memory::default();
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
    fn those_who_wait_are_told() {
        let memory = Memory::default();
        let (account, told) = (memory.open(100), Arc::new(AtomicU64::new(0)));
        let count = Arc::clone(&told);
        account.call_when_freed(move || {
            count.fetch_add(1, SeqCst);
        });
        drop(account.take(10));
        assert_eq!(told.load(SeqCst), 0);
        account.await_free(true);
        drop(account.take(10));
        assert_eq!(told.load(SeqCst), 1);
        let other = memory.open(100);
        other.close();
        assert_eq!(told.load(SeqCst), 2, "a larger share is room too");
    }

    #[test]
    fn idle_buffers_take_only_what_is_left() {
        let memory = Memory::default();
        let account = memory.open(1_000_000);
        let buffer = |n| account.buffer(n, account.take(n)).unwrap();
        drop((buffer(40_000), buffer(50_000)));
        assert!(memory.idle_bytes() >= 90_000);
        drop((buffer(60_000), buffer(70_000), buffer(80_000)));
        assert!(memory.idle_bytes() <= 1_000_000 / IDLE, "{}", memory.idle_bytes());
        let all = account.take(950_000);
        account.make_room();
        assert!(memory.idle_bytes() <= 50_000, "{}", memory.idle_bytes());
        let rest = account.take(50_000);
        account.make_room();
        assert_eq!(memory.idle_bytes(), 0);
        drop((rest, all));
        account.close();
        assert_eq!((memory.used(), memory.idle_bytes()), (0, 0));
    }

    proptest! {
        #[test]
        fn threads_never_pass_the_limit(
            limit in 1usize..1000, asked in prop::collection::vec(1usize..600, 1..40),
        ) {
            let account = Memory::default().open(limit);
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
