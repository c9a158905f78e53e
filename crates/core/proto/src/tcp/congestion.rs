//! What a connection tells its congestion control, and asks of it. Where the algorithm goes by
//! rates, or the owner has set the highest one, this is also where data is paced and measured;
//! [`Marks::PACED`] says so, and keeps such a connection off the fast paths.

use clearway_base::{Duration, Instant};

use super::ack_info::AckInfo;
use super::api::BbrInfo;
use super::cc::{Bbr, Cc, ClassicQueue, Event, Input, Known, Measured, Prague, Window};
use super::conn::Conn;
use super::context::Pools;
use super::delivery::Delivery;
use super::held::Held16;
use super::marks::Marks;
use super::paced::Paced;
use super::pacer::{FINE_PIECES, PIECES};
use super::recovery::Phase;
use super::span::Span;
use crate::config::Congestion;
use crate::store::Env;

impl<E: Env> Conn<E> {
    /// Something happened that is no acknowledgement of new data.
    pub(super) fn on_congestion(&mut self, p: &mut Pools<E>, now: Instant, event: Event) {
        self.step_congestion(p, |cc| cc.on_event(event));
        if self.marks.has(Marks::PACED) {
            self.tell_bbr(p, now, event);
        }
    }

    #[cold]
    fn tell_bbr(&mut self, p: &mut Pools<E>, now: Instant, event: Event) {
        let Some(paced) = self.cc.paced().get_mut(&mut p.paced) else { return };
        let delivered = paced.delivery.delivered();
        let limited = paced.delivery.is_app_limited();
        let Some(bbr) = &mut paced.bbr else { return };
        match event {
            Event::Loss { .. } => bbr.on_trouble(&mut self.cc, false),
            Event::Timeout { .. } => bbr.on_trouble(&mut self.cc, true),
            Event::Marked { .. } => bbr.on_marked(&self.cc, delivered),
            Event::Undone => bbr.on_undone(&mut self.cc, delivered),
            Event::Idle { .. } => bbr.on_restart(&mut self.cc, limited, now, &mut p.rng, delivered),
            // It sees by itself when recovery is over, also after a timeout.
            Event::Recovered { .. } => {}
        }
    }

    /// A loss or a timeout was none: congestion control goes on from how things stood `before` it.
    pub(super) fn undo_congestion(&mut self, p: &mut Pools<E>, now: Instant, before: &Cc) {
        self.step_congestion(p, |cc| cc.restore(before));
        if self.marks.has(Marks::PACED) {
            self.tell_bbr(p, now, Event::Undone);
        }
    }

    /// Takes up `kind`, and the highest rate that the owner has set. Where no place is free for
    /// what that needs, the connection goes by CUBIC, without pacing; true: so it is. It goes by
    /// CUBIC, too, where Prague is asked for and the peer does not say how much is marked.
    #[cold]
    #[inline(never)]
    pub(super) fn choose_congestion(
        &mut self,
        p: &mut Pools<E>,
        now: Instant,
        kind: Congestion,
    ) -> bool {
        let limit = self.suffered(p).seldom.max_pacing_rate();
        let kind = match kind {
            Congestion::Prague if !self.tells_each_mark(p) => Congestion::Cubic,
            kind => kind,
        };
        let by_rate = kind.goes_by_rates();
        let needs_place = by_rate || limit.is_some();
        if needs_place && self.cc.paced().is_none() {
            let held = self.board(p).map_or(0, |board| board.bytes());
            let paced = Paced::new(Delivery::new(self.snd.una, held, now));
            self.cc.set_paced(Held16::take(&mut p.paced, paced));
        } else if !needs_place {
            self.release_paced(p);
        }
        self.marks.put(Marks::PACED, !self.cc.paced().is_none());
        let refused = needs_place && self.cc.paced().is_none();
        let kind = if refused && by_rate { Congestion::Cubic } else { kind };
        // The owner, and who imports the connection, are told what it goes by.
        self.settings.set_congestion(kind);
        let srtt = self.rtt.srtt();
        if let Some(paced) = self.cc.paced().get_mut(&mut p.paced) {
            paced.bbr = paced.bbr.take().filter(|bbr| bbr.kind() == kind);
            if kind.is_bbr() && paced.bbr.is_none() {
                let delivered = paced.delivery.delivered();
                paced.bbr = Some(Bbr::new(kind, &self.cc, now, srtt, delivered));
            }
            let queue = paced.queue.take().unwrap_or(ClassicQueue::new(now, self.snd.nxt));
            paced.queue = (kind == Congestion::Prague).then_some(queue);
            paced.set_rate(limit, own_rate(kind, &self.cc, srtt), u32::from(self.mss));
        }
        refused
    }

