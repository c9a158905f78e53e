//! What the stack tells who traces it, as it happens: [`crate::Env::trace`].
//!
//! Whoever brings no function of his own for it gets none: the compiler makes nothing of what is
//! told to nobody, and the stack is the same instructions as without this file.

use clearway_pkt::Iface;
use clearway_wire::{Addr, Endpoint, Mac};

/// Both ends of a connection. They lie in its record: nothing is copied until somebody asks.
#[derive(Clone, Copy, Debug)]
pub struct Ends<'a> {
    pub(crate) local: &'a Addr,
    pub(crate) remote: &'a Addr,
    pub(crate) local_port: u16,
    pub(crate) remote_port: u16,
}

impl Ends<'_> {
    /// Our end.
    pub fn local(&self) -> Endpoint {
        Endpoint::new(*self.local, self.local_port)
    }

    /// The peer's end.
    pub fn remote(&self) -> Endpoint {
        Endpoint::new(*self.remote, self.remote_port)
    }
}

/// A segment of a connection.
#[derive(Clone, Copy, Debug)]
pub struct TracedSegment<'a> {
    /// Whose it is.
    pub ends: Ends<'a>,
    /// SEG.SEQ.
    pub seq: u32,
    /// SEG.ACK.
    pub ack: u32,
    /// Bytes of payload. One that the device is to cut is told of once.
    pub len: u32,
    /// The control bits as they stand in the header, FIN the lowest.
    pub flags: u16,
}

/// Something that has happened.
#[derive(Clone, Copy, Debug)]
pub enum Trace<'a> {
    /// A segment has arrived, its checksum is good, and it is looked at next.
    SegmentIn(TracedSegment<'a>),
    /// A segment has left.
    SegmentOut(TracedSegment<'a>),
    /// A packet was dropped.
    Drop {
        /// The reason's name, as it is counted.
        why: &'static str,
        /// By which interface it came.
        iface: Iface,
        /// Bytes of its frame, headers included.
        len: u32,
    },
    /// Bytes leave that have left before; the segment is told of besides.
    Retransmit {
        /// Whose they are.
        ends: Ends<'a>,
        /// The first of them.
        seq: u32,
        /// How many.
        len: u32,
        /// `lost`, `rescue`, `tail-probe` or `syn`.
        why: &'static str,
    },
    /// The retransmission timer has run out with something in flight.
    RetransmitTimeout {
        /// Whose.
        ends: Ends<'a>,
        /// Bytes in flight.
        flight: u32,
        /// How often in a row.
        tries: u32,
    },
    /// A probe for the loss of the last segments is to leave (RFC 8985 7).
    TailLossProbe {
        /// Whose.
        ends: Ends<'a>,
        /// Bytes in flight.
        flight: u32,
    },
    /// Fast recovery begins.
    RecoveryEnter {
        /// Whose.
        ends: Ends<'a>,
        /// Bytes in flight.
        flight: u32,
    },
    /// All that was in flight when it began is acknowledged.
    RecoveryExit {
        /// Whose.
        ends: Ends<'a>,
        /// What began it: `fast` or `timeout`.
        from: &'static str,
    },
    /// Nothing was lost: what recovery or a timeout did to the congestion window is taken back.
    Undone {
        /// Whose.
        ends: Ends<'a>,
    },
    /// A connection has another state. A handshake of a stranger is told of when it ends well.
    StateChange {
        /// Whose.
        ends: Ends<'a>,
        /// The RFC's name of the state before,
        from: &'static str,
        /// and of the one now.
        to: &'static str,
    },
    /// A connection was reset because it held memory while that was short, and moved too little.
    ShortageReset {
        /// Whose.
        ends: Ends<'a>,
    },
    /// What became of Fast Open in a handshake (RFC 7413).
    FastOpen {
        /// Whose.
        ends: Ends<'a>,
        /// As client: `taken`, `not-taken` or `lost`. As server: `opened`, `cookie-given`,
        /// `cookie-refused` or `overflow`.
        what: &'static str,
    },
    /// A neighbour's link address is known: what waited for it may leave.
    NeighbourResolved {
        /// By which interface.
        iface: Iface,
        /// The neighbour.
        addr: Addr,
        /// Its link address.
        mac: Mac,
    },
    /// A neighbour did not answer.
    NeighbourFailed {
        /// By which interface.
        iface: Iface,
        /// The neighbour.
        addr: Addr,
    },
    /// A path is narrower than what was known of it.
    PathMtu {
        /// Where it ends.
        remote: Addr,
        /// Bytes of the longest IP packet that it carries.
        mtu: u32,
    },
}

#[cfg(test)]
mod tests;
