//! The headers of an ELF file.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use memchr::memmem;

use crate::read_beginning;

/// Headers of a kind at most; a program has a few dozen.
const MAX_HEADERS: usize = 4096;

/// Bytes of a program header, in files of 64 bits and of 32.
const HEADER: u16 = 56;
const SHORT_HEADER: u16 = 32;

/// Bytes of a loader's path at most, and of all names of sections.
const MAX_PATH: u64 = 4096;
const MAX_NAMES: u64 = 1 << 20;

/// Program headers and sections, from `elf.h`.
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const SHT_STRTAB: u32 = 3;
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_386: u16 = 3;
const EM_X86_64: u16 = 62;
const EM_AARCH64: u16 = 183;

/// No machine's number: the file has the other order of bytes.
const BIG_ENDIAN: u16 = 0x8000;

/// The section that every program in Go has.
const GO_SECTION: &[u8] = b".go.buildinfo";

/// `syscall` on x86-64, and the first byte of `mov eax, NUMBER`.
const SYSCALL: [u8; 2] = [0x0f, 0x05];
const MOV_EAX: u8 = 0xb8;

/// Calls that wait for descriptors, by their numbers on x86-64: `poll`, `select`, `epoll_wait`,
/// `pselect6`, `ppoll`, `epoll_pwait`, `epoll_pwait2`.
const WAITS: [u32; 7] = [7, 23, 232, 270, 271, 281, 441];

/// How functions of `rustix` are called that wait.
const RUSTIX: [&[u8]; 2] =
    [b"rustix7backend5event8syscalls10epoll_wait", b"rustix7backend5event8syscalls4poll"];

/// Bytes between a call's number and the call at most, with what loads its arguments.
const BEFORE: usize = 64;

/// Bytes of a program that are looked at at once.
const CHUNK: usize = 1 << 16;

/// In a segment's flags: it has instructions.
const PF_X: u32 = 1;

/// Of what a segment's addresses and its place in the file are the same remainder.
pub const PAGE: u64 = 4096;

/// What the file is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A program with addresses of its own.
    Fixed,
    /// A program or library that can lie anywhere.
    Anywhere,
    /// Nothing that Linux starts.
    Other,
}

/// A part of the file, and where it belongs in memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// `PF_R`, `PF_W` and `PF_X`.
    pub flags: u32,
    /// Where it begins in the file.
    pub offset: u64,
    /// Where it begins in memory.
    pub address: u64,
    /// Bytes of it that the file has.
    pub in_file: u64,
    /// Bytes that it has in memory; those that the file lacks are 0.
    pub in_memory: u64,
}

/// What matters of an ELF file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elf {
    wide: bool,
    machine: u16,
    /// How it is mapped.
    pub kind: Kind,
    /// The address of its first instruction.
    pub entry: u64,
    /// Where its program headers are in the file.
    pub headers_at: u64,
    /// How many.
    pub headers: u16,
    /// What is mapped.
    pub segments: Vec<Segment>,
    /// The loader that it names (`PT_INTERP`).
    pub loader: Option<PathBuf>,
    /// Written in Go.
    pub is_go: bool,
}

/// A table of headers: where it is, bytes of an entry, and entries.
#[derive(Clone, Copy)]
struct Table {
    at: u64,
    entry: u16,
    count: u16,
}

/// Reads numbers of the file's width.
#[derive(Clone, Copy)]
struct Layout {
    wide: bool,
}

impl Layout {
    fn half(self, bytes: &[u8], at: usize) -> u16 {
        bytes
            .get(at..at + 2)
            .map_or(0, |word| u16::from_le_bytes(word.try_into().expect("two bytes")))
    }

    fn word(self, bytes: &[u8], at: usize) -> u32 {
        bytes
            .get(at..at + 4)
            .map_or(0, |word| u32::from_le_bytes(word.try_into().expect("four bytes")))
    }

    /// The address or length at the first place in files of 64 bits, at the second in others.
    fn long(self, bytes: &[u8], at: [usize; 2]) -> u64 {
        if !self.wide {
            return self.word(bytes, at[1]).into();
        }
        bytes
            .get(at[0]..at[0] + 8)
            .map_or(0, |word| u64::from_le_bytes(word.try_into().expect("eight bytes")))
    }

    fn entry(self, file: &File, table: Table, index: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; table.entry.into()];
        let at = table.at.saturating_add((index * bytes.len()) as u64);
        file.read_exact_at(&mut bytes, at)?;
        Ok(bytes)
    }
}

