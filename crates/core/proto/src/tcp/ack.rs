//! What one acknowledgement says, as one value that is handed down: to the round-trip estimator, to
//! loss recovery, to congestion control, to the timers.

use super::ack_info::AckInfo;
use super::cc::{Advice, Event};
use super::marks::Marks;
use clearway_base::{Duration, Instant};
use clearway_wire::tcp::Plain;
use clearway_wire::{SackBlocks, Seq};

use super::conn::Conn;
use super::context::{ConnCx, Cx, Pools};
use super::deadlines::Timer;
use super::loss::sent::{Arrival, Lost, Sent};
use super::loss::{DupTest, is_duplicate};
use super::probe::{self, Answer};
use super::recovery::{Phase, Signal};
use super::rtt::LONGEST;
use super::sack::{self, Delivered, SackUpdate, Scoreboard};
use super::span::Span;
use crate::event::ConnEvents;
use crate::store::{Env, TxStore};
use crate::trace::Trace;

/// A round trip that a timestamp echo tells of is believed up to this: beyond it the echo is
/// garbage.
const LONGEST_ECHO_MS: u32 = 10 * 60 * 1000;

/// What is in flight beside a segment that is timed, as far as its sample's weight is concerned:
/// nothing. One segment is timed at a time, so there is one such sample in a round trip, however
/// much is in flight. Echoes come with every ACK.
const ALONE: u32 = 1;

/// What an arriving segment says about what we sent.
#[derive(Clone, Copy)]
pub(crate) struct Said<'a> {
    pub seg: &'a Plain,
    /// Its payload bytes.
    pub len: u32,
    pub sack: &'a SackBlocks,
}

/// Takes the acceptable ACK of a segment (RFC 9293 3.10.7.4, step 5). Where the caller knows that
/// nothing is lost, that there are no SACK blocks and that the ACK is none from before SND.UNA, the
/// instance with `LOSSLESS` asks nothing about it.
#[inline(always)]
pub(crate) fn digest<E: Env, const LOSSLESS: bool>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    said: Said<'_>,
) {
    let Said { seg, len, sack } = said;
    let wnd = u32::from(seg.wnd) << c.snd.shift;
    let is_una = seg.ack == c.snd.una;
    let moves = if LOSSLESS { !is_una } else { seg.ack.gt(c.snd.una) };
    // An ACK of new data sets the window even when its segment is an older one that was sent again:
    // SND.WND is counted from SND.UNA, and left as it was it would promise more than the peer ever
    // did.
    let sets_window = moves || (is_una && c.snd.is_newer(seg.seq, seg.ack));
    if LOSSLESS {
        if moves {
            digest_progress::<E, false>(c, cx, (seg.ack, seg.ts));
        }
    } else if !(is_una && (c.snd.nxt == c.snd.una || len > 0) && sack.is_empty()) {
        // Else data flows towards us and nothing of ours is on its way: only the window can be
        // news.
        digest_feedback(c, cx, said);
    }
    if sets_window {
        if wnd > c.snd.wnd {
            window_opens(c, cx.now, cx.pools);
        }
        c.set_window(wnd, seg.seq, seg.ack);
    }
}

/// The peer's window grows.
#[cold]
#[inline(never)]
fn window_opens<E: Env>(c: &mut Conn<E>, now: Instant, p: &Pools<E>) {
    if c.marks.has(Marks::PERSIST) {
        // What waited for it leaves, and if that is still not much, the wait begins anew.
        c.cancel(Timer::Persist);
        c.progress(now, c.outstanding() > 0);
        c.rtt.reset_backoff();
        c.recovery.tries = 0;
    }
    if c.has_unsent(&p.tx) {
        c.wants_turn();
    }
}

/// Whether a SACK block lies within what we sent and is not acknowledged (RFC 2018 5).
fn has_new_block<E: Env>(c: &Conn<E>, sack: &SackBlocks, una: Seq) -> bool {
    sack.iter().any(|(l, r)| l.gt(una) && r.gt(l) && r.le(c.snd.nxt))
}

