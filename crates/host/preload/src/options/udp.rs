//! Options of the level IPPROTO_UDP.

use std::ffi::c_int;

use clearway_client::flags;

use super::{Setting, Value, number, within};
use crate::errno::Answer;
use crate::object::Ours;

/// Sets what follows a rule of its own; false for what does not.
pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<bool> {
    let number = number(value)?;
    match name {
        libc::UDP_SEGMENT => {
            setting.ours.set_segment_size(within(number, 0, c_int::from(u16::MAX))? as u16)
        }
        libc::UDP_GRO => setting.ours.socket.set_flag(flags::UDP_GRO, number != 0),
        _ => return Ok(false),
    }
    Ok(true)
}

/// Tells what follows a rule of its own.
pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Option<Value>> {
    Ok(Some(Value::Number(match name {
        libc::UDP_SEGMENT => c_int::from(ours.segment_size()),
        libc::UDP_GRO => c_int::from(ours.socket.flag(flags::UDP_GRO)),
        _ => return Ok(None),
    })))
}
