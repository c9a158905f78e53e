//! From the four-tuple of a segment to the record of its flow.
//!
//! One table holds all three phases of a connection's life: the value says the phase in its two top
//! bits and the place in that phase's slab below. The hash is keyed (SipHash-1-3), so a stranger
//! cannot choose tuples that collide.

use alloc::boxed::Box;

use clearway_base::FlowMap;
use clearway_base::sip::sip_1_3;
use clearway_wire::{Addr, Endpoint, Segment};

use crate::ids::Table;
use crate::trace::{Ends, TracedSegment};

/// The name of a flow: both endpoints, as seen from here, and the routing table they live in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
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
    /// Ports and table, six bytes.
    #[inline(always)]
    fn ends(&self) -> u64 {
        u64::from(self.table.0) << 32
            | u64::from(self.remote_port) << 16
            | u64::from(self.local_port)
    }

    /// What who traces the stack is told of the flow.
    #[inline(always)]
    pub(crate) fn traced(&self) -> Ends<'_> {
        Ends {
            local: &self.local,
            remote: &self.remote,
            local_port: self.local_port,
            remote_port: self.remote_port,
        }
    }

    /// As [`FlowKey::traced`], of a segment with `len` bytes of payload.
    #[inline(always)]
    pub(crate) fn traced_segment(&self, seg: &Segment, len: u32) -> TracedSegment<'_> {
        let Segment { seq, ack, flags, .. } = seg;
        TracedSegment { ends: self.traced(), seq: seq.0, ack: ack.0, len, flags: flags.0 }
    }

    pub(crate) fn local_endpoint(&self) -> Endpoint {
        Endpoint::new(self.local, self.local_port)
    }

    pub(crate) fn remote_endpoint(&self) -> Endpoint {
        Endpoint::new(self.remote, self.remote_port)
    }
}

/// The name of a flow of IPv4, as it is read off a packet and hashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowV4 {
    /// The peer's address above ours.
    both: u64,
    /// As [`FlowKey::ends`].
    ends: u64,
}

impl FlowV4 {
    /// No flow.
    pub(crate) const NONE: FlowV4 = FlowV4 { both: 0, ends: 0 };

    /// `ports` are those of a received packet as they stand: the peer's, then ours.
    #[inline(always)]
    pub(crate) fn new(local: [u8; 4], remote: [u8; 4], ports: u32, table: Table) -> FlowV4 {
        FlowV4 { both: both(local, remote), ends: u64::from(table.0) << 32 | u64::from(ports) }
    }

    /// Whether `key` names the same flow.
    #[inline(always)]
    pub(crate) fn is(&self, key: &FlowKey) -> bool {
        // Both addresses of a flow are of the same family.
        both(key.local.v4_octets(), key.remote.v4_octets()) == self.both
            && key.ends() == self.ends
            && key.local.is_v4()
    }

    /// The name that any flow has.
    pub(crate) fn key(&self) -> FlowKey {
        FlowKey {
            local: Addr::v4((self.both as u32).to_le_bytes()),
            remote: Addr::v4(((self.both >> 32) as u32).to_le_bytes()),
            local_port: self.ends as u16,
            remote_port: (self.ends >> 16) as u16,
            table: Table((self.ends >> 32) as u16),
        }
    }
}

/// The name of a flow in either form.
#[derive(Clone, Copy)]
pub(crate) enum Name<'a> {
    /// Of IPv4.
    V4(&'a FlowV4),
    /// Any.
    Any(&'a FlowKey),
}

impl Name<'_> {
    /// Whether `key` names the same flow.
    #[inline(always)]
    pub(crate) fn is(&self, key: &FlowKey) -> bool {
        match self {
            Name::V4(name) => name.is(key),
            Name::Any(name) => *name == key,
        }
    }
}

#[inline(always)]
fn both(local: [u8; 4], remote: [u8; 4]) -> u64 {
    u64::from(u32::from_le_bytes(remote)) << 32 | u64::from(u32::from_le_bytes(local))
}

