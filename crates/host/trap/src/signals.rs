//! Signals of the program.
//!
//! The kernel has one handler of ours for all of them (`clearway_trap_signal`). While the program
//! runs it jumps to the program's, which then runs as if it had been installed: on the kernel's
//! frame, with the program's thread pointer. While the library runs the signal is noted, all
//! others are blocked, and the call that waits fails with EINTR; when the program goes on the
//! signal is sent to the thread once more, with what the kernel said of it.
//!
//! SIGSYS is the library's. It is in no mask that the kernel has, for a call that is trapped while
//! it is blocked ends the process; the program's handler for it is called for those of other
//! origin.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use libc::{siginfo_t, ucontext_t};

use crate::block::Block;
use crate::entry::{self, address};
use crate::raw::{self, FAULTS, bit};
use crate::start::hooks;

const SIGNALS: usize = 64;

/// `struct sigaction` as the kernel has it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: u64,
}

/// From `asm/signal.h`.
const SA_RESTORER: u64 = 0x0400_0000;
const SA_RESETHAND: u64 = libc::SA_RESETHAND as u32 as u64;
const SA_SIGINFO: u64 = libc::SA_SIGINFO as u64;
/// Flags that the kernel knows on x86-64; it forgets all others, and so does whoever asks it.
const KNOWN_FLAGS: u64 = (libc::SA_NOCLDSTOP
    | libc::SA_NOCLDWAIT
    | libc::SA_SIGINFO
    | libc::SA_ONSTACK
    | libc::SA_RESTART
    | libc::SA_NODEFER
    | libc::SA_RESETHAND) as u32 as u64
    | SA_RESTORER
    | 0x800;
/// From `linux/signal.h`: the kernel takes the stack away while a handler runs on it.
const SS_AUTODISARM: c_int = 1 << 31;

/// The program's handlers, by signal. They are kept when the signal is given back to the kernel: a
/// child by `vfork` does that, in its parent's memory.
pub(crate) static HANDLERS: [AtomicUsize; SIGNALS + 1] =
    [const { AtomicUsize::new(0) }; SIGNALS + 1];
static FLAGS: [AtomicU64; SIGNALS + 1] = [const { AtomicU64::new(0) }; SIGNALS + 1];
static RESTORERS: [AtomicUsize; SIGNALS + 1] = [const { AtomicUsize::new(0) }; SIGNALS + 1];
static MASKS: [AtomicU64; SIGNALS + 1] = [const { AtomicU64::new(0) }; SIGNALS + 1];

const SIGSYS: usize = libc::SIGSYS as usize;

fn remember(signal: usize, action: &Action) {
    FLAGS[signal].store(action.flags, Ordering::Relaxed);
    RESTORERS[signal].store(action.restorer, Ordering::Relaxed);
    MASKS[signal].store(action.mask, Ordering::Relaxed);
    HANDLERS[signal].store(action.handler, Ordering::Relaxed);
}

fn remembered(signal: usize) -> Action {
    Action {
        handler: HANDLERS[signal].load(Ordering::Relaxed),
        flags: FLAGS[signal].load(Ordering::Relaxed),
        restorer: RESTORERS[signal].load(Ordering::Relaxed),
        mask: MASKS[signal].load(Ordering::Relaxed),
    }
}

/// What the kernel gets for an action of the program's.
fn entered_by_ours(action: &Action) -> Action {
    Action {
        handler: signal_entry(),
        // Without SA_SIGINFO the kernel does not say what came.
        flags: action.flags | SA_RESTORER | SA_SIGINFO,
        restorer: address(entry::clearway_trap_restorer),
        mask: action.mask & !bit(libc::SIGSYS),
    }
}

/// What the kernel enters for each handler of the program.
pub fn signal_entry() -> usize {
    address(entry::clearway_trap_signal)
}

/// Whether the program has had a handler for this signal.
pub fn has_handled(signal: c_int) -> bool {
    HANDLERS.get(signal as usize).is_some_and(|handler| handler.load(Ordering::Relaxed) != 0)
}

