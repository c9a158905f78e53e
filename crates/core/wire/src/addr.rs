//! IPv4 and IPv6 addresses as one type, so that tables, checksums and keys are written once over
//! both.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// An IPv4 or IPv6 address in 16 bytes; IPv4 stands in its mapped form `::ffff:a.b.c.d` (RFC 4291
/// 2.5.5.2).
///
/// A mapped address can never come off the wire in an IPv6 header: the IPv6 check refuses it as
/// malformed, so the two families cannot be confused by a hostile packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Addr([u8; 16]);

const MAPPED: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff];

impl Addr {
    /// The IPv4 wildcard `0.0.0.0`.
    pub const ANY_V4: Addr = Addr::v4([0, 0, 0, 0]);
    /// The IPv6 wildcard `::`.
    pub const ANY_V6: Addr = Addr([0; 16]);

    /// Every node on the link, `ff02::1` (RFC 4291 2.7.1).
    pub const ALL_NODES: Addr = Addr([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]);
    /// Every router on the link, `ff02::2`.
    pub const ALL_ROUTERS: Addr = Addr([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);

    /// An IPv4 address from its four bytes.
    #[inline]
    pub const fn v4(b: [u8; 4]) -> Addr {
        Addr([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, b[0], b[1], b[2], b[3]])
    }

    /// An IPv6 address from its sixteen bytes.
    #[inline]
    pub const fn v6(b: [u8; 16]) -> Addr {
        Addr(b)
    }

    /// True for IPv4.
    #[inline]
    pub fn is_v4(&self) -> bool {
        self.0[..12] == MAPPED
    }

    /// True for IPv6.
    #[inline]
    pub fn is_v6(&self) -> bool {
        !self.is_v4()
    }

    /// All sixteen bytes, IPv4 mapped.
    #[inline]
    pub const fn octets(&self) -> &[u8; 16] {
        &self.0
    }

    /// The four bytes of an IPv4 address (the last four of an IPv6 address).
    #[inline]
    pub const fn v4_octets(&self) -> [u8; 4] {
        [self.0[12], self.0[13], self.0[14], self.0[15]]
    }

    /// The bytes as they stand in a packet: four or sixteen.
    pub fn wire_bytes(&self) -> &[u8] {
        if self.is_v4() { &self.0[12..] } else { &self.0 }
    }

    /// The wildcard of either family.
    #[inline]
    pub fn is_unspecified(&self) -> bool {
        *self == Addr::ANY_V4 || *self == Addr::ANY_V6
    }

    /// A multicast address of either family (224.0.0.0/4, ff00::/8).
    #[inline]
    pub fn is_multicast(&self) -> bool {
        if self.is_v4() { self.0[12] & 0xf0 == 0xe0 } else { self.0[0] == 0xff }
    }

    /// The limited broadcast 255.255.255.255.
    pub fn is_limited_broadcast(&self) -> bool {
        *self == Addr::v4([255; 4])
    }

    /// 127.0.0.0/8 or ::1.
    pub fn is_loopback(&self) -> bool {
        if self.is_v4() {
            self.0[12] == 127
        } else {
            self.0 == [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]
        }
    }

    /// 169.254.0.0/16 or fe80::/10.
    pub fn is_link_local(&self) -> bool {
        if self.is_v4() {
            self.0[12..14] == [169, 254]
        } else {
            self.0[0] == 0xfe && self.0[1] & 0xc0 == 0x80
        }
    }

    /// The group that an IPv6 address is asked for under: `ff02::1:ff00:0` and its low 24 bits (RFC
    /// 4291 2.7.1).
    pub const fn solicited_node(&self) -> Addr {
        Addr([0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, self.0[13], self.0[14], self.0[15]])
    }

    /// Whether the first `prefix_len` bits (counted in the family's own length) are those of
    /// `other`; never across families.
    pub fn shares_prefix(&self, other: &Addr, prefix_len: u8) -> bool {
        let bits = if self.is_v4() {
            96 + usize::from(prefix_len.min(32))
        } else {
            usize::from(prefix_len.min(128))
        };
        if self.is_v4() != other.is_v4() {
            return false;
        }
        let a = u128::from_be_bytes(self.0);
        let b = u128::from_be_bytes(other.0);
        bits == 0 || (a ^ b) >> (128 - bits) == 0
    }
}

impl From<Ipv4Addr> for Addr {
    fn from(a: Ipv4Addr) -> Addr {
        Addr::v4(a.octets())
    }
}

impl From<Ipv6Addr> for Addr {
    fn from(a: Ipv6Addr) -> Addr {
        Addr::v6(a.octets())
    }
}

impl From<IpAddr> for Addr {
    fn from(a: IpAddr) -> Addr {
        match a {
            IpAddr::V4(a) => a.into(),
            IpAddr::V6(a) => a.into(),
        }
    }
}

impl From<Addr> for IpAddr {
    fn from(a: Addr) -> IpAddr {
        if a.is_v4() { IpAddr::V4(a.v4_octets().into()) } else { IpAddr::V6(a.0.into()) }
    }
}

impl core::str::FromStr for Addr {
    type Err = core::net::AddrParseError;
    fn from_str(s: &str) -> Result<Addr, Self::Err> {
        s.parse::<IpAddr>().map(Addr::from)
    }
}

impl fmt::Display for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&IpAddr::from(*self), f)
    }
}