/// The phase of life that a flow is in: each has records and a slab of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum LifePhase {
    /// A handshake that a stranger began (`tcp/syn_rcvd.rs`).
    SynRcvd = 0,
    /// Everything from SYN-SENT to LAST-ACK (`tcp/open.rs`).
    Open = 1,
    /// TIME-WAIT (`tcp/time_wait.rs`).
    TimeWait = 2,
}

const INDEX_BITS: u32 = 30;
/// The most records that one phase can have.
pub(crate) const MAX_INDEX: u32 = (1 << INDEX_BITS) - 1;

/// Where the record of a flow lies. It may be stale when it is used: whoever follows it compares
/// the key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FlowRef(u32);

impl FlowRef {
    /// No record: a phase that there is not.
    pub(crate) const NONE: FlowRef = FlowRef(u32::MAX);

    /// Whether this is the place of an open connection.
    #[inline(always)]
    pub(crate) fn is_open(self) -> bool {
        self.0 >> INDEX_BITS == LifePhase::Open as u32
    }

    #[inline]
    pub(crate) fn new(phase: LifePhase, index: u32) -> FlowRef {
        debug_assert!(index <= MAX_INDEX);
        FlowRef((phase as u32) << INDEX_BITS | (index & MAX_INDEX))
    }

    #[inline]
    pub(crate) fn phase(self) -> LifePhase {
        match self.0 >> INDEX_BITS {
            0 => LifePhase::SynRcvd,
            1 => LifePhase::Open,
            _ => LifePhase::TimeWait,
        }
    }

    #[inline]
    pub(crate) fn index(self) -> u32 {
        self.0 & MAX_INDEX
    }
}

/// What a look at the table of flows brought. An earlier segment of the same burst may have made
/// the place wrong, but not the hash.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    /// The keyed hash of the flow's name.
    pub hash: u64,
    /// Where the record probably lies, or [`FlowRef::NONE`].
    pub at: FlowRef,
}

/// The table of all flows.
pub(crate) struct Flows {
    map: FlowMap,
    key: (u64, u64),
    /// For each ephemeral port, in how many flows it is our side's.
    from: Box<[u32]>,
    first_port: u16,
}

impl Flows {
    /// A table for `capacity` flows, hashed under `key`, which counts those from the ephemeral
    /// `ports`.
    pub(crate) fn new(capacity: u32, key: (u64, u64), ports: (u16, u16)) -> Flows {
        let (first_port, last) = (ports.0.min(ports.1), ports.0.max(ports.1));
        let from = alloc::vec![0; usize::from(last - first_port) + 1].into_boxed_slice();
        Flows { map: FlowMap::new(capacity), key, from, first_port }
    }

    /// Whether a flow has this ephemeral port on our side, in whatever table and towards whomever.
    #[inline]
    pub(crate) fn is_from(&self, port: u16) -> bool {
        self.from
            .get(usize::from(port.wrapping_sub(self.first_port)))
            .is_some_and(|flows| *flows > 0)
    }

    #[inline]
    fn count(&mut self, port: u16) -> Option<&mut u32> {
        self.from.get_mut(usize::from(port.wrapping_sub(self.first_port)))
    }

    /// The keyed hash of a flow's name.
    #[inline]
    pub(crate) fn hash(&self, key: &FlowKey) -> u64 {
        if key.local.is_v4() {
            let both = both(key.local.v4_octets(), key.remote.v4_octets());
            return self.hash_v4(&FlowV4 { both, ends: key.ends() });
        }
        let ends = key.ends();
        let halves = |addr: &Addr| {
            let all = u128::from_le_bytes(*addr.octets());
            (all as u64, (all >> 64) as u64)
        };
        let ((a, b), (c, d)) = (halves(&key.local), halves(&key.remote));
        sip_1_3(self.key, [a, b, c, d], ends)
    }

    /// As [`Flows::hash`], for a flow of IPv4.
    #[inline(always)]
    pub(crate) fn hash_v4(&self, name: &FlowV4) -> u64 {
        sip_1_3(self.key, [name.both], name.ends)
    }

