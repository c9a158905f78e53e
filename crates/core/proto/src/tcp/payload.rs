//! RFC 9293 3.10.7.4, step 7: received bytes go to the store, in order or ahead of a hole, and the
//! ACK for them is planned.

use super::clock::Ms;
use super::marks::Marks;
use clearway_base::Instant;
use clearway_pkt::Buf;
use clearway_wire::tcp::Plain;
use clearway_wire::{Flags, Segment, Seq};

use super::conn::Conn;
use super::context::{Arrival, ConnCx, Cx, Pools};
use super::deadlines::Timer;
use super::rcv::{DELAYED, QUICK};
use super::reasm::{self, Reasm};
use super::right_size;
use super::span::Span;
use crate::counters::Drop;
use crate::event::ConnEvents;
use crate::store::{Env, RxStore};

/// Step 7: the payload of a segment whose sequence number, reset, SYN and ACK were looked at.
#[cold]
#[inline(never)]
pub(crate) fn step_7_payload<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
    arrival: &mut Arrival<'_, E::Buf>,
) -> Result<(), Drop> {
    let len = arrival.len();
    if c.marks.has(Marks::ORPHAN) {
        return nobody_reads(c, cx, seg, len);
    }
    let Some(mut buf) = arrival.payload.take() else { return Ok(()) };
    let cut = c.rcv.cut(seg.seq, len, false);
    if cut.len < len {
        // Part of it, or all, was here before or lies beyond the window: the peer shall know soon
        // where we are.
        c.ack_now();
        if cut.front > 0 {
            note_duplicate(c, cx, seg.seq, len);
        }
        if cut.len == 0 {
            return Err(if cut.front == len { Drop::TcpDuplicate } else { Drop::TcpOutOfWindow });
        }
        buf.truncate((cut.front + cut.len) as usize);
        buf.trim_front(cut.front as usize);
    }
    learn_size(c, arrival.meta.segment_size, len);
    let start = seg.seq + cut.front;
    cx.pools.remember_echo(seg.opts.ts);
    if start != c.rcv.nxt || c.marks.has(Marks::HOLE) {
        let is_noted = cut.front > 0 || !cx.config.tcp.dsack;
        let span = Span::with_len(start, cut.len);
        let result = out_of_order(c, cx.pools, (span, is_noted), buf);
        // Half of the window lies behind the hole, or has come in at once.
        if c.window_is_due() || span.end.since(c.rcv.nxt) as i32 > (c.rcv.wnd() / 2) as i32 {
            right_size::look(c, cx.stack.now, cx.pools);
        }
        return result;
    }
    let kept = cx.pools.rx.append(&mut c.rx, buf);
    in_order(c, cx, &seg.plain(), (kept, cut.len))
}

/// The next `len` bytes of the stream, with nothing missing before or behind them. The store has
/// `kept` the first ones.
#[inline(always)]
pub(crate) fn in_order<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Plain,
    (kept, len): (u32, u32),
) -> Result<(), Drop> {
    c.rcv.advance_within(kept);
    if kept > 0 {
        c.tell(ConnEvents::READABLE);
    }
    plan_ack(c, cx, seg);
    if kept < len {
        c.ack_now();
        return Err(Drop::TcpStoreFull);
    }
    Ok(())
}

/// The owner is gone, and these bytes will never be read: the peer is told so with a reset (RFC
/// 9293 3.6.1, RFC 2525 2.17).
#[cold]
fn nobody_reads<E: Env>(
    c: &mut Conn<E>,
    cx: &mut Cx<'_>,
    seg: &Segment,
    len: u32,
) -> Result<(), Drop> {
    if (seg.seq + len).le(c.rcv.nxt) {
        c.ack_now();
        return Err(Drop::TcpDuplicate);
    }
    cx.counters.tcp.resets_after_close += 1;
    c.reset_behind_data();
    Err(Drop::TcpAfterClose)
}

/// Learns the peer's segment size: the largest payload seen, or what the device says that it
/// joined.
#[inline(always)]
fn learn_size<E: Env>(c: &mut Conn<E>, segment_size: u16, len: u32) {
    let size = if segment_size == 0 { len } else { u32::from(segment_size) };
    if size > u32::from(c.rcv_mss) {
        c.rcv_mss = size.min(u32::from(c.our_mss.max(c.rcv_mss))) as u16;
    }
}

