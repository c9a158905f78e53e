//! Prague (draft-briscoe-iccrg-prague-congestion-control): a queue that marks packets as soon as it
//! begins to grow says with how many it marks how much is too much. The window is cut by half of the
//! average share of marks, once in a round trip, and grows in between as Reno's does.
//!
//! ```text
//!   cwnd │      ╱╲
//!        │     ╱  ╲  ╭ what the path has carried meanwhile
//!        │    ╱    ╲╱╲╱╲╱╲╱╲╱╲   by the share of marks, which is small
//!        │   ╱     first mark: half
//!        └────────────────────────▶ time
//! ```
//!
//! It needs the accurate feedback of AccECN (RFC 9768), and says with ECT(1) that it heeds marks in
//! this way (RFC 9331): a connection that has not agreed on that goes by CUBIC. A loss is answered
//! as Reno answers it.

use clearway_base::{Duration, Instant};
use clearway_wire::Seq;

use super::algorithm::{Advice, Algorithm, Event};
use super::reno;
use super::window::{MAX_CWND, Window};
use crate::export::Fields;
use crate::tcp::ack_info::AckInfo;
use crate::tcp::rtt::Rtt;

/// One, in the unit of [`Prague::alpha`].
const ONE: u32 = 1 << 20;

/// g of RFC 8257 3.3: the average follows by a sixteenth.
const GAIN_SHIFT: u32 = 4;

/// A round trip that is not known yet, and the shortest that is believed.
const UNKNOWN_RTT: Duration = Duration::from_millis(25);
const SHORTEST_RTT: Duration = Duration::from_micros(100);

/// Data leaves at the window over the round trip, in hundredths: faster in slow start, whose window
/// doubles in a round trip, and a little faster afterwards, so that the window is what limits.
const START_PACING_GAIN: u32 = 200;
const PACING_GAIN: u32 = 110;

/// log2 of the nanoseconds in a tick: about a microsecond.
const TICK_SHIFT: u32 = 10;

/// What is known of the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// No mark has come.
    Unmarked,
    /// The first mark has taken half of the window, and what was in flight then still arrives: it
    /// fills the path, and tells what that carries.
    Drains,
    /// The first round trip behind that: the share of its marks is the first of the average.
    Samples,
    /// The average follows the share of marks.
    Follows,
}

/// What the connection has measured with an ACK, beside what that says.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Measured {
    /// The window was cut for a loss and stays as it is: marks count for the average only.
    pub is_held: bool,
    /// Bytes of ours that the peer has newly told to be marked "congestion experienced".
    pub marked: u32,
    /// Bytes in a second at which data arrived; 0: not known.
    pub rate: u64,
}

/// Prague's state beyond the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Prague {
    /// The average share of marks.
    alpha: u32,
    /// Bytes that arrived, and those of them that were marked, since [`Prague::since`]. While it
    /// [`Stage::Drains`] the first is the most that the path has carried in a round trip.
    delivered: u32,
    marked: u32,
    /// When the round trip began whose marks are counted, in ticks.
    since: u32,
    /// What the last division by the window left over.
    rest: u32,
    /// The window was cut, and what was in flight then is not acknowledged before this.
    cut_until: Seq,
    is_cut: bool,
    stage: Stage,
}

impl Prague {
    pub(super) const NEW: Prague = Prague {
        alpha: ONE,
        delivered: 0,
        marked: 0,
        since: 0,
        rest: 0,
        cut_until: Seq(0),
        is_cut: false,
        stage: Stage::Unmarked,
    };

    /// Bytes in a second at which data leaves.
    pub(crate) fn pacing_rate(w: &Window, srtt: Option<Duration>) -> u64 {
        let rtt = srtt.unwrap_or(Duration::from_millis(1)).max(Duration::from_micros(1));
        let gain = if w.in_slow_start() { START_PACING_GAIN } else { PACING_GAIN };
        let rate = u128::from(w.cwnd) * u128::from(gain) * 10_000_000 / u128::from(rtt.as_nanos());
        u64::try_from(rate).unwrap_or(u64::MAX)
    }

    /// An ACK, also one that acknowledges nothing new: it may tell of marks all the same.
    pub(super) fn on_measured_ack(
        &mut self,
        w: &mut Window,
        ack: &AckInfo,
        rtt: &Rtt,
        measured: Measured,
    ) {
        let marked = measured.marked.min(ack.delivered.max(w.mss()));
        let round_trip = rtt.srtt().unwrap_or(UNKNOWN_RTT).max(SHORTEST_RTT);
        if measured.is_held {
            self.average(ack, marked, round_trip);
            return;
        }
        if self.is_cut && ack.una.ge(self.cut_until) {
            self.is_cut = false;
            if self.stage == Stage::Drains {
                self.refill(w, ack.now);
            }
        }
        match self.stage {
            Stage::Unmarked if marked > 0 => {
                self.stage = Stage::Drains;
                self.cut(w, ack.nxt);
            }
            Stage::Drains => {
                let least = rtt.min().unwrap_or_default().as_nanos();
                let bytes = u128::from(measured.rate) * u128::from(least) / 1_000_000_000;
                let carried = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.delivered = self.delivered.max(carried);
            }
            Stage::Follows if marked > 0 => self.cut(w, ack.nxt),
            Stage::Unmarked | Stage::Samples | Stage::Follows => {}
        }
        if self.average(ack, marked, round_trip) {
            self.cut(w, ack.nxt);
        }
        let unmarked = ack.credit.saturating_sub(marked);
        if ack.acked > 0 && ack.cwnd_limited && unmarked > 0 {
            let left = if w.in_slow_start() { w.slow_start(unmarked) } else { unmarked };
            if left > 0 && !w.in_slow_start() {
                self.grow(w, left);
            }
        }
    }

