//! Large `bytes`, filled without the GIL by several threads.
//!
//! The interpreter allocates a `bytes` with its content, usually in fresh pages, and a page fault takes
//! ten times as long as copying the page. So all objects of a batch are made first, which touches none
//! of those pages; then several threads fault them in, many at a time, and fill them.
#![allow(unsafe_code)]

use std::{ops::Range, ptr, sync::Arc};

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
    row: Arc<Buffer>,
    part: Range<usize>,
}

// SAFETY: no other piece refers to the same part of the object, so the thread that owns it is the only
// one to write there; the rest may be sent.
unsafe impl Send for Piece {}

impl Piece {
    fn fill(self) {
        let Self { to, row, part } = self;
        let from = Buffer::as_ref(&row).get(part).unwrap_or_default();
        #[cfg(target_os = "linux")]
        populate(to, from.len());
        // SAFETY: `to` is the start of `from.len()` bytes of an object that nobody else knows (see
        // `large_bytes`), allocated apart from `from`, which is memory of ours.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
    }
}

/// Brings in the pages of these bytes at once, which takes a tenth of the time of a fault for each.
#[cfg(target_os = "linux")]
fn populate(to: *mut u8, len: usize) {
    use rustix::{
        mm::{Advice, madvise},
        param::page_size,
    };

    let page = page_size();
    let before = to.addr().next_multiple_of(page) - to.addr();
    let whole = len.saturating_sub(before) / page * page;
    if whole > 0 {
        // SAFETY: these are pages that lie wholly in the piece, and bringing them in changes no
        // byte of them. A system that cannot do so refuses, and the copy brings them in.
        let _ =
            unsafe { madvise(to.wrapping_add(before).cast(), whole, Advice::LinuxPopulateWrite) };
    }
}

/// The rows as `bytes`, filled by up to `n_threads` threads while the GIL is free.
pub(crate) fn large_bytes(
    py: Python<'_>,
    rows: Vec<Buffer>,
    n_threads: usize,
) -> PyResult<Vec<Bound<'_, PyBytes>>> {
    let (mut made, mut pieces, mut n_bytes) = (Vec::with_capacity(rows.len()), Vec::new(), 0);
    for row in rows {
        let len = Buffer::as_ref(&row).len();
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
            let (row, part) = (Arc::clone(&row), at..len.min(at + PIECE));
            Piece { to: start.wrapping_add(at), row, part }
        }));
        n_bytes += len;
        made.push(object);
    }
    let n_threads = n_threads.min(n_bytes / WORTH_A_THREAD + 1);
    py.detach(|| parallel_for_each("gristmill-bytes", pieces, n_threads, Piece::fill));
    Ok(made)
}
