//! Aligned buffers that are written once, by one thread or by many.

use bytes::{Buf, Bytes, BytesMut};

use crate::error::{Error, Result};

/// The size of a cache line. JAX takes CPU arrays of at least this alignment without a copy.
pub const ALIGNMENT: usize = 64;

/// The smallest size of a page.
pub const PAGE: usize = 4 << 10;

/// Pooled buffers of this size and more have whole pages. The allocator may map each of them by
/// itself, so that buffers of many sizes do not fragment the heap.
pub const LARGE_BUFFER: usize = 128 << 10;

/// Bytes whose address is a multiple of [`ALIGNMENT`].
#[derive(Debug, Default)]
pub struct AlignedBuf(BytesMut);

impl AlignedBuf {
    /// `n_bytes` zeros. Large blocks are fresh from the system, so that no page is touched yet.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub fn zeroed(n_bytes: usize) -> Result<Self> {
        let out_of_memory = || Error::out_of_memory(n_bytes);
        let whole = n_bytes.checked_add(ALIGNMENT).ok_or_else(out_of_memory)?;
        let zeros = bytemuck::allocation::try_zeroed_slice_box::<u8>(whole);
        let zeros = Bytes::from(zeros.map_err(|()| out_of_memory())?);
        // These bytes are not shared, so this does not copy them.
        let mut bytes = zeros.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
        bytes.advance(bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT));
        bytes.truncate(n_bytes);
        Ok(Self(bytes))
    }

    /// As [`Self::zeroed`], in whole pages if it is large.
    pub(super) fn in_pages(n_bytes: usize) -> Result<Self> {
        if n_bytes < LARGE_BUFFER {
            return Self::zeroed(n_bytes);
        }
        let whole = n_bytes.saturating_add(ALIGNMENT + PAGE - 1) / PAGE * PAGE;
        let mut buf = Self::zeroed(whole - ALIGNMENT)?;
        buf.set_len(n_bytes);
        Ok(buf)
    }

    /// Sets the length, to at most [`Self::capacity`]. Bytes that are added are zero.
    pub(super) fn set_len(&mut self, n_bytes: usize) {
        let n_bytes = n_bytes.min(self.0.capacity());
        self.0.truncate(n_bytes);
        self.0.resize(n_bytes, 0);
    }

    /// The most bytes that it can have.
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

    /// Splits the buffer into `n` slots of `slot_bytes` each, which different threads may fill. Bytes
    /// behind the last slot are dropped.
    pub fn split(mut self, n: usize, slot_bytes: usize) -> Vec<Self> {
        let n = n.min(self.0.len().checked_div(slot_bytes).unwrap_or(n));
        (0..n).map(|_| Self(self.0.split_to(slot_bytes))).collect()
    }

    /// Joins slots of one buffer. Copies only if they are not neighbours in their order.
    pub fn join(slots: impl IntoIterator<Item = Self>) -> Self {
        let mut slots = slots.into_iter();
        let mut whole = slots.next().unwrap_or_default();
        for slot in slots {
            whole.0.unsplit(slot.0);
        }
        whole
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn it_is_aligned_zeroed_and_joins_without_a_copy() {
        for n in [0, 1, 63, 64, 12_345, LARGE_BUFFER, LARGE_BUFFER + 1] {
            let buf = AlignedBuf::in_pages(n).unwrap();
            assert_eq!(buf.as_bytes().as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(buf.as_bytes().len(), n);
            assert!(buf.as_bytes().iter().all(|byte| *byte == 0));
        }
        let buf = AlignedBuf::zeroed(4 * 100 + 7).unwrap();
        let start = buf.as_bytes().as_ptr();
        let mut slots = buf.split(4, 100);
        assert_eq!(slots.len(), 4);
        thread::scope(|scope| {
            for (slot, k) in slots.iter_mut().zip(1_u8..) {
                scope.spawn(move || slot.as_bytes_mut().fill(k));
            }
        });
        let whole = AlignedBuf::join(slots);
        assert_eq!(whole.as_bytes().as_ptr(), start);
        let expected: Vec<u8> = (0..400).map(|at| (at / 100 + 1) as u8).collect();
        assert_eq!(whole.as_bytes(), expected);
    }

    #[test]
    fn a_lack_of_memory_is_an_error() {
        for n in [usize::MAX, usize::MAX / 2, 1 << 60] {
            let error = AlignedBuf::in_pages(n).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{error}");
        }
    }
}
