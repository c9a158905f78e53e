//! `cargo xtask sim`: plays one seed again, or many.

use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use clap::Parser;
use clearway_sim::report::{Report, keep_panics, replay_seed, try_seed};
use clearway_sim::run::Mode;
use clearway_sim::scenario::{SCENARIOS, Scenario, named, of_seed};
use indicatif::{ProgressBar, ProgressStyle};

/// Plays seeds of the simulator.
///
/// One seed plays again what failed, with a capture. Many seeds play until one fails.
#[derive(Parser)]
#[command(name = "cargo xtask sim")]
struct Arguments {
    /// The seed to replay, as a failure prints it
    #[arg(required_unless_present_any = ["seeds", "list"], conflicts_with_all = ["seeds", "start"])]
    seed: Option<u64>,
    /// Play this many seeds
    #[arg(long, value_name = "N")]
    seeds: Option<u64>,
    /// The first seed of many
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    start: u64,
    /// Play this scenario; without it, the seed says which
    #[arg(long, value_name = "NAME")]
    scenario: Option<String>,
    /// Threads; without it, one for each processor
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
    /// Go on after a failure, and tell all of them at the end
    #[arg(long)]
    keep_going: bool,
    /// At random instants, export every stack and go on with a new one
    #[arg(long)]
    export: bool,
    /// Tell the names of the scenarios
    #[arg(long)]
    list: bool,
}

impl Arguments {
    fn mode(&self) -> Mode {
        if self.export { Mode::Export } else { Mode::Plain }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.list {
        for scenario in SCENARIOS {
            println!("{:<18} {}", scenario.name, scenario.what);
        }
        return ExitCode::SUCCESS;
    }
    let scenario = match arguments.scenario.as_deref().map(|name| (name, named(name))) {
        Some((name, None)) => {
            eprintln!("sim: there is no scenario `{name}`; --list tells their names");
            return ExitCode::from(2);
        }
        Some((_, found)) => found,
        None => None,
    };
    keep_panics();
    let mode = arguments.mode();
    match (arguments.seed, arguments.seeds) {
        (Some(seed), _) => one(seed, scenario.unwrap_or_else(|| of_seed(seed)), mode),
        (None, Some(count)) => many(&arguments, count, scenario),
        (None, None) => ExitCode::from(2),
    }
}

fn folder() -> PathBuf {
    PathBuf::from("target/sim")
}

fn one(seed: u64, scenario: &'static Scenario, mode: Mode) -> ExitCode {
    match replay_seed(seed, scenario, mode, &folder()) {
        Ok(summary) => {
            println!(
                "seed {seed} of {} held: {} frames in {}",
                scenario.name, summary.frames, summary.lasted
            );
            ExitCode::SUCCESS
        }
        Err(report) => {
            print!("{}", report.text());
            ExitCode::FAILURE
        }
    }
}

/// What the threads share.
struct Work {
    next: AtomicU64,
    stop: AtomicBool,
    reports: Mutex<Vec<Report>>,
    frames: AtomicU64,
    renewed: AtomicU64,
}

fn many(arguments: &Arguments, count: u64, scenario: Option<&'static Scenario>) -> ExitCode {
    let end = arguments.start.saturating_add(count);
    let work = Work {
        next: AtomicU64::new(arguments.start),
        stop: AtomicBool::new(false),
        reports: Mutex::new(Vec::new()),
        frames: AtomicU64::new(0),
        renewed: AtomicU64::new(0),
    };
    let bar = if std::io::stderr().is_terminal() {
        ProgressBar::new(count)
    } else {
        ProgressBar::hidden()
    };
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {pos}/{len} seeds, {per_sec}, {eta} left")
    {
        bar.set_style(style);
    }
    let jobs = arguments
        .jobs
        .unwrap_or_else(|| std::thread::available_parallelism().map_or(1, usize::from))
        .max(1);
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| worker(&work, end, scenario, arguments, &bar));
        }
    });
    bar.finish_and_clear();
    let mut reports = work.reports.into_inner().unwrap_or_default();
    reports.sort_by_key(|r| r.seed);
    let played = work.next.into_inner().min(end) - arguments.start;
    tell(&reports);
    let frames = work.frames.into_inner();
    let exports = match work.renewed.into_inner() {
        0 => String::new(),
        renewed => format!(", {renewed} exports"),
    };
    println!("{played} seeds, {} failed, {frames} frames{exports}", reports.len());
    if reports.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn worker(
    work: &Work,
    end: u64,
    scenario: Option<&'static Scenario>,
    arguments: &Arguments,
    bar: &ProgressBar,
) {
    while !work.stop.load(Ordering::Relaxed) {
        let seed = work.next.fetch_add(1, Ordering::Relaxed);
        if seed >= end {
            return;
        }
        match try_seed(seed, scenario.unwrap_or_else(|| of_seed(seed)), arguments.mode(), &folder())
        {
            Ok(summary) => {
                work.frames.fetch_add(summary.frames, Ordering::Relaxed);
                work.renewed.fetch_add(summary.renewed, Ordering::Relaxed);
            }
            Err(report) => {
                if !arguments.keep_going {
                    work.stop.store(true, Ordering::Relaxed);
                }
                if let Ok(mut reports) = work.reports.lock() {
                    reports.push(*report);
                }
            }
        }
        bar.inc(1);
    }
}

/// One failure in full; of many, one line each, and how often each scenario failed.
fn tell(reports: &[Report]) {
    if let Some(first) = reports.first() {
        print!("{}", first.text());
    }
    let mut by_scenario: BTreeMap<&str, u64> = BTreeMap::new();
    for report in reports {
        *by_scenario.entry(report.scenario).or_default() += 1;
    }
    if reports.len() > 1 {
        println!();
        for report in reports {
            println!(
                "{}   # {}",
                report.replay(),
                report.what.chars().take(160).collect::<String>()
            );
        }
        for (name, count) in by_scenario {
            println!("{name}: {count}");
        }
    }
}
