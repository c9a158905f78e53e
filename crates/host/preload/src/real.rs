//! The functions that this library stands in front of: the next ones of the same name, found once
//! each.
//!
//! A function is looked up at its first use, so a program whose loader calls us before any
//! constructor ran is served too. They are declared with the `C-unwind` convention, because the C
//! library cancels a thread by unwinding it from inside of them.

use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::modules;
use libc::{
    epoll_event, fd_set, iovec, mmsghdr, msghdr, nfds_t, off_t, pollfd, sigset_t, size_t, sockaddr,
    socklen_t, ssize_t, timespec, timeval,
};

/// What a function answers when the C library does not have it: failure, with ENOSYS.
trait Missing {
    const MISSING: Self;
}

impl Missing for c_int {
    const MISSING: c_int = -1;
}

impl Missing for c_long {
    const MISSING: c_long = -1;
}

impl<T> Missing for *mut T {
    const MISSING: *mut T = ptr::null_mut();
}

/// `if_nametoindex` says by 0 that there is no such interface.
impl Missing for c_uint {
    const MISSING: c_uint = 0;
}

impl Missing for () {
    const MISSING: () = ();
}

impl Missing for ssize_t {
    const MISSING: ssize_t = -1;
}

/// The function of this name behind this library, kept in the cell. Null: there is none.
pub(crate) fn find(cell: &AtomicPtr<c_void>, name: &CStr) -> *mut c_void {
    let known = cell.load(Ordering::Acquire);
    if !known.is_null() {
        return known;
    }
    // SAFETY: the name is a C string; RTLD_NEXT asks for the definition behind this library.
    let found = unsafe { modules::look_up(libc::RTLD_NEXT, name.as_ptr()) };
    cell.store(found, Ordering::Release);
    found
}

macro_rules! real {
    ($(fn $name:ident($($arg:ident: $type:ty),* $(,)?) -> $answer:ty;)*) => {$(
        /// The function of the same name behind this library.
        ///
        /// # Safety
        /// As the function itself asks.
        #[inline]
        #[allow(clippy::too_many_arguments, reason = "the C library's are as many")]
        pub(crate) unsafe fn $name($($arg: $type),*) -> $answer {
            static CELL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            const NAME: &CStr = match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0")
                .as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name without NUL"),
            };
            let found = find(&CELL, NAME);
            if found.is_null() {
                crate::errno::set(libc::ENOSYS);
                return <$answer as Missing>::MISSING;
            }
            // SAFETY: the C library defines the function of this name with this type.
            let function = unsafe { std::mem::transmute::<*mut c_void,
                unsafe extern "C-unwind" fn($($type),*) -> $answer>(found) };
            // SAFETY: the caller keeps to what the function asks.
            unsafe { function($($arg),*) }
        }
    )*};
}

