//! Waiting in the kernel with a signal mask, for descriptors by their bare numbers.
//!
//! A program may ask to wait for numbers that are no descriptors at all, and for a mask that holds
//! only while it waits; `rustix` has a function for neither. Those that only look go through the C
//! library's `syscall`. Those that sleep for a call of the program's (`sleep_…`) end with EINTR also
//! when a handler ran before they were in the kernel ([`crate::interrupt`]).

use std::io;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::interrupt;

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

/// Whether this process confined itself to few system calls ([`CONFINED_SINCE`]), and what was known
/// of its handlers then. A forked child has its parent's filter, and its memory.
static CONFINED: AtomicU32 = AtomicU32::new(FREE);
const FREE: u32 = 0;
/// It did. The other bits tell of what was known.
const CONFINED_SINCE: u32 = 1;
/// A call goes on that a handler ended of which nobody was told.
const RESTARTS: u32 = 2;
/// No handler can have run of which nobody was told.
const KNOWS_ALL: u32 = 4;

/// The process is about to let the kernel refuse most system calls to it (seccomp). From now on
/// only calls are made for waiting that the usual filters let pass: `ppoll` and, for epoll sets,
/// the oldest call that says what is asked. What `sigaction` would tell is asked once more here,
/// and not again.
pub fn confine() {
    let known =
        [(ask_whether_handlers_restart(), RESTARTS), (ask_whether_all_is_known(), KNOWS_ALL)];
    let bits = known.iter().filter(|(is_so, _)| *is_so).map(|(_, bit)| bit).sum::<u32>();
    CONFINED.store(CONFINED_SINCE | bits, Ordering::Relaxed);
}

/// [`confine`] was called in this process, or in one that it was forked from.
pub fn is_confined() -> bool {
    CONFINED.load(Ordering::Relaxed) != FREE
}

/// How a system call that waits is made.
type SystemCall = unsafe fn(libc::c_long, [u64; 6]) -> io::Result<usize>;

/// Whatever signals came before.
///
/// # Safety
/// As the system call asks.
unsafe fn plainly(number: libc::c_long, [a, b, c, d, e, f]: [u64; 6]) -> io::Result<usize> {
    // SAFETY: as the caller says.
    result(unsafe { libc::syscall(number, a, b, c, d, e, f) })
}

/// For a call of the program's: nobody sleeps who only looks.
fn for_program(timeout: Option<Duration>) -> SystemCall {
    if timeout == Some(Duration::ZERO) { plainly } else { interrupt::wait }
}

/// `ppoll`. Without a timeout it waits until something is found or a signal comes.
pub fn poll(
    fds: &mut [PollFd],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    poll_by(plainly, fds, timeout, mask)
}

/// As [`poll`], in a call of the program's.
pub fn sleep_poll(
    fds: &mut [PollFd],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    poll_by(for_program(timeout), fds, timeout, mask)
}

fn poll_by(
    call: SystemCall,
    fds: &mut [PollFd],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    let timeout = timeout.map(timespec);
    let words = [
        word(fds.as_mut_ptr()),
        fds.len() as u64,
        word(pointer(timeout.as_ref())),
        word(pointer(mask.as_ref())),
        size_of::<SignalMask>() as u64,
        0,
    ];
    // SAFETY: all pointers are to live values of the layout that the kernel expects, or null.
    unsafe { call(libc::SYS_ppoll, words) }
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
    epoll_by(plainly, set, out, timeout, mask)
}

/// As [`epoll`], in a call of the program's.
pub fn sleep_epoll(
    set: i32,
    out: &mut [EpollEvent],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    epoll_by(for_program(timeout), set, out, timeout, mask)
}

