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

mod classic;

pub(crate) use classic::ClassicQueue;

/// One, in the unit of [`Prague::alpha`].
const ONE: u32 = 1 << 20;

/// g of RFC 8257 3.3: the average follows by a sixteenth.
const GAIN_SHIFT: u32 = 4;

/// The virtual round trip of the draft's 2.4.4: over shorter ones the rate of who sends for long
/// grows and is cut as over this one, lest who is near takes all from who is far.
const VIRTUAL_RTT: Duration = Duration::from_millis(25);

/// Round trips behind slow start after which that begins: until then it is more important to find
/// one's share soon.
const TRANSITION: u16 = 500;

/// A round trip that is not known yet, and the shortest that is believed.
const UNKNOWN_RTT: Duration = VIRTUAL_RTT;
const SHORTEST_RTT: Duration = Duration::from_micros(100);

/// Data leaves at the window over the round trip, in hundredths: faster in slow start, whose window
/// doubles in a round trip, and a little faster afterwards, so that the window is what limits.
const START_PACING_GAIN: u32 = 200;
const PACING_GAIN: u32 = 110;

/// log2 of the nanoseconds in a tick: about a microsecond.
const TICK_SHIFT: u32 = 10;

/// A virtual round trip in ticks.
const VIRTUAL_TICKS: u32 = (VIRTUAL_RTT.as_nanos() >> TICK_SHIFT) as u32;

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

/// How long marks cut the window no further.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Cut {
    /// The next mark cuts.
    None,
    /// Until what was in flight is acknowledged.
    InFlight,
    /// Until a time, in ticks: a virtual round trip.
    Virtual,
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
    /// How far a mark is answered as by a classic algorithm ([`ClassicQueue::part`]).
    pub classic: u32,
}

