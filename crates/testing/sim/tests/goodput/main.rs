//! How much of a path a stream fills, by algorithm: rate limits, round trips, buffers and losses in
//! virtual time.

mod path;
mod prague;
mod sharing;

use clearway_base::Duration;
use clearway_proto::{Config, Congestion, ConnOptions};
use path::{MBIT, Path, fairness};

const BBR: [Congestion; 2] = [Congestion::Bbr, Congestion::Bbr1];

/// The mean share of four draws of a stream of BBR over 20 Mbit/s, in thousandths, in twelve seconds
/// from the twentieth round trip on, or the third second.
fn bbr_beside_losses(version: Congestion, loss: u32, rtt_ms: u64, buffer: u64) -> u64 {
    let from = (rtt_ms / 50).max(2);
    let draws = (0..4).map(|draw| {
        // What becomes of the first version is decided by what its startup loses: those draws lose
        // other frames.
        let seed = 5 + if version == Congestion::Bbr1 { draw } else { 0 };
        let path = Path { buffer, loss, seed, ..Path::of(20 * MBIT + draw * 1_000, rtt_ms) };
        path.share(version, from, 12)
    });
    let share = draws.sum::<u64>() / 4;
    std::println!("{version:?}: {share} thousandths of {rtt_ms} ms, buffer {buffer}, {loss} lost");
    share
}

#[test]
fn bbr_fills_nine_tenths_of_a_path_that_loses_one_frame_in_a_hundred() {
    for (rtt_ms, buffer) in [(1, 400), (20, 100), (66, 100), (100, 400), (200, 100), (200, 400)] {
        let share = bbr_beside_losses(Congestion::Bbr, 10_000, rtt_ms, buffer);
        assert!(share >= 900, "{share} thousandths of {rtt_ms} ms, {buffer}");
    }
}

#[test]
fn bbr_keeps_half_of_a_path_that_loses_three_frames_in_a_hundred() {
    for (rtt_ms, buffer) in [(20, 100), (66, 100), (100, 400), (200, 100)] {
        let share = bbr_beside_losses(Congestion::Bbr, 30_000, rtt_ms, buffer);
        assert!(share >= 500, "{share} thousandths of {rtt_ms} ms, {buffer}");
    }
}

#[test]
fn the_first_version_of_bbr_fills_what_a_path_does_not_lose() {
    for (rtt_ms, buffer) in [(1, 400), (20, 100), (66, 100), (200, 100)] {
        for loss in [1_000, 10_000, 30_000, 100_000] {
            let share = bbr_beside_losses(Congestion::Bbr1, loss, rtt_ms, buffer);
            // What is probed for in one round trip of eight and then drained costs the more, the more
            // of it is lost; and over a long round trip the startup ends early.
            let share_of_rest = match (loss > 30_000, rtt_ms) {
                (false, 200) => 85,
                (false, _) => 90,
                (true, 200) => 60,
                (true, _) => 80,
            };
            let least = (1_000_000 - u64::from(loss)) / 1000 * share_of_rest / 100;
            assert!(share >= least, "{share} thousandths of {rtt_ms} ms, {buffer}, {loss} lost");
        }
    }
}

/// What the peer holds behind a hole that is long in being filled must not take the place of what
/// could leave: with a send queue of two windows and no more a fifth was left here.
#[test]
fn what_waits_behind_holes_does_not_hold_back_what_can_leave() {
    for (mbit, rtt_ms, loss, least) in [(60, 66, 100_000, 750), (200, 20, 30_000, 900)] {
        let path = Path { loss, ..Path::of(mbit * MBIT, rtt_ms) };
        let share = path.share(Congestion::Bbr1, 3, 6);
        std::println!("{share} thousandths of {path:?}");
        assert!(share >= least, "{share} thousandths of {path:?}");
    }
}

#[test]
fn bbr_fills_a_path_without_losses_whatever_its_buffer() {
    let paths = [(1, 100), (20, 20), (20, 400), (66, 20), (100, 100)];
    for (version, (rtt_ms, buffer)) in BBR.into_iter().flat_map(|v| paths.map(|path| (v, path))) {
        let path = Path { buffer, ..Path::of(20 * MBIT, rtt_ms) };
        let share = path.share(version, 3, 12);
        assert!(share >= 900, "{version:?}: {share} thousandths of {path:?}");
    }
}