    /// Whether what congestion control says still matters: one that is over sends nothing, and
    /// before the handshake nothing is known.
    pub(super) fn may_be_paced(&self) -> bool {
        self.state.is_synchronized() && !self.marks.has(Marks::DETACHED)
    }

    /// What another stack has to know of the path, if this one goes by BBR.
    pub(super) fn known_of_path(&self, p: &Pools<E>) -> Option<Known> {
        self.cc.paced().get(&p.paced).filter(|_| self.may_be_paced())?.bbr.as_ref().map(Bbr::known)
    }

    /// The connection comes from another stack, which has `known` its path if it went by BBR there.
    pub(super) fn resume(&mut self, p: &mut Pools<E>, now: Instant, known: Option<Known>) {
        if let Some(known) = known {
            if let Some(paced) = self.cc.paced().get_mut(&mut p.paced) {
                if let Some(bbr) = &mut paced.bbr {
                    bbr.resume(&self.cc, known, now);
                }
            }
        }
    }

    /// Nothing is paced any more.
    #[cold]
    #[inline(never)]
    pub(super) fn release_paced(&mut self, p: &mut Pools<E>) {
        self.cc.paced().give_back(&mut p.paced);
        self.cc.set_paced(Held16::NONE);
        self.marks.clear(Marks::PACED);
    }

    /// When what waits for its time may leave.
    pub(super) fn paced_until(&self, p: &Pools<E>) -> Option<Instant> {
        self.cc.paced().get(&p.paced)?.pacer.waits_until()
    }

    /// The path is paced: what an ACK says is measured, and the rate follows. `was_frozen`: in fast
    /// recovery before it. True: by this ACK the queue was found to be a classic one.
    #[cold]
    #[inline(never)]
    pub(super) fn on_paced_ack(
        &mut self,
        p: &mut Pools<E>,
        info: &AckInfo,
        was_frozen: bool,
    ) -> bool {
        let mss = u32::from(self.mss);
        let (una, nxt) = (info.una, info.nxt);
        let may_grow = !was_frozen && !self.recovery.is_frozen() && !self.ecn_holds_back(p, una);
        let limit = self.suffered(p).seldom.max_pacing_rate();
        // What was sent again had been lost, and so has what waits to be.
        let again = self.rare.get(&p.rare_stats).map_or(0, |t| t.bytes_retransmitted);
        let recovery = self.recovery(p);
        let lost = again + u64::from(recovery.lost_bytes(una, nxt, mss, self.known(p)));
        let in_flight = recovery.pipe(una, nxt, mss, self.known(p));
        let may_tell = self.congestion(p).is_settled();
        let falls_back = p.prague_fallback;
        let in_recovery = self.recovery.phase() != Phase::Open;
        let is_repairing = in_recovery || recovery.again_bytes(una, nxt, self.known(p)) > 0;
        let sack = self.sack(p);
        let board = sack.get(&p.boards);
        let Some(paced) = self.cc.paced().get_mut(&mut p.paced) else { return false };
        let times = (self.rtt.min().unwrap_or_default(), info.clock_step);
        let sample = paced.delivery.on_ack(info.now, (una, board), lost, times);
        let by_window = paced.bbr.is_none();
        let marked = core::mem::take(&mut paced.marked);
        if let Some(bbr) = &mut paced.bbr {
            let input = Input {
                now: info.now,
                sample,
                delivered: paced.delivery.delivered(),
                in_flight,
                oldest: paced.delivery.oldest(),
                marked,
                in_recovery,
                is_repairing,
                has_sack: self.marks.has(Marks::SACK),
            };
            bbr.on_ack(&mut self.cc, &input, &mut p.rng);
            if bbr.holds_back() {
                paced.delivery.app_limits(in_flight);
            }
        }
        let mut is_found = false;
        if by_window {
            let rtt = self.rtt;
            let info = AckInfo { rtt_sample: sample.rtt.or(info.rtt_sample), ..*info };
            let mut classic = 0;
            if let Some(queue) = &mut paced.queue {
                let before = queue.part();
                queue.on_ack(&info, marked, may_tell);
                if falls_back {
                    classic = queue.part();
                    is_found = before == 0 && classic > 0;
                }
            }
            let measured = Measured { is_held: !may_grow, marked, rate: sample.rate, classic };
            self.step_congestion(p, |cc| cc.on_measured_ack(&info, &rtt, measured));
        }
        let own = own_rate(self.settings.congestion(), &self.cc, self.rtt.srtt());
        if let Some(paced) = self.cc.paced().get_mut(&mut p.paced) {
            paced.set_rate(limit, own, mss);
            let gain = paced.bbr.as_ref().map_or(100, |bbr| bbr.info().pacing_gain);
            paced.pacer.on_ack(sample.newly_acked, gain, info.clock_step);
        }
        is_found
    }

