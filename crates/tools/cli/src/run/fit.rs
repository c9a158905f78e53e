//! Can a library be put into a program? Looked at before it is started, since a program into which
//! none can be put says nothing: it uses the kernel.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use nix::unistd::{getgid, getuid};

/// Scripts whose interpreter is a script and so on, as many as Linux follows.
const MAX_SCRIPTS: usize = 5;

/// As much of a script's first line as Linux reads.
const MAX_FIRST_LINE: usize = 256;

/// Headers of a file at most; a program has a few dozen.
const MAX_HEADERS: usize = 4096;

/// Bytes of an interpreter's path at most.
const MAX_PATH: u64 = 4096;

/// Program headers and sections, from `elf.h`.
const PT_INTERP: u32 = 3;
const SHT_STRTAB: u32 = 3;

/// Why a program cannot be preloaded.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Unfit {
    /// The file: the program, or the interpreter that runs it.
    pub(super) path: PathBuf,
    /// In words that stand behind the path.
    pub(super) why: String,
    /// Its system calls can be trapped instead.
    pub(super) by_trap: bool,
}

/// Looks at the program that a command starts. None: the library can be put into it, or it is not
/// known; whoever starts it says what is wrong then.
pub(super) fn unfit(command: &OsStr, library: &Path) -> Option<Unfit> {
    let ours = Elf::read(library).ok().flatten();
    let mut path = find(command)?;
    for _ in 0..MAX_SCRIPTS {
        match interpreter(&path).ok()? {
            Some(interpreter) => path = interpreter,
            None => break,
        }
    }
    if let Some(why) = privileged(&path) {
        return Some(Unfit { path, why, by_trap: false });
    }
    let (why, is_static) = foreign(&path, ours.as_ref())?;
    // What runs a script gets words that only the kernel puts before its own.
    let is_itself = find(command).as_ref() == Some(&path);
    let by_trap = is_static && is_itself && cfg!(target_arch = "x86_64");
    Some(Unfit { path, why, by_trap })
}

/// Where `execvp` finds it.
fn find(command: &OsStr) -> Option<PathBuf> {
    let is_program = |path: &Path| {
        fs::metadata(path).is_ok_and(|is| is.is_file() && is.permissions().mode() & 0o111 != 0)
    };
    if command.as_bytes().contains(&b'/') {
        return Some(command.into()).filter(|path: &PathBuf| is_program(path));
    }
    let folders = std::env::var_os("PATH").unwrap_or_else(|| "/bin:/usr/bin".into());
    std::env::split_paths(&folders).map(|folder| folder.join(command)).find(|path| is_program(path))
}

/// What a script says that runs it.
fn interpreter(path: &Path) -> io::Result<Option<PathBuf>> {
    let mut line = Vec::new();
    File::open(path)?.take(MAX_FIRST_LINE as u64).read_to_end(&mut line)?;
    let Some(rest) = line.strip_prefix(b"#!") else { return Ok(None) };
    let rest = rest.split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    let mut words = rest.split(|byte| matches!(byte, b' ' | b'\t')).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return Ok(None) };
    let first = PathBuf::from(OsStr::from_bytes(first));
    if first.file_name() != Some(OsStr::new("env")) {
        return Ok(Some(first));
    }
    // `env` is a program into which the library can be put, and starts another: that is the one
    // that matters.
    let named = words.find(|word| !word.starts_with(b"-") && !word.contains(&b'='));
    Ok(Some(named.and_then(|name| find(OsStr::from_bytes(name))).unwrap_or(first)))
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

/// Why it is of another kind than the library, and whether it is for this machine and needs no
/// loader.
fn foreign(path: &Path, ours: Option<&Elf>) -> Option<(String, bool)> {
    let elf = Elf::read(path).ok()??;
    if let Some(ours) = ours.filter(|ours| (ours.wide, ours.machine) != (elf.wide, elf.machine)) {
        let (theirs, ours) = (elf.architecture(), ours.architecture());
        return Some((format!("is made for {theirs}, and the library for {ours}"), false));
    }
    let is_static = elf.loader.is_none();
    let why = match elf.loader {
        _ if elf.is_go => {
            "is written in Go, whose programs make their system calls themselves".into()
        }
        None => "is statically linked: there is no loader that would load the library".into(),
        Some(loader) if loader.contains("ld-musl") => {
            format!("is linked with another C library ({loader}), and the library needs glibc")
        }
        Some(_) => return None,
    };
    Some((why, is_static))
}

/// What matters of an ELF file.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Elf {
    wide: bool,
    machine: u16,
    /// The dynamic loader.
    loader: Option<String>,
    is_go: bool,
}

/// Where a table of headers is.
struct Table {
    at: u64,
    entry: u16,
    count: u16,
}

