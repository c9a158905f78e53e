//! The turn that nearly all turns are: everything that waits is one segment, nothing is lost, and the way out is known. It is what
//! `emit_data` would do, without asking what has one answer here.

use clearway_base::Instant;
use clearway_pkt::Sink;
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Flags, Segment};

use crate::config::Config;
use crate::emit::segment::{quick_way, send_segment};
use crate::emit::{IpOut, OutError};
use crate::store::{Env, RxStore, TxStore};
use crate::tcp::Pools;
use crate::tcp::conn::{Conn, Marks, Ms};
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
    let offer = offer(c, p, config);
    let seg = Segment {
        src_port: c.key.local_port,
        dst_port: c.key.remote_port,
        seq: span.start,
        ack: c.rcv.nxt,
        // RFC 9293 3.9.1.2: PSH where the written bytes end.
        flags: Flags::ACK.union(Flags::PSH),
        header_len: 0,
        wnd: offer.field,
        urg: 0,
        opts: TcpOptions { ts: c.marks.has(Marks::TS).then(|| (c.stamp(now), c.ts_recent)), ..TcpOptions::NONE },
    };
    let (tx, queue) = (&mut p.tx, &mut c.tx);
    let fill = |room: &mut [u8]| tx.peek(queue, flight, room) == room.len();
    match send_segment(*sink, counters, way, &c.key, (c.settings.tos, c.settings.ttl), &seg, len as usize, fill) {
        Ok(true) => {}
        // The store does not have what it promised: the long way says so and ends the connection.
        Ok(false) => return None,
        Err(why) => return Some(Err(why)),
    }
    c.ack_left(offer);
    c.data_segs_out = c.data_segs_out.wrapping_add(1);
    counters.tcp.segs_out += 1;
    sent(now, c, config, span, len);
    Some(Ok(()))
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
    let may_be_small = || !c.settings.cork() && (c.settings.nodelay() || !c.snd_ahead.small.gt(c.snd.una));
    (is_one && is_calm && may_be_small()).then_some(len)
}

/// `Conn::window`, without what only matters at the edges.
#[inline(always)]
fn offer<E: Env>(c: &Conn<E>, p: &Pools<E>, config: &Config) -> Offer {
    let (room, promised) = (p.rx.room(&c.rx).min(config.tcp.max_receive_window), c.rcv.wnd());
    let shift = u32::from(c.rcv.shift);
    let mss = u32::from(c.rcv_mss);
    let in_steps = promised >> shift << shift == promised;
    if in_steps && room >= promised && room - promised < mss && room >= 2 * mss && promised >> shift <= 0xffff {
        // Not worth telling yet: what was promised is said again.
        return Offer { field: (promised >> shift) as u16, edge: c.rcv.edge.max(c.rcv.nxt) };
    }
    c.offering(&p.rx, config).offer()
}

/// What `output::sent` notes of new data in one segment.
#[inline(always)]
fn sent<E: Env>(now: Instant, c: &mut Conn<E>, config: &Config, span: Span, len: u32) {
    c.times.sent = Ms::of(now);
    if !c.marks.has(Marks::TIMING) {
        c.marks.set(Marks::TIMING);
        c.timed_seq = span.end;
        c.times.timed = now;
        c.delivered_then = c.snd.una;
    }
    if len < u32::from(c.mss) {
        c.snd_ahead.small = span.end;
    }
    c.snd.nxt = span.end;
    c.cc.on_sent(c.snd.una, span.end);
    super::run_timer(now, c, config);
}
