//! CUBIC (RFC 9438): after a loss the window comes back along a cubic curve whose flat middle lies
//! where the loss was.
//!
//! ```text
//!   cwnd │                                 ╱ convex: looking for more
//!  W_max │┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄___________┄┄┄┄┄╱┄
//!        │          _,-‾‾     │     ‾‾
//!        │      ,-‾  concave  │
//!        │    /               │
//!        └───┴────────────────┴──────────────▶ t      W_cubic(t) = C (t - K)^3 + W_max
//!            0                K
//! ```
//!
//! There are no floating-point numbers: windows are bytes, times are milliseconds, and C = 0.4
//! segments per second cubed is a fraction.

use clearway_base::{Duration, Instant};

use super::algorithm::{Advice, Algorithm, Event};
use super::window::{MAX_CWND, Window};
use crate::export::Fields;
use crate::tcp::ack_info::AckInfo;
use crate::tcp::rtt::Rtt;

/// log2 of the nanoseconds in one tick of the epoch's clock: about a millisecond, so that 32 bits
/// reach 52 days.
const TICK_SHIFT: u32 = 20;

/// Distances from the curve's middle beyond this many milliseconds (17 minutes) change nothing: the
/// window's bound is long reached.
const FARTHEST_MS: i64 = 1 << 20;

/// CUBIC's state beyond the window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Cubic {
    /// Acknowledged bytes that wait until they are worth a segment's growth of W_est.
    credit: u32,
    /// W_max in bytes: where the curve is flat.
    w_max: u32,
    /// cwnd_prior in bytes: the window before the last loss.
    prior: u32,
    /// W_est in bytes: what Reno would have (4.3).
    w_est: u32,
    /// K in milliseconds: when the curve reaches W_max.
    k_ms: u32,
    /// Start of the current stretch of congestion avoidance, in ticks.
    epoch: u32,
    /// What the last division by the window left over, so that growth below one byte per ACK is not
    /// lost.
    rest: u32,
    /// Bytes of the window's next segment that are earned.
    earned: u16,
    /// Whether a stretch of congestion avoidance is under way.
    running: bool,
}

impl Cubic {
    pub(super) fn new() -> Cubic {
        Cubic {
            credit: 0,
            w_max: 0,
            prior: 0,
            w_est: 0,
            k_ms: 0,
            epoch: 0,
            rest: 0,
            earned: 0,
            running: false,
        }
    }

    /// One ACK in congestion avoidance (4.2–4.5).
    fn avoid(&mut self, w: &mut Window, acked: u32, now: Instant, srtt: Duration) {
        if !self.running {
            self.begin(w, now);
        }
        let t_ms = i64::from(ticks(now).wrapping_sub(self.epoch)) * (1 << TICK_SHIFT) / 1_000_000;
        self.estimate(w, acked);
        if cubic_at(self.w_max, t_ms - i64::from(self.k_ms), w.mss) < self.w_est {
            // 4.3: Reno would do better here, as on short and slow paths.
            w.cwnd = w.cwnd.max(self.w_est);
        } else {
            let rtt_ms = i64::try_from(srtt.as_millis()).unwrap_or(FARTHEST_MS).min(FARTHEST_MS);
            let past_k_ms = t_ms + rtt_ms - i64::from(self.k_ms);
            let at_end_of_round = cubic_at(self.w_max, past_k_ms, w.mss);
            // Less than a segment is never in flight. Up to W_max the curve is therefore followed
            // to the next whole one, as Linux does (4.4 leaves it open): a window of two segments
            // would take three times as long to the third.
            let target = if past_k_ms < 0 {
                at_end_of_round.next_multiple_of(w.mss())
            } else {
                at_end_of_round
            };
            // 4.2: at most half a window more in one round trip.
            let target = target.clamp(w.cwnd, w.cwnd + w.cwnd / 2);
            let sum = u64::from(acked) * u64::from(target - w.cwnd) + u64::from(self.rest);
            self.rest = (sum % u64::from(w.cwnd)) as u32;
            self.earn(w, (sum / u64::from(w.cwnd)) as u32);
        }
        w.cwnd = w.cwnd.min(MAX_CWND);
    }

    /// The window grows once a whole segment is earned. Growing by parts of one would bring it
    /// closer to the target each time, and so slow itself down.
    fn earn(&mut self, w: &mut Window, bytes: u32) {
        let earned = u32::from(self.earned) + bytes;
        let rest = earned % w.mss();
        self.earned = rest as u16;
        w.cwnd += earned - rest;
    }

    /// A stretch of congestion avoidance begins at the present window: the curve is laid so that it
    /// passes through it now.
    fn begin(&mut self, w: &mut Window, now: Instant) {
        self.running = true;
        self.epoch = ticks(now);
        self.rest = 0;
        self.earned = 0;
        self.credit = 0;
        self.w_est = w.cwnd;
        if w.cwnd < self.w_max {
            self.k_ms = k_ms(self.w_max - w.cwnd, w.mss);
        } else {
            // 4.8 and 4.10: nothing is known of a window above, so the curve starts in its flat
            // middle.
            self.w_max = w.cwnd;
            self.k_ms = 0;
        }
    }

    /// W_est grows as Reno would, with the smaller step that makes up for cutting less on loss
    /// (4.3, equation 4).
    fn estimate(&mut self, w: &mut Window, acked: u32) {
        // alpha = 3 (1 - beta) / (1 + beta) = 9/17 for beta = 0.7, and 1 from the old window on.
        let worth =
            if self.w_est < self.prior { u64::from(acked) * 9 / 17 } else { u64::from(acked) };
        self.credit = self.credit.saturating_add(worth as u32);
        if self.credit >= w.cwnd {
            self.credit -= w.cwnd;
            self.w_est = self.w_est.saturating_add(w.mss());
        }
    }

