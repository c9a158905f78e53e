//! The life of an open connection: `on_segment` is RFC 9293 3.10.7.4, step by step, and nothing
//! else.

use super::clock::Ms;
use super::marking;
use super::marks::Marks;
use clearway_base::Instant;
use clearway_pkt::Buf;
use clearway_wire::tcp::Plain;
use clearway_wire::{Flags, SackBlocks, Segment};

use super::ack::{self, Said};
use super::cold::Cold;
use super::conn::Conn;
use super::context::{Arrival, Came, ConnCx, Pools};
use super::deadlines::Timer;
use super::established::established;
use super::payload;
use super::state::{Cause, State};
use crate::counters::Drop;
use crate::error::Failure;
use crate::event::ConnEvents;
use crate::payload::Payload;
use crate::store::{Env, RxStore};

/// RFC 7323 5.5: after so many milliseconds without a segment, 24 days, TS.Recent says nothing any
/// more.
const TIMESTAMP_LIFE_MS: u32 = 24 * 24 * 3600 * 1000;

/// Whether a segment is what everybody expects, and nothing is lost or may be: then it is taken by
/// the instance of [`on_expected`] that asks nothing about losses.
#[inline(always)]
pub(crate) fn is_fast_path<E: Env>(c: &Conn<E>, seg: &Plain, len: u32) -> bool {
    const KIND: Marks = Marks::TS
        .with(Marks::HOLE)
        .with(Marks::ORPHAN)
        .with(Marks::FIN_WAITS)
        .with(Marks::ECN)
        .with(Marks::PACED);
    let kind = if seg.ts.is_some() { Marks::TS } else { Marks::default() };
    if c.marks.intersection(KIND) != kind
        || c.state != State::Established
        || seg.flags.without(Flags::PSH) != Flags::ACK
        || seg.seq != c.rcv.nxt
        || len > c.rcv.wnd()
        || seg.ts.is_some_and(|(val, _)| (val.wrapping_sub(c.ts_recent) as i32) < 0)
    {
        return false;
    }
    let (acked, out) = (seg.ack.since(c.snd.una), c.outstanding());
    // An ACK without news while something is out may be a duplicate.
    let advances = len > 0 || acked != 0 || out == 0;
    debug_assert!(acked > out || is_expected(c, seg, len));
    acked <= out && advances && c.recovery.is_lossless()
}

/// Flags that an expected segment may have.
const EXPECTED: Flags = Flags::PSH.union(Flags::ACE);

/// The payload of a segment, wherever it lies.
pub(crate) trait Bytes<B> {
    /// How many there are.
    fn len(&self) -> u32;
    /// The size of the segments that a device has joined into it; 0 when it has not.
    fn segment_size(&self) -> u16;
    /// The buffer that holds them, behind so many other bytes.
    fn take(self) -> Option<(B, u32)>;
}

impl<B: Buf> Bytes<B> for Payload<'_, B> {
    #[inline(always)]
    fn len(&self) -> u32 {
        self.len
    }

    #[inline(always)]
    fn segment_size(&self) -> u16 {
        Payload::segment_size(self)
    }

    #[inline(always)]
    fn take(self) -> Option<(B, u32)> {
        let front = self.front;
        Some((Payload::take(self)?, front))
    }
}

impl<B: Buf> Bytes<B> for &mut Arrival<'_, B> {
    #[inline(always)]
    fn len(&self) -> u32 {
        Arrival::len(self)
    }

    #[inline(always)]
    fn segment_size(&self) -> u16 {
        self.meta.segment_size
    }

    #[inline(always)]
    fn take(self) -> Option<(B, u32)> {
        Some((self.payload.take()?, 0))
    }
}

/// A segment that is what everybody expects: steps 1 to 4, 6 and 8 would find nothing, and its ACK
/// is in range (header prediction). `LOSSLESS`: it [`is_fast_path`].
#[inline(always)]
pub(crate) fn on_expected<E: Env, const LOSSLESS: bool>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    (seg, sack): (&Plain, &SackBlocks),
    payload: impl Bytes<E::Buf>,
) -> Result<(), Drop> {
    let len = payload.len();
    c.segs_in = c.segs_in.wrapping_add(1);
    ack::digest::<E, LOSSLESS>(c, cx, Said { seg, len, sack });
    heard::<E, LOSSLESS>(c, cx.now, seg);
    let segment_size = payload.segment_size();
    if len == 0 {
        core::mem::drop(payload.take());
        return Ok(());
    }
    if segment_size == 0 {
        payload::note(cx.now, c, 0, len);
    } else {
        payload::note_joined(cx.now, c, segment_size, len);
    }
    let Some((buf, front)) = payload.take() else { return Ok(()) };
    cx.pools.remember_echo(seg.ts);
    let kept = cx.pools.rx.append_part(&mut c.rx, buf, front, len);
    payload::in_order(c, cx, seg, (kept, len))
}

