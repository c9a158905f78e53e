//! Loss recovery: when it begins and ends, what leaves next, and how much (RFC 5681 3.2, RFC 6582,
//! RFC 6675 5, RFC 3042).
//!
//! ```text
//!   SND.UNA        rxt (HighRxt)      lost edge             SND.NXT
//!  ────┬───────────────┬──────────────────┬────────────────────┬──▶
//!      │ sent again    │ lost, not yet    │ in flight          │
//!      │ (in flight)   │ sent again       │                    │
//! ```
//!
//! What the peer holds selectively lies anywhere in it, is in the scoreboard, and counts nowhere. A
//! connection without a scoreboard (no SACK, or none free) goes by the number of duplicate ACKs, as
//! NewReno does.

use clearway_wire::Seq;

use super::ack_info::AckInfo;
use super::loss::sent::Sent;
use super::sack::DUP_THRESH;
use super::sack::Scoreboard;
use super::span::Span;

use crate::export::Fields;

/// Where a connection is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Nothing is known to be lost.
    Open = 0,
    /// Fast recovery, until the recovery point is acknowledged.
    Fast,
    /// After a retransmission timeout, until everything that was in flight then is acknowledged.
    Timeout,
    /// Nothing is known to be lost, and a tail loss probe is due or out. To others this is
    /// [`Phase::Open`].
    Probing,
}

/// What an ACK meant for recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Signal {
    /// Nothing to do.
    Nothing,
    /// A loss: congestion control is to cut its window, `flight` bytes being outstanding (those of
    /// limited transmit not counted, RFC 5681 3.2, step 2), and the lost segment leaves at once.
    Enter {
        /// FlightSize.
        flight: u32,
    },
    /// Part of what was in flight when recovery began is acknowledged. The retransmission timer
    /// starts anew only when `first` (RFC 6582 4).
    Partial {
        /// The first one in this recovery; with a scoreboard each of them, because all holes are
        /// repaired at once then and a long recovery means nothing bad.
        first: bool,
    },
    /// Everything that was in flight when fast recovery began is acknowledged.
    Left,
    /// Everything that was in flight when the timer ran out is acknowledged.
    Repaired,
}

/// What leaves next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing.
    Nothing,
    /// New data, from SND.NXT on.
    New,
    /// Bytes that were sent before; then [`Recovery::on_retransmitted`].
    Retransmit(Span),
    /// The end of what is outstanding, so that its loss does not wait for the timer (RFC 6675 4,
    /// NextSeg rule 4); then [`Recovery::on_rescued`].
    Rescue(Span),
}

/// What is known of what is in flight: what the peer holds, and when what was sent.
#[derive(Clone, Copy)]
pub(crate) struct Known<'a> {
    /// None: without SACK, or no scoreboard was free.
    pub(crate) board: Option<&'a Scoreboard>,
    /// None: losses are told by counting (RFC 6675).
    pub(crate) sent: Option<&'a Sent>,
}

impl<'a> Known<'a> {
    /// Both, when there are both: time tells of losses then (RFC 8985), and the record says which.
    fn record(self) -> Option<(&'a Sent, &'a Scoreboard)> {
        self.sent.zip(self.board)
    }
}

/// What every segment asks about: it lies in the record of the connection, the rest where what is
/// rare lies. Its bytes make one word, so that one comparison tells that nothing is the matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C, align(4))]
pub(crate) struct Status {
    phase: Phase,
    dupacks: u8,
    /// [`RESCUED`], [`PARTIAL`], [`PROBE_DUE`], [`FRTO`], [`FRTO_NEW`], [`BOARD`].
    so_far: u8,
    /// Retransmissions, probes or keepalives without an answer.
    pub(crate) tries: u8,
}

