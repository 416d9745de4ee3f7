//! Bytes of tables, counted until the last one who holds on to them lets go.

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed},
};

/// All tables that there are.
#[derive(Debug, Default)]
pub(crate) struct Live {
    bytes: AtomicUsize,
    /// Tables that had to make room, and are still in somebody's hands.
    n_leaving: Mutex<usize>,
    has_left: Condvar,
}

impl Live {
    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// Waits until none is left of those that [leave](Counted::leave). Whoever has one in hand must
    /// not wait for the caller.
    pub(crate) fn wait_for_leaving(&self) {
        let mut n_leaving = self.lock();
        while *n_leaving > 0 {
            n_leaving = self.has_left.wait(n_leaving).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.n_leaving.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bytes that count among the live ones until this is dropped.
#[derive(Debug)]
pub(crate) struct Counted {
    bytes: AtomicUsize,
    is_leaving: AtomicBool,
    live: Arc<Live>,
}

impl Counted {
    /// Adds `bytes` to the live ones.
    pub(crate) fn new(bytes: usize, live: &Arc<Live>) -> Self {
        live.bytes.fetch_add(bytes, Relaxed);
        let (bytes, is_leaving) = (AtomicUsize::new(bytes), AtomicBool::new(false));
        Self { bytes, is_leaving, live: Arc::clone(live) }
    }

    /// Lets it count for `bytes` from now on.
    pub(crate) fn set(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Relaxed);
        self.live.bytes.fetch_add(bytes, Relaxed);
        self.live.bytes.fetch_sub(before, Relaxed);
    }

    /// From now on its end is waited for.
    pub(crate) fn leave(&self) {
        let mut n_leaving = self.live.lock();
        if !self.is_leaving.swap(true, Relaxed) {
            *n_leaving += 1;
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.live.bytes.fetch_sub(*self.bytes.get_mut(), Relaxed);
        if !*self.is_leaving.get_mut() {
            return;
        }
        let mut n_leaving = self.live.lock();
        *n_leaving = n_leaving.saturating_sub(1);
        if *n_leaving == 0 {
            self.live.has_left.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_count_until_the_last_holder_is_gone() {
        let live = Arc::new(Live::default());
        let one = Arc::new(Counted::new(100, &live));
        assert_eq!(live.bytes(), 100);
        one.set(30);
        let other = (Counted::new(7, &live), Arc::clone(&one));
        assert_eq!(live.bytes(), 37);
        drop(one);
        assert_eq!(live.bytes(), 37, "somebody holds on to it");
        drop(other);
        assert_eq!(live.bytes(), 0);
    }

    #[test]
    fn only_what_leaves_is_waited_for() {
        let live = Arc::new(Live::default());
        let [one, _stays] = [10, 20].map(|bytes| Counted::new(bytes, &live));
        one.leave();
        one.leave();
        assert_eq!(*live.lock(), 1);
        drop(one);
        live.wait_for_leaving();
        assert_eq!(live.bytes(), 20);
    }
}
