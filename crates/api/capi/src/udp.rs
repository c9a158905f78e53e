//! UDP sockets of a bare stack.

use clearway_proto::{Table, UdpSpec};

use crate::memory::{is_there, items, put, read, read_or};
use crate::stack::{clw_stack, enter};
use crate::status::clw_status;
use crate::types::clw_endpoint;
use crate::verbs;

/// Makes a socket at an address of ours, or at all of a family: `::` takes IPv4 too. Port 0 asks
/// for any free one. `token` comes with its events.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_udp_bind(
    stack: *mut clw_stack,
    local: *const clw_endpoint,
    token: u64,
    socket: *mut u64,
) -> clw_status {
    enter(stack, |inner| {
        is_there(socket)?;
        let local = read(local)?.into();
        let bound =
            inner.stack.udp_bind(UdpSpec { table: Table(0), local, token, v6_only: false })?;
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
pub unsafe extern "C" fn clw_udp_connect(
    stack: *mut clw_stack,
    socket: u64,
    remote: *const clw_endpoint,
) -> clw_status {
    enter(stack, |inner| {
        Ok(inner.stack.udp_connect(verbs::handle(socket)?, read(remote)?.into())?)
    })
}

/// Our side of a socket.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_udp_local(
    stack: *mut clw_stack,
    socket: u64,
    local: *mut clw_endpoint,
) -> clw_status {
    enter(stack, |inner| {
        is_there(local)?;
        let found = inner.stack.udp_local(verbs::handle(socket)?).ok_or(clw_status::CLW_STALE)?;
        put(local, found.into());
        Ok(())
    })
}

/// Queues a datagram, which the next `clw_emit` sends. NULL `to`: the connected peer. `CLW_AGAIN`:
/// the queue is full; `CLW_UDP_WRITABLE` will tell.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_udp_send(
    stack: *mut clw_stack,
    socket: u64,
    to: *const clw_endpoint,
    data: *const u8,
    len: usize,
) -> clw_status {
    enter(stack, |inner| {
        let to = read_or(to).map(Into::into);
        Ok(inner.stack.udp_send(verbs::handle(socket)?, to, None, items(data, len)?)?)
    })
}

/// Takes the oldest datagram; `CLW_AGAIN` when there is none. `len` tells its true length: when
/// that is more than `capacity`, the rest is lost, and the answer is `CLW_TOO_LONG`. NULL `from`
/// will do.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_udp_recv(
    stack: *mut clw_stack,
    socket: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
    from: *mut clw_endpoint,
) -> clw_status {
    enter(stack, |inner| {
        verbs::udp_recv(&mut inner.stack, verbs::handle(socket)?, (out, capacity), len, from)
    })
}

/// Takes the last ICMP error that came back to a connected socket: `CLW_UNREACHABLE`, or `CLW_OK`
/// when there is none.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_udp_error(stack: *mut clw_stack, socket: u64) -> clw_status {
    enter(stack, |inner| {
        let socket = verbs::handle(socket)?;
        inner.stack.udp_local(socket).ok_or(clw_status::CLW_STALE)?;
        inner.stack.udp_error(socket).map_or(Ok(()), |_| Err(clw_status::CLW_UNREACHABLE))
    })
}

/// Closes a socket. Datagrams that wait are dropped, both ways.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_udp_close(stack: *mut clw_stack, socket: u64) -> clw_status {
    enter(stack, |inner| {
        let socket = verbs::handle(socket)?;
        inner.stack.udp_local(socket).ok_or(clw_status::CLW_STALE)?;
        inner.stack.udp_close(socket);
        Ok(())
    })
}
