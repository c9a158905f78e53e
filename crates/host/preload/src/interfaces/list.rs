//! `getifaddrs`: a list of the kernel's, made longer.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::ptr;
use std::sync::{Mutex, PoisonError};

use clearway_client::Interface;
use libc::{ifaddrs, sockaddr_ll, sockaddr_storage};

use super::netlink::{COUNTS, short_counts};
use super::{NAME_LEN, c_name, flags, hardware, kernels_too, ours, shown};
use crate::addr;
use crate::export::guarded;
use crate::real;

/// One entry with all that it points to.
#[repr(C)]
struct Node {
    entry: ifaddrs,
    name: [u8; NAME_LEN],
    addr: sockaddr_storage,
    mask: sockaddr_storage,
    broadcast: sockaddr_storage,
    /// Of a link: `struct rtnl_link_stats`.
    counts: [u32; COUNTS],
}

/// Our parts of lists that the program has: where each begins, and how many entries it has.
static PARTS: Mutex<Vec<(usize, usize)>> = Mutex::new(Vec::new());

/// `getifaddrs(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn getifaddrs(out: *mut *mut ifaddrs) -> c_int {
    let part = guarded(|| part(&ours()));
    if part.is_null() {
        // SAFETY: the caller keeps to what the function asks.
        return unsafe { real::getifaddrs(out) };
    }
    if !guarded(kernels_too) {
        // SAFETY: the caller's place.
        unsafe { out.write(part) };
        return 0;
    }
    // SAFETY: the caller keeps to what the function asks, and gets one list of both.
    unsafe {
        let answer = real::getifaddrs(out);
        if answer != 0 {
            guarded(|| drop_part(part));
            return answer;
        }
        let mut last = out;
        while !(*last).is_null() {
            last = &raw mut (**last).ifa_next;
        }
        last.write(part);
    }
    0
}

/// `freeifaddrs(3)`
///
/// # Safety
/// As for the C function of this name.
// SAFETY: it stands in for the function of this name in the C library, with its signature.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub(crate) unsafe extern "C-unwind" fn freeifaddrs(list: *mut ifaddrs) {
    let mut list = list;
    guarded(|| {
        let mut at = &raw mut list;
        // SAFETY: a list of `getifaddrs`.
        unsafe {
            while !(*at).is_null() && !drop_part(*at) {
                at = &raw mut (**at).ifa_next;
            }
            at.write(ptr::null_mut());
        }
    });
    if !list.is_null() {
        // SAFETY: what is left is the C library's.
        unsafe { real::freeifaddrs(list) };
    }
}

/// Gives a part back, if it is one that begins here.
fn drop_part(first: *mut ifaddrs) -> bool {
    let mut parts = PARTS.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(at) = parts.iter().position(|part| part.0 == first.addr()) else { return false };
    let (_, len) = parts.swap_remove(at);
    drop(parts);
    // SAFETY: `part` made it of so many; nobody else has it any more.
    drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(first.cast::<Node>(), len)) });
    true
}

/// Entries for the links first, then for the addresses, as Linux has them. Null: there are none.
fn part(list: &[Interface]) -> *mut ifaddrs {
    let links = list.iter().map(link);
    let addresses = list
        .iter()
        .flat_map(|one| one.addresses.iter().map(move |address| of_address(one, *address)));
    let mut nodes: Box<[Node]> = links.chain(addresses).collect();
    let len = nodes.len();
    if len == 0 {
        return ptr::null_mut();
    }
    let first: *mut Node = nodes.as_mut_ptr();
    for at in 0..len {
        // SAFETY: within the slice. The entry comes first in its node.
        unsafe {
            let node = first.add(at);
            let next = if at + 1 < len { first.add(at + 1).cast() } else { ptr::null_mut() };
            (*node).point_to_itself(next);
        }
    }
    PARTS.lock().unwrap_or_else(PoisonError::into_inner).push((first.addr(), len));
    Box::into_raw(nodes).cast::<Node>().cast()
}

