//! Where the headers of a frame lie, for the devices that have to look into one.

use clearway_wire::{Addr, EtherType, Proto, eth, ipv4, ipv6, ipv6_ext};

/// A whole IP packet in a frame.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) v4: bool,
    /// Where the IP header begins.
    pub(crate) ip_at: usize,
    /// Where the transport header begins.
    pub(crate) transport_at: usize,
    /// Where the packet ends; what follows is the link's padding.
    pub(crate) end: usize,
    pub(crate) proto: Proto,
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
}

impl Layout {
    /// None when the frame holds something else than a whole, sound IP packet; a fragment too,
    /// because its transport checksum covers more than it.
    pub(crate) fn of(frame: &[u8], ethernet: bool) -> Option<Layout> {
        let (ip_at, v4) = if ethernet {
            let eth = eth::check(frame).ok()?;
            let v4 = match eth.ethertype() {
                EtherType::IPV4 => true,
                EtherType::IPV6 => false,
                _ => return None,
            };
            (eth.payload_offset(), v4)
        } else {
            (0, frame.first()? >> 4 == 4)
        };
        let packet = frame.get(ip_at..)?;
        if v4 {
            let ip = ipv4::check(packet, false).ok().filter(|ip| !ip.is_fragment())?;
            let (transport_at, end) = (ip_at + ip.header_len(), ip_at + ip.total_len());
            Some(Layout {
                v4,
                ip_at,
                transport_at,
                end,
                proto: ip.proto(),
                src: ip.src(),
                dst: ip.dst(),
            })
        } else {
            let ip = ipv6::check(packet).ok()?;
            let chain = ipv6_ext::walk(&ip).ok().filter(|chain| chain.fragment.is_none())?;
            let (transport_at, end) = (ip_at + chain.upper_offset, ip_at + ip.total_len());
            Some(Layout {
                v4,
                ip_at,
                transport_at,
                end,
                proto: chain.upper,
                src: ip.src(),
                dst: ip.dst(),
            })
        }
    }

    /// Where the transport checksum stands in the frame, if it is there whole; None for protocols
    /// other than TCP and UDP.
    pub(crate) fn checksum_at(&self) -> Option<usize> {
        let at = match self.proto {
            Proto::TCP => self.transport_at + 16,
            Proto::UDP => self.transport_at + 6,
            _ => return None,
        };
        (at + 2 <= self.end).then_some(at)
    }
}
