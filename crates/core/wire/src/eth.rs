//! Ethernet II frames with up to two VLAN tags (IEEE 802.3, 802.1Q, 802.1ad).

use core::fmt;

use crate::addr::Addr;
use crate::bytes::{head, u16_at};
use crate::malformed::Malformed;

/// Bytes of a header without tags.
pub const HEADER_LEN: usize = 14;
/// Bytes of one VLAN tag.
pub const TAG_LEN: usize = 4;
/// Tags that are looked through: a customer tag inside a service tag.
pub const MAX_TAGS: usize = 2;

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Every link address on the link.
    pub const BROADCAST: Mac = Mac([0xff; 6]);
    /// No address: the unknown target of an ARP request.
    pub const ZERO: Mac = Mac([0; 6]);

    /// The group bit is set; the broadcast address is a group too.
    #[inline]
    pub const fn is_multicast(&self) -> bool {
        self.0[0] & 1 != 0
    }

    /// All ones.
    #[inline]
    pub fn is_broadcast(&self) -> bool {
        *self == Mac::BROADCAST
    }

    /// The link address of an IP multicast group: `01:00:5e` and the low 23 bits for IPv4 (RFC 1112
    /// 6.4), `33:33` and the low 32 bits for IPv6 (RFC 2464 7). None when `group` is not multicast.
    pub fn of_group(group: &Addr) -> Option<Mac> {
        let [.., b, c, d, e] = *group.octets();
        match (group.is_multicast(), group.is_v4()) {
            (false, _) => None,
            (true, true) => Some(Mac([1, 0, 0x5e, c & 0x7f, d, e])),
            (true, false) => Some(Mac([0x33, 0x33, b, c, d, e])),
        }
    }
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not an Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MacParseError;

impl fmt::Display for MacParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected six pairs of hexadecimal digits, such as 02:00:00:00:00:01")
    }
}

impl core::error::Error for MacParseError {}

impl core::str::FromStr for Mac {
    type Err = MacParseError;
    fn from_str(s: &str) -> Result<Mac, MacParseError> {
        let separator = if s.contains('-') { '-' } else { ':' };
        let mut mac = Mac::ZERO;
        let mut parts = s.split(separator);
        for byte in &mut mac.0 {
            let part = parts.next().ok_or(MacParseError)?;
            // `from_str_radix` would take a sign, so the digits are looked at first.
            if part.len() != 2 || !part.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(MacParseError);
            }
            *byte = u8::from_str_radix(part, 16).map_err(|_| MacParseError)?;
        }
        if parts.next().is_some() { Err(MacParseError) } else { Ok(mac) }
    }
}

/// What the payload of a frame is. Values below 0x600 are lengths of old 802.3 frames.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    /// IPv4 (RFC 894).
    pub const IPV4: EtherType = EtherType(0x0800);
    /// ARP (RFC 826).
    pub const ARP: EtherType = EtherType(0x0806);
    /// A customer VLAN tag (IEEE 802.1Q).
    pub const VLAN: EtherType = EtherType(0x8100);
    /// A service VLAN tag (IEEE 802.1ad).
    pub const SERVICE_VLAN: EtherType = EtherType(0x88a8);
    /// IPv6 (RFC 2464).
    pub const IPV6: EtherType = EtherType(0x86dd);

    #[inline]
    fn is_tag(self) -> bool {
        self == EtherType::VLAN || self == EtherType::SERVICE_VLAN
    }
}

impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            EtherType::IPV4 => f.write_str("ipv4"),
            EtherType::ARP => f.write_str("arp"),
            EtherType::VLAN => f.write_str("vlan"),
            EtherType::SERVICE_VLAN => f.write_str("service-vlan"),
            EtherType::IPV6 => f.write_str("ipv6"),
            EtherType(n) => write!(f, "ethertype-0x{n:04x}"),
        }
    }
}

impl fmt::Debug for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The 16 bits of a VLAN tag: priority, drop eligibility, VLAN id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag(pub u16);

impl Tag {
    /// The VLAN id, 0–4095; 0 means that the tag only carries a priority.
    #[inline]
    pub const fn id(self) -> u16 {
        self.0 & 0xfff
    }

    /// The priority, 0–7.
    #[inline]
    pub const fn priority(self) -> u8 {
        (self.0 >> 13) as u8
    }
}

