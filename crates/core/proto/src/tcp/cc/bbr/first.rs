//! BBR's first version (draft-cardwell-iccrg-bbr-congestion-control-00): what Linux names "bbr". No
//! loss and no mark bounds what is in flight.
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

use super::highest::Highest;
use super::model::{CWND_GAIN, Look, Mode, Model, min_pipe};
use super::values::{Input, Known, percent};
use crate::tcp::cc::window::{MAX_CWND, Window};

/// BBRHighGain, 2/ln 2, and what undoes it, in hundredths.
const HIGH_GAIN: u32 = 289;
const DRAIN_GAIN: u32 = 35;
/// The first two gains of a cycle; the others are 100.
const UP_GAIN: u32 = 125;
const DOWN_GAIN: u32 = 75;
/// Gains of a cycle.
const PHASES: u8 = 8;
/// RTpropFilterLen.
const RTT_INTERVAL: Duration = Duration::from_secs(10);
/// ACKs that came in bunches let out no more than what arrives in this time.
const MOST_BUNCHED: u64 = 10;
/// BBRBtlBwFilterLen is ten round trips: five slots of two.
const SLOTS: usize = 5;
const SLOT_ROUNDS: u64 = 2;

/// Where a recovery is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Recovery {
    /// No ACK has come since it began.
    Begins,
    /// In its first round trip no more leaves than arrives. One that follows another before all that
    /// was lost has arrived is no new one.
    Conserves,
    /// In the others, and without any, the window grows as ever.
    Grows,
}

/// The state of one connection.
#[derive(Clone, Debug)]
pub(crate) struct First {
    pub(super) model: Model,
    /// The highest rates of the last round trips.
    rates: Highest<u64, SLOTS>,
    /// The round trip in which the slot of now began.
    slot_round: u64,
    /// Which gain of the cycle.
    phase: u8,
    recovery: Recovery,
}

impl First {
    pub(super) fn new(model: Model) -> First {
        let rates = Highest::new();
        First { model, rates, slot_round: 0, phase: 0, recovery: Recovery::Grows }
    }

    pub(super) fn known(&self) -> Known {
        self.model.known(self.model.bw)
    }

    pub(super) fn resume(&mut self, w: &Window, known: Known, now: Instant) {
        if known.full_bw_reached {
            self.rates.take(known.bw);
        }
        self.model.resume(w, known, now);
    }

    /// Every ACK.
    pub(super) fn on_ack(&mut self, w: &mut Window, i: &Input, rng: &mut Rng) {
        self.model.update_round(i);
        self.update_rate(i);
        let conserves = self.follow_recovery(w, i);
        self.model.update_ack_aggregation(w, i);
        self.update_cycle(w, i);
        self.model.check_full_bw_reached(i, self.model.bw);
        self.check_startup_and_drain(w, i, rng);
        self.model.update_min_rtt(i, RTT_INTERVAL);
        if self.model.check_probe_rtt(w, i, min_pipe(w)) == Look::Over {
            self.leave_probe_rtt(i.now, rng);
        }
        self.model.set_pace(w);
        self.set_cwnd(w, i, conserves);
    }

    pub(super) fn on_restart(&mut self, w: &mut Window, now: Instant, rng: &mut Rng) {
        if self.model.on_restart(w, now) {
            self.leave_probe_rtt(now, rng);
        }
    }

    pub(super) fn on_trouble(&mut self, w: &mut Window, timeout: bool) {
        let is_new = !self.model.in_recovery;
        self.model.on_trouble(w, timeout);
        if timeout {
            self.recovery = Recovery::Grows;
            self.model.reset_full_bw();
        } else if is_new {
            self.recovery = Recovery::Begins;
        }
    }

    pub(super) fn on_undone(&mut self, w: &mut Window) {
        self.model.on_undone(w);
    }

    fn update_rate(&mut self, i: &Input) {
        // What the owner limits is believed only where it shows more than was known, and what was
        // known is not forgotten for it.
        let rate = i.sample.rate;
        if rate > 0 && (rate >= self.rates.get() || !i.sample.is_app_limited) {
            let round = self.model.round_count;
            if round.wrapping_sub(self.slot_round) >= SLOT_ROUNDS {
                self.slot_round = round;
                self.rates.advance();
            }
            self.rates.take(rate);
        }
        self.model.bw = self.rates.get();
    }

