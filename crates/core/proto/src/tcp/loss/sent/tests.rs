use alloc::vec::Vec;

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;
use proptest::prelude::*;

use super::{FLIGHTS, Flight, Lost, Sent};
use crate::tcp::sack::Scoreboard;
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

/// What is known of each byte in flight: when it last left, and whether it had left before.
struct Model {
    una: u32,
    bytes: Vec<(Instant, bool)>,
    /// There never were more runs than places.
    exact: bool,
}

impl Model {
    fn check(&mut self, sent: &Sent) {
        let runs = 1 + self.bytes.windows(2).filter(|pair| pair[0] != pair[1]).count();
        self.exact &= runs <= FLIGHTS;
        let flights = sent.flights();
        assert!(flights.len() <= FLIGHTS);
        let mut next = FIRST + self.una;
        for &Flight { span, at, again } in flights {
            assert_eq!(span.start, next, "flights lie together");
            assert!(!span.is_empty());
            for n in 0..span.len() {
                let known = self.bytes[(span.start.since(FIRST) - self.una + n) as usize];
                if self.exact {
                    assert_eq!((at, again), known);
                }
                assert!(at >= known.0, "nothing is older than it is");
            }
            next = span.end;
        }
        assert_eq!(next, FIRST + self.una + self.bytes.len() as u32, "all that is in flight is covered");
    }
}

proptest! {
    #[test]
    fn the_record_covers_what_is_in_flight_and_makes_nothing_older(
        acts in prop::collection::vec((0u8..4, 1u32..40, 1u32..40, 0u64..3), 1..80),
    ) {
        let mut now = 1;
        let mut sent = Sent::new(span(0, 20), at(0));
        let mut model = Model { una: 0, bytes: (0..20).map(|_| (at(0), false)).collect(), exact: true };
        for (what, a, b, time) in acts {
            now += time;
            let flight = model.bytes.len() as u32;
            let end = model.una + flight;
            match what {
                0 | 1 => {
                    sent.on_sent(span(end, end + a), at(now));
                    model.bytes.extend((0..a).map(|_| (at(now), false)));
                }
                2 => {
                    let from = a % flight;
                    let to = (from + b).min(flight);
                    sent.on_sent_again(span(model.una + from, model.una + to), at(now));
                    model.bytes[from as usize..to as usize].fill((at(now), true));
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

#[test]
fn what_was_sent_before_something_delivered_is_lost_when_the_window_has_passed() {
    let mut sent = Sent::new(span(0, 30), at(0));
    sent.on_sent(span(30, 60), at(2));
    // 10 to 20 and 40 to 50 arrive, the latter 20 ms after it left.
    let board = board(&[(10, 20), (40, 50)], 60);
    sent.on_delivered(FIRST, FIRST + 50, at(22), ms(20));
    let lost = |now, window| sent.lost(FIRST, at(now), ms(window), &board);
    assert_eq!(lost(22, 0), Lost { edge: FIRST + 50, look: None });
    assert_eq!(lost(22, 5), Lost { edge: FIRST, look: Some(at(25)) });
    // The first flight is lost two milliseconds before what stands before the delivered part of the second.
    assert_eq!(lost(25, 5), Lost { edge: FIRST + 30, look: Some(at(27)) });
    assert_eq!(lost(27, 5), Lost { edge: FIRST + 50, look: None });
}

#[test]
fn what_was_sent_again_is_not_lost_again_and_tells_no_round_trip_shorter_than_the_shortest() {
    let mut sent = Sent::new(span(0, 30), at(0));
    sent.on_sent(span(30, 40), at(5));
    sent.on_sent_again(span(0, 10), at(21));
    let board = board(&[(20, 30)], 40);
    // The first copy arrives, one millisecond after the second left.
    sent.on_delivered(FIRST + 10, FIRST + 30, at(22), ms(20));
    assert_eq!(sent.lost(FIRST + 10, at(22), ms(0), &board).edge, FIRST + 30, "by the copy of 20 to 30 alone");
    assert_eq!(sent.newest.unwrap().at, at(0));
    // Had it been the second copy, what left before it would be lost too.
    sent.on_delivered(FIRST + 10, FIRST + 30, at(41), ms(20));
    assert_eq!(sent.newest.unwrap().at, at(21));
    assert_eq!(sent.lost(FIRST + 10, at(41), ms(0), &board).edge, FIRST + 40);
}
