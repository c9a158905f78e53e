//! BBRv3 (draft-ietf-ccwg-bbr-06): a model of the path, made of the rate at which data arrives and
//! of the shortest round trip, says how fast data leaves and how much is in flight. A loss is one
//! sign among others, so that a path that loses a little is still filled.
//!
//! ```text
//!   rate │   ╱╲ startup: doubles until the rate no longer grows
//!        │  ╱  ╲           ╭╮ up              ╭╮
//!     bw │┄╱┄┄┄┄╲┄┄┄┄┄┄┄┄┄┄╯│┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄┄╯│┄┄┄
//!        │╱      ╲─── cruise╰─╯ down, cruise  ╰─╯
//!        └──────drain───────────────────────────────────▶ time
//! ```
//!
//! The first version ([`Congestion::Bbr1`], `first.rs`) has the same model of rate and round trip,
//! and takes no loss and no mark for a sign.
//!
//! The names are those of the draft. There are no floating-point numbers: rates are bytes in a
//! second, gains are hundredths.

use clearway_base::{Duration, Instant, Rng};

use super::window::{MAX_CWND, Window};
use crate::config::Congestion;
use crate::export::Fields;
use crate::tcp::api::BbrInfo;
use crate::tcp::delivery::RateSample;
use first_state::First;

mod first;
mod first_state;
mod model;

/// No bound: what the draft calls Infinity.
const NONE: u32 = u32::MAX;
const NO_RATE: u64 = u64::MAX;

/// Gains, in hundredths.
const STARTUP_PACING_GAIN: u32 = 277;
const DRAIN_PACING_GAIN: u32 = 50;
const DOWN_PACING_GAIN: u32 = 90;
const UP_PACING_GAIN: u32 = 125;
const CWND_GAIN: u32 = 200;
const UP_CWND_GAIN: u32 = 225;
const PROBE_RTT_CWND_GAIN: u32 = 50;

/// BBR.PacingMarginPercent: so much below the rate, lest a queue builds up.
const PACING_MARGIN: u32 = 1;
/// BBR.LossThresh, BBR.Beta and BBR.Headroom, in hundredths.
const LOSS_THRESH: u64 = 2;
const BETA: u64 = 70;
const HEADROOM: u64 = 15;
/// BBR.StartupFullLossCnt: so many losses in a round trip end startup.
const FULL_LOSS_COUNT: u8 = 6;
/// BBR.MinPipeCwnd, in segments.
const MIN_PIPE: u32 = 4;
/// BBR.ProbeRTTInterval, BBR.ProbeRTTDuration and BBR.MinRTTFilterLen.
const PROBE_RTT_INTERVAL: Duration = Duration::from_secs(5);
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// Round trips that the rate may stand still before the pipe counts as full.
const FULL_BW_ROUNDS: u8 = 3;
/// Round trips after which draining ends whatever is in flight.
const DRAIN_ROUNDS: u64 = 3;
/// Round trips after which BBR probes as Reno would.
const RENO_ROUNDS: u64 = 63;
/// BBR.ExtraAckedFilterLen in round trips, halved: there are two slots.
const EXTRA_ACKED_ROUNDS: u64 = 5;

/// Where the state machine is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mode {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

/// What the ACKs that arrive say of the last probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum AckPhase {
    Init,
    Refilling,
    Starting,
    Feedback,
    Stopping,
}

/// What an ACK, and the connection, say at one moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Input {
    pub now: Instant,
    pub sample: RateSample,
    /// Bytes delivered in all.
    pub delivered: u64,
    /// Bytes in the network (the pipe of RFC 6675).
    pub in_flight: u32,
    /// Of the oldest marker: what was in flight when it left, what was lost since, and whether the
    /// owner limited it.
    pub oldest: Option<(u32, u64, bool)>,
    /// Bytes newly said to be marked "congestion experienced".
    pub marked: u32,
    /// In fast recovery, or after a timeout.
    pub in_recovery: bool,
    /// SACK is in use.
    pub has_sack: bool,
}

