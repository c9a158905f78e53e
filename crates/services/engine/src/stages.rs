//! Where the time of a turn goes: the cycles of each of its stages.
//!
//! ```text
//!   driver receive ─▶ stack in ─▶ timers ─▶ application ─▶ stack out ⇄ driver send
//!   other: reading the clock, reports, and what lies between two turns
//! ```
//!
//! An [`Engine`](crate::Engine) is made with a probe or without one. Without, it is another
//! function of the compiler's: nothing is asked and nothing counted. With, the processor's counter
//! is read where one stage ends and the next begins, a few times a turn and not once per packet.
//! The counter does not wait for instructions that are under way, so that what a stage left
//! unfinished counts for the next one; over a burst that is little.
//!
//! Only turns that had work count, as for how busy a core is.

use clearway_hint::cycles;

/// A part of a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// The device looks for frames, and hands them over.
    DriverIn,
    /// The stack takes them in.
    StackIn,
    /// The stack looks at timers.
    Timers,
    /// The application acts: its events, its reading and writing.
    App,
    /// The stack makes packets of what was marked.
    StackOut,
    /// The device finds room, and takes frames away.
    DriverOut,
    /// Everything else.
    Other,
}

impl Stage {
    /// All of them, in the order of a turn.
    pub const ALL: [Stage; 7] = [
        Stage::DriverIn,
        Stage::StackIn,
        Stage::Timers,
        Stage::App,
        Stage::StackOut,
        Stage::DriverOut,
        Stage::Other,
    ];

    /// Its name, for people.
    pub const fn name(self) -> &'static str {
        match self {
            Stage::DriverIn => "driver receive",
            Stage::StackIn => "stack in",
            Stage::Timers => "timers",
            Stage::App => "application",
            Stage::StackOut => "stack out",
            Stage::DriverOut => "driver send",
            Stage::Other => "other",
        }
    }
}

/// Cycles of the turns that had work, by stage.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StageCycles {
    /// How many such turns there were.
    pub turns: u64,
    cycles: [u64; Stage::ALL.len()],
}

impl StageCycles {
    /// Those of one stage.
    pub fn of(&self, stage: Stage) -> u64 {
        self.cycles[stage as usize]
    }

    /// Those of all stages.
    pub fn all(&self) -> u64 {
        self.cycles.iter().sum()
    }

    /// Adds those of another core, or of another time.
    pub fn add(&mut self, other: &StageCycles) {
        self.turns += other.turns;
        for (sum, more) in self.cycles.iter_mut().zip(other.cycles) {
            *sum += more;
        }
    }

    /// What came on top of what there was `before`.
    pub fn since(&self, before: &StageCycles) -> StageCycles {
        let mut more = *self;
        more.turns = more.turns.saturating_sub(before.turns);
        for (now, then) in more.cycles.iter_mut().zip(before.cycles) {
            *now = now.saturating_sub(then);
        }
        more
    }
}

/// Who is told where one stage ends and the next begins.
pub trait Probe {
    /// Whether anybody may listen. What is only done for the probe asks this, and vanishes when it
    /// is false.
    const ON: bool;

    /// Whether anybody listens just now.
    #[inline(always)]
    fn listens(&self) -> bool {
        Self::ON
    }

    /// What follows belongs to `stage`.
    fn enter(&mut self, stage: Stage);

    /// A turn ends and another begins; whether the one had work.
    fn turn_ends(&mut self, worked: bool);

    /// What was counted up to the end of the last turn, if anything is.
    fn told(&self) -> Option<StageCycles>;
}

/// Nobody listens.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProbe;

impl Probe for NoProbe {
    const ON: bool = false;

    #[inline(always)]
    fn enter(&mut self, _stage: Stage) {}

    #[inline(always)]
    fn turn_ends(&mut self, _worked: bool) {}

    #[inline(always)]
    fn told(&self) -> Option<StageCycles> {
        None
    }
}

