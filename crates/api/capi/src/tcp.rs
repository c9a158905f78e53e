//! Connections of a bare stack.

use clearway_proto::{ConnectSpec, ListenSpec, Table};

use crate::config::clw_options;
use crate::memory::{is_there, put, read, read_or};
use crate::stack::{clw_stack, enter};
use crate::status::clw_status;
use crate::types::clw_endpoint;
use crate::verbs;

/// The states of RFC 9293.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum clw_state {
    /// No connection.
    CLW_STATE_CLOSED = 0,
    /// Waiting for anybody.
    CLW_STATE_LISTEN = 1,
    /// Our SYN is out.
    CLW_STATE_SYN_SENT = 2,
    /// Both SYNs are out; ours is not acknowledged.
    CLW_STATE_SYN_RECEIVED = 3,
    /// Data flows both ways.
    CLW_STATE_ESTABLISHED = 4,
    /// Our FIN is out and not acknowledged.
    CLW_STATE_FIN_WAIT_1 = 5,
    /// Our FIN is acknowledged.
    CLW_STATE_FIN_WAIT_2 = 6,
    /// The peer has finished.
    CLW_STATE_CLOSE_WAIT = 7,
    /// Both FINs are out, ours first.
    CLW_STATE_CLOSING = 8,
    /// Both FINs are out, the peer's first.
    CLW_STATE_LAST_ACK = 9,
    /// Old segments must die first.
    CLW_STATE_TIME_WAIT = 10,
}

/// Inner values of a connection.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct clw_conn_info {
    /// Its state.
    pub state: clw_state,
    /// Why it failed; `CLW_OK` when it did not.
    pub failure: clw_status,
    /// Our side.
    pub local: clw_endpoint,
    /// The peer's side.
    pub remote: clw_endpoint,
    /// 1 when the peer has finished.
    pub peer_closed: u8,
    /// Bytes that wait to be read.
    pub unread: u32,
    /// Bytes written and not acknowledged.
    pub queued: u32,
    /// Bytes written and not sent.
    pub unsent: u32,
    /// Bytes that a send would take now.
    pub send_room: u32,
    /// Smoothed round-trip time in microseconds; 0 before the first sample.
    pub rtt_us: u64,
    /// Retransmission timeout in microseconds.
    pub rto_us: u64,
    /// Congestion window in bytes.
    pub cwnd: u32,
    /// Slow start threshold in bytes.
    pub ssthresh: u32,
    /// The peer's window in bytes.
    pub send_window: u32,
    /// Our window in bytes.
    pub receive_window: u32,
    /// Payload bytes of a full segment.
    pub segment_size: u32,
    /// Segments sent again.
    pub retransmitted: u32,
    /// Bytes that the peer has acknowledged.
    pub bytes_acked: u64,
    /// Bytes received in order.
    pub bytes_received: u64,
}

/// Listens at an address of ours, or at all of a family: `::` stands for IPv4 too. Port 0 asks for
/// any free one. `backlog` bounds handshakes in progress, and again finished ones that were not
/// accepted. `token` comes with its events; NULL `options` are the defaults.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_listen(
    stack: *mut clw_stack,
    local: *const clw_endpoint,
    backlog: u32,
    token: u64,
    options: *const clw_options,
    listener: *mut u64,
) -> clw_status {
    enter(stack, |inner| {
        is_there(listener)?;
        let options = clw_options::from_caller(options)?;
        let local = read(local)?.into();
        let spec = ListenSpec { table: Table(0), local, v6_only: false, backlog, token, options };
        put(listener, inner.stack.listen(spec)?.to_bits());
        Ok(())
    })
}

/// Where a listener listens: the port that was chosen, say.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_listener_local(
    stack: *mut clw_stack,
    listener: u64,
    local: *mut clw_endpoint,
) -> clw_status {
    enter(stack, |inner| {
        is_there(local)?;
        let found =
            inner.stack.listener_local(verbs::handle(listener)?).ok_or(clw_status::CLW_STALE)?;
        put(local, found.into());
        Ok(())
    })
}

/// Stops listening. Connections that were not accepted are reset.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_unlisten(stack: *mut clw_stack, listener: u64) -> clw_status {
    enter(stack, |inner| {
        let listener = verbs::handle(listener)?;
        inner.stack.listener_local(listener).ok_or(clw_status::CLW_STALE)?;
        inner.stack.unlisten(listener);
        Ok(())
    })
}

/// Takes the oldest finished handshake; `CLW_AGAIN` when there is none. `token` comes with its
/// events.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_accept(
    stack: *mut clw_stack,
    listener: u64,
    token: u64,
    conn: *mut u64,
) -> clw_status {
    enter(stack, |inner| {
        is_there(conn)?;
        let listener = verbs::handle(listener)?;
        inner.stack.listener_local(listener).ok_or(clw_status::CLW_STALE)?;
        let accepted = inner.stack.accept(listener).ok_or(clw_status::CLW_AGAIN)?;
        inner.stack.set_token(accepted, token);
        put(conn, accepted.to_bits());
        Ok(())
    })
}