/// What goes with a connection to another stack, which goes on from there.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Known {
    /// Bytes in a second; 0: nothing is known.
    bw: u64,
    min_rtt: Duration,
    full_bw_reached: bool,
}

impl Known {
    /// Its part of a record ([`crate::export`]).
    pub(crate) fn fields(&mut self, f: &mut impl Fields) {
        f.u64(630, &mut self.bw);
        f.duration(631, &mut self.min_rtt);
        f.bool(632, &mut self.full_bw_reached);
    }
}

/// A maximum over the last two slots of time.
#[derive(Clone, Copy, Default, Debug)]
struct TwoSlots<T> {
    last: T,
    this: T,
}

impl<T: Copy + Ord + Default> TwoSlots<T> {
    fn max(&self) -> T {
        self.last.max(self.this)
    }

    fn take(&mut self, value: T) {
        self.this = self.this.max(value);
    }

    fn advance(&mut self) {
        *self = TwoSlots { last: self.this, this: T::default() };
    }
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Bbr {
    mode: Mode,
    ack_phase: AckPhase,
    pacing_gain: u32,
    cwnd_gain: u32,
    // ---- what leaves
    pacing_rate: u64,
    quantum: u32,
    // ---- the model: rates
    bw: u64,
    max_bw: TwoSlots<u64>,
    bw_shortterm: u64,
    bw_latest: u64,
    full_bw: u64,
    full_bw_count: u8,
    full_bw_now: bool,
    full_bw_reached: bool,
    // ---- the model: the round trip
    min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    probe_rtt_min: Option<Duration>,
    probe_rtt_min_at: Instant,
    probe_rtt_expired: bool,
    probe_rtt_done_at: Option<Instant>,
    probe_rtt_round_done: bool,
    // ---- the model: volumes
    inflight_longterm: u32,
    inflight_shortterm: u32,
    inflight_latest: u64,
    extra_acked: TwoSlots<u32>,
    extra_acked_since: Instant,
    extra_acked_delivered: u64,
    extra_acked_round: u64,
    prior_cwnd: u32,
    // ---- round trips, counted in what is delivered
    round_count: u64,
    next_round_delivered: u64,
    round_start: bool,
    drain_start_round: u64,
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
    // ---- probing
    cycle_at: Instant,
    probe_wait: Duration,
    rounds_since_probe_up: u64,
    probe_up_rounds: u8,
    probe_up_acked: u32,
    probe_up_acked_per_inc: u32,
    is_probe_sample: bool,
    prev_probe_too_high: bool,
    prev_probe_precautionary: bool,
    idle_restart: bool,
    in_recovery: bool,
    /// Of the first version: what it keeps beside all that. None: it is the third.
    first: Option<First>,
    // ---- what a loss that was none gives back
    undo_mode: Option<Mode>,
    undo_bw_shortterm: u64,
    undo_inflight_shortterm: u32,
    undo_inflight_longterm: u32,
}

/// `value` · `hundredths` / 100.
fn percent(value: u64, hundredths: u64) -> u64 {
    (u128::from(value) * u128::from(hundredths) / 100).min(u128::from(u64::MAX)) as u64
}

/// The same, for volumes.
fn percent_of(bytes: u32, hundredths: u64) -> u32 {
    percent(u64::from(bytes), hundredths).min(u64::from(MAX_CWND)) as u32
}

impl Bbr {
    /// For a connection with this window, whose round trips take `srtt` as far as is known.
    pub(crate) fn new(
        kind: Congestion,
        w: &Window,
        now: Instant,
        srtt: Option<Duration>,
        delivered: u64,
    ) -> Bbr {
        let rtt = srtt.unwrap_or(Duration::from_millis(1)).max(Duration::from_micros(1));
        let nominal = u128::from(w.cwnd) * 1_000_000_000 / u128::from(rtt.as_nanos());
        let mut bbr = Bbr {
            mode: Mode::Startup,
            ack_phase: AckPhase::Init,
            pacing_gain: STARTUP_PACING_GAIN,
            cwnd_gain: CWND_GAIN,
            pacing_rate: percent(nominal as u64, u64::from(STARTUP_PACING_GAIN)),
            quantum: 0,
            bw: 0,
            max_bw: TwoSlots::default(),
            bw_shortterm: NO_RATE,
            bw_latest: 0,
            full_bw: 0,
            full_bw_count: 0,
            full_bw_now: false,
            full_bw_reached: false,
            min_rtt: srtt,
            min_rtt_at: now,
            probe_rtt_min: srtt,
            probe_rtt_min_at: now,
            probe_rtt_expired: false,
            probe_rtt_done_at: None,
            probe_rtt_round_done: false,
            inflight_longterm: NONE,
            inflight_shortterm: NONE,
            inflight_latest: 0,
            extra_acked: TwoSlots::default(),
            extra_acked_since: now,
            extra_acked_delivered: 0,
            extra_acked_round: 0,
            prior_cwnd: 0,
            round_count: 0,
            next_round_delivered: delivered,
            round_start: false,
            drain_start_round: 0,
            loss_round_delivered: delivered,
            loss_round_start: false,
            is_loss_in_round: false,
            losses_in_round: 0,
            lost_in_round: 0,
            recovery_round: 0,
            marked_in_round: 0,
            delivered_before_round: delivered,
            ecn_alpha: 0,
            cycle_at: now,
            probe_wait: Duration::ZERO,
            rounds_since_probe_up: 0,
            probe_up_rounds: 0,
            probe_up_acked: 0,
            probe_up_acked_per_inc: NONE,
            is_probe_sample: false,
            prev_probe_too_high: false,
            prev_probe_precautionary: false,
            idle_restart: false,
            in_recovery: false,
            first: (kind == Congestion::Bbr1).then_some(First::NEW),
            undo_mode: None,
            undo_bw_shortterm: NO_RATE,
            undo_inflight_shortterm: NONE,
            undo_inflight_longterm: NONE,
        };
        bbr.set_send_quantum(w);
        bbr
    }

