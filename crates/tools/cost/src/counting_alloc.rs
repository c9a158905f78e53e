//! Counts every allocation of the process, so that "none on the packet path" is a figure and not a
//! belief.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

static COUNT: AtomicU64 = AtomicU64::new(0);

struct Counting;

// SAFETY: every call is handed to the system's allocator unchanged; counting touches no memory of
// the caller.
unsafe impl GlobalAlloc for Counting {
    // SAFETY: the caller sees to what `GlobalAlloc` asks, and `System` asks no more.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller keeps GlobalAlloc's contract, which is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    // SAFETY: the caller sees to what `GlobalAlloc` asks, and `System` asks no more.
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above; `ptr` came from `System` because every allocation does.
        unsafe { System.dealloc(ptr, layout) }
    }

    // SAFETY: the caller sees to what `GlobalAlloc` asks, and `System` asks no more.
    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    // SAFETY: the caller sees to what `GlobalAlloc` asks, and `System` asks no more.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        COUNT.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Allocations since the process began.
pub(crate) fn count() -> u64 {
    COUNT.load(Ordering::Relaxed)
}
