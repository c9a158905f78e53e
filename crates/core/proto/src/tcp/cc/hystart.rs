//! HyStart++ (RFC 9406): the first slow start ends before something is lost, when the shortest round
//! trip of a round has become longer than that of the round before.
//!
//! ```text
//!   cwnd │                    ╭── congestion avoidance
//!        │              _,-‾‾‾   CSS: a quarter of the growth, for five rounds; shorter round trips
//!        │            ╱          again, and slow start goes on
//!        │          ╱
//!        │       ╱   slow start
//!        └────────────────────────▶ time
//! ```
//!
//! It is told of round trips by the ACKs of the first slow start, and lives in the place of the
//! algorithm's own state, which begins when slow start is over.

use clearway_base::Duration;
use clearway_wire::Seq;

use super::window::{MAX_CWND, Window};
use crate::export::Fields;
use crate::tcp::ack_info::AckInfo;

/// MIN_RTT_THRESH and MAX_RTT_THRESH (RFC 9406 4.3).
const MIN_RTT_THRESH_US: u32 = 4_000;
const MAX_RTT_THRESH_US: u32 = 16_000;
/// MIN_RTT_DIVISOR.
const MIN_RTT_DIVISOR: u32 = 8;
/// N_RTT_SAMPLE.
const N_RTT_SAMPLE: u8 = 8;
/// CSS_GROWTH_DIVISOR.
const CSS_GROWTH_DIVISOR: u32 = 4;
/// CSS_ROUNDS.
const CSS_ROUNDS: u8 = 5;

/// Segments: a smaller window does not bring N_RTT_SAMPLE samples in a round where one ACK answers
/// two segments.
pub(super) const LOW_WINDOW: u32 = 2 * N_RTT_SAMPLE as u32;

/// A round trip that is not known: what the RFC calls infinity.
const NONE: u32 = u32::MAX;

/// What is remembered of the rounds of the first slow start. Round trips are in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct HyStart {
    /// lastRoundMinRTT.
    last_min_us: u32,
    /// currentRoundMinRTT.
    this_min_us: u32,
    /// cssBaselineMinRtt; [`NONE`] in slow start.
    baseline_us: u32,
    /// windowEnd: the round is over when this is acknowledged.
    window_end: Seq,
    /// rttSampleCount.
    samples: u8,
    /// Rounds of CSS that are over.
    css_rounds: u8,
}

impl HyStart {
    /// The first round begins, with all up to `nxt` sent.
    pub(super) fn at(nxt: Seq) -> HyStart {
        HyStart {
            last_min_us: NONE,
            this_min_us: NONE,
            baseline_us: NONE,
            window_end: nxt,
            samples: 0,
            css_rounds: 0,
        }
    }

    /// Conservative slow start.
    fn is_in_css(&self) -> bool {
        self.baseline_us != NONE
    }

    /// An ACK of new data, while the window was in use (RFC 9406 4.2). True: slow start is over.
    pub(super) fn on_ack(&mut self, w: &mut Window, ack: &AckInfo) -> bool {
        let divisor = if self.is_in_css() { CSS_GROWTH_DIVISOR } else { 1 };
        w.cwnd = (w.cwnd + w.counted(ack.credit) / divisor).min(MAX_CWND);
        if let Some(rtt) = ack.rtt_sample.or(ack.echoed) {
            let us = u32::try_from(rtt.as_nanos() / 1_000).unwrap_or(NONE);
            self.this_min_us = self.this_min_us.min(us);
            self.samples = self.samples.saturating_add(1);
            self.judge(ack.clock_step);
        }
        let is_over = ack.una.ge(self.window_end) && self.end_round(ack.nxt);
        if is_over {
            w.ssthresh = w.cwnd;
        }
        is_over
    }

    /// Whether round trips have become longer, or what seemed so is over.
    fn judge(&mut self, clock_step: Duration) {
        if self.samples < N_RTT_SAMPLE || self.this_min_us == NONE {
            return;
        }
        if self.is_in_css() {
            if self.this_min_us < self.baseline_us {
                (self.baseline_us, self.css_rounds) = (NONE, 0);
            }
        } else if self.last_min_us != NONE {
            // Each of both is wrong by a step of the clock at most: that is no delay.
            let error = u32::try_from(clock_step.times(2).as_nanos() / 1_000).unwrap_or(NONE);
            let threshold = (self.last_min_us / MIN_RTT_DIVISOR)
                .clamp(MIN_RTT_THRESH_US, MAX_RTT_THRESH_US)
                .max(error);
            if self.this_min_us >= self.last_min_us.saturating_add(threshold) {
                self.baseline_us = self.this_min_us;
            }
        }
    }

    /// The next round begins. True: CSS has lasted long enough.
    fn end_round(&mut self, nxt: Seq) -> bool {
        self.last_min_us = self.this_min_us;
        (self.this_min_us, self.samples, self.window_end) = (NONE, 0, nxt);
        self.css_rounds += u8::from(self.is_in_css());
        self.css_rounds >= CSS_ROUNDS
    }

    /// Its part of a record ([`crate::export`]), if there is one.
    pub(super) fn field(start: &mut Option<HyStart>, tag: u16, f: &mut impl Fields) {
        let mut is_there = start.is_some();
        f.bool(tag, &mut is_there);
        if !is_there {
            *start = None;
            return;
        }
        let HyStart { last_min_us, this_min_us, baseline_us, window_end, samples, css_rounds } =
            start.get_or_insert(HyStart::at(Seq(0)));
        f.u32(tag + 1, last_min_us);
        f.u32(tag + 2, this_min_us);
        f.u32(tag + 3, baseline_us);
        f.seq(tag + 4, window_end);
        f.u8(tag + 5, samples);
        f.u8(tag + 6, css_rounds);
        *css_rounds = (*css_rounds).min(CSS_ROUNDS);
    }
}

#[cfg(test)]
mod tests;
