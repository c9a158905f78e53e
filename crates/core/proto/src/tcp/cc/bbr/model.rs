//! How the model of the path follows what ACKs say (draft-ietf-ccwg-bbr-06 5.3 and 5.5).

use clearway_base::{Duration, Instant, Rng};

use super::*;

impl Bbr {
    // ---- 5.5.1: round trips

    fn start_round(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    pub(super) fn update_round(&mut self, i: &Input) {
        self.round_start =
            i.sample.prior_delivered.is_some_and(|before| before >= self.next_round_delivered);
        if self.round_start {
            self.start_round(i.delivered);
            self.round_count += 1;
            self.rounds_since_probe_up += 1;
        }
    }

    // ---- 5.5.10: signs of congestion

    pub(super) fn update_latest_delivery_signals(&mut self, i: &Input) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(i.sample.rate);
        self.inflight_latest = self.inflight_latest.max(i.sample.delivered);
        if i.sample.prior_delivered.is_some_and(|before| before >= self.loss_round_delivered) {
            self.loss_round_delivered = i.delivered;
            self.loss_round_start = true;
        }
    }

    fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        (self.losses_in_round, self.lost_in_round) = (0, 0);
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    pub(super) fn update_congestion_signals(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        self.update_round(i);
        let rate = i.sample.rate;
        if rate > 0 && (rate >= self.max_bw.max() || !i.sample.is_app_limited) {
            self.max_bw.take(rate);
        }
        self.marked_in_round += u64::from(i.marked);
        if !self.loss_round_start {
            return;
        }
        let marks = self.share_of_marks(i);
        if !self.is_probing() {
            let in_flight = self.inflight_latest.min(u64::from(MAX_CWND)) as u32;
            // What a path loses by chance in each round trip would else take a share of the rate in
            // each of them.
            let has_lost_much = self.is_loss_in_round
                && is_too_high(self.lost_in_round, in_flight.max(i.in_flight), w.mss(), i.has_sack);
            if has_lost_much || marks > 0 {
                self.init_lower_bounds(w);
            }
            if has_lost_much {
                self.bw_shortterm = self.bw_latest.max(percent(self.bw_shortterm, BETA));
                let least = percent_of(self.inflight_shortterm, BETA);
                self.inflight_shortterm =
                    self.inflight_latest.min(u64::from(MAX_CWND)).max(u64::from(least)) as u32;
            }
            if marks > 0 {
                self.give_way_to_marks();
            }
        } else if marks >= ECN_THRESH && self.is_probe_sample {
            self.inflight_too_high(w, i, i.sample.tx_in_flight, rng);
        } else if marks >= ECN_THRESH && self.mode == Mode::Startup {
            self.full_bw_reached = true;
            self.inflight_longterm = self.safe_inflight(w);
        }
        self.is_loss_in_round = false;
        self.lost_in_round = 0;
    }

    fn init_lower_bounds(&mut self, w: &Window) {
        if self.bw_shortterm == NO_RATE {
            self.bw_shortterm = self.max_bw.max();
        }
        if self.inflight_shortterm == NONE {
            self.inflight_shortterm = w.cwnd;
        }
    }

    /// A round trip has ended: the share of what was marked in it, in 1024ths. The average follows
    /// by a sixteenth, as in DCTCP (RFC 8257 3.3).
    fn share_of_marks(&mut self, i: &Input) -> u32 {
        let all = (i.delivered - self.delivered_before_round.min(i.delivered)).max(1);
        let share = (self.marked_in_round * 1024 / all).min(1024) as u32;
        (self.marked_in_round, self.delivered_before_round) = (0, i.delivered);
        self.ecn_alpha = (self.ecn_alpha * 15 + share) / 16;
        if share > 0 && self.ecn_alpha == 0 {
            self.ecn_alpha = 1;
        }
        share
    }

    /// A third of the average share of marks is what the volume is cut by.
    fn give_way_to_marks(&mut self) {
        let cut = u64::from(self.inflight_shortterm) * u64::from(self.ecn_alpha) / (3 * 1024);
        self.inflight_shortterm = (u64::from(self.inflight_shortterm) - cut) as u32;
    }

    pub(super) fn note_loss(&mut self, w: &Window, delivered: u64) {
        if !self.is_loss_in_round {
            self.loss_round_delivered = delivered;
            self.losses_in_round = 0;
            if !self.in_recovery {
                self.save_state_upon_loss(w);
            }
        }
        self.is_loss_in_round = true;
    }

