//! Large `bytes`, filled without the GIL by several threads.
//!
//! The interpreter allocates a `bytes` with its content, usually in fresh pages, and a page fault takes
//! ten times as long as copying the page. So all objects of a batch are made first, which touches none
//! of those pages; then several threads fault them in, many at a time, and fill them. Pages of a row that are
//! copied go back to the system at once if nothing would reuse them: a row is never in memory twice.
#![allow(unsafe_code)]

use std::{ptr, sync::Arc};

use gristmill_core::{engine::parallel_for_each, memory::Buffer};
use pyo3::{ffi, prelude::*, types::PyBytes};

/// From this size on rows are filled this way.
pub(crate) const LARGE: usize = 64 << 10;

/// What a thread fills at a time.
const PIECE: usize = 1 << 20;

/// Bytes for each additional thread: starting one takes as long as filling a sixteenth of them.
const WORTH_A_THREAD: usize = 4 << 20;

/// Part of a `bytes` object, and its content. The row's memory is released with its last piece.
struct Piece {
    to: *mut u8,
    from: *mut u8,
    len: usize,
    /// Whether the pages of `from` are given back once they are copied.
    is_last_use: bool,
    /// Owns `from`; not looked at.
    _row: Arc<Buffer>,
}

// SAFETY: no other piece refers to the same part of the object or of the row, so the thread that owns it is
// the only one to read and write there; the rest may be sent.
unsafe impl Send for Piece {}

impl Piece {
    fn fill(self) {
        let Self { to, from, len, is_last_use, _row } = self;
        pages::bring_in(to, len);
        // SAFETY: `from` are `len` bytes of the row, and `to` of an object that nobody else knows (see
        // `large_bytes`), allocated apart.
        unsafe { ptr::copy_nonoverlapping(from, to, len) };
        if is_last_use {
            pages::give_back(from, len);
        }
    }
}

/// What Linux is told of the pages that are wholly within a piece. A system that does not do so loses
/// nothing by it.
#[cfg(target_os = "linux")]
mod pages {
    use rustix::{
        mm::{Advice, madvise},
        param::page_size,
    };

    /// Brings them in at once, which takes a tenth of the time of a fault for each.
    pub(super) fn bring_in(start: *mut u8, len: usize) {
        advise(start, len, Advice::LinuxPopulateWrite);
    }

    /// Takes them back: nobody reads them again.
    pub(super) fn give_back(start: *mut u8, len: usize) {
        advise(start, len, Advice::LinuxDontNeed);
    }

    fn advise(start: *mut u8, len: usize, advice: Advice) {
        let page = page_size();
        let before = start.addr().next_multiple_of(page) - start.addr();
        let whole = len.saturating_sub(before) / page * page;
        if whole > 0 {
            // SAFETY: these pages are wholly in memory of the piece. Bringing them in changes no byte of
            // them, and what is dropped nobody reads again.
            let _ = unsafe { madvise(start.wrapping_add(before).cast(), whole, advice) };
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod pages {
    pub(super) fn bring_in(_: *mut u8, _: usize) {}

    pub(super) fn give_back(_: *mut u8, _: usize) {}
}

/// The rows as `bytes`, filled by up to `n_threads` threads while the GIL is free.
pub(crate) fn large_bytes(
    py: Python<'_>,
    rows: Vec<Buffer>,
    n_threads: usize,
) -> PyResult<Vec<Bound<'_, PyBytes>>> {
    let (mut made, mut pieces, mut n_bytes) = (Vec::with_capacity(rows.len()), Vec::new(), 0);
    for mut row in rows {
        let is_last_use = !row.is_kept();
        let (from, len) = (row.as_bytes_mut().as_mut_ptr(), Buffer::as_ref(&row).len());
        // SAFETY: without a source the object's bytes are whatever was there. Nobody sees them: until
        // they are filled below, the one reference to the object is in `made`, which is no object of
        // Python's; the garbage collector does not track `bytes` either. On an early return they die
        // unseen.
        let object = unsafe {
            let new = ffi::PyBytes_FromStringAndSize(ptr::null(), len as ffi::Py_ssize_t);
            Bound::from_owned_ptr_or_err(py, new)?.cast_into::<PyBytes>()?
        };
        // SAFETY: the object is a `bytes` of `len` bytes, which may be written while there is
        // no other reference to it.
        let start = unsafe { ffi::PyBytes_AsString(object.as_ptr()) }.cast::<u8>();
        // An empty one has no pieces: it is the one that all share. The others lie inside the object,
        // each where it does in the row, which has as many bytes.
        let row = Arc::new(row);
        pieces.extend((0..len).step_by(PIECE).map(|at| {
            let (to, from) = (start.wrapping_add(at), from.wrapping_add(at));
            Piece { to, from, len: PIECE.min(len - at), is_last_use, _row: Arc::clone(&row) }
        }));
        n_bytes += len;
        made.push(object);
    }
    let n_threads = n_threads.min(n_bytes / WORTH_A_THREAD + 1);
    py.detach(|| parallel_for_each("gristmill-bytes", pieces, n_threads, Piece::fill));
    Ok(made)
}
