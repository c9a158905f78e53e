//! Many scripts: finds them, runs each in a world of its own, several at once.

use std::fmt::Write;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use crate::ast::Script;
use crate::backend::kernel::Kernel;
use crate::backend::stack::Core;
use crate::backend::{Backend, Net};
use crate::run::{Failure, Runner};
use crate::settings::{IpVersion, Subject};

/// How a script ended.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// Everything came true.
    Held,
    /// It is not for this stack or this family, and why.
    Skipped(String),
    /// It did not, with the place and the reason.
    Failed(String),
}

/// One run of a script.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its file.
    pub path: PathBuf,
    /// Which stack.
    pub subject: Subject,
    /// Which family.
    pub version: IpVersion,
}

/// How to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Tell everything that happens.
    pub verbose: bool,
    /// Added to the peer's sequence numbers, so that they wrap inside of every script when it lies
    /// close to 2^32.
    pub remote_shift: u32,
}

/// How often a script may fail in real time before that counts. A busy machine is late everywhere:
/// in sending, in answering, in between two packets that belong together. What a stack does wrong,
/// it does wrong each time.
const ATTEMPTS: u32 = 4;

/// All scripts below a folder, in order.
pub fn find(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "pkt") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Runs one script and says how it ended, and what happened if that was asked for.
pub fn run(job: &Job, options: Options) -> (Outcome, String) {
    let name = job.path.display();
    let text = match fs::read_to_string(&job.path) {
        Ok(text) => text,
        Err(error) => return (Outcome::Failed(format!("{name}: {error}")), String::new()),
    };
    let script = match crate::parse(&text) {
        Ok(script) => script,
        Err(error) => {
            return (
                Outcome::Failed(format!("{name}:{}: {}", error.pos, error.what)),
                String::new(),
            );
        }
    };
    if let Some(why) = script.settings.skips(job.subject, job.version) {
        return (Outcome::Skipped(why), String::new());
    }
    let mut log = String::new();
    for attempt in 1..=ATTEMPTS {
        let (result, told) = attempt_once(&script, job, options);
        log.push_str(&told);
        match result {
            Ok(()) => return (Outcome::Held, log),
            Err(failure)
                if job.subject == Subject::Kernel
                    && attempt < if failure.late { ATTEMPTS } else { 2 } =>
            {
                let _ =
                    writeln!(log, "once more, because it failed in real time: {}", failure.what);
            }
            Err(failure) => {
                return (Outcome::Failed(format!("{name}:{}: {}", failure.pos, failure.what)), log);
            }
        }
    }
    (Outcome::Failed(format!("{name}: no attempt was made")), log)
}

fn attempt_once(script: &Script, job: &Job, options: Options) -> (Result<(), Failure>, String) {
    let net = Net::new(job.version, &script.settings);
    match job.subject {
        Subject::Core => {
            let mut core = Core::new(net, script);
            drive(script, net, &mut core, options)
        }
        // The kernel's namespace is its thread's, and ends with it.
        Subject::Kernel => thread::scope(|scope| {
            let run = scope.spawn(|| match Kernel::new(net) {
                Ok(mut kernel) => {
                    kernel.begin();
                    drive(script, net, &mut kernel, options)
                }
                Err(what) => {
                    (Err(Failure { pos: Default::default(), what, late: false }), String::new())
                }
            });
            run.join().unwrap_or_else(|_| {
                (
                    Err(Failure {
                        pos: Default::default(),
                        what: "the runner panicked".into(),
                        late: false,
                    }),
                    String::new(),
                )
            })
        }),
    }
}

fn drive(
    script: &Script,
    net: Net,
    backend: &mut dyn Backend,
    options: Options,
) -> (Result<(), Failure>, String) {
    let mut runner = Runner::new(script, net, backend, options.remote_shift);
    if options.verbose {
        runner = runner.with_log();
    }
    let result = runner.run();
    (result, runner.take_log())
}

/// Runs jobs on so many threads; `tell` hears of each as it ends.
pub fn run_all(
    jobs: &[Job],
    threads: usize,
    options: Options,
    tell: impl Fn(&Job, &Outcome, &str) + Sync,
) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(vec![None; jobs.len()]);
    thread::scope(|scope| {
        for _ in 0..threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(job) = jobs.get(index) else { return };
                    let (outcome, log) = run(job, options);
                    tell(job, &outcome, &log);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes[index] = Some(outcome);
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().unwrap_or_default();
    outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_or(Outcome::Failed("the runner panicked".into())))
        .collect()
}
