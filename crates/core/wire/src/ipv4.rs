//! IPv4 headers (RFC 791, RFC 1122 3.2.1).

use crate::addr::Addr;
use crate::bytes::{head, put16, u16_at};
use crate::checksum::{self, Sum};
use crate::ip::{Ecn, Proto};
use crate::malformed::Malformed;

/// Bytes of a header without options, the only kind we send.
pub const HEADER_LEN: usize = 20;
/// The longest packet, header included.
pub const MAX_LEN: usize = 65535;

/// DF in the field of flags and fragment offset (RFC 791 3.1).
pub const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;

/// The least that a TCP segment has.
const TCP_HEADER_LEN: usize = 20;

/// A first TCP fragment must reach past the flags (RFC 1858 3.2.1: at least 16 bytes of the
/// transport header).
const TCP_FIRST_FRAGMENT_MIN: usize = 16;

/// A packet whose header is sound and whose payload is cut to the length that the header says.
#[derive(Clone, Copy)]
pub struct Ipv4<'a> {
    header: &'a [u8; HEADER_LEN],
    options: &'a [u8],
    payload: &'a [u8],
}

/// Looks at a packet. Bytes beyond the total length are link padding and are cut off.
///
/// `verify_checksum` is false when the device has verified the header already.
#[inline]
pub fn check(packet: &[u8], verify_checksum: bool) -> Result<Ipv4<'_>, Malformed> {
    let Some(header) = packet.first_chunk::<HEADER_LEN>() else {
        return Err(Malformed::Ipv4TooShort);
    };
    if header[0] != 0x45 {
        return check_with_options(packet, header, verify_checksum);
    }
    let total_len = usize::from(u16_at(header, 2));
    let Some(payload) = packet.get(HEADER_LEN..total_len) else {
        return Err(Malformed::Ipv4BadLength);
    };
    if verify_checksum && !checksum::sum_words(header).is_valid() {
        return Err(Malformed::Ipv4BadChecksum);
    }
    let view = Ipv4 { header, options: &[], payload };
    if view.is_fragment() { check_fragment(view) } else { Ok(view) }
}

/// What [`plain_tcp`] reads of a packet.
#[derive(Clone, Copy)]
pub struct PlainTcp<'a> {
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
    /// The source port in the upper half, the destination port in the lower: as they stand.
    pub ports: u32,
    /// The segment, at least a TCP header long, without padding.
    pub segment: &'a [u8],
}

impl PlainTcp<'_> {
    /// Source port.
    #[inline(always)]
    pub fn src_port(&self) -> u16 {
        (self.ports >> 16) as u16
    }

    /// Destination port.
    #[inline(always)]
    pub fn dst_port(&self) -> u16 {
        self.ports as u16
    }

    /// Whether the segment's checksum is right.
    #[inline(always)]
    pub fn checksum_is_valid(&self) -> bool {
        // The total length fits 16 bits.
        let len = self.segment.len() as u16;
        checksum::sum_from(checksum::pseudo_v4(self.src, self.dst, Proto::TCP, len), self.segment)
            .is_valid()
    }
}

/// A whole TCP segment behind a sound header without options, read at one go. None: the packet is
/// something else, and [`check`] says what.
#[inline(always)]
pub fn plain_tcp(packet: &[u8]) -> Option<PlainTcp<'_>> {
    let (header, rest) = packet.split_first_chunk::<HEADER_LEN>()?;
    let ports = rest.first_chunk::<4>()?;
    let segment = rest.get(..usize::from(u16_at(header, 2)).wrapping_sub(HEADER_LEN))?;
    // Version and header length, and that it is no fragment, in one look at the first eight bytes.
    let first = u64::from_be_bytes(*header.first_chunk()?);
    const PLAIN: u64 = 0x45 << 56;
    const PLAIN_MASK: u64 = 0xff << 56 | (MORE_FRAGMENTS | OFFSET_MASK) as u64;
    let is_plain =
        first & PLAIN_MASK == PLAIN && header[9] == Proto::TCP.0 && segment.len() >= TCP_HEADER_LEN;
    (is_plain && checksum::sum_five_words(header).is_valid()).then(|| PlainTcp {
        src: *header[12..].first_chunk().unwrap_or(&[0; 4]),
        dst: *header[16..].first_chunk().unwrap_or(&[0; 4]),
        ports: u32::from_be_bytes(*ports),
        segment,
    })
}