    /// Which version it is.
    pub(crate) fn kind(&self) -> Congestion {
        if self.first.is_some() { Congestion::Bbr1 } else { Congestion::Bbr }
    }

    /// Bytes in a second at which data leaves.
    pub(crate) fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// What it tells of itself.
    pub(crate) fn info(&self) -> BbrInfo {
        let min_rtt = self.min_rtt.unwrap_or_default();
        BbrInfo { bw: self.bw, min_rtt, pacing_gain: self.pacing_gain, cwnd_gain: self.cwnd_gain }
    }

    /// What another stack has to know.
    pub(crate) fn known(&self) -> Known {
        let min_rtt = self.min_rtt.unwrap_or_default();
        Known { bw: self.max_bw.max(), min_rtt, full_bw_reached: self.full_bw_reached }
    }

    /// Goes on from what another stack has known.
    pub(crate) fn resume(&mut self, w: &Window, known: Known, now: Instant) {
        self.max_bw.take(known.bw);
        self.bw = known.bw;
        self.min_rtt = Some(known.min_rtt).filter(|rtt| *rtt > Duration::ZERO);
        self.probe_rtt_min = self.min_rtt;
        if known.full_bw_reached {
            self.full_bw_reached = true;
            self.cycle_at = now;
            self.probe_wait = Duration::from_secs(2);
            self.start_cruise();
            if let Some(first) = &mut self.first {
                *first = First::knows(known.bw);
            }
        }
        self.set_pacing_rate(w, self.pacing_gain);
        self.set_send_quantum(w);
    }

    /// Less is in flight than the path would take, to see how long a round trip is: what is
    /// measured meanwhile says nothing of rates.
    pub(crate) fn holds_back(&self) -> bool {
        self.mode == Mode::ProbeRtt
    }

    /// Where it is.
    #[cfg(test)]
    pub(crate) fn mode(&self) -> Mode {
        self.mode
    }

