//! Whether to look for more packets for a while, or to sleep at once.
//!
//! Looking costs the processor's time and saves the time of falling asleep and waking up. It pays
//! when the next packet comes before the looking ends, and the last few packets say whether that is
//! so: every idle moment that was short enough speaks for it, every longer one against it, also the
//! ones that were slept through.

use clearway_base::{Duration, Instant};

/// Idle moments that may speak for looking; so many more against it are needed before it is given
/// up.
const MOST: u8 = 8;

/// Decides between looking and sleeping.
#[derive(Debug)]
pub(crate) struct AdaptiveSpin {
    spin: Duration,
    credit: u8,
    /// When the present idle moment began; NEVER while there is work.
    idle_since: Instant,
}

impl AdaptiveSpin {
    /// Looks for `spin` at most; zero never looks.
    pub(crate) fn new(spin: Duration) -> AdaptiveSpin {
        AdaptiveSpin { spin, credit: MOST / 2, idle_since: Instant::NEVER }
    }

    /// A turn that had work ended an idle moment, or there was none.
    #[inline]
    pub(crate) fn worked(&mut self, now: Instant) {
        if self.idle_since.is_set() {
            let short = now.since(self.idle_since) <= self.spin;
            self.credit =
                if short { (self.credit + 1).min(MOST) } else { self.credit.saturating_sub(1) };
            self.idle_since = Instant::NEVER;
        }
    }

    /// A turn had no work, or has none left: true says look again, false says sleep.
    #[inline]
    pub(crate) fn looks(&mut self, now: Instant) -> bool {
        if !self.idle_since.is_set() {
            self.idle_since = now;
        }
        self.credit > 0 && now.since(self.idle_since) < self.spin
    }
}

#[cfg(test)]
mod tests;
