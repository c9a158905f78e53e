//! What a path that loses or reorders costs a bulk transfer, in the time of the test: the same for
//! each run.

extern crate std;

use super::*;
use clearway_base::Rng;

/// A path, and what happens on it.
#[derive(Clone, Copy)]
struct Path {
    rtt_ms: u64,
    mbit: u64,
    loss_ppm: u32,
    reorder_ppm: u32,
    /// Packets that overtake a late one, at most.
    overtaken_by: u64,
    clock_step: Duration,
    seconds: u64,
    /// What would wait longer in the queue is lost; None: a round trip, and 20 ms at least.
    queue: Option<Duration>,
    /// Each packet with data is late by up to so much, most of them by half of it, and overtakes
    /// others.
    jitter: Duration,
    /// Bytes that both ends keep.
    room: u32,
    /// What losses and delays are drawn from.
    seed: u64,
    congestion: Congestion,
}

impl Path {
    const fn of(rtt_ms: u64) -> Path {
        Path {
            rtt_ms,
            mbit: 50,
            loss_ppm: 0,
            reorder_ppm: 0,
            overtaken_by: 3,
            clock_step: Duration::from_nanos(1),
            seconds: 6,
            queue: None,
            jitter: Duration::ZERO,
            room: 1 << 20,
            seed: 7,
            congestion: Congestion::Cubic,
        }
    }
}

/// What a transfer over a path came to.
#[derive(Debug)]
struct Outcome {
    /// Mbit/s that arrived.
    goodput: f64,
    /// Segments that were sent again in vain, of 10,000.
    spurious: f64,
    timeouts: u64,
    #[expect(dead_code, reason = "is printed")]
    recoveries: u64,
    lost: u64,
}

/// A bulk transfer over `path`.
fn bulk(path: Path, config: Config) -> Outcome {
    let mut config = config;
    config.tcp.clock_step = config.tcp.clock_step.max(path.clock_step);
    let mut world = World::with_room(
        config,
        Offloads::default(),
        Duration::from_micros(path.rtt_ms * 500),
        path.room,
    );
    let options = ConnOptions { congestion: path.congestion, ..ConnOptions::default() };
    let (a, b) = world.connect(options);
    let bytes_per_second = path.mbit * 125_000;
    world.clock_step = path.clock_step;
    world.link =
        Some(Link { bytes_per_second, queue: path.queue.unwrap_or(ms(path.rtt_ms).max(ms(20))) });
    let (mut dice, mut late) = (Rng::seed(path.seed), Rng::seed(path.seed + 1));
    world.lose = std::boxed::Box::new(move |from, _, packet| {
        from == 0 && packet.len() > 100 && dice.chance(path.loss_ppm)
    });
    let slot = Duration::from_nanos(1500 * 1_000_000_000 / bytes_per_second);
    world.late =
        std::boxed::Box::new(move |from, _| match from == 0 && late.chance(path.reorder_ppm) {
            true => {
                slot.times(late.between(1, path.overtaken_by))
                    + Duration::from_nanos(slot.as_nanos() / 2)
            }
            // The sum of four draws is as good as normally distributed.
            false if from == 0 && path.jitter > Duration::ZERO => {
                Duration::from_nanos((0..4).map(|_| late.below(path.jitter.as_nanos() / 4)).sum())
            }
            false => Duration::ZERO,
        });
    let total = (bytes_per_second * path.seconds) as usize;
    let got = world.transfer_zeros(0, a, b, total, secs(path.seconds));
    let t = &world.ends[0].stack.counters().tcp;
    let segments = world.ends[0].stack.info(a).unwrap().data_segs_out;
    let vain = t.retransmitted_segs.saturating_sub(world.lost);
    Outcome {
        goodput: got as f64 * 8e-6 / path.seconds as f64,
        spurious: vain as f64 * 10_000.0 / f64::from(segments),
        timeouts: t.retransmit_timeouts,
        recoveries: t.fast_recoveries,
        lost: world.lost,
    }
}