/// What a segment in order tells of its sender: see [`learn_size`] and [`count`].
#[inline(always)]
pub(crate) fn note<E: Env>(now: Instant, c: &mut Conn<E>, segment_size: u16, len: u32) {
    learn_size(c, segment_size, len);
    count(now, c, segment_size, len);
}

/// The same, of one that a device has joined.
#[cold]
#[inline(never)]
pub(crate) fn note_joined<E: Env>(now: Instant, c: &mut Conn<E>, segment_size: u16, len: u32) {
    note(now, c, segment_size, len);
}

/// Counts a segment with `len` bytes of payload, or as many as a device joined into it.
#[inline(always)]
pub(crate) fn count<E: Env>(now: Instant, c: &mut Conn<E>, segment_size: u16, len: u32) {
    c.data_heard = Ms::of(now);
    c.data_segs_in = c.data_segs_in.wrapping_add(1);
    let size = u32::from(segment_size);
    if size != 0 && len > size {
        let more = len.div_ceil(size) - 1;
        c.data_segs_in = c.data_segs_in.wrapping_add(more);
        c.segs_in = c.segs_in.wrapping_add(more);
    }
}

/// When the ACK for data in order leaves (RFC 9293 3.8.6.3, RFC 5681 4.2): at once for every second
/// full segment, and while the peer is in slow start, where each ACK lets it go faster: at the
/// start of a connection, as long as it brings ever more ([`right_size::look`]), and when it has lost
/// something ([`super::rcv::Rcv::answer_loss`]); else with the next segment, or after a short
/// while.
///
/// A second segment behind which more was waiting (it was not pushed) counts as full however small
/// it is: such are the peer's full segments.
///
/// Where nothing of ours takes ACKs along ([`super::rcv::PUSHED`]), what was pushed is answered at once: the peer
/// may wait for that, be it for Nagle's sake or because its buffer holds no more.
#[inline(always)]
fn plan_ack<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, seg: &Plain) {
    let quick = c.rcv.quick;
    if quick >= QUICK {
        c.rcv.quick = quick - QUICK;
        c.ack_now();
    } else if c.rcv.nxt.since(c.rcv.acked) >= 2 * u32::from(c.rcv_mss) {
        c.ack_now();
        if c.window_is_due() {
            right_size::look(c, cx.stack.now, cx.pools);
        }
    } else if seg.flags.contains(Flags::PSH) && quick == DELAYED {
        if !c.delack.is_set() {
            c.arm(Timer::DelayedAck, cx.now + cx.config.tcp.delayed_ack);
        }
    } else if c.delack.is_set() || seg.flags.contains(Flags::PSH) {
        c.ack_now();
    } else {
        c.arm(Timer::DelayedAck, cx.now + cx.config.tcp.delayed_ack);
        more_may_follow(c, cx.pools);
    }
}

/// The ACK waits for a second segment, which the peer has: but where so little of the window is left
/// that it cannot send it, what the owner reads is to be told at once.
#[cold]
#[inline(never)]
fn more_may_follow<E: Env>(c: &mut Conn<E>, p: &mut Pools<E>) {
    if c.rcv.wnd() <= p.sizes.window(c.rcv.step) / 2
        && c.window_is_low(p)
        && p.rx.unread(&c.rx) == 0
        && c.window_update_is_due(p)
    {
        c.ack_now();
    }
}

/// What of `len` bytes at `seq` was here before is reported in the next ACK (RFC 2883), and the next
/// ones are not delayed.
pub(crate) fn note_duplicate<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seq: Seq,
    len: u32,
) {
    c.rcv.answer_loss();
    if !c.marks.has(Marks::SACK) || !cx.config.tcp.dsack {
        return;
    }
    let map = c.reasm(cx.pools).get(&cx.pools.reasm);
    if let Some(span) = reasm::duplicate_of(c.rcv.nxt, map, Span::with_len(seq, len)) {
        tell_duplicate(c, cx.pools, span);
    }
}

/// The next ACK shall tell that `span` arrived a second time.
fn tell_duplicate<E: Env>(c: &mut Conn<E>, p: &mut Pools<E>, span: Span) {
    let waits = c.marks.has(Marks::DUPLICATE);
    c.note_rare(p, |t| t.note_duplicate(span, waits));
    c.marks.set(Marks::DUPLICATE);
}

