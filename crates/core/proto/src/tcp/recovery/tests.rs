use alloc::vec;
use alloc::vec::Vec;

use clearway_base::Instant;
use clearway_wire::Seq;
use proptest::prelude::*;

use super::{Known, Next, Phase, Points, Recovery, Signal, Status};
use crate::tcp::ack_info::AckInfo;
use crate::tcp::cc::tests::ack;
use crate::tcp::sack::Scoreboard;
use crate::tcp::span::Span;

const MSS: u32 = 100;
const ISS: Seq = Seq(999);

fn span(start: u32, end: u32) -> Span {
    Span::new(Seq(start), Seq(end))
}

/// A sender with everything sent from 1000 on, as the machine would drive its recovery.
struct Sender {
    recovery: Recovery,
    board: Option<Scoreboard>,
    una: Seq,
    nxt: Seq,
    mss: u32,
}

impl Sender {
    fn new(sack: bool, segments: u32) -> Sender {
        Sender {
            recovery: Recovery::of(Points::at(ISS + 1), Status::NEW),
            board: sack.then(Scoreboard::new),
            una: Seq(1000),
            nxt: Seq(1000 + segments * MSS),
            mss: MSS,
        }
    }

    fn hears(&mut self, una: u32, blocks: &[(u32, u32)]) -> Signal {
        let blocks: Vec<_> = blocks.iter().map(|&(s, e)| (Seq(s), Seq(e))).collect();
        self.hears_raw(Seq(una), &blocks)
    }

    fn hears_raw(&mut self, una: Seq, blocks: &[(Seq, Seq)]) -> Signal {
        let acked = una.since(self.una);
        self.una = una;
        let newly = self.board.as_mut().map(|b| {
            b.advance(una);
            b.update(blocks, una, self.nxt).newly
        });
        let info = AckInfo {
            acked,
            dup: acked == 0 && newly.is_none_or(|n| n > 0),
            una,
            nxt: self.nxt,
            flight: self.nxt.since(una),
            ..ack(Instant::ZERO, acked, true)
        };
        self.recovery.on_ack(&info, self.board.as_ref(), self.mss)
    }

    /// The same ACK `n` times more.
    fn hears_again(&mut self, n: u32) {
        for _ in 0..n {
            self.hears_raw(self.una, &[]);
        }
    }

    /// Losses are counted: there is no record.
    fn known(&self) -> Known<'_> {
        Known { board: self.board.as_ref(), sent: None }
    }

    fn next(&self, unsent: bool) -> Next {
        self.recovery.next(self.una, self.nxt, self.mss, self.known(), unsent)
    }

    fn allowance(&self, cwnd: u32) -> u32 {
        self.recovery.allowance(cwnd, self.una, self.nxt, self.mss, self.known())
    }

    fn pipe(&self) -> u32 {
        self.recovery.pipe(self.una, self.nxt, self.mss, self.known())
    }

    fn times_out(&mut self) {
        self.recovery.on_timeout(self.una, self.nxt, self.board.as_mut());
    }

    /// Sends what is to be sent again, and says what that was.
    fn resends(&mut self) -> Vec<Span> {
        let mut sent = Vec::new();
        while let Next::Retransmit(span) = self.next(false) {
            self.recovery.on_retransmitted(span);
            sent.push(span);
            assert!(sent.len() < 100);
        }
        sent
    }
}

#[test]
fn it_is_small() {
    assert!(size_of::<Recovery>() <= 24);
}

#[test]
fn two_duplicates_each_let_out_one_new_segment() {
    let mut s = Sender::new(false, 10);
    assert_eq!(s.allowance(10 * MSS), 0);
    assert_eq!(s.hears(1000, &[]), Signal::Nothing);
    assert_eq!(s.allowance(10 * MSS), MSS);
    s.nxt += MSS;
    assert_eq!(s.hears(1000, &[]), Signal::Nothing);
    assert_eq!(s.allowance(10 * MSS), MSS);
    s.nxt += MSS;
    assert_eq!(s.next(true), Next::New);
    assert_eq!(s.next(false), Next::Nothing);
}

