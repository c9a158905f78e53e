//! `stdin`, `stdout` and `stderr` of a program whose descriptor 0, 1 or 2 becomes a socket of
//! Clearway while it runs, and perhaps something else again: a shell that redirects a built-in
//! command, a server that puts a connection in the place of its standard output.
//!
//! Only where the tables of the C library's streams could not be changed ([`super::tables`]). The
//! three streams themselves cannot be given functions of ours, so the variables by which programs
//! (and `printf`, and `puts`) find them are set to streams that have them, and set back when the
//! descriptor is the kernel's again. What waits in the one to be written moves to the other, as it
//! would have stayed in a stream whose descriptor was replaced. Such streams know no wide letters:
//! that is why they are the second choice.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{FILE, size_t};

use super::tables::is_served;
use super::{Head, over};
use crate::object::ours;
use crate::real;

// SAFETY: the C library defines these, with these types. A program may assign to them, and so may
// we.
unsafe extern "C" {
    static mut stdin: *mut FILE;
    static mut stdout: *mut FILE;
    static mut stderr: *mut FILE;
    fn flockfile(stream: *mut FILE);
    fn funlockfile(stream: *mut FILE);
    fn __fpurge(stream: *mut FILE);
    fn fwrite_unlocked(
        from: *const c_void,
        size: size_t,
        count: size_t,
        stream: *mut FILE,
    ) -> size_t;
}

/// `_IO_UNBUFFERED` and `_IO_LINE_BUF`.
const UNBUFFERED: c_int = 0x2;
const LINE_BUFFERED: c_int = 0x200;

/// One of the three.
struct Standard {
    mode: &'static CStr,
    /// The program's stream while ours stands in its place.
    programs: AtomicPtr<FILE>,
    /// Ours; kept for the next time.
    over: AtomicPtr<FILE>,
}

impl Standard {
    const fn new(mode: &'static CStr) -> Standard {
        Standard {
            mode,
            programs: AtomicPtr::new(ptr::null_mut()),
            over: AtomicPtr::new(ptr::null_mut()),
        }
    }
}

static STANDARD: [Standard; 3] = [Standard::new(c"r"), Standard::new(c"w"), Standard::new(c"w")];

fn place(fd: c_int) -> *mut *mut FILE {
    match fd {
        libc::STDIN_FILENO => &raw mut stdin,
        libc::STDOUT_FILENO => &raw mut stdout,
        _ => &raw mut stderr,
    }
}

/// What is behind this descriptor has changed.
#[inline]
pub(crate) fn follow(fd: c_int) {
    if (libc::STDIN_FILENO..=libc::STDERR_FILENO).contains(&fd) && !is_served() {
        let errno = crate::errno::get();
        match ours(fd).is_some() {
            true => stand_in(fd),
            false => step_back(fd),
        }
        crate::errno::set(errno);
    }
}

/// Puts a stream of ours in the place of the program's, if that one is the descriptor's.
fn stand_in(fd: c_int) {
    let standard = &STANDARD[fd as usize];
    let (place, over) = (place(fd), standard.over.load(Ordering::Acquire));
    // SAFETY: the variable is the C library's; a program that replaces a descriptor while another
    // thread uses its stream has no order to ask for.
    let programs = unsafe { place.read() };
    if programs.is_null() || programs == over {
        return;
    }
    // SAFETY: a stream of the program's.
    if unsafe { real::fileno(programs) } != fd {
        return;
    }
    let over = if over.is_null() { made(fd, standard) } else { over };
    if over.is_null() {
        return;
    }
    adapt(programs, over);
    standard.programs.store(programs, Ordering::Release);
    // SAFETY: both are streams.
    unsafe { move_pending(programs, over) };
    // SAFETY: as above.
    unsafe { place.write(over) };
}

fn made(fd: c_int, standard: &Standard) -> *mut FILE {
    let stream = over(fd, standard.mode.as_ptr().cast::<c_char>());
    standard.over.store(stream, Ordering::Release);
    stream
}

/// A stream that stands in for another is buffered as that one is.
fn adapt(programs: *mut FILE, over: *mut FILE) {
    // SAFETY: any stream begins so.
    let flags = unsafe { (*programs.cast::<Head>()).flags };
    let how = match flags {
        flags if flags & UNBUFFERED != 0 => libc::_IONBF,
        flags if flags & LINE_BUFFERED != 0 => libc::_IOLBF,
        _ => return,
    };
    // SAFETY: nothing has been written to the stream yet, or all of it was moved.
    unsafe { libc::setvbuf(over, ptr::null_mut(), how, 0) };
}

/// The descriptor is no longer ours: the program's own stream serves it again.
fn step_back(fd: c_int) {
    let standard = &STANDARD[fd as usize];
    let over = standard.over.load(Ordering::Acquire);
    let place = place(fd);
    // SAFETY: as in `stand_in`.
    if over.is_null() || unsafe { place.read() } != over {
        return;
    }
    let programs = standard.programs.load(Ordering::Acquire);
    // SAFETY: both are streams, and the variable is the C library's.
    unsafe {
        move_pending(over, programs);
        place.write(programs);
    }
}

/// The program closes this stream. If it is one of ours that stands in for another, the variable
/// names the program's own again.
pub(super) fn closed(stream: usize) {
    for (fd, standard) in STANDARD.iter().enumerate() {
        if standard.over.load(Ordering::Acquire).addr() == stream {
            standard.over.store(ptr::null_mut(), Ordering::Release);
            // SAFETY: as in `stand_in`.
            unsafe { place(fd as c_int).write(standard.programs.load(Ordering::Acquire)) };
        }
    }
}

/// What waits in one stream to be written waits in another.
///
/// # Safety
/// Both are streams of the C library.
unsafe fn move_pending(from: *mut FILE, to: *mut FILE) {
    // SAFETY: under the stream's lock its buffer stays as it is; a stream without output in its
    // buffer has equal pointers there.
    unsafe {
        flockfile(from);
        let head = &*from.cast::<Head>();
        let pending = (head.write_at as usize).saturating_sub(head.write_base as usize);
        if pending > 0 {
            flockfile(to);
            fwrite_unlocked(head.write_base.cast(), 1, pending, to);
            funlockfile(to);
            __fpurge(from);
        }
        funlockfile(from);
    }
}
