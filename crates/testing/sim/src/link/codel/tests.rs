use clearway_base::{Duration, Instant};
use clearway_wire::Ecn;

use super::{CoDel, Verdict};

fn at(ms: u64) -> Instant {
    Instant::from_millis(1000) + Duration::from_millis(ms)
}

/// When a queue in which each frame waits for `wait_ms`, and one leaves in a millisecond, marks or
/// drops.
fn told_at(wait_ms: u64, ecn: Ecn, verdict: Verdict) -> Vec<u64> {
    let mut queue = CoDel::new();
    let mut told = Vec::new();
    for ms in 0..1000 {
        queue.push(at(ms), ms, 1514, ecn);
        if ms >= wait_ms && queue.pop(at(ms)).unwrap().verdict == verdict {
            told.push(ms - wait_ms);
        }
    }
    told
}

#[test]
fn codel_leaves_alone_what_waits_for_less_than_five_milliseconds() {
    assert!(told_at(4, Ecn::Ect0, Verdict::Marked).is_empty());
}

#[test]
fn codel_marks_a_tenth_of_a_second_behind_the_first_that_waits_too_long_and_then_ever_sooner() {
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        let told = told_at(20, ecn, Verdict::Marked);
        // 100 ms, and then 100 / √1, 100 / √2 and so on.
        assert_eq!(told[..5], [100, 200, 271, 329, 379]);
    }
}

#[test]
fn codel_drops_what_cannot_be_marked() {
    assert_eq!(told_at(20, Ecn::NotEct, Verdict::Dropped)[..3], [100, 200, 271]);
    assert!(told_at(20, Ecn::NotEct, Verdict::Marked).is_empty());
}

#[test]
fn codel_falls_silent_when_its_queue_is_empty() {
    let mut queue = CoDel::new();
    for ms in 0..200 {
        queue.push(at(ms), ms, 1514, Ecn::Ect0);
        if ms >= 20 {
            queue.pop(at(ms));
        }
    }
    assert!(queue.is_marking);
    while queue.pop(at(200)).is_some() {}
    assert!(!queue.is_marking && queue.is_empty());
}