#[test]
fn the_third_duplicate_resends_the_head_and_the_flight_is_told_without_limited_transmit() {
    let mut s = Sender::new(false, 10);
    s.hears(1000, &[]);
    s.nxt += 2 * MSS;
    s.hears(1000, &[]);
    assert_eq!(s.hears(1000, &[]), Signal::Enter { flight: 10 * MSS });
    assert_eq!(s.recovery.phase(), Phase::Fast);
    assert_eq!(s.next(true), Next::Retransmit(span(1000, 1100)));
    // Even when the cut window has no room.
    assert_eq!(s.allowance(5 * MSS), MSS);
    s.recovery.on_retransmitted(span(1000, 1100));
    assert_eq!(s.next(true), Next::New);
    assert_eq!(s.allowance(5 * MSS), 0);
}

#[test]
fn further_duplicates_let_out_new_data_once_half_of_the_flight_has_left() {
    let mut s = Sender::new(false, 10);
    s.hears_again(3);
    s.recovery.on_retransmitted(span(1000, 1100));
    // cwnd 5, inflated by 3, against 10 in flight.
    let allowed: Vec<u32> = (0..6)
        .map(|_| {
            s.hears(1000, &[]);
            s.allowance(5 * MSS) / MSS
        })
        .collect();
    assert_eq!(allowed, [0, 0, 1, 2, 3, 4]);
}

#[test]
fn made_up_duplicates_inflate_by_no_more_than_was_in_flight() {
    let mut s = Sender::new(false, 10);
    s.hears_again(10_000);
    assert_eq!(s.allowance(5 * MSS), 5 * MSS);
}

#[test]
fn a_partial_ack_resends_the_next_segment_and_deflates() {
    let mut s = Sender::new(false, 10);
    s.hears_again(6);
    s.recovery.on_retransmitted(span(1000, 1100));
    assert_eq!(s.hears(1300, &[]), Signal::Partial { first: true });
    assert_eq!(s.next(true), Next::Retransmit(span(1300, 1400)));
    // inflate was 6, less 3, plus 1: 5 + 4 - 7 in flight.
    assert_eq!(s.allowance(5 * MSS), 2 * MSS);
    s.recovery.on_retransmitted(span(1300, 1400));
    assert_eq!(s.next(true), Next::New);
    assert_eq!(s.hears(1500, &[]), Signal::Partial { first: false });
    assert_eq!(s.next(true), Next::Retransmit(span(1500, 1600)));
    assert_eq!(s.hears(2000, &[]), Signal::Left);
    assert_eq!(s.recovery.phase(), Phase::Open);
    assert!(!s.recovery.is_frozen());
}

#[test]
fn duplicates_of_what_recovery_itself_sent_again_do_not_start_another_one() {
    let mut s = Sender::new(false, 10);
    s.hears_again(3);
    assert_eq!(s.hears(2000, &[]), Signal::Left);
    s.nxt += 5 * MSS;
    (0..9).for_each(|_| assert_eq!(s.hears(2000, &[]), Signal::Nothing));
    // One byte further they mean something again.
    assert_eq!(s.hears(2100, &[]), Signal::Nothing);
    s.hears(2100, &[]);
    s.hears(2100, &[]);
    assert!(matches!(s.hears(2100, &[]), Signal::Enter { .. }));
}

#[test]
fn the_first_ack_after_the_handshake_can_already_be_duplicated() {
    let mut s = Sender::new(false, 4);
    s.hears(1000, &[]);
    s.hears(1000, &[]);
    assert!(matches!(s.hears(1000, &[]), Signal::Enter { .. }));
}

#[test]
fn with_sack_three_duplicates_start_recovery_however_little_they_tell_of() {
    let mut s = Sender::new(true, 10);
    assert_eq!(s.hears(1000, &[(1100, 1101)]), Signal::Nothing);
    assert_eq!(s.hears(1000, &[(1100, 1102)]), Signal::Nothing);
    assert_eq!(s.hears(1000, &[(1100, 1103)]), Signal::Enter { flight: 10 * MSS });
}

