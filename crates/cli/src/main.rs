//! The `clearway` binary.

mod bulk;
mod cli;
mod error;
mod figures;
mod http;
mod kernel;
mod net;
mod port;
mod signals;
mod team;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::run()
}
