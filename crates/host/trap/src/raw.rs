//! System calls as they are, without the C library: for what it does not have, and for places where
//! its thread-local variables are not in reach.

use std::arch::asm;
use std::ffi::c_long;
use std::ptr;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

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

/// The process that the program is, which children by `vfork` are not.
static PROCESS: AtomicUsize = AtomicUsize::new(0);

fn process() -> usize {
    // SAFETY: asks for a number.
    unsafe { syscall(libc::SYS_getpid, [0; 6]) as usize }
}

/// This is the program's process from now on.
pub(crate) fn know_process() {
    PROCESS.store(process(), Ordering::Relaxed);
}

/// Whether this is the program's process, and not a child that has its memory.
pub(crate) fn is_own_process() -> bool {
    PROCESS.load(Ordering::Relaxed) == process()
}

/// Sleeps while the word has this value.
pub(crate) fn wait(word: &AtomicU32, value: u32) {
    let words = [ptr::from_ref(word) as usize, libc::FUTEX_WAIT as usize, value as usize, 0, 0, 0];
    // SAFETY: the word lives.
    unsafe { syscall(libc::SYS_futex, words) };
}

/// Wakes so many who sleep on the word.
pub(crate) fn wake(word: &AtomicU32, most: u32) {
    let most = most.min(i32::MAX as u32) as usize;
    let words = [ptr::from_ref(word) as usize, libc::FUTEX_WAKE as usize, most, 0, 0, 0];
    // SAFETY: the word lives.
    unsafe { syscall(libc::SYS_futex, words) };
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
