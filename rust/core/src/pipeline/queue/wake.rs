//! Who is woken, and when: once the lock is free, since whoever is woken needs it at once.

use std::{
    ops::{Deref, DerefMut},
    sync::{MutexGuard, PoisonError},
    time::Duration,
};

use super::{Claim, Queue, Shared, State, Why};

/// The locked state. Those whom a change concerns are woken when it is let go: whoever woke under
/// the lock would fall asleep again over it, which is two switches of threads more.
pub(super) struct Locked<'a> {
    // In this order: the lock is free before anybody is woken.
    state: MutexGuard<'a, State>,
    calls: Calls<'a>,
}

/// Whom to wake.
struct Calls<'a> {
    queue: &'a Queue,
    /// One reader that waits for a row to claim.
    claiming: bool,
    /// All readers that wait for room for a row.
    charging: bool,
    consumer: bool,
}

impl Drop for Calls<'_> {
    fn drop(&mut self) {
        self.make();
    }
}

impl Calls<'_> {
    fn make(&mut self) {
        let Self { queue, claiming, charging, consumer } = self;
        if std::mem::take(claiming) {
            queue.room.notify_one();
        }
        if std::mem::take(charging) {
            queue.budget.notify_all();
        }
        if std::mem::take(consumer) {
            queue.ready.notify_all();
        }
    }
}

impl Deref for Locked<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Queue {
    pub(super) fn lock(&self) -> Locked<'_> {
        // A panic under this lock is contained by `Shared::fail`; the state stays usable.
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let calls = Calls { queue: self, claiming: false, charging: false, consumer: false };
        Locked { state, calls }
    }
}

impl Locked<'_> {
    /// Wakes one reader if it would find a row to claim, or the end; it wakes the next.
    pub(super) fn wake_claiming(&mut self, shared: &Shared) {
        let n_claiming = self.tally.n_asleep(&[Why::LookAhead, Why::NoRoomForBatch]);
        if n_claiming > 0 && !matches!(self.claimable(shared), Claim::Wait(_)) {
            self.calls.claiming = true;
        }
    }

    /// Lets all readers look again after bytes were freed.
    pub(super) fn wake_after_freeing(&mut self, shared: &Shared) {
        self.wake_claiming(shared);
        self.calls.charging |= self.tally.n_asleep(&[Why::NoRoomForRow]) > 0;
    }

    /// Lets the consumer look for its batch.
    pub(super) fn wake_consumer(&mut self) {
        self.calls.consumer = true;
    }

    /// A reader sleeps until this may have changed, counted among those who sleep for it.
    pub(super) fn sleep(mut self, why: Why) -> Self {
        self.tally.sleeps(why);
        self.calls.make();
        let Self { state, calls } = self;
        let condition = match why {
            Why::LookAhead | Why::NoRoomForBatch => &calls.queue.room,
            Why::NoRoomForRow => &calls.queue.budget,
        };
        let state = condition.wait(state).unwrap_or_else(PoisonError::into_inner);
        let mut woken = Self { state, calls };
        woken.tally.wakes(why);
        woken
    }

    /// Sleeps until there may be something for the consumer, at most for so long.
    pub(super) fn until_ready(mut self, most: Duration) -> Self {
        self.calls.make();
        let Self { state, calls } = self;
        let waited = calls.queue.ready.wait_timeout(state, most);
        let (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Self { state, calls }
    }
}
