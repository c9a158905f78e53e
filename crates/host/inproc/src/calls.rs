//! The table by which the preload library reaches the stack.

use std::ffi::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use clearway_shm::in_process::{
    ASIDE, ATTEND, BUSY, Calls, LOOK_AGAIN, OnEvents, Rest, VERSION, WATCH,
};

use crate::begin::begin;
use crate::drive::Stack;
use crate::helper;

// SAFETY: the C library's function of this name has this type.
unsafe extern "C" {
    /// POSIX; the `libc` crate does not have it.
    fn pthread_setcancelstate(state: c_int, old: *mut c_int) -> c_int;
}

/// From `pthread.h`.
const PTHREAD_CANCEL_DISABLE: c_int = 1;

/// While it lives this thread is not cancelled. A thread of the program's that was told to end
/// would end in the next call of the C library, in the midst of a turn: with the lock held, and
/// through frames that are not made to be unwound. The preload library ends it where that is
/// allowed.
///
/// And `errno` is the program's: a turn reads ports until they have nothing more, and programs
/// look at `errno` behind calls that went well.
struct Uncancelled {
    before: c_int,
    errno: c_int,
}

impl Uncancelled {
    #[inline]
    fn new() -> Uncancelled {
        let mut before = 0;
        // SAFETY: the address is this thread's, for as long as it lives.
        let errno = unsafe { *libc::__errno_location() };
        // SAFETY: writes the old state to where the pointer leads.
        unsafe { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &raw mut before) };
        Uncancelled { before, errno }
    }
}

impl Drop for Uncancelled {
    #[inline]
    fn drop(&mut self) {
        let mut ignored = 0;
        // SAFETY: as above; the state is one that this function gave.
        unsafe { pthread_setcancelstate(self.before, &raw mut ignored) };
        // SAFETY: as in `new`.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

/// The stack of this process. It is never taken away: other threads may be in it when the process
/// ends.
static STACK: OnceLock<&'static Stack> = OnceLock::new();

/// The process that it belongs to; others are forked children, which have only a picture of it.
static OWNER: AtomicU32 = AtomicU32::new(0);

#[inline]
fn stack() -> Option<&'static Stack> {
    STACK.get().copied()
}

static CALLS: Calls = Calls {
    version: VERSION,
    start,
    connect,
    descriptors,
    turn,
    recall_descriptor,
    about_to_sleep,
    woke,
    is_slept_on,
    leave,
    end,
};

/// The table.
// SAFETY: no other library has a symbol of this name.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn clearway_in_process() -> *const Calls {
    &raw const CALLS
}

/// # Safety
/// `settings` and `why` are as long as is said.
unsafe extern "C" fn start(
    settings: *const u8,
    settings_len: usize,
    on_events: OnEvents,
    why: *mut u8,
    why_len: usize,
) -> usize {
    let _uncancelled = Uncancelled::new();
    // SAFETY: as the caller says.
    let (settings, why) = unsafe {
        (
            std::slice::from_raw_parts(settings, settings_len),
            std::slice::from_raw_parts_mut(why, why_len),
        )
    };
    match make(&String::from_utf8_lossy(settings), on_events) {
        Ok(()) => 0,
        Err(sentence) => {
            let len = sentence.len().min(why.len());
            why[..len].copy_from_slice(&sentence.as_bytes()[..len]);
            len.max(1)
        }
    }
}

fn make(settings: &str, on_events: OnEvents) -> Result<(), String> {
    let host = begin(settings)?;
    let stack = Stack::new(host).map_err(|error| format!("cannot make a notifier: {error}"))?;
    let stack: &'static Stack = Box::leak(Box::new(stack));
    helper::start(stack, on_events).map_err(|error| format!("cannot start a thread: {error}"))?;
    OWNER.store(std::process::id(), Ordering::Relaxed);
    STACK.set(stack).map_err(|_| "this process has a stack already".to_owned())
}

extern "C" fn connect() -> i32 {
    let _uncancelled = Uncancelled::new();
    match stack().map(Stack::connect) {
        Some(Ok(fd)) => fd,
        Some(Err(error)) => -error.raw_os_error().unwrap_or(libc::EIO),
        None => -libc::ENETDOWN,
    }
}

/// # Safety
/// There is room for `most` numbers at `out`.
unsafe extern "C" fn descriptors(out: *mut i32, most: usize) -> usize {
    let Some(stack) = stack() else { return 0 };
    // SAFETY: as the caller says.
    let out = unsafe { std::slice::from_raw_parts_mut(out, most) };
    let count = stack.wait_fds.len().min(most);
    out[..count].copy_from_slice(&stack.wait_fds[..count]);
    count
}

extern "C" fn turn(how: u32) -> u32 {
    let _uncancelled = Uncancelled::new();
    stack().map_or(BUSY, |stack| stack.turn(how & ATTEND != 0))
}

extern "C" fn recall_descriptor() -> i32 {
    stack().map_or(-1, Stack::recall_fd)
}

extern "C" fn about_to_sleep(handed_over: u32) -> u32 {
    let _uncancelled = Uncancelled::new();
    let Some(stack) = stack() else { return WATCH };
    match stack.about_to_sleep(handed_over != 0) {
        None => LOOK_AGAIN,
        Some(Rest::Watch) => WATCH,
        Some(Rest::Aside) => ASIDE,
    }
}

extern "C" fn woke(slept: u32) {
    let _uncancelled = Uncancelled::new();
    if let Some(stack) = stack() {
        stack.woke(if slept == ASIDE { Rest::Aside } else { Rest::Watch });
    }
}

extern "C" fn is_slept_on() -> u32 {
    stack().is_some_and(Stack::is_slept_on).into()
}

extern "C" fn leave() {
    let _uncancelled = Uncancelled::new();
    let Some(stack) = stack() else { return };
    for fd in stack.wait_fds.iter().copied() {
        // SAFETY: in a forked child, which uses none of them, these numbers are the parent's
        // descriptors still. A port that the parent closes is gone then.
        unsafe { libc::syscall(libc::SYS_close, fd) };
    }
}

extern "C" fn end(within_ms: u32) {
    let _uncancelled = Uncancelled::new();
    if let Some(stack) = stack().filter(|_| OWNER.load(Ordering::Relaxed) == std::process::id()) {
        stack.end(Duration::from_millis(within_ms.into()));
    }
}
