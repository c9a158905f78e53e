//! Explicit congestion notification: what both ends agree on in their SYNs, what a connection
//! remembers of it, and what goes into each header (RFC 3168 6.1; RFC 9768 for the accurate form,
//! AccECN).
//!
//! ```text
//!             asked by the SYN     answered by the SYN-ACK      afterwards
//!   RFC 3168  CWR ECE              ECE                          ECE until CWR comes; CWR once
//!   AccECN    AE CWR ECE           how the SYN was marked       ACE: a counter of marked packets, three bits; an option with counters of bytes
//! ```

mod handshake;
#[cfg(test)]
mod tests;

use clearway_wire::tcp::AccEcn;
use clearway_wire::{Ecn, Flags, Seq};

use super::api::{EcnFeedback, EcnInfo};
use crate::export::Fields;

use handshake::FIRST_BYTES;
pub(crate) use handshake::{Asked, Feedback, Handshake};

/// The bits of TOS and traffic class that belong to ECN: of a stream they are nobody's to set (RFC
/// 3168 5).
pub(crate) const TOS_BITS: u8 = 3;

/// What the ACE field begins with (RFC 9768 3.2.1).
const FIRST_ACE: u32 = 5;

/// The low bits of a counter of packets that the ACE field says.
const ACE_MASK: u32 = 7;

/// Marked data segments that are answered at once (n of RFC 9768 3.2.2.5.1), and marked segments of
/// any kind: fewer could make two ends that acknowledge each other's ACKs go on for ever, and more
/// than seven would make the counter come round.
const ACK_AFTER_DATA: u8 = 2;
const ACK_AFTER_ANY: u8 = 6;

/// What a connection that uses ECN remembers of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct EcnState {
    /// What is agreed on, or what our SYN asked for while it is not answered.
    pub feedback: Feedback,
    /// [`NO_ECT`] and the others below.
    bits: u16,
    /// The peer's marks that were fed back: packets with CE, and bytes of payload with ECT(0), CE
    /// and ECT(1).
    pub delivered_ce: u32,
    pub delivered_bytes: [u32; 3],
    /// What arrived marked: the same.
    pub received_ce: u32,
    pub received_bytes: [u32; 3],
    /// SND.NXT when the window was cut last: marks on what was sent before mean the same congestion
    /// (RFC 3168 6.1.2).
    cut_until: Seq,
    /// Segments with CE that no ACK of ours has told of.
    untold: u8,
    /// The codepoint of the last segment with payload.
    last: Ecn,
    /// What the ACE field of the ACK that completes the handshake says; 0: the counter (RFC 9768
    /// 3.2.2.1).
    reflect: u8,
}

/// Nothing that we send may be marked: ECN-capable packets may not get through, or what comes back
/// of their marks is not to be believed.
const NO_ECT: u16 = 1;
/// Marks that are fed back are not heeded (RFC 9768 3.2.2.4).
const DEAF: u16 = 1 << 1;
/// A mark has arrived, and the peer has not said that it knows (RFC 3168 6.1.3).
const ECHO: u16 = 1 << 2;
/// The next new data carries CWR.
const CWR_DUE: u16 = 1 << 3;
/// The window was cut, and [`EcnState::cut_until`] is not acknowledged yet.
const CUT: u16 = 1 << 4;
/// The peer has sent an AccECN option: it and the way take it.
const OPTION_SEEN: u16 = 1 << 5;
/// Our options may be what is dropped on the way.
const NO_OPTION: u16 = 1 << 6;
/// Counters of bytes have changed since an option of ours left.
const OPTION_DUE: u16 = 1 << 7;
/// The last of these changes was one of ECT(1).
const ECT1_CHANGED: u16 = 1 << 8;
/// The next segment is the first from the peer behind its SYN (RFC 9768 3.2.2.4).
const FIRST: u16 = 1 << 9;
/// The same, and it answers the SYN-ACK with how that was marked (RFC 9768 3.2.2.1).
const ANSWERS_SYN_ACK: u16 = 1 << 10;
/// A segment with an ECT codepoint or CE has arrived.
const SEEN: u16 = 1 << 11;
/// One of our SYNs did not ask.
const PLAIN_SYN: u16 = 1 << 12;
const ALL: u16 = (1 << 13) - 1;

