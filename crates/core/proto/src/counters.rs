//! Every packet that is not taken is dropped for exactly one reason, and counted under exactly one
//! name.

use clearway_wire::Malformed;

/// Declares the reasons once: variant, name and place in the table of counters.
macro_rules! reasons {
    ($( $(#[$doc:meta])* $variant:ident = $name:literal, )*) => {
        /// Why a received packet was dropped.
        ///
        /// A packet that was answered with an error (a reset, an ICMP message) was dropped too: the
        /// reason says why it was not delivered.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        pub enum Drop {
            /// The bytes are not what they claim to be.
            Malformed(Malformed),
            $( $(#[$doc])* $variant, )*
        }

        /// The reasons that are the stack's own, in the order of the table of counters.
        const OWN: &[Drop] = &[ $( Drop::$variant, )* ];

        /// Gives each reason of [`OWN`] its place, as a number.
        #[repr(usize)]
        enum Place { $( $variant, )* }

        impl Drop {
            /// The reason's one name, in kebab case: what the counters, the command line and a
            /// capture show.
            pub const fn name(self) -> &'static str {
                match self {
                    Drop::Malformed(why) => why.name(),
                    $( Drop::$variant => $name, )*
                }
            }

            /// The reason's place in [`Drop::all`].
            #[inline]
            pub const fn index(self) -> usize {
                match self {
                    Drop::Malformed(why) => why.index(),
                    $( Drop::$variant => Malformed::COUNT + Place::$variant as usize, )*
                }
            }
        }
    };
}

reasons! {
    // ---- link
    /// The packet carries the number of an interface that does not exist.
    UnknownInterface = "unknown-interface",
    /// The interface is down.
    InterfaceDown = "interface-down",
    /// The frame's destination is another link address.
    OtherLinkAddr = "other-link-address",
    /// The frame's source is a group address.
    LinkSourceGroup = "link-source-group",
    /// The frame carries a VLAN tag (a priority tag, VLAN 0, is accepted).
    VlanTagged = "vlan-tagged",
    /// Neither IPv4, IPv6 nor ARP.
    UnknownEtherType = "unknown-ether-type",

    // ---- IP
    /// The destination is no address of ours; this is a host, it does not forward (RFC 1122
    /// 3.3.4.2).
    NotOurs = "not-ours",
    /// The source is a multicast address (RFC 1122 3.2.1.3).
    SourceMulticast = "source-multicast",
    /// The source is a broadcast address (RFC 1122 3.2.1.3).
    SourceBroadcast = "source-broadcast",
    /// The source is our own address, on a link that should not bring it back.
    SourceOurs = "source-ours",
    /// The source is unspecified where it must not be.
    SourceUnspecified = "source-unspecified",
    /// A loopback address on a link that leaves the machine (RFC 1122 3.2.1.3 g, RFC 4291 2.5.3).
    LoopbackOnWire = "loopback-on-wire",
    /// A reserved source or destination (0.0.0.0/8, 240.0.0.0/4).
    Martian = "martian",
    /// The packet asks to be routed along a list of addresses (RFC 7126 4.3, RFC 5095).
    SourceRoute = "source-route",
    /// No transport for this protocol number.
    UnknownProtocol = "unknown-protocol",
    /// The device found the transport checksum wrong.
    DeviceBadChecksum = "device-bad-checksum",

    // ---- fragments
    /// The fragment overlaps one that was here before; the whole datagram goes (RFC 5722, RFC 8200
    /// 4.5).
    FragmentOverlap = "fragment-overlap",
    /// A fragment that can be marked among others that cannot (RFC 3168 5.3): its datagram is
    /// discarded.
    FragmentMixedEcn = "fragment-mixed-ecn",
    /// The same fragment again.
    FragmentDuplicate = "fragment-duplicate",
    /// The datagram would be longer than 65,535 bytes (the ping of death).
    FragmentTooLong = "fragment-too-long",
    /// The first fragment does not hold the whole transport header (RFC 1858, RFC 7112).
    FragmentTiny = "fragment-tiny",
    /// Fragments disagree about the end of the datagram.
    FragmentEnd = "fragment-end",
    /// The datagram comes in too many pieces.
    FragmentPieces = "fragment-pieces",
    /// Too many datagrams or bytes are under reassembly.
    FragmentsFull = "fragments-full",
    /// This source already holds its share of the reassembly memory.
    FragmentSourceShare = "fragment-source-share",
    /// No buffer for the reassembled datagram.
    FragmentNoBuffer = "fragment-no-buffer",

    // ---- ARP and NDP
    /// The ARP packet asks for another host or comes from a sender without an address.
    ArpNotForUs = "arp-not-for-us",
    /// An ARP reply that nobody asked for.
    ArpUnsolicited = "arp-unsolicited",
    /// The sender of an ARP or neighbour-discovery packet cannot be one: a group address, a
    /// loopback address.
    ArpBadSender = "arp-bad-sender",
    /// Another host claims our IPv4 address (RFC 5227 2.4).
    ArpConflict = "arp-conflict",
    /// A fragmented neighbour-discovery message (RFC 6980).
    NdpFragmented = "ndp-fragmented",
    /// A solicitation for an address that is not ours.
    NdpNotForUs = "ndp-not-for-us",
    /// An advertisement that nobody asked for.
    NdpUnsolicited = "ndp-unsolicited",
    /// Another host claims our IPv6 address (RFC 4862 5.4).
    NdpConflict = "ndp-conflict",
    /// A router solicitation, or an advertisement on an interface that is not configured by routers.
    RouterMessage = "router-message",
    /// More router advertisements came than are looked at.
    RouterFlood = "router-flood",
    /// An ICMP or ICMPv6 redirect; they are ignored.
    Redirect = "redirect",

    // ---- ICMP
    /// An ICMP type that a host has no use for.
    IcmpUnknownType = "icmp-unknown-type",
    /// An echo request to a broadcast or multicast address (RFC 1122 3.2.2.6).
    IcmpBroadcastEcho = "icmp-broadcast-echo",
    /// An echo reply that nobody waits for.
    IcmpUnsolicitedReply = "icmp-unsolicited-reply",
    /// An ICMP error that quotes no packet of ours.
    IcmpUnmatched = "icmp-unmatched",
    /// An ICMP error with a next-hop MTU below the family's minimum or above what we use (RFC 8201
    /// 4).
    IcmpBadMtu = "icmp-bad-mtu",
    /// An IGMP type that is neither query nor report nor leave.
    IgmpUnknownType = "igmp-unknown-type",
    /// More replies wait than there is room for, so the request goes unanswered.
    RepliesFull = "replies-full",

    // ---- UDP
    /// Nobody listens on the UDP port.
    UdpPortClosed = "udp-port-closed",
    /// The socket's queue is full.
    UdpQueueFull = "udp-queue-full",
    /// Sent to a group by a source that no member of it wants.
    UdpSourceFiltered = "udp-source-filtered",

    // ---- TCP
    /// TCP to or from a broadcast or multicast address (RFC 9293 3.9.2.3).
    TcpNotUnicast = "tcp-not-unicast",
    /// Nobody listens on the port; answered with a reset.
    TcpPortClosed = "tcp-port-closed",
    /// A reset for a connection that does not exist.
    TcpResetForNobody = "tcp-reset-for-nobody",
    /// Flags that make no sense where the segment arrived: none at all, SYN with FIN, no SYN for a
    /// listener.
    TcpBadFlags = "tcp-bad-flags",
    /// An ACK for a listener that completes no handshake and carries no SYN cookie; answered with a
    /// reset.
    TcpNoHandshake = "tcp-no-handshake",
    /// The listener's backlog of handshakes is full and SYN cookies are off.
    TcpBacklogFull = "tcp-backlog-full",
    /// As many finished handshakes wait for accept as the backlog allows.
    TcpAcceptQueueFull = "tcp-accept-queue-full",
    /// The ACK of a handshake for a listener that waits for data.
    TcpDeferred = "tcp-deferred",
    /// A SYN while the stack is drained: new connections shall go to another machine.
    TcpDraining = "tcp-draining",
    /// All places for connections are taken.
    TcpConnectionsFull = "tcp-connections-full",
    /// The stores have no memory for one more connection.
    TcpNoMemory = "tcp-no-memory",
    /// An ACK in a handshake that acknowledges anything but our SYN; answered with a reset.
    TcpBadAck = "tcp-bad-ack",
    /// The timestamps that were agreed on are missing (RFC 7323 3.2).
    TcpTimestampMissing = "tcp-timestamp-missing",
    /// The timestamp is older than one that was seen (RFC 7323 5).
    TcpOldTimestamp = "tcp-old-timestamp",
    /// Neither new nor in the window.
    TcpOutOfWindow = "tcp-out-of-window",
    /// Everything in the segment was received before.
    TcpDuplicate = "tcp-duplicate",
    /// A reset was taken: the connection or the handshake is over.
    TcpReset = "tcp-reset",
    /// A reset that lies outside the window.
    TcpResetOutOfWindow = "tcp-reset-out-of-window",
    /// A reset in the window that does not hit the next number; challenged (RFC 5961 3.2).
    TcpResetNotExact = "tcp-reset-not-exact",
    /// A reset for a connection in TIME-WAIT (RFC 1337).
    TcpResetInTimeWait = "tcp-reset-in-time-wait",
    /// A SYN for a connection that exists; challenged (RFC 5961 4.2).
    TcpSynInWindow = "tcp-syn-in-window",
    /// No ACK where every segment must have one.
    TcpNoAck = "tcp-no-ack",
    /// Acknowledges what was never sent; challenged (RFC 5961 5.2).
    TcpAckUnsent = "tcp-ack-unsent",
    /// Acknowledges what was acknowledged more than a window ago; challenged (RFC 5961 5.2).
    TcpAckTooOld = "tcp-ack-too-old",
    /// Data after the owner or the peer has closed.
    TcpAfterClose = "tcp-after-close",
    /// No place to note what arrived out of order.
    TcpReassemblyFull = "tcp-reassembly-full",
    /// The receive store took only a part, or nothing.
    TcpStoreFull = "tcp-store-full",
    /// Source and destination are the same endpoint (the LAND attack).
    Land = "land",
    /// A TCP or UDP port is zero.
    PortZero = "port-zero",
}

/// How many reasons there are.
const REASONS: usize = Malformed::COUNT + OWN.len();

impl Drop {
    /// Every reason, in the order of the table of counters.
    pub fn all() -> impl Iterator<Item = Drop> {
        Malformed::ALL.iter().map(|&why| Drop::Malformed(why)).chain(OWN.iter().copied())
    }
}

impl From<Malformed> for Drop {
    #[inline]
    fn from(why: Malformed) -> Drop {
        Drop::Malformed(why)
    }
}

/// Everything that is counted. Plain numbers that only grow.
#[derive(Clone, Debug)]
pub struct Counters {
    drops: [u64; REASONS],
    /// IPv4 and IPv6.
    pub ip: IpCounters,
    /// TCP.
    pub tcp: TcpCounters,
    /// UDP.
    pub udp: UdpCounters,
    /// ICMP and ICMPv6.
    pub icmp: IcmpCounters,
    /// ARP and NDP.
    pub neighbours: NeighbourCounters,
    /// IGMP and MLD.
    pub groups: GroupCounters,
}

impl Default for Counters {
    fn default() -> Counters {
        Counters {
            drops: [0; REASONS],
            ip: IpCounters::default(),
            tcp: TcpCounters::default(),
            udp: UdpCounters::default(),
            icmp: IcmpCounters::default(),
            neighbours: NeighbourCounters::default(),
            groups: GroupCounters::default(),
        }
    }
}

impl Counters {
    /// Counts one dropped packet.
    #[inline]
    pub(crate) fn dropped(&mut self, why: Drop) {
        self.drops[why.index()] += 1;
    }

    /// Packets dropped for this reason.
    pub fn drops(&self, why: Drop) -> u64 {
        self.drops[why.index()]
    }

    /// Packets dropped for whatever reason.
    pub fn drops_total(&self) -> u64 {
        self.drops.iter().sum()
    }

    /// Every reason with its count, those that never happened too.
    pub fn each_drop(&self) -> impl Iterator<Item = (Drop, u64)> + '_ {
        Drop::all().map(|why| (why, self.drops(why)))
    }
}

/// What IP counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct IpCounters {
    /// Packets handed in, whatever became of them.
    pub packets_in: u64,
    /// Their bytes, link headers included.
    pub bytes_in: u64,
    /// Packets handed to a sink.
    pub packets_out: u64,
    /// Their bytes, link headers included.
    pub bytes_out: u64,
    /// Packets that a transport or a protocol of the stack took.
    pub delivered: u64,
    /// Fragments taken for reassembly.
    pub fragments_in: u64,
    /// Datagrams put together from fragments.
    pub reassembled: u64,
    /// Datagrams whose reassembly was given up because time ran out.
    pub reassembly_timeouts: u64,
    /// Fragments that were held and went away with their datagram, by timeout, overlap or shortage.
    pub fragments_discarded: u64,
    /// Datagrams sent in fragments.
    pub fragmented: u64,
    /// Fragments sent.
    pub fragments_out: u64,
    /// Packets that found no route on the way out.
    pub no_route: u64,
    /// Path MTUs learned from an ICMP message.
    pub path_mtu_learned: u64,
}

