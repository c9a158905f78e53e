//! What client and server say (RFC 2131 2, RFC 2132): what we send, and what we read of what comes.

use clearway_wire::{Addr, Cidr, Mac};

/// The port of servers.
pub const SERVER_PORT: u16 = 67;
/// The port of clients.
pub const CLIENT_PORT: u16 = 68;

/// Bytes before the options: the header of BOOTP.
const HEADER_LEN: usize = 236;
/// What the options begin with (RFC 2131 3).
const COOKIE: [u8; 4] = [99, 130, 83, 99];
/// Relays of BOOTP drop what is shorter (RFC 1542 2.1).
const MIN_LEN: usize = 300;
/// The longest message that we take: what an Ethernet frame carries in one datagram.
const MAX_LEN: u16 = 1472;
/// How many routers, servers of names and routes of a message are kept; the others are left out.
const MOST: usize = 16;
const MOST_ROUTES: usize = 64;

/// Options (RFC 2132; 121 is RFC 3442).
mod option {
    pub(super) const PAD: u8 = 0;
    pub(super) const MASK: u8 = 1;
    pub(super) const ROUTERS: u8 = 3;
    pub(super) const DNS: u8 = 6;
    pub(super) const DOMAIN: u8 = 15;
    pub(super) const MTU: u8 = 26;
    pub(super) const REQUESTED: u8 = 50;
    pub(super) const LEASE: u8 = 51;
    pub(super) const OVERLOAD: u8 = 52;
    pub(super) const KIND: u8 = 53;
    pub(super) const SERVER: u8 = 54;
    pub(super) const WANTED: u8 = 55;
    pub(super) const MAX_LEN: u8 = 57;
    pub(super) const T1: u8 = 58;
    pub(super) const T2: u8 = 59;
    pub(super) const CLIENT: u8 = 61;
    pub(super) const ROUTES: u8 = 121;
    pub(super) const END: u8 = 255;
}

/// What a message is (RFC 2132 9.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    Discover = 1,
    Offer = 2,
    Request = 3,
    Decline = 4,
    Ack = 5,
    Nak = 6,
    Release = 7,
}

/// Why what came is no message of a server.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Malformed {
    /// Shorter than the header, or without the four bytes that options begin with.
    Short,
    /// Not an answer of a server over Ethernet.
    NoReply,
    /// An option runs over the end.
    Option,
    /// An option has a length or a value that it cannot have.
    Value,
    /// It does not say what it is, or is what only clients send.
    Kind,
}

/// What we say.
pub(crate) struct Ask {
    pub(crate) kind: Kind,
    pub(crate) exchange: u32,
    pub(crate) seconds: u16,
    pub(crate) mac: Mac,
    /// Our address, when it is in use.
    pub(crate) ours: Option<Addr>,
    pub(crate) requested: Option<Addr>,
    pub(crate) server: Option<Addr>,
}

/// What a server says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Reply {
    pub(crate) kind: Kind,
    pub(crate) exchange: u32,
    pub(crate) mac: Mac,
    pub(crate) yours: Addr,
    pub(crate) server: Option<Addr>,
    pub(crate) seconds: Option<u32>,
    pub(crate) t1: Option<u32>,
    pub(crate) t2: Option<u32>,
    pub(crate) prefix_len: Option<u8>,
    pub(crate) routers: Vec<Addr>,
    /// RFC 3442: when there are some, `routers` are not to be looked at.
    pub(crate) routes: Option<Vec<(Cidr, Addr)>>,
    pub(crate) dns: Vec<Addr>,
    pub(crate) domain: Option<String>,
    pub(crate) mtu: Option<u16>,
}

