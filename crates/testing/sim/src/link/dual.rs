//! A dual queue whose two halves are coupled (RFC 9332): DualPI2, with the parameters of its
//! appendix A.
//!
//! ```text
//!   ECT(1), CE ──▶ [ L ]──▶ marked from 0.8 ms on, and by k·p' ─┐  L first, but one
//!                                 ▲                             ├─▶ byte in sixteen
//!                                 │ p' of how long C waits      │  is C's
//!   all others ──▶ [     C     ]──┴────▶ marked or lost by p'² ─┘
//! ```
//!
//! Who answers marks in proportion waits for little, who answers each as a loss fills his own queue,
//! and both get about the same, because the ones are marked by the square root of what the others
//! lose.

use std::collections::VecDeque;

use clearway_base::{Duration, Instant};
use clearway_wire::Ecn;

/// One, of probabilities.
const ONE: i64 = 1 << 30;

/// What the classic queue shall wait, and the longest round trip that is controlled well.
const TARGET: Duration = Duration::from_millis(15);
const RTT_MAX: Duration = Duration::from_millis(100);
/// How often the probability is reckoned anew: the lesser of the target and RTT_max / 3.
const T_UPDATE: Duration = Duration::from_millis(15);
/// k, by which the queues are coupled.
const COUPLING: i64 = 2;
/// From here on classic packets that can be marked are lost all the same: 1 / k².
const MOST_CLASSIC: i64 = ONE / (COUPLING * COUPLING);
/// The low-latency queue marks from the first on, and everything from the second on.
const LEAST_WAIT: Duration = Duration::from_micros(800);
const MOST_WAIT: Duration = Duration::from_micros(1200);
/// While both wait, one byte in so many is of the classic queue.
const CLASSIC_PART: u64 = 16;

/// What becomes of a frame whose turn has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It leaves.
    Passes,
    /// It leaves with a mark.
    Marked,
    /// It is lost.
    Dropped,
}

/// A frame that waits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Waiting<T> {
    pub frame: T,
    pub len: usize,
    pub since: Instant,
    pub can_be_marked: bool,
}

/// A frame whose turn has come.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Turn<T> {
    /// The frame.
    pub frame: T,
    /// Its bytes.
    pub len: usize,
    /// Since when it has waited.
    pub since: Instant,
    /// It was in the low-latency queue.
    pub low_latency: bool,
    /// What becomes of it.
    pub verdict: Verdict,
}

/// The two queues.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DualQueue<T> {
    low: VecDeque<Waiting<T>>,
    classic: VecDeque<Waiting<T>>,
    /// p', and how long the classic queue waited when it was reckoned.
    base: i64,
    before: Duration,
    due: Instant,
    /// What probabilities have added up to in each queue (the `recur` of the appendix).
    low_sum: i64,
    low_lost_sum: i64,
    classic_sum: i64,
    /// Bytes that the classic queue is owed.
    owed: u64,
}

impl<T> DualQueue<T> {
    /// Empty ones, at that time.
    pub fn new(now: Instant) -> DualQueue<T> {
        DualQueue {
            low: VecDeque::new(),
            classic: VecDeque::new(),
            base: 0,
            before: Duration::ZERO,
            due: now + T_UPDATE,
            low_sum: 0,
            low_lost_sum: 0,
            classic_sum: 0,
            owed: 0,
        }
    }

    /// Frames that wait.
    pub fn len(&self) -> usize {
        self.low.len() + self.classic.len()
    }

    /// Whether none does.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A frame begins to wait; its ECN bits say where.
    pub fn push(&mut self, now: Instant, frame: T, len: usize, ecn: Ecn) {
        self.update(now);
        let can_be_marked = ecn != Ecn::NotEct;
        let queue = match ecn {
            Ecn::Ect1 | Ecn::Ce => &mut self.low,
            Ecn::NotEct | Ecn::Ect0 => &mut self.classic,
        };
        queue.push_back(Waiting { frame, len, since: now, can_be_marked });
    }

