//! What is done to descriptors whatever they are: close, dup, fcntl, ioctl.

use std::ffi::{c_int, c_long, c_uint, c_ulong};
use std::os::fd::BorrowedFd;

use clearway_client::{flags, is_internal};

use crate::errno::{self, Answer, check, fail};
use crate::export::{Inside, depth, guarded, interpose};
use crate::given;
use crate::interfaces;
use crate::object::{self, Object, Ours, TABLE, ours};
use crate::options::stamps;
use crate::process::is_own;
use crate::real;
use crate::reused::given_out;
use crate::sigio;
use crate::table::Held;

#[cfg(test)]
mod tests;

/// From `linux/sockios.h` and `asm/ioctls.h`; the `libc` crate does not have all of these.
const FIOSETOWN: c_ulong = 0x8901;
const SIOCSPGRP: c_ulong = 0x8902;
pub(crate) const SIOCATMARK: c_ulong = 0x8905;
const SIOCOUTQNSD: c_ulong = 0x894b;

/// From `linux/close_range.h`.
const CLOSE_RANGE_CLOEXEC: c_int = 4;

/// The highest descriptor that can be one of the client's.
const LAST_INTERNAL: c_uint = (1 << 16) - 1;

interpose! {
    /// `close(2)`
    fn close(fd: c_int) -> c_int, if TABLE.has(fd) || is_internal(fd)
        || depth() > 0 => {
        // Inside of a call of ours it is this library that closes what it opened. Where the table has
        // its number, that is of a descriptor which was closed unseen.
        if depth() > 1 { Some(close_now(fd)) } else { inside_close(fd) }
    };

    /// `close_range(2)`
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int,
        if flags & CLOSE_RANGE_CLOEXEC == 0 => inside_close_range(first, last, flags);

    /// `dup(2)`
    fn dup(fd: c_int) -> c_int, if TABLE.has(fd) => copied(fd, || check(real::dup(fd))),
        kernels given_out;

    /// `dup2(2)`
    fn dup2(from: c_int, to: c_int) -> c_int, if from != to
        && (TABLE.has(from) || TABLE.has(to) || is_internal(to)) => {
        copied_to(from, to, || check(real::dup2(from, to)))
    };

    /// `dup3(2)`
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int, if from != to
        && (TABLE.has(from) || TABLE.has(to) || is_internal(to)) => {
        copied_to(from, to, || check(real::dup3(from, to, flags)))
    };

    /// `fcntl(2)`. Declared with `...` in C: on the machines that Clearway runs on, one optional
    /// word is passed as a fixed one is.
    fn fcntl(fd: c_int, command: c_int, word: c_long) -> c_int, if TABLE.has(fd)
        || copies(command) && depth() == 0 => inside_fcntl(fd, command, word);

    /// `ioctl(2)`, declared with `...` as well.
    fn ioctl(fd: c_int, request: c_ulong, word: c_long) -> c_int, if TABLE.has(fd)
        || interfaces::is_asked(number(request)) => inside_ioctl(fd, number(request), word);
}

/// As Linux reads a request: 32 bits, whatever a program's `int` left in the others.
pub(crate) const fn number(request: c_ulong) -> c_ulong {
    request & u32::MAX as c_ulong
}

/// `fcntl` by the name that programs with 64-bit file offsets call it.
///
/// # Safety
/// As for `fcntl(2)`.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn fcntl64(fd: c_int, command: c_int, word: c_long) -> c_int {
    // SAFETY: the caller keeps to what `fcntl` asks.
    unsafe { fcntl(fd, command, word) }
}

/// `closefrom(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn closefrom(first: c_int) {
    // SAFETY: closes descriptors, as the caller asks.
    unsafe { close_range(first.max(0) as c_uint, c_uint::MAX, 0) };
}

fn inside_close(fd: c_int) -> Inside<c_int> {
    if is_internal(fd) {
        // The program never opened it: it is as if it were not there.
        return is_own().then(|| fail(libc::EBADF));
    }
    if !is_own() {
        return None;
    }
    let held = object::begin_close(fd)?;
    before_close(fd, &held);
    let Object::Ours(mine) = &*held else {
        drop(held);
        let answer = close_now(fd);
        object::end_close(fd);
        return Some(answer);
    };
    if held.is_last() {
        mine.socket.linger();
        // SAFETY: the descriptor is open until it is closed below.
        mine.socket.close_by_message(unsafe { BorrowedFd::borrow_raw(fd) });
    }
    let answer = close_now(fd);
    object::end_close(fd);
    if held.is_last() {
        mine.socket.closed();
    }
    Some(answer)
}

