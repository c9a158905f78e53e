//! Files whose text is the host's: who opens one to read it gets a descriptor of memory with the
//! text in it, and everybody else the file.
//!
//! The C library opens the file first, and then it is looked at which it was: only then is it known
//! that there is a path at all, and whatever else is opened costs no system call more.

use std::ffi::{CStr, c_char, c_int, c_uint, c_ulong};

use clearway_client::SocketTable;

use crate::errno::{self, fail};
use crate::export::{Inside, enter, guarded, leave};
use crate::process;
use crate::{interfaces, names, real, reused};

#[cfg(test)]
mod tests;

/// A file of which the host knows the text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum File {
    /// A table of sockets below /proc/net.
    Sockets(SocketTable),
    /// Whom the resolver asks for names.
    Resolver,
    /// The addresses of IPv6 and their interfaces, by which Java and others find out whether there
    /// is IPv6 at all.
    Addresses,
}

/// Bytes of the longest path with the NUL at its end, and some.
const LONGEST: usize = 48;

/// The smallest page that a machine has.
const PAGE: usize = 4096;

impl File {
    /// The file that a path names, as far as paths are looked at here: whole ones.
    fn of(path: &[u8]) -> Option<File> {
        if path == b"/etc/resolv.conf" {
            return Some(File::Resolver);
        }
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
            b"if_inet6" if parts.next().is_none() => return Some(File::Addresses),
            _ => return None,
        };
        parts.next().is_none().then_some(File::Sockets(table))
    }

    /// What stands in it for this program. None: what stands in the file.
    fn text(self) -> Option<String> {
        let table = match self {
            File::Resolver => return names::told().map(|dns| names::resolv_conf(&dns)),
            File::Addresses => return interfaces::if_inet6(),
            File::Sockets(table) => table,
        };
        // Without its host a program has the kernel's sockets, and who did not ask for it asks no
        // host by reading a file.
        process::in_passing(|config| config.proc_net, |client| client.socket_table(table).ok())
            .flatten()
    }
}

/// Whether the digits are the number of this process.
fn is_this_process(digits: &[u8]) -> bool {
    let text = std::str::from_utf8(digits).ok().filter(|_| digits.iter().all(u8::is_ascii_digit));
    text.and_then(|text| text.parse().ok()) == Some(std::process::id())
}

/// Whether an opening with these flags does nothing but read a file.
fn reads(flags: c_int) -> bool {
    let does_more = libc::O_ACCMODE | libc::O_PATH | libc::O_DIRECTORY | libc::O_CREAT;
    flags & does_more == libc::O_RDONLY
}

/// Whether a system call wants to read such a file. The path may point anywhere: a bad one is the
/// kernel's to refuse.
pub(crate) fn is_asked(path: *const c_char, flags: c_int) -> bool {
    if !reads(flags) {
        return false;
    }
    let mut bytes = [0_u8; LONGEST];
    // Of a piece that cannot be read in full nothing is, so no piece goes over the end of a page.
    let first = LONGEST.min(PAGE - path.addr() % PAGE);
    let piece = |from: *const c_char, len: usize| libc::iovec {
        iov_base: from.cast_mut().cast(),
        iov_len: len,
    };
    let from = [piece(path, first), piece(path.wrapping_byte_add(first), LONGEST - first)];
    let into = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: LONGEST };
    let before = errno::get();
    // SAFETY: there is as much room as is said, and the kernel looks whether there is as much to
    // read.
    let read = unsafe {
        libc::process_vm_readv(libc::getpid(), &into, 1, from.as_ptr(), from.len() as c_ulong, 0)
    };
    errno::set(before);
    let read = usize::try_from(read).ok().and_then(|read| bytes.get(..read));
    let path = read.and_then(|bytes| CStr::from_bytes_until_nul(bytes).ok());
    path.is_some_and(|path| File::of(path.to_bytes()).is_some())
}

/// The file that was opened, where it is one of these.
///
/// # Safety
/// The path is what was opened, or was not with the errno that is set.
unsafe fn found(path: *const c_char, is_open: bool) -> Option<File> {
    // Where the system has no such file, the host's is there all the same. Any other error may have
    // come before the path was looked at.
    let is_missing = || matches!(errno::get(), libc::ENOENT | libc::EACCES | libc::ENOTDIR);
    // SAFETY: the kernel has read it.
    (is_open || is_missing()).then(|| unsafe { CStr::from_ptr(path) }.to_bytes()).and_then(File::of)
}

