//! Options of the level IPPROTO_IP. They exist on IPv6 sockets too, for what they do over IPv4.

use std::ffi::c_int;

use clearway_client::flags;

use super::{Setting, Value, number, within};
use crate::errno::{Answer, fail};
use crate::object::Ours;

/// The bits of the TOS byte that belong to congestion notification; a stream's are its own business
/// (RFC 3168).
const ECN: u8 = 3;

/// The kinds of IP_MTU_DISCOVER end here (IP_PMTUDISC_OMIT).
const LAST_DISCOVER: c_int = 5;

/// The value that Linux's routes give IP_MTU_DISCOVER at first (IP_PMTUDISC_WANT).
pub(super) const WANT: c_int = 1;

/// A number of this level may be given in one byte.
pub(super) fn short(value: &[u8]) -> Answer<c_int> {
    match value {
        [] => Ok(0),
        [byte, ..] if value.len() < 4 => Ok(c_int::from(*byte)),
        _ => number(value),
    }
}

/// Sets what follows a rule of its own; false for what does not.
pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<bool> {
    let number = short(value)?;
    let ours = setting.ours;
    match name {
        libc::IP_TOS => setting.options.tos = tos(ours, setting.options.tos, number as u8),
        libc::IP_PKTINFO => {
            want(ours, flags::PKTINFO, number != 0, |wants| (&mut wants.pktinfo, wants.pktinfo6))
        }
        libc::IP_RECVTOS => {
            want(ours, flags::RECVTOS, number != 0, |wants| (&mut wants.tos, wants.tclass))
        }
        libc::IP_RECVTTL => {
            want(ours, flags::RECVTTL, number != 0, |wants| (&mut wants.ttl, wants.hop_limit))
        }
        libc::IP_MTU_DISCOVER => setting.options.discover_v4 = discover(ours, number)?,
        libc::IP_RECVERR => receive_errors(setting, number != 0, false),
        _ => return Ok(false),
    }
    Ok(true)
}

/// A stream always heeds what its path takes, so it may be told that only. What datagrams do that
/// are longer is the owner's.
pub(super) fn discover(ours: &Ours, number: c_int) -> Answer<Option<u8>> {
    let how = within(number, 0, LAST_DISCOVER)?;
    if ours.is_stream() && how != WANT && how != libc::IP_PMTUDISC_DO {
        return fail(libc::ENOPROTOOPT);
    }
    Ok(Some(how as u8))
}

/// IP_RECVERR and IPV6_RECVERR. The errors of a stream are told by its calls, whatever it wants.
pub(super) fn receive_errors(setting: &mut Setting<'_>, on: bool, v6: bool) {
    let mut extra = setting.ours.extra();
    let wants = &mut extra.wants;
    *(if v6 { &mut wants.errors6 } else { &mut wants.errors }) = on;
    if !setting.ours.is_stream() {
        setting.options.receive_errors = wants.errors || wants.errors6;
    }
}

fn tos(ours: &Ours, before: u8, tos: u8) -> u8 {
    if ours.is_stream() { (tos & !ECN) | (before & ECN) } else { tos }
}

/// Remembers that datagrams shall bring a control message along; the shared flag holds while either
/// family wants it.
pub(super) fn want(
    ours: &Ours,
    flag: u32,
    on: bool,
    which: impl FnOnce(&mut super::Wants) -> (&mut bool, bool),
) {
    let mut extra = ours.extra();
    let (this, other) = which(&mut extra.wants);
    *this = on;
    let either = on || other;
    ours.socket.set_flag(flag, either);
}

/// Tells what follows a rule of its own.
pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Option<Value>> {
    let options = ours.socket.options();
    let wants = ours.extra().wants;
    Ok(Some(match name {
        libc::IP_TOS => Value::Short(c_int::from(options.tos)),
        libc::IP_PKTINFO => Value::Short(c_int::from(wants.pktinfo)),
        libc::IP_RECVTOS => Value::Short(c_int::from(wants.tos)),
        libc::IP_RECVTTL => Value::Short(c_int::from(wants.ttl)),
        libc::IP_MTU_DISCOVER => Value::Short(options.discover_v4.map_or(WANT, c_int::from)),
        libc::IP_MTU => Value::Short(path_mtu(ours)?),
        libc::IP_RECVERR => Value::Short(c_int::from(wants.errors)),
        _ => return Ok(None),
    }))
}

/// IP_MTU and IPV6_MTU: only a connected socket has a path.
pub(super) fn path_mtu(ours: &Ours) -> Answer<c_int> {
    if ours.socket.remote().is_none() {
        return fail(libc::ENOTCONN);
    }
    Ok(c_int::try_from(ours.socket.path_mtu()?).unwrap_or(c_int::MAX))
}
