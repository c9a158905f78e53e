use super::*;
use std::vec::Vec;

#[test]
fn the_numbers_are_those_of_the_published_algorithms() {
    let mut rng = Rng { state: [1, 2, 3, 4] };
    let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
    assert_eq!(first, [41943041, 58720359, 3588806011781223, 3591011842654386]);
    assert_eq!(Rng::seed(0).state[0], 0xe220_a839_7b1d_cdaf);
}

#[test]
fn a_seed_gives_the_same_numbers_and_another_gives_others() {
    let (mut a, mut b, mut c) = (Rng::seed(7), Rng::seed(7), Rng::seed(8));
    let from_a: Vec<u64> = (0..8).map(|_| a.next_u64()).collect();
    assert_eq!(from_a, (0..8).map(|_| b.next_u64()).collect::<Vec<_>>());
    assert_ne!(from_a, (0..8).map(|_| c.next_u64()).collect::<Vec<_>>());
    assert_ne!(a.fork().next_u64(), a.next_u64());
}

#[test]
fn below_is_in_range_and_fair() {
    let mut rng = Rng::seed(1);
    let mut seen = [0_u32; 6];
    (0..60_000).for_each(|_| seen[rng.below(6) as usize] += 1);
    // 10,000 are expected of each, with a standard deviation of about 91.
    assert!(seen.iter().all(|&n| (9_500..10_500).contains(&n)), "{seen:?}");
    assert_eq!(rng.below(0), 0);
    assert_eq!(rng.below(1), 0);
    // Just above half of the range, where taking a remainder would favour the low numbers two to
    // one.
    let n = (1_u64 << 63) + 1;
    let low = (0..10_000).filter(|_| rng.below(n) < n / 2).count();
    assert!((4_700..5_300).contains(&low), "{low}");
}

#[test]
fn between_includes_both_ends() {
    let mut rng = Rng::seed(2);
    let seen: Vec<u64> = (0..100).map(|_| rng.between(3, 5)).collect();
    assert!((3..=5).all(|n| seen.contains(&n)) && seen.iter().all(|n| (3..=5).contains(n)));
    assert_eq!(rng.between(9, 9), 9);
    assert_eq!(rng.between(9, 2), 9);
    rng.between(0, u64::MAX);
}

#[test]
fn chance_is_never_always_and_about_right_between() {
    let mut rng = Rng::seed(3);
    assert!((0..1000).all(|_| !rng.chance(0)));
    assert!((0..1000).all(|_| rng.chance(1_000_000) && rng.chance(u32::MAX)));
    let hits = (0..100_000).filter(|_| rng.chance(10_000)).count();
    assert!((850..1150).contains(&hits), "{hits}");
}

#[test]
fn fill_writes_every_byte_whatever_the_length() {
    for n in 0..40 {
        let mut rng = Rng::seed(n);
        // Each byte stays zero with probability 1/256 a round; after 32 rounds none should have
        // stayed zero throughout.
        let mut any = std::vec![0_u8; n as usize];
        for _ in 0..32 {
            let mut bytes = std::vec![0_u8; n as usize];
            rng.fill(&mut bytes);
            any.iter_mut().zip(&bytes).for_each(|(a, b)| *a |= b);
        }
        assert!(any.iter().all(|&b| b != 0));
    }
}
