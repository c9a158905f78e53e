//! The command line: which commands there are, and what their exit codes mean.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;
use clearway_errors::Code;

use crate::error;
use crate::{
    bench, bulk, capture, ctl, doctor, extcap, health, http, install, ip, lab, man, nstat, out,
    pktgen, reflect, run, ss, top, up, wire,
};

/// A TCP/IP host stack in user space.
///
/// Exit codes: 0 done, or nobody read standard output any more; 1 failed, 2 wrong use; 3 of `health`: the host is drained.
///
/// Errors have a code: `clearway help E0103` says what it means and what to do, `clearway help
/// errors` lists all.
///
/// What commands print as JSON is described by a JSON Schema: `clearway help json`.
#[derive(Parser)]
#[command(name = "clearway", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    // What is said of a command in the list and in its own help, with examples, stands at its
    // arguments.
    Up(Box<up::Args>),
    Run(Box<run::Args>),
    Ctl(Box<ctl::Args>),
    Explain(Box<ctl::ExplainArgs>),
    Capture(Box<capture::Args>),
    Extcap(Box<extcap::Args>),
    Ss(Box<ss::Args>),
    Top(Box<top::Args>),
    Nstat(Box<nstat::Args>),
    Ip(Box<ip::Args>),
    Health(Box<health::Args>),
    Http(Box<http::Args>),
    Bulk(Box<bulk::Args>),
    Bench(Box<bench::Args>),
    Lab(Box<lab::Args>),
    Reflect(Box<reflect::Args>),
    Pktgen(Box<pktgen::Args>),
    Wire(Box<wire::Args>),
    Install(install::Args),
    Doctor(doctor::Args),
    Man(man::Args),
    /// Print the version and what was built in
    Version,
    /// Print a completion script for a shell
    Completions {
        /// Which shell
        shell: Shell,
    },
}

/// Reads the command line, does what it says, and answers with the exit code.
pub(crate) fn run() -> ExitCode {
    let called: Vec<_> = std::env::args_os().collect();
    if extcap::is_called(&called) {
        return exit_code(extcap::answer(&called));
    }
    if let [_, help, topic] = called.as_slice() {
        if let (true, Some(said)) = (help == "help", topic.to_str().and_then(explained)) {
            return exit_code(said.and_then(out::all));
        }
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            return refused(&error);
        }
    };
    let done = match cli.command {
        Command::Up(args) => up::run(*args),
        Command::Run(args) => run::run(*args),
        Command::Ctl(args) => ctl::run(*args),
        Command::Explain(args) => ctl::explain(*args),
        Command::Capture(args) => capture::run(&args),
        Command::Extcap(args) => extcap::run(&args),
        Command::Ss(args) => ss::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Nstat(args) => nstat::run(&args),
        Command::Ip(args) => ip::run(&args),
        Command::Health(args) => match health::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Http(args) => http::run(*args),
        Command::Bulk(args) => bulk::run(*args),
        Command::Bench(args) => bench::run(*args),
        Command::Lab(args) => lab::run(*args),
        Command::Reflect(args) => reflect::run(*args),
        Command::Pktgen(args) => pktgen::run(*args),
        Command::Wire(args) => wire::run(*args),
        Command::Install(args) => install::run(&args),
        Command::Doctor(args) => match doctor::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Man(args) => man::run::<Cli>(&args),
        Command::Version => version(),
        Command::Completions { shell } => completions(shell),
    };
    exit_code(done)
}

fn exit_code(done: anyhow::Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if out::is_reader_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("clearway: {}", error::told(&error));
            ExitCode::from(error::exit_code(&error))
        }
    }
}

/// Help and version are asked for and go to standard output; everything else is wrong use.
fn refused(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    match text.strip_prefix("error: ") {
        Some(text) if error.use_stderr() => eprint!("clearway: {}", Code::Usage.before(text)),
        _ => drop(error.print()),
    }
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// What every command prints as JSON.
const JSON_SCHEMA: &str = include_str!("json.schema.json");

/// What there is to say about a class of errors, about all of them, or about JSON. None: the topic
/// is another one.
fn explained(topic: &str) -> Option<anyhow::Result<String>> {
    if topic == "json" {
        return Some(Ok(JSON_SCHEMA.into()));
    }
    if topic == "errors" {
        let row = |code: &Code| format!("{code}  {}\n", code.title());
        return Some(Ok(Code::ALL.iter().map(row).collect()));
    }
    let is_class = topic.starts_with(['E', 'e']) && topic[1..].bytes().all(|b| b.is_ascii_digit());
    (is_class && topic.len() > 1).then(|| match Code::of(topic) {
        Some(code) => Ok(code.explained().to_string()),
        None => {
            let sentence = format!("there is no error {topic}. `clearway help errors` lists all");
            Err(error::WrongUse(sentence).into())
        }
    })
}

/// The version and what it was built for, in one line.
pub(crate) fn version_text() -> String {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("clearway {} ({build}, {architecture}-{system})", env!("CARGO_PKG_VERSION"))
}

fn version() -> anyhow::Result<()> {
    let dpdk = clearway_ports::dpdk::version()
        .map_or(String::new(), |version| format!(" dpdk:DEVICE ({version})"));
    writeln!(
        out::stdout(),
        "{}\nports: tap:NAME tun:NAME xdp:INTERFACE loop pcap:FILE{dpdk}",
        version_text()
    )?;
    Ok(())
}

fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "clearway", &mut script);
    out::all(script)
}

#[cfg(test)]
mod pages;
#[cfg(test)]
mod tests;
