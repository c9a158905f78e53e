//! Why a packet is not what it claims to be: one value per reason, and every value is the name of
//! one drop counter.

use core::fmt;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal,)+) => {
        /// Why bytes were refused by a `check`. Small and `Copy`, so that it can be returned from
        /// the packet path and counted by its index.
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        #[repr(u8)]
        pub enum Malformed {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl Malformed {
            /// Every reason in the order of [`Malformed::index`], for tables of counters.
            pub const ALL: &'static [Malformed] = &[$(Malformed::$variant,)+];

            /// The counter's name: lower case words joined by `-`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Malformed::$variant => $name,)+
                }
            }
        }
    };
}

reasons! {
    /// Fewer bytes than an Ethernet header, or a VLAN tag that is cut off.
    EthTooShort = "eth-too-short",
    /// More than two VLAN tags in a row.
    EthTooManyTags = "eth-too-many-tags",

    /// Fewer than the 28 bytes of an Ethernet/IPv4 ARP packet (RFC 826).
    ArpTooShort = "arp-too-short",
    /// Hardware or protocol other than Ethernet and IPv4, or address lengths that do not fit them.
    ArpNotEthernetIpv4 = "arp-not-ethernet-ipv4",
    /// Neither a request nor a reply.
    ArpUnknownOperation = "arp-unknown-operation",

    /// Fewer than 20 bytes (RFC 791 3.1).
    Ipv4TooShort = "ipv4-too-short",
    /// The version field is not 4.
    Ipv4BadVersion = "ipv4-bad-version",
    /// The header length field says less than 20 bytes.
    Ipv4HeaderTooShort = "ipv4-header-too-short",
    /// The total length is less than the header or more than the bytes that came.
    Ipv4BadLength = "ipv4-bad-length",
    /// The header checksum does not fit (RFC 1122 3.2.1.2).
    Ipv4BadChecksum = "ipv4-bad-checksum",
    /// An option of length 0 or 1, or one that runs past the header.
    Ipv4BadOption = "ipv4-bad-option",
    /// A fragment that is empty, that is not the last and no multiple of 8 bytes, or that would end
    /// beyond 65535.
    Ipv4BadFragment = "ipv4-bad-fragment",
    /// A TCP fragment that cuts the TCP header where filters would miss its flags (RFC 1858 3, RFC
    /// 3128).
    Ipv4TinyFragment = "ipv4-tiny-fragment",

    /// Fewer than 40 bytes (RFC 8200 3).
    Ipv6TooShort = "ipv6-too-short",
    /// The version field is not 6.
    Ipv6BadVersion = "ipv6-bad-version",
    /// The payload length is more than the bytes that came.
    Ipv6BadLength = "ipv6-bad-length",
    /// A payload length of 0 with a hop-by-hop header: a jumbogram (RFC 2675), which is not
    /// supported.
    Ipv6Jumbo = "ipv6-jumbo",
    /// Source or destination in `::ffff:0:0/96`, which never appears on a link (RFC 4291 2.5.5.2).
    Ipv6MappedAddress = "ipv6-mapped-address",
    /// An extension header that runs past the packet.
    Ipv6ExtTruncated = "ipv6-ext-truncated",
    /// More extension headers than [`crate::ipv6_ext::MAX_HEADERS`].
    Ipv6ExtTooMany = "ipv6-ext-too-many",
    /// More bytes of extension headers than [`crate::ipv6_ext::MAX_BYTES`].
    Ipv6ExtTooLong = "ipv6-ext-too-long",
    /// A hop-by-hop header that does not follow the IPv6 header directly (RFC 8200 4.1).
    Ipv6ExtHopByHopNotFirst = "ipv6-ext-hop-by-hop-not-first",
    /// An option that runs past its header, or more options than [`crate::ipv6_ext::MAX_OPTIONS`].
    Ipv6ExtBadOption = "ipv6-ext-bad-option",
    /// An unknown option whose action bits ask for the packet to be dropped (RFC 8200 4.2).
    Ipv6ExtUnknownOption = "ipv6-ext-unknown-option",
    /// A routing header with segments left, type 0 included (RFC 5095 3, RFC 8200 4.4).
    Ipv6ExtRouting = "ipv6-ext-routing",
    /// A fragment whose length is no multiple of 8 though more follow, that is empty, that would
    /// end beyond 65535, or a second fragment header.
    Ipv6BadFragment = "ipv6-bad-fragment",
    /// A first fragment that does not hold the whole header chain (RFC 7112 5).
    Ipv6FirstFragmentIncomplete = "ipv6-first-fragment-incomplete",

    /// Fewer than the 8 bytes of an ICMP header (RFC 792).
    Icmpv4TooShort = "icmpv4-too-short",
    /// The ICMP checksum does not fit.
    Icmpv4BadChecksum = "icmpv4-bad-checksum",
    /// Fewer than the 8 bytes of an ICMPv6 message (RFC 4443).
    Icmpv6TooShort = "icmpv6-too-short",
    /// The ICMPv6 checksum does not fit.
    Icmpv6BadChecksum = "icmpv6-bad-checksum",
    /// The packet quoted inside an ICMP error is too short to tell whose it was, or no IP packet.
    IcmpBadQuote = "icmp-bad-quote",

    /// A neighbour discovery message shorter than its fixed part (RFC 4861 4).
    NdpTooShort = "ndp-too-short",
    /// A hop limit other than 255: it may have come from beyond the link (RFC 4861 6.1, 7.1, 8.1).
    NdpBadHopLimit = "ndp-bad-hop-limit",
    /// A code other than 0.
    NdpBadCode = "ndp-bad-code",
    /// An option of length 0, past the end, shorter than its fixed part, or more options than
    /// [`crate::ndp::MAX_OPTIONS`].
    NdpBadOption = "ndp-bad-option",
    /// A source address that the message may not have (RFC 4861 6.1.2, 7.1.1, 8.1).
    NdpBadSource = "ndp-bad-source",
    /// A destination address that the message may not have (RFC 4861 7.1.1, 7.1.2).
    NdpBadDestination = "ndp-bad-destination",
    /// A target address that is multicast, or mapped IPv4.
    NdpBadTarget = "ndp-bad-target",

    /// Fewer bytes than the message has: 8, or 12 for a query of version 3 (RFC 3376 7.1).
    IgmpTooShort = "igmp-too-short",
    /// The IGMP checksum does not fit.
    IgmpBadChecksum = "igmp-bad-checksum",
    /// A TTL other than 1 (RFC 3376 4).
    IgmpBadTtl = "igmp-bad-ttl",
    /// A query about an address that is no group.
    IgmpBadGroup = "igmp-bad-group",
    /// More sources or records than bytes came.
    IgmpBadRecords = "igmp-bad-records",
    /// Fewer bytes than the message has: 24, or 28 for a query of version 2 (RFC 3810 8.1).
    MldTooShort = "mld-too-short",
    /// A source that is not link-local (RFC 3810 6.2).
    MldBadSource = "mld-bad-source",
    /// A hop limit other than 1, or no router alert (RFC 3810 6.2).
    MldBadHopLimit = "mld-bad-hop-limit",
    /// A message about an address that is no group.
    MldBadGroup = "mld-bad-group",
    /// More sources or records than bytes came.
    MldBadRecords = "mld-bad-records",

    /// Fewer than 8 bytes (RFC 768).
    UdpTooShort = "udp-too-short",
    /// The length field is less than 8 or more than the bytes that came.
    UdpBadLength = "udp-bad-length",
    /// The UDP checksum does not fit.
    UdpBadChecksum = "udp-bad-checksum",
    /// No checksum, which IPv6 forbids (RFC 8200 8.1).
    UdpZeroChecksumV6 = "udp-zero-checksum-v6",

    /// Fewer than 20 bytes (RFC 9293 3.1).
    TcpTooShort = "tcp-too-short",
    /// The data offset is less than 5 words or points past the segment.
    TcpBadOffset = "tcp-bad-offset",
    /// The TCP checksum does not fit (RFC 9293 3.1, MUST-3).
    TcpBadChecksum = "tcp-bad-checksum",
}

impl Malformed {
    /// How many reasons there are: the length of a table of counters.
    pub const COUNT: usize = Malformed::ALL.len();

    /// The reason's place in [`Malformed::ALL`].
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Malformed {}

#[cfg(test)]
mod tests;
