//! Interfaces that are configured by IPv6 routers: what is done to the workers.

use std::sync::mpsc::SyncSender;

use clearway_base::Instant;
use clearway_dhcp::v6;
use clearway_proto::{NextHop, RouterNews};
use clearway_session::Gone;
use clearway_session::sessions::HearsRouters;
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::{Dns, DnsServer};
use clearway_slaac::{Action, Client, Phase, Setup, Way};
use clearway_wire::ndp::Advert;
use clearway_wire::{Addr, Cidr};

use super::plane::{Control, State};
use crate::autoconf::Configured;
use crate::leases::{Beginning, Note};
use crate::outcome::CommandError;
use crate::random::random;
use crate::teller::Teller;

/// What a machine is told apart by (machine-id(5)): who does not know it cannot tell its addresses,
/// and they stay the same after a restart.
const MACHINE_ID: &str = "/etc/machine-id";

impl Control {
    pub(super) fn end_slaac(&self, state: &mut State, name: &str) -> Result<(), CommandError> {
        let now = self.now()?;
        let at = state.autoconf.list.iter().position(|configured| configured.name == name);
        let Some(mut configured) = at.map(|at| state.autoconf.list.remove(at)) else {
            return Ok(());
        };
        // While there is an address to say goodbye from.
        configured.dhcp.release(now);
        let released = self.act_on_servers(state, &mut configured, now);
        self.close_dhcpv6(&configured);
        configured.client.stop();
        let done = released.and(self.act_on_routers(state, &mut configured, now));
        self.own_link_local(&configured, true)?;
        let told = (configured.name.as_str(), configured.table);
        self.say_dns(state, told, Teller::Router, Dns::default())?;
        done
    }

    pub(super) fn begin_slaac(
        &self,
        state: &mut State,
        beginning: Beginning,
    ) -> Result<(), CommandError> {
        let Beginning { name, iface, table, mac, mtu, seed, keeper } = beginning;
        let secret = match state.autoconf.secret {
            Some(secret) => secret,
            None => *state.autoconf.secret.insert(secret().map_err(|error| {
                let why = format!("gets no random numbers: {error}");
                CommandError::Interface { name: name.clone(), why }
            })?),
        };
        let client = Client::new(self.now()?, Setup { mac, mtu, secret, seed });
        let configured = Configured {
            name,
            iface,
            table,
            client,
            watched: Vec::new(),
            addresses: Vec::new(),
            ways: Vec::new(),
            // Another seed than the routers' client has, so that they do not count alike.
            dhcp: v6::Client::new(mac, !seed),
            sockets: Vec::new(),
        };
        for worker in 0..self.host.workers() {
            let keeper = keeper.clone();
            let heard = self.host.ask(worker, move |worker| {
                let (sessions, stack) = worker.both();
                sessions.hear_routers(stack, iface, Some(hears(keeper)))
            })?;
            if let Err(why) = heard {
                let undo = move |worker: &mut Worker| {
                    let _ = worker.stack().hear_routers(iface, false);
                };
                self.host.ask_all(undo)?;
                return Err(CommandError::Add {
                    what: format!("routers of {}", configured.name),
                    why,
                });
            }
        }
        // RFC 4862 5.4: none is used before it was probed for, and the first one never was.
        self.own_link_local(&configured, false)?;
        state.autoconf.list.push(configured);
        Ok(())
    }

    /// Gives an interface the link-local address back that it had by itself, or takes it away.
    fn own_link_local(&self, configured: &Configured, back: bool) -> Result<(), CommandError> {
        let iface = configured.iface;
        let own = self.host.ask(0, move |worker| worker.stack().own_link_local(iface))?;
        let Some(own) = own else { return Ok(()) };
        if back {
            self.host.ask_all(move |worker| {
                let now = worker.time().now;
                let (_, stack) = worker.both();
                let _ = stack.hear_routers(iface, false);
                // An interface whose MTU is too small for IPv6 meanwhile goes without.
                let _ = stack.add_address(now, iface, Cidr { addr: own, prefix_len: 64 });
            })?;
        } else {
            self.abort_unreachable(iface, Some(own))?;
            self.host.ask_all(move |worker| worker.stack().remove_address(iface, own))?;
        }
        self.changed();
        Ok(())
    }

