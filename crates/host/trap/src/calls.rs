//! Every system call of the program, as it comes.

use std::ffi::{CStr, c_char, c_int, c_long};
use std::sync::atomic::Ordering;

use libc::ucontext_t;

use crate::block::Block;
use crate::carry::DESCRIPTORS;
use crate::start::{carrier_and_program, hooks};
use crate::{RESTART, brk, credentials, entry, exec, range, raw, signals, sites, spawn};

/// What becomes of a call.
pub(crate) enum Outcome {
    /// It is done: what the kernel would answer.
    Done(isize),
    /// The program makes it itself.
    Native,
    /// The frame says already where the program goes on.
    Placed,
}

use Outcome::{Done, Native, Placed};

/// From `asm/prctl.h`: the GS base is ours.
const ARCH_SET_GS: usize = 0x1001;
const ARCH_GET_GS: usize = 0x1004;

/// From `linux/in.h`.
const IPPROTO_MPTCP: usize = 262;

/// Registers of a context, by their order in a system call.
const WORDS: [c_int; 6] =
    [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];

fn register(context: &mut ucontext_t, which: c_int) -> &mut i64 {
    &mut context.uc_mcontext.gregs[which as usize]
}

/// The instruction behind the one that made the call.
pub(crate) fn back(context: &mut ucontext_t) -> u64 {
    *register(context, libc::REG_RIP) as u64
}

/// The handler of SIGSYS has gone over to the library's stack.
pub(crate) extern "C" fn called(context: *mut ucontext_t, block: *const Block) {
    // SAFETY: the frame that the kernel made, and the block of this thread.
    let (context, block) = unsafe { (&mut *context, &*block) };
    (hooks().begin)();
    if block.deferred.load(Ordering::Relaxed) != 0 {
        // The handler runs first, as where it comes before the kernel has begun.
        again(context);
        return;
    }
    let number = *register(context, libc::REG_RAX);
    let words = WORDS.map(|which| *register(context, which) as usize);
    // SAFETY: the program's own words.
    match unsafe { outcome(context, block, number, words) } {
        Done(answer) if answer == RESTART as isize => again(context),
        Done(answer) => *register(context, libc::REG_RAX) = answer as i64,
        Native => {
            let place = sites::plain(back(context));
            sites::go(context, place);
        }
        Placed => {}
    }
}

/// Lets the program make the call once more.
fn again(context: &mut ucontext_t) {
    /// Bytes of the instruction `syscall`.
    const INSTRUCTION: i64 = 2;
    *register(context, libc::REG_RIP) -= INSTRUCTION;
}

/// # Safety
/// The words are the program's.
unsafe fn outcome(
    context: &mut ucontext_t,
    block: &Block,
    number: c_long,
    words: [usize; 6],
) -> Outcome {
    // SAFETY: the program's own words, in all of these.
    unsafe {
        match number {
            libc::SYS_rt_sigaction => Done(signals::action(words)),
            libc::SYS_rt_sigprocmask => Done(signals::change_mask(context, words)),
            libc::SYS_sigaltstack => Done(signals::change_stack(context, block, words)),
            libc::SYS_rt_sigsuspend => unmask(context, number, words, 0),
            libc::SYS_rt_sigreturn => Native,
            libc::SYS_brk => Done(brk::brk(words[0]) as isize),
            libc::SYS_clone | libc::SYS_clone3 | libc::SYS_fork | libc::SYS_vfork => {
                spawn::spawn(context, block, number, words)
            }
            libc::SYS_execve => Done(exec::execve(words)),
            libc::SYS_execveat => match exec::execveat(words) {
                Some(answer) => Done(answer),
                None => Native,
            },
            libc::SYS_exit if raw::is_own_process() => exit(context),
            // A child by `vfork`: its block is its parent's, which goes on.
            libc::SYS_exit => Native,
            _ if credentials::are_changed_by(number, words) => {
                // The library looks at it first.
                let answer = (hooks().call)(number, words.map(|word| word as c_long));
                Done(answer.map_or_else(|| credentials::change(number, words), |it| it as isize))
            }
            libc::SYS_munmap => {
                signals::keep_a_stack(context, block, (words[0], words[1]));
                asked(context, block, number, words)
            }
            libc::SYS_arch_prctl if matches!(words[0], ARCH_SET_GS | ARCH_GET_GS) => {
                Done(-(libc::EPERM as isize))
            }
            libc::SYS_prctl if words[0] as i32 == range::PR_SET_SYSCALL_USER_DISPATCH => {
                Done(-(libc::EINVAL as isize))
            }
            // Programs that ask for MPTCP do with TCP where there is none.
            libc::SYS_socket if words[2] == IPPROTO_MPTCP => {
                Done(-(libc::EPROTONOSUPPORT as isize))
            }
            libc::SYS_readlink if is_own_program(words[0]) => Done(own_program(words[1], words[2])),
            libc::SYS_readlinkat if is_own_program(words[1]) => {
                Done(own_program(words[2], words[3]))
            }
            libc::SYS_open if is_own_program(words[0]) => open(words[1], words[2]),
            libc::SYS_openat if is_own_program(words[1]) => open(words[2], words[3]),
            _ => asked(context, block, number, words),
        }
    }
}

