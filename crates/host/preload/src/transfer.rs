//! read and write, recv and send, and their families.

use std::ffi::{c_int, c_uint, c_void};
use std::io::{IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use clearway_client::{Errno, ErrorReport, LONGEST_QUOTE, Received, SendTo};
use clearway_options::stamping::OPT_TSONLY;
use libc::{iovec, mmsghdr, msghdr, off_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::addr;
use crate::control;
use crate::copies;
use crate::decide::{self, Deed, Verdict};
use crate::errno::{Answer, blocking, fail};
use crate::export::{Inside, interpose};
use crate::given;
use crate::interfaces::{netlink, scope};
use crate::object::{Mine, Object, Ours, TABLE, ours};
use crate::real;
use crate::received;
use crate::signals;
use crate::undecided;
use crate::vectors::{source, sources, target, targets};
use crate::wait;
use crate::wait::replaced;

/// Datagrams of one `sendmmsg` or `recvmmsg` at most (UIO_MAXIOV).
const MOST_MESSAGES: c_uint = 1024;

interpose! {
    /// `read(2)`
    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t,
        if TABLE.has(fd) => match receiver(fd, if len == 0 { libc::MSG_DONTWAIT } else { 0 }) {
        Some(mine) => Some(target(buf, len).and_then(|into| read_into(&*mine?, &mut [into]))),
        None => from_route(fd, buf, len, 0),
    };

    /// `readv(2)`
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t,
        if TABLE.has(fd) => receiver(fd, 0).map(|mine| {
        read_into(&*mine?, &mut targets(iov, counted(count)?, libc::EINVAL)?)
    });

    /// `write(2)`
    fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t,
        if TABLE.has(fd) => match ours(fd) {
        Some(mine) => Some(source(buf, len).and_then(|from| send_from(&mine, &[from], 0, None))),
        None => netlink::note_bytes(fd, buf, len, 0),
    };

    /// `writev(2)`
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t,
        if TABLE.has(fd) => ours(fd).map(|mine| {
        send_from(&mine, &sources(iov, counted(count)?, libc::EINVAL)?, 0, None)
    });

    /// `preadv2(2)`: at no offset, the only one that a socket has, it is `readv` with flags.
    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, how: c_int) -> ssize_t,
        if TABLE.has(fd) => receiver(fd, without_offset(offset, how).unwrap_or(0)).map(|mine| {
        let (mine, flags) = (mine?, without_offset(offset, how)?);
        let mut into = targets(iov, counted(count)?, libc::EINVAL)?;
        if into.iter().all(|buffer| buffer.is_empty()) { Ok(0) } else { Ok(recv_into(&mine,
            &mut into, flags)?.len as ssize_t) }
    });

    /// `pwritev2(2)`, likewise.
    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, how: c_int) -> ssize_t,
        if TABLE.has(fd) => ours(fd).map(|mine| {
        let flags = without_offset(offset, how)?;
        send_from(&mine, &sources(iov, counted(count)?, libc::EINVAL)?, flags, None)
    });

    /// `recv(2)`
    fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t,
        if TABLE.has(fd) => match receiver(fd, flags) {
        Some(mine) => Some(target(buf, len)
            .and_then(|into| Ok(recv_into(&*mine?, &mut [into], flags)?.len as ssize_t))),
        None => from_route(fd, buf, len, flags),
    };

    /// `recvfrom(2)`
    fn recvfrom(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int, from: *mut sockaddr,
        from_len: *mut socklen_t) -> ssize_t, if TABLE.has(fd) => match receiver(fd, flags) {
        Some(mine) => Some(mine
            .and_then(|mine| recv_from(&mine, buf, len, flags, from, from_len))),
        None => from_route(fd, buf, len, flags).inspect(|_| netlink::sender(from, from_len)),
    };

    /// `recvmsg(2)`
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t, if TABLE.has(fd)
        || received::may_bring(message) => match receiver(fd, flags) {
        Some(mine) => Some(mine.and_then(|mine| recv_message(&mine, message, flags))),
        None => message_from_route(fd, message, flags)
            .or_else(|| Some(received::recvmsg(fd, message, flags))),
    };

    /// `recvmmsg(2)`
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int,
        timeout: *mut timespec) -> c_int, if TABLE.has(fd)
            || received::may_bring_one(messages, count) => match receiver(fd, flags) {
        Some(mine) => Some(mine
            .and_then(|mine| recv_messages(&mine, messages, count, flags, timeout))),
        None => Some(received::recvmmsg(fd, messages, count, flags, timeout)),
    };

    /// `send(2)`
    fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t,
        if TABLE.has(fd) => match ours(fd) {
        Some(mine) => Some(source(buf, len)
            .and_then(|from| send_from(&mine, &[from], flags, None))),
        None => netlink::note_bytes(fd, buf, len, flags),
    };

    /// `sendto(2)`
    fn sendto(fd: c_int, buf: *const c_void, len: size_t, flags: c_int, to: *const sockaddr,
        to_len: socklen_t) -> ssize_t, if TABLE.has(fd) => {
        if flags & libc::MSG_FASTOPEN != 0 && !to.is_null() && is_stream(fd) {
            return connect_and_send(fd, (to, to_len), flags, |mine,
                flags| send_from(mine, &[source(buf, len)?], flags, None));
        }
        let sender = sender(fd, to, to_len)
            .map(|mine| send_to(&*mine?, buf, len, flags, to, to_len));
        sender.or_else(|| netlink::note_bytes(fd, buf, len, flags))
    };

    /// `sendmsg(2)`
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t, if TABLE.has(fd) || {
        // SAFETY: the caller's message.
        unsafe { copies::go_along(message) }
    } => {
        let early = flags & libc::MSG_FASTOPEN != 0
            && given::readable(message.cast(), size_of::<msghdr>()).is_ok();
        if early && !(*message).msg_name.is_null() && is_stream(fd) {
            let message = &*message;
            return connect_and_send(fd, (message.msg_name.cast(), message.msg_namelen), flags,
                |mine, flags| send_message(mine, message, flags));
        }
        let sender = sender_of(fd, message).map(|mine| send_message(&*mine?, message, flags));
        sender.or_else(|| netlink::note_vectors(fd, message, flags))
    };

    /// `sendmmsg(2)`
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int,
        if TABLE.has(fd) && count > 0 || {
        // SAFETY: the caller's messages.
        unsafe { copies::go_along_with(messages, count) }
    } => {
        sender_of(fd, messages.cast())
            .map(|mine| send_messages(&*mine?, messages, count, flags))
    };
}

