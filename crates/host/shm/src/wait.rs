//! Waiting in the kernel with a signal mask, for descriptors by their bare numbers.
//!
//! A program may ask to wait for numbers that are no descriptors at all, and for a mask that holds
//! only while it waits; `rustix` has a function for neither. These go through the C library's
//! `syscall`, which nobody stands in for.

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

#[cfg(test)]
mod tests;

/// A descriptor to wait for. Laid out as Linux's `struct pollfd`.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PollFd {
    /// The descriptor; negative: ignored.
    pub fd: i32,
    /// What for: POLL* bits.
    pub events: i16,
    /// What was found: POLL* bits.
    pub found: i16,
}

/// What an epoll set found. Laid out as Linux's `struct epoll_event`.
#[cfg_attr(target_arch = "x86_64", repr(C, packed))]
#[cfg_attr(not(target_arch = "x86_64"), repr(C))]
#[derive(Clone, Copy, Debug, Default)]
pub struct EpollEvent {
    /// EPOLL* bits.
    pub events: u32,
    /// The word that stands for the member.
    pub data: u64,
}

/// Signals that are held back while waiting: bit `n - 1` stands for signal `n`.
pub type SignalMask = u64;

/// Whether this process confined itself to few system calls, and what was known then. A forked
/// child has its parent's filter, and its memory.
static CONFINED: AtomicU32 = AtomicU32::new(FREE);
const FREE: u32 = 0;
/// Confined, and a handler was without SA_RESTART before.
const CONFINED_WITH_INTERRUPTS: u32 = 1;
/// Confined, and all handlers were with SA_RESTART before.
const CONFINED_WITH_RESTARTS: u32 = 2;

/// The process is about to let the kernel refuse most system calls to it (seccomp). From now on
/// only calls are made for waiting that the usual filters let pass: `ppoll` and, for epoll sets,
/// the oldest call that says what is asked. What `sigaction` would tell is asked once more here,
/// and not again.
pub fn confine() {
    let known = if ask_whether_handlers_restart() {
        CONFINED_WITH_RESTARTS
    } else {
        CONFINED_WITH_INTERRUPTS
    };
    CONFINED.store(known, Ordering::Relaxed);
}

/// [`confine`] was called in this process, or in one that it was forked from.
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed) != FREE
}

/// `ppoll`. Without a timeout it waits until something is found or a signal comes.
pub fn poll(
    fds: &mut [PollFd],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    // SAFETY: all pointers are to live values of the layout that the kernel expects, or null.
    let found = unsafe {
        libc::syscall(
            libc::SYS_ppoll,
            fds.as_mut_ptr(),
            fds.len(),
            pointer(timeout.as_ref()),
            pointer(mask.as_ref()),
            size_of::<SignalMask>(),
        )
    };
    result(found)
}

/// `epoll_pwait2`, or in a confined process what stands nearest to it among the older calls, which
/// knows whole milliseconds only. Without a timeout it waits until something is found or a signal
/// comes.
pub fn epoll(
    set: i32,
    out: &mut [EpollEvent],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    let room = i32::try_from(out.len()).unwrap_or(i32::MAX);
    if is_confined() {
        return epoll_in_millis(set, out, room, timeout, mask);
    }
    let timeout = timeout.map(timespec);
    // SAFETY: as in `poll`; the kernel writes at most `room` events.
    let found = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait2,
            set,
            out.as_mut_ptr(),
            room,
            pointer(timeout.as_ref()),
            pointer(mask.as_ref()),
            size_of::<SignalMask>(),
        )
    };
    result(found)
}

fn epoll_in_millis(
    set: i32,
    out: &mut [EpollEvent],
    room: i32,
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    // Rounded up: who waits for a time must not find that it is not over yet.
    let millis = timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    #[cfg(target_arch = "x86_64")]
    if mask.is_none() {
        // SAFETY: the kernel writes at most `room` events there.
        return result(unsafe {
            libc::syscall(libc::SYS_epoll_wait, set, out.as_mut_ptr(), room, millis)
        });
    }
    let size = size_of::<SignalMask>();
    // SAFETY: as above; the mask is null or a live value of the layout that the kernel expects.
    let found = unsafe {
        libc::syscall(
            libc::SYS_epoll_pwait,
            set,
            out.as_mut_ptr(),
            room,
            millis,
            pointer(mask.as_ref()),
            size,
        )
    };
    result(found)
}

/// `epoll_ctl` with EPOLL_CTL_ADD.
pub fn epoll_add(set: i32, fd: i32, mut member: EpollEvent) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of the layout that the kernel expects.
    let added = unsafe {
        libc::syscall(libc::SYS_epoll_ctl, set, libc::EPOLL_CTL_ADD, fd, &raw mut member)
    };
    result(added).map(drop)
}

/// What the kernel keeps of `sigaction`.
#[repr(C)]
#[derive(Default)]
struct Action {
    handler: usize,
    flags: u64,
    restorer: usize,
    mask: SignalMask,
}

/// Signals that there are.
const SIGNALS: i32 = 64;

/// The signal by which the C library cancels threads (its `SIGCANCEL`). Its handler is there once
/// the program has cancelled one.
const CANCEL: i32 = 32;

/// Every signal handler of this process has SA_RESTART, so whichever it was that ended a call, the
/// call goes on. Which one it was cannot be known. A program that cancels threads has to look for
/// that first, so its calls end.
pub fn handlers_restart() -> bool {
    match CONFINED.load(Ordering::Relaxed) {
        FREE => ask_whether_handlers_restart(),
        known => known == CONFINED_WITH_RESTARTS,
    }
}

fn ask_whether_handlers_restart() -> bool {
    (1..=SIGNALS).all(|signal| {
        let mut action = Action::default();
        let nothing = std::ptr::null::<Action>();
        // SAFETY: nothing is set; the other pointer is to a live value of the kernel's layout.
        let asked = unsafe {
            let size = size_of::<SignalMask>();
            libc::syscall(libc::SYS_rt_sigaction, signal, nothing, &raw mut action, size)
        };
        let is_caught =
            asked == 0 && action.handler != libc::SIG_DFL && action.handler != libc::SIG_IGN;
        !is_caught || (action.flags & libc::SA_RESTART as u64 != 0 && signal != CANCEL)
    })
}

fn pointer<T>(value: Option<&T>) -> *const T {
    value.map_or(std::ptr::null(), std::ptr::from_ref)
}

/// Longer than any time that passes is for ever, so what does not fit is the longest that does.
fn timespec(time: Duration) -> libc::timespec {
    libc::timespec {
        tv_sec: i64::try_from(time.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(time.subsec_nanos()),
    }
}

fn result(found: libc::c_long) -> io::Result<usize> {
    usize::try_from(found).map_err(|_| io::Error::last_os_error())
}
