//! Files mapped into memory, of which the core gets copies.
//!
//! No reference into a map is ever made: others may change the bytes at any time, and may cut the
//! file short, after which an access ends the process (`SIGBUS`). So pages are first asked for with
//! `MADV_POPULATE_READ`, which reports what an access would die of: an end of file, a failing disk.
//! Only a file that is cut short within the microseconds between that and the end of the copy
//! remains.
#![allow(unsafe_code)]

use std::{ffi::c_void, fs::File, io, ptr, sync::Arc};

use gristmill_core::shard::{Mapped, Mapper};
use rustix::{
    mm::{Advice, MapFlags, ProtFlags, madvise, mmap, munmap},
    param::page_size,
};

/// Maps files for the core.
pub(crate) fn mapper() -> Arc<dyn Mapper> {
    Arc::new(Local)
}

#[derive(Debug)]
struct Local;

impl Mapper for Local {
    fn map(&self, file: &File, len: u64) -> io::Result<Box<dyn Mapped>> {
        let len = usize::try_from(len).map_err(|_| io::ErrorKind::InvalidInput)?;
        let (access, flags) = (ProtFlags::READ, MapFlags::SHARED);
        // SAFETY: without a fixed address the system maps where nothing is mapped yet.
        let start = unsafe { mmap(ptr::null_mut(), len, access, flags, file, 0)? };
        Ok(Box::new(Map { start, len }))
    }
}

/// A mapping of `len` bytes at `start`, ours until it is dropped.
#[derive(Debug)]
struct Map {
    start: *mut c_void,
    len: usize,
}

// SAFETY: the mapping belongs to the process and not to a thread; it is only read, through `copy`,
// and ends when the one owner is dropped, on whatever thread.
unsafe impl Send for Map {}
// SAFETY: as above; copies at the same time do not change it.
unsafe impl Sync for Map {}

impl Map {
    /// Advises the system about the pages that hold these bytes, which lie inside the map.
    fn advise(&self, start: usize, n_bytes: usize, advice: Advice) -> io::Result<()> {
        let before = start % page_size();
        // SAFETY: `start - before` is not below 0, and both ends lie in the mapping. Neither kind of
        // advice that is given here changes a byte of it: it is shared with the file, and nothing
        // was written to it.
        let done =
            unsafe { madvise(self.start.byte_add(start - before), before + n_bytes, advice) };
        done.map_err(Into::into)
    }
}

impl Mapped for Map {
    fn copy(&self, offset: u64, into: &mut [u8]) -> io::Result<()> {
        let start = usize::try_from(offset).ok();
        let fits = |start: &usize| start.checked_add(into.len()).is_some_and(|end| end <= self.len);
        let start = start.filter(fits).ok_or(io::ErrorKind::UnexpectedEof)?;
        self.advise(start, into.len(), Advice::LinuxPopulateRead)?;
        let from = self.start.cast_const().cast::<u8>();
        // SAFETY: `start..start + into.len()` lies in the mapping, whose pages the system has just
        // brought in, and `into` is ours and elsewhere. Others may write to the file meanwhile: then
        // what is copied is some mixture of bytes, each of them valid as `u8`, and the core, which
        // looks at the file's time of change after every read, refuses it.
        unsafe { ptr::copy_nonoverlapping(from.add(start), into.as_mut_ptr(), into.len()) };
        // Otherwise all that was ever read would count as this process's memory.
        self.advise(start, into.len(), Advice::LinuxDontNeed)
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nothing points into it: `copy` has ended.
        let _ = unsafe { munmap(self.start, self.len) };
    }
}
