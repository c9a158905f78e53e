//! What owners do to their UDP sockets.

use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint, ipv4, ipv6, udp};

use super::{
    Arrival, Datagram, Departure, MAX_PAYLOAD_V4, MAX_PAYLOAD_V6, MAX_UDP_SEGMENTS, UdpError, UdpOut, UdpSpec, groups,
    to_handle,
};
use crate::Table;
use crate::bind::Sharing;
use crate::error::Unreachable;
use crate::pmtu::MIN_V6;
use crate::stack::{Stack, UdpId};
use crate::store::Env;

impl<E: Env> Stack<E> {
    /// Binds a socket, which has its addresses and port for itself. Memory for its queues is taken here.
    pub fn udp_bind(&mut self, spec: UdpSpec) -> Result<UdpId, UdpError> {
        self.udp_bind_shared(spec, Sharing::default())
    }

    /// As [`Stack::udp_bind`], beside others that share the port too.
    pub fn udp_bind_shared(&mut self, spec: UdpSpec, sharing: Sharing) -> Result<UdpId, UdpError> {
        // Who binds to a group takes what is sent to it, and nothing else.
        let any = spec.local.addr.is_unspecified() || spec.local.addr.is_multicast();
        if !any && !self.ip.is_ours(spec.table, &spec.local.addr) {
            return Err(UdpError::BadAddress);
        }
        self.udp.bind(&spec, &sharing, &mut self.counters)
    }

    /// From now on these may have the port beside it. Who has it already keeps it.
    pub fn udp_set_sharing(&mut self, socket: UdpId, sharing: Sharing) -> Result<(), UdpError> {
        self.udp.by_id(socket)?.sharing = sharing;
        Ok(())
    }

    /// From now on the socket takes datagrams of this peer only, sends to it when no other is named, and hears of ICMP errors.
    pub fn udp_connect(&mut self, socket: UdpId, remote: Endpoint) -> Result<(), UdpError> {
        let handle = to_handle(socket).ok_or(UdpError::Stale)?;
        let table = self.udp.sockets.get(handle).filter(|s| !s.closed).ok_or(UdpError::Stale)?.table;
        if remote.port == 0 || !(remote.addr.is_multicast() || self.ip.may_be_peer(table, &remote.addr)) {
            return Err(UdpError::BadAddress);
        }
        // Who changes the peer may need another address of his own.
        let s = self.udp.by_id(socket)?;
        let (mut local, via) = (s.bound, groups::link_of(None, s.multicast.iface, &remote.addr));
        if local.addr.is_unspecified() {
            local.addr = self.ip.source_via(table, via, &remote.addr).ok_or(UdpError::NoRoute)?;
        }
        if local.addr.is_v4() != remote.addr.is_v4() {
            return Err(UdpError::BadAddress);
        }
        self.udp.reaches_out |= !self.udp.share.is_whole();
        self.udp.move_to(handle.index(), local, Some(remote))
    }

    /// The socket has no peer any more: it takes datagrams of everybody again, for the address that it was bound to.
    pub fn udp_disconnect(&mut self, socket: UdpId) -> Result<(), UdpError> {
        let index = to_handle(socket).ok_or(UdpError::Stale)?.index();
        let s = self.udp.by_id(socket)?;
        if s.remote.is_none() {
            return Ok(());
        }
        let bound = s.bound;
        s.error = None;
        self.udp.move_to(index, bound, None)
    }

    /// Datagrams that came as one are given to the owner as one, with [`Datagram::segment_size`] (UDP_GRO), or one by one.
    pub fn udp_set_gro(&mut self, socket: UdpId, on: bool) -> Result<(), UdpError> {
        self.udp.by_id(socket)?.gro = on;
        Ok(())
    }

    /// How many more bytes of datagrams the send queue takes, all records and gaps counted: 0 means that [`Stack::udp_send`] would say
    /// [`UdpError::Full`] of any.
    pub fn udp_send_room(&self, socket: UdpId) -> u32 {
        let socket = to_handle(socket).and_then(|handle| self.udp.sockets.get(handle));
        socket.map_or(0, |s| s.tx.free_bytes() as u32)
    }