/// Closes a descriptor as the program does, also inside of a call of ours: it may be a socket of
/// Clearway.
pub(crate) fn close_held(fd: c_int) -> c_int {
    let errno = errno::get();
    let answer = guarded(|| inside_close(fd).unwrap_or_else(|| close_now(fd)));
    errno::set(errno);
    errno::finish(answer).unwrap_or(-1)
}

/// By the system call, so that no thread is cancelled in the midst of our own frames.
fn close_now(fd: c_int) -> Answer<c_int> {
    // SAFETY: closes a descriptor, as the caller asks.
    check(unsafe { libc::syscall(libc::SYS_close, fd) } as c_int)
}

/// A descriptor is about to be closed; says whether it was one that we know.
fn begin_close(fd: c_int) -> bool {
    let held = object::begin_close(fd);
    if let Some(held) = &held {
        before_close(fd, held);
    }
    held.is_some()
}

/// The kernel gave out this number anew: what the table has there was closed where this library did
/// not see it.
pub(crate) fn was_closed(fd: c_int) {
    // What is being closed is seen; and what asks inside of a call of ours may hold a lock.
    if !TABLE.has(fd) || TABLE.is_going(fd) || depth() > 1 || !is_own() {
        return;
    }
    let Some(held) = object::begin_close(fd) else { return };
    if let Object::Ours(mine) = &*held {
        mine.leave_sets(fd);
        if held.is_last() {
            mine.socket.before_close();
            mine.socket.closed();
        }
    }
    object::end_close(fd);
}

fn before_close(fd: c_int, held: &Held<Object>) {
    let Object::Ours(mine) = &**held else { return };
    mine.leave_sets(fd);
    if held.is_last() {
        mine.socket.before_close();
    } else {
        // SAFETY: the descriptor is open until the caller closes it.
        mine.socket.hold(unsafe { BorrowedFd::borrow_raw(fd) });
    }
}

/// Closes a range around the client's own descriptors.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_close_range(first: c_uint, last: c_uint, flags: c_int) -> Inside<c_int> {
    if first > last || !is_own() {
        return None;
    }
    let last_fd = c_int::try_from(last).unwrap_or(c_int::MAX);
    let first_fd = c_int::try_from(first).unwrap_or(c_int::MAX);
    let known: Vec<c_int> = TABLE.range(first_fd, last_fd).filter(|&fd| begin_close(fd)).collect();
    let internals = (first..=last.min(LAST_INTERNAL)).filter(|&fd| is_internal(fd as c_int));
    let answer = around(first, last, internals, |first, last| {
        // SAFETY: closes descriptors, as the caller asks.
        check(unsafe { real::close_range(first, last, flags) })
    });
    known.into_iter().for_each(object::end_close);
    Some(answer)
}

/// Does something to each part of a range between the exceptions, which come in order.
fn around(
    first: c_uint,
    last: c_uint,
    exceptions: impl Iterator<Item = c_uint>,
    mut each: impl FnMut(c_uint, c_uint) -> Answer<c_int>,
) -> Answer<c_int> {
    let mut next = first;
    for exception in exceptions {
        if next < exception {
            each(next, exception - 1)?;
        }
        next = exception + 1;
    }
    if next <= last {
        each(next, last)?;
    }
    Ok(0)
}

/// A new descriptor for what is behind this one.
fn copied(fd: c_int, copy: impl FnOnce() -> Answer<c_int>) -> Inside<c_int> {
    if !is_own() {
        return None;
    }
    let held = TABLE.get(fd)?;
    let answer = copy();
    if let Ok(new) = answer {
        was_closed(new);
        object::put(new, Some(held));
    }
    Some(answer)
}

const fn copies(command: c_int) -> bool {
    matches!(command, libc::F_DUPFD | libc::F_DUPFD_CLOEXEC)
}

