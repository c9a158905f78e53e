//! Many runs, and what is said of one that failed: the command that replays it, its last packets,
//! and where its capture lies.

use std::cell::RefCell;
use std::fmt::Write as _;
use std::panic::{self, AssertUnwindSafe};
use std::path::{Path, PathBuf};

use crate::run::{Mode, Summary, play};
use crate::scenario::Scenario;

thread_local! {
    /// Where the last panic of this thread happened, and what it said.
    static PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// A seed that did not hold.
#[derive(Clone, Debug)]
pub struct Report {
    /// The seed.
    pub seed: u64,
    /// Its scenario.
    pub scenario: &'static str,
    /// How it was played.
    pub mode: Mode,
    /// In one sentence.
    pub what: String,
    /// The last packets.
    pub lines: Vec<String>,
    /// All packets.
    pub capture: PathBuf,
}

impl Report {
    /// The command that plays this run again.
    pub fn replay(&self) -> String {
        let mode = if self.mode == Mode::Export { " --export" } else { "" };
        format!("replay: cargo xtask sim {} --scenario {}{mode}", self.seed, self.scenario)
    }

    /// Everything, for a terminal.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for line in &self.lines {
            let _ = writeln!(text, "  {line}");
        }
        let _ = writeln!(text, "seed {} of {}: {}", self.seed, self.scenario, self.what);
        let _ = writeln!(text, "capture: {}", self.capture.display());
        let _ = writeln!(text, "{}", self.replay());
        text
    }
}

/// From now on, a panic of a thread that plays is kept for the report instead of being printed at
/// once.
pub fn keep_panics() {
    panic::set_hook(Box::new(|info| {
        let text = info.to_string();
        PANIC.with(|p| *p.borrow_mut() = Some(text));
    }));
}

type Outcome = Result<Summary, (String, Vec<String>)>;

/// Plays, and turns a panic into a failure.
fn guarded(seed: u64, scenario: &Scenario, mode: Mode, capture: Option<&Path>) -> Outcome {
    match panic::catch_unwind(AssertUnwindSafe(|| play(seed, scenario, mode, capture))) {
        Ok(Ok(summary)) => Ok(summary),
        Ok(Err((failure, lines))) => Err((format!("{} at {}", failure.what, failure.at), lines)),
        Err(payload) => {
            let said = PANIC.with(|p| p.borrow_mut().take());
            let said = said.or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_owned()));
            let said = said.or_else(|| payload.downcast_ref::<String>().cloned());
            Err((said.unwrap_or_else(|| "a panic".to_owned()), crate::recorder::last_lines()))
        }
    }
}

/// Plays a seed; when it fails, plays it again with a capture below `folder`.
pub fn try_seed(
    seed: u64,
    scenario: &'static Scenario,
    mode: Mode,
    folder: &Path,
) -> Result<Summary, Box<Report>> {
    let what = match guarded(seed, scenario, mode, None) {
        Ok(summary) => return Ok(summary),
        Err((what, _)) => what,
    };
    Err(Box::new(with_capture(seed, scenario, mode, folder, what)))
}

/// Plays a seed with a capture in any case.
pub fn replay_seed(
    seed: u64,
    scenario: &'static Scenario,
    mode: Mode,
    folder: &Path,
) -> Result<Summary, Box<Report>> {
    let capture = folder.join(format!("{seed}.pcap"));
    match guarded(seed, scenario, mode, Some(&capture)) {
        Ok(summary) => Ok(summary),
        Err((what, lines)) => {
            Err(Box::new(Report { seed, scenario: scenario.name, mode, what, lines, capture }))
        }
    }
}

fn with_capture(
    seed: u64,
    scenario: &'static Scenario,
    mode: Mode,
    folder: &Path,
    what: String,
) -> Report {
    match replay_seed(seed, scenario, mode, folder) {
        Err(report) if report.what == what => *report,
        Err(report) => {
            Report { what: format!("{what} (and, played again: {})", report.what), ..*report }
        }
        Ok(_) => Report {
            seed,
            scenario: scenario.name,
            mode,
            what: format!("{what} (and, played again, it held: the run is not deterministic)"),
            lines: Vec::new(),
            capture: folder.join(format!("{seed}.pcap")),
        },
    }
}
