//! What happens when time passes. A connection has several deadlines and one place in the wheel, at
//! the earliest of them or before it: a deadline that moves away is only written down, and the
//! wheel looks again when the old one is due.

use super::marks::Marks;
use clearway_base::{Duration, Instant};

use super::ack;
use super::cc::Event;
use super::conn::Conn;
use super::context::{ConnCx, Cx, Pools};
use super::deadlines::Timer;
use super::probe;
use super::rcv::PUSHED;
use super::recovery::Phase;
use super::right_size;
use super::state::{Cause, State};
use crate::error::Failure;
use crate::store::Env;
use crate::trace::Trace;

/// Retransmissions for a connection without owner before it is given up: nobody waits for it.
const ORPHAN_RETRIES: u8 = 8;

/// Bytes that the peer of a connection without owner has to acknowledge in
/// [`crate::TcpConfig::orphan`].
const ORPHAN_PROGRESS: u32 = 4096;

/// When a timer that found frames unread looks again.
const UNREAD_PAUSE: Duration = Duration::from_micros(100);

/// The earliest instant at which something is to be done.
#[inline]
pub(crate) fn earliest<E: Env>(now: Instant, c: &Conn<E>, p: &Pools<E>) -> Instant {
    c.deadline(Timer::DelayedAck, now).min(earliest_but_delack(now, c, p))
}

/// The same, without the ACK that may wait.
#[inline]
pub(crate) fn earliest_but_delack<E: Env>(now: Instant, c: &Conn<E>, p: &Pools<E>) -> Instant {
    let armed = c.deadline(Timer::Retransmit, now).min(c.deadline(Timer::Keepalive, now));
    if c.settings.has_user_timeout() { armed.min(c.user_deadline(now, p)) } else { armed }
}

impl<E: Env> Conn<E> {
    /// Whether the ACK that waits is all that the wheel has to be told of.
    #[inline]
    pub(crate) fn waits_only_to_ack(&self, now: Instant, p: &Pools<E>) -> bool {
        let other = earliest_but_delack(now, self, p);
        let is_known = !other.is_set() || self.is_watched_before(other);
        is_known && self.delack.is_set() && self.marks.has(Marks::REARM)
    }

    /// When the user timeout ends a connection that makes no progress.
    #[cold]
    fn user_deadline(&self, now: Instant, p: &Pools<E>) -> Instant {
        let most = self.user_timeout(p);
        if most == Duration::ZERO || !self.marks.has(Marks::STUCK) {
            return Instant::NEVER;
        }
        now + (most - self.times.stuck_since.ago(now))
    }
}

/// The wheel says that something may be due: all timers that are fire, the one that may end the
/// connection before those that send.
pub(crate) fn on_time<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    for timer in [Timer::DelayedAck, Timer::UserTimeout, c.sending_timer(), c.life_timer()] {
        let due = match timer {
            Timer::UserTimeout => c.user_deadline(cx.now, cx.pools),
            timer => c.deadline(timer, cx.now),
        };
        if due <= cx.now && !c.marks.has(Marks::GONE) {
            match timer {
                Timer::Retransmit | Timer::Reordering if cx.pools.may_be_answered(cx.now) => {
                    c.arm(timer, cx.now + UNREAD_PAUSE);
                }
                _ => fire(timer, c, cx),
            }
        }
    }
}

/// One timer is due.
fn fire<E: Env>(timer: Timer, c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    match timer {
        Timer::DelayedAck => {
            c.cancel(timer);
            c.ack_now();
            if c.rcv.quick & PUSHED != 0 {
                // It only sends, and had no second segment to send before this ACK.
                c.rcv.answer_loss();
            }
            c.rcv.quick |= PUSHED;
            // Where the window holds hardly two segments, no two may come for one ACK.
            if c.window_is_due() {
                right_size::look(c, cx.stack.now, cx.pools);
            }
        }
        Timer::UserTimeout => give_up(c, cx, Failure::UserTimeout),
        Timer::Retransmit if !c.state.is_synchronized() && c.state != State::Closed => {
            on_syn_timeout(c, cx)
        }
        Timer::Retransmit => on_retransmit(c, cx),
        Timer::Reordering => ack::on_reordering(c, cx),
        Timer::Persist => on_persist(c, cx),
        Timer::Keepalive | Timer::Orphan => {
            c.cancel(timer);
            match c.state {
                State::Closed => {}
                State::FinWait2 if timer == Timer::Orphan => on_fin_wait_2(c, cx),
                _ if timer == Timer::Orphan => on_orphan(c, cx),
                _ => on_keepalive(c, cx),
            }
        }
    }
}

