//! `clearway health`: whether a host works, for scripts that decide by it.

use std::io::Write as _;
use std::time::Duration;

use anyhow::{Context as _, bail};

use crate::ctl::{Host, Place};

/// Say whether a running host works: exit code 0 when its supervisor and every worker answer in
/// time, 1 when not.
///
/// For service managers, and for scripts of BIRD and keepalived that announce an address.
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
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    if !args.watch {
        let said = look(args).context("not healthy")?;
        return Ok(writeln!(std::io::stdout(), "healthy {said}")?);
    }
    let mut before = None;
    loop {
        let now = look(args);
        if before.replace(now.is_ok()) != Some(now.is_ok()) {
            let line = match now {
                Ok(said) => format!("healthy {said}"),
                Err(error) => format!("unhealthy {error:#}"),
            };
            // A reader that is gone ends this.
            let mut out = std::io::stdout();
            writeln!(out, "{line}")?;
            out.flush()?;
        }
        std::thread::sleep(Duration::from_secs(args.every.into()));
    }
}

/// What a host that works says of itself.
fn look(args: &Args) -> anyhow::Result<String> {
    let mut host = Host::connect(&args.place)?;
    host.answers_within(Duration::from_secs(args.within.into()))?;
    // Every worker has a row here, and answers for it itself.
    let workers = host.shown("show threads")?["threads"].as_array().map_or(0, Vec::len);
    // The supervisor answers this.
    let programs = host.shown("show app")?["apps"].as_array().map_or(0, Vec::len);
    if workers == 0 {
        bail!("the host tells of no worker");
    }
    Ok(format!("workers {workers} programs {programs}"))
}
