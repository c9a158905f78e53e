//! The command line of `cargo xtask`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{book, built, ci, cost, deny, drawing, finding, floors, programs, rfc, run, tidy};

#[derive(Parser)]
#[command(
    name = "cargo xtask",
    about = "Developer tasks: the gates of this workspace and the checks behind them"
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every gate; `make test` does this
    Ci(ci::Options),
    /// Check that every arrow between crates, and between modules of settled crates, points down
    Layers {
        /// Draw the modules of the crates that ARCHITECTURE.md shows, into docs/modules
        #[arg(long)]
        svg: bool,
    },
    /// Show how the modules inside of each crate stand on each other, and where they stand in a
    /// circle
    Floors {
        /// A crate, or a folder of modules in it, to show in full: proto, proto::tcp
        scope: Option<String>,
    },
    /// Check the rules of the project that the compiler does not check
    Tidy,
    /// Check that every row of docs/rfc.md names code and tests that exist
    Rfc,
    /// Check that every block of code in the pages says what it is, and names what there is
    Book,
    /// Check licences, duplicates, sources and advisories of the crates that we build upon
    Deny,
    /// Replay one seed of the simulator, or run many
    Sim(programs::Seeds),
    /// Run the packet scripts below tests/scripts
    Scripts(programs::Scripts),
    /// Count instructions per request, and weigh connections
    Cost(cost::Options),
}

/// Reads the command line and does the task. Exit code 0: all is well; 1: something was refused or
/// failed; 2: wrong use.
pub fn main() -> ExitCode {
    match task(Arguments::parse().task) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Adds to the findings of a report the tasks of `cargo xtask` that are none.
pub fn judge(report: &mut book::Report) {
    for (page, line, words) in &report.tasks {
        let whole = ["cargo xtask"].into_iter().chain(words.iter().map(String::as_str));
        if let Err(why) = Arguments::try_parse_from(whole) {
            if why.use_stderr() {
                let why = why.to_string().lines().next().unwrap_or_default().to_owned();
                report.findings.push(finding::Finding::new(page, *line, why));
            }
        }
    }
}

fn task(task: Task) -> Result<bool> {
    let root = run::workspace_root()?;
    match task {
        Task::Ci(options) => ci::ci(&root, &options),
        Task::Layers { svg } => {
            if svg {
                drawing::write(&root)?;
            }
            Ok(finding::print(&mut ci::order_of_all(&root)?))
        }
        Task::Floors { scope } => {
            floors::tell(&floors::floors(&root)?, scope.as_deref());
            Ok(true)
        }
        Task::Tidy => {
            let mut report = tidy::tidy(&root)?;
            report.tell();
            Ok(finding::print(&mut report.findings))
        }
        Task::Rfc => {
            let mut report = rfc::rfc(&root)?;
            report.tell();
            Ok(finding::print(&mut report.findings))
        }
        Task::Book => {
            let mut report = book::book(&root)?;
            judge(&mut report);
            for (tag, count) in &report.blocks {
                println!("{count:>6} blocks  {}", book::told(tag));
            }
            match built::built(&root)? {
                built::Built::Checked(links, findings) => {
                    println!("{links:>6} links of the book that mdBook builds");
                    report.findings.extend(findings);
                }
                built::Built::Absent => println!("mdBook is not installed: `make book` does that"),
            }
            Ok(finding::print(&mut report.findings))
        }
        Task::Deny => Ok(match deny::deny(&root)? {
            deny::Checked::Holds(note) => {
                println!("{note}");
                true
            }
            deny::Checked::Refused(why) | deny::Checked::Absent(why) => {
                println!("{why}");
                false
            }
        }),
        Task::Sim(seeds) => programs::sim(&root, &seeds).and_then(programs::Ran::or_error),
        Task::Cost(options) => cost::cost(&root, &options),
        Task::Scripts(scripts) => {
            programs::scripts(&root, &scripts).and_then(programs::Ran::or_error)
        }
    }
}