    /// HandleLostPacket: the lost left with, or before, the oldest marker in flight.
    pub(super) fn on_lost(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        self.note_loss(w, i.delivered);
        self.losses_in_round = self.losses_in_round.saturating_add(1);
        self.lost_in_round = self.lost_in_round.saturating_add(i.sample.newly_lost);
        let Some((tx_in_flight, lost, is_app_limited)) = i.oldest.filter(|_| self.is_probe_sample)
        else {
            return;
        };
        let lost = lost.max(i.sample.newly_lost);
        if !is_too_high(lost, tx_in_flight, w.mss(), i.has_sack) {
            return;
        }
        // InflightAtLoss.
        let size = i.sample.newly_lost;
        let before = u64::from(tx_in_flight).saturating_sub(size);
        let prefix = (before * LOSS_THRESH).saturating_sub((lost - size.min(lost)) * 100)
            / (100 - LOSS_THRESH);
        let at_loss = (before + prefix).min(u64::from(MAX_CWND)) as u32;
        let sample = RateSample { is_app_limited, ..i.sample };
        self.inflight_too_high(w, &Input { sample, ..*i }, at_loss, rng);
    }

    fn inflight_too_high(&mut self, w: &mut Window, i: &Input, tx_in_flight: u32, rng: &mut Rng) {
        self.prev_probe_too_high = true;
        self.is_probe_sample = false;
        if !i.sample.is_app_limited {
            let target = self.bdp(w, self.bw, 100).min(w.cwnd);
            self.inflight_longterm =
                tx_in_flight.max(percent_of(target, BETA)).max(MIN_PIPE * w.mss());
        }
        if self.mode == Mode::Up {
            self.undo_mode = Some(Mode::Up);
            self.start_down(i.now, i.delivered, rng);
        }
    }

    fn reset_shortterm(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (NO_RATE, NONE);
    }

    // ---- 5.5.9: ACKs that come in bunches

    pub(super) fn update_ack_aggregation(&mut self, w: &Window, i: &Input) {
        if !i.sample.is_first {
            // What ACKs bring within a step of a coarse clock has no time of its own.
            self.extra_acked_delivered += u64::from(i.sample.newly_acked);
            return;
        }
        let expected = |bw: u64, since: Instant| {
            (u128::from(bw) * u128::from(i.now.since(since).as_nanos()) / 1_000_000_000)
                .min(u128::from(u64::MAX)) as u64
        };
        let mut due = expected(self.bw, self.extra_acked_since);
        if self.extra_acked_delivered <= due {
            (self.extra_acked_delivered, self.extra_acked_since, due) = (0, i.now, 0);
        }
        self.extra_acked_delivered += u64::from(i.sample.newly_acked);
        let extra = (self.extra_acked_delivered - due.min(self.extra_acked_delivered))
            .min(u64::from(w.cwnd)) as u32;
        let slot = if self.full_bw_reached { EXTRA_ACKED_ROUNDS } else { 1 };
        if self.round_count.wrapping_sub(self.extra_acked_round) >= slot {
            self.extra_acked_round = self.round_count;
            self.extra_acked.advance();
        }
        self.extra_acked.take(extra);
    }

    // ---- 5.3.1 and 5.3.2: startup and drain

    pub(super) fn reset_full_bw(&mut self) {
        (self.full_bw, self.full_bw_count, self.full_bw_now) = (0, 0, false);
    }

    pub(super) fn check_full_bw_reached(&mut self, i: &Input, rate: u64) {
        if self.full_bw_now || !self.round_start || i.sample.is_app_limited || rate == 0 {
            return;
        }
        if rate >= percent(self.full_bw, 125) {
            self.reset_full_bw();
            self.full_bw = rate;
            return;
        }
        self.full_bw_count += 1;
        self.full_bw_now = self.full_bw_count >= FULL_BW_ROUNDS;
        self.full_bw_reached |= self.full_bw_now;
    }

    /// The bound that losses in startup leave: what surely fits.
    fn safe_inflight(&self, w: &Window) -> u32 {
        let latest = self.inflight_latest.min(u64::from(MAX_CWND)) as u32;
        self.bdp(w, self.max_bw.max(), 100).max(latest).max(MIN_PIPE * w.mss())
    }

    pub(super) fn check_startup_done(&mut self, w: &Window, i: &Input) {
        if self.mode == Mode::Startup && !self.full_bw_reached {
            let has_lost_much = match i.has_sack {
                true => {
                    self.losses_in_round >= FULL_LOSS_COUNT
                        && self.loss_round_start
                        && self.round_count > self.recovery_round
                        && is_too_high(i.sample.lost, i.sample.tx_in_flight, w.mss(), true)
                }
                false => i.sample.newly_lost > 0,
            };
            if i.in_recovery && has_lost_much {
                self.undo_mode = Some(Mode::Startup);
                self.full_bw_reached = true;
                self.inflight_longterm = self.safe_inflight(w);
            }
        }
        if self.loss_round_start {
            self.losses_in_round = 0;
        }
        if self.mode == Mode::Startup && self.full_bw_reached {
            self.mode = Mode::Drain;
            (self.pacing_gain, self.cwnd_gain) = (DRAIN_PACING_GAIN, CWND_GAIN);
            self.drain_start_round = self.round_count;
        }
    }

