//! UDP sockets (RFC 768): bound, perhaps connected, each with a bounded queue either way.

mod errors;
mod export;
mod groups;
mod report;
mod stamps;
mod verbs;

use alloc::vec::Vec;

use clearway_base::{Duration, FlowMap, Handle, Instant, Link, List, Rng, Slab};
use clearway_pkt::{Iface, Sink};
use clearway_wire::{Addr, Endpoint, Proto, udp};

use crate::bind::{Sharing, overlap};
use crate::chains::{Chained, Chains, Place};
use crate::config::Config;
use crate::counters::{Counters, Drop};
use crate::error::Unreachable;
use crate::event::{Event, UdpEvents};
use crate::flow::FlowKey;
use crate::hash::AddrHash;
use crate::ids::Table;
use crate::ids::{UdpId, UdpTag};
use crate::net::groups::Joined;
use crate::net::groups::change::MulticastOptions;
use crate::net::output::{Cursor, IpOut, OutError, Outgoing, Transport};
use crate::net::path_cache::RouteCache;
use crate::ports::Share;
use crate::records::Records;

use report::{Reports, Stamping, Stamps};
pub use report::{UdpErrorReport, UdpFragmenting, UdpLeft, UdpStamp, UdpStamped};

/// One socket's queue, either way, takes a datagram for each so many bytes that it may hold; and
/// never fewer than this.
const BYTES_PER_DATAGRAM: usize = 512;
const MIN_DATAGRAMS: usize = 16;
/// The longest payload of a datagram over IPv4 and over IPv6, whose lengths do not count the header
/// of IPv6, nor one of fragments.
const MAX_PAYLOAD_V4: usize = 65_535 - 20 - udp::HEADER_LEN;
const MAX_PAYLOAD_V6: usize = 65_535 - udp::HEADER_LEN;
/// Datagrams of one socket that leave before the next one's turn comes.
const QUANTUM: u32 = 32;
/// Datagrams that one [`UdpOut::segment_size`] may make of a send at most, as on Linux
/// (UDP_MAX_SEGMENTS).
pub const MAX_UDP_SEGMENTS: usize = 128;
/// Sockets that find their interface full in one emit before it gives up until the next one.
const BLOCKED_PER_TURN: u32 = 16;
/// How long datagrams of a socket that was closed wait for a device that takes nothing, before they
/// are given up and counted.
pub(crate) const CLOSED_WAITS: Duration = Duration::from_secs(3);
/// How often queues that are empty are looked at: one through which nothing went since the last
/// look gives its memory back.
const REST: Duration = Duration::from_secs(1);

/// A socket to be bound.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpSpec {
    /// The routing table of its packets.
    pub table: Table,
    /// Our side: an address of ours or the wildcard of its family, which takes datagrams for any
    /// address; port 0 has one chosen.
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
    /// Not an address of ours, or a destination that nobody can be sent to: unspecified, port 0, or
    /// of another family.
    BadAddress,
    /// Nothing leads to the destination.
    NoRoute,
    /// The queue is full; [`UdpEvents::WRITABLE`] tells when to try again.
    Full,
    /// Longer than a datagram can be, or than the queue; or than the path takes whole, on a socket
    /// whose datagrams are not to be cut ([`UdpFragmenting`]).
    TooLong,
    /// A segment size that makes more than [`MAX_UDP_SEGMENTS`] datagrams, or datagrams longer than
    /// the way takes whole.
    BadSegmentSize,
}

/// How a datagram is to leave; the default is as the socket says.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpOut {
    /// To whom; None means the connected peer.
    pub to: Option<Endpoint>,
    /// From which address of ours; None means the one that fits best.
    pub from: Option<Addr>,
    /// IPv4 TOS or IPv6 traffic class, if another than the socket's.
    pub tos: Option<u8>,
    /// IPv4 TTL or IPv6 hop limit, if another than the socket's.
    pub ttl: Option<u8>,
    /// When not 0: the bytes are several datagrams of this size, the last one perhaps shorter
    /// (UDP_SEGMENT).
    pub segment_size: u16,
    /// By which interface, to a group, to 255.255.255.255 or to a link-local IPv6 address
    /// (`ipi_ifindex`); None: the socket's for groups ([`crate::MulticastOptions`]), else that of
    /// the address that it is sent from.
    pub iface: Option<Iface>,
    /// What the owner wants to hear when it has left ([`crate::Stack::udp_stamped`]).
    pub stamp: Option<UdpStamp>,
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
    /// When not 0: several datagrams of this size, the last one perhaps shorter, that came as one;
    /// only where [`crate::Stack::udp_set_gro`] allowed it.
    pub segment_size: u16,
    /// When it arrived, since the start of 1970; zero where nobody told the stack
    /// ([`crate::Stack::set_calendar`]).
    pub arrived: Duration,
}

