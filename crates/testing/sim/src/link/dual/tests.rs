use clearway_base::{Duration, Instant};
use clearway_wire::Ecn;

use super::{DualQueue, Verdict};

const FRAME: usize = 1500;

fn at(micros: u64) -> Instant {
    Instant::from_millis(1000) + Duration::from_micros(micros)
}

fn queue() -> DualQueue<u32> {
    DualQueue::new(at(0))
}

#[test]
fn the_low_latency_queue_goes_first_and_one_byte_in_sixteen_is_of_the_other() {
    let mut q = queue();
    for n in 0..400 {
        q.push(at(0), n, FRAME, Ecn::Ect1);
        q.push(at(0), n, FRAME, Ecn::NotEct);
    }
    let order: Vec<bool> = (0..320).map(|_| q.pop(at(0)).unwrap().low_latency).collect();
    assert!(order[..16].iter().all(|low| *low));
    let classic = order.iter().filter(|low| !**low).count();
    assert!((17..=20).contains(&classic), "{classic} of 320");
    // Where one is empty the other gets all.
    let mut q = queue();
    q.push(at(0), 1, FRAME, Ecn::Ect0);
    assert!(!q.pop(at(0)).unwrap().low_latency && q.pop(at(0)).is_none() && q.is_empty());
}

#[test]
fn what_is_marked_on_the_way_stays_in_the_low_latency_queue() {
    let mut q = queue();
    q.push(at(0), 1, FRAME, Ecn::Ce);
    assert!(q.pop(at(1)).unwrap().low_latency);
}

#[test]
fn the_low_latency_queue_marks_all_that_waits_too_long_but_its_last() {
    let mut q = queue();
    for n in 0..10 {
        q.push(at(0), n, FRAME, Ecn::Ect1);
    }
    assert_eq!(q.pop(at(700)).unwrap().verdict, Verdict::Passes);
    let verdicts: Vec<Verdict> = (0..9).map(|_| q.pop(at(1_500)).unwrap().verdict).collect();
    // What adds up to no more than one passes.
    assert_eq!(verdicts.iter().filter(|v| **v == Verdict::Marked).count(), 7, "{verdicts:?}");
    assert_eq!(verdicts[8], Verdict::Passes, "nothing waits behind it");
    // Half way between, every second.
    let mut q = queue();
    for n in 0..101 {
        q.push(at(0), n, FRAME, Ecn::Ect1);
    }
    let marked = (0..100).filter(|_| q.pop(at(1_000)).unwrap().verdict == Verdict::Marked).count();
    assert!((48..=50).contains(&marked), "{marked} of 100");
}

/// A classic queue that waits for `wait_ms` all the time, of which ten frames in a step leave.
fn steady(q: &mut DualQueue<u32>, wait_ms: u64, ecn: Ecn, seconds: u64) -> [usize; 3] {
    let mut seen = [0; 3];
    for ms in 0..seconds * 1000 {
        for n in 0..10 {
            q.push(at(ms * 1000), n, FRAME, ecn);
        }
        while q
            .classic
            .front()
            .is_some_and(|w| at(ms * 1000).since(w.since).as_nanos() >= wait_ms * 1_000_000)
        {
            match q.pop(at(ms * 1000)).unwrap().verdict {
                Verdict::Passes => seen[0] += 1,
                Verdict::Marked => seen[1] += 1,
                Verdict::Dropped => seen[2] += 1,
            }
        }
    }
    seen
}

#[test]
fn a_classic_queue_below_the_target_loses_nothing() {
    let mut q = queue();
    // That it grows at first may cost one.
    let [_, marked, dropped] = steady(&mut q, 10, Ecn::NotEct, 2);
    assert!(marked == 0 && dropped <= 1, "{marked} {dropped}");
    assert_eq!(q.base, 0);
}

#[test]
fn a_classic_queue_above_the_target_loses_by_the_square_of_what_grows_with_time() {
    let mut q = queue();
    let [_, marked, dropped] = steady(&mut q, 25, Ecn::NotEct, 4);
    // 0.15 a second for each second above the target, and three times the first change.
    let (base, one) = (q.base as f64, super::ONE as f64);
    assert!(marked == 0 && dropped > 0, "{marked} {dropped}");
    assert!(
        (base / one - (3.0 * 0.025 + 0.15 * 0.010 * 4.0 / 0.015)).abs() < 0.02,
        "{}",
        base / one
    );
    assert!((q.squared() as f64 / one - (base / one).powi(2)).abs() < 1e-6);
}
