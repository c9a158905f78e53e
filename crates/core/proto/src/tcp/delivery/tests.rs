use super::*;

const MS: Duration = Duration::from_millis(1);

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

/// A megabyte in a second: what leaves in each millisecond is acknowledged 20 ms later.
fn steady(estimator: &mut Delivery, from: u64, to: u64) -> RateSample {
    let mut last = RateSample::default();
    for ms in from..to {
        let sent = 1000 * ms as u32;
        if ms >= 20 {
            let sample = estimator.on_ack(at(ms), (Seq(sent - 19_000), None), 0, (MS, MS));
            if sample.rate > 0 {
                last = sample;
            }
        }
        estimator.on_sent(
            (sent - sent.saturating_sub(19_000), 1000),
            Seq(sent + 1000),
            at(ms),
            MS.times(20),
        );
    }
    last
}

#[test]
fn a_steady_stream_is_measured_at_its_rate() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    let sample = steady(&mut estimator, 0, 200);
    assert!((990_000..=1_010_000).contains(&sample.rate), "{sample:?}");
    assert_eq!(sample.rtt, Some(MS.times(20)));
    assert_eq!((sample.lost, sample.is_app_limited), (0, false));
}

#[test]
fn acks_that_come_in_a_bunch_do_not_show_more_than_was_sent() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    steady(&mut estimator, 0, 100);
    // Nothing is heard for 40 ms, and then all of it at once.
    for ms in 100..140 {
        estimator.on_sent((20_000, 1000), Seq(1000 * ms as u32 + 1000), at(ms), MS.times(20));
    }
    let sample = estimator.on_ack(at(140), (Seq(140_000), None), 0, (MS, MS));
    assert!(sample.rate > 0 && sample.rate <= 1_050_000, "{sample:?}");
}

#[test]
fn a_time_shorter_than_any_round_trip_tells_no_rate() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    estimator.on_sent((0, 1000), Seq(1000), at(0), MS);
    let sample = estimator.on_ack(at(5), (Seq(1000), None), 0, (MS.times(10), MS));
    assert_eq!((sample.rate, sample.newly_acked, sample.prior_delivered), (0, 1000, Some(0)));
}

#[test]
fn what_the_owner_limits_says_so_until_it_is_delivered() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    estimator.on_sent((0, 1000), Seq(1000), at(0), MS.times(20));
    estimator.app_limits(1000);
    estimator.on_sent((1000, 1000), Seq(2000), at(5), MS.times(20));
    assert!(estimator.is_app_limited());
    let sample = estimator.on_ack(at(20), (Seq(1000), None), 0, (MS, MS));
    assert!(!sample.is_app_limited, "{sample:?}");
    let sample = estimator.on_ack(at(25), (Seq(2000), None), 0, (MS, MS));
    assert!(sample.is_app_limited && !estimator.is_app_limited(), "{sample:?}");
}

#[test]
fn what_is_held_selectively_counts_once() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    for n in 0..10 {
        estimator.on_sent(
            (n * 1000, 1000),
            Seq(n * 1000 + 1000),
            at(u64::from(n) * 4),
            MS.times(40),
        );
    }
    let mut board = Scoreboard::new();
    board.update(&[(Seq(1000), Seq(4000))], Seq(0), Seq(10_000));
    let sample = estimator.on_ack(at(60), (Seq(0), Some(&board)), 1000, (MS, MS));
    assert_eq!((sample.newly_acked, sample.newly_lost, estimator.delivered()), (3000, 1000, 3000));
    // The hole was filled: three of the four thousand are known already.
    board.advance(Seq(4000));
    let sample = estimator.on_ack(at(100), (Seq(4000), Some(&board)), 1000, (MS, MS));
    assert_eq!((sample.newly_acked, sample.newly_lost, estimator.delivered()), (1000, 0, 4000));
}

#[test]
fn what_was_sent_twice_tells_no_round_trip() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    estimator.on_sent((0, 1000), Seq(1000), at(0), MS);
    estimator.on_sent_again(1000, Span::new(Seq(0), Seq(1000)), at(200));
    let sample = estimator.on_ack(at(220), (Seq(1000), None), 1000, (MS, MS));
    assert_eq!((sample.rtt, sample.newly_acked), (None, 1000));
}

#[test]
fn the_wait_for_a_timeout_is_no_time_of_delivery() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    estimator.on_sent((0, 1000), Seq(1000), at(0), MS);
    estimator.on_sent((1000, 1000), Seq(2000), at(0), MS);
    // A minute later both are lost; they leave again, one after the other.
    estimator.on_sent_again(0, Span::new(Seq(0), Seq(1000)), at(60_000));
    estimator.on_sent_again(1000, Span::new(Seq(1000), Seq(2000)), at(60_000));
    let sample = estimator.on_ack(at(60_020), (Seq(2000), None), 2000, (MS, MS));
    assert_eq!((sample.delivered, sample.rate), (2000, 100_000));
}

#[test]
fn markers_are_bounded_and_a_slow_path_takes_no_more() {
    let mut estimator = Delivery::new(Seq(0), 0, at(0));
    for n in 0..10_000u32 {
        estimator.on_sent((n, 1), Seq(n + 1), Instant::from_micros(u64::from(n) * 100), MS);
    }
    assert_eq!(usize::from(estimator.count), MARKERS);
    let sample = estimator.on_ack(at(2000), (Seq(10_000), None), 0, (MS, MS));
    assert_eq!((estimator.count, sample.newly_acked), (0, 10_000));
}

#[test]
fn a_coarse_clock_measures_the_rate_that_there_is() {
    // A segment each millisecond, acknowledged after `rtt_ms`, by a clock of 16 ms: what a step
    // brings has one time, and comes for a whole step.
    let step = MS.times(16);
    let shown = |ms: u64| at(ms - ms % 16);
    for rtt_ms in [1, 5, 15, 20, 31, 66] {
        let mut estimator = Delivery::new(Seq(0), 0, at(0));
        let (mut sent, mut most) = (0u32, 0);
        for ms in 0..2_000 {
            if ms >= rtt_ms {
                let una = Seq((ms - rtt_ms + 1) as u32 * 1000);
                let times = (Duration::ZERO, step);
                most = most.max(estimator.on_ack(shown(ms), (una, None), 0, times).rate);
            }
            let before = sent - (ms.saturating_sub(rtt_ms) as u32 * 1000).min(sent);
            sent += 1000;
            estimator.on_sent((before.max(1), 1000), Seq(sent), shown(ms), MS.times(rtt_ms));
        }
        assert!((900_000..=1_070_000).contains(&most), "{most} over {rtt_ms} ms");
    }
}
