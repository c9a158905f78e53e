//! UDP sockets (RFC 768): bound, perhaps connected, each with a bounded queue either way.

use clearway_base::{FlowMap, Handle, Link, List, Rng, Slab};
use clearway_pkt::{Iface, Sink};
use clearway_wire::{Addr, Endpoint, Proto, udp};

use crate::Table;
use crate::config::Config;
use crate::counters::Drop;
use crate::emit::{Cursor, IpOut, OutError, RouteCache, Transport};
use crate::error::Unreachable;
use crate::event::{Event, UdpEvents};
use crate::flow::FlowKey;
use crate::hash::AddrHash;
use crate::records::Records;
use crate::stack::{Stack, UdpId, UdpTag};
use crate::store::Env;

/// Datagrams in one socket's queue, each way, for each KiB that it may hold; and never fewer than this.
const MIN_DATAGRAMS: usize = 16;
/// The longest payload of a datagram over IPv4 and over IPv6.
const MAX_PAYLOAD_V4: usize = 65_535 - 20 - udp::HEADER_LEN;
const MAX_PAYLOAD_V6: usize = 65_535 - 8 - udp::HEADER_LEN;
/// Datagrams of one socket that leave before the next one's turn comes.
const QUANTUM: u32 = 32;

/// A socket to be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpSpec {
    /// The routing table of its packets.
    pub table: Table,
    /// Our side: an address of ours or the wildcard of its family, which takes datagrams for any address; port 0 has one chosen.
    pub local: Endpoint,
    /// The owner's word; it comes with every event.
    pub token: u64,
    /// With the IPv6 wildcard: leave IPv4 to others. Otherwise the socket takes IPv4 too.
    pub v6_only: bool,
}

/// Why a UDP verb refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UdpError {
    /// The handle names no socket (any more).
    Stale,
    /// Another socket has this address and port.
    InUse,
    /// All places for sockets are taken ([`crate::Limits::udp_sockets`]).
    TooMany,
    /// No ephemeral port is free.
    NoPorts,
    /// Not an address of ours, or a destination that nobody can be sent to: unspecified, port 0, or of another family.
    BadAddress,
    /// Nothing leads to the destination.
    NoRoute,
    /// The queue is full; [`UdpEvents::WRITABLE`] tells when to try again.
    Full,
    /// Longer than a datagram can be, or than the queue.
    TooLong,
}

/// A received datagram.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Datagram<'a> {
    /// Who sent it.
    pub from: Endpoint,
    /// The address of ours that it was sent to.
    pub to: Addr,
    /// Its bytes.
    pub payload: &'a [u8],
    /// IPv4 TOS or IPv6 traffic class.
    pub tos: u8,
    /// IPv4 TTL or IPv6 hop limit, as left.
    pub ttl: u8,
    /// Where it arrived.
    pub iface: Iface,
}

/// How a received datagram came.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) from: Endpoint,
    pub(crate) to: Addr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) iface: Iface,
}

/// A datagram to be sent.
#[derive(Clone, Copy)]
struct Departure {
    from: Addr,
    to: Endpoint,
}

/// One socket.
struct Socket {
    table: Table,
    local: Endpoint,
    remote: Option<Endpoint>,
    /// An IPv6 wildcard that takes IPv4 too.
    dual: bool,
    token: u64,
    rx: Records<Arrival>,
    tx: Records<Departure>,
    cursor: Cursor,
    cache: RouteCache,
    /// For whom `cache` is.
    cached: Option<(Addr, Addr)>,
    tos: u8,
    ttl: u8,
    error: Option<Unreachable>,
    /// The owner was refused and waits for room.
    wants_room: bool,
    events: UdpEvents,
    /// Datagrams that found the queue full.
    dropped: u64,
    /// Its place among those that have something to send, and among those that have something to tell.
    ready: Link,
    told: Link,
}

/// All sockets.
pub(crate) struct Udp {
    sockets: Slab<Socket>,
    /// By local endpoint, and by remote endpoint too when connected.
    map: FlowMap,
    hash: AddrHash,
    rng: Rng,
    connected: u32,
    ready: List,
    told: List,
    queue_bytes: usize,
    ports: (u16, u16),
}

