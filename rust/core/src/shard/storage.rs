//! What is asked of the file system, behind a trait so that tests can make it fail.

use std::{
    fmt::Debug,
    fs::File,
    io::{self, IoSliceMut},
    num::NonZeroU64,
    os::unix::fs::FileExt,
    path::Path,
};

use rustix::{
    fs::{Advice, FileType, Stat, fadvise, fstat, stat},
    io::{ReadWriteFlags, preadv2},
};

/// How much Linux asks its storage for at a time, unless the administrator has set another
/// `read_ahead_kb`. A longer read of a file that is not cached waits for one such window after the
/// other; windows that were announced are under way at the same time.
const WINDOW: usize = 128 << 10;

/// What tells one file from another, and from itself after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stamp {
    /// Bytes.
    pub(super) len: u64,
    /// The file's number in its file system.
    pub(super) inode: u64,
    /// Seconds and nanoseconds since 1970 at which its contents last changed.
    pub(super) modified: (i64, i64),
}

impl Stamp {
    /// From the old calls, and not from the standard library's `metadata`: that asks for the time of
    /// birth too, which no network file system keeps beside the rest, so that each look would be a
    /// round trip.
    fn of(stat: &Stat) -> io::Result<Self> {
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        Ok(Self {
            len: stat.st_size.max(0) as u64,
            inode: stat.st_ino,
            modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
        })
    }
}

/// Where files are.
pub(super) trait Storage: Debug + Send + Sync {
    /// What lies at `path`, without opening it: opening a pipe would wait for its writer.
    fn stamp(&self, path: &Path) -> io::Result<Stamp>;

    /// Opens a file to read.
    fn open(&self, path: &Path) -> io::Result<Box<dyn Handle>>;
}

/// An open file.
pub(super) trait Handle: Debug + Send + Sync {
    /// What the file is now.
    fn stamp(&self) -> io::Result<Stamp>;

    /// As `pread`: may return less than asked for, and 0 at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Lets the operating system begin to read these bytes, and does not wait for them.
    fn announce(&self, offset: u64, len: usize);

    /// Lets the operating system forget its copy of these bytes.
    fn drop_cached(&self, offset: u64, len: usize);
}

/// The file systems that the operating system has mounted.
#[derive(Debug)]
pub(super) struct Mounted;

impl Storage for Mounted {
    fn stamp(&self, path: &Path) -> io::Result<Stamp> {
        Stamp::of(&stat(path)?)
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Handle>> {
        Ok(Box::new(File::open(path)?))
    }
}

impl Handle for File {
    fn stamp(&self) -> io::Result<Stamp> {
        Stamp::of(&fstat(self)?)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.len() > WINDOW {
            // What is cached comes at once. Some kernels return nothing where they should say that
            // they would have to wait, so that neither is believed to be the end.
            let cached = preadv2(self, &mut [IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT);
            if let Ok(n @ 1..) = cached {
                return Ok(n);
            }
            self.announce(offset, buf.len());
        }
        FileExt::read_at(self, buf, offset)
    }

    fn announce(&self, offset: u64, len: usize) {
        for start in (0..len).step_by(WINDOW) {
            let len = NonZeroU64::new((len - start).min(WINDOW) as u64);
            // Advice that is not taken costs time and nothing else.
            let _ = fadvise(self, offset + start as u64, len, Advice::WillNeed);
        }
    }

    fn drop_cached(&self, offset: u64, len: usize) {
        let _ = fadvise(self, offset, NonZeroU64::new(len as u64), Advice::DontNeed);
    }
}