/// Where recovery is. While nothing is to be recovered all of it follows from SND.UNA
/// ([`Points::at`]).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Points {
    /// RecoveryPoint: SND.NXT when recovery began. When nothing is to be recovered it stays below
    /// SND.UNA.
    recover: Seq,
    /// HighRxt: what is missing below has been sent again.
    rxt: Seq,
    /// What is missing below is lost, whatever the scoreboard says.
    lost: Seq,
    /// SND.NXT when the first duplicate ACK came.
    before_limited: Seq,
    /// Bytes that duplicate ACKs say have left the network (RFC 5681 3.2, steps 3 and 4). Not used
    /// with a scoreboard.
    inflate: u32,
}

impl Points {
    /// Nothing is to be recovered.
    pub(crate) const fn at(una: Seq) -> Points {
        Points {
            recover: Seq(una.0.wrapping_sub(1)),
            rxt: una,
            lost: una,
            before_limited: una,
            inflate: 0,
        }
    }

    /// Their part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Points { recover, rxt, lost, before_limited, inflate } = self;
        f.seq(200, recover);
        f.seq(201, rxt);
        f.seq(202, lost);
        f.seq(203, before_limited);
        f.u32(204, inflate);
    }

    /// Whether all of them can be those of a connection that has sent up to `nxt`.
    pub(crate) fn fits(&self, una: Seq, nxt: Seq) -> bool {
        let known = [self.recover, self.rxt, self.lost, self.before_limited];
        known.iter().all(|at| at.le(nxt) && at.ge(una - (1 << 30)))
    }

    /// Whoever gives no ACK of new data to [`Recovery::on_ack`], because all is calm and there is
    /// no scoreboard, calls this at least once in a quarter of the circle: what lies behind SND.UNA
    /// means nothing as long as it does lie behind, and the circle would turn it into the future.
    pub(crate) fn keep_close(&mut self, una: Seq) {
        self.rxt = self.rxt.max(una);
        self.lost = self.lost.max(una);
        if una.gt(self.recover) {
            self.recover = una - 1;
        }
    }
}

/// The state of one connection's recovery.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Recovery {
    points: Points,
    status: Status,
}

impl core::ops::Deref for Recovery {
    type Target = Status;

    fn deref(&self) -> &Status {
        &self.status
    }
}

impl core::ops::DerefMut for Recovery {
    fn deref_mut(&mut self) -> &mut Status {
        &mut self.status
    }
}

/// The rescue segment was sent in this recovery.
const RESCUED: u8 = 1;
/// Part of what was in flight when it began is acknowledged.
const PARTIAL: u8 = 2;
/// A tail loss probe is to leave.
const PROBE_DUE: u8 = 4;
/// Whether the timeout was one for nothing may still turn out (RFC 5682).
const FRTO: u8 = 8;
/// New data leaves before anything more is repeated, so that it does (RFC 5682 3.1, step 2.b).
const FRTO_NEW: u8 = 16;
/// A scoreboard is held.
const BOARD: u8 = 32;

impl Recovery {
    /// What [`Recovery::parts`] has given.
    pub(crate) fn of(points: Points, status: Status) -> Recovery {
        Recovery { points, status }
    }

    /// What lies where what is rare lies, and what lies in the record of the connection.
    pub(crate) fn parts(&self) -> (Points, Status) {
        (self.points, self.status)
    }

    /// Whether there is more to remember than what follows from SND.UNA.
    pub(crate) fn is_needed(&self, una: Seq) -> bool {
        self.status.phase() != Phase::Open || self.dupacks > 0 || self.points.recover.ge(una)
    }

    /// Takes an ACK, whose SACK blocks are in `board` already. Every ACK that moves SND.UNA or is a
    /// duplicate must come here.
    pub(crate) fn on_ack(&mut self, ack: &AckInfo, board: Option<&Scoreboard>, mss: u32) -> Signal {
        if ack.acked > 0 {
            self.dupacks = 0;
            self.points.rxt = self.points.rxt.max(ack.una);
            self.points.lost = self.points.lost.max(ack.una);
        } else if ack.dup {
            if self.dupacks == 0 {
                self.points.before_limited = ack.nxt;
            }
            self.dupacks = self.dupacks.saturating_add(1);
        }
        match self.phase {
            Phase::Open | Phase::Probing => self.while_open(ack, board, mss),
            Phase::Fast => self.while_fast(ack, board, mss),
            Phase::Timeout if ack.una.ge(self.points.recover) => {
                self.end(ack.una);
                Signal::Repaired
            }
            Phase::Timeout => {
                self.doubt(ack);
                Signal::Nothing
            }
        }
    }

