//! Every bound of the stack, in one place. Memory for all of them is reserved at start; pages that are never touched cost nothing.

/// Sources that one membership's filter names at most (`igmp_max_msf` of Linux is 10). Where the filters of several sockets name more for one group, the interface
/// takes all sources, and the sockets' own filters decide.
pub const MAX_GROUP_SOURCES: usize = 16;

/// How many of each thing a stack holds at most. A table that is full refuses, under one name, and never grows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Limits {
    /// Connections in every state from SYN-SENT to LAST-ACK, handshakes that strangers began not counted.
    pub connections: u32,
    /// Handshakes that strangers began (SYN-RECEIVED) over all listeners; beyond this, SYN cookies.
    pub half_open: u32,
    /// Connections in TIME-WAIT; beyond this the oldest ends early.
    pub time_wait: u32,
    /// Connections whose owner is gone (close was called) and that still wait for the peer; beyond this they are reset.
    pub orphans: u32,
    /// Listening sockets.
    pub listeners: u32,
    /// Reserved TCP ports (bound sockets).
    pub binds: u32,
    /// Out-of-order receive maps, one for each connection that has a hole just now.
    pub reassembly_maps: u32,
    /// Loss-recovery maps, one for each connection that has something lost or selectively acknowledged just now.
    pub sack_maps: u32,
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
            listeners: 256,
            binds: 4_096,
            reassembly_maps: 1_024,
            sack_maps: 1_024,
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
