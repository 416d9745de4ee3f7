//! Aligned batch buffers that many threads fill at once, in safe code, and that are used again.

use std::{
    fmt, process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use bytes::{Buf, Bytes, BytesMut};

use super::loan::Home;
use crate::error::{Error, Result};

/// Cache lines are 64 bytes, and JAX takes CPU arrays without a copy from this alignment on.
pub const ALIGNMENT: usize = 64;

/// A page of memory where it is smallest.
pub const PAGE: usize = 4 << 10;
/// Buffers that are used again take whole pages from this size on. An allocator may map such blocks
/// for themselves, so that those of many sizes leave no holes.
pub const OWN_PAGES: usize = 128 << 10;

/// Bytes that begin at a multiple of [`ALIGNMENT`].
#[derive(Debug, Default)]
pub struct AlignedBuf(BytesMut);

impl AlignedBuf {
    /// `n_bytes` zeros. The memory is fresh from the allocator, so nothing is touched yet.
    pub fn zeroed(n_bytes: usize) -> Self {
        let mut bytes = BytesMut::zeroed(n_bytes + ALIGNMENT);
        bytes.advance(bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT));
        bytes.truncate(n_bytes);
        Self(bytes)
    }

    /// As [`Self::zeroed`], for sizes that a recording decides.
    ///
    /// # Errors
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory) where the system refuses.
    pub fn try_zeroed(n_bytes: usize) -> Result<Self> {
        let refused = || Error::out_of_memory(n_bytes);
        let len = n_bytes.checked_add(ALIGNMENT).ok_or_else(refused)?;
        let zeros = bytemuck::allocation::try_zeroed_slice_box(len).map_err(|()| refused())?;
        // Nothing is copied: nobody else has the bytes.
        let mut bytes = BytesMut::from(Bytes::from(zeros));
        bytes.advance(bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT));
        bytes.truncate(n_bytes);
        Ok(Self(bytes))
    }

    /// As [`Self::zeroed`], in whole pages where it is large: for memory that is used again.
    pub(super) fn in_pages(n_bytes: usize) -> Self {
        if n_bytes < OWN_PAGES {
            return Self::zeroed(n_bytes);
        }
        let whole = (n_bytes + ALIGNMENT).next_multiple_of(PAGE);
        let mut buf = Self::zeroed(whole - ALIGNMENT);
        buf.set_len(n_bytes);
        buf
    }

    /// No bytes, with room for `n_bytes` that will begin at a multiple of [`ALIGNMENT`].
    pub fn with_capacity(n_bytes: usize) -> Self {
        let mut bytes = BytesMut::with_capacity(n_bytes + ALIGNMENT);
        let skipped = bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        bytes.resize(skipped, 0);
        bytes.advance(skipped);
        Self(bytes)
    }

    /// Adds bytes at the end. Beyond the capacity the alignment is lost.
    pub(super) fn append(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Gives it `n_bytes` bytes: what is there stays, what is added is zero. Within the capacity
    /// nothing moves; beyond it the alignment is lost.
    pub(super) fn set_len(&mut self, n_bytes: usize) {
        self.0.truncate(n_bytes);
        self.0.resize(n_bytes, 0);
    }

    /// The bytes that it may have without moving.
    pub(super) fn capacity(&self) -> usize {
        self.0.capacity()
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The bytes, to write.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// The buffer as samples; a last incomplete sample is left out.
    pub fn samples_mut(&mut self) -> &mut [f32] {
        let whole = self.0.len() / size_of::<f32>() * size_of::<f32>();
        let bytes = self.0.get_mut(..whole).unwrap_or_default();
        bytemuck::try_cast_slice_mut(bytes).unwrap_or_default()
    }

    /// Cuts the buffer into `n` slots of `slot_bytes` each, which different threads may fill. What
    /// is left over stays behind the last slot, out of reach until [`Self::join`].
    pub fn split(mut self, n: usize, slot_bytes: usize) -> Vec<Self> {
        let n = n.min(self.0.len().checked_div(slot_bytes).unwrap_or(n));
        (0..n).map(|_| Self(self.0.split_to(slot_bytes))).collect()
    }

    /// Puts neighbouring slots of one buffer together again. Nothing is copied, unless the slots
    /// are not neighbours, in order, of one buffer.
    pub fn join(slots: impl IntoIterator<Item = Self>) -> Self {
        let mut slots = slots.into_iter();
        let mut whole = slots.next().unwrap_or_default();
        for slot in slots {
            whole.0.unsplit(slot.0);
        }
        whole
    }
}

/// Batch buffers of one size, handed out and taken back: a fresh 41 MB buffer costs more in page
/// faults than filling it.
///
/// Every buffer counts from its allocation to its end, also while it waits here or is on loan.
pub struct BufferPool {
    n_bytes: usize,
    keep: usize,
    inner: Mutex<Buffers>,
    /// A forked child must not touch locks that another thread may have held.
    pid: u32,
    on_return: Box<dyn Fn() + Send + Sync>,
}

#[derive(Debug, Default)]
struct Buffers {
    free: Vec<AlignedBuf>,
    n_live: usize,
}

impl BufferPool {
    /// A pool of `n_bytes` buffers that keeps at most `keep` unused ones, and calls `on_return`
    /// whenever one comes back.
    pub fn new(
        n_bytes: usize,
        keep: usize,
        on_return: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            n_bytes,
            keep,
            inner: Mutex::default(),
            pid: process::id(),
            on_return: Box::new(on_return),
        })
    }

    fn lock(&self) -> MutexGuard<'_, Buffers> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A buffer with anything in it.
    pub fn take(&self) -> AlignedBuf {
        let mut inner = self.lock();
        inner.free.pop().unwrap_or_else(|| {
            inner.n_live += 1;
            AlignedBuf::in_pages(self.n_bytes)
        })
    }

    /// Takes a buffer back: keeps it, if it is whole and there is room, or frees it.
    pub fn give(&self, buf: AlignedBuf) {
        let mut inner = self.lock();
        if buf.0.len() == self.n_bytes && inner.free.len() < self.keep {
            inner.free.push(buf);
        } else {
            inner.n_live = inner.n_live.saturating_sub(1);
        }
        drop(inner);
        (self.on_return)();
    }

    /// Bytes of all buffers there are.
    pub fn live_bytes(&self) -> usize {
        self.lock().n_live.saturating_mul(self.n_bytes)
    }

    /// Bytes that the next [`Self::take`] adds to them.
    pub fn next_bytes(&self) -> usize {
        if self.lock().free.is_empty() { self.n_bytes } else { 0 }
    }
}