/// Writes a message.
pub(crate) fn emit(ask: &Ask) -> Vec<u8> {
    let mut out = vec![0; HEADER_LEN];
    // From a client, over Ethernet, whose addresses have six bytes.
    out[..3].copy_from_slice(&[1, 1, 6]);
    out[4..8].copy_from_slice(&ask.exchange.to_be_bytes());
    out[8..10].copy_from_slice(&ask.seconds.to_be_bytes());
    match ask.ours {
        Some(ours) => out[12..16].copy_from_slice(&ours.v4_octets()),
        // RFC 2131 4.1: without an address we hear only what is for all.
        None => out[10] = 0x80,
    }
    out[28..34].copy_from_slice(&ask.mac.0);
    out.extend(COOKIE);
    let mut put = |code: u8, value: &[u8]| {
        out.extend([code, value.len() as u8]);
        out.extend(value);
    };
    put(option::KIND, &[ask.kind as u8]);
    // RFC 2132 9.14: the same in every message, or the server takes us for somebody else.
    let mut client = [1; 7];
    client[1..].copy_from_slice(&ask.mac.0);
    put(option::CLIENT, &client);
    for (code, addr) in [(option::REQUESTED, ask.requested), (option::SERVER, ask.server)] {
        if let Some(addr) = addr {
            put(code, &addr.v4_octets());
        }
    }
    if matches!(ask.kind, Kind::Discover | Kind::Request) {
        put(option::MAX_LEN, &MAX_LEN.to_be_bytes());
        // RFC 3442: routes are asked for before routers, because some servers leave out what comes
        // last.
        let wanted = [
            option::MASK,
            option::ROUTES,
            option::ROUTERS,
            option::DNS,
            option::DOMAIN,
            option::MTU,
            option::T1,
            option::T2,
        ];
        put(option::WANTED, &wanted);
    }
    out.push(option::END);
    out.resize(out.len().max(MIN_LEN), 0);
    out
}

/// Reads what a server sent.
///
/// # Errors
/// [`Malformed`]; what it says of a lease is not weighed here.
pub(crate) fn check(bytes: &[u8]) -> Result<Reply, Malformed> {
    let (head, options) = bytes.split_first_chunk::<{ HEADER_LEN }>().ok_or(Malformed::Short)?;
    let options = options.strip_prefix(&COOKIE).ok_or(Malformed::Short)?;
    if head[..3] != [2, 1, 6] {
        return Err(Malformed::NoReply);
    }
    let mut areas = Areas::default();
    areas.add(options)?;
    // RFC 2132 9.3: the fields for names may hold options as well, `file` first.
    let overload = areas.one(option::OVERLOAD, |v: [u8; 1]| v[0])?.unwrap_or(0);
    if overload > 3 {
        return Err(Malformed::Value);
    }
    if overload & 1 != 0 {
        areas.add(&head[108..236])?;
    }
    if overload & 2 != 0 {
        areas.add(&head[44..108])?;
    }
    let kind = match areas.one(option::KIND, |v: [u8; 1]| v[0])? {
        Some(2) => Kind::Offer,
        Some(5) => Kind::Ack,
        Some(6) => Kind::Nak,
        _ => return Err(Malformed::Kind),
    };
    let addr = |at: usize| Addr::v4([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let prefix_len = match areas.one(option::MASK, u32::from_be_bytes)? {
        Some(mask) if mask.leading_ones() + mask.trailing_zeros() < 32 => {
            return Err(Malformed::Value);
        }
        mask => mask.map(|mask| mask.leading_ones() as u8),
    };
    let routes = areas.get(option::ROUTES);
    Ok(Reply {
        kind,
        exchange: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
        mac: Mac([head[28], head[29], head[30], head[31], head[32], head[33]]),
        yours: addr(16),
        server: areas.one(option::SERVER, Addr::v4)?,
        seconds: areas.one(option::LEASE, u32::from_be_bytes)?,
        t1: areas.one(option::T1, u32::from_be_bytes)?,
        t2: areas.one(option::T2, u32::from_be_bytes)?,
        prefix_len,
        routers: areas.addrs(option::ROUTERS)?,
        routes: routes.map(classless_routes).transpose()?,
        dns: areas.addrs(option::DNS)?,
        domain: areas.get(option::DOMAIN).map(domain).transpose()?,
        mtu: areas.one(option::MTU, u16::from_be_bytes)?,
    })
}

/// Options by their codes. One that comes several times is one long one (RFC 3396).
#[derive(Default)]
struct Areas(Vec<(u8, Vec<u8>)>);

impl Areas {
    fn add(&mut self, mut bytes: &[u8]) -> Result<(), Malformed> {
        loop {
            let Some((&code, rest)) = bytes.split_first() else { return Ok(()) };
            bytes = rest;
            match code {
                option::PAD => continue,
                option::END => return Ok(()),
                _ => {}
            }
            let (&len, rest) = bytes.split_first().ok_or(Malformed::Option)?;
            let (value, rest) = rest.split_at_checked(len.into()).ok_or(Malformed::Option)?;
            bytes = rest;
            match self.0.iter_mut().find(|(known, _)| *known == code) {
                Some((_, long)) => long.extend(value),
                None => self.0.push((code, value.to_vec())),
            }
        }
    }

    fn get(&self, code: u8) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| *known == code).map(|(_, value)| &value[..])
    }

    /// A value of fixed length.
    fn one<const N: usize, T>(
        &self,
        code: u8,
        read: impl FnOnce([u8; N]) -> T,
    ) -> Result<Option<T>, Malformed> {
        let Some(value) = self.get(code) else { return Ok(None) };
        Ok(Some(read(value.try_into().map_err(|_| Malformed::Value)?)))
    }

    fn addrs(&self, code: u8) -> Result<Vec<Addr>, Malformed> {
        let Some(value) = self.get(code) else { return Ok(Vec::new()) };
        if value.is_empty() || value.len() % 4 != 0 {
            return Err(Malformed::Value);
        }
        let all = value.chunks_exact(4).map(|b| Addr::v4([b[0], b[1], b[2], b[3]]));
        // Nobody can be reached at these, so they are as good as left out.
        Ok(all.filter(|a| !a.is_unspecified() && !a.is_multicast()).take(MOST).collect())
    }
}