/// Gives the SACK blocks to the scoreboard, which is taken for the time that something is missing.
fn digest_sack<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    (sack, echo): (&SackBlocks, Option<u32>),
    una: Seq,
) -> SackUpdate {
    let min_rtt = c.rtt.min().unwrap_or_default();
    let fack = c.sent.get(&cx.pools.sent).map_or(c.snd.una, Sent::fack);
    let echo_ms = echo.map(|echo| echo.wrapping_sub(c.ts_offset));
    let arrival = Arrival { now: cx.now, min_rtt, echo_ms, fack };
    let (p, now) = (&mut *cx.pools, cx.stack.now);
    let unrecorded = &mut cx.stack.counters.tcp.sent_unrecorded;
    if !c.recovery.has_board() {
        if !c.marks.has(Marks::SACK) {
            return SackUpdate::default();
        }
        if !has_new_block(c, sack, una) {
            let all = Span::new(c.snd.una, una);
            let sent = c.sent.get_mut(&mut p.sent).filter(|_| !all.is_empty());
            return SackUpdate {
                told: sent.map(|sent| sent.on_delivered(all, &arrival)).unwrap_or_default(),
                dsack: sack::only_duplicate(sack.as_slice(), una),
                ..SackUpdate::default()
            };
        }
        c.take_board(p, Scoreboard::new());
        if !c.marks.has(Marks::FLIGHTS) {
            c.take_sent(p, now);
            *unrecorded += u64::from(c.sent.is_none());
        }
    }
    let old = c.snd.una;
    let sack_at = c.sack(p);
    let (Some(board), mut sent) = (sack_at.get_mut(&mut p.boards), c.sent.get_mut(&mut p.sent))
    else {
        return SackUpdate::default();
    };
    let mut told = Delivered::default();
    let mut arrives = |piece, arrival: &Arrival| {
        let more = sent.as_mut().map(|sent| sent.on_delivered(piece, arrival));
        told = told.and(more.unwrap_or_default());
    };
    let mut passed = 0;
    if una != old {
        board.missing_of(Span::new(old, una)).for_each(|piece| arrives(piece, &arrival));
        passed = board.advance(una);
    }
    // What is held out of order is told of with the stamp of what came in order (RFC 7323 4.3),
    // however late it left.
    let unstamped = Arrival { echo_ms: None, ..arrival };
    let within = Span::new(una, c.snd.nxt);
    let said = board.take(sack.as_slice(), within, |piece| arrives(piece, &unstamped));
    SackUpdate { passed, told, ..said }
}

/// The part of an ACK that says something about what we sent.
#[inline(always)]
fn digest_feedback<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, said: Said<'_>) {
    if said.seg.ack.gt(c.snd.una)
        && said.sack.is_empty()
        && c.recovery.is_lossless()
        && !c.marks.has(Marks::PACED)
    {
        return digest_progress::<E, true>(c, cx, (said.seg.ack, said.seg.ts));
    }
    digest_signs(c, cx, said);
}

/// What is usual: new data is acknowledged, nothing is lost and nothing hints at it. It is what
/// [`digest_signs`] comes down to then. `ECN`: it may be in use.
#[inline(always)]
fn digest_progress<E: Env, const ECN: bool>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    (una, ts): (Seq, Option<(u32, u32)>),
) {
    let before = c.outstanding();
    let acked = una.since(c.snd.una);
    let cwnd_limited = c.cc.is_limited();
    let mut sample = None;
    if c.marks.has(Marks::TIMING) {
        sample = timed_round_trip(cx.now, c, (una, una), cwnd_limited);
        if let Some(sample) = sample {
            c.rtt.on_sample(sample, ALONE, c.mss);
        }
    }
    take_acked(c, cx, acked, una);
    if cwnd_limited {
        if !(ECN && c.ecn_holds_back(cx.pools, una)) {
            grow(c, cx, (acked, before), sample, ts);
        }
    } else if !c.rare.is_none() {
        c.pause_growth(cx.pools);
    }
    rearm(c, cx, Signal::Nothing);
    let p = &cx.pools;
    let has_more = if c.marks.has(Marks::SHUT) {
        c.has_unsent(&p.tx)
    } else {
        p.tx.len(&c.tx) > c.snd.nxt.since(c.snd.una)
    };
    if has_more {
        c.wants_turn();
    }
}

