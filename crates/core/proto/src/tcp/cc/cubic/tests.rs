extern crate std;

use clearway_base::{Duration, Instant};
use proptest::prelude::*;

use super::{Cubic, cube_root, cubic_at, k_ms};
use crate::config::Congestion;
use crate::tcp::cc::tests::ack;
use crate::tcp::cc::{Cc, Event, Law, MAX_CWND};
use crate::tcp::rtt::Rtt;

const MSS: u32 = 1000;

#[test]
fn cube_roots_are_exact() {
    for n in (0..2000u64).chain([2_642_244, 2_642_245]) {
        let cube = n * n * n;
        assert_eq!(u64::from(cube_root(cube)), n);
        if n > 1 {
            assert_eq!(u64::from(cube_root(cube - 1)), n - 1);
            assert_eq!(u64::from(cube_root(cube + 1)), n);
        }
    }
    assert_eq!(cube_root(u64::MAX), 2_642_245);
}

#[test]
fn k_is_where_the_curve_comes_back_to_where_the_loss_was() {
    // 30 segments below: cbrt(30 / 0.4) = 4.217 s.
    assert_eq!(k_ms(30 * MSS, MSS as u16), 4217);
    assert_eq!(k_ms(0, MSS as u16), 0);
    assert!(k_ms(2 * MAX_CWND, 1) > 0);
}

#[test]
fn the_curve_rises_by_four_tenths_of_a_segment_after_a_second() {
    assert_eq!(cubic_at(50_000, 1000, MSS as u16), 50_400);
    assert_eq!(cubic_at(50_000, -1000, MSS as u16), 49_600);
    assert_eq!(cubic_at(50_000, 10_000, MSS as u16), 450_000);
    assert_eq!(cubic_at(50_000, -100_000, MSS as u16), 0);
    assert_eq!(cubic_at(50_000, i64::MAX, u16::MAX), 2 * MAX_CWND);
}

proptest! {
    #[test]
    fn the_curve_is_that_of_the_formula(w_max in 0u32..MAX_CWND, d in -200_000i64..200_000,
        mss in 88u16..9000) {
        let rise = 0.4 * (d as f64 / 1000.0).powi(3) * f64::from(mss);
        let exact = (f64::from(w_max) + rise).clamp(0.0, f64::from(2 * MAX_CWND));
        let got = f64::from(cubic_at(w_max, d, mss));
        // Far from the middle, the first of two divisions cuts less than one off a quotient of 2^45
        // / 10^6 or more, and the last one less than a byte. What is lost is therefore a part of
        // the rise, however little of the window is left once it was taken off.
        let lost = 1.0 + rise.abs() / ((1u64 << 45) / 1_000_000) as f64;
        prop_assert!((got - exact).abs() <= lost + 1e-3, "{got} {exact} {lost}");
    }
}

/// Round trips of `rtt` on a path where the window is always in use; returns the window after each.
fn run(cc: &mut Cc, now: &mut Instant, rtt_ms: u64, rounds: usize) -> alloc::vec::Vec<u32> {
    let mut rtt = Rtt::new();
    rtt.on_sample(Duration::from_millis(rtt_ms), 0, MSS as u16);
    (0..rounds)
        .map(|_| {
            let acks = (cc.cwnd() / (2 * MSS)).max(1);
            let gap = Duration::from_millis(rtt_ms).per(u64::from(acks));
            for _ in 0..acks {
                *now += gap;
                cc.on_ack(&ack(*now, 2 * MSS, true), &rtt);
            }
            cc.cwnd()
        })
        .collect()
}

/// A connection whose window was `window` when it lost something.
fn after_loss(window: u32) -> Cc {
    let mut cc = Cc::new(Congestion::Cubic, MSS as u16, 10);
    cc.window.cwnd = window;
    cc.on_event(Event::Loss { flight: window });
    cc
}

fn inside(cc: &Cc) -> &Cubic {
    match &cc.law {
        Law::Cubic(c) => c,
        Law::Reno(_) | Law::Bbr(_) | Law::Prague(_) | Law::Starting(..) => unreachable!(),
    }
}

#[test]
fn in_one_round_trip_the_window_grows_by_half_at_most() {
    // The curve is 3,200 segments further after 20 s.
    let mut cc = after_loss(20 * MSS);
    let mut now = Instant::ZERO;
    let windows = run(&mut cc, &mut now, 20_000, 6);
    for pair in windows.windows(2).skip(1) {
        let (least, most) = (pair[0] * 145 / 100, pair[0] * 3 / 2);
        assert!((least..=most).contains(&pair[1]), "{windows:?}");
    }
}