fn epoll_by(
    call: SystemCall,
    set: i32,
    out: &mut [EpollEvent],
    timeout: Option<Duration>,
    mask: Option<SignalMask>,
) -> io::Result<usize> {
    let room = out.len().min(i32::MAX as usize) as u64;
    let (set, events) = (set as u64, word(out.as_mut_ptr()));
    let (mask, size) = (word(pointer(mask.as_ref())), size_of::<SignalMask>() as u64);
    if !is_confined() {
        let timeout = timeout.map(timespec);
        let words = [set, events, room, word(pointer(timeout.as_ref())), mask, size];
        // SAFETY: as in `poll_by`; the kernel writes at most `room` events.
        return unsafe { call(libc::SYS_epoll_pwait2, words) };
    }
    // Rounded up: who waits for a time must not find that it is not over yet.
    let millis = timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    #[cfg(target_arch = "x86_64")]
    let number = if mask == 0 { libc::SYS_epoll_wait } else { libc::SYS_epoll_pwait };
    #[cfg(not(target_arch = "x86_64"))]
    let number = libc::SYS_epoll_pwait;
    // SAFETY: as above; the oldest call looks at four of the words.
    unsafe { call(number, [set, events, room, millis as u64, mask, size]) }
}

/// `epoll_ctl` with EPOLL_CTL_ADD.
pub fn epoll_add(set: i32, fd: i32, mut member: EpollEvent) -> io::Result<()> {
    // SAFETY: the pointer is to a live value of the layout that the kernel expects.
    let added = unsafe {
        libc::syscall(libc::SYS_epoll_ctl, set, libc::EPOLL_CTL_ADD, fd, &raw mut member)
    };
    result(added).map(drop)
}

/// What the kernel keeps of `sigaction`, on x86-64 and AArch64: the C library's is laid out
/// otherwise, and does not show the handlers of its own signals.
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

/// Signals whose handlers end no call that sleeps: those of faults, and the one by which the C
/// library tells all threads that a user ID was changed (its `SIGSETXID`). Its handler is there as
/// soon as there are threads.
const NO_REASON: [i32; 7] =
    [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, libc::SIGTRAP, libc::SIGSYS, 33];

/// A call that was ended by a signal goes on: the handlers that ran have SA_RESTART. Where none is
/// known to have run, each that might have has to have it. A program that cancels threads has to
/// look for that first, so its calls end.
pub fn handlers_restart() -> bool {
    interrupt::restarts().unwrap_or_else(|| was_known(RESTARTS, ask_whether_handlers_restart))
}

/// The kernel ended a call, but not for a handler: the process was stopped and goes on, a debugger
/// came, or a child ended and nobody asked to be told. Linux begins `poll` and `select` again then.
pub fn no_handler_ran() -> bool {
    !interrupt::came() && was_known(KNOWS_ALL, ask_whether_all_is_known)
}

fn was_known(bit: u32, ask: impl FnOnce() -> bool) -> bool {
    match CONFINED.load(Ordering::Relaxed) {
        FREE => ask(),
        known => known & bit != 0,
    }
}

fn ask_whether_handlers_restart() -> bool {
    every_handler_restarts_but(CANCEL)
}

fn ask_whether_all_is_known() -> bool {
    uncounted_handlers().next().is_none()
}

/// The kernel is asked whether every handler has SA_RESTART that might have run without our being
/// told, and whether there is none of this signal, which may be 0 for no signal.
pub fn every_handler_restarts_but(without: i32) -> bool {
    let restarts = libc::SA_RESTART as u64;
    uncounted_handlers().all(|(signal, flags)| flags & restarts != 0 && signal != without)
}

/// Handlers that may end a call and of which [`interrupt::came`] does not tell: signal and flags.
fn uncounted_handlers() -> impl Iterator<Item = (i32, u64)> {
    (1..=SIGNALS).filter(|signal| !NO_REASON.contains(signal)).filter_map(|signal| {
        let mut action = Action::default();
        let nothing = std::ptr::null::<Action>();
        // SAFETY: nothing is set; the other pointer is to a live value of the kernel's layout.
        let asked = unsafe {
            let size = size_of::<SignalMask>();
            libc::syscall(libc::SYS_rt_sigaction, signal, nothing, &raw mut action, size)
        };
        let is_caught =
            asked == 0 && action.handler != libc::SIG_DFL && action.handler != libc::SIG_IGN;
        (is_caught && !interrupt::is_counted(action.handler)).then_some((signal, action.flags))
    })
}

fn word<T>(pointer: *const T) -> u64 {
    pointer as u64
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
