//! Plain memory in place of a memfd, for tests of what lies in it, and for miri, which knows no
//! memfd.

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

use super::Segment;

impl Segment {
    /// Zeroed memory of this process only.
    pub(crate) fn on_heap(len: usize) -> Segment {
        // SAFETY: the length is not 0 in any test.
        let base = NonNull::new(unsafe { alloc_zeroed(layout(len)) }).expect("memory for a test");
        Segment { base, len, writable: true, on_heap: true }
    }
}

fn layout(len: usize) -> Layout {
    Layout::from_size_align(len, 4096).expect("a length of some pages")
}

pub(super) fn free(segment: &Segment) {
    // SAFETY: allocated with the same layout in `on_heap`, and nothing points into it any more.
    unsafe { dealloc(segment.base.as_ptr(), layout(segment.len)) }
}
