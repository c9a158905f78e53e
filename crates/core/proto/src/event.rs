//! What the owner of connections and sockets is told. Events are marks, not messages: however often
//! a thing happens before the owner looks, it is told once, so the number of waiting events is
//! bounded by the number of things.

use crate::{ConnId, ListenerId, UdpId};

/// Something for the owner to look at. `token` is what the owner gave when the thing was made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The listener has at least one finished handshake to accept.
    Incoming {
        /// The listener.
        listener: ListenerId,
        /// Its owner's word.
        token: u64,
    },
    /// Something happened to a connection.
    Conn {
        /// The connection.
        conn: ConnId,
        /// Its owner's word.
        token: u64,
        /// What, as a set.
        what: ConnEvents,
    },
    /// Something happened to a UDP socket.
    Udp {
        /// The socket.
        socket: UdpId,
        /// Its owner's word.
        token: u64,
        /// What, as a set.
        what: UdpEvents,
    },
}

/// A set of things that happened to a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ConnEvents(pub u8);

impl ConnEvents {
    /// The handshake that the owner began is done.
    pub const CONNECTED: ConnEvents = ConnEvents(1);
    /// Bytes can be read.
    pub const READABLE: ConnEvents = ConnEvents(2);
    /// Bytes can be written again after a write was cut short.
    pub const WRITABLE: ConnEvents = ConnEvents(4);
    /// The peer has sent its FIN; after the bytes that wait, there are no more.
    pub const PEER_CLOSED: ConnEvents = ConnEvents(8);
    /// The connection failed; `Stack::failure` says why. Only `close` is left to do.
    pub const FAILED: ConnEvents = ConnEvents(16);
    /// Both sides are done and everything was acknowledged. Only `close` is left to do.
    pub const CLOSED: ConnEvents = ConnEvents(32);
    /// Urgent data was announced (RFC 6093).
    pub const URGENT: ConnEvents = ConnEvents(64);

    /// Whether all of `other` is in the set.
    #[inline]
    pub const fn has(self, other: ConnEvents) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether nothing is in the set.
    #[inline]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl core::ops::BitOr for ConnEvents {
    type Output = ConnEvents;
    fn bitor(self, other: ConnEvents) -> ConnEvents {
        ConnEvents(self.0 | other.0)
    }
}

impl core::ops::BitOrAssign for ConnEvents {
    fn bitor_assign(&mut self, other: ConnEvents) {
        self.0 |= other.0;
    }
}

/// A set of things that happened to a UDP socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UdpEvents(pub u8);

impl UdpEvents {
    /// A datagram can be read.
    pub const READABLE: UdpEvents = UdpEvents(1);
    /// There is room for datagrams again after a send was refused.
    pub const WRITABLE: UdpEvents = UdpEvents(2);
    /// An ICMP error came back; `Stack::udp_error` takes it.
    pub const ERROR: UdpEvents = UdpEvents(4);

    /// Whether all of `other` is in the set.
    #[inline]
    pub const fn has(self, other: UdpEvents) -> bool {
        self.0 & other.0 == other.0
    }
}

impl core::ops::BitOrAssign for UdpEvents {
    fn bitor_assign(&mut self, other: UdpEvents) {
        self.0 |= other.0;
    }
}
