//! Pacing: data leaves at a rate, in pieces no longer than a quantum (draft-ietf-ccwg-bbr 5.6.2 and
//! 5.6.3).
//!
//! ```text
//!   sent │      ┌───   a quantum may leave once the time has come for it
//!        │   ┌──┘      late by a timer's step: what that has earned leaves too, so that a coarse clock costs no rate
//!        │┌──┘
//!        └┴──┴──┴───▶ time
//! ```

use clearway_base::{Duration, Instant};

use super::delivery::COARSE;

const NANOS: u128 = 1_000_000_000;

/// The most that leaves at one time.
const MOST_QUANTUM: u64 = 64 * 1024;

/// Pieces in a second in which data leaves: a millisecond's worth each.
pub(crate) const PIECES: u64 = 1000;

/// The same for an algorithm whose queue is marked from a millisecond on: a quarter of that each.
pub(crate) const FINE_PIECES: u64 = 4000;

/// The pacer of one connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pacer {
    /// Bytes in a second; None: nothing is held back.
    rate: Option<u64>,
    quantum: u32,
    /// When the next may leave.
    next: Instant,
    /// Something waits for that: how late it leaves is not its own fault.
    waits: bool,
    /// Bytes that ACKs let out before the clock says that it is time.
    credit: u32,
    /// The step of the clock, where that is coarse.
    step: Duration,
}

impl Pacer {
    pub(crate) const fn new() -> Pacer {
        Pacer {
            rate: None,
            quantum: 0,
            next: Instant::ZERO,
            waits: false,
            credit: 0,
            step: Duration::ZERO,
        }
    }

    /// So many bytes were acknowledged, and `gain` hundredths of that are to leave for them, by a
    /// clock with such steps. Where it is coarse, time does not pace within a step: ACKs do, which
    /// come as fast as the path carries. Else all that a step is worth would leave at its end as one
    /// burst, for which a short queue has no place.
    pub(crate) fn on_ack(&mut self, bytes: u32, gain: u32, clock_step: Duration) {
        if clock_step > COARSE {
            let earned = u64::from(bytes) * u64::from(gain) / 100;
            let kept = u64::from(self.credit.min(self.quantum));
            self.credit = u32::try_from(kept + earned).unwrap_or(u32::MAX);
            self.step = clock_step;
        }
    }

    /// What ACKs have let out, as far as a clock that is about to step would.
    fn ahead(&self, rate: u64, now: Instant) -> u32 {
        let left = (now + self.step).since(self.next);
        let most = u128::from(left.as_nanos()) * u128::from(rate) / NANOS;
        u32::try_from(most).unwrap_or(u32::MAX).min(self.credit)
    }

    /// From now on at `rate`, in so many `pieces` a second, of two segments of `mss` bytes at least;
    /// fine ones of one, since the second of two may wait for long enough to be marked.
    pub(crate) fn set_rate(&mut self, rate: Option<u64>, pieces: u64, mss: u32) {
        let least = if pieces == FINE_PIECES { mss } else { 2 * mss };
        self.rate = rate.map(|rate| rate.max(1));
        self.quantum =
            (rate.unwrap_or(u64::MAX) / pieces).min(MOST_QUANTUM).max(u64::from(least)) as u32;
    }

    /// Bytes in a second.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.rate
    }

    /// Bytes that leave at one time.
    #[cfg(test)]
    pub(crate) fn quantum(&self) -> u32 {
        self.quantum
    }

    /// Bytes that may leave now; None: any number.
    pub(crate) fn budget(&mut self, now: Instant) -> Option<u32> {
        let rate = self.rate?;
        if now < self.next {
            return Some(self.ahead(rate, now));
        }
        if !core::mem::replace(&mut self.waits, false) {
            // Nothing waited: nothing was earned.
            self.next = now;
        }
        let earned = u128::from(now.since(self.next).as_nanos()) * u128::from(rate) / NANOS;
        Some(u32::try_from(earned + u128::from(self.quantum)).unwrap_or(u32::MAX))
    }

    /// `bytes` left.
    pub(crate) fn on_sent(&mut self, bytes: u32) {
        if let Some(rate) = self.rate {
            let nanos = u128::from(bytes) * NANOS / u128::from(rate);
            self.next += Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
            self.credit = self.credit.saturating_sub(bytes);
        }
    }

    /// Something waits for its time; returns when that is.
    pub(crate) fn wait(&mut self) -> Instant {
        self.waits = true;
        self.next
    }

    /// When what waits may leave; None: nothing waits.
    pub(crate) fn waits_until(&self) -> Option<Instant> {
        self.waits.then_some(self.next)
    }
}

#[cfg(test)]
mod tests;
