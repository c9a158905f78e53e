//! socket, bind, connect, listen, accept, the names, shutdown, and the options.

use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, IntoRawFd as _};

use clearway_client::{How, Kind, SocketOptions, flags};
use libc::{sockaddr, socklen_t};

use crate::addr::{self, Given};
use crate::decide::{self, Deed, Verdict};
use crate::errno::{Answer, blocking, check, fail, get};
use crate::export::{Inside, guarded, interpose, is_thread};
use crate::files;
use crate::given;
use crate::interfaces;
use crate::interfaces::scope;
use crate::object::{self, Mine, Object, Ours, Pending, TABLE, ours};
use crate::options::{self, Told, Value};
use crate::process;
use crate::real;
use crate::reused;

/// `socket(2)`. The kernel makes it; one of the internet's, TCP or UDP, is remembered as undecided.
///
/// # Safety
/// Takes no pointers.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn socket(
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    // SAFETY: takes no pointers.
    let fd = reused::given_out(unsafe { real::socket(domain, kind, protocol) });
    if fd < 0 || !is_thread() {
        return fd;
    }
    if matches!(domain, libc::AF_INET | libc::AF_INET6) {
        guarded(|| remember(fd, domain, kind, protocol));
    }
    if domain == libc::AF_NETLINK && protocol == libc::NETLINK_ROUTE {
        guarded(|| interfaces::netlink::remember(fd));
    }
    fd
}

fn remember(fd: c_int, domain: c_int, kind: c_int, protocol: c_int) {
    let kind = match (kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC), protocol) {
        (libc::SOCK_STREAM, 0 | libc::IPPROTO_TCP) => Kind::Stream,
        (libc::SOCK_DGRAM, 0 | libc::IPPROTO_UDP) => Kind::Datagram,
        _ => return,
    };
    process::watch_forks();
    if !process::is_own() {
        return;
    }
    let errno = get();
    object::put(
        fd,
        Some(TABLE.make(Object::Pending(Pending::new(kind, domain == libc::AF_INET6)))),
    );
    crate::errno::set(errno);
}

interpose! {
    /// `bind(2)`
    fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int,
        if TABLE.has(fd) => inside_bind(fd, addr, len);

    /// `connect(2)`
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int,
        if TABLE.has(fd) => inside_connect(fd, addr, len);

    /// `listen(2)`
    fn listen(fd: c_int, backlog: c_int) -> c_int, if TABLE.has(fd) => inside_listen(fd, backlog);

    /// `accept(2)`
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int,
        if TABLE.has(fd) => inside_accept(fd, addr, len, 0), kernels reused::given_out;

    /// `accept4(2)`
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int,
        if TABLE.has(fd) => inside_accept(fd, addr, len, flags), kernels reused::given_out;

    /// `getsockname(2)`
    fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int,
        if TABLE.has(fd) => inside_getsockname(fd, addr, len);

    /// `getpeername(2)`
    fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int,
        if TABLE.has(fd) => ours(fd).map(|mine| {
        mine.socket.refresh();
        match mine.socket.remote() {
            // Of a datagram socket that asked by which address of ours one leads there.
            Some(remote) if remote.port() == 0 => fail(libc::ENOTCONN),
            Some(remote) => {
                addr::write(scope::beside(remote, mine.socket.local().ip()), mine.socket.is_v6(),
                    addr, len).map(|()| 0)
            }
            None => fail(libc::ENOTCONN),
        }
    });

    /// `shutdown(2)`
    fn shutdown(fd: c_int, how: c_int) -> c_int, if TABLE.has(fd) => ours(fd).map(|mine| {
        let how = match how {
            libc::SHUT_RD => How::Read,
            libc::SHUT_WR => How::Write,
            libc::SHUT_RDWR => How::Both,
            _ => return fail(libc::EINVAL),
        };
        mine.socket.shutdown(how).map(|()| 0)
    });

    /// `setsockopt(2)`
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void,
        len: socklen_t) -> c_int, if TABLE.has(fd) => inside_setsockopt(fd, level, name, value,
            len);

    /// `getsockopt(2)`
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void,
        len: *mut socklen_t) -> c_int, if TABLE.has(fd) => match TABLE.get(fd).as_deref() {
        Some(Object::Ours(mine)) => Some(give(options::get(mine, level, name), value, len).map(|()| 0)),
        Some(Object::Pending(pending)) => {
            let told = options::told_of_ours(&pending.state().told, level, name);
            told.map(|told| give(told, value, len).map(|()| 0))
        }
        _ => None,
    };
}

