//! The names that programs built with `_FORTIFY_SOURCE` call: they say how long the buffer is that
//! the compiler knows.

use std::ffi::{c_int, c_void};

use libc::{nfds_t, pollfd, sigset_t, size_t, sockaddr, socklen_t, ssize_t, timespec};

use crate::{real, transfer, wait};

macro_rules! fortified {
    ($(
        $(#[$doc:meta])*
        fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty, if $fits:expr => $plain:expr;
    )*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// As for the function that it checks.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $answer {
            if $fits {
                // SAFETY: the caller keeps to what the function asks.
                return unsafe { $plain };
            }
            // SAFETY: the C library's function ends the program, and says why.
            unsafe { real::$name($($arg),*) }
        }
    )*};
}

fortified! {
    /// `read` into a buffer of `room` bytes.
    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t) -> ssize_t,
        if len <= room => transfer::read(fd, buf, len);

    /// `recv` into a buffer of `room` bytes.
    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t,
        if len <= room => transfer::recv(fd, buf, len, flags);

    /// `recvfrom` into a buffer of `room` bytes.
    fn __recvfrom_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t, flags: c_int,
        from: *mut sockaddr, from_len: *mut socklen_t) -> ssize_t, if len <= room => {
        transfer::recvfrom(fd, buf, len, flags, from, from_len)
    };

    /// `poll` of an array of `room` bytes.
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int,
        if count as usize <= room / size_of::<pollfd>() => {
        wait::poll(fds, count, timeout)
    };

    /// `ppoll` of an array of `room` bytes.
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: size_t) -> c_int, if count as usize <= room / size_of::<pollfd>() => {
        wait::ppoll(fds, count, timeout, mask)
    };
}