    /// Closes a socket. Its addresses and port are free at once, datagrams that nobody read are dropped, and what was taken to be sent still leaves: what the
    /// device takes too late is counted (`lost-after-close`).
    pub fn udp_close(&mut self, socket: UdpId) {
        self.udp_let_go(socket);
        let Some(handle) = to_handle(socket) else { return };
        let index = handle.index();
        let Some(s) = self.udp.sockets.get_mut(handle) else { return };
        if s.tx.is_empty() {
            return self.udp.forget(index);
        }
        (s.closed, s.wants_room) = (true, false);
        self.udp.told.remove(&mut self.udp.sockets.links(|s| &mut s.told), index);
        self.udp.just_closed.push_back(&mut self.udp.sockets.links(|s| &mut s.closing), index);
    }

    /// The first half of [`Stack::udp_close`]: the socket has no address and port any more, and can only send.
    pub fn udp_let_go(&mut self, socket: UdpId) {
        let Some(handle) = to_handle(socket) else { return };
        let index = handle.index();
        let Some(s) = self.udp.sockets.get(handle).filter(|s| !s.closed) else { return };
        let port = self.udp.hash_of_port(s.table, s.bound.port);
        // It may have been let go before.
        if self.udp.ports_taken.remove(port, |value| value == index).is_some() {
            self.udp.take_out(index);
            if let Some(s) = self.udp.sockets.get_mut(handle) {
                self.ip.groups.leave_all(&mut s.joined);
            }
        }
    }

    /// Queues a datagram, which the next `emit` sends. `to`: None means the connected peer. `from`: None means the address that fits best.
    pub fn udp_send(
        &mut self,
        socket: UdpId,
        to: impl Into<Option<Endpoint>>,
        from: Option<Addr>,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        self.udp_send_with(socket, &UdpOut { to: to.into(), from, ..UdpOut::default() }, bytes)
    }

    /// As [`Stack::udp_send`], with more to say about how it leaves.
    ///
    /// Nothing that was taken is lost for want of room: [`UdpError::Full`] says that it was not taken, and [`WRITABLE`](crate::UdpEvents::WRITABLE) follows once a quarter of
    /// the queue is free.
    pub fn udp_send_with(&mut self, socket: UdpId, how: &UdpOut, bytes: &[u8]) -> Result<(), UdpError> {
        let s = self.udp.by_id(socket)?;
        let (table, local, dual, multicast) = (s.table, s.local.addr, s.dual, s.multicast);
        let to = how.to.or(s.remote).ok_or(UdpError::BadAddress)?;
        let known = s.way;
        if to.port == 0 || to.addr.is_unspecified() {
            return Err(UdpError::BadAddress);
        }
        let via = groups::link_of(how.iface, multicast.iface, &to.addr);
        let from = match how.from {
            Some(from) if !self.ip.is_ours(table, &from) => return Err(UdpError::BadAddress),
            Some(from) => from,
            // What is bound to a group has no address to send from.
            None if !local.is_unspecified() && !local.is_multicast() => local,
            None => self.ip.source_via(table, via, &to.addr).ok_or(UdpError::NoRoute)?,
        };
        let wrong_family = from.is_v4() != to.addr.is_v4() || (local == Addr::ANY_V4 && to.addr.is_v6());
        if wrong_family || (local == Addr::ANY_V6 && to.addr.is_v4() && !dual) {
            return Err(UdpError::BadAddress);
        }
        let most = if to.addr.is_v4() { MAX_PAYLOAD_V4 } else { MAX_PAYLOAD_V6 };
        if bytes.len() > most.min(self.udp.queue_bytes) {
            return Err(UdpError::TooLong);
        }
        let group = to.addr.is_multicast();
        let way = (from, to.addr, self.ip.generation());
        if known != Some(way) || via.is_some() || group {
            let hop = self.ip.hop_via(table, via, &from, &to.addr).map_err(|_| UdpError::NoRoute)?;
            if group {
                return self.udp_send_group(socket, how, (from, to), hop.iface, bytes);
            }
        }
        let segment_size = self.segment_size(table, &from, &to.addr, how.segment_size, bytes.len())?;
        let s = self.udp.by_id(socket)?;
        s.way = Some(way);
        let (tos, ttl) = (how.tos.unwrap_or(s.tos), how.ttl.unwrap_or(s.ttl));
        self.udp_queue(socket, Departure { from, to, tos, ttl, segment_size, via }, bytes)
    }