/// The connection is over because the peer does not answer. What the network said about the reason
/// is the better word (RFC 5461 4.1).
fn give_up<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, why: Failure) {
    if c.state.is_synchronized() {
        cx.counters.tcp.timeouts += 1;
    } else {
        cx.counters.tcp.attempt_fails += 1;
    }
    let why = match c.suffered(cx.pools).cold.soft_error {
        Some(error) if why == Failure::TimedOut => Failure::Unreachable(error),
        _ => why,
    };
    if c.state != State::Closed {
        c.go(Cause::Timeout);
    }
    c.fail(why);
}

/// No answer to our SYN, or to our SYN and ACK in a simultaneous open (RFC 9293 3.8.3).
fn on_syn_timeout<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    let most = if c.is_early() {
        cx.config.tcp.syn_ack_retries
    } else {
        c.syn_retries(cx.pools, &cx.config.tcp)
    };
    if c.recovery.tries >= most {
        give_up(c, cx, Failure::TimedOut);
        return;
    }
    c.recovery.tries += 1;
    c.rtt.on_timeout();
    c.arm(Timer::Retransmit, cx.now + c.rtt.rto(&cx.config.tcp));
    c.marks.clear(Marks::TIMING);
    c.rtt.syn_repeated = true;
    c.marks.set(Marks::SYN_DUE.with(Marks::EMIT));
}

/// No acknowledgement of what is in flight (RFC 6298 5.4 to 5.6).
fn on_retransmit<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    if c.outstanding() == 0 {
        c.cancel(Timer::Retransmit);
        return;
    }
    if probe::is_for_probe(c, cx) {
        if c.recovery.has_board() {
            // It was set for a probe before something was selectively acknowledged: now time may
            // tell more.
            ack::on_reordering(c, cx);
        }
        return;
    }
    if is_hopeless(c, cx) {
        give_up(c, cx, Failure::TimedOut);
        return;
    }
    // A peer that took its window back over what is out and says so lives, and is to be waited for
    // (RFC 9293 3.8.6.1). The clock of both is coarse: an answer within the same tick counts as
    // one.
    let answers = c.snd.wnd == 0 && c.heard.ago(cx.now) <= c.times.sent.ago(cx.now);
    if !answers {
        c.recovery.tries = c.recovery.tries.saturating_add(1);
    }
    cx.counters.tcp.retransmit_timeouts += 1;
    let (flight, tries) = (c.outstanding(), c.recovery.tries.into());
    E::trace(Trace::RetransmitTimeout { ends: c.key.traced(), flight, tries });
    c.full_segments_vanish(cx);
    c.back_off(cx);
    c.arm(Timer::Retransmit, cx.now + c.rtt.rto(&cx.config.tcp));
    c.marks.clear(Marks::TIMING);
    match c.recovery.phase() {
        // It may have been for nothing.
        Phase::Open => c.remember_undo(cx.pools),
        Phase::Fast => c.forget_undo(cx.pools),
        Phase::Timeout | Phase::Probing => {}
    }
    // Fast recovery has cut ssthresh for this flight: not once more, as with Linux.
    let again = c.recovery.tries > 1 || c.recovery.is_frozen();
    let timeout = Event::Timeout { flight: c.outstanding(), again };
    c.on_congestion(cx.pools, cx.stack.now, timeout);
    c.lose_all(cx.pools);
    c.ecn_timed_out(cx.pools);
    c.wants_turn();
}

