//! `clearway lab`: systems measured side by side.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, bail};
use clearway_engine::Cores;
use clearway_lab::{External, Facts, Options, Report, Scenario, Watch, compare, html, text};
use indicatif::{ProgressBar, ProgressStyle};
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use crate::error::WrongUse;
use crate::figures;

/// Measure Clearway, the kernel and other stacks side by side, with tables and plots
///
/// The systems of a scenario are measured in turn, several rounds, and the distance between the two
/// cores is noted each time. See docs/lab.md.
///
/// Examples:
///   clearway lab --list
///   clearway lab pingpong --quick
///   clearway lab http --rounds 5 --seconds 3 --out today
///   clearway lab pingpong --systems clearway,kernel --points 64,128 --server other=10.0.0.9:10000
///   clearway lab compare yesterday/http.json today/http.json --fail-below 0.9
///   clearway lab show today/http.json --reference lwip
#[derive(clap::Args, Debug)]
#[command(verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    task: Option<Task>,

    #[command(flatten)]
    run: RunArgs,
}

#[derive(clap::Subcommand, Debug)]
enum Task {
    /// Say what became better and worse between two runs of one scenario
    Compare(CompareArgs),
    /// Show the table of a run again, and write its page again
    Show(ShowArgs),
}

#[derive(clap::Args, Debug)]
struct RunArgs {
    /// What to measure: a scenario of --list, or all
    #[arg(value_name = "SCENARIO", required_unless_present = "list")]
    scenario: Option<String>,

    /// Say which scenarios there are, who is measured, and what each needs
    #[arg(long)]
    list: bool,

    /// How often each system is measured at each point [default: 3, or 1 with --quick]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u32).range(1..=1_000))]
    rounds: Option<u32>,

    /// How long each measurement counts [default: 2, or 0.5 with --quick]
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    seconds: Option<Duration>,

    /// A look: few points, one short round
    #[arg(long)]
    quick: bool,

    /// Cores of the server's side and of the client's, such as 0/1 or 0-3/4-7 [default: the first
    /// two that there are]
    #[arg(long, value_name = "SERVER/CLIENT")]
    cores: Option<Sides>,

    /// Do without huge pages also when enough are free
    #[arg(long)]
    no_huge_pages: bool,

    /// Measure these systems only
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    systems: Vec<String>,

    /// Measure at these points only, also those that --quick leaves out
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    points: Vec<String>,

    /// Compare the others with this system [default: what --list says]
    #[arg(long, value_name = "SYSTEM")]
    reference: Option<String>,

    /// A server that is running somewhere stands in the table too: one that answers as
    /// `clearway bench server` does; may be repeated
    #[arg(long = "server", value_name = "NAME=ADDR:PORT")]
    servers: Vec<External>,

    /// The folder for JSON and HTML [default: lab-SCENARIO-DATE]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,

    /// The clearway that is measured [default: this one]
    #[arg(long, value_name = "FILE")]
    program: Option<PathBuf>,

    /// Where the servers of other stacks are, which `make baselines` builds [default:
    /// target/baselines]
    #[arg(long, value_name = "DIR")]
    baselines: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct CompareArgs {
    /// JSON of the run before
    before: PathBuf,

    /// JSON of the run after
    after: PathBuf,

    /// Print JSON
    #[arg(long)]
    json: bool,

    /// Exit with 1 when a main figure of Clearway's is worse than so much of what it was: 0.9 lets
    /// it lose a tenth
    #[arg(long, value_name = "RATIO", value_parser = least)]
    fail_below: Option<f64>,

    /// For --fail-below, take the ratios to the reference, which do not know how fast the machine
    /// was that day
    #[arg(long, requires = "fail_below")]
    relative: bool,
}

#[derive(clap::Args, Debug)]
struct ShowArgs {
    /// JSON of a run
    file: PathBuf,

    /// Compare the others with this system
    #[arg(long, value_name = "SYSTEM")]
    reference: Option<String>,

    /// Write the page to this file
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,

    /// Write the main plot into this folder, as SCENARIO-light.svg and SCENARIO-dark.svg
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
}

/// Cores of the server's side and of the client's.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Sides(Vec<usize>, Vec<usize>);

impl std::str::FromStr for Sides {
    type Err = String;

