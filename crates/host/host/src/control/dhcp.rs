//! Interfaces that are configured by DHCP: what is done to the workers.

use std::sync::mpsc::SyncSender;

use clearway_base::Instant;
use clearway_command::RouteVia;
use clearway_dhcp::{Action, CLIENT_PORT, Client, Lease, Lost, Phase, SERVER_PORT, Target};
use clearway_pkt::Iface;
use clearway_proto::{Datagram, UdpOut, UdpSpec};
use clearway_session::Gone;
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::{Dns, DnsServer};
use clearway_wire::{Addr, Cidr, Endpoint};

use super::plane::{Control, State};
use crate::leases::{Beginning, Leased, Note};
use crate::outcome::CommandError;
use crate::teller::Teller;

impl Control {
    pub(super) fn end_dhcp(&self, state: &mut State, name: &str) -> Result<(), CommandError> {
        let now = self.now()?;
        let at = state.leases.list.iter().position(|leased| leased.name == name);
        let Some(mut leased) = at.map(|at| state.leases.list.remove(at)) else { return Ok(()) };
        leased.client.release(now);
        let done = self.act(state, &mut leased, now);
        self.close_sockets(&leased);
        done
    }

    pub(super) fn begin_dhcp(
        &self,
        state: &mut State,
        beginning: Beginning,
    ) -> Result<(), CommandError> {
        let Beginning { name, iface, table: number, mac, seed, keeper, .. } = beginning;
        let table = state.tables.find(number)?;
        let client = Client::new(self.now()?, mac, seed);
        let mut leased = Leased {
            name,
            iface,
            table: number,
            client,
            sockets: Vec::new(),
            watched: None,
            address: None,
            routes: Vec::new(),
        };
        for worker in 0..self.host.workers() {
            let keeper = keeper.clone();
            let bound = self.host.ask(worker, move |worker| {
                let local = Endpoint::new(Addr::ANY_V4, CLIENT_PORT);
                let spec = UdpSpec { table, local, token: 0, v6_only: false };
                let (sessions, stack) = worker.both();
                sessions.bind_host_socket(stack, spec, hears(iface, keeper))
            })?;
            match bound {
                Ok(socket) => leased.sockets.push(socket),
                Err(why) => {
                    self.close_sockets(&leased);
                    let why = format!("finds UDP port {CLIENT_PORT} taken ({why:?})");
                    return Err(CommandError::Interface { name: leased.name, why });
                }
            }
        }
        state.leases.list.push(leased);
        Ok(())
    }

    fn close_sockets(&self, leased: &Leased) {
        for (worker, socket) in leased.sockets.iter().copied().enumerate() {
            let _ = self.host.ask(worker, move |worker| {
                let (sessions, stack) = worker.both();
                sessions.close_host_socket(stack, socket);
            });
        }
    }

    /// Looks at every client; when the next one has something to do.
    pub(super) fn tend_leases(
        &self,
        state: &mut State,
        note: &Note,
        now: Instant,
    ) -> Result<Instant, CommandError> {
        let mut list = std::mem::take(&mut state.leases.list);
        let done = list.iter_mut().try_for_each(|leased| {
            if let Note::Said(iface, bytes) = note {
                if *iface == leased.iface {
                    if let Err(why) = leased.client.receive(now, bytes) {
                        tracing::debug!(interface = leased.name, why = why.name(), "DHCP dropped");
                    }
                }
            }
            self.look_for_conflict(leased, now)?;
            if let Err(error) = self.act(state, leased, now) {
                tracing::warn!(interface = leased.name, %error, "DHCP");
            }
            Ok(())
        });
        let next = list.iter().map(|leased| leased.client.deadline()).min();
        state.leases.list = list;
        done.map(|()| next.unwrap_or(Instant::NEVER))
    }

    fn look_for_conflict(&self, leased: &mut Leased, now: Instant) -> Result<(), Gone> {
        let (Phase::Probing, Some(addr)) = (leased.client.phase(), leased.watched) else {
            return Ok(());
        };
        let iface = leased.iface;
        let seen = self.host.ask_all(move |worker| worker.stack().address_holder(iface, addr))?;
        if let Some(mac) = seen.into_iter().flatten().next() {
            tracing::warn!(interface = leased.name, %addr, %mac, "somebody has the offered address");
            leased.client.conflict(now, addr);
        }
        Ok(())
    }

    /// Does what a client wants done.
    fn act(
        &self,
        state: &mut State,
        leased: &mut Leased,
        now: Instant,
    ) -> Result<(), CommandError> {
        while let Some(action) = leased.client.poll(now) {
            match action {
                Action::Send(target, bytes) => self.send_dhcp(leased, target, bytes)?,
                Action::Probe(addr) => self.probe(leased, addr)?,
                Action::EndProbe(addr) => {
                    let iface = leased.iface;
                    leased.watched = None;
                    self.host.ask_all(move |worker| worker.stack().unwatch_address(iface, addr))?;
                }
                Action::Use(lease) => self.use_lease(state, leased, &lease)?,
                Action::Lose(lease, why) => self.lose_lease(state, leased, &lease, why)?,
            }
        }
        Ok(())
    }