/// A descriptor of memory with the file's text, at the number `at` when that is one. None: the file
/// itself is right.
fn made(file: File, at: c_int, flags: c_int) -> Inside<c_int> {
    let text = file.text()?;
    let close = if flags & libc::O_CLOEXEC != 0 { libc::MFD_CLOEXEC } else { 0 };
    // SAFETY: the name is a C string.
    let fd = unsafe { libc::memfd_create(c"clearway".as_ptr(), close) };
    if fd < 0 {
        return Some(fail(errno::get()));
    }
    let mut left = text.as_bytes();
    while !left.is_empty() {
        // SAFETY: the bytes are ours, and the descriptor is nobody else's yet.
        match unsafe { real::write(fd, left.as_ptr().cast(), left.len()) } {
            written @ 1.. => left = &left[written as usize..],
            _ => break,
        }
    }
    // SAFETY: both descriptors were opened for this call, and nobody else knows them.
    unsafe {
        let is_whole = left.is_empty() && libc::lseek(fd, 0, libc::SEEK_SET) == 0;
        if is_whole && at < 0 {
            return Some(Ok(fd));
        }
        // The lowest number that was free is the file's, and it stays so.
        let moved = is_whole && real::dup3(fd, at, flags & libc::O_CLOEXEC) == at;
        real::close(fd);
        Some(if moved { Ok(at) } else { fail(libc::EIO) })
    }
}

/// [`made`], from a function of the C library's. None leaves errno as it was.
fn answer(file: File, at: c_int, flags: c_int) -> Inside<c_int> {
    let before = errno::get();
    let entered = enter();
    let made = guarded(|| made(file, at, flags));
    leave(entered);
    if made.is_none() {
        errno::set(before);
    }
    made
}

/// What a program gets that opened `path` and got `opened` from the C library.
///
/// # Safety
/// The path is what was opened.
unsafe fn instead(path: *const c_char, flags: c_int, opened: c_int) -> c_int {
    if !reads(flags) {
        return opened;
    }
    // SAFETY: as the caller says.
    let file = unsafe { found(path, opened >= 0) };
    match file.and_then(|file| answer(file, opened, flags)) {
        None => opened,
        Some(Ok(fd)) => reused::given_out(fd),
        Some(Err(why)) => {
            if opened >= 0 {
                // SAFETY: it was opened for this call, and nobody else knows it.
                unsafe { real::close(opened) };
            }
            errno::set(why.0);
            -1
        }
    }
}

/// Defines C functions that open what `$path` names as `$flags` says.
macro_rules! opens {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),*), at $path:ident by $flags:ident;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the caller keeps to what the function asks.
            unsafe { instead($path, $flags, reused::given_out(real::$name($($arg),*))) }
        }
    )*};
}

opens! {
    /// `open(2)`. Declared with `...` in C: on the machines that Clearway runs on, one optional
    /// word is passed as a fixed one is.
    fn open(path: *const c_char, flags: c_int, mode: c_uint), at path by flags;

    /// The same with 64-bit file offsets.
    fn open64(path: *const c_char, flags: c_int, mode: c_uint), at path by flags;

    /// `openat(2)`: the path is whole, so the folder does not matter.
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint), at path by flags;

    /// The same with 64-bit file offsets.
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint), at path by flags;

    /// `open` of a program compiled with `_FORTIFY_SOURCE`.
    fn __open_2(path: *const c_char, flags: c_int), at path by flags;

    /// The same with 64-bit file offsets.
    fn __open64_2(path: *const c_char, flags: c_int), at path by flags;

    /// `openat` of such a program.
    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int), at path by flags;

    /// The same with 64-bit file offsets.
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int), at path by flags;
}

/// What a program gets that opened `path` in a mode and got `opened` from the C library.
///
/// # Safety
/// The words are what was opened.
unsafe fn stream_instead(
    path: *const c_char,
    mode: *const c_char,
    opened: *mut libc::FILE,
) -> *mut libc::FILE {
    reused::stream_given_out(opened);
    // SAFETY: as the caller says.
    let Some(file) = (unsafe { found(path, !opened.is_null()) }) else { return opened };
    // SAFETY: the C library has read it.
    let how = unsafe { CStr::from_ptr(mode) }.to_bytes();
    if !how.starts_with(b"r") || how.contains(&b'+') {
        return opened;
    }
    let flags = if how.contains(&b'e') { libc::O_CLOEXEC } else { 0 };
    // SAFETY: nobody else knows the stream and its descriptor. Nothing was read of it yet, so that
    // it reads whatever the descriptor is of.
    unsafe {
        let at = if opened.is_null() { -1 } else { real::fileno(opened) };
        match answer(file, at, flags) {
            None => opened,
            Some(Ok(_)) if !opened.is_null() => opened,
            Some(Ok(fd)) => {
                let stream = real::fdopen(fd, mode);
                if stream.is_null() {
                    real::close(fd);
                }
                stream
            }
            Some(Err(why)) => {
                if !opened.is_null() {
                    libc::fclose(opened);
                }
                errno::set(why.0);
                std::ptr::null_mut()
            }
        }
    }
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
    unsafe { stream_instead(path, mode, real::fopen(path, mode)) }
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
    unsafe { stream_instead(path, mode, real::fopen64(path, mode)) }
}