    /// Looks at every client; when the next one has something to do.
    pub(super) fn tend_autoconf(
        &self,
        state: &mut State,
        note: &Note,
        now: Instant,
    ) -> Result<Instant, CommandError> {
        let mut list = std::mem::take(&mut state.autoconf.list);
        let done = list.iter_mut().try_for_each(|configured| {
            if let Note::Router(iface, router, said) = note {
                if *iface == configured.iface {
                    hear(configured, now, *router, said.as_deref());
                }
            }
            self.look_for_holders(configured, now)?;
            if let Err(error) = self.act_on_routers(state, configured, now) {
                tracing::warn!(interface = configured.name, %error, "SLAAC");
            }
            if let Err(error) = self.tend_dhcpv6(state, configured, note, now) {
                tracing::warn!(interface = configured.name, %error, "DHCPv6");
            }
            let told = (configured.name.as_str(), configured.table);
            if let Err(error) = self.say_dns(state, told, Teller::Router, servers_of(configured)) {
                tracing::warn!(interface = configured.name, %error, "servers of names");
            }
            Ok(())
        });
        let due = |c: &Configured| {
            let asks = if c.link_local().is_some() { c.dhcp.deadline() } else { Instant::NEVER };
            c.client.deadline().min(asks)
        };
        let next = list.iter().map(due).min();
        state.autoconf.list = list;
        done.map(|()| next.unwrap_or(Instant::NEVER))
    }

    fn look_for_holders(&self, configured: &mut Configured, now: Instant) -> Result<(), Gone> {
        let iface = configured.iface;
        for addr in configured.watched.clone() {
            let seen =
                self.host.ask_all(move |worker| worker.stack().address_holder(iface, addr))?;
            if let Some(mac) = seen.into_iter().flatten().next() {
                configured.client.conflict(now, addr);
                configured.dhcp.conflict(now, addr);
                let failed = configured
                    .client
                    .addresses()
                    .iter()
                    .any(|a| a.cidr.addr == addr && a.phase == Phase::Duplicate);
                let then = if failed { "the interface goes without" } else { "another is tried" };
                tracing::warn!(interface = configured.name, %addr, %mac, then,
                    "somebody has the address that is probed for");
            }
        }
        Ok(())
    }

    /// Does what a client wants done.
    fn act_on_routers(
        &self,
        state: &mut State,
        configured: &mut Configured,
        now: Instant,
    ) -> Result<(), CommandError> {
        let iface = configured.iface;
        while let Some(action) = configured.client.poll(now) {
            match action {
                Action::Solicit => {
                    let asked =
                        self.host.ask(0, move |worker| worker.stack().solicit_routers(iface))?;
                    // It is asked again in its time.
                    if let Err(why) = asked {
                        tracing::debug!(interface = configured.name, ?why, "cannot ask routers");
                    }
                }
                Action::Probe(addr) => self.probe_for(configured, addr)?,
                Action::EndProbe(addr) => {
                    configured.watched.retain(|other| *other != addr);
                    self.host.ask_all(move |worker| worker.stack().unwatch_address(iface, addr))?;
                }
                Action::Add(cidr) => self.add_made(state, configured, cidr)?,
                Action::Prefer(addr, prefers) => {
                    self.host.ask_all(move |worker| {
                        worker.stack().deprecate_address(iface, addr, !prefers)
                    })?;
                    self.changed();
                }
                Action::Remove(addr) => self.remove_made(state, configured, addr)?,
                Action::Ways(ways) => self.use_ways(state, configured, &ways)?,
                Action::Mtu(said) => {
                    self.say_mtu(state, (&configured.name, iface), Teller::Router, said)?;
                }
            }
        }
        Ok(())
    }

