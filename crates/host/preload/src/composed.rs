//! Functions of the C library that are made of others which this library stands in for. Inside, the
//! C library calls its own: descriptors would be replaced and closed, and sockets asked and bound,
//! past this library. So these do the same by ours.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::mem::ManuallyDrop;
use std::ptr;

use libc::{FILE, sockaddr_in, sockaddr_storage, socklen_t};

use crate::errno;
use crate::export::guarded;
use crate::files::{self, SIOCATMARK};
use crate::object::TABLE;
use crate::reused::{given_out, stream_given_out};
use crate::{real, sockets};

const NULL_DEVICE: &CStr = c"/dev/null";

/// What standard input, output and error are at.
const STANDARD: [c_int; 3] = [libc::STDIN_FILENO, libc::STDOUT_FILENO, libc::STDERR_FILENO];

/// `sockatmark(3)`, which is an `ioctl` by its definition.
///
/// # Safety
/// Takes no pointers.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn sockatmark(fd: c_int) -> c_int {
    let mut is_there: c_int = 0;
    // SAFETY: the number lives as long as the call.
    match unsafe { files::ioctl(fd, SIOCATMARK, (&raw mut is_there).addr() as c_long) } {
        -1 => -1,
        _ => is_there,
    }
}

/// Puts a descriptor in the place of the three standard ones, and closes it unless it is one of
/// these.
fn become_standard(fd: c_int) -> bool {
    for standard in STANDARD {
        // SAFETY: takes no pointers.
        while unsafe { files::dup2(fd, standard) } < 0 {
            if errno::get() != libc::EBUSY {
                return false;
            }
        }
    }
    if fd > libc::STDERR_FILENO {
        files::close_held(fd);
    }
    true
}

/// `daemon(3)`
///
/// # Safety
/// Takes no pointers.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn daemon(stay: c_int, keep: c_int) -> c_int {
    // SAFETY: forks as the program asked to; the parent ends without its handlers.
    match unsafe { libc::fork() } {
        0 => {}
        -1 => return -1,
        // SAFETY: ends this process.
        _ => unsafe { libc::_exit(0) },
    }
    // SAFETY: the paths are C strings, and the rest takes no pointers.
    unsafe {
        if libc::setsid() < 0 {
            return -1;
        }
        if stay == 0 {
            // As the C library, which goes on where it may not.
            libc::chdir(c"/".as_ptr());
        }
        if keep != 0 {
            return 0;
        }
        let null = given_out(real::open(NULL_DEVICE.as_ptr(), libc::O_RDWR, 0));
        if null < 0 {
            return -1;
        }
        if !is_null_device(null) {
            files::close_held(null);
            errno::set(libc::ENODEV);
            return -1;
        }
        if become_standard(null) { 0 } else { -1 }
    }
}

/// Of a root folder that was made by hand it may be a file.
fn is_null_device(fd: c_int) -> bool {
    // SAFETY: all-zero is a state of a file, which the kernel writes.
    unsafe {
        let mut state: libc::stat = std::mem::zeroed();
        libc::fstat(fd, &raw mut state) == 0
            && state.st_mode & libc::S_IFMT == libc::S_IFCHR
            && state.st_rdev == libc::makedev(1, 3)
    }
}

/// `login_tty(3)`
///
/// # Safety
/// Takes no pointers.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn login_tty(fd: c_int) -> c_int {
    // SAFETY: takes no pointers.
    unsafe {
        libc::setsid();
        if files::ioctl(fd, libc::TIOCSCTTY, 0) < 0 || !become_standard(fd) {
            return -1;
        }
    }
    0
}

/// `openpty(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn openpty(
    main: *mut c_int,
    other: *mut c_int,
    name: *mut c_char,
    modes: *const c_void,
    size: *const c_void,
) -> c_int {
    // SAFETY: the caller keeps to what the function asks.
    let made = unsafe { real::openpty(main, other, name, modes, size) };
    if made == 0 {
        // SAFETY: the C library has written both.
        unsafe {
            given_out(main.read_unaligned());
            given_out(other.read_unaligned());
        }
    }
    made
}

/// `forkpty(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn forkpty(
    main: *mut c_int,
    name: *mut c_char,
    modes: *const c_void,
    size: *const c_void,
) -> libc::pid_t {
    let (mut mine, mut childs) = (-1, -1);
    // SAFETY: the caller keeps to what the function asks; the numbers live as long as the call.
    if unsafe { openpty(&raw mut mine, &raw mut childs, name, modes, size) } < 0 {
        return -1;
    }
    // SAFETY: forks as the program asked to.
    match unsafe { libc::fork() } {
        -1 => {
            files::close_held(mine);
            files::close_held(childs);
            -1
        }
        0 => {
            files::close_held(mine);
            // SAFETY: takes no pointers, and ends this process where it has no terminal.
            unsafe {
                if login_tty(childs) < 0 {
                    libc::_exit(1);
                }
            }
            0
        }
        pid => {
            files::close_held(childs);
            // SAFETY: as the function asks.
            unsafe { main.write_unaligned(mine) };
            pid
        }
    }
}

