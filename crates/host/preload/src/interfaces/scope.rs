//! Link-local addresses of IPv6, and the interface that stands beside them (RFC 4007):
//! `fe80::1%tap0` to a person, `sin6_scope_id` to a program.

use std::ffi::{CStr, c_char, c_int};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ptr;

use clearway_client::Interface;

use super::{inner, named, shown};
use crate::export::guarded;
use crate::process;

/// Bytes of a link-local address in words, with an interface's name and the NUL at its end.
const LONGEST: usize = 64;

/// Whose interface an address is said to be on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// It is not link-local, or nothing stands beside it.
    None,
    /// The one of Clearway's with this number.
    Ours(u32),
    /// One of the kernel's.
    Kernels,
}

/// What stands beside an address.
pub(crate) fn of(addr: SocketAddr) -> Scope {
    match addr {
        SocketAddr::V6(addr) if addr.ip().is_unicast_link_local() => match inner(addr.scope_id()) {
            Some(0) => Scope::None,
            Some(number) => Scope::Ours(number),
            None => Scope::Kernels,
        },
        _ => Scope::None,
    }
}

/// The number of Clearway's interface that stands beside an address; 0: none does.
pub(crate) fn number(addr: Option<SocketAddr>) -> u32 {
    match addr.map(of) {
        Some(Scope::Ours(number)) => number,
        _ => 0,
    }
}

/// The address as a program sees it, on the interface of this number.
pub(crate) fn with(mut addr: SocketAddr, number: u32) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut addr {
        if v6.ip().is_unicast_link_local() {
            v6.set_scope_id(shown(number));
        }
    }
    addr
}

fn list() -> Vec<Interface> {
    // When the host goes away meanwhile, it has none.
    process::client().and_then(|client| client.interfaces().ok()).unwrap_or_default()
}

/// An address of a socket's as a program sees it, where `own` is that socket's own one.
pub(crate) fn beside(addr: SocketAddr, own: IpAddr) -> SocketAddr {
    let is_link_local = matches!(addr.ip(), IpAddr::V6(ip) if ip.is_unicast_link_local());
    if !is_link_local {
        return addr;
    }
    let has_it = |one: &Interface| one.addresses.iter().any(|(ip, _)| *ip == own);
    with(addr, list().iter().find(|one| has_it(one)).map_or(0, |one| one.number))
}

/// The link-local address of the interface of this number: from there one speaks to its link (RFC
/// 6724 5).
pub(crate) fn own_address(number: u32) -> Option<Ipv6Addr> {
    let one = list().into_iter().find(|one| one.number == number)?;
    one.addresses.into_iter().find_map(|(ip, _)| match ip {
        IpAddr::V6(ip) if ip.is_unicast_link_local() => Some(ip),
        _ => None,
    })
}

/// `fe80::1%tap0` with the index in the place of the name, when the interface is Clearway's: the C
/// library asks the kernel alone for names.
fn with_index(node: &CStr) -> Option<[c_char; LONGEST]> {
    let node = node.to_str().ok()?;
    let (ip, name) = node.split_once('%')?;
    let is_link_local = ip.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_unicast_link_local());
    let text = format!("{ip}%{}", shown(named(name.as_bytes()).filter(|_| is_link_local)?.number));
    let mut out = [0; LONGEST];
    let bytes = text.as_bytes();
    out.get_mut(..bytes.len()).filter(|_| bytes.len() < LONGEST)?;
    out.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from as c_char);
    Some(out)
}

/// What is looked for, without AI_ADDRCONFIG where the namespace has an address of the one family
/// that is wanted: the C library counts the kernel's alone, which may have none.
fn without_condition(hints: &libc::addrinfo) -> Option<libc::addrinfo> {
    let is_wanted = |ip: &IpAddr| match hints.ai_family {
        libc::AF_INET => ip.is_ipv4() && !ip.is_loopback(),
        libc::AF_INET6 => ip.is_ipv6() && !ip.is_loopback(),
        _ => false,
    };
    if hints.ai_flags & libc::AI_ADDRCONFIG == 0 || hints.ai_family == libc::AF_UNSPEC {
        return None;
    }
    // Who only asks enters no program.
    let list = process::in_passing(|_| true, |client| client.interfaces().ok())??;
    let has_one = list.iter().flat_map(|one| &one.addresses).any(|(ip, _)| is_wanted(ip));
    has_one.then_some(libc::addrinfo { ai_flags: hints.ai_flags & !libc::AI_ADDRCONFIG, ..*hints })
}

/// `getaddrinfo(3)`: as the C library's, but that it knows the names of Clearway's interfaces
/// behind `%`, counts the namespace's addresses for AI_ADDRCONFIG, and asks its servers of names.
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn getaddrinfo(
    node: *const c_char,
    service: *const c_char,
    hints: *const libc::addrinfo,
    out: *mut *mut libc::addrinfo,
) -> c_int {
    // SAFETY: a C string of the caller's.
    let name = (!node.is_null()).then(|| unsafe { CStr::from_ptr(node) });
    let scoped = name.filter(|name| name.to_bytes().contains(&b'%'));
    let changed = scoped.and_then(|name| guarded(|| with_index(name)));
    let node = changed.as_ref().map_or(node, |text| text.as_ptr());
    // SAFETY: null, or the caller's.
    let wanted = unsafe { hints.as_ref() };
    let free = wanted.and_then(|hints| guarded(|| without_condition(hints)));
    let hints = free.as_ref().map_or(hints, ptr::from_ref);
    // SAFETY: the caller keeps to what the function asks.
    unsafe { crate::names::getaddrinfo(node, service, hints, out) }
}