/// A UDP socket at one glance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UdpSummary {
    /// Its name.
    pub socket: UdpId,
    /// The routing table of its packets.
    pub table: Table,
    /// Our side.
    pub local: Endpoint,
    /// The peer of a connected socket.
    pub remote: Option<Endpoint>,
    /// The owner's word.
    pub token: u64,
    /// Received datagrams that wait for the owner.
    pub unread: u32,
    /// Datagrams that wait to be sent.
    pub unsent: u32,
    /// Received datagrams that found the queue full.
    pub dropped: u64,
}

/// How a received datagram came.
#[derive(Clone, Copy)]
pub(crate) struct Arrival {
    pub(crate) from: Endpoint,
    pub(crate) to: Addr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
    pub(crate) iface: Iface,
    /// The size of the datagrams that came as one; 0: it is one.
    pub(crate) segment_size: u16,
    /// What the calendar showed then.
    pub(crate) arrived: Duration,
}

/// A datagram to be sent, or several of `segment_size` when that is not 0.
#[derive(Clone, Copy)]
struct Departure {
    from: Addr,
    to: Endpoint,
    tos: u8,
    ttl: u8,
    segment_size: u16,
    /// The interface, where the addresses do not decide it.
    via: Option<Iface>,
    /// What the owner wants to hear when it has left.
    stamp: Option<UdpStamp>,
}

/// One socket.
struct Socket {
    table: Table,
    local: Endpoint,
    /// What it was bound to: what `local` is again without a peer.
    bound: Endpoint,
    remote: Option<Endpoint>,
    /// An IPv6 wildcard that takes IPv4 too.
    dual: bool,
    /// Who may have the port beside it.
    sharing: Sharing,
    /// It stands here for a socket of another stack.
    stands_in: bool,
    /// The next of those that share its addresses and ports, bound before it; the first of them
    /// alone is in the map.
    next: Option<u32>,
    /// Its place among those on its port.
    on_port: Place,
    /// Its owner has closed it; what it has to send still leaves.
    closed: bool,
    /// Until when that may take; never: the turn in which it was closed is not over.
    until: Instant,
    token: u64,
    rx: Records<Arrival>,
    tx: Records<Departure>,
    cursor: Cursor,
    /// How many bytes of the oldest datagrams that leave one by one are gone.
    cut: u32,
    cache: RouteCache,
    /// For whom `cache` is.
    cached: Option<(Addr, Addr)>,
    /// Between whom there was a way when last asked, and the state of the tables then.
    way: Option<(Addr, Addr, u32)>,
    /// Datagrams that came as one are given as one.
    gro: bool,
    tos: u8,
    ttl: u8,
    /// The longest IPv6 packet that its owner wants (RFC 3542 11.1 and `IPV6_MTU` of Linux); 0: as
    /// the way takes.
    mtu: u16,
    /// What datagrams over IPv4 and over IPv6 do where they are longer than the path takes.
    fragmenting: [UdpFragmenting; 2],
    error: Option<Unreachable>,
    /// Errors one by one, when the owner wants them so.
    reports: Option<Reports>,
    /// What has left of what the owner wants to hear of, and whether that is news.
    stamps: Option<alloc::boxed::Box<Stamps>>,
    has_stamped: bool,
    /// In [`Stamping::told`], where each socket is once at most.
    is_told: bool,
    multicast: MulticastOptions,
    joined: Joined,
    /// The owner was refused and waits for room.
    wants_room: bool,
    events: UdpEvents,
    /// Datagrams that found the queue full.
    dropped: u64,
    /// Its place among those that have something to send, among those that have something to tell,
    /// and among those that were closed before all was sent.
    ready: Link,
    told: Link,
    closing: Link,
    /// And among those whose queues may have memory that they do not need.
    resting: Link,
}

