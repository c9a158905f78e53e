//! What leaves. [`plan::next`] is pure and says what, or why nothing; `emit_conn` asks it again and
//! again, has room reserved *before* any state changes, and lets the bytes be copied straight from
//! the send queue into the packet.

pub(super) mod fast_path;
mod plan;

use super::clock::{Ms, Recent};
use super::marks::Marks;
use super::mtu_search::Probe;
use clearway_base::{Duration, Instant};
use clearway_pkt::{MAX_PIECES, Piece, Sink};
use clearway_wire::tcp::{
    AccEcn, FastOpenCookie, MAX_HEADER_LEN, MAX_OPTIONS_LEN, TcpOptions, emit as emit_header,
};
use clearway_wire::{Flags, Proto, SackBlocks, Segment, Seq};

use super::cc::Event;
use super::conn::Conn;
use super::context::Pools;
use super::deadlines::Timer;
use super::ecn::Leaving;
use super::options;
use super::rare_stats::RareStats;
use super::rcv::{PUSHED, Rcv};
use super::reasm::{BLOCKS, Earlier, Reasm};
use super::recovery::Next;
use super::snd::{FitsTwice, half_of};
use super::span::Span;
use super::state::{Cause, State};
use super::window::{self, Offer, Room as Offering};
use crate::config::Config;
use crate::flow::FlowKey;
use crate::limits;
use crate::net::output::{IpOut, OutError, Transport};
use crate::store::{Env, RxStore, TxStore};
use crate::trace::Trace;
use plan::{Again, Plan, View, Why, next};

/// What became of a connection's turn.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Turn {
    /// All that may leave has left.
    Done,
    /// There is more, and its time has not come.
    Paced,
    /// The quantum is used up; there is more.
    More,
    /// The interface takes no more just now.
    Full,
}

/// What sending needs beside the record of the connection.
pub(crate) struct EmitCx<'a, 'o, E: Env, S: Sink> {
    pub now: Instant,
    pub pools: &'a mut Pools<E>,
    pub config: &'a Config,
    pub out: &'a mut IpOut<'o, S>,
}

impl<'o, E: Env, S: Sink> EmitCx<'_, 'o, E, S> {
    /// The same once more. What is seldom needed is handed this, so that the original need not lie
    /// in memory.
    #[inline(always)]
    pub(super) fn again(&mut self) -> EmitCx<'_, 'o, E, S> {
        EmitCx { now: self.now, pools: self.pools, config: self.config, out: self.out }
    }
}

/// Any turn that is not one segment on the fast path.
#[cold]
#[inline(never)]
pub(super) fn emit_any<E: Env, S: Sink>(c: &mut Conn<E>, cx: &mut EmitCx<'_, '_, E, S>) -> Turn {
    c.marks.clear(Marks::EMIT);
    let result = if c.marks.has(Marks::RST_DUE) {
        emit_last(c, cx)
    } else if c.marks.has(Marks::SYN_DUE) && matches!(c.state, State::SynSent | State::SynReceived)
    {
        if syn_waits_for_data(c, cx.pools) {
            // Whoever writes asks for a turn.
            return Turn::Done;
        }
        // A connection that a Fast Open cookie has opened may answer at once.
        emit_syn(c, cx).map(|()| {
            if c.is_early() && c.has_unsent(&cx.pools.tx) { Turn::More } else { Turn::Done }
        })
    } else {
        emit_data(c, cx)
    };
    c.rearm_delack(cx.now);
    end_turn(c, cx, result)
}

/// What became of a turn, and what has to be done about it when nothing could leave.
pub(super) fn end_turn<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    result: Result<Turn, OutError>,
) -> Turn {
    match result {
        Ok(turn) => turn,
        Err(OutError::Full) => Turn::Full,
        Err(OutError::TooBig { mtu }) => {
            let before = c.mss;
            c.path_takes(mtu);
            if c.mss < before {
                return Turn::More;
            }
            no_path(c, cx);
            Turn::Done
        }
        // There is no way out just now. The retransmission timer looks again; what was planned
        // counts as sent and lost.
        Err(OutError::NoRoute | OutError::Down) => {
            no_path(c, cx);
            Turn::Done
        }
    }
}

/// Nothing can leave: what waits is looked at again when the retransmission timer fires.
fn no_path<E: Env, S: Sink>(c: &mut Conn<E>, cx: &mut EmitCx<'_, '_, E, S>) {
    c.marks.clear(Marks::ACK_NOW.with(Marks::PROBE_DUE).with(Marks::FORCE).with(Marks::SYN_DUE));
    if c.marks.has(Marks::RST_DUE) {
        c.marks.clear(Marks::RST_DUE);
        c.marks.set(Marks::GONE);
        return;
    }
    let waits = c.outstanding() > 0 || !c.state.is_synchronized() || c.has_unsent(&cx.pools.tx);
    if waits && !c.times.send.is_set() {
        let persists = c.outstanding() == 0 && c.state.is_synchronized();
        let timer = if persists { Timer::Persist } else { Timer::Retransmit };
        if persists {
            // Nothing that is in flight is tried again and counted: this is, or it would have no end.
            c.recovery.tries = c.recovery.tries.saturating_add(1);
            c.rtt.on_timeout();
        }
        c.arm(timer, cx.now + c.rtt.rto(&cx.config.tcp));
        c.stuck(cx.now);
    }
}

/// Data, then whatever ACK, probe or window update is still due.
fn emit_data<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<Turn, OutError> {
    if c.marks.has(Marks::ACK_NOW) && c.marks.any(Marks::HOLE.with(Marks::DUPLICATE)) {
        tell_earlier(c, cx)?;
    }
    if c.marks.has(Marks::PACED) {
        return emit_paced(c, cx);
    }
    if emit_written::<E, S, false, false>(c, cx)? == Turn::More {
        return Ok(Turn::More);
    }
    emit_rest(c, cx)
}

/// The same, where data is paced.
#[cold]
#[inline(never)]
fn emit_paced<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<Turn, OutError> {
    let turn = emit_written::<E, S, false, true>(c, cx)?;
    if turn == Turn::More {
        return Ok(Turn::More);
    }
    emit_rest(c, cx).map(|_| turn)
}

/// What may still leave of a connection that ends with a reset, and then the reset. Bytes that only
/// the congestion window holds back are waited for: what their owner was told about them must not
/// depend on whether an ACK came before the close or behind it. What the peer's window holds back
/// is given up, as on Linux.
#[cold]
#[inline(never)]
fn emit_last<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<Turn, OutError> {
    let turn = emit_written::<E, S, true, true>(c, cx)?;
    if turn != Turn::Done {
        return Ok(turn);
    }
    // Unless the store did not have what it promised.
    if !c.marks.has(Marks::GONE) {
        let flight = c.outstanding();
        if flight > 0 && c.snd.wnd > flight && c.state.may_transmit() && c.has_unsent(&cx.pools.tx)
        {
            return Ok(Turn::Done);
        }
        c.enter(State::Closed);
        emit_reset(c, cx)?;
    }
    Ok(Turn::Done)
}