/// Bulk transfers over `paths`, as many Mbit/s at least as stand beside each, with as many spurious
/// repetitions in 10,000 segments at most.
fn hold(paths: &[(&str, Path, f64, f64)]) {
    for (name, path, least, most) in paths {
        let outcome = bulk(*path, config());
        std::println!("{} ms, {name}: {outcome:.1?}", path.rtt_ms);
        assert!(outcome.goodput >= *least, "{} ms, {name}: {outcome:.1?}", path.rtt_ms);
        assert!(outcome.spurious <= *most, "{} ms, {name}: {outcome:.1?}", path.rtt_ms);
        assert!(
            outcome.timeouts <= outcome.lost / 100,
            "{} ms, {name}: {outcome:.1?}",
            path.rtt_ms
        );
    }
}

#[test]
fn reordering_costs_next_to_nothing() {
    for rtt_ms in [20, 66] {
        let clean = Path::of(rtt_ms);
        let straight = bulk(clean, config()).goodput;
        hold(&[
            ("clean", clean, 44.0, 2.0),
            ("reordering 1 %", Path { reorder_ppm: 10_000, ..clean }, straight * 0.97, 2.0),
            ("reordering 10 %", Path { reorder_ppm: 100_000, ..clean }, straight * 0.97, 4.0),
            (
                "reordering 1 % by 20",
                Path { reorder_ppm: 10_000, overtaken_by: 20, ..clean },
                straight * 0.95,
                4.0,
            ),
        ]);
    }
}

/// What Linux 6.18 brings over such a path is 5.9 Mbit/s at 20 ms and 1.8 at 66 ms with one packet
/// in a hundred lost.
#[test]
fn random_losses_cost_no_more_than_the_law_of_the_window_says() {
    let one = |rtt_ms| Path { loss_ppm: 10_000, seconds: 30, ..Path::of(rtt_ms) };
    let three = |rtt_ms| Path { loss_ppm: 30_000, ..one(rtt_ms) };
    let few = |rtt_ms| Path { loss_ppm: 1_000, ..Path::of(rtt_ms) };
    hold(&[
        ("loss 0.1 %", few(20), 25.0, 4.0),
        ("loss 1 %", one(20), 5.9, 4.0),
        ("loss 3 %", three(20), 2.7, 4.0),
        ("loss 0.1 %", few(66), 20.0, 4.0),
        ("loss 1 %", one(66), 1.8, 4.0),
        ("loss 3 %", three(66), 0.8, 4.0),
    ]);
}

/// Conservative slow start fills a queue of a thousand packets until every fifth packet is lost:
/// there are as many holes, many times more than the record of what was sent has places.
#[test]
fn a_deep_queue_that_overflows_has_next_to_nothing_sent_again_in_vain() {
    let deep = Path { mbit: 100, queue: Some(ms(120)), room: 8 << 20, seconds: 4, ..Path::of(66) };
    hold(&[("100 Mbit/s, deep queue", deep, 80.0, 1.0)]);
}

/// Every packet is late, by up to twice what the path takes, and overtakes others.
#[test]
fn jitter_that_is_longer_than_the_path_is_learned() {
    let clean = Path { mbit: 1000, seconds: 1, ..Path::of(2) };
    let jitter = |micros| Path { jitter: Duration::from_micros(micros), ..clean };
    hold(&[
        ("jitter of 0.25 ms", jitter(250), 500.0, 4.0),
        ("jitter of 1 ms", jitter(1_000), 500.0, 8.0),
        ("jitter of 4 ms", jitter(4_000), 500.0, 20.0),
    ]);
}

#[test]
fn reordering_of_a_fast_path_costs_no_more() {
    for rtt_ms in [2, 20] {
        let clean = Path { mbit: 400, seconds: 1, ..Path::of(rtt_ms) };
        let straight = bulk(clean, config()).goodput;
        hold(&[
            ("400 Mbit/s", clean, 100.0, 10.0),
            (
                "400 Mbit/s, reordering 1 %",
                Path { reorder_ppm: 10_000, ..clean },
                straight * 0.9,
                10.0,
            ),
            (
                "400 Mbit/s, reordering 10 %",
                Path { reorder_ppm: 100_000, ..clean },
                straight * 0.9,
                20.0,
            ),
        ]);
    }
}