/// The congestion window was in use, and `acked` of the `before` bytes in flight have arrived.
#[cold]
#[inline(never)]
fn grow<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    (acked, before): (u32, u32),
    rtt_sample: Option<Duration>,
    ts: Option<(u32, u32)>,
) {
    let info = AckInfo {
        now: cx.now,
        acked,
        dup: false,
        rtt_sample,
        echoed: echo_age(cx.now, c, ts.map(|(_, echo)| echo)),
        clock_step: cx.pools.clock_step,
        flight_before: before,
        flight: before - acked.min(before),
        cwnd_limited: true,
        una: c.snd.una,
        nxt: c.snd.nxt,
        lost: None,
        delivered: acked,
        credit: acked,
    };
    let rtt = c.rtt;
    c.step_congestion(cx.pools, |cc| cc.on_ack(&info, &rtt));
}

/// An ACK that tells of losses, or may.
#[cold]
#[inline(never)]
fn digest_signs<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, said: Said<'_>) {
    let seg = said.seg;
    let before = c.outstanding();
    let acked = if seg.ack.gt(c.snd.una) { seg.ack.since(c.snd.una) } else { 0 };
    let una = c.snd.una.max(seg.ack);
    let echo = seg.ts.filter(|_| c.marks.has(Marks::TS)).map(|(_, echo)| echo);
    let sack = digest_sack(c, cx, (said.sack, echo), una);
    if sack.reneged {
        cx.counters.tcp.sack_reneged += 1;
    }
    if let Some(twice) = sack.dsack {
        let undone = c.on_dsack(cx.pools, cx.stack.now, twice);
        cx.counters.tcp.losses_undone += u64::from(undone);
    }
    if c.recovery.is_probing() {
        let is_bare = acked == 0
            && sack.newly == 0
            && said.len == 0
            && u32::from(seg.wnd) << c.snd.shift == c.snd.wnd;
        probe::on_answer(c, cx, &Answer { una, said: &sack, is_bare });
    }
    let dup = is_duplicate(&DupTest {
        outstanding: before > 0,
        occupies: said.len > 0 || seg.flags.fin(),
        ack_is_una: seg.ack == c.snd.una,
        window_changed: u32::from(seg.wnd) << c.snd.shift != c.snd.wnd,
        // News that found no free scoreboard are counted as if there were no SACK; blocks that tell
        // none are no duplicates.
        sack: c.marks.has(Marks::SACK)
            && (c.recovery.has_board() || !has_new_block(c, said.sack, una)),
        newly_sacked: sack.newly,
    });
    if acked == 0 && !dup {
        return;
    }
    let cwnd_limited = c.cc.is_limited();
    let held = c.board(cx.pools).map_or(0, Scoreboard::bytes);
    let is_timed = acked > 0 && c.marks.has(Marks::TIMING);
    let rtt_sample =
        if acked > 0 { round_trip(cx.now, c, (seg, held), cwnd_limited) } else { None };
    let is_alone = is_timed && rtt_sample.is_some();
    // What arrives behind a hole has a round trip too: where there are no timestamps it may be the
    // only one for long, and without any a backoff stays.
    let rtt_sample = rtt_sample.or(sack.told.rtt.filter(|rtt| *rtt <= LONGEST));
    if sack.told.late {
        // What was missing came after all, though it was not sent again. Without a record nothing
        // tells that: what came may be a copy that a recovery before this one has sent.
        c.note_rare(cx.pools, |t| t.reord_seen += 1);
    }
    let lost = c.lost_by_time(cx.pools, cx.now, una);
    let delivered = acked.saturating_sub(sack.passed) + sack.newly;
    let mut info = AckInfo {
        now: cx.now,
        acked,
        dup,
        rtt_sample,
        // What arrives out of order is answered with the stamp of what came in order (RFC 7323 4.3).
        echoed: echo_age(
            cx.now,
            c,
            echo.filter(|_| acked > 0 && c.recovery.phase() == Phase::Open),
        ),
        clock_step: cx.pools.clock_step,
        flight_before: before,
        flight: before - acked.min(before),
        cwnd_limited,
        una,
        nxt: c.snd.nxt,
        lost: lost.map(|lost| lost.bytes),
        delivered,
        credit: match c.recovery.phase() {
            // On a path that reorders most of what arrives is told by duplicates.
            Phase::Open if c.reorders(cx.pools) => delivered,
            // Else a duplicate may be the first sign of a loss.
            _ if acked == 0 => 0,
            // What came out of order was told before, and its segments did not leave as one burst
            // that a single ACK may answer.
            Phase::Open => delivered.max(acked.min(2 * u32::from(c.mss))),
            _ if c.marks.has(Marks::SACK) => delivered,
            _ => acked.min(u32::from(c.mss)),
        },
    };
    if acked > 0 {
        take_acked(c, cx, acked, una);
    } else if c.marks.any(Marks::WANT_ROOM.with(Marks::SNDBUF_LIMITED)) && c.send_room(cx.pools) > 0
    {
        // What the peer holds behind a hole takes no room.
        tell_of_room(c, cx.now, cx.pools);
    }
    if let Some(sample) = info.rtt_sample {
        let waits_too_long = acked == 0 && c.rtt.backoff() > 0;
        c.rtt.on_sample(sample, if is_alone { ALONE } else { info.flight_before }, c.mss);
        if waits_too_long {
            let due = cx.now + c.rtt.rto(&cx.config.tcp);
            c.arm(Timer::Retransmit, due.min(c.deadline(Timer::Retransmit, cx.now)));
        }
    }
    if c.recovery.phase() != Phase::Open
        && c.was_for_nothing(cx.pools, echo.filter(|_| acked > 0), sack.told.original)
    {
        cx.counters.tcp.losses_undone += 1;
        c.take_back(cx.pools, cx.stack.now);
        info.lost = info.lost.map(|_| 0);
    }
    let signal = recover(c, cx, &info, lost.is_some_and(|lost| lost.newly > 0));
    if acked > 0 {
        rearm(c, cx, signal);
    } else if matches!(signal, Signal::Enter { .. }) {
        // The first lost segment leaves now, and its copy deserves a whole timeout of its own.
        c.arm(Timer::Retransmit, cx.now + c.rtt.rto(&cx.config.tcp));
    }
    look_again(c, cx.now, lost);
    // Whether anything may leave now is for emit to find out; it is asked only when there is
    // something.
    if c.recovery.phase() != Phase::Open || c.has_unsent(&cx.pools.tx) {
        c.wants_turn();
    }
}