/// Sends what may leave of the written bytes, up to the quantum. `MAY_PACE`: they may be paced.
/// `LAST`: a reset follows and nobody writes any more, so nothing waits for company (Nagle, cork).
fn emit_written<E: Env, S: Sink, const LAST: bool, const MAY_PACE: bool>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<Turn, OutError> {
    let repeats = c.recovery.repeats();
    let early = c.is_early();
    if !((c.state.may_transmit() || early) && (repeats || c.has_unsent(&cx.pools.tx))) {
        return Ok(Turn::Done);
    }
    let path = cx.out.path(&mut c.route, &c.key)?;
    let max_piece = path.max_tcp_segmented_payload;
    if c.rare.is_none() {
        c.path_takes(path.mtu);
    } else {
        let carries = c.path_carries(cx.pools, path.mtu);
        c.path_takes(carries);
    }
    if max_piece != 0 {
        c.cc.set_burst(max_piece);
    }
    let flight = c.outstanding();
    if flight == 0 {
        restart_if_idle(cx.now, c, cx.pools, cx.config);
    }
    if !LAST && !early {
        if let Some(len) =
            lone_segment(c, cx.pools, flight, PLANNED).filter(|len| fits_windows(c, flight + len))
        {
            let span = Span::with_len(c.snd.nxt, len);
            debug_assert!(would_send(c, cx.pools, max_piece, span));
            emit_span(c, cx, (span, false), Again::New)?;
            return Ok(Turn::Done);
        }
    }
    if !LAST && !early && !c.rare.is_none() {
        emit_probe(c, cx, path.mtu)?;
    }
    let mut quantum = cx.config.tcp.quantum.max(1);
    let mut budget = u64::MAX;
    if MAY_PACE && c.marks.has(Marks::PACED) {
        budget = pacing_budget(c, cx, flight);
    }
    loop {
        let mut view = view(c, cx.pools, max_piece);
        let (end, shut) = (view.end, view.shut);
        if c.settings.has_record_ends() {
            view = within_record(c, cx.pools, view);
        }
        if early {
            // The FIN waits until the handshake is complete.
            view = View { may_transmit: true, shut: false, ..view };
        }
        let by_window = view.allowance;
        let is_paced = MAY_PACE && budget < u64::from(by_window);
        if is_paced {
            // What pacing lets out is full segments.
            view.allowance =
                if budget == 0 { 0 } else { (budget as u32).max(view.mss).min(view.allowance) };
        }
        if LAST {
            view = View { nodelay: true, cork: false, small_unacked: false, force: true, ..view };
        }
        let why = match next(&view) {
            Plan::Send { .. } if quantum == 0 => return Ok(Turn::More),
            Plan::Send { span, fin, again } => {
                let sent = emit_span(c, cx, (span, fin), again)?.max(1);
                quantum = quantum.saturating_sub(sent);
                if MAY_PACE {
                    budget = budget.saturating_sub(sent.into());
                }
                let is_all = again == Again::New && span.end == end && fin == shut;
                if !is_all && c.state != State::Closed {
                    continue;
                }
                Why::Done
            }
            // Where the congestion window has no room for it either, an ACK lets it out, and no time.
            Plan::Stop(Why::Congestion)
                if is_paced
                    && matches!(
                        next(&View { allowance: by_window, ..view }),
                        Plan::Send { .. }
                    ) =>
            {
                c.limited_by(cx.now, cx.pools, Marks::default());
                c.wait_for_pacing(cx.pools);
                return Ok(Turn::Paced);
            }
            Plan::Stop(why) => why,
        };
        if !LAST {
            stopped(c, cx, why);
        }
        return Ok(Turn::Done);
    }
}

/// Sends the next bytes in one segment that is longer than the others, when the search for what the
/// path carries wants one and nothing is in its way: so much data waits that what leaves behind it
/// tells soon whether it has arrived (RFC 4821 7.4, RFC 8899 5.3).
#[cold]
#[inline(never)]
fn emit_probe<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    path_mtu: u32,
) -> Result<(), OutError> {
    let in_order = c.recovery.is_lossless() && !c.marks.any(Marks::HOLE.with(Marks::DUPLICATE));
    let Some(size) = c.next_probe(cx.pools, cx.now, path_mtu).filter(|_| in_order) else {
        return Ok(());
    };
    let (usual, len, flight) = (c.mss, c.payload_of(size.into()), c.outstanding());
    let unsent = cx.pools.tx.len(&c.tx).saturating_sub(flight);
    let waits = u32::from(len) + 4 * u32::from(usual) <= unsent
        && !c.marks.any(Marks::SHUT.with(Marks::FORCE));
    if len <= usual || !waits || !fits_windows(c, flight + u32::from(len)) {
        return Ok(());
    }
    let span = Span::with_len(c.snd.nxt, len.into());
    c.mss = len;
    let sent = emit_span(c, cx, (span, false), Again::New);
    c.mss = usual;
    sent?;
    c.probe_left(cx.pools, Probe { start: span.start, end: span.end, size });
    Ok(())
}

/// How many bytes pacing lets out now. With nothing in flight, the algorithm hears of the pause
/// first.
#[cold]
#[inline(never)]
fn pacing_budget<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    flight: u32,
) -> u64 {
    if flight == 0 {
        let (idle, rto) = (c.times.sent.ago(cx.now), c.rtt.rto(&cx.config.tcp));
        c.on_congestion(cx.pools, cx.now, Event::Idle { idle, rto });
    }
    c.pacing_budget(cx.pools, cx.now)
}

/// About to send with nothing in flight: after a pause the congestion window starts over.
#[inline(always)]
fn restart_if_idle<E: Env>(now: Instant, c: &mut Conn<E>, p: &mut Pools<E>, config: &Config) {
    let idle = c.times.sent.ago(now);
    // No timeout is shorter than that, so a shorter pause needs no further thought.
    if idle > config.tcp.rto_min {
        restart(c, p, config, idle);
    }
}

#[cold]
#[inline(never)]
fn restart<E: Env>(c: &mut Conn<E>, p: &mut Pools<E>, config: &Config, idle: Duration) {
    if config.tcp.slow_start_after_idle {
        let rto = c.rtt.rto(&config.tcp);
        c.step_congestion(p, |cc| cc.on_event(Event::Idle { idle, rto }));
    }
}

/// The owner collects, or is in the midst of writing: what does not fill a segment waits for more.
#[inline(always)]
fn is_corked<E: Env>(c: &Conn<E>, p: &Pools<E>) -> bool {
    c.settings.collects() && collects_now(c, p) || p.tx.more_follows(&c.tx)
}

