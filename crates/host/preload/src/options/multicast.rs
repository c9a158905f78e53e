//! Groups: memberships, and how datagrams go to them. Interfaces are named by an address, an index,
//! or not at all.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clearway_client::{GroupChange, Interface};

use super::{Setting, Value, bytes, number};
use crate::addr::{self, Given};
use crate::errno::{Answer, fail};
use crate::object::Ours;
use crate::{interfaces, process};

/// From `linux/in6.h`; the `libc` crate does not have it.
const IPV6_MULTICAST_ALL: c_int = 29;

/// `struct sockaddr_storage`.
const STORAGE: usize = size_of::<libc::sockaddr_storage>();

/// Where the address of a `group_req` begins.
const GROUP_AT: usize = 8;

/// The interface that a program means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Named {
    /// None: as the route says.
    Any,
    Index(u32),
    Address(Ipv4Addr),
}

/// A membership that a program wants changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Asked {
    pub(super) by: Named,
    pub(super) group: IpAddr,
    pub(super) change: GroupChange,
}

/// The option changes a membership.
pub(super) fn changes_group(level: c_int, name: c_int) -> bool {
    let of_any = matches!(
        name,
        libc::MCAST_JOIN_GROUP
            | libc::MCAST_LEAVE_GROUP
            | libc::MCAST_JOIN_SOURCE_GROUP
            | libc::MCAST_LEAVE_SOURCE_GROUP
            | libc::MCAST_BLOCK_SOURCE
            | libc::MCAST_UNBLOCK_SOURCE
    );
    match level {
        libc::IPPROTO_IP => {
            of_any
                || matches!(
                    name,
                    libc::IP_ADD_MEMBERSHIP
                        | libc::IP_DROP_MEMBERSHIP
                        | libc::IP_ADD_SOURCE_MEMBERSHIP
                        | libc::IP_DROP_SOURCE_MEMBERSHIP
                        | libc::IP_BLOCK_SOURCE
                        | libc::IP_UNBLOCK_SOURCE
                )
        }
        libc::IPPROTO_IPV6 => {
            of_any || matches!(name, libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP)
        }
        _ => false,
    }
}

/// The option is about groups.
pub(super) fn is_one(level: c_int, name: c_int) -> bool {
    let how = match level {
        libc::IPPROTO_IP => matches!(
            name,
            libc::IP_MULTICAST_IF
                | libc::IP_MULTICAST_TTL
                | libc::IP_MULTICAST_LOOP
                | libc::IP_MULTICAST_ALL
        ),
        libc::IPPROTO_IPV6 => matches!(
            name,
            libc::IPV6_MULTICAST_IF
                | libc::IPV6_MULTICAST_HOPS
                | libc::IPV6_MULTICAST_LOOP
                | IPV6_MULTICAST_ALL
        ),
        _ => false,
    };
    how || changes_group(level, name)
}

/// An address in network order.
fn v4_at(value: &[u8], at: usize) -> Answer<Ipv4Addr> {
    let found = value.get(at..).and_then(|rest| rest.first_chunk::<4>());
    found.map_or_else(|| fail(libc::EINVAL), |octets| Ok(Ipv4Addr::from(*octets)))
}

fn index_at(value: &[u8], at: usize) -> Answer<Named> {
    let index = number(value.get(at..).unwrap_or_default())? as u32;
    Ok(if index == 0 { Named::Any } else { Named::Index(index) })
}

fn by_address(address: Ipv4Addr) -> Named {
    if address.is_unspecified() { Named::Any } else { Named::Address(address) }
}

/// The address of a `group_req` or a `group_source_req`.
fn stored_at(value: &[u8], at: usize) -> Answer<IpAddr> {
    let Some(bytes) = value.get(at..at + STORAGE) else { return fail(libc::EINVAL) };
    // SAFETY: so many bytes are readable.
    match unsafe { addr::read(bytes.as_ptr().cast(), STORAGE as u32) } {
        Given::Inet { addr, .. } => Ok(addr.ip()),
        _ => fail(libc::EADDRNOTAVAIL),
    }
}

