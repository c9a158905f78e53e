//! Options of the level IPPROTO_IPV6.

use std::ffi::c_int;

use clearway_client::flags;

use super::ip::{WANT, discover, path_mtu, receive_errors, want};
use super::{Setting, Value, number};
use crate::errno::{Answer, fail};
use crate::object::Ours;

/// Every link of IPv6 takes as much (RFC 8200 5).
const LEAST_MTU: c_int = 1280;

/// Sets what follows a rule of its own; false for what does not.
pub(super) fn set(setting: &mut Setting<'_>, name: c_int, value: &[u8]) -> Answer<bool> {
    let number = number(value)?;
    let ours = setting.ours;
    match name {
        libc::IPV6_V6ONLY if ours.socket.local().port() != 0 => return fail(libc::EINVAL),
        libc::IPV6_V6ONLY => setting.options.v6_only = number != 0,
        libc::IPV6_RECVPKTINFO => {
            want(ours, flags::PKTINFO, number != 0, |wants| (&mut wants.pktinfo6, wants.pktinfo))
        }
        libc::IPV6_RECVTCLASS => {
            want(ours, flags::RECVTOS, number != 0, |wants| (&mut wants.tclass, wants.tos))
        }
        libc::IPV6_RECVHOPLIMIT => {
            want(ours, flags::RECVTTL, number != 0, |wants| (&mut wants.hop_limit, wants.ttl))
        }
        libc::IPV6_MTU_DISCOVER => setting.options.discover_v6 = discover(ours, number)?,
        libc::IPV6_RECVERR => receive_errors(setting, number != 0, true),
        libc::IPV6_MTU if number != 0 && number < LEAST_MTU => return fail(libc::EINVAL),
        libc::IPV6_MTU => setting.options.mtu = u16::try_from(number).unwrap_or(u16::MAX),
        _ => return Ok(false),
    }
    Ok(true)
}

/// A socket that is bound to one IPv6 address cannot see IPv4, and Linux says so.
fn is_bound_to_one(ours: &Ours) -> bool {
    let local = ours.socket.local();
    let ip = local.ip().to_canonical();
    local.port() != 0 && ip.is_ipv6() && !ip.is_unspecified()
}

/// Tells what follows a rule of its own.
pub(super) fn get(ours: &Ours, name: c_int) -> Answer<Option<Value>> {
    let options = ours.socket.options();
    let wants = ours.extra().wants;
    Ok(Some(Value::Number(match name {
        libc::IPV6_V6ONLY => c_int::from(options.v6_only || is_bound_to_one(ours)),
        libc::IPV6_RECVPKTINFO => c_int::from(wants.pktinfo6),
        libc::IPV6_RECVTCLASS => c_int::from(wants.tclass),
        libc::IPV6_RECVHOPLIMIT => c_int::from(wants.hop_limit),
        libc::IPV6_MTU_DISCOVER => options.discover_v6.map_or(WANT, c_int::from),
        libc::IPV6_RECVERR => c_int::from(wants.errors6),
        libc::IPV6_MTU => path_mtu(ours)?,
        _ => return Ok(None),
    })))
}
