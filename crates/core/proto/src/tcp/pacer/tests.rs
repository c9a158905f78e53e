extern crate std;

use proptest::prelude::*;

use std::vec::Vec;

use super::*;

const MSS: u32 = 1000;

fn us(us: u64) -> Instant {
    Instant::from_micros(us)
}

/// Sends whatever may leave at each of these times; returns how much left each time.
fn send(pacer: &mut Pacer, times: impl Iterator<Item = u64>) -> Vec<u32> {
    times
        .map(|at| {
            let budget = pacer.budget(us(at)).unwrap();
            pacer.on_sent(budget);
            pacer.wait();
            budget
        })
        .collect()
}

#[test]
fn without_a_rate_nothing_is_held_back() {
    let mut pacer = Pacer::new();
    assert_eq!((pacer.budget(us(1)), pacer.rate()), (None, None));
    pacer.on_sent(1 << 30);
    assert_eq!(pacer.budget(us(1)), None);
}

#[test]
fn no_burst_is_longer_than_the_quantum() {
    let mut pacer = Pacer::new();
    // 10 MB/s: a quantum of 10,000 bytes each millisecond.
    pacer.set_rate(Some(10_000_000), PIECES, MSS);
    assert_eq!(pacer.quantum(), 10_000);
    let sent = send(&mut pacer, (0..100_000).step_by(10));
    assert!(sent.iter().all(|n| *n <= 10_000 + 100), "{:?}", sent.iter().max());
    assert!(
        (1_000_000..=1_010_100).contains(&sent.iter().sum::<u32>()),
        "{}",
        sent.iter().sum::<u32>()
    );
}

#[test]
fn a_coarse_clock_costs_no_rate() {
    for step in [66, 1_000, 15_600] {
        let mut pacer = Pacer::new();
        pacer.set_rate(Some(100_000_000), PIECES, MSS);
        let sent: u64 =
            send(&mut pacer, (0..2_000_000).step_by(step)).into_iter().map(u64::from).sum();
        assert!((196_000_000..=201_000_000).contains(&sent), "{step} us: {sent}");
    }
}

#[test]
fn time_in_which_nothing_waited_earns_nothing() {
    let mut pacer = Pacer::new();
    pacer.set_rate(Some(10_000_000), PIECES, MSS);
    let first = pacer.budget(us(0)).unwrap();
    pacer.on_sent(first);
    assert_eq!(pacer.budget(us(1_000_000)), Some(pacer.quantum()));
}

#[test]
fn a_slow_rate_lets_two_segments_out_at_one_time() {
    let mut pacer = Pacer::new();
    pacer.set_rate(Some(1), PIECES, MSS);
    assert_eq!(pacer.budget(us(0)), Some(2 * MSS));
    pacer.on_sent(2 * MSS);
    assert_eq!(pacer.budget(us(1_000_000)), Some(0));
    assert_eq!(pacer.wait(), Instant::ZERO + Duration::from_secs(u64::from(2 * MSS)));
}

#[test]
fn in_fine_pieces_one_segment_leaves_at_one_time() {
    let mut pacer = Pacer::new();
    pacer.set_rate(Some(1_000_000), FINE_PIECES, MSS);
    assert_eq!(pacer.budget(us(0)), Some(MSS));
    // Beyond a segment in a quarter of a millisecond, as much as that.
    pacer.set_rate(Some(10_000_000), FINE_PIECES, MSS);
    assert_eq!(pacer.budget(us(0)), Some(2_500));
}

proptest! {
    #[test]
    fn over_any_time_no_more_leaves_than_the_rate_and_a_quantum(
        rate in 1_000u64..10_000_000_000,
        steps in proptest::collection::vec(1u64..20_000, 1..200),
    ) {
        let mut pacer = Pacer::new();
        pacer.set_rate(Some(rate), PIECES, MSS);
        let (mut now, mut sent) = (0, 0u128);
        for step in steps {
            now += step;
            if let Some(budget) = pacer.budget(us(now)) {
                pacer.on_sent(budget);
                sent += u128::from(budget);
            }
            pacer.wait();
        }
        let most = u128::from(rate) * u128::from(now) / 1_000_000 + 2 * u128::from(pacer.quantum());
        prop_assert!(sent <= most, "{sent} {most}");
    }
}

#[test]
fn between_two_steps_of_a_coarse_clock_acks_let_out_what_time_would() {
    let step = Duration::from_micros(16_000);
    let mut pacer = Pacer::new();
    // 1 MB/s: a segment in a millisecond, and an ACK for each.
    pacer.set_rate(Some(1_000_000), PIECES, MSS);
    let mut largest = 0;
    let mut all = 0;
    for at in (0..1_600_000).step_by(1000) {
        pacer.on_ack(MSS, 100, step);
        let budget = pacer.budget(us(at - at % 16_000)).unwrap();
        pacer.on_sent(budget);
        pacer.wait();
        (largest, all) = (largest.max(budget), all + budget);
    }
    // The first piece is a quantum; without it a piece would be 16 segments.
    assert!(largest <= 3 * MSS, "{largest}");
    assert!((1_590_000..=1_620_000).contains(&all), "{all}");
    // However many ACKs come, no more than a step is worth leaves before it is over.
    let mut most = 0;
    for _ in 0..100 {
        pacer.on_ack(10 * MSS, 100, step);
        let budget = pacer.budget(us(1_600_000)).unwrap();
        pacer.on_sent(budget);
        pacer.wait();
        most += budget;
    }
    assert!((15_000..=20_000).contains(&most), "{most}");
    // A fine clock paces by itself.
    let mut pacer = Pacer::new();
    pacer.set_rate(Some(1_000_000), PIECES, MSS);
    pacer.on_sent(4 * MSS);
    pacer.on_ack(MSS, 100, Duration::from_millis(1));
    pacer.wait();
    assert_eq!(pacer.budget(us(0)), Some(0));
}