    /// Queues a datagram to a group that leaves by `iface`, and gives the members here their copies (RFC 1112 6.1, 7.2).
    fn udp_send_group(
        &mut self,
        socket: UdpId,
        how: &UdpOut,
        (from, to): (Addr, Endpoint),
        iface: Iface,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        let s = self.udp.by_id(socket)?;
        let (table, port, multicast) = (s.table, s.local.port, s.multicast);
        let (tos, ttl) = (how.tos.unwrap_or(s.tos), how.ttl.unwrap_or(multicast.ttl));
        let mtu = self.ip.interface(iface).map_or(0, |i| i.mtu) as usize;
        let segment_size = segment_size(mtu, &to.addr, how.segment_size, bytes.len())?;
        let departure = Departure { from, to, tos, ttl, segment_size, via: Some(iface) };
        // RFC 1112 6.1: a TTL of 0 keeps it on this host.
        if ttl > 0 || self.ip.interface(iface).is_some_and(|i| i.is_loopback()) {
            self.udp_queue(socket, departure, bytes)?;
        }
        if multicast.loop_back {
            let from = Endpoint::new(from, port);
            let arrival = Arrival { from, to: to.addr, tos, ttl, iface, segment_size };
            groups::loop_back(&mut self.udp, &self.ip, table, to.port, arrival, bytes);
        }
        Ok(())
    }

    fn udp_queue(&mut self, socket: UdpId, departure: Departure, bytes: &[u8]) -> Result<(), UdpError> {
        let s = self.udp.by_id(socket)?;
        if !s.tx.push(departure, &[bytes]) {
            s.wants_room = true;
            return Err(UdpError::Full);
        }
        let index = to_handle(socket).ok_or(UdpError::Stale)?.index();
        self.udp.ready.push_back(&mut self.udp.sockets.links(|s| &mut s.ready), index);
        Ok(())
    }

    /// The segment size for `len` bytes, 0 when they are one datagram.
    fn segment_size(&self, table: Table, from: &Addr, to: &Addr, size: u16, len: usize) -> Result<u16, UdpError> {
        if size == 0 || len <= usize::from(size) {
            return Ok(0);
        }
        let mtu = self.ip.path_mtu(table, from, to).ok_or(UdpError::NoRoute)? as usize;
        segment_size(mtu, to, size, len)
    }

    /// The oldest datagram that waits. Its bytes are gone from the queue, and can be read until the stack is used again.
    pub fn udp_recv(&mut self, socket: UdpId) -> Option<Datagram<'_>> {
        let s = self.udp.by_id(socket).ok()?;
        let (arrival, payload) = s.rx.pop()?;
        let Arrival { from, to, tos, ttl, iface, segment_size } = arrival;
        Some(Datagram { from, to, payload, tos, ttl, iface, segment_size })
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

    /// Sets how long an IPv6 packet of this socket may be where the way would take a longer one: what does not fit leaves in fragments. 0: as the way takes. No less than every
    /// link of IPv6 takes is heeded (RFC 8200 5).
    pub fn udp_set_mtu(&mut self, socket: UdpId, mtu: u16) -> Result<(), UdpError> {
        self.udp.by_id(socket)?.mtu = if mtu == 0 { 0 } else { mtu.max(MIN_V6 as u16) };
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

/// The segment size for `len` bytes over a way that takes packets of `mtu` bytes whole, 0 when they are one datagram.
fn segment_size(mtu: usize, to: &Addr, size: u16, len: usize) -> Result<u16, UdpError> {
    if size == 0 || len <= usize::from(size) {
        return Ok(0);
    }
    let headers = udp::HEADER_LEN + if to.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN };
    if len.div_ceil(size.into()) > MAX_UDP_SEGMENTS || headers + usize::from(size) > mtu {
        return Err(UdpError::BadSegmentSize);
    }
    Ok(size)
}
