//! Reading and writing.

use std::ffi::{c_int, c_uint, c_void};

use clearway_script::backend::{Op, ReadFlags, Reply, WriteFlags};
use libc::{iovec, msghdr, off64_t, size_t, sockaddr, socklen_t, ssize_t};

use crate::table::{Data, with};
use crate::world::{Errno, World};
use crate::{address, control, copies, stamps};

/// The most that is read or written at a time.
const MOST: usize = 1 << 30;

/// The pieces of the caller's memory.
///
/// # Safety
/// `pieces` leads to `count` pieces, each of which leads to so many bytes.
unsafe fn pieces(pieces: *const iovec, count: usize) -> Result<Vec<(*mut u8, usize)>, Errno> {
    if count > 1_024 || (pieces.is_null() && count > 0) {
        return Err(libc::EINVAL);
    }
    let all: &[iovec] = if count == 0 { &[] } else { std::slice::from_raw_parts(pieces, count) };
    if all.iter().any(|piece| piece.iov_base.is_null() && piece.iov_len > 0) {
        return Err(libc::EFAULT);
    }
    Ok(all.iter().map(|piece| (piece.iov_base.cast(), piece.iov_len)).collect())
}

fn read_flags(flags: c_int) -> Result<ReadFlags, Errno> {
    if flags & !(libc::MSG_PEEK | libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    Ok(ReadFlags { peek: flags & libc::MSG_PEEK != 0, dont_wait: flags & libc::MSG_DONTWAIT != 0 })
}

fn write_flags(flags: c_int) -> Result<WriteFlags, Errno> {
    const KNOWN: c_int = libc::MSG_OOB
        | libc::MSG_MORE
        | libc::MSG_EOR
        | libc::MSG_DONTWAIT
        | libc::MSG_NOSIGNAL
        | libc::MSG_FASTOPEN
        | libc::MSG_ZEROCOPY;
    if flags & !KNOWN != 0 {
        return Err(libc::EOPNOTSUPP);
    }
    let has = |flag| flags & flag != 0;
    Ok(WriteFlags {
        urgent: has(libc::MSG_OOB),
        more: has(libc::MSG_MORE),
        ends_record: has(libc::MSG_EOR),
        dont_wait: has(libc::MSG_DONTWAIT),
    })
}

/// `TCP_INQ` and the control message of the same number (`linux/tcp.h`).
pub(crate) const TCP_INQ: c_int = 36;

/// How many bytes wait behind those that were read, when that was asked for; 1 at the end of the
/// stream, so that its reader comes back.
fn left(world: &World, fd: c_int) -> Option<c_int> {
    let mut state = world.enter();
    let socket = state.sockets.get(&fd)?;
    let core = socket.core;
    if socket.option(libc::IPPROTO_TCP, TCP_INQ) == 0 {
        return None;
    }
    let (unread, _) = world.core(&mut state).queued(core)?;
    let ended = world.core(&mut state).is_at_end(core);
    Some(if unread == 0 && ended { 1 } else { unread as c_int })
}

fn receive(world: &World, fd: c_int, len: usize, flags: c_int) -> Result<Reply, Errno> {
    let flags = read_flags(flags)?;
    world.on(fd, |core| Op::Read(core, len.min(MOST) as u32, flags))
}

/// # Safety
/// As for [`pieces`].
unsafe fn scatter(
    world: &World,
    fd: c_int,
    into: &[(*mut u8, usize)],
    flags: c_int,
) -> Result<usize, Errno> {
    Ok(scatter_with(world, fd, into, flags)?.0)
}

/// As [`scatter`], with what is told beside the bytes.
///
/// # Safety
/// As for [`pieces`].
unsafe fn scatter_with(
    world: &World,
    fd: c_int,
    into: &[(*mut u8, usize)],
    flags: c_int,
) -> Result<(usize, Vec<control::Message>), Errno> {
    let len = into.iter().map(|(_, len)| len).sum();
    let reply = receive(world, fd, len, flags)?;
    let mut rest = &reply.data[..];
    for &(room, len) in into {
        let count = rest.len().min(len);
        std::ptr::copy_nonoverlapping(rest.as_ptr(), room, count);
        rest = &rest[count..];
    }
    let count = reply.data.len() - rest.len();
    Ok((count, stamps::beside(world, fd, count, flags & libc::MSG_PEEK != 0)))
}

/// # Safety
/// As for [`pieces`].
unsafe fn gather(from: &[(*mut u8, usize)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &(data, len) in from {
        if len > 0 {
            bytes.extend_from_slice(std::slice::from_raw_parts(data, len));
        }
    }
    bytes
}

fn transmit(world: &World, fd: c_int, bytes: Vec<u8>, flags: c_int) -> Result<usize, Errno> {
    let how = write_flags(flags)?;
    let reply = world.on(fd, |core| Op::Write(core, bytes, how))?;
    let count = reply.value.map(|count| count as usize).map_err(|errno| errno.0)?;
    if let Some(socket) = world.enter().sockets.get_mut(&fd) {
        let asks = flags & libc::MSG_ZEROCOPY != 0
            && socket.option(libc::SOL_SOCKET, libc::SO_ZEROCOPY) != 0;
        socket.copies.wrote(count, asks);
        socket.stamps.wrote(count);
    }
    stamps::look(world, &mut world.enter());
    Ok(count)
}

/// # Safety
/// As for [`with`]; `room` leads to `len` bytes.
pub(crate) unsafe extern "C" fn read(
    data: Data,
    fd: c_int,
    room: *mut c_void,
    len: size_t,
) -> ssize_t {
    recv(data, fd, room, len, 0)
}

/// # Safety
/// As for [`with`] and [`pieces`].
pub(crate) unsafe extern "C" fn readv(
    data: Data,
    fd: c_int,
    into: *const iovec,
    count: c_int,
) -> ssize_t {
    with(data, |world| {
        let into = pieces(into, usize::try_from(count).map_err(|_| libc::EINVAL)?)?;
        scatter(world, fd, &into, 0)
    })
}

/// # Safety
/// As for [`with`]; `room` leads to `len` bytes.
pub(crate) unsafe extern "C" fn recv(
    data: Data,
    fd: c_int,
    room: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    with(data, |world| {
        if room.is_null() && len > 0 {
            return Err(libc::EFAULT);
        }
        scatter(world, fd, &[(room.cast(), len)], flags)
    })
}

/// # Safety
/// As for [`recv`]; `addr` and `addr_len` are null, or lead to an address and its length.
pub(crate) unsafe extern "C" fn recvfrom(
    data: Data,
    fd: c_int,
    room: *mut c_void,
    len: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    with(data, |world| {
        if room.is_null() && len > 0 {
            return Err(libc::EFAULT);
        }
        let count = scatter(world, fd, &[(room.cast(), len)], flags)?;
        // As on Linux for a stream: no address is told. Of a datagram the reply does not say who
        // sent it.
        if !addr.is_null() && !addr_len.is_null() {
            addr_len.write_unaligned(0);
        }
        Ok(count)
    })
}

/// # Safety
/// As for [`with`]; `msg` leads to a message whose pointers lead to what they say.
pub(crate) unsafe extern "C" fn recvmsg(
    data: Data,
    fd: c_int,
    msg: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    with(data, |world| {
        let msg = msg.as_mut().ok_or(libc::EFAULT)?;
        let into = pieces(msg.msg_iov, msg.msg_iovlen)?;
        if flags & libc::MSG_ERRQUEUE != 0 {
            let (messages, flags) = match copies::take(world, fd) {
                Ok(message) => (vec![message], libc::MSG_ERRQUEUE),
                Err(_) => stamps::take(world, fd)?,
            };
            (msg.msg_flags, msg.msg_namelen) = (flags, 0);
            control::put(msg, &messages);
            return Ok(0);
        }
        let (count, mut messages) = scatter_with(world, fd, &into, flags)?;
        (msg.msg_flags, msg.msg_namelen) = (0, 0);
        let left = left(world, fd);
        messages.extend(left.map(|left| (libc::IPPROTO_TCP, TCP_INQ, left.to_ne_bytes().to_vec())));
        control::put(msg, &messages);
        Ok(count)
    })
}

/// # Safety
/// As for [`with`]; `bytes` leads to `len` bytes.
pub(crate) unsafe extern "C" fn write(
    data: Data,
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
) -> ssize_t {
    send(data, fd, bytes, len, 0)
}

/// # Safety
/// As for [`with`] and [`pieces`].
pub(crate) unsafe extern "C" fn writev(
    data: Data,
    fd: c_int,
    from: *const iovec,
    count: c_int,
) -> ssize_t {
    with(data, |world| {
        let from = pieces(from, usize::try_from(count).map_err(|_| libc::EINVAL)?)?;
        transmit(world, fd, gather(&from), 0)
    })
}

/// # Safety
/// As for [`with`]; `bytes` leads to `len` bytes.
pub(crate) unsafe extern "C" fn send(
    data: Data,
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    with(data, |world| {
        if bytes.is_null() && len > 0 {
            return Err(libc::EFAULT);
        }
        transmit(world, fd, gather(&[(bytes.cast_mut().cast(), len)]), flags)
    })
}

/// # Safety
/// As for [`send`]; `addr` is null or leads to `addr_len` bytes.
pub(crate) unsafe extern "C" fn sendto(
    data: Data,
    fd: c_int,
    bytes: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    if addr.is_null() {
        return send(data, fd, bytes, len, flags);
    }
    with(data, |world| {
        if bytes.is_null() && len > 0 {
            return Err(libc::EFAULT);
        }
        let to = address::read(addr, addr_len)?;
        write_flags(flags)?;
        let stream = world.enter().sockets.get(&fd).ok_or(libc::EBADF)?.stream;
        let bytes = gather(&[(bytes.cast_mut().cast(), len)]);
        if stream && flags & libc::MSG_FASTOPEN != 0 {
            let how = write_flags(flags)?;
            let reply = world.on(fd, |core| Op::WriteFirst(core, bytes, to, how))?;
            return reply.value.map(|count| count as usize).map_err(|errno| errno.0);
        }
        // As on Linux, a stream does not look at the address otherwise.
        if stream {
            return transmit(world, fd, bytes, flags);
        }
        let reply = world.on(fd, |core| Op::SendTo(core, bytes, to))?;
        reply.value.map(|count| count as usize).map_err(|errno| errno.0)
    })
}

/// # Safety
/// As for [`with`]; `msg` leads to a message whose pointers lead to what they say.
pub(crate) unsafe extern "C" fn sendmsg(
    data: Data,
    fd: c_int,
    msg: *const msghdr,
    flags: c_int,
) -> ssize_t {
    let Some(msg) = msg.as_ref() else { return with(data, |_| Err(libc::EFAULT)) };
    if msg.msg_controllen > 0 {
        return with(data, |_| Err(libc::EOPNOTSUPP));
    }
    let from = match pieces(msg.msg_iov, msg.msg_iovlen) {
        Ok(from) => gather(&from),
        Err(errno) => return with(data, |_| Err(errno)),
    };
    sendto(data, fd, from.as_ptr().cast(), from.len(), flags, msg.msg_name.cast(), msg.msg_namelen)
}

/// # Safety
/// As for [`with`]; `ends` leads to room for two numbers.
pub(crate) unsafe extern "C" fn pipe(data: Data, ends: *mut c_int) -> c_int {
    with(data, |_| match ends.is_null() {
        true => Err(libc::EFAULT),
        // A pipe is the kernel's.
        false => {
            if libc::pipe(ends) == 0 {
                Ok(0)
            } else {
                Err(*libc::__errno_location())
            }
        }
    }) as c_int
}

/// # Safety
/// As for [`with`]; the offsets are null.
pub(crate) unsafe extern "C" fn splice(
    data: Data,
    from: c_int,
    from_at: *mut off64_t,
    to: c_int,
    to_at: *mut off64_t,
    len: size_t,
    flags: c_uint,
) -> ssize_t {
    with(data, |world| {
        if !from_at.is_null() || !to_at.is_null() {
            return Err(libc::ESPIPE);
        }
        let ours = |fd: c_int| world.enter().sockets.contains_key(&fd);
        let nonblocking = flags & libc::SPLICE_F_NONBLOCK != 0;
        let wait = if nonblocking { libc::MSG_DONTWAIT } else { 0 };
        match (ours(from), ours(to)) {
            // No more than a pipe holds, so that the write of it does not block.
            (true, false) => {
                let reply = receive(world, from, len.min(65_536), wait)?;
                let written = libc::write(to, reply.data.as_ptr().cast(), reply.data.len());
                usize::try_from(written).map_err(|_| *libc::__errno_location())
            }
            (false, true) => {
                let mut bytes = vec![0; len.min(65_536)];
                let count = libc::read(from, bytes.as_mut_ptr().cast(), bytes.len());
                bytes.truncate(usize::try_from(count).map_err(|_| *libc::__errno_location())?);
                transmit(world, to, bytes, wait)
            }
            _ => Err(libc::EINVAL),
        }
    })
}
