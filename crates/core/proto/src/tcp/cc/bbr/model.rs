//! What both versions know of the path and how they know it, and the pace that follows from that.
//! Each version holds one of these, tells it what its own draft says, and adds its own window.
//! Numbers of sections are those of draft-ietf-ccwg-bbr-06.

use clearway_base::{Duration, Instant};

use super::highest::Highest;
use super::values::{Input, Known, percent};
use crate::tcp::api::BbrInfo;
use crate::tcp::cc::window::{MAX_CWND, Window};

/// Gains at which both begin, in hundredths.
pub(super) const STARTUP_PACING_GAIN: u32 = 277;
pub(super) const CWND_GAIN: u32 = 200;
pub(super) const PROBE_RTT_CWND_GAIN: u32 = 50;

/// BBR.PacingMarginPercent: so much below the rate, lest a queue builds up.
const PACING_MARGIN: u32 = 1;
/// BBR.MinPipeCwnd, in segments.
const MIN_PIPE: u32 = 4;
/// BBR.ProbeRTTDuration and BBR.MinRTTFilterLen.
const PROBE_RTT_DURATION: Duration = Duration::from_millis(200);
const MIN_RTT_FILTER: Duration = Duration::from_secs(10);
/// Round trips that the rate may stand still before the pipe counts as full.
const FULL_BW_ROUNDS: u8 = 3;
/// BBR.ExtraAckedFilterLen in round trips, halved: there are two slots.
const EXTRA_ACKED_ROUNDS: u64 = 5;

/// Where the state machine is. The first version knows no Refill.
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

/// What an ACK meant for the search for the shortest round trip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Look {
    /// It goes on as it was, in it or not.
    Same,
    /// It began.
    Begins,
    /// It is over, and the version says what follows.
    Over,
}

/// The model of one connection's path.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(super) mode: Mode,
    pub(super) pacing_gain: u32,
    pub(super) cwnd_gain: u32,
    /// When this part of the cycle of ProbeBW began.
    pub(super) cycle_at: Instant,
    // ---- what leaves
    pacing_rate: u64,
    pub(super) quantum: u32,
    // ---- the rate, and whether it still grows
    pub(super) bw: u64,
    pub(super) full_bw: u64,
    full_bw_count: u8,
    pub(super) full_bw_now: bool,
    pub(super) full_bw_reached: bool,
    // ---- the round trip
    pub(super) min_rtt: Option<Duration>,
    min_rtt_at: Instant,
    probe_rtt_min: Option<Duration>,
    probe_rtt_min_at: Instant,
    probe_rtt_expired: bool,
    probe_rtt_done_at: Option<Instant>,
    probe_rtt_round_done: bool,
    // ---- ACKs that come in bunches
    pub(super) extra_acked: Highest<u32, 2>,
    extra_acked_since: Instant,
    extra_acked_delivered: u64,
    extra_acked_round: u64,
    // ---- round trips, counted in what is delivered
    pub(super) round_count: u64,
    next_round_delivered: u64,
    pub(super) round_start: bool,
    // ---- what the window was
    prior_cwnd: u32,
    pub(super) in_recovery: bool,
    idle_restart: bool,
}

impl Model {
    /// For a connection with this window, whose round trips take `srtt` as far as is known.
    pub(super) fn new(w: &Window, now: Instant, srtt: Option<Duration>, delivered: u64) -> Model {
        let rtt = srtt.unwrap_or(Duration::from_millis(1)).max(Duration::from_micros(1));
        let nominal = u128::from(w.cwnd) * 1_000_000_000 / u128::from(rtt.as_nanos());
        let mut model = Model {
            mode: Mode::Startup,
            pacing_gain: STARTUP_PACING_GAIN,
            cwnd_gain: CWND_GAIN,
            cycle_at: now,
            pacing_rate: percent(nominal as u64, u64::from(STARTUP_PACING_GAIN)),
            quantum: 0,
            bw: 0,
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
            extra_acked: Highest::new(),
            extra_acked_since: now,
            extra_acked_delivered: 0,
            extra_acked_round: 0,
            round_count: 0,
            next_round_delivered: delivered,
            round_start: false,
            prior_cwnd: 0,
            in_recovery: false,
            idle_restart: false,
        };
        model.set_send_quantum(w);
        model
    }