/// What TCP counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct TcpCounters {
    /// Segments received with a good checksum.
    pub segs_in: u64,
    /// Segments sent, resets and retransmissions too.
    pub segs_out: u64,
    /// Segments sent again.
    pub retransmitted_segs: u64,
    /// Connections that we began.
    pub active_opens: u64,
    /// Connections that a peer began and that reached ESTABLISHED.
    pub passive_opens: u64,
    /// Connections that failed before they were established.
    pub attempt_fails: u64,
    /// Connections that a reset ended after they were established.
    pub established_resets: u64,
    /// Resets sent.
    pub resets_out: u64,
    /// SYN cookies sent.
    pub syn_cookies_sent: u64,
    /// SYN cookies that came back right.
    pub syn_cookies_accepted: u64,
    /// SYN cookies that came back wrong or late.
    pub syn_cookies_failed: u64,
    /// SYNs whose data the server took (Fast Open, RFC 7413).
    pub fast_open_active: u64,
    /// SYNs whose data the server did not take: it was sent again.
    pub fast_open_not_taken: u64,
    /// SYNs with the Fast Open option that were lost, while one without it was answered.
    pub fast_open_lost: u64,
    /// Connections that a Fast Open cookie opened.
    pub fast_open_passive: u64,
    /// Fast Open cookies given to peers that asked for one.
    pub fast_open_cookies_given: u64,
    /// Fast Open cookies that were not ours, or of a key that is gone.
    pub fast_open_cookies_refused: u64,
    /// Good cookies that opened nothing, because too many handshakes were pending or no place was
    /// free.
    pub fast_open_overflows: u64,
    /// Challenge ACKs sent (RFC 5961).
    pub challenge_acks: u64,
    /// Challenge ACKs that the rate limit held back.
    pub challenge_acks_limited: u64,
    /// SYN-ACKs sent again.
    pub syn_acks_repeated: u64,
    /// Handshakes of strangers that were forgotten because no answer came.
    pub half_open_timeouts: u64,
    /// Times that the retransmission timer ran out with something in flight.
    pub retransmit_timeouts: u64,
    /// Times that fast recovery began.
    pub fast_recoveries: u64,
    /// Probes for the loss of the last segments (RFC 8985 7).
    pub tail_loss_probes: u64,
    /// Losses that such a probe repaired.
    pub tail_loss_repairs: u64,
    /// Recoveries and timeouts that nothing was lost for: what they did was taken back.
    pub losses_undone: u64,
    /// Times that losses had to be told by counting because no record of what was sent was free.
    pub sent_unrecorded: u64,
    /// Connections whose full segments seemed to vanish, so that shorter ones leave (RFC 4821).
    pub mtu_black_holes: u64,
    /// Times that a peer no longer held what it had said that it held (RFC 2018 8).
    pub sack_reneged: u64,
    /// Connections given up because the peer did not answer, or made no progress for the user
    /// timeout.
    pub timeouts: u64,
    /// Probes of a window that is shut or too small.
    pub window_probes: u64,
    /// Keepalive probes.
    pub keepalives_out: u64,
    /// Connections without owner whose peer did not send its FIN in time.
    pub fin_wait_2_timeouts: u64,
    /// Connections reset because data arrived after their owner had closed, or had shut both sides.
    pub resets_after_close: u64,
    /// Connections without owner that were reset to make room.
    pub orphans_evicted: u64,
    /// Connections without owner that were reset because their peers took next to nothing for too
    /// long.
    pub orphans_timed_out: u64,
    /// Connections whose data could not be paced, nor their rates measured, because no place was
    /// free for that: they went by CUBIC, or without their highest rate.
    pub paced_refused: u64,
    /// Connections that were reset because they held memory while it was short and moved too
    /// little.
    pub shortage_resets: u64,
    /// Idle connections that were reset to make room for new ones.
    pub idle_evicted: u64,
    /// Connections that use ECN as RFC 3168 has it.
    pub ecn_classic: u64,
    /// Connections that use AccECN (RFC 9768).
    pub ecn_accurate: u64,
    /// Segments that arrived marked (CE), of connections that use ECN.
    pub ce_segs_in: u64,
    /// Marks on our own packets that peers told of: segments with ECE, or packets that the counters
    /// of AccECN count.
    pub ce_delivered: u64,
    /// Times that such marks cut a congestion window.
    pub ecn_reductions: u64,
    /// Times that the queue which marks was found to be one of RFC 3168, so that Prague answers as
    /// NewReno, by and by.
    pub prague_fallbacks: u64,
    /// TIME-WAIT records that ended early to make room.
    pub time_wait_evicted: u64,
    /// TIME-WAIT records that a new SYN took over (RFC 6191).
    pub time_wait_reused: u64,
    /// Connections reset because their state was impossible: each one is a bug of this stack.
    pub broken: u64,
}

