use clearway_base::{Duration, Instant};

use super::*;

fn done(at_ms: u64, turns: u64) -> Vec<Done> {
    let at = Instant::from_nanos(at_ms * 1_000_000);
    vec![Done { at, turns, sleeps: turns / 2, busy: Duration::from_millis(turns) }]
}

#[test]
fn a_rate_is_what_was_done_by_the_time_that_passed() {
    let (then, now) = (done(1_000, 100)[0], done(3_000, 500)[0]);
    let rates = Rates::between(&then, &now).unwrap();
    assert_eq!((rates.seconds, rates.turns, rates.sleeps, rates.busy), (2.0, 200.0, 100.0, 0.2));
    assert!(Rates::between(&then, &then).is_none(), "no time has passed");
}

#[test]
fn the_time_that_a_host_runs_is_told_as_on_a_clock() {
    assert_eq!(clock(59), "00:00:59");
    assert_eq!(clock(3 * 86_400 + 4 * 3_600 + 5 * 60 + 6), "3d 04:05:06");
}
