//! The configuration of one interface.

use std::collections::VecDeque;

use clearway_base::{Duration, Instant, Rng};
use clearway_wire::ndp::{Advert, NdOption, Preference, Prefix, RouteInfo};
use clearway_wire::{Addr, Cidr, Mac};

use crate::address::{Address, Phase, after};
use crate::dropped::Dropped;
use crate::router::{Router, best, say};
use crate::{identifier, limits};

/// RFC 4862 5.1: one probe, and so long for its answer (RetransTimer of RFC 4861 10).
const PROBE_WAIT: Duration = Duration::from_secs(1);
/// RFC 7217 6: so many others are tried when somebody has an address, each after a random part of
/// IDGEN_DELAY.
const OTHERS: u8 = 3;
const IDGEN_DELAY_MS: u64 = 1000;
/// Hosts that begin together do not all speak at once. RFC 4861 6.3.7 and RFC 4862 5.4.2 would
/// have up to a second, for links that are slow; a host shall have its address soon.
const SPREAD_MS: u64 = 100;
/// RFC 7559 2.1: how long the first answer of a router is waited for, and the longest wait.
const FIRST_WAIT_MS: u64 = 4_000;
const LONGEST_WAIT_MS: u64 = 3_600_000;
/// RFC 8200 5: every link takes packets of this length.
const MIN_MTU: u32 = 1280;
/// The length of prefixes that identifiers of 64 bits fit behind.
const HALF: u8 = 64;

/// What an interface is.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Its Ethernet address.
    pub mac: Mac,
    /// The longest IP packet that its port takes.
    pub mtu: u32,
    /// Who does not know it cannot tell our addresses (RFC 7217 5). The same one makes the same
    /// addresses.
    pub secret: [u8; 16],
    /// Where random numbers start from.
    pub seed: u64,
}

/// A way to a place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Way {
    /// The place.
    pub to: Cidr,
    /// By this router; None: it is on the link.
    pub router: Option<Addr>,
}

/// A server of names.
#[derive(Clone, Copy, Debug)]
pub struct Server {
    /// Its address.
    pub addr: Addr,
    /// Until when it is to be asked.
    pub until: Instant,
}

/// What the owner is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    /// Ask the routers of the link who they are.
    Solicit,
    /// Ask the link who has an address; [`Client::conflict`] hears of who answers.
    Probe(Addr),
    /// The address is probed for no more.
    EndProbe(Addr),
    /// The address is ours from now on. The way to its prefix is none of its business.
    Add(Cidr),
    /// The address is for new connections, or only while there is no other.
    Prefer(Addr, bool),
    /// The address is ours no more.
    Remove(Addr),
    /// These are all ways from now on.
    Ways(Vec<Way>),
    /// The MTU of the link; None: what the port has.
    Mtu(Option<u32>),
}

/// A prefix that is on the link.
#[derive(Clone, Copy, Debug)]
struct OnLink {
    prefix: Cidr,
    until: Instant,
}

/// Asks routers who they are (RFC 7559).
#[derive(Clone, Copy, Debug)]
struct Solicit {
    next: Instant,
    /// What was waited for last, in milliseconds; 0 before the first.
    wait_ms: u64,
}

/// The configuration of one interface by what routers say.
pub struct Client {
    setup: Setup,
    rng: Rng,
    solicit: Solicit,
    /// The link-local one first.
    addresses: Vec<Address>,
    routers: Vec<Router>,
    routes: Vec<Router>,
    prefixes: Vec<OnLink>,
    servers: Vec<Server>,
    mtu: Option<u32>,
    hop_limit: Option<u8>,
    managed: bool,
    other: bool,
    is_stopped: bool,
    actions: VecDeque<Action>,
    /// What the owner was told of last.
    told: (Vec<Way>, Option<u32>),
    drops: [u64; Dropped::ALL.len()],
}

