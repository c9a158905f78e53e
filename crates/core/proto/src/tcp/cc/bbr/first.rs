//! BBR's first version (draft-cardwell-iccrg-bbr-congestion-control-00): what Linux names "bbr". It
//! shares with the third the filters of rate and round trip, the search for the shortest round trip
//! and the window that follows from them; what differs is here. No loss and no mark bounds what is
//! in flight.
//!
//! ```text
//!   gain │ ╭─╮                             ╭─╮
//!    1.25│ │ │                             │ │
//!    1   │ │ │   ╭─────────────────────────╯ │   ╭──
//!    0.75│ │ ╰───╯                           ╰───╯
//!        └─┴─┴───┴───────────────────────────┴─┴───┴─▶ round trips: eight are a cycle
//! ```
//!
//! Left out: what Linux does against policers (its long-term rate), which needs a fifth of all lost
//! to begin.

use clearway_base::{Duration, Instant, Rng};

use super::first_state::Recovery;
use super::{Bbr, Input, MIN_PIPE, Mode, PROBE_RTT_INTERVAL, UP_PACING_GAIN, percent};
use crate::tcp::cc::window::{MAX_CWND, Window};

/// BBRHighGain, 2/ln 2, and what undoes it, in hundredths.
const HIGH_GAIN: u32 = 289;
const DRAIN_GAIN: u32 = 35;
/// The second gain of a cycle; the first is [`UP_PACING_GAIN`], the others are 100.
const LOW_GAIN: u32 = 75;
const CWND_GAIN: u32 = 200;
/// Gains of a cycle.
const PHASES: u8 = 8;
/// RTpropFilterLen.
const RTT_INTERVAL: Duration = Duration::from_secs(10);
/// ACKs that came in bunches let out no more than what arrives in this time.
const MOST_BUNCHED: u64 = 10;

impl Bbr {
    /// Every ACK, of the first version.
    pub(super) fn on_ack_by_first(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        let Some(mut first) = self.first.take() else { return };
        self.update_round(i);
        let rate = i.sample.rate;
        let rate = if rate >= first.most() || !i.sample.is_app_limited { rate } else { 0 };
        first.take(self.round_count, rate);
        let begins = first.recovery == Recovery::Begins;
        if begins {
            first.recovery = Recovery::Conserves;
            self.next_round_delivered = i.delivered;
        } else if self.round_start {
            first.recovery = Recovery::Grows;
        }
        self.bw = first.most();
        self.max_bw.last = self.bw;
        let conserves = first.recovery == Recovery::Conserves && i.in_recovery;
        self.first = Some(first);
        if begins && conserves {
            w.cwnd = i.in_flight;
        } else {
            self.follow_recovery(w, i);
        }

        self.update_ack_aggregation(w, i);
        self.update_cycle(w, i);
        self.check_full_bw_reached(i, self.bw);
        self.check_startup_and_drain(w, i, rng);
        self.update_min_rtt(i);
        self.check_probe_rtt(w, i, rng);
        self.set_pacing_rate(w, self.pacing_gain);
        self.set_send_quantum(w);
        self.set_cwnd_by_first(w, i, conserves);
    }

    pub(super) fn probe_rtt_interval(&self) -> Duration {
        if self.first.is_some() { RTT_INTERVAL } else { PROBE_RTT_INTERVAL }
    }

    /// Fast recovery begins, or the timer ran out.
    pub(super) fn first_sees_trouble(&mut self, timeout: bool) {
        let Some(first) = &mut self.first else { return };
        first.recovery = if timeout { Recovery::Grows } else { Recovery::Begins };
        if timeout {
            self.reset_full_bw();
        }
    }

    /// Inflight(gain) of that draft: for what waits in a pacer or in a joined ACK three quanta more.
    fn first_target(&self, w: &Window, gain: u32) -> u32 {
        let budget = self.bdp(w, self.bw, gain).saturating_add(3 * self.quantum);
        let more = if self.mode == Mode::Up { 2 * w.mss() } else { 0 };
        budget.saturating_add(more).min(MAX_CWND)
    }

    fn check_startup_and_drain(&mut self, w: &Window, i: &Input, rng: &mut Rng) {
        if self.mode == Mode::Startup {
            (self.pacing_gain, self.cwnd_gain) = (HIGH_GAIN, HIGH_GAIN);
            if self.full_bw_reached {
                self.go(Mode::Drain, DRAIN_GAIN, HIGH_GAIN);
            }
        }
        if self.mode == Mode::Drain && i.in_flight <= self.first_target(w, 100) {
            self.begin_cycle(i.now, rng);
        }
    }

    /// ProbeBW, at any of its phases but the one that drains.
    pub(super) fn begin_cycle(&mut self, now: Instant, rng: &mut Rng) {
        let phase = PHASES - 1 - rng.below(u64::from(PHASES) - 1) as u8;
        self.enter_phase((phase + 1) % PHASES, now);
    }

    fn enter_phase(&mut self, phase: u8, now: Instant) {
        let Some(first) = &mut self.first else { return };
        first.phase = phase;
        self.cycle_at = now;
        match phase {
            0 => self.go(Mode::Up, UP_PACING_GAIN, CWND_GAIN),
            1 => self.go(Mode::Down, LOW_GAIN, CWND_GAIN),
            _ => self.go(Mode::Cruise, 100, CWND_GAIN),
        }
    }

    fn update_cycle(&mut self, w: &Window, i: &Input) {
        if !self.is_in_probe_bw() {
            return;
        }
        let Some(first) = &self.first else { return };
        let phase = first.phase;
        let is_whole = i.now.since(self.cycle_at) > self.min_rtt.unwrap_or_default();
        // What was in flight before this ACK.
        let in_flight = i.in_flight.saturating_add(i.sample.newly_acked);
        let is_over = match self.mode {
            Mode::Up => {
                is_whole
                    && (i.sample.newly_lost > 0
                        || in_flight >= self.first_target(w, self.pacing_gain))
            }
            Mode::Down => is_whole || in_flight <= self.first_target(w, 100),
            _ => is_whole,
        };
        if is_over {
            self.enter_phase((phase + 1) % PHASES, i.now);
        }
    }

    /// BBRSetCwnd.
    fn set_cwnd_by_first(&mut self, w: &mut Window, i: &Input, conserves: bool) {
        let (acked, least) = (i.sample.newly_acked, MIN_PIPE * w.mss());
        if i.sample.newly_lost > 0 {
            let lost = i.sample.newly_lost.min(u64::from(MAX_CWND)) as u32;
            w.cwnd = w.cwnd.saturating_sub(lost).max(w.mss());
        }
        if conserves {
            w.cwnd = w.cwnd.max(i.in_flight.saturating_add(acked));
        } else {
            let bunched = self.extra_acked.max().min(percent(self.bw, MOST_BUNCHED) as u32);
            let most = self.first_target(w, self.cwnd_gain).saturating_add(bunched);
            let raised = w.cwnd.saturating_add(acked);
            if self.full_bw_reached {
                w.cwnd = raised.min(most);
            } else if w.cwnd < most || i.delivered < u64::from(w.initial()) {
                w.cwnd = raised;
            }
            w.cwnd = w.cwnd.max(least);
        }
        if self.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(least);
        }
        w.cwnd = w.cwnd.min(MAX_CWND);
    }
}