    fn from_str(text: &str) -> Result<Sides, String> {
        let (server, client) = text.split_once('/').ok_or_else(|| {
            format!("`{text}` names one side: write the cores of both, such as 0/1")
        })?;
        let list = |text: &str| {
            text.parse::<Cores>()
                .map(|cores| cores.list().to_vec())
                .map_err(|error| error.to_string())
        };
        Ok(Sides(list(server)?, list(client)?))
    }
}

fn positive(text: &str) -> Result<Duration, String> {
    let time = figures::seconds(text)?;
    if time < Duration::from_millis(100) {
        Err("shorter than 0.1 seconds is no measurement".into())
    } else {
        Ok(time)
    }
}

fn least(text: &str) -> Result<f64, String> {
    let wrong = || format!("`{text}` is no ratio: write a number above 0, such as 0.9");
    text.parse().ok().filter(|ratio: &f64| ratio.is_finite() && *ratio > 0.0).ok_or_else(wrong)
}

/// What comes before each measurement counts.
const WARMUP: Duration = Duration::from_millis(300);

/// Runs the command.
pub(crate) fn run(args: Args) -> anyhow::Result<()> {
    match args.task {
        Some(Task::Compare(args)) => compare_runs(&args),
        Some(Task::Show(args)) => show(&args),
        None => measure(args.run),
    }
}

fn measure(args: RunArgs) -> anyhow::Result<()> {
    let options = args.options()?;
    if args.list {
        return list(&options);
    }
    let name = args.scenario.as_deref().unwrap_or_default();
    let scenarios: Vec<&dyn Scenario> = match clearway_lab::find(name) {
        Some(one) => vec![one],
        None if name == "all" => clearway_lab::all().to_vec(),
        None => {
            let names: Vec<&str> =
                clearway_lab::all().iter().map(|scenario| scenario.name()).collect();
            return Err(WrongUse(format!(
                "there is no scenario `{name}`. There are {} and all.",
                names.join(", ")
            ))
            .into());
        }
    };
    if scenarios.len() > 1
        && !(args.systems.is_empty() && args.points.is_empty() && args.reference.is_none())
    {
        return Err(
            WrongUse("--systems, --points and --reference go with one scenario.".into()).into()
        );
    }
    let facts = Facts::look(&options)?;
    let folder =
        args.out.unwrap_or_else(|| PathBuf::from(format!("lab-{name}-{}", now().replace(':', ""))));
    // Before anything is measured it is known that there is a place for it.
    std::fs::create_dir_all(&folder).with_context(|| {
        format!("cannot make {}. Name another folder with --out", folder.display())
    })?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    let (mut reports, mut trouble) = (Vec::new(), Vec::new());
    for scenario in &scenarios {
        let mut watch = Told { bar: None };
        match clearway_lab::run(*scenario, &options, &facts, &mut watch, &stop) {
            Ok(report) => {
                if report.samples.is_empty() && !report.stopped {
                    trouble.push(format!("{}: nothing could be measured", scenario.name()));
                }
                let failures = report.failures.len();
                if failures > 0 {
                    trouble.push(format!(
                        "{}: {failures} measurements failed; the table says which",
                        scenario.name()
                    ));
                }
                figures::line(&text::table(&report))?;
                write(&folder.join(format!("{}.json", scenario.name())), &report.to_json()?)?;
                reports.push(report);
                // After each, so that a long run leaves what it has also when the machine goes
                // down.
                write(&folder.join("index.html"), &html::page(&reports))?;
            }
            Err(error) if error.is::<clearway_lab::Stopped>() => {}
            Err(error) if scenarios.len() == 1 => return Err(error),
            Err(error) => trouble.push(format!("{error:#}")),
        }
        if stop.load(std::sync::atomic::Ordering::Relaxed) {
            figures::line("stopped before the end")?;
            break;
        }
    }
    if !reports.is_empty() {
        figures::line(&format!("written: {}", folder.join("index.html").display()))?;
    }
    if trouble.is_empty() { Ok(()) } else { bail!("{}", trouble.join("\n")) }
}

impl RunArgs {
    fn options(&self) -> anyhow::Result<Options> {
        let program = match &self.program {
            Some(program) => std::path::absolute(program)?,
            None => std::env::current_exe()
                .context("cannot find out where this program is. Name it with --program")?,
        };
        let Sides(server_cores, client_cores) = self.cores.clone().map_or_else(two_cores, Ok)?;
        let quick = self.quick;
        Ok(Options {
            program,
            baselines: self.baselines.clone(),
            rounds: self.rounds.unwrap_or(if quick { 1 } else { 3 }),
            seconds: self.seconds.unwrap_or(Duration::from_millis(if quick { 500 } else { 2_000 })),
            warmup: WARMUP,
            quick,
            server_cores,
            client_cores,
            huge_pages: !self.no_huge_pages,
            servers: self.servers.clone(),
            systems: self.systems.clone(),
            points: self.points.clone(),
            reference: self.reference.clone(),
            command: std::env::args().collect(),
        })
    }
}

/// The first two cores that we may use; one of them twice where there is only one.
fn two_cores() -> anyhow::Result<Sides> {
    let mine = sched_getaffinity(Pid::from_raw(0))?;
    let mut cores = (0..CpuSet::count()).filter(|&core| mine.is_set(core).unwrap_or(false));
    let first = cores.next().context("no core to run on")?;
    Ok(Sides(vec![first], vec![cores.next().unwrap_or(first)]))
}

fn now() -> String {
    clearway_lab::utc(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs())
}

fn list(options: &Options) -> anyhow::Result<()> {
    let facts = Facts::look(options)?;
    for scenario in clearway_lab::all() {
        let systems = scenario.systems(options);
        let points: Vec<String> =
            scenario.points(options).into_iter().map(|point| point.key).collect();
        let needs = clearway_lab::needs(*scenario, options);
        let names: Vec<&str> = systems.iter().map(|system| system.note().key.as_str()).collect();
        figures::line(&format!("{:<17} {}", scenario.name(), scenario.title()))?;
        figures::line(&format!("{:<17}   {}: {}", "", scenario.axis().label, points.join(" ")))?;
        figures::line(&format!(
            "{:<17}   systems: {}; reference {}",
            "",
            names.join(" "),
            scenario.reference()
        ))?;
        let all: Vec<String> = needs.iter().map(clearway_lab::Need::name).collect();
        figures::line(&format!("{:<17}   needs: {}", "", all.join(", ")))?;
        for missing in needs.iter().filter_map(|need| need.missing(&facts)) {
            figures::line(&format!("{:<17}   missing: {missing}", ""))?;
        }
    }
    Ok(figures::line(&format!("{:<17} Each of these, one after the other", "all"))?)
}

fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    std::fs::write(path, text)
        .with_context(|| format!("cannot write {}. Name another folder with --out", path.display()))
}