    fn while_open(&mut self, ack: &AckInfo, board: Option<&Scoreboard>, mss: u32) -> Signal {
        let lost = match board {
            // RFC 8985 6.2, step 5.
            Some(_) if ack.lost.is_some() => ack.lost > Some(0) && ack.una.ge(self.points.recover),
            // RFC 6675 5: three duplicates, or IsLost of the first byte that is missing.
            Some(board) => {
                let by_edge = board.lost_edge(mss).is_some_and(|edge| edge.gt(ack.una));
                (self.dupacks >= DUP_THRESH || by_edge) && ack.una.ge(self.points.recover)
            }
            // RFC 6582 3.2, step 2: duplicates that our own repetitions of before caused mean
            // nothing.
            None => self.dupacks >= DUP_THRESH && ack.una.gt(self.points.recover),
        };
        if !lost || ack.flight == 0 {
            if ack.una.gt(self.points.recover) {
                // Kept close behind, or the circle would turn it into the future.
                self.points.recover = ack.una - 1;
            }
            return Signal::Nothing;
        }
        let flight = if self.dupacks > 0 {
            self.points.before_limited.since(ack.una).min(ack.flight)
        } else {
            ack.flight
        };
        self.begin(Phase::Fast, 0);
        self.points.recover = ack.nxt;
        self.points.inflate = u32::from(DUP_THRESH) * mss;
        self.head_is_lost(ack, mss);
        Signal::Enter { flight }
    }

    fn while_fast(&mut self, ack: &AckInfo, board: Option<&Scoreboard>, mss: u32) -> Signal {
        if ack.una.ge(self.points.recover) {
            self.end(ack.una);
            return Signal::Left;
        }
        if ack.acked == 0 {
            if ack.dup {
                // No more than was outstanding can have left: a peer that makes up duplicates gains
                // nothing (RFC 5681 3.2, step 4).
                self.points.inflate =
                    self.points.inflate.saturating_add(mss).min(self.points.recover.since(ack.una));
            }
            return Signal::Nothing;
        }
        if board.is_none() {
            // RFC 6582 3.2, step 3: the next segment is lost too; the window loses what was
            // acknowledged and gets one segment back.
            self.points.inflate = self.points.inflate.saturating_sub(ack.acked);
            if ack.acked >= mss {
                self.points.inflate = self.points.inflate.saturating_add(mss);
            }
            self.points.rxt = ack.una;
            self.head_is_lost(ack, mss);
        }
        let first = board.is_some() || self.so_far & PARTIAL == 0;
        self.so_far |= PARTIAL;
        Signal::Partial { first }
    }

    fn head_is_lost(&mut self, ack: &AckInfo, mss: u32) {
        self.points.rxt = ack.una;
        self.points.lost = (ack.una + mss).min(ack.nxt);
    }

    /// The second and third step of RFC 5682 3.1: the first ACK that moves SND.UNA lets new data
    /// out, and the next one decides.
    fn doubt(&mut self, ack: &AckInfo) {
        let is_first = ack.acked > 0 && self.so_far & (FRTO | FRTO_NEW) == FRTO;
        if is_first {
            self.so_far |= FRTO_NEW;
        } else {
            self.so_far &= !(FRTO | FRTO_NEW);
        }
    }

    fn end(&mut self, una: Seq) {
        self.begin(Phase::Open, 0);
        self.dupacks = 0;
        self.points.inflate = 0;
        self.points.rxt = una;
        self.points.lost = una;
    }

