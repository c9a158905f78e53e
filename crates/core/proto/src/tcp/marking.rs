//! What ECN does at each step of a connection (RFC 3168 6.1, RFC 9768): [`ecn`](super::ecn)
//! decides, and the connection does it.

use clearway_wire::tcp::AccEcn;
use clearway_wire::{Ecn, Flags, Segment, Seq};

use super::cc::Event;
use super::conn::Conn;
use super::context::{Came, ConnCx, Pools};
use super::ecn::{Arrived, Asked, EcnState, Feedback, Handshake, Leaving};
use super::marks::Marks;
use super::recovery::Phase;
use super::span::Span;
use crate::config::{Congestion, EcnMode};
use crate::counters::TcpCounters;
use crate::store::Env;

/// What ECN writes into the headers of a segment that leaves.
#[derive(Clone, Copy, Default)]
pub(crate) struct Stamp {
    /// The bits of the IP header.
    pub mark: u8,
    pub flags: Flags,
    pub option: Option<AccEcn>,
}

impl<E: Env> Conn<E> {
    /// What is remembered, when ECN is in use.
    pub(crate) fn ecn<'a>(&self, p: &'a Pools<E>) -> Option<&'a EcnState> {
        if self.marks.has(Marks::ECN) { self.suffered(p).ecn.as_ref() } else { None }
    }

    /// The same, or what our SYN asks for.
    fn ecn_mut<'a>(&self, p: &'a mut Pools<E>) -> Option<&'a mut EcnState> {
        self.rare.get_mut(&mut p.rare_stats)?.ecn.as_mut()
    }

    /// Our SYN asks for what `mode` says.
    #[cold]
    pub(crate) fn wants_ecn(&mut self, p: &mut Pools<E>, mode: EcnMode) {
        let asked = Asked::by(mode);
        if asked != Feedback::None {
            self.note_rare(p, |t| t.ecn = Some(EcnState::new(asked)));
        }
    }

    /// There will be no ECN.
    pub(crate) fn gives_ecn_up(&mut self, p: &mut Pools<E>) {
        self.marks.clear(Marks::ECN);
        if let Some(rare) = self.rare.get_mut(&mut p.rare_stats) {
            rare.ecn = None;
        }
    }

    /// Both ends have agreed on ECN. There are as many places as connections.
    fn begin_ecn(&mut self, p: &mut Pools<E>, counters: &mut TcpCounters, state: EcnState) {
        match state.feedback {
            Feedback::None => return,
            Feedback::Classic => counters.ecn_classic += 1,
            Feedback::Accurate => counters.ecn_accurate += 1,
        }
        self.note_rare(p, |t| t.ecn = Some(state));
        self.marks.put(Marks::ECN, !self.rare.is_none());
    }

    /// As a server, once its handshake is complete.
    #[cold]
    pub(crate) fn serves_ecn(
        &mut self,
        p: &mut Pools<E>,
        counters: &mut TcpCounters,
        (handshake, syn_acks_repeated): (Handshake, u8),
    ) {
        self.begin_ecn(p, counters, EcnState::of_server(handshake, syn_acks_repeated, self.iss));
    }

    /// As a client, when the SYN-ACK has come.
    #[cold]
    pub(crate) fn hears_syn_ack(
        &mut self,
        p: &mut Pools<E>,
        counters: &mut TcpCounters,
        (seg, mark): (&Segment, Ecn),
    ) {
        let Some(asked) = self.suffered(p).ecn else { return };
        match EcnState::of_client(asked, seg.flags, mark, seg.opts.acc_ecn) {
            Some(state) => self.begin_ecn(p, counters, state),
            None => self.gives_ecn_up(p),
        }
    }

    /// What our SYN says, and when it says nothing, that it did not ask.
    #[cold]
    pub(crate) fn asks_for_ecn(&mut self, p: &mut Pools<E>, unanswered: u8) -> Flags {
        let Some(state) = self.ecn_mut(p) else { return Flags::NONE };
        let flags = Asked::flags(state.feedback, unanswered);
        if flags == Flags::NONE {
            state.gives_up_asking();
        }
        flags
    }

    /// What the headers of a segment say that leaves now, with `room` bytes for an option.
    #[cold]
    #[inline(never)]
    pub(crate) fn ecn_stamp(&self, p: &Pools<E>, leaving: Leaving, room: usize) -> Stamp {
        let Some(state) = self.ecn(p) else { return Stamp::default() };
        let (mark, flags) = state.stamp(leaving, self.ect());
        // All three counters, or those that fit: what has changed last stands first (RFC 9768
        // 3.2.3).
        let count = (1..=3).rev().find(|count| AccEcn::padded_len(*count) <= room);
        let option = count.filter(|_| state.option_is_due()).map(|count| state.option(count));
        Stamp { mark: mark as u8, flags, option }
    }

    /// What ECN-capable packets carry: ECT(1) says that marks are heeded as Prague does (RFC 9331
    /// 4.1).
    fn ect(&self) -> Ecn {
        if self.settings.congestion() == Congestion::Prague { Ecn::Ect1 } else { Ecn::Ect0 }
    }

    /// Whether the peer says how much of what we send is marked, and we may send what can be.
    pub(crate) fn tells_each_mark(&self, p: &Pools<E>) -> bool {
        self.ecn(p).is_some_and(EcnState::tells_each_mark)
    }

    /// Whether what leaves must not be cut by a device.
    #[cold]
    pub(crate) fn leaves_alone(&self, p: &Pools<E>) -> bool {
        self.ecn(p).is_some_and(EcnState::must_leave_alone)
    }

    /// Such a segment has left.
    #[cold]
    #[inline(never)]
    pub(crate) fn ecn_left(&mut self, p: &mut Pools<E>, flags: Flags, with_option: bool) {
        if let Some(state) = self.ecn_mut(p) {
            state.left(flags, with_option);
        }
    }

    /// The window was cut because of a loss.
    pub(crate) fn ecn_is_cut(&mut self, p: &mut Pools<E>) {
        let nxt = self.snd.nxt;
        if self.marks.has(Marks::ECN) {
            if let Some(state) = self.ecn_mut(p) {
                state.is_cut(nxt);
            }
        }
    }

    /// The retransmission timer has run out.
    pub(crate) fn ecn_timed_out(&mut self, p: &mut Pools<E>) {
        self.ecn_is_cut(p);
        let tries = self.recovery.tries;
        if self.marks.has(Marks::ECN) {
            if let Some(state) = self.ecn_mut(p) {
                state.timed_out(tries);
            }
        }
    }

    /// Whether a mark has cut the window less than a round trip ago: an ACK up to `una` lets it
    /// grow no more than a loss would (RFC 3168 6.1.2). After a timeout it grows, for slow start
    /// repairs what was lost (RFC 5681 3.1): one segment in a round trip would take for ever.
    pub(crate) fn ecn_holds_back(&mut self, p: &mut Pools<E>, una: Seq) -> bool {
        self.marks.has(Marks::ECN)
            && self.recovery.phase() != Phase::Timeout
            && self.ecn_mut(p).is_some_and(|state| state.holds_back(una))
    }
}