/// Counts cycles.
#[derive(Clone, Copy, Debug)]
pub struct StageProbe {
    stage: Stage,
    since: u64,
    /// Of the present turn.
    turn: [u64; Stage::ALL.len()],
    sum: StageCycles,
}

impl StageProbe {
    /// A probe that has counted nothing.
    pub fn new() -> StageProbe {
        StageProbe {
            stage: Stage::Other,
            since: cycles(),
            turn: [0; Stage::ALL.len()],
            sum: StageCycles::default(),
        }
    }
}

impl Default for StageProbe {
    fn default() -> StageProbe {
        StageProbe::new()
    }
}

impl Probe for StageProbe {
    const ON: bool = true;

    #[inline]
    fn enter(&mut self, stage: Stage) {
        let now = cycles();
        // Two cores' counters may differ by little where a thread may move between them.
        self.turn[self.stage as usize] += now.saturating_sub(self.since);
        (self.stage, self.since) = (stage, now);
    }

    #[inline]
    fn turn_ends(&mut self, worked: bool) {
        self.enter(Stage::Other);
        let turn = std::mem::replace(&mut self.turn, [0; Stage::ALL.len()]);
        if worked {
            self.sum.add(&StageCycles { turns: 1, cycles: turn });
        }
    }

    fn told(&self) -> Option<StageCycles> {
        Some(self.sum)
    }
}

/// For how many cycles an [`OnDemandProbe`] goes on to count: some ten seconds.
const LISTENS_FOR: u64 = 1 << 35;

/// For how many cycles it does so for a sample, about a second, and how many turns with work are
/// enough for one: where turns are short, to count may take longer than they do.
const SAMPLE: u64 = 1 << 31;
const SAMPLE_TURNS: u32 = 4096;

/// Counts cycles while somebody asks for them, and for some seconds after. In between, each stage
/// costs a comparison.
#[derive(Clone, Copy, Debug, Default)]
pub struct OnDemandProbe {
    probe: StageProbe,
    /// When it ceases to count, by the processor's counter; 0: it does not count.
    until: u64,
    /// After how many turns with work it does so before.
    turns_left: u32,
}

impl OnDemandProbe {
    /// A probe that does not count yet.
    pub fn new() -> OnDemandProbe {
        OnDemandProbe::default()
    }

    /// Counts from here on, and for some seconds. Answers what was counted so far, in all.
    pub fn ask(&mut self) -> StageCycles {
        self.count_for(LISTENS_FOR, u32::MAX)
    }

    /// As [`OnDemandProbe::ask`], for some thousand turns with work, and about a second at most:
    /// enough for shares, and for who asks every few seconds for ever.
    pub fn sample(&mut self) -> StageCycles {
        self.count_for(SAMPLE, SAMPLE_TURNS)
    }

    fn count_for(&mut self, more: u64, turns: u32) -> StageCycles {
        let now = cycles();
        if self.until == 0 {
            let sum = self.probe.sum;
            self.probe = StageProbe { sum, ..StageProbe::new() };
            self.turns_left = 0;
        }
        self.turns_left = self.turns_left.max(turns);
        self.until = self.until.max(now.saturating_add(more)).max(1);
        self.probe.sum
    }
}

impl Probe for OnDemandProbe {
    const ON: bool = true;

    #[inline(always)]
    fn listens(&self) -> bool {
        self.until != 0
    }

    #[inline]
    fn enter(&mut self, stage: Stage) {
        if self.listens() {
            self.probe.enter(stage);
        }
    }

    #[inline]
    fn turn_ends(&mut self, worked: bool) {
        if self.listens() {
            self.probe.turn_ends(worked);
            self.turns_left = self.turns_left.saturating_sub(worked.into());
            if self.turns_left == 0 || self.probe.since >= self.until {
                self.until = 0;
            }
        }
    }

    fn told(&self) -> Option<StageCycles> {
        Some(self.probe.sum)
    }
}

#[cfg(test)]
mod tests;
