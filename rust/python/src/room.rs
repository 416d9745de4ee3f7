//! Room in the address space, for a process that has a limit on it (`ulimit -v`).
//!
//! Two things fail there with no error to return. The main thread's stack grows as it is used, and where it
//! cannot, the system ends the process. And a small allocation that fails ends it, since collections have
//! no other way. So the stack is grown ahead of calls, and some address space is put by: the allocation that
//! fails gets that, and the call after it raises `MemoryError`.
#![allow(unsafe_code)]

use std::{
    ptr,
    sync::atomic::{AtomicPtr, Ordering::SeqCst},
};

use pyo3::{exceptions::PyMemoryError, prelude::*};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

/// What is put by. It takes no memory.
pub(crate) const SPARE_BYTES: usize = 4 << 20;

static SPARE: AtomicPtr<u8> = AtomicPtr::new(ptr::null_mut());

/// Address space without memory, or null.
fn map(n_bytes: usize) -> *mut u8 {
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: the system chooses the place, so no memory that is in use is mapped over.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), n_bytes, ProtFlags::empty(), flags) };
    mapped.map_or(ptr::null_mut(), <*mut _>::cast)
}

/// Gives back what [`map`] gave.
///
/// # Safety
///
/// Nobody else has it, or gives it back.
unsafe fn unmap(start: *mut u8, n_bytes: usize) {
    if !start.is_null() {
        // SAFETY: it is a mapping of this size, and the caller gives it up.
        let _ = unsafe { munmap(start.cast(), n_bytes) };
    }
}

/// Frees what is put by, for an allocation. Neither allocates nor panics.
pub(crate) fn use_spare() {
    let spare = SPARE.swap(ptr::null_mut(), SeqCst);
    // SAFETY: whoever takes it out gives it back, once.
    unsafe { unmap(spare, SPARE_BYTES) };
}

/// Sees to it that there is room for what a call does.
///
/// # Errors
///
/// `MemoryError`, where there is none.
pub(crate) fn ensure() -> PyResult<()> {
    if has_spare() && has_stack() {
        return Ok(());
    }
    Err(PyMemoryError::new_err(format!(
        "there is no memory for {SPARE_BYTES} bytes: the limit of the address space is nearly reached \
         (ulimit -v); raise it, or take fewer or smaller rows at a time"
    )))
}

fn has_spare() -> bool {
    if !SPARE.load(SeqCst).is_null() {
        return true;
    }
    let spare = map(SPARE_BYTES);
    if spare.is_null() {
        return false;
    }
    if SPARE.compare_exchange(ptr::null_mut(), spare, SeqCst, SeqCst).is_err() {
        // Another thread was faster.
        // SAFETY: nobody else has this one.
        unsafe { unmap(spare, SPARE_BYTES) };
    }
    true
}

#[cfg(not(target_os = "linux"))]
fn has_stack() -> bool {
    true
}

/// Whether the stack of this thread is as large as calls need it, or can grow to that.
#[cfg(target_os = "linux")]
fn has_stack() -> bool {
    use std::{cell::Cell, hint, mem::MaybeUninit};

    use rustix::{
        process::{Resource, getpid, getrlimit},
        thread::gettid,
    };

    /// More than any call of the core needs.
    const STACK_BYTES: usize = 512 << 10;

    /// Of a smaller stack, growing it could be the end.
    const MIN_LIMIT: u64 = 4 << 20;

    thread_local! {
        static IS_LARGE: Cell<bool> = const { Cell::new(false) };
    }

    /// Touches each page, by the probes that the compiler puts before a large frame.
    #[inline(never)]
    fn grow() {
        let mut pages = MaybeUninit::<[u8; STACK_BYTES]>::uninit();
        hint::black_box(&mut pages);
    }

    if IS_LARGE.get() {
        return true;
    }
    // Those of other threads are mapped as a whole.
    if gettid() != getpid() {
        IS_LARGE.set(true);
        return true;
    }
    let is_small = getrlimit(Resource::Stack).current.is_some_and(|limit| limit < MIN_LIMIT);
    if is_small || getrlimit(Resource::As).current.is_none() {
        return true;
    }
    let room = map(STACK_BYTES);
    if room.is_null() {
        return false;
    }
    // SAFETY: nobody else has it.
    unsafe { unmap(room, STACK_BYTES) };
    grow();
    IS_LARGE.set(true);
    true
}