/// The round trip that an ACK ends, and how far the queue in it is a classic one.
#[derive(Clone, Copy)]
struct Trip {
    time: Duration,
    classic: u32,
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
    /// The window was cut, and is cut no further before this.
    cut_until: Seq,
    cut: Cut,
    /// Round trips behind the first average, [`TRANSITION`] at most.
    rounds: u16,
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
        cut: Cut::None,
        rounds: 0,
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
        let time = rtt.srtt().unwrap_or(UNKNOWN_RTT).max(SHORTEST_RTT);
        let round_trip = Trip { time, classic: measured.classic };
        if measured.is_held {
            self.average(ack, marked, round_trip);
            return;
        }
        if self.is_cut_over(ack) {
            self.cut = Cut::None;
            if self.stage == Stage::Drains {
                self.refill(w, ack.now);
            }
        }
        match self.stage {
            Stage::Unmarked if marked > 0 => {
                self.stage = Stage::Drains;
                self.cut(w, ack, round_trip);
            }
            Stage::Drains => {
                let least = rtt.min().unwrap_or_default().as_nanos();
                let bytes = u128::from(measured.rate) * u128::from(least) / 1_000_000_000;
                let carried = u32::try_from(bytes).unwrap_or(u32::MAX);
                self.delivered = self.delivered.max(carried);
            }
            Stage::Follows if marked > 0 => self.cut(w, ack, round_trip),
            Stage::Unmarked | Stage::Samples | Stage::Follows => {}
        }
        if self.average(ack, marked, round_trip) {
            self.cut(w, ack, round_trip);
        }
        let unmarked = ack.credit.saturating_sub(marked);
        if ack.acked > 0 && ack.cwnd_limited && unmarked > 0 {
            let left = if w.in_slow_start() { w.slow_start(unmarked) } else { unmarked };
            if left > 0 && !w.in_slow_start() {
                self.grow(w, left, round_trip);
            }
        }
    }

    /// The share of marks of a round trip is taken into the average when it is over. The first
    /// share is the average: that begins at one, and would take half of the window a second time.
    /// True: this is it, and cuts the window.
    fn average(&mut self, ack: &AckInfo, marked: u32, trip: Trip) -> bool {
        if !matches!(self.stage, Stage::Samples | Stage::Follows) {
            return false;
        }
        self.delivered = self.delivered.saturating_add(ack.delivered);
        self.marked = self.marked.saturating_add(marked);
        let round = if self.is_virtual(trip) { trip.time.max(VIRTUAL_RTT) } else { trip.time };
        if self.is_within(self.since, ack.now, round) || self.delivered == 0 {
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
        self.rounds = (self.rounds + 1).min(TRANSITION);
        is_first
    }

    /// Whether a round trip that is shorter than the virtual one counts as that. Nothing is shared
    /// by marks where none have come for so long that the average is nothing, and in a classic queue
    /// others grow by the round trip that there is.
    fn is_virtual(&self, trip: Trip) -> bool {
        let is_shared = self.alpha > 0 && trip.classic < classic::ONE / 2;
        self.stage == Stage::Follows && self.rounds >= TRANSITION && is_shared
    }

    /// Whether less than `time` has passed since some ticks.
    fn is_within(&self, since: u32, now: Instant, time: Duration) -> bool {
        u64::from(ticks(now).wrapping_sub(since)) < time.as_nanos() >> TICK_SHIFT
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

    /// Whether marks may cut the window again.
    fn is_cut_over(&self, ack: &AckInfo) -> bool {
        match self.cut {
            Cut::None => false,
            Cut::InFlight => ack.una.ge(self.cut_until),
            // What is left is no longer than it was; else it is long over.
            Cut::Virtual => !(1..=VIRTUAL_TICKS).contains(&left(self.cut_until, ack.now)),
        }
    }

    /// Once in a round trip, real or virtual, marks cut the window by half of their average share;
    /// in a classic queue by as much as with Reno, if that is more.
    fn cut(&mut self, w: &mut Window, ack: &AckInfo, trip: Trip) {
        if self.cut != Cut::None {
            return;
        }
        (self.cut, self.cut_until) = if self.is_virtual(trip) && trip.time < VIRTUAL_RTT {
            (Cut::Virtual, Seq(ticks(ack.now).wrapping_add(VIRTUAL_TICKS)))
        } else {
            (Cut::InFlight, ack.nxt)
        };
        let window = u64::from(w.cwnd);
        let by_share = window * u64::from(self.alpha) / u64::from(2 * ONE);
        let as_reno = window - u64::from(reno::marked(w.cwnd));
        let as_classic = as_reno * u64::from(trip.classic) / u64::from(classic::ONE);
        w.cut_finely_to((window - by_share.max(as_classic)) as u32);
    }

    /// Additive increase for `acked` bytes that were not marked: one segment for a window. Where a
    /// round trip counts as the virtual one, by the square of its part of that: then the rate rises
    /// by as much in the same time.
    fn grow(&mut self, w: &mut Window, acked: u32, trip: Trip) {
        let full = u64::from(acked) * u64::from(w.mss());
        let part = match self.is_virtual(trip) {
            true => (trip.time.min(VIRTUAL_RTT).as_nanos() << 16) / VIRTUAL_RTT.as_nanos(),
            false => 1 << 16,
        };
        let scaled = (u128::from(full) * u128::from(part * part)) >> 32;
        let sum = scaled as u64 + u64::from(self.rest);
        let window = u64::from(w.cwnd);
        self.rest = (sum % window) as u32;
        w.cwnd = (window + sum / window).min(u64::from(MAX_CWND)) as u32;
    }

    /// Whether what waits in the queue is of no slow start of ours.
    pub(crate) fn is_settled(&self) -> bool {
        self.stage == Stage::Follows
    }

    /// Its part of a record ([`crate::export`]), under the numbers that CUBIC has of its own: which
    /// of them it is, is among the options of the connection.
    pub(super) fn fields(&mut self, from: u16, f: &mut impl Fields) {
        let Prague { alpha, delivered, marked, since, rest, cut_until, cut, rounds, stage } = self;
        let now = ticks(f.now());
        let mut age = now.wrapping_sub(*since);
        let mut is_cut = *cut == Cut::InFlight;
        // Ticks are of this stack's clock; what is left of them is not.
        let mut cut_left = if *cut == Cut::Virtual { left(*cut_until, f.now()) } else { 0 };
        f.u32(from + 2, rest);
        let from = from + 20;
        f.u32(from, alpha);
        f.u32(from + 1, delivered);
        f.u32(from + 2, marked);
        f.u32(from + 4, &mut age);
        f.seq(from + 5, cut_until);
        f.bool(from + 6, &mut is_cut);
        f.u32(from + 7, &mut cut_left);
        f.u16(from + 8, rounds);
        const STAGES: [Stage; 4] = [Stage::Unmarked, Stage::Drains, Stage::Samples, Stage::Follows];
        f.choice(from + 3, stage, &STAGES);
        *since = now.wrapping_sub(age);
        *cut = if is_cut { Cut::InFlight } else { Cut::None };
        if (1..=VIRTUAL_TICKS).contains(&cut_left) {
            (*cut, *cut_until) = (Cut::Virtual, Seq(now.wrapping_add(cut_left)));
        }
        *rounds = (*rounds).min(TRANSITION);
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

/// Ticks that are left until a time.
fn left(until: Seq, now: Instant) -> u32 {
    until.0.wrapping_sub(ticks(now))
}

fn ticks(now: Instant) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

#[cfg(test)]
mod tests;
