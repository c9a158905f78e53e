//! Where it goes, and when: out of startup, through draining, and around ProbeBW (5.3).

use clearway_base::{Duration, Instant, Rng};

use super::signals::{FULL_LOSS_COUNT, is_too_high};
use super::{AckPhase, NONE, Third};
use crate::tcp::cc::bbr::model::{CWND_GAIN, Mode};
use crate::tcp::cc::bbr::values::Input;
use crate::tcp::cc::window::{MAX_CWND, Window};

/// Gains, in hundredths.
const DRAIN_PACING_GAIN: u32 = 50;
const DOWN_PACING_GAIN: u32 = 90;
const UP_PACING_GAIN: u32 = 125;
const UP_CWND_GAIN: u32 = 225;

/// Round trips after which draining ends whatever is in flight.
const DRAIN_ROUNDS: u64 = 3;
/// Round trips after which BBR probes as Reno would.
const RENO_ROUNDS: u64 = 63;

impl Third {
    pub(super) fn check_startup_done(&mut self, w: &Window, i: &Input) {
        if self.model.mode == Mode::Startup && !self.model.full_bw_reached {
            let has_lost_much = match i.has_sack {
                true => {
                    self.losses_in_round >= FULL_LOSS_COUNT
                        && self.loss_round_start
                        && self.model.round_count > self.recovery_round
                        && is_too_high(i.sample.lost, i.sample.tx_in_flight, w.mss(), true)
                }
                false => i.sample.newly_lost > 0,
            };
            if i.in_recovery && has_lost_much {
                self.undo_mode = Some(Mode::Startup);
                self.model.full_bw_reached = true;
                self.inflight_longterm = self.safe_inflight(w);
            }
        }
        if self.loss_round_start {
            self.losses_in_round = 0;
        }
        if self.model.mode == Mode::Startup && self.model.full_bw_reached {
            self.model.go(Mode::Drain, DRAIN_PACING_GAIN, CWND_GAIN);
            self.drain_start_round = self.model.round_count;
        }
    }

    pub(super) fn check_drain_done(&mut self, w: &Window, i: &Input, rng: &mut Rng) {
        let bw = self.max_bw.get().min(self.bw_shortterm);
        let is_done = || {
            i.in_flight <= self.target(w, bw, 100)
                || self.model.round_count > self.drain_start_round + DRAIN_ROUNDS
        };
        if self.model.mode == Mode::Drain && is_done() {
            self.start_down(i.now, i.delivered, rng);
        }
    }

    pub(super) fn is_probing(&self) -> bool {
        matches!(self.model.mode, Mode::Startup | Mode::Refill | Mode::Up)
    }

