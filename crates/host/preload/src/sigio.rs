//! SIGIO: signals of what happens at sockets with O_ASYNC. SIGURG: of urgent data at streams that
//! have an owner.
//!
//! The kernel keeps the flag, the owner (F_SETOWN) and the signal (F_SETSIG) for the descriptor as
//! for any other, but nothing ever comes to it there. A thread of this library waits for these
//! sockets, and sends what the kernel would send. It begins with the first such socket of a
//! process.

use std::ffi::{c_int, c_long};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_client::{EpollEvent, EpollSet};

use crate::errno::{Answer, check, fail};
use crate::export::guarded;
use crate::object::{Mine, ours};
use crate::{process, real};

/// From `asm-generic/fcntl.h`; the `libc` crate does not have all of these.
pub(crate) const F_SETSIG: c_int = 10;
const F_GETSIG: c_int = 11;
pub(crate) const F_SETOWN_EX: c_int = 15;
const F_GETOWN_EX: c_int = 16;
const F_OWNER_TID: c_int = 0;
const F_OWNER_PID: c_int = 1;

/// From `asm-generic/siginfo.h`: a signal of this kind that is no work of the kernel's. Its own
/// codes a thread may send to nobody but itself.
const SI_SIGIO: c_int = -5;

/// What is waited for: each thing that comes, once.
const COMES: c_int = libc::EPOLLIN | libc::EPOLLPRI | libc::EPOLLRDHUP | libc::EPOLLET;

/// The same where there is no more than an owner.
const URGENT: c_int = libc::EPOLLPRI | libc::EPOLLET;

/// Events that are taken at once.
const EVENTS: usize = 64;

/// `struct f_owner_ex`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(crate) struct Owner {
    kind: c_int,
    pub(crate) pid: c_int,
}

/// What the thread of a process waits for.
struct Watch {
    /// Whose thread it is: a child that was forked has none.
    process: c_int,
    set: Arc<EpollSet>,
    _epoll: OwnedFd,
}

static WATCH: Mutex<Option<Watch>> = Mutex::new(None);

/// O_ASYNC is set or cleared.
pub(crate) fn set_async(fd: c_int, mine: &Mine, on: bool) -> Answer<()> {
    if is_async(fd)? == on { Ok(()) } else { change(fd, mine, on, owner_of(fd).is_some()) }
}

/// There will be an owner, or none.
pub(crate) fn set_owner(fd: c_int, mine: &Mine, is_there: bool) -> Answer<()> {
    change(fd, mine, is_async(fd)?, is_there)
}

fn is_async(fd: c_int) -> Answer<bool> {
    // SAFETY: reads flags.
    Ok(check(unsafe { real::fcntl(fd, libc::F_GETFL, 0) })? & libc::O_ASYNC != 0)
}

/// Whom the kernel has as the owner; what is closed has none.
fn owner_of(fd: c_int) -> Option<Owner> {
    let mut owner = Owner::default();
    // SAFETY: the kernel writes an owner.
    let asked = unsafe { real::fcntl(fd, F_GETOWN_EX, (&raw mut owner).addr() as c_long) };
    (asked >= 0 && owner.pid != 0).then_some(owner)
}

fn change(fd: c_int, mine: &Mine, is_async: bool, has_owner: bool) -> Answer<()> {
    // O_ASYNC and the owner stay on the open file.
    mine.socket.keep_session_fd_apart();
    // What can be written to is no news.
    let is_writable = || mine.socket.readiness() & libc::EPOLLOUT as u32 != 0;
    let events = match is_async {
        true if is_writable() => COMES,
        true => COMES | libc::EPOLLOUT,
        false if has_owner && mine.is_stream() => URGENT,
        false => {
            let Some(set) = known() else { return Ok(()) };
            mine.leave_set(fd, &set);
            // It may never have been a member.
            let _ = set.remove(fd);
            return Ok(());
        }
    };
    let set = watched()?;
    let event = EpollEvent { events: events as u32, data: fd as u64 };
    if set.contains(fd) {
        return set.modify(fd, event);
    }
    // What came before is nobody's.
    mine.take_urgent_news();
    set.add(fd, &mine.socket, event)?;
    mine.join_set(fd, &set);
    Ok(())
}

/// What the kernel was asked for of a descriptor: it goes along when another open file comes to
/// stand there.
pub(crate) struct Asked {
    is_async: bool,
    owner: Option<Owner>,
    signal: c_int,
}

impl Asked {
    pub(crate) fn of(fd: c_int) -> Asked {
        // SAFETY: reads a number.
        let signal = unsafe { real::fcntl(fd, F_GETSIG, 0) };
        Asked { is_async: is_async(fd) == Ok(true), owner: owner_of(fd), signal }
    }