    /// Whether no more may leave than arrives.
    fn follow_recovery(&mut self, w: &mut Window, i: &Input) -> bool {
        let begins = self.recovery == Recovery::Begins;
        if begins {
            self.recovery = Recovery::Conserves;
            self.model.start_round(i.delivered);
        } else if self.model.round_start {
            self.recovery = Recovery::Grows;
        }
        let conserves = self.recovery == Recovery::Conserves && i.is_repairing;
        if begins && conserves {
            w.cwnd = i.in_flight;
        } else {
            self.model.follow_recovery(w, i.is_repairing);
        }
        conserves
    }

    fn check_startup_and_drain(&mut self, w: &Window, i: &Input, rng: &mut Rng) {
        if self.model.mode == Mode::Startup {
            self.model.go(Mode::Startup, HIGH_GAIN, HIGH_GAIN);
            if self.model.full_bw_reached {
                self.model.go(Mode::Drain, DRAIN_GAIN, HIGH_GAIN);
            }
        }
        if self.model.mode == Mode::Drain && i.in_flight <= self.target(w, 100) {
            self.begin_cycle(i.now, rng);
        }
    }

    /// ProbeBW, at any of its phases but the one that drains.
    fn begin_cycle(&mut self, now: Instant, rng: &mut Rng) {
        let phase = PHASES - 1 - rng.below(u64::from(PHASES) - 1) as u8;
        self.enter_phase((phase + 1) % PHASES, now);
    }

    fn enter_phase(&mut self, phase: u8, now: Instant) {
        self.phase = phase;
        self.model.cycle_at = now;
        match phase {
            0 => self.model.go(Mode::Up, UP_GAIN, CWND_GAIN),
            1 => self.model.go(Mode::Down, DOWN_GAIN, CWND_GAIN),
            _ => self.model.start_cruise(),
        }
    }

    fn update_cycle(&mut self, w: &Window, i: &Input) {
        if !self.model.is_in_probe_bw() {
            return;
        }
        let is_whole = i.now.since(self.model.cycle_at) > self.model.min_rtt.unwrap_or_default();
        // What was in flight before this ACK.
        let in_flight = i.in_flight.saturating_add(i.sample.newly_acked);
        let is_over = match self.model.mode {
            Mode::Up => {
                is_whole
                    && (i.sample.newly_lost > 0
                        || in_flight >= self.target(w, self.model.pacing_gain))
            }
            Mode::Down => is_whole || in_flight <= self.target(w, 100),
            _ => is_whole,
        };
        if is_over {
            self.enter_phase((self.phase + 1) % PHASES, i.now);
        }
    }

    fn leave_probe_rtt(&mut self, now: Instant, rng: &mut Rng) {
        if self.model.full_bw_reached {
            self.begin_cycle(now, rng);
        } else {
            self.model.enter_startup();
        }
    }

    /// Inflight(gain) of that draft: for what waits in a pacer or in a joined ACK three quanta more.
    fn target(&self, w: &Window, gain: u32) -> u32 {
        let budget = self.model.bdp(w, self.model.bw, gain).saturating_add(3 * self.model.quantum);
        let more = if self.model.mode == Mode::Up { 2 * w.mss() } else { 0 };
        budget.saturating_add(more).min(MAX_CWND)
    }

    /// BBRSetCwnd.
    fn set_cwnd(&mut self, w: &mut Window, i: &Input, conserves: bool) {
        if i.sample.newly_lost > 0 {
            let lost = i.sample.newly_lost.min(u64::from(MAX_CWND)) as u32;
            w.cwnd = w.cwnd.saturating_sub(lost).max(w.mss());
        }
        if conserves {
            w.cwnd = w.cwnd.max(i.in_flight.saturating_add(i.sample.newly_acked));
        } else {
            let bw = self.model.bw;
            let bunched = self.model.extra_acked.get().min(percent(bw, MOST_BUNCHED) as u32);
            let most = self.target(w, self.model.cwnd_gain).saturating_add(bunched);
            self.model.grow_cwnd(w, i, most);
        }
        if self.model.mode == Mode::ProbeRtt {
            w.cwnd = w.cwnd.min(min_pipe(w));
        }
        w.cwnd = w.cwnd.min(MAX_CWND);
    }
}
