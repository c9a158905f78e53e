//! When sessions are looked at for memory that can go back: the rounds of `reclaim`.

use clearway_base::{Duration, Instant};

/// From the begin of one round to that of the next.
const PERIOD: Duration = Duration::from_secs(1);

/// How far the round is.
#[derive(Default)]
pub(super) struct Reclaim {
    /// The next place to be looked at, and how many sessions were; None between two rounds.
    pub(super) at: Option<(u32, u32)>,
    /// When the next round begins. None: nobody has anything that could be given back.
    pub(super) next: Option<Instant>,
    pub(super) began: Instant,
    /// So much time is between this round and the one before.
    pub(super) interval: Duration,
    /// Some session may have something to give back in the next round.
    pub(super) goes_on: bool,
}

impl Reclaim {
    /// Something happened: there may be something to give back soon.
    pub(super) fn wake(&mut self, now: Instant) {
        self.goes_on = true;
        if self.at.is_none() && self.next.is_none() {
            self.next = Some(now + PERIOD);
        }
    }

    pub(super) fn deadline(&self) -> Instant {
        match self.at {
            // The rest of a round is for the next turn.
            Some(_) => Instant::ZERO,
            None => self.next.unwrap_or(Instant::NEVER),
        }
    }

    pub(super) fn begin(&mut self, now: Instant) {
        if self.at.is_none() && self.next.is_some_and(|next| next <= now) {
            self.interval = now.since(self.began);
            self.began = now;
            (self.at, self.next, self.goes_on) = (Some((0, 0)), None, false);
        }
    }

    pub(super) fn end(&mut self) {
        self.at = None;
        self.next = self.goes_on.then(|| self.began + PERIOD);
    }
}