/// All sockets.
pub(crate) struct Udp {
    sockets: Slab<Socket>,
    /// By local endpoint, and by remote endpoint too when connected; of those that share both, the
    /// one that came last.
    map: FlowMap,
    /// All that are not closed, by table and port.
    ports_taken: Chains,
    hash: AddrHash,
    rng: Rng,
    connected: u32,
    ready: List,
    told: List,
    /// Closed in this turn, and before: the first to be given up in front.
    just_closed: List,
    closing: List,
    /// A queue of theirs became empty since they were looked at; and when they are next, never as
    /// long as the turn is not over in which the first of them came.
    resting: List,
    rest_at: Instant,
    queue_bytes: usize,
    ports: (u16, u16),
    share: Share,
    /// Something was begun while other stacks share the ports.
    reaches_out: bool,
    /// Sockets that a datagram for many is for: room for all of them.
    found: Vec<u32>,
    stamping: Stamping,
}

impl Udp {
    /// No socket, and room for as many as the configuration says. Memory for queues is taken when
    /// datagrams come.
    pub(crate) fn new(config: &Config) -> Udp {
        let hash = AddrHash::new(&config.secret, 5);
        Udp {
            sockets: Slab::new(config.limits.udp_sockets),
            map: FlowMap::new(config.limits.udp_sockets),
            ports_taken: Chains::new(config.limits.udp_sockets),
            hash,
            rng: Rng::seed(hash.of(1, &Addr::ANY_V4)),
            connected: 0,
            ready: List::new(),
            told: List::new(),
            just_closed: List::new(),
            closing: List::new(),
            resting: List::new(),
            rest_at: Instant::NEVER,
            queue_bytes: config.limits.udp_queue_bytes as usize,
            ports: config.tcp.ephemeral_ports,
            share: Share::WHOLE,
            reaches_out: false,
            found: Vec::with_capacity(config.limits.udp_sockets as usize),
            stamping: Stamping::default(),
        }
    }

    pub(crate) fn set_share(&mut self, share: Share) {
        self.share = share;
    }

    #[inline]
    pub(crate) fn reaches_out(&self) -> bool {
        self.reaches_out
    }

    /// Whose a datagram to a port is that nobody here has; None when it is ours to answer.
    pub(crate) fn owner_elsewhere(&self, port: u16) -> Option<u16> {
        (!self.share.has(port)).then(|| self.share.owner(port))
    }

    fn hash_of(&self, table: Table, local: &Endpoint, remote: Option<&Endpoint>) -> u64 {
        let scope = u64::from(table.0) << 32 | u64::from(local.port);
        match remote {
            None => self.hash.of(scope, &local.addr),
            Some(remote) => self.hash.of_pair(
                scope | u64::from(remote.port) << 48 | 1 << 31,
                &local.addr,
                &remote.addr,
            ),
        }
    }

    fn find(&self, table: Table, local: &Endpoint, remote: Option<&Endpoint>) -> Option<u32> {
        self.map.find(self.hash_of(table, local, remote), |index| {
            self.sockets.by_index(index).is_some_and(|s| {
                s.table == table && s.local == *local && s.remote.as_ref() == remote
            })
        })
    }

    /// The hash of a port of a table, under which all sockets are found that have it.
    fn hash_of_port(&self, table: Table, port: u16) -> u64 {
        self.hash.of(u64::from(table.0) << 32 | u64::from(port) | 1 << 48, &Addr::ANY_V6)
    }

    /// Shows every socket that has a port, on whatever address, connected or not, until `is_it`
    /// says yes to one.
    fn on_port(
        &self,
        table: Table,
        port: u16,
        mut is_it: impl FnMut(u32, &Socket) -> bool,
    ) -> Option<u32> {
        self.ports_taken
            .of(&self.sockets, self.hash_of_port(table, port), &(table, port))
            .find(|(index, s)| is_it(*index, s))
            .map(|(index, _)| index)
    }

