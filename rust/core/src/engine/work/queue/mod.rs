//! Which rows are claimed, read and decoded next: a state machine.
//!
//! It has no threads, no locks, no clock and does no I/O. Events are method calls; they return what
//! may be done next: a [`Grant`], a row to decode, or a batch to deliver. The lock around it and the
//! wake-ups are in [`super::shared_queue`].
//!
//! A reader whose row needs more bytes than are free does not wait: the row is *parked*, and the reader goes on
//! with something else. Bytes are granted in the order of the rows' numbers. There is one exception to the
//! budget, so that there is always a row that goes on. It depends on the [`Order`], as does which row is claimed
//! next: rows are delivered [in order](InOrder), or to whoever [asked](ByRequest) for them.

mod by_request;
mod in_order;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod request_tests;
mod status;
#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests;

use std::{
    collections::{BTreeMap, VecDeque},
    fmt,
    ops::Range,
    sync::Arc,
};

pub use self::in_order::Next;
pub(crate) use self::{
    by_request::ByRequest,
    in_order::{CompleteBatch, InOrder, Limits},
    status::QueueDepths,
};
use crate::{
    engine::wait::WaitFor,
    memory::{Account, Permit},
    metrics::IdleReason,
};

/// The types of what passes through a queue.
pub(crate) trait Items {
    /// A claimed row (or batch) that cannot go on yet.
    type Parked: fmt::Debug;
    /// A row that is read, and waits for a decoder.
    type Read: fmt::Debug;
    /// A finished row.
    type Row: fmt::Debug;
    /// The part of its batch's buffer that one row fills.
    type Slot: fmt::Debug;
    /// The batch's buffer while its slots are filled.
    type Lease: Default + fmt::Debug;
    /// A batch.
    type Batch: fmt::Debug;
}

/// What a reader may do next.
#[derive(Debug)]
pub(crate) enum Grant<P> {
    /// Allocate a batch's buffer, for which this is the permit, call [`Queue::open_batch`], and ask
    /// again.
    Open(Permit),
    /// Read these rows: one, or those of a batch.
    Claim(Range<u64>),
    /// Go on with a parked row, with the bytes that it waited for.
    Resume { parked: P, permit: Option<Permit> },
}

/// The event that a parked row waits for has not happened.
struct NotYet;

/// See the [module](self).
#[derive(Debug)]
pub(crate) struct Queue<W: Items, O = InOrder<W>> {
    rows: Rows<W>,
    order: O,
}

/// The rows of a queue that were claimed.
#[derive(Debug)]
pub(crate) struct Rows<W: Items> {
    account: Arc<Account>,
    parked: BTreeMap<u64, (W::Parked, WaitFor)>,
    /// Rows that wait for a decoder, in their order.
    read: VecDeque<(u64, W::Read)>,
    n_reading: usize,
    n_decoding: usize,
    /// Loads that have ended.
    n_loads: u64,
}

/// Which rows are claimed, and which of them go on beyond the budget.
pub(crate) trait Order<W: Items> {
    /// What it holds of rows.
    type Held;

    /// What a reader may begin, if no parked row can go on.
    fn claim(&mut self, rows: &mut Rows<W>) -> Option<Grant<W::Parked>>;

    /// How many readers would find something to claim.
    ///
    /// # Errors
    ///
    /// Why none would, if that is not because of a parked row.
    fn n_claimable(&self, rows: &Rows<W>) -> Result<usize, Option<IdleReason>>;

    /// Whether this parked row goes on though what it waits for has not come, since nothing is being done that
    /// could bring it.
    fn goes_on(&self, rows: &Rows<W>, index: u64, wait: WaitFor) -> bool;

    /// A row was read.
    fn was_read(&mut self, _index: u64) {}

    /// Takes the slot of a row that is to be decoded.
    fn take_slot(&mut self, _index: u64) -> Option<W::Slot> {
        None
    }

    /// Takes the slot back of a row that must be read again.
    fn put_slot(&mut self, _index: u64, _slot: Option<W::Slot>) {}

    /// Whether a consumer that waits would get something.
    fn is_ready(&self) -> bool {
        false
    }

    /// Takes out what holds memory.
    fn take_held(&mut self) -> Self::Held;
}

impl<W: Items> Rows<W> {
    /// The first parked row that can go on, with the bytes that it waited for.
    fn resumable(&self, order: &impl Order<W>) -> Option<(u64, Option<Permit>)> {
        let mut waits_for_bytes = false;
        for (index, (_, wait)) in &self.parked {
            // In the order of their numbers: rows behind one that does not fit wait too.
            let is_first = !matches!(wait, WaitFor::Bytes { .. })
                || !std::mem::replace(&mut waits_for_bytes, true);
            if is_first && let Ok(permit) = self.granted(order, *index, *wait) {
                return Some((*index, permit));
            }
        }
        None
    }

