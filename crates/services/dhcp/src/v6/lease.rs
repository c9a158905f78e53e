//! What a server has given, weighed.

use clearway_base::{Duration, Instant};
use clearway_wire::Addr;

use super::message::Said;

/// RFC 8415 7.7: for ever.
const FOR_EVER: u32 = u32::MAX;
/// A shorter lease is none: whoever gives it could make us ask all the time.
const MIN_SECONDS: u32 = 10;

/// An address for some time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lease {
    /// Our address. What it shares a prefix with is for routers to say.
    pub addr: Addr,
    /// Who gave it: the server's DUID.
    pub server: Vec<u8>,
    /// When to ask its server for more time (T1).
    pub renew: Instant,
    /// When to ask anybody (T2).
    pub rebind: Instant,
    /// Until when new connections use it.
    pub preferred: Instant,
    /// When it ends.
    pub end: Instant,
}

impl Lease {
    /// The lease that a reply to what was sent at `asked` is; None when it is none that can be
    /// used. Of several addresses it is `ours`, else the first.
    pub(super) fn of(said: &Said, asked: Instant, ours: Option<Addr>) -> Option<Lease> {
        let is_host = |addr: Addr| {
            addr.is_v6()
                && !addr.is_unspecified()
                && !addr.is_multicast()
                && !addr.is_link_local()
                && !addr.is_loopback()
        };
        let fit = said.given.iter().filter(|given| {
            is_host(given.addr) && given.preferred <= given.valid && given.valid >= MIN_SECONDS
        });
        let given = match ours {
            Some(ours) => fit.clone().find(|given| given.addr == ours),
            None => fit.clone().next(),
        }?;
        let (t1, t2) = said.times;
        // RFC 8415 21.4: a T1 behind T2 cannot be.
        if t1 > t2 && t2 > 0 {
            return None;
        }
        let part = |tenths: u64| match given.preferred {
            FOR_EVER => FOR_EVER,
            seconds => (u64::from(seconds) * tenths / 10) as u32,
        };
        let chosen = |said: u32, tenths| if said == 0 { part(tenths) } else { said };
        let (t1, t2) = (chosen(t1, 5), chosen(t2, 8));
        let (t1, t2) = (t1.min(given.valid), t2.min(given.valid));
        let at = |after: u32| match after {
            FOR_EVER => Instant::NEVER,
            _ => asked + Duration::from_secs(after.into()),
        };
        // Whoever says a second could make us ask all the time.
        let (renew, rebind) = (t1.max(MIN_SECONDS / 2), t2.max(MIN_SECONDS / 2));
        Some(Lease {
            addr: given.addr,
            server: said.server.clone(),
            renew: at(renew),
            rebind: at(rebind),
            preferred: at(given.preferred),
            end: at(given.valid),
        })
    }
}