#[test]
fn cubic_and_reno_fill_a_path_with_a_buffer_of_one_round_trip() {
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        for rtt_ms in [1, 20, 66] {
            let path = Path::of(20 * MBIT, rtt_ms);
            let share = path.share(congestion, 4, 10);
            assert!(share >= 930, "{share} thousandths of {path:?} with {congestion:?}");
        }
    }
}

#[test]
fn a_pacing_rate_bounds_any_algorithm_and_is_used_up() {
    for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr, Congestion::Bbr1] {
        let path = Path::of(40 * MBIT, 20);
        let limited =
            ConnOptions { congestion, max_pacing_rate: Some(1_250_000), ..ConnOptions::default() };
        let share = path.run(&[limited], Duration::from_secs(1), Duration::from_secs(5)).shares[0];
        // A quarter of the path, in payload.
        assert!((230..=262).contains(&share), "{share} thousandths with {congestion:?}");
    }
}

#[test]
fn two_streams_of_one_algorithm_share_a_path() {
    for congestion in [Congestion::Cubic, Congestion::Reno, Congestion::Bbr, Congestion::Bbr1] {
        let path = Path::of(20 * MBIT, 20);
        let stream = ConnOptions { congestion, ..ConnOptions::default() };
        let shares =
            path.run(&[stream; 2], Duration::from_secs(10), Duration::from_secs(20)).shares;
        let (fair, all) = (fairness(&shares), shares.iter().sum::<u64>());
        assert!(
            fair >= 900 && all >= 900,
            "{shares:?} thousandths, fairness {fair}, with {congestion:?}"
        );
    }
}

/// Frames that a stream loses within six seconds, and its share of the path, in a queue of eight round trips.
fn lost_in_a_deep_queue(congestion: Congestion, change: impl FnOnce(&mut Config)) -> (u64, u64) {
    let path = Path { buffer: 800, ..Path::of(40 * MBIT, 40) };
    let stream = ConnOptions { congestion, ..ConnOptions::default() };
    let time = Duration::from_secs(5);
    let outcome = path.run_with(&[stream], Duration::from_secs(1), time, change);
    (outcome.overflowed, outcome.shares[0])
}

#[test]
fn slow_start_ends_before_a_deep_queue_overflows() {
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        let (lost, share) = lost_in_a_deep_queue(congestion, |_| {});
        // A stack that takes its clock to be as coarse as that believes no delay.
        let coarse = Duration::from_millis(400);
        let (without, _) = lost_in_a_deep_queue(congestion, |c| c.tcp.clock_step = coarse);
        std::println!("{congestion:?}: {lost} lost, {without} without; {share}");
        assert!(without > 100 && lost < without / 4, "{congestion:?}: {lost}, {without} without");
        assert!(share >= 930, "{share} thousandths with {congestion:?}");
    }
}

/// What a window holds back for a moment leaves in one go, into a queue that may not take it.
#[test]
fn no_window_holds_slow_start_back() {
    for congestion in [Congestion::Cubic, Congestion::Reno] {
        for (mbit, rtt_ms) in [(30, 200), (53, 100), (80, 200), (90, 100), (100, 50), (145, 66)] {
            let path = Path::of(mbit * MBIT, rtt_ms);
            let stream = ConnOptions { congestion, ..ConnOptions::default() };
            let rtts = |n| Duration::from_millis(n * rtt_ms);
            let outcome = path.run(&[stream], rtts(6), rtts(6));
            assert!(outcome.shares[0] > 0, "{congestion:?}: nothing arrives over {path:?}");
            let held = outcome.held_by_window;
            assert_eq!(held, Duration::ZERO, "{congestion:?} over {path:?}");
        }
    }
}

#[test]
fn slow_start_has_an_ack_for_each_segment_and_what_follows_for_every_second() {
    let path = Path::of(80 * MBIT, 400);
    let stream = ConnOptions { congestion: Congestion::Reno, ..ConnOptions::default() };
    let rtts = |n| Duration::from_millis(n * path.rtt_ms);
    let early = path.run(&[stream], rtts(1), rtts(4)).acks;
    let late = path.run(&[stream], rtts(40), rtts(20)).acks;
    assert!(early >= 900 && (500..=550).contains(&late), "{early} and {late} ACKs for 1,000");
}
