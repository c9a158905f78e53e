extern crate std;

use std::collections::BTreeSet;

use clearway_base::Duration;

use super::*;

#[test]
fn a_flood_is_cut_to_the_rate() {
    let (mut limit, mut rng) = (RateLimit::new(1_000), Rng::seed(1));
    let mut now = Instant::from_millis(1_000);
    let mut sent = 0;
    for _ in 0..100_000 {
        now += Duration::from_micros(100);
        sent += u32::from(limit.take(now, &mut rng));
    }
    // Ten seconds; the shaking takes a part.
    assert!((5_000..=10_100).contains(&sent), "{sent}");
}

#[test]
fn after_a_pause_the_number_that_pass_at_once_is_bounded_and_not_always_the_same() {
    let (mut limit, mut rng) = (RateLimit::new(1_000), Rng::seed(1));
    let mut counts = BTreeSet::new();
    for second in 1..50 {
        let now = Instant::from_millis(second * 1_000);
        counts.insert((0..1_000).filter(|_| limit.take(now, &mut rng)).count());
    }
    assert!(counts.len() > 3, "{counts:?}");
    assert!(counts.iter().all(|n| (50..=100).contains(n)), "{counts:?}");
}

#[test]
fn a_rate_of_zero_lets_nothing_more_pass_than_the_first_few() {
    let (mut limit, mut rng) = (RateLimit::new(0), Rng::seed(1));
    let sent = (1..10_000).filter(|n| limit.take(Instant::from_millis(n * 100), &mut rng)).count();
    assert!(sent <= 8);
}