/// What an option wants of a membership.
pub(super) fn asked(level: c_int, name: c_int, value: &[u8]) -> Answer<Asked> {
    use GroupChange::{Block, Join, JoinSource, Leave, LeaveSource, Unblock};
    let change = |source: IpAddr| match name {
        libc::IP_ADD_SOURCE_MEMBERSHIP | libc::MCAST_JOIN_SOURCE_GROUP => JoinSource(source),
        libc::IP_DROP_SOURCE_MEMBERSHIP | libc::MCAST_LEAVE_SOURCE_GROUP => LeaveSource(source),
        libc::IP_BLOCK_SOURCE | libc::MCAST_BLOCK_SOURCE => Block(source),
        _ => Unblock(source),
    };
    match name {
        libc::MCAST_JOIN_GROUP | libc::MCAST_LEAVE_GROUP => {
            let change = if name == libc::MCAST_JOIN_GROUP { Join } else { Leave };
            Ok(Asked { by: index_at(value, 0)?, group: stored_at(value, GROUP_AT)?, change })
        }
        libc::MCAST_JOIN_SOURCE_GROUP
        | libc::MCAST_LEAVE_SOURCE_GROUP
        | libc::MCAST_BLOCK_SOURCE
        | libc::MCAST_UNBLOCK_SOURCE => {
            let change = change(stored_at(value, GROUP_AT + STORAGE)?);
            Ok(Asked { by: index_at(value, 0)?, group: stored_at(value, GROUP_AT)?, change })
        }
        libc::IPV6_ADD_MEMBERSHIP | libc::IPV6_DROP_MEMBERSHIP if level == libc::IPPROTO_IPV6 => {
            let Some(octets) = value.first_chunk::<16>() else { return fail(libc::EINVAL) };
            let change = if name == libc::IPV6_ADD_MEMBERSHIP { Join } else { Leave };
            Ok(Asked { by: index_at(value, 16)?, group: Ipv6Addr::from(*octets).into(), change })
        }
        libc::IP_ADD_MEMBERSHIP | libc::IP_DROP_MEMBERSHIP => {
            let change = if name == libc::IP_ADD_MEMBERSHIP { Join } else { Leave };
            Ok(Asked { by: of_mreq(value)?, group: v4_at(value, 0)?.into(), change })
        }
        _ => {
            let change = change(v4_at(value, 8)?.into());
            Ok(Asked { by: by_address(v4_at(value, 4)?), group: v4_at(value, 0)?.into(), change })
        }
    }
}

/// The interface of an `ip_mreq` or an `ip_mreqn`, of which the index counts when there is one.
fn of_mreq(value: &[u8]) -> Answer<Named> {
    let by_index = if value.len() >= 12 { index_at(value, 8)? } else { Named::Any };
    if by_index != Named::Any { Ok(by_index) } else { Ok(by_address(v4_at(value, 4)?)) }
}

/// The option says where datagrams to groups leave.
pub(super) fn is_where_from(level: c_int, name: c_int) -> bool {
    [(libc::IPPROTO_IP, libc::IP_MULTICAST_IF), (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF)]
        .contains(&(level, name))
}

/// The address that IP_MULTICAST_IF names, which Linux tells and sends from.
fn source_of(value: &[u8]) -> Answer<Ipv4Addr> {
    v4_at(value, if value.len() >= 8 { 4 } else { 0 })
}

/// The interface of IP_MULTICAST_IF or IPV6_MULTICAST_IF.
pub(super) fn leaves_by(level: c_int, value: &[u8]) -> Answer<Named> {
    match (level, value.len()) {
        (libc::IPPROTO_IPV6, _) => index_at(value, 0),
        (_, 8..) => of_mreq(value),
        _ => Ok(by_address(v4_at(value, 0)?)),
    }
}

fn list() -> Vec<Interface> {
    // When the host goes away meanwhile, it has none.
    process::client().and_then(|client| client.interfaces().ok()).unwrap_or_default()
}

/// The number of the interface of Clearway's that is named; 0: none is.
fn number_of(by: Named, absent: c_int) -> Answer<u32> {
    let number = match by {
        Named::Any => Some(0),
        Named::Index(index) => interfaces::inner(index),
        Named::Address(ip) => list()
            .iter()
            .find(|one| one.addresses.iter().any(|(own, _)| *own == IpAddr::V4(ip)))
            .map(|one| one.number),
    };
    number.map_or_else(|| fail(absent), Ok)
}

