//! Descriptors that another process sends (SCM_RIGHTS). Among them may be a socket of Clearway's,
//! which the receiver then has as if it had been executed with it.

use std::ffi::{c_int, c_long, c_uint};
use std::os::fd::BorrowedFd;

use clearway_client::{is_confined, may_be_session_fd};
use libc::{cmsghdr, mmsghdr, msghdr, socklen_t, ssize_t, timespec, timeval};

use crate::errno::{Answer, blocking};
use crate::files;
use crate::given;
use crate::object::{self, TABLE};
use crate::signals::{self, held};
use crate::{inheritors, process, real, undecided};

/// A control message without a descriptor.
// SAFETY: computes a length.
const LEN_OF_NONE: usize = unsafe { libc::CMSG_LEN(0) } as usize;

/// There is room for a descriptor in what a call on a descriptor of the kernel's may bring.
/// `message` is what the program gave to `recvmsg`.
pub(crate) fn may_bring(message: *const msghdr) -> bool {
    // SAFETY: null, or the caller's, and any bytes are one.
    let Ok(message) = (unsafe { given::read(message) }) else { return false };
    // SAFETY: computes a length.
    !message.msg_control.is_null()
        && message.msg_controllen
            >= unsafe { libc::CMSG_LEN(size_of::<c_int>() as c_uint) } as usize
}

/// The same of several messages, what the program gave to `recvmmsg`.
pub(crate) fn may_bring_one(messages: *const mmsghdr, count: c_uint) -> bool {
    // Linux receives no more at once.
    let mut each = 0..count.min(libc::UIO_MAXIOV as c_uint) as usize;
    // SAFETY: as the C function asks, there are so many.
    !messages.is_null() && each.any(|at| may_bring(messages.wrapping_add(at).cast()))
}

/// `recvmsg` of the kernel's; by the system call, so that no thread is cancelled in the midst of
/// our own frames.
///
/// # Safety
/// As for the C function.
pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> Answer<ssize_t> {
    let words = [fd.into(), message as c_long, flags.into(), 0, 0, 0];
    // SAFETY: the caller's own arguments.
    let call = || unsafe { held::wait(libc::SYS_recvmsg, words) };
    let answer = blocking(call, || has_time_limit(fd))? as ssize_t;
    // SAFETY: the kernel has just filled it in.
    unsafe { take_up(&mut *message) };
    Ok(answer)
}

/// `recvmmsg` of the kernel's.
///
/// # Safety
/// As for the C function.
pub(crate) unsafe fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> Answer<c_int> {
    let words = [fd.into(), messages as c_long, count.into(), flags.into(), timeout as c_long, 0];
    // SAFETY: the caller's own arguments.
    let call = || unsafe { held::wait(libc::SYS_recvmmsg, words) };
    let filled = blocking(call, || has_time_limit(fd))? as c_int;
    for at in 0..filled as usize {
        // SAFETY: the kernel has just filled in so many.
        unsafe { take_up(&mut (*messages.add(at)).msg_hdr) };
    }
    Ok(filled)
}

/// Linux does not begin a call on a socket with SO_RCVTIMEO again.
fn has_time_limit(fd: c_int) -> bool {
    let mut limit = timeval { tv_sec: 0, tv_usec: 0 };
    let mut len = size_of::<timeval>() as socklen_t;
    let place = (&raw mut limit).cast();
    // SAFETY: the place is that long.
    let asked =
        unsafe { libc::getsockopt(fd, libc::SOL_SOCKET, libc::SO_RCVTIMEO, place, &raw mut len) };
    asked == 0 && (limit.tv_sec != 0 || limit.tv_usec != 0)
}

/// Looks at each descriptor that came. One that this process cannot have is closed, and told as
/// Linux tells of a descriptor that had no place: it is missing, and MSG_CTRUNC is set.
///
/// # Safety
/// The kernel has filled the message in.
unsafe fn take_up(message: &mut msghdr) {
    if !process::is_own_or_unwatched() {
        return;
    }
    let errno = crate::errno::get();
    let mut refused = false;
    // SAFETY: the control messages lie as the kernel has written them.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(head) = next.as_mut() {
            if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                // Where the next one lies is computed from the length as it is.
                let following = libc::CMSG_NXTHDR(message, head);
                refused |= take_up_each(head);
                next = following;
            } else {
                next = libc::CMSG_NXTHDR(message, head);
            }
        }
    }
    if refused {
        message.msg_flags |= libc::MSG_CTRUNC;
    }
    crate::errno::set(errno);
}

/// Those of one control message; what is refused is taken out of it. True: there was such.
///
/// # Safety
/// As the kernel has written it.
unsafe fn take_up_each(head: &mut cmsghdr) -> bool {
    let bytes = head.cmsg_len.saturating_sub(LEN_OF_NONE);
    let count = bytes / size_of::<c_int>();
    // SAFETY: so many descriptors lie there.
    let given = unsafe {
        let data = libc::CMSG_DATA(head).cast::<c_int>();
        (0..count).map(|at| data.add(at).read_unaligned()).collect::<Vec<_>>()
    };
    let kept: Vec<c_int> = given.into_iter().filter(|&fd| came(fd)).collect();
    // SAFETY: no more than there were.
    unsafe {
        let data = libc::CMSG_DATA(head).cast::<c_int>();
        kept.iter().enumerate().for_each(|(at, &fd)| data.add(at).write_unaligned(fd));
    }
    head.cmsg_len = (LEN_OF_NONE + kept.len() * size_of::<c_int>()) as _;
    kept.len() < count
}

/// A descriptor came. False: it is not for this process, and closed.
fn came(fd: c_int) -> bool {
    files::was_closed(fd);
    if is_confined() && signals::is_told_of_calls() {
        // To ask what it is would be the end of the process.
        return true;
    }
    // SAFETY: it was opened just now.
    let session_fd = unsafe { BorrowedFd::borrow_raw(fd) };
    if !may_be_session_fd(session_fd) {
        if let Some(object) = undecided::object_of(session_fd) {
            object::put(fd, Some(object));
        }
        return true;
    }
    match inheritors::object_of(session_fd) {
        Ok(object) => {
            TABLE.put(fd, object);
            true
        }
        Err(_) => {
            // SAFETY: nobody has heard of it yet.
            unsafe { real::close(fd) };
            if let Some(client) = process::client() {
                client.stayed(
                    "recvmsg",
                    "the socket that came is of a program that this process may not join; it was \
                     not taken",
                );
            }
            false
        }
    }
}
