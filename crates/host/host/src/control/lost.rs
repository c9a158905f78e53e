//! Interfaces whose port is of no more use, because the TAP interface was removed or the card
//! unplugged: it is said and counted, and the port is opened again when it is there again.
//!
//! The interface keeps its number, addresses, routes and sessions meanwhile; it is only down.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use clearway_dev::{Absent, Facts as _, FaultSpec, PortSpec};
use clearway_engine::{EngineError, PortInfo};
use clearway_pkt::Iface;
use clearway_ports::{Port, Wrap};
use clearway_proto::InterfaceInfo;
use clearway_session::Gone;
use clearway_session::worker::Worker;
use clearway_wire::Mac;

use super::plane::{Control, State};
use crate::made::{Lost, mac_of};
use crate::outcome::{CommandError, locked};
use crate::teller::Teller;

/// How often it is looked. Workers wake as often anyway, to report.
const EVERY: Duration = Duration::from_secs(1);

/// Looks after lost interfaces until it is dropped.
pub struct PortWatch {
    end: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for PortWatch {
    fn drop(&mut self) {
        // The thread ends when nobody can tell it anything any more.
        self.end = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(control: &Weak<Control>, end: &Receiver<()>) {
    while end.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
        let Some(control) = control.upgrade() else { return };
        if control.look_for_lost().is_err() {
            // The host stops.
            return;
        }
    }
}

impl Control {
    /// Begins to look after interfaces, on a thread of its own.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn watch_ports(self: &Arc<Control>) -> std::io::Result<PortWatch> {
        let (end, ends) = channel();
        let control = Arc::downgrade(self);
        let thread = std::thread::Builder::new().name("clearway-ports".into());
        let thread = thread.spawn(move || watch(&control, &ends))?;
        Ok(PortWatch { end: Some(end), thread: Some(thread) })
    }

    fn look_for_lost(&self) -> Result<(), Gone> {
        let mut state = self.lock();
        for (iface, why) in self.host.ask_all(failed)?.into_iter().flatten() {
            self.lose(&mut state, iface, why)?;
        }
        for iface in state.made.elsewhere() {
            let why = "its network namespace was deleted, and another one has the name".into();
            self.lose(&mut state, iface, why)?;
        }
        for lost in state.made.lost().to_vec() {
            match self.reopen(&mut state, &lost) {
                Ok(()) => tracing::info!(interface = lost.name, "an interface is back"),
                // The same is said once, and not every second.
                Err(error) => {
                    let why = error.to_string();
                    if lost.refused.as_ref() != Some(&why) {
                        tracing::info!(interface = lost.name, why, "an interface is not back yet");
                        state.made.refused(lost.iface, why);
                    }
                }
            }
        }
        Ok(())
    }

    /// An interface is lost from now on, on every worker: one that has not noticed yet would go on
    /// sending into nothing.
    fn lose(&self, state: &mut State, iface: Iface, why: String) -> Result<(), Gone> {
        let name = {
            let interfaces = self.host.interfaces();
            let interfaces = locked(&interfaces);
            interfaces.by_iface(iface).map(|entry| entry.name.clone())
        };
        let comes_back = state.made.recipe(iface).is_some_and(|recipe| recipe.port.is_some());
        // Of several workers that notice, the first one tells. What does not come back stays as it
        // is, so that everybody sees why.
        let (Some(name), true, false) = (name, comes_back, state.made.is_lost(iface)) else {
            return Ok(());
        };
        tracing::warn!(interface = name, why, "an interface is lost");
        self.set_aside(iface)?;
        // What the next port counts begins at zero.
        state.baselines.forget(iface);
        let since = self.now()?;
        state.made.lose(Lost { iface, name, why, since, refused: None });
        self.changed();
        Ok(())
    }

    /// Takes what is left of a port: it holds memory, and perhaps what a new one needs.
    fn set_aside(&self, iface: Iface) -> Result<(), Gone> {
        let put_absent = move |worker: &mut Worker| {
            worker.stack().set_up(iface, false);
            let engine = worker.engine();
            let Some(port) = engine.port(iface) else { return };
            let absent = Absent::new(port.mtu(), port.mac(), port.offloads());
            // It was there a moment ago, so there is a place for this one.
            drop(engine.replace_port(iface, Port::Absent(absent)));
        };
        self.host.ask_all(put_absent).map(drop)
    }

    /// Opens the port of a lost interface again and goes on with it, or leaves all as it is.
    fn reopen(&self, state: &mut State, lost: &Lost) -> Result<(), CommandError> {
        let (iface, name) = (lost.iface, &lost.name);
        let find =
            move |worker: &mut Worker| worker.stack().interfaces().find(|i| i.iface == iface);
        let info = self.host.ask(0, find)?;
        let recipe = state.made.recipe(iface);
        let port = recipe.and_then(|recipe| Some((recipe.port.clone()?, recipe.mac)));
        let (Some(info), Some(((spec, fault), given))) = (info, port) else {
            return Err(CommandError::NoInterface(name.clone()));
        };
        let mac = match self.put_back(state, &info, &spec, fault) {
            Ok(mac) => mac,
            Err(error) => {
                // A queue that is there already would keep the next trial from it.
                self.set_aside(iface)?;
                return Err(error);
            }
        };
        // An address that somebody gave by hand stays.
        let mac = mac.filter(|mac| Some(*mac) != given && mac_of(&info) == given);
        self.go_on(state, lost, mac)?;
        if let PortSpec::Tap(tap) = &spec {
            self.address_other_end(state, iface, tap.netns.as_deref(), &tap.name);
        }
        Ok(())
    }

    /// Opens the port and gives each worker its queue. Answers the port's own Ethernet address.
    fn put_back(
        &self,
        state: &mut State,
        info: &InterfaceInfo,
        spec: &PortSpec,
        fault: Option<FaultSpec>,
    ) -> Result<Option<Mac>, CommandError> {
        let (force, fault_seed) = (self.options.force, state.next_fault_seed());
        let wrap = Wrap { fault, fault_seed, pcap: None, force };
        let queues = clearway_ports::open_one(spec, &wrap, self.host.workers())?;
        let (mut mac, info) = (None, *info);
        for (queue, opened) in queues.into_iter().enumerate() {
            let put = move |worker: &mut Worker| -> Result<_, CommandError> {
                let port = opened.into_port(worker.pool())?;
                let (own, mtu) = (port.mac(), port.mtu());
                // What the stack knows of an interface is what its first device could do.
                if port.offloads() != info.offloads || own.is_some() != mac_of(&info).is_some() {
                    return Ok(None);
                }
                let engine = worker.engine();
                drop(engine.replace_port(info.iface, port)?);
                // A new TAP interface has the usual MTU. Where the device cannot have what was set,
                // nothing longer than it carries is sent.
                if mtu != info.mtu as usize && engine.set_mtu(info.iface, info.mtu).is_err() {
                    let least = info.mtu.min(u32::try_from(mtu).unwrap_or(u32::MAX));
                    engine.stack().set_mtu(info.iface, least).map_err(EngineError::Mtu)?;
                }
                Ok(Some(own))
            };
            let worker = state.placements.worker(info.iface, queue);
            match self.host.ask(worker, put)?? {
                Some(own) => mac = own.or(mac),
                None => {
                    let name = spec.to_string();
                    let why = "can do other things than before (offloads). Delete the interface, \
                               and create it again"
                        .into();
                    return Err(CommandError::Interface { name, why });
                }
            }
        }
        Ok(mac)
    }

    /// The interface is there again, with this Ethernet address if it is another one than before:
    /// it is up if somebody wants it up.
    fn go_on(&self, state: &mut State, lost: &Lost, mac: Option<Mac>) -> Result<(), CommandError> {
        let (iface, up) = (lost.iface, state.made.is_wanted_up(lost.iface));
        // A server knows us by our Ethernet address, so that another one is another client, and IPv6
        // addresses are made of it.
        let is_other = |by: &Teller| mac.is_some() && Self::is_configured(state, &lost.name, *by);
        let anew: Vec<Teller> = Teller::ALL.into_iter().filter(is_other).collect();
        for by in &anew {
            self.configure(state, &lost.name, *by, false)?;
        }
        let revive = move |worker: &mut Worker| {
            let stack = worker.stack();
            let done = match mac {
                Some(mac) => stack.set_interface_mac(iface, mac),
                None => {
                    stack.announce(iface);
                    Ok(())
                }
            };
            stack.set_up(iface, up);
            done
        };
        if self.host.ask_all(revive)?.iter().any(Result::is_err) {
            self.set_aside(iface)?;
            // It is wanted when there is another card.
            for by in &anew {
                self.configure(state, &lost.name, *by, true)?;
            }
            let why = "has an Ethernet address that is none of one card".into();
            return Err(CommandError::Interface { name: lost.name.clone(), why });
        }
        state.made.is_back(iface, mac);
        self.changed();
        for by in &anew {
            self.configure(state, &lost.name, *by, true)?;
        }
        if up {
            self.lease_link_is_back(state, &lost.name)?;
        }
        Ok(())
    }

    /// The other end of a TAP interface that was made anew has its addresses again.
    fn address_other_end(&self, state: &State, iface: Iface, netns: Option<&str>, name: &str) {
        let recipe = state.made.recipe(iface);
        for address in recipe.map(|recipe| &recipe.host_addresses[..]).unwrap_or_default() {
            let added =
                clearway_ports::within(netns, || clearway_ports::add_host_address(name, *address));
            if let Err(error) = added {
                tracing::warn!(interface = name, %address, %error, "the other end has no address");
            }
        }
    }
}

/// The ports of a worker that are of no more use, and why.
fn failed(worker: &mut Worker) -> Vec<(Iface, String)> {
    let why = |port: PortInfo<'_>| Some((port.iface, port.error?.to_string()));
    worker.engine().ports().filter_map(why).collect()
}
