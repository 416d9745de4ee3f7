//! Buffers that go back to where they came from when nobody uses them any more.

use std::{
    fmt, process,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use super::{AlignedBuf, lend::Lent};

/// Where a buffer goes when its user is done with it.
pub(super) trait Home: fmt::Debug + Send + Sync {
    /// Keeps the buffer, or frees it. In a forked child, where other threads may have held any
    /// lock, it frees it and touches nothing else.
    fn take_back(&self, buf: AlignedBuf);
}

/// A buffer on loan: when it is dropped, its pool has it again, or the allocator if there is no
/// pool any more.
#[derive(Debug)]
pub struct PooledBuf {
    buf: AlignedBuf,
    home: Option<Weak<dyn Home>>,
    /// That the consumer has it.
    lent: Option<Lent>,
}

impl PooledBuf {
    /// Lends out `buf`, to be given back to `home`.
    pub(super) fn new<H: Home + 'static>(buf: AlignedBuf, home: &Arc<H>) -> Self {
        let home: Weak<H> = Arc::downgrade(home);
        Self { buf, home: Some(home), lent: None }
    }

    /// A buffer that belongs to no pool.
    pub fn free_standing(buf: AlignedBuf) -> Self {
        Self { buf, home: None, lent: None }
    }

    /// Whether a pool lent it, which counts its bytes.
    pub(super) fn is_lent(&self) -> bool {
        self.home.is_some()
    }

    /// Counts it among what the consumer has, until it is dropped.
    pub(super) fn set_lent(&mut self, lent: Lent) {
        self.lent = Some(lent);
    }

    /// The buffer.
    pub fn buf(&self) -> &AlignedBuf {
        &self.buf
    }

    /// The buffer, to write.
    pub fn buf_mut(&mut self) -> &mut AlignedBuf {
        &mut self.buf
    }
}

impl AsRef<[u8]> for PooledBuf {
    fn as_ref(&self) -> &[u8] {
        self.buf.as_bytes()
    }
}

impl Drop for PooledBuf {
    fn drop(&mut self) {
        if let Some(home) = self.home.as_ref().and_then(Weak::upgrade) {
            home.take_back(std::mem::take(&mut self.buf));
        }
        // After it has gone back: whoever waits for room looks now.
        drop(self.lent.take());
    }
}

/// Smaller buffers are left to the allocator: they touch no page of their own.
const SMALLEST: usize = 4 << 10;

/// Beyond so many buffers, whole pages are no longer asked for: a process may have 65,530 mappings
/// by Linux's default, and others need some too.
const MOST_IN_PAGES: usize = 4 << 10;

/// Buffers of any size, used again.
///
/// The first write to a fresh page costs many times what copying a page does, and the system's
/// allocator gives large blocks back as soon as they are freed. So a buffer is given again to whoever
/// asks for as much, or up to a fifth less.
pub struct Recycler {
    /// The most bytes that are kept unused.
    most_idle: AtomicUsize,
    pid: u32,
    inner: Mutex<Stock>,
    on_return: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct Stock {
    /// The one given back last at the end: it is the likeliest to be in the processor's caches.
    idle: Vec<AlignedBuf>,
    idle_bytes: usize,
    lent_bytes: usize,
    /// Of buffers that are lent out or idle.
    n_buffers: usize,
}

impl Recycler {
    /// Keeps at most `most_idle` bytes that nobody uses.
    pub fn new(most_idle: usize) -> Arc<Self> {
        Self::calling(most_idle, || ())
    }

    /// As [`Self::new`], and calls `on_return` whenever a buffer has come back.
    pub fn calling(most_idle: usize, on_return: impl Fn() + Send + Sync + 'static) -> Arc<Self> {
        let on_return = Box::new(on_return);
        let (most_idle, pid) = (AtomicUsize::new(most_idle), process::id());
        Arc::new(Self { most_idle, pid, inner: Mutex::default(), on_return })
    }

    fn lock(&self) -> MutexGuard<'_, Stock> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer of `n_bytes` bytes with anything in it.
    pub fn take(self: &Arc<Self>, n_bytes: usize) -> PooledBuf {
        if n_bytes < SMALLEST {
            return PooledBuf::free_standing(AlignedBuf::zeroed(n_bytes));
        }
        let mut stock = self.lock();
        let fits = n_bytes..=n_bytes.saturating_add(n_bytes / 4);
        let found = stock.idle.iter().rposition(|buf| fits.contains(&buf.capacity()));
        let buf = if let Some(k) = found {
            let mut buf = stock.idle.remove(k);
            stock.idle_bytes -= buf.capacity();
            stock.lent_bytes += buf.capacity();
            drop(stock);
            buf.set_len(n_bytes);
            buf
        } else {
            let in_pages = stock.n_buffers < MOST_IN_PAGES;
            let buf = if in_pages { AlignedBuf::in_pages } else { AlignedBuf::zeroed }(n_bytes);
            stock.n_buffers += 1;
            stock.lent_bytes += buf.capacity();
            buf
        };
        PooledBuf::new(buf, self)
    }

    /// Bytes of the buffers that are lent out.
    pub fn lent_bytes(&self) -> usize {
        self.lock().lent_bytes
    }

    /// Bytes of the buffers that nobody uses.
    pub fn idle_bytes(&self) -> usize {
        self.lock().idle_bytes
    }

