use alloc::vec::Vec;

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;
use proptest::prelude::*;

use super::{Arrival, FLIGHTS, Flight, SPARE, Sent, UNORDERED};
use crate::tcp::sack::{Delivered, Scoreboard};
use crate::tcp::span::Span;

/// Close to where the circle closes.
const FIRST: Seq = Seq(u32::MAX - 60);

fn at(ms: u64) -> Instant {
    Instant::from_millis(1_000 + ms)
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn span(start: u32, end: u32) -> Span {
    Span::new(FIRST + start, FIRST + end)
}

fn board(blocks: &[(u32, u32)], nxt: u32) -> Scoreboard {
    let mut board = Scoreboard::new();
    for &(start, end) in blocks {
        board.update(&[(FIRST + start, FIRST + end)], FIRST, FIRST + nxt);
    }
    board
}

/// What is known of each byte in flight: when it last left, whether it had left before, and its
/// place among new bytes and copies that left in turns.
struct Model {
    una: u32,
    bytes: Vec<(Instant, bool, u16)>,
    last: (bool, u16),
    /// There never were more runs than places.
    exact: bool,
}

impl Model {
    fn place(&mut self, again: bool) -> u16 {
        self.last = (again, self.last.1 + u16::from(self.last.0 != again));
        self.last.1
    }

    fn check(&mut self, sent: &Sent) {
        let runs = 1 + self.bytes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        self.exact &= runs <= FLIGHTS - SPARE;
        let flights = sent.flights();
        assert!(flights.len() <= FLIGHTS);
        let mut next = FIRST + self.una;
        for flight @ &Flight { span, at, again, order, .. } in flights {
            assert_eq!(span.start, next, "flights lie together");
            assert!(!span.is_empty());
            for n in 0..span.len() {
                let known = self.bytes[(span.start.since(FIRST) - self.una + n) as usize];
                if self.exact {
                    assert_eq!((at, again, order), known);
                }
                assert!(at >= known.0, "nothing is older than it is");
                assert!(flight.since() <= known.0, "nothing is younger than it is");
                assert!(order == UNORDERED || order == known.2, "what is known of it is so");
            }
            next = span.end;
        }
        assert_eq!(
            next,
            FIRST + self.una + self.bytes.len() as u32,
            "all that is in flight is covered"
        );
    }
}

proptest! {
    #[test]
    fn the_record_covers_what_is_in_flight_and_makes_nothing_older(
        acts in prop::collection::vec((0u8..4, 1u32..40, 1u32..40, 0u64..3), 1..160),
    ) {
        let mut now = 1;
        let mut sent = Sent::new(span(0, 20), at(0), Duration::ZERO);
        let mut model = Model { una: 0, bytes: (0..20).map(|_| (at(0), false, 1)).collect(),
            last: (false, 1), exact: true };
        for (what, a, b, time) in acts {
            now += time;
            let flight = model.bytes.len() as u32;
            let end = model.una + flight;
            match what {
                0 | 1 => {
                    sent.on_sent(span(end, end + a), at(now), None);
                    let place = model.place(false);
                    model.bytes.extend((0..a).map(|_| (at(now), false, place)));
                }
                2 => {
                    let from = a % flight;
                    let to = (from + b).min(flight);
                    sent.on_sent_again(span(model.una + from, model.una + to), at(now), None);
                    let place = model.place(true);
                    model.bytes[from as usize..to as usize].fill((at(now), true, place));
                }
                _ => {
                    // Something stays in flight: a record of nothing is given back.
                    let n = a.min(flight - 1);
                    model.una += n;
                    model.bytes.drain(..n as usize);
                    sent.advance(FIRST + model.una);
                }
            }
            model.check(&sent);
        }
    }
}

fn record(end: u32) -> Sent {
    Sent::new(span(0, end), at(0), Duration::ZERO)
}

/// An ACK over a path of 20 ms, without timestamps.
fn arrival(sent: &Sent, now: Instant) -> Arrival {
    Arrival { now, min_rtt: ms(20), echo_ms: None, fack: sent.fack() }
}

/// An ACK that tells of nothing but `piece` arrives.
fn hear(sent: &mut Sent, piece: Span, now: Instant) -> Delivered {
    let arrival = arrival(sent, now);
    sent.on_delivered(piece, &arrival)
}

/// All that is on the board arrives now.
fn deliver(sent: &mut Sent, board: &Scoreboard, now: Instant) {
    let arrival = arrival(sent, now);
    for span in board.spans() {
        sent.on_delivered(*span, &arrival);
    }
}

fn lost_spans(sent: &Sent) -> Vec<Span> {
    sent.flights().iter().filter(|flight| flight.lost).map(|flight| flight.span).collect()
}

/// A burst leaves at one time: copies first, then new bytes, and copies once more.
#[test]
fn a_copy_that_is_lost_is_found_out_by_what_left_behind_it_at_the_same_time() {
    let mut sent = record(20);
    let held = board(&[(10, 20)], 20);
    deliver(&mut sent, &held, at(20));
    assert_eq!(sent.detect(FIRST, at(20), ms(0), &held).newly, 10);
    sent.on_sent_again(span(0, 4), at(21), Some(&held));
    sent.on_sent(span(20, 40), at(21), Some(&held));
    sent.on_sent_again(span(4, 10), at(21), Some(&held));
    let held = board(&[(10, 30)], 40);
    deliver(&mut sent, &held, at(41));
    let found = sent.detect(FIRST, at(41), ms(0), &held);
    // Nothing of what left behind it: not the new bytes that are missing, nor the later copies.
    assert_eq!((found.newly, found.bytes), (4, 4));
    assert_eq!(sent.first_lost(FIRST, &held), Some(span(0, 4)));
    // The later copies arrive: what left before them is lost.
    let held = board(&[(4, 30)], 40);
    deliver(&mut sent, &held, at(41));
    let found = sent.detect(FIRST, at(41), ms(0), &held);
    assert_eq!((found.newly, found.bytes), (10, 14));
}

#[test]
fn what_was_sent_before_something_delivered_is_lost_when_the_window_has_passed() {
    let mut sent = record(30);
    sent.on_sent(span(30, 60), at(2), None);
    // 10 to 20 and 40 to 50 arrive, the latter 20 ms after it left.
    let board = board(&[(10, 20), (40, 50)], 60);
    deliver(&mut sent, &board, at(22));
    let found = sent.detect(FIRST, at(22), ms(5), &board);
    assert_eq!((found.bytes, found.newly, found.look), (0, 0, Some(at(25))));
    // The first flight is lost two milliseconds before what stands before the delivered part of the
    // second.
    let found = sent.detect(FIRST, at(25), ms(5), &board);
    assert_eq!((found.bytes, found.newly, found.look), (20, 20, Some(at(27))));
    let found = sent.detect(FIRST, at(27), ms(5), &board);
    assert_eq!((found.bytes, found.newly, found.look), (30, 10, None));
    assert_eq!(lost_spans(&sent), [span(0, 30), span(30, 50)]);
    assert_eq!(sent.first_lost(FIRST, &board), Some(span(0, 10)));
    // With no window all of it is lost at once.
    let mut again = record(30);
    deliver(&mut again, &board, at(22));
    assert_eq!(again.detect(FIRST, at(22), ms(0), &board).newly, 10);
}

#[test]
fn what_was_sent_again_tells_no_round_trip_shorter_than_the_shortest() {
    let board = board(&[(20, 30)], 40);
    for (copy, when, newest, lost) in [("first", 22, 0, 10), ("second", 41, 21, 20)] {
        let mut sent = record(30);
        sent.on_sent(span(30, 40), at(5), None);
        sent.on_sent_again(span(0, 10), at(21), None);
        deliver(&mut sent, &board, at(22));
        // One millisecond after the second copy left, it is the first that arrives.
        hear(&mut sent, span(0, 10), at(when));
        assert_eq!(sent.newest.unwrap().at, at(newest), "the {copy} copy");
        assert_eq!(sent.detect(FIRST + 10, at(when), ms(0), &board).newly, lost, "the {copy} copy");
    }
}

#[test]
fn what_was_sent_again_tells_no_time_when_an_earlier_one_is_echoed() {
    for (echo, newest) in [(1_030, 30), (1_000, 0)] {
        let mut sent = record(30);
        hear(&mut sent, span(20, 30), at(20));
        sent.on_sent_again(span(0, 10), at(30), None);
        let arrival = Arrival { echo_ms: Some(echo), ..arrival(&sent, at(60)) };
        sent.on_delivered(span(0, 10), &arrival);
        assert_eq!(sent.newest.unwrap().at, at(newest));
    }
}

#[test]
fn of_what_one_ack_tells_no_order_is_known() {
    // The latest comes first in an ACK (RFC 2018 4), and an ACK before it may be lost or joined.
    let mut sent = record(40);
    let arrival = arrival(&sent, at(20));
    for piece in [span(30, 40), span(10, 20), span(0, 5)] {
        assert!(!sent.on_delivered(piece, &arrival).late, "{piece:?}");
    }
    assert!(hear(&mut sent, span(20, 25), at(21)).late);
}

#[test]
fn what_comes_behind_what_left_later_was_late_unless_it_was_sent_again() {
    let mut sent = record(40);
    assert!(!hear(&mut sent, span(10, 20), at(20)).late);
    assert!(hear(&mut sent, span(0, 10), at(21)).late);
    let mut sent = record(40);
    hear(&mut sent, span(10, 20), at(20));
    sent.on_sent_again(span(0, 10), at(21), None);
    assert!(!hear(&mut sent, span(0, 10), at(41)).late);
}

#[test]
fn of_many_holes_those_that_were_repaired_together_are_one_flight() {
    let mut sent = record(4000);
    let mut held = Scoreboard::new();
    for n in 0..200 {
        held.update(&[(FIRST + n * 20 + 10, FIRST + n * 20 + 20)], FIRST, FIRST + 4000);
    }
    deliver(&mut sent, &held, at(20));
    assert_eq!(sent.detect(FIRST, at(20), ms(0), &held).newly, 2000);
    for n in 0..200 {
        assert_eq!(sent.first_lost(FIRST, &held), Some(span(n * 20, n * 20 + 10)));
        sent.on_sent_again(span(n * 20, n * 20 + 10), at(20 + u64::from(n / 10)), Some(&held));
        assert_eq!(sent.lost_bytes(FIRST, &held), (199 - n) * 10, "after {n}");
        assert_eq!(sent.again_bytes(FIRST, &held), (n + 1) * 10, "after {n}");
    }
    // What is held says nothing of the copies around it.
    assert_eq!(sent.newest.unwrap().at, at(0));
}

#[test]
fn what_was_sent_again_and_is_overtaken_by_what_left_later_is_lost_again() {
    let mut sent = record(30);
    let first = board(&[(10, 30)], 30);
    deliver(&mut sent, &first, at(20));
    assert_eq!(sent.detect(FIRST, at(20), ms(0), &first).newly, 10);
    sent.on_sent_again(span(0, 10), at(20), None);
    sent.on_sent(span(30, 40), at(21), None);
    assert_eq!(sent.detect(FIRST, at(30), ms(0), &first).bytes, 0);
    let later = board(&[(10, 40)], 40);
    deliver(&mut sent, &later, at(41));
    let found = sent.detect(FIRST, at(41), ms(5), &later);
    assert_eq!((found.newly, found.look), (0, Some(at(45))));
    assert_eq!(sent.detect(FIRST, at(45), ms(5), &later).newly, 10);
    assert_eq!(
        (sent.first_lost(FIRST, &later), sent.again_bytes(FIRST, &later)),
        (Some(span(0, 10)), 0)
    );
}

#[test]
fn a_copy_that_left_within_a_flight_is_not_lost_when_the_first_of_that_arrives() {
    // A sixteenth of 160 ms: what leaves between 8 and 16 ms after some moment is one flight.
    let mut sent = Sent::new(span(0, 30), at(0), ms(160));
    let first = board(&[(10, 30)], 30);
    deliver(&mut sent, &first, at(160));
    assert_eq!(sent.detect(FIRST, at(160), ms(0), &first).newly, 10);
    let mut lost = Vec::new();
    for begin in 161..170 {
        let mut sent = sent.clone();
        sent.on_sent(span(30, 40), at(begin), None);
        sent.on_sent_again(span(0, 10), at(begin + 1), None);
        sent.on_sent(span(40, 50), at(begin + 2), None);
        lost.extend([40, 50].map(|end| {
            let later = board(&[(10, end)], 50);
            deliver(&mut sent, &later, at(begin + 170));
            sent.detect(FIRST, at(begin + 170), ms(0), &later).newly
        }));
    }
    // It left behind what has arrived first, and before what arrives then.
    assert_eq!(lost, [0, 10].repeat(9));
}

#[test]
fn where_copies_outnumber_the_places_the_arrival_of_the_first_says_nothing_of_the_others() {
    // Holes of five bytes, twice as many as there are places; each is sent again 5 ms after the
    // one before.
    let holes = 2 * FLIGHTS as u32;
    let mut sent = Sent::new(span(0, 10 * holes), at(0), ms(64));
    let held: Vec<_> = (0..holes).map(|n| (10 * n + 5, 10 * n + 10)).collect();
    let mut all = board(&held, 10 * holes);
    deliver(&mut sent, &all, at(64));
    assert_eq!(sent.detect(FIRST, at(64), ms(0), &all).newly, 5 * holes);
    for n in 0..holes {
        let hole = span(10 * n, 10 * n + 5);
        sent.on_sent_again(hole, at(100 + 5 * u64::from(n)), Some(&all));
    }
    // The peer tells of the second, of the fourth, and so on.
    for n in (1..holes).step_by(2) {
        let now = at(100 + 5 * u64::from(n) + 700);
        let piece = span(10 * n, 10 * n + 5);
        let arrival = Arrival { min_rtt: ms(64), ..arrival(&sent, now) };
        sent.on_delivered(piece, &arrival);
        all.update(&[(piece.start, piece.end)], FIRST, FIRST + 10 * holes);
        let lost = sent.detect(FIRST, now, ms(0), &all);
        // Of those that left later none is lost, and of the others none that arrives.
        assert!(lost.bytes <= 5 * n.div_ceil(2), "{n}: {lost:?}");
    }
}

#[test]
fn what_leaves_within_a_sixteenth_of_a_round_trip_is_one_flight() {
    let mut sent = Sent::new(span(0, 10), at(0), ms(160));
    for n in 1..40 {
        sent.on_sent(span(n * 10, n * 10 + 10), at(u64::from(n)), None);
    }
    let flights = sent.flights();
    assert!((4..12).contains(&flights.len()), "{flights:?}");
    // It counts as late as the last of it.
    assert_eq!(flights.last().unwrap().at, at(39));
    for flight in flights {
        assert!(flight.at >= at(u64::from(flight.span.end.since(FIRST)) / 10 - 1));
    }
}

#[test]
fn neighbours_that_left_closest_to_each_other_become_one_when_there_are_too_many() {
    let mut sent = record(10);
    let mut now = 0;
    for n in 1..FLIGHTS as u32 {
        now += if n == 30 { 1 } else { 5 };
        sent.on_sent(span(n * 10, n * 10 + 10), at(now), None);
    }
    assert_eq!(sent.flights().len(), FLIGHTS);
    let end = FLIGHTS as u32 * 10;
    sent.on_sent(span(end, end + 10), at(now + 5), None);
    assert_eq!(sent.flights().len(), FLIGHTS);
    assert!(sent.flights().iter().any(|flight| flight.span == span(290, 310)));
}

#[test]
fn a_timeout_loses_all_and_a_false_alarm_takes_it_back() {
    let mut sent = record(40);
    let board = board(&[(10, 20)], 40);
    sent.lose_all();
    assert_eq!(sent.lost_bytes(FIRST, &board), 30);
    sent.on_sent_again(span(0, 10), at(300), None);
    assert_eq!((sent.lost_bytes(FIRST, &board), sent.again_bytes(FIRST, &board)), (20, 10));
    assert!(sent.was_sent_again(span(5, 25)) && !sent.was_sent_again(span(10, 40)));
    sent.recall();
    assert_eq!((sent.lost_bytes(FIRST, &board), sent.first_lost(FIRST, &board)), (0, None));
}
