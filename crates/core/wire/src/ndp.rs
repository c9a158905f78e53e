//! Neighbour discovery for IPv6 (RFC 4861 4): router and neighbour solicitations and
//! advertisements, redirects, and their options.

use crate::addr::Addr;
use crate::bytes::{head, put16, put32, u16_at, u32_at};
use crate::eth::Mac;
use crate::malformed::Malformed;

/// Options in one message. A router advertisement that fits the minimum MTU holds at most 38
/// prefixes of 32 bytes; the rest is room.
pub const MAX_OPTIONS: usize = 64;
/// The hop limit of every message: nobody beyond the link can send it (RFC 4861 3.1).
pub const HOP_LIMIT: u8 = 255;

/// A message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ndp<'a> {
    /// Type 133.
    RouterSolicit {
        /// Source link address.
        options: Options<'a>,
    },
    /// Type 134.
    RouterAdvert(Advert<'a>),
    /// Type 135.
    NeighborSolicit {
        /// Whose link address is asked for.
        target: Addr,
        /// Source link address, unless from the unspecified address.
        options: Options<'a>,
    },
    /// Type 136.
    NeighborAdvert {
        /// The sender is a router.
        router: bool,
        /// This answers a solicitation.
        solicited: bool,
        /// A known link address should be replaced.
        override_: bool,
        /// Whose link address is told.
        target: Addr,
        /// Target link address.
        options: Options<'a>,
    },
    /// Type 137.
    Redirect {
        /// The better first hop.
        target: Addr,
        /// For packets to this address.
        destination: Addr,
        /// Target link address, the redirected packet.
        options: Options<'a>,
    },
}

/// What a router says of itself and of the link (RFC 4861 4.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Advert<'a> {
    /// Hop limit to use; 0 when not said.
    pub hop_limit: u8,
    /// Addresses come from DHCPv6.
    pub managed: bool,
    /// Other configuration comes from DHCPv6.
    pub other: bool,
    /// Whether it is to be default router before others (RFC 4191 2.2). The value that is reserved
    /// counts as medium.
    pub preference: Preference,
    /// How long to use the sender as default router; 0 when it is none.
    pub lifetime_s: u16,
    /// How long a neighbour counts as reachable; 0 when not said.
    pub reachable_ms: u32,
    /// Time between solicitations; 0 when not said.
    pub retrans_ms: u32,
    /// Source link address, MTU, prefixes, routes, servers of names.
    pub options: Options<'a>,
}

/// Which router goes before another (RFC 4191 2.1), the least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Preference {
    /// After others.
    Low,
    /// As most.
    #[default]
    Medium,
    /// Before others.
    High,
}

/// A list of options that is well formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options<'a>(&'a [u8]);

/// One option (RFC 4861 4.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NdOption<'a> {
    /// Type 1: the link address of the sender.
    SourceLink(Mac),
    /// Type 2: the link address of the target.
    TargetLink(Mac),
    /// Type 3.
    Prefix(Prefix),
    /// Type 4: as much of the redirected packet as was sent back.
    Redirected(&'a [u8]),
    /// Type 5: the MTU of the link in bytes.
    Mtu(u32),
    /// Type 24.
    Route(RouteInfo),
    /// Type 25.
    Dns(Dns<'a>),
    /// Any other type, or one of those above whose length does not fit (a link address that is not
    /// Ethernet's); `body` is what follows type and length.
    Other {
        /// The type field.
        kind: u8,
        /// 8n + 6 bytes.
        body: &'a [u8],
    },
}

/// A prefix of the link (RFC 4861 4.6.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Prefix {
    /// The prefix; bits beyond its length are without meaning.
    pub prefix: Addr,
    /// 0–128; other values come too, and then the option is to be ignored.
    pub prefix_len: u8,
    /// Addresses in the prefix are on the link.
    pub on_link: bool,
    /// Addresses may be formed from the prefix (RFC 4862).
    pub autonomous: bool,
    /// All ones is for ever.
    pub valid_s: u32,
    /// All ones is for ever.
    pub preferred_s: u32,
}

