//! What a device says about a received packet, and what it is asked to do to a sent one.

/// Which of the stack's interfaces a packet came from or goes to. The stack numbers them in the
/// order they are added.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Iface(pub u16);

/// What the device knows about the transport checksum of a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Checksum {
    /// Nothing: the stack looks itself.
    #[default]
    Unknown,
    /// The device (or a peer in the same machine that never wrote one) vouches for it.
    Good,
    /// The device found it wrong.
    Bad,
}

/// What came with a received packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RxMeta {
    /// Where it arrived.
    pub iface: Iface,
    /// The device's verdict on the transport checksum.
    pub checksum: Checksum,
    /// The segment size on the wire when the device joined several segments into this packet (LRO,
    /// GRO); 0 otherwise.
    pub segment_size: u16,
    /// The device's hash over the flow (RSS); 0 when it has none.
    pub rss_hash: u32,
}

/// How a device shall cut a large packet into several.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Segmentation {
    /// Not at all: the packet fits the link.
    #[default]
    None,
    /// As TCP segments of at most this many payload bytes (TSO).
    Tcp(u16),
    /// As UDP datagrams of at most this many payload bytes (USO, Linux UDP_SEGMENT).
    Udp(u16),
}

/// What goes with a packet to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TxMeta {
    /// When not 0: the transport checksum is left to the device. Its field holds the folded
    /// pseudo-header sum (not inverted), and this is the offset from the start of the frame at
    /// which summing begins; the sum goes `checksum_offset` bytes further on. One of zero is written
    /// as all ones, since it means "none" in UDP (RFC 768).
    pub checksum_start: u16,
    /// Where the sum is put, counted from `checksum_start`: 16 for TCP, 6 for UDP.
    pub checksum_offset: u16,
    /// How the device shall cut it.
    pub segmentation: Segmentation,
    /// Length of all headers in bytes (link, network, transport), for a device that cuts.
    pub header_len: u16,
    /// The flow's hash, for a device that chooses a queue by it; 0 when there is none.
    pub flow_hash: u32,
}

/// What a device can do so that the stack need not. Everything `false` is the plain device.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Offloads {
    /// Fills in TCP and UDP checksums of sent packets as [`TxMeta::checksum_start`] says.
    pub tx_checksum: bool,
    /// Packets never leave this machine's memory: transport checksums are neither made nor looked
    /// at.
    pub trusted_link: bool,
    /// Cuts large IPv4 TCP packets.
    pub tso4: bool,
    /// Cuts large IPv6 TCP packets.
    pub tso6: bool,
    /// Cuts large UDP packets.
    pub uso: bool,
    /// The largest frame that may be handed over for cutting, in bytes with all headers; 0 when the
    /// device cuts nothing.
    pub max_segmented_frame: u32,
}
