//! The turn that nearly all turns are: everything that waits is one segment, nothing is lost, and the way out is known. It is what
//! `emit_data` would do, without asking what has one answer here.

use clearway_base::{Duration, Instant};
use clearway_pkt::Sink;
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Flags, Segment, Seq};

use crate::config::Config;
use crate::counters::Counters;
use crate::net::output::segment::{SegmentOut, Way, quick_way, send_segment};
use crate::net::output::{IpOut, OutError};
use crate::store::{Env, RxStore, TxStore};
use crate::tcp::Pools;
use crate::tcp::conn::{Conn, Marks, Ms, stamp};
use crate::tcp::rcv::Rcv;
use crate::tcp::span::Span;
use crate::tcp::state::State;
use crate::tcp::window::Offer;

/// Sends the one segment that waits. None: the turn is not of that kind, and nothing has changed that the long way would not change too.
#[inline(always)]
pub(super) fn emit<E: Env, S: Sink>(
    now: Instant,
    c: &mut Conn<E>,
    p: &mut Pools<E>,
    config: &Config,
    out: &mut IpOut<'_, S>,
) -> Option<Result<(), OutError>> {
    let flight = c.outstanding();
    let len = waiting(c, p, flight)?;
    if c.route.mtu() != u32::from(c.snd.fits_mtu) {
        return None;
    }
    let IpOut { ip, sink, counters, .. } = out;
    let way = quick_way(ip, now, &c.route)?;
    if flight == 0 {
        super::restart_if_idle(now, c, config);
    }
    if flight + len > c.snd.wnd.min(c.cc.cwnd()) {
        return None;
    }
    let span = Span::with_len(c.snd.nxt, len);
    debug_assert!(super::would_send(c, p, 0, span));
    // One copy of what follows for each kind of header, so that no question about it is asked twice.
    let done = match (c.key.local.is_v4(), c.marks.has(Marks::TS)) {
        (true, true) => leave(now, c, p, config, *sink, counters, way, span, (true, true)),
        (false, true) => leave(now, c, p, config, *sink, counters, way, span, (false, true)),
        (is_v4, false) => leave_bare(now, c, p, config, *sink, counters, way, span, is_v4),
    };
    match done {
        Ok(true) => Some(Ok(())),
        // The store does not have what it promised: the long way says so and ends the connection.
        Ok(false) => None,
        Err(why) => Some(Err(why)),
    }
}

/// Without timestamps.
#[cold]
#[inline(never)]
#[allow(clippy::too_many_arguments)]
fn leave_bare<E: Env, S: Sink>(
    now: Instant,
    c: &mut Conn<E>,
    p: &mut Pools<E>,
    config: &Config,
    sink: &mut S,
    counters: &mut Counters,
    way: Way<'_>,
    span: Span,
    is_v4: bool,
) -> Result<bool, OutError> {
    leave(now, c, p, config, sink, counters, way, span, (is_v4, false))
}

/// Sends the new bytes of `span`; false when the store does not have them.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
fn leave<E: Env, S: Sink>(
    now: Instant,
    c: &mut Conn<E>,
    p: &mut Pools<E>,
    config: &Config,
    sink: &mut S,
    counters: &mut Counters,
    way: Way<'_>,
    span: Span,
    (is_v4, is_stamped): (bool, bool),
) -> Result<bool, OutError> {
    let (tx, rx, queue) = (&mut p.tx, &p.rx, &mut c.tx);
    let at = span.start.since(c.snd.una);
    let (mut field, mut edge) = (0, Seq(0));
    let head = || {
        Offer { field, edge } = offer::<E>(&c.rcv, c.rcv_mss, rx, &c.rx, config);
        Segment {
            src_port: c.key.local_port,
            dst_port: c.key.remote_port,
            seq: span.start,
            ack: c.rcv.nxt,
            // RFC 9293 3.9.1.2: PSH where the written bytes end.
            flags: Flags::ACK.union(Flags::PSH),
            header_len: 0,
            wnd: field,
            urg: 0,
            opts: TcpOptions { ts: is_stamped.then(|| (stamp(now, c.ts_offset), c.ts_recent)), ..TcpOptions::NONE },
        }
    };
    let (tos, ttl, payload) = (&c.settings.tos, &c.settings.ttl, span.len() as usize);
    let out = SegmentOut { key: &c.key, is_v4, is_stamped, payload, tos, ttl };
    let fill = |room: &mut [u8]| tx.peek(queue, at, room) == room.len();
    if !send_segment(sink, counters, way, out, head, fill)? {
        return Ok(false);
    }
    counters.tcp.segs_out += 1;
    sent(now, c, config, span, Offer { field, edge });
    Ok(true)
}