    /// 5.2.3: every ACK.
    pub(crate) fn on_ack(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        if self.first.is_some() {
            return self.on_ack_by_first(w, i, rng);
        }
        self.follow_recovery(w, i);
        if i.sample.newly_lost > 0 {
            self.on_lost(w, i, rng);
        }
        self.update_latest_delivery_signals(i);
        self.update_congestion_signals(w, i, rng);
        self.update_ack_aggregation(w, i);
        self.check_full_bw_reached(i, i.sample.rate);
        self.check_startup_done(w, i);
        self.check_drain_done(w, i, rng);
        self.update_probe_bw_cycle(w, i, rng);
        self.update_min_rtt(i);
        self.check_probe_rtt(w, i, rng);
        if self.loss_round_start {
            (self.bw_latest, self.inflight_latest) = (i.sample.rate, i.sample.delivered);
        }
        self.bw = self.max_bw.max().min(self.bw_shortterm);
        self.set_pacing_rate(w, self.pacing_gain);
        self.set_send_quantum(w);
        self.set_cwnd(w, i);
    }

    /// 5.4: about to send with nothing in flight. `limited`: the owner had too little to send.
    pub(crate) fn on_restart(
        &mut self,
        w: &mut Window,
        limited: bool,
        now: Instant,
        rng: &mut Rng,
        delivered: u64,
    ) {
        if !limited {
            return;
        }
        self.idle_restart = true;
        self.extra_acked_since = now;
        if self.is_in_probe_bw() {
            self.set_pacing_rate(w, 100);
        } else if self.mode == Mode::ProbeRtt {
            self.check_probe_rtt_done(w, now, rng, delivered);
        }
    }

    /// 5.6.4.4: fast recovery begins, or the timer ran out.
    pub(crate) fn on_trouble(&mut self, w: &mut Window, timeout: bool) {
        self.save_state_upon_loss(w);
        self.in_recovery = true;
        self.recovery_round = self.round_count;
        if timeout {
            // What is in flight is deemed lost: one segment leaves.
            w.cwnd = w.mss();
        }
        self.first_sees_trouble(timeout);
    }

    /// 5.6.4.4: recovery is over.
    fn follow_recovery(&mut self, w: &mut Window, i: &Input) {
        if self.in_recovery && !i.in_recovery {
            self.in_recovery = false;
            self.restore_cwnd(w);
        }
    }

    fn save_cwnd(&mut self, w: &Window) {
        let is_whole = !self.in_recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if is_whole { w.cwnd } else { self.prior_cwnd.max(w.cwnd) };
    }

    fn restore_cwnd(&mut self, w: &mut Window) {
        w.cwnd = w.cwnd.max(self.prior_cwnd).min(MAX_CWND);
    }

    /// 5.5.11.1.
    fn save_state_upon_loss(&mut self, w: &Window) {
        self.save_cwnd(w);
        self.undo_mode = None;
        self.undo_bw_shortterm = self.bw_shortterm;
        self.undo_inflight_shortterm = self.inflight_shortterm;
        self.undo_inflight_longterm = self.inflight_longterm;
    }