/// Does an address fit a socket's family? Says how Linux refuses it otherwise.
pub(crate) fn fits(stream: bool, v6: bool, given: Given, len: socklen_t) -> Answer<SocketAddr> {
    match given {
        Given::Nowhere => fail(libc::EFAULT),
        Given::Inet { addr, v6: true } if v6 => Ok(addr),
        Given::Inet { addr, v6: false } if !v6 || !stream => Ok(addr),
        _ if v6 && (len as usize) < addr::SHORTEST_IN6 => fail(libc::EINVAL),
        _ if (len as usize) < size_of::<libc::sockaddr_in>() => fail(libc::EINVAL),
        _ => fail(libc::EAFNOSUPPORT),
    }
}

/// Datagrams for all on a link are for who asked to send such (SO_BROADCAST).
pub(crate) fn may_go_to(mine: &Ours, remote: SocketAddr) -> Answer<()> {
    match remote.ip().to_canonical() {
        IpAddr::V4(all) if all.is_broadcast() && !mine.is_stream() && !mine.extra().broadcast => {
            fail(libc::EACCES)
        }
        _ => Ok(()),
    }
}

/// The address of a bind or connect that concerns a pending socket, when it fits; the kernel
/// refuses the others.
fn for_pending(fd: c_int, given: Given, len: socklen_t) -> Option<SocketAddr> {
    match &*TABLE.get(fd)? {
        Object::Pending(pending) => fits(pending.kind == Kind::Stream, pending.v6, given, len).ok(),
        Object::Ours(_) | Object::Set(_) | Object::Route(_) => None,
    }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Inside<c_int> {
    // SAFETY: the caller's address is that long.
    let given = unsafe { addr::read(addr, len) };
    if let Some(mine) = ours(fd) {
        return Some(bind_ours(&mine, given, len));
    }
    let local = for_pending(fd, given, len)?;
    match decide::decide(fd, Deed::Bind, local) {
        Ok(Some(Verdict::Ours(mine))) => Some(bind_ours(&mine, given, len)),
        Ok(_) => None,
        Err(errno) => Some(Err(errno)),
    }
}

fn bind_ours(mine: &Mine, given: Given, len: socklen_t) -> Answer<c_int> {
    let local = fits(true, mine.socket.is_v6(), given, len)?;
    if local.is_ipv4() && mine.socket.is_v6() && mine.socket.options().v6_only {
        return fail(libc::EINVAL);
    }
    mine.socket.bind(local).map(|()| 0)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Inside<c_int> {
    // SAFETY: the caller's address is that long.
    let given = unsafe { addr::read(addr, len) };
    if let Some(mine) = ours(fd) {
        return connect_ours(fd, &mine, (given, len), 0);
    }
    let remote = for_pending(fd, given, len)?;
    match decide::decide(fd, Deed::Connect, remote) {
        Ok(Some(Verdict::Ours(mine))) => connect_ours(fd, &mine, (given, len), 0),
        Ok(_) => None,
        Err(errno) => Some(Err(errno)),
    }
}

/// Connects for MSG_FASTOPEN. None: the socket is the kernel's.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
pub(crate) unsafe fn connect_early(
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
    flags: c_int,
) -> Inside<Mine> {
    // SAFETY: the caller's address is that long.
    let given = unsafe { addr::read(addr, len) };
    let mine = match ours(fd) {
        Some(mine) => mine,
        None => match decide::decide(fd, Deed::Connect, for_pending(fd, given, len)?) {
            Ok(Some(Verdict::Ours(mine))) => mine,
            Ok(_) => return None,
            Err(errno) => return Some(Err(errno)),
        },
    };
    if matches!(given, Given::Unspecified) {
        // Nobody to connect to, as data needs somebody.
        return Some(fail(libc::EOPNOTSUPP));
    }
    let before = mine.socket.options();
    let early = SocketOptions { fast_open_connect: true, ..before };
    if let Err(errno) = mine.socket.set_options(&early) {
        return Some(Err(errno));
    }
    let done = connect_ours(fd, &mine, (given, len), flags);
    // What was set for this call alone is as it was; the connection has begun, or there is none.
    // Without a host nothing has.
    let _ = mine.socket.set_options(&before);
    Some(done?.map(|_| mine))
}

fn connect_ours(
    fd: c_int,
    mine: &Mine,
    (given, len): (Given, socklen_t),
    flags: c_int,
) -> Inside<c_int> {
    let stream = mine.is_stream();
    let remote = match given {
        Given::Unspecified if stream => return Some(disconnect(mine)),
        Given::Unspecified => None,
        given => match fits(stream, mine.socket.is_v6(), given, len) {
            Ok(remote) => Some(remote),
            Err(errno) => return Some(Err(errno)),
        },
    };
    if let Some(remote) = remote {
        if remote.is_ipv4() && mine.socket.is_v6() && mine.socket.options().v6_only {
            return Some(fail(libc::ENETUNREACH));
        }
        if let Err(errno) = may_go_to(mine, remote) {
            return Some(Err(errno));
        }
        match decide::give_back(fd, mine, remote) {
            Ok(true) => return None,
            Ok(false) => {}
            Err(errno) => return Some(Err(errno)),
        }
    }
    let number = scope::number(remote);
    if number != 0 && mine.socket.local().port() == 0 {
        // Its own address says which link it is on.
        let own =
            scope::own_address(number).map_or(Ok(()), |own| mine.socket.bind((own, 0).into()));
        if let Err(errno) = own {
            return Some(Err(errno));
        }
    }
    let limited = || mine.socket.timeouts().1.is_some();
    Some(blocking(|| mine.socket.connect_with(remote, flags).map(|()| 0), limited))
}

/// A stream that is connected to nobody from now on. Servers end their listening so, and begin it
/// again later. A connection would have to become a socket again that can connect: that is not done.
fn disconnect(mine: &Mine) -> Answer<c_int> {
    let socket = &mine.socket;
    match (socket.is_listener(), socket.remote()) {
        (true, _) => socket.shutdown(How::Read).map(|()| 0),
        (false, None) => Ok(0),
        (false, Some(_)) => fail(libc::EOPNOTSUPP),
    }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> Inside<c_int> {
    let held = TABLE.get(fd)?;
    match &*held {
        Object::Ours(mine) => {
            let (local, v6) = (mine.socket.local(), mine.socket.is_v6());
            let local = scope::beside(local, local.ip());
            // SAFETY: the caller's pointers.
            Some(unsafe { addr::write(local, v6, addr, len) }.map(|()| 0))
        }
        Object::Pending(pending) => {
            let local = decide::settle(fd)?.socket.local();
            // SAFETY: the caller's pointers.
            Some(unsafe { addr::write(local, pending.v6, addr, len) }.map(|()| 0))
        }
        Object::Set(_) | Object::Route(_) => None,
    }
}

fn inside_listen(fd: c_int, backlog: c_int) -> Inside<c_int> {
    // A negative backlog is a huge one to Linux; the host cuts it.
    let listen = |mine: &Mine| match mine.is_stream() {
        true => mine.socket.listen(backlog as u32).map(|()| 0),
        false => fail(libc::EOPNOTSUPP),
    };
    if let Some(mine) = ours(fd) {
        return Some(listen(&mine));
    }
    let wildcard = decide::wildcard_of_stream(fd)?;
    match decide::decide(fd, Deed::Listen, wildcard) {
        Ok(Some(Verdict::Ours(mine))) => Some(listen(&mine)),
        Ok(_) => None,
        Err(errno) => Some(Err(errno)),
    }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_accept(
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Inside<c_int> {
    let mine = ours(fd)?;
    // SAFETY: the caller's pointers.
    Some(unsafe { accept_ours(&mine, addr, len, flags) })
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn accept_ours(
    mine: &Mine,
    addr: *mut sockaddr,
    len: *mut socklen_t,
    flags: c_int,
) -> Answer<c_int> {
    if flags & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC) != 0 {
        return fail(libc::EINVAL);
    }
    if !mine.is_stream() {
        return fail(libc::EOPNOTSUPP);
    }
    let limited = || mine.socket.timeouts().0.is_some();
    let accept = || match flags & libc::SOCK_CLOEXEC {
        0 => mine.socket.accept_for_exec(),
        _ => mine.socket.accept(),
    };
    let (socket, session_fd, remote) = blocking(accept, limited)?;
    if !addr.is_null() {
        // SAFETY: the caller's pointers.
        unsafe {
            addr::write(scope::beside(remote, socket.local().ip()), mine.socket.is_v6(), addr, len)
        }?;
    }
    let is_nonblocking = flags & libc::SOCK_NONBLOCK != 0;
    if is_nonblocking != socket.session_fd_is_nonblocking() {
        set_nonblocking(session_fd.as_fd(), is_nonblocking)?;
    }
    socket.set_flag(flags::NONBLOCK, is_nonblocking);
    let extra = mine.extra().inherited();
    let fd = session_fd.into_raw_fd();
    files::was_closed(fd);
    object::put(fd, Some(TABLE.make(Object::Ours(Ours::new(socket, extra)))));
    Ok(fd)
}

/// Sets O_NONBLOCK of a session fd that the program gets, or takes it away.
pub(crate) fn set_nonblocking(session_fd: BorrowedFd<'_>, on: bool) -> Answer<()> {
    let word = if on { libc::O_NONBLOCK } else { 0 };
    // SAFETY: changes a flag of a descriptor that is ours.
    check(unsafe { real::fcntl(session_fd.as_raw_fd(), libc::F_SETFL, word.into()) }).map(drop)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn inside_setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Inside<c_int> {
    let held = TABLE.get(fd)?;
    match &*held {
        Object::Set(_) | Object::Route(_) => None,
        Object::Ours(mine) => {
            // SAFETY: the caller's value is that long.
            let value = match unsafe { value_of(value, len) } {
                Ok(value) => value,
                Err(errno) => return Some(Err(errno)),
            };
            let set = options::set(mine, level, name, value);
            if set.is_err() {
                let told = Told::new(level, name, value);
                match ours(fd).map(|mine| decide::give_back_for(fd, &mine, &told)) {
                    Some(Ok(true)) => return None,
                    Some(Err(errno)) => return Some(Err(errno)),
                    Some(Ok(false)) | None => {}
                }
            }
            Some(set.map(|()| 0))
        }
        Object::Pending(pending) => {
            let mut state = pending.state();
            // SAFETY: the caller's value is that long.
            if let Ok(value) = unsafe { value_of(value, len) } {
                if let Some(judged) = options::judged_for_the_kernel(level, name, value) {
                    if judged.is_ok() {
                        Told::remember(&mut state.told, Told::new(level, name, value));
                        drop(state);
                        // Whose it is, is said by that.
                        decide::settle(fd);
                    }
                    return Some(judged.map(|()| 0));
                }
            }
            // SAFETY: the caller's own arguments.
            let answer = check(unsafe { real::setsockopt(fd, level, name, value, len) });
            // SAFETY: the kernel has just read as much.
            if let (Ok(_), Ok(value)) = (&answer, unsafe { value_of(value, len) }) {
                Told::remember(&mut state.told, Told::new(level, name, value));
            }
            Some(answer)
        }
    }
}

/// # Safety
/// `value` is null or points to `len` readable bytes.
unsafe fn value_of<'a>(value: *const c_void, len: socklen_t) -> Answer<&'a [u8]> {
    match c_int::try_from(len) {
        Err(_) => fail(libc::EINVAL),
        Ok(0) => Ok(&[]),
        Ok(_) => {
            given::readable(value, len as usize)?;
            // SAFETY: not null, so the caller's.
            Ok(unsafe { std::slice::from_raw_parts(value.cast(), len as usize) })
        }
    }
}

/// Gives a program the value of an option, as much of it as there is room for.
///
/// # Safety
/// `len` is null or points to the writable bytes at `out`.
unsafe fn give(value: Answer<Value>, out: *mut c_void, len: *mut socklen_t) -> Answer<()> {
    // SAFETY: the caller's.
    let Ok(room) = c_int::try_from(unsafe { given::read(len) }?) else {
        return fail(libc::EINVAL);
    };
    let bytes = match value? {
        Value::Number(number) => number.to_ne_bytes().to_vec(),
        Value::Short(number) => match u8::try_from(number) {
            Ok(byte) if (1..4).contains(&room) => vec![byte],
            _ => number.to_ne_bytes().to_vec(),
        },
        Value::Bytes(bytes) => bytes,
    };
    let fits = bytes.len().min(room as usize);
    // SAFETY: the caller's places.
    unsafe {
        given::write(out, &bytes[..fits])?;
        given::write(len.cast(), &(fits as socklen_t).to_ne_bytes())
    }
}
