//! Captures: writing what passes through a port to a file, and playing a file back as a port.
//!
//! Files are written as pcapng (draft-ietf-opsawg-pcapng), which keeps nanoseconds and directions,
//! and read as pcapng or as the older pcap (draft-ietf-opsawg-pcap).

mod capture;
mod read;
mod replay;
mod trace;
mod write;

pub use capture::Capture;
pub use read::{PcapReader, Record};
pub use replay::Replay;
pub use trace::{Trace, TraceFrame, TraceSpec, Traced};
pub use write::{Direction, InterfaceCounts, InterfaceId, Packet, PcapWriter};

/// Link type of Ethernet frames.
const LINK_ETHERNET: u16 = 1;
/// Link type of bare IP packets of either version.
const LINK_RAW: u16 = 101;
/// Link types of bare IPv4 and bare IPv6 packets.
const LINK_IPV4: u16 = 228;
const LINK_IPV6: u16 = 229;

/// pcapng block types.
const BLOCK_SECTION: u32 = 0x0a0d_0d0a;
const BLOCK_INTERFACE: u32 = 1;
const BLOCK_SIMPLE: u32 = 3;
const BLOCK_STATISTICS: u32 = 5;
const BLOCK_PACKET: u32 = 6;

/// In every section header: it reads otherwise when the writer's byte order is not the reader's.
const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// pcapng option codes.
const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_PACKET_FLAGS: u16 = 2;
const OPTION_TIME_RESOLUTION: u16 = 9;

/// Options of the statistics of an interface: isb_ifrecv, isb_ifdrop, isb_filteraccept and
/// isb_usrdeliv.
const OPTION_SEEN: u16 = 4;
const OPTION_LOST: u16 = 5;
const OPTION_FITTING: u16 = 6;
const OPTION_DELIVERED: u16 = 8;

/// The longest frame that is kept or believed: a 64 KiB packet with its headers fits twice over.
const SNAP_LEN: usize = 262_144;

#[cfg(test)]
mod tests;