/// A copy at a number that the program chose, of what may be the kernel's, in place of what may be
/// the kernel's.
fn copied_to(from: c_int, to: c_int, copy: impl FnOnce() -> Answer<c_int>) -> Inside<c_int> {
    if !is_own() {
        return None;
    }
    if is_internal(to) {
        return Some(fail(libc::EBUSY));
    }
    let held = TABLE.get(from);
    let old = TABLE.get(to);
    if let (Some(held), Some(old)) = (&held, &old) {
        if held.same(old) {
            return Some(copy());
        }
    }
    if let Some(old) = object::begin_close(to) {
        before_close(to, &old);
        let answer = copy();
        // When it failed, the old one is still there.
        object::put(to, if answer.is_ok() { held } else { Some(old) });
        return Some(answer);
    }
    let answer = copy();
    if answer.is_ok() {
        object::put(to, held);
    }
    Some(answer)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_fcntl(fd: c_int, command: c_int, word: c_long) -> Inside<c_int> {
    match command {
        // This library keeps a copy of a descriptor that it closes: the kernel's, and no waiting
        // for itself.
        _ if copies(command) && depth() > 1 && TABLE.is_going(fd) => None,
        _ if copies(command) => {
            // SAFETY: the caller's own arguments.
            let copy = || check(unsafe { real::fcntl(fd, command, word) });
            if TABLE.has(fd) {
                return copied(fd, copy);
            }
            let copy = copy();
            copy.into_iter().for_each(was_closed);
            Some(copy)
        }
        libc::F_SETFL => {
            let is_async = word as c_int & libc::O_ASYNC != 0;
            let Some(mine) = ours(fd) else {
                if is_async {
                    pending_asks_for_signals(fd);
                }
                return None;
            };
            if let Err(errno) = sigio::set_async(fd, &mine, is_async) {
                return Some(Err(errno));
            }
            mine.socket.set_flag(flags::NONBLOCK, word as c_int & libc::O_NONBLOCK != 0);
            None
        }
        libc::F_SETOWN => owned(fd, word != 0),
        sigio::F_SETOWN_EX => {
            // SAFETY: null, or the caller's owner.
            let owner = unsafe { given::read(word as usize as *const sigio::Owner) }.ok()?;
            owned(fd, owner.pid != 0)
        }
        sigio::F_SETSIG => {
            pending_asks_for_signals(fd);
            None
        }
        _ => None,
    }
}

/// The kernel keeps who the owner is.
fn owned(fd: c_int, is_there: bool) -> Inside<c_int> {
    let Some(mine) = ours(fd) else {
        pending_asks_for_signals(fd);
        return None;
    };
    sigio::set_owner(fd, &mine, is_there).err().map(Err)
}

/// An undecided socket is to send signals: that goes along when it is decided.
fn pending_asks_for_signals(fd: c_int) {
    if let Some(Object::Pending(pending)) = TABLE.get(fd).as_deref() {
        pending.state().asks_for_signals = true;
    }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_ioctl(fd: c_int, request: c_ulong, word: c_long) -> Inside<c_int> {
    if interfaces::is_asked(request) {
        // SAFETY: the caller's own arguments.
        return unsafe { interfaces::ioctl(fd, request, word) };
    }
    let Some(mine) = ours(fd) else {
        if [libc::FIOASYNC, FIOSETOWN, SIOCSPGRP].contains(&request) {
            pending_asks_for_signals(fd);
        }
        return None;
    };
    let at = word as usize as *mut c_int;
    match request {
        libc::FIONBIO | libc::FIOASYNC => {
            // SAFETY: null, or the caller's number.
            let on = match unsafe { given::read(at) } {
                Ok(on) => on,
                Err(errno) => return Some(Err(errno)),
            };
            if request == libc::FIOASYNC {
                // The kernel keeps the flag.
                return sigio::set_async(fd, &mine, on != 0).err().map(Err);
            }
            mine.socket.set_flag(flags::NONBLOCK, on != 0);
            None
        }
        FIOSETOWN | SIOCSPGRP => {
            // SAFETY: null, or the caller's number.
            owned(fd, unsafe { given::read(at) }.ok()? != 0)
        }
        libc::FIONREAD | libc::TIOCOUTQ | SIOCOUTQNSD | SIOCATMARK => {
            let give = |number: c_int| {
                // SAFETY: null, or the caller's number.
                unsafe { given::write(at.cast(), &number.to_ne_bytes()) }.map(|()| 0)
            };
            Some(queue(&mine, request).and_then(give))
        }
        // SAFETY: the caller's own argument.
        _ => unsafe { stamps::ioctl(&mine, request, word) },
    }
}

/// What `ioctl` says of a socket's queues.
fn queue(mine: &Ours, request: c_ulong) -> Answer<c_int> {
    let socket = &mine.socket;
    if socket.is_listener() && request != SIOCATMARK {
        return fail(libc::EINVAL);
    }
    socket.refresh();
    let number = match request {
        libc::FIONREAD => socket.readable_bytes(),
        libc::TIOCOUTQ => socket.unsent_bytes(),
        SIOCATMARK if mine.is_stream() => usize::from(socket.at_mark()),
        SIOCOUTQNSD if mine.is_stream() => socket.info()?.notsent_bytes as usize,
        _ => return fail(libc::ENOTTY),
    };
    Ok(c_int::try_from(number).unwrap_or(c_int::MAX))
}