/// A segment for an open connection.
#[inline(always)]
pub(crate) fn on_segment<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    arrival: &mut Arrival<'_, E::Buf>,
) -> Result<(), Drop> {
    let seg = arrival.seg;
    #[cfg(test)]
    let steps = cx.pools.instances == super::context::Instances::StepByStep;
    #[cfg(not(test))]
    let steps = false;
    if !steps && is_expected(c, &seg.plain(), arrival.len()) {
        if c.marks.has(Marks::ECN) {
            marking::arrived(c, cx, seg, arrival.came());
        }
        return on_expected::<E, false>(c, cx, (&seg.plain(), &seg.opts.sack), arrival);
    }
    c.segs_in = c.segs_in.wrapping_add(1);
    on_other(c, cx, arrival)
}

/// Any segment that is not what everybody expects.
#[cold]
#[inline(never)]
fn on_other<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    arrival: &mut Arrival<'_, E::Buf>,
) -> Result<(), Drop> {
    let len = arrival.len();
    if len > 0 {
        payload::count(cx.now, c, arrival.meta.segment_size, len);
    }
    if matches!(c.state, State::Closed | State::Listen | State::SynSent | State::TimeWait) {
        return Err(Drop::TcpAfterClose);
    }
    if c.is_early() && step_0_same_syn(c, cx, arrival.seg) {
        return Ok(());
    }
    let completed = step_0_simultaneous_open(c, arrival.seg);
    let seg = completed.as_ref().unwrap_or(arrival.seg);
    step_1_timestamp(c, cx, seg, len)?;
    step_1_sequence(c, cx, seg, len)?;
    step_2_reset(c, cx, seg)?;
    // Step 3 is about security labels, which RFC 9293 A.1 leaves to those who use them.
    step_4_syn(c, cx, seg)?;
    step_5_ack(c, cx, seg, arrival.came())?;
    // Only a segment whose ACK was believed may say which timestamp is the latest: a stranger who
    // guesses the window alone could otherwise make all honest segments look old (RFC 7323 7.1).
    heard::<E, false>(c, cx.now, &seg.plain());
    step_6_urgent(c, cx.pools, seg);
    step_7_and_8(c, cx, seg, arrival)
}

/// Whether a segment is what everybody expects: the next data or an ACK, in order, in the window,
/// with nothing special about it.
#[inline(always)]
fn is_expected<E: Env>(c: &Conn<E>, seg: &Plain, len: u32) -> bool {
    let stamp_is_good = match (seg.ts, c.marks.has(Marks::TS)) {
        (Some((val, _)), true) => val.wrapping_sub(c.ts_recent) as i32 >= 0,
        (None, false) => true,
        _ => false,
    };
    c.state == State::Established
        && seg.flags.without(EXPECTED) == Flags::ACK
        && seg.seq == c.rcv.nxt
        && len <= c.rcv.wnd()
        && !c.marks.any(Marks::HOLE.with(Marks::ORPHAN).with(Marks::FIN_WAITS))
        && seg.ack.since(c.snd.una) <= c.outstanding()
        && stamp_is_good
}

/// The peer lives: notes when, and which timestamp to echo (RFC 7323 4.3, rule 2). `EXPECTED`: the
/// segment has timestamps when they are in use, and its own is not older than the last.
#[inline(always)]
fn heard<E: Env, const EXPECTED: bool>(c: &mut Conn<E>, now: Instant, seg: &Plain) {
    if let Some((val, _)) = seg.ts.filter(|_| EXPECTED || c.marks.has(Marks::TS)) {
        let is_newer = EXPECTED || val.wrapping_sub(c.ts_recent) as i32 >= 0 || is_outdated(now, c);
        if seg.seq.le(c.rcv.acked) && is_newer {
            c.ts_recent = val;
        }
    }
    c.heard = Ms::of(now);
    if c.marks.any(Marks::PERSIST.with(Marks::PROBING)) {
        // An answer to a probe: the peer lives, however little it takes (RFC 9293 3.8.6.1: the
        // connection stays open as long as it answers). Without an owner this holds too, or written
        // bytes would be lost on a slow reader; the want of room for others ends it (THREATS 17).
        c.recovery.tries = 0;
        c.marks.clear(Marks::PROBING);
    }
}

