//! Dynamic right-sizing: how large a receive window a connection is worth.
//!
//! A window has to be twice what the owner consumes in a round trip, or a sender that doubles its
//! flight in each is held back. It begins at
//! [`TcpConfig::initial_receive_window`](crate::TcpConfig) and doubles while a round trip brings
//! more than half of it, up to [`TcpConfig::max_receive_window`](crate::TcpConfig); not while
//! memory is scarce, and never because of bytes that nobody reads. What was offered is not taken
//! back.
//!
//! ```text
//!   window │                      ╭───────── what the store takes, or the most that is configured
//!          │              ╭───────╯
//!          │      ╭───────╯  consumed in a round trip ≥ window / 2
//!          │──────╯
//!          └──────────────────────────────▶ consumed
//! ```

use clearway_base::{Duration, Instant};

use super::ack;
use super::conn::Conn;
use super::context::Pools;
use super::marks::Marks;
use super::sizes::{MOST, Measured};
use crate::store::{Env, RxStore};

/// So often a window's worth of bytes is looked at.
const LOOKS: u32 = 4;
/// No look is further ahead than this: what seems to be lies behind.
const FARTHEST: u32 = MOST / LOOKS;
/// Timestamps are told in milliseconds, and turns and devices hold segments back: no round trip is
/// taken to be shorter.
const SHORTEST: Duration = Duration::from_millis(1);

impl<E: Env> Conn<E> {
    /// Whether the window is to be looked at ([`look`]): for a connection whose peer sends more
    /// than one segment at a time.
    #[inline(always)]
    pub(super) fn window_is_due(&self) -> bool {
        self.rcv_ahead.look.since(self.rcv.nxt).wrapping_sub(1) >= FARTHEST
    }
}

/// So many bytes have come that the window is looked at: it grows when they were consumed within a
/// round trip.
#[cold]
#[inline(never)]
pub(super) fn look<E: Env>(c: &mut Conn<E>, now: Instant, p: &mut Pools<E>) {
    if c.marks.has(Marks::FIN_WAITS) {
        // The number is that of the FIN by now.
        return;
    }
    let window = p.sizes.window(c.rcv.step);
    c.rcv_ahead.look = c.rcv.nxt + (window / LOOKS).clamp(1, FARTHEST);
    let Some(larger) = p.sizes.next(c.rcv.step) else {
        c.rcv_ahead.look = c.rcv.nxt + FARTHEST;
        return;
    };
    let read = c.read_to(&p.rx);
    let echoed = ack::echo_age(now, c, Some(p.ts_echo)).or_else(|| c.rtt.srtt());
    let Some(rtt) = echoed.map(|rtt| rtt.max(SHORTEST)) else { return };
    let before = c.suffered(p).measured;
    let anew = Measured { since: now, read, rtt };
    if !before.since.is_set() {
        c.note_rare(p, |t| t.measured = anew);
        return;
    }
    let (rtt, time) = (rtt.min(before.rtt), now.since(before.since));
    // Within one round trip: all of it. Over more: what one of them has brought.
    let consumed = u128::from(read.since(before.read)) * u128::from(rtt.as_nanos())
        / u128::from(time.max(rtt).as_nanos().max(1));
    let grows = consumed * 2 >= u128::from(window) && !p.rx.is_scarce();
    if grows {
        c.rcv.step = larger;
        c.rcv_ahead.look = c.rcv.nxt + (p.sizes.window(larger) / LOOKS).clamp(1, FARTHEST);
    }
    let measured = if grows || time > rtt { anew } else { Measured { rtt, ..before } };
    c.note_rare(p, |t| t.measured = measured);
}