/// Whether the owner still collects: what was said of bytes that more follows (MSG_MORE) holds
/// until others were written.
#[cold]
#[inline(never)]
fn collects_now<E: Env>(c: &Conn<E>, p: &Pools<E>) -> bool {
    let end = c.data_front() + p.tx.len(&c.tx);
    c.settings.cork()
        || c.suffered(p).more_behind == end
        || record_end(c, p, c.snd.nxt).is_some_and(|at| at.lt(end))
}

/// Where the record ends that goes on at `at`, if that is known.
#[cold]
fn record_end<E: Env>(c: &Conn<E>, p: &Pools<E>, at: Seq) -> Option<Seq> {
    p.record_ends.after(c.rare.index().filter(|_| c.settings.has_record_ends())?, at)
}

/// The plan's view of a connection that has written records: what leaves belongs to one of them,
/// and what others follow waits for nothing.
#[cold]
#[inline(never)]
fn within_record<E: Env>(c: &Conn<E>, p: &Pools<E>, view: View) -> View {
    let cut = |span: Span| match record_end(c, p, span.start) {
        Some(end) if end.lt(span.end) => Span::new(span.start, end),
        _ => span,
    };
    let next = match view.next {
        Next::Retransmit(span) => Next::Retransmit(cut(span)),
        Next::Rescue(span) => Next::Rescue(cut(span)),
        other => other,
    };
    match record_end(c, p, view.nxt) {
        Some(end) if end.lt(view.end) => View {
            next,
            end,
            shut: false,
            nodelay: true,
            cork: false,
            small_unacked: false,
            ..view
        },
        _ => View { next, ..view },
    }
}

/// Whether neither the owner nor Nagle keeps back a segment that is not full.
#[inline(always)]
fn may_be_small<E: Env>(c: &Conn<E>, p: &Pools<E>) -> bool {
    !is_corked(c, p) && (c.settings.nodelay() || !c.snd_ahead.small.gt(c.snd.una))
}

/// What the plan has to be asked about.
const PLANNED: Marks = Marks::SHUT
    .with(Marks::FORCE)
    .with(Marks::HOLE)
    .with(Marks::DUPLICATE)
    .with(Marks::ECN)
    .with(Marks::RWND_LIMITED)
    .with(Marks::SNDBUF_LIMITED)
    .with(Marks::PACED);

/// What is usual: nothing is lost, there is nothing `special`, and all that waits beyond the
/// `flight` is one segment that nothing keeps back but, perhaps, windows ([`fits_windows`]). The
/// plan would say the same after asking everything.
#[inline(always)]
fn lone_segment<E: Env>(c: &Conn<E>, p: &Pools<E>, flight: u32, special: Marks) -> Option<u32> {
    #[cfg(test)]
    if p.instances > super::context::Instances::All {
        return None;
    }
    let len = p.tx.len(&c.tx).wrapping_sub(flight);
    let is_one = len.wrapping_sub(1) < u32::from(c.mss);
    let is_lossless = !c.marks.any(special) && c.recovery.is_lossless();
    (is_one && is_lossless && may_be_small(c, p)).then_some(len)
}

/// Whether the peer's window and the congestion window take so many bytes in flight.
#[inline(always)]
fn fits_windows<E: Env>(c: &Conn<E>, flight: u32) -> bool {
    flight <= c.snd.wnd.min(c.cc.cwnd())
}

/// Whatever probe or ACK is still due once all data that may leave has left.
#[inline(always)]
fn emit_rest<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<Turn, OutError> {
    c.marks.clear(Marks::FORCE);
    if c.marks.has(Marks::PROBE_DUE) {
        // A probe repeats the number before SND.UNA without any bytes: a receiver must answer such
        // a segment with its ACK and window (RFC 9293 3.10.7.4, step 1), and nothing has to be
        // remembered about it.
        emit_bare(c, cx, c.snd.una - 1)?;
        c.marks.clear(Marks::PROBE_DUE);
    }
    if c.marks.has(Marks::ACK_NOW) {
        emit_bare(c, cx, c.snd.nxt)?;
    }
    // One turn may have taken several early segments. RFC 5681 4.2 answers each, and without SACK
    // the peer's fast retransmit waits for the third answer. With SACK one says it all (RFC 6675
    // 2).
    while c.rcv.owed > 1 && c.asks_again() {
        emit_bare(c, cx, c.snd.nxt)?;
        c.rcv.owed -= 1;
    }
    c.rcv.owed = 0;
    Ok(Turn::Done)
}

/// One turn may have taken more early segments, or more duplicates, than one ACK has room to tell
/// of (RFC 2018 4, RFC 2883 4): the peer would take for lost what is here. ACKs in front of the one
/// that is due tell of those that came first, as if they had left then.
///
/// So does one tell of full segments in order behind which a hole opens: in an ACK that tells of a
/// loss, too, they would not let the peer's window grow (RFC 5681 3.2), and it would cut a smaller
/// one.
#[cold]
#[inline(never)]
fn tell_earlier<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<(), OutError> {
    if !c.marks.has(Marks::SACK) {
        return Ok(());
    }
    let due = c.marks.intersection(ACKED);
    let in_order = c.opens_hole(cx.pools).then_some((c.rcv.nxt, SackBlocks::NONE));
    let mut front = in_order.or_else(|| c.earlier_blocks(cx.pools));
    while let Some((nxt, blocks)) = front {
        let now = core::mem::replace(&mut c.rcv.nxt, nxt);
        let sent = emit_ack(c, cx, c.snd.nxt, Some(blocks));
        c.rcv.nxt = now;
        c.marks.set(due);
        sent?;
        front = c.earlier_blocks(cx.pools);
    }
    Ok(())
}

/// Whether the plan says to send `span` too, seen as it was when that was all: more may have been
/// written meanwhile, or be about to be.
fn would_send<E: Env>(c: &Conn<E>, p: &Pools<E>, max_piece: u32, span: Span) -> bool {
    let view = View { end: span.end, cork: c.settings.cork(), ..view(c, p, max_piece) };
    next(&view) == Plan::Send { span, fin: false, again: Again::New }
}