    pub(super) fn start_down(&mut self, now: Instant, delivered: u64, rng: &mut Rng) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = NONE;
        self.rounds_since_probe_up = rng.between(0, 1);
        self.probe_wait = Duration::from_micros(2_000_000 + rng.between(0, 1_000_000));
        self.model.cycle_at = now;
        self.ack_phase = AckPhase::Stopping;
        self.model.start_round(delivered);
        self.model.go(Mode::Down, DOWN_PACING_GAIN, CWND_GAIN);
    }

    pub(super) fn start_refill(&mut self, delivered: u64) {
        self.reset_shortterm();
        (self.probe_up_rounds, self.probe_up_acked) = (0, 0);
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.model.start_round(delivered);
        self.model.go(Mode::Refill, 100, CWND_GAIN);
    }

    fn start_up(&mut self, w: &Window, i: &Input) {
        self.ack_phase = AckPhase::Starting;
        self.model.start_round(i.delivered);
        self.model.reset_full_bw();
        self.model.full_bw = i.sample.rate;
        self.model.go(Mode::Up, UP_PACING_GAIN, UP_CWND_GAIN);
        self.raise_slope(w);
    }

    pub(super) fn update_probe_bw_cycle(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        if !self.model.full_bw_reached || self.adapt_longterm(w, i) {
            return;
        }
        if self.model.mode == Mode::Up && self.is_time_to_go_down(w, i) {
            self.prev_probe_too_high = false;
            return self.start_down(i.now, i.delivered, rng);
        }
        match self.model.mode {
            Mode::Down if self.is_time_to_probe(w, i) => self.start_refill(i.delivered),
            Mode::Down if self.is_time_to_cruise(w, i) => self.model.start_cruise(),
            Mode::Cruise if self.is_time_to_probe(w, i) => self.start_refill(i.delivered),
            Mode::Refill if self.model.round_start => {
                self.is_probe_sample = true;
                self.start_up(w, i);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, w: &Window, i: &Input) -> bool {
        let in_flight = self.model.bdp(w, self.model.bw, 100).min(w.cwnd);
        let reno_rounds = u64::from(in_flight / w.mss()).min(RENO_ROUNDS);
        i.now > self.model.cycle_at + self.probe_wait || self.rounds_since_probe_up >= reno_rounds
    }

    fn is_time_to_cruise(&self, w: &Window, i: &Input) -> bool {
        i.in_flight <= self.inflight_with_headroom(w)
            && i.in_flight <= self.target(w, self.max_bw.get(), 100)
    }

    fn is_time_to_go_down(&mut self, w: &Window, i: &Input) -> bool {
        if self.prev_probe_too_high && i.in_flight >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if w.full && w.cwnd >= self.inflight_longterm {
            self.model.reset_full_bw();
            self.model.full_bw = i.sample.rate;
            return false;
        }
        self.model.full_bw_now
    }

    fn raise_slope(&mut self, w: &Window) {
        let growth = 1u32 << self.probe_up_rounds;
        self.probe_up_rounds = (self.probe_up_rounds + 1).min(30);
        self.probe_up_acked_per_inc = (w.cwnd / growth).max(w.mss());
    }

    fn probe_inflight_upward(&mut self, w: &Window, i: &Input) {
        if !w.full || w.cwnd < self.inflight_longterm {
            return;
        }
        self.probe_up_acked = self.probe_up_acked.saturating_add(i.sample.newly_acked);
        if self.probe_up_acked >= self.probe_up_acked_per_inc {
            let delta = self.probe_up_acked / self.probe_up_acked_per_inc.max(1);
            self.probe_up_acked -= delta * self.probe_up_acked_per_inc;
            let more = delta.saturating_mul(w.mss());
            self.inflight_longterm = self.inflight_longterm.saturating_add(more).min(MAX_CWND);
        }
        if self.model.round_start {
            self.raise_slope(w);
        }
    }

    /// AdaptLongTermModel. True: it has decided where to go.
    fn adapt_longterm(&mut self, w: &mut Window, i: &Input) -> bool {
        if self.ack_phase == AckPhase::Starting && self.model.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.model.round_start {
            self.is_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.model.is_in_probe_bw() && !i.sample.is_app_limited {
                self.max_bw.advance();
            }
            if self.model.is_in_probe_bw()
                && self.prev_probe_precautionary
                && !self.prev_probe_too_high
            {
                self.start_refill(i.delivered);
                return true;
            }
        }
        let is_safe = i.sample.prior_delivered.is_some()
            && !is_too_high(i.sample.lost, i.sample.tx_in_flight, w.mss(), i.has_sack);
        if is_safe && self.inflight_longterm != NONE {
            self.inflight_longterm = self.inflight_longterm.max(i.sample.tx_in_flight);
            if self.model.mode == Mode::Up {
                self.probe_inflight_upward(w, i);
            }
        }
        false
    }

    /// 5.3.4.3: the round trip was looked at.
    pub(super) fn leave_probe_rtt(&mut self, now: Instant, rng: &mut Rng, delivered: u64) {
        self.reset_shortterm();
        if self.model.full_bw_reached {
            self.start_down(now, delivered, rng);
            self.model.start_cruise();
        } else {
            self.model.enter_startup();
        }
    }
}
