//! What owners do to their UDP sockets.

use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint, ipv4, ipv6, udp};

use super::{
    Arrival, Datagram, Departure, MAX_PAYLOAD_V4, MAX_PAYLOAD_V6, MAX_UDP_SEGMENTS, Udp, UdpError,
    UdpOut, groups, to_handle,
};
use crate::bind::Sharing;
use crate::error::Unreachable;
use crate::ids::{Table, UdpId};
use crate::net::groups::Groups;
use crate::net::groups::change::MulticastOptions;
use crate::net::ip::Ip;
use crate::net::pmtu::MIN_V6;

impl Udp {
    /// From now on these may have the port beside it. Who has it already keeps it.
    pub(crate) fn set_sharing(&mut self, socket: UdpId, sharing: Sharing) -> Result<(), UdpError> {
        self.by_id(socket)?.sharing = sharing;
        Ok(())
    }

    /// From now on the socket takes datagrams of this peer only, sends to it when no other is
    /// named, and hears of ICMP errors. A peer of port 0 is one from whom nothing comes: who
    /// connects to it asks which address of ours leads there.
    pub(crate) fn connect(
        &mut self,
        ip: &Ip,
        socket: UdpId,
        remote: Endpoint,
    ) -> Result<(), UdpError> {
        let handle = to_handle(socket).ok_or(UdpError::Stale)?;
        let table = self.sockets.get(handle).filter(|s| !s.closed).ok_or(UdpError::Stale)?.table;
        if !(remote.addr.is_multicast() || ip.may_be_peer(table, &remote.addr)) {
            return Err(UdpError::BadAddress);
        }
        // Who changes the peer may need another address of his own.
        let s = self.by_id(socket)?;
        let (mut local, multicast) = (s.bound, s.multicast);
        if local.addr.is_unspecified() {
            let via = groups::link_of(None, multicast.iface, &remote.addr);
            let source = group_source(ip, table, &multicast, &remote.addr);
            let source = source.or_else(|| ip.source_via(table, via, &remote.addr));
            local.addr = source.ok_or(UdpError::NoRoute)?;
        }
        if local.addr.is_v4() != remote.addr.is_v4() {
            return Err(UdpError::BadAddress);
        }
        self.reaches_out |= !self.share.is_whole();
        self.move_to(handle.index(), local, Some(remote))
    }

    /// The socket has no peer any more: it takes datagrams of everybody again, for the address that
    /// it was bound to.
    pub(crate) fn disconnect(&mut self, socket: UdpId) -> Result<(), UdpError> {
        let index = to_handle(socket).ok_or(UdpError::Stale)?.index();
        let s = self.by_id(socket)?;
        if s.remote.is_none() {
            return Ok(());
        }
        let bound = s.bound;
        s.error = None;
        self.move_to(index, bound, None)
    }

    /// Datagrams that came as one are given to the owner as one, with [`Datagram::segment_size`]
    /// (UDP_GRO), or one by one.
    pub(crate) fn set_gro(&mut self, socket: UdpId, on: bool) -> Result<(), UdpError> {
        self.by_id(socket)?.gro = on;
        Ok(())
    }

    /// It stands here for a socket of another stack.
    pub(crate) fn stand_in(&mut self, socket: UdpId) -> Result<(), UdpError> {
        self.by_id(socket)?.stands_in = true;
        Ok(())
    }

    /// How many more bytes of datagrams the send queue takes, all records and gaps counted: 0 means
    /// that [`Udp::send`] would say [`UdpError::Full`] of any.
    pub(crate) fn send_room(&self, socket: UdpId) -> u32 {
        let socket = to_handle(socket).and_then(|handle| self.sockets.get(handle));
        socket.map_or(0, |s| s.tx.free_bytes() as u32)
    }

