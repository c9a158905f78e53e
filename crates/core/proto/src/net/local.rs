//! Which addresses are ours: one probe of a hash table per question, however many addresses there
//! are.

use alloc::boxed::Box;
use alloc::vec::Vec;

use clearway_base::Instant;
use clearway_pkt::Iface;
use clearway_wire::{Addr, Cidr};

use crate::ids::Table;
use crate::net::route::masked;

/// What an address in the table means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// An address of ours.
    Unicast,
    /// All hosts of one of our IPv4 subnets; the subnet's own number counts too, as old hosts meant
    /// it (RFC 1122 3.3.6).
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
    /// It is not for new connections while there is another (RFC 4862 5.5.4).
    pub(crate) deprecated: bool,
    scope: u32,
}

/// All addresses of all interfaces.
///
/// The questions are asked for source and destination of every packet, so the table is made for
/// them alone: slots, at least three quarters of them vacant, that name entries. It is built anew
/// with every change.
pub(crate) struct Locals {
    entries: Vec<Local>,
    /// Zero when vacant, else the place of an entry plus one.
    slots: Box<[u16]>,
    /// For each value of an address's last byte, whether any entry's ends with it: most addresses
    /// of strangers are refused by this alone.
    last_bytes: [u64; 4],
    /// How far to shift a hash so that it names a slot.
    shift: u32,
    unicast: usize,
    capacity: usize,
}

/// A link-local IPv6 address means something on its link only (RFC 4007 6), every other address in
/// its whole table.
#[inline]
fn scope_of(table: Table, iface: Iface, addr: &Addr) -> u32 {
    if addr.octets()[0] == 0xfe && addr.is_link_local() {
        1 << 16 | u32::from(iface.0)
    } else {
        u32::from(table.0)
    }
}

impl Locals {
    /// Room for `addresses` addresses.
    pub(crate) fn new(addresses: u16) -> Locals {
        // Each IPv4 address may bring two broadcast addresses of its subnet.
        let entries = usize::from(addresses) * 3;
        let slots = (entries * 4).next_power_of_two().max(16);
        Locals {
            entries: Vec::with_capacity(entries),
            slots: alloc::vec![0; slots].into_boxed_slice(),
            last_bytes: [0; 4],
            shift: 64 - slots.trailing_zeros(),
            unicast: 0,
            capacity: addresses.into(),
        }
    }

    /// Where the search for an address begins. Strangers choose what is looked for, but not what is
    /// in the table: the longest search is as long as the longest run of taken slots, whatever they
    /// choose.
    #[inline]
    fn home(&self, scope: u32, addr: &Addr) -> usize {
        let all = u128::from_ne_bytes(*addr.octets());
        let folded = (all as u64).rotate_left(29) ^ (all >> 64) as u64 ^ u64::from(scope) << 13;
        (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> self.shift) as usize
    }

    /// What `addr` is to us, when it is ours at all. `iface` is where the packet came from, and
    /// matters for link-local addresses.
    #[inline(always)]
    pub(crate) fn find(&self, table: Table, iface: Iface, addr: &Addr) -> Option<&Local> {
        self.index(scope_of(table, iface, addr), addr).and_then(|index| self.entries.get(index))
    }

    /// Whether an address that ends in the byte `last` may be ours: most strangers' are refused by
    /// that alone.
    #[inline(always)]
    pub(crate) fn may_end_in(&self, last: u8) -> bool {
        self.last_bytes[usize::from(last >> 6)] >> (last & 63) & 1 != 0
    }