/// Bytes ahead of a hole, or that fill one. Each is answered at once (RFC 5681 4.2), so that the
/// peer's loss recovery has its duplicates.
///
/// `is_noted`: a part of the segment that lies before `span` was here already and is to be
/// reported, or no part ever is. Of several such parts an ACK can report one, and that is the first
/// (RFC 2883 4).
#[cold]
fn out_of_order<E: Env>(
    c: &mut Conn<E>,
    p: &mut Pools<E>,
    (span, is_noted): (Span, bool),
    buf: E::Buf,
) -> Result<(), Drop> {
    c.ack_now();
    if !c.marks.has(Marks::SACK) {
        c.rcv.owed = c.rcv.owed.saturating_add(1);
    }
    if span.start != c.rcv.nxt {
        c.note_rare(p, |t| t.ooo_segs += 1);
    }
    if c.reasm(p).is_none() {
        c.take_reasm(p, Reasm::new());
    }
    let reasm = c.reasm(p);
    let Some(map) = reasm.get(&p.reasm) else {
        return Err(Drop::TcpReassemblyFull);
    };
    c.marks.set(Marks::HOLE);
    if let Some(again) = map.duplicate(span).filter(|_| !is_noted && c.marks.has(Marks::SACK)) {
        tell_duplicate(c, p, again);
    }
    let result = keep_missing(c, p, span, buf);
    let Some(map) = reasm.get_mut(&mut p.reasm) else { return result };
    let joined = map.contiguous_from(c.rcv.nxt);
    let is_empty = map.is_empty();
    if joined > 0 {
        p.rx.advance(&mut c.rx, joined);
        c.rcv.advance(joined);
        c.tell(ConnEvents::READABLE);
    }
    if is_empty {
        c.marks.clear(Marks::HOLE);
        c.rcv.answer_loss();
        // What this turn owed is said by the one ACK behind the hole; the next turn begins anew.
        c.rcv.owed = 0;
        c.give_reasm_back(p);
    }
    result
}

/// Keeps every piece of `span` that is not here yet. Bytes that are here stay as they came first,
/// whatever a later copy says (THREATS 27).
///
/// The last piece keeps the buffer, those before it are copied. Where there is nothing to copy
/// into, the first piece keeps it and the peer sends the rest again.
fn keep_missing<E: Env>(
    c: &mut Conn<E>,
    p: &mut Pools<E>,
    span: Span,
    buf: E::Buf,
) -> Result<(), Drop> {
    let held = c.reasm(p);
    let Pools { reasm, rx, buffers, .. } = p;
    let Some(map) = held.get_mut(reasm) else {
        return Err(Drop::TcpReassemblyFull);
    };
    let Some(mut fresh) = map.missing(span) else {
        return Err(Drop::TcpDuplicate);
    };
    while let Some(next) = map.missing(Span::new(fresh.end, span.end)) {
        let bytes = part(buf.bytes(), span, fresh);
        let Some(copy) = buffers.as_mut().and_then(|make| make(bytes)) else { break };
        keep(&mut c.rx, c.rcv.nxt, rx, map, fresh, copy)?;
        fresh = next;
    }
    let mut buf = buf;
    buf.truncate(fresh.end.since(span.start) as usize);
    buf.trim_front(fresh.start.since(span.start) as usize);
    keep(&mut c.rx, c.rcv.nxt, rx, map, fresh, buf)
}

/// The bytes of `fresh` in `bytes`, which are those of `span`.
fn part(bytes: &[u8], span: Span, fresh: Span) -> &[u8] {
    bytes
        .get(fresh.start.since(span.start) as usize..fresh.end.since(span.start) as usize)
        .unwrap_or(&[])
}

/// Keeps `buf`, which holds the bytes of `fresh`.
fn keep<B: Buf, R: RxStore<B>>(
    queue: &mut R::Queue,
    nxt: Seq,
    rx: &mut R,
    map: &mut Reasm,
    fresh: Span,
    buf: B,
) -> Result<(), Drop> {
    if !map.can_insert(fresh) {
        return Err(Drop::TcpReassemblyFull);
    }
    let kept = rx.write(queue, fresh.start.since(nxt), buf).min(fresh.len());
    let taken = map.insert(Span::with_len(fresh.start, kept));
    debug_assert!(taken.is_ok());
    if kept < fresh.len() { Err(Drop::TcpStoreFull) } else { Ok(()) }
}
