//! When the next frames are due.

use clearway_base::{Duration, Instant};

use crate::rate::FramesPerSecond;

/// Spaces frames out. What is due is worked out anew from the start each time and never added up,
/// so no error grows with time.
#[derive(Clone, Debug)]
pub struct Pace {
    rate: FramesPerSecond,
    start: Instant,
    /// Frames that were sent or given up.
    taken: u64,
    /// Frames that are due and wait for the port at most; what is more is given up.
    most_late: u64,
    short: u64,
}

const NANOS: u128 = 1_000_000_000;

/// How much that is due may wait: what a short stop of the thread or of the link holds back is sent
/// later, what a link cannot carry for longer is not sent at all.
const TIME_LIMIT: Duration = Duration::from_millis(100);

/// Frames that may wait at least: one burst.
const TIME_LIMIT_FRAMES: u64 = clearway_pkt::BURST as u64;

impl Pace {
    /// From `start` on.
    pub fn new(rate: FramesPerSecond, start: Instant) -> Pace {
        let mut pace = Pace { rate, start, taken: 0, most_late: 0, short: 0 };
        pace.most_late = pace.due(start + TIME_LIMIT).max(TIME_LIMIT_FRAMES);
        pace
    }

    /// Frames due between the start and `now`.
    fn due(&self, now: Instant) -> u64 {
        let elapsed = u128::from(now.since(self.start).as_nanos());
        let frames =
            elapsed * u128::from(self.rate.frames) / (u128::from(self.rate.seconds) * NANOS);
        u64::try_from(frames).unwrap_or(u64::MAX)
    }

    /// Frames that may be sent now. What has waited too long is given up here.
    #[inline]
    pub fn allowed(&mut self, now: Instant) -> u64 {
        let waiting = self.due(now).saturating_sub(self.taken);
        let given_up = waiting.saturating_sub(self.most_late);
        self.short += given_up;
        self.taken += given_up;
        waiting - given_up
    }

    /// So many were sent.
    #[inline]
    pub fn sent(&mut self, frames: u64) {
        self.taken += frames;
    }

    /// Nothing that is due now and was not sent will be: the end.
    pub fn give_up(&mut self, now: Instant) {
        let waiting = self.due(now).saturating_sub(self.taken);
        self.short += waiting;
        self.taken += waiting;
    }

    /// Frames that were due and given up, because the port did not take them in time.
    pub fn short(&self) -> u64 {
        self.short
    }

    /// When the next frame is due.
    pub fn next(&self) -> Instant {
        if self.rate.frames == 0 {
            return Instant::NEVER;
        }
        let frames = u128::from(self.taken) + 1;
        let nanos =
            (frames * u128::from(self.rate.seconds) * NANOS).div_ceil(u128::from(self.rate.frames));
        match u64::try_from(nanos) {
            Ok(nanos) => self.start + Duration::from_nanos(nanos),
            Err(_) => Instant::NEVER,
        }
    }
}

#[cfg(test)]
mod tests;