/// How long the segment is that waits, when all that waits is one segment and nothing keeps it back but, perhaps, windows.
#[inline(always)]
fn waiting<E: Env>(c: &Conn<E>, p: &Pools<E>, flight: u32) -> Option<u32> {
    const SPECIAL: Marks = Marks::SHUT
        .with(Marks::RST_DUE)
        .with(Marks::SYN_DUE)
        .with(Marks::PROBE_DUE)
        .with(Marks::FORCE)
        .with(Marks::SEND_URGENT)
        .with(Marks::HOLE)
        .with(Marks::DUPLICATE)
        .with(Marks::RWND_LIMITED)
        .with(Marks::SNDBUF_LIMITED);
    let len = p.tx.len(&c.tx).wrapping_sub(flight);
    let is_one = len.wrapping_sub(1) < u32::from(c.mss) && c.state == State::Established;
    let is_calm = !c.marks.any(SPECIAL) && c.sack.is_none() && c.recovery.is_calm();
    (is_one && is_calm && super::may_be_small(c, p)).then_some(len)
}

/// `Conn::window`, without what only matters at the edges.
#[inline(always)]
fn offer<E: Env>(
    rcv: &Rcv,
    rcv_mss: u16,
    rx: &E::Rx,
    queue: &<E::Rx as RxStore<E::Buf>>::Queue,
    config: &Config,
) -> Offer {
    let (room, promised) = (rx.room(queue).min(config.tcp.max_receive_window), rcv.wnd());
    let field = promised >> rcv.shift;
    let mss = u32::from(rcv_mss);
    let in_steps = field << rcv.shift == promised;
    if in_steps && room >= promised && room - promised < mss && room >= 2 * mss && field <= 0xffff {
        // Not worth telling yet: what was promised is said again.
        return Offer { field: field as u16, edge: rcv.edge.max(rcv.nxt) };
    }
    fresh_offer::<E>(rcv, rcv_mss, rx, queue, config)
}

#[cold]
#[inline(never)]
fn fresh_offer<E: Env>(
    rcv: &Rcv,
    rcv_mss: u16,
    rx: &E::Rx,
    queue: &<E::Rx as RxStore<E::Buf>>::Queue,
    config: &Config,
) -> Offer {
    super::offering::<E>(rcv, rcv_mss, rx, queue, config).offer()
}

/// What `ack_left` and `output::sent` note of new data in one segment that carries our ACK.
#[inline(always)]
fn sent<E: Env>(now: Instant, c: &mut Conn<E>, config: &Config, span: Span, offer: Offer) {
    c.rcv.acked = c.rcv.nxt;
    c.rcv.edge = offer.edge;
    c.rcv.field = offer.field;
    c.delack = Instant::NEVER;
    c.segs_out = c.segs_out.wrapping_add(1);
    c.times.sent = Ms::of(now);
    let before = c.marks;
    let mut marks = before;
    marks.clear(Marks::EMIT.with(Marks::ACK_NOW).with(Marks::PERSIST));
    marks.set(Marks::TIMING.with(Marks::STUCK));
    if !before.has(Marks::TIMING) {
        c.timed_seq = span.end;
        c.times.timed = now;
        c.delivered_then = c.snd.una;
    }
    if span.len() < u32::from(c.mss) {
        c.snd_ahead.small = span.end;
    }
    c.snd.nxt = span.end;
    c.cc.on_sent(c.snd.una, span.end);
    // RFC 6298 5.1: the timer runs while something is in flight.
    if before.has(Marks::PERSIST) || !c.times.rto.is_set() {
        c.times.rto = now + c.rtt.rto(&config.tcp);
        if !c.is_watched_before(c.times.rto) {
            marks.set(Marks::REARM);
        }
    }
    if !before.has(Marks::STUCK) {
        c.times.stuck_since = Ms::of(now);
        if c.settings.user_timeout() != Duration::ZERO {
            marks.set(Marks::REARM);
        }
    }
    c.data_segs_out = c.data_segs_out.wrapping_add(1);
    c.marks = marks;
}