    /// Closes a socket. Its addresses and port are free at once, datagrams that nobody read are
    /// dropped, and what was taken to be sent still leaves: what the device takes too late is
    /// counted (`lost-after-close`).
    pub(crate) fn close(&mut self, groups: &mut Groups, socket: UdpId) {
        self.let_go(groups, socket);
        let Some(handle) = to_handle(socket) else { return };
        let index = handle.index();
        let Some(s) = self.sockets.get_mut(handle) else { return };
        if s.tx.is_empty() {
            return self.forget(index);
        }
        (s.closed, s.wants_room) = (true, false);
        self.told.remove(&mut self.sockets.links(|s| &mut s.told), index);
        self.just_closed.push_back(&mut self.sockets.links(|s| &mut s.closing), index);
    }

    /// The first half of [`Udp::close`]: the socket has no address and port any more, and can only
    /// send.
    pub(crate) fn let_go(&mut self, groups: &mut Groups, socket: UdpId) {
        let Some(handle) = to_handle(socket) else { return };
        let index = handle.index();
        let Some(s) = self.sockets.get(handle).filter(|s| !s.closed) else { return };
        let port = self.hash_of_port(s.table, s.bound.port);
        // It may have been let go before.
        if self.ports_taken.remove(&mut self.sockets, port, index) {
            self.take_out(index);
            if let Some(s) = self.sockets.get_mut(handle) {
                groups.leave_all(&mut s.joined);
            }
        }
    }

    /// As [`Udp::send`], with more to say about how it leaves.
    ///
    /// Nothing that was taken is lost for want of room: [`UdpError::Full`] says that it was not
    /// taken, and [`WRITABLE`](crate::UdpEvents::WRITABLE) follows once a quarter of the queue is
    /// free.
    pub(crate) fn send(
        &mut self,
        ip: &Ip,
        socket: UdpId,
        how: &UdpOut,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        let (from, to, via) = self.addresses(ip, socket, how)?;
        let s = self.by_id(socket)?;
        let (table, known) = (s.table, s.way);
        let refused = s.fragmenting[usize::from(to.addr.is_v6())].refused;
        let most = if to.addr.is_v4() { MAX_PAYLOAD_V4 } else { MAX_PAYLOAD_V6 };
        if bytes.len() > most.min(self.queue_bytes) {
            return Err(UdpError::TooLong);
        }
        let group = to.addr.is_multicast();
        let way = (from, to.addr, ip.generation());
        if known != Some(way) || via.is_some() || group {
            let hop = ip.hop_via(table, via, &from, &to.addr).map_err(|_| UdpError::NoRoute)?;
            if group {
                return self.send_group(ip, socket, how, (from, to), hop.iface, bytes);
            }
        }
        let segment_size =
            path_segment_size(ip, (table, &from, &to.addr), how.segment_size, bytes.len())?;
        if refused {
            let len = if segment_size == 0 { bytes.len() } else { segment_size.into() };
            self.fits(ip, socket, (&from, to), len)?;
        }
        let s = self.by_id(socket)?;
        s.way = Some(way);
        let (tos, ttl) = (how.tos.unwrap_or(s.tos), how.ttl.unwrap_or(s.ttl));
        self.queue(
            socket,
            Departure { from, to, tos, ttl, segment_size, via, stamp: how.stamp },
            bytes,
        )
    }

    /// Queues a datagram of a host without an address: from 0.0.0.0 to all on one link.
    pub(crate) fn send_unnumbered(
        &mut self,
        ip: &Ip,
        socket: UdpId,
        iface: Iface,
        port: u16,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        let s = self.by_id(socket)?;
        let (table, tos, ttl, from) = (s.table, s.tos, s.ttl, s.local.addr);
        if from != Addr::ANY_V4 || port == 0 {
            return Err(UdpError::BadAddress);
        }
        let to = Endpoint::new(Addr::v4([255; 4]), port);
        ip.hop_via(table, Some(iface), &from, &to.addr).map_err(|_| UdpError::NoRoute)?;
        let mtu = ip.interface(iface).map_or(0, |i| i.mtu) as usize;
        if udp::HEADER_LEN + ipv4::HEADER_LEN + bytes.len() > mtu {
            return Err(UdpError::TooLong);
        }
        let departure =
            Departure { from, to, tos, ttl, segment_size: 0, via: Some(iface), stamp: None };
        self.queue(socket, departure, bytes)
    }

