//! The timers of a connection: what they wait for, and which of them share a deadline because only
//! one of them runs at a time. A connection has one place in the wheel, for the earliest of its
//! deadlines; [`super::timers`] says what happens when one is due.

use super::clock::{DueFar, DueTick};
use super::marks::{BUSY, Marks};
use clearway_base::Instant;

use super::conn::Conn;
use crate::store::Env;

/// A timer of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// Retransmission of what is in flight, or of our SYN (RFC 6298 5).
    Retransmit,
    /// What may be lost, or only late, is lost by then (RFC 8985 6.3).
    Reordering,
    /// The peer's window is shut, or too small to send (RFC 9293 3.8.6.1).
    Persist,
    /// An ACK that waits for a better reason to leave (RFC 9293 3.8.6.3).
    DelayedAck,
    /// The peer is asked whether it lives (RFC 9293 3.8.4).
    Keepalive,
    /// The end of FIN-WAIT-2, or a look at what the peer of a connection without owner has taken.
    Orphan,
    /// Nothing makes progress for so long (RFC 9293 3.8.3, RFC 5482). It follows from other times
    /// and is never armed.
    UserTimeout,
}

/// A deadline, which several timers share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Slot {
    /// What is sent, or may not be, waits for the peer.
    Send,
    /// Our ACK waits.
    Ack,
    /// The connection itself.
    Life,
    /// None: see [`Timer::UserTimeout`].
    Derived,
}

impl Timer {
    #[inline(always)]
    const fn slot(self) -> Slot {
        match self {
            Timer::Retransmit | Timer::Reordering | Timer::Persist => Slot::Send,
            Timer::DelayedAck => Slot::Ack,
            Timer::Keepalive | Timer::Orphan => Slot::Life,
            Timer::UserTimeout => Slot::Derived,
        }
    }

    /// The mark that tells it from the others that share its deadline.
    #[inline(always)]
    const fn mark(self) -> Marks {
        match self {
            Timer::Persist => Marks::PERSIST,
            Timer::Reordering => Marks::REORDERING,
            _ => Marks::NONE,
        }
    }
}

/// The marks of the timers that share the deadline of what is sent.
const SENDING: Marks = Marks::PERSIST.with(Marks::REORDERING);

impl<E: Env> Conn<E> {
    /// `timer` fires at `at`, and no other that shares its deadline.
    #[inline(always)]
    pub(crate) fn arm(&mut self, timer: Timer, at: Instant) {
        if timer.slot() == Slot::Send {
            self.marks.clear(SENDING);
            self.marks.set(timer.mark());
        }
        if self.move_deadline(timer, at) {
            self.marks.set(Marks::REARM);
        }
    }

    /// The part of [`Conn::arm`] that writes no mark; true: [`Marks::REARM`] is to be set.
    #[inline(always)]
    pub(crate) fn move_deadline(&mut self, timer: Timer, at: Instant) -> bool {
        self.put_deadline(timer, at);
        !self.is_watched_before(at)
    }

    /// Neither `timer` nor another that shares its deadline fires. Only the mark of `timer` is
    /// cleared: another's means nothing from now on.
    #[inline(always)]
    pub(crate) fn cancel(&mut self, timer: Timer) {
        self.marks.clear(timer.mark());
        match timer.slot() {
            Slot::Send => self.times.send = Instant::NEVER,
            Slot::Ack => self.delack = DueTick::NEVER,
            Slot::Life => self.times.life = DueFar::NEVER,
            Slot::Derived => debug_assert!(false, "{timer:?} is never armed"),
        }
    }

    #[inline(always)]
    fn put_deadline(&mut self, timer: Timer, at: Instant) {
        match timer.slot() {
            Slot::Send => self.times.send = at,
            Slot::Ack => self.delack = DueTick::of(at),
            Slot::Life => self.times.life = DueFar::at(at),
            Slot::Derived => debug_assert!(false, "{timer:?} is never armed"),
        }
    }

    /// When `timer`, or another that shares its deadline, fires.
    #[inline(always)]
    pub(crate) fn deadline(&self, timer: Timer, now: Instant) -> Instant {
        match timer.slot() {
            Slot::Send => self.times.send,
            Slot::Ack => self.delack.seen_from(now),
            Slot::Life => self.times.life.seen_from(now),
            // It follows from other times ([`super::timers`]).
            Slot::Derived => Instant::NEVER,
        }
    }

    /// No segment comes or goes any more: no deadline, nothing to do.
    pub(crate) fn stop(&mut self) {
        for timer in [Timer::Retransmit, Timer::DelayedAck, Timer::Keepalive] {
            self.cancel(timer);
        }
        self.marks.clear(BUSY);
    }

    /// The turn is over, and the delayed ACK was perhaps not part of it.
    #[inline]
    pub(crate) fn rearm_delack(&mut self, now: Instant) {
        if self.delack.is_set() {
            self.arm(Timer::DelayedAck, self.delack.seen_from(now));
        }
    }

    /// Which of the timers of what is sent runs.
    #[inline]
    pub(crate) fn sending_timer(&self) -> Timer {
        match self.marks {
            marks if marks.has(Marks::PERSIST) => Timer::Persist,
            marks if marks.has(Marks::REORDERING) => Timer::Reordering,
            _ => Timer::Retransmit,
        }
    }

    /// Which of the timers of the connection itself runs.
    #[inline]
    pub(crate) fn life_timer(&self) -> Timer {
        if self.marks.has(Marks::ORPHAN) { Timer::Orphan } else { Timer::Keepalive }
    }
}