    pub(super) fn probe_for(
        &self,
        configured: &mut Configured,
        addr: Addr,
    ) -> Result<(), CommandError> {
        let iface = configured.iface;
        let done = self.host.ask_all(move |worker| worker.stack().watch_address(iface, addr))?;
        let undo = move |worker: &mut Worker| {
            let _ = worker.stack().unwatch_address(iface, addr);
        };
        self.all_or_none(format!("probe for {addr} on {}", configured.name), done, undo)?;
        configured.watched.push(addr);
        let sent = self.host.ask(0, move |worker| worker.stack().probe_address(iface, addr))?;
        sent.map_err(|why| CommandError::Add { what: format!("probe for {addr}"), why })
    }

    pub(super) fn add_made(
        &self,
        state: &mut State,
        configured: &mut Configured,
        cidr: Cidr,
    ) -> Result<(), CommandError> {
        let (name, subnet) = (configured.name.clone(), subnet_of(cidr));
        let was_there = self.has_route(state, configured, subnet)?;
        self.set_address(state, &name, Some(cidr), true)?;
        configured.addresses.push(cidr);
        // An address brings the way to its prefix along. Whether that is on the link is for routers
        // to say (RFC 5942 4).
        if !was_there && !cidr.addr.is_link_local() {
            self.delete_route(state, subnet, configured.table)?;
        }
        tracing::info!(interface = name, address = %cidr, "an address is used from now on");
        Ok(())
    }

    fn has_route(
        &self,
        state: &State,
        configured: &Configured,
        prefix: Cidr,
    ) -> Result<bool, CommandError> {
        let table = state.tables.find(configured.table)?;
        let is_it = move |worker: &mut Worker| {
            worker.stack().routes().any(|route| route.table == table && route.dst == prefix)
        };
        Ok(self.host.ask(0, is_it)?)
    }

    pub(super) fn remove_made(
        &self,
        state: &mut State,
        configured: &mut Configured,
        addr: Addr,
    ) -> Result<(), CommandError> {
        let Some(at) = configured.addresses.iter().position(|c| c.addr == addr) else {
            return Ok(());
        };
        let cidr = configured.addresses.remove(at);
        // RFC 4862 5.5.4: it must be used no more. The peers of its connections hear of it.
        self.abort_unreachable(configured.iface, Some(addr))?;
        let removed = self.set_address(state, &configured.name.clone(), Some(cidr), false);
        tracing::info!(interface = configured.name, address = %cidr, "the time of an address is over");
        // The way to its prefix goes with the last address in it, and may be one of a router.
        let subnet = subnet_of(cidr);
        if configured.has_way(subnet) && !self.has_route(state, configured, subnet)? {
            self.put_way(state, configured, Way { to: subnet, router: None }, false)?;
        }
        removed.map(drop)
    }

    /// Has an interface's ways be these from now on.
    fn use_ways(
        &self,
        state: &mut State,
        configured: &mut Configured,
        ways: &[Way],
    ) -> Result<(), CommandError> {
        let before = std::mem::take(&mut configured.ways);
        for gone in before.iter().filter(|old| !ways.iter().any(|way| way.to == old.to)) {
            // Somebody may have taken it away already.
            let _ = self.delete_route(state, gone.to, configured.table);
        }
        for way in ways {
            let replaces = before.iter().any(|old| old.to == way.to);
            if before.contains(way) {
                configured.ways.push(*way);
                continue;
            }
            // A route that somebody set stays, and the others are worth having.
            match self.put_way(state, configured, *way, replaces) {
                Ok(()) => {
                    configured.ways.push(*way);
                    let router = way.router.map(|router| router.to_string());
                    tracing::info!(interface = configured.name, to = %way.to, router, "a way by IPv6");
                }
                Err(error) => {
                    tracing::warn!(interface = configured.name, %error,
                        "a way that a router gave is left out");
                }
            }
        }
        Ok(())
    }

