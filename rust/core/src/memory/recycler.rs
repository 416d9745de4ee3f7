//! Buffers that are used again.

use std::{
    process,
    sync::{Arc, Weak},
};

use super::{ALIGNMENT, AlignedBuf, Permit};
use crate::{
    error::Result,
    sync::{AtomicUsize, Mutex, MutexGuard, Ordering::SeqCst, lock},
};

/// Smaller buffers are left to the allocator: they touch no page of their own.
const SMALLEST: usize = 4 << 10;

/// Beyond this many buffers, whole pages are no longer asked for: a process may have 65,530 mappings
/// by Linux's default, and others need some too.
const MOST_IN_PAGES: usize = 4 << 10;

/// The unused buffers of a process.
///
/// The first write to a fresh page costs many times what copying a page does, and the system's
/// allocator gives large blocks back as soon as they are freed. So a buffer is given again to the
/// next one who asks for as much, or up to a fifth less.
#[derive(Debug)]
pub struct Recycler {
    /// The most bytes that are kept unused.
    limit: AtomicUsize,
    /// What that never exceeds: the whole budget.
    max: AtomicUsize,
    /// The sum of the stock's capacities. Changed under its lock alone, so that no change is lost.
    idle_bytes: AtomicUsize,
    /// Buffers that somebody has.
    n_in_use: AtomicUsize,
    stock: Mutex<Stock>,
    pid: u32,
}

#[derive(Debug, Default)]
struct Stock {
    /// The one given back last at the end: it is the likeliest to be in the processor's caches.
    idle: Vec<AlignedBuf>,
}

impl Default for Recycler {
    fn default() -> Self {
        Self::keeping(0)
    }
}

impl Recycler {
    /// Keeps at most `limit` bytes that nobody uses.
    pub fn keeping(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            max: AtomicUsize::new(limit),
            idle_bytes: AtomicUsize::new(0),
            n_in_use: AtomicUsize::new(0),
            stock: Mutex::default(),
            pid: process::id(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        lock(&self.stock)
    }

    /// A buffer of `n_bytes` bytes with anything in it, which holds `permit`.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::OutOfMemory`] where the system has none.
    pub fn take(self: &Arc<Self>, n_bytes: usize, permit: Option<Permit>) -> Result<Buffer> {
        if n_bytes < SMALLEST {
            let buf = AlignedBuf::zeroed(n_bytes)?;
            return Ok(Buffer { buf, lease: Lease { home: Weak::new(), permit } });
        }
        let fits = n_bytes..=n_bytes.saturating_add(n_bytes / 4 + ALIGNMENT);
        let mut stock = self.lock();
        let found = stock.idle.iter().rposition(|buf| fits.contains(&buf.capacity()));
        let found = found.map(|at| stock.idle.remove(at));
        self.idle_bytes.fetch_sub(found.as_ref().map_or(0, AlignedBuf::capacity), SeqCst);
        let n_buffers = self.n_in_use.fetch_add(1, SeqCst) + stock.idle.len();
        drop(stock);
        let lease = Lease { home: Arc::downgrade(self), permit };
        let buf = match found {
            Some(mut buf) => {
                buf.set_len(n_bytes);
                buf
            }
            None if n_buffers < MOST_IN_PAGES => AlignedBuf::in_pages(n_bytes)?,
            None => AlignedBuf::zeroed(n_bytes)?,
        };
        Ok(Buffer { buf, lease })
    }

    /// Bytes of the buffers that nobody uses.
    pub fn idle_bytes(&self) -> usize {
        self.idle_bytes.load(SeqCst)
    }

    /// Keeps at most `limit` bytes that nobody uses from now on, and never more than `max`, however
    /// many bytes come back to the budget. The oldest buffers go first.
    pub fn set_limit(&self, limit: usize, max: usize) {
        self.max.store(max, SeqCst);
        self.limit.store(limit, SeqCst);
        self.trim();
    }

    fn trim(&self) {
        let limit = self.limit.load(SeqCst);
        if self.idle_bytes() <= limit {
            return;
        }
        let mut stock = self.lock();
        let (mut left, mut n_freed) = (self.idle_bytes(), 0);
        for buf in &stock.idle {
            if left <= limit {
                break;
            }
            left -= buf.capacity();
            n_freed += 1;
        }
        self.idle_bytes.store(left, SeqCst);
        let freed: Vec<_> = stock.idle.drain(..n_freed).collect();
        drop(stock);
        // Freeing large blocks takes time, and nobody needs to wait for it.
        drop(freed);
    }

    /// Keeps the buffer, if there is room: `n_freed` bytes of the budget are about to come back. In a
    /// forked child, where another thread may have held the lock, it is just freed.
    fn take_back(&self, buf: AlignedBuf, n_freed: usize) {
        if self.pid != process::id() {
            return;
        }
        let max = self.max.load(SeqCst);
        let grown = |limit: usize| Some(limit.saturating_add(n_freed).min(max));
        // It always succeeds.
        let _ = self.limit.fetch_update(SeqCst, SeqCst, grown);
        let mut stock = self.lock();
        if self.limit.load(SeqCst) == 0 {
            return;
        }
        self.idle_bytes.fetch_add(buf.capacity(), SeqCst);
        stock.idle.push(buf);
        drop(stock);
        self.trim();
    }
}

/// A buffer that goes back to its recycler, and whose permit goes back to the budget, when it is
/// dropped.
#[derive(Debug, Default)]
pub struct Buffer {
    buf: AlignedBuf,
    lease: Lease,
}

/// What a buffer has besides its bytes.
#[derive(Debug, Default)]
struct Lease {
    home: Weak<Recycler>,
    permit: Option<Permit>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(home) = self.home.upgrade() {
            home.n_in_use.fetch_sub(1, SeqCst);
        }
    }
}