/// A clock of 1 µs, of 1 ms, and of 15.6 ms as some systems have it.
#[test]
fn a_coarse_clock_costs_little_and_repeats_nothing_in_vain() {
    for clock_step in [Duration::from_micros(1), ms(1), Duration::from_micros(15_625)] {
        let clean = Path { clock_step, ..Path::of(66) };
        let lossy = Path { loss_ppm: 10_000, seconds: 20, ..clean };
        hold(&[
            ("clean", clean, 42.0, 2.0),
            ("reordering 1 %", Path { reorder_ppm: 10_000, ..clean }, 42.0, 4.0),
            ("reordering 10 %", Path { reorder_ppm: 100_000, ..clean }, 42.0, 4.0),
            ("loss 1 %", lossy, 1.6, 10.0),
        ]);
    }
}

/// Of several runs with other draws each, where anything is drawn. With jitter the first packets come
/// in an order that ends slow start early in one of three runs, which takes long to make good over a
/// long path.
fn mean(path: Path) -> f64 {
    let is_drawn = path.loss_ppm > 0 || path.reorder_ppm > 0;
    let runs = if path.jitter > Duration::ZERO { 8 } else { 1 + 3 * u64::from(is_drawn) };
    let of = |n| bulk(Path { seed: 7 + 10 * n, ..path }, config()).goodput;
    (0..runs).map(of).sum::<f64>() / runs as f64
}

/// The tables of `docs/loss-recovery.md` are made by this: `cargo test -p clearway-proto --lib
/// a_coarse_clock_costs -- --nocapture`. `least` says how much of a cell has to be left.
fn hold_with_coarse_clocks(congestion: Congestion, least: impl Fn(u64) -> f64) {
    let mut below = Vec::new();
    for rtt_ms in [2, 20, 66] {
        let clean = Path { mbit: 20, seconds: 5, congestion, ..Path::of(rtt_ms) };
        for (name, path) in [
            ("clean", clean),
            ("shallow queue", Path { queue: Some(ms(rtt_ms / 4 + 3)), ..clean }),
            ("loss 0.1 %", Path { loss_ppm: 1_000, seconds: 20, ..clean }),
            ("loss 1 %", Path { loss_ppm: 10_000, seconds: 20, ..clean }),
            ("loss 3 %", Path { loss_ppm: 30_000, seconds: 20, ..clean }),
            ("reordering 1 %", Path { reorder_ppm: 10_000, ..clean }),
            ("reordering 10 %", Path { reorder_ppm: 100_000, ..clean }),
            ("jitter", Path { jitter: ms(rtt_ms / 2), seconds: 20, ..clean }),
        ] {
            let coarse = [ms(1), Duration::from_micros(15_625)];
            let fine = mean(path);
            let ratios = coarse.map(|clock_step| mean(Path { clock_step, ..path }) / fine);
            let [one, sixteen] = ratios;
            let row = std::format!(
                "{congestion:?} | {rtt_ms} ms | {name} | {fine:.1} | {one:.2} | {sixteen:.2} |"
            );
            std::println!("{row}");
            if ratios.iter().any(|ratio| *ratio < least(path.rtt_ms)) {
                below.push(row);
            }
        }
    }
    assert!(below.is_empty(), "too little is left: {below:#?}");
}

#[test]
fn a_coarse_clock_costs_cubic_less_than_a_tenth_on_any_kind_of_path() {
    hold_with_coarse_clocks(Congestion::Cubic, |_| 0.9);
}

#[test]
fn a_coarse_clock_costs_reno_less_than_a_tenth_on_any_kind_of_path() {
    hold_with_coarse_clocks(Congestion::Reno, |_| 0.9);
}

#[test]
fn a_coarse_clock_costs_bbr_less_than_a_tenth_but_over_a_long_path() {
    hold_with_coarse_clocks(Congestion::Bbr, |rtt_ms| if rtt_ms < 66 { 0.9 } else { 0.8 });
}

#[test]
fn a_coarse_clock_costs_the_first_version_of_bbr_less_than_a_tenth() {
    hold_with_coarse_clocks(Congestion::Bbr1, |_| 0.9);
}
