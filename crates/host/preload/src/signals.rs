//! What the program does with signals.
//!
//! A call of ours that waits is only partly in the kernel, so the kernel cannot end it for a signal
//! that comes before. Handlers of the program are therefore entered by way of one of ours
//! ([`entry`]), which tells the thread that it was interrupted (`clearway_shm::interrupt`), and runs
//! them when the thread is outside of this library ([`held`]). The program is told of its own
//! handlers alone.

use std::ffi::{c_int, c_void};
use std::mem;
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use clearway_client::{every_handler_restarts_but, interrupt};
use libc::siginfo_t;

use crate::{real, trap};

pub(crate) mod faults;
pub(crate) mod held;
#[cfg(test)]
mod tests;

type Action = libc::sigaction;

/// Signals there are (`_NSIG` − 1).
const SIGNALS: c_int = 64;

/// The handlers of the program, by signal: the address, and how it was installed. They are kept
/// when the signal is given back to the kernel: a child by `vfork` does that, in its parent's
/// memory.
static HANDLERS: [AtomicU64; SIGNALS as usize + 1] =
    [const { AtomicU64::new(0) }; SIGNALS as usize + 1];

/// Installed with SA_SIGINFO. No address of a program has this bit.
const WITH_INFO: u64 = 1 << 63;
/// Installed with SA_RESTART. As above.
const RESTARTS: u64 = 1 << 62;
const ADDRESS: u64 = RESTARTS - 1;

/// Signals of which `siginterrupt` said that they end calls: for `signal`, one bit each.
static ENDING: AtomicU64 = AtomicU64::new(0);

/// A handler as `sa_handler` has it, and as `sa_sigaction` does.
type Plain = extern "C-unwind" fn(c_int);
type Informed = extern "C-unwind" fn(c_int, *mut siginfo_t, *mut c_void);

/// Stands before the handlers of the program.
extern "C-unwind" fn entry(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(handler) = HANDLERS.get(signal as usize) else { return };
    let handler = handler.load(Ordering::Relaxed);
    // SAFETY: the context is what the kernel gave.
    unsafe { interrupt::handled(handler & RESTARTS != 0, context) };
    let address = (handler & ADDRESS) as usize;
    // SAFETY: what the kernel gave.
    if address == 0 || unsafe { held::hold(signal, info, context.cast()) } {
        return;
    }
    if handler & WITH_INFO != 0 {
        // SAFETY: the program installed a function of this type.
        let handler = unsafe { mem::transmute::<usize, Informed>(address) };
        handler(signal, info, context);
    } else {
        // SAFETY: as above.
        let handler = unsafe { mem::transmute::<usize, Plain>(address) };
        handler(signal);
    }
}

fn entry_address() -> usize {
    entry as *const () as usize
}

const FAULTS: [c_int; 6] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS];

/// Whose handlers are entered by way of [`entry`]. What tells of faults ends no call, and its
/// handlers are often particular about how they are entered.
fn slot(signal: c_int) -> Option<&'static AtomicU64> {
    let is_ours = (1..=SIGNALS).contains(&signal) && !FAULTS.contains(&signal);
    is_ours.then(|| &HANDLERS[signal as usize])
}

fn is_handler(address: usize) -> bool {
    ![libc::SIG_DFL, libc::SIG_IGN, libc::SIG_ERR].contains(&address)
}

/// `sigaction(2)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn sigaction(
    signal: c_int,
    action: *const Action,
    old: *mut Action,
) -> c_int {
    let Some(slot) = slot(signal) else {
        // SAFETY: the caller's own arguments.
        return unsafe {
            faults::sigaction(signal, action, old)
                .unwrap_or_else(|| real::sigaction(signal, action, old))
        };
    };
    let before = slot.load(Ordering::Relaxed);
    // SAFETY: null, or the caller's. It may be the place of the old one too.
    let mut ours = (!action.is_null()).then(|| unsafe { action.read() });
    let handler = ours.as_mut().filter(|ours| is_handler(ours.sa_sigaction)).map(wrap);
    if let Some(handler) = handler {
        // Before the kernel has it: what comes meanwhile is for one of the two.
        slot.store(handler, Ordering::Relaxed);
    }
    let given = ours.as_ref().map_or(ptr::null(), ptr::from_ref);
    // SAFETY: null or a copy of the caller's action, and the caller's own place.
    let answer = unsafe { real::sigaction(signal, given, old) };
    if answer != 0 {
        if handler.is_some() {
            slot.store(before, Ordering::Relaxed);
        }
        return answer;
    }
    // SAFETY: null, or the caller's, which was written just now.
    if let Some(old) = unsafe { old.as_mut() } {
        unwrap(old, before);
    }
    answer
}

/// Puts [`entry`] before the handler, and says what is remembered of it.
fn wrap(action: &mut Action) -> u64 {
    let mut handler = action.sa_sigaction as u64;
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        handler |= WITH_INFO;
    }
    if action.sa_flags & libc::SA_RESTART != 0 {
        handler |= RESTARTS;
    }
    interrupt::enters_by(entry_address());
    action.sa_sigaction = entry_address();
    action.sa_flags |= libc::SA_SIGINFO;
    handler
}

/// What the program shall see of an action of the kernel's.
fn unwrap(action: &mut Action, handler: u64) {
    // The kernel leaves the flags of a handler that it has taken out after its only time.
    let is_over = action.sa_sigaction == libc::SIG_DFL && action.sa_flags & libc::SA_RESETHAND != 0;
    let is_ours = action.sa_sigaction == entry_address();
    if is_ours {
        action.sa_sigaction = (handler & ADDRESS) as usize;
    }
    if (is_ours || is_over) && handler & WITH_INFO == 0 {
        action.sa_flags &= !libc::SA_SIGINFO;
    }
}