#[test]
fn with_sack_enough_bytes_above_a_hole_start_recovery_at_once() {
    let mut s = Sender::new(true, 10);
    assert_eq!(s.hears(1000, &[(1100, 1401)]), Signal::Enter { flight: 10 * MSS });
    assert_eq!(s.pipe(), 1000 - 100 - 301);
    assert_eq!(s.resends(), [span(1000, 1100)]);
    assert_eq!(s.pipe(), 1000 - 301);
}

#[test]
fn with_sack_the_first_two_duplicates_let_new_data_out() {
    let mut s = Sender::new(true, 10);
    s.hears(1000, &[(1100, 1200)]);
    assert_eq!(s.allowance(10 * MSS), MSS);
    s.hears(1000, &[(1100, 1300)]);
    assert_eq!(s.allowance(10 * MSS), 2 * MSS);
}

#[test]
fn all_holes_are_repaired_in_one_recovery() {
    let mut s = Sender::new(true, 20);
    s.hears(1000, &[(1100, 1200), (1300, 1400), (1500, 1900)]);
    assert_eq!(s.resends(), [span(1000, 1100), span(1200, 1300), span(1400, 1500)]);
    assert_eq!(s.next(true), Next::New);
    assert_eq!(s.hears(1200, &[(1300, 1400), (1500, 1900)]), Signal::Partial { first: true });
    assert!(s.resends().is_empty());
    assert_eq!(s.hears(3000, &[]), Signal::Left);
    assert!(s.board.as_ref().is_some_and(Scoreboard::is_empty));
}

#[test]
fn without_new_data_what_may_be_lost_is_sent_and_then_the_end_once() {
    let mut s = Sender::new(true, 10);
    // 1600..1700 has too little above it to be lost, and 1800..2000 has nothing.
    s.hears(1000, &[(1100, 1600), (1700, 1800)]);
    assert_eq!(s.next(false), Next::Retransmit(span(1000, 1100)));
    s.recovery.on_retransmitted(span(1000, 1100));
    assert_eq!(s.next(true), Next::New);
    assert_eq!(s.next(false), Next::Retransmit(span(1600, 1700)));
    s.recovery.on_retransmitted(span(1600, 1700));
    assert_eq!(s.next(false), Next::Rescue(span(1900, 2000)));
    s.recovery.on_rescued();
    assert_eq!(s.next(false), Next::Nothing);
}

#[test]
fn what_was_sent_again_needs_no_rescue() {
    let mut s = Sender::new(true, 10);
    s.hears(1000, &[(1100, 2000)]);
    assert_eq!(s.resends(), [span(1000, 1100)]);
    assert_eq!(s.next(false), Next::Nothing);
}

#[test]
fn after_a_timeout_everything_missing_is_sent_again_in_order_and_new_data_last() {
    let mut s = Sender::new(true, 10);
    s.hears(1000, &[(1200, 1300)]);
    s.times_out();
    assert_eq!(s.recovery.phase(), Phase::Timeout);
    assert_eq!(s.pipe(), 0);
    assert_eq!(s.allowance(MSS), MSS);
    assert_eq!(s.next(true), Next::Retransmit(span(1000, 1100)));
    s.recovery.on_retransmitted(span(1000, 1100));
    assert_eq!(s.allowance(MSS), 0);
    assert_eq!(s.hears(1100, &[(1200, 1300)]), Signal::Nothing);
    assert!(!s.recovery.is_frozen());
    assert_eq!(s.allowance(2 * MSS), 2 * MSS);
    assert_eq!(s.resends().len(), 8);
    assert_eq!(s.next(true), Next::New);
    assert_eq!(s.hears(1900, &[]), Signal::Nothing);
    assert_eq!(s.hears(2000, &[]), Signal::Repaired);
}

