//! The turn that nearly all turns are: everything that waits is one segment, nothing is lost, and
//! the way out is known. The rules are those of `output.rs`; what is told apart here is only who
//! makes the packet.

use crate::tcp::clock::stamp;
use crate::tcp::marks::Marks;
use clearway_base::Instant;
use clearway_pkt::Sink;
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Flags, Segment, Seq};

use super::plan::Again;
use super::{
    EmitCx, Left, PLANNED, fits_windows, header, left, lone_segment, offer, restart_if_idle,
    would_send,
};
use crate::config::Config;
use crate::counters::Counters;
use crate::net::output::OutError;
use crate::net::output::segment::{CachedPath, SegmentOut, cached_path, send_segment};
use crate::store::{Env, TxStore};
use crate::tcp::conn::Conn;
use crate::tcp::context::Pools;
use crate::tcp::span::Span;
use crate::tcp::state::State;
use crate::tcp::window::Offer;
use crate::trace::{Trace, TracedSegment};

/// What leaves another way.
const SPECIAL: Marks = PLANNED.with(Marks::RST_DUE).with(Marks::PROBE_DUE).with(Marks::SEND_URGENT);

/// Sends the one segment that waits. None: the turn is not of that kind, and nothing has changed
/// that `emit_any` would not change too.
#[inline(always)]
pub(crate) fn emit<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Option<Result<(), OutError>> {
    let flight = c.outstanding();
    let len = lone_segment(c, cx.pools, flight, SPECIAL)?;
    if c.state != State::Established || c.route.mtu() != u32::from(c.snd.fits_mtu) {
        return None;
    }
    match flight == 0 && c.marks.has(Marks::TS) {
        true => emit_lone::<E, S, true, false>(c, cx, (0, len)),
        false => emit_other_lone(c, &mut cx.again(), (flight, len)),
    }
}

/// Behind others that are in flight, or without timestamps.
#[inline(never)]
fn emit_other_lone<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    lengths: (u32, u32),
) -> Option<Result<(), OutError>> {
    match c.marks.has(Marks::TS) {
        true => emit_lone::<E, S, true, true>(c, cx, lengths),
        false => emit_lone::<E, S, false, true>(c, cx, lengths),
    }
}

/// Sends the next `len` bytes behind those in `flight`, if the way out is known and the windows
/// take them. `BEHIND`: there may be some.
#[inline(always)]
fn emit_lone<E: Env, S: Sink, const STAMPED: bool, const BEHIND: bool>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    (flight, len): (u32, u32),
) -> Option<Result<(), OutError>> {
    let now = cx.now;
    let path = cached_path(cx.out.ip, now, &c.route)?;
    if !BEHIND || flight == 0 {
        restart_if_idle(now, c, cx.pools, cx.config);
    }
    if !fits_windows(c, flight + len) {
        return None;
    }
    let span = Span::with_len(c.snd.nxt, len);
    debug_assert!(would_send(c, cx.pools, 0, span));
    let leaving = Leaving {
        now,
        pools: cx.pools,
        config: cx.config,
        sink: cx.out.sink,
        counters: cx.out.counters,
        path,
        span,
    };
    // One copy of what follows for each kind of header, so that no question about it is asked
    // twice.
    let done = match c.key.local.is_v4() {
        true => leave::<E, S, true, STAMPED, BEHIND>(c, leaving),
        false => leave::<E, S, false, STAMPED, BEHIND>(c, leaving),
    };
    match done {
        Ok(true) => Some(Ok(())),
        // The store does not have what it promised: `emit_any` says so and ends the connection.
        Ok(false) => None,
        Err(why) => Some(Err(why)),
    }
}

/// A segment that is about to leave.
struct Leaving<'a, E: Env, S: Sink> {
    now: Instant,
    pools: &'a mut Pools<E>,
    config: &'a Config,
    sink: &'a mut S,
    counters: &'a mut Counters,
    path: CachedPath<'a>,
    /// New bytes.
    span: Span,
}

/// Sends a segment; false when the store does not have its bytes.
#[inline(always)]
fn leave<E: Env, S: Sink, const V4: bool, const STAMPED: bool, const BEHIND: bool>(
    c: &mut Conn<E>,
    leaving: Leaving<'_, E, S>,
) -> Result<bool, OutError> {
    let Leaving { now, pools, config, sink, counters, path, span } = leaving;
    let (tx, rx, queue) = (&mut pools.tx, &pools.rx, &mut c.tx);
    let most = pools.sizes.window(c.rcv.step);
    let (at, len) = (span.start.since(c.snd.una), span.len());
    let mut offered = Offer { field: 0, edge: Seq(0) };
    let head = || {
        offered = offer::<E>((&c.rcv, c.rcv_mss), rx, &c.rx, most);
        let ts = STAMPED.then(|| (stamp(now, c.ts_offset), c.ts_recent));
        Segment {
            // RFC 9293 3.9.1.2: PSH where the written bytes end.
            flags: Flags::ACK.union(Flags::PSH),
            opts: TcpOptions { ts, ..TcpOptions::NONE },
            ..header(&c.key, span.start, c.rcv.nxt, offered.field)
        }
    };
    let (tos, ttl) = (&c.settings.tos, &c.settings.ttl);
    let out =
        SegmentOut { key: &c.key, is_v4: V4, is_stamped: STAMPED, payload: len as usize, tos, ttl };
    let fill = |room: &mut [u8]| tx.peek(queue, at, room) == room.len();
    if !send_segment(sink, counters, path, out, head, fill)? {
        return Ok(false);
    }
    counters.tcp.segs_out += 1;
    E::trace(Trace::SegmentOut(TracedSegment {
        ends: c.key.traced(),
        seq: span.start.0,
        ack: c.rcv.nxt.0,
        len,
        flags: Flags::ACK.union(Flags::PSH).0,
    }));
    if BEHIND && at > 0 {
        c.note_sent(pools, now, span);
    }
    let is_small = len < u32::from(c.mss);
    left(
        c,
        now,
        config,
        Left {
            span,
            fin: false,
            again: Again::New,
            offer: offered,
            segments: 1,
            is_small,
            is_burst: false,
        },
    );
    Ok(true)
}