/// Begins a connection; `CLW_CONN_CONNECTED` or `CLW_CONN_FAILED` tells how it went. NULL `local`,
/// an address of all zero and port 0 leave the choice to the stack. Bytes may be sent into it
/// before.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_connect(
    stack: *mut clw_stack,
    now_ns: u64,
    local: *const clw_endpoint,
    remote: *const clw_endpoint,
    token: u64,
    options: *const clw_options,
    conn: *mut u64,
) -> clw_status {
    enter(stack, |inner| {
        is_there(conn)?;
        let options = clw_options::from_caller(options)?;
        let (local, remote) = (read_or(local).map(Into::into), read(remote)?.into());
        let now = inner.at(now_ns);
        let spec = ConnectSpec { table: Table(0), local, remote, token, options };
        put(conn, inner.stack.connect(now, spec)?.to_bits());
        Ok(())
    })
}

/// Gives a connection another word that comes with its events.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_set_token(stack: *mut clw_stack, conn: u64, token: u64) -> clw_status {
    enter(stack, |inner| {
        let conn = verbs::conn(&inner.stack, conn)?;
        inner.stack.set_token(conn, token);
        Ok(())
    })
}

/// Changes a connection's options; they hold from the next segment on.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_set_options(
    stack: *mut clw_stack,
    conn: u64,
    options: *const clw_options,
) -> clw_status {
    enter(stack, |inner| {
        let conn = verbs::conn(&inner.stack, conn)?;
        is_there(options)?;
        inner.stack.set_options(conn, clw_options::from_caller(options)?);
        Ok(())
    })
}

/// Writes bytes to be sent; they are copied. `sent` tells how many were taken; fewer than all:
/// `CLW_CONN_WRITABLE` will tell when there is room again. `CLW_AGAIN`: none was.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_send(
    stack: *mut clw_stack,
    conn: u64,
    data: *const u8,
    len: usize,
    sent: *mut usize,
) -> clw_status {
    enter(stack, |inner| {
        verbs::send(&mut inner.stack, verbs::handle(conn)?, (data, len, false), sent)
    })
}

/// As `clw_send`, and more follows soon: what does not fill a segment waits for it, for 200 ms at
/// most (`MSG_MORE`).
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_send_more(
    stack: *mut clw_stack,
    conn: u64,
    data: *const u8,
    len: usize,
    sent: *mut usize,
) -> clw_status {
    enter(stack, |inner| {
        verbs::send(&mut inner.stack, verbs::handle(conn)?, (data, len, true), sent)
    })
}

/// Reads bytes into the caller's memory. `CLW_AGAIN`: nothing is there now. `CLW_END`: nothing will
/// come any more.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_recv(
    stack: *mut clw_stack,
    conn: u64,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> clw_status {
    enter(stack, |inner| verbs::recv(&mut inner.stack, verbs::handle(conn)?, out, capacity, len))
}

/// Shows the oldest unread bytes that lie together, in the packet that brought them: nothing is
/// copied. They stay until `clw_consumed`, and can be read until the stack is used again. Otherwise
/// as `clw_recv`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_peek(
    stack: *mut clw_stack,
    conn: u64,
    data: *mut *const u8,
    len: *mut usize,
) -> clw_status {
    enter(stack, |inner| verbs::peek(&inner.stack, verbs::handle(conn)?, data, len))
}

/// The program is done with the oldest `len` unread bytes; `CLW_RANGE` when there are not so many.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_consumed(stack: *mut clw_stack, conn: u64, len: usize) -> clw_status {
    enter(stack, |inner| {
        let conn = verbs::conn(&inner.stack, conn)?;
        verbs::consumed(&mut inner.stack, conn, len)
    })
}

/// Ends our side behind all bytes written so far; the peer may go on sending.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_shutdown(stack: *mut clw_stack, conn: u64) -> clw_status {
    enter(stack, |inner| verbs::shutdown(&mut inner.stack, verbs::handle(conn)?))
}

/// Lets go; the handle is dead. What was written still goes out, then our FIN. A peer that sends
/// more is answered with a reset.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_close(stack: *mut clw_stack, conn: u64) -> clw_status {
    enter(stack, |inner| {
        let conn = verbs::conn(&inner.stack, conn)?;
        inner.stack.close(conn);
        Ok(())
    })
}

/// Resets the connection; the handle is dead.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_abort(stack: *mut clw_stack, conn: u64) -> clw_status {
    enter(stack, |inner| {
        let conn = verbs::conn(&inner.stack, conn)?;
        inner.stack.abort(conn);
        Ok(())
    })
}

/// Why a connection failed; `CLW_OK` when it did not.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_failure(stack: *mut clw_stack, conn: u64) -> clw_status {
    enter(stack, |inner| {
        let conn = verbs::conn(&inner.stack, conn)?;
        inner.stack.failure(conn).map_or(Ok(()), |why| Err(why.into()))
    })
}

/// A connection's inner values.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_conn_info_get(
    stack: *mut clw_stack,
    conn: u64,
    info: *mut clw_conn_info,
) -> clw_status {
    enter(stack, |inner| {
        is_there(info)?;
        put(info, verbs::info(&inner.stack, verbs::handle(conn)?)?);
        Ok(())
    })
}