    /// 5.5.11.2: a recovery that was not needed.
    pub(crate) fn on_undone(&mut self, w: &mut Window, delivered: u64) {
        self.in_recovery = false;
        self.restore_cwnd(w);
        self.is_loss_in_round = false;
        self.reset_full_bw();
        self.bw_shortterm = self.bw_shortterm.max(self.undo_bw_shortterm);
        self.inflight_shortterm = self.inflight_shortterm.max(self.undo_inflight_shortterm);
        self.inflight_longterm = self.inflight_longterm.max(self.undo_inflight_longterm);
        match self.undo_mode.take() {
            Some(Mode::Startup) if self.mode != Mode::Startup => {
                self.full_bw_reached = false;
                if self.mode != Mode::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(Mode::Up) if self.mode != Mode::Up && self.mode != Mode::ProbeRtt => {
                self.start_refill(delivered);
            }
            _ => {}
        }
    }

    /// The peer says, in the way of RFC 3168, that something was marked: as a loss in this round
    /// trip.
    pub(crate) fn on_marked(&mut self, w: &Window, delivered: u64) {
        if self.first.is_some() {
            return;
        }
        self.note_loss(w, delivered);
        // One mark stands for all that the round trip may have lost.
        self.lost_in_round = u64::from(MAX_CWND);
    }

    // ---- 5.6: what follows from the model

    /// Never so slowly that the least window takes more than a second: with whole seconds between
    /// ACKs each of them finds the round trip too old (PROBE_RTT_INTERVAL), and a rate that was
    /// measured over minutes of timeouts would never be probed again. The window bounds what that
    /// lets go into a path that is slower.
    fn set_pacing_rate(&mut self, w: &Window, gain: u32) {
        let rate = percent(percent(self.bw, u64::from(gain)), u64::from(100 - PACING_MARGIN));
        if rate == 0 {
            // Nothing is known yet.
            return;
        }
        let rate = rate.max(u64::from(MIN_PIPE * w.mss()));
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_send_quantum(&mut self, w: &Window) {
        self.quantum = (self.pacing_rate / 1000).min(64 * 1024).max(u64::from(2 * w.mss())) as u32;
    }

    /// BDPMultiple.
    fn bdp(&self, w: &Window, bw: u64, gain: u32) -> u32 {
        let Some(min_rtt) = self.min_rtt else { return w.initial() };
        let bdp = u128::from(bw) * u128::from(min_rtt.as_nanos()) / 1_000_000_000;
        (bdp * u128::from(gain) / 100).min(u128::from(MAX_CWND)) as u32
    }

    fn quantization_budget(&self, w: &Window, cap: u32) -> u32 {
        let budget = cap.max(3 * self.quantum).max(MIN_PIPE * w.mss());
        if self.mode == Mode::Up { budget.saturating_add(2 * w.mss()) } else { budget }
    }

    /// Inflight().
    fn target(&self, w: &Window, bw: u64, gain: u32) -> u32 {
        self.quantization_budget(w, self.bdp(w, bw, gain))
    }

    /// 5.6.4.6.
    fn set_cwnd(&mut self, w: &mut Window, i: &Input) {
        let cap = self.bdp(w, self.bw, self.cwnd_gain).saturating_add(self.extra_acked.max());
        let most = self.quantization_budget(w, cap);
        let raised = w.cwnd.saturating_add(i.sample.newly_acked);
        if self.full_bw_reached {
            w.cwnd = raised.min(most);
        } else if w.cwnd < most || i.delivered < u64::from(w.initial()) {
            w.cwnd = raised;
        }
        w.cwnd = w.cwnd.max(MIN_PIPE * w.mss());
        if self.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(self.probe_rtt_cwnd(w));
        }
        // BoundCwndForModel.
        let long = match self.mode {
            Mode::ProbeRtt | Mode::Cruise => self.inflight_with_headroom(w),
            Mode::Startup => NONE,
            _ => self.inflight_longterm,
        };
        let cap = long.min(self.inflight_shortterm).max(MIN_PIPE * w.mss());
        w.cwnd = w.cwnd.min(cap).min(MAX_CWND);
    }

    fn probe_rtt_cwnd(&self, w: &Window) -> u32 {
        if self.first.is_some() {
            return MIN_PIPE * w.mss();
        }
        self.bdp(w, self.bw, PROBE_RTT_CWND_GAIN).max(MIN_PIPE * w.mss())
    }

    fn inflight_with_headroom(&self, w: &Window) -> u32 {
        if self.inflight_longterm == NONE {
            return NONE;
        }
        let headroom = percent_of(self.inflight_longterm, HEADROOM).max(w.mss());
        self.inflight_longterm.saturating_sub(headroom).max(MIN_PIPE * w.mss())
    }
}

#[cfg(test)]
mod tests;