impl Udp {
    /// No socket, and room for as many as the configuration says. Memory for queues is taken when a socket is bound.
    pub(crate) fn new(config: &Config) -> Udp {
        let hash = AddrHash::new(&config.secret, 5);
        Udp {
            sockets: Slab::new(config.limits.udp_sockets),
            map: FlowMap::new(config.limits.udp_sockets),
            hash,
            rng: Rng::seed(hash.of(1, &Addr::ANY_V4)),
            connected: 0,
            ready: List::new(),
            told: List::new(),
            queue_bytes: config.limits.udp_queue_bytes as usize,
            ports: config.tcp.ephemeral_ports,
        }
    }

    fn hash_of(&self, table: Table, local: &Endpoint, remote: Option<&Endpoint>) -> u64 {
        let scope = u64::from(table.0) << 32 | u64::from(local.port);
        match remote {
            None => self.hash.of(scope, &local.addr),
            Some(remote) => {
                self.hash.of_pair(scope | u64::from(remote.port) << 48 | 1 << 31, &local.addr, &remote.addr)
            }
        }
    }

    fn find(&self, table: Table, local: &Endpoint, remote: Option<&Endpoint>) -> Option<u32> {
        self.map.find(self.hash_of(table, local, remote), |index| {
            self.sockets
                .by_index(index)
                .is_some_and(|s| s.table == table && s.local == *local && s.remote.as_ref() == remote)
        })
    }

    /// The socket that a datagram is for: connected to its sender, else bound to its address, else bound to all.
    fn demux(&self, table: Table, local: &Endpoint, remote: &Endpoint) -> Option<u32> {
        if self.sockets.is_empty() {
            return None;
        }
        let wildcard = Endpoint::new(if local.addr.is_v4() { Addr::ANY_V4 } else { Addr::ANY_V6 }, local.port);
        let both = Endpoint::new(Addr::ANY_V6, local.port);
        if self.connected > 0 {
            let connected = self.find(table, local, Some(remote)).or_else(|| self.find(table, &wildcard, Some(remote)));
            if connected.is_some() {
                return connected;
            }
        }
        let bound = self.find(table, local, None).or_else(|| self.find(table, &wildcard, None));
        if bound.is_some() || local.addr.is_v6() {
            return bound;
        }
        self.find(table, &both, None).filter(|&index| self.sockets.by_index(index).is_some_and(|s| s.dual))
    }

    /// Takes a datagram in.
    pub(crate) fn ingest(&mut self, table: Table, to_port: u16, arrival: Arrival, payload: &[u8]) -> Result<(), Drop> {
        let local = Endpoint::new(arrival.to, to_port);
        let index = self.demux(table, &local, &arrival.from).ok_or(Drop::UdpPortClosed)?;
        let socket = self.sockets.by_index_mut(index).ok_or(Drop::UdpPortClosed)?;
        if !socket.rx.push(arrival, &[payload]) {
            socket.dropped += 1;
            return Err(Drop::UdpQueueFull);
        }
        self.tell(index, UdpEvents::READABLE);
        Ok(())
    }

    /// An ICMP error quotes a datagram of ours; true when it was a socket's.
    pub(crate) fn on_error(&mut self, key: &FlowKey, why: Option<Unreachable>) -> bool {
        let (local, remote) = (Endpoint::new(key.local, key.local_port), Endpoint::new(key.remote, key.remote_port));
        let Some(index) = self.demux(key.table, &local, &remote) else { return false };
        let Some(socket) = self.sockets.by_index_mut(index) else { return false };
        // Only who is connected asked for this peer for certain (RFC 1122 4.1.3.3; sockets everywhere do it so).
        if let (Some(_), Some(why)) = (socket.remote, why) {
            socket.error = Some(why);
            self.tell(index, UdpEvents::ERROR);
        }
        true
    }

    fn tell(&mut self, index: u32, what: UdpEvents) {
        if let Some(socket) = self.sockets.by_index_mut(index) {
            socket.events |= what;
            self.told.push_back(&mut self.sockets.links(|s| &mut s.told), index);
        }
    }