    pub(super) fn enter_startup(&mut self) {
        self.mode = Mode::Startup;
        (self.pacing_gain, self.cwnd_gain) = (STARTUP_PACING_GAIN, CWND_GAIN);
    }

    pub(super) fn check_drain_done(&mut self, w: &Window, i: &Input, rng: &mut Rng) {
        let bw = self.max_bw.max().min(self.bw_shortterm);
        let is_done = || {
            i.in_flight <= self.target(w, bw, 100)
                || self.round_count > self.drain_start_round + DRAIN_ROUNDS
        };
        if self.mode == Mode::Drain && is_done() {
            self.start_down(i.now, i.delivered, rng);
        }
    }

    // ---- 5.3.3: ProbeBW

    pub(super) fn is_in_probe_bw(&self) -> bool {
        matches!(self.mode, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }

    fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::Refill | Mode::Up)
    }

    pub(super) fn go(&mut self, mode: Mode, pacing_gain: u32, cwnd_gain: u32) {
        self.mode = mode;
        (self.pacing_gain, self.cwnd_gain) = (pacing_gain, cwnd_gain);
    }

    fn start_down(&mut self, now: Instant, delivered: u64, rng: &mut Rng) {
        self.reset_congestion_signals();
        self.probe_up_acked_per_inc = NONE;
        self.rounds_since_probe_up = rng.between(0, 1);
        self.probe_wait = Duration::from_micros(2_000_000 + rng.between(0, 1_000_000));
        self.cycle_at = now;
        self.ack_phase = AckPhase::Stopping;
        self.start_round(delivered);
        self.go(Mode::Down, DOWN_PACING_GAIN, CWND_GAIN);
    }

    pub(super) fn start_cruise(&mut self) {
        self.go(Mode::Cruise, 100, CWND_GAIN);
    }

    pub(super) fn start_refill(&mut self, delivered: u64) {
        self.reset_shortterm();
        (self.probe_up_rounds, self.probe_up_acked) = (0, 0);
        self.prev_probe_precautionary = false;
        self.ack_phase = AckPhase::Refilling;
        self.start_round(delivered);
        self.go(Mode::Refill, 100, CWND_GAIN);
    }

    fn start_up(&mut self, w: &Window, i: &Input) {
        self.ack_phase = AckPhase::Starting;
        self.start_round(i.delivered);
        self.reset_full_bw();
        self.full_bw = i.sample.rate;
        self.go(Mode::Up, UP_PACING_GAIN, UP_CWND_GAIN);
        self.raise_slope(w);
    }

    pub(super) fn update_probe_bw_cycle(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        if !self.full_bw_reached || self.adapt_longterm(w, i) {
            return;
        }
        if self.mode == Mode::Up && self.is_time_to_go_down(w, i) {
            self.prev_probe_too_high = false;
            return self.start_down(i.now, i.delivered, rng);
        }
        match self.mode {
            Mode::Down if self.is_time_to_probe(w, i) => self.start_refill(i.delivered),
            Mode::Down if self.is_time_to_cruise(w, i) => self.start_cruise(),
            Mode::Cruise if self.is_time_to_probe(w, i) => self.start_refill(i.delivered),
            Mode::Refill if self.round_start => {
                self.is_probe_sample = true;
                self.start_up(w, i);
            }
            _ => {}
        }
    }

    fn is_time_to_probe(&self, w: &Window, i: &Input) -> bool {
        let in_flight = self.bdp(w, self.bw, 100).min(w.cwnd);
        let reno_rounds = u64::from(in_flight / w.mss()).min(RENO_ROUNDS);
        i.now > self.cycle_at + self.probe_wait || self.rounds_since_probe_up >= reno_rounds
    }

    fn is_time_to_cruise(&self, w: &Window, i: &Input) -> bool {
        i.in_flight <= self.inflight_with_headroom(w)
            && i.in_flight <= self.target(w, self.max_bw.max(), 100)
    }

    fn is_time_to_go_down(&mut self, w: &Window, i: &Input) -> bool {
        if self.prev_probe_too_high && i.in_flight >= self.inflight_longterm {
            self.prev_probe_precautionary = true;
            return true;
        }
        if w.full && w.cwnd >= self.inflight_longterm {
            self.reset_full_bw();
            self.full_bw = i.sample.rate;
            return false;
        }
        self.full_bw_now
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
        if self.round_start {
            self.raise_slope(w);
        }
    }

    /// AdaptLongTermModel. True: it has decided where to go.
    fn adapt_longterm(&mut self, w: &mut Window, i: &Input) -> bool {
        if self.ack_phase == AckPhase::Starting && self.round_start {
            self.ack_phase = AckPhase::Feedback;
        }
        if self.ack_phase == AckPhase::Stopping && self.round_start {
            self.is_probe_sample = false;
            self.ack_phase = AckPhase::Init;
            if self.is_in_probe_bw() && !i.sample.is_app_limited {
                self.max_bw.advance();
            }
            if self.is_in_probe_bw() && self.prev_probe_precautionary && !self.prev_probe_too_high {
                self.start_refill(i.delivered);
                return true;
            }
        }
        let is_safe = i.sample.prior_delivered.is_some()
            && !is_too_high(i.sample.lost, i.sample.tx_in_flight, w.mss(), i.has_sack);
        if is_safe && self.inflight_longterm != NONE {
            self.inflight_longterm = self.inflight_longterm.max(i.sample.tx_in_flight);
            if self.mode == Mode::Up {
                self.probe_inflight_upward(w, i);
            }
        }
        false
    }

    // ---- 5.3.4: ProbeRTT

    pub(super) fn update_min_rtt(&mut self, i: &Input) {
        self.probe_rtt_expired = i.now > self.probe_rtt_min_at + self.probe_rtt_interval();
        if let Some(rtt) = i.sample.rtt {
            if self.probe_rtt_expired || self.probe_rtt_min.is_none_or(|least| rtt < least) {
                (self.probe_rtt_min, self.probe_rtt_min_at) = (Some(rtt), i.now);
            }
        }
        let is_old = i.now > self.min_rtt_at + MIN_RTT_FILTER;
        if let Some(rtt) = self.probe_rtt_min {
            if is_old || self.min_rtt.is_none_or(|least| rtt < least) {
                (self.min_rtt, self.min_rtt_at) = (Some(rtt), self.probe_rtt_min_at);
            }
        }
    }

    pub(super) fn check_probe_rtt(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        if self.mode != Mode::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(w);
            self.go(Mode::ProbeRtt, 100, PROBE_RTT_CWND_GAIN);
            self.probe_rtt_done_at = None;
            self.ack_phase = AckPhase::Stopping;
            self.start_round(i.delivered);
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_done_at.is_none() && i.in_flight <= self.probe_rtt_cwnd(w) {
                self.probe_rtt_done_at = Some(i.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.start_round(i.delivered);
            } else if self.probe_rtt_done_at.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done {
                    self.check_probe_rtt_done(w, i.now, rng, i.delivered);
                }
            }
        }
        if i.sample.newly_acked > 0 {
            self.idle_restart = false;
        }
    }

    pub(super) fn check_probe_rtt_done(
        &mut self,
        w: &mut Window,
        now: Instant,
        rng: &mut Rng,
        delivered: u64,
    ) {
        if self.probe_rtt_done_at.is_none_or(|at| now <= at) {
            return;
        }
        self.probe_rtt_min_at = now;
        self.restore_cwnd(w);
        self.reset_shortterm();
        if self.full_bw_reached && self.first.is_some() {
            self.begin_cycle(now, rng);
        } else if self.full_bw_reached {
            self.start_down(now, delivered, rng);
            self.start_cruise();
        } else {
            self.enter_startup();
        }
    }
}

/// IsInflightTooHigh. What is lost by chance, one segment in a hundred, is in many a flight more
/// than LossThresh, and the draft would give up a part of the path for that. Here it takes as many
/// losses as it asks for in Startup (StartupFullLossCnt), and more than LossThresh by the standard
/// deviation of a chance of LossThresh, which is the square root of their number.
pub(super) fn is_too_high(lost: u64, in_flight: u32, mss: u32, has_sack: bool) -> bool {
    let mss = u64::from(mss);
    let share = u64::from(in_flight) * LOSS_THRESH / 100;
    // The root in bytes: of `share / mss` segments, times `mss`.
    let least = share + (share * mss).isqrt();
    lost > least.max(u64::from(LOST_BY_CHANCE) * mss) || (lost > 0 && !has_sack)
}

/// Segments lost in one flight that mean nothing.
const LOST_BY_CHANCE: u32 = FULL_LOSS_COUNT as u32 - 1;

/// A round trip with so large a share of marks, in 1024ths, was one too many in flight.
const ECN_THRESH: u32 = 512;
