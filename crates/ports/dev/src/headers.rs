//! What a frame is, as far as filters and rules ask: addresses, protocol, ports, fragments.
//!
//! The first bytes of a frame are enough, and nothing is checked that is not needed to find the
//! next header: whatever the stack takes is read here with the same result, and much that it
//! refuses is read too.

use clearway_wire::{Addr, EtherType, Proto, eth, ipv6, ipv6_ext};

/// Which part of a datagram a packet carries.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// All of it.
    Whole,
    /// The beginning, more follows.
    First,
    /// A later part, which has no transport header.
    Later,
}

/// The headers of an IP packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Headers {
    /// Who sends.
    pub src: Addr,
    /// Who shall have it.
    pub dst: Addr,
    /// The protocol above IP and, in IPv6, above its extension headers. None where it is not to be
    /// seen: in a later fragment of IPv6 whose fragmented part begins with an extension header, or
    /// a chain of headers that goes on behind the bytes at hand.
    pub proto: Option<Proto>,
    /// Source and destination port, when the protocol is TCP or UDP and they are at hand.
    pub ports: Option<(u16, u16)>,
    /// Which part of its datagram this is.
    pub part: Part,
    /// Bytes of the frame up to the packet's end, as the packet itself says.
    pub frame_len: usize,
}

impl Headers {
    /// Reads a frame, or the first bytes of one; None when it holds no IP packet (ARP, for
    /// example).
    pub fn of(head: &[u8], ethernet: bool) -> Option<Headers> {
        let ip_at = if ethernet {
            let eth = eth::check(head).ok()?;
            let is_ip = eth.ethertype() == EtherType::IPV4 || eth.ethertype() == EtherType::IPV6;
            is_ip.then_some(eth.payload_offset())?
        } else {
            0
        };
        let packet = head.get(ip_at..)?;
        let mut headers = match packet.first()? >> 4 {
            4 => read_v4(packet)?,
            6 => read_v6(packet)?,
            _ => return None,
        };
        headers.frame_len += ip_at;
        Some(headers)
    }
}

/// RFC 791 3.1.
fn read_v4(packet: &[u8]) -> Option<Headers> {
    let header = packet.first_chunk::<20>()?;
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total_len = usize::from(u16_at(header, 2)?);
    let fragment = u16_at(header, 6)?;
    let part = Part::of(fragment & 0x1fff, fragment & 0x2000 != 0);
    let transport = packet.get(header_len..).unwrap_or_default();
    let transport = &transport[..transport.len().min(total_len.saturating_sub(header_len))];
    let proto = Proto(header[9]);
    let addr = |at: usize| Some(Addr::v4(*header.get(at..)?.first_chunk()?));
    let ports = ports(proto, part, transport);
    Some(Headers {
        src: addr(12)?,
        dst: addr(16)?,
        proto: Some(proto),
        ports,
        part,
        frame_len: total_len,
    })
}

/// RFC 8200 3 and 4.
fn read_v6(packet: &[u8]) -> Option<Headers> {
    let header = packet.first_chunk::<{ ipv6::HEADER_LEN }>()?;
    let payload_len = usize::from(u16_at(header, 4)?);
    let addr = |at: usize| Some(Addr::v6(*header.get(at..)?.first_chunk()?));
    let payload = &packet[ipv6::HEADER_LEN..];
    let payload = &payload[..payload.len().min(payload_len)];
    let (proto, part, transport) = follow(Proto(header[6]), payload);
    let ports = proto.and_then(|proto| ports(proto, part, transport));
    let frame_len = ipv6::HEADER_LEN + payload_len;
    Some(Headers { src: addr(8)?, dst: addr(24)?, proto, ports, part, frame_len })
}

/// Follows a chain of extension headers to the upper protocol and its bytes.
fn follow(mut next: Proto, mut bytes: &[u8]) -> (Option<Proto>, Part, &[u8]) {
    let mut part = Part::Whole;
    for _ in 0..=ipv6_ext::MAX_HEADERS {
        let len = match next {
            Proto::FRAGMENT => ipv6_ext::FRAGMENT_LEN,
            Proto::HOP_BY_HOP | Proto::ROUTING | Proto::DEST_OPTIONS if part == Part::Later => {
                break;
            }
            // RFC 8200 4.3: the length counts units of eight bytes and leaves the first out.
            Proto::HOP_BY_HOP | Proto::ROUTING | Proto::DEST_OPTIONS => {
                bytes.get(1).map_or(8, |units| (usize::from(*units) + 1) * 8)
            }
            _ => return (Some(next), part, bytes),
        };
        let Some((header, rest)) = bytes.split_at_checked(len) else { break };
        if next == Proto::FRAGMENT && part == Part::Whole {
            let field = u16_at(header, 2).unwrap_or(0);
            part = Part::of(field >> 3, field & 1 != 0);
        }
        (next, bytes) = (Proto(header[0]), rest);
    }
    (None, part, &[])
}

impl Part {
    fn of(offset: u16, more: bool) -> Part {
        match (offset, more) {
            (0, false) => Part::Whole,
            (0, true) => Part::First,
            _ => Part::Later,
        }
    }
}

fn ports(proto: Proto, part: Part, transport: &[u8]) -> Option<(u16, u16)> {
    let has_ports = part != Part::Later && (proto == Proto::TCP || proto == Proto::UDP);
    Some((u16_at(transport, 0)?, u16_at(transport, 2)?)).filter(|_| has_ports)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
