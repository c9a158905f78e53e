use proptest::prelude::*;

use super::*;

#[test]
fn an_empty_one_is_all_zero() {
    let empty = Histogram::new();
    assert_eq!((empty.count(), empty.min(), empty.max(), empty.percentile(50.0)), (0, 0, 0, 0));
    assert_eq!(empty.mean(), 0.0);
}

#[test]
fn buckets_follow_each_other_without_gap_and_their_width_is_a_128th_at_most() {
    for at in 1..BUCKETS - 1 {
        let (low, high) = (highest(at - 1) + 1, highest(at));
        assert_eq!((bucket(low), bucket(high)), (at, at));
        assert!(high - low <= low / 128, "{at}: {low} to {high}");
    }
    assert_eq!(bucket((1 << LONGEST_BITS) - 1), BUCKETS - 1);
}

#[test]
fn what_is_too_long_for_a_bucket_is_still_the_longest() {
    let mut times = Histogram::new();
    times.record(u64::MAX);
    times.record(5);
    assert_eq!(
        (times.max(), times.percentile(100.0), times.percentile(50.0)),
        (u64::MAX, u64::MAX, 5)
    );
}

#[test]
fn the_last_second_is_the_difference_of_two_states() {
    let mut times = Histogram::new();
    (0..100).for_each(|ns| times.record(ns));
    let before = times.clone();
    (1_000..1_100).for_each(|ns| times.record(ns));
    let second = times.since(&before);
    assert_eq!(second.count(), 100);
    assert!((1_000..1_010).contains(&second.min()) && (1_095..1_110).contains(&second.max()));
    assert_eq!(times.since(&Histogram::new()), times);
}

#[test]
fn one_that_is_ready_or_cleared_is_as_empty_as_a_new_one() {
    let mut times = Histogram::ready();
    let told = |times: &Histogram| {
        (times.count(), times.sum(), times.min(), times.max(), times.percentile(99.0))
    };
    assert_eq!(told(&times), (0, 0, 0, 0, 0));
    times.record_many(1_000, 3);
    times.record(10);
    assert_eq!((times.count(), times.sum(), times.min(), times.max()), (4, 3_010, 10, 1_000));
    times.clear();
    assert_eq!(told(&times), (0, 0, 0, 0, 0));
    times.record(20);
    assert_eq!((times.min(), times.max()), (20, 20));
}

proptest! {
    #[test]
    fn percentiles_are_those_of_the_sorted_list_within_a_128th(
        mut values in proptest::collection::vec(0_u64..10_000_000_000, 1..500),
        percent in 0.0_f64..100.0,
        cut in 0_usize..500,
    ) {
        // Recorded in two and added, as two cores do.
        let (mut first, mut second) = (Histogram::new(), Histogram::new());
        let cut = cut.min(values.len());
        values[..cut].iter().for_each(|&ns| first.record(ns));
        values[cut..].iter().for_each(|&ns| second.record(ns));
        first.add(&second);
        values.sort_unstable();
        let rank = ((percent / 100.0 * values.len() as f64).ceil() as usize).max(1);
        let exact = values[rank - 1];
        let told = first.percentile(percent);
        prop_assert!(told >= exact && told <= exact + exact / 128 + 1, "{told} for {exact}");
        prop_assert_eq!((first.min(), first.max()), (values[0], values[values.len() - 1]));
        prop_assert_eq!(first.count(), values.len() as u64);
    }
}