macro_rules! reopens {
    ($($(#[$doc:meta])* fn $name:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name(
            path: *const c_char,
            mode: *const c_char,
            stream: *mut FILE,
        ) -> *mut FILE {
            // SAFETY: the caller keeps to what the function asks.
            unsafe {
                // What it had open is closed inside, or replaced, also where it fails.
                let before = if stream.is_null() { -1 } else { libc::fileno(stream) };
                let opened = real::$name(path, mode, stream);
                given_out(before);
                stream_given_out(opened);
                opened
            }
        }
    )*};
}

reopens! {
    /// `freopen(3)`
    fn freopen;
    /// The same with 64-bit file offsets.
    fn freopen64;
}

// SAFETY: the variable is the C library's.
unsafe extern "C" {
    static mut stderr: *mut FILE;
}

/// `perror(3)`: the C library's writes to a copy of the descriptor.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn perror(what: *const c_char) {
    if !TABLE.has(libc::STDERR_FILENO) {
        // SAFETY: the caller's own argument.
        return unsafe { real::perror(what) };
    }
    let number = errno::get();
    let mut line = guarded(|| {
        // SAFETY: null, or the caller's string; and the C library's.
        let (what, why) = unsafe {
            let what = if what.is_null() { c"" } else { CStr::from_ptr(what) };
            (what.to_bytes(), CStr::from_ptr(libc::strerror(number)).to_bytes())
        };
        let between: &[u8] = if what.is_empty() { b"" } else { b": " };
        // A thread that is cancelled while it writes is unwound through here.
        ManuallyDrop::new([what, between, why, b"\n\0"].concat())
    });
    // SAFETY: the line ends with a zero, and the stream is the C library's.
    unsafe {
        libc::fputs(line.as_ptr().cast(), stderr);
        ManuallyDrop::drop(&mut line);
    }
}

/// Ports that only root may have and no service is known by; from `netinet/in.h` of old.
const FIRST_RESERVED: u16 = 512;
const LAST_RESERVED: u16 = 1023;

/// Binds to the first of the reserved ports that is free, from one downwards and once around.
/// EADDRINUSE: none is.
///
/// # Safety
/// There is an address of a family that has ports, `len` long.
unsafe fn bind_reserved(fd: c_int, addr: *mut sockaddr_in, len: socklen_t, from: u16) -> c_int {
    let count = LAST_RESERVED - FIRST_RESERVED + 1;
    for step in 0..count {
        let port = FIRST_RESERVED + (from - FIRST_RESERVED + count - step) % count;
        // SAFETY: as the caller says; the port lies at the same place in both families.
        let bound = unsafe {
            (*addr).sin_port = port.to_be();
            sockets::bind(fd, addr.cast(), len)
        };
        if bound == 0 || errno::get() != libc::EADDRINUSE {
            return bound;
        }
    }
    -1
}

/// `bindresvport(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn bindresvport(fd: c_int, addr: *mut sockaddr_in) -> c_int {
    // SAFETY: all-zero is an address; null, or the caller's.
    unsafe {
        let mut any: sockaddr_in = std::mem::zeroed();
        any.sin_family = libc::AF_INET as libc::sa_family_t;
        let addr = if addr.is_null() { &raw mut any } else { addr };
        if c_int::from((*addr).sin_family) != libc::AF_INET {
            errno::set(libc::EAFNOSUPPORT);
            return -1;
        }
        // So that programs which begin together do not all try the same ones.
        let from = LAST_RESERVED - (libc::getpid() % 424) as u16;
        bind_reserved(fd, addr, size_of::<sockaddr_in>() as socklen_t, from)
    }
}

/// `rresvport(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn rresvport(port: *mut c_int) -> c_int {
    // SAFETY: the caller's own argument.
    unsafe { rresvport_af(port, libc::AF_INET as libc::sa_family_t) }
}

/// `rresvport_af(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn rresvport_af(
    port: *mut c_int,
    family: libc::sa_family_t,
) -> c_int {
    let len = match c_int::from(family) {
        libc::AF_INET => size_of::<sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => {
            errno::set(libc::EAFNOSUPPORT);
            return -1;
        }
    };
    // SAFETY: all-zero is an address; the port is the caller's to read and write.
    unsafe {
        let fd = sockets::socket(family.into(), libc::SOCK_STREAM, 0);
        if fd < 0 {
            return -1;
        }
        let mut addr: sockaddr_storage = std::mem::zeroed();
        addr.ss_family = family;
        let addr = ptr::from_mut(&mut addr).cast::<sockaddr_in>();
        let from = (*port).clamp(FIRST_RESERVED.into(), LAST_RESERVED.into()) as u16;
        if bind_reserved(fd, addr, len as socklen_t, from) == 0 {
            *port = u16::from_be((*addr).sin_port).into();
            return fd;
        }
        let why = match errno::get() {
            libc::EADDRINUSE => libc::EAGAIN,
            why => why,
        };
        files::close_held(fd);
        errno::set(why);
        -1
    }
}
