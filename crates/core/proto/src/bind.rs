//! Reservations of TCP ports: what `bind` gives before anybody listens or connects, and who may
//! have the same port beside another.
//!
//! The rules are those of Linux (`inet_csk_get_port`), but that connections do not stand in the way
//! of a bind: the flow table tells them from a listener by themselves. One that began at a port
//! that was asked for by number does as long as it is closing. Whoever walks through ports by
//! number, as `bindresvport` does, would have another's port otherwise, and could not connect.

use clearway_base::sip::sip_1_3;
use clearway_base::{Handle, Slab};
use clearway_wire::{Addr, Endpoint};

use crate::chains::{Chained, Chains, Place};
use crate::ids::{BindId, Table};

/// A port to be reserved.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BindSpec {
    /// The routing table whose addresses are meant.
    pub table: Table,
    /// An address of ours or the wildcard of its family; port 0 has one chosen.
    pub local: Endpoint,
    /// With the IPv6 wildcard: leave IPv4 to others.
    pub v6_only: bool,
    /// May stand beside others that say the same, as long as none of them listens (SO_REUSEADDR).
    pub reuse_address: bool,
    /// May stand beside others of the same owner that say the same, listening or not
    /// (SO_REUSEPORT). Connections are shared out among those that listen.
    pub reuse_port: bool,
    /// Whose it is, in the caller's numbers (a user's, say): SO_REUSEPORT shares with the same
    /// owner only, or a stranger could take part of a server's traffic.
    pub owner: u32,
}

/// Who may have a port beside a socket (SO_REUSEADDR, SO_REUSEPORT).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sharing {
    /// See [`BindSpec::reuse_address`].
    pub reuse_address: bool,
    /// See [`BindSpec::reuse_port`].
    pub reuse_port: bool,
    /// See [`BindSpec::owner`].
    pub owner: u32,
}

impl Sharing {
    /// Whether both let each other be, as far as SO_REUSEPORT goes.
    pub(crate) fn shares_port(&self, other: &Sharing) -> bool {
        self.reuse_port && other.reuse_port && self.owner == other.owner
    }
}

impl BindSpec {
    fn sharing(&self) -> Sharing {
        Sharing {
            reuse_address: self.reuse_address,
            reuse_port: self.reuse_port,
            owner: self.owner,
        }
    }
}

/// The endpoints of a connection: ours and the peer's.
pub(crate) type Pair = (Endpoint, Endpoint);

struct Bound {
    spec: BindSpec,
    listening: bool,
    /// It was asked for by number.
    is_numbered: bool,
    /// Its owner gave it back, and this pair of endpoints keeps it.
    kept_for: Option<Pair>,
    /// Its place among those of its port.
    place: Place,
}

impl Chained for Bound {
    type Key = (Table, u16);

    fn key(&self) -> (Table, u16) {
        (self.spec.table, self.spec.local.port)
    }

    fn place(&self) -> &Place {
        &self.place
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.place
    }
}

impl Bound {
    /// Whether the two, of one port, cannot both be.
    fn conflicts(&self, other: &BindSpec) -> bool {
        let shares_address = self.spec.reuse_address && other.reuse_address && !self.listening;
        let overlap =
            overlap((&self.spec.local.addr, self.spec.v6_only), (&other.local.addr, other.v6_only));
        overlap && !shares_address && !self.spec.sharing().shares_port(&other.sharing())
    }
}

/// Whether some packet could be for both addresses, each of them with whether it leaves IPv4 to
/// others when it is the IPv6 wildcard.
pub(crate) fn overlap(a: (&Addr, bool), b: (&Addr, bool)) -> bool {
    let covers = |(wide, v6_only): (&Addr, bool), narrow: &Addr| match *wide {
        Addr::ANY_V4 => narrow.is_v4(),
        Addr::ANY_V6 => narrow.is_v6() || !v6_only,
        addr => addr == *narrow,
    };
    covers(a, b.0) || covers(b, a.0)
}

/// All reservations.
pub(crate) struct Binds {
    slab: Slab<Bound>,
    /// Those that only a pair of endpoints keeps.
    kept: u32,
    /// By table and port.
    chains: Chains,
    key: (u64, u64),
}

