//! How two streams share a path, for each pair of algorithms. `docs/congestion.md` has the table
//! that this makes, and Linux's beside it:
//! `cargo test -p clearway-sim --test goodput sharing -- --nocapture`.

use clearway_base::Duration;
use clearway_proto::{Congestion, ConnOptions};

use super::path::{MBIT, Path};

const ALL: [(&str, Congestion); 3] =
    [("reno", Congestion::Reno), ("cubic", Congestion::Cubic), ("bbr", Congestion::Bbr)];

/// Of a path, in hundredths.
struct Shares {
    /// What the first gets of what both get.
    first: u64,
    /// What both get of the path.
    both: u64,
}

/// Two streams over 10 Mbit/s and 40 ms, with a buffer in hundredths of a round trip. The second
/// begins half a second behind the first; both run for eight seconds before it counts.
fn share(pair: [Congestion; 2], buffer: u64) -> Shares {
    let path = Path { rate: 10 * MBIT, rtt_ms: 40, buffer, loss: 0, marks: None };
    let streams = pair.map(|congestion| ConnOptions { congestion, ..ConnOptions::default() });
    let shares = path.run(&streams, Duration::from_secs(8), Duration::from_secs(20)).shares;
    let all: u64 = shares.iter().sum();
    Shares { first: (shares[0] * 100 + all / 2) / all.max(1), both: all / 10 }
}

/// What the page says that the first of a pair gets, in the column of its buffer.
fn said(first: &str, second: &str, column: usize) -> Option<u64> {
    let page = include_str!("../../../../../docs/congestion.md");
    let row =
        page.lines().find(|line| line.starts_with(&format!("| {first} | {second} | Clearway |")));
    row?.split('|').nth(4 + column)?.split(':').next()?.trim().parse().ok()
}

/// Other parts of TCP move who of two is ahead, by more or less luck: the page is held to what is
/// more than that.
const TOLERANCE: u64 = 16;

fn hold(column: usize, buffer: u64) {
    for (n, (first, one)) in ALL.iter().enumerate() {
        for (second, other) in &ALL[n..] {
            let shares = share([*one, *other], buffer);
            let (of, both) = (shares.first, shares.both);
            println!(
                "buffer {buffer}: | {first} | {second} | {of} : {} ({both})",
                100 - of.min(100)
            );
            let said = said(first, second, column);
            assert!(
                said.is_some_and(|said| said.abs_diff(of) <= TOLERANCE),
                "docs/congestion.md says {said:?} of {first} and {second} with buffer {buffer}: {of}"
            );
            assert!(both >= 85, "{first} and {second} with buffer {buffer} get {both}");
            assert!((5..=95).contains(&of), "{first} and {second} with buffer {buffer}: {of}");
            if first == second && buffer <= 100 {
                assert!((40..=60).contains(&of), "two of {first} with buffer {buffer}: {of}");
            }
        }
    }
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
