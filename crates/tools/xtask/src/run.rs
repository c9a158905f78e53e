//! Starting other programs, and finding the workspace that this program belongs to.

use std::env;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::tally::Tally;

/// The root folder of the workspace, whatever the current folder is.
///
/// Cargo hands a program that it runs the folder of its package; the folder known when this was
/// compiled serves when the program is started without cargo.
pub fn workspace_root() -> Result<PathBuf> {
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = package
        .ancestors()
        .nth(3)
        .context("the xtask package does not lie in crates/tools/xtask of a workspace")?;
    if !root.join("Cargo.toml").is_file() {
        bail!(
            "{} holds no Cargo.toml: run this program with `cargo xtask` inside the repository",
            root.display()
        );
    }
    Ok(root.to_path_buf())
}

/// The cargo that runs us, or the one on the search path, ready to take arguments in the folder
/// `root`.
pub fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root);
    without_our_package(&mut command);
    command
}

/// What cargo told *us* about our own package must not reach a program of another: the packages that
/// a cargo builds, the tests of one.
pub(crate) fn without_our_package(command: &mut Command) {
    for (name, _) in env::vars_os() {
        let told = name.to_str().is_some_and(|name| {
            name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
        });
        if told {
            command.env_remove(name);
        }
    }
}

/// Runs `command` with our own output streams. An exit code other than 0 is an error that names the
/// command.
pub fn run(command: &mut Command) -> Result<()> {
    let status =
        command.status().with_context(|| format!("cannot start `{}`", spelled(command)))?;
    if !status.success() {
        bail!("`{}` failed ({status})", spelled(command));
    }
    Ok(())
}

/// Runs `command`, passes its standard output on line by line, and adds up the `test result:` lines
/// in it.
///
/// The second value says how the command ended, when that was not with exit code 0.
pub fn run_tests(command: &mut Command) -> Result<(Tally, Option<String>)> {
    let cannot = format!("cannot start `{}`", spelled(command));
    let mut child = command.stdout(Stdio::piped()).spawn().context(cannot)?;
    let mut tally = Tally::default();
    if let Some(output) = child.stdout.take() {
        let mut here = std::io::stdout();
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            writeln!(here, "{line}")?;
            tally.add(Tally::from_line(&line).unwrap_or_default());
        }
    }
    let status = child.wait()?;
    Ok((tally, (!status.success()).then(|| format!("`{}` failed ({status})", spelled(command)))))
}

fn spelled(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or(command.get_program())
        .to_string_lossy();
    command
        .get_args()
        .fold(program.into_owned(), |line, arg| format!("{line} {}", arg.to_string_lossy()))
}