#[test]
fn after_a_timeout_without_sack_slow_start_paces_what_is_sent_again() {
    let mut s = Sender::new(false, 10);
    s.times_out();
    assert_eq!(s.allowance(MSS), MSS);
    s.recovery.on_retransmitted(span(1000, 1100));
    assert_eq!((s.pipe(), s.allowance(MSS)), (MSS, 0));
    s.hears(1100, &[]);
    assert_eq!((s.pipe(), s.allowance(2 * MSS)), (0, 2 * MSS));
    assert_eq!(s.next(true), Next::Retransmit(span(1100, 1200)));
    // The rest had arrived: nothing more is sent again.
    assert_eq!(s.hears(2000, &[]), Signal::Repaired);
    assert_eq!(s.next(true), Next::New);
}

#[test]
fn duplicates_after_a_timeout_do_not_start_fast_recovery() {
    let mut s = Sender::new(false, 10);
    s.times_out();
    (0..9).for_each(|_| assert_eq!(s.hears(1000, &[]), Signal::Nothing));
    let mut s = Sender::new(true, 10);
    s.times_out();
    assert_eq!(s.hears(1000, &[(1100, 1900)]), Signal::Nothing);
}

#[test]
fn a_second_timeout_in_a_row_forgets_what_the_peer_said_it_holds() {
    let mut s = Sender::new(true, 10);
    s.hears(1000, &[(1200, 1300)]);
    s.times_out();
    assert_eq!(s.board.as_ref().map(Scoreboard::bytes), Some(100));
    s.times_out();
    assert_eq!(s.board.as_ref().map(Scoreboard::bytes), Some(0));
    assert_eq!(s.resends().len(), 10);
}

#[test]
fn spoofed_acks_without_news_do_nothing_under_sack() {
    let mut s = Sender::new(true, 10);
    (0..100).for_each(|_| assert_eq!(s.hears(1000, &[]), Signal::Nothing));
    assert_eq!(s.allowance(10 * MSS), 0);
}

#[test]
fn recovery_still_starts_after_the_sequence_numbers_went_round() {
    for sack in [false, true] {
        let mut s = Sender::new(sack, 0);
        let mut at = Seq(1000);
        for _ in 0..50 {
            s.nxt = at + (1 << 28);
            at = s.nxt;
            assert_eq!(s.hears_raw(at, &[]), Signal::Nothing);
        }
        s.nxt = at + 10 * MSS;
        let blocks: Vec<_> = (1..4).map(|i| (at + i * MSS, at + (i + 1) * MSS)).collect();
        let signals: Vec<_> = blocks.iter().map(|b| s.hears_raw(at, &[*b])).collect();
        assert!(signals.iter().any(|s| matches!(s, Signal::Enter { .. })), "{signals:?}");
    }
}

const WIDTH: usize = 500;

/// RFC 6675 by the letter, one flag per byte.
struct Naive {
    sacked: Vec<bool>,
    una: usize,
    nxt: usize,
    mss: usize,
    high_rxt: usize,
    /// What the timer, or step 4.3 (the first segment is presumed dropped), says is lost below.
    presumed: usize,
    rescued: bool,
    fast: bool,
}

impl Naive {
    fn is_lost(&self, seq: usize) -> bool {
        let above = &self.sacked[seq + 1..self.nxt];
        let bytes = above.iter().filter(|s| **s).count();
        let spans = (0..above.len()).filter(|&i| above[i] && (i == 0 || !above[i - 1])).count();
        seq < self.presumed || spans >= 3 || bytes > 2 * self.mss
    }

    fn pipe(&self) -> usize {
        (self.una..self.nxt)
            .filter(|&i| !self.sacked[i])
            .map(|i| usize::from(!self.is_lost(i)) + usize::from(i < self.high_rxt))
            .sum()
    }

    /// The stretch of missing bytes that begins at `from`, one segment at most; `lost`: only those
    /// that are.
    fn piece(&self, from: usize, lost: bool) -> (usize, usize) {
        let len = (from..self.nxt)
            .take(self.mss)
            .take_while(|&i| !self.sacked[i] && (!lost || self.is_lost(i)))
            .count();
        (from, from + len)
    }