fn ask_kernel(signal: usize, action: Option<&Action>, old: Option<&mut Action>) -> isize {
    let action = action.map_or(0, |action| std::ptr::from_ref(action) as usize);
    let old = old.map_or(0, |old| std::ptr::from_mut(old) as usize);
    // SAFETY: null, or ours.
    unsafe { raw::syscall(libc::SYS_rt_sigaction, [signal, action, old, 8, 0, 0]) }
}

/// Installs the handler of SIGSYS, for this process.
pub(crate) fn install() {
    let action = Action {
        handler: address(entry::clearway_trap_sigsys),
        flags: SA_RESTORER | (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as u32 as u64,
        restorer: address(entry::clearway_trap_restorer),
        mask: 0,
    };
    ask_kernel(SIGSYS, Some(&action), None);
    let before = raw::set_mask(0);
    raw::set_mask(before & !bit(libc::SIGSYS));
}

/// The C library installs handlers of its own with its first thread (SIGSETXID, by which it changes
/// the users of all of its threads). That happens now, and is undone: programs use the same signal
/// for the same, and nothing here has the C library use it.
pub(crate) fn settle_the_librarys() {
    let _ = std::thread::spawn(|| ()).join();
    for signal in [32, 33] {
        ask_kernel(signal, Some(&Action::default()), None);
    }
}

/// `rt_sigaction(2)`
///
/// # Safety
/// The words are the program's.
pub(crate) unsafe fn action(words: [usize; 6]) -> isize {
    let [signal, action, old, size, ..] = words;
    if size != 8 || !(1..=SIGNALS).contains(&signal) {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: null, or the program's. The places may be one.
    let action = unsafe { (action as *const Action).as_ref() }
        .map(|action| Action { flags: action.flags & KNOWN_FLAGS, ..*action });
    let mut was = Action::default();
    let before = remembered(signal);
    let is_handler = |handler: usize| handler != libc::SIG_DFL && handler != libc::SIG_IGN;
    if signal == SIGSYS {
        was = before;
        if let Some(action) = action {
            let kept = Action { handler: 0, ..action };
            remember(signal, if is_handler(action.handler) { &action } else { &kept });
        }
    } else {
        let given = action.map(|action| {
            if is_handler(action.handler) {
                // Before the kernel has it: what comes meanwhile is for one of the two.
                remember(signal, &action);
                entered_by_ours(&action)
            } else {
                action
            }
        });
        let answer = ask_kernel(signal, given.as_ref(), Some(&mut was));
        if answer < 0 {
            return answer;
        }
        // The kernel leaves the flags of a handler that it has taken out after its only time.
        let is_over = was.handler == libc::SIG_DFL && was.flags & SA_RESETHAND != 0;
        if was.handler == signal_entry() {
            was = before;
        } else if is_over {
            was.flags = before.flags;
        }
    }
    if old != 0 {
        // SAFETY: the program's.
        unsafe { *(old as *mut Action) = was };
    }
    0
}

/// A child that has no handler of its parent's; what is ignored stays so.
pub(crate) fn forget_handlers() {
    for (signal, handler) in HANDLERS.iter().enumerate().skip(1) {
        let handler = handler.load(Ordering::Relaxed);
        if handler != libc::SIG_DFL && handler != libc::SIG_IGN {
            let none = Action::default();
            let words = [signal, std::ptr::from_ref(&none) as usize, 0, 8, 0, 0];
            // SAFETY: the action is one.
            unsafe { action(words) };
        }
    }
}

/// The signal mask that the program goes on with.
pub(crate) fn mask_of(context: &mut ucontext_t) -> &mut u64 {
    // SAFETY: the kernel's set is the first eight bytes of the C library's.
    unsafe { &mut *(&raw mut context.uc_sigmask).cast::<u64>() }
}

/// `rt_sigprocmask(2)`: the mask is in the frame.
///
/// # Safety
/// The words are the program's.
pub(crate) unsafe fn change_mask(context: &mut ucontext_t, words: [usize; 6]) -> isize {
    let [how, set, old, size, ..] = words;
    if size != 8 {
        return -(libc::EINVAL as isize);
    }
    // SAFETY: null, or the program's.
    let set = unsafe { (set as *const u64).as_ref() }.copied();
    let mask = mask_of(context);
    let before = *mask;
    let never = bit(libc::SIGSYS) | bit(libc::SIGKILL) | bit(libc::SIGSTOP);
    if let Some(set) = set {
        *mask = match how as c_int {
            libc::SIG_BLOCK => before | set,
            libc::SIG_UNBLOCK => before & !set,
            libc::SIG_SETMASK => set,
            _ => return -(libc::EINVAL as isize),
        } & !never;
    }
    if old != 0 {
        // SAFETY: the program's.
        unsafe { *(old as *mut u64) = before };
    }
    0
}

/// Stacks for signals that are shorter have no room for what a trapped call of a handler's takes: a
/// frame of the kernel's, up to 3.5 KiB with AVX-512 and 11 with AMX. Programs in Rust with musl
/// have 8 KiB. Longer ones are left alone, for Go looks whether a handler runs on its own.
const SHORT_STACK: usize = 16 << 10;

/// `sigaltstack(2)`: it is in the frame.
///
/// # Safety
/// The words are the program's.
pub(crate) unsafe fn change_stack(
    context: &mut ucontext_t,
    block: &Block,
    words: [usize; 6],
) -> isize {
    // SAFETY: null, or the program's; the places may be one.
    let new = unsafe { (words[0] as *const libc::stack_t).as_ref() }.copied();
    let now = &mut context.uc_stack;
    let sp = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    let start = now.ss_sp as usize;
    let is_off = now.ss_flags & libc::SS_DISABLE != 0 || now.ss_size == 0;
    let is_on_it = !is_off && sp > start && sp - start <= now.ss_size;
    let [told_start, told_len] = block.stood_in(start).unwrap_or([start, now.ss_size]);
    let told = libc::stack_t {
        ss_sp: told_start as *mut c_void,
        ss_flags: match (is_off, is_on_it) {
            (true, _) => libc::SS_DISABLE,
            (false, true) => libc::SS_ONSTACK,
            (false, false) => 0,
        },
        ss_size: told_len,
    };
    if let Some(new) = new {
        match new.ss_flags & !SS_AUTODISARM {
            _ if is_on_it => return -(libc::EPERM as isize),
            libc::SS_DISABLE => {
                now.ss_sp = std::ptr::null_mut();
                now.ss_flags = libc::SS_DISABLE;
                now.ss_size = 0;
            }
            0 | libc::SS_ONSTACK if new.ss_size < libc::MINSIGSTKSZ => {
                return -(libc::ENOMEM as isize);
            }
            0 | libc::SS_ONSTACK => {
                let given = [new.ss_sp as usize, new.ss_size];
                let longer = (new.ss_size < SHORT_STACK).then(|| block.stand_in(given)).flatten();
                let (start, len) = longer.unwrap_or((given[0], given[1]));
                now.ss_sp = start as *mut c_void;
                now.ss_flags = SS_AUTODISARM;
                now.ss_size = len;
            }
            _ => return -(libc::EINVAL as isize),
        }
    }
    if words[1] != 0 {
        // SAFETY: the program's.
        unsafe { *(words[1] as *mut libc::stack_t) = told };
    }
    0
}

/// The thread gives this memory back. When it stands on it, as threads of musl do that nobody joins,
/// it goes on without a stack to its last call, whose signal needs one: the kernel lays the frame
/// where the block has room for it.
pub(crate) fn keep_a_stack(context: &mut ucontext_t, block: &Block, (start, len): (usize, usize)) {
    let is_given_back = |place: usize| place > start && place - start <= len;
    let now = &mut context.uc_stack;
    let is_off = now.ss_flags & libc::SS_DISABLE != 0 || now.ss_size == 0;
    let sp = context.uc_mcontext.gregs[libc::REG_RSP as usize] as usize;
    if !is_given_back(sp) || !(is_off || is_given_back(now.ss_sp as usize + now.ss_size)) {
        return;
    }
    let (start, len) = block.last_stack();
    now.ss_sp = start as *mut c_void;
    now.ss_flags = SS_AUTODISARM;
    now.ss_size = len;
}

/// A signal of the program's came while the library runs on this thread.
pub(crate) extern "C" fn interrupted(
    signal: c_int,
    info: *const siginfo_t,
    context: *mut ucontext_t,
    block: *const Block,
) {
    // SAFETY: what the kernel gave to the handler, and the block of this thread.
    let (came, context, block) = unsafe { (info.read(), &mut *context, &*block) };
    if FAULTS & bit(signal) != 0 && came.si_code > 0 {
        // SAFETY: what the kernel gave.
        if unsafe { (hooks().recover)(std::ptr::from_mut(context).cast()) } {
            // A pointer of the program's that leads nowhere.
            return;
        }
        // A mistake of ours: it comes again, and ends the process.
        ask_kernel(signal as usize, Some(&Action::default()), None);
        return;
    }
    if block.deferred.load(Ordering::Relaxed) == 0 {
        // SAFETY: only this thread touches it, and its signals are blocked from here on.
        unsafe { (*block.info.get()).write(came) };
        block.deferred.store(signal as u64, Ordering::Relaxed);
    } else {
        // Several came at once: another one's handler was called from within this one's, and all
        // are blocked since.
        send(signal as usize, info as usize);
    }
    *mask_of(context) |= !FAULTS;
    let at = context.uc_mcontext.gregs[libc::REG_RIP as usize] as usize;
    let way_out = address(entry::clearway_trap_leave)..address(entry::clearway_trap_left);
    if way_out.contains(&at) {
        context.uc_mcontext.gregs[libc::REG_RIP as usize] =
            address(entry::clearway_trap_slow) as i64;
        return;
    }
    let restarts = FLAGS[signal as usize].load(Ordering::Relaxed) & libc::SA_RESTART as u64 != 0;
    // SAFETY: the context is what the kernel gave.
    unsafe { (hooks().interrupted)(restarts, std::ptr::from_mut(context).cast()) };
}

/// Sends this thread the signal that came, which waits until the program goes on.
pub(crate) extern "C" fn send_again(_: *mut ucontext_t, block: *const Block) {
    // SAFETY: the block of this thread.
    let block = unsafe { &*block };
    let signal = block.deferred.swap(0, Ordering::Relaxed) as usize;
    if !(1..=SIGNALS).contains(&signal) {
        return;
    }
    send(signal, block.info.get() as usize);
}

/// Sends this thread a signal whose handler has not run, with what the kernel said of it.
fn send(signal: usize, info: usize) {
    let action = remembered(signal);
    if action.flags & SA_RESETHAND != 0 {
        // The kernel has taken the handler out.
        ask_kernel(signal, Some(&entered_by_ours(&action)), None);
    }
    // SAFETY: asks who this is, and sends a signal to this thread.
    unsafe {
        let process = raw::syscall(libc::SYS_getpid, [0; 6]) as usize;
        let thread = raw::syscall(libc::SYS_gettid, [0; 6]) as usize;
        raw::syscall(libc::SYS_rt_tgsigqueueinfo, [process, thread, signal, info, 0, 0]);
    }
}

/// A signal of the program's came to a thread of the library's own: it is for another.
pub(crate) extern "C" fn stranger(signal: c_int, info: *mut siginfo_t, context: *mut ucontext_t) {
    // SAFETY: what the kernel gave to the handler; sends a signal to this process.
    unsafe {
        *mask_of(&mut *context) |= bit(signal);
        let process = raw::syscall(libc::SYS_getpid, [0; 6]) as usize;
        let words = [process, signal as usize, info as usize, 0, 0, 0];
        if raw::syscall(libc::SYS_rt_sigqueueinfo, words) < 0 {
            // Only the main thread may say in the kernel's name where it came from.
            raw::syscall(libc::SYS_kill, [process, signal as usize, 0, 0, 0, 0]);
        }
    }
}

/// A SIGSYS that is not ours, and for which the program has no handler: it ends the process.
pub(crate) extern "C" fn foreign() {
    ask_kernel(SIGSYS, Some(&Action::default()), None);
    // SAFETY: sends a signal to this thread.
    unsafe {
        let process = raw::syscall(libc::SYS_getpid, [0; 6]) as usize;
        let thread = raw::syscall(libc::SYS_gettid, [0; 6]) as usize;
        raw::syscall(libc::SYS_tgkill, [process, thread, SIGSYS, 0, 0, 0]);
    }
}