/// An acceptable segment has come, and its ACK is in range; nothing of it has been taken yet.
#[cold]
#[inline(never)]
pub(crate) fn arrived<E: Env>(
    c: &mut Conn<E>,
    cx: &mut ConnCx<'_, '_, E>,
    seg: &Segment,
    came: Came,
) {
    let Came { mark, len, segment_size } = came;
    let segments = if segment_size == 0 { 1 } else { len.div_ceil(u32::from(segment_size)).max(1) };
    let board = c.board(cx.pools);
    let acked = if seg.ack.gt(c.snd.una) {
        // What was held selectively was told of by the ACKs that said so.
        seg.ack.since(c.snd.una)
            - board.map_or(0, |b| b.sacked_within(Span::new(c.snd.una, seg.ack)))
    } else {
        0
    };
    let stamp_is_newer =
        seg.opts.ts.is_some_and(|(val, _)| (val.wrapping_sub(c.ts_recent) as i32) > 0);
    let sacks = seg.opts.sack.iter().any(|(_, right)| {
        right.gt(seg.ack)
            && right.le(c.snd.nxt)
            && board.is_none_or(|b| b.highest().is_none_or(|to| right.gt(to)))
    });
    let arrived = Arrived {
        flags: seg.flags,
        mark,
        len,
        segments,
        option: seg.opts.acc_ecn,
        has_sack: !seg.opts.sack.is_empty(),
        is_newer: seg.ack.gt(c.snd.una)
            || seg.ack == c.snd.una && (stamp_is_newer || len > 0 && seg.seq == c.rcv.nxt || sacks),
        acked,
        mss: u32::from(c.mss),
    };
    let Some(state) = c.ecn_mut(cx.pools) else { return };
    let verdict = state.take(&arrived);
    if mark == Ecn::Ce {
        cx.stack.counters.tcp.ce_segs_in += u64::from(segments);
    }
    if verdict.ack_now {
        c.ack_now();
    }
    if verdict.marked > 0 {
        on_ce_marks(c, cx, seg.ack, verdict.marked);
    }
}

/// So many packets that were in flight were marked: once in a round trip the window is cut, unless
/// the algorithm weighs how many were. In recovery it was cut already.
fn on_ce_marks<E: Env>(c: &mut Conn<E>, cx: &mut ConnCx<'_, '_, E>, ack: Seq, marked: u32) {
    cx.stack.counters.tcp.ce_delivered += u64::from(marked);
    let (nxt, flight) = (c.snd.nxt, c.outstanding());
    let Some(state) = c.ecn_mut(cx.pools) else { return };
    let counts = state.feedback == Feedback::Accurate;
    if counts && c.marks.has(Marks::PACED) && c.weighs_marks(cx.pools, marked) {
        return;
    }
    let Some(state) = c.ecn_mut(cx.pools) else { return };
    if flight == 0 || c.recovery.phase() != Phase::Open || !state.may_cut(ack, nxt) {
        return;
    }
    cx.stack.counters.tcp.ecn_reductions += 1;
    c.on_congestion(cx.pools, cx.stack.now, Event::Marked { flight });
}
