//! System calls as they are, without the C library: for what it does not have, and for places where
//! its thread-local variables are not in reach.

use std::arch::asm;
use std::ffi::c_long;

/// What the kernel answers: a negative errno when it failed.
///
/// # Safety
/// As the system call asks.
#[inline]
pub(crate) unsafe fn syscall(number: c_long, words: [usize; 6]) -> isize {
    let answer: isize;
    // SAFETY: as the caller says; the kernel changes these two registers and the answer.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number as isize => answer,
            in("rdi") words[0], in("rsi") words[1], in("rdx") words[2],
            in("r10") words[3], in("r8") words[4], in("r9") words[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    answer
}

/// The bit of a signal in a mask of the kernel's.
pub(crate) const fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// Signals that tell of what the running instruction did. They cannot wait.
pub(crate) const FAULTS: u64 = bit(libc::SIGSEGV)
    | bit(libc::SIGBUS)
    | bit(libc::SIGFPE)
    | bit(libc::SIGILL)
    | bit(libc::SIGTRAP)
    | bit(libc::SIGSYS);

/// Sets this thread's signal mask; the one before.
pub(crate) fn set_mask(mask: u64) -> u64 {
    let mut before = 0u64;
    let words = [
        libc::SIG_SETMASK as usize,
        (&raw const mask) as usize,
        (&raw mut before) as usize,
        8,
        0,
        0,
    ];
    // SAFETY: reads and writes eight bytes each, which are ours.
    unsafe { syscall(libc::SYS_rt_sigprocmask, words) };
    before
}