/// What the plan looks at, from the connection as it is.
#[inline(always)]
fn view<E: Env>(c: &Conn<E>, p: &Pools<E>, max_piece: u32) -> View {
    let mss = u32::from(c.mss) - extra_options(c, p);
    let max_piece = if c.marks.has(Marks::ECN) && c.leaves_alone(p) { 0 } else { max_piece };
    let (una, nxt) = (c.snd.una, c.snd.nxt);
    let shut = c.marks.has(Marks::SHUT);
    let fin_sent = c.marks.has(Marks::FIN_SENT);
    let end = if shut { c.snd_ahead.end } else { una + p.tx.len(&c.tx) };
    let usable = c.snd.usable();
    let unsent = !fin_sent && usable > 0 && (shut || end.gt(nxt));
    let cwnd = c.cc.cwnd();
    let (next, allowance) = if c.recovery.is_lossless() {
        // Nothing is lost and nothing hints at it.
        (if unsent { Next::New } else { Next::Nothing }, cwnd.saturating_sub(nxt.since(una)))
    } else {
        let (known, recovery) = (c.known(p), c.recovery(p));
        let fresh = if fin_sent || end.le(nxt) { 0 } else { end.since(nxt).min(usable) };
        let allowance = recovery.allowance(cwnd, una, nxt, mss, known);
        if c.recovery.is_probe_due() {
            (c.tail_probe((una, nxt), fresh, mss), mss)
        } else if c.recovery.prefers_new() && fresh >= mss && known.sent.is_some() {
            (Next::New, allowance)
        } else {
            (recovery.next(una, nxt, mss, known, unsent), allowance)
        }
    };
    View {
        may_transmit: c.state.may_transmit(),
        una,
        nxt,
        end,
        shut,
        fin_sent,
        usable,
        max_wnd: c.snd_ahead.max_wnd,
        mss,
        piece: (max_piece / mss * mss).max(mss),
        next,
        allowance,
        small_unacked: c.snd_ahead.small.gt(una),
        nodelay: c.settings.nodelay(),
        cork: is_corked(c, p),
        force: c.marks.has(Marks::FORCE),
    }
}

/// Bytes that SACK blocks, and counters of ECN, take from the payload of a segment.
#[inline(always)]
fn extra_options<E: Env>(c: &Conn<E>, p: &Pools<E>) -> u32 {
    const SOME: Marks = Marks::HOLE.with(Marks::DUPLICATE).with(Marks::ECN);
    if c.marks.any(SOME) { options_of_special(c, p) } else { 0 }
}

#[cold]
#[inline(never)]
fn options_of_special<E: Env>(c: &Conn<E>, p: &Pools<E>) -> u32 {
    let sack = if c.marks.has(Marks::SACK) && c.marks.any(Marks::HOLE.with(Marks::DUPLICATE)) {
        // Two paddings, type, length and the blocks.
        4 + 8 * most_sack_blocks(c) as u32
    } else {
        0
    };
    if c.marks.has(Marks::ECN) { with_counters(c, p, sack) } else { sack }
}

#[cold]
fn with_counters<E: Env>(c: &Conn<E>, p: &Pools<E>, sack: u32) -> u32 {
    let stamps = if c.marks.has(Marks::TS) { 12 } else { 0 };
    let counters = if c.ecn(p).is_some_and(|ecn| ecn.option_is_due()) {
        AccEcn::padded_len(3) as u32
    } else {
        0
    };
    (sack + counters).min(MAX_OPTIONS_LEN as u32 - stamps)
}

/// SACK blocks in one segment at most: as many as fit (RFC 2018 3), which are three beside
/// timestamps.
fn most_sack_blocks<E: Env>(c: &Conn<E>) -> usize {
    if c.marks.has(Marks::TS) { 3 } else { BLOCKS }
}

/// Sending has come to a stop: the persist timer takes over when only the peer's window is in the
/// way (RFC 9293 3.8.6.1).
#[inline(always)]
fn stopped<E: Env, S: Sink>(c: &mut Conn<E>, cx: &mut EmitCx<'_, '_, E, S>, why: Why) {
    let limit = match why {
        Why::Window => Marks::RWND_LIMITED,
        // All that was written is on its way, and the owner can write no more until some of it has
        // arrived.
        Why::Done
            if c.outstanding() > 0 && !c.marks.has(Marks::SHUT) && c.send_room(cx.pools) == 0 =>
        {
            let most = c.send_limit(cx.pools);
            cx.pools.tx.widen(&mut c.tx, most);
            Marks::SNDBUF_LIMITED
        }
        _ => Marks::default(),
    };
    c.limited_by(cx.now, cx.pools, limit);
    // Who has filled the send store writes as fast as he may: it is not the owner who limits, as for
    // Linux, which asks when something is written.
    if why == Why::Done && limit != Marks::SNDBUF_LIMITED && c.marks.has(Marks::PACED) {
        c.note_app_limited(cx.pools);
    }
    if c.outstanding() > 0 || c.marks.has(Marks::PERSIST) {
        return;
    }
    match why {
        Why::Window => {
            c.arm(Timer::Persist, cx.now + c.rtt.rto(&cx.config.tcp));
            c.stuck(cx.now);
        }
        // What an owner holds back who has stopped meanwhile leaves all the same.
        Why::Cork => c.arm(Timer::Persist, cx.now + limits::CORK),
        _ => {}
    }
}

impl<E: Env> Conn<E> {
    /// The path takes IP packets of up to `mtu` bytes (RFC 8201; RFC 9293 3.7.1): the payload
    /// follows, within what the peer announced.
    #[inline(always)]
    pub(crate) fn path_takes(&mut self, mtu: u32) {
        self.snd.fits_mtu = mtu.min(u32::from(u16::MAX)) as u16;
        let full = self.path_payload_of(mtu);
        let mss = self.within_window(full);
        if mss != self.mss {
            self.mss = mss;
            // What a path may be sent at first does not follow from the peer's buffer.
            self.cc.set_mss(full);
        }
    }

    /// The payload of a full segment in an IP packet of `mtu` bytes, within what the peer
    /// announced, and half of the largest window that it offered.
    #[inline(always)]
    pub(super) fn payload_of(&self, mtu: u32) -> u16 {
        self.within_window(self.path_payload_of(mtu))
    }

    #[inline(always)]
    fn path_payload_of(&self, mtu: u32) -> u16 {
        let headers = if self.key.remote.is_v6() { 60 } else { 40 };
        let fits = mtu
            .saturating_sub(headers)
            .clamp(u32::from(options::MIN_MSS), u32::from(u16::MAX)) as u16;
        let stamps = if self.marks.has(Marks::TS) { 12 } else { 0 };
        self.peer_mss.min(fits).max(options::MIN_MSS) - stamps
    }

    #[inline(always)]
    fn within_window(&self, payload: u16) -> u16 {
        match self.fits_twice.bytes() < payload.into() {
            false => payload,
            true => self.half_of_window().min(payload),
        }
    }

    /// Half of the largest window that the peer ever offered: exactly, unless windows became smaller.
    #[cold]
    fn half_of_window(&self) -> u16 {
        let half = half_of(self.snd_ahead.max_wnd);
        let is_exact = FitsTwice::of(half) == self.fits_twice;
        let half = match self.fits_twice {
            FitsTwice::UNKNOWN => u16::MAX,
            _ if is_exact => half,
            rounded => rounded.bytes() as u16,
        };
        half.max(options::LEAST_PAYLOAD)
    }

