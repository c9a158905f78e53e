//! Tail loss probes (RFC 8985 7): when nothing tells of the loss of the last segments, something is
//! sent after two round trips that makes the peer tell, instead of waiting for the retransmission
//! timer.
//!
//! There is no timer of its own. Behind a burst the deadline of what is sent stands at the probe
//! timeout (PTO) instead of the retransmission timeout, and which of both it was is decided when it
//! fires: a segment alone waits as long as the retransmission timer would, so a request and its
//! answer cost nothing more.

use clearway_base::Duration;
use clearway_wire::Seq;

use super::cc::Event;
use super::conn::Conn;
use super::context::{ConnCx, Pools};
use super::deadlines::Timer;
use super::marks::Marks;
use super::rare_stats::Probe;
use super::recovery::{Next, Phase};
use super::sack::SackUpdate;
use super::span::Span;
use crate::config::TcpConfig;
use crate::store::Env;
use crate::trace::Trace;

/// What an ACK says, as far as a probe is concerned.
pub(super) struct Answer<'a> {
    /// SND.UNA with it.
    pub una: Seq,
    pub said: &'a SackUpdate,
    /// It moves nothing: neither SND.UNA nor the window, and there is no payload.
    pub is_bare: bool,
}

impl<E: Env> Conn<E> {
    /// PTO, behind more than one segment; None before the first sample. Two steps of the clock
    /// more, as on Linux, or a clock could take the ACK that is on its way for lost.
    fn probe_timeout(&self, config: &TcpConfig) -> Option<Duration> {
        self.rtt.srtt().map(|srtt| srtt.times(2) + config.clock_step.times(2))
    }

    /// Whether a probe may tell something that nothing else tells (RFC 8985 7.2).
    fn may_probe(&self, config: &TcpConfig) -> bool {
        config.tail_loss_probe
            && self.marks.has(Marks::SACK)
            && self.recovery.is_lossless()
            && self.snd.wnd > 0
            && self.state.is_synchronized()
            && self.rtt.srtt().is_some()
    }

    /// How long to wait for what is in flight when it is more than one segment: no longer than
    /// `rto`.
    #[cold]
    #[inline(never)]
    pub(super) fn wait_for_burst(&self, config: &TcpConfig, rto: Duration) -> Duration {
        match self.probe_timeout(config).filter(|_| self.may_probe(config)) {
            Some(pto) => pto.min(rto),
            None => rto,
        }
    }

    /// The probe that is due: new data if there is a segment's worth in the `fresh` bytes that the
    /// peer's window takes, else the last segment again.
    pub(super) fn tail_probe(&self, (una, nxt): (Seq, Seq), fresh: u32, mss: u32) -> Next {
        if fresh >= mss {
            return Next::New;
        }
        let fin = u32::from(self.marks.has(Marks::FIN_SENT));
        let payload = nxt.since(una).saturating_sub(fin);
        let len = match payload % mss {
            0 => payload.min(mss),
            rest => rest,
        };
        Next::Rescue(Span::new(nxt - fin - len, nxt))
    }

    /// The probe has left as `span`.
    pub(super) fn tail_probe_left(&mut self, p: &mut Pools<E>, span: Span) {
        self.recovery.probe_left();
        let probe = Probe { end: span.end.max(self.snd.nxt), again: span.start != self.snd.nxt };
        self.note_rare(p, |t| t.probe = Some(probe));
    }
}

/// The deadline of what is sent has come. True: it was that of a probe, or came too early, and the
/// retransmission timer runs.
pub(super) fn is_for_probe<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>) -> bool {
    let config = &cx.config.tcp;
    if !c.marks.has(Marks::SACK)
        || c.recovery.phase() != Phase::Open
        || c.recovery.is_probing()
        || c.recovery.tries > 0
    {
        return false;
    }
    // Times of the past are kept in whole milliseconds.
    let past = |time: Duration| time + Duration::from_millis(1);
    let (now, rto) = (cx.now, c.rtt.rto(config));
    let left = rto - past(c.times.stuck_since.ago(now));
    let may_probe = c.may_probe(config);
    if left > Duration::ZERO {
        let is_alone = c.outstanding() <= u32::from(c.mss);
        let pto = c.probe_timeout(config).filter(|_| may_probe && !is_alone);
        let wait = pto.map_or(left, |pto| left.min(pto - past(c.times.sent.ago(now))));
        if wait > Duration::ZERO {
            c.arm(Timer::Retransmit, now + wait);
            return true;
        }
    }
    if !may_probe {
        return false;
    }
    cx.counters.tcp.tail_loss_probes += 1;
    E::trace(Trace::TailLossProbe { ends: c.key.traced(), flight: c.outstanding() });
    c.recovery.begin_probe();
    // RFC 8985 7.3: whatever leaves, the retransmission timer runs from now on.
    c.arm(Timer::Retransmit, now + rto);
    c.wants_turn();
    true
}

/// An ACK while a probe is out (RFC 8985 7.4.2, TLP_process_ack).
pub(super) fn on_answer<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, answer: &Answer<'_>) {
    let Some(probe) = c.suffered(cx.pools).probe else {
        c.recovery.end_probe();
        return;
    };
    if answer.una.lt(probe.end) {
        return;
    }
    // A FIN is not among what a receiver reports twice.
    let came_twice = answer.said.dsack.is_some_and(|twice| probe.end.since(twice.end) <= 1);
    if probe.again && !came_twice {
        if answer.una.gt(probe.end) {
            // Both copies would have been told of: the probe has repaired a loss, which is answered
            // as any other.
            let (pools, now) = (&mut *cx.pools, cx.stack.now);
            c.on_congestion(pools, now, Event::Loss { flight: c.outstanding() });
            c.on_congestion(pools, now, Event::Recovered { flight: u32::MAX });
            cx.counters.tcp.tail_loss_repairs += 1;
        } else if !answer.is_bare {
            return;
        }
    }
    c.recovery.end_probe();
}
