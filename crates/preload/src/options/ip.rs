//! Options of the level IPPROTO_IP. They exist on IPv6 sockets too, for what they do over IPv4.

use std::ffi::c_int;

use clearway_client::flags;

use super::{Setting, Value, number, only_off, within};
use crate::errno::{Answer, fail};
use crate::object::Ours;

/// The bits of the TOS byte that belong to congestion notification; a stream's are its own business (RFC 3168).
const ECN: u8 = 3;

/// The default TTL (Linux, `ip_default_ttl`).
const DEFAULT_TTL: u8 = 64;

/// The kinds of IP_MTU_DISCOVER end here (IP_PMTUDISC_OMIT).
const LAST_DISCOVER: c_int = 5;

/// The value that Linux's routes give IP_MTU_DISCOVER at first (IP_PMTUDISC_WANT).
pub(super) const WANT: c_int = 1;

/// A number of this level may be given in one byte.
fn short(value: &[u8]) -> Answer<c_int> {
    match value {
        [] => Ok(0),
        [byte, ..] if value.len() < 4 => Ok(c_int::from(*byte)),
        _ => number(value),
    }
}

pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<()> {
    let number = short(value)?;
    let ours = setting.ours;
    match name {
        libc::IP_TOS => setting.options.tos = tos(ours, setting.options.tos, number as u8),
        libc::IP_TTL if number == -1 => setting.options.ttl = DEFAULT_TTL,
        libc::IP_TTL if value.is_empty() => return fail(libc::EINVAL),
        libc::IP_TTL => setting.options.ttl = within(number, 1, 255)? as u8,
        libc::IP_PKTINFO => want(ours, flags::PKTINFO, number != 0, |wants| (&mut wants.pktinfo, wants.pktinfo6)),
        libc::IP_RECVTOS => want(ours, flags::RECVTOS, number != 0, |wants| (&mut wants.tos, wants.tclass)),
        libc::IP_RECVTTL => want(ours, flags::RECVTTL, number != 0, |wants| (&mut wants.ttl, wants.hop_limit)),
        libc::IP_MTU_DISCOVER => discover(ours, number)?,
        libc::IP_RECVERR
        | libc::IP_FREEBIND
        | libc::IP_TRANSPARENT
        | libc::IP_BIND_ADDRESS_NO_PORT
        | libc::IP_RECVORIGDSTADDR
        | libc::IP_RECVOPTS
        | libc::IP_HDRINCL => return only_off(number),
        _ => return fail(libc::ENOPROTOOPT),
    }
    Ok(())
}

/// The default is what the stack does: it heeds the path's MTU where it is told of one, and never sends what must not be cut to the kernel.
fn discover(ours: &Ours, number: c_int) -> Answer<()> {
    let how = within(number, 0, LAST_DISCOVER)?;
    if how != WANT && how != libc::IP_PMTUDISC_DO {
        return fail(libc::ENOPROTOOPT);
    }
    ours.extra().mtu_discover = Some(how);
    Ok(())
}

fn tos(ours: &Ours, before: u8, tos: u8) -> u8 {
    if ours.is_stream() { (tos & !ECN) | (before & ECN) } else { tos }
}

/// Remembers that datagrams shall bring a control message along; the shared flag holds while either family wants it.
pub(super) fn want(ours: &Ours, flag: u32, on: bool, which: impl FnOnce(&mut super::Wants) -> (&mut bool, bool)) {
    let mut extra = ours.extra();
    let (this, other) = which(&mut extra.wants);
    *this = on;
    let either = on || other;
    ours.socket.set_flag(flag, either);
}

pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Value> {
    let options = ours.socket.options();
    let wants = ours.extra().wants;
    Ok(match name {
        libc::IP_TOS => Value::Short(c_int::from(options.tos)),
        libc::IP_TTL => Value::Short(c_int::from(options.ttl)),
        libc::IP_PKTINFO => Value::Short(c_int::from(wants.pktinfo)),
        libc::IP_RECVTOS => Value::Short(c_int::from(wants.tos)),
        libc::IP_RECVTTL => Value::Short(c_int::from(wants.ttl)),
        libc::IP_MTU_DISCOVER => Value::Short(ours.extra().mtu_discover.unwrap_or(WANT)),
        libc::IP_MTU => Value::Short(path_mtu(ours)?),
        libc::IP_RECVERR
        | libc::IP_FREEBIND
        | libc::IP_TRANSPARENT
        | libc::IP_BIND_ADDRESS_NO_PORT
        | libc::IP_RECVORIGDSTADDR
        | libc::IP_RECVOPTS
        | libc::IP_HDRINCL => Value::Short(0),
        _ => return fail(libc::ENOPROTOOPT),
    })
}

/// IP_MTU and IPV6_MTU: only a connected socket has a path.
pub(super) fn path_mtu(ours: &Ours) -> Answer<c_int> {
    if ours.socket.remote().is_none() {
        return fail(libc::ENOTCONN);
    }
    let info = ours.socket.info()?;
    Ok(c_int::try_from(info.pmtu).unwrap_or(c_int::MAX))
}
