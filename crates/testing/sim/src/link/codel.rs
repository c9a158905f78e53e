//! CoDel (RFC 8289) with the parameters of its section 4, marking as RFC 3168 says: one queue, in which
//! all that can be marked is marked alike, whether it carries ECT(0) or ECT(1).
//!
//! ```text
//!   how long the first waits │      ╱╲    ╱╲    ╱
//!                      5 ms  │┄┄┄┄┄╱┄┄╲┄┄╱┄┄╲┄┄╱┄┄
//!                            │    ╱    ╲╱    ╲╱
//!                            └─────|←100 ms→|────▶ time
//!                                           mark, and then ever sooner: after 100 ms / √n
//! ```

use std::collections::VecDeque;

use clearway_base::{Duration, Instant};
use clearway_wire::Ecn;

use super::dual::{Turn, Verdict, Waiting};

/// What the first of the queue may wait.
const TARGET: Duration = Duration::from_millis(5);
/// For how long it may wait longer.
const INTERVAL: Duration = Duration::from_millis(100);
/// A queue of so many bytes is none.
const LEAST_LEN: usize = 1514;

/// The queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CoDel<T> {
    waiting: VecDeque<Waiting<T>>,
    len_bytes: usize,
    /// When it will have been above the target for long enough.
    above_until: Option<Instant>,
    /// It marks, next at `due`, and has done so `count` times.
    is_marking: bool,
    due: Instant,
    count: u64,
    count_before: u64,
}

impl<T> CoDel<T> {
    /// An empty one.
    #[expect(clippy::new_without_default, reason = "as its neighbour, which takes the time")]
    pub fn new() -> CoDel<T> {
        CoDel {
            waiting: VecDeque::new(),
            len_bytes: 0,
            above_until: None,
            is_marking: false,
            due: Instant::ZERO,
            count: 0,
            count_before: 0,
        }
    }

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// A frame begins to wait.
    pub fn push(&mut self, now: Instant, frame: T, len: usize, ecn: Ecn) {
        let can_be_marked = ecn != Ecn::NotEct;
        self.len_bytes += len;
        self.waiting.push_back(Waiting { frame, len, since: now, can_be_marked });
    }

    /// The frame whose turn it is, and what becomes of it.
    pub fn pop(&mut self, now: Instant) -> Option<Turn<T>> {
        let Some(Waiting { frame, len, since, can_be_marked }) = self.waiting.pop_front() else {
            self.is_marking = false;
            return None;
        };
        self.len_bytes -= len;
        let is_long = self.is_long(now, now.since(since));
        let verdict = match self.is_due(now, is_long) {
            false => Verdict::Passes,
            true if can_be_marked => Verdict::Marked,
            true => Verdict::Dropped,
        };
        Some(Turn { frame, len, since, low_latency: false, verdict })
    }

    /// Whether frames have waited longer than the target for an interval.
    fn is_long(&mut self, now: Instant, waited: Duration) -> bool {
        if waited < TARGET || self.len_bytes <= LEAST_LEN {
            self.above_until = None;
            return false;
        }
        now >= *self.above_until.get_or_insert(now + INTERVAL)
    }

    /// Whether this frame is to tell of that.
    fn is_due(&mut self, now: Instant, is_long: bool) -> bool {
        if !is_long {
            self.is_marking = false;
            return false;
        }
        if self.is_marking {
            let is_due = now >= self.due;
            if is_due {
                self.count += 1;
                self.due += self.step();
            }
            return is_due;
        }
        self.is_marking = true;
        // Who has marked not long ago goes on about as fast as he did.
        let is_soon = now.since(self.due) < INTERVAL.times(16);
        let more = self.count - self.count_before;
        self.count = if is_soon && more > 1 { more } else { 1 };
        self.count_before = self.count;
        self.due = now + self.step();
        true
    }

    fn step(&self) -> Duration {
        Duration::from_nanos((INTERVAL.as_nanos() as f64 / (self.count as f64).sqrt()) as u64)
    }
}

#[cfg(test)]
mod tests;