/// Installs a handler as the older functions do.
fn install(signal: c_int, handler: usize, flags: c_int, masks_itself: bool) -> usize {
    if handler == libc::SIG_ERR || !(1..=SIGNALS).contains(&signal) {
        crate::errno::set(libc::EINVAL);
        return libc::SIG_ERR;
    }
    // SAFETY: all of it are numbers.
    let (mut action, mut old) = unsafe { (mem::zeroed::<Action>(), mem::zeroed::<Action>()) };
    action.sa_sigaction = handler;
    action.sa_flags = flags;
    if masks_itself {
        // SAFETY: the set is ours, and the signal one that there is.
        unsafe { libc::sigaddset(&raw mut action.sa_mask, signal) };
    }
    // SAFETY: both are ours.
    match unsafe { sigaction(signal, &raw const action, &raw mut old) } {
        0 => old.sa_sigaction,
        _ => libc::SIG_ERR,
    }
}

/// A handler that stays, and whose signal restarts calls unless `siginterrupt` said otherwise.
fn install_to_stay(signal: c_int, handler: usize) -> usize {
    let ends = (1..=SIGNALS).contains(&signal)
        && ENDING.load(Ordering::Relaxed) & (1 << (signal - 1)) != 0;
    install(signal, handler, if ends { 0 } else { libc::SA_RESTART }, true)
}

/// A handler that is called once, and whose signal ends calls.
fn install_once(signal: c_int, handler: usize) -> usize {
    install(signal, handler, libc::SA_RESETHAND | libc::SA_NODEFER, false)
}

/// Defines the older functions that install a handler, by their names.
macro_rules! installing {
    ($($(#[$doc:meta])* fn $name:ident by $install:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C" fn $name(signal: c_int, handler: usize) -> usize {
            $install(signal, handler)
        }
    )*};
}

installing! {
    /// `signal(3)`
    fn signal by install_to_stay;
    /// `bsd_signal(3)`
    fn bsd_signal by install_to_stay;
    /// `ssignal(3)`
    fn ssignal by install_to_stay;
    /// `sysv_signal(3)`
    fn sysv_signal by install_once;
    /// What `signal` is for a program that asks for System V's meaning.
    fn __sysv_signal by install_once;
}

/// `sigset(3)`: a handler, or SIG_HOLD for a signal that is to be blocked.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn sigset(signal: c_int, handler: usize) -> usize {
    /// From `signal.h`.
    const SIG_HOLD: usize = 2;
    let is_held = handler == SIG_HOLD;
    // SAFETY: all of it are numbers, and the places are ours.
    let (before, was_held) = unsafe {
        let mut old = mem::zeroed::<Action>();
        let before = match is_held {
            true if sigaction(signal, ptr::null(), &raw mut old) == 0 => old.sa_sigaction,
            true => libc::SIG_ERR,
            false => install(signal, handler, 0, false),
        };
        if before == libc::SIG_ERR {
            return before;
        }
        let (mut one, mut mask) = (mem::zeroed(), mem::zeroed());
        libc::sigaddset(&raw mut one, signal);
        let how = if is_held { libc::SIG_BLOCK } else { libc::SIG_UNBLOCK };
        libc::pthread_sigmask(how, &raw const one, &raw mut mask);
        (before, libc::sigismember(&raw const mask, signal) == 1)
    };
    if was_held { SIG_HOLD } else { before }
}

/// `siginterrupt(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C" fn siginterrupt(signal: c_int, ends: c_int) -> c_int {
    // The C library's changes the flag of what the kernel has, which is ours.
    // SAFETY: numbers.
    let answer = unsafe { real::siginterrupt(signal, ends) };
    if answer == 0 && (1..=SIGNALS).contains(&signal) {
        let bit = 1 << (signal - 1);
        if ends != 0 {
            ENDING.fetch_or(bit, Ordering::Relaxed);
        } else {
            ENDING.fetch_and(!bit, Ordering::Relaxed);
        }
        if let Some(slot) = slot(signal) {
            if ends != 0 {
                slot.fetch_and(!RESTARTS, Ordering::Relaxed);
            } else {
                slot.fetch_or(RESTARTS, Ordering::Relaxed);
            }
        }
    }
    answer
}

/// Finds the C library's functions before the first handler needs them: looking for them may
/// allocate.
pub(crate) fn find_real() {
    // SAFETY: asks for what is installed, and for nothing of a signal that there is not.
    unsafe {
        real::sigaction(libc::SIGURG, ptr::null(), ptr::null_mut());
        real::siginterrupt(-1, 0);
    }
}

/// Shall a call that was interrupted begin again? Yes, when each handler that ran has SA_RESTART, or
/// none did. One that was installed past this library is not known to have run; so where none is
/// known to, all such handlers must have it.
pub(crate) fn restarts() -> bool {
    interrupt::restarts().unwrap_or_else(|| every_handler_restarts_but(0))
}

/// The program has a handler for SIGSYS: a filter of system calls tells it of those that it did not
/// expect, as Chromium's does, and such programs end themselves then. Without one a filter answers
/// with an errno, or ends the process by itself.
pub(crate) fn is_told_of_calls() -> bool {
    if trap::is_on() {
        // That handler is of those who trap it.
        return false;
    }
    // SAFETY: all of it are numbers, and the place is ours.
    unsafe {
        let mut action = mem::zeroed::<Action>();
        real::sigaction(libc::SIGSYS, ptr::null(), &raw mut action);
        is_handler(action.sa_sigaction)
    }
}

/// SIGPIPE for this thread, as a write to a broken connection gives.
pub(crate) fn raise_pipe() {
    // SAFETY: sends a signal to the calling thread, as Linux would.
    unsafe { libc::raise(libc::SIGPIPE) };
}
