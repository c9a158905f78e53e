//! Losses by time (RFC 8985): when a connection keeps the record of what it sent ([`Sent`]), how
//! long it waits for what may only be late, and how it takes back what a recovery did that was not
//! needed.
//!
//! The record is taken when not all that is in flight left at one time, or when the first selective
//! acknowledgement comes, and given back when nothing is in flight. Without one, losses are told by
//! counting (RFC 6675).

use super::ack_info::AckInfo;
use super::cc::Advice;
use super::clock::{Ms, Recent};
use super::marks::Marks;
use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::conn::Conn;
use super::context::Pools;
use super::loss::prr::{Delivery, Prr};
use super::loss::sent::{Lost, Sent};
use super::rare_stats::Undo;
use super::recovery::Phase;
use super::sack::Scoreboard;
use super::span::Span;
use crate::store::Env;
use crate::trace::Trace;

impl<E: Env> Conn<E> {
    /// `span` leaves now, behind or among other bytes in flight. Called before that is noted
    /// anywhere else.
    #[cold]
    #[inline(never)]
    pub(super) fn note_sent(&mut self, p: &mut Pools<E>, now: Instant, span: Span) {
        if self.recovery.is_probe_due() {
            self.tail_probe_left(p, span);
        }
        if !self.marks.has(Marks::FLIGHTS) {
            // What leaves at one time needs no record yet.
            let is_one = self.times_all_in_flight() && self.times.timed == Recent::of(now);
            if is_one || !self.marks.has(Marks::SACK) {
                return;
            }
            self.take_sent(p, now);
        }
        let is_reduced = self.recovery.is_frozen();
        let sack = self.sack(p);
        let Pools { sent, boards, .. } = p;
        let (Some(sent), board) = (self.sent.get_mut(sent), sack.get(boards)) else { return };
        if let Some(prr) = sent.prr.as_mut().filter(|_| is_reduced) {
            prr.on_sent(span.len());
        }
        if span.start == self.snd.nxt {
            sent.on_sent(span, now, board)
        } else {
            sent.on_sent_again(span, now, board)
        }
    }

    /// The segment that is being timed is the first one in flight.
    fn times_all_in_flight(&self) -> bool {
        self.marks.has(Marks::TIMING) && self.delivered_then == self.snd.una
    }

    /// Takes the record, if there is a free one, for what is in flight. When that left is not
    /// always known: then it counts as later than it was.
    pub(super) fn take_sent(&mut self, p: &mut Pools<E>, now: Instant) {
        let timed = self.times.timed.seen_from(now);
        let at = if self.times_all_in_flight() && self.times.sent == Ms::of(timed) {
            timed
        } else {
            // The time is kept in whole milliseconds.
            let ago = self.times.sent.ago(now);
            Instant::ZERO
                + (now.since(Instant::ZERO) - ago + Duration::from_millis(1))
                    .min(now.since(Instant::ZERO))
        };
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        let mut sent = Sent::new(Span::new(una, nxt), at, self.rtt.min().unwrap_or_default());
        if self.recovery.phase() != Phase::Open {
            // What counting has found so far.
            let (board, recovery) = (self.board(p), self.recovery(p));
            sent.on_sent_again(recovery.again_span(una, nxt), at, board);
            sent.lose(recovery.lost_span(una, nxt, u32::from(self.mss), board), board);
        }
        self.sent.take(&mut p.sent, sent);
        self.marks.put(Marks::FLIGHTS, !self.sent.is_none());
    }

    /// SND.UNA moves to `una`.
    pub(super) fn sent_is_acked(&mut self, p: &mut Pools<E>, una: Seq) {
        if una == self.snd.nxt {
            self.sent.give_back(&mut p.sent);
            // Nothing is waited for any more: the next timer that runs is another.
            self.marks.clear(Marks::FLIGHTS.with(Marks::REORDERING));
        } else if let Some(sent) = self.sent.get_mut(&mut p.sent) {
            sent.advance(una);
        }
    }