    /// The socket that a datagram is for: connected to its sender, else bound to its address, else
    /// bound to all.
    fn demux(&self, table: Table, local: &Endpoint, remote: &Endpoint) -> Option<u32> {
        if self.sockets.is_empty() {
            return None;
        }
        if self.connected > 0 {
            // A connected socket has an address of its own. Of several, the one that connected
            // last, as on Linux.
            let connected = self.find(table, local, Some(remote));
            if connected.is_some() {
                return connected;
            }
        }
        let is_v4 = local.addr.is_v4();
        let wildcard = Endpoint::new(if is_v4 { Addr::ANY_V4 } else { Addr::ANY_V6 }, local.port);
        let bound = self.find(table, local, None).or_else(|| self.find(table, &wildcard, None));
        if let Some(bound) = bound {
            return self.choose(bound, false, local, remote);
        }
        if !is_v4 {
            return None;
        }
        let both = self.find(table, &Endpoint::new(Addr::ANY_V6, local.port), None)?;
        self.choose(both, true, local, remote)
    }

    /// Of those that share the address and port of `first`, the one that a datagram is for: the one
    /// bound last, as on Linux; and when that is one of a group (SO_REUSEPORT), the flow says which
    /// of them. `v4`: only those that take IPv4 count.
    fn choose(&self, first: u32, v4: bool, local: &Endpoint, remote: &Endpoint) -> Option<u32> {
        let takes = |s: &Socket| !v4 || s.dual;
        let newest = self.chain(first).find(|(_, s)| takes(s))?;
        if newest.1.next.is_none() || !newest.1.sharing.reuse_port {
            return Some(newest.0);
        }
        let all = || self.chain(newest.0).filter(|(_, s)| takes(s) && s.sharing.reuse_port);
        // Who is at home here comes before those who would have to be sent what comes.
        let any_own = all().any(|(_, s)| !s.stands_in);
        let group = || all().filter(|(_, s)| !(any_own && s.stands_in));
        let scope = u64::from(local.port) << 16 | u64::from(remote.port);
        let flow = self.hash.of_pair(scope | 1 << 47, &local.addr, &remote.addr);
        let at = ((u128::from(flow) * group().count() as u128) >> 64) as usize;
        group().nth(at).map(|(index, _)| index)
    }

    /// The sockets from `first` on that share addresses and ports.
    fn chain(&self, first: u32) -> impl Iterator<Item = (u32, &Socket)> {
        let get = |index: u32| self.sockets.by_index(index).map(|s| (index, s));
        core::iter::successors(get(first), move |(_, s)| s.next.and_then(get))
    }

    /// Puts a socket where datagrams find it: before those that have the same addresses and ports.
    fn enter(&mut self, index: u32) -> Result<(), UdpError> {
        let Some(s) = self.sockets.by_index(index) else { return Err(UdpError::Stale) };
        let (table, local, remote) = (s.table, s.local, s.remote);
        let hash = self.hash_of(table, &local, remote.as_ref());
        let before = self.find(table, &local, remote.as_ref());
        match before {
            Some(before) => {
                self.map.replace(hash, before, index);
            }
            None => self.map.insert(hash, index).map_err(|_| UdpError::TooMany)?,
        }
        if let Some(s) = self.sockets.by_index_mut(index) {
            s.next = before;
        }
        self.connected += u32::from(remote.is_some());
        Ok(())
    }

    /// The socket is found under other addresses from now on.
    fn move_to(
        &mut self,
        index: u32,
        local: Endpoint,
        remote: Option<Endpoint>,
    ) -> Result<(), UdpError> {
        self.take_out(index);
        let s = self.sockets.by_index_mut(index).ok_or(UdpError::Stale)?;
        (s.local, s.remote) = (local, remote);
        // The place that it had is free.
        self.enter(index)
    }

    /// No datagram finds the socket any more.
    fn take_out(&mut self, index: u32) {
        let Some(s) = self.sockets.by_index_mut(index) else { return };
        let next = s.next.take();
        let (table, local, remote) = (s.table, s.local, s.remote);
        let hash = self.hash_of(table, &local, remote.as_ref());
        self.connected -= u32::from(remote.is_some());
        let Some(first) = self.find(table, &local, remote.as_ref()) else { return };
        if first == index {
            match next {
                Some(next) => {
                    self.map.replace(hash, index, next);
                }
                None => {
                    self.map.remove(hash, |value| value == index);
                }
            }
            return;
        }
        let before =
            self.chain(first).find(|(_, s)| s.next == Some(index)).map(|(before, _)| before);
        if let Some(before) = before.and_then(|before| self.sockets.by_index_mut(before)) {
            before.next = next;
        }
    }