    /// The next thing for an owner to look at.
    pub(crate) fn next_event(&mut self) -> Option<Event> {
        let index = self.told.pop_front(&mut self.sockets.links(|s| &mut s.told))?;
        let handle = self.sockets.handle_at(index)?;
        let socket = self.sockets.get_mut(handle)?;
        let what = core::mem::take(&mut socket.events);
        Some(Event::Udp { socket: to_id(handle)?, token: socket.token, what })
    }

    /// Whether a datagram waits to be sent.
    pub(crate) fn wants_emit(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Sends what waits. False: something is left.
    pub(crate) fn emit<S: Sink>(&mut self, out: &mut IpOut<'_, S>) -> bool {
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.front() else { break };
            let Some(socket) = self.sockets.by_index_mut(index) else { break };
            let mut left = QUANTUM;
            while left > 0 && !socket.tx.is_empty() {
                if !socket.emit_one(out) {
                    return false;
                }
                left -= 1;
            }
            let (done, room) = (socket.tx.is_empty(), core::mem::take(&mut socket.wants_room));
            let mut links = self.sockets.links(|s| &mut s.ready);
            if done {
                self.ready.remove(&mut links, index);
            } else {
                self.ready.move_to_back(&mut links, index);
            }
            if room {
                self.tell(index, UdpEvents::WRITABLE);
            }
        }
        self.ready.is_empty()
    }

    fn by_id(&mut self, id: UdpId) -> Result<&mut Socket, UdpError> {
        self.sockets.get_mut(to_handle(id).ok_or(UdpError::Stale)?).ok_or(UdpError::Stale)
    }

    /// Puts a socket into the map, or says why it cannot be there.
    fn bind(&mut self, spec: &UdpSpec) -> Result<UdpId, UdpError> {
        let local = match spec.local.port {
            0 => self.free_port(spec)?,
            _ if self.is_taken(spec, spec.local.port) => return Err(UdpError::InUse),
            _ => spec.local,
        };
        if self.sockets.is_full() {
            return Err(UdpError::TooMany);
        }
        let records = (self.queue_bytes / 1024).max(MIN_DATAGRAMS);
        let handle = self.sockets.insert(Socket {
            table: spec.table,
            local,
            remote: None,
            dual: local.addr == Addr::ANY_V6 && !spec.v6_only,
            token: spec.token,
            rx: Records::new(records, self.queue_bytes),
            tx: Records::new(records, self.queue_bytes),
            cursor: Cursor::default(),
            cache: RouteCache::default(),
            cached: None,
            tos: 0,
            ttl: 64,
            error: None,
            wants_room: false,
            events: UdpEvents::default(),
            dropped: 0,
            ready: Link::OFF,
            told: Link::OFF,
        });
        let handle = handle.ok_or(UdpError::TooMany)?;
        if self.map.insert(self.hash_of(spec.table, &local, None), handle.index()).is_err() {
            self.sockets.remove(handle);
            return Err(UdpError::TooMany);
        }
        to_id(handle).ok_or(UdpError::TooMany)
    }

    /// Whether the port is taken for the address asked for: by the same address, or by the other family's wildcard where one takes both.
    fn is_taken(&self, spec: &UdpSpec, port: u16) -> bool {
        let local = Endpoint::new(spec.local.addr, port);
        let unconnected = |local: &Endpoint| self.find(spec.table, local, None);
        if unconnected(&local).is_some() {
            return true;
        }
        match local.addr {
            Addr::ANY_V4 => unconnected(&Endpoint::new(Addr::ANY_V6, port))
                .is_some_and(|index| self.sockets.by_index(index).is_some_and(|s| s.dual)),
            Addr::ANY_V6 if !spec.v6_only => unconnected(&Endpoint::new(Addr::ANY_V4, port)).is_some(),
            _ => false,
        }
    }

    /// A random free port of the ephemeral range (RFC 6056 3.3.1).
    fn free_port(&mut self, spec: &UdpSpec) -> Result<Endpoint, UdpError> {
        let (low, high) = self.ports;
        let count = u32::from(high.saturating_sub(low)) + 1;
        let first = self.rng.below(count.into()) as u32;
        (0..count)
            .map(|step| low + ((first + step) % count) as u16)
            .find(|&port| port != 0 && !self.is_taken(spec, port))
            .map(|port| Endpoint::new(spec.local.addr, port))
            .ok_or(UdpError::NoPorts)
    }
}

