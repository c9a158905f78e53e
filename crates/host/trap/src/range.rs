//! The part of the address space from which system calls pass: the libraries of this process.

use std::fs;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{context, raw};

/// From `linux/prctl.h`.
pub(crate) const PR_SET_SYSCALL_USER_DISPATCH: i32 = 59;
const PR_SYS_DISPATCH_ON: usize = 1;

/// Where it begins, and how long it is.
pub(crate) static RANGE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

/// A line of `/proc/self/maps`: the addresses, and whether it is a library's code.
fn parse(line: &str) -> Option<(usize, usize, bool)> {
    let mut words = line.split_ascii_whitespace();
    let (from, to) = words.next()?.split_once('-')?;
    let from = usize::from_str_radix(from, 16).ok()?;
    let to = usize::from_str_radix(to, 16).ok()?;
    let executable = words.next()?.as_bytes().get(2) == Some(&b'x');
    let is_file = words.nth(3).is_some_and(|name| name.starts_with('/'));
    Some((from, to, executable && is_file))
}

/// The libraries' code, from the first to the last, given a place in this one's code and one in the
/// program's that the kernel started, which lies elsewhere.
fn span(maps: &str, program: &str) -> Option<(usize, usize)> {
    let code = maps
        .lines()
        .filter(|line| !line.ends_with(program))
        .filter_map(parse)
        .filter(|(_, _, is_code)| *is_code);
    code.map(|(from, to, _)| (from, to)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
}

/// Measures the range, and fills what is free in it, so that nothing of the program's comes to lie
/// there.
pub(crate) fn measure() -> Result<(), String> {
    let maps = fs::read_to_string("/proc/self/maps")
        .map_err(|error| format!("/proc/self/maps cannot be read: {error}"))?;
    let program = fs::read_link("/proc/self/exe")
        .map_err(|error| format!("/proc/self/exe cannot be read: {error}"))?;
    let (from, to) = span(&maps, &program.to_string_lossy()).ok_or("there are no libraries")?;
    let mut at = from;
    for (start, end, _) in maps.lines().filter_map(parse) {
        if start >= to || end <= from {
            continue;
        }
        if start > at {
            let flags = libc::MAP_PRIVATE
                | libc::MAP_ANONYMOUS
                | libc::MAP_NORESERVE
                | libc::MAP_FIXED_NOREPLACE;
            // SAFETY: takes addresses where nothing is, or fails; then something of the
            // libraries' has come to lie there since.
            unsafe { libc::mmap(at as *mut _, start - at, libc::PROT_NONE, flags, -1, 0) };
        }
        at = end;
    }
    RANGE[0].store(from, Ordering::Relaxed);
    RANGE[1].store(to - from, Ordering::Relaxed);
    Ok(())
}

/// Switches dispatch on for this thread.
pub(crate) fn dispatch() -> Result<(), String> {
    let [from, len] = [0, 1].map(|at: usize| RANGE[at].load(Ordering::Relaxed));
    let selector = ptr::null::<u8>() as usize;
    let words = [PR_SET_SYSCALL_USER_DISPATCH as usize, PR_SYS_DISPATCH_ON, from, len, selector, 0];
    // SAFETY: takes numbers; system calls from outside of the range are signals from here on.
    match unsafe { raw::syscall(libc::SYS_prctl, words) } {
        0 => Ok(()),
        error => Err(context(
            "the kernel has no Syscall User Dispatch (Linux 5.11, x86-64)",
            -error as i32,
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "\
55d0f0000000-55d0f0001000 r-xp 00000000 fe:00 1 /usr/bin/clearway-trap
7f0000000000-7f0000021000 rw-p 00000000 00:00 0
7f1000000000-7f1000010000 r--p 00000000 fe:00 2 /usr/lib/libc.so.6
7f1000010000-7f1000020000 r-xp 00010000 fe:00 2 /usr/lib/libc.so.6
7f1000040000-7f1000041000 r-xp 00000000 fe:00 3 /usr/lib/ld-linux-x86-64.so.2
7f1000041000-7f1000042000 rw-p 00000000 00:00 0
7ffd00000000-7ffd00002000 r-xp 00000000 00:00 0 [vdso]
";

    #[test]
    fn the_range_is_the_code_of_the_libraries_and_nothing_else() {
        assert_eq!(
            span(MAPS, "/usr/bin/clearway-trap"),
            Some((0x7f10_0001_0000, 0x7f10_0004_1000))
        );
        assert_eq!(span("", "/x"), None);
    }
}
