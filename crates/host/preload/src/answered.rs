//! Files whose text is the host's: who opens one to read it gets a descriptor of memory with the
//! text in it, and everybody else the file.

use std::ffi::{CStr, c_char, c_int, c_uint};

use clearway_client::SocketTable;

use crate::errno::fail;
use crate::export::{Inside, guarded, interpose};
use crate::process::{self, Host};
use crate::real;

#[cfg(test)]
mod tests;

/// A file of which the host knows the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum File {
    /// A table of sockets below /proc/net.
    Sockets(SocketTable),
}

impl File {
    /// The file that a path names, as far as paths are looked at here: whole ones.
    fn of(path: &[u8]) -> Option<File> {
        let rest = path.strip_prefix(b"/proc/")?;
        let mut parts = rest.split(|byte| *byte == b'/');
        let first = parts.next()?;
        if first != b"net" {
            let is_own = first == b"self" || first == b"thread-self" || is_this_process(first);
            if !is_own || parts.next()? != b"net" {
                return None;
            }
        }
        let table = match parts.next()? {
            b"tcp" => SocketTable::Tcp,
            b"tcp6" => SocketTable::Tcp6,
            b"udp" => SocketTable::Udp,
            b"udp6" => SocketTable::Udp6,
            _ => return None,
        };
        parts.next().is_none().then_some(File::Sockets(table))
    }

    /// What stands in it for this program. None: what stands in the file.
    fn text(self) -> Option<String> {
        let File::Sockets(table) = self;
        // Who did not ask for it enters no host by reading a file.
        if process::client().is_none() && std::env::var_os("CLEARWAY_PROC_NET").is_none() {
            return None;
        }
        match process::host() {
            Host::Here(client) if client.config().proc_net => client.socket_table(table).ok(),
            // Without its host a program has the kernel's sockets.
            Host::Here(_) | Host::Absent | Host::Closed => None,
        }
    }
}

/// Whether the digits are the number of this process.
fn is_this_process(digits: &[u8]) -> bool {
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
    text.and_then(|text| text.parse().ok()) == Some(std::process::id())
}

/// The file that somebody wants to read. Takes no lock and no memory, for it is asked for each file
/// that a program opens.
fn asked(path: *const c_char, flags: c_int) -> Option<File> {
    let reads = flags & (libc::O_ACCMODE | libc::O_PATH | libc::O_DIRECTORY) == libc::O_RDONLY;
    // SAFETY: who opens something gives a C string.
    (reads && !path.is_null())
        .then(|| unsafe { CStr::from_ptr(path) }.to_bytes())
        .and_then(File::of)
}

/// Whether somebody wants to read such a file.
pub(crate) fn is_asked(path: *const c_char, flags: c_int) -> bool {
    asked(path, flags).is_some()
}

/// Opens it. None: the file itself is right.
fn opened(path: *const c_char, flags: c_int) -> Inside<c_int> {
    let text = asked(path, flags)?.text()?;
    let close = if flags & libc::O_CLOEXEC != 0 { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"clearway".as_ptr(), close) };
    if fd < 0 {
        return Some(fail(crate::errno::get()));
    }
    let mut left = text.as_bytes();
    while !left.is_empty() {
        // SAFETY: the bytes are ours, and the descriptor is nobody else's yet.
        match unsafe { real::write(fd, left.as_ptr().cast(), left.len()) } {
            written @ 1.. => left = &left[written as usize..],
            _ => break,
        }
    }
    // SAFETY: the descriptor was opened above, and nobody else knows it.
    unsafe {
        if !left.is_empty() || libc::lseek(fd, 0, libc::SEEK_SET) != 0 {
            real::close(fd);
            return Some(fail(libc::EIO));
        }
    }
    Some(Ok(fd))
}

interpose! {
    /// `open(2)`. Declared with `...` in C: on the machines that Clearway runs on, one optional
    /// word is passed as a fixed one is.
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        if is_asked(path, flags) => opened(path, flags);

    /// The same with 64-bit file offsets.
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        if is_asked(path, flags) => opened(path, flags);

    /// `openat(2)`: the path is whole, so the folder does not matter.
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        if is_asked(path, flags) => opened(path, flags);

    /// The same with 64-bit file offsets.
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int,
        if is_asked(path, flags) => opened(path, flags);

    /// `open` of a program compiled with `_FORTIFY_SOURCE`.
    fn __open_2(path: *const c_char, flags: c_int) -> c_int,
        if is_asked(path, flags) => opened(path, flags);

    /// The same with 64-bit file offsets.
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int,
        if is_asked(path, flags) => opened(path, flags);

    /// `openat` of such a program.
    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int,
        if is_asked(path, flags) => opened(path, flags);

    /// The same with 64-bit file offsets.
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int,
        if is_asked(path, flags) => opened(path, flags);
}

/// A stream over the text. None: the file itself is right.
///
/// # Safety
/// Both are C strings, or null.
unsafe fn stream(path: *const c_char, mode: *const c_char) -> Option<*mut libc::FILE> {
    if mode.is_null() || !is_asked(path, libc::O_RDONLY) {
        return None;
    }
    // SAFETY: as the caller says.
    let how = unsafe { CStr::from_ptr(mode) }.to_bytes();
    if !how.starts_with(b"r") || how.contains(&b'+') {
        return None;
    }
    let close = if how.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    let fd = guarded(|| opened(path, close))?.ok()?;
    // SAFETY: the descriptor was opened above.
    let stream = unsafe { real::fdopen(fd, c"r".as_ptr()) };
    if stream.is_null() {
        // SAFETY: nobody else knows it.
        unsafe { real::close(fd) };
        return None;
    }
    Some(stream)
}

/// `fopen(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn fopen(
    path: *const c_char,
    mode: *const c_char,
) -> *mut libc::FILE {
    // SAFETY: the caller keeps to what the function asks.
    unsafe { stream(path, mode).unwrap_or_else(|| real::fopen(path, mode)) }
}

/// `fopen` by the name that programs with 64-bit file offsets call it.
///
/// # Safety
/// As for `fopen(3)`.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn fopen64(
    path: *const c_char,
    mode: *const c_char,
) -> *mut libc::FILE {
    // SAFETY: the caller keeps to what the function asks.
    unsafe { stream(path, mode).unwrap_or_else(|| real::fopen64(path, mode)) }
}