/// RFC 7323 5.5: the peer was heard so long ago that TS.Recent says nothing any more. Whatever is
/// heard is no older than TS.Recent, or was taken for this.
fn is_outdated<E: Env>(now: Instant, c: &Conn<E>) -> bool {
    c.heard.ms_ago(now) > TIMESTAMP_LIFE_MS
}

fn seconds(now: Instant) -> u32 {
    (now.as_millis() / 1000) as u32
}

/// In a simultaneous open both sides answer a SYN with SYN and ACK, which repeats the SYN and so
/// lies one before the window. Its ACK is good all the same: taken as what follows the SYN, it
/// completes the handshake (RFC 9293 3.5, figure 8).
///
/// None: it is no such segment.
#[inline(always)]
fn step_0_simultaneous_open<E: Env>(c: &Conn<E>, seg: &Segment) -> Option<Segment> {
    if c.state == State::SynReceived { without_syn(c, seg) } else { None }
}

#[cold]
#[inline(never)]
fn without_syn<E: Env>(c: &Conn<E>, seg: &Segment) -> Option<Segment> {
    let repeats_syn = seg.flags.syn() && seg.flags.ack() && !seg.flags.rst() && seg.seq == c.irs;
    let completes = repeats_syn && seg.ack.gt(c.snd.una) && seg.ack.le(c.snd.nxt);
    // The window of a segment with SYN is never scaled (RFC 7323 2.2), but from here on it will be.
    completes.then(|| Segment {
        flags: seg.flags.without(Flags::SYN),
        seq: seg.seq + 1,
        wnd: seg.wnd >> c.snd.shift,
        ..*seg
    })
}

/// The SYN again, with which a Fast Open cookie opened the connection: our SYN-ACK was lost, or is
/// late.
fn step_0_same_syn<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, seg: &Segment) -> bool {
    let same = seg.flags.syn() && !seg.flags.ack() && !seg.flags.rst() && seg.seq == c.irs;
    if same {
        cx.counters.tcp.syn_acks_repeated += 1;
        c.marks.set(Marks::SYN_DUE.with(Marks::EMIT));
    }
    same
}

/// PAWS (RFC 7323 5.3, R1): a segment older than what was seen is a ghost. Resets are exempt (RFC
/// 7323 5.2).
fn step_1_timestamp<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
    len: u32,
) -> Result<(), Drop> {
    if !c.marks.has(Marks::TS) || seg.flags.rst() {
        return Ok(());
    }
    let Some((val, _)) = seg.opts.ts else {
        // RFC 7323 3.2: once agreed on, a segment without timestamps SHOULD be dropped silently.
        return Err(Drop::TcpTimestampMissing);
    };
    if val.wrapping_sub(c.ts_recent) as i32 >= 0 || is_outdated(cx.now, c) {
        return Ok(());
    }
    answer_unacceptable(c, cx, len);
    Err(Drop::TcpOldTimestamp)
}

/// Step 1: does the segment lie in the window?
fn step_1_sequence<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
    len: u32,
) -> Result<(), Drop> {
    let seq_len = seg.seq_len(len as usize);
    if c.rcv.is_acceptable(seg.seq, seq_len) {
        return Ok(());
    }
    // A peer that has filled the window says so with every ACK, which then stands right behind it,
    // and so may its FIN. The letter of the test refuses them, and with losses both ways each side
    // would wait for the other's timer.
    if len == 0 && seg.seq == c.rcv.edge && !seg.flags.intersects(Flags::RST | Flags::SYN) {
        return Ok(());
    }
    // RFC 9293 3.10.7.4, step 1: with a window of zero, valid ACKs, URGs and RSTs are still taken
    // from the segment that would be next.
    if c.rcv.wnd() == 0 && seg.seq == c.rcv.nxt && !seg.flags.syn() {
        c.ack_now();
        return Ok(());
    }
    if seg.flags.rst() {
        return Err(Drop::TcpResetOutOfWindow);
    }
    let is_old = (seg.seq + seq_len).le(c.rcv.nxt);
    if is_old && len > 0 {
        payload::note_duplicate(c, cx, seg.seq, len);
    }
    answer_unacceptable(c, cx, len);
    Err(if is_old { Drop::TcpDuplicate } else { Drop::TcpOutOfWindow })
}

/// An unacceptable segment is answered with an ACK. Data is always answered, because its sender may
/// wait for nothing else; what carries none only within the budget, or two ends that disagree would
/// send each other ACKs for ever.
fn answer_unacceptable<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, len: u32) {
    if len > 0 || may_challenge(c, cx) {
        c.ack_now();
    }
}

