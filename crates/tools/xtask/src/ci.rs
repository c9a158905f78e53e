//! `cargo xtask ci`: the gates, one after the other; what may, beside the tests.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;

use self::beside::Beside;
use self::step::{Outcome, Step};
use crate::finding::{self, Finding};
use crate::packages::BESIDE;
use crate::run::{cargo, run, run_tests};
use crate::tally::Tally;
use crate::{book, built, cost, deny, drawing, layers, order, programs, rfc, suite, tidy};

/// Which gates to run, and how.
#[derive(Args, Debug, Default)]
pub struct Options {
    /// Run the remaining gates after one has failed
    #[arg(long)]
    pub keep_going: bool,
    /// Run only this gate (may be repeated)
    #[arg(long, value_name = "STEP")]
    pub only: Vec<String>,
    /// Leave this gate out (may be repeated)
    #[arg(long, value_name = "STEP")]
    pub skip: Vec<String>,
}

/// The gate beside which others run.
const TESTS: &str = "tests";

/// The gates in the order in which they run: the quick ones first.
const STEPS: &[Step] = &[
    Step { name: "fmt", what: "the code is formatted", run: fmt },
    Step { name: "clippy", what: "no lint speaks up", run: clippy },
    Step {
        name: "layers",
        what: "every arrow between crates points down, no circle where there is to be none",
        run: layers,
    },
    Step { name: "tidy", what: "the rules of the project", run: tidy },
    Step { name: "rfc", what: "docs/rfc.md names code and tests that exist", run: rfc },
    Step { name: "book", what: "blocks of code of the pages", run: pages },
    Step {
        name: "deny",
        what: "licences, duplicates, sources and advisories of other people's crates",
        run: denied,
    },
    Step { name: TESTS, what: "all test programs, several at a time", run: tests },
    Step { name: "loom", what: "every order of the handshakes in shared memory", run: loom },
    Step {
        name: "cost",
        what: "instructions per request stay below their bounds",
        run: instructions,
    },
    Step { name: "goodput", what: "what share of simulated paths TCP fills", run: goodput },
    Step { name: "scripts", what: "the packet scripts against the core", run: scripts },
    Step { name: "sim", what: "the simulator, 200 seeds", run: sim },
    Step { name: "fuzz", what: "the corpora of the fuzz targets replay", run: fuzz },
    Step { name: "docs", what: "the documentation builds without a warning", run: docs },
];

fn fmt(root: &Path) -> Result<Outcome> {
    run(&mut cargo(root, &["fmt", "--all", "--check"]))?;
    for beside in BESIDE {
        let manifest = format!("{beside}/Cargo.toml");
        if root.join(&manifest).is_file() {
            run(&mut cargo(root, &["fmt", "--manifest-path", &manifest, "--check"]))?;
        }
    }
    Ok(Outcome::Holds(String::new()))
}