/// What may be lost is looked at again before the retransmission timer says so.
fn look_again<E: Env>(c: &mut Conn<E>, now: Instant, lost: Option<Lost>) {
    let look =
        lost.and_then(|lost| lost.look).filter(|at| *at < c.deadline(Timer::Retransmit, now));
    if let Some(at) = look.filter(|_| c.outstanding() > 0) {
        c.arm(Timer::Reordering, at);
    }
}

/// What may have been late is lost, unless it has come meanwhile (RFC 8985 6.3).
pub(crate) fn on_reordering<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    c.arm(Timer::Retransmit, cx.now + c.rtt.rto(&cx.config.tcp));
    let flight = c.outstanding();
    let lost = c.lost_by_time(cx.pools, cx.now, c.snd.una);
    if flight == 0 || lost.is_none() {
        return;
    }
    let info = AckInfo {
        now: cx.now,
        acked: 0,
        dup: false,
        rtt_sample: None,
        echoed: None,
        clock_step: cx.pools.clock_step,
        flight_before: flight,
        flight,
        cwnd_limited: c.cc.is_limited(),
        una: c.snd.una,
        nxt: c.snd.nxt,
        lost: lost.map(|lost| lost.bytes),
        delivered: 0,
        credit: 0,
    };
    recover(c, cx, &info, true);
    look_again(c, cx.now, lost);
    c.wants_turn();
}

/// SND.UNA moves; the bytes below it are given back.
#[inline(always)]
pub(super) fn take_acked<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    acked: u32,
    una: Seq,
) {
    const SPECIAL: Marks = Marks::SHUT
        .with(Marks::SEND_URGENT)
        .with(Marks::WANT_ROOM)
        .with(Marks::SNDBUF_LIMITED)
        .with(Marks::FLIGHTS);
    if c.marks.any(SPECIAL) {
        return take_acked_of_special(c, cx.now, cx.pools, una);
    }
    cx.pools.tx.consume(&mut c.tx, acked);
    una_moves(c, cx.pools, una);
}

/// SND.UNA moves to `una`, and what must stay close to it follows now and then.
#[inline(always)]
fn una_moves<E: Env>(c: &mut Conn<E>, p: &mut Pools<E>, una: Seq) {
    if (una.0 ^ c.snd.una.0) >> LAP_SHIFT != 0 {
        una_laps(c, p, una);
    }
    c.snd.una = una;
    // A backoff stays until the next sample (RFC 6298 5): an ACK for data that was sent twice says
    // nothing of the round trip, and a timeout that is too short for a late ACK would else fire
    // again and again.
    c.recovery.tries = 0;
}

