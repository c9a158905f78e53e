//! A path of paper: a queue that marks what would wait for longer than a millisecond.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::{Measured, ONE, Prague, Stage, TICK_SHIFT, TRANSITION, Trip};
use crate::config::Congestion;
use crate::tcp::ack_info::AckInfo;
use crate::tcp::cc::tests::ack;
use crate::tcp::cc::{Cc, Event, Law, Window};
use crate::tcp::rtt::Rtt;

const MSS: u32 = 1000;

fn rtt_of(rtt: Duration) -> Rtt {
    let mut estimate = Rtt::new();
    estimate.on_sample(rtt, 1, MSS as u16);
    estimate
}

fn inside(cc: &Cc) -> Prague {
    match cc.law {
        Law::Prague(prague) => prague,
        _ => unreachable!(),
    }
}

struct Path {
    cc: Cc,
    now: Instant,
    una: Seq,
    rtt: Duration,
    /// Bytes in a second at which data is measured to arrive.
    rate: u64,
    /// How far marks are answered as by Reno.
    classic: u32,
}

impl Path {
    fn new(rtt_us: u64, window: u32) -> Path {
        let mut cc = Cc::new(Congestion::Prague, MSS as u16, 10);
        cc.window.cwnd = window;
        let rtt = Duration::from_micros(rtt_us);
        Path { cc, now: Instant::from_millis(1000), una: Seq(0), rtt, rate: 0, classic: 0 }
    }

    /// The average is `alpha`, and known for long.
    fn follows(&mut self, alpha: u32) {
        let since = (self.now.as_nanos() >> TICK_SHIFT) as u32;
        self.cc.law = Law::Prague(Prague { alpha, since, stage: Stage::Follows, ..Prague::NEW });
    }

    /// So many bytes are acknowledged, with a window behind them in flight.
    fn acknowledge(&mut self, bytes: u32, is_marked: bool) {
        self.una += bytes;
        let nxt = self.una + self.cc.cwnd();
        let info = AckInfo { una: self.una, nxt, ..ack(self.now, bytes, true) };
        let marked = if is_marked { bytes } else { 0 };
        let measured = Measured { is_held: false, marked, rate: self.rate, classic: self.classic };
        self.cc.on_measured_ack(&info, &rtt_of(self.rtt), measured);
    }

    /// A window of segments is acknowledged, two by two, over a round trip; `marked` says which.
    fn round(&mut self, marked: impl Fn(u32) -> bool) {
        let pairs = self.cc.cwnd() / MSS / 2;
        for n in 0..pairs {
            self.now += self.rtt.per(u64::from(pairs));
            self.acknowledge(2 * MSS, marked(n));
        }
    }
}

#[test]
fn slow_start_goes_on_until_the_first_mark_which_takes_half() {
    let mut path = Path::new(20_000, 10 * MSS);
    path.round(|_| false);
    assert_eq!(path.cc.cwnd(), 20 * MSS);
    path.round(|_| false);
    assert_eq!((path.cc.cwnd(), path.cc.in_slow_start()), (40 * MSS, true));
    path.round(|n| n == 0);
    assert!(!path.cc.in_slow_start());
    assert!((20 * MSS..22 * MSS).contains(&path.cc.cwnd()), "{}", path.cc.cwnd());
}

#[test]
fn the_window_is_cut_by_half_of_the_average_share_once_in_a_round_trip() {
    let mut path = Path::new(50_000, 100 * MSS);
    path.cc.window.ssthresh = 100 * MSS;
    path.follows(ONE / 10);
    path.round(|_| true);
    // A twentieth, however much of the round trip is marked.
    assert!((94 * MSS..96 * MSS).contains(&path.cc.cwnd()), "{}", path.cc.cwnd());
}

#[test]
fn the_average_follows_the_share_of_marks_by_a_sixteenth_in_a_round_trip() {
    let mut path = Path::new(50_000, 100 * MSS);
    path.cc.window.ssthresh = 100 * MSS;
    path.follows(ONE);
    // Whatever the window does, every fifth ACK tells of marks.
    for _ in 0..100 {
        path.cc.window.cwnd = 100 * MSS;
        path.round(|n| n % 5 == 0);
    }
    let alpha = inside(&path.cc).alpha;
    assert!((ONE / 6..ONE / 4).contains(&alpha), "{alpha}");
    path.cc.window.cwnd = 100 * MSS;
    path.round(|_| false);
    let after = inside(&path.cc).alpha;
    assert!(after < alpha && after > alpha - alpha / 8, "{alpha} {after}");
}

