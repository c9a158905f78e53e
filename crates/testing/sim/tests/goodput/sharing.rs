//! How two streams share a path, for each pair of algorithms. `docs/congestion.md` has the table
//! that this makes, and Linux's beside it:
//! `cargo test -p clearway-sim --test goodput sharing -- --nocapture`.

use clearway_base::Duration;
use clearway_proto::{Config, Congestion, ConnOptions, EcnMode};
use clearway_sim::link::Managed;

use super::path::{MBIT, Outcome, Path};

const ALL: [(&str, Congestion); 5] = [
    ("reno", Congestion::Reno),
    ("cubic", Congestion::Cubic),
    ("bbr", Congestion::Bbr),
    ("bbr1", Congestion::Bbr1),
    ("prague", Congestion::Prague),
];

/// Each pair of them, by name.
fn pairs() -> impl Iterator<Item = [(&'static str, Congestion); 2]> {
    let behind = |(n, first)| ALL.iter().skip(n).map(move |second| [first, *second]);
    ALL.into_iter().enumerate().flat_map(behind)
}

/// What two streams come to.
struct Shares {
    /// What the first gets of what both get, in hundredths.
    first: u64,
    /// What both get of the path, in hundredths.
    both: u64,
    /// What 99 of 100 frames wait at most that are told of by marks.
    queue_us: u32,
    /// How often a sender took the queue for a classic one.
    fallbacks: u64,
}

/// Two streams; the second begins half a second behind the first, and both run for a while before
/// it counts.
fn share(path: &Path, streams: [ConnOptions; 2], warm_s: u64, time_s: u64) -> Shares {
    share_with(path, streams, warm_s, time_s, |_| {})
}

/// The same, with other settings of the sender's stack.
fn share_with(
    path: &Path,
    streams: [ConnOptions; 2],
    warm_s: u64,
    time_s: u64,
    change: impl FnOnce(&mut Config),
) -> Shares {
    let times = [warm_s, time_s].map(Duration::from_secs);
    let outcome = path.run_with(&streams, times[0], times[1], change);
    let all: u64 = outcome.shares.iter().sum();
    let first = (outcome.shares[0] * 100 + all / 2) / all.max(1);
    let Outcome { queue_us, fallbacks, .. } = outcome;
    Shares { first, both: all / 10, queue_us, fallbacks }
}

/// The page is read when the test runs: its numbers are no part of the program.
fn page() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/congestion.md");
    std::fs::read_to_string(path).expect("docs/congestion.md is there")
}

/// What the page says that the first of a pair gets, in a column behind the names and the kind of
/// queue or stack.
fn said(page: &str, [first, second]: [&str; 2], kind: &str, column: usize) -> Option<u64> {
    let begins = format!("| {first} | {second} | {kind} |");
    let row = page.lines().find(|line| line.starts_with(&begins))?;
    row.split('|').nth(4 + column)?.split(':').next()?.trim().parse().ok()
}

/// Other parts of TCP move who of two is ahead, by more or less luck: the page is held to what is
/// more than that.
const TOLERANCE: u64 = 16;

