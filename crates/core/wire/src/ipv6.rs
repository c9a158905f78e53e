//! The fixed IPv6 header (RFC 8200 3). Extension headers are in [`crate::ipv6_ext`].

use crate::addr::Addr;
use crate::bytes::{head, put16, put32, u16_at, u32_at};
use crate::checksum;
use crate::ip::{Ecn, Proto};
use crate::malformed::Malformed;
use crate::tcp::HEADER_LEN as TCP_HEADER_LEN;

/// Bytes of the fixed header.
pub const HEADER_LEN: usize = 40;
/// The MTU that every link carries (RFC 8200 5).
pub const MIN_MTU: usize = 1280;

/// A packet whose fixed header is sound and whose payload is cut to the length that the header
/// says.
#[derive(Clone, Copy)]
pub struct Ipv6<'a> {
    header: &'a [u8; HEADER_LEN],
    payload: &'a [u8],
}

#[inline]
pub(crate) fn addresses(h: &[u8; HEADER_LEN]) -> (Addr, Addr) {
    let (mut src, mut dst) = ([0; 16], [0; 16]);
    src.copy_from_slice(&h[8..24]);
    dst.copy_from_slice(&h[24..40]);
    (Addr::v6(src), Addr::v6(dst))
}

/// Looks at a packet. Bytes beyond the payload length are link padding and are cut off.
#[inline]
pub fn check(packet: &[u8]) -> Result<Ipv6<'_>, Malformed> {
    let Some((header, rest)) = packet.split_first_chunk::<HEADER_LEN>() else {
        return Err(Malformed::Ipv6TooShort);
    };
    if header[0] >> 4 != 6 {
        return Err(Malformed::Ipv6BadVersion);
    }
    let payload_len = usize::from(u16_at(header, 4));
    let Some(payload) = rest.get(..payload_len) else {
        return Err(Malformed::Ipv6BadLength);
    };
    if payload_len == 0 && Proto(header[6]) == Proto::HOP_BY_HOP {
        return Err(Malformed::Ipv6Jumbo);
    }
    let (src, dst) = addresses(header);
    if src.is_v4() || dst.is_v4() {
        return Err(Malformed::Ipv6MappedAddress);
    }
    Ok(Ipv6 { header, payload })
}

impl<'a> Ipv6<'a> {
    /// Traffic class: DSCP and ECN, what IPv4 calls type of service.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        self.header[0] << 4 | self.header[1] >> 4
    }

    /// The congestion bits of the traffic class.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::of(self.traffic_class())
    }

    /// 20 bits (RFC 6437).
    #[inline]
    pub fn flow_label(&self) -> u32 {
        u32_at(self.header, 0) & 0xf_ffff
    }

    /// The first extension header, or the upper protocol.
    #[inline]
    pub fn next(&self) -> Proto {
        Proto(self.header[6])
    }

    /// Hops that were left.
    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.header[7]
    }

    /// Source address; whether it may be a source is the receiver's question.
    #[inline]
    pub fn src(&self) -> Addr {
        addresses(self.header).0
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Addr {
        addresses(self.header).1
    }

    /// Header and payload in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        HEADER_LEN + self.payload.len()
    }

    /// What follows the fixed header, without padding.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// What [`plain_tcp`] reads of a packet.
#[derive(Clone, Copy)]
pub struct PlainTcp<'a> {
    /// Source address.
    pub src: Addr,
    /// Destination address.
    pub dst: Addr,
    /// The source port in the upper half, the destination port in the lower: as they stand.
    pub ports: u32,
    /// The segment, at least a TCP header long, without padding.
    pub segment: &'a [u8],
}

impl PlainTcp<'_> {
    /// Whether the segment's checksum is right.
    #[inline(always)]
    pub fn checksum_is_valid(&self) -> bool {
        let len = self.segment.len() as u32;
        checksum::sum_from(checksum::pseudo(&self.src, &self.dst, Proto::TCP, len), self.segment)
            .is_valid()
    }
}

/// A TCP segment right behind a sound header, read at one go. None: the packet is something else,
/// and [`check`] says what.
#[inline(always)]
pub fn plain_tcp(packet: &[u8]) -> Option<PlainTcp<'_>> {
    let (header, rest) = packet.split_first_chunk::<HEADER_LEN>()?;
    let ports = rest.first_chunk::<4>()?;
    let segment = rest.get(..usize::from(u16_at(header, 4)))?;
    let (src, dst) = addresses(header);
    let is_plain =
        header[0] >> 4 == 6 && header[6] == Proto::TCP.0 && segment.len() >= TCP_HEADER_LEN;
    (is_plain && !src.is_v4() && !dst.is_v4()).then(|| PlainTcp {
        src,
        dst,
        ports: u32::from_be_bytes(*ports),
        segment,
    })
}

/// The fields of a header that we write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Source, IPv6.
    pub src: Addr,
    /// Destination, IPv6.
    pub dst: Addr,
    /// The first extension header, or the upper protocol.
    pub next: Proto,
    /// Traffic class: DSCP and ECN.
    pub traffic_class: u8,
    /// 20 bits; higher bits are lost.
    pub flow_label: u32,
    /// Hop limit.
    pub hop_limit: u8,
    /// Bytes behind the fixed header, extension headers included.
    pub payload_len: u16,
}

/// Writes a header and returns [`HEADER_LEN`].
///
/// # Panics
/// When `out` is shorter than that.
#[inline]
pub fn emit(header: &Header, out: &mut [u8]) -> usize {
    let h = head::<HEADER_LEN>(out);
    put32(h, 0, 6 << 28 | u32::from(header.traffic_class) << 20 | header.flow_label & 0xf_ffff);
    put16(h, 4, header.payload_len);
    h[6] = header.next.0;
    h[7] = header.hop_limit;
    h[8..24].copy_from_slice(header.src.octets());
    h[24..40].copy_from_slice(header.dst.octets());
    HEADER_LEN
}

#[cfg(test)]
mod tests;