/// What leaves, as far as ECN tells segments apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Leaving {
    /// Bytes that were never sent.
    New,
    /// Bytes, or a FIN, that were sent before.
    Again,
    /// An ACK and nothing else, or our FIN without bytes.
    Ack,
    /// A probe of the window, or of whether the peer lives.
    Probe,
}

/// What an arriving segment says, as far as ECN is concerned.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrived {
    pub flags: Flags,
    /// How it was marked on the way.
    pub mark: Ecn,
    /// Bytes of payload, and how many segments they came in: a device may have joined some.
    pub len: u32,
    pub segments: u32,
    pub option: Option<AccEcn>,
    /// It has SACK blocks.
    pub has_sack: bool,
    /// It says something that no earlier segment can have said, so its counters are not older than
    /// those that are known.
    pub is_newer: bool,
    /// Bytes of ours that it acknowledges.
    pub acked: u32,
    /// Payload of our full segments.
    pub mss: u32,
}

/// What is to be done about an arriving segment.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Verdict {
    /// An ACK must leave at once.
    pub ack_now: bool,
    /// So many of our packets are newly known to have been marked. With RFC 3168 one stands for any
    /// number.
    pub marked: u32,
}

impl EcnState {
    /// For what is agreed on, or asked for.
    pub(crate) fn new(feedback: Feedback) -> EcnState {
        EcnState {
            feedback,
            bits: 0,
            delivered_ce: 0,
            delivered_bytes: [0; 3],
            received_ce: 0,
            received_bytes: [0; 3],
            cut_until: Seq(0),
            untold: 0,
            last: Ecn::NotEct,
            reflect: 0,
        }
    }

    /// As a server has it once the handshake is complete.
    pub(crate) fn of_server(handshake: Handshake, syn_acks_repeated: u8, iss: Seq) -> EcnState {
        let mut state = EcnState { cut_until: iss, ..EcnState::new(handshake.feedback) };
        if handshake.feedback == Feedback::Accurate {
            state.set(FIRST | ANSWERS_SYN_ACK, true);
            state.count_syn(handshake.syn_mark);
            // RFC 9768 3.1.5: not after a SYN-ACK that did not say yes.
            state.set(NO_ECT, syn_acks_repeated >= handshake::ASKED_TWICE);
        }
        state
    }

    /// As a client has it when the SYN-ACK with `flags` and `mark` has come. None: there will be no
    /// ECN.
    pub(crate) fn of_client(
        asked: EcnState,
        flags: Flags,
        mark: Ecn,
        option: Option<AccEcn>,
    ) -> Option<EcnState> {
        let answer = handshake::answer(asked.feedback, flags)?;
        let mut state = EcnState { feedback: answer.feedback, ..asked };
        // RFC 3168 6.1.1.1, RFC 9768 3.1.5: whoever has sent a SYN that did not ask marks nothing,
        // though he feeds back.
        state.set(NO_ECT, asked.has(PLAIN_SYN));
        if answer.feedback == Feedback::Accurate {
            state.set(FIRST, true);
            state.set(OPTION_SEEN | OPTION_DUE, option.is_some());
            if answer.syn_mark != Ecn::NotEct {
                // Our SYN was not ECN-capable, and somebody has changed that (RFC 9768 3.2.2.3).
                state.set(NO_ECT, true);
                state.delivered_ce = u32::from(answer.syn_mark == Ecn::Ce);
            }
            state.reflect = handshake::reflected(mark);
            state.count_syn(mark);
        }
        Some(state)
    }

    /// A SYN or SYN-ACK with CE counts as the first marked packet (RFC 9768 3.2.2.1, table 3).
    fn count_syn(&mut self, mark: Ecn) {
        self.received_ce = u32::from(mark == Ecn::Ce);
        self.set(SEEN, mark != Ecn::NotEct);
    }

    fn has(&self, bit: u16) -> bool {
        self.bits & bit != 0
    }

    fn set(&mut self, bits: u16, on: bool) {
        self.bits = if on { self.bits | bits } else { self.bits & !bits };
    }

