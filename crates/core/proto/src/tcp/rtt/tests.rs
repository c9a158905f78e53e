use clearway_base::Duration;

use super::{LONGEST, Rtt};
use crate::config::TcpConfig;

const MSS: u16 = 1460;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn config() -> TcpConfig {
    TcpConfig::default()
}

#[test]
fn it_is_small() {
    assert!(size_of::<Rtt>() <= 24);
}

#[test]
fn before_the_first_sample_the_initial_timeout_holds() {
    let rtt = Rtt::new();
    assert_eq!(rtt.rto(&config()), Duration::from_secs(1));
    assert_eq!(rtt.srtt(), None);
    assert_eq!(rtt.min(), None);
}

#[test]
fn the_first_sample_sets_average_and_half_of_it_as_deviation() {
    let mut rtt = Rtt::new();
    rtt.on_sample(ms(800), 0, MSS);
    assert_eq!(rtt.srtt(), Some(ms(800)));
    assert_eq!(rtt.rttvar(), ms(400));
    assert_eq!(rtt.rto(&config()), ms(800 + 4 * 400));
}

#[test]
fn a_second_sample_moves_by_an_eighth_and_a_quarter() {
    let mut rtt = Rtt::new();
    rtt.on_sample(ms(800), 0, MSS);
    rtt.on_sample(ms(1600), 0, MSS);
    assert_eq!(rtt.srtt(), Some(ms(900)));
    assert_eq!(rtt.rttvar(), ms(300 + 200));
    rtt.on_sample(ms(100), 0, MSS);
    assert_eq!(rtt.srtt(), Some(ms(800)));
}

#[test]
fn many_samples_in_one_round_trip_count_as_about_one() {
    let (mut once, mut often) = (Rtt::new(), Rtt::new());
    once.on_sample(ms(100), 0, MSS);
    often.on_sample(ms(100), 0, MSS);
    once.on_sample(ms(200), 0, MSS);
    for _ in 0..50 {
        often.on_sample(ms(200), 100 * u32::from(MSS), MSS);
    }
    let (a, b) = (once.srtt().unwrap(), often.srtt().unwrap());
    assert!(b <= a && b + ms(1) >= a, "{a} {b}");
}

#[test]
fn a_microsecond_path_is_not_rounded_away_under_many_samples() {
    let mut rtt = Rtt::new();
    rtt.on_sample(Duration::from_micros(10), 0, MSS);
    for _ in 0..100_000 {
        rtt.on_sample(Duration::from_micros(2), 1 << 20, MSS);
    }
    assert!(rtt.srtt().unwrap() < Duration::from_micros(3), "{:?}", rtt.srtt());
    assert_eq!(rtt.min(), Some(Duration::from_micros(2)));
}

#[test]
fn a_steady_path_still_leaves_the_lower_bound_above_the_average() {
    let mut rtt = Rtt::new();
    for _ in 0..200 {
        rtt.on_sample(ms(190), 0, MSS);
    }
    assert_eq!(rtt.rto(&config()), ms(390));
}

#[test]
fn each_timeout_doubles_up_to_the_upper_bound_and_a_sample_ends_it() {
    let mut rtt = Rtt::new();
    for expected in [2, 4, 8, 16, 32, 64, 120, 120] {
        rtt.on_timeout();
        assert_eq!(rtt.rto(&config()), Duration::from_secs(expected));
    }
    for _ in 0..300 {
        rtt.on_timeout();
    }
    assert_eq!(rtt.rto(&config()), Duration::from_secs(120));
    rtt.on_sample(ms(20), 0, MSS);
    assert_eq!(rtt.backoff(), 0);
    assert_eq!(rtt.rto(&config()), ms(220));
}

#[test]
fn the_doubling_can_be_ended_without_a_sample() {
    let mut rtt = Rtt::new();
    rtt.on_sample(ms(100), 0, MSS);
    let before = rtt.rto(&config());
    rtt.on_timeout();
    assert_eq!(rtt.rto(&config()), before.times(2));
    rtt.reset_backoff();
    assert_eq!(rtt.rto(&config()), before);
}

#[test]
fn a_repeated_syn_leads_to_three_seconds_until_the_first_sample() {
    let mut rtt = Rtt::new();
    rtt.on_timeout();
    rtt.on_syn_timed_out();
    assert_eq!(rtt.rto(&config()), Duration::from_secs(3));
    rtt.on_sample(ms(100), 0, MSS);
    assert_eq!(rtt.rto(&config()), ms(300));
}

#[test]
fn absurd_samples_do_not_overflow() {
    let mut rtt = Rtt::new();
    for r in [LONGEST, Duration::ZERO, LONGEST, LONGEST] {
        rtt.on_sample(r, u32::MAX, 1);
        rtt.on_timeout();
        assert!(rtt.rto(&config()) <= config().rto_max);
        assert!(rtt.rto(&config()) >= config().rto_min);
    }
    assert_eq!(rtt.min(), Some(Duration::ZERO));
}
