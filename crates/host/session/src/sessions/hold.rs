//! How soon a process is woken.
//!
//! Who reads in bulk and is woken for each burst finds little, sleeps again, and on a core that it
//! shares with this worker takes it in the midst of the stream: tens of thousands of times a
//! second. So its notifier is held for a moment, while bytes gather. A notifier is held only for
//! one that has not written for a while: who asks and waits for answers is woken at once.
//!
//! No notifier is held for ever. `Sessions::notify_sleepers` asks at the end of every turn;
//! [`Hold::ends_at`] is among the worker's deadlines, so there is a turn when the time is over; and
//! before the worker sleeps all that are held are notified.

use clearway_base::{Duration, Instant};

#[cfg(test)]
mod tests;

/// A notifier is held until so long after the last one. Half a FIFO of the usual size fills in that
/// time at 80 Gbit/s.
pub(super) const GAP: Duration = Duration::from_micros(50);

/// A process reads in bulk when it was woken so often and has not written meanwhile. Answers longer
/// than a FIFO do not come in fewer portions.
const NOTIFIERS: u8 = 8;

/// Less than this is read sooner than a notifier that is notified later is worth.
const PORTION: u32 = 16 << 10;

/// How soon a process is to hear of something.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum When {
    /// It reads in bulk, perhaps, and more bytes may come.
    Soon,
    /// At the end of this turn.
    Now,
}

impl When {
    /// For bytes in a receive FIFO: as many as make a portion, and as leave the sender room for
    /// more.
    pub(super) fn for_bytes(unread: u32, limit: u32) -> When {
        match (PORTION..limit / 2).contains(&unread) {
            true => When::Soon,
            false => When::Now,
        }
    }
}

/// What one process was not woken for yet.
#[derive(Debug)]
pub(super) struct Hold {
    pending: Option<When>,
    notified_at: Instant,
    // Notifiers since the process wrote last, up to `NOTIFIERS`.
    notifiers: u8,
}

impl Hold {
    /// Nothing is pending.
    pub(super) fn new() -> Hold {
        Hold { pending: None, notified_at: Instant::ZERO, notifiers: 0 }
    }

    /// There is something to hear of.
    pub(super) fn add(&mut self, when: When) {
        self.pending = self.pending.max(Some(when));
    }

    /// What there is to hear of waits no longer.
    pub(super) fn flush(&mut self) {
        if self.pending.is_some() {
            self.pending = Some(When::Now);
        }
    }

    /// The process wrote: it may wait for an answer.
    pub(super) fn wrote(&mut self) {
        self.notifiers = 0;
    }

    /// There is something that the process was not woken for.
    pub(super) fn has_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Until when its notifier is held; None: it is not.
    pub(super) fn ends_at(&self) -> Option<Instant> {
        (self.pending == Some(When::Soon) && self.notifiers >= NOTIFIERS)
            .then(|| self.notified_at + GAP)
    }

    /// It hears of everything without being woken.
    pub(super) fn heard(&mut self) {
        self.pending = None;
    }

    /// It is woken.
    pub(super) fn notified(&mut self, now: Instant) {
        self.pending = None;
        self.notified_at = now;
        self.notifiers = (self.notifiers + 1).min(NOTIFIERS);
    }
}
