//! Files of mounted file systems.

use std::{
    fs::{File, OpenOptions},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::Path,
};

use rustix::fs::{FileType, OFlags, Stat, fstat, stat};

use super::{
    backend::{Backend, FileVersion, ReadAt},
    page_cache,
};

/// Linux's default `read_ahead_kb`. A longer read of an uncached file waits for one such window
/// after the other, unless all of them were asked for before.
const READAHEAD_WINDOW: usize = 128 << 10;

/// The file systems that the operating system has mounted.
#[derive(Debug)]
pub(super) struct LocalFiles;

/// Uses the old `stat` call: `statx`, which the standard library calls, asks for the time of birth
/// too, and no network file system caches that. It would cost a round trip.
fn version_of(stat: &Stat) -> io::Result<FileVersion> {
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(FileVersion {
        len: stat.st_size.max(0) as u64,
        id: stat.st_ino,
        modified: (stat.st_mtime, stat.st_mtime_nsec as i64),
    })
}

impl Backend for LocalFiles {
    fn version(&self, path: &Path) -> io::Result<FileVersion> {
        version_of(&stat(path)?)
    }

    fn open(&self, path: &Path, _: &FileVersion) -> io::Result<Box<dyn ReadAt>> {
        // Where a pipe has come in the file's place, opening it does not wait for its writer.
        let flags = OFlags::NONBLOCK.bits() as i32;
        Ok(Box::new(OpenOptions::new().read(true).custom_flags(flags).open(path)?))
    }
}

impl ReadAt for File {
    fn version(&self) -> io::Result<FileVersion> {
        version_of(&fstat(self)?)
    }

    fn read_cached(&self, buf: &mut [u8], offset: u64) -> Option<usize> {
        page_cache::read_cached(self, buf, offset)
    }

    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        if buf.len() > READAHEAD_WINDOW {
            self.readahead(offset, buf.len());
        }
        FileExt::read_at(self, buf, offset)
    }

    fn readahead(&self, offset: u64, len: usize) {
        for start in (0..len).step_by(READAHEAD_WINDOW) {
            let len = (len - start).min(READAHEAD_WINDOW);
            page_cache::announce(self, offset + start as u64, len as u64);
        }
    }

    fn drop_cached(&self, offset: u64, len: usize) {
        page_cache::forget(self, offset, len as u64);
    }
}