    /// The retransmission timer ran out: what is outstanding and not held by the peer is lost (RFC
    /// 5681 3.1, RFC 6675 5.1). When this happens again before recovery, the peer's word on what it
    /// holds is no longer believed (RFC 2018 8).
    pub(crate) fn on_timeout(&mut self, una: Seq, nxt: Seq, board: Option<&mut Scoreboard>) {
        if let Some(board) = board.filter(|_| self.phase == Phase::Timeout) {
            board.clear();
        }
        let is_new = self.phase() == Phase::Open;
        self.begin(Phase::Timeout, if is_new { FRTO } else { 0 });
        self.points.recover = nxt;
        self.points.rxt = una;
        self.points.lost = nxt;
        self.points.inflate = 0;
        self.dupacks = 0;
    }

    /// Nothing was lost after all.
    pub(crate) fn call_off(&mut self, una: Seq) {
        if self.phase() != Phase::Open {
            self.end(una);
            // What is lost after all begins another recovery at once.
            self.points.recover = una;
        }
    }

    /// Without a record of what was sent: what is lost and was not sent again.
    pub(crate) fn lost_span(
        &self,
        una: Seq,
        nxt: Seq,
        mss: u32,
        board: Option<&Scoreboard>,
    ) -> Span {
        let edge = self.lost_edge(una, nxt, mss, board);
        Span::new(self.again_span(una, nxt).end.min(edge), edge)
    }

    /// Without a record of what was sent: where what is missing was sent again.
    pub(crate) fn again_span(&self, una: Seq, nxt: Seq) -> Span {
        Span::new(una, self.points.rxt.max(una).min(nxt))
    }

    /// `span` was sent again.
    pub(crate) fn on_retransmitted(&mut self, span: Span) {
        self.points.rxt = self.points.rxt.max(span.end);
    }

    /// Whether the arrival of something that was not sent again may show that the timeout was for
    /// nothing (RFC 5682 3.1). A first ACK for all that was in flight does not: it can be the
    /// answer to the repetition, those before it being lost.
    pub(crate) fn is_doubtful(&self, una: Seq) -> bool {
        self.phase == Phase::Timeout
            && self.so_far & FRTO != 0
            && (self.so_far & FRTO_NEW != 0 || una.lt(self.points.recover))
    }

    /// The end of what is lost where missing.
    fn lost_edge(&self, una: Seq, nxt: Seq, mss: u32, board: Option<&Scoreboard>) -> Seq {
        let by_board = board.and_then(|b| b.lost_edge(mss)).unwrap_or(una);
        una.max(self.points.lost).max(by_board).min(nxt)
    }

    fn missing_bytes(span: Span, board: Option<&Scoreboard>) -> u32 {
        span.len() - board.map_or(0, |b| b.sacked_within(span))
    }

    /// Bytes that are taken to be in the network: the pipe of RFC 6675 4 (SetPipe). Without a
    /// scoreboard, inside fast recovery, what is outstanding less what duplicate ACKs say has left.
    pub(crate) fn pipe(&self, una: Seq, nxt: Seq, mss: u32, known: Known<'_>) -> u32 {
        if let Some((sent, board)) = known.record() {
            return nxt
                .since(una)
                .saturating_sub(board.bytes())
                .saturating_sub(sent.lost_bytes(una, board));
        }
        let board = known.board;
        if board.is_none() && self.phase() != Phase::Timeout {
            return nxt.since(una).saturating_sub(self.points.inflate);
        }
        let edge = self.lost_edge(una, nxt, mss, board);
        let in_flight = Recovery::missing_bytes(Span::new(edge, nxt), board);
        in_flight + Recovery::missing_bytes(self.again_span(una, nxt), board)
    }

    /// Bytes that were sent again and are not known to have arrived.
    pub(crate) fn again_bytes(&self, una: Seq, nxt: Seq, known: Known<'_>) -> u32 {
        match known.record() {
            Some((sent, board)) => sent.again_bytes(una, board),
            None if self.phase() == Phase::Open => 0,
            None => Recovery::missing_bytes(self.again_span(una, nxt), known.board),
        }
    }

