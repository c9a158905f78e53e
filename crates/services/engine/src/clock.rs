//! The clock of the operating system. No other code of the data path reads it, and the engine reads
//! it once per turn; when somebody wants packets stamped, once more for each burst that comes and
//! before what leaves, or a packet would have come before it was sent.

use clearway_base::{Duration, Instant};
use nix::time::{ClockId, clock_gettime};

/// What time a turn happens at.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Time {
    /// On the monotonic clock; timers are set by this.
    pub now: Instant,
    /// Since the start of 1970 (UTC), for dates that people read; it may jump.
    pub since_1970: Duration,
}

/// The monotonic clock, and the calendar beside it.
#[derive(Debug)]
pub struct Clock {
    // Calendar minus monotonic time, in nanoseconds.
    offset: u64,
    compared: Instant,
}

/// How often the calendar is compared again: somebody may set it.
const COMPARE_EVERY: Duration = Duration::from_secs(1);

impl Clock {
    /// Compares the two clocks for the first time.
    pub fn new() -> Clock {
        let mut clock = Clock { offset: 0, compared: Instant::ZERO };
        clock.compare(monotonic());
        clock
    }

    /// Reads the clock.
    #[inline]
    pub fn read(&mut self) -> Time {
        let now = monotonic();
        if now.since(self.compared) >= COMPARE_EVERY {
            self.compare(now);
        }
        Time { now, since_1970: Duration::from_nanos(self.offset.wrapping_add(now.as_nanos())) }
    }

    /// What the calendar shows at this moment, and not when the turn began: for the stamps of who
    /// asks for them.
    pub fn calendar() -> Duration {
        Duration::from_nanos(nanos(ClockId::CLOCK_REALTIME))
    }

    fn compare(&mut self, now: Instant) {
        self.offset = nanos(ClockId::CLOCK_REALTIME).wrapping_sub(now.as_nanos());
        self.compared = now;
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::new()
    }
}

#[inline]
fn monotonic() -> Instant {
    Instant::from_nanos(nanos(ClockId::CLOCK_MONOTONIC))
}

#[inline]
fn nanos(clock: ClockId) -> u64 {
    // Both clocks are there on every Linux; a failure could only mean a broken machine, and time
    // standing still is the mildest answer.
    clock_gettime(clock).map_or(0, |t| {
        (t.tv_sec() as u64).wrapping_mul(1_000_000_000).wrapping_add(t.tv_nsec() as u64)
    })
}