impl Elf {
    /// None: it is no ELF file.
    pub fn read(file: &File) -> io::Result<Option<Elf>> {
        let mut head = [0; 64];
        let len = read_beginning(file, &mut head)?;
        if len < 52 || !head.starts_with(b"\x7fELF") {
            return Ok(None);
        }
        let wide = head[4] == 2;
        let layout = Layout { wide };
        let entry = layout.half(&head, if wide { 54 } else { 42 });
        let mut elf = Elf {
            wide,
            machine: layout.half(&head, 18),
            kind: match layout.half(&head, 16) {
                _ if entry != if wide { HEADER } else { SHORT_HEADER } => Kind::Other,
                ET_EXEC => Kind::Fixed,
                ET_DYN => Kind::Anywhere,
                _ => Kind::Other,
            },
            entry: layout.long(&head, [24, 24]),
            headers_at: layout.long(&head, [32, 28]),
            headers: layout.half(&head, if wide { 56 } else { 44 }),
            segments: Vec::new(),
            loader: None,
            is_go: false,
        };
        if head[5] != 1 {
            // No machine that the library is made for.
            elf.machine = u16::from_be_bytes([head[18], head[19]]) | BIG_ENDIAN;
            return Ok(Some(elf));
        }
        let programs = Table { at: elf.headers_at, entry, count: elf.headers };
        elf.read_programs(file, layout, programs)?;
        let [entry, count, names] = if wide { [58, 60, 62] } else { [46, 48, 50] };
        let sections = Table {
            at: layout.long(&head, [40, 32]),
            entry: layout.half(&head, entry),
            count: layout.half(&head, count),
        };
        // Programs may be without any, and none is needed to start one.
        let names = layout.half(&head, names);
        elf.is_go = has_section(file, layout, sections, names, GO_SECTION).unwrap_or(false);
        Ok(Some(elf))
    }

    fn read_programs(&mut self, file: &File, layout: Layout, table: Table) -> io::Result<()> {
        for index in 0..usize::from(table.count).min(MAX_HEADERS) {
            let bytes = layout.entry(file, table, index)?;
            let (offset, in_file) = (layout.long(&bytes, [8, 4]), layout.long(&bytes, [32, 16]));
            match layout.word(&bytes, 0) {
                PT_INTERP => {
                    let mut path = vec![0; in_file.min(MAX_PATH) as usize];
                    file.read_exact_at(&mut path, offset)?;
                    let path = path.split(|byte| *byte == 0).next().unwrap_or_default();
                    self.loader = Some(OsStr::from_bytes(path).into());
                }
                PT_LOAD => self.segments.push(Segment {
                    flags: layout.word(&bytes, if self.wide { 4 } else { 24 }),
                    offset,
                    address: layout.long(&bytes, [16, 8]),
                    in_file,
                    in_memory: layout.long(&bytes, [40, 20]),
                }),
                _ => {}
            }
        }
        Ok(())
    }

    /// Made for the machine that this code is made for.
    pub fn is_for_this_machine(&self) -> bool {
        let machine = if cfg!(target_arch = "x86_64") { EM_X86_64 } else { EM_AARCH64 };
        self.wide && self.machine == machine
    }

    /// Linked with musl, by its loader.
    pub fn has_musl(&self) -> bool {
        let name = self.loader.as_deref().and_then(|loader| loader.file_name());
        name.is_some_and(|name| name.as_bytes().starts_with(b"ld-musl"))
    }

    /// A library for glibc that is loaded into it sees nothing, or little, of its system calls: it
    /// has no loader, or another C library, or makes them itself.
    pub fn goes_round_libraries(&self) -> bool {
        self.is_go || self.loader.is_none() || self.has_musl()
    }

    /// It has a loader, and instructions of its own by which it waits for descriptors, as programs
    /// in Rust have that use `rustix`. Looks through the whole file.
    pub fn waits_by_itself(&self, file: &File) -> bool {
        self.loader.is_some()
            && self.wide
            && self.machine == EM_X86_64
            && waits_by_itself(file, &self.segments).unwrap_or(false)
    }

    /// What it is made for, in words.
    pub fn architecture(&self) -> String {
        let bits = if self.wide { 64 } else { 32 };
        match self.machine {
            EM_386 => "32-bit x86".into(),
            EM_X86_64 => format!("x86-64 ({bits} bits)"),
            EM_AARCH64 => format!("AArch64 ({bits} bits)"),
            other => format!("machine {} of elf.h ({bits} bits)", other & !BIG_ENDIAN),
        }
    }
}

/// Whether one of its own instructions is a call that waits for descriptors. Where the number of
/// the call does not stand before it, in what was made without optimization, functions have names.
fn waits_by_itself(file: &File, segments: &[Segment]) -> io::Result<bool> {
    let mut has_calls = false;
    for segment in segments.iter().filter(|segment| segment.flags & PF_X != 0) {
        let all = segment.offset..segment.offset.saturating_add(segment.in_file);
        if any_part(file, all, |code| {
            has_calls |= memmem::find(code, &SYSCALL).is_some();
            waits_in(code)
        })? {
            return Ok(true);
        }
    }
    let is_named = |bytes: &[u8]| RUSTIX.iter().any(|name| memmem::find(bytes, name).is_some());
    Ok(has_calls && any_part(file, 0..u64::MAX, is_named)?)
}

