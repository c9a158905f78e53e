//! Faults in calls of ours: memory that the program has named is not there.
//!
//! From the first socket on the process has a handler of ours for SIGSEGV and SIGBUS. It moves the
//! thread to where the call fails with EFAULT (`clearway_shm::fault`); every other fault is what it
//! would be without: the program's handler is entered as it was installed, a fault that nobody
//! handles ends the process where it happened, and the program is told of its own handlers alone.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};

use clearway_client::fault;
use libc::siginfo_t;

use super::{ADDRESS, Action, Informed, Plain, WITH_INFO, held, is_handler};
use crate::export::is_thread;
use crate::real;
use crate::{process, trap};

/// The signals, whose places in the tables are in this order.
const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];

/// What the program wants of them: a handler and [`WITH_INFO`], SIG_DFL or SIG_IGN.
static WANTED: [AtomicU64; 2] = [const { AtomicU64::new(0) }; 2];
/// The flags with which it said so, where it has no handler.
static FLAGS: [AtomicI32; 2] = [const { AtomicI32::new(0) }; 2];

/// The process has the handler, for good.
static CAUGHT: AtomicBool = AtomicBool::new(false);

/// A fault in a call of ours is EFAULT, or may be: what was named is to be looked at.
pub(crate) fn may_be_caught() -> bool {
    CAUGHT.load(Ordering::Relaxed)
}

/// A fault in a call of ours is EFAULT. A trapped program needs a handler of its own for that.
pub(crate) fn are_caught() -> bool {
    may_be_caught() && (!trap::is_on() || trap::has_handled(libc::SIGSEGV))
}

/// The process has a socket: from now on faults are caught. Not where the process may not ask the
/// kernel for it any more. A trapped program's handlers are entered by way of `clearway-trap`, which
/// asks [`recover`] itself.
pub(crate) fn catch() {
    if may_be_caught() || clearway_client::is_confined() || !process::is_own_or_unwatched() {
        return;
    }
    if trap::is_on() {
        CAUGHT.store(true, Ordering::Relaxed);
        return;
    }
    let errno = crate::errno::get();
    for (at, signal) in SIGNALS.into_iter().enumerate() {
        // SAFETY: all of it are numbers, and the places are ours.
        unsafe {
            let mut action = mem::zeroed::<Action>();
            real::sigaction(signal, ptr::null(), &raw mut action);
            if action.sa_sigaction != address() {
                let ours = wrapped(at, action);
                real::sigaction(signal, &raw const ours, ptr::null_mut());
            }
        }
    }
    CAUGHT.store(true, Ordering::Relaxed);
    crate::errno::set(errno);
}

fn address() -> usize {
    entry as *const () as usize
}

/// Remembers what the program wants, and says what the kernel gets for it.
fn wrapped(at: usize, mut action: Action) -> Action {
    let mut wanted = action.sa_sigaction as u64;
    if is_handler(action.sa_sigaction) {
        if action.sa_flags & libc::SA_SIGINFO != 0 {
            wanted |= WITH_INFO;
        }
    } else {
        FLAGS[at].store(action.sa_flags, Ordering::Relaxed);
        // On the program's other stack, if it has one: who overflows its own has no other.
        action.sa_flags = libc::SA_ONSTACK;
    }
    // Before the kernel has it: what comes meanwhile is for one of the two.
    WANTED[at].store(wanted, Ordering::Relaxed);
    action.sa_sigaction = address();
    action.sa_flags |= libc::SA_SIGINFO;
    action
}

/// `sigaction` of one of the signals. None: it is another one, or they are not caught; between
/// `vfork` and `exec` it is the child's, in memory of its parent.
///
/// # Safety
/// As for `sigaction(2)`.
pub(super) unsafe fn sigaction(
    signal: c_int,
    action: *const Action,
    old: *mut Action,
) -> Option<c_int> {
    let at = SIGNALS.iter().position(|one| *one == signal)?;
    if !may_be_caught() || trap::is_on() {
        return None;
    }
    let (wanted, flags) = (WANTED[at].load(Ordering::Relaxed), FLAGS[at].load(Ordering::Relaxed));
    // SAFETY: null, or the caller's. It may be the place of the old one too.
    let given = (!action.is_null()).then(|| unsafe { action.read() });
    let given = given.map(|given| match process::is_own_or_unwatched() {
        true => wrapped(at, given),
        false => given,
    });
    let given = given.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: null or ours, and the caller's own place.
    let answer = unsafe { real::sigaction(signal, given, old) };
    if answer != 0 {
        WANTED[at].store(wanted, Ordering::Relaxed);
        FLAGS[at].store(flags, Ordering::Relaxed);
        // SAFETY: null, or the caller's, which was written just now.
    } else if let Some(old) = unsafe { old.as_mut() }.filter(|old| old.sa_sigaction == address()) {
        old.sa_sigaction = (wanted & ADDRESS) as usize;
        if !is_handler(old.sa_sigaction) {
            old.sa_flags = flags;
        } else if wanted & WITH_INFO == 0 {
            old.sa_flags &= !libc::SA_SIGINFO;
        }
    }
    Some(answer)
}

/// A fault came. True: it was in a call of ours, which goes on.
///
/// # Safety
/// `context` is what the kernel gave to the handler.
pub(crate) unsafe fn recover(context: *mut c_void) -> bool {
    // Inside of a call the stack is as ours leave it.
    let inside = is_thread() && held::depth() > 0;
    // SAFETY: as the caller says.
    unsafe { fault::recover(context, inside) }
}

/// Stands before what the program wants of a fault.
extern "C-unwind" fn entry(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel gave.
    if unsafe { recover(context) } {
        return;
    }
    let at = usize::from(signal != libc::SIGSEGV);
    let wanted = WANTED[at].load(Ordering::Relaxed);
    let handler = (wanted & ADDRESS) as usize;
    if is_handler(handler) && wanted & WITH_INFO != 0 {
        // SAFETY: the program installed a function of this type.
        let handler = unsafe { mem::transmute::<usize, Informed>(handler) };
        handler(signal, info, context);
    } else if is_handler(handler) {
        // SAFETY: as above.
        let handler = unsafe { mem::transmute::<usize, Plain>(handler) };
        handler(signal);
    } else {
        // SAFETY: what the kernel gave.
        unsafe { as_without(signal, info, handler) };
    }
}

/// A signal that the program has no handler for. What the processor told comes again when the
/// thread goes on, and then the kernel does what it does; what somebody sent is sent once more, and
/// comes when this handler is over.
///
/// # Safety
/// The pointer is what the kernel gave to the handler.
unsafe fn as_without(signal: c_int, info: *const siginfo_t, wanted: usize) {
    // SAFETY: as the caller says.
    let was_sent = unsafe { (*info).si_code } <= 0;
    if was_sent && wanted == libc::SIG_IGN {
        return;
    }
    // SAFETY: all of it are numbers; a signal for this thread.
    unsafe {
        let mut action = mem::zeroed::<Action>();
        action.sa_sigaction = libc::SIG_DFL;
        real::sigaction(signal, &raw const action, ptr::null_mut());
        if was_sent {
            let process = libc::SYS_getpid;
            let process = real::syscall(process, 0, 0, 0, 0, 0, 0);
            let thread = real::syscall(libc::SYS_gettid, 0, 0, 0, 0, 0, 0);
            real::syscall(libc::SYS_tgkill, process, thread, signal.into(), 0, 0, 0);
        }
    }
}
