use super::*;

const SPIN: Duration = Duration::from_micros(100);

// An idle moment of `us` begins now and ends with work; whether it was begun by looking.
fn idle(adaptive_spin: &mut AdaptiveSpin, now: &mut Instant, us: u64) -> bool {
    let looked = adaptive_spin.looks(*now);
    *now += Duration::from_micros(us);
    adaptive_spin.worked(*now);
    looked
}

#[test]
fn it_looks_while_packets_come_quickly_and_sleeps_when_they_do_not() {
    let (mut adaptive_spin, mut now) = (AdaptiveSpin::new(SPIN), Instant::from_millis(1));
    assert!((0..20).all(|_| idle(&mut adaptive_spin, &mut now, 30)));
    let mut looks = 0;
    while idle(&mut adaptive_spin, &mut now, 5_000) {
        looks += 1;
    }
    assert_eq!(looks, MOST);
    assert!((0..20).all(|_| !idle(&mut adaptive_spin, &mut now, 5_000)));
}

#[test]
fn moments_that_were_slept_through_speak_for_looking_when_they_were_short() {
    let (mut adaptive_spin, mut now) = (AdaptiveSpin::new(SPIN), Instant::from_millis(1));
    while idle(&mut adaptive_spin, &mut now, 5_000) {}
    assert!(!idle(&mut adaptive_spin, &mut now, 30));
    assert!(idle(&mut adaptive_spin, &mut now, 30));
}

#[test]
fn looking_ends_after_its_time() {
    let (mut adaptive_spin, now) = (AdaptiveSpin::new(SPIN), Instant::from_millis(1));
    assert!(adaptive_spin.looks(now));
    assert!(adaptive_spin.looks(now + Duration::from_micros(99)));
    assert!(!adaptive_spin.looks(now + SPIN));
}

#[test]
fn no_time_to_look_never_looks() {
    let (mut adaptive_spin, mut now) = (AdaptiveSpin::new(Duration::ZERO), Instant::from_millis(1));
    assert!((0..20).all(|_| !idle(&mut adaptive_spin, &mut now, 1)));
}
