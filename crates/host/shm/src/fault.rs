//! Memory of a program's that may not be there.
//!
//! A program may name memory that it does not have, or may not write. The kernel answers EFAULT; a
//! call of ours would end the program. So what a program names is touched here alone: by [`copy`],
//! whose bytes lie in one of its buffers, and by [`may_read`] and [`may_write`] before all else is
//! looked at. Who installs a handler for SIGSEGV and SIGBUS asks [`recover`] first. Without such a
//! handler, and on other processors than these, a fault is what it is anywhere.

use std::ffi::c_void;

#[cfg(all(test, not(miri)))]
mod tests;

/// Memory is there, or is not, by pages; none are smaller.
const PAGE: usize = 4096;

/// Copies bytes. False: one of the two places is not there, and some bytes may have been copied.
///
/// Not inlined, so that who copies out of memory that others write looks at a copy that the
/// compiler cannot make again.
///
/// # Safety
/// As [`std::ptr::copy_nonoverlapping`], but that one of the two places may be missing where
/// [`recover`] is asked.
#[inline(never)]
pub unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
    // SAFETY: as the caller says.
    unsafe { code::copy(from, to, len) }
}

/// Whether all of these bytes may be read.
///
/// # Safety
/// Where [`recover`] is not asked the bytes are there.
pub unsafe fn may_read(at: *const c_void, len: usize) -> bool {
    // SAFETY: as the caller says.
    pages(at.addr(), len).all(|offset| unsafe { code::read(at.cast::<u8>().wrapping_add(offset)) })
}

/// Whether all of these bytes may be written. Nothing is changed.
///
/// # Safety
/// As for [`may_read`].
pub unsafe fn may_write(at: *mut c_void, len: usize) -> bool {
    // SAFETY: as the caller says.
    pages(at.addr(), len).all(|offset| unsafe { code::write(at.cast::<u8>().wrapping_add(offset)) })
}

/// A byte of each page in which some of these bytes lie, by how far it is from the first.
fn pages(at: usize, len: usize) -> impl Iterator<Item = usize> {
    let rest = PAGE - at % PAGE;
    (len > 0).then_some(0).into_iter().chain((rest..len).step_by(PAGE))
}

/// A fault came. True: it was memory of the program's, and the call goes on without. `inside`: the
/// thread is in a call of a library of ours, so that its stack is as the compiler makes it.
///
/// # Safety
/// `context` is what the kernel gave to the handler as its third argument.
pub unsafe fn recover(context: *mut c_void, inside: bool) -> bool {
    // SAFETY: as the caller says.
    unsafe { context.cast::<libc::ucontext_t>().as_mut() }
        .is_some_and(|context| code::recover(context, inside))
}

