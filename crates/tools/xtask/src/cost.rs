//! `cargo xtask cost`: instructions per request and per short connection on the server's side,
//! counted by callgrind, held against `crates/tools/cost/bounds.txt`.
//!
//! The count repeats exactly for the same compiler and sources, so it may stand in a gate, which a
//! time may not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::programs;
use crate::run::cargo;

/// What to measure.
#[derive(Args, Debug, Default)]
pub struct Options {
    /// Weigh a million connections, too: resident bytes half-open and idle
    #[arg(long)]
    pub memory: bool,
    /// Connections for --memory
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    pub count: u32,
}

/// One case: its name in the bounds file, and the arguments of the program.
struct Case {
    name: &'static str,
    /// What is counted for each connection in each round: a request, a whole short connection, or
    /// the segments of a stream.
    what: &'static str,
    connections: u32,
    more: &'static [&'static str],
}

/// Segments of a round of `clearway-cost bulk`.
const SEGMENTS: u64 = 64;

impl Case {
    /// How many of what is counted.
    fn each(&self) -> u64 {
        if self.what == "bulk" { SEGMENTS } else { 1 }
    }
}

const CASES: &[Case] = &[
    Case { name: "v4-1", what: "request", connections: 1, more: &[] },
    Case { name: "v4-128", what: "request", connections: 128, more: &[] },
    Case { name: "v4-128-offload", what: "request", connections: 128, more: &["--offload"] },
    Case { name: "v6-128", what: "request", connections: 128, more: &["--v6"] },
    Case { name: "v4-1024", what: "request", connections: 1024, more: &[] },
    Case { name: "v4-4096", what: "request", connections: 4096, more: &[] },
    Case { name: "v4-short", what: "short", connections: 64, more: &[] },
    Case { name: "v4-short-reset", what: "short", connections: 64, more: &["--reset"] },
    Case { name: "v6-short", what: "short", connections: 64, more: &["--v6"] },
    // What loss recovery costs where it is busy all the time, for each segment that is new.
    Case { name: "bulk", what: "bulk", connections: 1, more: &[] },
    Case { name: "bulk-lost-1-in-50", what: "bulk", connections: 1, more: &["--one-in", "50"] },
];

/// Measures every case; false when one is beyond its bound.
pub fn cost(root: &Path, options: &Options) -> Result<bool> {
    let bounds = bounds(root)?;
    let program = build(root)?;
    let mut held = true;
    println!("{:<18} {:>12} {:>8} {:>14}", "case", "instructions", "bound", "allocations");
    for case in CASES {
        let measured = instructions(&program, case)?;
        let bound = *bounds
            .get(case.name)
            .with_context(|| format!("crates/tools/cost/bounds.txt has no line `{}`", case.name))?;
        let allocations = allocations(&program, case)?;
        let word = if measured > bound || allocations > 0 { "  TOO MUCH" } else { "" };
        held &= word.is_empty();
        println!("{:<18} {measured:>12} {bound:>8} {allocations:>14}{word}", case.name);
    }
    if options.memory {
        for life in ["half-open", "idle"] {
            print!(
                "{}",
                output(Command::new(&program).args([
                    "memory",
                    life,
                    "--count",
                    &options.count.to_string()
                ]))?
                .0
            );
        }
    }
    Ok(held)
}

fn bounds(root: &Path) -> Result<BTreeMap<String, u64>> {
    let path = root.join("crates/tools/cost/bounds.txt");
    let text = fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))?;
    let mut bounds = BTreeMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let Some((name, bound)) = line.split_once(' ') else {
            bail!("{}:{}: expected NAME INSTRUCTIONS", path.display(), number + 1)
        };
        let bound = bound
            .trim()
            .parse()
            .with_context(|| format!("{}:{}: not a number", path.display(), number + 1))?;
        bounds.insert(name.to_owned(), bound);
    }
    Ok(bounds)
}

fn build(root: &Path) -> Result<std::path::PathBuf> {
    crate::run::run(&mut cargo(
        root,
        &["build", "--release", "--quiet", "--package", "clearway-cost"],
    ))?;
    Ok(programs::target(root)?.join("release/clearway-cost"))
}

// The handshakes and the warming up are in both runs, so the difference is that of the requests
// alone.
fn instructions(program: &Path, case: &Case) -> Result<u64> {
    let (few, many) = (20, 60);
    let less = collected(program, case, few)?;
    let more = collected(program, case, many)?;
    Ok((more - less) / ((many - few) * u64::from(case.connections) * case.each()))
}

fn collected(program: &Path, case: &Case, rounds: u64) -> Result<u64> {
    let mut command = Command::new("valgrind");
    command
        .args([
            "--tool=callgrind",
            "--toggle-collect=clearway_cost::*::server_turn*",
            "--callgrind-out-file=/dev/null",
        ])
        .arg(program);
    let (_, errors) = output(arguments(&mut command, case, rounds))?;
    let line = errors
        .lines()
        .find(|line| line.contains("Collected :"))
        .context("callgrind printed no `Collected` line")?;
    let number = line.rsplit(' ').next().unwrap_or_default();
    let collected = number.parse().with_context(|| format!("not a number: {line}"))?;
    ensure!(collected > 0, "callgrind counted nothing: is server_turn inlined?");
    Ok(collected)
}

fn allocations(program: &Path, case: &Case) -> Result<u64> {
    let (text, _) = output(arguments(&mut Command::new(program), case, 20))?;
    let (_, rest) =
        text.split_once("\"allocations\":").context("clearway-cost printed no allocations")?;
    let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
    Ok(digits.parse()?)
}

fn arguments<'a>(command: &'a mut Command, case: &Case, rounds: u64) -> &'a mut Command {
    command.arg(case.what).args([
        "--connections",
        &case.connections.to_string(),
        "--rounds",
        &rounds.to_string(),
    ]);
    command.args(case.more)
}

fn output(command: &mut Command) -> Result<(String, String)> {
    let output = command
        .output()
        .with_context(|| format!("starting {command:?}; `make setup` installs what is missing"))?;
    let (text, errors) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{command:?} failed ({}):\n{errors}", output.status);
    Ok((text.into_owned(), errors.into_owned()))
}