    /// From which address a datagram goes to whom, and by which interface where the addresses do
    /// not decide that.
    pub(super) fn addresses(
        &mut self,
        ip: &Ip,
        socket: UdpId,
        how: &UdpOut,
    ) -> Result<(Addr, Endpoint, Option<Iface>), UdpError> {
        let s = self.by_id(socket)?;
        let (table, local, dual, multicast) = (s.table, s.local.addr, s.dual, s.multicast);
        let to = how.to.or(s.remote).ok_or(UdpError::BadAddress)?;
        if (to.port == 0 && how.to.is_some()) || to.addr.is_unspecified() {
            return Err(UdpError::BadAddress);
        }
        let via = groups::link_of(how.iface, multicast.iface, &to.addr);
        let from = match how.from {
            Some(from) if !ip.is_ours(table, &from) => return Err(UdpError::BadAddress),
            Some(from) => from,
            // What is bound to a group has no address to send from.
            None if !local.is_unspecified() && !local.is_multicast() => local,
            None => group_source(ip, table, &multicast, &to.addr)
                .or_else(|| ip.source_via(table, via, &to.addr))
                .ok_or(UdpError::NoRoute)?,
        };
        let wrong_family =
            from.is_v4() != to.addr.is_v4() || (local == Addr::ANY_V4 && to.addr.is_v6());
        if wrong_family || (local == Addr::ANY_V6 && to.addr.is_v4() && !dual) {
            return Err(UdpError::BadAddress);
        }
        Ok((from, to, via))
    }

    /// Queues a datagram to a group that leaves by `iface`, and gives the members here their copies
    /// (RFC 1112 6.1, 7.2).
    fn send_group(
        &mut self,
        ip: &Ip,
        socket: UdpId,
        how: &UdpOut,
        (from, to): (Addr, Endpoint),
        iface: Iface,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        let s = self.by_id(socket)?;
        let (table, port, multicast) = (s.table, s.local.port, s.multicast);
        let (tos, ttl) = (how.tos.unwrap_or(s.tos), how.ttl.unwrap_or(multicast.ttl));
        let mtu = ip.interface(iface).map_or(0, |i| i.mtu) as usize;
        let segment_size = segment_size(mtu, &to.addr, how.segment_size, bytes.len())?;
        let len = if segment_size == 0 { bytes.len() } else { segment_size.into() };
        self.may_leave(socket, to, mtu as u32, len)?;
        let (via, stamp) = (Some(iface), how.stamp);
        let departure = Departure { from, to, tos, ttl, segment_size, via, stamp };
        // RFC 1112 6.1: a TTL of 0 keeps it on this host.
        if ttl > 0 || ip.interface(iface).is_some_and(|i| i.is_loopback()) {
            self.queue(socket, departure, bytes)?;
        }
        if multicast.loop_back {
            let from = Endpoint::new(from, port);
            let arrived = self.calendar();
            let arrival = Arrival { from, to: to.addr, tos, ttl, iface, segment_size, arrived };
            groups::loop_back(self, ip, table, to.port, arrival, bytes);
        }
        Ok(())
    }

    fn queue(&mut self, socket: UdpId, departure: Departure, bytes: &[u8]) -> Result<(), UdpError> {
        let s = self.by_id(socket)?;
        if !s.tx.push(departure, &[bytes]) {
            s.wants_room = true;
            return Err(UdpError::Full);
        }
        let index = to_handle(socket).ok_or(UdpError::Stale)?.index();
        self.ready.push_back(&mut self.sockets.links(|s| &mut s.ready), index);
        Ok(())
    }

