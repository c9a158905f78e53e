//! `clearway nstat`: counters of a host by the names of Linux, as nstat(8) shows the kernel's.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use glob::{MatchOptions, Pattern};
use serde_json::{Map, Value, json};

use self::history::History;
use crate::ctl::{Host, Place};
use crate::error::WrongUse;
use crate::out;

mod history;

/// Show counters of a running host by the names of Linux, as nstat(8) shows the kernel's.
///
/// Without options: what was counted since it was asked last, which it keeps in a file. Counters
/// that the host does not have are not shown.
#[derive(clap::Args, Debug)]
#[command(after_help = "Environment:
  CLEARWAY_NSTAT_HISTORY  the file that keeps what was shown last [default: beside the host's \
control socket, ending in .nstat.u and the user's number]

Examples:
  clearway nstat
  clearway nstat -as 'TcpExt*' tcpretranssegs
  clearway nstat -t 10 -z --json 'Tcp*'")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// All that was counted since the host began
    #[arg(short = 'a', long = "ignore")]
    absolute: bool,

    /// Show also counters at which nothing happened
    #[arg(short, long)]
    zeros: bool,

    /// Do not note what is shown as seen
    #[arg(short = 's', long)]
    noupdate: bool,

    /// Show nothing, and note all as seen
    #[arg(short, long)]
    nooutput: bool,

    /// Forget what was seen before
    #[arg(short, long)]
    reset: bool,

    /// Look twice, so many seconds apart, and show the difference with its rate a second
    #[arg(short = 't', long, value_name = "SECONDS",
          value_parser = clap::value_parser!(u32).range(1..=86_400))]
    interval: Option<u32>,

    /// As JSON
    #[arg(short, long)]
    json: bool,

    /// JSON in several lines
    #[arg(short, long)]
    pretty: bool,

    /// Which counters, as patterns of a shell; capitals do not matter
    #[arg(value_name = "PATTERN")]
    patterns: Vec<String>,
}

/// What a host has counted, in the order of nstat(8).
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sample {
    /// The time at which the host began: numbers of another one are no beginning for these.
    started: u64,
    counters: Vec<(String, u64)>,
}

impl Sample {
    fn of(host: &mut Host) -> anyhow::Result<Sample> {
        let shown = host.shown("show nstat")?;
        let started = shown["started"].as_u64().context("the host does not say when it began")?;
        let order = shown["order"].as_array().context("the host's answer has no counters")?;
        let counter = |name: &Value| {
            let name = name.as_str()?;
            Some((name.to_owned(), shown["nstat"][name].as_u64()?))
        };
        Ok(Sample { started, counters: order.iter().filter_map(counter).collect() })
    }

    /// What was counted since an earlier sample of the same host.
    fn since(&self, earlier: &Sample) -> Vec<(String, u64)> {
        let before = |name: &str| earlier.counters.iter().find(|(known, _)| known == name);
        let less = |(name, now): &(String, u64)| {
            let before = before(name).map_or(0, |(_, count)| *count);
            // A counter only grows; one that is lower than it was is none of that host.
            (name.clone(), now.checked_sub(before).unwrap_or(*now))
        };
        self.counters.iter().map(less).collect()
    }
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let patterns = patterns(&args.patterns)?;
    let mut host = Host::connect(&args.place)?;
    let mut now = Sample::of(&mut host)?;
    let mut rows = now.counters.clone();
    let mut seconds = None;
    let mut history = None;
    if let Some(interval) = args.interval {
        let begun = Instant::now();
        std::thread::sleep(Duration::from_secs(interval.into()));
        let later = Sample::of(&mut host)?;
        seconds = Some(begun.elapsed().as_secs_f64());
        rows = later.since(&now);
        now = later;
    }
    // Who only looks needs no file.
    if !(args.noupdate && (args.absolute || args.interval.is_some())) {
        let mut file = History::open(&history_path(&args.place))?;
        if args.reset {
            file.forget()?;
        }
        if !args.absolute && args.interval.is_none() {
            if let Some(earlier) = file.read(now.started)? {
                rows = now.since(&earlier);
            }
        }
        history = Some(file);
    }
    if !args.nooutput {
        rows.retain(|(name, count)| (args.zeros || *count > 0) && fits(&patterns, name));
        let text = if args.json || args.pretty {
            in_json(&rows, args.pretty)
        } else {
            in_lines(&rows, seconds)
        };
        out::all(text)?;
    }
    match history {
        Some(mut file) if !args.noupdate => file.write(&now),
        _ => Ok(()),
    }
}

fn patterns(given: &[String]) -> anyhow::Result<Vec<Pattern>> {
    let pattern = |text: &String| {
        let pattern = Pattern::new(text);
        pattern.map_err(|error| WrongUse(format!("`{text}` is no pattern: {error}")).into())
    };
    given.iter().map(pattern).collect()
}

fn fits(patterns: &[Pattern], name: &str) -> bool {
    let options = MatchOptions { case_sensitive: false, ..MatchOptions::new() };
    patterns.is_empty() || patterns.iter().any(|pattern| pattern.matches_with(name, options))
}

/// The lines of nstat(8). The third column is a rate, where there was a time to divide by.
fn in_lines(rows: &[(String, u64)], seconds: Option<f64>) -> String {
    let rate = |count: u64| seconds.map_or(0.0, |seconds| count as f64 / seconds);
    let line =
        |(name, count): &(String, u64)| format!("{name:<32}{count:<16}{:6.1}\n", rate(*count));
    std::iter::once("#kernel\n".to_owned()).chain(rows.iter().map(line)).collect()
}

fn in_json(rows: &[(String, u64)], pretty: bool) -> String {
    let counters: Map<String, Value> =
        rows.iter().map(|(name, count)| (name.clone(), (*count).into())).collect();
    let whole = json!({ "kernel": counters });
    if pretty { format!("{whole:#}\n") } else { format!("{whole}\n") }
}

/// Where what was shown is kept.
fn history_path(place: &Place) -> PathBuf {
    std::env::var_os("CLEARWAY_NSTAT_HISTORY").map_or_else(
        || place.path().with_extension(format!("nstat.u{}", nix::unistd::getuid())),
        PathBuf::from,
    )
}

#[cfg(test)]
mod tests;
