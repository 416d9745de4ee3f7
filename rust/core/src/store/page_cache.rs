//! The page cache of the operating system. Linux can be asked about it; elsewhere it is left alone.

use std::fs::File;

/// Reads what the page cache has of these bytes, without waiting for the storage. `None` if it has none of
/// them, or cannot be asked.
#[cfg(target_os = "linux")]
pub(super) fn read_cached(file: &File, buf: &mut [u8], offset: u64) -> Option<usize> {
    use rustix::io::{ReadWriteFlags, preadv2};

    let mut bufs = [std::io::IoSliceMut::new(buf)];
    let read = preadv2(file, &mut bufs, offset, ReadWriteFlags::NOWAIT);
    // Some kernels return 0 here where they should fail with `EAGAIN`, so 0 does not mean the end of
    // the file.
    read.ok().filter(|n| *n > 0)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn read_cached(_: &File, _: &mut [u8], _: u64) -> Option<usize> {
    None
}

/// Starts reading these bytes into the page cache. A failure costs time only.
pub(super) fn announce(file: &File, offset: u64, len: u64) {
    advise(file, offset, len, Use::Soon);
}

/// Drops these bytes from the page cache.
pub(super) fn forget(file: &File, offset: u64, len: u64) {
    advise(file, offset, len, Use::Never);
}

#[derive(Clone, Copy, Debug)]
enum Use {
    Soon,
    Never,
}

#[cfg(target_os = "linux")]
fn advise(file: &File, offset: u64, len: u64, when: Use) {
    use rustix::fs::{Advice, fadvise};

    let advice = match when {
        Use::Soon => Advice::WillNeed,
        Use::Never => Advice::DontNeed,
    };
    // Without a length it would be the rest of the file.
    if let Some(len) = std::num::NonZeroU64::new(len) {
        let _ = fadvise(file, offset, Some(len), advice);
    }
}

#[cfg(not(target_os = "linux"))]
fn advise(_: &File, _: u64, _: u64, _: Use) {}
