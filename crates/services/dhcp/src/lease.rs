//! What a server has given, weighed.

use clearway_base::{Duration, Instant};
use clearway_wire::{Addr, Cidr};

use crate::message::Reply;

/// A shorter lease is none: whoever gives it could make us ask all the time.
const MIN_SECONDS: u32 = 10;
/// RFC 2131 3.3: for ever.
const FOR_EVER: u32 = u32::MAX;
/// Shorter packets than these every host takes whole (RFC 2132 5.1 says 68; RFC 1122 3.3.3).
const MIN_MTU: u16 = 576;

/// An address for some time, and what goes with it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Our address, with its subnet.
    pub addr: Cidr,
    /// Who gave it.
    pub server: Addr,
    /// Routes: where to, and by which router; a router of 0.0.0.0 means that it is on the link (RFC
    /// 3442).
    pub routes: Vec<(Cidr, Addr)>,
    /// Servers of names, the best first.
    pub dns: Vec<Addr>,
    /// The domain that short names are looked up in.
    pub domain: Option<String>,
    /// The MTU of the link.
    pub mtu: Option<u16>,
    /// When to ask its server for more time (T1), when to ask anybody (T2), and when it ends.
    pub renew: Instant,
    /// See `renew`.
    pub rebind: Instant,
    /// See `renew`.
    pub end: Instant,
}

impl Lease {
    /// The lease that a reply to what was sent at `asked` is; None when it is none that can be
    /// used.
    pub(crate) fn of(reply: &Reply, asked: Instant) -> Option<Lease> {
        let (seconds, server) = (reply.seconds?, reply.server?);
        let yours = reply.yours;
        let first = yours.v4_octets()[0];
        let len = reply.prefix_len.unwrap_or(match first {
            // RFC 2131 4.3.1 lets a server leave the mask out; then the class says it.
            0..128 => 8,
            128..192 => 16,
            _ => 24,
        });
        let addr = Cidr::new(yours, len).filter(|cidr| is_host(cidr) && cidr.prefix_len > 0)?;
        if seconds < MIN_SECONDS || server.is_unspecified() || server.is_multicast() {
            return None;
        }
        let default = Addr::ANY_V4;
        let by_routers = || {
            let router = reply.routers.first()?;
            Some(vec![(Cidr::new(default, 0)?, *router)])
        };
        let routes = reply.routes.clone().or_else(by_routers).unwrap_or_default();
        // RFC 2131 4.4.5; what is out of order is as if it were not there.
        let t2 = reply.t2.filter(|t2| *t2 < seconds && *t2 > 1);
        let t2 = t2.unwrap_or((u64::from(seconds) * 7 / 8) as u32);
        let t1 = reply.t1.filter(|t1| *t1 < t2 && *t1 >= MIN_SECONDS / 2);
        let t1 = t1.unwrap_or((seconds / 2).min(t2));
        let at = |after: u32| match seconds {
            FOR_EVER => Instant::NEVER,
            _ => asked + Duration::from_secs(after.into()),
        };
        Some(Lease {
            addr,
            server,
            routes,
            dns: reply.dns.clone(),
            domain: reply.domain.clone(),
            mtu: reply.mtu.filter(|mtu| *mtu >= MIN_MTU),
            renew: at(t1),
            rebind: at(t2),
            end: at(seconds),
        })
    }
}

/// Whether this is the address of one host in its subnet.
fn is_host(cidr: &Cidr) -> bool {
    let first = cidr.addr.v4_octets()[0];
    let special = matches!(first, 0 | 127 | 224..);
    let bits = u32::from_be_bytes(cidr.addr.v4_octets());
    let hosts = u32::MAX.checked_shr(cidr.prefix_len.into()).unwrap_or(0);
    // RFC 3021: of two or one there is nobody left out.
    let ends = hosts > 1 && (bits & hosts == 0 || bits & hosts == hosts);
    !special && !ends
}