    /// The slot where a lookup of `hash` begins is brought nearer to the processor.
    #[inline(always)]
    pub(crate) fn prefetch(&self, hash: u64) {
        clearway_hint::prefetch_slice_at(self.map.slots(), self.map.slot_of(hash));
    }

    /// The first record whose hash is like this one's, almost always the right one, or
    /// [`FlowRef::NONE`].
    #[inline]
    pub(crate) fn candidate(&self, hash: u64) -> FlowRef {
        FlowRef(self.map.candidate(hash))
    }

    /// The record for which `is_it` says yes.
    #[inline]
    pub(crate) fn find(
        &self,
        hash: u64,
        mut is_it: impl FnMut(FlowRef) -> bool,
    ) -> Option<FlowRef> {
        self.map.find(hash, |v| is_it(FlowRef(v))).map(FlowRef)
    }

    /// Whether no flow can be added.
    pub(crate) fn is_full(&self) -> bool {
        self.map.len() >= self.map.capacity()
    }

    /// Adds a record, whose flow has `port` on our side; false when the table is full.
    pub(crate) fn insert(&mut self, hash: u64, at: FlowRef, port: u16) -> bool {
        let is_there = self.map.insert(hash, at.0).is_ok();
        if let Some(flows) = self.count(port).filter(|_| is_there) {
            *flows += 1;
        }
        is_there
    }

    /// Takes a record out.
    pub(crate) fn remove(&mut self, hash: u64, at: FlowRef, port: u16) {
        let gone = self.map.remove(hash, |v| v == at.0);
        debug_assert!(gone.is_some(), "a flow was not in the table");
        if let Some(flows) = self.count(port) {
            *flows = flows.saturating_sub(1);
        }
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

#[cfg(test)]
mod tests {
    use core::hash::Hasher;

    use siphasher::sip::SipHasher13;

    use super::*;

    #[test]
    fn the_hash_is_siphash_1_3_of_addresses_ports_and_table() {
        let flows = Flows::new(1, (0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908), (1, 1));
        for (local, remote) in [
            (Addr::v4([10, 0, 0, 1]), Addr::v4([192, 0, 2, 77])),
            (Addr::v6([0x20; 16]), Addr::v6([9, 8, 7, 6, 5, 4, 3, 2, 1, 0, 1, 2, 3, 4, 5, 6])),
        ] {
            let key =
                FlowKey { local, remote, local_port: 80, remote_port: 0xfedc, table: Table(3) };
            let mut known = SipHasher13::new_with_keys(flows.key.0, flows.key.1);
            known.write(local.wire_bytes());
            known.write(remote.wire_bytes());
            known.write(&[80, 0, 0xdc, 0xfe, 3, 0]);
            assert_eq!(flows.hash(&key), known.finish());
        }
    }

    #[test]
    fn the_short_name_of_a_flow_says_as_much_as_the_long_one() {
        let flows = Flows::new(1, (1, 2), (1, 1));
        let name = FlowV4::new([10, 0, 0, 1], [192, 0, 2, 77], 0xfedc_0050, Table(3));
        let key = name.key();
        assert_eq!(key.local_endpoint(), Endpoint::new(Addr::v4([10, 0, 0, 1]), 80));
        assert_eq!(key.remote_endpoint(), Endpoint::new(Addr::v4([192, 0, 2, 77]), 0xfedc));
        assert_eq!(key.table, Table(3));
        assert_eq!(flows.hash(&key), flows.hash_v4(&name));
        assert!(name.is(&key));
        let mapped = |addr: Addr| {
            Addr::v6(core::array::from_fn(|i| if i < 12 { 0x20 } else { addr.octets()[i] }))
        };
        for other in [
            FlowKey { local: key.remote, ..key },
            FlowKey { remote: key.local, ..key },
            FlowKey { local_port: 81, ..key },
            FlowKey { remote_port: 81, ..key },
            FlowKey { table: Table(0), ..key },
            FlowKey { local: mapped(key.local), remote: mapped(key.remote), ..key },
        ] {
            assert!(!name.is(&other), "{other:?}");
        }
    }
}
