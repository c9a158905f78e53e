//! The program's heap. The kernel has one for each process, and the C library of ours uses it; so
//! the program gets a part of the address space of its own.

use std::ptr;
use std::sync::Mutex;

use crate::MAX_HEAP;

/// Where it begins, and where it ends now.
struct Heap {
    start: usize,
    end: usize,
}

static HEAP: Mutex<Heap> = Mutex::new(Heap { start: 0, end: 0 });

const PAGE: usize = 4096;

const fn pages(address: usize) -> usize {
    (address + PAGE - 1) & !(PAGE - 1)
}

/// Takes addresses for it, without memory.
pub(crate) fn reserve() -> Result<(), String> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: addresses that the kernel chooses.
    let at = unsafe { libc::mmap(ptr::null_mut(), MAX_HEAP, libc::PROT_NONE, flags, -1, 0) };
    if at == libc::MAP_FAILED {
        return Err("no addresses for the heap (is the address space limited, ulimit -v?)".into());
    }
    if let Ok(mut heap) = HEAP.lock() {
        *heap = Heap { start: at as usize, end: at as usize };
    }
    Ok(())
}

/// `brk(2)`: the end as it is now.
pub(crate) fn brk(wanted: usize) -> usize {
    let Ok(mut heap) = HEAP.lock() else { return 0 };
    if wanted < heap.start || wanted > heap.start + MAX_HEAP {
        return heap.end;
    }
    let (now, then) = (pages(heap.end), pages(wanted));
    let changed = if then > now {
        // SAFETY: within what was reserved for this.
        unsafe {
            libc::mprotect(now as *mut _, then - now, libc::PROT_READ | libc::PROT_WRITE) == 0
        }
    } else if then < now {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
        // SAFETY: as above; the program gives these pages back.
        let at = unsafe { libc::mmap(then as *mut _, now - then, libc::PROT_NONE, flags, -1, 0) };
        at != libc::MAP_FAILED
    } else {
        true
    };
    if changed {
        heap.end = wanted;
    }
    heap.end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_heap_grows_is_written_shrinks_and_is_empty_where_it_grows_again() {
        reserve().unwrap();
        let start = brk(0);
        assert_eq!(brk(start + 10_000), start + 10_000);
        let last = (start + 9_999) as *mut u8;
        // SAFETY: on the heap.
        unsafe { last.write(7) };
        assert_eq!(brk(start + 1), start + 1);
        assert_eq!(brk(start + 10_000), start + 10_000);
        // SAFETY: on the heap again.
        assert_eq!(unsafe { last.read() }, 0);
        // Outside of it nothing changes.
        assert_eq!(brk(start - 1), start + 10_000);
        assert_eq!(brk(start + MAX_HEAP + 1), start + 10_000);
    }
}
