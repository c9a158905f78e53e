//! Descriptors that another process sends (SCM_RIGHTS). Among them may be a socket of Clearway's, which the receiver then has as if it had been executed with it.

use std::ffi::{c_int, c_uint};
use std::os::fd::BorrowedFd;

use clearway_client::may_be_lifeline;
use libc::{mmsghdr, msghdr, ssize_t, timespec};

use crate::cancel::while_blocked;
use crate::errno::{Answer, check};
use crate::object::TABLE;
use crate::{heirs, process};

/// There is room for a descriptor in what a call on a descriptor of the kernel's may bring. `message` is what the program gave to `recvmsg`.
pub(crate) fn may_bring(message: *const msghdr) -> bool {
    // SAFETY: null, or as the C function asks.
    let Some(message) = (unsafe { message.as_ref() }) else { return false };
    // SAFETY: computes a length.
    !message.msg_control.is_null()
        && message.msg_controllen >= unsafe { libc::CMSG_LEN(size_of::<c_int>() as c_uint) } as usize
}

/// `recvmsg` of the kernel's; by the system call, so that no thread is cancelled in the midst of our own frames.
///
/// # Safety
/// As for the C function.
pub(crate) unsafe fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> Answer<ssize_t> {
    // SAFETY: the caller's own arguments.
    let answer = while_blocked(|| check(unsafe { libc::syscall(libc::SYS_recvmsg, fd, message, flags) } as ssize_t))?;
    // SAFETY: the kernel has just filled it in.
    unsafe { take_up(&*message) };
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
    // SAFETY: the caller's own arguments.
    let call = || unsafe { libc::syscall(libc::SYS_recvmmsg, fd, messages, count, flags, timeout) } as c_int;
    let filled = while_blocked(|| check(call()))?;
    for at in 0..filled as usize {
        // SAFETY: the kernel has just filled in so many.
        unsafe { take_up(&(*messages.add(at)).msg_hdr) };
    }
    Ok(filled)
}

/// Looks at each descriptor that came.
///
/// # Safety
/// The kernel has filled the message in.
unsafe fn take_up(message: &msghdr) {
    if !process::is_own_or_unwatched() {
        return;
    }
    let errno = crate::errno::get();
    // SAFETY: the control messages lie as the kernel has written them.
    unsafe {
        let mut next = libc::CMSG_FIRSTHDR(message);
        while let Some(head) = next.as_ref() {
            if (head.cmsg_level, head.cmsg_type) == (libc::SOL_SOCKET, libc::SCM_RIGHTS) {
                let data = libc::CMSG_DATA(head).cast::<c_int>();
                let bytes = head.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize);
                (0..bytes / size_of::<c_int>()).for_each(|at| came(data.add(at).read_unaligned()));
            }
            next = libc::CMSG_NXTHDR(message, head);
        }
    }
    crate::errno::set(errno);
}

fn came(fd: c_int) {
    // Whatever had this number was closed in a way that the library did not see.
    TABLE.put(fd, None);
    // SAFETY: it was opened just now.
    let lifeline = unsafe { BorrowedFd::borrow_raw(fd) };
    if may_be_lifeline(lifeline) {
        TABLE.put(fd, heirs::object_of(lifeline));
    }
}