/// The option means an interface of Clearway's: it names one, or joins or leaves a group to which
/// the namespace's routes lead, on whichever interface that is.
pub(super) fn means_ours(level: c_int, name: c_int, value: &[u8]) -> bool {
    let by = match (level, name) {
        (libc::IPPROTO_IP, libc::IP_MULTICAST_IF)
        | (libc::IPPROTO_IPV6, libc::IPV6_MULTICAST_IF) => leaves_by(level, value),
        _ if changes_group(level, name) => match asked(level, name, value) {
            Ok(Asked { by: Named::Any, group, .. }) => return is_routed(group),
            asked => asked.map(|asked| asked.by),
        },
        _ => return false,
    };
    let by = match by {
        Ok(by @ (Named::Index(_) | Named::Address(_))) => by,
        _ => return false,
    };
    // An address is looked up at the host, which need not be entered for what is plainly the
    // machine's own.
    if matches!(by, Named::Address(_)) && !matches!(process::host(), process::Host::Here(_)) {
        return false;
    }
    number_of(by, libc::ENODEV).is_ok_and(|number| number != 0)
}

/// Whether the namespace's routes lead to this group.
fn is_routed(group: IpAddr) -> bool {
    match process::host() {
        process::Host::Here(client) => {
            group.is_multicast() && client.serves_remote(SocketAddr::new(group, 0))
        }
        _ => false,
    }
}

pub(super) fn set(
    setting: &mut Setting<'_>,
    level: c_int,
    name: c_int,
    value: &[u8],
) -> Answer<()> {
    let ours = setting.ours;
    if ours.is_stream() {
        return fail(if changes_group(level, name) { libc::EPROTO } else { libc::ENOPROTOOPT });
    }
    if changes_group(level, name) {
        let asked = asked(level, name, value)?;
        if !asked.group.is_multicast() {
            return fail(libc::EINVAL);
        }
        return ours.socket.change_group(
            number_of(asked.by, libc::ENODEV)?,
            asked.group,
            asked.change,
        );
    }
    let options = &mut setting.options;
    let v6 = level == libc::IPPROTO_IPV6;
    match name {
        libc::IP_MULTICAST_IF if !v6 => {
            options.multicast_iface = number_of(leaves_by(level, value)?, libc::EADDRNOTAVAIL)?;
            options.multicast_source = source_of(value)?.to_bits();
        }
        libc::IPV6_MULTICAST_IF if v6 => {
            options.multicast_iface = number_of(leaves_by(level, value)?, libc::ENODEV)?
        }
        libc::IP_MULTICAST_TTL | libc::IPV6_MULTICAST_HOPS
            if [(libc::IP_MULTICAST_TTL, false), (libc::IPV6_MULTICAST_HOPS, true)]
                .contains(&(name, v6)) =>
        {
            options.multicast_ttl = match small(value)? {
                -1 => 1,
                ttl => u8::try_from(ttl).or_else(|_| fail(libc::EINVAL))?,
            };
        }
        libc::IP_MULTICAST_ALL if !v6 => options.multicast_all = small(value)? != 0,
        IPV6_MULTICAST_ALL if v6 => options.multicast_all = small(value)? != 0,
        _ => options.multicast_loop = small(value)? != 0,
    }
    Ok(())
}

/// Some of these may be given in one byte.
fn small(value: &[u8]) -> Answer<c_int> {
    match value {
        [byte, ..] if value.len() < 4 => Ok(c_int::from(*byte)),
        _ => number(value),
    }
}

pub(super) fn get(ours: &Ours, level: c_int, name: c_int) -> Answer<Value> {
    let options = ours.socket.options();
    let v6 = level == libc::IPPROTO_IPV6;
    let value = match name {
        _ if changes_group(level, name) || ours.is_stream() => return fail(libc::ENOPROTOOPT),
        libc::IP_MULTICAST_IF if !v6 => {
            return Ok(Value::Bytes(bytes(Ipv4Addr::from(options.multicast_source).octets())));
        }
        libc::IPV6_MULTICAST_IF if v6 => interfaces::shown(options.multicast_iface) as c_int,
        libc::IP_MULTICAST_TTL if !v6 => options.multicast_ttl.into(),
        libc::IPV6_MULTICAST_HOPS if v6 => options.multicast_ttl.into(),
        libc::IP_MULTICAST_ALL if !v6 => options.multicast_all.into(),
        IPV6_MULTICAST_ALL if v6 => options.multicast_all.into(),
        _ => options.multicast_loop.into(),
    };
    Ok(if v6 { Value::Number(value) } else { Value::Short(value) })
}

/// What a socket that is still the kernel's was told, where that names an interface of Clearway's.
pub(super) fn get_told(level: c_int, value: &[u8]) -> Answer<Value> {
    match level {
        libc::IPPROTO_IPV6 => Ok(Value::Number(number(value)?)),
        _ => Ok(Value::Bytes(bytes(source_of(value)?.octets()))),
    }
}