#[cold]
fn check_with_options<'a>(
    packet: &'a [u8],
    header: &'a [u8; HEADER_LEN],
    verify_checksum: bool,
) -> Result<Ipv4<'a>, Malformed> {
    if header[0] >> 4 != 4 {
        return Err(Malformed::Ipv4BadVersion);
    }
    let header_len = usize::from(header[0] & 15) * 4;
    let Some(options) = packet.get(HEADER_LEN..header_len) else {
        let too_short = header_len < HEADER_LEN;
        return Err(if too_short {
            Malformed::Ipv4HeaderTooShort
        } else {
            Malformed::Ipv4BadLength
        });
    };
    let Some(payload) = packet.get(header_len..usize::from(u16_at(header, 2))) else {
        return Err(Malformed::Ipv4BadLength);
    };
    if verify_checksum && !checksum::sum_words(header).combine(checksum::sum(options)).is_valid() {
        return Err(Malformed::Ipv4BadChecksum);
    }
    if Options(options).any(|o| o.is_err()) {
        return Err(Malformed::Ipv4BadOption);
    }
    let view = Ipv4 { header, options, payload };
    if view.is_fragment() { check_fragment(view) } else { Ok(view) }
}

/// RFC 791 3.2: all fragments but the last carry a multiple of 8 bytes, and no datagram is longer
/// than 65535.
#[cold]
fn check_fragment(view: Ipv4<'_>) -> Result<Ipv4<'_>, Malformed> {
    let len = view.payload.len();
    let end = view.header_len() + usize::from(view.fragment_offset()) + len;
    if len == 0 || end > MAX_LEN || (view.more_fragments() && len % 8 != 0) {
        return Err(Malformed::Ipv4BadFragment);
    }
    if view.proto() == Proto::TCP {
        // An offset of 8 would overwrite the TCP flags of the first fragment (RFC 3128 2).
        let hides_flags = view.fragment_offset() == 0 && len < TCP_FIRST_FRAGMENT_MIN;
        if hides_flags || view.fragment_offset() == 8 {
            return Err(Malformed::Ipv4TinyFragment);
        }
    }
    Ok(view)
}

impl<'a> Ipv4<'a> {
    /// Type of service: DSCP and ECN.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.header[1]
    }

    /// The congestion bits of the type of service.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        Ecn::of(self.tos())
    }

    /// 20–60 bytes.
    #[inline]
    pub fn header_len(&self) -> usize {
        HEADER_LEN + self.options.len()
    }

    /// Header and payload in bytes.
    #[inline]
    pub fn total_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    /// The identification that the fragments of one datagram share.
    #[inline]
    pub fn id(&self) -> u16 {
        u16_at(self.header, 4)
    }

    #[inline]
    fn fragment_field(&self) -> u16 {
        u16_at(self.header, 6)
    }

    /// The DF bit.
    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.fragment_field() & DONT_FRAGMENT != 0
    }

    /// The MF bit: this is not the last fragment.
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.fragment_field() & MORE_FRAGMENTS != 0
    }

    /// Where the payload stands in the whole datagram's payload, in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (self.fragment_field() & OFFSET_MASK) << 3
    }

    /// Whether the payload is only a part of a datagram.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.fragment_field() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    /// Hops that were left.
    #[inline]
    pub fn ttl(&self) -> u8 {
        self.header[8]
    }

    /// The upper protocol.
    #[inline]
    pub fn proto(&self) -> Proto {
        Proto(self.header[9])
    }

    /// Source address; whether it may be a source is the receiver's question.
    #[inline]
    pub fn src(&self) -> Addr {
        let h = self.header;
        Addr::v4([h[12], h[13], h[14], h[15]])
    }

    /// Destination address.
    #[inline]
    pub fn dst(&self) -> Addr {
        let h = self.header;
        Addr::v4([h[16], h[17], h[18], h[19]])
    }

    /// The option bytes, well formed, 0–40.
    #[inline]
    pub fn options(&self) -> &'a [u8] {
        self.options
    }

    /// A loose or strict source route is among the options (RFC 791 3.1, option types 131 and 137).
    pub fn has_source_route(&self) -> bool {
        Options(self.options).any(|o| matches!(o, Ok(131 | 137)))
    }

    /// The payload without padding.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// The types of the options in a list. It ends at an error, so it always ends.
struct Options<'a>(&'a [u8]);

impl Iterator for Options<'_> {
    type Item = Result<u8, Malformed>;
    fn next(&mut self) -> Option<Self::Item> {
        let (&kind, rest) = self.0.split_first()?;
        self.0 = match kind {
            0 => return None,
            1 => rest,
            _ => match rest.first().map(|len| (usize::from(*len), self.0)) {
                Some((len, list)) if len >= 2 && len <= list.len() => &list[len..],
                _ => {
                    self.0 = &[];
                    return Some(Err(Malformed::Ipv4BadOption));
                }
            },
        };
        Some(Ok(kind))
    }
}