    fn next(&self, unsent: bool) -> (u8, usize, usize) {
        let from = self.high_rxt.max(self.una);
        let missing = || (from..self.nxt).filter(|&i| !self.sacked[i]);
        let found = |rule, (s, e)| (rule, s, e);
        if let Some(i) = missing().find(|&i| self.is_lost(i)) {
            return found(1, self.piece(i, true));
        }
        if unsent {
            return (2, 0, 0);
        }
        let highest = (self.una..self.nxt).rev().find(|&i| self.sacked[i]);
        if let Some(i) = missing().find(|&i| self.fast && highest.is_some_and(|h| i < h)) {
            return found(1, self.piece(i, false));
        }
        match missing().next_back() {
            Some(last) if self.fast && !self.rescued => {
                let len =
                    (from..=last).rev().take(self.mss).take_while(|&i| !self.sacked[i]).count();
                (4, last + 1 - len, last + 1)
            }
            _ => (0, 0, 0),
        }
    }
}

proptest! {
    #[test]
    fn it_agrees_with_rfc_6675_byte_by_byte(
        base in prop::sample::select(vec![1000u32, (1 << 31) - 250, u32::MAX - 200]),
        mss in 5u32..40,
        fast in any::<bool>(),
        ops in prop::collection::vec((0u8..10, 0usize..WIDTH, 1usize..60), 1..100),
    ) {
        let start = Seq(base);
        let seq = |i: usize| start + i as u32;
        let mut s = Sender {
            recovery: Recovery::of(Points::at(start), Status::NEW), board: Some(Scoreboard::new()),
                una: start, nxt: start + 300, mss,
        };
        let mut n = Naive {
            sacked: vec![false; WIDTH], una: 0, nxt: 300, mss: mss as usize, high_rxt: 0,
                presumed: 0, rescued: false, fast,
        };
        let first = (seq(100), seq(100 + 2 * mss as usize + 1));
        let signal = s.hears_raw(start, &[first]);
        n.sacked[100..101 + 2 * mss as usize].fill(true);
        prop_assert!(matches!(signal, Signal::Enter { .. }), "{:?}", signal);
        n.presumed = mss as usize;
        if !fast {
            s.times_out();
            n.presumed = n.nxt;
        }
        for (op, at, len) in ops {
            match op {
                0 => {
                    // The edge moves, into or past what is sacked only where a truthful receiver's
                    // would.
                    let mut to = (n.una + len).min(299);
                    while to < n.nxt && n.sacked[to] {
                        to += 1;
                    }
                    if to < 300 {
                        s.hears_raw(seq(to), &[]);
                        n.una = to;
                        n.high_rxt = n.high_rxt.max(to);
                    }
                }
                1..=4 => {
                    let (from, to) = ((n.una + 1 + at).min(n.nxt),
                        (n.una + 1 + at + len).min(n.nxt));
                    if from < to {
                        s.hears_raw(s.una, &[(seq(from), seq(to))]);
                        n.sacked[from..to].fill(true);
                    }
                }
                5 => {
                    let to = (n.nxt + len).min(WIDTH);
                    s.nxt = seq(to);
                    n.nxt = to;
                }
                _ => match s.next(op % 2 == 0) {
                    Next::Retransmit(span) => {
                        s.recovery.on_retransmitted(span);
                        n.high_rxt = n.high_rxt.max(span.end.since(start) as usize);
                    }
                    Next::Rescue(_) => {
                        s.recovery.on_rescued();
                        n.rescued = true;
                    }
                    _ => {}
                },
            }
            prop_assert_eq!(s.pipe() as usize, n.pipe());
            for unsent in [false, true] {
                let got = match s.next(unsent) {
                    Next::Nothing => (0, 0, 0),
                    Next::New => (2, 0, 0),
                    Next::Retransmit(p) => (1, p.start.since(start) as usize,
                        p.end.since(start) as usize),
                    Next::Rescue(p) => (4, p.start.since(start) as usize,
                        p.end.since(start) as usize),
                };
                prop_assert_eq!(got, n.next(unsent));
            }
        }
    }
}