/// A route by the sender, more specific than its being a default router (RFC 4191 2.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouteInfo {
    /// Where to; bits beyond its length are without meaning.
    pub prefix: Addr,
    /// 0–128; other values come too, and then the option is to be ignored.
    pub prefix_len: u8,
    /// Before which others; None for the value that is reserved, and then the option is to be
    /// ignored.
    pub preference: Option<Preference>,
    /// All ones is for ever.
    pub lifetime_s: u32,
}

/// Servers of names (RFC 8106 5.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Dns<'a> {
    /// All ones is for ever; 0 means that they are to be used no more.
    pub lifetime_s: u32,
    servers: &'a [u8],
}

impl<'a> Dns<'a> {
    /// At least one server; `octets` are their addresses, one after the other.
    ///
    /// None when that is not a whole number of addresses, or more than an option takes.
    pub fn new(lifetime_s: u32, octets: &'a [u8]) -> Option<Dns<'a>> {
        let fits = !octets.is_empty() && octets.len() % 16 == 0 && octets.len() <= 127 * 16;
        fits.then_some(Dns { lifetime_s, servers: octets })
    }

    /// The servers, the best first.
    pub fn servers(&self) -> impl Iterator<Item = Addr> + use<'a> {
        self.servers.chunks_exact(16).filter_map(|b| b.first_chunk().copied()).map(Addr::v6)
    }
}

const SOURCE_LINK: u8 = 1;
const TARGET_LINK: u8 = 2;
const PREFIX: u8 = 3;
const REDIRECTED: u8 = 4;
const MTU: u8 = 5;
const ROUTE: u8 = 24;
const DNS: u8 = 25;

/// Type and code, checksum and four more bytes.
const BASE: usize = 8;

/// Reads and judges a message, type field first, by the rules of RFC 4861 6.1, 7.1 and 8.1. The
/// checksum is not looked at here.
pub(crate) fn check<'a>(
    src: &Addr,
    dst: &Addr,
    hop_limit: u8,
    bytes: &'a [u8],
) -> Result<Ndp<'a>, Malformed> {
    let h = bytes.first_chunk::<BASE>().ok_or(Malformed::NdpTooShort)?;
    if hop_limit != HOP_LIMIT {
        return Err(Malformed::NdpBadHopLimit);
    }
    if h[1] != 0 {
        return Err(Malformed::NdpBadCode);
    }
    match h[0] {
        133 => {
            let options = Options::check(bytes, BASE)?;
            // RFC 4861 6.1.1: who has no address yet cannot be told by its link address.
            if src.is_unspecified() && options.source_link().is_some() {
                return Err(Malformed::NdpBadOption);
            }
            Ok(Ndp::RouterSolicit { options })
        }
        134 => {
            if !src.is_link_local() {
                return Err(Malformed::NdpBadSource);
            }
            Advert::read(bytes).map(Ndp::RouterAdvert)
        }
        135 => check_solicit(src, dst, bytes),
        136 => {
            let (target, options) = (target(bytes)?, Options::check(bytes, 24)?);
            let flags = h[4];
            let solicited = flags & 0x40 != 0;
            if dst.is_multicast() && solicited {
                return Err(Malformed::NdpBadDestination);
            }
            let (router, override_) = (flags & 0x80 != 0, flags & 0x20 != 0);
            Ok(Ndp::NeighborAdvert { router, solicited, override_, target, options })
        }
        _ => check_redirect(src, bytes),
    }
}

impl<'a> Advert<'a> {
    /// Bytes before the options.
    pub const HEADER_LEN: usize = 16;

