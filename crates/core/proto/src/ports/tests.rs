extern crate std;

use super::*;

#[test]
fn ports_stay_in_their_range_and_every_free_one_is_found() {
    let mut ports = Ports::new((50_000, 50_009));
    let mut rng = Rng::seed(7);
    let mut used = [false; 10];
    for _ in 0..10 {
        let port = ports.choose(&mut rng, 99, |p| !used[usize::from(p - 50_000)]).unwrap();
        used[usize::from(port - 50_000)] = true;
    }
    assert_eq!(used, [true; 10]);
    assert_eq!(ports.choose(&mut rng, 99, |_| false), None);
}

#[test]
fn the_next_port_is_not_the_last_one_plus_one_and_depends_on_the_destination() {
    let run = |offset| {
        let mut ports = Ports::new((32_768, 60_999));
        let mut rng = Rng::seed(7);
        [(); 8].map(|()| ports.choose(&mut rng, offset, |_| true).unwrap())
    };
    let (a, b) = (run(1), run(12_345));
    assert_ne!(a, b);
    assert!(a.windows(2).any(|w| w[1] != w[0].wrapping_add(1)));
}

#[test]
fn a_range_that_reaches_the_last_port_and_one_given_backwards_work() {
    let mut rng = Rng::seed(7);
    let mut ports = Ports::new((65_535, 65_534));
    for _ in 0..100 {
        assert!(ports.choose(&mut rng, u64::MAX, |_| true).unwrap() >= 65_534);
    }
}

#[test]
fn several_stacks_share_the_ports_out_and_each_knows_whose_one_is() {
    let mut rng = Rng::seed(7);
    let mut seen = std::collections::BTreeSet::new();
    for index in 0..3 {
        let share = Share { index, of: 3 };
        let mut ports = Ports::new((40_000, 40_029));
        ports.set_share(share);
        let all: std::vec::Vec<_> = ports.all_from_anywhere(&mut rng).collect();
        assert_eq!(all.len(), 30, "each port once");
        assert!(all[..10].iter().all(|port| share.has(*port)), "its own first");
        assert!(all[..10].iter().all(|port| share.owner(*port) == index));
        seen.extend(all[..10].iter().copied());
    }
    assert_eq!(seen.len(), 30);
    assert!(Share::WHOLE.has(7) && Share::WHOLE.is_whole());
}
