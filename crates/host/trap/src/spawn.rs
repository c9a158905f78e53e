//! New threads and processes.
//!
//! A thread gets a block of its own. A child by `vfork` has its parent's, which waits; so has a
//! child with a copy of the memory. A plain `fork` is made by the C library's, so that its own
//! locks and those of Clearway's library are in order in the child.

use std::ptr;
use std::sync::atomic::Ordering;

use libc::{c_long, ucontext_t};

use crate::block::{self, Block};
use crate::calls::{Outcome, back};
use crate::start::{hooks, tell};
use crate::{credentials, range, raw, signals, sites};

/// What `clone` and its like ask for.
struct Asked {
    flags: u64,
    exit_signal: u64,
    stack: u64,
    parent_tid: usize,
    child_tid: usize,
}

const EXIT_SIGNAL: u64 = 0xff;

/// From `linux/sched.h`: the child begins without handlers. One that has none for SIGSYS ends with its
/// first call.
const CLONE_CLEAR_SIGHAND: u64 = 1 << 32;

/// `struct clone_args` of `linux/sched.h`, its first version.
#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: u64,
    child_tid: u64,
    parent_tid: u64,
    exit_signal: u64,
    stack: u64,
    stack_size: u64,
    tls: u64,
}

/// # Safety
/// The words are the program's.
unsafe fn asked(number: c_long, words: [usize; 6]) -> Option<Asked> {
    let simple = |flags: i32| Asked {
        flags: flags as u64,
        exit_signal: libc::SIGCHLD as u64,
        stack: 0,
        parent_tid: 0,
        child_tid: 0,
    };
    Some(match number {
        libc::SYS_fork => simple(0),
        libc::SYS_vfork => simple(libc::CLONE_VM | libc::CLONE_VFORK),
        libc::SYS_clone => Asked {
            flags: words[0] as u64 & !EXIT_SIGNAL,
            exit_signal: words[0] as u64 & EXIT_SIGNAL,
            stack: words[1] as u64,
            parent_tid: words[2],
            child_tid: words[3],
        },
        _ => {
            if words[1] < size_of::<CloneArgs>() {
                return None;
            }
            // SAFETY: the program's, and as long as that.
            let args = unsafe { (words[0] as *const CloneArgs).as_ref() }?;
            Asked {
                flags: args.flags,
                exit_signal: args.exit_signal,
                stack: args.stack,
                parent_tid: args.parent_tid as usize,
                child_tid: args.child_tid as usize,
            }
        }
    })
}

/// Makes one, or has the program make it.
///
/// # Safety
/// The words are the program's.
pub(crate) unsafe fn spawn(
    context: &mut ucontext_t,
    own: &Block,
    number: c_long,
    words: [usize; 6],
) -> Outcome {
    // SAFETY: the program's words.
    let Some(asked) = (unsafe { asked(number, words) }) else {
        // The kernel says what is wrong with it.
        return Outcome::Native;
    };
    let has = |flag: i32| asked.flags & flag as u64 != 0;
    if asked.flags & CLONE_CLEAR_SIGHAND != 0 && (has(libc::CLONE_VM) || !is_plain_fork(&asked)) {
        // As kernels before 5.5 say, upon which C libraries do it themselves.
        return Outcome::Done(-(libc::EINVAL as isize));
    }
    if !has(libc::CLONE_FILES) {
        // SAFETY: as above; the library only notes that there will be copies of descriptors.
        unsafe { (hooks().call)(number, words.map(|word| word as c_long)) };
    }
    let block = match (has(libc::CLONE_VM), has(libc::CLONE_VFORK)) {
        (true, false) => match block::take() {
            Some(block) => block,
            None => return Outcome::Done(-(libc::EAGAIN as isize)),
        },
        (true, true) => own,
        (false, _) if is_plain_fork(&asked) => return Outcome::Done(fork(own, &asked)),
        (false, _) => own,
    };
    let Some(place) = sites::spawning(back(context), block) else {
        return Outcome::Done(-(libc::EAGAIN as isize));
    };
    sites::go(context, Some(place));
    Outcome::Placed
}

/// The flags with which C libraries fork.
const OF_FORK: u64 =
    (libc::CLONE_CHILD_SETTID | libc::CLONE_CHILD_CLEARTID | libc::CLONE_PARENT_SETTID) as u64;

fn is_plain_fork(asked: &Asked) -> bool {
    asked.flags & !(OF_FORK | CLONE_CLEAR_SIGHAND) == 0
        && asked.exit_signal == libc::SIGCHLD as u64
        && asked.stack == 0
}

fn fork(own: &Block, asked: &Asked) -> isize {
    let nobody_changes = credentials::hold();
    let answer = (hooks().fork)();
    drop(nobody_changes);
    let has = |flag: i32| asked.flags & flag as u64 != 0;
    let tell_tid = |place: usize, tid: i32| {
        // SAFETY: null, or the program's.
        if let Some(place) = unsafe { ptr::with_exposed_provenance_mut::<i32>(place).as_mut() } {
            *place = tid;
        }
    };
    if answer > 0 && has(libc::CLONE_PARENT_SETTID) {
        tell_tid(asked.parent_tid, answer as i32);
    }
    if answer != 0 {
        return answer as isize;
    }
    // What came before was for the parent.
    own.deferred.store(0, Ordering::Relaxed);
    block::forget_others(own);
    raw::know_process();
    if let Err(sentence) = range::dispatch() {
        tell(&sentence);
        std::process::abort();
    }
    if asked.flags & CLONE_CLEAR_SIGHAND != 0 {
        signals::forget_handlers();
    }
    // SAFETY: asks who this is.
    let tid = unsafe { raw::syscall(libc::SYS_gettid, [0; 6]) };
    if has(libc::CLONE_CHILD_SETTID) {
        tell_tid(asked.child_tid, tid as i32);
    }
    let cleared = if has(libc::CLONE_CHILD_CLEARTID) { asked.child_tid } else { 0 };
    // SAFETY: a place of the program's, which the kernel checks.
    unsafe { raw::syscall(libc::SYS_set_tid_address, [cleared, 0, 0, 0, 0, 0]) };
    0
}