    /// The oldest datagram that waits. Its bytes are gone from the queue, and can be read until the
    /// stack is used again.
    pub(crate) fn recv(&mut self, socket: UdpId) -> Option<Datagram<'_>> {
        if self.by_id(socket).ok()?.rx.len() == 1 {
            self.rests(to_handle(socket)?.index());
        }
        let (arrival, payload) = self.by_id(socket).ok()?.rx.pop()?;
        let Arrival { from, to, tos, ttl, iface, segment_size, arrived } = arrival;
        Some(Datagram { from, to, payload, tos, ttl, iface, segment_size, arrived })
    }

    /// Takes the last error that came back to a connected socket.
    pub(crate) fn take_error(&mut self, socket: UdpId) -> Option<Unreachable> {
        self.by_id(socket).ok()?.error.take()
    }

    /// Sets IPv4 TOS or IPv6 traffic class, and TTL or hop limit, of datagrams sent from now on.
    pub(crate) fn set_hops(&mut self, socket: UdpId, tos: u8, ttl: u8) -> Result<(), UdpError> {
        let s = self.by_id(socket)?;
        (s.tos, s.ttl) = (tos, ttl);
        Ok(())
    }

    /// Sets how long an IPv6 packet of this socket may be where the way would take a longer one:
    /// what does not fit leaves in fragments. 0: as the way takes. No less than every link of IPv6
    /// takes is heeded (RFC 8200 5).
    pub(crate) fn set_mtu(&mut self, socket: UdpId, mtu: u16) -> Result<(), UdpError> {
        self.by_id(socket)?.mtu = if mtu == 0 { 0 } else { mtu.max(MIN_V6 as u16) };
        Ok(())
    }

    /// Gives a socket its owner's word, which comes with its events.
    pub(crate) fn set_token(&mut self, socket: UdpId, token: u64) -> Result<(), UdpError> {
        self.by_id(socket)?.token = token;
        Ok(())
    }

    /// Our side of a socket.
    pub(crate) fn local(&self, socket: UdpId) -> Option<Endpoint> {
        self.sockets.get(to_handle(socket)?).map(|s| s.local)
    }

    /// The peer of a connected socket.
    pub(crate) fn remote(&self, socket: UdpId) -> Option<Endpoint> {
        self.sockets.get(to_handle(socket)?)?.remote
    }

    /// Bytes of memory that a socket's queues have taken.
    pub(crate) fn memory(&self, socket: UdpId) -> usize {
        let socket = to_handle(socket).and_then(|handle| self.sockets.get(handle));
        socket.map_or(0, |s| s.memory())
    }

    /// Datagrams that a socket's full queue refused.
    pub(crate) fn dropped(&self, socket: UdpId) -> Option<u64> {
        self.sockets.get(to_handle(socket)?).map(|s| s.dropped)
    }
}

/// The segment size for `len` bytes from one address to the other, 0 when they are one datagram.
fn path_segment_size(
    ip: &Ip,
    (table, from, to): (Table, &Addr, &Addr),
    size: u16,
    len: usize,
) -> Result<u16, UdpError> {
    if size == 0 || len <= usize::from(size) {
        return Ok(0);
    }
    let mtu = ip.path_mtu(table, from, to).ok_or(UdpError::NoRoute)? as usize;
    segment_size(mtu, to, size, len)
}

/// The segment size for `len` bytes over a way that takes packets of `mtu` bytes whole, 0 when they
/// are one datagram.
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

/// What a datagram to a group comes from by the socket's word, if that is an address of ours.
fn group_source(ip: &Ip, table: Table, multicast: &MulticastOptions, to: &Addr) -> Option<Addr> {
    let source =
        multicast.source.filter(|source| to.is_multicast() && source.is_v4() == to.is_v4());
    source.filter(|source| ip.is_ours(table, source))
}
