//! `clearway run --trap`: programs into which no library can be put, in a process that has it
//! (`docs/trap.md`).

use std::ffi::{OsStr, OsString};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clearway_program::{CARRIER_VARIABLE, TRAPPED_VARIABLE};

use super::find_part;
use super::fit::{ByTrap, Unfit};
use crate::error::WrongUse;

/// The program that maps others, installed beside this one.
pub(crate) const CARRIER: &str = "clearway-trap";

/// How a program is started whose system calls are to be trapped, and so are those of what it
/// executes.
pub(super) struct Trap {
    carrier: PathBuf,
    program: Option<Program>,
}

/// A program that is mapped by the carrier.
struct Program {
    path: PathBuf,
    /// The name under which it runs where it is not the command.
    name: Option<OsString>,
    /// Arguments before those of the command.
    words: Vec<OsString>,
}

/// How the program is started: by the carrier, or, where the library can be put into it, as without
/// `--trap`.
pub(super) fn plan(command: &OsStr, unfit: Option<&Unfit>) -> anyhow::Result<Trap> {
    let mapped = |unfit: &Unfit, name, words| -> anyhow::Result<Option<Program>> {
        Ok(Some(Program { path: std::path::absolute(&unfit.path)?, name, words }))
    };
    let program = match unfit.map(|unfit| (unfit, &unfit.by_trap)) {
        None | Some((_, Some(ByTrap::Executed))) => None,
        Some((unfit, None)) => return Err(refused(command, unfit).into()),
        Some((unfit, Some(ByTrap::Itself))) => mapped(unfit, None, Vec::new())?,
        Some((unfit, Some(ByTrap::Interpreter(words)))) => {
            mapped(unfit, Some(unfit.path.clone().into()), words.clone())?
        }
    };
    Ok(Trap { carrier: find_part(CARRIER, "")?, program })
}

fn refused(command: &OsStr, unfit: &Unfit) -> WrongUse {
    WrongUse(format!(
        "{}: {} {}. --trap takes over programs for x86-64 that have no more rights than who starts \
         them; it is not started",
        Path::new(command).display(),
        unfit.path.display(),
        unfit.why
    ))
}

impl Trap {
    /// The carrier under the program's name, or the program.
    pub(super) fn command(&self, name: &OsStr) -> Command {
        let mut command = match &self.program {
            Some(program) => {
                let mut command = Command::new(&self.carrier);
                command.arg0(program.name.as_deref().unwrap_or(name));
                command.args(&program.words).env(TRAPPED_VARIABLE, &program.path);
                command
            }
            None => Command::new(name),
        };
        command.env(CARRIER_VARIABLE, &self.carrier);
        command
    }
}

/// A program that is started without.
pub(super) fn none(name: &OsStr) -> Command {
    let mut command = Command::new(name);
    command.env_remove(CARRIER_VARIABLE);
    command
}

/// What can be done about a program into which no library can be put.
pub(super) fn advice(unfit: &Unfit) -> &'static str {
    if unfit.by_trap.is_some() { " (--trap takes them over)" } else { "" }
}
