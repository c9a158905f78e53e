//! Whether the queue that marks is one of RFC 3168, which marks what is Prague's as it does all
//! else, and late: then who answers marks by their share takes nearly all from who takes each for a
//! loss (RFC 9331 4.3).
//!
//! ```text
//!   round trip │      _,-‾‾‾x‾‾x‾x‾    x: marks, where much waits: a classic queue
//!              │   ,-‾                 ┄┄┄┄┄  4 ms above the shortest
//!              │ ,‾                    ┄┄┄┄┄  2 ms
//!     shortest │‾  x  x x   x  x  x    where next to nothing waits: one for Prague
//!              └────────────────────▶ time
//! ```
//!
//! What speaks for it and against it is a round trip with marks, by the shortest of its samples, so
//! that what only varies within one (a busy peer, delayed ACKs) is no queue. What the path takes
//! without a queue may not be known: who comes into a queue that others keep full has never seen it
//! empty. What seems to wait for little then speaks for a classic queue half as much; if it is one,
//! the deeper cuts that follow let it run lower, and what waits shows.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use crate::tcp::ack_info::AckInfo;
use crate::tcp::delivery::COARSE;

/// One, in the unit of [`ClassicQueue::likely`] and of what follows from it.
pub(super) const ONE: u32 = 1 << 16;

/// A queue for Prague marks from about a millisecond on, CoDel (RFC 8289) from five, PIE and PI2 from
/// fifteen. Round trips that are longer by less than this speak against a classic queue, by more than
/// that for one, and between both half as much.
const LITTLE: Duration = Duration::from_millis(2);
const MUCH: Duration = Duration::from_millis(4);

/// What a round trip with marks moves [`ClassicQueue::likely`] by: a stranger's slow start fills a
/// queue of any kind for some of them.
const STEP: u32 = ONE / 32;

/// A round trip with fewer samples says nothing: a delayed ACK may be the shortest, and so small a
/// window takes nothing from anybody.
const LEAST_SAMPLES: u8 = 4;

/// The shortest round trip is that of the last one or two of such times: a path that has become
/// longer is no queue for ever.
const SPAN: Duration = Duration::from_secs(60);

/// A round trip that is not known.
const NONE: u32 = u32::MAX;

/// What is known of it. Round trips are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClassicQueue {
    /// The shortest since then, and in the span before.
    base_us: [u32; 2],
    span_since: Instant,
    /// The shortest of this round trip, which lasts until that is acknowledged.
    least_us: u32,
    round_end: Seq,
    samples: u8,
    has_marks: bool,
    /// How likely it is, up to [`ONE`].
    likely: u32,
}

impl ClassicQueue {
    /// Nothing is known, with all up to `nxt` sent.
    pub(crate) fn new(now: Instant, nxt: Seq) -> ClassicQueue {
        ClassicQueue {
            base_us: [NONE; 2],
            span_since: now,
            least_us: NONE,
            round_end: nxt,
            samples: 0,
            has_marks: false,
            likely: 0,
        }
    }

    /// An ACK, which tells of `marked` bytes; `may_tell`: what fills the queue is no slow start of
    /// ours.
    pub(crate) fn on_ack(&mut self, ack: &AckInfo, marked: u32, may_tell: bool) {
        if let Some(rtt) = ack.rtt_sample {
            self.take(micros(rtt), ack.now);
        }
        self.has_marks |= marked > 0;
        if ack.una.ge(self.round_end) {
            if may_tell && self.has_marks && self.samples >= LEAST_SAMPLES {
                self.judge(ack.clock_step);
            }
            (self.least_us, self.samples, self.has_marks) = (NONE, 0, false);
            self.round_end = ack.nxt;
        }
    }

    fn take(&mut self, us: u32, now: Instant) {
        if now.since(self.span_since) >= SPAN {
            self.base_us = [NONE, self.base_us[0]];
            self.span_since = now;
        }
        self.base_us[0] = self.base_us[0].min(us);
        self.least_us = self.least_us.min(us);
        self.samples = self.samples.saturating_add(1);
    }

    /// A round trip with marks is over.
    fn judge(&mut self, clock_step: Duration) {
        let base = self.base_us[0].min(self.base_us[1]);
        let waits = self.least_us.saturating_sub(base);
        // A coarse clock may tell the shortest a step too short.
        let error = if clock_step > COARSE { clock_step } else { Duration::ZERO };
        self.likely = if waits >= micros(MUCH + error) {
            (self.likely + STEP).min(ONE)
        } else if waits >= micros(LITTLE + error) {
            (self.likely + STEP / 2).min(ONE)
        } else {
            self.likely.saturating_sub(STEP)
        };
    }

    /// How far the answer to a mark shall be that of a classic algorithm, up to [`ONE`]: not at all
    /// until it is likely by a quarter, and all the way from three on.
    pub(crate) fn part(&self) -> u32 {
        (self.likely.saturating_sub(ONE / 4) * 2).min(ONE)
    }
}

fn micros(time: Duration) -> u32 {
    u32::try_from(time.as_nanos() / 1_000).unwrap_or(NONE)
}

#[cfg(test)]
mod tests;