impl Home for BufferPool {
    fn take_back(&self, buf: AlignedBuf) {
        if self.pid == process::id() {
            self.give(buf);
        }
    }
}

impl fmt::Debug for BufferPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n_bytes, inner) = (self.n_bytes, self.lock());
        let mut debug = f.debug_struct("BufferPool");
        debug.field("n_bytes", &n_bytes).field("inner", &*inner).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::{super::PooledBuf, *};

    #[test]
    fn slots_are_aligned_parts_of_one_buffer() {
        for n_bytes in [0, 1, 64, 640_000, 1_000_003] {
            let buf = AlignedBuf::zeroed(n_bytes);
            assert_eq!(buf.as_bytes().len(), n_bytes);
            assert_eq!(buf.as_bytes().as_ptr().align_offset(ALIGNMENT), 0);
        }
        let buf = AlignedBuf::zeroed(4 * 640);
        let base = buf.as_bytes().as_ptr();
        let mut slots = buf.split(4, 640);
        std::thread::scope(|scope| {
            for (k, slot) in slots.iter_mut().enumerate() {
                scope.spawn(move || slot.samples_mut().fill(k as f32));
            }
        });
        let mut whole = AlignedBuf::join(slots);
        assert_eq!(whole.as_bytes().as_ptr(), base, "joining must not copy");
        let expected: Vec<f32> = (0..4).flat_map(|k| [k as f32; 160]).collect();
        assert_eq!(whole.samples_mut(), expected);
    }

    #[test]
    fn fewer_slots_join_to_a_shorter_buffer() {
        let mut slots = AlignedBuf::zeroed(4 * 64).split(4, 64);
        slots.truncate(3);
        assert_eq!(AlignedBuf::join(slots).as_bytes().len(), 3 * 64);
    }

    #[test]
    fn a_dropped_loan_is_lent_again() {
        let returns = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&returns);
        let pool = BufferPool::new(256, 1, move || {
            counter.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!((pool.live_bytes(), pool.next_bytes()), (0, 256));
        let first = PooledBuf::new(pool.take(), &pool);
        let address = first.buf().as_bytes().as_ptr();
        drop(first);
        assert_eq!((pool.live_bytes(), pool.next_bytes()), (256, 0), "the idle one counts");
        let again = PooledBuf::new(pool.take(), &pool);
        assert_eq!(again.buf().as_bytes().as_ptr(), address);
        let other = PooledBuf::new(pool.take(), &pool);
        assert_eq!(pool.live_bytes(), 512);
        drop((again, other));
        assert_eq!(pool.live_bytes(), 256, "the pool keeps no more than it may");
        assert_eq!(returns.load(Ordering::Relaxed), 3);
        let orphan = PooledBuf::new(pool.take(), &pool);
        drop(pool);
        drop(orphan);
    }
}
