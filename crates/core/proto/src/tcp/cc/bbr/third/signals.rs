//! What losses and marks say of how much may be in flight (5.5.10).

use clearway_base::Rng;

use super::{NO_RATE, NONE, Third, percent_of};
use crate::tcp::cc::bbr::model::{Mode, min_pipe};
use crate::tcp::cc::bbr::values::{Input, percent};
use crate::tcp::cc::window::{MAX_CWND, Window};
use crate::tcp::delivery::RateSample;

/// BBR.LossThresh and BBR.Beta, in hundredths.
const LOSS_THRESH: u64 = 2;
const BETA: u64 = 70;
/// BBR.StartupFullLossCnt: so many losses in a round trip end startup.
pub(super) const FULL_LOSS_COUNT: u8 = 6;
/// Segments lost in one flight that mean nothing.
const LOST_BY_CHANCE: u32 = FULL_LOSS_COUNT as u32 - 1;
/// A round trip with so large a share of marks, in 1024ths, was one too many in flight.
const ECN_THRESH: u32 = 512;

impl Third {
    pub(super) fn update_latest_delivery_signals(&mut self, i: &Input) {
        self.loss_round_start = false;
        self.bw_latest = self.bw_latest.max(i.sample.rate);
        self.inflight_latest = self.inflight_latest.max(i.sample.delivered);
        if i.sample.prior_delivered.is_some_and(|before| before >= self.loss_round_delivered) {
            self.loss_round_delivered = i.delivered;
            self.loss_round_start = true;
        }
    }

    pub(super) fn reset_congestion_signals(&mut self) {
        self.is_loss_in_round = false;
        (self.losses_in_round, self.lost_in_round) = (0, 0);
        (self.bw_latest, self.inflight_latest) = (0, 0);
    }

    pub(super) fn update_congestion_signals(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        self.model.update_round(i);
        self.rounds_since_probe_up += u64::from(self.model.round_start);
        let rate = i.sample.rate;
        if rate > 0 && (rate >= self.max_bw.get() || !i.sample.is_app_limited) {
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
        } else if marks >= ECN_THRESH && self.model.mode == Mode::Startup {
            self.model.full_bw_reached = true;
            self.inflight_longterm = self.safe_inflight(w);
        }
        self.is_loss_in_round = false;
        self.lost_in_round = 0;
    }

    fn init_lower_bounds(&mut self, w: &Window) {
        if self.bw_shortterm == NO_RATE {
            self.bw_shortterm = self.max_bw.get();
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
            if !self.model.in_recovery {
                self.save_bounds();
                self.model.save_cwnd(w);
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
            let target = self.model.bdp(w, self.model.bw, 100).min(w.cwnd);
            self.inflight_longterm = tx_in_flight.max(percent_of(target, BETA)).max(min_pipe(w));
        }
        if self.model.mode == Mode::Up {
            self.undo_mode = Some(Mode::Up);
            self.start_down(i.now, i.delivered, rng);
        }
    }

    pub(super) fn reset_shortterm(&mut self) {
        (self.bw_shortterm, self.inflight_shortterm) = (NO_RATE, NONE);
    }

    /// The bound that losses in startup leave: what surely fits.
    pub(super) fn safe_inflight(&self, w: &Window) -> u32 {
        let latest = self.inflight_latest.min(u64::from(MAX_CWND)) as u32;
        self.model.bdp(w, self.max_bw.get(), 100).max(latest).max(min_pipe(w))
    }
}

/// IsInflightTooHigh. What is lost by chance, one segment in a hundred, is in many a flight more
/// than LossThresh, and the draft would give up a part of the path for that. Here it takes as many
/// losses as it asks for in Startup (StartupFullLossCnt), and more than LossThresh by the standard
/// deviation of a chance of LossThresh, which is the square root of their number.
pub(crate) fn is_too_high(lost: u64, in_flight: u32, mss: u32, has_sack: bool) -> bool {
    let mss = u64::from(mss);
    let share = u64::from(in_flight) * LOSS_THRESH / 100;
    // The root in bytes: of `share / mss` segments, times `mss`.
    let least = share + (share * mss).isqrt();
    lost > least.max(u64::from(LOST_BY_CHANCE) * mss) || (lost > 0 && !has_sack)
}