#[test]
fn what_the_path_carried_goes_on_a_round_trip_after_the_first_mark() {
    for (rate, cwnd) in [(1_600_000, 80), (100_000_000, 100), (500_000, 50)] {
        let mut path = Path::new(50_000, 50 * MSS);
        path.rate = rate;
        path.round(|n| n == 24);
        assert_eq!(path.cc.cwnd() / MSS, 49);
        path.cc.window.cwnd = 50 * MSS;
        path.cc.window.ssthresh = 50 * MSS;
        // What was in flight arrives, and one ACK more.
        path.cc.window.full = true;
        let until = inside(&path.cc).cut_until;
        while !path.una.ge(until) {
            path.acknowledge(2 * MSS, false);
        }
        let now = path.cc.cwnd() / MSS;
        assert!(now.abs_diff(cwnd) <= 4, "{rate}: {now}");
    }
}

#[test]
fn the_first_share_of_marks_is_the_first_average() {
    let mut path = Path::new(50_000, 100 * MSS);
    path.cc.window.ssthresh = 100 * MSS;
    path.acknowledge(2 * MSS, true);
    let half = path.cc.cwnd();
    assert_eq!(half, 50 * MSS);
    let until = inside(&path.cc).cut_until;
    while !path.una.ge(until) {
        // Marks of what was in flight at the cut say nothing new.
        path.acknowledge(2 * MSS, true);
    }
    assert!(path.cc.cwnd() >= half);
    path.round(|n| n % 5 == 0);
    path.round(|_| false);
    let prague = inside(&path.cc);
    assert!((ONE / 8..ONE / 4).contains(&prague.alpha), "{prague:?}");
    let now = path.cc.cwnd();
    assert!((half * 17 / 20..half * 97 / 100).contains(&now), "{half} {now}");
}

#[test]
fn a_loss_takes_half_and_a_timeout_leaves_one_segment() {
    let mut path = Path::new(20_000, 40 * MSS);
    path.cc.on_event(Event::Loss { flight: 40 * MSS });
    assert_eq!((path.cc.cwnd(), path.cc.in_slow_start()), (20 * MSS, false));
    path.cc.on_event(Event::Timeout { flight: 20 * MSS, again: false });
    assert_eq!((path.cc.cwnd(), path.cc.ssthresh()), (MSS, 10 * MSS));
}

#[test]
fn it_paces_at_twice_the_rate_in_slow_start_and_a_little_above_it_afterwards() {
    let mut w = Path::new(20_000, 100 * MSS).cc.window;
    let rate = |w: &Window| Prague::pacing_rate(w, Some(Duration::from_millis(20)));
    assert_eq!(rate(&w), 10_000_000);
    w.ssthresh = w.cwnd;
    assert_eq!(rate(&w), 5_500_000);
    w.cwnd = u32::MAX;
    assert!(Prague::pacing_rate(&w, Some(Duration::ZERO)) > 0);
}

#[test]
fn marks_that_come_with_nothing_new_are_answered_at_once() {
    let mut path = Path::new(50_000, 100 * MSS);
    path.cc.window.ssthresh = 100 * MSS;
    path.follows(ONE / 2);
    // A duplicate that tells of a segment behind a hole, and that it was marked.
    let info = AckInfo {
        una: path.una,
        nxt: path.una + 100 * MSS,
        acked: 0,
        dup: true,
        delivered: MSS,
        ..ack(path.now, 2 * MSS, true)
    };
    let measured = Measured { is_held: false, marked: MSS, rate: 0, classic: 0 };
    path.cc.on_measured_ack(&info, &rtt_of(path.rtt), measured);
    assert_eq!(path.cc.cwnd(), 75 * MSS, "and nothing grows");
    assert_eq!((inside(&path.cc).delivered, inside(&path.cc).marked), (MSS, MSS));
}

#[test]
fn marks_in_fast_recovery_count_for_the_average_and_cut_nothing() {
    let mut path = Path::new(50_000, 100 * MSS);
    path.cc.window.ssthresh = 100 * MSS;
    path.follows(ONE / 2);
    for n in 0..60 {
        path.now += Duration::from_millis(1);
        path.una += 2 * MSS;
        let info =
            AckInfo { una: path.una, nxt: path.una + 100 * MSS, ..ack(path.now, 2 * MSS, true) };
        let marked = if n < 50 { 2 * MSS } else { 0 };
        let measured = Measured { is_held: true, marked, rate: 0, classic: 0 };
        path.cc.on_measured_ack(&info, &rtt_of(path.rtt), measured);
    }
    assert_eq!(path.cc.cwnd(), 100 * MSS);
    let alpha = inside(&path.cc).alpha;
    assert!((ONE * 17 / 32..ONE * 18 / 32).contains(&alpha), "{alpha}");
}

