//! What IP knows: interfaces, addresses, routes, neighbours, path MTUs, and the questions that the
//! rest asks about them.

use alloc::vec::Vec;

use clearway_base::{Instant, Rng};
use clearway_pkt::Iface;
use clearway_wire::{Addr, Mac};

use crate::config::Config;
use crate::counters::Counters;
use crate::flow::FlowKey;
use crate::hash::AddrHash;
use crate::ids::Table;
use crate::net::groups::Groups;
use crate::net::iface::Interface;
use crate::net::local::{Kind, Local, Locals};
use crate::net::neigh::Neighbours;
use crate::net::neigh::probe::Probes;
use crate::net::path_cache::{PathCache, RouteCache};
use crate::net::pmtu::{MIN_V4, MIN_V6, PathMtus};
use crate::net::rate::RateLimit;
use crate::net::route::{NextHop, Routes};
use crate::net::routers::Routers;

/// Routes that point at routes: so many steps, then the packet has no route. A loop of lookups ends
/// here.
const MAX_DEPTH: u32 = 8;

/// Everything that IP knows.
pub(crate) struct Ip {
    pub(crate) ifaces: Vec<Interface>,
    pub(crate) locals: Locals,
    pub(crate) routes: Routes,
    pub(crate) neighbours: Neighbours,
    pub(crate) groups: Groups,
    pub(crate) path_mtus: PathMtus,
    pub(crate) probes: Probes,
    pub(crate) routers: Routers,
    pub(crate) error_limit: RateLimit,
    pub(crate) rng: Rng,
    pub(crate) path_cache: PathCache,
    /// Changes with every change of interfaces, addresses, routes and path MTUs; never 0.
    generation: u32,
    max_ifaces: u16,
}

/// Where a packet goes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Hop {
    pub(crate) iface: Iface,
    pub(crate) next: Next,
}

/// Whose link address the frame gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// The link has no addresses.
    Bare,
    /// A link address or group that is known without asking.
    Known(Mac),
    /// A neighbour.
    Neighbour(Addr),
}

/// Why there is no next hop.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoHop {
    /// No route, or one that refuses.
    NoRoute,
    /// The interface is down.
    Down,
}

impl Ip {
    /// Tables of the sizes that the configuration says.
    pub(crate) fn new(config: &Config) -> Ip {
        let limits = &config.limits;
        let hash = |use_| AddrHash::new(&config.secret, use_);
        let mut rng = Rng::seed(hash(0x1d).of(0, &Addr::ANY_V6));
        let frames = limits.waiting_frames;
        Ip {
            ifaces: Vec::with_capacity(limits.interfaces.into()),
            locals: Locals::new(limits.addresses),
            routes: Routes::new(limits.routes, limits.tables, hash(2)),
            neighbours: Neighbours::new(
                limits.neighbours,
                limits.neighbour_queue,
                frames,
                hash(3),
                rng.fork(),
            ),
            groups: Groups::new(config),
            path_mtus: PathMtus::new(limits.path_mtus, hash(4)),
            probes: Probes::new(),
            routers: Routers::new(),
            error_limit: RateLimit::new(limits.icmp_errors_per_second),
            rng,
            path_cache: PathCache::new(),
            generation: 1,
            max_ifaces: limits.interfaces,
        }
    }

    /// What cached routes are compared with.
    #[inline]
    pub(crate) fn generation(&self) -> u32 {
        self.generation
    }

    /// Makes all cached routes invalid.
    pub(crate) fn changed(&mut self) {
        self.generation = self.generation.checked_add(1).unwrap_or(1);
    }

    #[inline]
    pub(crate) fn interface(&self, iface: Iface) -> Option<&Interface> {
        self.ifaces.get(usize::from(iface.0))
    }

    /// Whether packets on this interface never leave the stack.
    pub(crate) fn is_loopback(&self, iface: Iface) -> bool {
        self.interface(iface).is_some_and(Interface::is_loopback)
    }

    /// Whether a frame from this link address is one of our own that came back.
    pub(crate) fn is_own_mac(&self, iface: Iface, from: Mac) -> bool {
        self.interface(iface).is_some_and(|i| i.mac == from)
    }

    /// Adds an interface; None when there are too many.
    pub(crate) fn add_interface(&mut self, interface: Interface) -> Option<Iface> {
        if self.ifaces.len() >= usize::from(self.max_ifaces) {
            return None;
        }
        let iface = Iface(self.ifaces.len() as u16);
        self.ifaces.push(interface);
        self.changed();
        Some(iface)
    }

