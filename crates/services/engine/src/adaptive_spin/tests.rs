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

#[test]
fn what_others_take_of_the_processor_is_no_looking() {
    let (mut adaptive_spin, mut now) = (AdaptiveSpin::new(SPIN), Instant::from_millis(1));
    for _ in 0..5 {
        assert!(adaptive_spin.looks(now));
        assert!(adaptive_spin.offers(now));
        let from = now;
        now += LONG - Duration::from_micros(1);
        adaptive_spin.offered(from, now);
    }
    now += Duration::from_micros(99);
    assert!(adaptive_spin.looks(now));
    now += Duration::from_micros(1);
    assert!(!adaptive_spin.looks(now));
    // Nor does it speak against looking.
    let before = adaptive_spin.credit;
    adaptive_spin.worked(now);
    assert_eq!(adaptive_spin.credit, before + 1);
}

#[test]
fn who_keeps_the_processor_for_long_is_not_offered_it_for_a_while() {
    let (mut adaptive_spin, mut now) = (AdaptiveSpin::new(SPIN), Instant::from_millis(1));
    assert!(adaptive_spin.looks(now) && adaptive_spin.offers(now));
    adaptive_spin.offered(now, now + LONG);
    now += LONG;
    assert!(!adaptive_spin.looks(now), "that long a moment is over");
    assert!(!adaptive_spin.offers(now));
    adaptive_spin.worked(now);
    // It goes on looking without, when that pays.
    assert!(adaptive_spin.looks(now));
    assert!(!adaptive_spin.offers(now + HOLD - Duration::from_micros(1)));
    assert!(adaptive_spin.offers(now + HOLD));
}
