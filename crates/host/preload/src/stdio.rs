//! Streams of the C library over a socket of Clearway. Inside, the C library reads and writes by
//! ways that nobody can stand in for, but for the tables of functions that its streams have
//! ([`tables`]). Where these are not as they should be, a stream with functions of its own goes
//! through ours.

use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use libc::{FILE, size_t, ssize_t};

use crate::errno;
use crate::export::guarded;
use crate::object::{Object, TABLE};
use crate::{files, real, transfer};

mod standard;
mod tables;

pub(crate) use standard::follow;
pub(crate) use tables::serve;

/// The beginning of a stream as glibc has laid it out since 2.1 (`struct_FILE.h`, which programs
/// compile into themselves).
#[repr(C)]
struct Head {
    flags: c_int,
    read: [*const u8; 3],
    write_base: *const u8,
    write_at: *const u8,
}

/// `cookie_io_functions_t` of `stdio.h`.
#[repr(C)]
struct Functions {
    read: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut c_char, size_t) -> ssize_t>,
    write: Option<unsafe extern "C-unwind" fn(*mut c_void, *const c_char, size_t) -> ssize_t>,
    seek: Option<unsafe extern "C-unwind" fn(*mut c_void, *mut i64, c_int) -> c_int>,
    close: Option<unsafe extern "C-unwind" fn(*mut c_void) -> c_int>,
}

// SAFETY: the signatures are those of the C library.
unsafe extern "C-unwind" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, functions: Functions) -> *mut FILE;
}

/// A stream over a socket.
struct Stream {
    /// The address of the C library's structure.
    addr: usize,
    /// What its functions are given: the address of the descriptor's number.
    cookie: usize,
    fd: c_int,
}

static STREAMS: Mutex<Vec<Stream>> = Mutex::new(Vec::new());

/// How many there are: `fileno` of anything else need not look.
static COUNT: AtomicUsize = AtomicUsize::new(0);

fn streams() -> MutexGuard<'static, Vec<Stream>> {
    STREAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `fdopen(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    if !guarded(|| may_be_ours(fd) && !tables_serve()) {
        // SAFETY: the caller keeps to what the function asks.
        return unsafe { real::fdopen(fd, mode) };
    }
    over(fd, mode)
}

/// A socket whose first address decides yet may become one of Clearway's under its stream.
fn may_be_ours(fd: c_int) -> bool {
    TABLE.get(fd).is_some_and(|held| matches!(&*held, Object::Ours(_) | Object::Pending(_)))
}

/// The C library's own stream does, since it asks whose its descriptor is.
fn tables_serve() -> bool {
    serve();
    tables::is_served()
}

/// A stream over whatever is behind a descriptor, with functions of its own.
fn over(fd: c_int, mode: *const c_char) -> *mut FILE {
    let functions =
        Functions { read: Some(read), write: Some(write), seek: None, close: Some(close) };
    let cookie = Box::into_raw(Box::new(fd));
    // SAFETY: the functions take such a cookie; the mode is a C string of the caller's.
    let stream = unsafe { fopencookie(cookie.cast::<c_void>(), mode, functions) };
    if stream.is_null() {
        // SAFETY: nobody else has it.
        drop(unsafe { Box::from_raw(cookie) });
        return stream;
    }
    guarded(|| streams().push(Stream { addr: stream.addr(), cookie: cookie.addr(), fd }));
    COUNT.fetch_add(1, Ordering::Relaxed);
    stream
}

/// `fileno(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn fileno(stream: *mut FILE) -> c_int {
    match known(stream) {
        Some(fd) => fd,
        // SAFETY: the caller keeps to what the function asks.
        None => unsafe { real::fileno(stream) },
    }
}

/// `fileno_unlocked(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn fileno_unlocked(stream: *mut FILE) -> c_int {
    match known(stream) {
        Some(fd) => fd,
        // SAFETY: the caller keeps to what the function asks.
        None => unsafe { real::fileno_unlocked(stream) },
    }
}

fn known(stream: *mut FILE) -> Option<c_int> {
    if COUNT.load(Ordering::Relaxed) == 0 {
        return None;
    }
    guarded(|| streams().iter().find(|entry| entry.addr == stream.addr()).map(|entry| entry.fd))
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe extern "C-unwind" fn read(cookie: *mut c_void, buf: *mut c_char, len: size_t) -> ssize_t {
    // SAFETY: the C library's own buffer, and the cookie of the stream.
    unsafe { transfer::read(*cookie.cast::<c_int>(), buf.cast(), len) }
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe extern "C-unwind" fn write(cookie: *mut c_void, buf: *const c_char, len: size_t) -> ssize_t {
    // SAFETY: the cookie of the stream.
    let fd = unsafe { *cookie.cast::<c_int>() };
    // SAFETY: the C library's own buffer.
    unsafe { write_all(fd, buf.cast(), len) }
}

/// Writes what a stream has in its buffer, and says how much that was. Less than all is an error to
/// the C library, which leaves errno as it is.
///
/// # Safety
/// There are so many bytes at `buf`.
pub(crate) unsafe fn write_all(fd: c_int, buf: *const u8, len: size_t) -> ssize_t {
    let mut done = 0;
    while done < len {
        // SAFETY: within the caller's buffer.
        let sent = unsafe { transfer::write(fd, buf.add(done).cast(), len - done) };
        if sent <= 0 {
            break;
        }
        done += sent as size_t;
    }
    done as ssize_t
}

/// # Safety
/// The pointers are what the program gave to the C function that this serves, and valid as that
/// function asks.
unsafe extern "C-unwind" fn close(cookie: *mut c_void) -> c_int {
    // SAFETY: the cookie of the stream, which is over.
    let fd = unsafe { *Box::from_raw(cookie.cast::<c_int>()) };
    let errno = errno::get();
    guarded(|| {
        let mut streams = streams();
        let found = streams.iter().position(|stream| stream.cookie == cookie.addr());
        let closed = found.map(|at| streams.swap_remove(at));
        drop(streams);
        if let Some(stream) = closed {
            COUNT.fetch_sub(1, Ordering::Relaxed);
            standard::closed(stream.addr);
        }
    });
    errno::set(errno);
    files::close_held(fd)
}
