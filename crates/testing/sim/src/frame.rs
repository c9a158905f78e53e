//! Frames as the links of the world see them: where the IP packet begins, what TCP segment is in
//! it, and frames made by hand for those who attack.

use clearway_wire::ip::{self, Quote};
use clearway_wire::{
    Addr, Endpoint, EtherType, Mac, Proto, Segment, eth, icmpv4, icmpv6, ipv4, ipv6, ipv6_ext, tcp,
    udp,
};

/// What the frames of a link begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// An Ethernet header.
    Ethernet,
    /// The IP header.
    Raw,
}

impl Framing {
    /// Bytes before the IP header of an untagged frame.
    pub const fn header_len(self) -> usize {
        match self {
            Framing::Ethernet => eth::HEADER_LEN,
            Framing::Raw => 0,
        }
    }

    /// The IP packet in a frame; None when it is something else.
    pub fn packet(self, frame: &[u8]) -> Option<&[u8]> {
        match self {
            Framing::Raw => Some(frame),
            Framing::Ethernet => {
                let eth = eth::check(frame).ok()?;
                matches!(eth.ethertype(), EtherType::IPV4 | EtherType::IPV6)
                    .then_some(eth.payload())
            }
        }
    }

    /// Puts a link header before an IP packet.
    pub fn wrap(self, dst: Mac, src: Mac, packet: &[u8]) -> Vec<u8> {
        let mut frame = vec![0; self.header_len()];
        if self == Framing::Ethernet {
            let kind =
                if ip::version(packet) == Some(6) { EtherType::IPV6 } else { EtherType::IPV4 };
            eth::emit(dst, src, kind, &mut frame);
        }
        frame.extend_from_slice(packet);
        frame
    }
}

/// The transport part of a whole IP packet.
#[derive(Clone, Copy)]
pub struct Upper<'a> {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// Protocol behind any extension headers.
    pub proto: Proto,
    /// Transport header and data.
    pub bytes: &'a [u8],
    /// Where `bytes` begins in the packet.
    pub offset: usize,
}

/// Looks into an IP packet. None for fragments, and for what is broken.
pub fn upper(packet: &[u8]) -> Option<Upper<'_>> {
    match ip::version(packet)? {
        4 => {
            let ip = ipv4::check(packet, true).ok()?;
            let whole = !ip.is_fragment();
            let (src, dst, proto) = (ip.src(), ip.dst(), ip.proto());
            whole.then(|| Upper { src, dst, proto, bytes: ip.payload(), offset: ip.header_len() })
        }
        6 => {
            let ip = ipv6::check(packet).ok()?;
            let chain = ipv6_ext::walk(&ip).ok()?;
            let whole = chain.fragment.is_none();
            let (src, dst, proto) = (ip.src(), ip.dst(), chain.upper);
            whole.then_some(Upper {
                src,
                dst,
                proto,
                bytes: chain.bytes,
                offset: chain.upper_offset,
            })
        }
        _ => None,
    }
}

/// A TCP segment in an IP packet.
#[derive(Clone, Copy)]
pub struct TcpView<'a> {
    /// Who sent it.
    pub src: Endpoint,
    /// Whom to.
    pub dst: Endpoint,
    /// Its header.
    pub seg: Segment,
    /// Its data.
    pub payload: &'a [u8],
    /// Header and data.
    pub bytes: &'a [u8],
}

impl TcpView<'_> {
    /// Whether its checksum is right.
    pub fn checksum_is_valid(&self) -> bool {
        tcp::verify_checksum(&self.src.addr, &self.dst.addr, self.bytes).is_ok()
    }
}

/// The TCP segment in an IP packet, if that is what it is.
pub fn tcp_view(packet: &[u8]) -> Option<TcpView<'_>> {
    let upper = upper(packet)?;
    if upper.proto != Proto::TCP {
        return None;
    }
    let seg = tcp::parse(upper.bytes).ok()?;
    let payload = upper.bytes.get(usize::from(seg.header_len)..)?;
    let (src, dst) =
        (Endpoint::new(upper.src, seg.src_port), Endpoint::new(upper.dst, seg.dst_port));
    Some(TcpView { src, dst, seg, payload, bytes: upper.bytes })
}