    fn send_dhcp(&self, leased: &Leased, target: Target, bytes: Vec<u8>) -> Result<(), Gone> {
        let Some(&socket) = leased.sockets.first() else { return Ok(()) };
        let iface = leased.iface;
        let all = Endpoint::new(Addr::v4([255; 4]), SERVER_PORT);
        let sent = self.host.ask(0, move |worker| {
            let stack = worker.stack();
            match target {
                Target::AllFromNobody => {
                    stack.udp_send_unnumbered(socket, iface, SERVER_PORT, &bytes)
                }
                Target::AllFrom(ours) => {
                    let out = UdpOut {
                        to: Some(all),
                        from: Some(ours),
                        iface: Some(iface),
                        ..UdpOut::default()
                    };
                    stack.udp_send_with(socket, &out, &bytes)
                }
                Target::Server { ours, server } => {
                    stack.udp_send(socket, Endpoint::new(server, SERVER_PORT), Some(ours), &bytes)
                }
            }
        })?;
        // What cannot leave now, an interface that is down for one, is sent again in its time.
        if let Err(why) = sent {
            tracing::debug!(interface = leased.name, ?why, "DHCP cannot send");
        }
        Ok(())
    }

    fn probe(&self, leased: &mut Leased, addr: Addr) -> Result<(), CommandError> {
        let iface = leased.iface;
        if leased.watched.replace(addr) != Some(addr) {
            let done =
                self.host.ask_all(move |worker| worker.stack().watch_address(iface, addr))?;
            let undo = move |worker: &mut Worker| {
                let _ = worker.stack().unwatch_address(iface, addr);
            };
            self.all_or_none(format!("probe for {addr} on {}", leased.name), done, undo)?;
        }
        let sent = self.host.ask(0, move |worker| worker.stack().probe_address(iface, addr))?;
        sent.map_err(|why| CommandError::Add { what: format!("probe for {addr}"), why })
    }

    fn use_lease(
        &self,
        state: &mut State,
        leased: &mut Leased,
        lease: &Lease,
    ) -> Result<(), CommandError> {
        let name = leased.name.clone();
        if leased.address != Some(lease.addr) {
            self.take_back(state, leased)?;
            self.set_address(state, &name, Some(lease.addr), true)?;
            leased.address = Some(lease.addr);
            tracing::info!(interface = name, address = %lease.addr, server = %lease.server,
                "an address was given by DHCP");
        }
        // What stays is not touched: no packet finds none for a moment at each renewal.
        let gone = |route: &(Cidr, Addr)| !lease.routes.contains(route);
        let (old, kept) = leased.routes.iter().copied().partition::<Vec<_>, _>(gone);
        leased.routes = kept;
        for (prefix, _) in old {
            let _ = self.delete_route(state, prefix, leased.table);
        }
        for (prefix, router) in &lease.routes {
            if leased.routes.contains(&(*prefix, *router)) {
                continue;
            }
            let via = match router.is_unspecified() {
                true => RouteVia::Interface(name.clone()),
                false => RouteVia::Gateway(*router, Some(name.clone())),
            };
            // A route that somebody set stays, and the others are worth having.
            match self.add_route(state, *prefix, leased.table, Some(&via)) {
                Ok(_) => leased.routes.push((*prefix, *router)),
                Err(error) => {
                    tracing::warn!(interface = name, %error, "a route of DHCP is left out")
                }
            }
        }
        let servers = lease.dns.iter().map(|addr| DnsServer::of((*addr).into())).collect();
        let dns = Dns { servers, search: lease.domain.iter().cloned().collect() };
        self.say_dns(state, (&name, leased.table), Teller::Dhcp, dns)?;
        let said = lease.mtu.map(u32::from);
        self.say_mtu(state, (&name, leased.iface), Teller::Dhcp, said)
    }

    fn lose_lease(
        &self,
        state: &mut State,
        leased: &mut Leased,
        lease: &Lease,
        why: Lost,
    ) -> Result<(), CommandError> {
        if why != Lost::Released {
            tracing::warn!(interface = leased.name, address = %lease.addr, ?why,
                "an address of DHCP is lost");
        }
        // What was said with the last breath leaves from the address while it is ours.
        self.host.ask_all(|_| ())?;
        self.host.ask_all(|_| ())?;
        self.take_back(state, leased)?;
        let none = Dns::default();
        self.say_dns(state, (&leased.name, leased.table), Teller::Dhcp, none)?;
        self.say_mtu(state, (&leased.name, leased.iface), Teller::Dhcp, None)
    }

    fn take_back(&self, state: &mut State, leased: &mut Leased) -> Result<(), CommandError> {
        for (prefix, _) in std::mem::take(&mut leased.routes) {
            // Somebody may have taken it away already.
            let _ = self.delete_route(state, prefix, leased.table);
        }
        if let Some(address) = leased.address.take() {
            // RFC 2131 4.4.5: whoever still uses it must stop at once.
            self.abort_unreachable(leased.iface, Some(address.addr))?;
            let _ = self.set_address(state, &leased.name.clone(), Some(address), false);
        }
        Ok(())
    }
}

/// Passes on what comes to a socket: for all hosts, what came on its own interface, for every
/// interface has such a socket and each gets a copy; for one address, whatever it is.
fn hears(iface: Iface, keeper: SyncSender<Note>) -> clearway_session::sessions::Hears {
    Box::new(move |datagram: &Datagram<'_>| {
        let for_all = datagram.to.is_limited_broadcast();
        if datagram.from.port == SERVER_PORT && (datagram.iface == iface || !for_all) {
            // A worker never waits; a server's answer that finds no room is asked for again.
            let _ = keeper.try_send(Note::Said(datagram.iface, datagram.payload.to_vec()));
        }
    })
}