    /// Goes on from what another stack has known.
    pub(super) fn resume(&mut self, w: &Window, known: Known, now: Instant) {
        self.bw = known.bw;
        self.min_rtt = Some(known.min_rtt).filter(|rtt| *rtt > Duration::ZERO);
        self.probe_rtt_min = self.min_rtt;
        if known.full_bw_reached {
            self.full_bw_reached = true;
            self.cycle_at = now;
            self.start_cruise();
        }
        self.set_pace(w);
    }

    /// What another stack has to know, beside the highest rate.
    pub(super) fn known(&self, bw: u64) -> Known {
        let min_rtt = self.min_rtt.unwrap_or_default();
        Known { bw, min_rtt, full_bw_reached: self.full_bw_reached }
    }

    /// What it tells of itself.
    pub(super) fn info(&self) -> BbrInfo {
        let min_rtt = self.min_rtt.unwrap_or_default();
        BbrInfo { bw: self.bw, min_rtt, pacing_gain: self.pacing_gain, cwnd_gain: self.cwnd_gain }
    }

    // ---- states that both have

    pub(super) fn go(&mut self, mode: Mode, pacing_gain: u32, cwnd_gain: u32) {
        self.mode = mode;
        (self.pacing_gain, self.cwnd_gain) = (pacing_gain, cwnd_gain);
    }

    pub(super) fn enter_startup(&mut self) {
        self.go(Mode::Startup, STARTUP_PACING_GAIN, CWND_GAIN);
    }

    pub(super) fn start_cruise(&mut self) {
        self.go(Mode::Cruise, 100, CWND_GAIN);
    }

    pub(super) fn is_in_probe_bw(&self) -> bool {
        matches!(self.mode, Mode::Down | Mode::Cruise | Mode::Refill | Mode::Up)
    }

    /// 5.4: about to send with nothing in flight, for the owner had too little to send. True: the
    /// search for the shortest round trip is over, and the version says what follows.
    pub(super) fn on_restart(&mut self, w: &mut Window, now: Instant) -> bool {
        self.idle_restart = true;
        self.extra_acked_since = now;
        if self.is_in_probe_bw() {
            self.set_pacing_rate(w, 100);
        }
        self.mode == Mode::ProbeRtt && self.is_probe_rtt_done(w, now)
    }

    // ---- 5.5.1: round trips

    pub(super) fn start_round(&mut self, delivered: u64) {
        self.next_round_delivered = delivered;
    }