/// What UDP counts.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct UdpCounters {
    /// Datagrams that a socket took.
    pub datagrams_in: u64,
    /// Datagrams sent.
    pub datagrams_out: u64,
    /// Datagrams that could not be sent: no route, or the interface is down.
    pub send_failures: u64,
    /// Datagrams of closed sockets that no device took in time.
    pub lost_after_close: u64,
}

/// What ICMP and ICMPv6 count.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct IcmpCounters {
    /// Messages received with a good checksum.
    pub messages_in: u64,
    /// Echo requests answered.
    pub echo_replies_out: u64,
    /// Errors sent.
    pub errors_out: u64,
    /// Errors received that quote a packet of ours.
    pub errors_in: u64,
    /// Errors that the rate limit held back (RFC 4443 2.4 f).
    pub errors_limited: u64,
    /// Replies of any protocol that were ready and could not be sent: no route, no neighbour.
    pub replies_lost: u64,
}

/// What ARP and NDP count.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct NeighbourCounters {
    /// Requests and solicitations received for an address of ours.
    pub requests_in: u64,
    /// Replies and advertisements received that were asked for.
    pub replies_in: u64,
    /// Requests and solicitations sent.
    pub requests_out: u64,
    /// Replies and advertisements sent.
    pub replies_out: u64,
    /// Announcements sent, on a new address or in defence of one.
    pub announcements_out: u64,
    /// Others that claimed an address of ours.
    pub conflicts: u64,
    /// Neighbours that did not answer.
    pub failures: u64,
    /// Entries that made room for another.
    pub evicted: u64,
    /// New neighbours refused because every entry is in use.
    pub table_full: u64,
    /// Frames that waited for a neighbour and were dropped: another one needed the place, or no
    /// answer came.
    pub frames_dropped: u64,
}

/// What IGMP and MLD count.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct GroupCounters {
    /// Queries received.
    pub queries_in: u64,
    /// Reports and leaves of other hosts received.
    pub reports_in: u64,
    /// Reports sent.
    pub reports_out: u64,
    /// Leaves of the second version sent.
    pub leaves_out: u64,
}

#[cfg(test)]
mod tests;
