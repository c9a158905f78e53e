use super::*;
use std::format;

#[test]
fn a_timer_set_for_ever_stays_set() {
    assert_eq!(Instant::from_millis(5) + Duration::MAX, Instant::NEVER);
    assert!(!(Instant::NEVER + Duration::from_secs(1)).is_set());
    assert_eq!(Duration::from_secs(u64::MAX), Duration::MAX);
    assert_eq!(Duration::MAX + Duration::from_nanos(1), Duration::MAX);
    assert_eq!(Duration::from_secs(2).times(u64::MAX), Duration::MAX);
}

#[test]
fn nothing_is_before_the_epoch_and_no_length_is_negative() {
    assert_eq!(Instant::from_millis(1) - Duration::from_secs(1), Instant::ZERO);
    assert_eq!(Instant::from_millis(1).since(Instant::from_millis(2)), Duration::ZERO);
    assert_eq!(Duration::from_millis(1) - Duration::from_millis(2), Duration::ZERO);
}

#[test]
fn since_undoes_add() {
    let start = Instant::from_micros(1_500);
    let mut end = start;
    end += Duration::from_millis(7);
    assert_eq!(end.since(start), Duration::from_micros(7_000));
    assert_eq!(end - Duration::from_millis(7), start);
    assert!(end > start && start.is_set());
}

#[test]
fn units_are_whole_and_rounded_down() {
    let d = Duration::from_nanos(1_999_999_999);
    assert_eq!(
        (d.as_secs(), d.as_millis(), d.as_micros(), d.as_nanos()),
        (1, 1_999, 1_999_999, 1_999_999_999)
    );
    let t = Instant::from_nanos(1_999_999);
    assert_eq!((t.as_millis(), t.as_micros(), t.as_nanos()), (1, 1_999, 1_999_999));
    assert_eq!(Duration::from_secs(3).per(2), Duration::from_millis(1_500));
}

#[test]
fn the_standard_library_s_duration_converts_both_ways() {
    let d = Duration::from_micros(1_234_567);
    assert_eq!(Duration::from(core::time::Duration::from(d)), d);
    assert_eq!(Duration::from(core::time::Duration::MAX), Duration::MAX);
}

#[test]
fn text_has_the_unit_a_reader_wants() {
    assert_eq!(format!("{}", Instant::from_micros(1_500_002)), "1.500002s");
    assert_eq!(format!("{:?}", Instant::NEVER), "never");
    assert_eq!(format!("{}", Duration::from_nanos(999)), "999ns");
    assert_eq!(format!("{}", Duration::from_nanos(1_005)), "1.005us");
    assert_eq!(format!("{}", Duration::from_micros(2_050)), "2.050ms");
    assert_eq!(format!("{:?}", Duration::from_millis(61_007)), "61.007s");
}