    /// Whether the peer says how much of what we send is marked, and we may send what can be.
    pub(crate) fn tells_each_mark(&self) -> bool {
        self.feedback == Feedback::Accurate && !self.has(NO_ECT | DEAF)
    }

    /// Our SYN leaves without asking.
    pub(crate) fn gives_up_asking(&mut self) {
        self.set(PLAIN_SYN, true);
    }

    /// What is told of it.
    pub(crate) fn info(&self) -> EcnInfo {
        EcnInfo {
            feedback: match self.feedback {
                Feedback::None => EcnFeedback::None,
                Feedback::Classic => EcnFeedback::Classic,
                Feedback::Accurate => EcnFeedback::Accurate,
            },
            seen: self.has(SEEN),
            capable: !self.has(NO_ECT),
            deaf: self.has(DEAF),
            options_seen: self.has(OPTION_SEEN),
            delivered_ce: self.delivered_ce,
            delivered_bytes: self.delivered_bytes,
            received_ce: self.received_ce,
            received_bytes: self.received_bytes,
        }
    }

    /// The ECN bits of the IP header, and the flags, of what leaves now. `ect` is what ECN-capable
    /// packets of this connection carry.
    pub(crate) fn stamp(&self, leaving: Leaving, ect: Ecn) -> (Ecn, Flags) {
        let mut flags = Flags::NONE;
        match self.feedback {
            Feedback::None => return (Ecn::NotEct, flags),
            Feedback::Classic => {
                if self.has(ECHO) {
                    flags |= Flags::ECE;
                }
                if self.has(CWR_DUE) && leaving == Leaving::New {
                    flags |= Flags::CWR;
                }
            }
            Feedback::Accurate => flags = Flags::of_ace(self.ace(leaving)),
        }
        // RFC 3168 6.1.4 to 6.1.6. With AccECN the marks of pure ACKs are counted and heeded, so
        // these too may be ECN-capable (RFC 8311 4.3), as on Linux.
        let may_be_marked = leaving == Leaving::New
            || leaving == Leaving::Ack && self.feedback == Feedback::Accurate;
        (if may_be_marked && !self.has(NO_ECT) { ect } else { Ecn::NotEct }, flags)
    }

    fn ace(&self, leaving: Leaving) -> u8 {
        if self.reflect != 0 && leaving == Leaving::Ack {
            return self.reflect;
        }
        (self.received_ce.wrapping_add(FIRST_ACE) & ACE_MASK) as u8
    }

    /// Whether a device that cuts what leaves now into segments would change the ACE field: all
    /// devices clear CWR behind the first (RFC 9768 5.1).
    pub(crate) fn must_leave_alone(&self) -> bool {
        self.feedback == Feedback::Accurate
            && Flags::of_ace(self.ace(Leaving::New)).contains(Flags::CWR)
    }

    /// Whether the next segment carries the option.
    pub(crate) fn option_is_due(&self) -> bool {
        self.bits & (OPTION_SEEN | OPTION_DUE | NO_OPTION) == OPTION_SEEN | OPTION_DUE
    }

    /// The option with the first `count` counters.
    pub(crate) fn option(&self, count: usize) -> AccEcn {
        let mut counters = self.received_bytes;
        for (counter, first) in counters.iter_mut().zip(FIRST_BYTES) {
            *counter = counter.wrapping_add(first);
        }
        AccEcn::new(self.has(ECT1_CHANGED), counters, count)
    }

    /// A segment that [`EcnState::stamp`] gave `flags` has left, with the option or without.
    pub(crate) fn left(&mut self, flags: Flags, with_option: bool) {
        self.untold = 0;
        self.reflect = 0;
        if flags.contains(Flags::CWR) && self.feedback == Feedback::Classic {
            self.set(CWR_DUE, false);
        }
        if with_option {
            self.set(OPTION_DUE, false);
        }
    }

    /// The retransmission timer has run out `tries` times for the same data. What may be special
    /// about our packets on this way is left out.
    pub(crate) fn timed_out(&mut self, tries: u8) {
        if tries >= 2 {
            self.set(NO_OPTION, true);
        }
    }

