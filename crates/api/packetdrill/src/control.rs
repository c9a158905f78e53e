//! Control messages of `recvmsg`.

use std::ffi::c_int;

use libc::msghdr;

/// Puts one message into the caller's room, or says that it was cut.
///
/// # Safety
/// The room of `msg` is as large as it says.
pub(crate) unsafe fn put(msg: &mut msghdr, level: c_int, kind: c_int, value: &[u8]) {
    let space = libc::CMSG_SPACE(value.len() as u32) as usize;
    if msg.msg_control.is_null() || msg.msg_controllen < space {
        msg.msg_controllen = 0;
        msg.msg_flags |= libc::MSG_CTRUNC;
        return;
    }
    let head = libc::CMSG_FIRSTHDR(msg);
    (*head).cmsg_level = level;
    (*head).cmsg_type = kind;
    (*head).cmsg_len = libc::CMSG_LEN(value.len() as u32) as _;
    std::ptr::copy_nonoverlapping(value.as_ptr(), libc::CMSG_DATA(head), value.len());
    msg.msg_controllen = space as _;
}