    /// Bytes of both.
    pub fn n_bytes(&self) -> usize {
        let stock = self.lock();
        stock.lent_bytes.saturating_add(stock.idle_bytes)
    }

    /// Frees all unused buffers, now and when they come back.
    pub(crate) fn retire(&self) {
        self.most_idle.store(0, Relaxed);
        self.trim(0);
    }

    /// Frees unused buffers, the oldest first, until at most `limit` bytes of them are kept.
    pub fn trim(&self, limit: usize) {
        let mut stock = self.lock();
        let (mut left, mut n_freed) = (stock.idle_bytes, 0);
        for buf in &stock.idle {
            if left <= limit {
                break;
            }
            left -= buf.capacity();
            n_freed += 1;
        }
        stock.idle_bytes = left;
        stock.n_buffers = stock.n_buffers.saturating_sub(n_freed);
        let freed: Vec<_> = stock.idle.drain(..n_freed).collect();
        drop(stock);
        // Freeing takes its time too.
        drop(freed);
    }
}

impl fmt::Debug for Recycler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inner = self.lock();
        let mut debug = f.debug_struct("Recycler");
        debug.field("most_idle", &self.most_idle).field("inner", &*inner).finish_non_exhaustive()
    }
}

impl Home for Recycler {
    fn take_back(&self, buf: AlignedBuf) {
        if self.pid != process::id() {
            return;
        }
        let mut stock = self.lock();
        let n_bytes = buf.capacity();
        stock.lent_bytes = stock.lent_bytes.saturating_sub(n_bytes);
        stock.idle_bytes += n_bytes;
        stock.idle.push(buf);
        drop(stock);
        self.trim(self.most_idle.load(Relaxed));
        (self.on_return)();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{
        super::{ALIGNMENT, OWN_PAGES, PAGE},
        *,
    };

    const N: usize = 1 << 20;

    #[test]
    fn a_buffer_is_given_again_to_whoever_asks_for_about_as_much() {
        let buffers = Recycler::new(usize::MAX);
        let mut first = buffers.take(N);
        assert_eq!(first.buf().as_bytes(), vec![0; N]);
        first.buf_mut().as_bytes_mut().fill(7);
        let address = first.buf().as_bytes().as_ptr();
        assert!(buffers.lent_bytes() >= N);
        drop(first);
        assert_eq!(buffers.lent_bytes(), 0);

        let smaller = buffers.take(N - 1000);
        assert_eq!(smaller.buf().as_bytes().as_ptr(), address);
        assert_eq!(smaller.buf().as_bytes().len(), N - 1000);
        let other = buffers.take(N);
        assert_ne!(other.buf().as_bytes().as_ptr(), address, "one is lent to one user at a time");
        drop(other);
        drop(smaller);
        let again = buffers.take(N);
        assert_eq!(again.buf().as_bytes().len(), N);
        assert_eq!(again.buf().as_bytes().as_ptr().align_offset(super::super::ALIGNMENT), 0);
        let much_less = buffers.take(N / 2);
        assert_eq!(much_less.buf().as_bytes(), vec![0; N / 2], "fresh: the other is too large");
    }

    #[test]
    fn no_more_is_kept_than_may_be() {
        let buffers = Recycler::new(2 * N + N / 2);
        let lent: Vec<_> = (0..4).map(|_| buffers.take(N)).collect();
        let last = lent.last().unwrap().buf().as_bytes().as_ptr();
        drop(lent);
        assert_eq!(buffers.lock().idle.len(), 2);
        assert_eq!(buffers.take(N).buf().as_bytes().as_ptr(), last, "the warmest first");
        buffers.trim(0);
        assert_eq!(buffers.idle_bytes(), 0);
        let late = buffers.take(N);
        drop(buffers.take(N));
        buffers.retire();
        drop(late);
        assert_eq!(buffers.idle_bytes(), 0, "nothing is kept for anybody");
        let orphan = buffers.take(N);
        drop(buffers);
        drop(orphan);
    }

    #[test]
    fn a_return_is_told() {
        let returns = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&returns);
        let buffers = Recycler::calling(N, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        drop((buffers.take(N), buffers.take(N), buffers.take(100)));
        assert_eq!(returns.load(Ordering::Relaxed), 2, "small ones do not come back");
    }

    #[test]
    fn large_buffers_are_whole_pages_unless_there_are_very_many() {
        let buffers = Recycler::new(0);
        let in_pages =
            |buf: &PooledBuf| buf.buf().capacity().next_multiple_of(ALIGNMENT).is_multiple_of(PAGE);
        let n_bytes = OWN_PAGES + 1;
        let some: Vec<_> = (0..MOST_IN_PAGES).map(|_| buffers.take(n_bytes)).collect();
        assert!(some.iter().all(in_pages));
        assert!(!in_pages(&buffers.take(n_bytes)));
        drop(some);
        assert_eq!(buffers.lock().n_buffers, 0);
        assert!(in_pages(&buffers.take(n_bytes)));
        assert!(!in_pages(&buffers.take(OWN_PAGES - 1)), "small ones stay as they are");
    }

    #[test]
    fn small_ones_are_left_to_the_allocator() {
        let buffers = Recycler::new(usize::MAX);
        drop(buffers.take(100));
        assert_eq!((buffers.idle_bytes(), buffers.lent_bytes()), (0, 0));
    }
}