/// `preadv2` by the name that programs with 64-bit file offsets call it.
///
/// # Safety
/// As for `preadv2(2)`.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn preadv64v2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off_t,
    how: c_int,
) -> ssize_t {
    // SAFETY: the caller keeps to what `preadv2` asks.
    unsafe { preadv2(fd, iov, count, offset, how) }
}

/// `pwritev2` by the name that programs with 64-bit file offsets call it.
///
/// # Safety
/// As for `pwritev2(2)`.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn pwritev64v2(
    fd: c_int,
    iov: *const iovec,
    count: c_int,
    offset: off_t,
    how: c_int,
) -> ssize_t {
    // SAFETY: the caller keeps to what `pwritev2` asks.
    unsafe { pwritev2(fd, iov, count, offset, how) }
}

/// `RWF_HIPRI` to `RWF_APPEND` of `linux/fs.h`, of which only RWF_NOWAIT says anything to a socket.
const KNOWN_HOW: c_int = 0x1f;
const NOWAIT: c_int = 8;

/// What `preadv2` and `pwritev2` ask of a socket, as flags of `recv` and `send`. An offset other
/// than none is a file's.
fn without_offset(offset: off_t, how: c_int) -> Answer<c_int> {
    if offset != -1 {
        return fail(libc::ESPIPE);
    }
    if how & !KNOWN_HOW != 0 {
        return fail(libc::EOPNOTSUPP);
    }
    Ok(if how & NOWAIT != 0 { libc::MSG_DONTWAIT } else { 0 })
}

fn counted(count: c_int) -> Answer<usize> {
    usize::try_from(count).or_else(|_| fail(libc::EINVAL))
}