    /// Whether packets to `addr` are for us.
    pub(crate) fn is_ours(&self, table: Table, addr: &Addr) -> bool {
        self.locals.find_anywhere(table, addr).is_some_and(|l| l.kind == Kind::Unicast)
    }

    /// Whether `addr` can be the other end of a connection: one host, and not all or none.
    pub(crate) fn may_be_peer(&self, table: Table, addr: &Addr) -> bool {
        let special = addr.is_unspecified() || addr.is_multicast() || addr.is_limited_broadcast();
        !special && self.locals.find_anywhere(table, addr).is_none_or(|l| l.kind == Kind::Unicast)
    }

    /// The next hop of a packet from `local` to `remote`.
    pub(crate) fn hop(&self, table: Table, local: &Addr, remote: &Addr) -> Result<Hop, NoHop> {
        let hop = self.any_hop(table, local, remote)?;
        // Loopback addresses never leave the machine (RFC 1122 3.2.1.3 g, RFC 4291 2.5.3).
        let inside = self.is_loopback(hop.iface);
        if (local.is_loopback() || remote.is_loopback()) && !inside {
            Err(NoHop::NoRoute)
        } else {
            Ok(hop)
        }
    }

    /// Whether packets from `local` to `remote` never leave the stack.
    pub(crate) fn stays_inside(&self, table: Table, local: &Addr, remote: &Addr) -> bool {
        let hop = self.hop(table, local, remote);
        hop.is_ok_and(|hop| self.is_loopback(hop.iface))
    }

    /// As [`Ip::hop`], by the interface that the sender names for what has no route of its own:
    /// groups, all hosts, link-local peers.
    pub(crate) fn hop_via(
        &self,
        table: Table,
        via: Option<Iface>,
        local: &Addr,
        remote: &Addr,
    ) -> Result<Hop, NoHop> {
        let Some(iface) = via else { return self.hop(table, local, remote) };
        let inside = self.is_loopback(iface);
        let here = self.interface(iface).is_some_and(|i| i.table == table);
        if !here || (local.is_loopback() && !inside) {
            return Err(NoHop::NoRoute);
        }
        self.up(Some(iface), |_| match Mac::of_group(remote) {
            Some(mac) => Next::Known(mac),
            None if remote.is_limited_broadcast() => Next::Known(Mac::BROADCAST),
            None => Next::Neighbour(*remote),
        })
    }

    fn any_hop(&self, table: Table, local: &Addr, remote: &Addr) -> Result<Hop, NoHop> {
        if remote.is_multicast() || remote.is_limited_broadcast() {
            let iface = self
                .link_of(table, local)
                .or_else(|| self.routed(table, remote).map(|(iface, _)| iface));
            return self.up(iface, |_| {
                Mac::of_group(remote).map_or(Next::Known(Mac::BROADCAST), Next::Known)
            });
        }
        if let Some(ours) = self.locals.find_anywhere(table, remote) {
            return match ours.kind {
                Kind::Broadcast => self.up(Some(ours.iface), |_| Next::Known(Mac::BROADCAST)),
                // What we send to ourselves goes over a loopback interface and never over a wire:
                // over the address's own, if it is on one.
                Kind::Unicast => {
                    let own = self
                        .interface(ours.iface)
                        .is_some_and(Interface::is_loopback)
                        .then_some(ours.iface);
                    self.up(own.or_else(|| self.loopback(table)), |_| Next::Bare)
                }
            };
        }
        if remote.is_v6() && remote.is_link_local() {
            return self.up(self.link_of(table, local), |_| Next::Neighbour(*remote));
        }
        match self.routed(table, remote) {
            Some((iface, next)) => self.up(Some(iface), |_| Next::Neighbour(next)),
            None => Err(NoHop::NoRoute),
        }
    }

    fn up(
        &self,
        iface: Option<Iface>,
        next: impl FnOnce(&Interface) -> Next,
    ) -> Result<Hop, NoHop> {
        let iface = iface.ok_or(NoHop::NoRoute)?;
        let interface = self.interface(iface).ok_or(NoHop::NoRoute)?;
        if !interface.up {
            return Err(NoHop::Down);
        }
        let next = if interface.is_ethernet() { next(interface) } else { Next::Bare };
        Ok(Hop { iface, next })
    }

    /// The interface that `local` belongs to, in this table.
    fn link_of(&self, table: Table, local: &Addr) -> Option<Iface> {
        self.locals.find_anywhere(table, local).filter(|l| l.kind == Kind::Unicast).map(|l| l.iface)
    }