#[test]
fn the_first_share_that_is_known_in_fast_recovery_cuts_nothing_there() {
    let mut path = Path::new(50_000, 100 * MSS);
    path.cc.window.ssthresh = 100 * MSS;
    path.follows(ONE);
    let Law::Prague(prague) = &mut path.cc.law else { panic!("Prague") };
    prague.stage = Stage::Samples;
    path.now += Duration::from_millis(60);
    let info = AckInfo { una: path.una, nxt: path.una, ..ack(path.now, 2 * MSS, true) };
    let held = Measured { is_held: true, marked: MSS, rate: 0, classic: 0 };
    path.cc.on_measured_ack(&info, &rtt_of(path.rtt), held);
    assert_eq!((inside(&path.cc).stage, inside(&path.cc).alpha), (Stage::Follows, ONE / 2));
    assert_eq!(path.cc.cwnd(), 100 * MSS);
}

/// Two paths whose windows stand for the same rate, of which one is five times shorter; their
/// queue has been marking for `rounds` round trips.
fn near_and_far(rounds: u16, alpha: u32) -> [Path; 2] {
    [(5_000, 20), (25_000, 100)].map(|(rtt_us, segments)| {
        let mut path = Path::new(rtt_us, segments * MSS);
        path.cc.window.ssthresh = segments * MSS;
        path.follows(alpha);
        let Law::Prague(prague) = &mut path.cc.law else { unreachable!() };
        prague.rounds = rounds;
        path
    })
}

/// Bytes in a second that the window stands for after a while.
fn rate_after(path: &mut Path, time: Duration, marked: impl Fn(u32) -> bool) -> u64 {
    let end = path.now + time;
    while path.now < end {
        path.round(&marked);
    }
    u64::from(path.cc.cwnd()) * 1_000_000 / (path.rtt.as_nanos() / 1000)
}

#[test]
fn below_25_ms_the_rate_grows_as_over_25_ms() {
    let [near, far] = near_and_far(TRANSITION, ONE / 8)
        .map(|mut path| rate_after(&mut path, Duration::from_secs(1), |_| false));
    // Of 4 MB/s.
    assert!(near > 5_000_000 && near.abs_diff(far) * 20 < far, "{near} {far}");
}

#[test]
fn below_25_ms_the_rate_is_cut_as_over_25_ms() {
    let time = Duration::from_millis(200);
    let [near, far] = near_and_far(TRANSITION, ONE / 8)
        .map(|mut path| rate_after(&mut path, time, |n| n % 2 == 0));
    assert!(near < 3_000_000 && near.abs_diff(far) * 10 < far, "{near} {far}");
}

#[test]
fn a_short_round_trip_counts_as_such_at_first_and_where_nothing_is_marked() {
    // For five hundred round trips; and when the average has become nothing.
    for (rounds, alpha) in [(0, ONE / 8), (TRANSITION, 0)] {
        let [mut near, _] = near_and_far(rounds, alpha);
        for _ in 0..10 {
            near.round(|_| false);
        }
        assert!(near.cc.cwnd() >= 28 * MSS, "about a segment in each of ten round trips");
    }
    // After a loss, where no mark has ever come.
    let mut path = Path::new(5_000, 20 * MSS);
    path.cc.window.ssthresh = 20 * MSS;
    for _ in 0..10 {
        path.round(|_| false);
    }
    assert!(path.cc.cwnd() >= 28 * MSS);
    // Five hundred round trips over a queue that marks a little are over at some time.
    let [mut near, _] = near_and_far(0, ONE / 8);
    for _ in 0..520 {
        near.round(|n| n == 3);
    }
    assert_eq!(inside(&near.cc).rounds, TRANSITION);
    let trip = Trip { time: near.rtt, classic: 0 };
    assert!(inside(&near.cc).is_virtual(trip));
}

#[test]
fn in_a_classic_queue_a_mark_takes_as_much_as_with_reno_or_the_share_if_that_is_more() {
    let whole = super::classic::ONE;
    for (alpha, classic, left) in [
        (ONE / 10, 0, 95),
        (ONE / 10, whole / 2, 90),
        (ONE / 10, whole, 80),
        (0, whole, 80),
        (ONE, whole, 50),
    ] {
        let mut path = Path::new(50_000, 100 * MSS);
        path.cc.window.ssthresh = 100 * MSS;
        path.follows(alpha);
        path.classic = classic;
        path.acknowledge(2 * MSS, true);
        assert!(path.cc.cwnd().abs_diff(left * MSS) <= 1, "{alpha} {classic}");
    }
}

#[test]
fn in_a_classic_queue_a_short_round_trip_counts_as_such() {
    let [mut near, _] = near_and_far(TRANSITION, ONE / 8);
    near.classic = super::classic::ONE;
    for _ in 0..10 {
        near.round(|_| false);
    }
    assert!(near.cc.cwnd() >= 28 * MSS, "about a segment in each of ten round trips");
}