/// A challenge ACK (RFC 5961 3.2, 4.2, 5.2).
pub(crate) fn challenge<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    if may_challenge(c, cx) {
        cx.counters.tcp.challenge_acks += 1;
        c.ack_now();
    }
}

/// The budget for ACKs that a stranger may provoke. It is this connection's own and drawn anew each
/// second: a counter that all connections share would tell a stranger about other people's
/// connections (CVE-2016-5696), and one of fixed size could be counted down.
fn may_challenge<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) -> bool {
    let second = seconds(cx.now) as u8;
    let Cold { challenge_second, challenges: mut left, .. } = c.cold(cx.pools);
    if challenge_second != second || left == u8::MAX {
        let limit = u64::from(cx.config.limits.challenge_acks_per_second.clamp(1, u8::MAX - 1));
        left = cx.pools.rng.between(limit.div_ceil(2), limit) as u8;
    }
    if left == 0 {
        cx.counters.tcp.challenge_acks_limited += 1;
        return false;
    }
    c.note_rare(cx.pools, |t| (t.cold.challenge_second, t.cold.challenges) = (second, left - 1));
    // Without a place to count it there is none: nothing that a stranger provokes goes uncounted.
    !c.rare.is_none()
}

/// Step 2: a reset counts only when it hits RCV.NXT exactly; elsewhere in the window it is
/// challenged (RFC 5961 3.2).
fn step_2_reset<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
) -> Result<(), Drop> {
    if !seg.flags.rst() {
        return Ok(());
    }
    if seg.seq != c.rcv.nxt {
        challenge(c, cx);
        return Err(Drop::TcpResetNotExact);
    }
    if c.state == State::SynReceived {
        cx.counters.tcp.attempt_fails += 1;
        c.fail(if c.is_early() { Failure::Reset } else { Failure::Refused });
    } else if matches!(c.state, State::Closing | State::LastAck) && c.snd.una.lt(c.snd_ahead.end) {
        // RFC 9293 3.10.7.4, step 2, would tell nobody, but bytes are lost that their owner was
        // told had been taken.
        c.go(Cause::Reset);
        c.fail(Failure::Reset);
    } else if matches!(c.state, State::Closing | State::LastAck) {
        // RFC 9293 3.10.7.4, step 2: both sides were done, so nobody is told of a failure.
        c.go(Cause::Reset);
        c.end();
        c.tell(ConnEvents::CLOSED);
    } else {
        cx.counters.tcp.established_resets += 1;
        c.go(Cause::Reset);
        c.fail(Failure::Reset);
    }
    // The reset was taken: nothing else of the segment is.
    Err(Drop::TcpReset)
}

/// Step 4: a SYN for a connection that exists is challenged, wherever it lies (RFC 5961 4.2).
fn step_4_syn<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
) -> Result<(), Drop> {
    if !seg.flags.syn() {
        return Ok(());
    }
    challenge(c, cx);
    Err(Drop::TcpSynInWindow)
}

/// Step 5: the ACK.
fn step_5_ack<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
    came: Came,
) -> Result<(), Drop> {
    if !seg.flags.ack() {
        return Err(Drop::TcpNoAck);
    }
    if c.state == State::SynReceived {
        if !(seg.ack.gt(c.iss) && seg.ack.le(c.snd.nxt)) {
            cx.stack.reset_for(&c.key, seg, came.len);
            return Err(Drop::TcpBadAck);
        }
        c.set_window(u32::from(seg.wnd) << c.snd.shift, seg.seq, seg.ack);
        let early = c.is_early();
        established(c, cx);
        c.go(Cause::SynAcked);
        if c.outstanding() > 0 {
            c.arm(Timer::Retransmit, cx.now + c.rtt.rto(&cx.config.tcp));
        }
        match early {
            // Its owner has had it from the beginning.
            true => cx.pools.fast_open.done(&c.key),
            false => c.tell(ConnEvents::CONNECTED),
        }
    } else if !c.ack_is_acceptable(seg.ack) {
        // RFC 5961 5.2: neither an ACK of what was never sent nor one from long ago is believed.
        challenge(c, cx);
        return Err(if seg.ack.gt(c.snd.nxt) { Drop::TcpAckUnsent } else { Drop::TcpAckTooOld });
    }
    if c.marks.has(Marks::ECN) {
        marking::arrived(c, cx, seg, came);
    }
    let len = came.len;
    ack::digest::<E, false>(c, cx, Said { seg: &seg.plain(), len, sack: &seg.opts.sack });
    if c.marks.has(Marks::FIN_SENT) && c.snd.una.gt(c.snd_ahead.end) {
        fin_acked(c, cx);
    }
    Ok(())
}