impl Binds {
    /// Room for `capacity` reservations, hashed under `key`.
    pub(crate) fn new(capacity: u32, key: (u64, u64)) -> Binds {
        Binds { slab: Slab::new(capacity), kept: 0, chains: Chains::new(capacity), key }
    }

    fn hash(&self, table: Table, port: u16) -> u64 {
        sip_1_3(self.key, [], u64::from(table.0) << 16 | u64::from(port))
    }

    /// Whether a reservation, other than that of `but`, keeps somebody else from `spec`.
    pub(crate) fn is_taken(&self, spec: &BindSpec, but: Option<BindId>) -> bool {
        if self.slab.is_empty() {
            return false;
        }
        let but = but.map(|id| id.index());
        let (table, port) = (spec.table, spec.local.port);
        self.chains
            .of(&self.slab, self.hash(table, port), &(table, port))
            .any(|(index, bound)| Some(index) != but && bound.conflicts(spec))
    }

    pub(crate) fn is_full(&self) -> bool {
        self.slab.is_full()
    }

    pub(crate) fn insert(&mut self, spec: BindSpec, is_numbered: bool) -> Option<BindId> {
        let hash = self.hash(spec.table, spec.local.port);
        let bound =
            Bound { spec, listening: false, is_numbered, kept_for: None, place: Place::default() };
        let handle = self.slab.insert(bound)?;
        if self.chains.insert(&mut self.slab, hash, handle.index()).is_err() {
            self.slab.remove(handle);
            return None;
        }
        BindId::from_bits(handle.to_bits())
    }

    fn handle(id: BindId) -> Option<Handle<Bound>> {
        Handle::from_bits(id.to_bits())
    }

    pub(crate) fn spec(&self, id: BindId) -> Option<BindSpec> {
        Some(self.slab.get(Self::handle(id)?)?.spec)
    }

    pub(crate) fn spec_mut(&mut self, id: BindId) -> Option<&mut BindSpec> {
        Some(&mut self.slab.get_mut(Self::handle(id)?)?.spec)
    }

    /// Every reservation that has an owner.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (BindId, BindSpec)> {
        self.slab
            .iter()
            .filter(|(_, b)| b.kept_for.is_none())
            .filter_map(|(handle, b)| Some((BindId::from_bits(handle.to_bits())?, b.spec)))
    }

    pub(crate) fn set_listening(&mut self, id: BindId, listening: bool) {
        if let Some(bound) = Self::handle(id).and_then(|handle| self.slab.get_mut(handle)) {
            bound.listening = listening;
        }
    }

    /// Its owner gives it back, and it stays as long as this pair of endpoints is in use, if it was
    /// asked for by number.
    pub(crate) fn keep_for(&mut self, id: BindId, pair: Pair) {
        let bound = Self::handle(id).and_then(|handle| self.slab.get_mut(handle));
        match bound.filter(|bound| bound.is_numbered && bound.kept_for.is_none()) {
            Some(bound) => {
                bound.kept_for = Some(pair);
                self.kept += 1;
            }
            None => self.remove(id),
        }
    }

    /// One that is kept at this port, or at any, for a pair of endpoints of which this is so.
    pub(crate) fn kept(
        &self,
        at: Option<(Table, u16)>,
        is_so: impl Fn(Table, &Pair) -> bool,
    ) -> Option<BindId> {
        if self.kept == 0 {
            return None;
        }
        let is_meant = |(index, bound): (u32, &Bound)| {
            bound.kept_for.is_some_and(|pair| is_so(bound.spec.table, &pair)).then_some(index)
        };
        let index = match at {
            Some(at) => self.chains.of(&self.slab, self.hash(at.0, at.1), &at).find_map(is_meant),
            None => self.slab.iter().find_map(|(handle, bound)| is_meant((handle.index(), bound))),
        };
        BindId::from_bits(self.slab.handle_at(index?)?.to_bits())
    }

    pub(crate) fn remove(&mut self, id: BindId) {
        let Some(handle) = Self::handle(id) else { return };
        let Some(Bound { spec, kept_for, .. }) = self.slab.get(handle) else { return };
        self.kept -= u32::from(kept_for.is_some());
        let hash = self.hash(spec.table, spec.local.port);
        self.chains.remove(&mut self.slab, hash, handle.index());
        self.slab.remove(handle);
    }
}
