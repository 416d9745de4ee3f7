//! Buffers that are reused.

use std::{
    process,
    sync::{Arc, Weak},
};

use super::{ALIGNMENT, AlignedBuf, Permit};
use crate::{
    error::Result,
    sync::{AtomicUsize, Mutex, Ordering::SeqCst, lock},
};

/// Smaller buffers are not pooled, since they do not cause page faults of their own.
const SMALLEST: usize = 4 << 10;

/// Beyond this many buffers, large ones are no longer mapped by themselves: by default, Linux allows
/// a process 65,530 mappings.
const MAX_MAPPED: usize = 4 << 10;

/// The idle buffers of a process.
///
/// A page fault costs many times what copying a page does, and the system's allocator returns large
/// blocks to the system as soon as they are freed. So an idle buffer serves the next request for its
/// size, or for up to a fifth less.
#[derive(Debug)]
pub struct BufferPool {
    /// The most bytes of idle buffers now, and at any time.
    limit: AtomicUsize,
    max: AtomicUsize,
    /// The sum of the idle buffers' capacities. Changed only under their lock.
    idle_bytes: AtomicUsize,
    n_in_use: AtomicUsize,
    /// The last one was returned last: it is the likeliest to be in the processor's caches.
    idle: Mutex<Vec<AlignedBuf>>,
    pid: u32,
}

impl Default for BufferPool {
    fn default() -> Self {
        Self::new(0)
    }
}

impl BufferPool {
    /// Keeps at most `limit` bytes of idle buffers.
    pub fn new(limit: usize) -> Self {
        Self {
            limit: AtomicUsize::new(limit),
            max: AtomicUsize::new(limit),
            idle_bytes: AtomicUsize::new(0),
            n_in_use: AtomicUsize::new(0),
            idle: Mutex::default(),
            pid: process::id(),
        }
    }

    /// A buffer of `n_bytes` arbitrary bytes, which holds `permit`.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub fn take(self: &Arc<Self>, n_bytes: usize, permit: Option<Permit>) -> Result<Buffer> {
        if n_bytes < SMALLEST {
            let buf = AlignedBuf::zeroed(n_bytes)?;
            return Ok(Buffer { buf, lease: Lease { pool: Weak::new(), permit } });
        }
        let fits = n_bytes..=n_bytes.saturating_add(n_bytes / 4 + ALIGNMENT);
        let mut idle = lock(&self.idle);
        let found = idle.iter().rposition(|buf| fits.contains(&buf.capacity()));
        let found = found.map(|at| idle.remove(at));
        self.idle_bytes.fetch_sub(found.as_ref().map_or(0, AlignedBuf::capacity), SeqCst);
        let n_buffers = self.n_in_use.fetch_add(1, SeqCst) + idle.len();
        drop(idle);
        let lease = Lease { pool: Arc::downgrade(self), permit };
        let buf = match found {
            Some(mut buf) => {
                buf.set_len(n_bytes);
                buf
            }
            None if n_buffers < MAX_MAPPED => AlignedBuf::in_pages(n_bytes)?,
            None => AlignedBuf::zeroed(n_bytes)?,
        };
        Ok(Buffer { buf, lease })
    }

    /// Bytes of idle buffers.
    pub fn idle_bytes(&self) -> usize {
        self.idle_bytes.load(SeqCst)
    }

    /// Keeps at most `limit` bytes of idle buffers from now on. The limit rises, to at most `max`, by
    /// the bytes that returned buffers free. The oldest buffers are dropped first.
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
        let mut idle = lock(&self.idle);
        let (mut left, mut n_freed) = (self.idle_bytes(), 0);
        for buf in &*idle {
            if left <= limit {
                break;
            }
            left -= buf.capacity();
            n_freed += 1;
        }
        self.idle_bytes.store(left, SeqCst);
        let freed: Vec<_> = idle.drain(..n_freed).collect();
        // Freeing large blocks takes time.
        drop(idle);
        drop(freed);
    }

    /// Keeps the buffer, if there is room. `n_freed` bytes are about to return to the budget. In a
    /// forked child, where a thread of the parent may hold the lock, the buffer is freed.
    fn put_back(&self, buf: AlignedBuf, n_freed: usize) {
        if self.pid != process::id() {
            return;
        }
        let max = self.max.load(SeqCst);
        let raised = |limit: usize| Some(limit.saturating_add(n_freed).min(max));
        // Always succeeds.
        let _ = self.limit.fetch_update(SeqCst, SeqCst, raised);
        if self.limit.load(SeqCst) == 0 {
            return;
        }
        let mut idle = lock(&self.idle);
        self.idle_bytes.fetch_add(buf.capacity(), SeqCst);
        idle.push(buf);
        drop(idle);
        self.trim();
    }
}

/// A buffer. When it is dropped, it returns to its pool, and its permit to the budget.
#[derive(Debug, Default)]
pub struct Buffer {
    buf: AlignedBuf,
    lease: Lease,
}

/// The pool and the permit of a buffer, whose bytes may have been split into slots.
#[derive(Debug, Default)]
pub struct Lease {
    pool: Weak<BufferPool>,
    permit: Option<Permit>,
}

impl Lease {
    /// The buffer again, from all of its slots in their order.
    pub(crate) fn join(self, slots: impl IntoIterator<Item = AlignedBuf>) -> Buffer {
        Buffer { buf: AlignedBuf::join(slots), lease: self }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(pool) = self.pool.upgrade() {
            pool.n_in_use.fetch_sub(1, SeqCst);
        }
    }
}

impl Buffer {
    /// A buffer of no pool and without a permit.
    pub fn unpooled(buf: AlignedBuf) -> Self {
        Self { buf, lease: Lease::default() }
    }