    /// Reads what [`Advert::header`] and the bytes of the options are, type field first.
    ///
    /// # Errors
    /// [`Malformed::NdpTooShort`] and [`Malformed::NdpBadOption`]. Neither type and code nor the
    /// checksum are looked at, nor who sent it.
    pub fn read(bytes: &'a [u8]) -> Result<Advert<'a>, Malformed> {
        let b = bytes.first_chunk::<16>().ok_or(Malformed::NdpTooShort)?;
        Ok(Advert {
            hop_limit: b[4],
            managed: b[5] & 0x80 != 0,
            other: b[5] & 0x40 != 0,
            preference: preference(b[5]).unwrap_or_default(),
            lifetime_s: u16_at(b, 6),
            reachable_ms: u32_at(b, 8),
            retrans_ms: u32_at(b, 12),
            options: Options::check(bytes, Self::HEADER_LEN)?,
        })
    }

    /// What stands before the options, with a checksum field of 0.
    pub fn header(&self) -> [u8; 16] {
        let mut b = [0; 16];
        b[0] = 134;
        b[4] = self.hop_limit;
        b[5] = u8::from(self.managed) << 7 | u8::from(self.other) << 6 | bits(self.preference);
        put16(&mut b, 6, self.lifetime_s);
        put32(&mut b, 8, self.reachable_ms);
        put32(&mut b, 12, self.retrans_ms);
        b
    }
}

/// Two bits in the midst of a byte (RFC 4191 2.1).
fn preference(flags: u8) -> Option<Preference> {
    match flags >> 3 & 3 {
        0 => Some(Preference::Medium),
        1 => Some(Preference::High),
        3 => Some(Preference::Low),
        _ => None,
    }
}

fn bits(preference: Preference) -> u8 {
    let value = match preference {
        Preference::Medium => 0,
        Preference::High => 1,
        Preference::Low => 3,
    };
    value << 3
}

/// RFC 4861 7.1.1.
fn check_solicit<'a>(src: &Addr, dst: &Addr, bytes: &'a [u8]) -> Result<Ndp<'a>, Malformed> {
    let (target, options) = (target(bytes)?, Options::check(bytes, 24)?);
    if src.is_unspecified() {
        // A probe for a duplicate goes to the solicited-node group, and has no link address to
        // tell.
        if *dst != target.solicited_node() {
            return Err(Malformed::NdpBadDestination);
        }
        if options.source_link().is_some() {
            return Err(Malformed::NdpBadOption);
        }
    }
    Ok(Ndp::NeighborSolicit { target, options })
}

/// RFC 4861 8.1.
fn check_redirect<'a>(src: &Addr, bytes: &'a [u8]) -> Result<Ndp<'a>, Malformed> {
    if !src.is_link_local() {
        return Err(Malformed::NdpBadSource);
    }
    let target = target(bytes)?;
    let destination = addr_at(bytes, 24)?;
    let options = Options::check(bytes, 40)?;
    // The target is a router's link-local address, or the destination itself when it is on the
    // link.
    if destination.is_multicast() || (target != destination && !target.is_link_local()) {
        return Err(Malformed::NdpBadTarget);
    }
    Ok(Ndp::Redirect { target, destination, options })
}

fn addr_at(bytes: &[u8], at: usize) -> Result<Addr, Malformed> {
    let octets =
        bytes.get(at..).and_then(|b| b.first_chunk::<16>()).ok_or(Malformed::NdpTooShort)?;
    let addr = Addr::v6(*octets);
    if addr.is_v4() { Err(Malformed::NdpBadTarget) } else { Ok(addr) }
}

fn target(bytes: &[u8]) -> Result<Addr, Malformed> {
    let target = addr_at(bytes, 8)?;
    if target.is_multicast() { Err(Malformed::NdpBadTarget) } else { Ok(target) }
}

impl<'a> Options<'a> {
    /// No options.
    pub const NONE: Options<'static> = Options(&[]);

