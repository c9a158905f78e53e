//! Dynamic right-sizing: how large a receive window a connection is worth.
//!
//! A window has to be twice what the owner consumes in a round trip: what is on its way, and as
//! much again until the sender hears of it. For a sender that doubles its flight in each round
//! trip it has to be ten times as much: what is measured is a round trip old, the next measurement
//! comes a round trip later, and the window doubles as a whole. It would else hold the sender back,
//! and let all that waited go at once when it grows, into a queue on the way that may not take it.
//! It begins at [`TcpConfig::initial_receive_window`](crate::TcpConfig) and doubles until that is
//! met, up to [`TcpConfig::max_receive_window`](crate::TcpConfig); not while memory is scarce, and
//! never because of bytes that nobody reads. What lies behind a hole is added: its sender goes on
//! while the hole is filled. What was offered is not taken back.
//!
//! ```text
//!   window │                      ╭───────── what the store takes, or the most that is configured
//!          │              ╭───────╯
//!          │      ╭───────╯  consumed in a round trip ≥ window / 2, or growing towards it
//!          │──────╯
//!          └──────────────────────────────▶ consumed
//! ```

use clearway_base::{Duration, Instant};

use super::ack;
use super::conn::Conn;
use super::context::Pools;
use super::marks::Marks;
use super::rcv::QUICK;
use super::sizes::{MOST, Measured};
use crate::store::{Env, RxStore};

/// So often a window's worth of bytes is looked at: often enough that a sender in slow start, which
/// sends a round trip's worth in one go, has a larger window before it is told that all of that
/// arrived.
const LOOKS: u32 = 16;
/// No look is further ahead than this: what seems to be lies behind.
const FARTHEST: u32 = MOST / LOOKS;
/// Timestamps are told in milliseconds, and turns and devices hold segments back: no round trip is
/// taken to be shorter.
const SHORTEST: Duration = Duration::from_millis(1);

/// A measurement ends when all of a round trip is over but for one of so many parts. A sender in
/// slow start sends in one go: when each ended a little later in what it sends than the one before,
/// the next would show what came before it, half as much.
const ROUND_PARTS: u64 = 8;

impl<E: Env> Conn<E> {
    /// Whether the window is to be looked at ([`look`]): for a connection whose peer sends more
    /// than one segment at a time.
    #[inline(always)]
    pub(super) fn window_is_due(&self) -> bool {
        self.rcv_ahead.look.since(self.rcv.nxt).wrapping_sub(1) >= FARTHEST
    }
}

/// So many bytes have come that the window is looked at: it grows when they were consumed within a
/// round trip, or lie behind a hole.
#[cold]
#[inline(never)]
pub(super) fn look<E: Env>(c: &mut Conn<E>, now: Instant, p: &mut Pools<E>) {
    if c.marks.has(Marks::FIN_WAITS) {
        // The number is that of the FIN by now.
        return;
    }
    next_look(c, p);
    if p.sizes.next(c.rcv.step).is_none() {
        c.rcv_ahead.look = c.rcv.nxt + FARTHEST;
        return;
    }
    let read = c.read_to(&p.rx);
    let echoed = ack::echo_age(now, c, Some(p.ts_echo)).or_else(|| c.rtt.srtt());
    let Some(rtt) = echoed.map(|rtt| rtt.max(SHORTEST)) else { return };
    let rtt_us = u32::try_from(rtt.as_micros()).unwrap_or(u32::MAX);
    let before = c.suffered(p).measured;
    let anew = Measured { since: now, read, rtt_us, ..before };
    if !before.since.is_set() {
        ack_each(c);
        c.note_rare(p, |t| t.measured = anew);
        return;
    }
    let rtt_us = rtt_us.min(before.rtt_us);
    let (rtt, time) = (Duration::from_micros(rtt_us.into()), now.since(before.since));
    let is_round = time.as_nanos() >= rtt.as_nanos() / ROUND_PARTS * (ROUND_PARTS - 1);
    // Within one round trip: all of it. Over more: what one of them has brought.
    let over = if is_round { time } else { rtt };
    let consumed = u128::from(read.since(before.read)) * u128::from(rtt.as_nanos())
        / u128::from(over.as_nanos().max(1));
    let consumed = consumed.min(MOST.into()) as u32;
    if !p.rx.is_scarce() {
        let wanted = Wanted::of(consumed, before.most, early(c, p));
        while let Some(larger) = p
            .sizes
            .next(c.rcv.step)
            .filter(|&larger| wanted.is_more(p.sizes.window(c.rcv.step), p.sizes.window(larger)))
        {
            c.rcv.step = larger;
        }
        next_look(c, p);
    }
    let doubles = doubles(consumed, before.most);
    if doubles || before.doubled {
        ack_each(c);
    }
    // Nothing is consumed while something is missing, and twice as much afterwards: that is one
    // measurement.
    let ends = is_round && !c.marks.has(Marks::HOLE);
    let measured = if ends {
        Measured { most: before.most.max(consumed), doubled: doubles, ..anew }
    } else {
        Measured { rtt_us, ..before }
    };
    c.note_rare(p, |t| t.measured = measured);
}

