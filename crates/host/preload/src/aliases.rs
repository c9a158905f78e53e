//! Other names of functions that this library stands in for, which the C library shows as well.

use std::ffi::{c_int, c_long, c_void};

use libc::{fd_set, nfds_t, pollfd, size_t, sockaddr, socklen_t, ssize_t, timeval};

use crate::{files, sockets, transfer, wait};

macro_rules! also_named {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $answer:ty => $function:path;)*) => {$(
        /// The function without the two signs in front.
        ///
        /// # Safety
        /// As for that function.
        // SAFETY: it stands in for the function of this name in the C library, with its signature.
        #[cfg_attr(not(test), unsafe(no_mangle))]
        pub(crate) unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $answer {
            // SAFETY: the caller keeps to what the function asks.
            unsafe { $function($($arg),*) }
        }
    )*};
}

also_named! {
    fn __close(fd: c_int) -> c_int => files::close;
    fn __connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int => sockets::connect;
    fn __dup2(from: c_int, to: c_int) -> c_int => files::dup2;
    fn __fcntl(fd: c_int, command: c_int, word: c_long) -> c_int => files::fcntl;
    fn __poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int => wait::poll;
    fn __read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t => transfer::read;
    fn __select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int => wait::select;
    fn __send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t
        => transfer::send;
    fn __write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t => transfer::write;
}
