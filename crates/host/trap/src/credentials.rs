//! Users, groups and capabilities are a thread's own to the kernel. A program that drops its rights
//! makes the call on each of its threads (C libraries and Go do so by a signal), and knows nothing
//! of the threads that lend it their stacks: those follow here, or something of the old rights
//! would be left in the process.

use std::ffi::c_long;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::raw;

/// Threads that lend.
static LENDERS: AtomicU32 = AtomicU32::new(0);

/// Counts the calls that they make; they sleep on it.
static CALLS: AtomicU32 = AtomicU32::new(0);
static NUMBER: AtomicI64 = AtomicI64::new(0);
static WORDS: [AtomicUsize; 6] = [const { AtomicUsize::new(0) }; 6];
/// How many of them have made the last one.
static MADE: AtomicU32 = AtomicU32::new(0);

/// One thread at a time has them make a call.
static CALLER: Mutex<()> = Mutex::new(());

/// From `linux/prctl.h`: what takes rights away.
const TAKES_AWAY: [i32; 4] = [
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_CAPBSET_DROP,
    libc::PR_SET_SECUREBITS,
    libc::PR_CAP_AMBIENT,
];

/// The call changes what the calling thread may do.
pub(crate) fn are_changed_by(number: c_long, words: [usize; 6]) -> bool {
    match number {
        libc::SYS_setuid
        | libc::SYS_setgid
        | libc::SYS_setreuid
        | libc::SYS_setregid
        | libc::SYS_setresuid
        | libc::SYS_setresgid
        | libc::SYS_setgroups
        | libc::SYS_setfsuid
        | libc::SYS_setfsgid
        | libc::SYS_capset => true,
        libc::SYS_prctl => TAKES_AWAY.contains(&(words[0] as i32)),
        _ => false,
    }
}

/// Makes the call on this thread, and when it succeeds on those that lend. It waits for them: what
/// the words point to is the caller's.
///
/// # Safety
/// The words are the program's.
pub(crate) unsafe fn change(number: c_long, words: [usize; 6]) -> isize {
    // SAFETY: as the caller says.
    let answer = unsafe { raw::syscall(number, words) };
    // A child by `vfork` has the memory of the process, and not its threads.
    if answer >= 0 && raw::is_own_process() {
        let _one = hold();
        NUMBER.store(number, Ordering::Relaxed);
        for (place, word) in WORDS.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        MADE.store(0, Ordering::Relaxed);
        CALLS.fetch_add(1, Ordering::SeqCst);
        raw::wake(&CALLS, u32::MAX);
        loop {
            let made = MADE.load(Ordering::Acquire);
            if made >= LENDERS.load(Ordering::SeqCst) {
                break;
            }
            raw::wait(&MADE, made);
        }
    }
    answer
}

/// A thread that lends begins. Answers how many calls were made before it.
pub(crate) fn lends() -> u32 {
    // Nobody may be in the midst of a call: it would count this one, which has the rights of who
    // made it.
    let _one = hold();
    LENDERS.fetch_add(1, Ordering::SeqCst);
    CALLS.load(Ordering::SeqCst)
}

/// A thread that lends sleeps until there is a call to make, and makes it.
pub(crate) fn follow(seen: &mut u32) {
    raw::wait(&CALLS, *seen);
    let now = CALLS.load(Ordering::SeqCst);
    if now != *seen {
        *seen = now;
        let words = [0, 1, 2, 3, 4, 5].map(|at: usize| WORDS[at].load(Ordering::Relaxed));
        // SAFETY: the words of a thread that waits for this.
        unsafe { raw::syscall(NUMBER.load(Ordering::Relaxed), words) };
        MADE.fetch_add(1, Ordering::Release);
        raw::wake(&MADE, 1);
    }
}

/// Nobody has them make a call while this is there: for a fork, so that the child finds the lock
/// free.
pub(crate) fn hold() -> MutexGuard<'static, ()> {
    CALLER.lock().unwrap_or_else(PoisonError::into_inner)
}

/// In the child of a fork, where none of them is left.
pub(crate) fn forget_lenders() {
    LENDERS.store(0, Ordering::SeqCst);
}
