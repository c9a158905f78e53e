//! The turn that nearly all turns are: everything that waits is one segment, nothing is lost, and the way out is known. It is what
//! `emit_data` would do, without asking what has one answer here.

use clearway_base::Instant;
use clearway_pkt::Sink;
use clearway_wire::tcp::TcpOptions;
use clearway_wire::{Flags, Segment};

use super::plan::Again;
use super::{Turn, lone_segment, sent};
use crate::config::Config;
use crate::emit::{IpOut, OutError};
use crate::store::{Env, TxStore};
use crate::tcp::Pools;
use crate::tcp::conn::{Conn, Marks};

/// Sends the one segment that waits. None: the turn is not of that kind, and nothing has changed that the long way would not change too.
#[inline(always)]
pub(super) fn emit<E: Env, S: Sink>(
    now: Instant,
    c: &mut Conn<E>,
    p: &mut Pools<E>,
    config: &Config,
    out: &mut IpOut<'_, S>,
) -> Option<Result<Turn, OutError>> {
    const SPECIAL: Marks = Marks::SHUT.with(Marks::PROBE_DUE).with(Marks::SEND_URGENT);
    let flight = c.outstanding();
    if c.marks.any(SPECIAL) || !c.state.may_transmit() || p.tx.len(&c.tx) <= flight {
        return None;
    }
    let way = out.quick_way(&c.route, &c.key).filter(|way| !way.cuts)?;
    c.path_takes(way.mtu);
    if flight == 0 {
        super::restart_if_idle(now, c, config);
    }
    let span = lone_segment(c, p)?;
    debug_assert_eq!(super::next(&super::view(c, p, 0)), super::Plan::Send { span, fin: false, again: Again::New });
    let offer = c.offering(&p.rx, config).offer();
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
    let len = span.end.since(span.start);
    let (tx, queue) = (&mut p.tx, &mut c.tx);
    let fill = |room: &mut [u8]| tx.peek(queue, flight, room) == room.len();
    match out.send_segment(way, &c.key, (c.settings.tos, c.settings.ttl), &seg, len as usize, fill) {
        Ok(true) => {}
        // The store does not have what it promised: the long way says so and ends the connection.
        Ok(false) => return None,
        Err(why) => return Some(Err(why)),
    }
    c.ack_left(offer);
    out.counters.tcp.segs_out += 1;
    sent(now, c, config, span, u32::from(c.mss), false, Again::New);
    Some(Ok(Turn::Done))
}
