//! The program's file, mapped as the kernel would map it.

use std::fs::File;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::ptr;

use clearway_program::{Elf, Kind, PAGE, Segment};

use crate::carry::mappable;

/// From `elf.h`.
const PF_X: u32 = 1;
const PF_W: u32 = 2;
const PF_R: u32 = 4;

/// A program that is mapped, with its loader where it has one: what its start needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Image {
    /// The program's first instruction.
    pub(crate) entry: usize,
    /// Its program headers.
    pub(crate) headers: usize,
    pub(crate) count: usize,
    /// The loader, which begins in the program's place.
    pub(crate) loader: Option<Loader>,
}

/// A loader that is mapped.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loader {
    pub(crate) base: usize,
    pub(crate) entry: usize,
}

/// A file that is mapped: what has to be added to its addresses.
struct Mapped {
    elf: Elf,
    bias: u64,
}

impl Mapped {
    fn place(&self, address: u64) -> usize {
        self.bias.wrapping_add(address) as usize
    }
}

const fn down(address: u64) -> u64 {
    address & !(PAGE - 1)
}

const fn up(address: u64) -> u64 {
    (address + PAGE - 1) & !(PAGE - 1)
}

/// Maps the program of this file, and the loader that it names.
pub(crate) fn map(path: &Path) -> Result<Image, String> {
    let program = map_file(path)?;
    let loader = match &program.elf.loader {
        Some(path) => {
            let loader = map_file(path)?;
            Some(Loader { base: loader.bias as usize, entry: loader.place(loader.elf.entry) })
        }
        None => None,
    };
    let elf = &program.elf;
    let headers = elf.segments.iter().find_map(|segment| {
        let within = elf.headers_at.checked_sub(segment.offset)?;
        (within < segment.in_file).then(|| program.place(segment.address + within))
    });
    Ok(Image {
        entry: program.place(elf.entry),
        headers: headers.unwrap_or(0),
        count: elf.headers.into(),
        loader,
    })
}

fn map_file(path: &Path) -> Result<Mapped, String> {
    let shown = path.display();
    let file = File::open(path).map_err(|error| format!("{shown} cannot be read: {error}"))?;
    let elf = mappable(&file).ok_or_else(|| format!("{shown} is no program for x86-64"))?;
    let first = elf.segments.iter().map(|segment| down(segment.address)).min().unwrap_or(0);
    let last = elf
        .segments
        .iter()
        .map(|segment| up(segment.address + segment.in_memory))
        .max()
        .unwrap_or(0);
    let is_fixed = elf.kind == Kind::Fixed;
    let mut flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    if is_fixed {
        flags |= libc::MAP_FIXED_NOREPLACE;
    }
    let wanted = if is_fixed { first as usize } else { 0 };
    let len = (last - first) as usize;
    // SAFETY: takes addresses where nothing is, or fails.
    let base = unsafe { libc::mmap(wanted as *mut _, len, libc::PROT_NONE, flags, -1, 0) };
    if base == libc::MAP_FAILED || is_fixed && base as usize != wanted {
        return Err(format!("the addresses of {shown} are not free"));
    }
    let bias = (base as u64).wrapping_sub(first);
    for segment in &elf.segments {
        load(&file, segment, bias).map_err(|error| format!("{shown} cannot be mapped: {error}"))?;
    }
    Ok(Mapped { elf, bias })
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
