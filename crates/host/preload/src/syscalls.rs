//! `syscall(2)`: a program that names its system calls by number means the same sockets.
//!
//! libuv sends and receives datagrams so, for one. A number that concerns a descriptor of ours is
//! done by the function of this library that stands in for the C library's; every other one goes on
//! as it came.

use std::ffi::{c_int, c_long, c_uint, c_ulong, c_void};

use clearway_client::is_internal;
use libc::{msghdr, size_t, sockaddr, socklen_t, timespec};

use crate::export::{depth, is_thread};
use crate::object::TABLE;
use crate::{
    answered, copies, epoll, errno, files, interfaces, process, real, received, reused, rights,
    sendfile, sockets, transfer, wait,
};

/// The six words that a system call can have.
pub(crate) type Words = [c_long; 6];

/// `syscall(2)`, declared with `...` in C: on the machines that Clearway runs on, six optional
/// words are passed as fixed ones are.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // Inside of a call of ours it is this library that asks, and it means the kernel.
    if is_thread() && depth() == 0 {
        // SAFETY: the caller's own arguments.
        if let Some(answer) = unsafe { ours(number, [a, b, c, d, e, f]) } {
            return answer;
        }
    }
    // SAFETY: the caller keeps to what the system call asks.
    let answer = unsafe { real::syscall(number, a, b, c, d, e, f) };
    if reused::is_made_by(number) { reused::given_out(answer as c_int).into() } else { answer }
}

/// Does what concerns this library. None: it is the kernel's.
///
/// # Safety
/// The words are what the system call of this number asks.
pub(crate) unsafe fn ours(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    let known = || TABLE.has(fd);
    // SAFETY: the caller's own arguments, in all of these.
    unsafe {
        match number {
            libc::SYS_read | libc::SYS_write | libc::SYS_readv | libc::SYS_writev if known() => {
                bytes(number, words)
            }
            libc::SYS_preadv2 | libc::SYS_pwritev2 if known() => bytes(number, words),
            libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg if known() => {
                receive(number, words)
            }
            libc::SYS_recvmsg if received::may_bring(at(words[1])) => receive(number, words),
            libc::SYS_recvmmsg if received::may_bring_one(at(words[1]), words[2] as c_uint) => {
                receive(number, words)
            }
            libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg if known() => {
                send(number, words)
            }
            libc::SYS_sendmsg if copies::go_along(at(words[1])) => None,
            libc::SYS_sendmmsg if copies::go_along_with(at(words[1]), words[2] as c_uint) => None,
            #[cfg(target_arch = "x86_64")]
            libc::SYS_fork | libc::SYS_vfork => {
                copies::may_be_made();
                None
            }
            libc::SYS_clone | libc::SYS_clone3 => {
                copies::may_be_made();
                None
            }
            libc::SYS_sendfile if known() || TABLE.has(words[1] as c_int) => {
                Some(sendfile::sendfile(fd, words[1] as c_int, at(words[2]), words[3] as size_t)
                    as c_long)
            }
            libc::SYS_splice if known() || TABLE.has(words[2] as c_int) => Some(sendfile::splice(
                fd,
                at(words[1]),
                words[2] as c_int,
                at(words[3]),
                words[4] as size_t,
                words[5] as c_uint,
            )
                as c_long),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open if answered::is_asked(at(words[0]), words[1] as c_int) => {
                Some(answered::open(at(words[0]), words[1] as c_int, words[2] as c_uint).into())
            }
            libc::SYS_openat if answered::is_asked(at(words[1]), words[2] as c_int) => {
                let (flags, mode) = (words[2] as c_int, words[3] as c_uint);
                Some(answered::openat(fd, at(words[1]), flags, mode).into())
            }
            libc::SYS_socket => {
                Some(sockets::socket(fd, words[1] as c_int, words[2] as c_int).into())
            }
            libc::SYS_bind
            | libc::SYS_connect
            | libc::SYS_listen
            | libc::SYS_accept
            | libc::SYS_accept4
                if known() =>
            {
                begin(number, words)
            }
            libc::SYS_getsockname
            | libc::SYS_getpeername
            | libc::SYS_getsockopt
            | libc::SYS_setsockopt
            | libc::SYS_shutdown
                if known() =>
            {
                facts(number, words)
            }
            libc::SYS_close if known() || is_internal(fd) => Some(files::close(fd).into()),
            libc::SYS_close_range => {
                Some(files::close_range(fd as c_uint, words[1] as c_uint, words[2] as c_int).into())
            }
            libc::SYS_dup if known() => Some(files::dup(fd).into()),
            libc::SYS_dup3 => Some(files::dup3(fd, words[1] as c_int, words[2] as c_int).into()),
            libc::SYS_fcntl if known() => {
                Some(files::fcntl(fd, words[1] as c_int, words[2]).into())
            }
            libc::SYS_ioctl
                if known() || interfaces::is_asked(files::number(words[1] as c_ulong)) =>
            {
                Some(files::ioctl(fd, words[1] as c_ulong, words[2]).into())
            }
            libc::SYS_prctl if rights::confines(fd) => {
                let word = |at: usize| words[at] as c_ulong;
                Some(rights::prctl(fd, word(1), word(2), word(3), word(4)).into())
            }
            libc::SYS_seccomp => {
                rights::before_filter(words[0]);
                None
            }
            libc::SYS_setuid
            | libc::SYS_setgid
            | libc::SYS_setreuid
            | libc::SYS_setregid
            | libc::SYS_setresuid
            | libc::SYS_setresgid
            | libc::SYS_setgroups
            | libc::SYS_chroot
            | libc::SYS_unshare => {
                process::before_change();
                None
            }
            libc::SYS_io_uring_setup => {
                // A ring's work is done in the kernel, which has no bytes of ours. Programs that
                // use rings do without where there are none.
                errno::set(libc::ENOSYS);
                Some(-1)
            }
            _ => waits(number, words).or_else(|| old_names(number, words)),
        }
    }
}