    /// The window to offer now.
    #[inline(always)]
    fn offering(&self, p: &Pools<E>) -> Offering {
        offering::<E>((&self.rcv, self.rcv_mss), &p.rx, &self.rx, p.sizes.window(self.rcv.step))
    }

    /// The window to send now, and the edge that it promises.
    ///
    /// A duplicate ACK that asks for a missing segment repeats the window of the one before:
    /// without SACK the peer could not tell it from a mere window update otherwise (RFC 5681 2,
    /// condition e of a duplicate ACK).
    #[inline(always)]
    fn window(&self, p: &Pools<E>) -> Offer {
        if self.asks_again() {
            return Offer { field: self.rcv.field, edge: self.rcv.edge };
        }
        offer::<E>((&self.rcv, self.rcv_mss), &p.rx, &self.rx, p.sizes.window(self.rcv.step))
    }

    /// Whether an ACK that leaves now is a duplicate for the peer's fast retransmit.
    pub(crate) fn asks_again(&self) -> bool {
        self.marks.has(Marks::HOLE)
            && !self.marks.has(Marks::SACK)
            && self.rcv.acked == self.rcv.nxt
    }

    /// Whether little of the window is left. Who reads without telling tells from now on, so what he
    /// has read is to be looked at afterwards.
    #[cold]
    pub(crate) fn window_is_low(&self, p: &Pools<E>) -> bool {
        let is_low = self.offering(p).is_low();
        if is_low {
            p.rx.window_is_low(&self.rx, self.rcv.wnd());
        }
        is_low
    }

    /// Whether the owner has read so much that the peer should be told at once (RFC 9293
    /// 3.8.6.2.2).
    #[inline(always)]
    pub(crate) fn window_update_is_due(&self, p: &Pools<E>) -> bool {
        self.state.is_synchronized()
            && self.state.peer_may_send()
            && !self.asks_again()
            && self.offering(p).worth_telling()
    }

    /// Whether the window that was promised is so large that nothing the owner reads is news for
    /// the peer: mostly so. It holds more than two segments and no less than one step of the scale,
    /// and has not grown by two segments, which are then less than half of what the store takes.
    #[inline(always)]
    pub(crate) fn window_suffices(&self, p: &Pools<E>) -> bool {
        let most = p.sizes.window(self.rcv.step);
        // Less than nothing when the promise has run out.
        let promised = self.rcv.edge.since(self.rcv.nxt);
        let two = 2 * u32::from(self.rcv_mss);
        if promised as i32 <= two as i32 || promised >> self.rcv.shift == 0 {
            return false;
        }
        // Without a hole there is never more room than `most`, and the store need not be asked.
        most < promised + two && !self.marks.has(Marks::HOLE)
            || p.rx.room(&self.rx, most) < promised + two
    }

    /// The header of a segment that leaves now, with ACK, window and options of an open connection.
    fn header(&self, now: Instant, seq: Seq, window: u16) -> Segment {
        let ts = self.marks.has(Marks::TS).then(|| (self.stamp(now), self.ts_recent));
        Segment {
            opts: TcpOptions { ts, ..TcpOptions::NONE },
            ..header(&self.key, seq, self.rcv.nxt, window)
        }
    }

    /// Writes the blocks of the SACK option into a header, when there are any to be told.
    #[inline(always)]
    fn put_sack(&self, p: &Pools<E>, seg: &mut Segment) {
        if self.marks.any(Marks::HOLE.with(Marks::DUPLICATE)) {
            seg.opts.sack = self.sack_blocks(p);
        }
    }

    /// Whether what came in order and was to be acknowledged at once has a hole behind it that no
    /// ACK has told of.
    fn opens_hole(&self, p: &Pools<E>) -> bool {
        let is_due = self.rcv.nxt.since(self.rcv.acked) >= 2 * u32::from(self.rcv_mss);
        is_due && self.reasm(p).get(&p.reasm).is_some_and(Reasm::is_untold)
    }

    /// What an ACK acknowledges that leaves in front of the one that is due, and its blocks; None
    /// when that has room for all that is to be told.
    fn earlier_blocks(&self, p: &mut Pools<E>) -> Option<(Seq, SackBlocks)> {
        let is_duplicate = self.marks.has(Marks::DUPLICATE);
        let most = most_sack_blocks(self);
        let duplicate = if is_duplicate {
            self.rare.get_mut(&mut p.rare_stats).and_then(RareStats::take_earlier)
        } else {
            None
        };
        let mut spans = [Span::new(Seq(0), Seq(0)); BLOCKS];
        let earlier = match self.reasm(p).get_mut(&mut p.reasm) {
            Some(map)
                if duplicate.is_some() || map.has_earlier(most - usize::from(is_duplicate)) =>
            {
                map.earlier_blocks(duplicate, &mut spans, most)
            }
            Some(map) => {
                map.all_is_told();
                return None;
            }
            None => {
                spans[0] = duplicate?;
                Earlier { nxt: self.rcv.nxt, blocks: 1 }
            }
        };
        Some((earlier.nxt, option_of(&spans[..earlier.blocks])))
    }

    /// The blocks of the SACK option (RFC 2018, RFC 2883).
    #[cold]
    fn sack_blocks(&self, p: &Pools<E>) -> SackBlocks {
        if !self.marks.has(Marks::SACK) {
            return SackBlocks::NONE;
        }
        let duplicate = self.marks.has(Marks::DUPLICATE).then(|| self.suffered(p).duplicate);
        let mut spans = [Span::new(Seq(0), Seq(0)); BLOCKS];
        let n = match self.reasm(p).get(&p.reasm) {
            Some(map) => map.sack_blocks(duplicate, &mut spans, most_sack_blocks(self)),
            None => duplicate.map_or(0, |d| {
                spans[0] = d;
                1
            }),
        };
        option_of(&spans[..n])
    }

    /// A segment with our ACK and window has left; [`ACKED`] is done.
    #[inline(always)]
    fn ack_left(&mut self, offer: Offer) {
        self.rcv.acked = self.rcv.nxt;
        self.rcv.edge = offer.edge;
        self.rcv.field = offer.field;
        self.cancel(Timer::DelayedAck);
    }
}

/// The SACK option with these blocks.
fn option_of(spans: &[Span]) -> SackBlocks {
    let mut blocks = SackBlocks::NONE;
    for span in spans {
        blocks.push(span.start, span.end);
    }
    blocks
}

/// What is done when our ACK has left.
const ACKED: Marks = Marks::ACK_NOW.with(Marks::DUPLICATE);

/// The header of every segment of an open connection, without options.
#[inline(always)]
fn header(key: &FlowKey, seq: Seq, ack: Seq, window: u16) -> Segment {
    Segment {
        src_port: key.local_port,
        dst_port: key.remote_port,
        seq,
        ack,
        flags: Flags::ACK,
        header_len: 0,
        wnd: window,
        urg: 0,
        opts: TcpOptions::NONE,
    }
}

