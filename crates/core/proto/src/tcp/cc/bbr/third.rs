//! BBRv3 (draft-ietf-ccwg-bbr-06): what it makes of losses and marks ([`signals`]), where it goes
//! ([`phases`]), and the window that follows. Numbers of sections and names are those of the draft.
//!
//! ```text
//!   rate │   ╱╲ startup: doubles until the rate no longer grows
//!        │  ╱  ╲           ╭╮ up              ╭╮
//!     bw │┄╱┄┄┄┄╲┄┄┄┄┄┄┄┄┄┄╯│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄╯│┄┄┄
//!        │╱      ╲─── cruise╰─╯ down, cruise  ╰─╯
//!        └──────drain───────────────────────────────────▶ time
//! ```

use clearway_base::{Duration, Instant, Rng};

use super::highest::Highest;
use super::model::{Look, Mode, Model, PROBE_RTT_CWND_GAIN, min_pipe};
use super::values::{Input, Known, percent};
use crate::tcp::cc::window::{MAX_CWND, Window};

mod phases;
pub(super) mod signals;

/// No bound: what the draft calls Infinity.
const NONE: u32 = u32::MAX;
const NO_RATE: u64 = u64::MAX;

/// BBR.Headroom, in hundredths.
const HEADROOM: u64 = 15;
/// BBR.ProbeRTTInterval.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);

/// What the ACKs that arrive say of the last probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Third {
    pub(super) model: Model,
    ack_phase: AckPhase,
    // ---- rates
    max_bw: Highest<u64, 2>,
    bw_shortterm: u64,
    bw_latest: u64,
    // ---- volumes
    inflight_longterm: u32,
    inflight_shortterm: u32,
    inflight_latest: u64,
    // ---- signs of congestion
    loss_round_delivered: u64,
    loss_round_start: bool,
    is_loss_in_round: bool,
    losses_in_round: u8,
    lost_in_round: u64,
    recovery_round: u64,
    /// Bytes marked, and all that were delivered, in this round trip; and the average share of
    /// marks, in 1024ths.
    marked_in_round: u64,
    delivered_before_round: u64,
    ecn_alpha: u32,
    // ---- draining and probing
    drain_start_round: u64,
    probe_wait: Duration,
    rounds_since_probe_up: u64,
    probe_up_rounds: u8,
    probe_up_acked: u32,
    probe_up_acked_per_inc: u32,
    is_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    // ---- what a loss that was none gives back
    undo_mode: Option<Mode>,
    undo_bw_shortterm: u64,
    undo_inflight_shortterm: u32,
    undo_inflight_longterm: u32,
}

/// `hundredths` of a volume.
fn percent_of(bytes: u32, hundredths: u64) -> u32 {
    percent(u64::from(bytes), hundredths).min(u64::from(MAX_CWND)) as u32
}

impl Third {
    pub(super) fn new(model: Model, delivered: u64) -> Third {
        Third {
            model,
            ack_phase: AckPhase::Init,
            max_bw: Highest::new(),
            bw_shortterm: NO_RATE,
            bw_latest: 0,
            inflight_longterm: NONE,
            inflight_shortterm: NONE,
            inflight_latest: 0,
            loss_round_delivered: delivered,
            loss_round_start: false,
            is_loss_in_round: false,
            losses_in_round: 0,
            lost_in_round: 0,
            recovery_round: 0,
            marked_in_round: 0,
            delivered_before_round: delivered,
            ecn_alpha: 0,
            drain_start_round: 0,
            probe_wait: Duration::ZERO,
            rounds_since_probe_up: 0,
            probe_up_rounds: 0,
            probe_up_acked: 0,
            probe_up_acked_per_inc: NONE,
            is_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            undo_mode: None,
            undo_bw_shortterm: NO_RATE,
            undo_inflight_shortterm: NONE,
            undo_inflight_longterm: NONE,
        }
    }

    pub(super) fn known(&self) -> Known {
        self.model.known(self.max_bw.get())
    }

    pub(super) fn resume(&mut self, w: &Window, known: Known, now: Instant) {
        self.max_bw.take(known.bw);
        if known.full_bw_reached {
            self.probe_wait = Duration::from_secs(2);
        }
        self.model.resume(w, known, now);
    }

