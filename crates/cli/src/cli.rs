//! The command line: which commands there are, and what their exit codes mean.

use std::io::Write as _;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use clap_complete::Shell;

use crate::error::WrongUse;
use crate::{bench, bulk, ctl, doctor, http, lab, pktgen, reflect, run, up};

/// A TCP/IP host stack in user space.
///
/// Exit codes: 0 done, 1 failed, 2 wrong use.
#[derive(Parser)]
#[command(name = "clearway", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Run the host stack
    Up(Box<up::Args>),
    /// Run an unmodified program over the host stack
    Run(Box<run::Args>),
    /// Give a running host stack commands
    Ctl(Box<ctl::Args>),
    /// Say which sockets of programs stayed with the kernel, and why
    Explain(Box<ctl::ExplainArgs>),
    /// Serve HTTP/1.1 over a port of our own
    Http(Box<http::Args>),
    /// Measure one-way transfers, over our stack or over the kernel's
    Bulk(Box<bulk::Args>),
    /// Measure requests and answers, over our stack or over the kernel's
    Bench(Box<bench::Args>),
    // What is said of it in the list and in its own help stands there, with examples.
    Lab(Box<lab::Args>),
    /// Send back every frame that comes to a port
    Reflect(Box<reflect::Args>),
    /// Send numbered frames to a port, and count and time what comes back
    Pktgen(Box<pktgen::Args>),
    /// Say what this machine lacks, with the command that mends it
    Doctor(doctor::Args),
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
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are asked for and go to standard output; everything else is wrong use.
            let code = if error.use_stderr() { 2 } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let done = match cli.command {
        Command::Up(args) => up::run(*args),
        Command::Run(args) => run::run(*args),
        Command::Ctl(args) => ctl::run(*args),
        Command::Explain(args) => ctl::explain(*args),
        Command::Http(args) => http::run(*args),
        Command::Bulk(args) => bulk::run(*args),
        Command::Bench(args) => bench::run(*args),
        Command::Lab(args) => lab::run(*args),
        Command::Reflect(args) => reflect::run(*args),
        Command::Pktgen(args) => pktgen::run(*args),
        Command::Doctor(args) => match doctor::run(&args) {
            Ok(code) => return code,
            Err(error) => Err(error),
        },
        Command::Version => version(),
        Command::Completions { shell } => completions(shell),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("clearway: {error:#}");
            ExitCode::from(if error.is::<WrongUse>() { 2 } else { 1 })
        }
    }
}

/// The version and what it was built for, in one line.
pub(crate) fn version_text() -> String {
    let build = if cfg!(debug_assertions) { "debug" } else { "release" };
    let (architecture, system) = (std::env::consts::ARCH, std::env::consts::OS);
    format!("clearway {} ({build}, {architecture}-{system})", env!("CARGO_PKG_VERSION"))
}

fn version() -> anyhow::Result<()> {
    let dpdk = clearway_ports::dpdk::version().map_or(String::new(), |version| format!(" dpdk:DEVICE ({version})"));
    writeln!(std::io::stdout(), "{}\nports: tap:NAME tun:NAME loop pcap:FILE{dpdk}", version_text())?;
    Ok(())
}

fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "clearway", &mut script);
    std::io::stdout().write_all(&script)?;
    Ok(())
}

#[cfg(test)]
mod tests;
