//! The extension's allocator: large blocks of whole pages go back to the system when they are freed.
//!
//! The core's recycled buffers are whole pages. In the C library's heap they would leave holes between
//! smaller blocks, and fragmentation would grow the memory of a process that runs for days. So would a
//! record batch that is decompressed, which `arrow-ipc` allocates for itself: very large blocks are
//! mapped whatever they are. Everything else stays with the C library, which reuses blocks that are
//! freed soon without faulting them in again.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ptr,
};

use gristmill_core::memory::{LARGE_BUFFER, PAGE};
#[cfg(target_os = "linux")]
use rustix::mm::{Advice, madvise};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};

use crate::room::{SPARE_BYTES, use_spare};

/// From this size on huge pages are requested: filling fresh pages of 4 KiB takes several times as
/// long. `NumPy` has the same threshold.
#[cfg(target_os = "linux")]
const LARGE: usize = 4 << 20;

/// Blocks from this size on are mapped even where they are no whole pages. The C library would do so
/// too, until one was freed: then it keeps up to 32 MiB in the heap of each thread.
const VERY_LARGE: usize = 1 << 20;

#[global_allocator]
static ALLOCATOR: Pages = Pages;

struct Pages;

/// Whether blocks of this layout are mapped. It depends on the layout alone, so a block is freed
/// the way it was made.
const fn is_mapped(layout: Layout) -> bool {
    let n_bytes = layout.size();
    let is_large = n_bytes >= LARGE_BUFFER && n_bytes.is_multiple_of(PAGE) || n_bytes >= VERY_LARGE;
    is_large && layout.align() <= PAGE
}

fn map(n_bytes: usize) -> *mut u8 {
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // These blocks are filled at once: populating all pages in one call takes two thirds of the time
    // of a page fault for each. Huge pages have to be requested before that.
    #[cfg(target_os = "linux")]
    let flags =
        if n_bytes < LARGE { MapFlags::PRIVATE | MapFlags::POPULATE } else { MapFlags::PRIVATE };
    #[cfg(not(target_os = "linux"))]
    let flags = MapFlags::PRIVATE;
    // SAFETY: the system chooses the place, so no memory that is in use is mapped over.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), n_bytes, access, flags) };
    let Ok(start) = mapped else { return ptr::null_mut() };
    #[cfg(target_os = "linux")]
    if n_bytes >= LARGE {
        // SAFETY: these bytes were mapped just now, and the advice changes none of them.
        // A system without large pages refuses it, which is as good.
        let _ = unsafe { madvise(start, n_bytes, Advice::LinuxHugepage) };
    }
    start.cast()
}

/// The block that `alloc` gives, which is asked again once what is put by is free.
fn with_spare(n_bytes: usize, alloc: impl Fn() -> *mut u8) -> *mut u8 {
    let block = alloc();
    if block.is_null() && n_bytes <= SPARE_BYTES {
        use_spare();
        return alloc();
    }
    block
}

// SAFETY: a block is either mapped, and then begins at a page, is `layout.size()` bytes long and
// nobody else's, or comes from `System`. `is_mapped` tells the two apart by the layout, which a
// caller gives alike at allocation and at release. Nothing here panics or allocates.
unsafe impl GlobalAlloc for Pages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return with_spare(layout.size(), || map(layout.size()));
        }
        // SAFETY: the caller's promise, passed on.
        with_spare(layout.size(), || unsafe { System.alloc(layout) })
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return with_spare(layout.size(), || map(layout.size())); // fresh pages are zero
        }
        // SAFETY: the caller's promise, passed on.
        with_spare(layout.size(), || unsafe { System.alloc_zeroed(layout) })
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: the block is a mapping of this size, and the caller gives it up. Its last page
            // goes with it, and it cannot fail but by a limit on the number of mappings, and then
            // the memory is lost, not misused.
            let _ = unsafe { munmap(block.cast(), layout.size()) };
            return;
        }
        // SAFETY: the block came from `System` with this layout.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that `n_bytes`, rounded up to the alignment, fits an `isize`.
        let new_layout = unsafe { Layout::from_size_align_unchecked(n_bytes, layout.align()) };
        if !is_mapped(layout) && !is_mapped(new_layout) {
            // SAFETY: the block came from `System` with this layout, and is what it was where that fails.
            return with_spare(n_bytes, || unsafe { System.realloc(block, layout, n_bytes) });
        }
        // SAFETY: the caller promises that `n_bytes` is not 0.
        let new = unsafe { self.alloc(new_layout) };
        if !new.is_null() {
            // SAFETY: both blocks hold that many bytes, and the new one overlaps nothing.
            unsafe { ptr::copy_nonoverlapping(block, new, layout.size().min(n_bytes)) };
            // SAFETY: the caller gives the old block up where this succeeds.
            unsafe { self.dealloc(block, layout) };
        }
        new
    }
}