    /// Bytes that are deemed lost and were not sent again.
    pub(crate) fn lost_bytes(&self, una: Seq, nxt: Seq, mss: u32, known: Known<'_>) -> u32 {
        match known.record() {
            Some((sent, board)) => sent.lost_bytes(una, board),
            None => {
                Recovery::missing_bytes(self.lost_span(una, nxt, mss, known.board), known.board)
            }
        }
    }

    /// How many bytes may leave now as far as congestion is concerned, whichever [`Recovery::next`]
    /// says they are.
    pub(crate) fn allowance(
        &self,
        cwnd: u32,
        una: Seq,
        nxt: Seq,
        mss: u32,
        known: Known<'_>,
    ) -> u32 {
        let (pipe, board) = (self.pipe(una, nxt, mss, known), known.board);
        let room = cwnd.saturating_sub(pipe);
        let prr = known.record().and_then(|(sent, _)| sent.prr);
        match (self.phase(), prr) {
            (Phase::Fast, Some(prr)) => prr.window().saturating_sub(pipe),
            // RFC 3042: the first two duplicates each let a new segment out. With a scoreboard the
            // pipe has shrunk by what they told.
            (Phase::Open, _) if board.is_none() => {
                let extra = u32::from(self.dupacks.min(DUP_THRESH - 1)) * mss;
                cwnd.saturating_add(extra).saturating_sub(nxt.since(una))
            }
            // RFC 5681 3.2, step 3, RFC 6675 5, step 4.3, RFC 6582 3.2, step 3: the first lost
            // segment leaves whatever the window says.
            (Phase::Fast, None) if self.points.rxt.le(una) && self.points.lost.gt(una) => {
                room.max(mss)
            }
            _ => room,
        }
    }

    /// What leaves next (NextSeg of RFC 6675 4), in a span of at most `mss` bytes when it is a
    /// repetition. `unsent`: there is data that was never sent and that the peer's window has room
    /// for.
    pub(crate) fn next(
        &self,
        una: Seq,
        nxt: Seq,
        mss: u32,
        known: Known<'_>,
        unsent: bool,
    ) -> Next {
        let new = if unsent { Next::New } else { Next::Nothing };
        if self.phase() == Phase::Open || una == nxt {
            return new;
        }
        // The record knows what is lost, a second time too. What is not known to be lost is not
        // sent: RFC 8985 has neither rule 3 nor rule 4 of RFC 6675, nor has Linux, and the timers
        // say more.
        if let Some((sent, board)) = known.record() {
            return sent
                .first_lost(una, board)
                .map_or(new, |span| Next::Retransmit(first(span, mss)));
        }
        let board = known.board;
        let rxt = self.points.rxt.max(una);
        let missing = |to: Seq| {
            let span = Span::new(rxt, to);
            board
                .map_or(Some(span), |b| b.first_missing(span))
                .filter(|s| !s.is_empty())
                .map(|s| first(s, mss))
        };
        // Rule 1.
        if let Some(span) = missing(self.lost_edge(una, nxt, mss, board)) {
            return Next::Retransmit(span);
        }
        // Rule 2.
        if unsent {
            return Next::New;
        }
        let Some(board) = board.filter(|_| self.phase == Phase::Fast) else {
            return Next::Nothing;
        };
        // Rule 3: not lost yet, but below something that has arrived.
        if let Some(span) = board.highest().and_then(missing) {
            return Next::Retransmit(span);
        }
        // Rule 4. What was sent again in this recovery already needs no rescue.
        match board.last_missing(Span::new(rxt, nxt)).filter(|_| self.so_far & RESCUED == 0) {
            Some(span) => Next::Rescue(Span::new(span.start.max(span.end - mss), span.end)),
            None => Next::Nothing,
        }
    }
}