/// SND.UNA passes an eighth of the circle. What lies behind it is as good as at it until it is half
/// a circle behind.
const LAP_SHIFT: u32 = 29;

#[cold]
fn una_laps<E: Env>(c: &mut Conn<E>, p: &mut Pools<E>, una: Seq) {
    c.snd_ahead.small = c.snd_ahead.small.max(una);
    if una.0 < c.snd.una.0 {
        c.note_rare(p, |t| t.cold.una_wraps = t.cold.una_wraps.wrapping_add(1));
    }
    if let Some(rare) =
        c.rare.get_mut(&mut p.rare_stats).filter(|_| c.recovery.is_open_without_dupacks())
    {
        rare.cold.points.keep_close(una);
    }
}

/// As [`take_acked`], for a connection that is being closed, or whose owner waits for room, or that
/// has urgent data to send or knows when it sent what.
#[inline(never)]
fn take_acked_of_special<E: Env>(c: &mut Conn<E>, now: Instant, p: &mut Pools<E>, una: Seq) {
    let acked = una.since(c.snd.una);
    let bytes =
        if c.marks.has(Marks::SHUT) { acked.min(c.snd_ahead.end.since(c.snd.una)) } else { acked };
    p.tx.consume(&mut c.tx, bytes);
    if c.marks.has(Marks::FLIGHTS) {
        c.sent_is_acked(p, una);
    }
    una_moves(c, p, una);
    if c.marks.has(Marks::SEND_URGENT) && c.suffered(p).cold.snd_urgent.le(una) {
        c.marks.clear(Marks::SEND_URGENT);
    }
    if bytes > 0 {
        tell_of_room(c, now, p);
    }
}

/// There is room in the send queue, for which the owner may wait.
fn tell_of_room<E: Env>(c: &mut Conn<E>, now: Instant, p: &mut Pools<E>) {
    if c.marks.has(Marks::WANT_ROOM) {
        c.marks.clear(Marks::WANT_ROOM);
        c.tell(ConnEvents::WRITABLE);
    }
    if c.marks.has(Marks::SNDBUF_LIMITED) {
        c.limited_by(now, p, Marks::default());
        // From now on it is the owner who limits, until he writes.
        if c.marks.has(Marks::PACED) && c.outstanding() == 0 {
            c.note_app_limited(p);
        }
    }
}

/// Loss recovery and congestion control hear of it. `newly_lost`: more was found lost for the time
/// that has passed.
fn recover<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    info: &AckInfo,
    newly_lost: bool,
) -> Signal {
    let was_frozen = c.recovery.is_frozen();
    let mut signal = signal(c, cx, info);
    if matches!(signal, Signal::Left | Signal::Repaired) && info.lost.is_some_and(|bytes| bytes > 0)
    {
        // What is lost of what was sent since begins the next recovery.
        signal = self::signal(c, cx, &AckInfo { acked: 0, dup: false, ..*info });
    }
    c.reduce(cx.pools, info, matches!(signal, Signal::Enter { .. }), newly_lost);
    // The ACK that ends fast recovery counts for growth as any other, as for Linux, unless the window
    // has just been shut so far that no burst leaves (RFC 6582 3.2, step 3).
    let counts = !was_frozen || info.lost.is_some();
    if c.marks.has(Marks::PACED) {
        let is_classic = c.on_paced_ack(cx.pools, info, was_frozen);
        cx.stack.counters.tcp.prague_fallbacks += u64::from(is_classic);
    } else if counts && !c.recovery.is_frozen() && !c.ecn_holds_back(cx.pools, info.una) {
        let rtt = c.rtt;
        c.step_congestion(cx.pools, |cc| cc.on_ack(info, &rtt));
    }
    let board = c.board(cx.pools);
    if board.is_some_and(Scoreboard::is_empty) && c.recovery.phase() == Phase::Open {
        c.give_board_back(cx.pools);
    }
    signal
}

