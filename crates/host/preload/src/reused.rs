//! Numbers of descriptors that the kernel gives out anew. What stands in the table at such a number
//! was closed where this library did not see it: by a function that the program looked up in the C
//! library itself, or by an instruction. What is written there from now on is not that socket's.

use std::ffi::{c_char, c_int, c_long, c_uint, c_void};

use libc::{FILE, sigset_t};

use crate::export::{depth, guarded, is_thread};
use crate::files;
use crate::object::TABLE;
use crate::real;

/// The kernel gave out this number just now, to the program. What this library makes for itself is
/// nothing that the program could mean, and may be made with a lock held.
#[inline]
pub(crate) fn given_out(fd: c_int) -> c_int {
    if TABLE.has(fd) && is_thread() && depth() == 0 {
        let errno = crate::errno::get();
        guarded(|| files::was_closed(fd));
        crate::errno::set(errno);
    }
    fd
}

/// The same of a stream that was opened just now; null: it was not.
pub(crate) fn stream_given_out(stream: *mut FILE) {
    if !stream.is_null() {
        // SAFETY: it is the C library's.
        given_out(unsafe { real::fileno(stream) });
    }
}

/// The system call of this number answers with a descriptor that it made.
pub(crate) fn is_made_by(number: c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    let is_old = matches!(
        number,
        libc::SYS_open
            | libc::SYS_creat
            | libc::SYS_eventfd
            | libc::SYS_signalfd
            | libc::SYS_inotify_init
            | libc::SYS_epoll_create
    );
    #[cfg(not(target_arch = "x86_64"))]
    let is_old = false;
    is_old
        || matches!(
            number,
            libc::SYS_openat
                | libc::SYS_openat2
                | libc::SYS_open_by_handle_at
                | libc::SYS_accept
                | libc::SYS_accept4
                | libc::SYS_dup
                | libc::SYS_eventfd2
                | libc::SYS_signalfd4
                | libc::SYS_timerfd_create
                | libc::SYS_inotify_init1
                | libc::SYS_epoll_create1
                | libc::SYS_memfd_create
                | libc::SYS_memfd_secret
                | libc::SYS_pidfd_open
                | libc::SYS_pidfd_getfd
                | libc::SYS_perf_event_open
                | libc::SYS_userfaultfd
                | libc::SYS_fanotify_init
                | libc::SYS_mq_open
        )
}

macro_rules! makes_one {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),*) -> c_int;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the caller keeps to what the function asks.
            given_out(unsafe { real::$name($($arg),*) })
        }
    )*};
}

makes_one! {
    /// `creat(2)`
    fn creat(path: *const c_char, mode: c_uint) -> c_int;
    /// The same with 64-bit file offsets.
    fn creat64(path: *const c_char, mode: c_uint) -> c_int;
    /// `eventfd(2)`
    fn eventfd(count: c_uint, flags: c_int) -> c_int;
    /// `memfd_create(2)`
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    /// `timerfd_create(2)`
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    /// `inotify_init(2)`
    fn inotify_init() -> c_int;
    /// `inotify_init1(2)`
    fn inotify_init1(flags: c_int) -> c_int;
    /// `fanotify_init(2)`
    fn fanotify_init(flags: c_uint, open: c_uint) -> c_int;
    /// `signalfd(2)`
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    /// `pidfd_open(2)`
    fn pidfd_open(pid: libc::pid_t, flags: c_uint) -> c_int;
    /// `open_by_handle_at(2)`
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    /// `shm_open(3)`
    fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    /// `mq_open(3)`, declared with `...` in C: on the machines that Clearway runs on, optional words
    /// are passed as fixed ones are.
    fn mq_open(name: *const c_char, flags: c_int, mode: c_uint, limits: *mut c_void) -> c_int;
    /// `posix_openpt(3)`
    fn posix_openpt(flags: c_int) -> c_int;
    /// `getpt(3)`
    fn getpt() -> c_int;
    /// `mkstemp(3)`
    fn mkstemp(path: *mut c_char) -> c_int;
    /// The same with 64-bit file offsets.
    fn mkstemp64(path: *mut c_char) -> c_int;
    /// `mkostemp(3)`
    fn mkostemp(path: *mut c_char, flags: c_int) -> c_int;
    /// The same with 64-bit file offsets.
    fn mkostemp64(path: *mut c_char, flags: c_int) -> c_int;
    /// `mkstemps(3)`
    fn mkstemps(path: *mut c_char, tail: c_int) -> c_int;
    /// The same with 64-bit file offsets.
    fn mkstemps64(path: *mut c_char, tail: c_int) -> c_int;
    /// `mkostemps(3)`
    fn mkostemps(path: *mut c_char, tail: c_int, flags: c_int) -> c_int;
    /// The same with 64-bit file offsets.
    fn mkostemps64(path: *mut c_char, tail: c_int, flags: c_int) -> c_int;
}

macro_rules! opens_a_stream {
    ($($(#[$doc:meta])* fn $name:ident() -> *mut FILE;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// Takes no pointers.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name() -> *mut FILE {
            // SAFETY: takes no pointers.
            let stream = unsafe { real::$name() };
            stream_given_out(stream);
            stream
        }
    )*};
}

opens_a_stream! {
    /// `tmpfile(3)`
    fn tmpfile() -> *mut FILE;
    /// The same with 64-bit file offsets.
    fn tmpfile64() -> *mut FILE;
}

macro_rules! makes_two {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),*; $ends:ident) -> c_int;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the C function of this name.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> c_int {
            // SAFETY: the caller keeps to what the function asks.
            let made = unsafe { real::$name($($arg),*) };
            if made == 0 {
                // SAFETY: the C library has written both.
                let ends = unsafe { $ends.cast::<[c_int; 2]>().read_unaligned() };
                for fd in ends {
                    given_out(fd);
                }
            }
            made
        }
    )*};
}

makes_two! {
    /// `pipe(2)`
    fn pipe(ends: *mut c_int; ends) -> c_int;
    /// `pipe2(2)`
    fn pipe2(ends: *mut c_int, flags: c_int; ends) -> c_int;
    /// `socketpair(2)`
    fn socketpair(family: c_int, kind: c_int, protocol: c_int, ends: *mut c_int; ends) -> c_int;
}