impl Client {
    /// A client that begins at the first [`Client::poll`].
    pub fn new(now: Instant, setup: Setup) -> Client {
        let mut rng = Rng::seed(setup.seed);
        let next = now + Duration::from_millis(rng.below(SPREAD_MS));
        let mut client = Client {
            setup,
            rng,
            solicit: Solicit { next, wait_ms: 0 },
            addresses: Vec::new(),
            routers: Vec::new(),
            routes: Vec::new(),
            prefixes: Vec::new(),
            servers: Vec::new(),
            mtu: None,
            hop_limit: None,
            managed: false,
            other: false,
            is_stopped: false,
            actions: VecDeque::new(),
            told: (Vec::new(), None),
            drops: [0; Dropped::ALL.len()],
        };
        // RFC 4862 5.3: for ever.
        let mut octets = [0; 16];
        octets[..2].copy_from_slice(&[0xfe, 0x80]);
        client.form(now, Addr::v6(octets), u32::MAX, u32::MAX);
        client
    }

    /// Addresses, the link-local one first.
    pub fn addresses(&self) -> &[Address] {
        &self.addresses
    }

    /// Default routers.
    pub fn routers(&self) -> &[Router] {
        &self.routers
    }

    /// The default router that packets go to.
    pub fn router(&self) -> Option<Addr> {
        best(self.routers.iter()).map(|router| router.addr)
    }

    /// All ways, as they were told last.
    pub fn ways(&self) -> &[Way] {
        &self.told.0
    }

    /// Servers of names, in the order in which they were heard of.
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The MTU that a router said.
    pub fn mtu(&self) -> Option<u32> {
        self.mtu
    }

    /// The hop limit that a router said.
    pub fn hop_limit(&self) -> Option<u8> {
        self.hop_limit
    }

    /// Whether a router said that addresses come from DHCPv6, and other configuration.
    pub fn by_dhcp(&self) -> (bool, bool) {
        (self.managed, self.other)
    }

    /// What was dropped, by name.
    pub fn drops(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        Dropped::ALL.iter().map(|why| why.name()).zip(self.drops)
    }