fn read(path: &Path) -> anyhow::Result<Report> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut report =
        Report::from_json(&text).with_context(|| format!("{} cannot be used", path.display()))?;
    // What was measured counts; it is put together as this program does it.
    let reference = report.reference.clone();
    report.compute(&reference);
    Ok(report)
}

fn show(args: &ShowArgs) -> anyhow::Result<()> {
    let mut report = read(&args.file)?;
    if let Some(reference) = &args.reference {
        if !report.systems.iter().any(|system| system.key == *reference) {
            let names: Vec<&str> =
                report.systems.iter().map(|system| system.key.as_str()).collect();
            return Err(WrongUse(format!(
                "this run has no system `{reference}`; it has {}.",
                names.join(", ")
            ))
            .into());
        }
        report.compute(reference);
    }
    if let Some(path) = &args.html {
        write(path, &html::page(std::slice::from_ref(&report)))?;
    }
    if let Some(folder) = &args.svg {
        for (ground, dark) in [("light", false), ("dark", true)] {
            let chart = html::chart(&report, dark)
                .ok_or_else(|| anyhow::anyhow!("this run has nothing to plot"))?;
            write(&folder.join(format!("{}-{ground}.svg", report.scenario)), &chart)?;
        }
    }
    Ok(figures::line(text::table(&report).trim_end())?)
}

fn compare_runs(args: &CompareArgs) -> anyhow::Result<()> {
    let (before, after) = (read(&args.before)?, read(&args.after)?);
    let comparison = compare::compare(&before, &after)?;
    if args.json {
        figures::line(&serde_json::to_string_pretty(&comparison)?)?;
    } else {
        figures::line(comparison.table(&before).trim_end())?;
    }
    let Some(least) = args.fail_below else { return Ok(()) };
    let worse = comparison.below(least, args.relative);
    if worse.is_empty() {
        return Ok(());
    }
    let line = |row: &&compare::Row| format!("{} at {}: {}", row.system, row.point, row.metric);
    let names: Vec<String> = worse.iter().map(line).collect();
    bail!("worse than {least} of what it was: {}", names.join("; "))
}

/// How far it is: a bar on a terminal, a line for each measurement elsewhere.
struct Told {
    bar: Option<ProgressBar>,
}

impl Watch for Told {
    fn begin(&mut self, scenario: &dyn Scenario, steps: usize) {
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(steps as u64);
            // The form is ours and fixed; were it wrong, the bar would have the usual one.
            if let Ok(style) = ProgressStyle::with_template("{prefix} {wide_bar} {pos}/{len} {msg}")
            {
                bar.set_style(style);
            }
            bar.set_prefix(scenario.name());
            self.bar = Some(bar);
        } else {
            eprintln!("{}: {steps} measurements", scenario.name());
        }
    }

    fn step(&mut self, done: usize, next: &str, left: Option<Duration>) {
        let left = left.map_or(String::new(), |left| {
            format!(", {} left", clearway_lab::span(left.as_secs_f64()))
        });
        match &self.bar {
            Some(bar) => {
                bar.set_position(done as u64);
                bar.set_message(format!("{next}{left}"));
            }
            None => eprintln!("{:>4}  {next}{left}", done + 1),
        }
    }

    fn say(&mut self, line: &str) {
        match &self.bar {
            Some(bar) => bar.println(line),
            None => eprintln!("{line}"),
        }
    }

    fn end(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests;