    fn loopback(&self, table: Table) -> Option<Iface> {
        let fits = |i: &Interface| i.is_loopback() && i.table == table;
        let up = self.ifaces.iter().position(|i| fits(i) && i.up);
        up.or_else(|| self.ifaces.iter().position(fits)).map(|at| Iface(at as u16))
    }

    /// Whether a route leads to `addr`.
    pub(crate) fn is_routed(&self, table: Table, addr: &Addr) -> bool {
        self.routed(table, addr).is_some()
    }

    /// Follows routes from `table` until one names an interface: that interface, and the address on
    /// its link.
    fn routed(&self, mut table: Table, remote: &Addr) -> Option<(Iface, Addr)> {
        let mut target = *remote;
        for _ in 0..MAX_DEPTH {
            match self.routes.lookup(table, &target)?.via {
                NextHop::Interface(iface) => return Some((iface, target)),
                NextHop::GatewayOn { iface, addr } => return Some((iface, addr)),
                NextHop::Gateway(addr) => target = addr,
                NextHop::Lookup(next) => table = next,
                NextHop::Blackhole | NextHop::Unreachable => return None,
            }
        }
        None
    }

    /// The address of ours to send from to `remote`: the rules of RFC 6724 5 that a host without
    /// temporary addresses needs (1, 2, 3, 5, 8). For IPv4, 8 is Linux's: the subnet of the next hop.
    pub(crate) fn source_for(&self, table: Table, remote: &Addr) -> Option<Addr> {
        self.source_via(table, None, remote)
    }

    /// As [`Ip::source_for`], for what leaves by the interface that the sender names.
    pub(crate) fn source_via(
        &self,
        table: Table,
        via: Option<Iface>,
        remote: &Addr,
    ) -> Option<Addr> {
        let out = via.or_else(|| self.source_link(table, remote))?;
        // An address that is known on its link only cannot be sent from on another.
        let may_leave = |l: &&Local| {
            l.iface == out || !(l.cidr.addr.is_link_local() || l.cidr.addr.is_loopback())
        };
        let ours = self.locals.unicast().filter(|l| l.table == table).filter(may_leave);
        best_source(ours, out, remote, self.next_hop(table, out, remote))
    }

    /// The same among the addresses of one interface, whatever interface leads there. None: it has
    /// none of that family but such as are known on its link only.
    pub(crate) fn source_of(&self, iface: Iface, remote: &Addr) -> Option<Addr> {
        let may_leave = |l: &&Local| remote.is_link_local() || !l.cidr.addr.is_link_local();
        let ours = self.locals.unicast().filter(|l| l.iface == iface).filter(may_leave);
        let table = self.interface(iface)?.table;
        best_source(ours, iface, remote, self.next_hop(table, iface, remote))
    }

    /// Who on the interface's link packets to `remote` go to.
    fn next_hop(&self, table: Table, out: Iface, remote: &Addr) -> Addr {
        let next = self.routed(table, remote).filter(|(iface, _)| *iface == out);
        next.map_or(*remote, |(_, addr)| addr)
    }

    /// The interface that packets to `remote` leave by when their source is not chosen yet.
    pub(crate) fn source_link(&self, table: Table, remote: &Addr) -> Option<Iface> {
        if let Some(ours) = self.locals.find_anywhere(table, remote) {
            return Some(ours.iface);
        }
        let on_link = remote.is_multicast()
            || remote.is_limited_broadcast()
            || (remote.is_v6() && remote.is_link_local());
        if !on_link {
            return self.routed(table, remote).map(|(iface, _)| iface);
        }
        let usable = |i: &Interface| i.table == table && i.up && !i.is_loopback();
        self.routed(table, remote)
            .map(|(iface, _)| iface)
            .or_else(|| self.ifaces.iter().position(usable).map(|at| Iface(at as u16)))
    }

    /// The longest IP packet that the way from `local` to `remote` takes, as far as is known. None:
    /// no route.
    pub(crate) fn path_mtu(&self, table: Table, local: &Addr, remote: &Addr) -> Option<u32> {
        let link = self.link_mtu(table, local, remote)?;
        Some(self.path_mtu_over(link, table, remote))
    }

    /// The longest IP packet to `remote` over a link that takes `link`.
    pub(crate) fn path_mtu_over(&self, link: u32, table: Table, remote: &Addr) -> u32 {
        self.path_mtus.get(table, remote).map_or(link, |path| path.min(link))
    }

    /// The longest IP packet that the first link from `local` to `remote` takes. None: no route.
    pub(crate) fn link_mtu(&self, table: Table, local: &Addr, remote: &Addr) -> Option<u32> {
        let hop = self.hop(table, local, remote).ok()?;
        self.interface(hop.iface).map(|i| i.mtu)
    }