    /// What is lost by now, after an ACK up to `una` whose blocks are on the scoreboard. None:
    /// there is no record, and losses are counted.
    pub(super) fn lost_by_time(&self, p: &mut Pools<E>, now: Instant, una: Seq) -> Option<Lost> {
        let (window, sack) = (self.reordering_window(p), self.sack(p));
        let Pools { sent, boards, .. } = p;
        let (sent, board) = (self.sent.get_mut(sent)?, sack.get(boards)?);
        Some(sent.detect(una, now, window, board))
    }

    /// Nothing was heard for a whole timeout, or what is in flight does not fit the path: all that
    /// is missing is lost.
    pub(super) fn lose_all(&mut self, p: &mut Pools<E>) {
        let (una, nxt, sack) = (self.snd.una, self.snd.nxt, self.sack(p));
        self.step_recovery(p, |recovery, p| {
            recovery.on_timeout(una, nxt, sack.get_mut(&mut p.boards))
        });
        if let Some(sent) = self.sent.get_mut(&mut p.sent) {
            sent.lose_all();
        }
    }

    /// An ACK in fast recovery says how much may leave (RFC 9937). `enters`: it began it;
    /// `newly_lost`: it told of more losses.
    pub(super) fn reduce(
        &mut self,
        p: &mut Pools<E>,
        ack: &AckInfo,
        enters: bool,
        newly_lost: bool,
    ) {
        if !self.recovery.is_frozen() || !Advice::of(self.settings.congestion()).uses_prr {
            return;
        }
        let mss = u32::from(self.mss);
        let pipe = self.recovery(p).pipe(ack.una, ack.nxt, mss, self.known(p));
        let begins = enters.then(|| {
            let held = self.board(p).map_or(0, Scoreboard::bytes);
            let before = (ack.flight + ack.delivered).saturating_sub(held);
            Prr::begin(before, self.let_go(p, before))
        });
        let Some(sent) = self.sent.get_mut(&mut p.sent) else { return };
        if begins.is_some() {
            sent.prr = begins;
        }
        if let Some(prr) = &mut sent.prr {
            let (delivered, ssthresh) = (ack.delivered, self.cc.ssthresh());
            prr.on_ack(&Delivery {
                delivered,
                pipe,
                ssthresh,
                safe: ack.acked > 0 && !newly_lost,
                mss,
            });
        }
    }

    /// What ACKs of the burst that begins fast recovery have let go, new data behind cumulative
    /// ones and limited transmit (RFC 3042) behind others: they are digested together, and none of
    /// it has left. Were it forgotten, a repetition would be alone in flight for a round trip, and
    /// if it is lost only the retransmission timer tells. `pipe`: what was in flight before the
    /// ACK that begins it.
    fn let_go(&self, p: &Pools<E>, pipe: u32) -> u32 {
        if !self.has_unsent(&p.tx) {
            return 0;
        }
        let cwnd = self.suffered(p).undo.as_ref().map_or(0, |undo| undo.cc.cwnd());
        // The window may not have been what limits, and the peer may not take more.
        let room = self.snd.wnd.saturating_sub(self.outstanding());
        self.cc.used().min(cwnd).saturating_sub(pipe).min(room)
    }

    /// Whether segments of this connection have overtaken one another (RFC 8985 6.2, step 3).
    pub(super) fn reorders(&self, p: &Pools<E>) -> bool {
        self.suffered(p).reord_seen > 0
    }

    /// How long what is missing may be late (RFC 8985 6.2, step 4). As long as nothing ever was,
    /// three segments beyond it are enough.
    fn reordering_window(&self, p: &Pools<E>) -> Duration {
        let rare = self.suffered(p);
        let is_counted = self.recovery.phase() != Phase::Open || {
            let board = self.board(p);
            board.and_then(|board: &Scoreboard| board.lost_edge(u32::from(self.mss))).is_some()
        };
        if !self.reorders(p) && is_counted {
            return Duration::ZERO;
        }
        let quarter = self.rtt.min().unwrap_or_default().per(4);
        let longest = self.rtt.srtt().unwrap_or_default();
        // Two times that a clock tells can lie a step further apart than they do, and what is late
        // may come just behind the next step.
        quarter.times(u64::from(rare.reordering.quarters)).min(longest).max(p.clock_step.times(2))
    }