impl Elf {
    /// None: it is no ELF file.
    fn read(path: &Path) -> io::Result<Option<Elf>> {
        let mut file = File::open(path)?;
        let mut head = [0; 64];
        let mut len = 0;
        while len < head.len() {
            match file.read(&mut head[len..])? {
                0 => break,
                more => len += more,
            }
        }
        if len < 52 || !head.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let wide = head[4] == 2;
        if head[5] != 1 {
            // Big-endian: no machine that the library is made for.
            let machine = u16::from_be_bytes([head[18], head[19]]);
            return Ok(Some(Elf { wide, machine: machine | 0x8000, loader: None, is_go: false }));
        }
        let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
        let machine = half(18);
        let (programs, sections, names) = match wide {
            true => {
                let offset = |at: usize| {
                    u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"))
                };
                let programs = Table { at: offset(32), entry: half(54), count: half(56) };
                (programs, Table { at: offset(40), entry: half(58), count: half(60) }, half(62))
            }
            false => {
                let offset = |at: usize| {
                    u64::from(u32::from_le_bytes(head[at..at + 4].try_into().expect("four bytes")))
                };
                let programs = Table { at: offset(28), entry: half(42), count: half(44) };
                (programs, Table { at: offset(32), entry: half(46), count: half(48) }, half(50))
            }
        };
        let loader = loader(&mut file, wide, &programs)?;
        let is_go =
            has_section(&mut file, wide, &sections, names, b".go.buildinfo").unwrap_or(false);
        Ok(Some(Elf { wide, machine, loader, is_go }))
    }

    fn architecture(&self) -> String {
        let bits = if self.wide { 64 } else { 32 };
        match self.machine {
            3 => "32-bit x86".into(),
            62 => format!("x86-64 ({bits} bits)"),
            183 => format!("AArch64 ({bits} bits)"),
            other => format!("machine {} of elf.h ({bits} bits)", other & 0x7fff),
        }
    }
}

/// An entry of a table, and the words in it that are wanted: a 32-bit word, and the offset and
/// length of what it describes.
fn entry(
    file: &mut File,
    wide: bool,
    table: &Table,
    index: usize,
    places: [usize; 2],
) -> io::Result<(Vec<u8>, u64, u64)> {
    let mut bytes = vec![0; usize::from(table.entry)];
    file.seek(SeekFrom::Start(table.at.saturating_add((index * bytes.len()) as u64)))?;
    file.read_exact(&mut bytes)?;
    let word = |at: usize| -> io::Result<u64> {
        let short = || io::Error::from(io::ErrorKind::InvalidData);
        match wide {
            true => Ok(u64::from_le_bytes(
                bytes.get(at..at + 8).ok_or_else(short)?.try_into().expect("eight bytes"),
            )),
            false => Ok(u64::from(u32::from_le_bytes(
                bytes.get(at..at + 4).ok_or_else(short)?.try_into().expect("four bytes"),
            ))),
        }
    };
    let (offset, len) = (word(places[0])?, word(places[1])?);
    Ok((bytes, offset, len))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |word| u32::from_le_bytes(word.try_into().expect("four bytes")))
}

/// What stands in the program's PT_INTERP.
fn loader(file: &mut File, wide: bool, programs: &Table) -> io::Result<Option<String>> {
    let places = if wide { [8, 32] } else { [4, 16] };
    for index in 0..usize::from(programs.count).min(MAX_HEADERS) {
        let (bytes, offset, len) = entry(file, wide, programs, index, places)?;
        if word(&bytes, 0) == PT_INTERP {
            file.seek(SeekFrom::Start(offset))?;
            let mut path = Vec::new();
            file.take(len.min(MAX_PATH)).read_to_end(&mut path)?;
            return Ok(Some(String::from_utf8_lossy(&path).trim_end_matches('\0').to_owned()));
        }
    }
    Ok(None)
}

/// Whether there is a section of this name. Programs may be without any.
fn has_section(
    file: &mut File,
    wide: bool,
    sections: &Table,
    names: u16,
    wanted: &[u8],
) -> io::Result<bool> {
    if sections.count == 0 || usize::from(names) >= usize::from(sections.count) {
        return Ok(false);
    }
    let places = if wide { [24, 32] } else { [16, 20] };
    let (strings, offset, len) = entry(file, wide, sections, names.into(), places)?;
    if word(&strings, 4) != SHT_STRTAB {
        return Ok(false);
    }
    let mut text = Vec::new();
    file.seek(SeekFrom::Start(offset))?;
    file.by_ref().take(len.min(1 << 20)).read_to_end(&mut text)?;
    for index in 0..usize::from(sections.count).min(MAX_HEADERS) {
        let (bytes, _, _) = entry(file, wide, sections, index, places)?;
        let name = text.get(word(&bytes, 0) as usize..).unwrap_or_default();
        if name.split(|byte| *byte == 0).next() == Some(wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}