    /// Sets one, in place of another to the same place when there is one: no packet finds none
    /// meanwhile.
    fn put_way(
        &self,
        state: &State,
        configured: &Configured,
        way: Way,
        replaces: bool,
    ) -> Result<(), CommandError> {
        let (iface, to) = (configured.iface, way.to);
        let table = state.tables.find(configured.table)?;
        let via = match way.router {
            None => NextHop::Interface(iface),
            Some(addr) => NextHop::GatewayOn { iface, addr },
        };
        let done = self.host.ask_all(move |worker| {
            let stack = worker.stack();
            if replaces {
                stack.remove_route(table, to);
            }
            stack.add_route(table, to, via)
        })?;
        let undo = move |worker: &mut Worker| {
            let _ = worker.stack().remove_route(table, to);
        };
        self.all_or_none(format!("route to {to} in table {}", configured.table), done, undo)?;
        self.changed();
        Ok(())
    }
}

/// The servers of names that routers say, which may be on the link alone, and behind them those of
/// DHCPv6.
fn servers_of(configured: &Configured) -> Dns {
    let server = |addr: Addr| {
        let interface = if addr.is_link_local() { u32::from(configured.iface.0) + 1 } else { 0 };
        DnsServer { addr: addr.into(), interface }
    };
    let routers = configured.client.servers().iter().map(|s| s.addr);
    let mut all: Vec<Addr> = routers.collect();
    let more = configured.dhcp.dns().iter().filter(|addr| !all.contains(addr)).copied();
    all.extend(more.collect::<Vec<_>>());
    let servers = all.into_iter().map(server).collect();
    Dns { servers, search: configured.dhcp.domains().to_vec() }
}

/// The prefix that an address is in, with the bits behind it zero.
fn subnet_of(cidr: Cidr) -> Cidr {
    let mut octets = *cidr.addr.octets();
    octets[usize::from(cidr.prefix_len / 8)..].fill(0);
    Cidr { addr: Addr::v6(octets), prefix_len: cidr.prefix_len }
}

/// Passes on what routers say.
fn hears(keeper: SyncSender<Note>) -> HearsRouters {
    Box::new(move |news: &RouterNews<'_>| {
        let bytes = |advert: Advert<'_>| [&advert.header(), advert.options.as_bytes()].concat();
        // A worker never waits; what finds no room is said again, sooner or later.
        let _ = keeper.try_send(Note::Router(news.iface, news.router, news.advert.map(bytes)));
    })
}

fn hear(configured: &mut Configured, now: Instant, router: Addr, said: Option<&[u8]>) {
    let Some(bytes) = said else { return configured.client.lost(now, router) };
    // What the core took was well formed.
    let Ok(advert) = Advert::read(bytes) else { return };
    configured.client.receive(now, router, &advert);
    let wanted = match configured.client.by_dhcp() {
        (true, _) => v6::Wanted::Address,
        (false, true) => v6::Wanted::Information,
        (false, false) => v6::Wanted::Nothing,
    };
    configured.dhcp.want(now, wanted);
}

/// What addresses are made of (RFC 7217 5): the number of this machine, else a random one.
fn secret() -> std::io::Result<[u8; 16]> {
    let machine_id = std::fs::read_to_string(MACHINE_ID).unwrap_or_default();
    if let Some(number) = machine_number(&machine_id) {
        return Ok(number);
    }
    let mut secret = [0; 16];
    random(&mut secret)?;
    Ok(secret)
}

fn machine_number(text: &str) -> Option<[u8; 16]> {
    let number = u128::from_str_radix(text.trim(), 16).ok()?;
    (text.trim().len() == 32 && number != 0).then(|| number.to_be_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machines_number_is_taken_when_it_is_one() {
        let number = "000102030405060708090a0b0c0d0e0f";
        let expected = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15];
        for (text, number) in [
            (format!("{number}\n"), Some(expected)),
            ("uninitialized\n".into(), None),
            ("0".repeat(32), None),
            (String::new(), None),
            (number[1..].into(), None),
        ] {
            assert_eq!(machine_number(&text), number, "{text:?}");
        }
    }

    #[test]
    fn a_subnet_has_no_bits_behind_its_prefix() {
        let cidr: Cidr = "2001:db8:1:2:3:4:5:6/64".parse().unwrap();
        assert_eq!(subnet_of(cidr).to_string(), "2001:db8:1:2::/64");
    }
}