    /// Growth stops for a while. When it goes on, the curve is laid through the window that is
    /// there then.
    pub(super) fn pause(&mut self) {
        self.running = false;
    }

    /// Where the loss was (4.6), or below it when the window had not come back there: another flow
    /// wants room (fast convergence, 4.7).
    fn remember(&mut self, w: &Window) {
        let cwnd = w.cwnd;
        self.w_max = if cwnd < self.w_max { (u64::from(cwnd) * 17 / 20) as u32 } else { cwnd };
        self.prior = cwnd;
        self.running = false;
    }
}

impl Algorithm for Cubic {
    fn on_ack(&mut self, w: &mut Window, ack: &AckInfo, rtt: &Rtt) {
        if !ack.cwnd_limited {
            // RFC 9438 5.8: time without congestion control being what limits must not let the
            // curve run on.
            self.pause();
            return;
        }
        let mut acked = ack.credit;
        if w.in_slow_start() {
            self.running = false;
            acked = w.slow_start(acked);
        }
        if acked > 0 && !w.in_slow_start() {
            self.avoid(w, acked.min(w.cwnd), ack.now, rtt.srtt().unwrap_or(Duration::ZERO));
        }
    }

    fn on_event(&mut self, w: &mut Window, event: &Event) {
        if event.ends_growth() {
            self.credit = 0;
        }
        match *event {
            Event::Loss { flight } => {
                self.remember(w);
                w.cut_to(seven_tenths(flight));
            }
            // RFC 8511 3.1, with the factor that it names for CUBIC: a mark comes from a short
            // queue.
            Event::Marked { flight } => {
                self.remember(w);
                w.cut_finely_to((u64::from(flight) * 17 / 20) as u32);
            }
            Event::Timeout { flight, again } => {
                if !again {
                    self.remember(w);
                    w.cut(seven_tenths(flight));
                }
                // 4.8: the first congestion avoidance after a timeout has K = 0 and begins flat.
                self.w_max = 0;
                self.running = false;
                w.collapse();
            }
            // A shorter gap is what every burst leaves whose ACKs are digested together before
            // anything is sent; starting the stretch anew in each would keep a small window small
            // for ever.
            Event::Idle { idle, rto } if idle > rto => self.pause(),
            Event::Recovered { .. } | Event::Undone | Event::Idle { .. } => {}
        }
    }

    fn advice(&self) -> Advice {
        Advice::BY_WINDOW
    }
}

/// beta = 0.7 (4.6).
fn seven_tenths(bytes: u32) -> u32 {
    (u64::from(bytes) * 7 / 10) as u32
}

fn ticks(now: Instant) -> u32 {
    (now.as_nanos() >> TICK_SHIFT) as u32
}

/// W_cubic in bytes, `d_ms` milliseconds past the middle of the curve (before it when negative):
/// `w_max` + 0.4 segments · d³ (equation 1).
fn cubic_at(w_max: u32, d_ms: i64, mss: u16) -> u32 {
    let d = d_ms.unsigned_abs().min(FARTHEST_MS as u64);
    let cube = d * d * d;
    // 0.4 · (d / 1000)³ · mss. Below 2^15 ms the whole product fits before it is divided; beyond,
    // what is cut off first is next to nothing.
    let rise = if d < 1 << 15 {
        cube * 4 * u64::from(mss) / 10_000_000_000
    } else {
        cube / 1_000_000 * 4 * u64::from(mss) / 10_000
    };
    let rise = u32::try_from(rise).unwrap_or(u32::MAX);
    if d_ms < 0 { w_max.saturating_sub(rise) } else { w_max.saturating_add(rise).min(2 * MAX_CWND) }
}

/// K in milliseconds for a curve that lies `below` bytes under W_max now: cube root of `below` /
/// (0.4 segments) (equation 2).
fn k_ms(below: u32, mss: u16) -> u32 {
    // (below / (0.4 mss)) s³ = below · 2.5 · 10⁹ / mss ms³
    cube_root(u64::from(below).saturating_mul(2_500_000_000) / u64::from(mss.max(1)))
}

/// The largest integer whose cube is at most `n`; found bit by bit, because it is wanted only once
/// after each loss.
fn cube_root(n: u64) -> u32 {
    let mut root = 0u128;
    for bit in (0..22).rev() {
        let candidate = root | 1 << bit;
        if candidate * candidate * candidate <= u128::from(n) {
            root = candidate;
        }
    }
    root as u32
}

impl Cubic {
    /// Its part of a record ([`crate::export`]).
    pub(super) fn fields(&mut self, from: u16, f: &mut impl Fields) {
        let Cubic { credit, w_max, prior, w_est, k_ms, epoch, rest, earned, running } = self;
        f.u32(from + 2, credit);
        let from = from + 20;
        let now = ticks(f.now());
        let mut age = now.wrapping_sub(*epoch);
        f.u32(from, w_max);
        f.u32(from + 1, prior);
        f.u32(from + 2, w_est);
        f.u32(from + 3, k_ms);
        f.u32(from + 4, &mut age);
        f.u32(from + 5, rest);
        f.bool(from + 6, running);
        f.u16(from + 7, earned);
        *epoch = now.wrapping_sub(age);
        for window in [w_max, prior, w_est] {
            *window = (*window).min(MAX_CWND);
        }
    }
}

#[cfg(test)]
mod tests;