    /// Takes an acceptable segment.
    pub(crate) fn take(&mut self, a: &Arrived) -> Verdict {
        self.set(SEEN, self.has(SEEN) || a.mark != Ecn::NotEct);
        match self.feedback {
            Feedback::None => Verdict::default(),
            Feedback::Classic => self.take_classic(a),
            Feedback::Accurate => self.take_accurate(a),
        }
    }

    fn take_classic(&mut self, a: &Arrived) -> Verdict {
        let mut verdict =
            Verdict { ack_now: false, marked: u32::from(a.flags.contains(Flags::ECE)) };
        self.delivered_ce = self.delivered_ce.wrapping_add(verdict.marked);
        if a.flags.contains(Flags::CWR) && a.len > 0 {
            // The peer may wait for this ACK with a window of one segment.
            verdict.ack_now = true;
            self.set(ECHO, false);
        }
        // RFC 3168 6.1.4: nobody honest sends a pure ACK that can be marked.
        if a.mark == Ecn::Ce && a.len > 0 {
            self.received_ce = self.received_ce.wrapping_add(a.segments);
            verdict.ack_now |= !self.has(ECHO);
            self.set(ECHO, true);
        }
        verdict
    }

    fn take_accurate(&mut self, a: &Arrived) -> Verdict {
        let ack_now = self.count_received(a);
        let is_counter = !(self.has(FIRST) && self.take_first(a));
        if a.option.is_some() && !self.has(OPTION_SEEN) {
            // From now on ours go out too: what is known already first.
            self.set(OPTION_SEEN | OPTION_DUE, true);
        }
        let marked = if a.is_newer && is_counter { self.count_delivered(a) } else { 0 };
        Verdict { ack_now, marked: if self.has(DEAF) { 0 } else { marked } }
    }

    /// What arrives with which mark (RFC 9768 3.2.1). True: an ACK must leave now (3.2.2.5.1,
    /// 3.2.3.3).
    fn count_received(&mut self, a: &Arrived) -> bool {
        if a.mark == Ecn::Ce {
            self.received_ce = self.received_ce.wrapping_add(a.segments);
            self.untold = self.untold.saturating_add(a.segments.min(u32::from(u8::MAX)) as u8);
        }
        if a.len == 0 {
            return self.untold >= ACK_AFTER_ANY;
        }
        let changes = a.mark != self.last;
        self.last = a.mark;
        if let Some(at) = counter_of(a.mark) {
            self.received_bytes[at] = self.received_bytes[at].wrapping_add(a.len);
            self.set(OPTION_DUE, true);
            if a.mark != Ecn::Ce {
                self.set(ECT1_CHANGED, a.mark == Ecn::Ect1);
            }
        }
        changes && (a.mark == Ecn::Ce || self.untold > 0) || self.untold >= ACK_AFTER_DATA
    }

    /// The first segment behind the peer's SYN: whether the ACE field gets through (RFC 9768
    /// 3.2.2.4), and how our SYN-ACK was marked (table 4). True: that is what the field says, and
    /// no counter.
    fn take_first(&mut self, a: &Arrived) -> bool {
        let answers = self.has(ANSWERS_SYN_ACK) && a.len == 0 && !a.has_sack && !a.flags.fin();
        self.set(FIRST | ANSWERS_SYN_ACK, false);
        let ace = a.flags.ace();
        if ace == 0 {
            self.set(NO_ECT | DEAF, true);
        } else if answers {
            if let Some(mark) = handshake::unreflected(ace).filter(|mark| *mark != Ecn::NotEct) {
                // Our SYN-ACK was not ECN-capable, and somebody has changed that (3.2.2.3).
                self.set(NO_ECT, true);
                self.delivered_ce = u32::from(mark == Ecn::Ce);
            }
        }
        answers
    }