/// Whether enough was tried (RFC 9293 3.8.3, R2). A user timeout counts instead of the number when
/// there is one.
fn is_hopeless<E: Env>(c: &Conn<E>, cx: &Cx<'_>) -> bool {
    if c.settings.has_user_timeout() {
        return false;
    }
    let most = cx.config.tcp.retries;
    c.recovery.tries >= if c.marks.has(Marks::ORPHAN) { most.min(ORPHAN_RETRIES) } else { most }
}

/// The window is shut, or too small to be worth a segment (RFC 9293 3.8.6.1). As long as the peer
/// answers, `tries` starts over with every answer, and this goes on; the user timeout, the owner,
/// or the need for the orphan's memory ends it (THREATS 17).
fn on_persist<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) {
    if is_hopeless(c, cx) {
        give_up(c, cx, Failure::TimedOut);
        return;
    }
    let unsent = c.unsent(&cx.pools.tx);
    if unsent > 0 && unsent <= c.snd.usable() {
        // Not the peer: the owner has held this back for as long as an owner may.
        c.cancel(Timer::Persist);
        c.marks.set(Marks::FORCE.with(Marks::EMIT));
        return;
    }
    c.recovery.tries = c.recovery.tries.saturating_add(1);
    cx.counters.tcp.window_probes += 1;
    c.rtt.on_timeout();
    c.arm(Timer::Persist, cx.now + c.rtt.rto(&cx.config.tcp));
    // What fits into a small window goes; into a shut one goes a probe.
    let what = if c.snd.usable() > 0 {
        c.snd_ahead.forget_larger_windows(c.snd.wnd);
        Marks::FORCE
    } else {
        Marks::PROBE_DUE
    };
    c.marks.set(what.with(Marks::EMIT));
}

/// A connection without owner goes on as long as its peer takes something. One that answers probes
/// and takes nothing would go on for ever: retransmissions that nobody answers have a bound of
/// their own ([`ORPHAN_RETRIES`]), and this is the other (Linux ends such a one when its probes
/// have become rare).
fn on_orphan<E: Env>(c: &mut Conn<E>, cx: &mut Cx<'_>) {
    let is_silent = c.recovery.tries > 0 && !c.marks.has(Marks::PERSIST);
    if c.take_orphan_progress() >= ORPHAN_PROGRESS || is_silent {
        c.arm(Timer::Orphan, cx.now + cx.config.tcp.orphan);
        return;
    }
    cx.counters.tcp.orphans_timed_out += 1;
    c.reset();
}

/// The peer of a connection without owner has had time enough to send its FIN.
fn on_fin_wait_2<E: Env>(c: &mut Conn<E>, cx: &mut Cx<'_>) {
    cx.counters.tcp.fin_wait_2_timeouts += 1;
    c.go(Cause::Timeout);
    c.end();
}

/// Nothing was heard for a while (RFC 9293 3.8.4).
fn on_keepalive<E: Env>(c: &mut Conn<E>, cx: &mut Cx<'_>) {
    let Some(keepalive) = c.settings.keepalive().filter(|_| c.state.is_synchronized()) else {
        return;
    };
    let due = cx.now + (keepalive.idle - c.heard.ago(cx.now));
    if !c.marks.has(Marks::PROBING)
        && (due > cx.now || c.outstanding() > 0 || c.marks.has(Marks::PERSIST))
    {
        // It was heard meanwhile, or other timers look after it.
        c.arm(Timer::Keepalive, if due > cx.now { due } else { cx.now + keepalive.idle });
        return;
    }
    if c.marks.has(Marks::PROBING) && c.recovery.tries >= keepalive.count.max(1) {
        cx.counters.tcp.timeouts += 1;
        c.failure = Some(Failure::KeepaliveTimedOut);
        c.tell(crate::event::ConnEvents::FAILED);
        c.reset();
        return;
    }
    if !c.marks.has(Marks::PROBING) {
        c.recovery.tries = 0;
    }
    c.recovery.tries += 1;
    cx.counters.tcp.keepalives_out += 1;
    c.marks.set(Marks::PROBING.with(Marks::PROBE_DUE).with(Marks::EMIT));
    c.arm(Timer::Keepalive, cx.now + keepalive.interval);
}