    /// The share of marks of a round trip is taken into the average when it is over. The first
    /// share is the average: that begins at one, and would take half of the window a second time.
    /// True: this is it, and cuts the window.
    fn average(&mut self, ack: &AckInfo, marked: u32, rtt: Duration) -> bool {
        if !matches!(self.stage, Stage::Samples | Stage::Follows) {
            return false;
        }
        self.delivered = self.delivered.saturating_add(ack.delivered);
        self.marked = self.marked.saturating_add(marked);
        let elapsed = u64::from(ticks(ack.now).wrapping_sub(self.since));
        if elapsed < rtt.as_nanos() >> TICK_SHIFT || self.delivered == 0 {
            return false;
        }
        let all = u64::from(self.delivered);
        let share = (u64::from(self.marked).min(all) * u64::from(ONE) / all) as u32;
        let is_first = self.stage == Stage::Samples;
        if is_first {
            self.stage = Stage::Follows;
            self.alpha = share;
        } else {
            let step = (i64::from(share) - i64::from(self.alpha)) >> GAIN_SHIFT;
            self.alpha = (i64::from(self.alpha) + step).max(0) as u32;
        }
        self.begin_round(ack.now);
        is_first
    }

    fn begin_round(&mut self, now: Instant) {
        (self.delivered, self.marked, self.since) = (0, 0, ticks(now));
    }

    /// What was in flight at the first mark has arrived. It has filled the path, and half of the
    /// window may be far less than that holds: what it has carried goes on.
    fn refill(&mut self, w: &mut Window, now: Instant) {
        let before = w.cwnd.saturating_mul(2);
        w.cwnd = w.cwnd.max(self.delivered.min(before)).min(MAX_CWND);
        self.stage = Stage::Samples;
        self.begin_round(now);
    }

    /// Once in a round trip, marks cut the window by half of their average share.
    fn cut(&mut self, w: &mut Window, nxt: Seq) {
        if self.is_cut {
            return;
        }
        (self.is_cut, self.cut_until) = (true, nxt);
        let cut = u64::from(w.cwnd) * u64::from(self.alpha) / u64::from(2 * ONE);
        w.cut_to(w.cwnd - cut as u32);
    }

    /// Additive increase for `acked` bytes that were not marked: one segment for a window.
    fn grow(&mut self, w: &mut Window, acked: u32) {
        let sum = u64::from(acked) * u64::from(w.mss()) + u64::from(self.rest);
        let window = u64::from(w.cwnd);
        self.rest = (sum % window) as u32;
        w.cwnd = (window + sum / window).min(u64::from(MAX_CWND)) as u32;
    }

    /// Its part of a record ([`crate::export`]), under the numbers that CUBIC has of its own: which
    /// of them it is, is among the options of the connection.
    pub(super) fn fields(&mut self, from: u16, f: &mut impl Fields) {
        let Prague { alpha, delivered, marked, since, rest, cut_until, is_cut, stage } = self;
        let now = ticks(f.now());
        let mut age = now.wrapping_sub(*since);
        f.u32(from + 2, rest);
        let from = from + 20;
        f.u32(from, alpha);
        f.u32(from + 1, delivered);
        f.u32(from + 2, marked);
        f.u32(from + 4, &mut age);
        f.seq(from + 5, cut_until);
        f.bool(from + 6, is_cut);
        const STAGES: [Stage; 4] = [Stage::Unmarked, Stage::Drains, Stage::Samples, Stage::Follows];
        f.choice(from + 3, stage, &STAGES);
        *since = now.wrapping_sub(age);
        *alpha = (*alpha).min(ONE);
    }
}

impl Algorithm for Prague {
    fn on_ack(&mut self, w: &mut Window, ack: &AckInfo, rtt: &Rtt) {
        self.on_measured_ack(w, ack, rtt, Measured::default());
    }

    fn on_event(&mut self, w: &mut Window, event: &Event) {
        if event.ends_growth() {
            self.rest = 0;
        }
        // What was lost has overflowed a queue that does not mark.
        reno::answer(w, event);
    }

    fn advice(&self) -> Advice {
        Advice::BY_WINDOW
    }
}

fn ticks(now: Instant) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

#[cfg(test)]
mod tests;
