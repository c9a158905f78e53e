//! What routers say on interfaces that are configured by them (RFC 4861 6.3, RFC 4862): it waits
//! here for whoever configures them. Nothing is decided here but how much of it is looked at.

use clearway_base::{Instant, Rng};
use clearway_pkt::Iface;
use clearway_wire::Addr;
use clearway_wire::ndp::Advert;

use crate::limits::{ROUTER_ADVERTS_PER_SECOND, ROUTER_NEWS, ROUTER_NEWS_BYTES};
use crate::net::rate::RateLimit;
use crate::records::Records;

/// Something new of a router.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RouterNews<'a> {
    /// The interface.
    pub iface: Iface,
    /// The router's link-local address.
    pub router: Addr,
    /// What it says; None: it does not answer when it is asked for its link address (RFC 4861
    /// 7.3.3).
    pub advert: Option<Advert<'a>>,
}

#[derive(Clone, Copy)]
struct Note {
    iface: Iface,
    router: Addr,
}

/// All that waits.
pub(crate) struct Routers {
    /// Bit n: interface n is configured by routers. There are 16 of them by default, and what has
    /// no bit cannot be.
    watched: u64,
    news: Records<Note>,
    limit: RateLimit,
}

impl Routers {
    /// Nothing yet.
    pub(crate) fn new() -> Routers {
        Routers {
            watched: 0,
            news: Records::new(ROUTER_NEWS, ROUTER_NEWS_BYTES),
            limit: RateLimit::new(ROUTER_ADVERTS_PER_SECOND),
        }
    }

    fn bit(iface: Iface) -> u64 {
        1u64.checked_shl(iface.0.into()).unwrap_or(0)
    }

    /// Hears routers of an interface from now on, or no more. False: its number is too high.
    pub(crate) fn watch(&mut self, iface: Iface, on: bool) -> bool {
        let bit = Self::bit(iface);
        self.watched = if on { self.watched | bit } else { self.watched & !bit };
        bit != 0
    }

    /// Whether routers of an interface are heard.
    pub(crate) fn hears(&self, iface: Iface) -> bool {
        self.watched & Self::bit(iface) != 0
    }

    /// Notes an advertisement. False: too many came.
    pub(crate) fn note(
        &mut self,
        now: Instant,
        rng: &mut Rng,
        (iface, router): (Iface, Addr),
        advert: &Advert<'_>,
    ) -> bool {
        self.limit.take(now, rng)
            && self
                .news
                .push(Note { iface, router }, &[&advert.header(), advert.options.as_bytes()])
    }

    /// A neighbour did not answer: who has it as router is to know.
    pub(crate) fn lost(&mut self, iface: Iface, router: Addr) {
        if self.hears(iface) && router.is_v6() && router.is_link_local() {
            // What finds no room is said again: somebody is asked for again with the next packet.
            self.news.push(Note { iface, router }, &[]);
        }
    }

    /// The oldest that waits.
    pub(crate) fn pop(&mut self) -> Option<RouterNews<'_>> {
        let (Note { iface, router }, bytes) = self.news.pop()?;
        // What was well formed is so still; without bytes nothing was said.
        Some(RouterNews { iface, router, advert: Advert::read(bytes).ok() })
    }

    /// Whether nothing waits.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.news.is_empty()
    }
}
