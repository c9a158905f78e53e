//! Whether to look for more packets for a while, or to sleep at once.
//!
//! Looking costs the processor's time and saves the time of falling asleep and waking up. It pays
//! when the next packet comes before the looking ends, and the last few packets say whether that is
//! so: every idle moment that was short enough speaks for it, every longer one against it, also the
//! ones that were slept through.
//!
//! Between two looks the processor is offered to whoever else waits for it: beside a host on one
//! core that is mostly the very program from which the next work comes, or its peer. What they take
//! does not count as looking, for it costs nobody anything, and they need to wake nobody
//! afterwards. Who takes it for long computes, and would do so each time: then nothing is offered
//! for a while, since who sleeps is let in at once when a packet comes, and who offered is not.

use clearway_base::{Duration, Instant};

/// Idle moments that may speak for looking; so many more against it are needed before it is given
/// up.
const MOST: u8 = 8;

/// Who keeps a processor that it was offered for so long does not work for us, but for itself.
const LONG: Duration = Duration::from_millis(1);

/// How long nothing is offered after that: a time slice of some milliseconds is waited for ten
/// times a second at most.
const HOLD: Duration = Duration::from_millis(100);

/// Decides between looking and sleeping, and whether the processor is offered to others between
/// two looks.
#[derive(Debug)]
pub(crate) struct AdaptiveSpin {
    spin: Duration,
    credit: u8,
    /// Nothing is offered before that.
    offers_from: Instant,
    /// When the present idle moment began; NEVER while there is work.
    idle_since: Instant,
}

impl AdaptiveSpin {
    /// Looks for `spin` at most; zero never looks.
    pub(crate) fn new(spin: Duration) -> AdaptiveSpin {
        AdaptiveSpin {
            spin,
            credit: MOST / 2,
            offers_from: Instant::ZERO,
            idle_since: Instant::NEVER,
        }
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

    /// Whether to offer the processor to others before the next look.
    #[inline]
    pub(crate) fn offers(&self, now: Instant) -> bool {
        now >= self.offers_from
    }

    /// The processor was offered from `from` on, and came back at `now`.
    #[inline]
    pub(crate) fn offered(&mut self, from: Instant, now: Instant) {
        let taken = now.since(from);
        if taken >= LONG {
            self.offers_from = now + HOLD;
        } else if self.idle_since.is_set() {
            self.idle_since += taken;
        }
    }
}

#[cfg(test)]
mod tests;
