//! Routers: which one packets go to (RFC 4861 6.3.6, RFC 4191 3.2).

use std::cmp::Reverse;

use clearway_base::Instant;
use clearway_wire::ndp::Preference;
use clearway_wire::{Addr, Cidr};

/// A router, and where it leads to.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// Its link-local address.
    pub addr: Addr,
    /// Where it leads to; `::/0` for a default router.
    pub to: Cidr,
    /// Before which others.
    pub preference: Preference,
    /// Until when.
    pub until: Instant,
    /// Since when it has not answered, and has said nothing.
    pub lost: Option<Instant>,
}

/// The best router to a place: one that answers, the most preferred, the one that was known first.
/// Of those that do not answer the one that did longest ago is tried again (RFC 4861 6.3.6).
pub(crate) fn best<'a>(routers: impl Iterator<Item = &'a Router>) -> Option<&'a Router> {
    routers.min_by_key(|r| (r.lost, Reverse(r.preference)))
}

/// What a router says of one place. False: there is no room.
pub(crate) fn say(list: &mut Vec<Router>, most: usize, said: Router, now: Instant) -> bool {
    let known = list.iter().position(|r| r.addr == said.addr && r.to == said.to);
    match known {
        // RFC 4861 6.3.4: a lifetime of 0 ends it at once.
        Some(at) if said.until <= now => {
            list.remove(at);
        }
        Some(at) => list[at] = said,
        None if said.until <= now => {}
        None if list.len() >= most => return false,
        None => list.push(said),
    }
    true
}