    fn check(bytes: &'a [u8], at: usize) -> Result<Options<'a>, Malformed> {
        let list = bytes.get(at..).ok_or(Malformed::NdpTooShort)?;
        let mut rest = list;
        for _ in 0..=MAX_OPTIONS {
            if rest.is_empty() {
                return Ok(Options(list));
            }
            let (option, after) = split(rest).ok_or(Malformed::NdpBadOption)?;
            // RFC 4861 4.6.2–4: the lengths of these are fixed.
            let fits = match option[0] {
                PREFIX => option.len() == 32,
                MTU => option.len() == 8,
                _ => true,
            };
            if !fits {
                return Err(Malformed::NdpBadOption);
            }
            rest = after;
        }
        Err(Malformed::NdpBadOption)
    }

    /// Writes options into `scratch`, for a message to be emitted. Link addresses and the MTU take
    /// 8 bytes each, a prefix 32, a route 24, servers of names 8 and 16 for each; a redirected
    /// packet is cut to a multiple of 8.
    ///
    /// # Panics
    /// When `scratch` is too short.
    pub fn build(scratch: &'a mut [u8], options: &[NdOption<'_>]) -> Options<'a> {
        let mut at = 0;
        for option in options {
            at += emit_option(option, &mut scratch[at..]);
        }
        Options(&scratch[..at])
    }

    /// Their bytes.
    pub fn as_bytes(&self) -> &'a [u8] {
        self.0
    }

    /// The options in order.
    pub fn iter(&self) -> Iter<'a> {
        Iter(self.0)
    }

    /// The first source link address.
    pub fn source_link(&self) -> Option<Mac> {
        self.iter().find_map(|o| if let NdOption::SourceLink(mac) = o { Some(mac) } else { None })
    }

    /// The first target link address.
    pub fn target_link(&self) -> Option<Mac> {
        self.iter().find_map(|o| if let NdOption::TargetLink(mac) = o { Some(mac) } else { None })
    }

    /// The MTU, when told.
    pub fn mtu(&self) -> Option<u32> {
        self.iter().find_map(|o| if let NdOption::Mtu(mtu) = o { Some(mtu) } else { None })
    }

    /// The prefixes in order.
    pub fn prefixes(&self) -> impl Iterator<Item = Prefix> + use<'a> {
        self.iter()
            .filter_map(|o| if let NdOption::Prefix(prefix) = o { Some(prefix) } else { None })
    }
}

/// The first option of a list and the rest. None when its length is 0 (RFC 4861 4.6: discard) or
/// past the end.
fn split(list: &[u8]) -> Option<(&[u8], &[u8])> {
    let len = usize::from(*list.get(1)?) * 8;
    if len == 0 { None } else { list.split_at_checked(len) }
}

/// Goes through options; see [`Options::iter`].
#[derive(Clone, Debug)]
pub struct Iter<'a>(&'a [u8]);

impl<'a> Iterator for Iter<'a> {
    type Item = NdOption<'a>;
    fn next(&mut self) -> Option<NdOption<'a>> {
        let (option, rest) = split(self.0)?;
        self.0 = rest;
        let (first, body) = option.split_first_chunk::<8>()?;
        let mac = Mac([first[2], first[3], first[4], first[5], first[6], first[7]]);
        Some(match (first[0], option.len()) {
            (SOURCE_LINK, 8) => NdOption::SourceLink(mac),
            (TARGET_LINK, 8) => NdOption::TargetLink(mac),
            (MTU, 8) => NdOption::Mtu(u32_at(first, 4)),
            (REDIRECTED, _) => NdOption::Redirected(body),
            (PREFIX, 32) => NdOption::Prefix(prefix(option.first_chunk::<32>()?)),
            (ROUTE, 8 | 16 | 24) if route_fits(option) => NdOption::Route(route(option)?),
            // RFC 8106 5.3.1: 3 units or more, and an odd number of them.
            (DNS, len) if len % 16 == 8 && len >= 24 => {
                NdOption::Dns(Dns { lifetime_s: u32_at(first, 4), servers: body })
            }
            (kind, _) => NdOption::Other { kind, body: option.get(2..)? },
        })
    }
}

fn prefix(b: &[u8; 32]) -> Prefix {
    let mut octets = [0; 16];
    octets.copy_from_slice(&b[16..32]);
    Prefix {
        prefix: Addr::v6(octets),
        prefix_len: b[2],
        on_link: b[3] & 0x80 != 0,
        autonomous: b[3] & 0x40 != 0,
        valid_s: u32_at(b, 4),
        preferred_s: u32_at(b, 8),
    }
}

/// RFC 4191 2.3: as many bytes of the prefix as its length needs, or more.
fn route_fits(option: &[u8]) -> bool {
    option.get(2).is_some_and(|len| (usize::from(*len)).div_ceil(64) * 8 + 8 <= option.len())
        || option.get(2).is_some_and(|len| *len > 128)
}

fn route(option: &[u8]) -> Option<RouteInfo> {
    let (first, body) = option.split_first_chunk::<8>()?;
    let mut octets = [0; 16];
    octets.get_mut(..body.len())?.copy_from_slice(body);
    Some(RouteInfo {
        prefix: Addr::v6(octets),
        prefix_len: first[2],
        preference: preference(first[3]),
        lifetime_s: u32_at(first, 4),
    })
}