/// Over 10 Mbit/s and 40 ms, with a buffer in hundredths of a round trip.
fn hold(column: usize, buffer: u64) {
    let page = page();
    let mut wrong = Vec::new();
    for [(first, one), (second, other)] in pairs() {
        let path = Path { buffer, ..Path::of(10 * MBIT, 40) };
        let streams =
            [one, other].map(|congestion| ConnOptions { congestion, ..ConnOptions::default() });
        let Shares { first: of, both, .. } = share(&path, streams, 8, 20);
        let row = format!("{first} | {second} | {of} : {} ({both})", 100 - of.min(100));
        println!("buffer {buffer}: | {row}");
        let said = said(&page, [first, second], "Clearway", column);
        let is_as_said = said.is_some_and(|said| said.abs_diff(of) <= TOLERANCE);
        let is_shared = both >= 85 && (5..=95).contains(&of);
        let is_even = first != second || buffer > 100 || (40..=60).contains(&of);
        if !(is_as_said && is_shared && is_even) {
            wrong.push(format!("{row}; docs/congestion.md says {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "with buffer {buffer}: {wrong:#?}");
}

/// Each pair of `which`, over 40 Mbit/s, through a queue that the page calls `kind`.
fn hold_queue(which: impl Fn([Congestion; 2]) -> bool, path: Path, kind: &str, ecn: EcnMode) {
    let page = page();
    let mut wrong = Vec::new();
    for [(first, one), (second, other)] in pairs().filter(|[(_, a), (_, b)]| which([*a, *b])) {
        let streams = [one, other].map(|congestion| ConnOptions {
            congestion,
            ecn,
            ..ConnOptions::default()
        });
        let Shares { first: of, both, queue_us, .. } = share(&path, streams, 8, 12);
        let (ms, tenths) = (queue_us / 1000, queue_us % 1000 / 100);
        let row = format!(
            "| {first} | {second} | {kind} | {of} : {} | {both} | {ms}.{tenths} |",
            100 - of.min(100)
        );
        println!("{row}");
        let said = said(&page, [first, second], kind, 0);
        if both < 70 || said.is_none_or(|said| said.abs_diff(of) > TOLERANCE) {
            wrong.push(format!("{row} docs/congestion.md says {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn each_pair_shares_a_queue_that_marks_from_a_millisecond_on_as_the_page_says() {
    let marks = Some(Duration::from_millis(1));
    let path = Path { buffer: 200, marks, ..Path::of(40 * MBIT, 20) };
    // All of them are told of each mark; such a queue is for Prague.
    hold_queue(|pair| pair.contains(&Congestion::Prague), path, "1 ms", EcnMode::Accurate);
}

/// 40 Mbit/s behind a dual queue.
fn dual(rtt_ms: u64) -> Path {
    Path { buffer: 800, managed: Managed::Dual, ..Path::of(40 * MBIT, rtt_ms) }
}

#[test]
fn each_pair_shares_a_dual_queue_as_the_page_says() {
    hold_queue(|_| true, dual(10), "dual", ConnOptions::default().ecn);
}

#[test]
fn prague_and_cubic_share_a_dual_queue_within_a_tenth() {
    let path = dual(10);
    let streams = [Congestion::Prague, Congestion::Cubic]
        .map(|congestion| ConnOptions { congestion, ..ConnOptions::default() });
    let Shares { first, both, queue_us, .. } = share(&path, streams, 10, 20);
    println!("{first} of 100, both {both}, {queue_us} us");
    assert!((45..=55).contains(&first) && both >= 95, "{first}, both {both}");
    assert!(queue_us <= 2_000, "{queue_us}");
}

#[test]
fn each_pair_shares_a_buffer_of_half_a_round_trip_as_the_page_says() {
    hold(0, 50);
}

#[test]
fn each_pair_shares_a_buffer_of_one_round_trip_as_the_page_says() {
    hold(1, 100);
}

#[test]
fn each_pair_shares_a_buffer_of_four_round_trips_as_the_page_says() {
    hold(2, 400);
}

/// Queues that mark all alike, as RFC 3168 has it, by the names that the page has for them.
const CLASSIC: [(&str, Option<Duration>, Managed); 3] = [
    ("15 ms", Some(Duration::from_millis(15)), Managed::No),
    ("PI2", None, Managed::Pi2),
    ("CoDel", None, Managed::CoDel),
];

/// 40 Mbit/s behind one of them, and room for a tenth of a second.
fn classic(marks: Option<Duration>, managed: Managed, rtt_ms: u64) -> Path {
    Path { buffer: 10_000 / rtt_ms, marks, managed, ..Path::of(40 * MBIT, rtt_ms) }
}

/// Prague beside those who take each mark for a loss, and beside itself, in one of those queues, by
/// round trips of 10, 20 and 66 ms: what the page says, and nobody starves unless the settings say
/// so.
fn hold_classic((kind, marks, managed): (&str, Option<Duration>, Managed)) {
    let page = page();
    let mut wrong = Vec::new();
    for (first, one) in [ALL[0], ALL[1], ALL[4]] {
        for (column, rtt_ms) in [10, 20, 66].into_iter().enumerate() {
            let streams = [one, Congestion::Prague].map(|congestion| ConnOptions {
                congestion,
                ecn: EcnMode::Accurate,
                ..ConnOptions::default()
            });
            let shares = |falls_back| {
                let path = classic(marks, managed, rtt_ms);
                // A window of so many segments takes so many round trips from one to another.
                let warm_s = if rtt_ms > 20 { 30 } else { 20 };
                share_with(&path, streams, warm_s, 12, |c| c.tcp.prague_fallback = falls_back)
            };
            let (with, without) = (shares(true), shares(false));
            let row = format!(
                "{first} | prague | {kind} | {rtt_ms} ms: {} : {} ({} without; {} of the path; {} us)",
                with.first,
                100 - with.first,
                without.first,
                with.both,
                with.queue_us,
            );
            println!("{row}");
            let said = [
                said(&page, [first, "prague"], kind, 2 * column),
                said(&page, [first, "prague"], kind, 2 * column + 1),
            ];
            assert!(with.fallbacks > 0 && without.fallbacks == 0, "{row}");
            let is_as_said = [(said[0], without.first), (said[1], with.first)]
                .into_iter()
                .all(|(said, is)| said.is_some_and(|said| said.abs_diff(is) <= TOLERANCE));
            if !is_as_said || !(30..=70).contains(&with.first) || with.both < 90 {
                wrong.push(format!("{row}; docs/congestion.md says {said:?}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn beside_prague_nobody_starves_in_a_queue_that_marks_from_15_ms_on() {
    hold_classic(CLASSIC[0]);
}

#[test]
fn beside_prague_nobody_starves_in_a_queue_of_pi2_that_marks_all_alike() {
    hold_classic(CLASSIC[1]);
}

#[test]
fn beside_prague_nobody_starves_in_a_queue_of_codel_that_marks_all_alike() {
    hold_classic(CLASSIC[2]);
}