/// A part of the window on.
fn next_look<E: Env>(c: &mut Conn<E>, p: &Pools<E>) {
    c.rcv_ahead.look = c.rcv.nxt + (p.sizes.window(c.rcv.step) / LOOKS).clamp(1, FARTHEST);
}

/// A sender in slow start gets an ACK for each segment until the next look, as far as they can be
/// counted. With an ACK for every second it sends four segments at a time, where Linux lets it send
/// two, and loses more of them in a short queue.
fn ack_each<E: Env>(c: &mut Conn<E>) {
    let ahead = c.rcv_ahead.look.since(c.rcv.nxt) / u32::from(c.rcv_mss).max(1);
    let most = u32::from(u8::MAX / QUICK);
    c.rcv.answer_quickly(ahead.min(most) as u8);
}

/// How far the last byte that is held behind a hole lies ahead: its sender goes on from there while
/// the hole is filled.
fn early<E: Env>(c: &Conn<E>, p: &Pools<E>) -> u32 {
    let map = c.reasm(p).get(&p.reasm);
    let last = map.and_then(|map| map.parts().0.last());
    last.map_or(0, |span| span.end.since(c.rcv.nxt))
}

/// Whether a sender seems to be in slow start, where a round trip brings about twice as much as any
/// before.
fn doubles(consumed: u32, most: u32) -> bool {
    consumed > most && consumed - most >= most / 2
}

/// The window that a sender needs.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    /// While it goes on as it does: as much on its way as was consumed, and as much again which it
    /// is told of a round trip later.
    now: u64,
    /// While it goes faster in each round trip.
    growing: u64,
}

impl Wanted {
    /// Of one from whom a round trip has brought `consumed`, none before it more than `most`, and
    /// whose last byte behind a hole lies so `early`.
    ///
    /// A sender in slow start has twice as much on its way when what is measured here has been
    /// acknowledged, and twice that when the next measurement ends, a round trip later. A `next`
    /// window of ten times as much leaves one of five times at least until then.
    fn of(consumed: u32, most: u32, early: u32) -> Wanted {
        let (consumed, most) = (u64::from(consumed), u64::from(most));
        let more = consumed.saturating_sub(most);
        let now = 2 * consumed + u64::from(early);
        let faster = (8 * consumed * more / most.max(1)).min(8 * consumed);
        Wanted { now, growing: now + faster }
    }

    /// Whether a `window` is too small, and the `next` one is not too large.
    fn is_more(self, window: u32, next: u32) -> bool {
        self.now >= u64::from(window) || self.growing >= u64::from(next)
    }
}

#[cfg(test)]
mod tests;