#[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod code {
    use std::arch::global_asm;

    use libc::ucontext_t;

    // The copy is the C library's, which calls nobody and moves no stack, so where it faults the
    // place that it returns to is where a function finds it at its beginning. A C library of which
    // that is not so has faults that end the program. Between `touch` and `touched` nothing is
    // written but what is touched, by what it is.
    #[cfg(target_arch = "x86_64")]
    global_asm!(
        ".hidden clearway_fault_copy, clearway_fault_copied, clearway_fault_copying",
        ".hidden clearway_fault_read, clearway_fault_write, clearway_fault_touched",
        ".hidden clearway_fault_untouched",
        ".globl clearway_fault_copy, clearway_fault_copied, clearway_fault_copying",
        ".globl clearway_fault_read, clearway_fault_write, clearway_fault_touched",
        ".globl clearway_fault_untouched",
        ".type clearway_fault_copy, @function",
        "clearway_fault_copy:",
        ".cfi_startproc",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call [rip + memcpy@GOTPCREL]",
        "clearway_fault_copied:",
        "mov eax, 1",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_adjust_cfa_offset 8",
        "clearway_fault_copying:",
        "xor eax, eax",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "ret",
        ".cfi_endproc",
        ".size clearway_fault_copy, . - clearway_fault_copy",
        ".type clearway_fault_read, @function",
        "clearway_fault_read:",
        ".cfi_startproc",
        "cmp byte ptr [rdi], 0",
        "mov eax, 1",
        "ret",
        "clearway_fault_write:",
        "lock or byte ptr [rdi], 0",
        "clearway_fault_touched:",
        "mov eax, 1",
        "ret",
        "clearway_fault_untouched:",
        "xor eax, eax",
        "ret",
        ".cfi_endproc",
        ".size clearway_fault_read, . - clearway_fault_read",
    );

    #[cfg(target_arch = "aarch64")]
    global_asm!(
        ".hidden clearway_fault_copy",
        ".hidden clearway_fault_copied",
        ".hidden clearway_fault_copying",
        ".hidden clearway_fault_read",
        ".hidden clearway_fault_write",
        ".hidden clearway_fault_touched",
        ".hidden clearway_fault_untouched",
        ".globl clearway_fault_copy",
        ".globl clearway_fault_copied",
        ".globl clearway_fault_copying",
        ".globl clearway_fault_read",
        ".globl clearway_fault_write",
        ".globl clearway_fault_touched",
        ".globl clearway_fault_untouched",
        ".type clearway_fault_copy, @function",
        "clearway_fault_copy:",
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_adjust_cfa_offset 16",
        ".cfi_rel_offset x29, 0",
        ".cfi_rel_offset x30, 8",
        "bl memcpy",
        "clearway_fault_copied:",
        "mov w0, #1",
        "b 1f",
        "clearway_fault_copying:",
        "mov w0, #0",
        "1:",
        "ldp x29, x30, [sp], #16",
        ".cfi_adjust_cfa_offset -16",
        ".cfi_restore x29",
        ".cfi_restore x30",
        "ret",
        ".cfi_endproc",
        ".size clearway_fault_copy, . - clearway_fault_copy",
        ".type clearway_fault_read, @function",
        "clearway_fault_read:",
        ".cfi_startproc",
        "ldrb w9, [x0]",
        "mov w0, #1",
        "ret",
        "clearway_fault_write:",
        "ldxrb w9, [x0]",
        "stxrb w10, w9, [x0]",
        "cbnz w10, clearway_fault_write",
        "clearway_fault_touched:",
        "mov w0, #1",
        "ret",
        "clearway_fault_untouched:",
        "mov w0, #0",
        "ret",
        ".cfi_endproc",
        ".size clearway_fault_read, . - clearway_fault_read",
    );

    // SAFETY: defined above, with these types; of those without arguments only the addresses are
    // used.
    unsafe extern "C" {
        fn clearway_fault_copy(to: *mut u8, from: *const u8, len: usize) -> u32;
        fn clearway_fault_copied();
        fn clearway_fault_copying();
        fn clearway_fault_read(at: *const u8) -> u32;
        fn clearway_fault_write(at: *mut u8) -> u32;
        fn clearway_fault_touched();
        fn clearway_fault_untouched();
    }

    /// # Safety
    /// As the module says.
    #[inline(always)]
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { clearway_fault_copy(to, from, len) != 0 }
    }

    /// # Safety
    /// As the module says.
    pub(super) unsafe fn read(at: *const u8) -> bool {
        // SAFETY: as the caller says.
        unsafe { clearway_fault_read(at) != 0 }
    }

    /// # Safety
    /// As the module says.
    pub(super) unsafe fn write(at: *mut u8) -> bool {
        // SAFETY: as the caller says.
        unsafe { clearway_fault_write(at) != 0 }
    }

    /// Moves the thread to where the function that faulted has failed.
    pub(super) fn recover(context: &mut ucontext_t, inside: bool) -> bool {
        let address = |place: unsafe extern "C" fn()| place as *const () as usize;
        let touching = clearway_fault_read as *const () as usize..address(clearway_fault_touched);
        if touching.contains(&at(context)) {
            go_on(context, address(clearway_fault_untouched));
            return true;
        }
        if inside && return_of_leaf(context) == address(clearway_fault_copied) {
            leave_leaf(context);
            go_on(context, address(clearway_fault_copying));
            return true;
        }
        false
    }

    #[cfg(target_arch = "x86_64")]
    mod registers {
        use super::ucontext_t;

        fn register(context: &mut ucontext_t, which: i32) -> &mut i64 {
            &mut context.uc_mcontext.gregs[which as usize]
        }

        pub(super) fn at(context: &mut ucontext_t) -> usize {
            *register(context, libc::REG_RIP) as usize
        }

        pub(super) fn go_on(context: &mut ucontext_t, address: usize) {
            *register(context, libc::REG_RIP) = address as i64;
        }

        /// Where a function that has put nothing on its stack returns to.
        pub(super) fn return_of_leaf(context: &mut ucontext_t) -> usize {
            let stack = *register(context, libc::REG_RSP) as *const usize;
            // SAFETY: the thread is in a call of ours, whose stack is there.
            unsafe { stack.read() }
        }

        pub(super) fn leave_leaf(context: &mut ucontext_t) {
            *register(context, libc::REG_RSP) += 8;
        }
    }

    #[cfg(target_arch = "aarch64")]
    mod registers {
        use super::ucontext_t;

        /// The register of the place that a function returns to.
        const LINK: usize = 30;

        pub(super) fn at(context: &mut ucontext_t) -> usize {
            context.uc_mcontext.pc as usize
        }

        pub(super) fn go_on(context: &mut ucontext_t, address: usize) {
            context.uc_mcontext.pc = address as u64;
        }

        /// Where a function that has put nothing on its stack returns to.
        pub(super) fn return_of_leaf(context: &mut ucontext_t) -> usize {
            context.uc_mcontext.regs[LINK] as usize
        }

        pub(super) fn leave_leaf(_context: &mut ucontext_t) {}
    }

    use registers::{at, go_on, leave_leaf, return_of_leaf};
}

#[cfg(any(miri, not(any(target_arch = "x86_64", target_arch = "aarch64"))))]
mod code {
    /// # Safety
    /// As the module says.
    pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) -> bool {
        // SAFETY: as the caller says.
        unsafe { std::ptr::copy_nonoverlapping(from, to, len) };
        true
    }

    /// # Safety
    /// As the module says.
    pub(super) unsafe fn read(_at: *const u8) -> bool {
        true
    }

    /// # Safety
    /// As the module says.
    pub(super) unsafe fn write(_at: *mut u8) -> bool {
        true
    }

    pub(super) fn recover(_context: &mut libc::ucontext_t, _inside: bool) -> bool {
        false
    }
}
