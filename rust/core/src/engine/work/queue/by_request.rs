//! Rows that callers ask for, in any order.
//!
//! Rows begin in the order in which they were asked for, a few at a time, and each goes to its caller when it ends.
//! A parked row goes on whatever it waits for when no other is under way: so there is always one that
//! goes on, whatever callers hold on to. Rows are counted until they end, and not while threads work on them, so
//! that a thread that panics takes no row's place for ever.

use std::{
    collections::{BTreeSet, VecDeque},
    mem,
    sync::Arc,
};

use super::{Grant, Items, Order, Queue, Rows};
use crate::{engine::wait::WaitFor, memory::Account, metrics::IdleReason};

/// The rows that were asked for.
#[derive(Debug)]
pub(crate) struct ByRequest<W: Items> {
    /// Those that were not begun, with their numbers.
    asked: VecDeque<(u64, W::Parked)>,
    /// Those that were begun and have not ended.
    active: BTreeSet<u64>,
    /// The most rows under way.
    max_active: usize,
}

impl<W: Items> Order<W> for ByRequest<W> {
    type Held = VecDeque<(u64, W::Parked)>;

    fn claim(&mut self, rows: &mut Rows<W>) -> Option<Grant<W::Parked>> {
        if self.active.len() >= self.max_active {
            return None;
        }
        let (index, parked) = self.asked.pop_front()?;
        self.active.insert(index);
        rows.n_reading += 1;
        Some(Grant::Resume { parked, permit: None })
    }

    fn n_claimable(&self, _: &Rows<W>) -> Result<usize, Option<IdleReason>> {
        let n_free = self.max_active.saturating_sub(self.active.len());
        Ok(self.asked.len().min(n_free))
    }

    fn goes_on(&self, rows: &Rows<W>, _index: u64, _wait: WaitFor) -> bool {
        self.active.len() <= rows.parked.len()
    }

    fn take_held(&mut self) -> Self::Held {
        self.active.clear();
        mem::take(&mut self.asked)
    }
}

impl<W: Items> Queue<W, ByRequest<W>> {
    /// A queue of which at most `max_active` rows are under way at a time.
    pub(crate) fn by_request(account: Arc<Account>, max_active: usize) -> Self {
        let (asked, active) = (VecDeque::new(), BTreeSet::new());
        Self::with_order(account, ByRequest { asked, active, max_active })
    }

    /// Adds rows to those that are to be read, with numbers that no other row has.
    pub(crate) fn ask(&mut self, rows: impl IntoIterator<Item = (u64, W::Parked)>) {
        self.order.asked.extend(rows);
    }

    /// Takes out the rows that were not begun and of which `is_unwanted` is true, for the caller to drop without
    /// the lock.
    pub(crate) fn leave_out(
        &mut self,
        is_unwanted: impl Fn(&W::Parked) -> bool,
    ) -> Vec<(u64, W::Parked)> {
        let asked = mem::take(&mut self.order.asked).into_iter();
        let (left_out, kept) = asked.partition::<Vec<_>, _>(|(_, parked)| is_unwanted(parked));
        self.order.asked = kept.into();
        left_out
    }

    /// This row has ended, in whatever way. One that was not begun may end too.
    pub(crate) fn ended(&mut self, index: u64) {
        self.order.active.remove(&index);
    }
}
