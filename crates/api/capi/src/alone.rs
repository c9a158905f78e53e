//! What a library without operating system needs of the program that it is built into: memory, and
//! somebody to hear its last words.

use core::alloc::{GlobalAlloc, Layout};
use core::ffi::c_void;
use core::fmt::Write;
use core::panic::PanicInfo;

// SAFETY: the program defines them with these signatures, as the header says.
unsafe extern "C" {
    /// Only without the easy layer, where the program defines it: memory of `size` bytes at a
    /// multiple of `align`; NULL when there is none.
    fn clw_need_memory(size: usize, align: usize) -> *mut c_void;
    /// Only without the easy layer, where the program defines it: takes back what `clw_need_memory`
    /// gave.
    fn clw_give_memory(memory: *mut c_void, size: usize, align: usize);
    /// Only without the easy layer, where the program defines it: the stack has found a mistake in
    /// itself, or no memory; `text` has `len` bytes. Does not return.
    fn clw_panic(text: *const u8, len: usize) -> !;
}

struct Caller;

// SAFETY: the program's functions are an allocator, as the header demands of them.
unsafe impl GlobalAlloc for Caller {
    // SAFETY: as the trait says.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        clw_need_memory(layout.size(), layout.align()).cast()
    }

    // SAFETY: as the trait says.
    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        clw_give_memory(memory.cast(), layout.size(), layout.align());
    }
}

#[global_allocator]
static CALLER: Caller = Caller;

struct Line {
    bytes: [u8; 256],
    len: usize,
}

impl Write for Line {
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        let count = text.len().min(self.bytes.len() - self.len);
        self.bytes[self.len..self.len + count].copy_from_slice(&text.as_bytes()[..count]);
        self.len += count;
        Ok(())
    }
}

#[panic_handler]
fn panic(info: &PanicInfo<'_>) -> ! {
    let mut line = Line { bytes: [0; 256], len: 0 };
    // A line that is too long is cut.
    let _ = write!(line, "{info}");
    // SAFETY: the program's function takes these bytes and does not return.
    unsafe { clw_panic(line.bytes.as_ptr(), line.len) }
}