impl Buffer {
    /// A buffer that no recycler takes back and no budget counts.
    pub fn free_standing(buf: AlignedBuf) -> Self {
        Self { buf, lease: Lease::default() }
    }

    /// A buffer of no recycler that holds this permit.
    pub(crate) fn holding(buf: AlignedBuf, permit: Permit) -> Self {
        Self { buf, lease: Lease { home: Weak::new(), permit: Some(permit) } }
    }

    /// The bytes of the budget that it holds.
    pub(crate) fn permit_mut(&mut self) -> &mut Option<Permit> {
        &mut self.lease.permit
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.buf.as_bytes()
    }

    /// The bytes, to write.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.buf.as_bytes_mut()
    }

    /// Leaves out what is behind the first `n_bytes` bytes.
    pub(crate) fn truncate(&mut self, n_bytes: usize) {
        self.buf.set_len(n_bytes.min(self.buf.as_bytes().len()));
    }

    /// Cuts it into `n` slots of `slot_bytes` each, which different threads may fill.
    pub(crate) fn into_slots(mut self, n: usize, slot_bytes: usize) -> (Vec<AlignedBuf>, Slots) {
        let (buf, lease) = (std::mem::take(&mut self.buf), std::mem::take(&mut self.lease));
        (buf.split(n, slot_bytes), Slots { lease })
    }
}

/// What is left of a buffer whose slots are being filled: where it goes back to, and its permit.
#[derive(Debug, Default)]
pub struct Slots {
    lease: Lease,
}