    /// A buffer of no pool that holds this permit.
    pub(crate) fn with_permit(buf: AlignedBuf, permit: Permit) -> Self {
        Self { buf, lease: Lease { pool: Weak::new(), permit: Some(permit) } }
    }

    /// Whether its memory is kept for later requests if it is dropped now, as far as the budget has room.
    pub fn is_kept(&self) -> bool {
        let pool = self.lease.pool.upgrade();
        pool.is_some_and(|pool| self.buf.capacity() <= pool.limit.load(SeqCst))
    }

    /// Its permit.
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

    /// Keeps only the first `n_bytes` bytes.
    pub(crate) fn truncate(&mut self, n_bytes: usize) {
        self.buf.set_len(n_bytes.min(self.buf.as_bytes().len()));
    }

    /// Splits it into `n` slots of `slot_bytes` each, which different threads may fill.
    pub(crate) fn into_slots(mut self, n: usize, slot_bytes: usize) -> (Vec<AlignedBuf>, Lease) {
        let (buf, lease) = (std::mem::take(&mut self.buf), std::mem::take(&mut self.lease));
        (buf.split(n, slot_bytes), lease)
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some(pool) = self.lease.pool.upgrade() {
            let n_freed = self.lease.permit.as_ref().map_or(0, Permit::n_bytes);
            pool.put_back(std::mem::take(&mut self.buf), n_freed);
        }
        // The permit is dropped after this, so that the next request finds the buffer.
    }
}

#[cfg(test)]
#[cfg(feature = "shuttle")]
mod shuttle_tests {
    use shuttle::thread;

    use super::*;

    const N: usize = 10_000;

    /// Threads take and return buffers while the limit falls.
    #[test]
    fn shuttle_idle_bytes_are_those_of_the_idle_buffers() {
        shuttle::check_random(
            || {
                let pool = Arc::new(BufferPool::new(4 * N));
                let threads = [1, 2].map(|n| {
                    let pool = Arc::clone(&pool);
                    thread::spawn(move || {
                        drop((pool.take(n * N, None), pool.take(N, None)));
                        drop(pool.take(N, None));
                    })
                });
                pool.set_limit(2 * N, 2 * N);
                for thread in threads {
                    thread.join().unwrap();
                }
                let idle: usize = lock(&pool.idle).iter().map(AlignedBuf::capacity).sum();
                assert_eq!(pool.idle_bytes(), idle);
                assert_eq!(pool.n_in_use.load(SeqCst), 0);
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
    fn the_last_buffer_returned_is_reused_first() {
        let pool = Arc::new(BufferPool::new(10 * N));
        let (one, other) = (pool.take(N, None).unwrap(), pool.take(N, None).unwrap());
        let last = other.as_bytes().as_ptr();
        drop((one, other));
        assert!(pool.idle_bytes() >= 2 * N);
        let again = pool.take(N - N / 5, None).unwrap();
        assert_eq!(again.as_bytes().as_ptr(), last);
        assert_eq!(again.as_bytes().len(), N - N / 5);
        let small = pool.take(N / 2, None).unwrap();
        assert!(pool.idle_bytes() >= N, "a request for half of its size does not take a buffer");
        drop((again, small));
    }

    #[test]
    fn idle_buffers_stay_within_the_limit() {
        let pool = Arc::new(BufferPool::new(3 * N));
        let all: Vec<_> = (0..9).map(|_| pool.take(N, None).unwrap()).collect();
        drop(all);
        assert!((2 * N..=3 * N).contains(&pool.idle_bytes()));
        pool.set_limit(0, 0);
        assert_eq!(pool.idle_bytes(), 0);
        drop(pool.take(N, None).unwrap());
        assert_eq!(pool.idle_bytes(), 0);
        assert_eq!((pool.n_in_use.load(SeqCst), lock(&pool.idle).len()), (0, 0));
        let orphan = pool.take(N, None).unwrap();
        drop(pool);
        drop(orphan);
    }

    #[test]
    fn slots_become_the_buffer_again() {
        let pool = Arc::new(BufferPool::new(usize::MAX));
        let buffer = pool.take(N, None).unwrap();
        let start = buffer.as_bytes().as_ptr();
        let (slots, lease) = buffer.into_slots(4, N / 4);
        let whole = lease.join(slots);
        assert_eq!((whole.as_bytes().as_ptr(), whole.as_bytes().len()), (start, N));
        drop(whole);
        assert!(pool.idle_bytes() >= N);
    }

    #[test]
    fn slots_that_are_never_joined_are_no_longer_in_use() {
        let pool = Arc::new(BufferPool::new(usize::MAX));
        drop(pool.take(N, None).unwrap().into_slots(4, N / 4));
        assert_eq!(pool.n_in_use.load(SeqCst), 0);
    }

    #[test]
    fn large_buffers_are_whole_pages_unless_there_are_very_many() {
        let pool = Arc::new(BufferPool::new(0));
        let n_bytes = super::super::LARGE_BUFFER + 1;
        let in_pages = |buffer: &Buffer| {
            let whole = buffer.buf.capacity().next_multiple_of(super::super::ALIGNMENT);
            whole.is_multiple_of(super::super::PAGE)
        };
        let some: Vec<_> = (0..MAX_MAPPED).map(|_| pool.take(n_bytes, None).unwrap()).collect();
        assert!(some.iter().all(in_pages));
        assert!(!in_pages(&pool.take(n_bytes, None).unwrap()));
        drop(some);
        assert!(in_pages(&pool.take(n_bytes, None).unwrap()));
    }
}
