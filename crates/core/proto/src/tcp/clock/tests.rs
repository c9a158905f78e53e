use clearway_base::{Duration, Instant};

use super::{DueFar, DueTick};

/// Instants around which the 32 bits begin anew, of ticks and of milliseconds.
const BEGINNINGS: [u64; 4] = [0, 1 << 48, 3 << 48, 1 << 52];

#[test]
fn a_deadline_in_ticks_is_met_within_a_tick_and_one_that_is_far_within_a_millisecond() {
    for beginning in BEGINNINGS {
        for ahead in [0, 1, 65_535, 65_536, 40_000_000, 3_600_000_000_000] {
            let at = Instant::from_nanos(beginning + ahead);
            for now in [at, at + Duration::from_secs(3), at - Duration::from_millis(200)] {
                let (tick, far) = (DueTick::at(at).seen_from(now), DueFar::at(at).seen_from(now));
                let unit = Duration::from_nanos(1 << 16);
                assert!(at.since(tick) < unit && tick.since(at) <= unit, "{at:?} {tick:?}");
                let unit = Duration::from_nanos(1 << 20);
                assert!(at.since(far) < unit && far.since(at) <= unit, "{at:?} {far:?}");
            }
        }
    }
}

#[test]
fn no_deadline_is_none_at_any_time() {
    for now in BEGINNINGS.map(Instant::from_nanos) {
        assert_eq!(DueTick::at(Instant::NEVER).seen_from(now), Instant::NEVER);
        assert_eq!(DueFar::at(Instant::NEVER).seen_from(now), Instant::NEVER);
        assert!(DueTick::at(now).is_set() && !DueTick::NEVER.is_set());
    }
}

#[test]
fn the_farthest_deadline_is_still_ahead() {
    let now = Instant::from_nanos((1 << 52) - 77);
    assert!(
        DueFar::at(now + DueFar::FAR).seen_from(now)
            > now + Duration::from_secs(24 * 24 * 3600 - 1)
    );
}
