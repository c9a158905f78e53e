//! Options of the level IPPROTO_UDP.

use std::ffi::c_int;

use clearway_client::flags;

use super::{Setting, Value, number, only_off, within};
use crate::errno::{Answer, fail};
use crate::object::Ours;

/// From `linux/udp.h`.
const UDP_NO_CHECK6_TX: c_int = 101;
const UDP_NO_CHECK6_RX: c_int = 102;

pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<()> {
    let number = number(value)?;
    match name {
        libc::UDP_SEGMENT => setting.ours.set_segment_size(within(number, 0, c_int::from(u16::MAX))? as u16),
        libc::UDP_GRO => setting.ours.socket.set_flag(flags::UDP_GRO, number != 0),
        libc::UDP_CORK | UDP_NO_CHECK6_TX | UDP_NO_CHECK6_RX => return only_off(number),
        _ => return fail(libc::ENOPROTOOPT),
    }
    Ok(())
}

pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Value> {
    Ok(Value::Number(match name {
        libc::UDP_SEGMENT => c_int::from(ours.segment_size()),
        libc::UDP_GRO => c_int::from(ours.socket.flag(flags::UDP_GRO)),
        libc::UDP_CORK | UDP_NO_CHECK6_TX | UDP_NO_CHECK6_RX => 0,
        _ => return fail(libc::ENOPROTOOPT),
    }))
}