    pub(super) fn update_round(&mut self, i: &Input) {
        self.round_start =
            i.sample.prior_delivered.is_some_and(|before| before >= self.next_round_delivered);
        if self.round_start {
            self.start_round(i.delivered);
            self.round_count += 1;
        }
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

    // ---- 5.3.1: whether the pipe is full

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

    // ---- 5.3.4: the shortest round trip

    /// `interval`: after so long without a shorter one it is looked for anew.
    pub(super) fn update_min_rtt(&mut self, i: &Input, interval: Duration) {
        self.probe_rtt_expired = i.now > self.probe_rtt_min_at + interval;
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

    /// `most`: what may be in flight meanwhile.
    pub(super) fn check_probe_rtt(&mut self, w: &mut Window, i: &Input, most: u32) -> Look {
        let mut look = Look::Same;
        if self.mode != Mode::ProbeRtt && self.probe_rtt_expired && !self.idle_restart {
            self.save_cwnd(w);
            self.go(Mode::ProbeRtt, 100, PROBE_RTT_CWND_GAIN);
            self.probe_rtt_done_at = None;
            self.start_round(i.delivered);
            look = Look::Begins;
        }
        if self.mode == Mode::ProbeRtt {
            if self.probe_rtt_done_at.is_none() && i.in_flight <= most {
                self.probe_rtt_done_at = Some(i.now + PROBE_RTT_DURATION);
                self.probe_rtt_round_done = false;
                self.start_round(i.delivered);
            } else if self.probe_rtt_done_at.is_some() {
                self.probe_rtt_round_done |= self.round_start;
                if self.probe_rtt_round_done && self.is_probe_rtt_done(w, i.now) {
                    look = Look::Over;
                }
            }
        }
        if i.sample.newly_acked > 0 {
            self.idle_restart = false;
        }
        look
    }

    fn is_probe_rtt_done(&mut self, w: &mut Window, now: Instant) -> bool {
        let is_done = self.probe_rtt_done_at.is_some_and(|at| now > at);
        if is_done {
            self.probe_rtt_min_at = now;
            self.restore_cwnd(w);
        }
        is_done
    }

    // ---- 5.6.2 and 5.6.3: how fast, and in what pieces

    /// Bytes in a second at which data leaves.
    pub(super) fn pacing_rate(&self) -> u64 {
        self.pacing_rate
    }

    /// The rate at which data leaves, and what leaves at one time.
    pub(super) fn set_pace(&mut self, w: &Window) {
        self.set_pacing_rate(w, self.pacing_gain);
        self.set_send_quantum(w);
    }

    /// Never so slowly that the least window takes more than a second: with whole seconds between
    /// ACKs each of them finds the round trip too old (PROBE_RTT_INTERVAL), and a rate that was
    /// measured over minutes of timeouts would never be probed again. The window bounds what that
    /// lets go into a path that is slower.
    pub(super) fn set_pacing_rate(&mut self, w: &Window, gain: u32) {
        let rate = percent(percent(self.bw, u64::from(gain)), u64::from(100 - PACING_MARGIN));
        if rate == 0 {
            // Nothing is known yet.
            return;
        }
        let rate = rate.max(u64::from(min_pipe(w)));
        if self.full_bw_reached || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    fn set_send_quantum(&mut self, w: &Window) {
        self.quantum = (self.pacing_rate / 1000).min(64 * 1024).max(u64::from(2 * w.mss())) as u32;
    }

    // ---- 5.6.4: the window

    /// BDPMultiple.
    pub(super) fn bdp(&self, w: &Window, bw: u64, gain: u32) -> u32 {
        let Some(min_rtt) = self.min_rtt else { return w.initial() };
        let bdp = u128::from(bw) * u128::from(min_rtt.as_nanos()) / 1_000_000_000;
        (bdp * u128::from(gain) / 100).min(u128::from(MAX_CWND)) as u32
    }

    /// The window grows by what arrives, up to `most`.
    pub(super) fn grow_cwnd(&self, w: &mut Window, i: &Input, most: u32) {
        let raised = w.cwnd.saturating_add(i.sample.newly_acked);
        if self.full_bw_reached {
            w.cwnd = raised.min(most);
        } else if w.cwnd < most || i.delivered < u64::from(w.initial()) {
            w.cwnd = raised;
        }
        w.cwnd = w.cwnd.max(min_pipe(w));
    }

    /// Fast recovery begins, or the timer ran out.
    pub(super) fn on_trouble(&mut self, w: &mut Window, timeout: bool) {
        self.save_cwnd(w);
        self.in_recovery = true;
        if timeout {
            // What is in flight is deemed lost: one segment leaves.
            w.cwnd = w.mss();
        }
    }

    /// Recovery is over, if it was one that does not go on.
    pub(super) fn follow_recovery(&mut self, w: &mut Window, goes_on: bool) {
        if self.in_recovery && !goes_on {
            self.in_recovery = false;
            self.restore_cwnd(w);
        }
    }

    /// A recovery that was not needed.
    pub(super) fn on_undone(&mut self, w: &mut Window) {
        self.in_recovery = false;
        self.restore_cwnd(w);
        self.reset_full_bw();
    }

    pub(super) fn save_cwnd(&mut self, w: &Window) {
        let is_whole = !self.in_recovery && self.mode != Mode::ProbeRtt;
        self.prior_cwnd = if is_whole { w.cwnd } else { self.prior_cwnd.max(w.cwnd) };
    }

    fn restore_cwnd(&mut self, w: &mut Window) {
        w.cwnd = w.cwnd.max(self.prior_cwnd).min(MAX_CWND);
    }
}

/// BBR.MinPipeCwnd: no window is smaller.
pub(super) fn min_pipe(w: &Window) -> u32 {
    MIN_PIPE * w.mss()
}
