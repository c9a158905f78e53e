//! The verbs of connections that both layers have, over any stack.

use clearway_base::Handle;
use clearway_proto::{ConnId, Env, Stack, State, UdpId};

use crate::memory::{is_there, items, items_mut, put};
use crate::status::clw_status;
use crate::tcp::{clw_conn_info, clw_state};
use crate::types::clw_endpoint;

/// A handle out of its number. A number that nobody was given finds nothing, or something else of
/// the same kind.
pub(crate) fn handle<T>(bits: u64) -> Result<Handle<T>, clw_status> {
    Handle::from_bits(bits).ok_or(clw_status::CLW_STALE)
}

/// A handle of a connection that exists and is the caller's.
pub(crate) fn conn<E: Env>(stack: &Stack<E>, bits: u64) -> Result<ConnId, clw_status> {
    let conn = handle(bits)?;
    if stack.options(conn).is_some() { Ok(conn) } else { Err(clw_status::CLW_STALE) }
}

/// # Safety
/// `data` leads to `len` bytes, `sent` to room for a number. `more`: more follows at once.
pub(crate) unsafe fn send<E: Env>(
    stack: &mut Stack<E>,
    conn: ConnId,
    (data, len, more): (*const u8, usize, bool),
    sent: *mut usize,
) -> Result<(), clw_status> {
    is_there(sent)?;
    put(sent, 0);
    let bytes = items(data, len)?;
    let taken = if more { stack.send_more(conn, bytes)? } else { stack.send(conn, bytes)? };
    put(sent, taken);
    if taken == 0 && len > 0 { Err(clw_status::CLW_AGAIN) } else { Ok(()) }
}

/// # Safety
/// `out` leads to room for `capacity` bytes, `len` to room for a number.
pub(crate) unsafe fn recv<E: Env>(
    stack: &mut Stack<E>,
    conn: ConnId,
    out: *mut u8,
    capacity: usize,
    len: *mut usize,
) -> Result<(), clw_status> {
    is_there(len)?;
    put(len, 0);
    let out = items_mut(out, capacity)?;
    let mut filled = 0;
    while filled < out.len() {
        let bytes = match stack.recv(conn) {
            Ok([]) => break,
            Ok(bytes) => bytes,
            Err(_) if filled > 0 => break,
            Err(why) => return Err(why.into()),
        };
        let count = bytes.len().min(out.len() - filled);
        out[filled..filled + count].copy_from_slice(&bytes[..count]);
        filled += count;
        // What lies together is shorter than 4 GiB.
        stack.consumed(conn, count as u32);
    }
    put(len, filled);
    if filled > 0 || capacity == 0 { Ok(()) } else { Err(nothing(stack, conn)) }
}

/// # Safety
/// `data` and `len` lead to room for a pointer and a number.
pub(crate) unsafe fn peek<E: Env>(
    stack: &Stack<E>,
    conn: ConnId,
    data: *mut *const u8,
    len: *mut usize,
) -> Result<(), clw_status> {
    is_there(data)?;
    is_there(len)?;
    put(data, core::ptr::null());
    put(len, 0);
    let bytes = stack.recv(conn)?;
    if bytes.is_empty() {
        return Err(nothing(stack, conn));
    }
    put(data, bytes.as_ptr());
    put(len, bytes.len());
    Ok(())
}

/// Why there is nothing to read.
fn nothing<E: Env>(stack: &Stack<E>, conn: ConnId) -> clw_status {
    if stack.peer_closed(conn) { clw_status::CLW_END } else { clw_status::CLW_AGAIN }
}

pub(crate) fn consumed<E: Env>(
    stack: &mut Stack<E>,
    conn: ConnId,
    len: usize,
) -> Result<(), clw_status> {
    let unread = stack.unread(conn);
    match u32::try_from(len) {
        Ok(len) if len <= unread => {
            stack.consumed(conn, len);
            Ok(())
        }
        _ => Err(clw_status::CLW_RANGE),
    }
}

pub(crate) fn shutdown<E: Env>(stack: &mut Stack<E>, conn: ConnId) -> Result<(), clw_status> {
    Ok(stack.shutdown(conn)?)
}

/// # Safety
/// `out` leads to room for so many bytes, `len` to room for a number, `from` is null or leads to
/// room for an endpoint.
pub(crate) unsafe fn udp_recv<E: Env>(
    stack: &mut Stack<E>,
    socket: UdpId,
    (out, capacity): (*mut u8, usize),
    len: *mut usize,
    from: *mut clw_endpoint,
) -> Result<(), clw_status> {
    is_there(len)?;
    put(len, 0);
    let out = items_mut(out, capacity)?;
    stack.udp_local(socket).ok_or(clw_status::CLW_STALE)?;
    let datagram = stack.udp_recv(socket).ok_or(clw_status::CLW_AGAIN)?;
    let count = datagram.payload.len().min(out.len());
    out[..count].copy_from_slice(&datagram.payload[..count]);
    put(len, datagram.payload.len());
    put(from, datagram.from.into());
    if count < datagram.payload.len() { Err(clw_status::CLW_TOO_LONG) } else { Ok(()) }
}

pub(crate) fn info<E: Env>(stack: &Stack<E>, conn: ConnId) -> Result<clw_conn_info, clw_status> {
    let stale = clw_status::CLW_STALE;
    let info = stack.info(conn).ok_or(stale)?;
    Ok(clw_conn_info {
        state: clw_state::from(info.state),
        failure: stack.failure(conn).map_or(clw_status::CLW_OK, clw_status::from),
        local: stack.local(conn).ok_or(stale)?.into(),
        remote: stack.remote(conn).ok_or(stale)?.into(),
        peer_closed: stack.peer_closed(conn).into(),
        unread: info.unread,
        queued: stack.queued(conn),
        unsent: info.unsent,
        send_room: stack.send_room(conn),
        rtt_us: info.rtt.as_micros(),
        rto_us: info.rto.as_micros(),
        cwnd: info.cwnd,
        ssthresh: info.ssthresh,
        send_window: info.snd_wnd,
        receive_window: info.rcv_wnd,
        segment_size: info.snd_mss.into(),
        retransmitted: info.total_retransmits,
        bytes_acked: info.bytes_acked,
        bytes_received: info.bytes_received,
    })
}

impl From<State> for clw_state {
    fn from(state: State) -> clw_state {
        match state {
            State::Closed => clw_state::CLW_STATE_CLOSED,
            State::Listen => clw_state::CLW_STATE_LISTEN,
            State::SynSent => clw_state::CLW_STATE_SYN_SENT,
            State::SynReceived => clw_state::CLW_STATE_SYN_RECEIVED,
            State::Established => clw_state::CLW_STATE_ESTABLISHED,
            State::FinWait1 => clw_state::CLW_STATE_FIN_WAIT_1,
            State::FinWait2 => clw_state::CLW_STATE_FIN_WAIT_2,
            State::CloseWait => clw_state::CLW_STATE_CLOSE_WAIT,
            State::Closing => clw_state::CLW_STATE_CLOSING,
            State::LastAck => clw_state::CLW_STATE_LAST_ACK,
            State::TimeWait => clw_state::CLW_STATE_TIME_WAIT,
        }
    }
}