/// What an ACK means for recovery, and what congestion control hears of that.
fn signal<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, info: &AckInfo) -> Signal {
    let (sack, mss) = (c.sack(cx.pools), u32::from(c.mss));
    let signal =
        c.step_recovery(cx.pools, |recovery, p| recovery.on_ack(info, sack.get(&p.boards), mss));
    match signal {
        Signal::Enter { flight } => {
            c.remember_undo(cx.pools);
            // A probe that was too long says nothing of congestion (RFC 4821 7.6.1).
            if !c.lost_probe(cx.pools) {
                c.on_congestion(cx.pools, cx.stack.now, Event::Loss { flight });
                c.ecn_is_cut(cx.pools);
            }
            cx.stack.counters.tcp.fast_recoveries += 1;
            E::trace(Trace::RecoveryEnter { ends: c.key.traced(), flight });
            c.wants_turn();
        }
        Signal::Left => {
            // What is in flight has come to ssthresh already where RFC 9937 said how much leaves:
            // no burst is to be feared.
            let is_reduced = info.lost.is_some() && Advice::of(c.settings.congestion()).uses_prr;
            let flight = if is_reduced { u32::MAX } else { info.flight };
            c.on_congestion(cx.pools, cx.stack.now, Event::Recovered { flight });
            c.recovered(cx.pools);
            E::trace(Trace::RecoveryExit { ends: c.key.traced(), from: "fast" });
        }
        Signal::Repaired => {
            E::trace(Trace::RecoveryExit { ends: c.key.traced(), from: "timeout" });
        }
        Signal::Nothing | Signal::Partial { .. } => {}
    }
    signal
}

/// The retransmission timer after new data was acknowledged (RFC 6298 5.2 and 5.3; RFC 6582 4 for
/// partial ACKs).
#[inline(always)]
fn rearm<E: Env>(c: &mut Conn<E>, cx: &Cx<'_>, signal: Signal) {
    if c.outstanding() == 0 {
        c.cancel(Timer::Retransmit);
        c.progress(cx.now, false);
        return;
    }
    c.progress(cx.now, true);
    if signal != (Signal::Partial { first: false }) {
        let rto = c.rtt.rto(&cx.config.tcp);
        let is_burst = c.outstanding() > u32::from(c.mss);
        let wait = if is_burst { c.wait_for_burst(&cx.config.tcp, rto) } else { rto };
        c.arm(Timer::Retransmit, cx.now + wait);
    }
}

/// The round trip that an ACK of new data completes. A segment is timed on our own clock unless it
/// was sent again (Karn); then a timestamp says which of the copies was answered (RFC 7323 4.1), if
/// only in whole milliseconds.
///
/// The same segment measures how fast data arrives; `held` bytes beyond the ACK have arrived too.
#[inline(always)]
fn round_trip<E: Env>(
    now: Instant,
    c: &mut Conn<E>,
    (seg, held): (&Plain, u32),
    cwnd_limited: bool,
) -> Option<Duration> {
    if c.marks.has(Marks::TIMING) {
        return timed_round_trip(now, c, (seg.ack + held, seg.ack), cwnd_limited);
    }
    if c.recovery.phase() == Phase::Open {
        None
    } else {
        echo_age(now, c, seg.ts.map(|(_, echo)| echo))
    }
}

/// The round trip of the segment that is being timed, if `ack` ends it. All up to `arrived` has
/// arrived.
#[inline(always)]
fn timed_round_trip<E: Env>(
    now: Instant,
    c: &mut Conn<E>,
    (arrived, ack): (Seq, Seq),
    cwnd_limited: bool,
) -> Option<Duration> {
    if c.timed_seq.gt(ack) {
        return None;
    }
    c.marks.clear(Marks::TIMING);
    let time = c.times.timed.ago(now);
    let app_limited =
        !cwnd_limited && !c.marks.any(Marks::RWND_LIMITED.with(Marks::SNDBUF_LIMITED));
    c.rate.sample(arrived.since(c.delivered_then), time, app_limited);
    Some(time)
}

/// How long ago the timestamp left of which a segment brings back this `echo`.
pub(crate) fn echo_age<E: Env>(now: Instant, c: &Conn<E>, echo: Option<u32>) -> Option<Duration> {
    let echo = echo.filter(|_| c.marks.has(Marks::TS))?;
    let ms = c.stamp(now).wrapping_sub(echo);
    (ms <= LONGEST_ECHO_MS).then(|| Duration::from_millis(u64::from(ms.max(1))))
}