    /// Recovery begins: what it does to the congestion window may have to be taken back.
    pub(super) fn remember_undo(&mut self, p: &mut Pools<E>) {
        let (cc, una) = (self.congestion(p), self.snd.una);
        self.note_rare(p, |t| t.undo = Some(Undo { cc, una, bytes: 0, stamp: None }));
    }

    /// Something was lost beyond doubt.
    pub(super) fn forget_undo(&mut self, p: &mut Pools<E>) {
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            rare.undo = None;
        }
    }

    /// Fast recovery is over.
    pub(super) fn recovered(&mut self, p: &mut Pools<E>) {
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            rare.reordering.on_recovered();
        }
    }

    /// The peer has something twice (RFC 2883). When that is so of all that a recovery has sent
    /// again, nothing was lost but only late, and the congestion window is what it was before (RFC
    /// 3708). True: that is so.
    pub(super) fn on_dsack(&mut self, p: &mut Pools<E>, now: Instant, twice: Span) -> bool {
        let (una, nxt) = (self.snd.una, self.snd.nxt);
        let mut is_all = false;
        self.note_rare(p, |t| {
            t.dsack_dups += 1;
            // It counts whether or not the recovery is undone already, as timestamps do it sooner;
            // but neither for a probe that was no repair (RFC 8985 6.2, step 4, and 7.4.1), nor
            // where a network says more twice than we did.
            if t.probe.is_none() && t.dsack_dups <= t.segs_retransmitted {
                t.reordering.on_dsack(una, nxt);
            }
            let Some(undo) = &mut t.undo else { return };
            if twice.start.lt(undo.una) || undo.bytes == 0 {
                return;
            }
            t.reord_seen += 1;
            undo.bytes = undo.bytes.saturating_sub(twice.len());
            is_all = undo.bytes == 0;
        });
        if is_all {
            self.take_back(p, now);
        }
        is_all
    }

    /// Whether an ACK says that what was sent again had not been lost. `echo`: the timestamp that
    /// it echoes, if it moves SND.UNA. `original`: something arrives that a timeout took for lost
    /// and that was not sent again (RFC 5682 3.1, step 3.b).
    pub(super) fn was_for_nothing(&self, p: &Pools<E>, echo: Option<u32>, original: bool) -> bool {
        let Some(Undo { una, stamp, bytes, .. }) = self.suffered(p).undo else { return false };
        if original && self.recovery(p).is_doubtful(self.snd.una) {
            return true;
        }
        // RFC 3522 3.2: the ACK is for what left before anything was sent again.
        // And so is every ACK while nothing was: what was taken for lost has come before its
        // repetition left.
        let is_earlier = bytes == 0
            || echo.zip(stamp).is_some_and(|(echo, stamp)| (echo.wrapping_sub(stamp) as i32) < 0);
        if !is_earlier || !self.snd.una.gt(una) {
            return false;
        }
        // In fast recovery other holes may be real: as long as there are any, this one was only
        // luck.
        let (una, nxt, known) = (self.snd.una, self.snd.nxt, self.known(p));
        let recovery = self.recovery(p);
        let others = recovery.lost_bytes(una, nxt, u32::from(self.mss), known)
            + recovery.again_bytes(una, nxt, known);
        !self.recovery.is_frozen() || others == 0
    }

    /// Nothing was lost: recovery is over, and congestion control goes on from where it was (RFC
    /// 4015 3.2).
    pub(super) fn take_back(&mut self, p: &mut Pools<E>, now: Instant) {
        E::trace(Trace::Undone { ends: self.key.traced() });
        let mut undo = None;
        // After a timeout nothing says that the order was another.
        let reordered = u32::from(self.recovery.is_frozen());
        self.note_rare(p, |t| {
            undo = t.undo.take();
            t.reord_seen += reordered;
        });
        if let Some(undo) = undo {
            self.undo_congestion(p, now, &undo.cc);
        }
        let una = self.snd.una;
        self.step_recovery(p, |recovery, _| recovery.call_off(una));
        if let Some(sent) = self.sent.get_mut(&mut p.sent) {
            sent.recall();
        }
    }
}