fn emit_option(option: &NdOption<'_>, out: &mut [u8]) -> usize {
    let mut plain = |kind: u8, len: usize, at: usize, body: &[u8]| {
        let option = &mut out[..len];
        option.fill(0);
        option[0] = kind;
        option[1] = (len / 8) as u8;
        option[at..at + body.len()].copy_from_slice(body);
        len
    };
    match *option {
        NdOption::SourceLink(mac) => plain(SOURCE_LINK, 8, 2, &mac.0),
        NdOption::TargetLink(mac) => plain(TARGET_LINK, 8, 2, &mac.0),
        NdOption::Mtu(mtu) => plain(MTU, 8, 4, &mtu.to_be_bytes()),
        NdOption::Redirected(packet) => {
            // The length field counts to 255 units of 8 bytes, the option's own first unit
            // included.
            let len = (packet.len() / 8).min(254) * 8;
            plain(REDIRECTED, 8 + len, 8, &packet[..len])
        }
        NdOption::Other { kind, body } => {
            let len = ((body.len() + 2).div_ceil(8)).min(255) * 8;
            plain(kind, len, 2, &body[..body.len().min(len - 2)])
        }
        NdOption::Route(route) => {
            plain(ROUTE, 24, 8, route.prefix.octets());
            let b = head::<8>(out);
            b[2] = route.prefix_len;
            // The value that is reserved is 2.
            b[3] = route.preference.map_or(2 << 3, bits);
            put32(b, 4, route.lifetime_s);
            24
        }
        NdOption::Dns(dns) => {
            let len = plain(DNS, 8 + dns.servers.len(), 8, dns.servers);
            put32(head::<8>(out), 4, dns.lifetime_s);
            len
        }
        NdOption::Prefix(prefix) => {
            plain(PREFIX, 32, 16, prefix.prefix.octets());
            let b = head::<32>(out);
            b[2] = prefix.prefix_len;
            b[3] = u8::from(prefix.on_link) << 7 | u8::from(prefix.autonomous) << 6;
            put32(b, 4, prefix.valid_s);
            put32(b, 8, prefix.preferred_s);
            32
        }
    }
}

impl Ndp<'_> {
    /// Bytes that emitting the message takes.
    pub fn emitted_len(&self) -> usize {
        match self {
            Ndp::RouterSolicit { options } => BASE + options.0.len(),
            Ndp::RouterAdvert(advert) => Advert::HEADER_LEN + advert.options.0.len(),
            Ndp::NeighborSolicit { options, .. } | Ndp::NeighborAdvert { options, .. } => {
                24 + options.0.len()
            }
            Ndp::Redirect { options, .. } => 40 + options.0.len(),
        }
    }
}

/// Writes a message with a checksum field of 0; [`crate::icmpv6::emit`] fills it.
pub(crate) fn emit(message: &Ndp<'_>, out: &mut [u8]) -> usize {
    let len = message.emitted_len();
    let out = &mut out[..len];
    let options = match message {
        Ndp::RouterSolicit { options } => {
            *head::<8>(out) = [133, 0, 0, 0, 0, 0, 0, 0];
            options
        }
        Ndp::RouterAdvert(advert) => {
            *head::<16>(out) = advert.header();
            &advert.options
        }
        Ndp::NeighborSolicit { target, options } => {
            let b = head::<24>(out);
            b[..8].copy_from_slice(&[135, 0, 0, 0, 0, 0, 0, 0]);
            b[8..].copy_from_slice(target.octets());
            options
        }
        Ndp::NeighborAdvert { router, solicited, override_, target, options } => {
            let b = head::<24>(out);
            let flags =
                u8::from(*router) << 7 | u8::from(*solicited) << 6 | u8::from(*override_) << 5;
            b[..8].copy_from_slice(&[136, 0, 0, 0, flags, 0, 0, 0]);
            b[8..].copy_from_slice(target.octets());
            options
        }
        Ndp::Redirect { target, destination, options } => {
            let b = head::<40>(out);
            b[..8].copy_from_slice(&[137, 0, 0, 0, 0, 0, 0, 0]);
            b[8..24].copy_from_slice(target.octets());
            b[24..].copy_from_slice(destination.octets());
            options
        }
    };
    out[len - options.0.len()..].copy_from_slice(options.0);
    len
}

#[cfg(test)]
mod tests;