/// Writes an IP packet around transport bytes whose checksum is done.
pub fn ip_packet(src: Addr, dst: Addr, proto: Proto, hops: u8, upper: &[u8]) -> Vec<u8> {
    let payload_len = upper.len() as u16;
    let mut packet;
    if src.is_v4() {
        packet = vec![0; ipv4::HEADER_LEN];
        let header = ipv4::Header {
            src,
            dst,
            proto,
            tos: 0,
            ttl: hops,
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len,
        };
        ipv4::emit(&header, &mut packet);
    } else {
        packet = vec![0; ipv6::HEADER_LEN];
        let header = ipv6::Header {
            src,
            dst,
            next: proto,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: hops,
            payload_len,
        };
        ipv6::emit(&header, &mut packet);
    }
    packet.extend_from_slice(upper);
    packet
}

/// A TCP segment as an IP packet, with its checksum.
pub fn tcp_packet(src: Endpoint, dst: Endpoint, seg: &Segment, payload: &[u8]) -> Vec<u8> {
    let seg = Segment { src_port: src.port, dst_port: dst.port, ..*seg };
    let mut bytes = vec![0; seg.opts.header_len()];
    tcp::emit(&seg, &mut bytes);
    bytes.extend_from_slice(payload);
    tcp::fill_checksum(&src.addr, &dst.addr, &mut bytes);
    ip_packet(src.addr, dst.addr, Proto::TCP, 64, &bytes)
}

/// A UDP datagram as an IP packet, with its checksum.
pub fn udp_packet(src: Endpoint, dst: Endpoint, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER_LEN];
    udp::emit(src.port, dst.port, payload.len() as u16, &mut bytes);
    bytes.extend_from_slice(payload);
    udp::fill_checksum(&src.addr, &dst.addr, &mut bytes);
    ip_packet(src.addr, dst.addr, Proto::UDP, 64, &bytes)
}

/// What a router whose next link takes `mtu` bytes sends back to the sender of `packet` (RFC 1191
/// 4, RFC 4443 3.2). `router` is of the packet's family.
pub fn too_big(router: Addr, packet: &[u8], mtu: u32) -> Option<Vec<u8>> {
    let Quote { src, .. } = ip::quote(packet).ok()?;
    if router.is_v4() {
        // The header and 8 bytes were the rule of RFC 792; routers of today quote as much as fits
        // 576 bytes (RFC 1812 4.3.2.3).
        let quoted = &packet[..packet.len().min(548)];
        let message = icmpv4::Icmpv4::Unreachable {
            code: icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED,
            mtu: mtu as u16,
            quoted,
        };
        let mut bytes = vec![0; message.emitted_len()];
        icmpv4::emit(&message, &mut bytes);
        Some(ip_packet(router, src, Proto::ICMP, 64, &bytes))
    } else {
        let quoted = &packet[..packet.len().min(1232)];
        let message = icmpv6::Icmpv6::PacketTooBig { mtu, quoted };
        let mut bytes = vec![0; message.emitted_len()];
        icmpv6::emit(&router, &src, &message, &mut bytes);
        Some(ip_packet(router, src, Proto::ICMPV6, 64, &bytes))
    }
}

/// Cuts an IPv4 packet without options into fragments of at most `mtu` bytes (RFC 791 3.2).
pub fn fragment_v4(packet: &[u8], mtu: usize) -> Vec<Vec<u8>> {
    let Ok(ip) = ipv4::check(packet, false) else { return Vec::new() };
    let step = (mtu - ipv4::HEADER_LEN) / 8 * 8;
    let count = ip.payload().len().div_ceil(step);
    let piece = |(i, part): (usize, &[u8])| {
        let header = ipv4::Header {
            src: ip.src(),
            dst: ip.dst(),
            proto: ip.proto(),
            tos: ip.tos(),
            ttl: ip.ttl(),
            id: ip.id(),
            dont_fragment: false,
            more_fragments: ip.more_fragments() || i + 1 < count,
            fragment_offset: ip.fragment_offset() + (i * step) as u16,
            payload_len: part.len() as u16,
        };
        let mut bytes = vec![0; ipv4::HEADER_LEN];
        ipv4::emit(&header, &mut bytes);
        bytes.extend_from_slice(part);
        bytes
    };
    ip.payload().chunks(step).enumerate().map(piece).collect()
}

#[cfg(test)]
mod tests;
