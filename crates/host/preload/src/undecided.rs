//! Sockets of the kernel's that another process made, and that came by `exec` or in a message before
//! anything decided whose they are. What their options are, which nobody here has seen set, is
//! asked of the kernel.

use std::ffi::c_int;
use std::os::fd::{AsRawFd as _, BorrowedFd};
use std::time::Duration;

use clearway_client::{Kind, cookie, is_confined, may_be_session_fd};
use clearway_options::{How, Level, OPTIONS, SocketOption};

use crate::decide;
use crate::errno::check;
use crate::object::{self, Object, Pending, TABLE};
use crate::options::{LONGEST, SO_MEMINFO, Told, timeout};
use crate::table::Held;
use crate::{inheritors, process, real};

/// TCP_INFO's state of a stream that neither listens nor connects (`TCP_CLOSE`).
const CLOSED: u8 = 7;

/// What the descriptor is that came, if that is still to be decided: a stream or a datagram socket
/// without an address, or a stream that is bound to the wildcard address and does not listen.
/// Whoever bound a datagram socket to that address may have told its port, which leads to the
/// kernel.
pub(crate) fn object_of(fd: BorrowedFd<'_>) -> Option<Held<Object>> {
    if is_confined() {
        return None;
    }
    let found = Found::at(fd.as_raw_fd())?;
    if found.bound && found.kind == Kind::Datagram {
        return None;
    }
    known(fd).or_else(|| found.object(fd.as_raw_fd()))
}

/// In a child of a fork: what another thread of the parent's was inside of a call on is decided
/// anew, for that thread is not here to give back what it holds of it.
pub(crate) fn after_fork_in_child() {
    let is_held = |held: &Held<Object>| match &**held {
        Object::Pending(pending) => pending.is_held(),
        _ => false,
    };
    let all = TABLE.range(0, c_int::MAX).filter_map(|fd| Some((fd, TABLE.get(fd)?)));
    let of_others: Vec<_> = all.filter(|(_, held)| is_held(held)).collect();
    let mut anew: Vec<(Held<Object>, Option<Held<Object>>)> = Vec::new();
    for (fd, old) in of_others {
        let made = anew.iter().find(|(other, _)| other.same(&old)).map(|(_, made)| made.clone());
        let made = made.unwrap_or_else(|| {
            let made = decided_anew(fd);
            anew.push((old, made.clone()));
            made
        });
        object::put(fd, made);
    }
}

fn decided_anew(fd: c_int) -> Option<Held<Object>> {
    // SAFETY: it stands in the table, and no other thread is here that could close it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(fd) };
    if may_be_session_fd(borrowed) {
        // It was just becoming Clearway's.
        return inheritors::object_of(borrowed).ok().flatten();
    }
    Found::at(fd)?.object(fd)
}

/// A socket of the kernel's that may still become Clearway's.
struct Found {
    kind: Kind,
    v6: bool,
    bound: bool,
}

impl Found {
    fn at(fd: c_int) -> Option<Found> {
        let v6 = match number(fd, libc::SO_DOMAIN)? {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return None,
        };
        let kind = match (number(fd, libc::SO_TYPE)?, number(fd, libc::SO_PROTOCOL)?) {
            (libc::SOCK_STREAM, libc::IPPROTO_TCP) => Kind::Stream,
            (libc::SOCK_DGRAM, libc::IPPROTO_UDP) => Kind::Datagram,
            _ => return None,
        };
        let is_idle = || option(fd, Level::Tcp as c_int, libc::TCP_INFO)?.first().copied();
        if kind == Kind::Stream && is_idle() != Some(CLOSED) {
            return None;
        }
        let local = decide::kernel_address(fd).filter(|local| local.ip().is_unspecified())?;
        Some(Found { kind, v6, bound: local.port() != 0 })
    }

    fn object(&self, fd: c_int) -> Option<Held<Object>> {
        let pending = Pending::new(self.kind, self.v6);
        let mut state = pending.state();
        state.told = told(fd, (self.kind, self.v6))?;
        (state.bound, state.port_was_asked) = (self.bound, self.bound);
        state.asks_for_signals = true;
        drop(state);
        process::watch_forks();
        Some(TABLE.make(Object::Pending(pending)))
    }
}

