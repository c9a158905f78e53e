//! The rule by which memory that many want is shared: what one holder may have, when memory is
//! short, and who has to go then.
//!
//! ```text
//!   cap of one holder
//!   limit ┤               ╭────────────────────
//!         │            ╭──╯
//!         │         ╭──╯
//!         │      ╭──╯
//!       0 ┼──────┴────────┬────────────────────▶ free
//!         0     short   a quarter             all
//! ```
//!
//! Each holder has a minimum besides, which is reserved for it and no part of what is lent. What
//! was lent is never taken back from who moves (for a receiver that would be to take an offered
//! window back, RFC 9293 3.8.6.2.1): who holds more than his cap gets nothing more, and what he has
//! comes back as his bytes are acknowledged or read. Who does not move while others want is ended
//! (RFC 9293 3.8.6.1 leaves that to who has the resources). The arithmetic has no units: bytes,
//! chunks or buffers, as the store counts.

use clearway_base::Duration;

/// While more than one part in so many is free, each holder may have all that its limit allows.
const AMPLE: u64 = 4;

/// When less than one part in so many is free, memory is short.
const SHORT: u64 = 8;

/// A holder whose progress is too slow is looked at for so long before it is ended.
pub const LOOK: Duration = Duration::from_secs(2);

/// Under shortage a holder has to move as much as it holds in this time…
pub const TURNOVER: Duration = Duration::from_secs(10);

/// …or so many bytes a second, whichever is less: who moves that fast gives back what it holds by
/// itself.
pub const ENOUGH_PER_SECOND: u64 = 16 * 1024;

/// A pot of memory from which holders borrow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Lending {
    capacity: u64,
    limit: u64,
}

impl Lending {
    /// A pot of which everybody may have everything that is there, and that is never short.
    pub const ALL: Lending = Lending { capacity: 0, limit: u64::MAX };

    /// A pot of `capacity`, of which one holder may have `limit` as long as there is plenty.
    pub const fn new(capacity: u64, limit: u64) -> Lending {
        Lending { capacity, limit }
    }

    /// The most that one holder may have while `free` is free: its limit as long as that is more
    /// than a quarter of all, and below that the same part of its limit as there is of that
    /// quarter. Holders that want as much as they can get never have all of it.
    #[inline]
    pub fn cap(&self, free: u64) -> u64 {
        let ample = self.capacity / AMPLE;
        if free > ample {
            return self.limit;
        }
        (u128::from(self.limit) * u128::from(free) / u128::from(ample.max(1))) as u64
    }

    /// What a holder of `held` may take now besides.
    #[inline]
    pub fn room(&self, free: u64, held: u64) -> u64 {
        if self.capacity == 0 {
            return free.min(self.limit.saturating_sub(held));
        }
        // What it takes is not free any more: with `x` more, held + x ≤ limit·(free − x)/ample has
        // to be true still.
        let ample = self.capacity / AMPLE;
        if free.saturating_sub(self.limit) > ample {
            return self.limit.saturating_sub(held);
        }
        let most = u128::from(self.limit) * u128::from(free);
        let has = u128::from(held) * u128::from(ample);
        let more = most.saturating_sub(has) / (u128::from(ample) + u128::from(self.limit)).max(1);
        (more as u64).min(self.limit.saturating_sub(held)).min(free)
    }

    /// Whether memory is short: who holds much and moves little has to go.
    #[inline]
    pub fn is_short(&self, free: u64) -> bool {
        free < self.capacity.div_ceil(SHORT)
    }
}

/// Whether a holder of `held` bytes that has moved `moved` bytes in `time` moves enough to keep
/// them while memory is short: its bytes are counted when the peer has acknowledged them, or the
/// owner has read them, so that neither many small segments nor many promises count as progress.
pub fn moves_enough(held: u64, moved: u64, time: Duration) -> bool {
    let ms = u128::from(time.as_millis());
    let moved = u128::from(moved);
    moved * u128::from(TURNOVER.as_millis()) >= u128::from(held) * ms
        || moved * 1_000 >= u128::from(ENOUGH_PER_SECOND) * ms
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn a_cap_is_the_limit_while_there_is_plenty_and_shrinks_with_what_is_free() {
        let pot = Lending::new(256 * MIB, MIB);
        assert_eq!((pot.cap(256 * MIB), pot.cap(65 * MIB)), (MIB, MIB));
        assert_eq!((pot.cap(32 * MIB), pot.cap(MIB), pot.cap(0)), (MIB / 2, MIB / 64, 0));
        assert_eq!(pot.room(200 * MIB, MIB / 4), 3 * MIB / 4);
        assert_eq!(pot.room(32 * MIB, MIB / 2), 0, "who holds its cap gets nothing more");
        assert_eq!(
            pot.room(8 * MIB, MIB),
            0,
            "who holds more than its cap gets nothing more and keeps it"
        );
    }

    #[test]
    fn what_is_lent_is_within_the_cap_that_is_left_then() {
        for capacity in [7, 64, 1_000, 16_384] {
            for limit in [1, 3, 64, 5_000] {
                let pot = Lending::new(capacity, limit);
                for free in 0..=capacity.min(300) {
                    for held in [0, 1, 5, limit] {
                        let room = pot.room(free, held);
                        assert!(
                            room <= free && held.max(limit) >= held + room,
                            "{pot:?} {free} {held}"
                        );
                        assert!(
                            room == 0 || held + room <= pot.cap(free - room),
                            "{pot:?} {free} {held} {room}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn many_that_want_all_they_can_get_leave_something_for_the_next() {
        let pot = Lending::new(256 * MIB, MIB);
        let mut free = 256 * MIB;
        for _ in 0..300 {
            free -= pot.room(free, 0);
        }
        assert!(pot.is_short(free) && pot.room(free, 0) > 128 * 1024, "{free} of {pot:?}");
    }

    #[test]
    fn who_moves_what_it_holds_in_time_or_is_fast_enough_may_stay() {
        let two = Duration::from_secs(2);
        assert!(
            !moves_enough(MIB, 0, two) && !moves_enough(MIB, 2, two),
            "nothing, and a byte a second"
        );
        assert!(
            !moves_enough(16 * 1024, 1_000, two) && moves_enough(16 * 1024, 3_300, two),
            "all of it in ten seconds"
        );
        assert!(moves_enough(MIB, 33_000, two), "16 KiB a second are enough, however much is held");
        assert!(moves_enough(0, 0, two), "who holds nothing owes nothing");
    }

    #[test]
    fn memory_is_short_below_an_eighth() {
        let pot = Lending::new(800, 10);
        assert!(!pot.is_short(100) && pot.is_short(99));
    }
}
