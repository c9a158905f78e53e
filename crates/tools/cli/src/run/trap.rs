//! `clearway run --trap`: programs into which no library can be put, in a process that has it
//! (`docs/trap.md`).

use std::ffi::OsStr;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::find_part;
use super::fit::Unfit;
use crate::error::WrongUse;

/// The program that maps others, installed beside this one.
pub(crate) const CARRIER: &str = "clearway-trap";

/// How it is told which (`clearway_trap::PROGRAM_VARIABLE`).
const PROGRAM_VARIABLE: &str = "CLEARWAY_TRAP_PROGRAM";

/// A program that is mapped by another.
pub(super) struct Trapped {
    carrier: PathBuf,
    program: PathBuf,
}

/// How the program is started. None: the library can be put into it, as without `--trap`.
pub(super) fn plan(command: &OsStr, unfit: Option<&Unfit>) -> anyhow::Result<Option<Trapped>> {
    let Some(unfit) = unfit else { return Ok(None) };
    if !unfit.by_trap {
        let sentence = format!(
            "{}: {} {}. --trap takes over statically linked programs for x86-64, named themselves \
             and not by a script; it is not started",
            Path::new(command).display(),
            unfit.path.display(),
            unfit.why
        );
        return Err(WrongUse(sentence).into());
    }
    let carrier = find_part(CARRIER, "")?;
    Ok(Some(Trapped { carrier, program: std::path::absolute(&unfit.path)? }))
}

impl Trapped {
    /// The carrier under the program's name.
    pub(super) fn command(&self, name: &OsStr) -> Command {
        let mut command = Command::new(&self.carrier);
        command.arg0(name).env(PROGRAM_VARIABLE, &self.program);
        command
    }
}

/// What can be done about a program into which no library can be put.
pub(super) fn advice(unfit: &Unfit) -> &'static str {
    if unfit.by_trap { " (--trap takes them over)" } else { "" }
}