/// Whether a part of these bytes is one that is looked for, and no longer than [`BEFORE`].
fn any_part(
    file: &File,
    range: Range<u64>,
    mut is_one: impl FnMut(&[u8]) -> bool,
) -> io::Result<bool> {
    let mut bytes = vec![0; BEFORE + CHUNK];
    let (mut at, mut kept) = (range.start, 0);
    while at < range.end {
        let wanted = (CHUNK as u64).min(range.end - at) as usize;
        let read = file.read_at(&mut bytes[kept..kept + wanted], at)?;
        if read == 0 {
            break;
        }
        let all = kept + read;
        if is_one(&bytes[..all]) {
            return Ok(true);
        }
        kept = all.min(BEFORE);
        bytes.copy_within(all - kept..all, 0);
        at += read as u64;
    }
    Ok(false)
}

fn waits_in(code: &[u8]) -> bool {
    let mut calls =
        memmem::find_iter(code, &SYSCALL).map(|at| &code[at.saturating_sub(BEFORE)..at]);
    let number = |bytes: &[u8]| match *bytes {
        [MOV_EAX, a, b, c, d] => Some(u32::from_le_bytes([a, b, c, d])),
        _ => None,
    };
    calls.any(|before| {
        // The last number before it is its own.
        before.windows(5).rev().find_map(number).is_some_and(|number| WAITS.contains(&number))
    })
}

/// Whether there is a section of this name.
fn has_section(
    file: &File,
    layout: Layout,
    sections: Table,
    names: u16,
    wanted: &[u8],
) -> io::Result<bool> {
    if names >= sections.count {
        return Ok(false);
    }
    let strings = layout.entry(file, sections, names.into())?;
    if layout.word(&strings, 4) != SHT_STRTAB {
        return Ok(false);
    }
    let (offset, len) = (layout.long(&strings, [24, 16]), layout.long(&strings, [32, 20]));
    let mut text = vec![0; len.min(MAX_NAMES) as usize];
    file.read_exact_at(&mut text, offset)?;
    for index in 0..usize::from(sections.count).min(MAX_HEADERS) {
        let section = layout.entry(file, sections, index)?;
        let name = text.get(layout.word(&section, 0) as usize..).unwrap_or_default();
        if name.split(|byte| *byte == 0).next() == Some(wanted) {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_of_this_machine_is_read() {
        let elf = Elf::read(&File::open("/bin/true").unwrap()).unwrap().unwrap();
        assert!(elf.is_for_this_machine() && !elf.is_go && !elf.goes_round_libraries());
        assert!(elf.loader.is_some() && elf.segments.len() > 1 && elf.entry > 0);
        assert!(elf.segments.iter().any(|segment| {
            (segment.address..segment.address + segment.in_memory).contains(&elf.entry)
        }));
    }

    #[test]
    fn a_program_that_waits_by_itself_is_told() {
        let wait = [0xb8, 0xe8, 0, 0, 0, 0x4c, 0x89, 0xe7, 0x0f, 0x05];
        assert!(waits_in(&wait));
        // `getpid`, whatever was waited for before; and a number without a call.
        assert!(!waits_in(&[&wait[..8], &[0xb8, 39, 0, 0, 0, 0x0f, 0x05]].concat()));
        assert!(!waits_in(&wait[..9]));
        let is_told = |text: &[u8]| {
            let path = std::env::temp_dir().join(format!("clearway-text-{}", std::process::id()));
            std::fs::write(&path, text).unwrap();
            let segment = Segment {
                flags: PF_X,
                offset: 3,
                address: 0,
                in_file: text.len() as u64 - 3,
                in_memory: 0,
            };
            let told = waits_by_itself(&File::open(&path).unwrap(), &[segment]).unwrap();
            std::fs::remove_file(&path).unwrap();
            told
        };
        // Across the end of what is looked at together, and at the end of all.
        for at in [CHUNK - 4, CHUNK + 3 - 5, 2 * CHUNK] {
            assert!(is_told(&[vec![0x90; at], wait.to_vec()].concat()), "at {at}");
        }
        assert!(!is_told(&vec![0x90; 3 * CHUNK]));
        // Another call, and what is named.
        let named =
            |name| [&[0x90, 0x90, 0x90, 0x0f, 0x05][..], &vec![0; CHUNK - 20], name].concat();
        assert!(is_told(&named(RUSTIX[0])) && !is_told(&named(&RUSTIX[1][1..])));
        let bash = File::open("/bin/bash").unwrap();
        assert!(!Elf::read(&bash).unwrap().unwrap().waits_by_itself(&bash));
    }

    #[test]
    fn what_is_cut_or_none_is_told() {
        let folder = std::env::temp_dir().join(format!("clearway-elf-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let whole = std::fs::read("/bin/true").unwrap();
        let read = |bytes: &[u8]| {
            let path = folder.join("file");
            std::fs::write(&path, bytes).unwrap();
            Elf::read(&File::open(&path).unwrap())
        };
        assert!(read(b"#!/bin/sh\n").unwrap().is_none());
        assert!(read(&whole[..40]).unwrap().is_none());
        // Sections lie behind: without them it can still be started.
        assert!(read(&whole[..whole.len() / 2]).unwrap().is_some());
        // The program headers are cut.
        assert!(read(&whole[..100]).is_err());
        let mut big = whole;
        big[5] = 2;
        assert!(!read(&big).unwrap().unwrap().is_for_this_machine());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
