//! The command line of `cargo xtask`.

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use crate::{ci, run};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Developer tasks: the gates of this workspace and the checks behind them")]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run every gate; `make test` does this
    Ci(ci::Options),
}

/// Reads the command line and does the task. Exit code 0: all is well; 1: something was refused or failed; 2: wrong use.
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

fn task(task: Task) -> Result<bool> {
    let root = run::workspace_root()?;
    match task {
        Task::Ci(options) => ci::ci(&root, &options),
    }
}
