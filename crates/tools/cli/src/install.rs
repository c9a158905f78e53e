//! This program and its libraries in a folder, such as a volume that other containers see.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::out;
use crate::run::inproc::LIBRARY as IN_PROCESS_LIBRARY;
use crate::run::trap::CARRIER;
use crate::run::{LIBRARY, find_library, find_part, loadable};

/// Put this program and its libraries into a folder.
///
/// For programs in other containers: the folder is a volume that they mount, and `DIR/clearway run`
/// finds the library beside it. A program that is to start without it needs LD_PRELOAD. What is in
/// the folder under these names is replaced, each file at once, so programs that use it go on.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  clearway install /run/clearway/bin
  /run/clearway/bin/clearway run -- nginx
  LD_PRELOAD=/run/clearway/bin/libclearway_preload.so nginx")]
pub(crate) struct Args {
    /// The folder; it is made when it is not there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
}

pub(crate) fn run(args: &Args) -> anyhow::Result<()> {
    let program = std::env::current_exe().context("cannot find out where this program is")?;
    let library = find_library()?;
    let folder = std::path::absolute(&args.folder)?;
    loadable(&folder.join(LIBRARY))?;
    fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    let mut files = vec![(program, "clearway", 0o755)];
    files.push((library, LIBRARY, 0o644));
    // A machine may have been given the one library without the rest.
    for (name, mode) in [(IN_PROCESS_LIBRARY, 0o644), (CARRIER, 0o755)] {
        if let Ok(path) = find_part(name, "") {
            files.push((path, name, mode));
        }
    }
    let mut out = out::stdout();
    for (from, name, mode) in files {
        let to = folder.join(name);
        copy(&from, &to, mode)
            .with_context(|| format!("cannot copy {} to {}", from.display(), to.display()))?;
        writeln!(out, "{}", to.display())?;
    }
    Ok(())
}

/// The new file takes the old one's name when it is whole: who has the old one mapped keeps it.
fn copy(from: &Path, to: &Path, mode: u32) -> std::io::Result<()> {
    if fs::canonicalize(to).is_ok_and(|to| Some(to) == fs::canonicalize(from).ok()) {
        return Ok(());
    }
    let part = to.with_extension(format!("part-{}", std::process::id()));
    let done = fs::copy(from, &part)
        .and_then(|_| fs::set_permissions(&part, fs::Permissions::from_mode(mode)))
        .and_then(|()| fs::File::open(&part)?.sync_all())
        .and_then(|()| fs::rename(&part, to));
    if done.is_err() {
        let _ = fs::remove_file(&part);
    }
    done
}
