//! Control messages of `recvmsg`.

use std::ffi::c_int;

use libc::msghdr;

/// A message: level, type and value.
pub(crate) type Message = (c_int, c_int, Vec<u8>);

/// Puts messages into the caller's room, or says that they were cut.
///
/// # Safety
/// The room of `msg` is as large as it says.
pub(crate) unsafe fn put(msg: &mut msghdr, messages: &[Message]) {
    let room = if msg.msg_control.is_null() { 0 } else { msg.msg_controllen };
    let mut used = 0;
    for (level, kind, value) in messages {
        let space = libc::CMSG_SPACE(value.len() as u32) as usize;
        if room - used < space {
            msg.msg_flags |= libc::MSG_CTRUNC;
            break;
        }
        let head: *mut libc::cmsghdr = msg.msg_control.cast::<u8>().add(used).cast();
        (*head).cmsg_level = *level;
        (*head).cmsg_type = *kind;
        (*head).cmsg_len = libc::CMSG_LEN(value.len() as u32) as _;
        std::ptr::copy_nonoverlapping(value.as_ptr(), libc::CMSG_DATA(head), value.len());
        used += space;
    }
    msg.msg_controllen = used as _;
}
