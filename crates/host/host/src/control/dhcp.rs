//! Interfaces that are configured by DHCP: the thread that keeps their leases, and what it does to
//! the workers.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use clearway_base::Instant;
use clearway_command::{MtuKind, RouteVia};
use clearway_dhcp::{Action, CLIENT_PORT, Client, Lease, Lost, Phase, SERVER_PORT, Target};
use clearway_pkt::Iface;
use clearway_proto::{Datagram, Link, UdpOut, UdpSpec};
use clearway_session::Gone;
use clearway_session::worker::Worker;
use clearway_wire::{Addr, Endpoint};

use super::plane::{Control, State};
use crate::leases::{Leased, Note};
use crate::outcome::{CommandError, Output};
use crate::random::random;

/// Packets of servers that wait for the thread at most; what comes beyond is lost, as on a link.
const NOTES: usize = 64;
/// How long the thread sleeps at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Keeps leases until it is dropped.
pub struct LeaseKeeper {
    notes: SyncSender<Note>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for LeaseKeeper {
    fn drop(&mut self) {
        let _ = self.notes.send(Note::End);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Control {
    /// Begins to keep leases, on a thread of its own, for interfaces that are configured by DHCP.
    /// Without that none can be.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn keep_leases(self: &Arc<Control>) -> std::io::Result<LeaseKeeper> {
        let (notes, heard) = sync_channel(NOTES);
        self.lock().leases.keeper = Some(notes.clone());
        let control = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("clearway-dhcp".into());
        let thread = thread.spawn(move || keep(&control, &heard))?;
        Ok(LeaseKeeper { notes, thread: Some(thread) })
    }

    pub(super) fn set_dhcp(
        &self,
        state: &mut State,
        name: &str,
        on: bool,
    ) -> Result<Output, CommandError> {
        let at = state.leases.list.iter().position(|leased| leased.name == name);
        match (at, on) {
            (None, true) => self.begin_dhcp(state, name)?,
            (Some(at), false) => {
                let now = self.now()?;
                let mut leased = state.leases.list.remove(at);
                leased.client.release(now);
                let done = self.act(state, &mut leased, now);
                self.close_sockets(&leased);
                done?;
            }
            (Some(_), true) => {}
            (None, false) => {
                self.iface(name)?;
            }
        }
        Ok(Output::done())
    }

    /// An interface is up again: whoever serves its link now is asked.
    pub(super) fn lease_link_is_back(
        &self,
        state: &mut State,
        name: &str,
    ) -> Result<(), CommandError> {
        let now = self.now()?;
        let leases = &mut state.leases;
        if let Some(leased) = leases.list.iter_mut().find(|leased| leased.name == name) {
            leased.client.link_is_back(now);
            if let Some(keeper) = &leases.keeper {
                let _ = keeper.try_send(Note::Look);
            }
        }
        Ok(())
    }

    pub(super) fn now(&self) -> Result<Instant, Gone> {
        self.host.ask(0, |worker| worker.time().now)
    }

    fn begin_dhcp(&self, state: &mut State, name: &str) -> Result<(), CommandError> {
        let iface = self.iface(name)?;
        let refused =
            |why: &str| CommandError::Interface { name: name.to_owned(), why: why.to_owned() };
        let keeper = state.leases.keeper.clone();
        let keeper = keeper.ok_or_else(|| {
            refused("cannot be configured by DHCP: this host has no thread for it")
        })?;
        let info = self
            .host
            .ask(0, move |worker| worker.stack().interfaces().find(|i| i.iface == iface))?;
        let (Some(Link::Ethernet(mac)), Some(table)) =
            (info.map(|i| i.link), info.map(|i| i.table))
        else {
            return Err(refused("has no Ethernet address, which DHCP servers know hosts by"));
        };
        let mut seed = [0; 8];
        random(&mut seed).map_err(|error| refused(&format!("gets no random numbers: {error}")))?;
        let client = Client::new(self.now()?, mac, u64::from_le_bytes(seed));
        let mut leased = Leased {
            name: name.to_owned(),
            iface,
            table: state.tables.number(table),
            client,
            sockets: Vec::new(),
            watched: None,
            address: None,
            routes: Vec::new(),
            mtu_before: None,
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
                    return Err(refused(&format!("finds UDP port {CLIENT_PORT} taken ({why:?})")));
                }
            }
        }
        state.leases.list.push(leased);
        // A note that finds no room is not needed: the thread looks at everything anyway.
        let _ = keeper.try_send(Note::Look);
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

    /// Looks at every client; when the next one has something to do, and what time it is.
    fn tend(&self, note: Note) -> Result<(Instant, Instant), CommandError> {
        let mut state = self.lock();
        let now = self.now()?;
        let mut list = std::mem::take(&mut state.leases.list);
        let mut said = Some(note);
        for leased in &mut list {
            if let Some(Note::Said(iface, bytes)) = &said {
                if *iface == leased.iface {
                    if let Err(why) = leased.client.receive(now, bytes) {
                        tracing::debug!(interface = leased.name, why = why.name(), "DHCP dropped");
                    }
                    said = None;
                }
            }
            self.look_for_conflict(leased, now)?;
            if let Err(error) = self.act(&mut state, leased, now) {
                tracing::warn!(interface = leased.name, %error, "DHCP");
            }
        }
        let next = list.iter().map(|leased| leased.client.deadline()).min();
        state.leases.list = list;
        Ok((next.unwrap_or(Instant::NEVER), now))
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
        for prefix in std::mem::take(&mut leased.routes) {
            let _ = self.delete_route(state, prefix, leased.table);
        }
        for (prefix, router) in &lease.routes {
            let via = match router.is_unspecified() {
                true => RouteVia::Interface(name.clone()),
                false => RouteVia::Gateway(*router, Some(name.clone())),
            };
            // A route that somebody set stays, and the others are worth having.
            match self.add_route(state, *prefix, leased.table, Some(&via)) {
                Ok(_) => leased.routes.push(*prefix),
                Err(error) => {
                    tracing::warn!(interface = name, %error, "a route of DHCP is left out")
                }
            }
        }
        self.use_mtu(leased, lease.mtu.map(u32::from))
    }

    /// Sets the MTU that a server says, when the port takes so much; without one, the port's own.
    fn use_mtu(&self, leased: &mut Leased, said: Option<u32>) -> Result<(), CommandError> {
        let iface = leased.iface;
        let mtu_of = move |worker: &mut Worker| {
            worker.stack().interfaces().find(|i| i.iface == iface).map(|i| i.mtu)
        };
        let now = self.host.ask(0, mtu_of)?.unwrap_or(0);
        let most = leased.mtu_before.unwrap_or(now);
        let wanted = said.filter(|said| *said <= most).unwrap_or(most);
        if wanted != now {
            if let Err(error) = self.set_mtu(&leased.name, MtuKind::Packet, wanted) {
                tracing::warn!(interface = leased.name, %error, "the MTU of DHCP is left out");
                return Ok(());
            }
        }
        leased.mtu_before = (wanted != most).then_some(most);
        Ok(())
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
        self.use_mtu(leased, None)
    }

    fn take_back(&self, state: &mut State, leased: &mut Leased) -> Result<(), CommandError> {
        for prefix in std::mem::take(&mut leased.routes) {
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

fn keep(control: &Weak<Control>, heard: &Receiver<Note>) {
    let mut wait = LONGEST_SLEEP;
    loop {
        let note = match heard.recv_timeout(wait) {
            Ok(Note::End) | Err(RecvTimeoutError::Disconnected) => return,
            Ok(note) => note,
            Err(RecvTimeoutError::Timeout) => Note::Look,
        };
        let Some(control) = control.upgrade() else { return };
        match control.tend(note) {
            Ok((next, now)) => {
                // A little late rather than a little early, which would mean to look twice.
                let left = Duration::from_nanos(next.since(now).as_nanos());
                wait = (left + Duration::from_millis(1)).min(LONGEST_SLEEP);
            }
            // A worker is gone: the host ends.
            Err(error) => {
                tracing::debug!(%error, "leases are kept no more");
                return;
            }
        }
    }
}
