//! What IPv4 and IPv6 have in common: protocol numbers, ECN, and the packet quoted inside an ICMP
//! error.

use core::fmt;

use crate::addr::Addr;
use crate::bytes::{u16_at, u32_at};
use crate::ipv6_ext;
use crate::malformed::Malformed;
use crate::seq::Seq;

/// An IP protocol number, or next header (IANA "Protocol Numbers").
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Proto(pub u8);

impl Proto {
    /// IPv6 hop-by-hop options (RFC 8200 4.3).
    pub const HOP_BY_HOP: Proto = Proto(0);
    /// ICMP for IPv4 (RFC 792).
    pub const ICMP: Proto = Proto(1);
    /// IGMP (RFC 3376).
    pub const IGMP: Proto = Proto(2);
    /// TCP (RFC 9293).
    pub const TCP: Proto = Proto(6);
    /// UDP (RFC 768).
    pub const UDP: Proto = Proto(17);
    /// IPv6 routing header (RFC 8200 4.4).
    pub const ROUTING: Proto = Proto(43);
    /// IPv6 fragment header (RFC 8200 4.5).
    pub const FRAGMENT: Proto = Proto(44);
    /// IPsec encapsulating security payload (RFC 4303).
    pub const ESP: Proto = Proto(50);
    /// IPsec authentication header (RFC 4302).
    pub const AH: Proto = Proto(51);
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: Proto = Proto(58);
    /// Nothing follows (RFC 8200 4.7).
    pub const NO_NEXT: Proto = Proto(59);
    /// IPv6 destination options (RFC 8200 4.6).
    pub const DEST_OPTIONS: Proto = Proto(60);
}

impl fmt::Display for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            Proto::HOP_BY_HOP => "hop-by-hop",
            Proto::ICMP => "icmp",
            Proto::IGMP => "igmp",
            Proto::TCP => "tcp",
            Proto::UDP => "udp",
            Proto::ROUTING => "routing",
            Proto::FRAGMENT => "fragment",
            Proto::ESP => "esp",
            Proto::AH => "ah",
            Proto::ICMPV6 => "icmp6",
            Proto::NO_NEXT => "no-next-header",
            Proto::DEST_OPTIONS => "dest-options",
            Proto(n) => return write!(f, "proto-{n}"),
        };
        f.write_str(name)
    }
}

impl fmt::Debug for Proto {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The explicit congestion notification field, the low two bits of TOS or traffic class (RFC 3168
/// 5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum Ecn {
    /// The transport does not take part.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint 1.
    Ect1 = 1,
    /// ECN-capable, codepoint 0.
    Ect0 = 2,
    /// Congestion was met on the way.
    Ce = 3,
}

impl Ecn {
    /// The field of a TOS or traffic class byte.
    #[inline]
    pub const fn of(tos: u8) -> Ecn {
        match tos & 3 {
            0 => Ecn::NotEct,
            1 => Ecn::Ect1,
            2 => Ecn::Ect0,
            _ => Ecn::Ce,
        }
    }
}

/// The version nibble of an IP packet: 4, 6, or what else came. None for an empty packet.
#[inline]
pub fn version(packet: &[u8]) -> Option<u8> {
    packet.first().map(|b| b >> 4)
}

/// The packet inside an ICMP error, as far as it was quoted: enough to find whose it was.
///
/// Nothing here was ever verified by a checksum, and a stranger can write all of it (RFC 5927):
/// compare it with state before believing it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quote<'a> {
    /// Source of the quoted packet: an address of ours, if the error is honest.
    pub src: Addr,
    /// Destination of the quoted packet.
    pub dst: Addr,
    /// The upper protocol, behind IPv6 extension headers.
    pub proto: Proto,
    /// A fragment other than the first: `upper` is then no transport header.
    pub later_fragment: bool,
    /// The length the quoted packet had by its own header, in bytes with its IP header.
    pub total_len: u32,
    /// What was quoted of the upper header and its data.
    pub upper: &'a [u8],
}

impl Quote<'_> {
    /// Source and destination port of quoted TCP or UDP.
    pub fn ports(&self) -> Option<(u16, u16)> {
        if self.later_fragment || (self.proto != Proto::TCP && self.proto != Proto::UDP) {
            return None;
        }
        let ports = self.upper.first_chunk::<4>()?;
        Some((u16_at(ports, 0), u16_at(ports, 2)))
    }

    /// The sequence number of quoted TCP, to be held against the send window (RFC 5927 4.1).
    pub fn tcp_seq(&self) -> Option<Seq> {
        if self.later_fragment || self.proto != Proto::TCP {
            return None;
        }
        Some(Seq(u32_at(self.upper.first_chunk::<8>()?, 4)))
    }
}

/// Reads the packet quoted in an ICMP error. It is usually cut off, so lengths and checksums are
/// not held against it.
pub fn quote(bytes: &[u8]) -> Result<Quote<'_>, Malformed> {
    match version(bytes) {
        Some(4) => quote_v4(bytes),
        Some(6) => quote_v6(bytes),
        _ => Err(Malformed::IcmpBadQuote),
    }
}

fn quote_v4(bytes: &[u8]) -> Result<Quote<'_>, Malformed> {
    let h = bytes.first_chunk::<20>().ok_or(Malformed::IcmpBadQuote)?;
    let header_len = usize::from(h[0] & 15) * 4;
    if header_len < 20 {
        return Err(Malformed::IcmpBadQuote);
    }
    Ok(Quote {
        src: Addr::v4([h[12], h[13], h[14], h[15]]),
        dst: Addr::v4([h[16], h[17], h[18], h[19]]),
        proto: Proto(h[9]),
        later_fragment: u16_at(h, 6) & 0x1fff != 0,
        total_len: u32::from(u16_at(h, 2)),
        upper: bytes.get(header_len..).ok_or(Malformed::IcmpBadQuote)?,
    })
}

fn quote_v6(bytes: &[u8]) -> Result<Quote<'_>, Malformed> {
    let (h, payload) = bytes.split_first_chunk::<40>().ok_or(Malformed::IcmpBadQuote)?;
    let (src, dst) = crate::ipv6::addresses(h);
    if src.is_v4() || dst.is_v4() {
        return Err(Malformed::IcmpBadQuote);
    }
    let skipped = ipv6_ext::skip(Proto(h[6]), payload).ok_or(Malformed::IcmpBadQuote)?;
    Ok(Quote {
        src,
        dst,
        proto: skipped.upper,
        later_fragment: skipped.later_fragment,
        total_len: 40 + u32::from(u16_at(h, 4)),
        upper: payload.get(skipped.offset..).ok_or(Malformed::IcmpBadQuote)?,
    })
}

#[cfg(test)]
mod tests;
