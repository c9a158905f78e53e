use super::*;

fn done(at_ms: u64, turns: u64) -> Vec<Done> {
    let at = Instant::from_nanos(at_ms * 1_000_000);
    vec![Done { at, turns, sleeps: turns / 2, busy: Duration::from_millis(turns) }]
}

#[test]
fn rates_are_of_the_time_since_the_newest_look_that_is_a_second_old() {
    let mut looks = LastLooks::default();
    assert!(looks.before(&done(1_000, 10)).is_empty(), "nobody has looked before");
    assert!(looks.before(&done(1_500, 20)).is_empty(), "the first look is too new");
    assert_eq!(looks.before(&done(2_000, 30)), done(1_000, 10));
    assert_eq!(looks.before(&done(2_900, 40)), done(1_000, 10));
    assert_eq!(looks.before(&done(5_000, 50)), done(2_000, 30));
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