fn empty(one: &Interface) -> Node {
    // SAFETY: all-zero is a value of each of these.
    let mut node: Node = unsafe { std::mem::zeroed() };
    node.name = c_name(&one.name);
    node.entry.ifa_flags = flags(one) as u32;
    node
}

fn link(one: &Interface) -> Node {
    let mut node = empty(one);
    // SAFETY: all-zero is an address.
    let mut at: sockaddr_ll = unsafe { std::mem::zeroed() };
    at.sll_family = libc::AF_PACKET as u16;
    at.sll_ifindex = shown(one.number) as c_int;
    at.sll_hatype = hardware(one);
    at.sll_halen = if one.link_addr.is_some() || one.loopback { 6 } else { 0 };
    at.sll_addr[..6].copy_from_slice(&one.link_addr.unwrap_or_default());
    // SAFETY: a storage holds any address.
    unsafe { (&raw mut node.addr).cast::<sockaddr_ll>().write(at) };
    node.counts = short_counts(one);
    if one.link_addr.is_some() {
        at.sll_addr[..6].fill(0xff);
        // SAFETY: as above.
        unsafe { (&raw mut node.broadcast).cast::<sockaddr_ll>().write(at) };
    }
    node
}

fn of_address(one: &Interface, (ip, len): (IpAddr, u8)) -> Node {
    let mut node = empty(one);
    node.addr = stored(ip);
    node.mask = stored(mask(ip, len));
    if let Some(broadcast) = broadcast(one, ip, len) {
        node.broadcast = stored(IpAddr::V4(broadcast));
    }
    if let IpAddr::V6(ip) = ip {
        if ip.is_unicast_link_local() {
            // SAFETY: an address of IPv6 was just written there.
            unsafe {
                (*(&raw mut node.addr).cast::<libc::sockaddr_in6>()).sin6_scope_id =
                    shown(one.number)
            };
        }
    }
    node
}

fn stored(ip: IpAddr) -> sockaddr_storage {
    // SAFETY: all-zero is a storage, and it holds any address.
    unsafe {
        let mut storage: sockaddr_storage = std::mem::zeroed();
        let (raw, len) = addr::Raw::new(SocketAddr::new(ip, 0), ip.is_ipv6());
        ptr::copy_nonoverlapping(
            raw.as_ptr().cast::<u8>(),
            (&raw mut storage).cast(),
            len as usize,
        );
        storage
    }
}

/// The first `len` bits.
pub(super) fn mask(ip: IpAddr, len: u8) -> IpAddr {
    match ip {
        IpAddr::V4(_) => {
            Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(len.min(32))).unwrap_or(0))
                .into()
        }
        IpAddr::V6(_) => {
            Ipv6Addr::from_bits(u128::MAX.checked_shl(128 - u32::from(len.min(128))).unwrap_or(0))
                .into()
        }
    }
}

/// The address of all link addresses of an IPv4 subnet, where there is one.
pub(super) fn broadcast(one: &Interface, ip: IpAddr, len: u8) -> Option<Ipv4Addr> {
    let (IpAddr::V4(ip), IpAddr::V4(mask)) = (ip, mask(ip, len)) else { return None };
    (one.link_addr.is_some() && len < 31)
        .then(|| Ipv4Addr::from_bits(ip.to_bits() | !mask.to_bits()))
}

impl Node {
    /// Sets the entry's pointers, where the node will stay.
    fn point_to_itself(&mut self, next: *mut ifaddrs) {
        let given = |storage: &mut sockaddr_storage| match storage.ss_family {
            0 => ptr::null_mut(),
            _ => (&raw mut *storage).cast(),
        };
        self.entry.ifa_next = next;
        self.entry.ifa_name = self.name.as_mut_ptr().cast();
        self.entry.ifa_addr = given(&mut self.addr);
        self.entry.ifa_netmask = given(&mut self.mask);
        self.entry.ifa_ifu = given(&mut self.broadcast);
        if c_int::from(self.addr.ss_family) == libc::AF_PACKET {
            self.entry.ifa_data = self.counts.as_mut_ptr().cast();
        }
    }
}
