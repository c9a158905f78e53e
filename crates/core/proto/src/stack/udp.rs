//! The owner's verbs for UDP sockets.

use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint};

use super::Stack;
use crate::bind::Sharing;
use crate::error::Unreachable;
use crate::ids::UdpId;
use crate::net::groups::change::MulticastOptions;
use crate::store::Env;
use crate::udp::{Datagram, UdpError, UdpErrorReport, UdpFragmenting, UdpOut, UdpSpec, UdpStamped};

impl<E: Env> Stack<E> {
    /// Binds a socket, which has its addresses and port for itself. Memory for its queues is taken
    /// here.
    ///
    /// # Errors
    /// [`UdpError::InUse`], [`UdpError::TooMany`], [`UdpError::NoPorts`], [`UdpError::BadAddress`].
    pub fn udp_bind(&mut self, spec: UdpSpec) -> Result<UdpId, UdpError> {
        self.udp_bind_shared(spec, Sharing::default())
    }

    /// As [`Stack::udp_bind`], beside others that share the port too.
    ///
    /// # Errors
    /// As [`Stack::udp_bind`].
    pub fn udp_bind_shared(&mut self, spec: UdpSpec, sharing: Sharing) -> Result<UdpId, UdpError> {
        // Who binds to a group takes what is sent to it, and nothing else.
        let any = spec.local.addr.is_unspecified() || spec.local.addr.is_multicast();
        if !any && !self.ip.is_ours(spec.table, &spec.local.addr) {
            return Err(UdpError::BadAddress);
        }
        self.udp.bind(&spec, &sharing, &mut self.counters)
    }

