//! Bytes of the budget: who may take them, and who waits for them.

use super::{Locked, Queue, Shared, Why};

impl Queue {
    /// Waits until `bytes` more fit the budget, or row `index` is the one that all wait for, and
    /// charges them. Returns the bytes of the budget that nothing is charged for then.
    pub(in crate::pipeline) fn charge(&self, shared: &Shared, index: u64, bytes: usize) -> usize {
        let (mut state, taken) = self.fitting(shared, index, bytes, Shared::room_to_keep);
        state.used += bytes;
        drop(state);
        shared.left_of_budget(taken)
    }

    /// Charges `bytes` whether they fit or not, so that others wait the longer; as [`Self::charge`].
    pub(in crate::pipeline) fn charge_at_once(&self, shared: &Shared, bytes: usize) -> usize {
        let mut state = self.lock();
        state.used += bytes;
        let taken = state.used.saturating_add(shared.other_bytes());
        state.tally.uses(taken);
        drop(state);
        shared.left_of_budget(taken)
    }

    /// Frees bytes that were charged for a row before it is filed.
    pub(in crate::pipeline) fn release(&self, shared: &Shared, bytes: usize) {
        let mut state = self.lock();
        state.used = state.used.saturating_sub(bytes);
        state.wake_after_freeing(shared);
    }

    /// As [`Self::charge`], for a table, whose bytes are counted elsewhere.
    pub(in crate::pipeline) fn wait_for(&self, shared: &Shared, index: u64, bytes: usize) {
        drop(self.fitting(shared, index, bytes, |_| 0));
    }

    /// Also says how many bytes are taken, those among them. `kept` is what is to stay free besides.
    fn fitting(
        &self,
        shared: &Shared,
        index: u64,
        bytes: usize,
        kept: fn(&Shared) -> usize,
    ) -> (Locked<'_>, usize) {
        let mut state = self.lock();
        loop {
            // Worked out once for the look and for the peak: it is several locks.
            let taken = state.used.saturating_add(shared.other_bytes()).saturating_add(bytes);
            let is_awaited =
                || state.unfinished.first_key_value().is_some_and(|(first, _)| *first == index);
            let fits = || taken.saturating_add(kept(shared)) <= shared.options.memory_budget;
            if shared.is_closed() || is_awaited() || fits() {
                state.tally.uses(taken);
                return (state, taken);
            }
            state = state.sleep(Why::NoRoomForRow);
        }
    }

    /// Bytes of the budget that nothing is charged for.
    pub(in crate::pipeline) fn headroom(&self, shared: &Shared) -> usize {
        let others = shared.other_bytes();
        shared.left_of_budget(self.lock().used.saturating_add(others))
    }

    /// Lets waiting readers look again for room: a batch buffer has come back.
    pub(in crate::pipeline) fn wake_readers(&self, shared: &Shared) {
        // Under the lock, so that no reader is between its look and its sleep.
        self.lock().wake_after_freeing(shared);
    }
}