impl Socket {
    /// Sends the oldest datagram. False: the device takes no more.
    fn emit_one<S: Sink>(&mut self, out: &mut IpOut<'_, S>) -> bool {
        let Some((departure, payload)) = self.tx.front() else { return true };
        let key = FlowKey {
            local: departure.from,
            remote: departure.to.addr,
            local_port: self.local.port,
            remote_port: departure.to.port,
            table: self.table,
        };
        if self.cached != Some((key.local, key.remote)) {
            self.cache = RouteCache::default();
            self.cached = Some((key.local, key.remote));
        }
        let mut head = [0; udp::HEADER_LEN];
        udp::emit(key.local_port, key.remote_port, payload.len() as u16, &mut head);
        let (cache, cursor) = (&mut self.cache, &mut self.cursor);
        let hops = (self.tos, self.ttl);
        match out.send(cache, &key, Proto::UDP, hops, &head, payload, Transport::Udp, cursor) {
            Ok(()) => out.counters.udp.datagrams_out += 1,
            Err(OutError::Full) => return false,
            Err(_) => out.counters.udp.send_failures += 1,
        }
        self.cursor = Cursor::default();
        self.tx.pop();
        true
    }
}

// The public handle carries a tag of its own, so that the socket's type need not be public.
fn to_id(handle: Handle<Socket>) -> Option<UdpId> {
    Handle::<UdpTag>::from_bits(handle.to_bits())
}

fn to_handle(id: UdpId) -> Option<Handle<Socket>> {
    Handle::from_bits(id.to_bits())
}

impl<E: Env> Stack<E> {
    /// Binds a socket. Memory for its queues is taken here.
    pub fn udp_bind(&mut self, spec: UdpSpec) -> Result<UdpId, UdpError> {
        let any = spec.local.addr.is_unspecified();
        if !any && !self.ip.is_ours(spec.table, &spec.local.addr) {
            return Err(UdpError::BadAddress);
        }
        self.udp.bind(&spec)
    }

    /// From now on the socket takes datagrams of this peer only, sends to it when no other is named, and hears of ICMP errors.
    pub fn udp_connect(&mut self, socket: UdpId, remote: Endpoint) -> Result<(), UdpError> {
        let handle = to_handle(socket).ok_or(UdpError::Stale)?;
        let (table, old, was) = {
            let s = self.udp.sockets.get(handle).ok_or(UdpError::Stale)?;
            (s.table, s.local, s.remote)
        };
        if remote.port == 0 || !self.ip.may_be_peer(table, &remote.addr) {
            return Err(UdpError::BadAddress);
        }
        let mut local = old;
        if local.addr.is_unspecified() {
            local.addr = self.ip.source_for(table, &remote.addr).ok_or(UdpError::NoRoute)?;
        }
        if local.addr.is_v4() != remote.addr.is_v4() {
            return Err(UdpError::BadAddress);
        }
        if self.udp.find(table, &local, Some(&remote)).is_some_and(|index| index != handle.index()) {
            return Err(UdpError::InUse);
        }
        let index = handle.index();
        self.udp.map.remove(self.udp.hash_of(table, &old, was.as_ref()), |value| value == index);
        let hash = self.udp.hash_of(table, &local, Some(&remote));
        self.udp.map.insert(hash, index).map_err(|_| UdpError::TooMany)?;
        self.udp.connected += u32::from(was.is_none());
        let s = self.udp.by_id(socket)?;
        (s.local, s.remote) = (local, Some(remote));
        Ok(())
    }

    /// Closes a socket. Datagrams that wait are dropped, both ways.
    pub fn udp_close(&mut self, socket: UdpId) {
        let Some(handle) = to_handle(socket) else { return };
        let Some(s) = self.udp.sockets.get(handle) else { return };
        let (hash, index) = (self.udp.hash_of(s.table, &s.local, s.remote.as_ref()), handle.index());
        self.udp.connected -= u32::from(s.remote.is_some());
        self.udp.map.remove(hash, |value| value == index);
        self.udp.ready.remove(&mut self.udp.sockets.links(|s| &mut s.ready), index);
        self.udp.told.remove(&mut self.udp.sockets.links(|s| &mut s.told), index);
        self.udp.sockets.remove(handle);
    }