    /// Asks the same of what stands there now. Signals that cannot be had are no reason to have no
    /// socket.
    pub(crate) fn ask(&self, fd: c_int) {
        if self.signal > 0 {
            // SAFETY: sets a number.
            unsafe { real::fcntl(fd, F_SETSIG, self.signal.into()) };
        }
        if let Some(owner) = self.owner {
            // SAFETY: the owner lives.
            unsafe { real::fcntl(fd, F_SETOWN_EX, (&raw const owner).addr() as c_long) };
        }
        if self.is_async {
            // SAFETY: sets flags.
            unsafe {
                let flags = real::fcntl(fd, libc::F_GETFL, 0);
                real::fcntl(fd, libc::F_SETFL, (flags | libc::O_ASYNC).into())
            };
        }
        if let Some(mine) = ours(fd).filter(|_| self.is_async || self.owner.is_some()) {
            let _ = change(fd, &mine, self.is_async, self.owner.is_some());
        }
    }
}

fn known() -> Option<Arc<EpollSet>> {
    let watch = WATCH.lock().unwrap_or_else(PoisonError::into_inner);
    watch
        .as_ref()
        .filter(|watch| watch.process == process::pid())
        .map(|watch| Arc::clone(&watch.set))
}

/// The set of this process, with a thread that waits for it.
fn watched() -> Answer<Arc<EpollSet>> {
    if let Some(set) = known() {
        return Ok(set);
    }
    let Some(client) = process::client() else { return fail(libc::EINVAL) };
    // SAFETY: makes a descriptor that nobody else knows.
    let epoll = unsafe { OwnedFd::from_raw_fd(check(real::epoll_create1(libc::EPOLL_CLOEXEC))?) };
    let set = EpollSet::new(client, epoll.as_raw_fd())?;
    spawn(Arc::clone(&set), epoll.as_raw_fd())?;
    let watch = Watch { process: process::pid(), set: Arc::clone(&set), _epoll: epoll };
    *WATCH.lock().unwrap_or_else(PoisonError::into_inner) = Some(watch);
    Ok(set)
}

/// Starts the thread. The program's signals are not for it.
fn spawn(set: Arc<EpollSet>, epoll: c_int) -> Answer<()> {
    // SAFETY: all-zero is a mask, and the pointers are to masks of ours. The thread has the mask of
    // the one that starts it.
    let started = unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut before: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = std::thread::Builder::new()
            .name("clearway-sigio".into())
            .spawn(move || run(&set, epoll));
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    };
    started.map(drop).or_else(|_| fail(libc::EAGAIN))
}

fn run(set: &EpollSet, epoll: c_int) {
    guarded(|| {
        let mut events = [EpollEvent { events: 0, data: 0 }; EVENTS];
        loop {
            // No signal interrupts it; a set that is waited for by one thread fails in no other
            // way.
            let found = set.wait(epoll, &mut events, None, None).unwrap_or(0);
            for event in &events[..found] {
                tell(event.data as c_int, event.events);
            }
        }
    });
}

/// Sends the signals of a descriptor to its owner.
fn tell(fd: c_int, events: u32) {
    let is_urgent =
        events & libc::EPOLLPRI as u32 != 0 && ours(fd).is_some_and(|mine| mine.take_urgent_news());
    let Some(owner) = owner_of(fd) else { return };
    let target =
        if [F_OWNER_PID, F_OWNER_TID].contains(&owner.kind) { owner.pid } else { -owner.pid };
    if is_urgent {
        send(owner.kind, target, libc::SIGURG);
    }
    if is_async(fd) != Ok(true) {
        return;
    }
    // SAFETY: reads a number.
    let signal = unsafe { real::fcntl(fd, F_GETSIG, 0) };
    if signal <= 0 {
        return send(owner.kind, target, libc::SIGIO);
    }
    // The program asked which descriptor it is and what has happened (F_SETSIG).
    let info = Info {
        signal,
        errno: 0,
        code: SI_SIGIO,
        pad: 0,
        band: i64::from(events),
        fd,
        rest: [0; 25],
    };
    let pid = process::pid();
    // SAFETY: the structure is as the kernel has it.
    let queued = owner.kind == F_OWNER_PID
        && owner.pid == pid
        && unsafe { libc::syscall(libc::SYS_rt_sigqueueinfo, pid, signal, &raw const info) } == 0;
    if !queued {
        send(owner.kind, target, signal);
    }
}

fn send(kind: c_int, target: c_int, signal: c_int) {
    // SAFETY: sends a signal, as the program asked.
    unsafe {
        match kind {
            F_OWNER_TID => libc::syscall(libc::SYS_tkill, target, signal),
            _ => libc::syscall(libc::SYS_kill, target, signal),
        }
    };
}

/// `siginfo_t` of SIGPOLL on 64-bit machines.
#[repr(C)]
struct Info {
    signal: c_int,
    errno: c_int,
    code: c_int,
    pad: c_int,
    band: i64,
    fd: c_int,
    rest: [c_int; 25],
}

const _: () = assert!(size_of::<Info>() == 128);