    /// How many packets were marked (RFC 9768 A.2): what the ACE field says modulo eight, and as
    /// many times eight more as may be and the bytes do not contradict.
    fn count_delivered(&mut self, a: &Arrived) -> u32 {
        let ce_bytes = a.option.and_then(|option| self.take_option(&option));
        let known = self.delivered_ce.wrapping_add(FIRST_ACE);
        let least = u32::from(a.flags.ace()).wrapping_sub(known) & ACE_MASK;
        let packets = a.acked.div_ceil(a.mss.max(1));
        // None of ours were marked that could not be.
        let marked = if packets <= ACE_MASK || self.has(NO_ECT) {
            least
        } else {
            let most = packets - (packets.wrapping_sub(least) & ACE_MASK);
            match ce_bytes {
                // Marks on packets without payload only.
                Some(0) => least,
                Some(bytes) if bytes.div_ceil(a.mss.max(1)) <= least => least,
                // As many as these bytes can have filled, and no fewer than full segments would
                // have been.
                Some(bytes) => most.min(
                    least + (bytes.div_ceil(a.mss.max(1)) - least).next_multiple_of(ACE_MASK + 1),
                ),
                // RFC 9768 A.2.1: better one cut too many than a counter that has come round
                // unseen.
                None => most,
            }
        };
        self.delivered_ce = self.delivered_ce.wrapping_add(marked);
        marked
    }

    /// Takes the counters of an option; says by how many bytes that of CE has grown. None: it does
    /// not say.
    fn take_option(&mut self, option: &AccEcn) -> Option<u32> {
        const LOW: u32 = 0xff_ffff;
        let mut ce = None;
        for (at, told) in option.counters().into_iter().enumerate() {
            let Some(told) = told else { continue };
            let known = self.delivered_bytes[at].wrapping_add(FIRST_BYTES[at]);
            let more = told.wrapping_sub(known) & LOW;
            // Half of the circle back: an older one.
            if more <= LOW / 2 {
                self.delivered_bytes[at] = self.delivered_bytes[at].wrapping_add(more);
                if at == CE {
                    ce = Some(more);
                }
            }
        }
        ce
    }

    /// Whether marks that `ack` tells of are news: the window was not cut since what they are on
    /// had left. Then it is to be cut, and what was sent up to `nxt` is of the same congestion (RFC
    /// 3168 6.1.2: once in a window of data).
    pub(crate) fn may_cut(&mut self, ack: Seq, nxt: Seq) -> bool {
        if self.has(CUT) && ack.le(self.cut_until) {
            return false;
        }
        self.is_cut(nxt);
        true
    }

    /// The window was cut, for whatever reason, when so much had been sent: the peer is told (RFC
    /// 3168 6.1.2).
    pub(crate) fn is_cut(&mut self, nxt: Seq) {
        self.cut_until = nxt;
        self.set(CUT, true);
        self.set(CWR_DUE, self.feedback == Feedback::Classic);
    }

    /// Whether the window was cut less than a round trip ago, as far as `una` says: then it does
    /// not grow.
    pub(crate) fn holds_back(&mut self, una: Seq) -> bool {
        if self.has(CUT) && una.gt(self.cut_until) {
            self.set(CUT, false);
        }
        self.has(CUT)
    }

    /// Its part of a record ([`crate::export`]), under 500 to 515.
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        f.choice(500, &mut self.feedback, &[Feedback::None, Feedback::Classic, Feedback::Accurate]);
        f.u16(501, &mut self.bits);
        f.u32(502, &mut self.delivered_ce);
        f.u32(503, &mut self.delivered_bytes[0]);
        f.u32(504, &mut self.delivered_bytes[1]);
        f.u32(505, &mut self.delivered_bytes[2]);
        f.u32(506, &mut self.received_ce);
        f.u32(507, &mut self.received_bytes[0]);
        f.u32(508, &mut self.received_bytes[1]);
        f.u32(509, &mut self.received_bytes[2]);
        f.seq(510, &mut self.cut_until);
        f.u8(511, &mut self.untold);
        f.choice(512, &mut self.last, &[Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]);
        f.u8(513, &mut self.reflect);
        self.bits &= ALL;
    }
}

/// The place of CE among the counters of bytes.
const CE: usize = 1;

fn counter_of(mark: Ecn) -> Option<usize> {
    match mark {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(0),
        Ecn::Ce => Some(CE),
        Ecn::Ect1 => Some(2),
    }
}