/// A frame whose header is whole.
#[derive(Clone, Copy)]
pub struct Eth<'a> {
    header: &'a [u8; HEADER_LEN],
    ethertype: EtherType,
    tags: [Tag; MAX_TAGS],
    tag_count: u8,
    payload: &'a [u8],
}

/// Looks at a frame; the payload keeps the padding of short frames, which the IP checks cut off.
#[inline]
pub fn check(frame: &[u8]) -> Result<Eth<'_>, Malformed> {
    let Some((header, payload)) = frame.split_first_chunk::<HEADER_LEN>() else {
        return Err(Malformed::EthTooShort);
    };
    let ethertype = EtherType(u16_at(header, 12));
    let eth = Eth { header, ethertype, tags: [Tag(0); MAX_TAGS], tag_count: 0, payload };
    if ethertype.is_tag() { check_tags(eth) } else { Ok(eth) }
}

#[cold]
fn check_tags(mut eth: Eth<'_>) -> Result<Eth<'_>, Malformed> {
    while eth.ethertype.is_tag() {
        let Some((tag, payload)) = eth.payload.split_first_chunk::<TAG_LEN>() else {
            return Err(Malformed::EthTooShort);
        };
        let Some(place) = eth.tags.get_mut(usize::from(eth.tag_count)) else {
            return Err(Malformed::EthTooManyTags);
        };
        *place = Tag(u16_at(tag, 0));
        eth.tag_count += 1;
        eth.ethertype = EtherType(u16_at(tag, 2));
        eth.payload = payload;
    }
    Ok(eth)
}

impl<'a> Eth<'a> {
    /// The link address the frame is for.
    #[inline]
    pub fn dst(&self) -> Mac {
        let h = self.header;
        Mac([h[0], h[1], h[2], h[3], h[4], h[5]])
    }

    /// The link address the frame is from.
    #[inline]
    pub fn src(&self) -> Mac {
        let h = self.header;
        Mac([h[6], h[7], h[8], h[9], h[10], h[11]])
    }

    /// What the payload is, behind any tags.
    #[inline]
    pub fn ethertype(&self) -> EtherType {
        self.ethertype
    }

    /// The tags, outermost first; none in most frames.
    #[inline]
    pub fn tags(&self) -> &[Tag] {
        &self.tags[..usize::from(self.tag_count).min(MAX_TAGS)]
    }

    /// The VLAN of the innermost tag. None without a tag, and for a tag that only carries a
    /// priority (id 0).
    #[inline]
    pub fn vlan(&self) -> Option<u16> {
        self.tags().last().map(|t| t.id()).filter(|id| *id != 0)
    }

    /// Where the payload begins in the frame: 14, 18 or 22.
    #[inline]
    pub fn payload_offset(&self) -> usize {
        HEADER_LEN + TAG_LEN * usize::from(self.tag_count)
    }

    /// What follows the header and tags.
    #[inline]
    pub fn payload(&self) -> &'a [u8] {
        self.payload
    }
}

/// Writes an untagged header and returns [`HEADER_LEN`].
///
/// # Panics
/// When `out` is shorter than that.
#[inline]
pub fn emit(dst: Mac, src: Mac, ethertype: EtherType, out: &mut [u8]) -> usize {
    let h = head::<HEADER_LEN>(out);
    h[..6].copy_from_slice(&dst.0);
    h[6..12].copy_from_slice(&src.0);
    h[12..].copy_from_slice(&ethertype.0.to_be_bytes());
    HEADER_LEN
}

/// Writes a header with tags, outermost first, and returns its length. One tag is a customer tag,
/// the outer of two a service tag; more than two are not written.
///
/// # Panics
/// When `out` is shorter than the header.
pub fn emit_tagged(
    dst: Mac,
    src: Mac,
    tags: &[Tag],
    ethertype: EtherType,
    out: &mut [u8],
) -> usize {
    let tags = &tags[..tags.len().min(MAX_TAGS)];
    let outer = match tags.len() {
        0 => ethertype,
        1 => EtherType::VLAN,
        _ => EtherType::SERVICE_VLAN,
    };
    let mut at = emit(dst, src, outer, out);
    for (i, tag) in tags.iter().enumerate() {
        let inner = if i + 1 < tags.len() { EtherType::VLAN } else { ethertype };
        out[at..at + 2].copy_from_slice(&tag.0.to_be_bytes());
        out[at + 2..at + 4].copy_from_slice(&inner.0.to_be_bytes());
        at += TAG_LEN;
    }
    at
}

#[cfg(test)]
mod tests;
