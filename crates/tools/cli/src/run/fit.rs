//! Can a library be put into a program? Looked at before it is started, since a program into which
//! none can be put says nothing: it uses the kernel.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clearway_program::{Elf, MAX_SCRIPTS, Script, find, script};
use nix::unistd::{getgid, getuid};

/// Why a program cannot be preloaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unfit {
    /// The file: the program, or the interpreter that runs it.
    pub(super) path: PathBuf,
    /// In words that stand behind the path.
    pub(super) why: String,
    /// The library is put into it, and sees its sockets, but not all that it does with them.
    pub(super) in_part: bool,
    /// How its system calls can be trapped instead.
    pub(super) by_trap: Option<ByTrap>,
}

/// How a program comes to be trapped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ByTrap {
    /// It is started so.
    Itself,
    /// It runs a script, and gets these words before the others.
    Interpreter(Vec<OsString>),
    /// `env` starts it, which has the library in it.
    Executed,
}

/// Looks at the program that a command starts. None: the library can be put into it, or it is not
/// known; whoever starts it says what is wrong then.
pub(super) fn unfit(command: &OsStr, library: &Path) -> Option<Unfit> {
    let mut path = find(command)?;
    let mut by_trap = Some(ByTrap::Itself);
    for _ in 0..MAX_SCRIPTS {
        let Some(script) = script(&path).ok()? else { break };
        let runs = interpreter(&script);
        by_trap = match by_trap {
            Some(ByTrap::Itself) if runs == script.interpreter => {
                let words = script.word.into_iter().chain([path.into_os_string()]);
                Some(ByTrap::Interpreter(words.collect()))
            }
            Some(ByTrap::Itself) => Some(ByTrap::Executed),
            // A script that runs scripts.
            _ => None,
        };
        path = runs;
    }
    if let Some(why) = privileged(&path) {
        return Some(Unfit { path, why, in_part: false, by_trap: None });
    }
    let read = |file: &File| Elf::read(file).ok().flatten();
    let file = File::open(&path).ok()?;
    let elf = read(&file)?;
    let ours = File::open(library).ok().as_ref().and_then(read);
    if !elf.goes_round_libraries() && elf.waits_by_itself(&file) {
        let why = "waits for its sockets by system calls of its own, which the library does not \
                   see, as programs in Rust do that use rustix";
        return Some(Unfit { path, why: why.into(), in_part: true, by_trap });
    }
    let (why, is_for_this_machine) = foreign(&elf, ours.as_ref())?;
    let by_trap = by_trap.filter(|_| is_for_this_machine && cfg!(target_arch = "x86_64"));
    Some(Unfit { path, why, in_part: false, by_trap })
}

/// What runs a script: the program behind `env`, where that starts it.
fn interpreter(script: &Script) -> PathBuf {
    if script.interpreter.file_name() != Some(OsStr::new("env")) {
        return script.interpreter.clone();
    }
    // `env` is a program into which the library can be put, and starts another: that is the one
    // that matters.
    let words = script.word.as_deref().unwrap_or_default().as_bytes();
    let mut words =
        words.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    named.and_then(|name| find(OsStr::from_bytes(name))).unwrap_or(script.interpreter.clone())
}

/// The loader does not let the environment name libraries where a program gets rights that its user
/// does not have.
fn privileged(path: &Path) -> Option<String> {
    let is = fs::metadata(path).ok()?;
    let (mode, uid, gid) = (is.mode(), is.uid(), is.gid());
    if mode & 0o4000 != 0 && uid != getuid().as_raw() {
        return Some(format!(
            "is set-uid (of user {uid}), and the loader puts no library into such programs"
        ));
    }
    if mode & 0o2010 == 0o2010 && gid != getgid().as_raw() {
        return Some(format!(
            "is set-gid (of group {gid}), and the loader puts no library into such programs"
        ));
    }
    if !getuid().is_root() && has_capabilities(path) {
        return Some(
            "has file capabilities, and the loader puts no library into such programs".into(),
        );
    }
    None
}

fn has_capabilities(path: &Path) -> bool {
    // By the command, for there is no safe call for it in what this program uses; without the
    // command it is not known.
    let output =
        std::process::Command::new("getcap").arg(path).stdin(std::process::Stdio::null()).output();
    output.is_ok_and(|output| output.status.success() && !output.stdout.trim_ascii().is_empty())
}

/// Why it is of another kind than the library, and whether it is for this machine, so that its
/// system calls can be trapped.
fn foreign(elf: &Elf, ours: Option<&Elf>) -> Option<(String, bool)> {
    let (theirs, ours) = (elf.architecture(), ours.map(Elf::architecture));
    if let Some(ours) = ours.filter(|ours| *ours != theirs) {
        return Some((format!("is made for {theirs}, and the library for {ours}"), false));
    }
    let why = match &elf.loader {
        _ if elf.is_go => {
            "is written in Go, whose programs make their system calls themselves".into()
        }
        None => "is statically linked: there is no loader that would load the library".into(),
        Some(loader) if elf.has_musl() => {
            let loader = loader.display();
            format!("is linked with another C library ({loader}), and the library needs glibc")
        }
        Some(_) => return None,
    };
    Some((why, elf.is_for_this_machine()))
}