impl Slots {
    /// The buffer again, from all of its slots in their order.
    pub(crate) fn join(self, slots: impl IntoIterator<Item = AlignedBuf>) -> Buffer {
        Buffer { buf: AlignedBuf::join(slots), lease: self.lease }
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(home) = self.lease.home.upgrade() {
            let n_freed = self.lease.permit.as_ref().map_or(0, Permit::n_bytes);
            home.take_back(std::mem::take(&mut self.buf), n_freed);
        }
        // The permit follows, once the bytes are where the next one finds them.
    }
}

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests {
    use shuttle::thread;

    use super::*;

    const N: usize = 10_000;

    /// Buffers come and go, and the limit falls meanwhile.
    #[test]
    fn shuttle_idle_bytes_are_those_of_the_idle_buffers() {
        shuttle::check_random(
            || {
                let recycler = Arc::new(Recycler::keeping(4 * N));
                let threads = [1, 2].map(|n| {
                    let recycler = Arc::clone(&recycler);
                    thread::spawn(move || {
                        drop((recycler.take(n * N, None), recycler.take(N, None)));
                        drop(recycler.take(N, None));
                    })
                });
                recycler.set_limit(2 * N, 2 * N);
                threads.map(|thread| thread.join().unwrap());
                let idle: usize = recycler.lock().idle.iter().map(AlignedBuf::capacity).sum();
                assert_eq!(recycler.idle_bytes(), idle);
                assert_eq!(recycler.n_in_use.load(SeqCst), 0);
            },
            3_000,
        );
    }
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::*;

    const N: usize = 10_000;

    #[test]
    fn a_buffer_is_used_again_the_last_one_first() {
        let recycler = Arc::new(Recycler::keeping(10 * N));
        let (one, other) = (recycler.take(N, None).unwrap(), recycler.take(N, None).unwrap());
        let last = other.as_bytes().as_ptr();
        drop((one, other));
        assert!(recycler.idle_bytes() >= 2 * N);
        let again = recycler.take(N - N / 5, None).unwrap();
        assert_eq!(again.as_bytes().as_ptr(), last);
        assert_eq!(again.as_bytes().len(), N - N / 5);
        let small = recycler.take(N / 2, None).unwrap();
        assert!(recycler.idle_bytes() >= N, "half as much is not worth a whole buffer");
        drop((again, small));
    }

    #[test]
    fn idle_buffers_keep_to_the_limit() {
        let recycler = Arc::new(Recycler::keeping(3 * N));
        let all: Vec<_> = (0..9).map(|_| recycler.take(N, None).unwrap()).collect();
        drop(all);
        assert!((2 * N..=3 * N).contains(&recycler.idle_bytes()));
        recycler.set_limit(0, 0);
        assert_eq!(recycler.idle_bytes(), 0);
        drop(recycler.take(N, None).unwrap());
        assert_eq!(recycler.idle_bytes(), 0);
        assert_eq!((recycler.n_in_use.load(SeqCst), recycler.lock().idle.len()), (0, 0));
        let orphan = recycler.take(N, None).unwrap();
        drop(recycler);
        drop(orphan);
    }

    #[test]
    fn slots_become_the_buffer_again() {
        let recycler = Arc::new(Recycler::keeping(usize::MAX));
        let buffer = recycler.take(N, None).unwrap();
        let start = buffer.as_bytes().as_ptr();
        let (slots, rest) = buffer.into_slots(4, N / 4);
        let whole = rest.join(slots);
        assert_eq!((whole.as_bytes().as_ptr(), whole.as_bytes().len()), (start, N));
        drop(whole);
        assert!(recycler.idle_bytes() >= N);
    }

    #[test]
    fn slots_that_are_never_joined_are_no_longer_in_use() {
        let recycler = Arc::new(Recycler::keeping(usize::MAX));
        drop(recycler.take(N, None).unwrap().into_slots(4, N / 4));
        assert_eq!(recycler.n_in_use.load(SeqCst), 0);
    }

    #[test]
    fn large_buffers_are_whole_pages_unless_there_are_very_many() {
        let recycler = Arc::new(Recycler::keeping(0));
        let n_bytes = super::super::OWN_PAGES + 1;
        let in_pages = |buffer: &Buffer| {
            let whole = buffer.buf.capacity().next_multiple_of(super::super::ALIGNMENT);
            whole.is_multiple_of(super::super::PAGE)
        };
        let some: Vec<_> =
            (0..MOST_IN_PAGES).map(|_| recycler.take(n_bytes, None).unwrap()).collect();
        assert!(some.iter().all(in_pages));
        assert!(!in_pages(&recycler.take(n_bytes, None).unwrap()));
        drop(some);
        assert!(in_pages(&recycler.take(n_bytes, None).unwrap()));
    }
}
