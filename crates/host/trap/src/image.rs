//! The program's file, mapped as the kernel would map it.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::ptr;

const PAGE: u64 = 4096;
/// From `elf.h`.
const ET_EXEC: u16 = 2;
const ET_DYN: u16 = 3;
const EM_X86_64: u16 = 62;
const PT_LOAD: u32 = 1;
const PT_INTERP: u32 = 3;
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;
/// Bytes of a program header, and headers at most (as Linux, which reads one page of them).
const HEADER: usize = 56;
const MAX_HEADERS: usize = 73;

/// A program that is mapped: what its start needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    pub(crate) entry: usize,
    pub(crate) headers: usize,
    pub(crate) count: usize,
}

/// A part of the file, and where it belongs.
#[derive(Clone, Copy)]
struct Segment {
    flags: u32,
    offset: u64,
    address: u64,
    in_file: u64,
    in_memory: u64,
}

struct Elf {
    is_fixed: bool,
    entry: u64,
    headers_at: u64,
    count: usize,
    segments: Vec<Segment>,
}

fn read(file: &File) -> Option<Elf> {
    let mut head = [0; 64];
    file.read_exact_at(&mut head, 0).ok()?;
    let half = |at: usize| u16::from_le_bytes([head[at], head[at + 1]]);
    let long = |at: usize| u64::from_le_bytes(head[at..at + 8].try_into().expect("eight bytes"));
    let kind = half(16);
    let known = head.starts_with(b"\x7fELF\x02\x01")
        && half(18) == EM_X86_64
        && matches!(kind, ET_EXEC | ET_DYN)
        && usize::from(half(54)) == HEADER;
    let count = usize::from(half(56));
    if !known || count == 0 || count > MAX_HEADERS {
        return None;
    }
    let mut bytes = vec![0; count * HEADER];
    file.read_exact_at(&mut bytes, long(32)).ok()?;
    let mut segments = Vec::new();
    for header in bytes.chunks_exact(HEADER) {
        let word =
            |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().expect("four bytes"));
        let long =
            |at: usize| u64::from_le_bytes(header[at..at + 8].try_into().expect("eight bytes"));
        match word(0) {
            PT_INTERP => return None,
            PT_LOAD => segments.push(Segment {
                flags: word(4),
                offset: long(8),
                address: long(16),
                in_file: long(32),
                in_memory: long(40),
            }),
            _ => {}
        }
    }
    let fits = |segment: &Segment| {
        segment.in_file <= segment.in_memory
            && segment.offset % PAGE == segment.address % PAGE
            && segment.address.checked_add(segment.in_memory).is_some_and(|end| end < 1 << 46)
    };
    if segments.is_empty() || !segments.iter().all(fits) {
        return None;
    }
    Some(Elf { is_fixed: kind == ET_EXEC, entry: long(24), headers_at: long(32), count, segments })
}

/// A program for this machine that names no loader.
pub(crate) fn is_static(file: &File) -> bool {
    read(file).is_some()
}

const fn down(address: u64) -> u64 {
    address & !(PAGE - 1)
}

const fn up(address: u64) -> u64 {
    (address + PAGE - 1) & !(PAGE - 1)
}

/// Maps the program of this file.
pub(crate) fn map(path: &Path) -> Result<Image, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let elf =
        read(&file).ok_or_else(|| format!("{shown} is no statically linked program for x86-64"))?;
    let first = elf.segments.iter().map(|segment| down(segment.address)).min().unwrap_or(0);
    let last = elf
        .segments
        .iter()
        .map(|segment| up(segment.address + segment.in_memory))
        .max()
        .unwrap_or(0);
    let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    if elf.is_fixed {
        flags |= libc::MAP_FIXED_NOREPLACE;
    }
    let wanted = if elf.is_fixed { first as usize } else { 0 };
    let len = (last - first) as usize;
    // SAFETY: takes addresses where nothing is, or fails.
    let base = unsafe { libc::mmap(wanted as *mut _, len, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED || elf.is_fixed && base as usize != wanted {
        return Err(format!("the addresses of {shown} are not free"));
    }
    let bias = (base as u64).wrapping_sub(first);
    for segment in &elf.segments {
        load(&file, segment, bias).map_err(|error| format!("{shown} cannot be mapped: {error}"))?;
    }
    let place = |address: u64| bias.wrapping_add(address) as usize;
    let headers = elf.segments.iter().find_map(|segment| {
        let within = elf.headers_at.checked_sub(segment.offset)?;
        (within < segment.in_file).then(|| place(segment.address + within))
    });
    Ok(Image { entry: place(elf.entry), headers: headers.unwrap_or(0), count: elf.count })
}

fn load(file: &File, segment: &Segment, bias: u64) -> std::io::Result<()> {
    let mut protection = 0;
    for (flag, bit) in [(PF_R, libc::PROT_READ), (PF_W, libc::PROT_WRITE), (PF_X, libc::PROT_EXEC)]
    {
        if segment.flags & flag != 0 {
            protection |= bit;
        }
    }
    let start = bias.wrapping_add(down(segment.address));
    let in_file = bias.wrapping_add(segment.address) + segment.in_file;
    let end = up(bias.wrapping_add(segment.address) + segment.in_memory);
    let failed = || Err(std::io::Error::last_os_error());
    if segment.in_file > 0 {
        let len = up(in_file) - start;
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED;
        let (fd, offset) = (file.as_raw_fd(), down(segment.offset) as i64);
        // SAFETY: within what was taken for the program.
        let at =
            unsafe { libc::mmap(start as *mut _, len as usize, protection, flags, fd, offset) };
        if at == libc::MAP_FAILED {
            return failed();
        }
        let tail = up(in_file) - in_file;
        if segment.in_memory > segment.in_file && tail > 0 && segment.flags & PF_W != 0 {
            // SAFETY: the rest of the last page, which the program has no other use for.
            unsafe { ptr::write_bytes(in_file as *mut u8, 0, tail as usize) };
        }
    }
    let zeros = if segment.in_file > 0 { up(in_file) } else { start };
    if end > zeros {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
        let len = (end - zeros) as usize;
        // SAFETY: as above.
        let at = unsafe { libc::mmap(zeros as *mut _, len, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return failed();
        }
    }
    Ok(())
}
