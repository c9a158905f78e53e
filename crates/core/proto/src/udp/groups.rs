//! Datagrams for many: every socket that is bound to the port and hears the group, or the broadcast
//! address, gets a copy.

use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint};

use super::{Arrival, Socket, Udp, UdpError, to_handle};
use crate::counters::Drop;
use crate::event::UdpEvents;
use crate::ids::Table;
use crate::ids::UdpId;
use crate::net::groups::change::MulticastOptions;
use crate::net::groups::{Groups, Joined};
use crate::net::ip::Ip;

impl Udp {
    /// What decides about a socket's memberships: its table, what it is bound to, and those that it
    /// has.
    pub(crate) fn membership(&mut self, id: UdpId) -> Option<(Table, Addr, &mut Joined)> {
        let socket = self.sockets.get_mut(to_handle(id)?)?;
        Some((socket.table, socket.bound.addr, &mut socket.joined))
    }

    /// The memberships of a socket.
    pub(crate) fn joined(&self, id: UdpId) -> Option<Joined> {
        self.sockets.get(to_handle(id)?).map(|s| s.joined)
    }

    /// Takes a datagram in that was sent to a group or to all: each socket that is bound to the
    /// port and to its destination or to the wildcard, and hears the group from this source, gets a
    /// copy, as on Linux.
    pub(crate) fn ingest_for_many(
        &mut self,
        groups: &Groups,
        table: Table,
        to_port: u16,
        arrival: Arrival,
        payload: &[u8],
    ) -> Result<(), Drop> {
        let mut found = core::mem::take(&mut self.found);
        found.clear();
        self.find_all(table, &Endpoint::new(arrival.to, to_port), &arrival.from, &mut found);
        let mut result = Err(Drop::UdpPortClosed);
        for &index in &found {
            let Some(socket) = self.sockets.by_index_mut(index) else { continue };
            if arrival.to.is_multicast() && !socket.hears(groups, &arrival) {
                continue;
            }
            let taken = socket.take(arrival, payload);
            if !socket.rx.is_empty() {
                self.tell(index, UdpEvents::READABLE);
            }
            // One that took it is enough for a packet that was delivered.
            if result.is_err() {
                result = taken;
            }
        }
        self.found = found;
        result
    }

    /// Every socket that a datagram to `local` may be for.
    fn find_all(
        &self,
        table: Table,
        local: &Endpoint,
        remote: &Endpoint,
        found: &mut alloc::vec::Vec<u32>,
    ) {
        let is_v4 = local.addr.is_v4();
        let wildcard = if is_v4 { Addr::ANY_V4 } else { Addr::ANY_V6 };
        self.on_port(table, local.port, |index, s| {
            let is_any = s.remote.is_none() && (s.local.addr == wildcard || (is_v4 && s.dual));
            let is_here = is_any || s.local.addr == local.addr;
            if is_here
                && s.remote.is_none_or(|peer| peer == *remote)
                && found.len() < found.capacity()
            {
                found.push(index);
            }
            // All are wanted, not the first.
            false
        });
    }
}

impl Socket {
    /// Whether it hears a group from this source.
    fn hears(&self, groups: &Groups, arrival: &Arrival) -> bool {
        let own = groups.socket_takes(self.joined, arrival.iface, &arrival.to, &arrival.from.addr);
        own.unwrap_or(self.multicast.all)
    }
}

/// Gives the members on this host a copy of a datagram that leaves by `iface`.
pub(super) fn loop_back(
    udp: &mut Udp,
    ip: &Ip,
    table: Table,
    to_port: u16,
    arrival: Arrival,
    payload: &[u8],
) {
    let loops = ip.interface(arrival.iface).is_some_and(|i| i.is_loopback());
    let wanted = match ip.groups.takes(arrival.iface, &arrival.to, &arrival.from.addr) {
        Some(wanted) => wanted,
        None => ip.locals.in_group(arrival.iface, &arrival.to),
    };
    // A loopback interface brings it back by itself.
    if wanted && !loops {
        // Whoever has no room has lost it, as from the wire; the sender is not concerned.
        let _ = udp.ingest_for_many(&ip.groups, table, to_port, arrival, payload);
    }
}

impl Udp {
    /// Another interface is to take this one's number: no socket is in a group on it any more, and
    /// none names it for what it sends.
    pub(crate) fn forget_interface(&mut self, groups: &mut Groups, iface: Iface) {
        for index in 0..self.sockets.capacity() {
            let Some(socket) = self.sockets.by_index_mut(index) else { continue };
            groups.leave_interface(&mut socket.joined, iface);
            if socket.multicast.iface == Some(iface) {
                socket.multicast.iface = None;
            }
        }
    }

    /// Sets how a socket sends to groups and what it hears.
    pub(crate) fn set_multicast(
        &mut self,
        ip: &Ip,
        id: UdpId,
        options: MulticastOptions,
    ) -> Result<(), UdpError> {
        let socket = self.by_id(id)?;
        let table = socket.table;
        if options.iface.is_some_and(|iface| ip.interface(iface).is_none_or(|i| i.table != table)) {
            return Err(UdpError::BadAddress);
        }
        socket.multicast = options;
        Ok(())
    }

    /// How a socket sends to groups and what it hears.
    pub(crate) fn multicast(&self, id: UdpId) -> Option<MulticastOptions> {
        self.sockets.get(to_handle(id)?).map(|s| s.multicast)
    }
}

/// Whether datagrams to `remote` leave by the interface that the sender names: those whose address
/// alone does not tell it.
pub(super) fn may_name_link(remote: &Addr) -> bool {
    remote.is_multicast()
        || remote.is_limited_broadcast()
        || (remote.is_v6() && remote.is_link_local())
}

/// The interface of a datagram that was to leave by it, or by the socket's for groups.
pub(super) fn link_of(
    named: Option<Iface>,
    of_socket: Option<Iface>,
    remote: &Addr,
) -> Option<Iface> {
    let by_socket = of_socket.filter(|_| remote.is_multicast());
    named.or(by_socket).filter(|_| may_name_link(remote))
}