/// RFC 3442: for each route how long its prefix is, as many bytes of it as that needs, the router.
fn classless_routes(mut bytes: &[u8]) -> Result<Vec<(Cidr, Addr)>, Malformed> {
    let mut routes = Vec::new();
    while let Some((&len, rest)) = bytes.split_first() {
        let significant = usize::from(len.div_ceil(8));
        if len > 32 {
            return Err(Malformed::Value);
        }
        let (prefix, rest) = rest.split_at_checked(significant).ok_or(Malformed::Value)?;
        let (router, rest) = rest.split_first_chunk::<4>().ok_or(Malformed::Value)?;
        bytes = rest;
        let mut addr = [0; 4];
        addr[..significant].copy_from_slice(prefix);
        // RFC 3442: what is behind the prefix is as if it were zero.
        let mask = u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
        let addr = Addr::v4((u32::from_be_bytes(addr) & mask).to_be_bytes());
        if let (Some(cidr), true) = (Cidr::new(addr, len), routes.len() < MOST_ROUTES) {
            routes.push((cidr, Addr::v4(*router)));
        }
    }
    if routes.is_empty() { Err(Malformed::Value) } else { Ok(routes) }
}

/// A name goes into files that programs read, so it is letters, digits, hyphens and dots only.
fn domain(bytes: &[u8]) -> Result<String, Malformed> {
    // RFC 2132 2: a terminating zero is to be tolerated.
    let end = bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    let good = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.' | b'_');
    let name = &bytes[..end];
    if name.is_empty() || name.len() > 253 || !name.iter().all(good) {
        return Err(Malformed::Value);
    }
    String::from_utf8(name.to_vec()).map_err(|_| Malformed::Value)
}

#[cfg(test)]
pub(crate) mod tests;