    /// 5.2.3: every ACK.
    pub(super) fn on_ack(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        self.model.follow_recovery(w, i.in_recovery);
        if i.sample.newly_lost > 0 {
            self.on_lost(w, i, rng);
        }
        self.update_latest_delivery_signals(i);
        self.update_congestion_signals(w, i, rng);
        self.model.update_ack_aggregation(w, i);
        self.model.check_full_bw_reached(i, i.sample.rate);
        self.check_startup_done(w, i);
        self.check_drain_done(w, i, rng);
        self.update_probe_bw_cycle(w, i, rng);
        self.model.update_min_rtt(i, PROBE_RTT_INTERVAL);
        match self.model.check_probe_rtt(w, i, self.probe_rtt_cwnd(w)) {
            Look::Same => {}
            Look::Begins => self.ack_phase = AckPhase::Stopping,
            Look::Over => self.leave_probe_rtt(i.now, rng, i.delivered),
        }
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (i.sample.rate, i.sample.delivered);
        }
        self.model.bw = self.max_bw.get().min(self.bw_shortterm);
        self.model.set_pace(w);
        self.set_cwnd(w, i);
    }

    pub(super) fn on_restart(
        &mut self,
        w: &mut Window,
        now: Instant,
        rng: &mut Rng,
        delivered: u64,
    ) {
        if self.model.on_restart(w, now) {
            self.leave_probe_rtt(now, rng, delivered);
        }
    }

    /// 5.6.4.4: fast recovery begins, or the timer ran out.
    pub(super) fn on_trouble(&mut self, w: &mut Window, timeout: bool) {
        self.save_bounds();
        self.model.on_trouble(w, timeout);
        self.recovery_round = self.model.round_count;
    }

    /// 5.5.11.1, but for the window.
    fn save_bounds(&mut self) {
        self.undo_mode = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    /// 5.5.11.2: a recovery that was not needed.
    pub(super) fn on_undone(&mut self, w: &mut Window, delivered: u64) {
        self.model.on_undone(w);
        self.is_loss_in_round = false;
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        let mode = self.model.mode;
        match self.undo_mode.take() {
            Some(Mode::Startup) if mode != Mode::Startup => {
                self.model.full_bw_reached = false;
                if mode != Mode::ProbeRtt {
                    self.model.enter_startup();
                }
            }
            Some(Mode::Up) if mode != Mode::Up && mode != Mode::ProbeRtt => {
                self.start_refill(delivered);
            }
            _ => {}
        }
    }

    /// A mark is told in the way of RFC 3168: as a loss in this round trip, and it stands for all
    /// that the round trip may have lost.
    pub(super) fn on_marked(&mut self, w: &Window, delivered: u64) {
        self.note_loss(w, delivered);
        self.lost_in_round = u64::from(MAX_CWND);
    }

    // ---- 5.6.4: the window

    fn quantization_budget(&self, w: &Window, cap: u32) -> u32 {
        let budget = cap.max(3 * self.model.quantum).max(min_pipe(w));
        if self.model.mode == Mode::Up { budget.saturating_add(2 * w.mss()) } else { budget }
    }

    /// Inflight().
    fn target(&self, w: &Window, bw: u64, gain: u32) -> u32 {
        self.quantization_budget(w, self.model.bdp(w, bw, gain))
    }

    /// 5.6.4.6.
    fn set_cwnd(&mut self, w: &mut Window, i: &Input) {
        let model = &self.model;
        let cap = model.bdp(w, model.bw, model.cwnd_gain).saturating_add(model.extra_acked.get());
        model.grow_cwnd(w, i, self.quantization_budget(w, cap));
        if model.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(self.probe_rtt_cwnd(w));
        }
        // BoundCwndForModel.
        let long = match model.mode {
            Mode::ProbeRtt | Mode::Cruise => self.inflight_with_headroom(w),
            Mode::Startup => NONE,
            _ => self.inflight_longterm,
        };
        let cap = long.min(self.inflight_shortterm).max(min_pipe(w));
        w.cwnd = w.cwnd.min(cap).min(MAX_CWND);
    }

    fn probe_rtt_cwnd(&self, w: &Window) -> u32 {
        self.model.bdp(w, self.model.bw, PROBE_RTT_CWND_GAIN).max(min_pipe(w))
    }

    fn inflight_with_headroom(&self, w: &Window) -> u32 {
        if self.inflight_longterm == NONE {
            return NONE;
        }
        let headroom = percent_of(self.inflight_longterm, HEADROOM).max(w.mss());
        self.inflight_longterm.saturating_sub(headroom).max(min_pipe(w))
    }
}