    /// Takes a datagram in.
    pub(crate) fn ingest(
        &mut self,
        table: Table,
        to_port: u16,
        arrival: Arrival,
        payload: &[u8],
    ) -> Result<(), Drop> {
        let local = Endpoint::new(arrival.to, to_port);
        let index = self.demux(table, &local, &arrival.from).ok_or(Drop::UdpPortClosed)?;
        let socket = self.sockets.by_index_mut(index).ok_or(Drop::UdpPortClosed)?;
        let taken = socket.take(arrival, payload);
        if socket.rx.is_empty() {
            return taken;
        }
        self.tell(index, UdpEvents::READABLE);
        taken
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

    /// How many sockets there are that somebody has.
    pub(crate) fn len(&self) -> u32 {
        self.ports_taken.len()
    }

    /// Every socket.
    pub(crate) fn summaries(&self) -> impl Iterator<Item = UdpSummary> + '_ {
        self.sockets.iter().filter(|(_, s)| !s.closed).filter_map(|(handle, s)| {
            Some(UdpSummary {
                socket: to_id(handle)?,
                table: s.table,
                local: s.local,
                remote: s.remote,
                token: s.token,
                unread: s.rx.len() as u32,
                unsent: s.tx.len() as u32,
                dropped: s.dropped,
            })
        })
    }

