//! The handshake that we began: SYN-SENT (RFC 9293 3.10.7.3), and what holds once our SYN is
//! acknowledged.

use super::clock::Ms;
use super::marks::Marks;
use clearway_wire::{Flags, Segment, Seq};

use super::conn::Conn;
use super::context::{Arrival, ConnCx};
use super::established::established;
use super::options::{self, Offered};
use super::rare_stats::EarlySyn;
use super::state::Cause;
use super::{ack, open, payload};
use crate::counters::Drop;
use crate::error::Failure;
use crate::event::ConnEvents;
use crate::store::Env;
use crate::trace::Trace;

/// A segment in SYN-SENT.
pub(crate) fn on_segment<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    arrival: &mut Arrival<'_, E::Buf>,
) -> Result<(), Drop> {
    let (seg, len) = (arrival.seg, arrival.len());
    c.segs_in = c.segs_in.wrapping_add(1);
    if len > 0 {
        payload::count(cx.now, c, arrival.meta.segment_size, len);
    }
    // First: the ACK.
    let acks_syn = seg.flags.ack() && seg.ack.gt(c.iss) && seg.ack.le(c.snd.nxt);
    if seg.flags.ack() && !acks_syn {
        cx.stack.reset_for(&c.key, seg, len);
        return Err(Drop::TcpBadAck);
    }
    // Second: the reset. One that acknowledges nothing may come from anybody.
    if seg.flags.rst() {
        if acks_syn {
            cx.counters.tcp.attempt_fails += 1;
            c.go(Cause::Reset);
            c.fail(Failure::Refused);
            return Err(Drop::TcpReset);
        }
        return Err(Drop::TcpResetOutOfWindow);
    }
    // Fourth: the SYN.
    if !seg.flags.syn() {
        return Err(Drop::TcpBadFlags);
    }
    take_syn(c, cx, seg);
    if acks_syn {
        // The window of a SYN-ACK is never scaled (RFC 7323 2.2).
        c.set_window(u32::from(seg.wnd), seg.seq, seg.ack);
        if !c.rare.is_none() {
            c.hears_syn_ack(cx.pools, &mut cx.stack.counters.tcp, (seg, arrival.mark));
        }
        established(c, cx);
        if c.suffered(cx.pools).fast_open.is_special() {
            fast_open_answered(c, cx, seg);
        }
        if c.rtt.syn_repeated {
            // Which of the SYNs was answered, only the echo can tell (RFC 7323 4.1).
            if let Some(sample) = ack::echo_age(cx.now, c, seg.opts.ts.map(|(_, echo)| echo)) {
                c.rtt.on_sample(sample, 1, c.mss);
            }
        }
        c.go(Cause::SynAck);
        c.tell(ConnEvents::CONNECTED);
        c.ack_now();
        // Data and FIN that came with the SYN-ACK are taken like any others; they stand one behind
        // it.
        let after = Segment { seq: seg.seq + 1, flags: seg.flags.without(Flags::SYN), ..*seg };
        return open::step_7_and_8(c, cx, &after, arrival);
    }
    // Both ends began at once (RFC 9293 3.5, figure 8), or the peer splits its SYN-ACK in two: our
    // answer is SYN and ACK. What else is in the segment is not taken; its sender repeats it once
    // it is established. Such handshakes do without ECN.
    c.gives_ecn_up(cx.pools);
    c.go(Cause::Syn);
    c.set_window(u32::from(seg.wnd), seg.seq, Seq(0));
    c.marks.set(Marks::SYN_DUE.with(Marks::EMIT));
    c.recovery.tries = 0;
    Ok(())
}

/// The answer to a SYN that had the Fast Open option, or to one without it that was sent when no
/// answer came (RFC 7413 4.2.1).
#[cold]
fn fast_open_answered<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, seg: &Segment) {
    let (taken, sent) = (seg.ack.since(c.snd.una), c.outstanding());
    if c.rtt.syn_repeated && taken == 0 {
        cx.pools.fast_open.lost(cx.stack.now, &c.key);
        cx.counters.tcp.fast_open_lost += 1;
        E::trace(Trace::FastOpen { ends: c.key.traced(), what: "lost" });
    } else {
        cx.pools.fast_open.answered(cx.stack.now, &c.key, seg.opts.fast_open, c.peer_mss);
    }
    if sent == 0 {
        return;
    }
    if taken > 0 {
        cx.counters.tcp.fast_open_active += 1;
        E::trace(Trace::FastOpen { ends: c.key.traced(), what: "taken" });
        c.note_rare(cx.pools, |t| t.fast_open = EarlySyn::Taken);
        ack::take_acked(c, cx, taken, seg.ack);
    } else {
        cx.counters.tcp.fast_open_not_taken += 1;
        E::trace(Trace::FastOpen { ends: c.key.traced(), what: "not-taken" });
    }
    // What was not taken leaves again at once, as if it had never left (RFC 7413 4.2.1).
    c.snd.nxt = c.snd.una;
    c.snd_ahead.small = c.snd.una;
    if c.has_unsent(&cx.pools.tx) {
        c.wants_turn();
    }
}

/// The peer's SYN: its number, and what both ends now agree on.
fn take_syn<E: Env>(c: &mut Conn<E>, cx: &ConnCx<'_, '_, E>, seg: &Segment) {
    c.irs = seg.seq;
    c.rcv.nxt = seg.seq + 1;
    c.rcv.acked = c.rcv.nxt;
    c.rcv.wraps = 0;
    // While the SYN was out, the edge held the length of the window that it offered: there was
    // nothing to count it from.
    c.rcv.edge = c.rcv.nxt + c.rcv.edge.0;
    c.heard = Ms::of(cx.now);
    let link_mss = c.our_mss;
    let agreed = options::agree(
        &cx.config.tcp,
        &Offered::from(&seg.opts),
        c.key.remote.is_v6(),
        link_mss,
        c.suffered(cx.pools).seldom.max_segment,
    );
    c.apply(&agreed, seg.opts.ts.map_or(0, |(val, _)| val), cx.now);
}