#[test]
fn after_a_loss_the_window_is_back_after_k_and_flat_there() {
    let mut cc = after_loss(1000 * MSS);
    let mut now = Instant::from_millis(5000);
    // K = cbrt(300 / 0.4) = 9.086 s.
    let windows = run(&mut cc, &mut now, 100, 150);
    // The window follows the curve about one round trip behind, which is up to 8 segments where it
    // is steep.
    let near = |round: usize, segments: u32| {
        let got = windows[round] / MSS;
        assert!(got.abs_diff(segments) <= 10, "round {round}: {got} for {segments}");
    };
    near(9, 1000 - (0.4f64 * 8.0 * 8.0 * 8.0) as u32);
    near(50, 1000 - (0.4f64 * 3.9 * 3.9 * 3.9) as u32);
    near(90, 1000);
    near(139, 1000 + (0.4f64 * 5.0 * 5.0 * 5.0) as u32);
}

#[test]
fn a_small_window_grows_by_a_segment_in_a_round_trip_below_where_the_loss_was() {
    // The curve is at 2.6 and 3.1 of four segments after one round trip and two, and at 3.6 and 4.1
    // of five.
    for (window, segments) in [(4, [3, 4]), (5, [4, 5])] {
        let mut cc = after_loss(window * MSS);
        let mut rtt = Rtt::new();
        rtt.on_sample(Duration::from_millis(200), 0, MSS as u16);
        let windows = [200, 400].map(|ms| {
            cc.on_ack(&ack(Instant::from_millis(5000 + ms), cc.cwnd(), true), &rtt);
            cc.cwnd() / MSS
        });
        assert_eq!(windows, segments, "after {window}");
    }
}

proptest! {
    #[test]
    fn the_window_grows_by_whole_segments(window in 2u32..2000, rtt_ms in 1u64..1000,
        acks in proptest::collection::vec(1u32..3 * MSS, 1..200)) {
        let mut cc = after_loss(window * MSS);
        let mut rtt = Rtt::new();
        rtt.on_sample(Duration::from_millis(rtt_ms), 0, MSS as u16);
        let mut now = Instant::ZERO;
        for bytes in acks {
            now += Duration::from_millis(rtt_ms).per(4);
            cc.on_ack(&ack(now, bytes, true), &rtt);
            prop_assert_eq!(cc.cwnd() % MSS, 0);
        }
    }
}

#[test]
fn on_a_short_path_it_is_not_slower_than_reno_would_be() {
    // At 1 ms the curve needs seconds for what Reno does in milliseconds.
    let mut cc = after_loss(40 * MSS);
    let mut now = Instant::ZERO;
    let windows = run(&mut cc, &mut now, 1, 100);
    // 9/17 of a segment in each round until 40, then one.
    assert!(windows[20] / MSS >= 36, "{windows:?}");
    assert!(windows[99] / MSS >= 80, "{windows:?}");
}

#[test]
fn a_loss_before_the_old_window_is_reached_gives_way_to_others() {
    let mut cc = after_loss(1000 * MSS);
    assert_eq!(inside(&cc).w_max, 1000 * MSS);
    cc.on_event(Event::Loss { flight: 700 * MSS });
    // 700 < 1000, so the curve aims at 700 · 0.85.
    assert_eq!(inside(&cc).w_max, 595 * MSS);
    assert_eq!(cc.cwnd(), 490 * MSS);
}

#[test]
fn the_curve_does_not_run_on_while_nothing_was_limited_by_it() {
    let mut cc = after_loss(1000 * MSS);
    let mut now = Instant::ZERO;
    run(&mut cc, &mut now, 100, 10);
    let before = cc.cwnd();
    for _ in 0..600 {
        now += Duration::from_millis(100);
        cc.on_ack(&ack(now, MSS, false), &Rtt::new());
    }
    // A minute later it goes on from where it was.
    let after = run(&mut cc, &mut now, 100, 1)[0];
    assert!(after >= before && after - before < 60 * MSS, "{before} {after}");
}

#[test]
fn the_first_avoidance_after_a_timeout_begins_flat() {
    let mut cc = after_loss(100 * MSS);
    cc.on_event(Event::Timeout { flight: 70 * MSS, again: false });
    let mut now = Instant::ZERO;
    while cc.in_slow_start() {
        run(&mut cc, &mut now, 100, 1);
    }
    let at_start = cc.cwnd();
    assert_eq!(at_start, 49 * MSS);
    run(&mut cc, &mut now, 100, 1);
    assert_eq!((inside(&cc).k_ms, inside(&cc).w_max), (0, at_start));
}

#[test]
fn growth_below_one_byte_per_ack_is_not_lost() {
    let mut cc = after_loss(MAX_CWND / 2);
    let mut rtt = Rtt::new();
    rtt.on_sample(Duration::from_millis(50), 0, MSS as u16);
    let start = cc.cwnd();
    let mut now = Instant::ZERO;
    for _ in 0..200_000 {
        now += Duration::from_micros(10);
        cc.on_ack(&ack(now, 1, true), &rtt);
    }
    // The target lies far ahead, yet one byte of acknowledgement moves the window by a small part
    // of a byte.
    assert!(cc.cwnd() > start && cc.cwnd() - start < 200_000, "{}", cc.cwnd() - start);
}