real! {
    fn socket(domain: c_int, kind: c_int, protocol: c_int) -> c_int;
    fn bind(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    fn connect(fd: c_int, addr: *const sockaddr, len: socklen_t) -> c_int;
    fn listen(fd: c_int, backlog: c_int) -> c_int;
    fn accept(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn accept4(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t, flags: c_int) -> c_int;
    fn getsockname(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getpeername(fd: c_int, addr: *mut sockaddr, len: *mut socklen_t) -> c_int;
    fn getsockopt(fd: c_int, level: c_int, name: c_int, value: *mut c_void,
        len: *mut socklen_t) -> c_int;
    fn setsockopt(fd: c_int, level: c_int, name: c_int, value: *const c_void,
        len: socklen_t) -> c_int;
    fn shutdown(fd: c_int, how: c_int) -> c_int;
    fn system(command: *const c_char) -> c_int;
    fn dlopen(path: *const c_char, flags: c_int) -> *mut c_void;
    fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE;

    fn close(fd: c_int) -> c_int;
    fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int;
    fn dup(fd: c_int) -> c_int;
    fn dup2(from: c_int, to: c_int) -> c_int;
    fn dup3(from: c_int, to: c_int, flags: c_int) -> c_int;
    fn creat(path: *const c_char, mode: c_uint) -> c_int;
    fn creat64(path: *const c_char, mode: c_uint) -> c_int;
    fn eventfd(count: c_uint, flags: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: c_uint) -> c_int;
    fn timerfd_create(clock: c_int, flags: c_int) -> c_int;
    fn inotify_init() -> c_int;
    fn inotify_init1(flags: c_int) -> c_int;
    fn pipe(ends: *mut c_int) -> c_int;
    fn pipe2(ends: *mut c_int, flags: c_int) -> c_int;
    fn socketpair(family: c_int, kind: c_int, protocol: c_int, ends: *mut c_int) -> c_int;
    fn openpty(main: *mut c_int, other: *mut c_int, name: *mut c_char, modes: *const c_void,
        size: *const c_void) -> c_int;
    fn posix_openpt(flags: c_int) -> c_int;
    fn getpt() -> c_int;
    fn mkstemp(path: *mut c_char) -> c_int;
    fn mkstemp64(path: *mut c_char) -> c_int;
    fn mkostemp(path: *mut c_char, flags: c_int) -> c_int;
    fn mkostemp64(path: *mut c_char, flags: c_int) -> c_int;
    fn mkstemps(path: *mut c_char, tail: c_int) -> c_int;
    fn mkstemps64(path: *mut c_char, tail: c_int) -> c_int;
    fn mkostemps(path: *mut c_char, tail: c_int, flags: c_int) -> c_int;
    fn mkostemps64(path: *mut c_char, tail: c_int, flags: c_int) -> c_int;
    fn shm_open(name: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fn mq_open(name: *const c_char, flags: c_int, mode: c_uint, limits: *mut c_void) -> c_int;
    fn open_by_handle_at(mount: c_int, handle: *mut c_void, flags: c_int) -> c_int;
    fn signalfd(fd: c_int, mask: *const sigset_t, flags: c_int) -> c_int;
    fn fanotify_init(flags: c_uint, open: c_uint) -> c_int;
    fn pidfd_open(pid: libc::pid_t, flags: c_uint) -> c_int;
    fn tmpfile() -> *mut libc::FILE;
    fn tmpfile64() -> *mut libc::FILE;
    fn freopen(path: *const c_char, mode: *const c_char, stream: *mut libc::FILE)
        -> *mut libc::FILE;
    fn freopen64(path: *const c_char, mode: *const c_char, stream: *mut libc::FILE)
        -> *mut libc::FILE;
    fn perror(what: *const c_char) -> ();
    fn vdprintf(fd: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    fn __vdprintf_chk(fd: c_int, flag: c_int, format: *const c_char, list: *mut c_void) -> c_int;
    fn open(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fn open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fn openat(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fn openat64(folder: c_int, path: *const c_char, flags: c_int, mode: c_uint) -> c_int;
    fn __open_2(path: *const c_char, flags: c_int) -> c_int;
    fn __open64_2(path: *const c_char, flags: c_int) -> c_int;
    fn __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int;
    fn fopen(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    fn fopen64(path: *const c_char, mode: *const c_char) -> *mut libc::FILE;
    fn fdopen(fd: c_int, mode: *const c_char) -> *mut libc::FILE;
    fn fileno(stream: *mut libc::FILE) -> c_int;
    fn fileno_unlocked(stream: *mut libc::FILE) -> c_int;

    fn read(fd: c_int, buf: *mut c_void, len: size_t) -> ssize_t;
    fn readv(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t;
    fn preadv2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, how: c_int) -> ssize_t;
    fn pwritev2(fd: c_int, iov: *const iovec, count: c_int, offset: off_t, how: c_int) -> ssize_t;
    fn write(fd: c_int, buf: *const c_void, len: size_t) -> ssize_t;
    fn writev(fd: c_int, iov: *const iovec, count: c_int) -> ssize_t;
    fn recv(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int) -> ssize_t;
    fn recvfrom(fd: c_int, buf: *mut c_void, len: size_t, flags: c_int, addr: *mut sockaddr,
        addr_len: *mut socklen_t) -> ssize_t;
    fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t;
    fn recvmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int,
        timeout: *mut timespec) -> c_int;
    fn send(fd: c_int, buf: *const c_void, len: size_t, flags: c_int) -> ssize_t;
    fn sendto(fd: c_int, buf: *const c_void, len: size_t, flags: c_int, addr: *const sockaddr,
        addr_len: socklen_t) -> ssize_t;
    fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t;
    fn sendmmsg(fd: c_int, messages: *mut mmsghdr, count: c_uint, flags: c_int) -> c_int;
    fn sendfile(out: c_int, from: c_int, offset: *mut off_t, count: size_t) -> ssize_t;
    fn splice(from: c_int, from_at: *mut i64, to: c_int, to_at: *mut i64, len: size_t,
        flags: c_uint) -> ssize_t;

    fn getaddrinfo(node: *const c_char, service: *const c_char, hints: *const libc::addrinfo,
        out: *mut *mut libc::addrinfo) -> c_int;
    fn getnameinfo(addr: *const sockaddr, len: socklen_t, host: *mut c_char, host_len: socklen_t,
        service: *mut c_char, service_len: socklen_t, flags: c_int) -> c_int;
    fn gethostbyname(name: *const c_char) -> *mut libc::hostent;
    fn gethostbyname2(name: *const c_char, family: c_int) -> *mut libc::hostent;
    fn gethostbyname_r(name: *const c_char, into: *mut libc::hostent, buf: *mut c_char,
        len: size_t, found: *mut *mut libc::hostent, why: *mut c_int) -> c_int;
    fn gethostbyname2_r(name: *const c_char, family: c_int, into: *mut libc::hostent,
        buf: *mut c_char, len: size_t, found: *mut *mut libc::hostent, why: *mut c_int) -> c_int;
    fn gethostbyaddr(addr: *const c_void, len: socklen_t, family: c_int) -> *mut libc::hostent;
    fn gethostbyaddr_r(addr: *const c_void, len: socklen_t, family: c_int,
        into: *mut libc::hostent, buf: *mut c_char, buf_len: size_t,
        found: *mut *mut libc::hostent, why: *mut c_int) -> c_int;
    fn getifaddrs(out: *mut *mut libc::ifaddrs) -> c_int;
    fn freeifaddrs(list: *mut libc::ifaddrs) -> ();
    fn if_nametoindex(name: *const c_char) -> c_uint;
    fn if_indextoname(index: c_uint, name: *mut c_char) -> *mut c_char;
    fn if_nameindex() -> *mut libc::if_nameindex;

    fn poll(fds: *mut pollfd, count: nfds_t, timeout: c_int) -> c_int;
    fn ppoll(fds: *mut pollfd, count: nfds_t, timeout: *const timespec,
        mask: *const sigset_t) -> c_int;
    fn select(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *mut timeval) -> c_int;
    fn pselect(count: c_int, read: *mut fd_set, write: *mut fd_set, except: *mut fd_set,
        timeout: *const timespec, mask: *const sigset_t) -> c_int;
    fn epoll_create(size: c_int) -> c_int;
    fn epoll_create1(flags: c_int) -> c_int;
    fn epoll_ctl(set: c_int, what: c_int, fd: c_int, event: *mut epoll_event) -> c_int;
    fn epoll_wait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int) -> c_int;
    fn epoll_pwait(set: c_int, events: *mut epoll_event, count: c_int, timeout: c_int,
        mask: *const sigset_t) -> c_int;
    fn epoll_pwait2(set: c_int, events: *mut epoll_event, count: c_int, timeout: *const timespec,
        mask: *const sigset_t) -> c_int;

    fn syscall(number: c_long, a: c_long, b: c_long, c: c_long, d: c_long, e: c_long,
        f: c_long) -> c_long;

    fn pthread_cancel(name: libc::pthread_t) -> c_int;

    fn execve(path: *const c_char, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    fn execvpe(file: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char) -> c_int;
    fn fexecve(fd: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    fn execveat(folder: c_int, path: *const c_char, argv: *const *const c_char,
        envp: *const *const c_char, flags: c_int) -> c_int;
    fn posix_spawn(pid: *mut libc::pid_t, path: *const c_char, actions: *const c_void,
        attributes: *const c_void, argv: *const *const c_char, envp: *const *const c_char) -> c_int;
    fn posix_spawnp(pid: *mut libc::pid_t, file: *const c_char, actions: *const c_void,
        attributes: *const c_void, argv: *const *const c_char, envp: *const *const c_char) -> c_int;

    fn setuid(uid: libc::uid_t) -> c_int;
    fn seteuid(uid: libc::uid_t) -> c_int;
    fn setreuid(real: libc::uid_t, effective: libc::uid_t) -> c_int;
    fn setresuid(real: libc::uid_t, effective: libc::uid_t, saved: libc::uid_t) -> c_int;
    fn setgid(gid: libc::gid_t) -> c_int;
    fn setresgid(real: libc::gid_t, effective: libc::gid_t, saved: libc::gid_t) -> c_int;
    fn setgroups(count: size_t, groups: *const libc::gid_t) -> c_int;
    fn initgroups(user: *const c_char, group: libc::gid_t) -> c_int;
    fn chroot(path: *const c_char) -> c_int;
    fn unshare(flags: c_int) -> c_int;
    fn setrlimit(what: c_uint, limit: *const libc::rlimit) -> c_int;
    fn setrlimit64(what: c_uint, limit: *const libc::rlimit) -> c_int;
    fn prlimit(pid: libc::pid_t, what: c_uint, limit: *const libc::rlimit,
        old: *mut libc::rlimit) -> c_int;
    fn prlimit64(pid: libc::pid_t, what: c_uint, limit: *const libc::rlimit,
        old: *mut libc::rlimit) -> c_int;
    fn prctl(what: c_int, one: std::ffi::c_ulong, two: std::ffi::c_ulong, three: std::ffi::c_ulong,
        four: std::ffi::c_ulong) -> c_int;

    fn sigaction(signal: c_int, action: *const libc::sigaction, old: *mut libc::sigaction) -> c_int;
    fn siginterrupt(signal: c_int, ends: c_int) -> c_int;

    fn __read_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t) -> ssize_t;
    fn __recv_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t, flags: c_int) -> ssize_t;
    fn __recvfrom_chk(fd: c_int, buf: *mut c_void, len: size_t, room: size_t, flags: c_int,
        addr: *mut sockaddr, addr_len: *mut socklen_t) -> ssize_t;
    fn __poll_chk(fds: *mut pollfd, count: nfds_t, timeout: c_int, room: size_t) -> c_int;
    fn __ppoll_chk(fds: *mut pollfd, count: nfds_t, timeout: *const timespec, mask: *const sigset_t,
        room: size_t) -> c_int;
}

/// Makes the fixed-argument face of a function that the C library declares with `...`.
macro_rules! variadic {
    ($(fn $name:ident($first:ident: c_int, $second:ident: $type:ty,
        ...) as $symbol:literal;)*) => {$(
        /// The function of the same name behind this library, with one word as its optional
        /// argument.
        ///
        /// # Safety
        /// As the function itself asks.
        #[inline]
        pub(crate) unsafe fn $name($first: c_int, $second: $type, word: c_long) -> c_int {
            static CELL: AtomicPtr<c_void> = AtomicPtr::new(ptr::null_mut());
            let found = find(&CELL, $symbol);
            if found.is_null() {
                crate::errno::set(libc::ENOSYS);
                return -1;
            }
            // SAFETY: the C library defines the function of this name with this type.
            let function = unsafe { std::mem::transmute::<*mut c_void,
                unsafe extern "C-unwind" fn(c_int, $type, ...) -> c_int>(found) };
            // SAFETY: the caller keeps to what the function asks.
            unsafe { function($first, $second, word) }
        }
    )*};
}

variadic! {
    fn fcntl(fd: c_int, command: c_int, ...) as c"fcntl";
    fn ioctl(fd: c_int, request: std::ffi::c_ulong, ...) as c"ioctl";
}
