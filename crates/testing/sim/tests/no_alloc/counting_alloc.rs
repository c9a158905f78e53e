//! An allocator that counts what one thread takes while it is told to look.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, watched.
pub(crate) struct Counting;

thread_local! {
    static LOOKING: Cell<bool> = const { Cell::new(false) };
    static TAKEN: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    // A thread that is being taken down has no counters any more, and nobody asks for them.
    let looking = LOOKING.try_with(Cell::get).unwrap_or(false);
    if looking {
        let _ = TAKEN.try_with(|t| t.set(t.get() + 1));
    }
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches no memory that is
// being handed out, and allocates nothing itself.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc`, and they are handed on as they
    // are.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as promised by our caller.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller keeps the promises of `GlobalAlloc::alloc_zeroed`, and they are handed on
    // as they are.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as promised by our caller.
        unsafe { System.alloc_zeroed(layout) }
    }

    // SAFETY: the caller keeps the promises of `GlobalAlloc::realloc`, and they are handed on as
    // they are.
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        note();
        // SAFETY: as promised by our caller.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    // SAFETY: the caller keeps the promises of `GlobalAlloc::dealloc`, and they are handed on as
    // they are.
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as promised by our caller.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// How many allocations `work` made on this thread, and what it returned.
pub(crate) fn allocations<T>(work: impl FnOnce() -> T) -> (u64, T) {
    let before = TAKEN.with(Cell::get);
    LOOKING.with(|l| l.set(true));
    let result = work();
    LOOKING.with(|l| l.set(false));
    (TAKEN.with(Cell::get) - before, result)
}