/// Asks whether the call is Clearway's.
///
/// # Safety
/// The words are the program's.
unsafe fn asked(
    context: &mut ucontext_t,
    block: &Block,
    number: c_long,
    words: [usize; 6],
) -> Outcome {
    // SAFETY: the program's own words.
    let answer = unsafe { (hooks().call)(number, words.map(|word| word as c_long)) };
    let mask = match number {
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => Some(4),
        libc::SYS_ppoll => Some(3),
        libc::SYS_pselect6 => Some(5),
        _ => None,
    };
    let Some(mask) = mask.filter(|at| words[*at] != 0) else {
        return answer.map_or(Native, |answer| Done(answer as isize));
    };
    match answer {
        // SAFETY: the program's own words.
        None if number != libc::SYS_pselect6 => unsafe { unmask(context, number, words, mask) },
        None => Native,
        Some(answer) if answer == -c_long::from(libc::EINTR) => {
            let mask = words[mask] as *const usize;
            let mask = match number {
                // There it is a pointer to where the mask is.
                // SAFETY: the program's.
                libc::SYS_pselect6 => unsafe { mask.read() as *const u64 },
                _ => mask.cast::<u64>(),
            };
            // SAFETY: null, or the program's.
            let mask = unsafe { mask.as_ref() }.copied();
            let signal = block.deferred.load(Ordering::Relaxed) as i32;
            match mask {
                Some(mask) if signal != 0 && mask & raw::bit(signal) == 0 => suspend(context, mask),
                _ => Done(answer as isize),
            }
        }
        Some(answer) => Done(answer as isize),
    }
}

/// A call that waits with a signal mask of its own was interrupted: the handler runs with that
/// mask, which may be the only one that lets it.
fn suspend(context: &mut ucontext_t, mask: u64) -> Outcome {
    *register(context, libc::REG_RAX) = libc::SYS_rt_sigsuspend;
    with_other_words(context, mask, |at| [Some(at), Some(8), None, None, None, None])
}

/// A call with a mask, which must not block SIGSYS.
///
/// # Safety
/// The words are the program's.
unsafe fn unmask(
    context: &mut ucontext_t,
    number: c_long,
    words: [usize; 6],
    at: usize,
) -> Outcome {
    // SAFETY: null, or the program's.
    match unsafe { (words[at] as *const u64).as_ref() } {
        Some(mask) if mask & raw::bit(libc::SIGSYS) != 0 => {
            *register(context, libc::REG_RAX) = number;
            with_other_words(context, *mask, |place| {
                let mut words = [None; 6];
                words[at] = Some(place);
                words
            })
        }
        _ => Native,
    }
}

/// Has the program make a call with other words than its own, and a mask that lies on its stack.
fn with_other_words(
    context: &mut ucontext_t,
    mask: u64,
    words: impl FnOnce(usize) -> [Option<usize>; 6],
) -> Outcome {
    /// Below the stack pointer a function without calls may keep this much.
    const RED_ZONE: usize = 128;
    let sp = *register(context, libc::REG_RSP) as usize;
    let own = WORDS.map(|which| *register(context, which) as u64);
    let kept =
        [own[0], own[1], own[2], own[3], own[4], own[5], sp as u64, mask & !raw::bit(libc::SIGSYS)];
    let below = (sp - RED_ZONE - size_of_val(&kept)) & !15;
    // SAFETY: the program's stack, where the kernel would lay a signal's frame.
    unsafe { (below as *mut [u64; 8]).write(kept) };
    let mask_at = below + size_of_val(&kept) - size_of::<u64>();
    for (which, word) in WORDS.into_iter().zip(words(mask_at)) {
        if let Some(word) = word {
            *register(context, which) = word as i64;
        }
    }
    *register(context, libc::REG_RSP) = below as i64;
    let place = sites::restoring(back(context));
    sites::go(context, place);
    Placed
}

/// A thread ends. From the moment on that its block is free nothing may interrupt it.
fn exit(context: &mut ucontext_t) -> Outcome {
    *signals::mask_of(context) = !raw::FAULTS;
    sites::go(context, Some(entry::address(entry::clearway_trap_exit) as u64));
    Placed
}

/// Whether this is the path by which a program finds its own file.
///
/// # Safety
/// A path of the program's.
unsafe fn is_own_program(path: usize) -> bool {
    let path = path as *const c_char;
    // SAFETY: null, or the program's.
    !path.is_null() && unsafe { CStr::from_ptr(path) }.to_bytes() == b"/proc/self/exe"
}

/// What `/proc/self/exe` leads to.
///
/// # Safety
/// Room of the program's.
unsafe fn own_program(room: usize, len: usize) -> isize {
    let path = carrier_and_program().1;
    let program = path.to_bytes();
    if program.starts_with(DESCRIPTORS.as_bytes()) {
        let words = [libc::AT_FDCWD as usize, path.as_ptr() as usize, room, len, 0, 0];
        // SAFETY: a path of ours, and the program's room.
        return unsafe { raw::syscall(libc::SYS_readlinkat, words) };
    }
    if len as isize <= 0 {
        return -(libc::EINVAL as isize);
    }
    let len = len.min(program.len());
    // SAFETY: the program has room for so much.
    unsafe { std::ptr::copy_nonoverlapping(program.as_ptr(), room as *mut u8, len) };
    len as isize
}

fn open(flags: usize, mode: usize) -> Outcome {
    let path = carrier_and_program().1.as_ptr() as usize;
    let words = [libc::AT_FDCWD as usize, path, flags, mode, 0, 0];
    // SAFETY: a path of ours; the rest are numbers.
    Done(unsafe { raw::syscall(libc::SYS_openat, words) })
}
