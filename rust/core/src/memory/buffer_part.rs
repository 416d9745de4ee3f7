//! Parts of buffers.

use std::{ops::Range, sync::Arc};

use super::{ALIGNMENT, AlignedBuf, Buffer, Permit};
use crate::error::Result;

/// A part of a buffer, which others may share as long as nobody writes to it.
#[derive(Debug)]
pub struct BufferPart {
    buffer: Arc<Buffer>,
    range: Range<usize>,
    /// For the buffer, which has none of its own while it is shared.
    permit: Option<Permit>,
}

impl From<Arc<Buffer>> for BufferPart {
    fn from(buffer: Arc<Buffer>) -> Self {
        let range = 0..buffer.as_bytes().len();
        Self { buffer, range, permit: None }
    }
}

impl From<Buffer> for BufferPart {
    fn from(buffer: Buffer) -> Self {
        Arc::new(buffer).into()
    }
}

impl AsRef<[u8]> for BufferPart {
    fn as_ref(&self) -> &[u8] {
        self.as_bytes()
    }
}

impl BufferPart {
    /// The part of one of these buffers that these very bytes are; `None` where they lie elsewhere, are
    /// not aligned as a buffer's bytes are, or are less than seven eighths of it. `permit` gives one
    /// for a whole buffer.
    pub(crate) fn of(
        buffers: &[Arc<Buffer>],
        bytes: &[u8],
        permit: impl FnOnce(usize) -> Permit,
    ) -> Option<Self> {
        let found = buffers.iter().find_map(|buffer| Some((buffer, position(buffer, bytes)?)));
        let (buffer, range) = found?;
        let n_bytes = buffer.as_bytes().len();
        let is_aligned = range.start.is_multiple_of(ALIGNMENT);
        let is_most = bytes.len() >= n_bytes - n_bytes / 8;
        (is_aligned && is_most).then(|| {
            let permit = Some(permit(n_bytes));
            Self { buffer: Arc::clone(buffer), range, permit }
        })
    }

    /// The bytes.
    pub fn as_bytes(&self) -> &[u8] {
        self.buffer.as_bytes().get(self.range.clone()).unwrap_or_default()
    }

    /// The buffer, and the range of the part in it. While others share the buffer, this is a copy.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::OutOfMemory`](crate::ErrorKind::OutOfMemory).
    pub fn into_buffer(self) -> Result<(Buffer, Range<usize>)> {
        let Self { buffer, range, permit } = self;
        match Arc::try_unwrap(buffer) {
            Ok(mut own) => {
                if permit.is_some() {
                    *own.permit_mut() = permit;
                }
                Ok((own, range))
            }
            Err(shared) => {
                let bytes = shared.as_bytes().get(range).unwrap_or_default();
                let mut copy = AlignedBuf::zeroed(bytes.len())?;
                copy.as_bytes_mut().copy_from_slice(bytes);
                let range = 0..bytes.len();
                let mut own = Buffer::unpooled(copy);
                *own.permit_mut() = permit;
                Ok((own, range))
            }
        }
    }
}

/// Where these bytes are in a buffer; `None` if they are not of it.
fn position(buffer: &Buffer, bytes: &[u8]) -> Option<Range<usize>> {
    let all = buffer.as_bytes();
    let start = bytes.as_ptr().addr().checked_sub(all.as_ptr().addr())?;
    let range = start..start.checked_add(bytes.len())?;
    all.get(range.clone()).is_some().then_some(range)
}

#[cfg(test)]
#[cfg(not(feature = "shuttle"))]
mod tests {
    use super::{super::MemoryPool, *};

    fn buffer(n_bytes: usize) -> Arc<Buffer> {
        Arc::new(Buffer::unpooled(AlignedBuf::zeroed(n_bytes).unwrap()))
    }

    #[test]
    fn a_part_is_the_buffer_itself_once_nobody_else_has_it() {
        let account = MemoryPool::default().open(1 << 20);
        for is_shared in [false, true] {
            let buffers = [buffer(64), buffer(1_000)];
            let bytes = &buffers[1].as_bytes()[64..990];
            let part = BufferPart::of(&buffers, bytes, |n_bytes| account.take(n_bytes)).unwrap();
            let (start, n_bytes) = (bytes.as_ptr(), bytes.len());
            assert_eq!((part.as_bytes().as_ptr(), part.as_bytes().len()), (start, n_bytes));
            let other = is_shared.then(|| Arc::clone(&buffers[1]));
            drop(buffers);
            let (mut own, range) = part.into_buffer().unwrap();
            let written = &mut own.as_bytes_mut()[range];
            assert_eq!((written.as_ptr() == start, written.len()), (!is_shared, n_bytes));
            written.fill(1);
            assert!(other.iter().all(|other| other.as_bytes() == [0; 1_000]));
            assert_eq!(account.used(), 1_000);
            drop((own, other));
            assert_eq!(account.used(), 0);
        }
    }

    #[test]
    fn other_bytes_are_copied() {
        let (account, buffers) = (MemoryPool::default().open(1 << 20), [buffer(1_000)]);
        let of = |bytes: &[u8]| BufferPart::of(&buffers, bytes, |n| account.take(n)).is_some();
        let whole = buffers[0].as_bytes();
        let copies = [vec![0; 100], whole.to_vec(), vec![0; 10_000]];
        assert!(copies.iter().all(|copy| !of(copy)));
        assert!(of(whole) && of(&whole[..875]) && of(&whole[64..990]));
        assert!(!of(&whole[..874]), "an eighth of the buffer would be kept for nothing");
        assert!(!of(&whole[4..]), "not aligned");
        assert_eq!(account.used(), 0);
    }
}
