//! Interfaces, addresses, routes and neighbours of a bare stack.

use clearway_pkt::{Iface, Offloads};
use clearway_proto::{InterfaceSpec, Link, NextHop, Table};
use clearway_wire::{Addr, Cidr, Mac};

use crate::memory::{is_there, put, read};
use crate::stack::{clw_stack, enter};
use crate::status::clw_status;
use crate::types::clw_addr;

/// Frames begin with an Ethernet header.
pub const CLW_LINK_ETHERNET: u32 = 0;
/// Frames begin with the IP header.
pub const CLW_LINK_RAW: u32 = 1;

/// The device fills in TCP and UDP checksums as `clw_tx_meta` says.
pub const CLW_OFFLOAD_TX_CHECKSUM: u32 = 1;
/// Packets never leave the memory of this machine: transport checksums are neither made nor looked
/// at.
pub const CLW_OFFLOAD_TRUSTED: u32 = 2;
/// The device cuts large IPv4 TCP packets.
pub const CLW_OFFLOAD_TSO4: u32 = 4;
/// The device cuts large IPv6 TCP packets.
pub const CLW_OFFLOAD_TSO6: u32 = 8;
/// The device cuts large UDP packets.
pub const CLW_OFFLOAD_USO: u32 = 16;

/// An interface to be added.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct clw_interface {
    /// One of `CLW_LINK_…`.
    pub link: u32,
    /// The longest IP packet in bytes: 576 to 65535, and at least 1280 for IPv6.
    pub mtu: u32,
    /// What the device does so that the stack need not: bits `CLW_OFFLOAD_…`.
    pub offloads: u32,
    /// The longest frame with all headers that the device cuts; 0 when it cuts none.
    pub max_segmented_frame: u32,
    /// The Ethernet address; not looked at without Ethernet.
    pub mac: [u8; 6],
}

impl clw_interface {
    fn to_core(self) -> Result<InterfaceSpec, clw_status> {
        let link = match self.link {
            CLW_LINK_ETHERNET => Link::Ethernet(Mac(self.mac)),
            CLW_LINK_RAW => Link::Raw,
            _ => return Err(clw_status::CLW_INVALID),
        };
        let all = CLW_OFFLOAD_TX_CHECKSUM
            | CLW_OFFLOAD_TRUSTED
            | CLW_OFFLOAD_TSO4
            | CLW_OFFLOAD_TSO6
            | CLW_OFFLOAD_USO;
        if self.offloads & !all != 0 {
            return Err(clw_status::CLW_INVALID);
        }
        let has = |bit: u32| self.offloads & bit != 0;
        let offloads = Offloads {
            tx_checksum: has(CLW_OFFLOAD_TX_CHECKSUM),
            trusted_link: has(CLW_OFFLOAD_TRUSTED),
            tso4: has(CLW_OFFLOAD_TSO4),
            tso6: has(CLW_OFFLOAD_TSO6),
            uso: has(CLW_OFFLOAD_USO),
            max_segmented_frame: self.max_segmented_frame,
        };
        Ok(InterfaceSpec { link, mtu: self.mtu, offloads, table: Table(0) })
    }
}

fn cidr(addr: clw_addr, prefix_len: u8) -> Result<Cidr, clw_status> {
    Cidr::new(addr.into(), prefix_len).ok_or(clw_status::CLW_INVALID)
}

/// Adds an interface and tells its number; it is up. An Ethernet interface gets an IPv6 link-local
/// address when its MTU allows IPv6.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_add_interface(
    stack: *mut clw_stack,
    interface: *const clw_interface,
    iface: *mut u16,
) -> clw_status {
    enter(stack, |inner| {
        is_there(iface)?;
        let added = inner.stack.add_interface(read(interface)?.to_core()?)?;
        put(iface, added.0);
        Ok(())
    })
}

/// Sets an interface up (1) or down (0). While it is down nothing goes in or out.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_set_up(stack: *mut clw_stack, iface: u16, up: u8) -> clw_status {
    enter(stack, |inner| {
        let known = inner.stack.interfaces().any(|info| info.iface == Iface(iface));
        inner.stack.set_up(Iface(iface), up != 0);
        if known { Ok(()) } else { Err(clw_status::CLW_NO_INTERFACE) }
    })
}

/// Gives an interface an address; the subnet is reached over it from now on.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_add_address(
    stack: *mut clw_stack,
    now_ns: u64,
    iface: u16,
    addr: clw_addr,
    prefix_len: u8,
) -> clw_status {
    enter(stack, |inner| {
        let now = inner.at(now_ns);
        Ok(inner.stack.add_address(now, Iface(iface), cidr(addr, prefix_len)?)?)
    })
}

/// Takes an address away.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_remove_address(
    stack: *mut clw_stack,
    iface: u16,
    addr: clw_addr,
) -> clw_status {
    enter(stack, |inner| {
        let removed = inner.stack.remove_address(Iface(iface), addr.into());
        if removed { Ok(()) } else { Err(clw_status::CLW_BAD_ADDRESS) }
    })
}

/// Adds a route to a prefix. With a gateway it leads there, over `iface` if that is not negative
/// (needed for link-local gateways); with a NULL gateway the prefix is on the link of `iface`.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_add_route(
    stack: *mut clw_stack,
    dst: clw_addr,
    prefix_len: u8,
    gateway: *const clw_addr,
    iface: i32,
) -> clw_status {
    enter(stack, |inner| {
        let iface = if iface < 0 {
            None
        } else {
            Some(Iface(u16::try_from(iface).map_err(|_| clw_status::CLW_NO_INTERFACE)?))
        };
        let gateway = if gateway.is_null() { None } else { Some(Addr::from(read(gateway)?)) };
        let via = match (gateway, iface) {
            (Some(addr), Some(iface)) => NextHop::GatewayOn { iface, addr },
            (Some(addr), None) => NextHop::Gateway(addr),
            (None, Some(iface)) => NextHop::Interface(iface),
            (None, None) => return Err(clw_status::CLW_NULL),
        };
        Ok(inner.stack.add_route(Table(0), cidr(dst, prefix_len)?, via)?)
    })
}

/// Takes a route away.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_remove_route(
    stack: *mut clw_stack,
    dst: clw_addr,
    prefix_len: u8,
) -> clw_status {
    enter(stack, |inner| {
        let removed = inner.stack.remove_route(Table(0), cidr(dst, prefix_len)?);
        if removed { Ok(()) } else { Err(clw_status::CLW_NO_ROUTE) }
    })
}

/// Sets a neighbour's Ethernet address for good: it is never asked for and never changes by itself.
/// `mac` leads to 6 bytes.
///
/// # Safety
/// Pointers as the rules at the top say.
// SAFETY: nothing else has this name.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clw_add_neighbour(
    stack: *mut clw_stack,
    now_ns: u64,
    iface: u16,
    addr: clw_addr,
    mac: *const u8,
) -> clw_status {
    enter(stack, |inner| {
        let mac = Mac(read(mac.cast::<[u8; 6]>())?);
        let now = inner.at(now_ns);
        Ok(inner.stack.add_static_neighbour(now, Iface(iface), addr.into(), mac)?)
    })
}
