//! Points in time in little space.

use clearway_base::{Duration, Instant};

use crate::export::Fields;

/// Ages of timestamps are counted in minutes of 64 seconds, of which 16 bits count 48 days.
pub(crate) const MINUTE_SECS: u64 = 64;

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

/// A point in time in ticks of 2^16 ns, the wheel's, modulo 2^32: it orders what is less than a day and a half apart.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Tick(u32);

impl Tick {
    /// What lies further ahead than this is not kept as a tick.
    pub(crate) const FAR: Duration = Duration::from_secs(12 * 3600);

    #[inline(always)]
    pub(crate) fn of(at: Instant) -> Tick {
        Tick((at.as_nanos() >> 16) as u32)
    }

    /// Whether `at` lies in a later tick.
    #[inline(always)]
    pub(crate) fn is_before(self, at: Instant) -> bool {
        Tick::of(at).0.wrapping_sub(self.0) as i32 > 0
    }
}

/// The time as `Conn::recent_at` counts it.
pub(crate) fn minutes(now: Instant) -> u16 {
    (now.as_millis() / (1000 * MINUTE_SECS)) as u16
}

/// Our timestamp clock (RFC 7323 5.4): one tick per millisecond.
#[inline]
pub(crate) fn stamp(now: Instant, offset: u32) -> u32 {
    (now.as_millis() as u32).wrapping_add(offset)
}