fn first(span: Span, mss: u32) -> Span {
    Span::new(span.start, span.end.min(span.start + mss))
}

impl Status {
    /// For a connection that has sent nothing but its SYN.
    pub(crate) const NEW: Status = Status { phase: Phase::Open, dupacks: 0, so_far: 0, tries: 0 };

    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        let Status { phase, dupacks, so_far, tries } = self;
        f.choice(205, phase, &[Phase::Open, Phase::Fast, Phase::Timeout, Phase::Probing]);
        f.u8(206, dupacks);
        let mut bits = *so_far & !BOARD;
        f.u8(207, &mut bits);
        *so_far = *so_far & BOARD | bits & (RESCUED | PARTIAL | PROBE_DUE | FRTO | FRTO_NEW);
        f.u8(208, tries);
    }

    /// Whether nothing is lost and nothing hints at it: no duplicate ACK has come since SND.UNA
    /// last moved, no scoreboard is held, and nothing was repeated without an answer.
    #[inline(always)]
    pub(crate) fn is_lossless(&self) -> bool {
        let Status { phase, dupacks, so_far, tries } = *self;
        u32::from_ne_bytes([phase as u8, dupacks, so_far, tries]) == 0
    }

    /// The same, whether a scoreboard is held or not.
    pub(crate) fn is_open_without_dupacks(&self) -> bool {
        self.phase as u8 | self.dupacks == 0
    }

    /// A scoreboard is held from now on, or none.
    pub(crate) fn set_board(&mut self, held: bool) {
        self.so_far = if held { self.so_far | BOARD } else { self.so_far & !BOARD };
    }

    /// Whether one is.
    #[inline(always)]
    pub(crate) fn has_board(&self) -> bool {
        self.so_far & BOARD != 0
    }

    /// Something else has begun, or ended: of what was so far only the scoreboard stays.
    fn begin(&mut self, phase: Phase, so_far: u8) {
        self.phase = phase;
        self.so_far = self.so_far & BOARD | so_far;
    }

    /// The rescue segment was sent: once per recovery.
    pub(crate) fn on_rescued(&mut self) {
        self.so_far |= RESCUED;
    }

    /// Where the connection is.
    pub(crate) fn phase(&self) -> Phase {
        if self.phase == Phase::Probing { Phase::Open } else { self.phase }
    }

    /// Whether something may leave that is not new.
    pub(crate) fn repeats(&self) -> bool {
        self.phase() != Phase::Open || self.is_probe_due()
    }

    /// A tail loss probe is to leave.
    pub(crate) fn begin_probe(&mut self) {
        self.begin(Phase::Probing, PROBE_DUE);
    }

    /// Whether it has not left yet.
    pub(crate) fn is_probe_due(&self) -> bool {
        self.phase == Phase::Probing && self.so_far & PROBE_DUE != 0
    }

    /// It has left.
    pub(crate) fn probe_left(&mut self) {
        self.so_far &= !PROBE_DUE;
    }

    /// Whether one is due, or out without an answer.
    pub(crate) fn is_probing(&self) -> bool {
        self.phase == Phase::Probing
    }

    /// It was answered.
    pub(crate) fn end_probe(&mut self) {
        if self.is_probing() {
            self.begin(Phase::Open, 0);
        }
    }

    /// Whether new data leaves before anything more is repeated, if there is a segment of it (RFC
    /// 5682 3.1, step 2.b). Less might be held back (Nagle), and then nothing would leave before
    /// the next timeout.
    pub(crate) fn prefers_new(&self) -> bool {
        self.phase == Phase::Timeout && self.so_far & FRTO_NEW != 0
    }

    /// In fast recovery, where the congestion window does not grow.
    pub(crate) fn is_frozen(&self) -> bool {
        self.phase == Phase::Fast
    }

    /// Duplicate ACKs since SND.UNA last moved.
    pub(crate) fn dupacks(&self) -> u8 {
        self.dupacks
    }
}

#[cfg(test)]
mod tests;