/// What a window is chosen from, for the connection that receives as `rcv` says, in segments of so
/// many bytes, into `queue`, and may have `most` offered and unread.
#[inline(always)]
fn offering<E: Env>(
    (rcv, rcv_mss): (&Rcv, u16),
    rx: &E::Rx,
    queue: &<E::Rx as RxStore<E::Buf>>::Queue,
    most: u32,
) -> Offering {
    let room = rx.room(queue, most);
    Offering {
        nxt: rcv.nxt,
        edge: rcv.edge,
        room,
        // What the store would take once all is read.
        limit: room.saturating_add(rx.unread(queue)).min(most),
        mss: u32::from(rcv_mss),
        scale: rcv.shift,
    }
}

/// The window to send now, where nothing asks for the last one.
#[inline(always)]
fn offer<E: Env>(
    (rcv, rcv_mss): (&Rcv, u16),
    rx: &E::Rx,
    queue: &<E::Rx as RxStore<E::Buf>>::Queue,
    most: u32,
) -> Offer {
    // The distance to the edge is what was promised, and wraps round once that has run out: then it
    // is near no room.
    let (room, promised) = (rx.room(queue, most), rcv.edge.since(rcv.nxt));
    let field = promised >> rcv.shift;
    let mss = u32::from(rcv_mss);
    let is_near = room.wrapping_sub(promised) < mss && room >= 2 * mss;
    if is_near && field << rcv.shift == promised && field <= 0xffff {
        // Not worth telling yet: what was promised is said again.
        return Offer { field: field as u16, edge: rcv.edge };
    }
    fresh_offer::<E>((rcv, rcv_mss), rx, queue, most)
}

#[cold]
#[inline(never)]
fn fresh_offer<E: Env>(
    rcv: (&Rcv, u16),
    rx: &E::Rx,
    queue: &<E::Rx as RxStore<E::Buf>>::Queue,
    most: u32,
) -> Offer {
    let room = offering::<E>(rcv, rx, queue, most);
    if !room.is_low() {
        return room.offer();
    }
    rx.window_is_low(queue, rcv.0.wnd());
    offering::<E>(rcv, rx, queue, most).offer()
}

/// Sends `span`, with our FIN behind it perhaps. Returns the payload bytes that left.
fn emit_span<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    (span, fin): (Span, bool),
    again: Again,
) -> Result<u32, OutError> {
    let EmitCx { now, pools: p, config, out } = cx;
    let offer = c.window(p);
    let mut seg = c.header(*now, span.start, offer.field);
    c.put_sack(p, &mut seg);
    let len = span.len();
    if fin {
        seg.flags |= Flags::FIN;
    }
    let is_last = span.end == c.snd_ahead.end && c.marks.has(Marks::SHUT);
    let ends_record =
        || c.settings.has_record_ends() && record_end(c, p, span.end - 1) == Some(span.end);
    if len > 0 && (is_last || span.end == c.data_front() + p.tx.len(&c.tx) || ends_record()) {
        // RFC 9293 3.9.1.2: PSH where the written bytes end, and where a record does.
        seg.flags |= Flags::PSH;
    }
    put_urgent(c, p, &mut seg);
    let mss = u32::from(c.mss) - extra_options(c, p);
    let mut mark = 0;
    if c.marks.has(Marks::ECN) {
        let leaving = match again {
            Again::New if len > 0 => Leaving::New,
            Again::New => Leaving::Ack,
            Again::Lost | Again::Rescue => Leaving::Again,
        };
        mark = put_ecn(c, p, leaving, &mut seg);
    }
    let header_len = seg.opts.header_len();
    let segment_size = if len > mss { mss as u16 } else { 0 };
    let mut room = out.begin(
        &mut c.route,
        &c.key,
        Proto::TCP,
        header_len + len as usize,
        c.settings.tos | mark,
        c.settings.ttl,
    )?;
    let may_gather = room.may_gather();
    let l4 = room.l4();
    emit_header(&seg, l4);
    let at = span.start.since(c.snd.una);
    let used = header_len + len as usize;
    let transport = Transport::Tcp { header_len: header_len as u8, segment_size };
    match may_gather.then(|| Lent::of(&p.tx, &mut c.tx, at, len)).flatten() {
        Some(lent) => {
            let done = room.finish(used, transport);
            out.commit_gathered(done, lent.pieces());
        }
        None => {
            let copied = p.tx.peek(&mut c.tx, at, &mut l4[header_len..]) as u32;
            if copied < len {
                // The store promised these bytes and does not have them: nothing is sent rather
                // than something else.
                debug_assert!(false, "the send store lost {} bytes", len - copied);
                out.counters.tcp.broken += 1;
                c.fail(crate::error::Failure::Broken);
                return Ok(0);
            }
            let done = room.finish(used, transport);
            out.commit(done);
        }
    }
    let segments = len.div_ceil(mss).max(1);
    if c.marks.has(Marks::ECN) {
        c.ecn_left(p, seg.flags, seg.opts.acc_ecn.is_some());
    }
    if at > 0 || again != Again::New {
        let end = if fin { span.end + 1 } else { span.end };
        c.note_sent(p, *now, Span::new(span.start, end));
    }
    out.counters.tcp.segs_out += u64::from(segments);
    E::trace(Trace::SegmentOut(c.key.traced_segment(&seg, len)));
    // Where more is on its way with it, or about to be, a probe may tell of a loss before the timer
    // does. A FIN alone is alone.
    let is_burst = segments > 1 || len > 0 && !seg.flags.contains(Flags::PSH);
    left(
        c,
        *now,
        config,
        Left { span, fin, again, offer, segments, is_small: len % mss != 0, is_burst },
    );
    if again == Again::Lost {
        let again = Span::new(span.start, if fin { span.end + 1 } else { span.end });
        c.step_recovery(p, |recovery, _| recovery.on_retransmitted(again));
    }
    if c.marks.has(Marks::PACED) && len > 0 {
        c.note_paced(p, *now, span, again == Again::New);
    }
    if again != Again::New {
        out.counters.tcp.retransmitted_segs += u64::from(segments);
        let why = match again {
            _ if c.recovery.is_probing() => "tail-probe",
            Again::Rescue => "rescue",
            _ => "lost",
        };
        E::trace(Trace::Retransmit { ends: c.key.traced(), seq: span.start.0, len, why });
        let stamp = seg.opts.ts.map(|(ours, _)| ours);
        c.note_rare(p, |t| {
            t.bytes_retransmitted += u64::from(len);
            t.segs_retransmitted += segments;
            t.resent(len, stamp);
        });
    } else if let Some(board) = c.board(p).filter(|_| c.delivered_then == c.snd.una) {
        // The segment that was timed just now: what the peer holds selectively has arrived before
        // it.
        c.delivered_then = c.snd.una + board.bytes();
    }
    Ok(len)
}

