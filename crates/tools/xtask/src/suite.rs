//! All test programs of the workspace, several at a time: most of their tests wait for clocks and
//! peers most of their time, and cargo runs one program after the other.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cargo_metadata::Message;

use crate::packages::{packages, plain};
use crate::run::{cargo, without_our_package};
use crate::tally::{Report, Tally, reason};

/// The programs that take longest, the longest first: begun last, one of them would run alone at
/// the end.
const LONGEST: &[(&str, &str)] = &[
    ("clearway-cli", "tests/host/main.rs"),
    ("clearway-preload", "tests/preload/main.rs"),
    ("clearway-proto", "src/lib.rs"),
    ("clearway-cli", "tests/guest/main.rs"),
    ("clearway-cli", "tests/e2e/main.rs"),
    ("clearway-script", "tests/scripts.rs"),
    ("clearway-packetdrill", "tests/scripts.rs"),
    ("clearway-capi", "tests/c.rs"),
    ("clearway-cli", "tests/ecmp.rs"),
    ("clearway-cli", "tests/dpdk/main.rs"),
    ("clearway-cli", "tests/lab/main.rs"),
];

/// What is no program of its own: the examples in the documentation, which cargo runs.
const DOCUMENTATION: &str = "examples in the documentation";

/// A program that has not ended after this hangs: it is ended and counts as failed. The longest
/// takes five minutes while other work keeps both cores busy.
const PATIENCE: Duration = Duration::from_secs(20 * 60);

/// How often it is looked whether a program has ended.
const GLANCE: Duration = Duration::from_millis(20);

/// A test program.
struct Program {
    /// The package, and the file in which the program begins.
    package: String,
    file: String,
    command: Command,
}

impl Program {
    fn name(&self) -> String {
        if self.package.is_empty() {
            return self.file.clone();
        }
        format!("{} {}", self.package, self.file)
    }

    /// Where among [`LONGEST`] it stands; after all of them when it does not.
    fn place(&self) -> usize {
        LONGEST
            .iter()
            .position(|(package, file)| *package == self.package && *file == self.file)
            .unwrap_or(LONGEST.len())
    }
}

/// How a test program ended.
struct Ended {
    name: String,
    report: Report,
    /// What is wrong besides failed tests: it could not be started, died, or hung.
    broken: Option<String>,
    took: Duration,
    log: PathBuf,
}

impl Ended {
    fn held(&self) -> bool {
        self.broken.is_none() && self.report.tally.failed == 0
    }

    /// One line when all held; what the program printed when not.
    fn tell(&self) {
        let Ended { name, report, broken, took, log } = self;
        let seconds = took.as_secs_f64();
        if self.held() {
            println!("{name}: {} in {seconds:.1} s", report.tally);
            return;
        }
        let printed = fs::read(log).unwrap_or_default();
        println!("── {name} printed:\n{}", String::from_utf8_lossy(&printed).trim_end());
        let how = broken.as_deref().unwrap_or("tests failed");
        println!("── {name}: {how}; {} in {seconds:.1} s", report.tally);
    }

    /// What failed, by name, and what each said: the last lines of a run are what is looked at
    /// first, and what a program printed stands far above them.
    fn failures(&self) -> Vec<String> {
        if self.held() {
            return Vec::new();
        }
        let printed = fs::read(&self.log).unwrap_or_default();
        let printed = String::from_utf8_lossy(&printed);
        let told = |test: &String| match reason(&printed, test) {
            Some(why) => format!("{test} ({}): {why}", self.name),
            None => format!("{test} ({})", self.name),
        };
        let mut failures: Vec<String> = self.report.failed.iter().map(told).collect();
        if failures.is_empty() {
            failures.push(self.name.clone());
        }
        failures
    }
}

/// Builds all test programs and runs them, `jobs` at a time. Each runs also after another has
/// failed, so that one run shows everything that is broken.
///
/// What a program prints goes to a file in `logs`, and is shown when it failed. The second value
/// names what failed, when something did.
pub(crate) fn run(root: &Path, logs: &Path, jobs: usize) -> Result<(Tally, Option<String>)> {
    let programs = match built(root)? {
        Ok(programs) => programs,
        Err(why) => return Ok((Tally::default(), Some(why))),
    };
    fs::create_dir_all(logs).with_context(|| format!("cannot make {}", logs.display()))?;
    let count = programs.len();
    println!("{count} test programs, {jobs} at a time; what each prints is in {}", logs.display());
    let mut tally = Tally::default();
    let mut failures = Vec::new();
    let queue = Mutex::new(VecDeque::from(programs));
    let (sender, ended) = channel();
    thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            let (sender, queue) = (sender.clone(), &queue);
            scope.spawn(move || {
                loop {
                    let next = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
                    let Some(program) = next else { break };
                    // The reader below goes on until all have ended.
                    let _ = sender.send(one(program, logs));
                }
            });
        }
        drop(sender);
        for ended in ended {
            ended.tell();
            tally.add(ended.report.tally);
            // A program that died has no failed test to show.
            tally.failed += u64::from(!ended.held() && ended.report.tally.failed == 0);
            failures.extend(ended.failures());
        }
    });
    Ok((tally, (!failures.is_empty()).then(|| failures.join(", "))))
}

