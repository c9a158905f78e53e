//! Which addresses are ours: one probe of a hash table per question, however many addresses there are.

use clearway_base::{FlowMap, Instant, Slab};
use clearway_pkt::Iface;
use clearway_wire::{Addr, Cidr};

use crate::Table;
use crate::hash::AddrHash;
use crate::route::masked;

/// What an address in the table means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// An address of ours.
    Unicast,
    /// All hosts of one of our IPv4 subnets; the subnet's own number counts too, as old hosts meant it (RFC 1122 3.3.6).
    Broadcast,
}

/// One entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) cidr: Cidr,
    pub(crate) iface: Iface,
    pub(crate) table: Table,
    pub(crate) kind: Kind,
    /// When the address was last defended against another claim (RFC 5227 2.4).
    pub(crate) defended: Option<Instant>,
    scope: u32,
}

/// All addresses of all interfaces.
pub(crate) struct Locals {
    map: FlowMap,
    entries: Slab<Local>,
    hash: AddrHash,
    /// Unicast entries, and how many there may be.
    unicast: u32,
    capacity: u32,
}

/// A link-local IPv6 address means something on its link only (RFC 4007 6), every other address in its whole table.
#[inline]
fn scope_of(table: Table, iface: Iface, addr: &Addr) -> u32 {
    if addr.octets()[0] == 0xfe && addr.is_link_local() { 1 << 16 | u32::from(iface.0) } else { u32::from(table.0) }
}

impl Locals {
    /// Room for `addresses` addresses.
    pub(crate) fn new(addresses: u16, hash: AddrHash) -> Locals {
        // Each IPv4 address may bring two broadcast addresses of its subnet.
        let entries = u32::from(addresses) * 3;
        Locals { map: FlowMap::new(entries), entries: Slab::new(entries), hash, unicast: 0, capacity: addresses.into() }
    }

    /// What `addr` is to us, when it is ours at all. `iface` is where the packet came from, and matters for link-local addresses.
    #[inline]
    pub(crate) fn find(&self, table: Table, iface: Iface, addr: &Addr) -> Option<&Local> {
        let scope = scope_of(table, iface, addr);
        let index = self.index(scope, addr)?;
        self.entries.by_index(index)
    }

    #[inline]
    fn index(&self, scope: u32, addr: &Addr) -> Option<u32> {
        self.map.find(self.hash.of(u64::from(scope), addr), |index| {
            self.entries.by_index(index).is_some_and(|l| l.cidr.addr == *addr && l.scope == scope)
        })
    }

    pub(crate) fn find_mut(&mut self, table: Table, iface: Iface, addr: &Addr) -> Option<&mut Local> {
        let index = self.index(scope_of(table, iface, addr), addr)?;
        self.entries.by_index_mut(index)
    }

    /// The entry of an address whose interface is not known: our own source of a flow.
    pub(crate) fn find_anywhere(&self, table: Table, addr: &Addr) -> Option<&Local> {
        if addr.is_v6() && addr.is_link_local() {
            return self.unicast().find(|l| l.table == table && l.cidr.addr == *addr);
        }
        self.find(table, Iface(0), addr)
    }

    /// Adds an address and the broadcast addresses of its subnet. False when there is no room; the caller has asked [`Locals::find`] before.
    pub(crate) fn add(&mut self, table: Table, iface: Iface, cidr: Cidr) -> bool {
        if self.unicast >= self.capacity || !self.insert(table, iface, cidr, Kind::Unicast) {
            return false;
        }
        self.unicast += 1;
        for addr in broadcasts(&cidr).into_iter().flatten() {
            if self.find(table, iface, &addr).is_none() {
                self.insert(table, iface, Cidr { addr, prefix_len: cidr.prefix_len }, Kind::Broadcast);
            }
        }
        true
    }

    fn insert(&mut self, table: Table, iface: Iface, cidr: Cidr, kind: Kind) -> bool {
        let scope = scope_of(table, iface, &cidr.addr);
        let local = Local { cidr, iface, table, kind, defended: None, scope };
        let Some(handle) = self.entries.insert(local) else { return false };
        if self.map.insert(self.hash.of(u64::from(scope), &cidr.addr), handle.index()).is_err() {
            self.entries.remove(handle);
            return false;
        }
        true
    }

    /// Takes an address away, and its subnet's broadcast addresses when it was the last one there. Gives back what it was.
    pub(crate) fn remove(&mut self, table: Table, iface: Iface, addr: &Addr) -> Option<Local> {
        let local = *self.find(table, iface, addr)?;
        if local.kind != Kind::Unicast || local.iface != iface {
            return None;
        }
        self.take(&local);
        self.unicast -= 1;
        let same_subnet = |l: &Local| {
            l.table == table && l.cidr.prefix_len == local.cidr.prefix_len && local.cidr.contains(&l.cidr.addr)
        };
        if !self.unicast().any(same_subnet) {
            for addr in broadcasts(&local.cidr).into_iter().flatten() {
                if let Some(&old) = self.find(table, iface, &addr).filter(|l| l.kind == Kind::Broadcast) {
                    self.take(&old);
                }
            }
        }
        Some(local)
    }

    fn take(&mut self, local: &Local) {
        let Some(index) = self.index(local.scope, &local.cidr.addr) else { return };
        self.map.remove(self.hash.of(u64::from(local.scope), &local.cidr.addr), |value| value == index);
        if let Some(handle) = self.entries.handle_at(index) {
            self.entries.remove(handle);
        }
    }

    /// Our unicast addresses, in the order of their places.
    pub(crate) fn unicast(&self) -> impl Iterator<Item = &Local> {
        self.entries.iter().map(|(_, local)| local).filter(|l| l.kind == Kind::Unicast)
    }

    /// Whether `group` is a group that we belong to by our addresses: all hosts, all nodes, or the solicited-node group of an address on this link.
    pub(crate) fn in_group(&self, iface: Iface, group: &Addr) -> bool {
        if group.is_v4() {
            return *group == ALL_HOSTS;
        }
        *group == ALL_NODES
            || *group == ALL_NODES_INTERFACE
            || self.unicast().any(|l| l.iface == iface && l.cidr.addr.is_v6() && l.cidr.addr.solicited_node() == *group)
    }
}

/// 224.0.0.1 (RFC 1112 4).
pub(crate) const ALL_HOSTS: Addr = Addr::v4([224, 0, 0, 1]);
/// ff02::1 (RFC 4291 2.7.1).
pub(crate) const ALL_NODES: Addr = Addr::v6([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
/// ff01::1 (RFC 4291 2.7.1).
const ALL_NODES_INTERFACE: Addr = Addr::v6([0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The broadcast addresses of an IPv4 subnet: all ones and all zeros. A /31 (RFC 3021) and a /32 have none.
fn broadcasts(cidr: &Cidr) -> [Option<Addr>; 2] {
    if !cidr.addr.is_v4() || cidr.prefix_len > 30 {
        return [None, None];
    }
    let zeros = masked(cidr.addr, cidr.prefix_len).addr;
    let host_bits = u32::MAX >> cidr.prefix_len;
    let ones = Addr::v4((u32::from_be_bytes(zeros.v4_octets()) | host_bits).to_be_bytes());
    [Some(ones), Some(zeros)]
}

/// Whether `addr` may be given to an interface as its own.
pub(crate) fn may_be_ours(cidr: &Cidr) -> bool {
    let addr = &cidr.addr;
    let bad = addr.is_unspecified() || addr.is_multicast() || addr.is_limited_broadcast();
    !bad && !broadcasts(cidr).contains(&Some(*addr))
}

#[cfg(test)]
mod tests;