impl fmt::Debug for Addr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address with a prefix length, counted in the family's own bits (24 for a usual IPv4 subnet,
/// 64 for an IPv6 one).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address, host bits kept.
    pub addr: Addr,
    /// 0–32 or 0–128.
    pub prefix_len: u8,
}

impl Cidr {
    /// `addr/prefix_len`; None when the length is beyond the family's.
    pub fn new(addr: Addr, prefix_len: u8) -> Option<Cidr> {
        (prefix_len <= if addr.is_v4() { 32 } else { 128 }).then_some(Cidr { addr, prefix_len })
    }

    /// The directed broadcast of an IPv4 subnet, which is not an address of any host. None for
    /// IPv6, and for prefixes of 31 and 32 bits, which have no broadcast (RFC 3021).
    pub fn broadcast(&self) -> Option<Addr> {
        if !self.addr.is_v4() || self.prefix_len > 30 {
            return None;
        }
        let hosts = u32::MAX >> self.prefix_len;
        Some(Addr::v4((u32::from_be_bytes(self.addr.v4_octets()) | hosts).to_be_bytes()))
    }

    /// Whether `addr` lies in this prefix.
    pub fn contains(&self, addr: &Addr) -> bool {
        self.addr.shares_prefix(addr, self.prefix_len)
    }
}

/// Why a text is not an address with a prefix length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CidrParseError;

impl fmt::Display for CidrParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected ADDRESS/LENGTH, such as 10.0.0.2/24 or 2001:db8::2/64")
    }
}

impl core::error::Error for CidrParseError {}

impl core::str::FromStr for Cidr {
    type Err = CidrParseError;
    fn from_str(s: &str) -> Result<Cidr, CidrParseError> {
        let (addr, len) = s.split_once('/').ok_or(CidrParseError)?;
        let addr = addr.parse().map_err(|_| CidrParseError)?;
        Cidr::new(addr, len.parse().map_err(|_| CidrParseError)?).ok_or(CidrParseError)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix_len)
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An address and a port.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The address.
    pub addr: Addr,
    /// The port; 0 where none is meant.
    pub port: u16,
}

impl Endpoint {
    /// `addr` and `port`.
    pub const fn new(addr: Addr, port: u16) -> Endpoint {
        Endpoint { addr, port }
    }
}

impl From<SocketAddr> for Endpoint {
    fn from(a: SocketAddr) -> Endpoint {
        Endpoint::new(a.ip().into(), a.port())
    }
}

impl From<Endpoint> for SocketAddr {
    fn from(e: Endpoint) -> SocketAddr {
        SocketAddr::new(e.addr.into(), e.port)
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&SocketAddr::from(*self), f)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