    #[inline(always)]
    fn index(&self, scope: u32, addr: &Addr) -> Option<usize> {
        if !self.may_end_in(addr.octets()[15]) {
            return None;
        }
        let mut at = self.home(scope, addr);
        loop {
            // The last slot is followed by the first; a vacant one is always found, for most are.
            let index = usize::from(*self.slots.get(at)?).checked_sub(1)?;
            let entry = self.entries.get(index)?;
            if entry.cidr.addr == *addr && entry.scope == scope {
                return Some(index);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    pub(crate) fn find_mut(
        &mut self,
        table: Table,
        iface: Iface,
        addr: &Addr,
    ) -> Option<&mut Local> {
        let index = self.index(scope_of(table, iface, addr), addr)?;
        self.entries.get_mut(index)
    }

    /// The entry of an address whose interface is not known: our own source of a flow.
    pub(crate) fn find_anywhere(&self, table: Table, addr: &Addr) -> Option<&Local> {
        if addr.is_v6() && addr.is_link_local() {
            return self.unicast().find(|l| l.table == table && l.cidr.addr == *addr);
        }
        self.find(table, Iface(0), addr).or_else(|| self.loopback_net(table, addr))
    }

    /// All of 127.0.0.0/8 is this host (RFC 1122 3.2.1.3 g): as on Linux, an address of it is ours as
    /// soon as one with a prefix around it is.
    fn loopback_net(&self, table: Table, addr: &Addr) -> Option<&Local> {
        let around =
            |l: &&Local| l.table == table && l.cidr.addr.is_loopback() && l.cidr.contains(addr);
        (addr.is_v4() && addr.is_loopback()).then(|| self.unicast().find(around))?
    }

    /// Adds an address and the broadcast addresses of its subnet. False when there is no room; the
    /// caller has asked [`Locals::find`] before.
    pub(crate) fn add(&mut self, table: Table, iface: Iface, cidr: Cidr) -> bool {
        if self.unicast >= self.capacity {
            return false;
        }
        self.put(table, iface, cidr, Kind::Unicast);
        self.unicast += 1;
        for addr in broadcasts(&cidr).into_iter().flatten() {
            if self.find(table, iface, &addr).is_none() {
                self.put(table, iface, Cidr { addr, prefix_len: cidr.prefix_len }, Kind::Broadcast);
            }
        }
        true
    }

    fn put(&mut self, table: Table, iface: Iface, cidr: Cidr, kind: Kind) {
        let scope = scope_of(table, iface, &cidr.addr);
        self.entries.push(Local {
            cidr,
            iface,
            table,
            kind,
            defended: None,
            deprecated: false,
            scope,
        });
        self.rebuild();
    }

    fn rebuild(&mut self) {
        self.slots.fill(0);
        self.last_bytes = [0; 4];
        for (index, entry) in self.entries.iter().enumerate() {
            let mut at = self.home(entry.scope, &entry.cidr.addr);
            while self.slots[at] != 0 {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = index as u16 + 1;
            let last = entry.cidr.addr.octets()[15];
            self.last_bytes[usize::from(last >> 6)] |= 1 << (last & 63);
        }
    }

    /// Takes an address away, and its subnet's broadcast addresses when it was the last one there.
    /// Gives back what it was.
    pub(crate) fn remove(&mut self, table: Table, iface: Iface, addr: &Addr) -> Option<Local> {
        let local = *self.find(table, iface, addr)?;
        if local.kind != Kind::Unicast || local.iface != iface {
            return None;
        }
        self.take(&local);
        self.unicast -= 1;
        let same_subnet = |l: &Local| {
            l.table == table
                && l.cidr.prefix_len == local.cidr.prefix_len
                && local.cidr.contains(&l.cidr.addr)
        };
        if !self.unicast().any(same_subnet) {
            for addr in broadcasts(&local.cidr).into_iter().flatten() {
                if let Some(&old) =
                    self.find(table, iface, &addr).filter(|l| l.kind == Kind::Broadcast)
                {
                    self.take(&old);
                }
            }
        }
        Some(local)
    }

    fn take(&mut self, local: &Local) {
        if let Some(index) = self.index(local.scope, &local.cidr.addr) {
            self.entries.remove(index);
            self.rebuild();
        }
    }

    /// Our unicast addresses, in the order in which they were added.
    pub(crate) fn unicast(&self) -> impl Iterator<Item = &Local> {
        self.entries.iter().filter(|l| l.kind == Kind::Unicast)
    }

    /// Whether `group` is a group that we belong to by our addresses: all hosts, all nodes, or the
    /// solicited-node group of an address on this link.
    pub(crate) fn in_group(&self, iface: Iface, group: &Addr) -> bool {
        if group.is_v4() {
            return *group == ALL_HOSTS;
        }
        *group == Addr::ALL_NODES
            || *group == ALL_NODES_INTERFACE
            || self.unicast().any(|l| {
                l.iface == iface && l.cidr.addr.is_v6() && l.cidr.addr.solicited_node() == *group
            })
    }
}

/// 224.0.0.1 (RFC 1112 4).
pub(crate) const ALL_HOSTS: Addr = Addr::v4([224, 0, 0, 1]);
/// ff01::1 (RFC 4291 2.7.1).
const ALL_NODES_INTERFACE: Addr = Addr::v6([0xff, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);

/// The broadcast addresses of an IPv4 subnet: all ones and all zeros. A /31 (RFC 3021) and a /32
/// have none.
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