/// Our FIN is acknowledged.
fn fin_acked<E: Env>(c: &mut Conn<E>, cx: &ConnCx<'_, '_, E>) {
    match c.state {
        State::FinWait1 => {
            c.go(Cause::FinAcked);
            if c.marks.has(Marks::ORPHAN) {
                c.arm(Timer::Orphan, cx.now + c.fin_wait_2(cx.pools, &cx.config.tcp));
            }
        }
        State::Closing => {
            c.go(Cause::FinAcked);
            to_time_wait(c);
        }
        State::LastAck => {
            c.go(Cause::FinAcked);
            c.end();
            c.tell(ConnEvents::CLOSED);
        }
        _ => {}
    }
}

fn to_time_wait<E: Env>(c: &mut Conn<E>) {
    c.marks.set(Marks::TO_WAIT);
    c.tell(ConnEvents::CLOSED);
}

/// Step 6: urgent data is announced, and stays in the stream (RFC 6093 4 and 6: the pointer names
/// the byte *behind* it).
#[inline(always)]
fn step_6_urgent<E: Env>(c: &mut Conn<E>, p: &mut Pools<E>, seg: &Segment) {
    if seg.flags.contains(Flags::URG) && seg.urg != 0 && c.state.peer_may_send() {
        is_urgent(c, p, seg);
    }
}

#[cold]
#[inline(never)]
fn is_urgent<E: Env>(c: &mut Conn<E>, p: &mut Pools<E>, seg: &Segment) {
    let up = seg.seq + u32::from(seg.urg);
    // A pointer to what was received long ago, or that does not go further than the last one, is no
    // news.
    let advances = if c.settings.urgent_waits() {
        up.gt(c.suffered(p).cold.rcv_urgent)
    } else {
        up.gt(c.rcv.nxt)
    };
    if advances {
        c.note_rare(p, |t| t.cold.rcv_urgent = up);
        c.settings.set_urgent_waits(true);
        p.rx.urgent(&mut c.rx, up.since(c.rcv.nxt));
        c.tell(ConnEvents::URGENT);
    }
}

/// Steps 7 and 8: the payload and the FIN.
pub(super) fn step_7_and_8<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
    arrival: &mut Arrival<'_, E::Buf>,
) -> Result<(), Drop> {
    let len = arrival.len();
    if !c.state.peer_may_send() {
        // RFC 9293: after the peer's FIN, text and FIN are ignored; such segments are unacceptable
        // anyway.
        return if len > 0 { Err(Drop::TcpAfterClose) } else { Ok(()) };
    }
    if c.marks.has(Marks::FIN_WAITS) {
        // The stream ends where the FIN stood that came first; nothing behind it is part of it.
        let before_fin =
            if c.rcv_ahead.look.gt(seg.seq) { c.rcv_ahead.look.since(seg.seq) } else { 0 };
        if let Some(payload) = arrival.payload.as_mut().filter(|_| len > before_fin) {
            payload.truncate(before_fin as usize);
        }
        if seg.flags.fin() {
            c.ack_now();
        }
    } else if c.rcv.cut(seg.seq, len, seg.flags.fin()).fin {
        c.rcv_ahead.look = seg.seq + len;
        c.marks.set(Marks::FIN_WAITS);
        c.ack_now();
    }
    let taken =
        if arrival.len() > 0 { payload::step_7_payload(c, cx, seg, arrival) } else { Ok(()) };
    step_8_fin(c);
    taken
}

/// Step 8: the FIN, once everything before it is here.
fn step_8_fin<E: Env>(c: &mut Conn<E>) {
    if !c.marks.has(Marks::FIN_WAITS) || c.state == State::Closed {
        return;
    }
    if c.rcv_ahead.look != c.rcv.nxt {
        // Something before it is missing. The segments that bring it, and the FIN itself, ask for
        // ACKs; a pure ACK must not, or two ends that both wait would answer each other for ever.
        return;
    }
    c.marks.clear(Marks::FIN_WAITS);
    c.marks.set(Marks::PEER_FIN);
    c.rcv.advance(1);
    c.ack_now();
    c.tell(ConnEvents::PEER_CLOSED);
    let before = c.state;
    c.go(Cause::Fin);
    if before == State::FinWait2 {
        to_time_wait(c);
    }
}
