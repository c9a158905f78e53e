//! Prague over a queue that marks what waits for longer than a millisecond (L4S), and over one that
//! only drops.

use clearway_base::Duration;
use clearway_proto::{Config, Congestion, ConnOptions, EcnMode};
use clearway_sim::link::Managed;

use super::path::{MBIT, Outcome, Path};

fn marked(rate: u64, rtt_ms: u64) -> Path {
    Path { buffer: 200, marks: Some(Duration::from_millis(1)), ..Path::of(rate, rtt_ms) }
}

fn run(path: &Path, streams: &[ConnOptions], warm_s: u64, time_s: u64) -> Outcome {
    path.run(streams, Duration::from_secs(warm_s), Duration::from_secs(time_s))
}

fn prague() -> ConnOptions {
    ConnOptions { congestion: Congestion::Prague, ..ConnOptions::default() }
}

#[test]
fn prague_fills_a_path_whose_queue_is_marked_from_a_millisecond_on() {
    for (rate, rtt_ms) in [(50 * MBIT, 5), (50 * MBIT, 20), (50 * MBIT, 50)] {
        let path = marked(rate, rtt_ms);
        let Outcome { shares, queue_us, overflowed, .. } = run(&path, &[prague()], 3, 5);
        std::println!("{shares:?} thousandths, {queue_us} us, {overflowed} lost, {path:?}");
        assert!(shares[0] >= 950, "{shares:?} thousandths of {path:?}");
        assert!(queue_us <= 2_000, "{queue_us} us of {path:?}");
        assert_eq!(overflowed, 0, "{path:?}");
    }
}

#[test]
fn two_streams_of_prague_share_within_a_tenth() {
    // Where nothing ever varies and the window moves little in a round trip, each packet meets the
    // same queue in each of them, and one of two is marked for both.
    for (rtt_ms, jitter_us) in [(5, 500), (40, 0)] {
        let path = Path { jitter_us, ..marked(50 * MBIT, rtt_ms) };
        let Outcome { shares, queue_us, .. } = run(&path, &[prague(); 2], 8, 8);
        std::println!("{shares:?} thousandths, {queue_us} us, {path:?}");
        // Each is within a tenth of a half.
        assert!(shares[0].abs_diff(shares[1]) * 10 <= shares[0] + shares[1], "{shares:?}");
        assert!(shares.iter().sum::<u64>() >= 950 && queue_us <= 2_000, "{shares:?} {queue_us}");
    }
}

#[test]
fn where_nothing_is_marked_prague_answers_losses_as_reno_does() {
    let path = Path { marks: None, ..marked(20 * MBIT, 20) };
    let reno = ConnOptions { congestion: Congestion::Reno, ..ConnOptions::default() };
    let Outcome { shares, overflowed, .. } = run(&path, &[prague(), reno], 5, 12);
    std::println!("{shares:?} thousandths, {overflowed} lost, {path:?}");
    assert!(overflowed > 0 && shares.iter().sum::<u64>() >= 950, "{shares:?} {overflowed}");
    assert!((350..=650).contains(&shares[0]), "{shares:?}");
}

#[test]
fn with_a_peer_without_acc_ecn_a_stream_of_prague_goes_by_cubic() {
    // Neither is marked what it sends, nor does it keep the queue below what marks.
    let path = Path { rtt_ms: 20, ..marked(50 * MBIT, 20) };
    let off = ConnOptions { ecn: EcnMode::Off, ..prague() };
    let cubic = ConnOptions::default();
    let both = [off, cubic].map(|options| run(&path, &[options], 3, 5));
    std::println!("{:?} {:?}", both[0].shares, both[1].shares);
    assert_eq!(both[0].shares, both[1].shares);
    assert_eq!(both[0].queue_us, both[1].queue_us);
}

#[test]
fn over_a_short_and_a_long_round_trip_prague_gets_about_the_same() {
    // Behind five hundred round trips of the longer one as well.
    for far_ms in [20, 25] {
        let path = Path { far_ms, ..marked(50 * MBIT, 5) };
        let Outcome { shares, queue_us, .. } = run(&path, &[prague(); 2], 15, 10);
        std::println!("{shares:?} thousandths, {queue_us} us, {path:?}");
        assert!((700..=1430).contains(&(shares[0] * 1000 / shares[1])), "{shares:?} of {path:?}");
        assert!(shares.iter().sum::<u64>() >= 950 && queue_us <= 2_000, "{shares:?} {queue_us}");
    }
}

/// What two streams get where a mark may be answered as by NewReno, and where it may not; and that
/// none was.
fn with_and_without(path: &Path, streams: [ConnOptions; 2]) -> [Vec<u64>; 2] {
    [true, false].map(|falls_back| {
        let times = [4, 8].map(Duration::from_secs);
        let change = |c: &mut Config| c.tcp.prague_fallback = falls_back;
        let Outcome { shares, fallbacks, .. } = path.run_with(&streams, times[0], times[1], change);
        assert_eq!(fallbacks, 0, "{path:?}");
        shares
    })
}

#[test]
fn no_queue_that_marks_for_prague_is_taken_for_a_classic_one() {
    let dual = Path { buffer: 800, managed: Managed::Dual, ..Path::of(40 * MBIT, 10) };
    let varies = Path { jitter_us: 1_000, ..marked(50 * MBIT, 20) };
    for path in [marked(50 * MBIT, 5), marked(50 * MBIT, 20), marked(50 * MBIT, 66), dual, varies] {
        let cubic = ConnOptions::default();
        let pairs = [[prague(); 2], [cubic, prague()]];
        let pairs = if path.managed == Managed::No { &pairs[..1] } else { &pairs };
        for streams in pairs {
            let [with, without] = with_and_without(&path, *streams);
            std::println!("{with:?} {without:?} thousandths, {path:?}");
            assert_eq!(with, without, "{path:?}");
        }
    }
}

#[test]
fn where_a_queue_turns_into_one_for_prague_it_answers_by_shares_again() {
    let classic = Path { marks: Some(Duration::from_millis(15)), ..marked(50 * MBIT, 20) };
    let path = Path { later: Some(Duration::from_millis(1)), ..classic };
    // Ten seconds of the one, ten of the other.
    let Outcome { shares, queue_us, fallbacks, .. } = run(&path, &[prague()], 20, 5);
    assert_eq!(fallbacks, 1);
    let never = run(&marked(50 * MBIT, 20), &[prague()], 20, 5).shares;
    std::println!("{shares:?} thousandths, {never:?} where it was so at all times, {queue_us} us");
    assert!(shares[0] + 10 >= never[0] && queue_us <= 2_000, "{shares:?} {never:?} {queue_us}");
}