    /// When [`Client::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        if !self.actions.is_empty() { Instant::ZERO } else { self.due() }
    }

    fn due(&self) -> Instant {
        if self.is_stopped {
            return Instant::NEVER;
        }
        let addresses = self.addresses.iter().map(Address::deadline);
        let routers = self.routers.iter().chain(&self.routes).map(|r| r.until);
        let prefixes = self.prefixes.iter().map(|p| p.until);
        let servers = self.servers.iter().map(|s| s.until);
        let all = addresses.chain(routers).chain(prefixes).chain(servers);
        all.fold(self.solicit.next, Instant::min)
    }

    /// What is to be done next; asked until there is nothing.
    pub fn poll(&mut self, now: Instant) -> Option<Action> {
        while self.actions.is_empty() && self.due() <= now {
            self.on_time(now);
        }
        self.actions.pop_front()
    }

    /// Takes what a router said; what of it cannot be is dropped and counted.
    pub fn receive(&mut self, now: Instant, router: Addr, advert: &Advert<'_>) {
        if self.is_stopped {
            return;
        }
        if !router.is_v6() || !router.is_link_local() {
            return self.dropped(Dropped::NotLinkLocal);
        }
        (self.managed, self.other) = (advert.managed, advert.other);
        // RFC 4861 6.3.4: 0 says nothing.
        if advert.hop_limit != 0 {
            self.hop_limit = Some(advert.hop_limit);
        }
        // Who speaks is there.
        self.found(router);
        self.default_router(now, router, advert.preference, u32::from(advert.lifetime_s));
        for option in advert.options.iter() {
            match option {
                NdOption::Mtu(mtu) if (MIN_MTU..=self.setup.mtu).contains(&mtu) => {
                    self.mtu = Some(mtu);
                }
                NdOption::Mtu(_) => self.dropped(Dropped::BadMtu),
                NdOption::Prefix(prefix) => self.prefix(now, &prefix),
                NdOption::Route(route) => self.route(now, router, &route),
                NdOption::Dns(dns) => {
                    for server in dns.servers() {
                        self.server(now, server, dns.lifetime_s);
                    }
                }
                NdOption::Other { kind: 24 | 25, .. } => self.dropped(Dropped::BadOption),
                _ => {}
            }
        }
        self.tell();
    }

    /// Somebody has an address that is probed for (RFC 4862 5.4.5): another one is tried, three
    /// times (RFC 7217 6).
    pub fn conflict(&mut self, now: Instant, addr: Addr) {
        let (setup, delay) = (self.setup, self.rng.below(IDGEN_DELAY_MS));
        let is_it = |a: &&mut Address| a.cidr.addr == addr && a.phase == Phase::Tentative;
        let Some(address) = self.addresses.iter_mut().find(is_it) else { return };
        if std::mem::take(&mut address.is_probed) {
            self.actions.push_back(Action::EndProbe(addr));
        }
        if address.conflicts >= OTHERS {
            address.phase = Phase::Duplicate;
            return;
        }
        address.conflicts += 1;
        address.cidr.addr = identifier::address(&setup.secret, &addr, setup.mac, address.conflicts);
        address.next = now + Duration::from_millis(delay);
    }

    /// A router does not answer when it is asked for its link address: another one is used.
    pub fn lost(&mut self, now: Instant, router: Addr) {
        let all = self.routers.iter_mut().chain(&mut self.routes);
        all.filter(|r| r.addr == router).for_each(|r| r.lost = Some(now));
        self.tell();
    }

    /// The interface was gone, or its link: routers are asked who they are. What is in use stays so
    /// until its time is over, or its router does not answer.
    pub fn link_is_back(&mut self, now: Instant) {
        self.solicit = Solicit { next: now, wait_ms: 0 };
    }

    /// Gives everything up.
    pub fn stop(&mut self) {
        let addresses = std::mem::take(&mut self.addresses);
        for address in &addresses {
            self.give_up(address);
        }
        self.routers.clear();
        self.routes.clear();
        self.prefixes.clear();
        self.servers.clear();
        self.mtu = None;
        self.is_stopped = true;
        self.tell();
    }

    fn dropped(&mut self, why: Dropped) {
        let at = Dropped::ALL.iter().position(|known| *known == why);
        if let Some(count) = at.and_then(|at| self.drops.get_mut(at)) {
            *count += 1;
        }
    }

    fn found(&mut self, router: Addr) {
        let all = self.routers.iter_mut().chain(&mut self.routes);
        all.filter(|r| r.addr == router).for_each(|r| r.lost = None);
    }

    fn default_router(&mut self, now: Instant, addr: Addr, preference: Preference, seconds: u32) {
        let had_some = !self.routers.is_empty();
        let to = Cidr { addr: Addr::ANY_V6, prefix_len: 0 };
        let said = Router { addr, to, preference, until: after(now, seconds), lost: None };
        if !say(&mut self.routers, limits::ROUTERS, said, now) {
            self.dropped(Dropped::RoutersFull);
        }
        if seconds > 0 {
            // RFC 7559 2.1: there is a router.
            self.solicit.next = Instant::NEVER;
        }
        self.look_for_routers(now, had_some);
    }

    /// The last default router went: whether there is another one is asked anew.
    fn look_for_routers(&mut self, now: Instant, had_some: bool) {
        if had_some && self.routers.is_empty() {
            let next = now + Duration::from_millis(self.shaken(FIRST_WAIT_MS));
            self.solicit = Solicit { next, wait_ms: 0 };
        }
    }

    /// A tenth more or less (RFC 8415 15).
    fn shaken(&mut self, ms: u64) -> u64 {
        ms - ms / 10 + self.rng.below(ms / 5 + 1)
    }

    fn prefix(&mut self, now: Instant, said: &Prefix) {
        let cidr = Cidr::new(said.prefix, said.prefix_len).filter(is_place);
        let Some(cidr) = cidr.filter(|c| c.prefix_len > 0 && !c.addr.is_unspecified()) else {
            return self.dropped(Dropped::BadPrefix);
        };
        if said.on_link {
            self.on_link(now, cidr, after(now, said.valid_s));
        }
        if !said.autonomous {
            return;
        }
        if said.preferred_s > said.valid_s {
            return self.dropped(Dropped::BadLifetimes);
        }
        if said.prefix_len != HALF {
            return self.dropped(Dropped::BadPrefixLength);
        }
        let count = self.addresses.len();
        match self.addresses.iter_mut().find(|a| a.is_in(&said.prefix)) {
            Some(address) => {
                if !address.renew(now, said.preferred_s, said.valid_s) {
                    self.dropped(Dropped::ShortLifetime);
                }
                self.prefer(now);
            }
            None if said.valid_s == 0 => {}
            // The link-local one is not counted.
            None if count > limits::ADDRESSES => {
                self.dropped(Dropped::AddressesFull);
            }
            None => self.form(now, said.prefix, said.preferred_s, said.valid_s),
        }
    }

    fn on_link(&mut self, now: Instant, said: Cidr, until: Instant) {
        let prefix = masked(said);
        let known = self.prefixes.iter().position(|p| p.prefix == prefix);
        match known {
            // RFC 4861 6.3.4: no two hours here.
            Some(at) if until <= now => {
                self.prefixes.remove(at);
            }
            Some(at) => self.prefixes[at].until = until,
            None if until <= now => {}
            None if self.prefixes.len() >= limits::PREFIXES => {
                self.dropped(Dropped::PrefixesFull);
            }
            None => self.prefixes.push(OnLink { prefix, until }),
        }
    }

    fn form(&mut self, now: Instant, prefix: Addr, preferred_s: u32, valid_s: u32) {
        let Setup { secret, mac, .. } = self.setup;
        let addr = identifier::address(&secret, &prefix, mac, 0);
        self.addresses.push(Address {
            cidr: Cidr { addr, prefix_len: HALF },
            phase: Phase::Tentative,
            preferred: after(now, preferred_s),
            valid: after(now, valid_s),
            conflicts: 0,
            is_probed: false,
            next: now + Duration::from_millis(self.rng.below(SPREAD_MS)),
        });
    }

    fn route(&mut self, now: Instant, router: Addr, said: &RouteInfo) {
        let to = Cidr::new(said.prefix, said.prefix_len).map(masked).filter(is_place);
        let (Some(to), Some(preference)) = (to, said.preference) else {
            return self.dropped(Dropped::BadRoute);
        };
        if to.prefix_len == 0 {
            // RFC 4191 3.1: it stands for what the advertisement's head says.
            return self.default_router(now, router, preference, said.lifetime_s);
        }
        let until = after(now, said.lifetime_s);
        let said = Router { addr: router, to, preference, until, lost: None };
        if !say(&mut self.routes, limits::ROUTES, said, now) {
            self.dropped(Dropped::RoutesFull);
        }
    }

    fn server(&mut self, now: Instant, addr: Addr, seconds: u32) {
        if !addr.is_v6() || addr.is_unspecified() || addr.is_multicast() || addr.is_loopback() {
            return self.dropped(Dropped::BadServer);
        }
        let until = after(now, seconds);
        let known = self.servers.iter().position(|s| s.addr == addr);
        match known {
            // RFC 8106 5.1: 0 says that it is to be asked no more.
            Some(at) if until <= now => {
                self.servers.remove(at);
            }
            Some(at) => self.servers[at].until = until,
            None if until <= now => {}
            None if self.servers.len() >= limits::DNS => self.dropped(Dropped::ServersFull),
            None => self.servers.push(Server { addr, until }),
        }
    }

    fn on_time(&mut self, now: Instant) {
        let had_some = !self.routers.is_empty();
        self.routers.retain(|r| r.until > now);
        self.routes.retain(|r| r.until > now);
        self.prefixes.retain(|p| p.until > now);
        self.servers.retain(|s| s.until > now);
        self.look_for_routers(now, had_some);
        if self.solicit.next <= now {
            self.actions.push_back(Action::Solicit);
            // RFC 7559 2.1: twice as long each time, up to an hour, for as long as nobody answers.
            let wait_ms = match self.solicit.wait_ms {
                0 => self.shaken(FIRST_WAIT_MS),
                last => last + self.shaken(last),
            };
            let wait_ms = match wait_ms > LONGEST_WAIT_MS {
                true => self.shaken(LONGEST_WAIT_MS),
                false => wait_ms,
            };
            self.solicit = Solicit { next: now + Duration::from_millis(wait_ms), wait_ms };
        }
        let ended: Vec<Address> =
            self.addresses.iter().filter(|a| a.valid <= now).copied().collect();
        ended.iter().for_each(|address| self.give_up(address));
        self.addresses.retain(|a| a.valid > now);
        self.probe(now);
        self.prefer(now);
        self.tell();
    }

    fn give_up(&mut self, address: &Address) {
        let addr = address.cidr.addr;
        if address.is_used() {
            self.actions.push_back(Action::Remove(addr));
        } else if address.is_probed {
            self.actions.push_back(Action::EndProbe(addr));
        }
    }

    /// Probes for addresses, and takes those that nobody has.
    fn probe(&mut self, now: Instant) {
        let due = |a: &&mut Address| a.phase == Phase::Tentative && a.next <= now;
        for address in self.addresses.iter_mut().filter(due) {
            let addr = address.cidr.addr;
            if address.is_probed {
                address.is_probed = false;
                address.phase = Phase::Preferred;
                self.actions.push_back(Action::EndProbe(addr));
                self.actions.push_back(Action::Add(address.cidr));
            } else {
                address.is_probed = true;
                address.next = now + PROBE_WAIT;
                self.actions.push_back(Action::Probe(addr));
            }
        }
    }

    /// Says which addresses are for new connections, and which no more.
    fn prefer(&mut self, now: Instant) {
        for address in &mut self.addresses {
            let phase = match address.preferred > now {
                true => Phase::Preferred,
                false => Phase::Deprecated,
            };
            if address.is_used() && address.phase != phase {
                address.phase = phase;
                let prefers = phase == Phase::Preferred;
                self.actions.push_back(Action::Prefer(address.cidr.addr, prefers));
            }
        }
    }

    /// Tells of ways and MTU, where they have changed.
    fn tell(&mut self) {
        let mut ways: Vec<Way> =
            self.prefixes.iter().map(|p| Way { to: p.prefix, router: None }).collect();
        for route in &self.routes {
            if !ways.iter().any(|way| way.to == route.to) {
                let best = best(self.routes.iter().filter(|r| r.to == route.to));
                ways.push(Way { to: route.to, router: best.map(|r| r.addr) });
            }
        }
        let default = Cidr { addr: Addr::ANY_V6, prefix_len: 0 };
        ways.extend(self.router().map(|addr| Way { to: default, router: Some(addr) }));
        if ways != self.told.0 {
            self.actions.push_back(Action::Ways(ways.clone()));
            self.told.0 = ways;
        }
        if self.mtu != self.told.1 {
            self.actions.push_back(Action::Mtu(self.mtu));
            self.told.1 = self.mtu;
        }
    }
}

/// Whether others may be there: no link-local addresses, no groups, nobody on loopback.
fn is_place(cidr: &Cidr) -> bool {
    let addr = cidr.addr;
    addr.is_v6() && !addr.is_multicast() && !addr.is_link_local() && !addr.is_loopback()
}

/// A prefix with the bits behind it zero.
fn masked(cidr: Cidr) -> Cidr {
    let Cidr { addr, prefix_len } = cidr;
    let mask = u128::MAX.checked_shl(128 - u32::from(prefix_len.min(128))).unwrap_or(0);
    Cidr { addr: Addr::v6((u128::from_be_bytes(*addr.octets()) & mask).to_be_bytes()), prefix_len }
}

#[cfg(test)]
mod tests;