/// A word as a pointer.
fn at<T>(word: c_long) -> *mut T {
    word as usize as *mut T
}

/// # Safety
/// As for [`ours`].
unsafe fn bytes(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    // SAFETY: the caller's own arguments, in all of these.
    let done = unsafe {
        match number {
            libc::SYS_read => transfer::read(fd, at(words[1]), words[2] as size_t),
            libc::SYS_write => transfer::write(fd, at::<c_void>(words[1]), words[2] as size_t),
            libc::SYS_readv => transfer::readv(fd, at(words[1]), words[2] as c_int),
            libc::SYS_writev => transfer::writev(fd, at(words[1]), words[2] as c_int),
            libc::SYS_preadv2 => {
                transfer::preadv2(fd, at(words[1]), words[2] as c_int, words[3], words[5] as c_int)
            }
            libc::SYS_pwritev2 => {
                transfer::pwritev2(fd, at(words[1]), words[2] as c_int, words[3], words[5] as c_int)
            }
            _ => return None,
        }
    };
    Some(done as c_long)
}

/// # Safety
/// As for [`ours`].
unsafe fn receive(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    // SAFETY: the caller's own arguments, in all of these.
    let done = unsafe {
        match number {
            libc::SYS_recvfrom => {
                let flags = words[3] as c_int;
                transfer::recvfrom(
                    fd,
                    at(words[1]),
                    words[2] as size_t,
                    flags,
                    at(words[4]),
                    at(words[5]),
                ) as c_long
            }
            libc::SYS_recvmsg => {
                transfer::recvmsg(fd, at::<msghdr>(words[1]), words[2] as c_int) as c_long
            }
            libc::SYS_recvmmsg => {
                let timeout = at::<timespec>(words[4]);
                transfer::recvmmsg(fd, at(words[1]), words[2] as c_uint, words[3] as c_int, timeout)
                    .into()
            }
            _ => return None,
        }
    };
    Some(done)
}

/// # Safety
/// As for [`ours`].
unsafe fn send(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    // SAFETY: the caller's own arguments, in all of these.
    let done = unsafe {
        match number {
            libc::SYS_sendto => {
                let (flags, to, to_len) =
                    (words[3] as c_int, at::<sockaddr>(words[4]), words[5] as socklen_t);
                transfer::sendto(fd, at::<c_void>(words[1]), words[2] as size_t, flags, to, to_len)
                    as c_long
            }
            libc::SYS_sendmsg => {
                transfer::sendmsg(fd, at::<msghdr>(words[1]), words[2] as c_int) as c_long
            }
            libc::SYS_sendmmsg => {
                transfer::sendmmsg(fd, at(words[1]), words[2] as c_uint, words[3] as c_int).into()
            }
            _ => return None,
        }
    };
    Some(done)
}

