//! `clearway health`: whether a host works and wants new connections, for scripts that decide by
//! it.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::ctl::{Host, Place};
use crate::out;

/// Exit code of a host that works and is drained.
const DRAINING: u8 = 3;

/// Say whether a running host works: exit code 0 when its supervisor and every worker answer in
/// time, 1 when not, 3 when it works and is drained (`clearway ctl drain`).
///
/// For service managers, and for scripts of BIRD and keepalived that announce an address. The first
/// word says the same: healthy, draining, drained (no connection is left), and with --watch
/// unhealthy.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:
  clearway health && echo announce
  clearway health --watch --every 2 | while read -r state rest; do …; done")]
pub(crate) struct Args {
    #[command(flatten)]
    place: Place,

    /// Look again and again, and say so in a line at the beginning and whenever it changes
    #[arg(short, long)]
    watch: bool,

    /// With --watch: seconds between two looks
    #[arg(long, value_name = "SECONDS", default_value_t = 1,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    every: u32,

    /// How long each of its answers may take, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5,
          value_parser = clap::value_parser!(u32).range(1..=3_600))]
    within: u32,

    /// End with 0 also when it is drained: for who starts a host anew that does not work
    #[arg(long, conflicts_with = "watch")]
    alive: bool,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<ExitCode> {
    if !args.watch {
        let found = look(args).context("not healthy")?;
        writeln!(out::stdout(), "{} {}", found.state, found.figures)?;
        return Ok(ExitCode::from(if args.alive { 0 } else { found.code() }));
    }
    let mut before = None;
    loop {
        let (state, more) = match look(args) {
            Ok(found) => (found.state, found.figures),
            Err(error) => ("unhealthy", format!("{error:#}")),
        };
        if before.replace(state) != Some(state) {
            let mut out = out::stdout();
            writeln!(out, "{state} {more}")?;
            out.flush()?;
        }
        std::thread::sleep(Duration::from_secs(args.every.into()));
    }
}

/// What a host that works says of itself.
struct Found {
    state: &'static str,
    figures: String,
}

impl Found {
    fn code(&self) -> u8 {
        if self.state == "healthy" { 0 } else { DRAINING }
    }
}

fn look(args: &Args) -> anyhow::Result<Found> {
    let mut host = Host::connect(&args.place)?;
    host.answers_within(Duration::from_secs(args.within.into()))?;
    // Every worker has a row here, and answers for it itself.
    let workers = host.shown("show threads")?["threads"].as_array().map_or(0, Vec::len);
    // The supervisor answers this.
    let programs = host.shown("show app")?["apps"].as_array().map_or(0, Vec::len);
    if workers == 0 {
        bail!("the host tells of no worker");
    }
    let drain = host.shown("show drain")?;
    let connections = drain["connections"].as_u64().unwrap_or(0);
    let state = match (drain["draining"] == true, connections) {
        (false, _) => "healthy",
        (true, 0) => "drained",
        (true, _) => "draining",
    };
    let figures = format!("workers {workers} programs {programs} connections {connections}");
    Ok(Found { state, figures })
}