    /// Whether a datagram waits to be sent.
    pub(crate) fn wants_emit(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When [`Udp::expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.closed_until().min(self.rest_at)
    }

    /// Until when the socket waits that was closed first.
    fn closed_until(&self) -> Instant {
        self.closing
            .front()
            .and_then(|index| self.sockets.by_index(index))
            .map_or(Instant::NEVER, |s| s.until)
    }

    /// Gives up what closed sockets could not send in time, and memory that queues do not need.
    pub(crate) fn expire(&mut self, now: Instant, counters: &mut Counters) {
        while self.closed_until() <= now {
            self.give_up_oldest(counters);
        }
        if self.rest_at <= now {
            self.rest(now);
        }
    }

    /// Looks at all sockets of which a queue became empty. Those that have nothing to give back, or
    /// whose queues are not empty, come again when one becomes so.
    #[cold]
    #[inline(never)]
    fn rest(&mut self, now: Instant) {
        for _ in 0..self.resting.len() {
            let mut links = self.sockets.links(|s| &mut s.resting);
            let Some(index) = self.resting.pop_front(&mut links) else { break };
            if self.sockets.by_index_mut(index).is_some_and(|s| !s.rest()) {
                self.resting.push_back(&mut self.sockets.links(|s| &mut s.resting), index);
            }
        }
        self.rest_at = if self.resting.is_empty() { Instant::NEVER } else { now + REST };
    }

    /// A queue of the socket is empty, or about to be.
    #[inline]
    fn rests(&mut self, index: u32) {
        self.resting.push_back(&mut self.sockets.links(|s| &mut s.resting), index);
    }

    /// Whether the time of the next look is to be set: with the end of the turn.
    #[inline]
    pub(crate) fn wants_rest(&self) -> bool {
        self.rest_at == Instant::NEVER && !self.resting.is_empty()
    }

    pub(crate) fn plan_rest(&mut self, now: Instant) {
        self.rest_at = now + REST;
    }

    /// The socket that was closed first gives up what it still has to send. False: there is none.
    fn give_up_oldest(&mut self, counters: &mut Counters) -> bool {
        let Some(index) = self.closing.front().or_else(|| self.just_closed.front()) else {
            return false;
        };
        let lost = self.sockets.by_index(index).map_or(0, |s| s.tx.len() as u64);
        counters.udp.lost_after_close += lost;
        self.forget(index);
        true
    }

    /// The socket's place and memory are free again. No datagram finds it.
    fn forget(&mut self, index: u32) {
        self.ready.remove(&mut self.sockets.links(|s| &mut s.ready), index);
        self.told.remove(&mut self.sockets.links(|s| &mut s.told), index);
        if self.sockets.by_index(index).is_some_and(|s| s.is_told) {
            self.untell_stamped(index);
        }
        let is_timed = self.sockets.by_index(index).is_some_and(|s| s.until != Instant::NEVER);
        let line = if is_timed { &mut self.closing } else { &mut self.just_closed };
        line.remove(&mut self.sockets.links(|s| &mut s.closing), index);
        self.resting.remove(&mut self.sockets.links(|s| &mut s.resting), index);
        if let Some(handle) = self.sockets.handle_at(index) {
            self.sockets.remove(handle);
        }
    }

    /// Sends what waits. False: something is left.
    pub(crate) fn emit<S: Sink>(&mut self, out: &mut IpOut<'_, S>) -> bool {
        let is_empty = self.emit_ready(out);
        // Those that were closed since the last turn: their time begins now.
        while let Some(index) =
            self.just_closed.pop_front(&mut self.sockets.links(|s| &mut s.closing))
        {
            if let Some(s) = self.sockets.by_index_mut(index) {
                s.until = out.now + CLOSED_WAITS;
            }
            self.closing.push_back(&mut self.sockets.links(|s| &mut s.closing), index);
        }
        is_empty
    }

    fn emit_ready<S: Sink>(&mut self, out: &mut IpOut<'_, S>) -> bool {
        let mut blocked = 0;
        for _ in 0..self.ready.len() {
            let Some(index) = self.ready.front() else { break };
            let Some(socket) = self.sockets.by_index_mut(index) else { break };
            blocked += u32::from(!socket.emit_some(out, self.stamping.calendar));
            out.via = None;
            let done = socket.tx.is_empty();
            if core::mem::take(&mut socket.has_stamped) && !socket.is_told {
                socket.is_told = true;
                self.tell_stamped(index);
            }
            let Some(socket) = self.sockets.by_index_mut(index) else { break };
            if done && socket.closed {
                self.forget(index);
                continue;
            }
            if done {
                self.rests(index);
            }
            let Some(socket) = self.sockets.by_index_mut(index) else { break };
            let room = socket.wants_room && socket.tx.is_free(4);
            socket.wants_room &= !room;
            let mut links = self.sockets.links(|s| &mut s.ready);
            if done {
                self.ready.remove(&mut links, index);
            } else {
                self.ready.move_to_back(&mut links, index);
            }
            if room {
                self.tell(index, UdpEvents::WRITABLE);
            }
            if blocked >= BLOCKED_PER_TURN {
                break;
            }
        }
        self.ready.is_empty()
    }

    fn by_id(&mut self, id: UdpId) -> Result<&mut Socket, UdpError> {
        let socket = self.sockets.get_mut(to_handle(id).ok_or(UdpError::Stale)?);
        socket.filter(|s| !s.closed).ok_or(UdpError::Stale)
    }

    /// Puts a socket into the map, or says why it cannot be there.
    pub(crate) fn bind(
        &mut self,
        spec: &UdpSpec,
        sharing: &Sharing,
        counters: &mut Counters,
    ) -> Result<UdpId, UdpError> {
        let local = match spec.local.port {
            0 => self.free_port(spec)?,
            _ if self.is_taken(spec, sharing, spec.local.port) => return Err(UdpError::InUse),
            _ => spec.local,
        };
        if self.sockets.is_full() && !self.give_up_oldest(counters) {
            return Err(UdpError::TooMany);
        }
        let socket = self.fresh(spec, local, sharing);
        let handle = self.sockets.insert(socket);
        let handle = handle.ok_or(UdpError::TooMany)?;
        let port = self.hash_of_port(spec.table, local.port);
        if self.ports_taken.insert(&mut self.sockets, port, handle.index()).is_err()
            || self.enter(handle.index()).is_err()
        {
            self.ports_taken.remove(&mut self.sockets, port, handle.index());
            self.sockets.remove(handle);
            return Err(UdpError::TooMany);
        }
        to_id(handle).ok_or(UdpError::TooMany)
    }

    /// A socket bound to `local`, with empty queues.
    fn fresh(&self, spec: &UdpSpec, local: Endpoint, sharing: &Sharing) -> Socket {
        let records = (self.queue_bytes / BYTES_PER_DATAGRAM).max(MIN_DATAGRAMS);
        Socket {
            table: spec.table,
            local,
            bound: local,
            remote: None,
            dual: local.addr == Addr::ANY_V6 && !spec.v6_only,
            sharing: *sharing,
            stands_in: false,
            next: None,
            on_port: Place::default(),
            closed: false,
            until: Instant::NEVER,
            token: spec.token,
            rx: Records::new(records, self.queue_bytes),
            tx: Records::new(records, self.queue_bytes),
            cursor: Cursor::default(),
            cut: 0,
            cache: RouteCache::default(),
            cached: None,
            way: None,
            gro: false,
            tos: 0,
            ttl: 64,
            mtu: 0,
            fragmenting: [UdpFragmenting::default(); 2],
            error: None,
            reports: None,
            stamps: None,
            has_stamped: false,
            is_told: false,
            multicast: MulticastOptions::default(),
            joined: Joined::default(),
            wants_room: false,
            events: UdpEvents::default(),
            dropped: 0,
            ready: Link::OFF,
            told: Link::OFF,
            closing: Link::OFF,
            resting: Link::OFF,
        }
    }

    /// Whether somebody keeps the port from `spec`: whoever has it on an address that some datagram
    /// for `spec` could be for, unless both share. The rules are those of Linux
    /// (`udp_lib_lport_inuse`).
    fn is_taken(&self, spec: &UdpSpec, sharing: &Sharing, port: u16) -> bool {
        let conflicts = |s: &Socket| {
            let share =
                s.sharing.reuse_address && sharing.reuse_address || s.sharing.shares_port(sharing);
            // One for both families keeps IPv4's wildcard to itself also while it is connected over
            // IPv6, as in Linux.
            let keeps_v4 =
                s.dual && s.bound.addr == Addr::ANY_V6 && spec.local.addr == Addr::ANY_V4;
            !share
                && (keeps_v4 || overlap((&s.local.addr, !s.dual), (&spec.local.addr, spec.v6_only)))
        };
        self.on_port(spec.table, port, |_, s| conflicts(s)).is_some()
    }

    /// A random free port of the ephemeral range (RFC 6056 3.3.1).
    fn free_port(&mut self, spec: &UdpSpec) -> Result<Endpoint, UdpError> {
        let (low, high) = self.ports;
        let count = u32::from(high.saturating_sub(low)) + 1;
        let first = self.rng.below(count.into()) as u32;
        let share = self.share;
        self.reaches_out |= !share.is_whole();
        // Those of our share first: answers to the others may come to another stack.
        let all = move || (0..count).map(move |step| low + ((first + step) % count) as u16);
        all()
            .filter(|port| share.has(*port))
            .chain(all().filter(|port| !share.has(*port)))
            .find(|&port| port != 0 && !self.is_taken(spec, &Sharing::default(), port))
            .map(|port| Endpoint::new(spec.local.addr, port))
            .ok_or(UdpError::NoPorts)
    }
}

impl Chained for Socket {
    type Key = (Table, u16);

    fn key(&self) -> (Table, u16) {
        (self.table, self.bound.port)
    }

    fn place(&self) -> &Place {
        &self.on_port
    }

    fn place_mut(&mut self) -> &mut Place {
        &mut self.on_port
    }
}

impl Socket {
    /// Keeps a datagram, or each of those that came as one.
    fn take(&mut self, arrival: Arrival, payload: &[u8]) -> Result<(), Drop> {
        let size = usize::from(arrival.segment_size);
        if size == 0 || payload.len() <= size || self.gro {
            let segment_size = if payload.len() <= size { 0 } else { arrival.segment_size };
            return self.keep(Arrival { segment_size, ..arrival }, payload);
        }
        let mut result = Ok(());
        for piece in payload.chunks(size) {
            let kept = self.keep(Arrival { segment_size: 0, ..arrival }, piece);
            result = result.and(kept);
        }
        result
    }

    fn keep(&mut self, arrival: Arrival, payload: &[u8]) -> Result<(), Drop> {
        if self.rx.push(arrival, &[payload]) {
            return Ok(());
        }
        let size = usize::from(arrival.segment_size);
        self.dropped += if size == 0 { 1 } else { payload.len().div_ceil(size) as u64 };
        Err(Drop::UdpQueueFull)
    }

    /// Bytes of memory that its queues have taken.
    fn memory(&self) -> usize {
        self.rx.memory()
            + self.tx.memory()
            + self.reports.as_ref().map_or(0, Records::memory)
            + self.stamps.as_ref().map_or(0, |stamps| stamps.memory())
    }

    /// Queues through which nothing goes give their memory back. False: one was in use since the
    /// last call, and is to be looked at again.
    fn rest(&mut self) -> bool {
        let all = [
            self.rx.rest(),
            self.tx.rest(),
            self.reports.as_mut().is_none_or(Records::rest),
            self.stamps.as_mut().is_none_or(|stamps| stamps.rest()),
        ];
        !all.contains(&false)
    }

    /// Sends up to a quantum of datagrams. False: the device takes no more.
    fn emit_some<S: Sink>(&mut self, out: &mut IpOut<'_, S>, calendar: Duration) -> bool {
        for _ in 0..QUANTUM {
            if self.tx.is_empty() {
                break;
            }
            if !self.emit_one(out, calendar) {
                return false;
            }
        }
        true
    }

    /// Sends the oldest datagram, or the next of those that the oldest record is. False: the device
    /// takes no more.
    fn emit_one<S: Sink>(&mut self, out: &mut IpOut<'_, S>, calendar: Duration) -> bool {
        let Some((departure, payload)) = self.tx.front() else { return true };
        let key = FlowKey {
            local: departure.from,
            remote: departure.to.addr,
            local_port: self.local.port,
            remote_port: departure.to.port,
            table: self.table,
        };
        if self.cached != Some((key.local, key.remote)) || departure.via.is_some() {
            self.cache = RouteCache::default();
            self.cached = Some((key.local, key.remote));
        }
        let hops = (departure.tos, departure.ttl);
        out.via = departure.via;
        let fragmenting = self.fragmenting[usize::from(key.local.is_v6())];
        if fragmenting.link_mtu_only {
            out.forget_path_mtu(&mut self.cache, &key);
        }
        let size = usize::from(departure.segment_size);
        if size != 0 && self.cut == 0 && out.cuts_datagrams(&mut self.cache, &key, payload.len()) {
            let pieces = payload.len().div_ceil(size) as u64;
            let how = (departure.segment_size, fragmenting.dont_fragment);
            match out.send_datagrams(&mut self.cache, &key, hops, payload, how) {
                Ok(()) => out.counters.udp.datagrams_out += pieces,
                Err(OutError::Full) => return false,
                Err(_) => out.counters.udp.send_failures += pieces,
            }
            if departure.stamp.is_some() {
                let departure = *departure;
                self.has_left(&departure, Some(self.cache.iface), calendar);
            }
            self.tx.pop();
            return true;
        }
        let rest = payload.get(self.cut as usize..).unwrap_or(&[]);
        let piece = if size == 0 { rest } else { &rest[..rest.len().min(size)] };
        let mut head = [0; udp::HEADER_LEN];
        udp::emit(key.local_port, key.remote_port, piece.len() as u16, &mut head);
        if self.cursor.is_at_start() {
            let most = if key.local.is_v6() { self.mtu } else { 0 };
            self.cursor = Cursor::new(most, fragmenting.dont_fragment);
        }
        let (cache, cursor) = (&mut self.cache, &mut self.cursor);
        let (tos, ttl) = hops;
        let transport = Transport::Udp;
        let datagram = Outgoing {
            key: &key,
            proto: Proto::UDP,
            tos,
            ttl,
            head: &head,
            body: piece,
            transport,
        };
        match out.send(cache, &datagram, cursor) {
            Ok(()) => out.counters.udp.datagrams_out += 1,
            Err(OutError::Full) => return false,
            Err(_) => out.counters.udp.send_failures += 1,
        }
        self.cursor = Cursor::default();
        self.cut += piece.len() as u32;
        if piece.len() == rest.len() {
            self.cut = 0;
            if departure.stamp.is_some() {
                let departure = *departure;
                self.has_left(&departure, Some(self.cache.iface), calendar);
            }
            self.tx.pop();
        }
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

#[cfg(test)]
mod tests;