/// # Safety
/// As for [`ours`].
unsafe fn begin(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    // SAFETY: the caller's own arguments, in all of these.
    let done = unsafe {
        match number {
            libc::SYS_bind => sockets::bind(fd, at::<sockaddr>(words[1]), words[2] as socklen_t),
            libc::SYS_connect => {
                sockets::connect(fd, at::<sockaddr>(words[1]), words[2] as socklen_t)
            }
            libc::SYS_listen => sockets::listen(fd, words[1] as c_int),
            libc::SYS_accept => sockets::accept(fd, at(words[1]), at(words[2])),
            libc::SYS_accept4 => {
                sockets::accept4(fd, at(words[1]), at(words[2]), words[3] as c_int)
            }
            _ => return None,
        }
    };
    Some(done.into())
}

/// # Safety
/// As for [`ours`].
unsafe fn facts(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    let (level, name) = (words[1] as c_int, words[2] as c_int);
    // SAFETY: the caller's own arguments, in all of these.
    let done = unsafe {
        match number {
            libc::SYS_getsockname => sockets::getsockname(fd, at(words[1]), at(words[2])),
            libc::SYS_getpeername => sockets::getpeername(fd, at(words[1]), at(words[2])),
            libc::SYS_getsockopt => {
                sockets::getsockopt(fd, level, name, at(words[3]), at(words[4]))
            }
            libc::SYS_setsockopt => {
                sockets::setsockopt(fd, level, name, at::<c_void>(words[3]), words[4] as socklen_t)
            }
            libc::SYS_shutdown => sockets::shutdown(fd, words[1] as c_int),
            _ => return None,
        }
    };
    Some(done.into())
}

/// The kernel gives the signals of `pselect6` as a pointer to where they are and how long they are.
#[repr(C)]
struct Masked {
    mask: *const libc::sigset_t,
    len: size_t,
}

/// What waits: its descriptors are many, or a set's.
///
/// # Safety
/// As for [`ours`].
unsafe fn waits(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    // SAFETY: the caller's own arguments, in all of these. Masks of the system calls are eight
    // bytes, and no more is read of them.
    let done = unsafe {
        match number {
            libc::SYS_ppoll => wait::ppoll(
                at(words[0]),
                words[1] as c_ulong,
                at::<timespec>(words[2]),
                at(words[3]),
            ),
            libc::SYS_pselect6 => {
                let masked = at::<Masked>(words[5]).as_ref();
                let mask = masked.map_or(std::ptr::null(), |masked| masked.mask);
                wait::pselect(
                    fd,
                    at(words[1]),
                    at(words[2]),
                    at(words[3]),
                    at::<timespec>(words[4]),
                    mask,
                )
            }
            libc::SYS_epoll_create1 => epoll::epoll_create1(fd),
            libc::SYS_epoll_ctl if TABLE.has(fd) => {
                epoll::epoll_ctl(fd, words[1] as c_int, words[2] as c_int, at(words[3]))
            }
            libc::SYS_epoll_pwait if TABLE.has(fd) => epoll::epoll_pwait(
                fd,
                at(words[1]),
                words[2] as c_int,
                words[3] as c_int,
                at(words[4]),
            ),
            libc::SYS_epoll_pwait2 if TABLE.has(fd) => epoll::epoll_pwait2(
                fd,
                at(words[1]),
                words[2] as c_int,
                at::<timespec>(words[3]),
                at(words[4]),
            ),
            _ => return None,
        }
    };
    Some(done.into())
}

/// System calls that only x86-64 still has.
///
/// # Safety
/// As for [`ours`].
#[cfg(target_arch = "x86_64")]
unsafe fn old_names(number: c_long, words: Words) -> Option<c_long> {
    let fd = words[0] as c_int;
    // SAFETY: the caller's own arguments, in all of these.
    let done = unsafe {
        match number {
            libc::SYS_dup2 => files::dup2(fd, words[1] as c_int),
            libc::SYS_poll => wait::poll(at(words[0]), words[1] as c_ulong, words[2] as c_int),
            libc::SYS_select => {
                wait::select(fd, at(words[1]), at(words[2]), at(words[3]), at(words[4]))
            }
            libc::SYS_epoll_create => epoll::epoll_create(fd),
            libc::SYS_epoll_wait if TABLE.has(fd) => {
                epoll::epoll_wait(fd, at(words[1]), words[2] as c_int, words[3] as c_int)
            }
            _ => return None,
        }
    };
    Some(done.into())
}

/// There are none on other machines.
///
/// # Safety
/// As for [`ours`].
#[cfg(not(target_arch = "x86_64"))]
unsafe fn old_names(_: c_long, _: Words) -> Option<c_long> {
    None
}