    /// From now on these may have the port beside it. Who has it already keeps it.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_set_sharing(&mut self, socket: UdpId, sharing: Sharing) -> Result<(), UdpError> {
        self.udp.set_sharing(socket, sharing)
    }

    /// From now on the socket takes datagrams of this peer only, sends to it when no other is
    /// named, and hears of ICMP errors.
    ///
    /// # Errors
    /// [`UdpError::Stale`], [`UdpError::BadAddress`], [`UdpError::NoRoute`].
    pub fn udp_connect(&mut self, socket: UdpId, remote: Endpoint) -> Result<(), UdpError> {
        self.udp.connect(&self.ip, socket, remote)
    }

    /// The socket has no peer any more: it takes datagrams of everybody again, for the address that
    /// it was bound to.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_disconnect(&mut self, socket: UdpId) -> Result<(), UdpError> {
        self.udp.disconnect(socket)
    }

    /// Datagrams that came as one are given to the owner as one, with [`Datagram::segment_size`]
    /// (UDP_GRO), or one by one.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_set_gro(&mut self, socket: UdpId, on: bool) -> Result<(), UdpError> {
        self.udp.set_gro(socket, on)
    }

    /// The socket stands here for one of another stack, which will be sent what comes: of those
    /// that share its port (SO_REUSEPORT) it gets something only when no other is at home here.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_stand_in(&mut self, socket: UdpId) -> Result<(), UdpError> {
        self.udp.stand_in(socket)
    }

    /// How many more bytes of datagrams the send queue takes, all records and gaps counted: 0 means
    /// that [`Stack::udp_send`] would say [`UdpError::Full`] of any.
    pub fn udp_send_room(&self, socket: UdpId) -> u32 {
        self.udp.send_room(socket)
    }

    /// Closes a socket. Its addresses and port are free at once, datagrams that nobody read are
    /// dropped, and what was taken to be sent still leaves: what the device takes too late is
    /// counted (`lost-after-close`).
    pub fn udp_close(&mut self, socket: UdpId) {
        self.udp.close(&mut self.ip.groups, socket)
    }

    /// The first half of [`Stack::udp_close`]: the socket has no address and port any more, and can
    /// only send.
    pub fn udp_let_go(&mut self, socket: UdpId) {
        self.udp.let_go(&mut self.ip.groups, socket)
    }

    /// Queues a datagram, which the next `emit` sends. `to`: None means the connected peer. `from`:
    /// None means the address that fits best.
    ///
    /// # Errors
    /// [`UdpError::Stale`], [`UdpError::BadAddress`], [`UdpError::NoRoute`], [`UdpError::Full`],
    /// [`UdpError::TooLong`].
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
    /// Nothing that was taken is lost for want of room: [`UdpError::Full`] says that it was not
    /// taken, and [`WRITABLE`](crate::UdpEvents::WRITABLE) follows once a quarter of the queue is
    /// free.
    ///
    /// # Errors
    /// As [`Stack::udp_send`], and [`UdpError::BadSegmentSize`].
    pub fn udp_send_with(
        &mut self,
        socket: UdpId,
        how: &UdpOut,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        self.udp.send(&self.ip, socket, how, bytes)
    }

    /// Queues a datagram from 0.0.0.0 to all hosts on the link of `iface`, which is how a host
    /// speaks that has no address yet (RFC 1122 3.2.1.3 a, RFC 2131 4.1). It never leaves in
    /// fragments, and nothing else can be sent from that address.
    ///
    /// # Errors
    /// [`UdpError::Stale`]; [`UdpError::BadAddress`] unless the socket is bound to the IPv4
    /// wildcard and `port` is not 0; [`UdpError::NoRoute`] when the interface is down or in another
    /// table; [`UdpError::TooLong`], [`UdpError::Full`].
    pub fn udp_send_unnumbered(
        &mut self,
        socket: UdpId,
        iface: Iface,
        port: u16,
        bytes: &[u8],
    ) -> Result<(), UdpError> {
        self.udp.send_unnumbered(&self.ip, socket, iface, port, bytes)
    }

    /// The oldest datagram that waits. Its bytes are gone from the queue, and can be read until the
    /// stack is used again.
    pub fn udp_recv(&mut self, socket: UdpId) -> Option<Datagram<'_>> {
        self.udp.recv(socket)
    }

    /// Takes the last error that came back to a connected socket.
    pub fn udp_error(&mut self, socket: UdpId) -> Option<Unreachable> {
        self.udp.take_error(socket)
    }

    /// Sets IPv4 TOS or IPv6 traffic class, and TTL or hop limit, of datagrams sent from now on.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_set_hops(&mut self, socket: UdpId, tos: u8, ttl: u8) -> Result<(), UdpError> {
        self.udp.set_hops(socket, tos, ttl)
    }

    /// Sets how long an IPv6 packet of this socket may be where the way would take a longer one:
    /// what does not fit leaves in fragments. 0: as the way takes. No less than every link of IPv6
    /// takes is heeded (RFC 8200 5).
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_set_mtu(&mut self, socket: UdpId, mtu: u16) -> Result<(), UdpError> {
        self.udp.set_mtu(socket, mtu)
    }

    /// What the socket's datagrams over IPv4 and over IPv6 do where they are longer than the path
    /// takes.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_set_fragmenting(
        &mut self,
        socket: UdpId,
        v4: UdpFragmenting,
        v6: UdpFragmenting,
    ) -> Result<(), UdpError> {
        self.udp.set_fragmenting(socket, v4, v6)
    }

    /// The longest IP packet that leaves whole for a peer, when a datagram of `len` bytes may leave
    /// ([`UdpFragmenting`]).
    ///
    /// # Errors
    /// As [`Stack::udp_send_with`]; what is [`UdpError::TooLong`] is reported too, where reports
    /// are kept.
    pub fn udp_path_mtu(
        &mut self,
        socket: UdpId,
        to: Option<Endpoint>,
        len: usize,
    ) -> Result<u32, UdpError> {
        self.udp.path_mtu(&self.ip, socket, to, len)
    }

    /// Errors are kept one by one for [`Stack::udp_report`], and told of a socket without a peer
    /// too (IP_RECVERR); or only the last one of a socket with a peer. Memory for them is taken
    /// here.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_set_reports(&mut self, socket: UdpId, on: bool) -> Result<(), UdpError> {
        self.udp.set_reports(socket, on)
    }

    /// How many reports wait.
    pub fn udp_reports(&self, socket: UdpId) -> u32 {
        self.udp.reports(socket)
    }

    /// The oldest report, which stays.
    pub fn udp_next_report(&self, socket: UdpId) -> Option<UdpErrorReport> {
        self.udp.next_report(socket)
    }

    /// The oldest report, and what is known of its datagram's payload. It is gone from the queue.
    pub fn udp_report(&mut self, socket: UdpId) -> Option<(UdpErrorReport, &[u8])> {
        self.udp.report(socket)
    }

    /// A socket of whose datagrams one has left that its owner wants to hear of
    /// ([`UdpOut::stamp`]), and its owner's word. What has left is not an event: it happens at the
    /// end of a turn, and is asked for there.
    #[inline]
    pub fn next_stamped(&mut self) -> Option<(UdpId, u64)> {
        self.udp.next_stamped()
    }

    /// How many datagrams have left that the owner wants to hear of and has not heard of.
    pub fn udp_stamps(&self, socket: UdpId) -> u32 {
        self.udp.stamps(socket)
    }

    /// The one of them that left first, and its payload where that was to be kept.
    pub fn udp_stamped(&mut self, socket: UdpId) -> Option<(UdpStamped, &[u8])> {
        self.udp.stamped(socket)
    }

    /// Gives a socket its owner's word, which comes with its events.
    ///
    /// # Errors
    /// [`UdpError::Stale`].
    pub fn udp_set_token(&mut self, socket: UdpId, token: u64) -> Result<(), UdpError> {
        self.udp.set_token(socket, token)
    }

    /// Our side of a socket.
    pub fn udp_local(&self, socket: UdpId) -> Option<Endpoint> {
        self.udp.local(socket)
    }

    /// The peer of a connected socket.
    pub fn udp_remote(&self, socket: UdpId) -> Option<Endpoint> {
        self.udp.remote(socket)
    }

    /// Bytes of memory that a socket's queues have taken. They take it by use, up to
    /// [`Limits::udp_queue_bytes`](crate::Limits::udp_queue_bytes) each way and what belongs to
    /// each datagram beside its bytes; a queue that was empty for a second or two has none.
    pub fn udp_memory(&self, socket: UdpId) -> usize {
        self.udp.memory(socket)
    }

    /// Datagrams that a socket's full queue refused.
    pub fn udp_dropped(&self, socket: UdpId) -> Option<u64> {
        self.udp.dropped(socket)
    }

    /// Sets how a socket sends to groups and what it hears. The interface must be one of the
    /// socket's table.
    ///
    /// # Errors
    /// [`UdpError::Stale`]; [`UdpError::NoRoute`] when there is no such interface in the socket's
    /// table.
    pub fn udp_set_multicast(
        &mut self,
        socket: UdpId,
        options: MulticastOptions,
    ) -> Result<(), UdpError> {
        self.udp.set_multicast(&self.ip, socket, options)
    }

    /// How a socket sends to groups and what it hears.
    pub fn udp_multicast(&self, socket: UdpId) -> Option<MulticastOptions> {
        self.udp.multicast(socket)
    }

    /// Another interface is to take this one's number: what is known of neighbours on it goes,
    /// those of the configuration too, no socket is in a group on it any more, and none names it
    /// for what it sends. Addresses and routes are the owner's to take away.
    pub fn forget_interface(&mut self, iface: Iface) {
        self.ip.neighbours.forget(iface, None, &mut self.counters.neighbours);
        self.udp.forget_interface(&mut self.ip.groups, iface);
    }
}