/// Builds the test programs, and answers with them in the order in which they are to begin, or with
/// what is wrong when they cannot be built.
fn built(root: &Path) -> Result<Result<Vec<Program>, String>> {
    let packages = packages(root)?;
    let folder_of = |manifest: &Path| manifest.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut build = cargo(
        root,
        &["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"],
    );
    let mut child =
        build.stdout(Stdio::piped()).spawn().context("cannot start `cargo test --no-run`")?;
    let mut programs = Vec::new();
    let output = child.stdout.take().context("cargo has no output")?;
    for message in Message::parse_stream(BufReader::new(output)) {
        let Message::CompilerArtifact(artifact) = message? else { continue };
        let Some(executable) = artifact.executable.filter(|_| artifact.profile.test) else {
            continue;
        };
        let manifest = plain(artifact.manifest_path.as_std_path());
        let folder = folder_of(&manifest);
        let package = packages
            .iter()
            .find(|package| plain(package.manifest_path.as_std_path()) == manifest)
            .with_context(|| format!("{} is no package's", manifest.display()))?;
        let source = plain(artifact.target.src_path.as_std_path());
        let file = source.strip_prefix(&folder).unwrap_or(&source).display().to_string();
        // As cargo starts them, apart from the words about the package, which nothing here reads
        // while it runs.
        let mut command = Command::new(executable.as_std_path());
        without_our_package(&mut command);
        command.current_dir(&folder).env("CARGO_MANIFEST_DIR", &folder);
        programs.push(Program { package: package.name.to_string(), file, command });
    }
    let status = child.wait()?;
    if !status.success() {
        return Ok(Err(format!("the test programs cannot be built ({status})")));
    }
    programs.push(Program {
        package: String::new(),
        file: DOCUMENTATION.to_owned(),
        command: cargo(root, &["test", "--workspace", "--doc", "--no-fail-fast"]),
    });
    programs.sort_by_key(Program::place);
    Ok(Ok(programs))
}

/// Runs one program to its end.
fn one(mut program: Program, logs: &Path) -> Ended {
    let name = program.name();
    let log = logs.join(format!("{}.log", name.replace(['/', ' '], "-")));
    let began = Instant::now();
    let broken = started(&mut program.command, &log).map(|child| waited(child, PATIENCE));
    let took = began.elapsed();
    let printed = fs::read(&log).unwrap_or_default();
    let report = Report::read(&String::from_utf8_lossy(&printed));
    let broken = match broken {
        Err(error) => Some(format!("{error:#}")),
        Ok(Waited::Hung) => Some(format!(
            "ended by us, since it did not end in {} s{}",
            PATIENCE.as_secs(),
            hung(&report.under_way)
        )),
        // Failed tests explain the exit code.
        Ok(Waited::Ended(status)) if !status.success() && report.tally.failed == 0 => {
            Some(format!("it died ({status}){}", hung(&report.under_way)))
        }
        Ok(Waited::Ended(_)) => None,
    };
    Ended { name, report, broken, took, log }
}

fn hung(under_way: &[String]) -> String {
    if under_way.is_empty() {
        return String::new();
    }
    format!("; under way for over a minute: {}", under_way.join(" "))
}

fn started(command: &mut Command, log: &Path) -> Result<Child> {
    let file = File::create(log).with_context(|| format!("cannot make {}", log.display()))?;
    let same = file.try_clone()?;
    command
        .env("CLEARWAY_TESTS_BUILT", "1")
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(same)
        .spawn()
        .context("cannot be started")
}

enum Waited {
    Ended(ExitStatus),
    Hung,
}

fn waited(mut child: Child, patience: Duration) -> Waited {
    let began = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Waited::Ended(status),
            Ok(None) if began.elapsed() < patience => thread::sleep(GLANCE),
            // Nobody else waits for our child, so an error here is not to be expected.
            Ok(None) | Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Waited::Hung;
            }
        }
    }
}

#[cfg(test)]
mod tests;
