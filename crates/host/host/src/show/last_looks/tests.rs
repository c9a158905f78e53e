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
