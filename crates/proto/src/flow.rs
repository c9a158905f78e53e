//! From the four-tuple of a segment to the record of its flow.
//!
//! One table holds all three phases of a connection's life: the value says the phase in its two top bits and the place in that phase's slab below.
//! The hash is keyed (SipHash-1-3), so a stranger cannot choose tuples that collide.

use core::hash::Hasher;

use clearway_base::FlowMap;
use clearway_wire::{Addr, Endpoint};
use siphasher::sip::SipHasher13;

use crate::Table;

/// The name of a flow: both endpoints, as seen from here, and the routing table they live in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowKey {
    /// Our address.
    pub local: Addr,
    /// The peer's address.
    pub remote: Addr,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
    /// The routing table.
    pub table: Table,
}

impl FlowKey {
    pub(crate) fn local_endpoint(&self) -> Endpoint {
        Endpoint::new(self.local, self.local_port)
    }

    pub(crate) fn remote_endpoint(&self) -> Endpoint {
        Endpoint::new(self.remote, self.remote_port)
    }
}

/// The phase of life that a flow is in: each has records and a slab of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum LifePhase {
    /// A handshake that a stranger began (`tcp/half.rs`).
    Half = 0,
    /// Everything from SYN-SENT to LAST-ACK (`tcp/open.rs`).
    Open = 1,
    /// TIME-WAIT (`tcp/wait.rs`).
    Wait = 2,
}

const INDEX_BITS: u32 = 30;
/// The most records that one phase can have.
pub(crate) const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;

/// Where the record of a flow lies. It may be stale when it is used: whoever follows it compares the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowRef(u32);

impl FlowRef {
    #[inline]
    pub(crate) fn new(phase: LifePhase, index: u32) -> FlowRef {
        debug_assert!(index <= MAX_INDEX);
        FlowRef((phase as u32) << INDEX_BITS | (index & MAX_INDEX))
    }

    #[inline]
    pub(crate) fn phase(self) -> LifePhase {
        match self.0 >> INDEX_BITS {
            0 => LifePhase::Half,
            1 => LifePhase::Open,
            _ => LifePhase::Wait,
        }
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 & MAX_INDEX
    }
}

/// The table of all flows.
pub(crate) struct Flows {
    map: FlowMap,
    key: (u64, u64),
}

impl Flows {
    /// A table for `capacity` flows, hashed under `key`.
    pub(crate) fn new(capacity: u32, key: (u64, u64)) -> Flows {
        Flows { map: FlowMap::new(capacity), key }
    }

    /// The keyed hash of a flow's name.
    #[inline]
    pub(crate) fn hash(&self, key: &FlowKey) -> u64 {
        // The hasher is quickest when it is given everything at once, and the whole number of its words.
        let mut h = SipHasher13::new_with_keys(self.key.0, self.key.1);
        let mut ends = [0_u8; 8];
        ends[..2].copy_from_slice(&key.local_port.to_ne_bytes());
        ends[2..4].copy_from_slice(&key.remote_port.to_ne_bytes());
        ends[4..6].copy_from_slice(&key.table.0.to_ne_bytes());
        if key.local.is_v4() {
            let mut all = [0_u8; 16];
            all[..4].copy_from_slice(&key.local.v4_octets());
            all[4..8].copy_from_slice(&key.remote.v4_octets());
            all[8..].copy_from_slice(&ends);
            h.write(&all);
        } else {
            let mut all = [0_u8; 40];
            all[..16].copy_from_slice(key.local.octets());
            all[16..32].copy_from_slice(key.remote.octets());
            all[32..].copy_from_slice(&ends);
            h.write(&all);
        }
        h.finish()
    }

    /// The first record whose hash is like this one's: almost always the right one.
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> Option<FlowRef> {
        self.map.candidate(hash).map(FlowRef)
    }

    /// The record for which `is_it` says yes.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(FlowRef) -> bool) -> Option<FlowRef> {
        self.map.find(hash, |v| is_it(FlowRef(v))).map(FlowRef)
    }

    /// Whether no flow can be added.
    pub(crate) fn is_full(&self) -> bool {
        self.map.len() >= self.map.capacity()
    }

    /// Adds a record; false when the table is full.
    pub(crate) fn insert(&mut self, hash: u64, at: FlowRef) -> bool {
        self.map.insert(hash, at.0).is_ok()
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, hash: u64, at: FlowRef) {
        let gone = self.map.remove(hash, |v| v == at.0);
        debug_assert!(gone.is_some(), "a flow was not in the table");
    }

    /// The flow moved on to another phase and keeps its slot.
    pub(crate) fn moved(&mut self, hash: u64, from: FlowRef, to: FlowRef) {
        let there = self.map.replace(hash, from.0, to.0);
        debug_assert!(there, "a flow was not in the table");
    }

    /// Flows in the table.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u32 {
        self.map.len()
    }
}