    /// Queues a datagram, which the next `emit` sends. `to`: None means the connected peer. `from`: None means the address that fits best.
    pub fn udp_send(
        &mut self,
        socket: UdpId,
        to: impl Into<Option<Endpoint>>,
        from: Option<Addr>,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        let s = self.udp.by_id(socket)?;
        let (table, local) = (s.table, s.local.addr);
        let to = to.into().or(s.remote).ok_or(UdpError::BadAddress)?;
        if to.port == 0 || to.addr.is_unspecified() {
            return Err(UdpError::BadAddress);
        }
        let from = match from {
            Some(from) if !self.ip.is_ours(table, &from) => return Err(UdpError::BadAddress),
            Some(from) => from,
            None if !local.is_unspecified() => local,
            None => self.ip.source_for(table, &to.addr).ok_or(UdpError::NoRoute)?,
        };
        let most = if to.addr.is_v4() { MAX_PAYLOAD_V4 } else { MAX_PAYLOAD_V6 };
        if from.is_v4() != to.addr.is_v4() || (local == Addr::ANY_V4 && to.addr.is_v6()) {
            return Err(UdpError::BadAddress);
        }
        if bytes.len() > most.min(self.udp.queue_bytes) {
            return Err(UdpError::TooLong);
        }
        let s = self.udp.by_id(socket)?;
        if local == Addr::ANY_V6 && to.addr.is_v4() && !s.dual {
            return Err(UdpError::BadAddress);
        }
        if !s.tx.push(Departure { from, to }, &[bytes]) {
            s.wants_room = true;
            return Err(UdpError::Full);
        }
        let index = to_handle(socket).ok_or(UdpError::Stale)?.index();
        self.udp.ready.push_back(&mut self.udp.sockets.links(|s| &mut s.ready), index);
        Ok(())
    }

    /// The oldest datagram that waits. Its bytes are gone from the queue, and can be read until the stack is used again.
    pub fn udp_recv(&mut self, socket: UdpId) -> Option<Datagram<'_>> {
        let s = self.udp.by_id(socket).ok()?;
        let (arrival, payload) = s.rx.pop()?;
        let Arrival { from, to, tos, ttl, iface } = arrival;
        Some(Datagram { from, to, payload, tos, ttl, iface })
    }

    /// Takes the last error that came back to a connected socket.
    pub fn udp_error(&mut self, socket: UdpId) -> Option<Unreachable> {
        self.udp.by_id(socket).ok()?.error.take()
    }

    /// Sets IPv4 TOS or IPv6 traffic class, and TTL or hop limit, of datagrams sent from now on.
    pub fn udp_set_hops(&mut self, socket: UdpId, tos: u8, ttl: u8) -> Result<(), UdpError> {
        let s = self.udp.by_id(socket)?;
        (s.tos, s.ttl) = (tos, ttl);
        Ok(())
    }

    /// Gives a socket its owner's word, which comes with its events.
    pub fn udp_set_token(&mut self, socket: UdpId, token: u64) -> Result<(), UdpError> {
        self.udp.by_id(socket)?.token = token;
        Ok(())
    }

    /// Our side of a socket.
    pub fn udp_local(&self, socket: UdpId) -> Option<Endpoint> {
        self.udp.sockets.get(to_handle(socket)?).map(|s| s.local)
    }

    /// The peer of a connected socket.
    pub fn udp_remote(&self, socket: UdpId) -> Option<Endpoint> {
        self.udp.sockets.get(to_handle(socket)?)?.remote
    }

    /// Datagrams that a socket's full queue refused.
    pub fn udp_dropped(&self, socket: UdpId) -> Option<u64> {
        self.udp.sockets.get(to_handle(socket)?).map(|s| s.dropped)
    }
}

#[cfg(test)]
mod tests;