/// The same socket, when this process has it by another descriptor: a message can come back to who
/// sent it.
fn known(fd: BorrowedFd<'_>) -> Option<Held<Object>> {
    let name = cookie(fd)?;
    TABLE.range(0, c_int::MAX).find_map(|other| {
        let held = TABLE.get(other).filter(|held| matches!(**held, Object::Pending(_)))?;
        // SAFETY: it stands in the table; should it be closed just now it is no socket, or another.
        let is_it = cookie(unsafe { BorrowedFd::borrow_raw(other) }) == Some(name);
        is_it.then_some(held)
    })
}

/// The options that a socket was given: those that a new one has otherwise.
fn told(fd: c_int, (kind, v6): (Kind, bool)) -> Option<Vec<Told>> {
    let new = decide::kernels_socket((kind, v6), false, &[], None).ok()?;
    let fits = |level| match level {
        Level::Tcp => kind == Kind::Stream,
        Level::Udp => kind == Kind::Datagram,
        Level::Ipv6 => v6,
        Level::Ip | Level::Socket => true,
    };
    let set = OPTIONS.iter().filter(|option| fits(option.level) && can_be_set(option));
    let different = set.filter_map(|known| {
        let (level, name) = (known.level as c_int, known.number);
        let value = option(fd, level, name)?;
        (Some(&value) != option(new.as_raw_fd(), level, name).as_ref())
            .then(|| Told::new(level, name, &as_set(level, name, value)))
    });
    let mut told: Vec<Told> = different.collect();
    if has_filter(fd) {
        told.push(Told::new(libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &[1]));
    }
    Some(told)
}

/// The option is one that `getsockopt` tells as it was set.
fn can_be_set(known: &SocketOption) -> bool {
    let is = |numbers: &[c_int]| numbers.contains(&known.number);
    match known.level {
        _ if matches!(known.how, How::Told(_)) => false,
        // SO_ERROR is taken by whoever asks; the forced sizes of buffers are those of SO_RCVBUF and
        // SO_SNDBUF.
        Level::Socket => !is(&[
            libc::SO_ERROR,
            libc::SO_ACCEPTCONN,
            libc::SO_PEERCRED,
            libc::SO_RCVBUFFORCE,
            libc::SO_SNDBUFFORCE,
            libc::SO_ATTACH_FILTER,
            SO_MEMINFO,
        ]),
        Level::Tcp => !is(&[libc::TCP_INFO, libc::TCP_CC_INFO]),
        Level::Ip | Level::Ipv6 | Level::Udp => true,
    }
}

/// Linux tells the sizes of buffers doubled.
fn as_set(level: c_int, name: c_int, value: Vec<u8>) -> Vec<u8> {
    match (level, name, value.first_chunk()) {
        (libc::SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF, Some(told)) => {
            (c_int::from_ne_bytes(*told) / 2).to_ne_bytes().to_vec()
        }
        _ => value,
    }
}

/// The socket has a filter, which Linux tells as instructions, or refuses to tell.
fn has_filter(fd: c_int) -> bool {
    let mut instructions: libc::socklen_t = 0;
    // SAFETY: what tells a filter has the number of what sets one, and counts instructions; who has
    // room for none is told how many there are, and nothing is written but that.
    let asked = unsafe {
        let (none, count) = (std::ptr::null_mut(), &raw mut instructions);
        real::getsockopt(fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, none, count)
    };
    check(asked).is_err() || instructions != 0
}

/// How long who receives waits at most (SO_RCVTIMEO).
pub(crate) fn receive_timeout(fd: c_int) -> Option<Duration> {
    timeout(&option(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO)?).ok()?
}

fn number(fd: c_int, name: c_int) -> Option<c_int> {
    option(fd, libc::SOL_SOCKET, name)?.first_chunk().map(|bytes| c_int::from_ne_bytes(*bytes))
}

fn option(fd: c_int, level: c_int, name: c_int) -> Option<Vec<u8>> {
    let mut value = [0u8; LONGEST];
    let mut len = value.len() as libc::socklen_t;
    let place = value.as_mut_ptr().cast();
    // SAFETY: the place is that long.
    check(unsafe { real::getsockopt(fd, level, name, place, &raw mut len) }).ok()?;
    value.get(..len as usize).map(<[u8]>::to_vec)
}
