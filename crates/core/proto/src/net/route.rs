//! Routes and the longest-prefix match, written once over both families.
//!
//! Every route lies in one hash table under (table, prefix, length). A lookup asks it once for
//! every length that occurs in that table, longest first; a bitmap per table says which do. A host
//! has few lengths, so this is a handful of probes, and nothing is allocated after start.

use alloc::boxed::Box;
use alloc::vec;

use clearway_base::{FlowMap, Slab};
use clearway_pkt::Iface;
use clearway_wire::{Addr, Cidr};

use crate::hash::AddrHash;
use crate::ids::Table;

/// Where packets for a prefix go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NextHop {
    /// To a router, which is found in the same table.
    Gateway(Addr),
    /// To a router on this link; needed when its address is link-local.
    GatewayOn {
        /// The link.
        iface: Iface,
        /// The router.
        addr: Addr,
    },
    /// The destination is on this link.
    Interface(Iface),
    /// Look the destination up again in another table.
    Lookup(Table),
    /// Drop in silence.
    Blackhole,
    /// Drop, and tell the sender.
    Unreachable,
}

/// One route.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Route {
    /// The table it is in.
    pub table: Table,
    /// The prefix, host bits zero.
    pub dst: Cidr,
    /// Where packets go.
    pub via: NextHop,
}

/// Which prefix lengths occur in one table, and how often. IPv4 lengths are counted as their mapped
/// form's, 96 to 128.
struct Lengths {
    v4: [u32; 33],
    v6: [u32; 129],
    /// Bit n: an IPv4 prefix of length n exists.
    v4_bits: u64,
    /// Bit n % 64 of word n / 64: an IPv6 prefix of length n exists.
    v6_bits: [u64; 3],
}

impl Lengths {
    const NONE: Lengths = Lengths { v4: [0; 33], v6: [0; 129], v4_bits: 0, v6_bits: [0; 3] };

    fn change(&mut self, dst: &Cidr, added: bool) {
        let at = usize::from(dst.prefix_len);
        let count = if dst.addr.is_v4() { self.v4.get_mut(at) } else { self.v6.get_mut(at) };
        let Some(count) = count else { return };
        *count = if added { *count + 1 } else { count.saturating_sub(1) };
        let present = *count > 0;
        let word = if dst.addr.is_v4() { &mut self.v4_bits } else { &mut self.v6_bits[at / 64] };
        *word = *word & !(1 << (at % 64)) | u64::from(present) << (at % 64);
    }
}

/// All routes of all tables.
pub(crate) struct Routes {
    map: FlowMap,
    routes: Slab<Route>,
    lengths: Box<[Lengths]>,
    hash: AddrHash,
}

/// Why a route was not added.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RouteError {
    /// No more room.
    Full,
    /// The prefix has a route in this table already.
    Exists,
    /// There is no such table.
    NoTable,
}

impl Routes {
    /// Room for `routes` routes in `tables` tables.
    pub(crate) fn new(routes: u32, tables: u16, hash: AddrHash) -> Routes {
        let mut lengths = vec![];
        lengths.resize_with(usize::from(tables), || Lengths::NONE);
        Routes {
            map: FlowMap::new(routes),
            routes: Slab::new(routes),
            lengths: lengths.into_boxed_slice(),
            hash,
        }
    }

    /// Adds a route.
    pub(crate) fn add(&mut self, table: Table, dst: Cidr, via: NextHop) -> Result<(), RouteError> {
        let dst = masked(dst.addr, dst.prefix_len);
        if usize::from(table.0) >= self.lengths.len() {
            return Err(RouteError::NoTable);
        }
        if self.find(table, &dst).is_some() {
            return Err(RouteError::Exists);
        }
        let handle = self.routes.insert(Route { table, dst, via }).ok_or(RouteError::Full)?;
        if self.map.insert(self.hash_of(table, &dst), handle.index()).is_err() {
            self.routes.remove(handle);
            return Err(RouteError::Full);
        }
        self.lengths[usize::from(table.0)].change(&dst, true);
        Ok(())
    }

    /// Takes a route away; false when there was none.
    pub(crate) fn remove(&mut self, table: Table, dst: Cidr) -> bool {
        let dst = masked(dst.addr, dst.prefix_len);
        let Some(index) = self.find(table, &dst) else { return false };
        let Some(handle) = self.routes.handle_at(index) else { return false };
        self.map.remove(self.hash_of(table, &dst), |value| value == index);
        self.routes.remove(handle);
        self.lengths[usize::from(table.0)].change(&dst, false);
        true
    }

    /// The route with the longest prefix that holds `addr`.
    pub(crate) fn lookup(&self, table: Table, addr: &Addr) -> Option<&Route> {
        let lengths = self.lengths.get(usize::from(table.0))?;
        if addr.is_v4() {
            return self.longest(table, addr, lengths.v4_bits, 0);
        }
        (0..3)
            .rev()
            .find_map(|word| self.longest(table, addr, lengths.v6_bits[word], word as u8 * 64))
    }

    /// Tries the lengths whose bits are set in `bits`, longest first; bit n stands for `base + n`.
    fn longest(&self, table: Table, addr: &Addr, mut bits: u64, base: u8) -> Option<&Route> {
        while bits != 0 {
            let bit = 63 - bits.leading_zeros();
            bits &= !(1 << bit);
            if let Some(index) = self.find(table, &masked(*addr, base + bit as u8)) {
                return self.routes.by_index(index);
            }
        }
        None
    }

    fn find(&self, table: Table, dst: &Cidr) -> Option<u32> {
        self.map.find(self.hash_of(table, dst), |index| {
            self.routes.by_index(index).is_some_and(|r| r.table == table && r.dst == *dst)
        })
    }

    fn hash_of(&self, table: Table, dst: &Cidr) -> u64 {
        self.hash.of(u64::from(table.0) << 8 | u64::from(dst.prefix_len), &dst.addr)
    }

    /// Every route.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter().map(|(_, route)| route)
    }

    /// How many tables there are.
    pub(crate) fn tables(&self) -> u16 {
        self.lengths.len() as u16
    }
}

/// The prefix with its host bits cleared.
pub(crate) fn masked(addr: Addr, prefix_len: u8) -> Cidr {
    let is_v4 = addr.is_v4();
    let prefix_len = prefix_len.min(if is_v4 { 32 } else { 128 });
    let bits = if is_v4 { 96 + u32::from(prefix_len) } else { u32::from(prefix_len) };
    let mask = if bits == 0 { 0 } else { u128::MAX << (128 - bits) };
    let kept = (u128::from_be_bytes(*addr.octets()) & mask).to_be_bytes();
    Cidr { addr: Addr::v6(kept), prefix_len }
}

#[cfg(test)]
mod tests;