    /// A frame begins to wait in the classic queue, whatever its ECN bits say: where all do, the
    /// other half is not there.
    pub fn push_classic(&mut self, now: Instant, frame: T, len: usize, ecn: Ecn) {
        self.update(now);
        let can_be_marked = ecn != Ecn::NotEct;
        self.classic.push_back(Waiting { frame, len, since: now, can_be_marked });
    }

    /// The frame whose turn it is, and what becomes of it.
    pub fn pop(&mut self, now: Instant) -> Option<Turn<T>> {
        self.update(now);
        let is_low_first = self.classic.is_empty() || self.owed < CLASSIC_PART * 1500;
        let low_latency = !self.low.is_empty() && is_low_first;
        let queue = if low_latency { &mut self.low } else { &mut self.classic };
        let Waiting { frame, len, since, can_be_marked } = queue.pop_front()?;
        let verdict = if low_latency {
            if !self.classic.is_empty() {
                self.owed += len as u64;
            }
            self.judge_low(now.since(since))
        } else {
            self.owed = self.owed.saturating_sub(CLASSIC_PART * len as u64);
            self.judge_classic(can_be_marked)
        };
        Some(Turn { frame, len, since, low_latency, verdict })
    }

    /// `p_CL` of the appendix.
    fn coupled(&self) -> i64 {
        self.base * COUPLING
    }

    /// `p_C`.
    fn squared(&self) -> i64 {
        (i128::from(self.base) * i128::from(self.base) / i128::from(ONE)) as i64
    }

    fn judge_low(&mut self, waited: Duration) -> Verdict {
        // A queue of one packet is none.
        let own = match waited {
            _ if self.low.is_empty() => 0,
            w if w >= MOST_WAIT => ONE,
            w if w > LEAST_WAIT => {
                let above = (w.as_nanos() - LEAST_WAIT.as_nanos()) as i64;
                ONE * above / (MOST_WAIT.as_nanos() - LEAST_WAIT.as_nanos()) as i64
            }
            _ => 0,
        };
        // Overload: marks alone would not be enough.
        let squared = self.squared();
        if self.coupled() >= ONE && recur(&mut self.low_lost_sum, squared) {
            return Verdict::Dropped;
        }
        let chance = own.max(self.coupled()).min(ONE);
        if recur(&mut self.low_sum, chance) { Verdict::Marked } else { Verdict::Passes }
    }

    fn judge_classic(&mut self, can_be_marked: bool) -> Verdict {
        let chance = self.squared();
        if !recur(&mut self.classic_sum, chance) {
            Verdict::Passes
        } else if can_be_marked && chance < MOST_CLASSIC {
            Verdict::Marked
        } else {
            Verdict::Dropped
        }
    }

    /// The controller of the appendix: p' follows how long the first of the classic queue has
    /// waited, and how that changes.
    fn update(&mut self, now: Instant) {
        while self.due <= now {
            let waits = self.classic.front().map_or(Duration::ZERO, |w| self.due.since(w.since));
            let nanos = |d: Duration| i128::from(d.as_nanos());
            // α = 0.1 · T / RTT_max², β = 0.3 / RTT_max.
            let error = nanos(waits) - nanos(TARGET);
            let change = nanos(waits) - nanos(self.before);
            let integral =
                i128::from(ONE) * error * nanos(T_UPDATE) / (10 * nanos(RTT_MAX) * nanos(RTT_MAX));
            let proportional = i128::from(ONE) * change * 3 / (10 * nanos(RTT_MAX));
            let sum = i128::from(self.base) + integral + proportional;
            self.base = sum.clamp(0, i128::from(ONE)) as i64;
            self.before = waits;
            self.due += T_UPDATE;
            if self.base == 0 && self.is_empty() {
                // Nothing changes until something comes.
                let idle = now.since(self.due).as_nanos() / T_UPDATE.as_nanos();
                self.due += T_UPDATE.times(idle);
            }
        }
    }
}

/// Whether a probability has added up to one more: as often as by chance, and more evenly.
fn recur(sum: &mut i64, chance: i64) -> bool {
    *sum += chance;
    let is_one = *sum > ONE;
    if is_one {
        *sum -= ONE;
    }
    is_one
}

#[cfg(test)]
mod tests;