/// `read` and `readv`: without room for a byte nothing is read, not even a datagram.
fn read_into(mine: &Ours, into: &mut [IoSliceMut<'_>]) -> Answer<ssize_t> {
    if into.iter().all(|buffer| buffer.is_empty()) {
        return Ok(0);
    }
    Ok(recv_into(mine, into, 0)?.len as ssize_t)
}

pub(crate) fn recv_into(
    mine: &Ours,
    into: &mut [IoSliceMut<'_>],
    flags: c_int,
) -> Answer<Received> {
    if flags & libc::MSG_OOB != 0 {
        // That one byte is not copied from the FIFO.
        let first = into.iter_mut().find(|part| !part.is_empty());
        first.map_or(Ok(()), |part| given::writable(part.as_mut_ptr().cast(), 1))?;
    }
    if flags & libc::MSG_ERRQUEUE != 0 {
        let Queued::Error(len, flags, _) = recv_error(mine, into)? else {
            return Ok(Received { flags: libc::MSG_ERRQUEUE, ..Received::default() });
        };
        return Ok(Received { len, flags, ..Received::default() });
    }
    let received =
        blocking(|| mine.socket.recv(into, flags), || mine.socket.timeouts().0.is_some())?;
    if received.datagram.is_some() {
        mine.set_last_stamp(received.arrived);
    }
    Ok(received)
}

/// What a socket's error queue holds.
enum Queued {
    /// An error of a datagram, or something that was sent has left, and what is known of its
    /// payload: bytes, what `msg_flags` says, and more.
    Error(usize, c_int, ErrorReport),
    /// The numbers of sends with MSG_ZEROCOPY that are done.
    ZeroCopy((u32, u32)),
}

/// The next of the error queue (MSG_ERRQUEUE). It never waits. The errors of a stream are told by
/// SO_ERROR and by the calls: here it has stamps only.
fn recv_error(mine: &Ours, into: &mut [IoSliceMut<'_>]) -> Answer<Queued> {
    if let Some(sends) = mine.socket.zero_copy_completion() {
        return Ok(Queued::ZeroCopy(sends));
    }
    let report = mine.socket.error_report()?;
    let Some(report) = report else { return fail(libc::EAGAIN) };
    let mut rest = &report.payload[..];
    for part in into {
        let len = part.len().min(rest.len());
        given::writable(part.as_mut_ptr().cast(), len)?;
        part[..len].copy_from_slice(&rest[..len]);
        rest = &rest[len..];
    }
    // Bytes of a stream that has sent them are not given back; where they were asked for, that is
    // said.
    let is_kept = mine.is_stream() && mine.socket.stamping() & OPT_TSONLY == 0;
    let is_whole = rest.is_empty() && report.payload.len() < LONGEST_QUOTE && !is_kept;
    let flags = libc::MSG_ERRQUEUE | if is_whole { 0 } else { libc::MSG_TRUNC };
    Ok(Queued::Error(report.payload.len() - rest.len(), flags, report))
}

/// `recvmsg` with MSG_ERRQUEUE: to whom the datagram was sent, and what became of it.
///
/// # Safety
/// The message's pointers are the program's.
unsafe fn recv_error_message(
    mine: &Ours,
    message: &mut msghdr,
    into: &mut [IoSliceMut<'_>],
) -> Answer<ssize_t> {
    let queued = recv_error(mine, into)?;
    given::writable((&raw mut *message).cast(), size_of::<msghdr>())?;
    let v6 = mine.socket.is_v6();
    let len = match &queued {
        Queued::ZeroCopy(_) => {
            message.msg_flags = libc::MSG_ERRQUEUE;
            message.msg_namelen = 0;
            0
        }
        Queued::Error(len, flags, report) => {
            message.msg_flags = *flags;
            if report.stamp.is_some() {
                message.msg_namelen = 0;
            } else if !message.msg_name.is_null() {
                // SAFETY: the caller's pointers.
                unsafe {
                    addr::write(report.to, v6, message.msg_name.cast(), &mut message.msg_namelen)
                }?;
            }
            *len
        }
    };
    let mut used = 0;
    // SAFETY: the caller's message.
    if let Some(room) = unsafe { control_of(message) } {
        let mut writer = control::Writer::new(room);
        match &queued {
            Queued::Error(_, _, report) => match &report.stamp {
                Some(stamp) => writer.sent(mine, report, stamp),
                None => {
                    writer.stamps(mine, report.at, true);
                    writer.error(report, v6);
                }
            },
            Queued::ZeroCopy(sends) => writer.zero_copy(*sends, v6),
        }
        let cut;
        (used, cut) = writer.finish();
        message.msg_flags |= if cut { libc::MSG_CTRUNC } else { 0 };
    }
    message.msg_controllen = used as _;
    Ok(len as ssize_t)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn recv_from(
    mine: &Ours,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    from: *mut sockaddr,
    from_len: *mut socklen_t,
) -> Answer<ssize_t> {
    // SAFETY: the caller's buffer.
    let mut into = [unsafe { target(buf, len) }?];
    if flags & libc::MSG_ERRQUEUE != 0 {
        let Queued::Error(len, _, report) = recv_error(mine, &mut into)? else { return Ok(0) };
        if report.stamp.is_some() && !from_len.is_null() {
            // SAFETY: the caller's.
            unsafe { given::write(from_len.cast(), &[0; size_of::<socklen_t>()]) }?;
        } else if !from.is_null() {
            // SAFETY: the caller's pointers.
            unsafe { addr::write(report.to, mine.socket.is_v6(), from, from_len) }?;
        }
        return Ok(len as ssize_t);
    }
    let received = recv_into(mine, &mut into, flags)?;
    if !from.is_null() {
        match received.datagram {
            Some(arrived) => {
                let sender = scope::with(arrived.from, arrived.iface);
                // SAFETY: the caller's pointers.
                unsafe { addr::write(sender, mine.socket.is_v6(), from, from_len) }?;
            }
            // SAFETY: the caller's. A stream says no name.
            None => unsafe { given::write(from_len.cast(), &[0; size_of::<socklen_t>()]) }?,
        }
    }
    Ok(received.len as ssize_t)
}

/// Where control messages go; no room at all where the program gave none, which is told it then.
/// Where its buffer is not there they are lost, as in the kernel.
///
/// # Safety
/// The message names a buffer of the program's, or none.
unsafe fn control_of<'a>(message: &msghdr) -> Option<&'a mut [u8]> {
    let (control, len) = (message.msg_control, message.msg_controllen);
    if control.is_null() {
        return Some(&mut []);
    }
    given::writable(control, len).ok()?;
    // SAFETY: not null, so the caller's.
    Some(unsafe { std::slice::from_raw_parts_mut(control.cast(), len) })
}

/// The kernel takes the length of a name for a number with a sign.
fn room_for_name(message: &msghdr) -> Answer<()> {
    let is_wrong = !message.msg_name.is_null() && message.msg_namelen > c_int::MAX as socklen_t;
    if is_wrong { fail(libc::EINVAL) } else { Ok(()) }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn recv_message(mine: &Ours, message: *mut msghdr, flags: c_int) -> Answer<ssize_t> {
    given::readable(message.cast(), size_of::<msghdr>())?;
    // SAFETY: not null, so the caller's.
    let message = unsafe { &mut *message };
    room_for_name(message)?;
    // SAFETY: the caller's vectors.
    let mut into = unsafe { targets(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }?;
    if flags & libc::MSG_ERRQUEUE != 0 {
        // SAFETY: the caller's message.
        return unsafe { recv_error_message(mine, message, &mut into) };
    }
    let received = recv_into(mine, &mut into, flags)?;
    // As in the kernel what was received is gone by now.
    given::writable((&raw mut *message).cast(), size_of::<msghdr>())?;
    message.msg_flags = received.flags | (flags & libc::MSG_CMSG_CLOEXEC);
    let mut control = 0;
    match received.datagram {
        Some(arrived) => {
            if !message.msg_name.is_null() {
                let sender = scope::with(arrived.from, arrived.iface);
                // SAFETY: the caller's pointers.
                unsafe {
                    addr::write(
                        sender,
                        mine.socket.is_v6(),
                        message.msg_name.cast(),
                        &mut message.msg_namelen,
                    )
                }?;
            }
            // SAFETY: the caller's message.
            let room = unsafe { control_of(message) };
            // Most give no room and want to know nothing.
            let is_told = |room: &&mut [u8]| {
                !room.is_empty() || received.arrived != 0 || control::may_tell(mine, &arrived)
            };
            if let Some(room) = room.filter(is_told) {
                let mut writer = control::Writer::new(room);
                writer.stamps(mine, received.arrived, false);
                writer.datagram(mine, &arrived);
                let (used, cut) = writer.finish();
                control = used;
                message.msg_flags |= if cut { libc::MSG_CTRUNC } else { 0 };
            }
        }
        None => {
            message.msg_namelen = 0;
            let inq = mine.extra().inq;
            let wanted = inq || received.arrived != 0;
            // SAFETY: the caller's message.
            if let Some(room) = wanted.then(|| unsafe { control_of(message) }).flatten() {
                let mut writer = control::Writer::new(room);
                writer.stamps(mine, received.arrived, false);
                if inq {
                    writer.inq(mine.socket.readable_hint());
                }
                let (used, cut) = writer.finish();
                control = used;
                message.msg_flags |= if cut { libc::MSG_CTRUNC } else { 0 };
            }
        }
    }
    message.msg_controllen = control as _;
    Ok(received.len as ssize_t)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn recv_messages(
    mine: &Ours,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Answer<c_int> {
    if !timeout.is_null() {
        given::readable(timeout.cast(), size_of::<timespec>())?;
    }
    // SAFETY: null or the caller's.
    let until = match unsafe { timeout.as_ref() } {
        Some(limit) => match limit_of(limit) {
            Some(limit) => Some(Instant::now() + limit),
            None => return fail(libc::EINVAL),
        },
        None => None,
    };
    let mut flags = flags;
    let wait_for_one = flags & libc::MSG_WAITFORONE != 0;
    flags &= !libc::MSG_WAITFORONE;
    let mut done = 0;
    for at in 0..count.min(MOST_MESSAGES) {
        let message = messages.wrapping_add(at as usize);
        // SAFETY: the caller has `count` messages there, and this one was looked at.
        let receive = || unsafe { recv_message(mine, &raw mut (*message).msg_hdr, flags) };
        match given::readable(message.cast(), size_of::<mmsghdr>()).and_then(|()| receive()) {
            // SAFETY: as above; it was written to.
            Ok(len) => unsafe { (*message).msg_len = len as c_uint },
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
        done += 1;
        if wait_for_one {
            flags |= libc::MSG_DONTWAIT;
        }
        // As Linux does, the time is looked at only when a datagram came.
        if until.is_some_and(|until| Instant::now() >= until) {
            break;
        }
    }
    Ok(done)
}

fn limit_of(limit: &timespec) -> Option<Duration> {
    let seconds = u64::try_from(limit.tv_sec).ok()?;
    let nanos = u32::try_from(limit.tv_nsec).ok().filter(|&nanos| nanos < 1_000_000_000)?;
    Some(Duration::new(seconds, nanos))
}

/// The socket that receives. Where another one may be put in its place, that is waited for here
/// together with what comes. None: the kernel's receives.
#[inline]
fn receiver(fd: c_int, flags: c_int) -> Option<Answer<Mine>> {
    match ours(fd) {
        Some(mine) if !mine.may_go_back() => Some(Ok(mine)),
        _ => receiver_later(fd, flags),
    }
}

#[cold]
fn receiver_later(fd: c_int, flags: c_int) -> Option<Answer<Mine>> {
    let held = TABLE.get(fd).filter(replaced::may_be_replaced);
    let waits = flags & (libc::MSG_DONTWAIT | libc::MSG_ERRQUEUE | libc::MSG_OOB) == 0;
    if let Some(limit) = held.filter(|_| waits).and_then(|held| limit_of_receiving(fd, &held)) {
        if let Err(errno) = wait::until_readable(fd, limit) {
            return Some(Err(errno));
        }
    }
    ours(fd).map(Ok)
}

/// How long who receives waits, which is without an end where the inner one is None. None: it does
/// not wait.
fn limit_of_receiving(fd: c_int, held: &Object) -> Option<Option<Duration>> {
    match held {
        Object::Ours(mine) => {
            let waits = !mine.socket.flag(clearway_client::flags::NONBLOCK);
            waits.then(|| mine.socket.timeouts().0)
        }
        Object::Pending(_) => {
            // SAFETY: reads a flag.
            let status = unsafe { real::fcntl(fd, libc::F_GETFL, 0) };
            (status & libc::O_NONBLOCK == 0).then(|| undecided::receive_timeout(fd))
        }
        Object::Set(_) | Object::Route(_) => None,
    }
}

/// The socket that sends to an address, which may make it Clearway's. None: the kernel's sends.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn sender(fd: c_int, to: *const sockaddr, to_len: socklen_t) -> Option<Answer<Mine>> {
    let held = TABLE.get(fd)?;
    match &*held {
        Object::Set(_) | Object::Route(_) => None,
        Object::Ours(mine) if mine.may_go_back() && !to.is_null() => {
            let mine = ours(fd)?;
            // SAFETY: the caller's address is that long.
            let given = unsafe { addr::read(to, to_len) };
            let to = crate::sockets::fits(false, mine.socket.is_v6(), given, to_len);
            match to.and_then(|to| decide::give_back(fd, &mine, to)) {
                Ok(true) => None,
                Ok(false) => Some(Ok(mine)),
                Err(errno) => Some(Err(errno)),
            }
        }
        Object::Ours(_) => ours(fd).map(Ok),
        Object::Pending(pending)
            if pending.kind == clearway_client::Kind::Datagram && !to.is_null() =>
        {
            // SAFETY: the caller's address is that long.
            let given = unsafe { addr::read(to, to_len) };
            let to = crate::sockets::fits(false, pending.v6, given, to_len).ok()?;
            match decide::decide(fd, Deed::Send, to) {
                Ok(Some(Verdict::Ours(mine))) => Some(Ok(mine)),
                Ok(_) => None,
                Err(errno) => Some(Err(errno)),
            }
        }
        Object::Pending(_) => None,
    }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn sender_of(fd: c_int, message: *const msghdr) -> Option<Answer<Mine>> {
    if let Err(errno) = given::readable(message.cast(), size_of::<msghdr>()) {
        return Some(Err(errno));
    }
    // SAFETY: not null, so the caller's, and its address is that long.
    unsafe { sender(fd, (*message).msg_name.cast(), (*message).msg_namelen) }
}

fn is_stream(fd: c_int) -> bool {
    match TABLE.get(fd).as_deref() {
        Some(Object::Ours(_)) => ours(fd).is_some_and(|mine| mine.is_stream()),
        Some(Object::Pending(pending)) => pending.kind == clearway_client::Kind::Stream,
        Some(Object::Set(_) | Object::Route(_)) | None => false,
    }
}

/// MSG_FASTOPEN with an address: connects, and what is sent leaves with the SYN when the server
/// gave a cookie before. The option that does so is as it was afterwards. None: the kernel's does
/// it.
///
/// # Safety
/// The address is what the program gave to the C function that this serves.
unsafe fn connect_and_send(
    fd: c_int,
    (to, to_len): (*const sockaddr, socklen_t),
    flags: c_int,
    send: impl FnOnce(&Ours, c_int) -> Answer<ssize_t>,
) -> Inside<ssize_t> {
    // SAFETY: the caller's address.
    let connected = unsafe { crate::sockets::connect_early(fd, to, to_len, flags) }?;
    Some(connected.and_then(|mine| send(&mine, flags & !libc::MSG_FASTOPEN)))
}

/// Sends on a stream, or a datagram as `how` says.
pub(crate) fn send_from(
    mine: &Ours,
    from: &[IoSlice<'_>],
    flags: c_int,
    how: Option<SendTo>,
) -> Answer<ssize_t> {
    if flags & libc::MSG_FASTOPEN != 0 && mine.is_stream() {
        // Without an address there is nothing to connect to; a connection is there already.
        return fail(if mine.socket.remote().is_some() { libc::EISCONN } else { libc::EINVAL });
    }
    let limited = || mine.socket.timeouts().1.is_some();
    if mine.is_stream() {
        // Nothing here keeps the ends of records.
        if flags & libc::MSG_EOR != 0 {
            return fail(libc::EOPNOTSUPP);
        }
        let how = how.unwrap_or_default();
        let sent = blocking(|| mine.socket.send_to(from, &how, flags), limited);
        return raising(sent, flags).map(|len| copied(mine, flags, len));
    }
    // Out of band there are none.
    if flags & libc::MSG_OOB != 0 {
        return fail(libc::EOPNOTSUPP);
    }
    if flags & libc::MSG_MORE != 0 || mine.parts.is_begun() {
        return send_part(mine, from, flags, how);
    }
    let segment_size = mine.segment_size();
    let sent = if how.is_none() && segment_size == 0 {
        blocking(|| mine.socket.send(from, flags), limited)
    } else {
        let mut how = how.unwrap_or_default();
        if how.segment_size == 0 {
            how.segment_size = segment_size;
        }
        blocking(|| mine.socket.send_to(from, &how, flags), limited)
    };
    sent.map(|len| copied(mine, flags, len))
}

/// A part of a datagram. Where it goes was said with the first.
fn send_part(
    mine: &Ours,
    from: &[IoSlice<'_>],
    flags: c_int,
    how: Option<SendTo>,
) -> Answer<ssize_t> {
    let how = how.unwrap_or_default();
    if !mine.parts.is_begun() && how.to.is_none() && mine.socket.remote().is_none() {
        return fail(libc::EDESTADDRREQ);
    }
    from.iter().try_for_each(|part| given::readable(part.as_ptr().cast(), part.len()))?;
    mine.parts.add(from, how)?;
    if flags & libc::MSG_MORE == 0 {
        let (bytes, how) = mine.parts.take();
        send_from(mine, &[IoSlice::new(&bytes)], flags, Some(how))?;
    }
    Ok(from.iter().map(|part| part.len()).sum::<usize>() as ssize_t)
}

/// Sends bytes of a file over a stream, which are read to where they are sent from.
pub(crate) fn send_file(mine: &Ours, file: c_int, from: u64, count: usize) -> Answer<usize> {
    let limited = || mine.socket.timeouts().1.is_some();
    raising(blocking(|| mine.socket.send_file(file, from, count), limited), 0)
}

/// Who writes where nobody reads gets a signal.
fn raising(sent: Answer<usize>, flags: c_int) -> Answer<usize> {
    if sent == fail(libc::EPIPE) && flags & libc::MSG_NOSIGNAL == 0 {
        signals::raise_pipe();
    }
    sent
}

/// So many bytes were taken, by copying them: with MSG_ZEROCOPY, on a socket that allows that, the
/// error queue tells so.
fn copied(mine: &Ours, flags: c_int, len: usize) -> ssize_t {
    if flags & libc::MSG_ZEROCOPY != 0 && len > 0 && mine.extra().zero_copy {
        mine.socket.complete_zero_copy();
    }
    len as ssize_t
}

/// What waits of ours at a socket that asks for interfaces.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn from_route(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> Inside<ssize_t> {
    // SAFETY: the caller's buffer.
    let into = unsafe { target(buf, len) }.ok()?;
    let whole = netlink::take(fd, &mut [into], flags)?;
    Some(Ok(if flags & libc::MSG_TRUNC != 0 { whole } else { whole.min(len) } as ssize_t))
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn message_from_route(fd: c_int, message: *mut msghdr, flags: c_int) -> Inside<ssize_t> {
    given::writable(message.cast(), size_of::<msghdr>()).ok()?;
    // SAFETY: not null, so the caller's.
    let message = unsafe { &mut *message };
    // SAFETY: the caller's vectors.
    let mut into = unsafe { targets(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }.ok()?;
    let room: usize = into.iter().map(|buffer| buffer.len()).sum();
    let whole = netlink::take(fd, &mut into, flags)?;
    // SAFETY: the caller's place for a name.
    unsafe { netlink::sender(message.msg_name.cast(), &mut message.msg_namelen) };
    // SAFETY: the caller's message.
    let mut control = control::Writer::new(unsafe { control_of(message) }.unwrap_or_default());
    netlink::told_beside(fd, &mut control);
    let (used, cut) = control.finish();
    message.msg_controllen = used as _;
    message.msg_flags = if whole > room { libc::MSG_TRUNC } else { 0 };
    message.msg_flags |= if cut { libc::MSG_CTRUNC } else { 0 };
    Some(Ok(if flags & libc::MSG_TRUNC != 0 { whole } else { whole.min(room) } as ssize_t))
}

/// The address that a datagram is sent to, when one was given. On a stream, one is ignored.
///
/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn destination(
    mine: &Ours,
    to: *const sockaddr,
    to_len: socklen_t,
) -> Answer<Option<SocketAddr>> {
    // That of a datagram that was begun stands.
    if to.is_null() || to_len == 0 || mine.is_stream() || mine.parts.is_begun() {
        return Ok(None);
    }
    // SAFETY: the caller's address is that long.
    let given = unsafe { addr::read(to, to_len) };
    let to = match crate::sockets::fits(false, mine.socket.is_v6(), given, to_len) {
        // What connect refuses so, is simply wrong for sendto.
        Err(Errno(libc::EAFNOSUPPORT)) if mine.socket.is_v6() => return fail(libc::EINVAL),
        to => to?,
    };
    if to.port() == 0 {
        return fail(libc::EINVAL);
    }
    if to.is_ipv4() && mine.socket.is_v6() && mine.socket.options().v6_only {
        return fail(libc::ENETUNREACH);
    }
    crate::sockets::may_go_to(mine, to)?;
    Ok(Some(to))
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn send_to(
    mine: &Ours,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    to: *const sockaddr,
    to_len: socklen_t,
) -> Answer<ssize_t> {
    // SAFETY: the caller's pointers.
    let (to, from) = unsafe { (destination(mine, to, to_len)?, source(buf, len)?) };
    let how =
        to.map(|to| SendTo { to: Some(to), iface: scope::number(Some(to)), ..SendTo::default() });
    send_from(mine, &[from], flags, how)
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn send_message(mine: &Ours, message: *const msghdr, flags: c_int) -> Answer<ssize_t> {
    // SAFETY: `sender_of` saw that it is not null, so it is the caller's.
    let message = unsafe { &*message };
    room_for_name(message)?;
    // SAFETY: the caller's vectors.
    let from = unsafe { sources(message.msg_iov, message.msg_iovlen, libc::EMSGSIZE) }?;
    // SAFETY: the caller's address.
    let to = unsafe { destination(mine, message.msg_name.cast(), message.msg_namelen) }?;
    let mut how = SendTo { to, iface: scope::number(to), ..SendTo::default() };
    if !message.msg_control.is_null() && message.msg_controllen > 0 {
        given::readable(message.msg_control, message.msg_controllen)?;
        // SAFETY: the caller's bytes.
        let control = unsafe {
            std::slice::from_raw_parts(message.msg_control.cast(), message.msg_controllen)
        };
        let over_v4 = || mine.socket.goes_over_v4(to);
        control::read(control::Sender::of(mine), over_v4, control, &mut how)?;
    }
    send_from(mine, &from, flags, Some(how))
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe fn send_messages(
    mine: &Ours,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> Answer<c_int> {
    let mut done = 0;
    for at in 0..count.min(MOST_MESSAGES) {
        let message = messages.wrapping_add(at as usize);
        // SAFETY: the caller has `count` messages there, and this one was looked at.
        let send = || unsafe { send_message(mine, &raw const (*message).msg_hdr, flags) };
        match given::writable(message.cast(), size_of::<mmsghdr>()).and_then(|()| send()) {
            // SAFETY: as above.
            Ok(len) => unsafe { (*message).msg_len = len as c_uint },
            Err(errno) if done == 0 => return Err(errno),
            Err(_) => break,
        }
        done += 1;
    }
    Ok(done)
}
