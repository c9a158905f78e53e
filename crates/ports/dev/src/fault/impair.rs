//! One direction of a bad link: frames go in, and come out late, twice, in another order, or not at
//! all.

use std::collections::VecDeque;

use clearway_base::{Duration, Instant, Rng};

use super::spec::{Impairment, JitterShape};

/// A frame that was held back is let go after so many others at most,
const OVERTAKEN_BY: u64 = 3;
/// and after this time even when none follows, or the last frame of an exchange would never arrive.
const HELD_AT_MOST: Duration = Duration::from_millis(10);

/// What has happened to frames so far.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FaultCounts {
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames lost because the link's queue was full.
    pub overflowed: u64,
    /// Frames that went twice.
    pub duplicated: u64,
    /// Frames that others were let overtake.
    pub reordered: u64,
    /// Frames with a bit turned over.
    pub corrupted: u64,
    /// Frames that were marked (CE), if they could be.
    pub marked: u64,
}

/// What happens to a frame that arrives now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Gone by chance.
    Lost,
    /// It goes on, with this bit turned over if there is one, a second time if `twice`, and marked
    /// if `marked` and it can be.
    Goes { flipped_bit: Option<usize>, twice: bool, marked: bool },
}

/// The state of one direction. It owns the frames that are on their way, and no clock.
pub(crate) struct Impair<T> {
    spec: Impairment,
    rng: Rng,
    counts: FaultCounts,
    /// When the link has sent everything that it was given so far.
    free_at: Instant,
    /// Frames in the order in which they arrive.
    on_the_way: VecDeque<(Instant, T)>,
    /// Frames that others may overtake.
    held: Vec<Held<T>>,
}

struct Held<T> {
    still_to_pass: u64,
    until: Instant,
    item: T,
}

impl<T> Impair<T> {
    pub(crate) fn new(spec: Impairment, rng: Rng) -> Impair<T> {
        let counts = FaultCounts::default();
        Impair {
            spec,
            rng,
            counts,
            free_at: Instant::ZERO,
            on_the_way: VecDeque::new(),
            held: Vec::new(),
        }
    }

    pub(crate) fn counts(&self) -> FaultCounts {
        self.counts
    }

    /// Draws what happens to a frame of `len` bytes. The same numbers are drawn for every frame, so
    /// that one share does not shift the other faults of a seed.
    pub(crate) fn fate(&mut self, len: usize) -> Fate {
        let lost = self.rng.chance(self.spec.loss_ppm);
        let twice = self.rng.chance(self.spec.dup_ppm);
        let corrupt = self.rng.chance(self.spec.corrupt_ppm);
        let bit = self.rng.below((len as u64 * 8).max(1)) as usize;
        // Only where it was asked for, so that the other faults of a seed stay what they are.
        let marked = self.spec.mark_ppm > 0 && self.rng.chance(self.spec.mark_ppm);
        if lost {
            self.counts.lost += 1;
            return Fate::Lost;
        }
        let corrupt = corrupt && len > 0;
        self.counts.corrupted += u64::from(corrupt);
        self.counts.duplicated += u64::from(twice);
        self.counts.marked += u64::from(marked);
        Fate::Goes { flipped_bit: corrupt.then_some(bit), twice, marked }
    }

    /// Sends a frame of `len` bytes on its way; gives it back when the link's queue is full.
    pub(crate) fn push(&mut self, now: Instant, len: usize, item: T) -> Result<(), T> {
        if self.has_queue() && self.on_the_way.len() >= self.spec.limit {
            self.counts.overflowed += 1;
            return Err(item);
        }
        if self.spec.rate_bps > 0 {
            let nanos = u128::from(len as u64 * 8) * 1_000_000_000 / u128::from(self.spec.rate_bps);
            self.free_at = self.free_at.max(now)
                + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        } else {
            self.free_at = now;
        }
        let due = self.free_at + self.spec.delay + self.jitter();
        let last = self.on_the_way.back().map_or(Instant::ZERO, |(due, _)| *due);
        if due >= last || !self.spec.overtakes {
            self.on_the_way.push_back((due.max(last), item));
        } else {
            let place = self.on_the_way.partition_point(|(other, _)| *other <= due);
            self.on_the_way.insert(place, (due, item));
        }
        Ok(())
    }

    /// Whether frames wait here for a time, so many of them at most. Without rate and delay none
    /// does, and there is no queue that could be full.
    pub(crate) fn has_queue(&self) -> bool {
        self.spec.rate_bps > 0 || self.spec.delay + self.spec.jitter > Duration::ZERO
    }

    /// By how much longer a frame is on its way. Drawn only where it was asked for, so that the
    /// other faults of a seed stay what they are.
    fn jitter(&mut self) -> Duration {
        let most = self.spec.jitter.as_nanos();
        if most == 0 {
            return Duration::ZERO;
        }
        Duration::from_nanos(match self.spec.shape {
            JitterShape::Uniform => self.rng.between(0, most),
            JitterShape::Normal => (0..4).map(|_| self.rng.between(0, most)).sum::<u64>() / 4,
        })
    }

    /// The next frame that has arrived by `now`.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<T> {
        loop {
            let ready = |held: &Held<T>| held.still_to_pass == 0 || held.until <= now;
            if let Some(at) = self.held.iter().position(ready) {
                return Some(self.held.remove(at).item);
            }
            if self.on_the_way.front().is_none_or(|(due, _)| *due > now) {
                return None;
            }
            let (_, item) = self.on_the_way.pop_front()?;
            if !self.rng.chance(self.spec.reorder_ppm) {
                for held in &mut self.held {
                    held.still_to_pass -= 1;
                }
                return Some(item);
            }
            self.counts.reordered += 1;
            let still_to_pass = self.rng.between(1, OVERTAKEN_BY);
            self.held.push(Held { still_to_pass, until: now + HELD_AT_MOST, item });
        }
    }

    /// When [`Impair::pop`] next has something without anything new.
    pub(crate) fn next_deadline(&self) -> Instant {
        let due = self.on_the_way.front().map_or(Instant::NEVER, |(due, _)| *due);
        let until =
            |held: &Held<T>| if held.still_to_pass == 0 { Instant::ZERO } else { held.until };
        self.held.iter().map(until).fold(due, Instant::min)
    }
}

#[cfg(test)]
mod tests;
