//! Points in time in little space.

use clearway_base::{Duration, Instant};

use crate::export::Fields;

/// A point in time to the millisecond, modulo 2^32: good for 49 days, in half the space.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Ms(u32);

impl Ms {
    pub(crate) const ZERO: Ms = Ms(0);

    #[inline]
    pub(crate) fn of(now: Instant) -> Ms {
        Ms(now.as_millis() as u32)
    }

    /// Its part of a record ([`crate::export`]): how long ago it was.
    pub(crate) fn field(&mut self, tag: u16, f: &mut impl Fields) {
        let mut ago = self.ms_ago(f.now());
        f.u32(tag, &mut ago);
        self.0 = (f.now().as_millis() as u32).wrapping_sub(ago);
    }

    /// How long ago it was.
    #[inline]
    pub(crate) fn ago(self, now: Instant) -> Duration {
        Duration::from_millis(u64::from(self.ms_ago(now)))
    }

    /// The same in milliseconds.
    #[inline]
    pub(crate) fn ms_ago(self, now: Instant) -> u32 {
        (now.as_millis() as u32).wrapping_sub(self.0)
    }
}

/// log2 of the nanoseconds of a tick.
const TICK_SHIFT: u32 = 16;

/// A point in time in ticks of 2^16 ns, the wheel's, modulo 2^32: it orders what is less than a day
/// and a half apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tick(u32);

impl Tick {
    /// What lies further ahead than this is not kept as a tick.
    pub(crate) const FAR: Duration = Duration::from_secs(12 * 3600);

    #[inline(always)]
    pub(crate) fn of(at: Instant) -> Tick {
        Tick((at.as_nanos() >> TICK_SHIFT) as u32)
    }

    /// Whether `at` lies in a later tick.
    #[inline(always)]
    pub(crate) fn is_before(self, at: Instant) -> bool {
        Tick::of(at).0.wrapping_sub(self.0) as i32 > 0
    }
}

/// A deadline in ticks, as [`Tick`]; zero when it is not set. It is met within a tick, and must lie
/// less than a day and a half ahead.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DueTick(u32);

impl DueTick {
    pub(crate) const NEVER: DueTick = DueTick(0);

    #[inline]
    pub(crate) fn at(at: Instant) -> DueTick {
        if at.is_set() { DueTick::of(at) } else { DueTick::NEVER }
    }

    /// The same, of an instant that is set. Every deadline is an odd tick, so that none of them is
    /// zero and nothing has to be asked.
    #[inline(always)]
    pub(crate) fn of(at: Instant) -> DueTick {
        debug_assert!(at.is_set());
        DueTick(Tick::of(at).0 | 1)
    }

    #[inline(always)]
    pub(crate) fn is_set(self) -> bool {
        self != DueTick::NEVER
    }

    /// When that is, seen from `now`.
    #[inline(always)]
    pub(crate) fn seen_from(self, now: Instant) -> Instant {
        if self.is_set() { near(now, self.0, TICK_SHIFT) } else { Instant::NEVER }
    }
}

/// The instant nearest to `now` whose nanoseconds, without so many bits, end in `low`.
#[inline(always)]
fn near(now: Instant, low: u32, shift: u32) -> Instant {
    let now = now.as_nanos() >> shift;
    let ahead = i64::from(low.wrapping_sub(now as u32) as i32);
    Instant::from_nanos(now.wrapping_add_signed(ahead) << shift)
}

/// log2 of the nanoseconds in the unit of [`Recent`].
const RECENT_SHIFT: u32 = 6;

/// A point in the recent past in units of 64 ns, modulo 2^32: good for four minutes, longer than
/// any round trip or timeout ([`Recent::FAR`]).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Recent(u32);

impl Recent {
    /// It lies no further back.
    pub(crate) const FAR: Duration = Duration::from_secs(240);

    #[inline(always)]
    pub(crate) fn of(now: Instant) -> Recent {
        Recent((now.as_nanos() >> RECENT_SHIFT) as u32)
    }

    /// How long ago it was.
    #[inline(always)]
    pub(crate) fn ago(self, now: Instant) -> Duration {
        Duration::from_nanos(u64::from(Recent::of(now).0.wrapping_sub(self.0)) << RECENT_SHIFT)
    }

    /// When that was, seen from `now`.
    pub(crate) fn seen_from(self, now: Instant) -> Instant {
        now - self.ago(now)
    }
}

/// log2 of the nanoseconds in the unit of [`DueFar`]: about a millisecond.
const FAR_SHIFT: u32 = 20;

/// A deadline in units of 2^20 ns; zero when it is not set. It is met up to a unit early, and must
/// lie less than [`DueFar::FAR`] ahead.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct DueFar(u32);

impl DueFar {
    pub(crate) const NEVER: DueFar = DueFar(0);
    /// No deadline lies further ahead.
    pub(crate) const FAR: Duration = Duration::from_secs(24 * 24 * 3600);

    #[inline]
    pub(crate) fn at(at: Instant) -> DueFar {
        if at.is_set() {
            DueFar(((at.as_nanos() >> FAR_SHIFT) as u32).max(1))
        } else {
            DueFar::NEVER
        }
    }

    /// When that is, seen from `now`.
    #[inline]
    pub(crate) fn seen_from(self, now: Instant) -> Instant {
        if self == DueFar::NEVER { Instant::NEVER } else { near(now, self.0, FAR_SHIFT) }
    }
}

/// Our timestamp clock (RFC 7323 5.4): one tick per millisecond.
#[inline]
pub(crate) fn stamp(now: Instant, offset: u32) -> u32 {
    (now.as_millis() as u32).wrapping_add(offset)
}

#[cfg(test)]
mod tests;
