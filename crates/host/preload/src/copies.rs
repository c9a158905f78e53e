//! How descriptors of this process get into others: then a session fd may have copies that nobody
//! here counts, and it serves one connection only.

use std::ffi::{c_char, c_int, c_uint};

use libc::{FILE, mmsghdr, msghdr};

use crate::decide;
use crate::export::{guarded, interpose};
use crate::given;
use crate::process::client;
use crate::real;
use crate::reused;
use crate::signals::faults;

/// Copies may be made now.
pub(crate) fn may_be_made() {
    if let Some(client) = client() {
        client.session_fds_are_copied();
    }
}

fn may_have_sockets() -> bool {
    faults::may_be_caught() || client().is_some()
}

/// Notes descriptors that a message takes along. False: what becomes of the message is no matter of
/// this.
///
/// # Safety
/// As `sendmsg(2)` asks of its message.
pub(crate) unsafe fn go_along(message: *const msghdr) -> bool {
    // A process that never had a socket has nothing that could go along, and its bad pointers are
    // the kernel's to see.
    if !may_have_sockets() {
        return false;
    }
    // SAFETY: null, or the caller's message, and any bytes are one.
    if let Ok(message) = unsafe { given::read(message) } {
        let control = given::readable(message.msg_control, message.msg_controllen);
        if message.msg_controllen > 0 && control.is_ok() {
            // SAFETY: the caller's control messages are as long as it says.
            let rights = unsafe { rights_of(&message) };
            if !rights.is_empty() {
                guarded(|| {
                    rights.into_iter().for_each(|fd| drop(decide::settle(fd)));
                    may_be_made();
                });
            }
        }
    }
    false
}

/// The same for several messages.
///
/// # Safety
/// As `sendmmsg(2)` asks of its messages.
pub(crate) unsafe fn go_along_with(messages: *const mmsghdr, count: c_uint) -> bool {
    // Linux sends no more at once.
    for at in 0..count.min(libc::UIO_MAXIOV as c_uint) as usize {
        if messages.is_null() || !may_have_sockets() {
            break;
        }
        // SAFETY: there are so many.
        unsafe { go_along(messages.wrapping_add(at).cast()) };
    }
    false
}

/// The descriptors that a message takes along.
///
/// # Safety
/// The message's control messages are as long as it says.
unsafe fn rights_of(message: &msghdr) -> Vec<c_int> {
    let mut rights = Vec::new();
    // SAFETY: as the caller says; these walk within that length.
    unsafe {
        let mut control = libc::CMSG_FIRSTHDR(message);
        while let Some(head) = control.as_ref() {
            if head.cmsg_level == libc::SOL_SOCKET && head.cmsg_type == libc::SCM_RIGHTS {
                let data = libc::CMSG_DATA(head).cast::<c_int>();
                let rest = message.msg_controllen - (data as usize - message.msg_control as usize);
                let len = head.cmsg_len.saturating_sub(libc::CMSG_LEN(0) as usize).min(rest);
                let count = len / size_of::<c_int>();
                rights.extend((0..count).map(|at| data.add(at).read_unaligned()));
            }
            control = libc::CMSG_NXTHDR(message, control);
        }
    }
    rights
}

/// The library watches whatever process it is in.
fn is_watched() -> bool {
    true
}

interpose! {
    /// `system(3)`: makes a child by a way that no other function shows.
    fn system(command: *const c_char) -> c_int, if is_watched() => { may_be_made(); None };
}

/// `popen(3)`: likewise.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn popen(
    command: *const c_char,
    mode: *const c_char,
) -> *mut FILE {
    guarded(may_be_made);
    // SAFETY: the caller's own arguments.
    let stream = unsafe { real::popen(command, mode) };
    reused::stream_given_out(stream);
    stream
}