fn clippy(root: &Path) -> Result<Outcome> {
    run(&mut cargo(root, &["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    Ok(Outcome::Holds(String::new()))
}

fn layers(root: &Path) -> Result<Outcome> {
    Ok(found(&mut order_of_all(root)?, String::new()))
}

/// What is wrong with the order of crates, of modules, and with the drawings of it.
pub(crate) fn order_of_all(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = layers::layers(root)?;
    findings.extend(order::check(root)?);
    findings.extend(drawing::check(root)?);
    Ok(findings)
}

fn tidy(root: &Path) -> Result<Outcome> {
    let mut report = tidy::tidy(root)?;
    report.tell();
    Ok(found(&mut report.findings, format!("{} files", report.files)))
}

fn rfc(root: &Path) -> Result<Outcome> {
    let mut report = rfc::rfc(root)?;
    report.tell();
    let rows: usize = report.sections.iter().map(|section| section.done).sum();
    Ok(found(&mut report.findings, format!("{rows} clauses with function and test")))
}

fn pages(root: &Path) -> Result<Outcome> {
    let mut report = book::book(root)?;
    let blocks: usize = report.blocks.values().sum();
    let is_typed = |tag: &str| tag.split(' ').any(|word| word == "run");
    let typed: usize =
        report.blocks.iter().filter(|(tag, _)| is_typed(tag)).map(|(_, count)| count).sum();
    let note = match built::built(root)? {
        built::Built::Checked(links, findings) => {
            report.findings.extend(findings);
            format!("{blocks} blocks, {typed} of them typed, {links} links of the book")
        }
        built::Built::Absent => {
            format!("{blocks} blocks, {typed} of them typed; mdBook is not here to build the book")
        }
    };
    Ok(found(&mut report.findings, note))
}

fn denied(root: &Path) -> Result<Outcome> {
    Ok(match deny::deny(root)? {
        deny::Checked::Holds(note) => Outcome::Holds(note),
        deny::Checked::Refused(why) => Outcome::Refused(why),
        deny::Checked::Absent(why) => Outcome::Absent(why),
    })
}

fn found(findings: &mut [Finding], note: String) -> Outcome {
    if finding::print(findings) {
        Outcome::Holds(note)
    } else {
        Outcome::Refused(format!("{} findings", findings.len()))
    }
}

fn tests(root: &Path) -> Result<Outcome> {
    for build in BUILDS {
        run(&mut cargo(root, &build.split_whitespace().collect::<Vec<_>>()))?;
    }
    // One more than processors, since most wait most of the time.
    let jobs = thread::available_parallelism().map_or(2, |processors| processors.get() + 1);
    let (tally, failure) = suite::run(root, &own_target(root, "tests"), jobs)?;
    Ok(Outcome::Tested(tally, failure))
}

/// What tests use beside their own programs. A test that is run by itself builds what it needs of
/// it; here all of it is built before, with the whole workspace in view, so that cargo chooses the
/// same features of every dependency each time: a build of one package by itself chooses others,
/// and half of all crates are built once more.
///
/// The library with the stack in it is not to be linked with DPDK, which is a feature of others, and
/// neither is the one for C, which its tests build themselves.
const BUILDS: [&str; 2] = [
    "build --workspace --exclude clearway-inproc --exclude clearway-capi --lib --bin clearway \
     --bin clearway-trap --example bytes --example https --example tls --example services \
     --example proxy --example dns --example signals --example cores",
    "build --workspace --exclude clearway-capi --exclude clearway --exclude clearway-packetdrill \
     --exclude clearway-fuzz --no-default-features --lib --example sim",
];

/// A target folder for this gate alone, so that no build waits for another or throws it away.
fn own_target(root: &Path, name: &str) -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.join("target"), |dir| root.join(dir));
    target.join(name)
}

/// The simulator's longest tests compute for minutes and wait for nothing, while most of the others
/// wait.
///
/// Built with the whole workspace in view and where the tests are, of which it then needs nothing
/// but its own program: the core and the simulator are compiled once. Beside the tests it waits for
/// their builds, and does not keep them waiting for long.
fn goodput(root: &Path) -> Result<Outcome> {
    let mut command = cargo(root, &["test", "--workspace", "--test", "goodput"]);
    let (tally, failure) = run_tests(&mut command)?;
    let failure = failure.or_else(|| (tally.passed == 0).then(|| "there are no tests".to_owned()));
    Ok(Outcome::Tested(tally, failure))
}

/// The models need another build of the same code, with loom's atomics in place of the processor's.
fn loom(root: &Path) -> Result<Outcome> {
    let mut command =
        cargo(root, &["test", "--package", "clearway-shm", "--release", "--lib", "loom"]);
    command.env("RUSTFLAGS", "--cfg loom").env("CARGO_TARGET_DIR", own_target(root, "loom"));
    // The models take three seconds: optimising them across crates would take a minute.
    command
        .env("CARGO_PROFILE_RELEASE_LTO", "off")
        .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16");
    let (tally, failure) = run_tests(&mut command)?;
    let failure = failure.or_else(|| (tally.passed == 0).then(|| "there are no models".to_owned()));
    Ok(Outcome::Tested(tally, failure))
}

fn scripts(root: &Path) -> Result<Outcome> {
    programs::scripts(root, &programs::Scripts::default()).map(ran)
}

fn sim(root: &Path) -> Result<Outcome> {
    programs::sim(root, &programs::Seeds::many(200)).map(ran)
}

fn ran(ran: programs::Ran) -> Outcome {
    match ran {
        programs::Ran::Held => Outcome::Holds(String::new()),
        programs::Ran::Failed(how) => Outcome::Refused(how),
        programs::Ran::Absent(why) => Outcome::Absent(why),
    }
}

/// Every fuzz target has a corpus, and the test programs named `fuzz_replay` feed the corpora to
/// the code under test.
///
/// Those programs run among the tests, too, which is where their tests are counted.
fn fuzz(root: &Path) -> Result<Outcome> {
    let targets = programs::fuzz_targets(root)?;
    let replays = programs::replays(root)?;
    if targets.is_empty() && replays.is_empty() {
        return Ok(Outcome::Absent("there are no fuzz targets in this tree".to_owned()));
    }
    if let Some(bare) = targets.iter().find(|target| !programs::has_corpus(root, target)) {
        return Ok(Outcome::Refused(format!(
            "fuzz target `{bare}` has no corpus: put files into fuzz/corpus/{bare}"
        )));
    }
    if replays.is_empty() {
        return Ok(Outcome::Refused(
            "no crate has a test program tests/fuzz_replay.rs that replays fuzz/corpus".to_owned(),
        ));
    }
    run(&mut cargo(root, &["test", "--quiet", "--workspace", "--test", "fuzz_replay"]))?;
    Ok(Outcome::Holds(format!("{} targets", targets.len())))
}

fn instructions(root: &Path) -> Result<Outcome> {
    let held = cost::cost(root, &cost::Options::default())?;
    Ok(if held {
        Outcome::Holds(String::new())
    } else {
        Outcome::Refused("a request costs too much".to_owned())
    })
}

fn docs(root: &Path) -> Result<Outcome> {
    run(cargo(root, &["doc", "--workspace", "--no-deps", "--quiet"])
        .env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Holds(String::new()))
}

/// One line of the table at the end.
struct Line {
    name: &'static str,
    word: &'static str,
    took: Duration,
    note: String,
}

/// Runs the gates on the workspace at `root`, prints a table, and last of all the line
/// `N passed, N failed`.
///
/// The line adds up the tests of all test programs. A gate that fails and is not a failed test
/// counts as one failure, so that the line never says `0 failed` when something was refused. The
/// answer is whether everything held.
pub fn ci(root: &Path, options: &Options) -> Result<bool> {
    let started = Instant::now();
    let Ran { lines, total, held } = gates(root, &chosen(STEPS, options)?, options.keep_going);
    println!();
    for Line { name, word, took, note } in &lines {
        println!("{name:<8} {word:<8} {:>8}  {note}", seconds(*took));
    }
    println!(
        "{:<8} {:<8} {:>8}",
        "all",
        if held { "ok" } else { "FAILED" },
        seconds(started.elapsed())
    );
    println!("{total}");
    Ok(held)
}

/// How the gates ended.
struct Ran {
    lines: Vec<Line>,
    total: Tally,
    held: bool,
}

fn gates(root: &Path, steps: &[&Step], keep_going: bool) -> Ran {
    let mut total = Tally::default();
    let mut lines: Vec<Line> = Vec::new();
    let mut held = true;
    let mut beside = None;
    for (index, step) in steps.iter().enumerate() {
        if !held && !keep_going {
            lines.push(Line {
                name: step.name,
                word: "not run",
                took: Duration::ZERO,
                note: String::new(),
            });
            continue;
        }
        println!("── {} of {}: {} ({})", index + 1, steps.len(), step.name, step.what);
        if step.name == TESTS && keep_going {
            beside = Some(Beside::begin(root, &steps[index + 1..]));
        }
        let began = Instant::now();
        let (outcome, took) = match beside.as_mut().and_then(|beside| beside.ended(step.name)) {
            Some(ended) => ended,
            None => ((step.run)(root), began.elapsed()),
        };
        let (word, note) = judge(outcome, &mut total);
        held &= word != "FAILED";
        println!("── {} {word} in {}{}", step.name, seconds(took), comma(&note));
        lines.push(Line { name: step.name, word, took, note });
    }
    Ran { lines, total, held }
}

/// Turns how a gate ended into the word for the table and a remark, and adds to the count of tests.
fn judge(outcome: Result<Outcome>, total: &mut Tally) -> (&'static str, String) {
    match outcome {
        Ok(Outcome::Holds(note)) => ("ok", note),
        Ok(Outcome::Absent(why)) => ("absent", why),
        Ok(Outcome::Tested(tally, None)) => {
            total.add(tally);
            ("ok", tally.to_string())
        }
        Ok(Outcome::Tested(tally, Some(failure))) => {
            total.add(tally);
            // A program that did not compile, or died, has no failed test to show.
            total.failed += u64::from(tally.failed == 0);
            ("FAILED", format!("{tally}; {failure}"))
        }
        Ok(Outcome::Refused(note)) => {
            total.failed += 1;
            ("FAILED", note)
        }
        Err(error) => {
            total.failed += 1;
            ("FAILED", format!("{error:#}"))
        }
    }
}

fn chosen<'a>(all: &'a [Step], options: &Options) -> Result<Vec<&'a Step>> {
    for name in options.only.iter().chain(&options.skip) {
        if !all.iter().any(|step| step.name == name) {
            let names: Vec<_> = all.iter().map(|step| step.name).collect();
            bail!("there is no gate named `{name}`; the gates are: {}", names.join(" "));
        }
    }
    let wanted = |step: &&'a Step| {
        let named = |list: &[String]| list.iter().any(|name| name == step.name);
        (options.only.is_empty() || named(&options.only)) && !named(&options.skip)
    };
    Ok(all.iter().filter(wanted).collect())
}

fn seconds(took: Duration) -> String {
    format!("{:.1} s", took.as_secs_f64())
}

fn comma(note: &str) -> String {
    if note.is_empty() { String::new() } else { format!(": {note}") }
}

mod beside;
mod step;
#[cfg(test)]
mod tests;
