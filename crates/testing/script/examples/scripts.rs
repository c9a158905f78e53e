//! Runs packet scripts: `cargo xtask scripts [--kernel] [FILTER…]`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, bail};
use clap::Parser;
use clearway_script::backend::kernel;
use clearway_script::suite::{Job, Options, Outcome, find, run_all};
use clearway_script::{IpVersion, Subject};

/// Runs packet scripts against Clearway's core in virtual time, or against the kernel of this
/// machine.
#[derive(Parser, Debug)]
#[command(name = "scripts")]
struct Arguments {
    /// Scripts to run: a file, or a part of a path below tests/scripts; none runs all of them
    filters: Vec<String>,
    /// Run against the kernel of this machine, in network namespaces of their own (as root)
    #[arg(long)]
    kernel: bool,
    /// Tell everything that happens
    #[arg(short, long)]
    verbose: bool,
    /// The family to run with: ipv4, ipv6 or ipv4_mapped; all of them by default
    #[arg(long, value_name = "VERSION", value_parser = version)]
    ip_version: Vec<IpVersion>,
    /// How many scripts run at once; by default 1 for the core and 12 for the kernel, where they
    /// mostly wait
    #[arg(short, long, value_name = "N")]
    jobs: Option<usize>,
    /// Added to the peer's sequence numbers
    #[arg(long, value_name = "N", default_value_t = 0)]
    remote_shift: u32,
}

fn version(text: &str) -> Result<IpVersion, String> {
    IpVersion::of(text).ok_or("ipv4, ipv6 or ipv4_mapped".into())
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("scripts: {error:#}");
            ExitCode::from(2)
        }
    }
}

/// The folder with all scripts.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/scripts")
}

fn select(filters: &[String]) -> Result<Vec<PathBuf>> {
    let root = folder();
    let root = root.canonicalize().with_context(|| format!("{} is not there", root.display()))?;
    let all = find(&root)?;
    if filters.is_empty() {
        return Ok(all);
    }
    let mut chosen = Vec::new();
    for filter in filters {
        if Path::new(filter).is_file() {
            chosen.push(PathBuf::from(filter));
            continue;
        }
        let before = chosen.len();
        let fits = |path: &&PathBuf| {
            path.strip_prefix(&root).unwrap_or(path).to_string_lossy().contains(filter)
        };
        chosen.extend(all.iter().filter(fits).cloned());
        if chosen.len() == before {
            bail!("no script has `{filter}` in its path");
        }
    }
    chosen.sort();
    chosen.dedup();
    Ok(chosen)
}

fn run(arguments: &Arguments) -> Result<bool> {
    let subject = if arguments.kernel { Subject::Kernel } else { Subject::Core };
    if arguments.kernel {
        kernel::may_run().map_err(anyhow::Error::msg)?;
    }
    let versions = if arguments.ip_version.is_empty() {
        IpVersion::ALL.to_vec()
    } else {
        arguments.ip_version.clone()
    };
    let mut jobs = Vec::new();
    for path in select(&arguments.filters)? {
        jobs.extend(versions.iter().map(|version| Job {
            path: path.clone(),
            subject,
            version: *version,
        }));
    }
    let threads = arguments.jobs.unwrap_or(if arguments.kernel { 12 } else { 1 });
    let options = Options { verbose: arguments.verbose, remote_shift: arguments.remote_shift };
    let root = folder().canonicalize()?;
    let (done, start, count) = (AtomicUsize::new(0), Instant::now(), jobs.len());
    let outcomes = run_all(&jobs, threads, options, |job, outcome, log| {
        let done = done.fetch_add(1, Ordering::Relaxed) + 1;
        let name = job.path.strip_prefix(&root).unwrap_or(&job.path).display();
        let (word, why) = match outcome {
            Outcome::Held => ("held", String::new()),
            Outcome::Skipped(why) => ("skip", format!(": {why}")),
            Outcome::Failed(why) => ("FAIL", format!("\n  {why}")),
        };
        println!("{done:>4}/{count} {word}  {:<11} {name}{why}", job.version.name());
        if !log.is_empty() {
            println!("{}", log.trim_end());
        }
    });
    let of =
        |wanted: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| wanted(outcome)).count();
    let failed = of(|outcome| matches!(outcome, Outcome::Failed(_)));
    let (held, skipped) = (
        of(|outcome| *outcome == Outcome::Held),
        of(|outcome| matches!(outcome, Outcome::Skipped(_))),
    );
    let name = if arguments.kernel { "the kernel" } else { "the core" };
    println!(
        "{held} held, {failed} failed, {skipped} skipped against {name} in {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(failed == 0)
}
