//! What servers of DHCPv6 give an interface that is configured by IPv6 routers: what is done to the
//! workers.

use std::sync::mpsc::SyncSender;

use clearway_base::Instant;
use clearway_dhcp::v6::{Action, CLIENT_PORT, Lost, Phase, SERVER_PORT, SERVERS};
use clearway_proto::{Datagram, UdpOut, UdpSpec};
use clearway_session::Gone;
use clearway_wire::{Addr, Cidr, Endpoint};

use super::plane::{Control, State};
use crate::autoconf::Configured;
use crate::leases::Note;
use crate::outcome::CommandError;

/// An address is one of a host; what it shares a prefix with is for routers to say (RFC 8415
/// 18.2.10.1).
const WHOLE: u8 = 128;

impl Control {
    /// Looks at the client of one interface.
    pub(super) fn tend_dhcpv6(
        &self,
        state: &mut State,
        configured: &mut Configured,
        note: &Note,
        now: Instant,
    ) -> Result<(), CommandError> {
        if let Note::Said6(iface, bytes) = note {
            if *iface == configured.iface {
                if let Err(why) = configured.dhcp.receive(now, bytes) {
                    let (interface, why) = (&configured.name, why.name());
                    tracing::debug!(interface, why, "DHCPv6 dropped");
                }
            }
        }
        if matches!(configured.dhcp.phase(), Phase::Idle | Phase::Stopped)
            || configured.link_local().is_none()
        {
            return Ok(());
        }
        if configured.sockets.is_empty() {
            self.open_dhcpv6(state, configured)?;
        }
        self.act_on_servers(state, configured, now)
    }

    fn open_dhcpv6(&self, state: &State, configured: &mut Configured) -> Result<(), CommandError> {
        let table = state.tables.find(configured.table)?;
        let Some(keeper) = state.leases.keeper.clone() else { return Ok(()) };
        for worker in 0..self.host.workers() {
            let keeper = keeper.clone();
            let bound = self.host.ask(worker, move |worker| {
                let local = Endpoint::new(Addr::ANY_V6, CLIENT_PORT);
                let spec = UdpSpec { table, local, token: 0, v6_only: true };
                let (sessions, stack) = worker.both();
                sessions.bind_host_socket(stack, spec, hears(keeper))
            })?;
            match bound {
                Ok(socket) => configured.sockets.push(socket),
                Err(why) => {
                    self.close_dhcpv6(configured);
                    configured.sockets.clear();
                    let why = format!("finds UDP port {CLIENT_PORT} taken ({why:?})");
                    return Err(CommandError::Interface { name: configured.name.clone(), why });
                }
            }
        }
        Ok(())
    }

    pub(super) fn close_dhcpv6(&self, configured: &Configured) {
        for (worker, socket) in configured.sockets.iter().copied().enumerate() {
            let _ = self.host.ask(worker, move |worker| {
                let (sessions, stack) = worker.both();
                sessions.close_host_socket(stack, socket);
            });
        }
    }

    /// Does what the client wants done.
    pub(super) fn act_on_servers(
        &self,
        state: &mut State,
        configured: &mut Configured,
        now: Instant,
    ) -> Result<(), CommandError> {
        let iface = configured.iface;
        while let Some(action) = configured.dhcp.poll(now) {
            match action {
                Action::Send(bytes) => self.send_dhcpv6(configured, bytes)?,
                Action::Probe(addr) => self.probe_for(configured, addr)?,
                Action::EndProbe(addr) => {
                    configured.watched.retain(|other| *other != addr);
                    self.host.ask_all(move |worker| worker.stack().unwatch_address(iface, addr))?;
                }
                Action::Use(lease) => {
                    let cidr = Cidr { addr: lease.addr, prefix_len: WHOLE };
                    if !configured.addresses.contains(&cidr) {
                        self.add_made(state, configured, cidr)?;
                    }
                }
                Action::Prefer(addr, prefers) => {
                    self.host.ask_all(move |worker| {
                        worker.stack().deprecate_address(iface, addr, !prefers)
                    })?;
                    self.changed();
                }
                Action::Lose(lease, why) => {
                    if why == Lost::Released {
                        // What was said with the last breath leaves while there is an address.
                        self.host.ask_all(|_| ())?;
                        self.host.ask_all(|_| ())?;
                    } else {
                        tracing::warn!(interface = configured.name, address = %lease.addr, ?why,
                            "an address of DHCPv6 is lost");
                    }
                    self.remove_made(state, configured, lease.addr)?;
                }
            }
        }
        Ok(())
    }

    fn send_dhcpv6(&self, configured: &Configured, bytes: Vec<u8>) -> Result<(), Gone> {
        let (Some(&socket), Some(from)) = (configured.sockets.first(), configured.link_local())
        else {
            return Ok(());
        };
        let iface = configured.iface;
        let sent = self.host.ask(0, move |worker| {
            let out = UdpOut {
                to: Some(Endpoint::new(SERVERS, SERVER_PORT)),
                from: Some(from),
                iface: Some(iface),
                ..UdpOut::default()
            };
            worker.stack().udp_send_with(socket, &out, &bytes)
        })?;
        // What cannot leave now, an interface that is down for one, is sent again in its time.
        if let Err(why) = sent {
            tracing::debug!(interface = configured.name, ?why, "DHCPv6 cannot send");
        }
        Ok(())
    }
}

/// Passes on what servers say to an interface.
fn hears(keeper: SyncSender<Note>) -> clearway_session::sessions::Hears {
    Box::new(move |datagram: &Datagram<'_>| {
        // It is asked from the link-local address, so that is where answers come: nobody beyond the
        // link can send any. Every interface has such a socket, and one of them gets it.
        if datagram.to.is_link_local() {
            // A worker never waits; a server's answer that finds no room is asked for again.
            let _ = keeper.try_send(Note::Said6(datagram.iface, datagram.payload.to_vec()));
        }
    })
}