    /// As [`Ip::link_mtu`], remembered for the next who asks.
    #[inline]
    pub(crate) fn known_link_mtu(&mut self, key: &FlowKey) -> Option<u32> {
        if let Some(mtu) = self.path_cache.link_mtu(self.generation, key) {
            return Some(mtu);
        }
        let mtu = self.link_mtu(key.table, &key.local, &key.remote)?;
        self.path_cache.put(self.generation, key, mtu, RouteCache::default());
        Some(mtu)
    }

    /// What `make` says of the two addresses of a flow, remembered for the next who asks.
    #[inline]
    pub(crate) fn known_ts_offset(&mut self, key: &FlowKey, make: impl FnOnce() -> u32) -> u32 {
        self.path_cache.ts_offset(self.generation, key, make)
    }

    /// How packets of a flow leave, as far as that is remembered.
    #[inline]
    pub(crate) fn known_route(&self, key: &FlowKey) -> RouteCache {
        self.path_cache.route(self.generation, key)
    }

    /// Believes a path MTU that an ICMP message told and that was checked to be about a packet of
    /// ours (RFC 8201 4, RFC 1191 3). The MTU that holds from now on, or None when the message says
    /// nothing that can be true.
    pub(crate) fn learn_path_mtu(
        &mut self,
        now: Instant,
        table: Table,
        local: &Addr,
        remote: &Addr,
        told: u32,
        counters: &mut Counters,
    ) -> Option<u32> {
        let link = self.link_mtu(table, local, remote)?;
        let mtu = if remote.is_v4() { told.max(MIN_V4) } else { told };
        if mtu >= link || (remote.is_v6() && mtu < MIN_V6) {
            return None;
        }
        if self.path_mtus.learn(now, table, remote, mtu) {
            counters.ip.path_mtu_learned += 1;
            self.changed();
        }
        self.path_mtus.get(table, remote)
    }

    /// Looks at IP's timers.
    pub(crate) fn expire(
        &mut self,
        now: Instant,
        counters: &mut Counters,
        on_failed: &mut dyn FnMut(Iface, Addr),
    ) {
        let Ip { neighbours, routers, .. } = self;
        neighbours.expire(now, &mut counters.neighbours, &mut |iface, addr| {
            routers.lost(iface, addr);
            on_failed(iface, addr);
        });
        self.groups.expire(now);
        if self.path_mtus.expire(now) {
            self.changed();
        }
    }

    /// When [`Ip::expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.neighbours
            .next_deadline()
            .min(self.path_mtus.next_deadline())
            .min(self.groups.next_deadline())
    }
}

/// The first of RFC 6724's rules that tells two apart decides; between equals, which was there
/// first.
fn best_source<'a>(
    ours: impl Iterator<Item = &'a Local>,
    out: Iface,
    remote: &Addr,
    next_hop: Addr,
) -> Option<Addr> {
    let score = |local: &Local| {
        let addr = &local.cidr.addr;
        let (scope, wanted) = (scope(addr), scope(remote));
        // Rule 2: the smallest scope that is wide enough; else the widest.
        let fits = if scope >= wanted { (1, 255 - scope) } else { (0, scope) };
        // Rule 3: one that is to be used no more only when there is no other.
        let current = !local.deprecated;
        // Rule 8. Within a subnet of IPv4 no address is nearer than another, and a router answers
        // who is in its own.
        let near = match addr.is_v4() {
            true => u32::from(local.cidr.contains(&next_hop)),
            false => common_bits(addr, remote).min(local.cidr.prefix_len.into()),
        };
        (*addr == *remote, fits, current, local.iface == out, near)
    };
    let family = ours.filter(|l| l.cidr.addr.is_v4() == remote.is_v4());
    let best = family.reduce(|best, l| if score(l) > score(best) { l } else { best })?;
    Some(best.cidr.addr)
}

/// Scopes by width (RFC 6724 3.1, 3.2); IPv4's autoconfigured and loopback addresses count as
/// link-local.
fn scope(addr: &Addr) -> u8 {
    if addr.is_multicast() && addr.is_v6() {
        return addr.octets()[1] & 15;
    }
    if addr.is_link_local() || addr.is_loopback() || addr.is_limited_broadcast() { 2 } else { 14 }
}

fn common_bits(a: &Addr, b: &Addr) -> u32 {
    (u128::from_be_bytes(*a.octets()) ^ u128::from_be_bytes(*b.octets())).leading_zeros()
}

#[cfg(test)]
mod tests;
