//! UDP sockets of a bare stack.

use clearway_proto::{Table, UdpSpec};

use crate::memory::{is_there, items, put, read, read_or};
use crate::stack::{cw_stack, enter};
use crate::status::cw_status;
use crate::types::cw_endpoint;
use crate::verbs;

/// Makes a socket at an address of ours, or at all of a family: `::` takes IPv4 too. Port 0 asks for any free one. `token` comes with its events.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_udp_bind(
    stack: *mut cw_stack,
    local: *const cw_endpoint,
    token: u64,
    socket: *mut u64,
) -> cw_status {
    enter(stack, |inner| {
        is_there(socket)?;
        let local = read(local)?.into();
        let bound = inner.stack.udp_bind(UdpSpec { table: Table(0), local, token, v6_only: false })?;
        put(socket, bound.to_bits());
        Ok(())
    })
}

/// Gives a socket one peer: it sends there, and hears nobody else.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_udp_connect(stack: *mut cw_stack, socket: u64, remote: *const cw_endpoint) -> cw_status {
    enter(stack, |inner| Ok(inner.stack.udp_connect(verbs::handle(socket)?, read(remote)?.into())?))
}

/// Our side of a socket.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_udp_local(stack: *mut cw_stack, socket: u64, local: *mut cw_endpoint) -> cw_status {
    enter(stack, |inner| {
        is_there(local)?;
        let found = inner.stack.udp_local(verbs::handle(socket)?).ok_or(cw_status::CW_STALE)?;
        put(local, found.into());
        Ok(())
    })
}

/// Queues a datagram, which the next `cw_emit` sends. NULL `to`: the connected peer. `CW_AGAIN`: the queue is full; `CW_UDP_WRITABLE` will tell.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_udp_send(
    stack: *mut cw_stack,
    socket: u64,
    to: *const cw_endpoint,
    data: *const u8,
    len: usize,
) -> cw_status {
    enter(stack, |inner| {
        let to = read_or(to).map(Into::into);
        Ok(inner.stack.udp_send(verbs::handle(socket)?, to, None, items(data, len)?)?)
    })
}

/// Takes the oldest datagram; `CW_AGAIN` when there is none. `len` tells its true length: when that is more than `capacity`, the rest is lost, and the answer is
/// `CW_TOO_LONG`. NULL `from` will do.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_udp_recv(
    stack: *mut cw_stack,
    socket: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
    from: *mut cw_endpoint,
) -> cw_status {
    enter(stack, |inner| verbs::udp_recv(&mut inner.stack, verbs::handle(socket)?, (out, capacity), len, from))
}

/// Takes the last ICMP error that came back to a connected socket: `CW_UNREACHABLE`, or `CW_OK` when there is none.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_udp_error(stack: *mut cw_stack, socket: u64) -> cw_status {
    enter(stack, |inner| {
        let socket = verbs::handle(socket)?;
        inner.stack.udp_local(socket).ok_or(cw_status::CW_STALE)?;
        inner.stack.udp_error(socket).map_or(Ok(()), |_| Err(cw_status::CW_UNREACHABLE))
    })
}

/// Closes a socket. Datagrams that wait are dropped, both ways.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cw_udp_close(stack: *mut cw_stack, socket: u64) -> cw_status {
    enter(stack, |inner| {
        let socket = verbs::handle(socket)?;
        inner.stack.udp_local(socket).ok_or(cw_status::CW_STALE)?;
        inner.stack.udp_close(socket);
        Ok(())
    })
}