    /// The peer has told of so many marked packets of ours one by one. True: the algorithm weighs
    /// them, with the next ACK, and no cut is due.
    #[cold]
    pub(super) fn weighs_marks(&self, p: &mut Pools<E>, packets: u32) -> bool {
        let bytes = packets.saturating_mul(u32::from(self.mss));
        let weighs = self.settings.congestion().goes_by_rates();
        let weighs = self.cc.paced().get_mut(&mut p.paced).filter(|_| weighs);
        weighs.map(|paced| paced.marked = paced.marked.saturating_add(bytes)).is_some()
    }

    /// How many bytes pacing lets out now.
    pub(super) fn pacing_budget(&self, p: &mut Pools<E>, now: Instant) -> u64 {
        self.cc
            .paced()
            .get_mut(&mut p.paced)
            .and_then(|paced| paced.pacer.budget(now))
            .map_or(u64::MAX, u64::from)
    }

    /// `span` has just left, new bytes or ones that had left before.
    #[cold]
    #[inline(never)]
    pub(super) fn note_paced(&mut self, p: &mut Pools<E>, now: Instant, span: Span, is_new: bool) {
        let pipe =
            self.recovery(p).pipe(self.snd.una, self.snd.nxt, u32::from(self.mss), self.known(p));
        let Some(paced) = self.cc.paced().get_mut(&mut p.paced) else { return };
        paced.pacer.on_sent(span.len());
        let before = pipe.saturating_sub(span.len());
        if is_new {
            paced.delivery.on_sent(
                (before, span.len()),
                span.end,
                now,
                self.rtt.srtt().unwrap_or(Duration::ZERO),
            );
        } else {
            paced.delivery.on_sent_again(before, span, now);
        }
    }

    /// Something waits for its time to leave.
    #[cold]
    pub(super) fn wait_for_pacing(&self, p: &mut Pools<E>) {
        if let Some(paced) = self.cc.paced().get_mut(&mut p.paced) {
            paced.pacer.wait();
        }
    }

    /// All that was written has left. If more could have left, the owner is what limits.
    #[cold]
    pub(super) fn note_app_limited(&self, p: &mut Pools<E>) {
        let mss = u32::from(self.mss);
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        let recovery = self.recovery(p);
        let pipe = recovery.pipe(una, nxt, mss, self.known(p));
        if pipe < self.cc.cwnd() && recovery.lost_bytes(una, nxt, mss, self.known(p)) == 0 {
            if let Some(paced) = self.cc.paced().get_mut(&mut p.paced) {
                paced.delivery.app_limits(pipe);
            }
        }
    }

    /// What BBR reckons with, where that is the algorithm.
    pub(super) fn bbr_info(&self, p: &Pools<E>) -> Option<BbrInfo> {
        self.cc.paced().get(&p.paced)?.bbr.as_ref().map(Bbr::info)
    }

    /// Bytes in a second at which data leaves; None: it is not paced.
    pub(super) fn pacing_rate(&self, p: &Pools<E>) -> Option<u64> {
        self.cc.paced().get(&p.paced)?.pacer.rate()
    }
}

impl Paced {
    /// The rate is what the algorithm says, its `own` where it goes by the window, within the
    /// owner's `limit`.
    fn set_rate(&mut self, limit: Option<u64>, own: Option<u64>, mss: u32) {
        let wanted = self.bbr.as_ref().map(Bbr::pacing_rate).or(own);
        let rate = match (wanted, limit) {
            (Some(wanted), Some(limit)) => Some(wanted.min(limit)),
            (wanted, limit) => wanted.or(limit),
        };
        let pieces = if own.is_some() { FINE_PIECES } else { PIECES };
        self.pacer.set_rate(rate, pieces, mss);
    }
}

/// The rate of an algorithm that goes by the window and paces all the same.
fn own_rate(kind: Congestion, w: &Window, srtt: Option<Duration>) -> Option<u64> {
    (kind == Congestion::Prague).then(|| Prague::pacing_rate(w, srtt))
}
