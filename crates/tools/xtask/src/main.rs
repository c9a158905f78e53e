//! `cargo xtask`: the developer tasks of this workspace.

use std::process::ExitCode;

fn main() -> ExitCode {
    clearway_xtask::cli::main()
}