/// Bytes of the send store, where they lie.
struct Lent<'a> {
    pieces: [Piece<'a>; MAX_PIECES],
    count: usize,
}

impl<'a> Lent<'a> {
    /// None when they have to be copied.
    fn of<T: TxStore>(tx: &'a T, queue: &'a mut T::Queue, at: u32, len: u32) -> Option<Lent<'a>> {
        let mut pieces = [Piece::EMPTY; MAX_PIECES];
        let count = tx.lend(queue, at, len, &mut pieces);
        (count > 0).then_some(Lent { pieces, count })
    }

    fn pieces(&self) -> &[Piece<'a>] {
        self.pieces.get(..self.count).unwrap_or_default()
    }
}

/// Announces urgent data that lies ahead of the segment, as far as 16 bits can point (RFC 6093).
fn put_urgent<E: Env>(c: &Conn<E>, p: &Pools<E>, seg: &mut Segment) {
    if !c.marks.has(Marks::SEND_URGENT) {
        return;
    }
    let urgent = c.suffered(p).cold.snd_urgent;
    if urgent.gt(seg.seq) {
        seg.flags |= Flags::URG;
        seg.urg = urgent.since(seg.seq).min(u32::from(u16::MAX)) as u16;
    }
}

/// What has left: bytes, our FIN behind them perhaps, and our ACK with the window that was offered.
struct Left {
    span: Span,
    fin: bool,
    again: Again,
    offer: Offer,
    /// Segments on the wire.
    segments: u32,
    /// The last of them had less than a full payload.
    is_small: bool,
    /// It is not all that leaves now.
    is_burst: bool,
}

/// Notes that something left. The marks are written once.
#[inline(always)]
fn left<E: Env>(c: &mut Conn<E>, now: Instant, config: &Config, left: Left) {
    let Left { span, fin, again, offer, segments, is_small, is_burst } = left;
    let end = if fin { span.end + 1 } else { span.end };
    c.ack_left(offer);
    c.segs_out = c.segs_out.wrapping_add(segments);
    c.times.sent = Ms::of(now);
    let before = c.marks;
    let mut marks = before;
    marks.clear(ACKED.with(Marks::EMIT).with(Marks::PERSIST));
    marks.set(Marks::STUCK);
    if again == Again::New {
        marks.set(Marks::TIMING);
        if !before.has(Marks::TIMING) {
            c.timed_seq = end;
            c.times.timed = Recent::of(now);
            c.delivered_then = c.snd.una;
        }
        if is_small {
            c.snd_ahead.small = span.end;
        }
        c.snd.nxt = end;
        c.cc.on_sent(c.snd.una, end);
    } else if c.timed_seq.gt(span.start) {
        // Karn: an ACK could be for either copy.
        marks.clear(Marks::TIMING);
    }
    // RFC 6298 5.1: the timer runs while something is in flight. A copy of the first that is missing
    // has a whole timeout of its own, or over long paths the timer would outrun the repair of a copy
    // that was lost too.
    let is_first_again = again == Again::Lost
        && span.start == c.snd.una
        && before.has(Marks::SACK)
        && c.recovery.is_frozen();
    if before.has(Marks::PERSIST) || !c.times.send.is_set() || is_first_again {
        let rto = c.rtt.rto(&config.tcp);
        let due = now + if is_burst { c.wait_for_burst(&config.tcp, rto) } else { rto };
        if c.move_deadline(Timer::Retransmit, due) {
            marks.set(Marks::REARM);
        }
    }
    if !before.has(Marks::STUCK) && c.waits_since(now) {
        marks.set(Marks::REARM);
    }
    if !span.is_empty() {
        c.rcv.quick &= !PUSHED;
        c.data_segs_out = c.data_segs_out.wrapping_add(segments);
    }
    c.marks = marks;
    match again {
        Again::New if fin && !before.has(Marks::FIN_SENT) => {
            c.marks.set(Marks::FIN_SENT);
            c.go(Cause::FinSent);
        }
        Again::New => {}
        // What was sent again lies where what is rare lies: `emit_span` says so.
        Again::Lost => {}
        Again::Rescue => c.recovery.on_rescued(),
    }
}

/// A segment without payload: an ACK, or a probe when `seq` lies before SND.UNA.
fn emit_bare<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    seq: Seq,
) -> Result<(), OutError> {
    emit_ack(c, cx, seq, None)
}

/// The same; `earlier`: with these blocks of the SACK option.
fn emit_ack<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
    seq: Seq,
    earlier: Option<SackBlocks>,
) -> Result<(), OutError> {
    let offer = c.window(cx.pools);
    let mut seg = c.header(cx.now, seq, offer.field);
    match earlier {
        Some(blocks) => seg.opts.sack = blocks,
        None => c.put_sack(cx.pools, &mut seg),
    }
    put_urgent(c, cx.pools, &mut seg);
    if c.marks.has(Marks::ECN) {
        let leaving = if seq == c.snd.nxt { Leaving::Ack } else { Leaving::Probe };
        let mark = put_ecn(c, cx.pools, leaving, &mut seg);
        put(c, cx.out, &seg, mark)?;
        c.ecn_left(cx.pools, seg.flags, seg.opts.acc_ecn.is_some());
    } else {
        put(c, cx.out, &seg, 0)?;
    }
    c.ack_left(offer);
    c.marks.clear(ACKED);
    c.segs_out = c.segs_out.wrapping_add(1);
    Ok(())
}

/// What ECN writes into a header that is done otherwise; says the bits of the IP header.
#[cold]
fn put_ecn<E: Env>(c: &Conn<E>, p: &Pools<E>, leaving: Leaving, seg: &mut Segment) -> u8 {
    let stamp = c.ecn_stamp(p, leaving, MAX_HEADER_LEN - seg.opts.header_len());
    seg.flags |= stamp.flags;
    seg.opts.acc_ecn = stamp.option;
    stamp.mark
}

/// Sends a segment that is nothing but a header, with `mark` in the ECN bits of the IP header.
fn put<E: Env, S: Sink>(
    c: &mut Conn<E>,
    out: &mut IpOut<'_, S>,
    seg: &Segment,
    mark: u8,
) -> Result<(), OutError> {
    let header_len = seg.opts.header_len();
    let mut room = out.begin(
        &mut c.route,
        &c.key,
        Proto::TCP,
        header_len,
        c.settings.tos | mark,
        c.settings.ttl,
    )?;
    emit_header(seg, room.l4());
    let done =
        room.finish(header_len, Transport::Tcp { header_len: header_len as u8, segment_size: 0 });
    out.commit(done);
    out.counters.tcp.segs_out += 1;
    E::trace(Trace::SegmentOut(c.key.traced_segment(seg, 0)));
    Ok(())
}