/// The fields of a header that we write.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// Source, IPv4.
    pub src: Addr,
    /// Destination, IPv4.
    pub dst: Addr,
    /// The upper protocol.
    pub proto: Proto,
    /// Type of service: DSCP and ECN.
    pub tos: u8,
    /// Hop limit.
    pub ttl: u8,
    /// Identification; without meaning when the packet is whole and must not be fragmented (RFC
    /// 6864 4).
    pub id: u16,
    /// The DF bit.
    pub dont_fragment: bool,
    /// The MF bit.
    pub more_fragments: bool,
    /// Bytes, a multiple of 8; lower bits are lost.
    pub fragment_offset: u16,
    /// Bytes behind the header, at most 65515; what is more is lost, and a port that segments
    /// writes the field anew.
    pub payload_len: u16,
}

/// Writes a header with its checksum and returns [`HEADER_LEN`].
///
/// # Panics
/// When `out` is shorter than that.
#[inline(always)]
pub fn emit(header: &Header, out: &mut [u8]) -> usize {
    let h = head::<HEADER_LEN>(out);
    h[0] = 0x45;
    h[1] = header.tos;
    put16(h, 2, header.payload_len.wrapping_add(HEADER_LEN as u16));
    put16(h, 4, header.id);
    let flags = u16::from(header.dont_fragment) << 14 | u16::from(header.more_fragments) << 13;
    put16(h, 6, flags | header.fragment_offset >> 3);
    h[8] = header.ttl;
    h[9] = header.proto.0;
    put16(h, 10, 0);
    let (src, dst) = (header.src.v4_octets(), header.dst.v4_octets());
    h[12..16].copy_from_slice(&src);
    h[16..20].copy_from_slice(&dst);
    // Summed from the fields, because the bytes just written would have to be read back.
    let sum = u64::from(u16_at(h, 0))
        + u64::from(header.payload_len.wrapping_add(HEADER_LEN as u16))
        + u64::from(header.id)
        + u64::from(flags | header.fragment_offset >> 3)
        + (u64::from(header.ttl) << 8 | u64::from(header.proto.0))
        + u64::from(u32::from_be_bytes(src))
        + u64::from(u32::from_be_bytes(dst));
    put16(h, 10, !checksum::folded(sum));
    HEADER_LEN
}

/// Bytes of a header with the router alert option.
pub const ROUTER_ALERT_HEADER_LEN: usize = HEADER_LEN + 4;

/// As [`emit`], with the router alert option (RFC 2113 2.1): routers look at the packet although it
/// is not for them. Returns [`ROUTER_ALERT_HEADER_LEN`].
///
/// # Panics
/// When `out` is shorter than that.
pub fn emit_with_router_alert(header: &Header, out: &mut [u8]) -> usize {
    let payload_len = header.payload_len.wrapping_add(4);
    emit(&Header { payload_len, ..*header }, out);
    let h = head::<ROUTER_ALERT_HEADER_LEN>(out);
    h[0] = 0x46;
    h[HEADER_LEN..].copy_from_slice(&[148, 4, 0, 0]);
    put16(h, 10, 0);
    let sum = checksum::sum(h).finish();
    put16(h, 10, sum);
    ROUTER_ALERT_HEADER_LEN
}

/// Writes the header of a packet of TCP that is whole and must stay so, as [`emit`] would, and
/// returns the sum of its addresses.
///
/// # Panics
/// When `out` is shorter than a header.
#[inline(always)]
pub fn emit_plain_tcp(
    src: [u8; 4],
    dst: [u8; 4],
    tos: u8,
    ttl: u8,
    payload_len: u16,
    out: &mut [u8],
) -> Sum {
    let h = head::<HEADER_LEN>(out);
    let [len_high, len_low] = payload_len.wrapping_add(HEADER_LEN as u16).to_be_bytes();
    let [flags_high, flags_low] = DONT_FRAGMENT.to_be_bytes();
    // RFC 6864 4.1: in a packet that may not be fragmented the identification means nothing, and so
    // it betrays nothing.
    let words =
        [[0x45, tos, len_high, len_low], [0, 0, flags_high, flags_low], [ttl, Proto::TCP.0, 0, 0]];
    let addresses = checksum::addresses_v4(src, dst);
    let sum = checksum::of_words(words, addresses);
    h[0..4].copy_from_slice(&words[0]);
    h[4..8].copy_from_slice(&words[1]);
    h[8..12].copy_from_slice(&[ttl, Proto::TCP.0, sum[0], sum[1]]);
    h[12..16].copy_from_slice(&src);
    h[16..20].copy_from_slice(&dst);
    addresses
}

#[cfg(test)]
mod tests;
