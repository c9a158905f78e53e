//! Programs of other crates that `cargo xtask` starts: the simulator, the packet scripts, and the
//! replay of fuzz corpora.
//!
//! Each is an example of its crate (`crates/testing/sim/examples/sim.rs`,
//! `crates/testing/script/examples/scripts.rs`) and is built when it is asked for. So `cargo xtask`
//! itself stays small, and its checks still run when one of those crates does not compile.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use clap::Args;

use crate::packages::{has_example, packages};
use crate::run::{cargo, run};

/// Which seeds to run.
#[derive(Args, Debug, Default)]
pub struct Seeds {
    /// The seed to replay, as a failure prints it
    #[arg(required_unless_present = "seeds", conflicts_with_all = ["seeds", "start"])]
    pub seed: Option<u64>,
    /// Run this many seeds
    #[arg(long, value_name = "N")]
    pub seeds: Option<u64>,
    /// The first seed of many
    #[arg(long, value_name = "SEED", requires = "seeds")]
    pub start: Option<u64>,
    /// Play this scenario; without it, the seed says which
    #[arg(long, value_name = "NAME")]
    pub scenario: Option<String>,
    /// Threads; without it, one for each processor
    #[arg(long, value_name = "N")]
    pub jobs: Option<usize>,
    /// Go on after a failure, and tell all of them at the end
    #[arg(long)]
    pub keep_going: bool,
    /// At random instants, export every stack and go on with a new one
    #[arg(long)]
    pub export: bool,
    /// Build with optimisation, and without the checks of debug builds
    #[arg(long)]
    pub release: bool,
    /// More arguments for the simulator, after `--`
    #[arg(last = true)]
    pub more: Vec<String>,
}

impl Seeds {
    /// `count` seeds from the first on.
    pub fn many(count: u64) -> Seeds {
        Seeds { seeds: Some(count), ..Seeds::default() }
    }

    fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = self.seed.iter().map(u64::to_string).collect();
        for (name, value) in [("--seeds", self.seeds), ("--start", self.start)] {
            arguments
                .extend(value.into_iter().flat_map(|value| [name.to_owned(), value.to_string()]));
        }
        let jobs = self.jobs.map(|jobs| jobs.to_string());
        for (name, value) in [("--scenario", self.scenario.clone()), ("--jobs", jobs)] {
            arguments.extend(value.into_iter().flat_map(|value| [name.to_owned(), value]));
        }
        arguments.extend(self.keep_going.then(|| "--keep-going".to_owned()));
        arguments.extend(self.export.then(|| "--export".to_owned()));
        arguments.extend(self.more.iter().cloned());
        arguments
    }
}

/// Which scripts to run.
#[derive(Args, Debug, Default)]
pub struct Scripts {
    /// Arguments for the script runner, such as paths of scripts; none runs all of them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub arguments: Vec<String>,
}

/// How a program ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ran {
    /// With exit code 0.
    Held,
    /// With another one, or not at all.
    Failed(String),
    /// The program is not in this tree.
    Absent(String),
}

impl Ran {
    /// For somebody who asked for this program, that it is absent is an error.
    pub fn or_error(self) -> Result<bool> {
        match self {
            Ran::Held => Ok(true),
            Ran::Failed(how) => bail!(how),
            Ran::Absent(why) => bail!(why),
        }
    }
}

/// Runs the simulator.
pub fn sim(root: &Path, seeds: &Seeds) -> Result<Ran> {
    example(root, "clearway-sim", "sim", seeds.release, &seeds.arguments())
}

/// Runs packet scripts.
pub fn scripts(root: &Path, scripts: &Scripts) -> Result<Ran> {
    example(root, "clearway-script", "scripts", false, &scripts.arguments)
}

fn example(
    root: &Path,
    package: &str,
    name: &str,
    release: bool,
    arguments: &[String],
) -> Result<Ran> {
    if !packages(root)?
        .iter()
        .any(|known| known.name.as_str() == package && has_example(known, name))
    {
        return Ok(Ran::Absent(format!("{package} has no example `{name}` in this tree")));
    }
    // With the whole workspace in view cargo chooses the same features of every dependency as for
    // the tests, and so builds nothing twice.
    let mut build = cargo(root, &["build", "--quiet", "--workspace", "--example", name]);
    if release {
        build.arg("--release");
    }
    run(&mut build)?;
    let folder = if release { "release/examples" } else { "debug/examples" };
    let program = target(root)?.join(folder).join(name);
    let status = Command::new(program).current_dir(root).args(arguments).status()?;
    Ok(if status.success() { Ran::Held } else { Ran::Failed(format!("{name} failed ({status})")) })
}

/// Where cargo puts what it builds.
pub fn target(root: &Path) -> Result<PathBuf> {
    Ok(cargo_metadata::MetadataCommand::new()
        .current_dir(root)
        .no_deps()
        .exec()?
        .target_directory
        .into())
}

/// The names of the fuzz targets, in order.
pub fn fuzz_targets(root: &Path) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let Ok(entries) = fs::read_dir(root.join("fuzz/fuzz_targets")) else { return Ok(names) };
    for entry in entries {
        let path = entry?.path();
        if let (Some(stem), Some("rs")) =
            (path.file_stem(), path.extension().and_then(|ending| ending.to_str()))
        {
            names.push(stem.to_string_lossy().into_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// Whether a fuzz target has at least one file in its corpus.
pub fn has_corpus(root: &Path, target: &str) -> bool {
    fs::read_dir(root.join("fuzz/corpus").join(target))
        .is_ok_and(|mut entries| entries.next().is_some())
}

/// The packages with a test program named `fuzz_replay`.
pub fn replays(root: &Path) -> Result<Vec<String>> {
    let replaying = packages(root)?.into_iter().filter(|package| {
        package.targets.iter().any(|target| target.is_test() && target.name == "fuzz_replay")
    });
    Ok(replaying.map(|package| package.name.to_string()).collect())
}
