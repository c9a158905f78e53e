//! Every bound of the stack, in one place. Memory for all of them is reserved at start; pages that
//! are never touched cost nothing.

use clearway_base::Duration;

/// Sources that one membership's filter names at most (`igmp_max_msf` of Linux is 10). Where the
/// filters of several sockets name more for one group, the interface takes all sources, and the
/// sockets' own filters decide.
pub const MAX_GROUP_SOURCES: usize = 16;

/// What an owner keeps back who collects (TCP_CORK, MSG_MORE) or is in the midst of writing leaves
/// after this time with nothing in flight.
pub const CORK: Duration = Duration::from_millis(200);

/// Servers whose Fast Open cookies are remembered (RFC 7413 4.1.1); beyond this the one that was
/// not used for longest is forgotten.
pub const FAST_OPEN_PEERS: usize = 256;

/// Connections that a Fast Open cookie opened and whose handshakes are not complete, over all
/// listeners (RFC 7413 5.1); beyond this handshakes are as ever.
pub const FAST_OPEN_PENDING: usize = 256;

/// Ends of records (MSG_EOR) over all connections that were not acknowledged. Who wants one more
/// waits.
pub const RECORD_ENDS: usize = 256;

/// Messages of routers that wait for whoever configures interfaces by them; beyond this they are
/// dropped.
pub const ROUTER_NEWS: usize = 16;

/// Bytes of all of them: eight times the longest that a link with the usual MTU carries.
pub const ROUTER_NEWS_BYTES: usize = 12_000;

/// Router advertisements that are looked at in a second, over all interfaces; eight may come at
/// once. A router sends one every three seconds at most (RFC 4861 6.2.1) and one for each that asks.
pub const ROUTER_ADVERTS_PER_SECOND: u32 = 10;

/// How many of each thing a stack holds at most. A table that is full refuses, under one name, and
/// never grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections in every state from SYN-SENT to LAST-ACK, handshakes that strangers began not
    /// counted.
    pub connections: u32,
    /// Handshakes that strangers began (SYN-RECEIVED) over all listeners; beyond this, SYN cookies.
    pub half_open: u32,
    /// Connections in TIME-WAIT; beyond this the oldest ends early.
    pub time_wait: u32,
    /// Connections whose owner is gone (close was called) and that still wait for the peer; beyond
    /// this they are reset.
    pub orphans: u32,
    /// Bytes that such connections had still to send when they were closed, in all; beyond this the
    /// oldest are reset.
    pub orphan_bytes: u64,
    /// Listening sockets.
    pub listeners: u32,
    /// Reserved TCP ports (bound sockets).
    pub binds: u32,
    /// Out-of-order receive maps, one for each connection that has a hole just now.
    pub reassembly_maps: u32,
    /// Loss-recovery maps, one for each connection that has something lost or selectively
    /// acknowledged just now.
    pub sack_maps: u32,
    /// Connections whose data is paced, or whose congestion control is BBR or Prague.
    pub paced: u32,
    /// UDP sockets.
    pub udp_sockets: u32,
    /// Bytes that wait in one UDP socket, each way.
    pub udp_queue_bytes: u32,
    /// Multicast groups over all interfaces, those of our own addresses not counted.
    pub groups: u16,
    /// Memberships of UDP sockets in groups.
    pub memberships: u32,
    /// Memberships of one UDP socket (`igmp_max_memberships`).
    pub socket_memberships: u8,
    /// Interfaces.
    pub interfaces: u16,
    /// Addresses over all interfaces.
    pub addresses: u16,
    /// Routes over all tables.
    pub routes: u32,
    /// Routing tables (VRFs).
    pub tables: u16,
    /// Neighbour entries (ARP and NDP) over all interfaces.
    pub neighbours: u32,
    /// Packets that wait for one neighbour's address.
    pub neighbour_queue: u8,
    /// Packets that wait for neighbours' addresses in all.
    pub waiting_frames: u16,
    /// Destinations whose path MTU is remembered.
    pub path_mtus: u32,
    /// IP datagrams under reassembly.
    pub fragments: u16,
    /// Bytes held by all datagrams under reassembly.
    pub fragment_bytes: u32,
    /// Fragments that one datagram may arrive in.
    pub fragment_pieces: u8,
    /// ICMP errors, echo replies, challenge ACKs and resets that may wait to be sent.
    pub replies: u16,
    /// ICMP errors sent per second in all (RFC 1812 4.3.2.8, RFC 4443 2.4 f).
    pub icmp_errors_per_second: u32,
    /// Challenge ACKs sent per second on one connection (RFC 5961 7).
    pub challenge_acks_per_second: u8,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 65_536,
            half_open: 4_096,
            time_wait: 65_536,
            orphans: 8_192,
            orphan_bytes: 256 * 1024 * 1024,
            listeners: 256,
            binds: 4_096,
            reassembly_maps: 1_024,
            sack_maps: 1_024,
            paced: 4_096,
            udp_sockets: 256,
            udp_queue_bytes: 256 * 1024,
            groups: 128,
            memberships: 256,
            socket_memberships: 20,
            interfaces: 16,
            addresses: 64,
            routes: 1_024,
            tables: 16,
            neighbours: 1_024,
            neighbour_queue: 4,
            waiting_frames: 128,
            path_mtus: 256,
            fragments: 64,
            fragment_bytes: 1024 * 1024,
            fragment_pieces: 64,
            replies: 256,
            icmp_errors_per_second: 1_000,
            challenge_acks_per_second: 10,
        }
    }
}