    /// Whether a parked row can go on, and the bytes that it waited for. If it waits for bytes, no row
    /// before it may.
    fn granted(
        &self,
        order: &impl Order<W>,
        index: u64,
        wait: WaitFor,
    ) -> Result<Option<Permit>, NotYet> {
        match wait {
            WaitFor::Reader => Ok(None),
            WaitFor::Load { after } => {
                let goes_on = after != self.n_loads || order.goes_on(self, index, wait);
                if goes_on { Ok(None) } else { Err(NotYet) }
            }
            WaitFor::Bytes { n_bytes, from_reserve } => {
                let fitting = if from_reserve {
                    self.account.try_take_reserved(n_bytes)
                } else {
                    self.account.try_take(n_bytes)
                };
                let forced =
                    || order.goes_on(self, index, wait).then(|| self.account.take(n_bytes));
                fitting.or_else(forced).map(Some).ok_or(NotYet)
            }
        }
    }

    /// Whether a parked row waits for bytes.
    fn waits_for_bytes(&self) -> bool {
        self.parked.values().any(|(_, wait)| matches!(wait, WaitFor::Bytes { .. }))
    }
}

impl<W: Items, O: Order<W>> Queue<W, O> {
    /// A queue of rows in this order, with memory of this account.
    pub(crate) fn with_order(account: Arc<Account>, order: O) -> Self {
        let (parked, read) = (BTreeMap::new(), VecDeque::new());
        let (n_reading, n_decoding, n_loads) = (0, 0, 0);
        Self { rows: Rows { account, parked, read, n_reading, n_decoding, n_loads }, order }
    }

    /// What the calling reader may do; `None` for nothing.
    pub(crate) fn next_read(&mut self) -> Option<Grant<W::Parked>> {
        let Self { rows, order } = self;
        if let Some((index, permit)) = rows.resumable(&*order) {
            let (parked, _) = rows.parked.remove(&index)?;
            rows.n_reading += 1;
            return Some(Grant::Resume { parked, permit });
        }
        order.claim(rows)
    }

    /// Whether a parked row waits for bytes.
    pub(crate) fn waits_for_bytes(&self) -> bool {
        self.rows.waits_for_bytes()
    }

    /// Parks a claimed row that cannot go on. Returns it, with the bytes that it waited for, if it can
    /// go on by now.
    pub(crate) fn park(
        &mut self,
        index: u64,
        parked: W::Parked,
        wait: WaitFor,
    ) -> Option<(W::Parked, Option<Permit>)> {
        let Self { rows, order } = self;
        // This reader no longer counts as one that may free bytes.
        rows.n_reading = rows.n_reading.saturating_sub(1);
        let waits_for_bytes = |(_, wait): &(_, WaitFor)| matches!(wait, WaitFor::Bytes { .. });
        let is_behind = matches!(wait, WaitFor::Bytes { .. })
            && rows.parked.range(..index).any(|(_, parked)| waits_for_bytes(parked));
        let granted = if is_behind { Err(NotYet) } else { rows.granted(&*order, index, wait) };
        let Ok(permit) = granted else {
            rows.parked.insert(index, (parked, wait));
            return None;
        };
        rows.n_reading += 1;
        Some((parked, permit))
    }

    /// A load has ended, successfully or not.
    pub(crate) fn load_ended(&mut self) {
        self.rows.n_loads += 1;
    }

    /// The number of loads that have ended.
    pub(crate) fn n_loads(&self) -> u64 {
        self.rows.n_loads
    }

    /// A row has been read, and waits for a decoder.
    pub(crate) fn push_read(&mut self, index: u64, read: W::Read) {
        let Self { rows, order } = self;
        rows.n_reading = rows.n_reading.saturating_sub(1);
        order.was_read(index);
        // Most rows are read in their order.
        let before = rows.read.iter().rposition(|(other, _)| *other < index);
        rows.read.insert(before.map_or(0, |at| at + 1), (index, read));
    }

    /// The first of the rows that wait for a decoder, with its slot.
    pub(crate) fn next_decode(&mut self) -> Option<(u64, W::Read, Option<W::Slot>)> {
        let (index, read) = self.rows.read.pop_front()?;
        self.rows.n_decoding += 1;
        Some((index, read, self.order.take_slot(index)))
    }

    /// Something else is to be read for a row that was being decoded. Its slot is free again.
    pub(crate) fn replace(&mut self, index: u64, parked: W::Parked, slot: Option<W::Slot>) {
        let Self { rows, order } = self;
        rows.n_decoding = rows.n_decoding.saturating_sub(1);
        order.put_slot(index, slot);
        rows.parked.insert(index, (parked, WaitFor::Reader));
    }

    /// Takes out everything that holds memory, for the caller to drop without the lock.
    pub(crate) fn clear(&mut self) -> impl Sized + use<W, O> {
        let Self { rows, order } = self;
        (order.take_held(), std::mem::take(&mut rows.parked), std::mem::take(&mut rows.read))
    }
}