/// Our SYN, or SYN and ACK in a simultaneous open.
fn emit_syn<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<(), OutError> {
    let EmitCx { now, pools: p, config, out } = cx;
    let now = *now;
    let answers = c.state == State::SynReceived;
    let offer = options::ours(&config.tcp, c.our_mss, c.suffered(p).seldom.max_segment);
    let room = p.rx.room(&c.rx, config.tcp.max_receive_window);
    // Answering, only what the peer offered too may be said (RFC 7323 1.3, RFC 2018 2).
    let asked =
        if answers || c.rare.is_none() { Flags::NONE } else { c.asks_for_ecn(p, c.recovery.tries) };
    let says = |mark| !answers || c.marks.has(mark);
    let early = fast_open_option(c, p, now);
    let seg = Segment {
        src_port: c.key.local_port,
        dst_port: c.key.remote_port,
        seq: c.iss,
        ack: if answers { c.rcv.nxt } else { Seq(0) },
        flags: if answers { Flags::SYN | Flags::ACK } else { Flags::SYN | asked },
        header_len: 0,
        wnd: window::syn_field(room),
        urg: 0,
        opts: TcpOptions {
            mss: offer.mss,
            wscale: offer.scale.filter(|_| !answers || c.snd.scales),
            ts: offer
                .ts
                .filter(|_| says(Marks::TS))
                .map(|_| (c.stamp(now), if answers { c.ts_recent } else { 0 })),
            sack_permitted: offer.sack && says(Marks::SACK),
            fast_open: early.and_then(|early| early.cookie),
            ..TcpOptions::NONE
        },
    };
    let payload = match early {
        Some(Early { most_data: most @ 1.., .. }) => {
            // RFC 7413 4.2.1: no more than the server took in a segment before, and what the link
            // carries. As on Linux there is room left for all options that a middlebox may add.
            let room = most.min(c.our_mss).saturating_sub(MAX_OPTIONS_LEN as u16);
            p.tx.len(&c.tx).min(room.into())
        }
        _ => 0,
    };
    put_syn(c, p, out, &seg, payload)?;
    c.marks.clear(Marks::SYN_DUE.with(Marks::ACK_NOW));
    c.segs_out = c.segs_out.wrapping_add(1);
    if answers {
        c.rcv.edge = c.rcv.edge.max(c.rcv.nxt + u32::from(seg.wnd));
        c.rcv.acked = c.rcv.nxt;
    } else {
        // No number to count it from yet: the length itself.
        c.rcv.edge = Seq(u32::from(seg.wnd));
    }
    c.snd.nxt = c.snd.nxt.max(c.iss + 1 + payload);
    if c.rtt.syn_repeated {
        c.note_rare(p, |t| t.syns_retransmitted += 1);
        out.counters.tcp.retransmitted_segs += 1;
        let (ends, seq) = (c.key.traced(), c.iss.0);
        E::trace(Trace::Retransmit { ends, seq, len: payload, why: "syn" });
    } else if !c.marks.has(Marks::TIMING) {
        c.marks.set(Marks::TIMING);
        c.times.timed = Recent::of(now);
        c.timed_seq = c.iss + 1;
    }
    if !c.times.send.is_set() {
        c.arm(Timer::Retransmit, now + c.rtt.rto(&config.tcp));
    }
    c.stuck(now);
    Ok(())
}

/// Whether our SYN, which is due, leaves only with the first bytes that are written.
fn syn_waits_for_data<E: Env>(c: &Conn<E>, p: &Pools<E>) -> bool {
    !c.rare.is_none()
        && c.state == State::SynSent
        && c.suffered(p).fast_open.waits_for_data()
        && !c.marks.has(Marks::SHUT)
        && p.tx.len(&c.tx) == 0
}

/// What a SYN or SYN-ACK has to do with Fast Open.
#[derive(Clone, Copy)]
struct Early {
    /// The option that it has.
    cookie: Option<FastOpenCookie>,
    /// The segment that its data must fit; 0: it has none.
    most_data: u16,
}

/// What our first SYN, or SYN-ACK, says of Fast Open. A SYN that is sent again says nothing: the
/// option or the data may be what was not let through (RFC 7413 4.1.3).
fn fast_open_option<E: Env>(c: &Conn<E>, p: &mut Pools<E>, now: Instant) -> Option<Early> {
    if c.is_early() {
        return Some(Early { cookie: p.fast_open.renewed(&c.key), most_data: 0 });
    }
    let how = c.suffered(p).fast_open;
    if c.state != State::SynSent || c.recovery.tries > 0 || !how.is_special() {
        return None;
    }
    let (cookie, mss) = p.fast_open.say(now, c.key.local, c.key.remote)?;
    // Who never said how much it takes is sent what everybody does (RFC 9293 3.7.1).
    let mss = if mss == 0 { options::default_mss(c.key.remote.is_v6()) } else { mss };
    Some(match () {
        () if how.is_bare() => Early { cookie: None, most_data: mss },
        () if cookie.is_request() => Early { cookie: Some(cookie), most_data: 0 },
        () => Early { cookie: Some(cookie), most_data: mss },
    })
}

/// Sends a SYN with the first `payload` bytes of what was written.
fn put_syn<E: Env, S: Sink>(
    c: &mut Conn<E>,
    p: &mut Pools<E>,
    out: &mut IpOut<'_, S>,
    seg: &Segment,
    payload: u32,
) -> Result<(), OutError> {
    if payload == 0 {
        return put(c, out, seg, 0);
    }
    let header_len = seg.opts.header_len();
    let used = header_len + payload as usize;
    let mut room =
        out.begin(&mut c.route, &c.key, Proto::TCP, used, c.settings.tos, c.settings.ttl)?;
    let l4 = room.l4();
    emit_header(seg, l4);
    p.tx.peek(&mut c.tx, 0, &mut l4[header_len..used]);
    let done = room.finish(used, Transport::Tcp { header_len: header_len as u8, segment_size: 0 });
    out.commit(done);
    out.counters.tcp.segs_out += 1;
    E::trace(Trace::SegmentOut(c.key.traced_segment(seg, payload)));
    c.data_segs_out = c.data_segs_out.wrapping_add(1);
    Ok(())
}

/// The last segment of a connection that is given up (RFC 9293 3.10.5).
fn emit_reset<E: Env, S: Sink>(
    c: &mut Conn<E>,
    cx: &mut EmitCx<'_, '_, E, S>,
) -> Result<(), OutError> {
    let mut seg = c.header(cx.now, c.snd.nxt, 0);
    seg.flags = Flags::RST | Flags::ACK;
    put(c, cx.out, &seg, 0)?;
    cx.out.counters.tcp.resets_out += 1;
    c.marks.clear(Marks::RST_DUE);
    c.marks.set(Marks::GONE);
    Ok(())
}
