use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::{ClassicQueue, ONE};
use crate::tcp::ack_info::AckInfo;
use crate::tcp::cc::tests::ack;

const MS: u64 = 1_000;

/// What a path of 20 ms tells, round trip by round trip.
struct Path {
    queue: ClassicQueue,
    now: Instant,
    una: Seq,
    clock_step: Duration,
    part: u32,
}

impl Path {
    fn new() -> Path {
        let now = Instant::from_millis(1000);
        let clock_step = Duration::from_millis(1);
        Path { queue: ClassicQueue::new(now, Seq(0)), now, una: Seq(0), clock_step, part: 0 }
    }

    /// A round trip with these samples, in microseconds; `marked`: and with marks.
    fn round(&mut self, samples: &[u64], marked: bool) {
        self.now += Duration::from_millis(20);
        for (n, us) in samples.iter().enumerate() {
            self.una += 1000;
            let is_last = n + 1 == samples.len();
            // What is acknowledged last was sent when the round trip began.
            let nxt = if is_last { self.una + 1000 * samples.len() as u32 } else { self.una };
            let info = AckInfo {
                una: self.una,
                nxt,
                rtt_sample: Some(Duration::from_micros(*us)),
                clock_step: self.clock_step,
                ..ack(self.now, 1000, true)
            };
            let bytes = if marked && n == 0 { 1000 } else { 0 };
            self.queue.on_ack(&info, bytes, true);
            self.part = self.queue.part();
        }
    }

    /// So many round trips that are longer than 20 ms by that.
    fn rounds(&mut self, count: u32, waits_us: u64, marked: bool) -> u32 {
        for _ in 0..count {
            self.round(&[20 * MS + waits_us; 8], marked);
        }
        self.part
    }
}

#[test]
fn marks_where_much_waits_tell_of_a_classic_queue_by_and_by() {
    let mut path = Path::new();
    path.rounds(1, 0, false);
    // A stranger's slow start is not enough.
    assert_eq!(path.rounds(8, 15 * MS, true), 0);
    assert_eq!(path.rounds(8, 15 * MS, true), ONE / 2);
    assert_eq!(path.rounds(8, 15 * MS, true), ONE);
    assert_eq!(path.rounds(100, 5 * MS, true), ONE, "and so do those of CoDel");
}

#[test]
fn marks_where_next_to_nothing_waits_tell_against_it() {
    let mut path = Path::new();
    path.rounds(1, 0, false);
    assert_eq!(path.rounds(100, 1_500, true), 0);
    path.rounds(100, 15 * MS, true);
    assert_eq!(path.rounds(8, 1_500, true), ONE);
    assert_eq!(path.rounds(16, 1_500, true), 0);
}

#[test]
fn what_lies_between_tells_half_as_much_and_what_is_not_marked_nothing() {
    let mut path = Path::new();
    path.rounds(1, 0, false);
    assert_eq!(path.rounds(100, 50 * MS, false), 0);
    assert_eq!(path.rounds(16, 3 * MS, true), 0);
    assert_eq!(path.rounds(16, 3 * MS, true), ONE / 2);
    assert_eq!(path.rounds(100, 0, false), ONE / 2);
}

#[test]
fn what_only_varies_is_no_queue() {
    let mut path = Path::new();
    for n in 0..100 {
        // Up to 30 ms more, and once in a round trip little.
        path.round(&[20 * MS + n * 300, 50 * MS - n * 100, 20 * MS + 1_000, 45 * MS], true);
    }
    assert_eq!(path.part, 0);
    // Few samples may all be of delayed ACKs.
    for _ in 0..100 {
        path.round(&[60 * MS, 20 * MS + 40 * MS, 60 * MS], true);
    }
    assert_eq!(path.part, 0);
}

#[test]
fn what_our_own_slow_start_has_filled_tells_nothing() {
    let mut path = Path::new();
    path.rounds(1, 0, false);
    for _ in 0..100 {
        path.una += 8000;
        path.now += Duration::from_millis(40);
        for _ in 0..8 {
            let info = AckInfo {
                una: path.una,
                nxt: path.una + 8000,
                rtt_sample: Some(Duration::from_millis(40)),
                ..ack(path.now, 1000, true)
            };
            path.queue.on_ack(&info, 1000, false);
            assert_eq!(path.queue.part(), 0);
        }
    }
}

#[test]
fn a_path_that_has_become_longer_is_no_queue_for_ever() {
    let mut path = Path::new();
    path.rounds(1, 0, false);
    // Two spans of a minute and less than another second, 50 round trips in each.
    let part = path.rounds(50 * 60, 31 * MS, true);
    assert_eq!(part, ONE);
    let part = path.rounds(50 * 61, 31 * MS, true);
    assert_eq!(part, 0);
}

#[test]
fn a_step_of_a_coarse_clock_is_no_queue() {
    // A round trip of 20 ms and a little more is told as 15.6 or 31.2.
    let mut path = Path::new();
    path.clock_step = Duration::from_micros(15_600);
    path.rounds(1, 0, false);
    for n in 0..200 {
        let us = if n % 3 == 0 { 15_600 } else { 31_200 };
        path.round(&[us; 8], true);
    }
    assert_eq!(path.part, 0);
    // Nor is 1 ms fooled by a queue of a millisecond and a half.
    let mut path = Path::new();
    path.rounds(1, 0, false);
    for n in 0..200 {
        path.round(&[(21 + n % 3) * MS; 8], true);
    }
    assert_eq!(path.part, 0);
    // It does find one of 15 ms.
    for n in 0..200 {
        path.round(&[(34 + n % 3) * MS; 8], true);
    }
    assert_eq!(path.part, ONE);
}