/// So many of a thing a table holds at most: what one is asked for beyond that is a mistake, and no
/// machine has the memory.
pub const MOST: u32 = 1 << 24;
/// So many bytes wait in a queue or under reassembly at most.
pub const MOST_BYTES: u32 = 1 << 30;

/// A limit that no stack can have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LimitError {
    /// Its name.
    pub name: &'static str,
    /// What was asked for.
    pub value: u32,
    /// From here.
    pub least: u32,
    /// To here.
    pub most: u32,
}

impl core::fmt::Display for LimitError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        let LimitError { name, value, least, most } = self;
        write!(f, "{name} may be {least} to {most}, not {value}")
    }
}

impl core::error::Error for LimitError {}

impl Limits {
    /// Whether a stack of these limits can be made: memory for all of them is reserved when it is.
    ///
    /// # Errors
    /// The first limit that cannot be, with what it may be.
    pub fn check(&self) -> Result<(), LimitError> {
        let tables = [
            ("connections", self.connections, 1),
            ("half_open", self.half_open, 0),
            ("time_wait", self.time_wait, 0),
            ("listeners", self.listeners, 0),
            ("binds", self.binds, 0),
            ("reassembly_maps", self.reassembly_maps, 0),
            ("sack_maps", self.sack_maps, 0),
            ("udp_sockets", self.udp_sockets, 0),
            ("memberships", self.memberships, 0),
            ("routes", self.routes, 0),
            ("neighbours", self.neighbours, 0),
            ("path_mtus", self.path_mtus, 0),
        ];
        let bytes = [
            ("udp_queue_bytes", self.udp_queue_bytes, 0),
            ("fragment_bytes", self.fragment_bytes, 0),
        ];
        let all = tables
            .into_iter()
            .map(|limit| (limit, MOST))
            .chain(bytes.into_iter().map(|limit| (limit, MOST_BYTES)));
        for ((name, value, least), most) in all {
            if !(least..=most).contains(&value) {
                return Err(LimitError { name, value, least, most });
            }
        }
        Ok(())
    }
}

/// How many of each thing there are; [`Limits`] says how many there may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Population {
    /// Connections from SYN-SENT to LAST-ACK, and those that are over and not closed by their
    /// owners.
    pub connections: u32,
    /// Handshakes that strangers began.
    pub half_open: u32,
    /// Connections in TIME-WAIT.
    pub time_wait: u32,
    /// Connections whose owner is gone.
    pub orphans: u32,
    /// Bytes that they had to send when their owners went.
    pub orphan_bytes: u64,
    /// Listeners.
    pub listeners: u32,
    /// UDP sockets.
    pub udp_sockets: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_beyond_what_any_machine_has_are_refused_by_name() {
        assert_eq!(Limits::default().check(), Ok(()));
        let limits = Limits { connections: 4_000_000_000, ..Limits::default() };
        let why = limits.check().unwrap_err();
        assert_eq!((why.name, why.value, why.most), ("connections", 4_000_000_000, MOST));
        assert!(Limits { connections: 0, ..Limits::default() }.check().is_err());
        assert!(Limits { udp_queue_bytes: u32::MAX, ..Limits::default() }.check().is_err());
        assert_eq!(Limits { connections: 10_100_000, ..Limits::default() }.check(), Ok(()));
    }
}
