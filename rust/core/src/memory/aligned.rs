//! Aligned buffers that are written once, by one thread or by many.

use bytes::{Buf, Bytes, BytesMut};

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
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`] where the system does not have so much.
    pub fn zeroed(n_bytes: usize) -> Result<Self> {
        let out_of_memory = || Error::out_of_memory(n_bytes);
        let whole = n_bytes.checked_add(ALIGNMENT).ok_or_else(out_of_memory)?;
        let zeros = bytemuck::allocation::try_zeroed_slice_box::<u8>(whole);
        let zeros = Bytes::from(zeros.map_err(|()| out_of_memory())?);
        // Nothing else has these bytes, so that they are taken over and not copied.
        let mut bytes = zeros.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&*shared));
        bytes.advance(bytes.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT));
        bytes.truncate(n_bytes);
        Ok(Self(bytes))
    }

    /// As [`Self::zeroed`], in whole pages where it is large: for memory that is used again.
    pub(super) fn in_pages(n_bytes: usize) -> Result<Self> {
        if n_bytes < OWN_PAGES {
            return Self::zeroed(n_bytes);
        }
        let whole = n_bytes.saturating_add(ALIGNMENT + PAGE - 1) / PAGE * PAGE;
        let mut buf = Self::zeroed(whole - ALIGNMENT)?;
        buf.set_len(n_bytes);
        Ok(buf)
    }

    /// Gives it `n_bytes` bytes, at most [`Self::capacity`]: what is there stays, what is added is
    /// zero.
    pub(super) fn set_len(&mut self, n_bytes: usize) {
        let n_bytes = n_bytes.min(self.0.capacity());
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

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn it_is_aligned_zeroed_and_joins_without_a_copy() {
        for n in [0, 1, 63, 64, 12_345, OWN_PAGES, OWN_PAGES + 1] {
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
    fn what_cannot_be_had_is_an_error() {
        for n in [usize::MAX, usize::MAX / 2, 1 << 60] {
            let error = AlignedBuf::in_pages(n).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::OutOfMemory { .. }), "{error}");
        }
    }
}
