//! Where the core's memory comes from: large blocks from the system, each by itself.
//!
//! glibc maps large blocks too, at first. But each one that is freed raises the size from which it
//! does so, up to 32 MiB, and from then on such blocks stay in the arena of the thread that freed
//! them: several times a small `memory_budget` that no accounting sees. What is mapped here goes
//! back to the system as soon as it is freed, and the largest blocks ask for large pages, the first
//! write to which costs a fraction.
#![allow(unsafe_code)]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    ffi::c_void,
    ptr,
};

use rustix::mm::{
    Advice, MapFlags, MremapFlags, ProtFlags, madvise, mmap_anonymous, mremap, munmap,
};

/// Blocks from this size on are mapped, as glibc does at first.
const LARGE: usize = 128 << 10;

/// Blocks from this size on ask for large pages.
const HUGE: usize = 4 << 20;

/// No alignment up to this one needs care: it is the smallest page that there is.
const PAGE: usize = 4 << 10;

#[global_allocator]
static MEMORY: Memory = Memory;

/// The allocator of all Rust code in this module. It has no state: whether a block is mapped follows
/// from its layout, which whoever frees it gives again.
struct Memory;

fn is_mapped(layout: Layout) -> bool {
    layout.size() >= LARGE && layout.align() <= PAGE
}

/// Fresh zeros; null where there are none.
fn map(n_bytes: usize) -> *mut u8 {
    let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE);
    // SAFETY: without a fixed address the system maps where nothing is mapped yet.
    let mapped = unsafe { mmap_anonymous(ptr::null_mut(), n_bytes, access, flags) };
    mapped.map_or(ptr::null_mut(), |start| advised(start, n_bytes).cast())
}

/// Asks for large pages where the block has room for them.
fn advised(start: *mut c_void, n_bytes: usize) -> *mut c_void {
    if n_bytes >= HUGE {
        // SAFETY: the range was just mapped and is ours. This advice changes no byte of it, and
        // where it is not taken nothing is lost.
        let _ = unsafe { madvise(start, n_bytes, Advice::LinuxHugepage) };
    }
    start
}

// SAFETY: a layout for which `is_mapped` holds gets a mapping of its own, which begins at a page and
// hence at its alignment, and which nobody else has until `dealloc` ends it; every other layout
// gets what `System` gives, which meets the contract. Nothing here unwinds.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size());
        }
        // SAFETY: the caller's promise about `layout` is the one that `System` asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if is_mapped(layout) {
            return map(layout.size()); // fresh pages are zero
        }
        // SAFETY: as in `alloc`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        if is_mapped(layout) {
            // SAFETY: the caller got `block` for this layout, so it is the start of a mapping of
            // that many bytes, and promises not to use it again.
            let _ = unsafe { munmap(block.cast(), layout.size()) };
            return;
        }
        // SAFETY: the same layout, so `System` gave this block.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, n_bytes: usize) -> *mut u8 {
        // SAFETY: the caller promises that `n_bytes`, rounded up to the alignment, fits.
        let new = unsafe { Layout::from_size_align_unchecked(n_bytes, layout.align()) };
        match (is_mapped(layout), is_mapped(new)) {
            // SAFETY: not mapped before nor after: `System` gave the block and keeps it.
            (false, false) => unsafe { System.realloc(block, layout, n_bytes) },
            (true, true) => {
                let flags = MremapFlags::MAYMOVE;
                // SAFETY: `block` starts a mapping of `layout.size()` bytes that the caller gives
                // up for what this returns; on failure it stays as it is.
                let moved = unsafe { mremap(block.cast(), layout.size(), n_bytes, flags) };
                moved.map_or(ptr::null_mut(), |start| advised(start, n_bytes).cast())
            }
            _ => {
                // SAFETY: `new` is a layout of more than no bytes, as the caller promises.
                let to = unsafe { self.alloc(new) };
                if !to.is_null() {
                    let n_kept = layout.size().min(n_bytes);
                    // SAFETY: both blocks have that many bytes and are not the same; then the old
                    // one is given back by the layout that it was asked for with.
                    unsafe {
                        ptr::copy_nonoverlapping(block, to, n_kept);
                        self.dealloc(block, layout);
                    }
                }
                to
            }
        }
    }
}
