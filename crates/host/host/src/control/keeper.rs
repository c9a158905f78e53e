//! The thread that keeps what servers and routers gave: leases of DHCP, addresses and routes of IPv6
//! routers.

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use clearway_base::Instant;
use clearway_command::MtuKind;
use clearway_pkt::Iface;
use clearway_proto::Link;
use clearway_session::Gone;
use clearway_session::worker::Worker;
use clearway_shm::attach_socket::Dns;

use super::plane::{Control, State};
use crate::leases::{Beginning, Note};
use crate::outcome::{CommandError, Output, locked};
use crate::random::random;
use crate::teller::Teller;

/// Packets of servers and routers that wait for the thread at most; what comes beyond is lost, as
/// on a link.
const NOTES: usize = 64;
/// How long the thread sleeps at most.
const LONGEST_SLEEP: Duration = Duration::from_secs(3600);

/// Keeps leases and what routers gave until it is dropped.
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
    /// Begins to keep leases and what routers give, on a thread of its own, for interfaces that are
    /// configured so. Without that none can be.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn keep_leases(self: &Arc<Control>) -> std::io::Result<LeaseKeeper> {
        let (notes, heard) = sync_channel(NOTES);
        self.lock().leases.keeper = Some(notes.clone());
        let control = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("clearway-leases".into());
        let thread = thread.spawn(move || keep(&control, &heard))?;
        Ok(LeaseKeeper { notes, thread: Some(thread) })
    }

    pub(super) fn is_configured(state: &State, name: &str, by: Teller) -> bool {
        match by {
            Teller::Dhcp => state.leases.find(name).is_some(),
            Teller::Router => state.autoconf.find(name).is_some(),
        }
    }

    /// Has an interface configured from now on, or not any more.
    pub(super) fn configure(
        &self,
        state: &mut State,
        name: &str,
        by: Teller,
        on: bool,
    ) -> Result<Output, CommandError> {
        match (Self::is_configured(state, name, by), on) {
            (false, true) => {
                let beginning = self.beginning(state, name, by)?;
                let keeper = beginning.keeper.clone();
                match by {
                    Teller::Dhcp => self.begin_dhcp(state, beginning)?,
                    Teller::Router => self.begin_slaac(state, beginning)?,
                }
                // A note that finds no room is not needed: the thread looks at everything anyway.
                let _ = keeper.try_send(Note::Look);
            }
            (true, false) => match by {
                Teller::Dhcp => self.end_dhcp(state, name)?,
                Teller::Router => self.end_slaac(state, name)?,
            },
            (true, true) => {}
            (false, false) => {
                self.iface(name)?;
            }
        }
        Ok(Output::done())
    }

    fn beginning(&self, state: &State, name: &str, by: Teller) -> Result<Beginning, CommandError> {
        let iface = self.iface(name)?;
        let refused = |why: String| CommandError::Interface { name: name.to_owned(), why };
        let (whose, address) = match by {
            Teller::Dhcp => ("DHCP", "which DHCP servers know hosts by"),
            Teller::Router => ("routers", "which IPv6 addresses are made of"),
        };
        let keeper = state.leases.keeper.clone().ok_or_else(|| {
            refused(format!("cannot be configured by {whose}: this host has no thread for it"))
        })?;
        let info = self
            .host
            .ask(0, move |worker| worker.stack().interfaces().find(|i| i.iface == iface))?;
        let info = info.ok_or_else(|| CommandError::NoInterface(name.to_owned()))?;
        let Link::Ethernet(mac) = info.link else {
            return Err(refused(format!("has no Ethernet address, {address}")));
        };
        let mut seed = [0; 8];
        random(&mut seed).map_err(|error| refused(format!("gets no random numbers: {error}")))?;
        Ok(Beginning {
            name: name.to_owned(),
            iface,
            table: state.tables.number(info.table),
            mac,
            mtu: state.link_mtus.own(iface).unwrap_or(info.mtu),
            seed: u64::from_le_bytes(seed),
            keeper,
        })
    }

    /// An interface is up again: whoever serves its link now is asked.
    pub(super) fn lease_link_is_back(
        &self,
        state: &mut State,
        name: &str,
    ) -> Result<(), CommandError> {
        let now = self.now()?;
        let leased = state.leases.list.iter_mut().find(|leased| leased.name == name);
        let configured = state.autoconf.list.iter_mut().find(|c| c.name == name);
        if leased.is_none() && configured.is_none() {
            return Ok(());
        }
        let _ = leased.map(|leased| leased.client.link_is_back(now));
        let _ = configured.map(|configured| {
            configured.client.link_is_back(now);
            configured.dhcp.link_is_back(now);
        });
        if let Some(keeper) = &state.leases.keeper {
            // A note that finds no room is not needed: the thread looks at everything anyway.
            let _ = keeper.try_send(Note::Look);
        }
        Ok(())
    }

    pub(super) fn now(&self) -> Result<Instant, Gone> {
        self.host.ask(0, |worker| worker.time().now)
    }

    /// Looks at all that is kept; when the next has something to do, and what time it is.
    fn tend(&self, note: &Note) -> Result<(Instant, Instant), CommandError> {
        let mut state = self.lock();
        let now = self.now()?;
        let leases = self.tend_leases(&mut state, note, now)?;
        let routers = self.tend_autoconf(&mut state, note, now)?;
        Ok((leases.min(routers), now))
    }

    /// Sets the MTU that somebody says for an interface, as far as the port takes so much; without
    /// one, the port's own.
    pub(super) fn say_mtu(
        &self,
        state: &mut State,
        (name, iface): (&str, Iface),
        who: Teller,
        said: Option<u32>,
    ) -> Result<(), CommandError> {
        let mtu_of = move |worker: &mut Worker| {
            worker.stack().interfaces().find(|i| i.iface == iface).map(|i| i.mtu)
        };
        let now = self.host.ask(0, mtu_of)?.unwrap_or(0);
        let wanted = state.link_mtus.say(iface, now, who, said);
        if wanted != now {
            if let Err(error) = self.set_mtu(name, MtuKind::Packet, wanted) {
                tracing::warn!(interface = name, %error, "the MTU that was said is left out");
                state.link_mtus.say(iface, now, who, None);
            }
        }
        Ok(())
    }

    /// Programs ask the servers of names that somebody says for an interface in a table, as long as
    /// he says so.
    pub(super) fn say_dns(
        &self,
        state: &State,
        (name, table): (&str, u32),
        who: Teller,
        said: Dns,
    ) -> Result<(), CommandError> {
        if !self.options.dns_learned {
            return Ok(());
        }
        let table = state.tables.find(table)?;
        let is_new = locked(&self.host.namespaces()).dns.say(name, table, who, said);
        if is_new {
            self.changed();
        }
        Ok(())
    }
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
        match control.tend(&note) {
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
