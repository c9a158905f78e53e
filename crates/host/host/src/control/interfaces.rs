//! Commands that make, change and take away interfaces.

use clearway_command::MtuKind;
use clearway_dev::{FaultSpec, FramePool};
use clearway_engine::PortOptions;
use clearway_pkt::Iface;
use clearway_ports::Port;
use clearway_proto::{AddError, ConnSummary, Link, Table};
use clearway_session::interfaces::{InterfaceEntry, InterfaceKind};
use clearway_session::worker::Worker;
use clearway_wire::{Addr, Cidr, Mac};
use serde_json::json;

use super::plane::{Control, State};
use crate::made::{mac_of, quoted};
use crate::outcome::{CommandError, Output};
use crate::teller::Teller;

/// The MTU of a loopback interface that says none: the longest IP packet.
const LOOPBACK_MTU: u32 = 65_535;

/// How the loopbacks for our own addresses are called where their packets are seen.
pub(super) const LOCAL: &str = "local";

/// Turns that workers make between the last packet over an interface and its end.
const TURNS: u32 = 3;

/// Makes a port on a worker's thread.
pub(super) type MakePort = Box<dyn FnOnce(&FramePool) -> Result<Port, CommandError> + Send>;

impl Control {
    pub(super) fn create_loopback(
        &self,
        state: &mut State,
        instance: Option<u32>,
        mtu: Option<u32>,
        fault: Option<&str>,
    ) -> Result<Output, CommandError> {
        let name = instance.map(|number| format!("loop{number}"));
        let fault = fault.map(|spec| spec.parse().map_err(CommandError::Fault)).transpose()?;
        self.add_loopback(state, name, mtu, fault)
    }

    /// Makes a loopback interface of that name, or of the next free one.
    pub(super) fn add_loopback(
        &self,
        state: &mut State,
        name: Option<String>,
        mtu: Option<u32>,
        fault: Option<FaultSpec>,
    ) -> Result<Output, CommandError> {
        let name = self.free_name(name, "loop")?;
        let mtu = mtu.unwrap_or(LOOPBACK_MTU);
        let (of_command, fault) = (fault, fault.or(self.options.fault));
        let makers = (0..self.host.workers()).map(|_| {
            let seed = state.next_fault_seed();
            Box::new(move |pool: &FramePool| match fault {
                None => Ok(Port::loopback(pool, mtu as usize)),
                Some(fault) => Ok(Port::bad_loopback(pool, mtu as usize, &fault, seed)?),
            }) as MakePort
        });
        let makers = makers.collect();
        let with_fault = of_command.map_or(String::new(), |fault| format!(" fault {fault}"));
        // Names of the settings may be others than loop0, loop1 and so on.
        let number =
            name.strip_prefix("loop").filter(|n| n.parse().is_ok_and(|i: u32| i.to_string() == *n));
        let line = match number {
            Some(number) => format!("create loopback interface instance {number}{with_fault}"),
            None => format!("create port loop name {}{with_fault}", quoted(&name)),
        };
        self.add_everywhere(
            state,
            InterfaceEntry { name, iface: Iface(0), kind: InterfaceKind::Loopback },
            (line, Some(mtu)),
            makers,
        )
    }

    pub(super) fn free_name(
        &self,
        wanted: Option<String>,
        stem: &str,
    ) -> Result<String, CommandError> {
        let interfaces = self.host.interfaces();
        let interfaces = crate::outcome::locked(&interfaces);
        match wanted {
            Some(name) if interfaces.find(&name).is_some() => {
                Err(clearway_session::NamesError::Exists(name).into())
            }
            Some(name) => Ok(name),
            None => Ok(interfaces.free_name(stem)),
        }
    }

    /// Adds a port on every worker; it is down at first. When one of them refuses, none has it. The
    /// line is the command that makes it again.
    pub(super) fn add_everywhere(
        &self,
        state: &mut State,
        mut entry: InterfaceEntry,
        (line, mtu): (String, Option<u32>),
        makers: Vec<MakePort>,
    ) -> Result<Output, CommandError> {
        let mut added: Vec<(usize, Iface)> = Vec::new();
        for (worker, make) in makers.into_iter().enumerate() {
            let options = PortOptions { name: entry.name.clone(), mtu, ..PortOptions::default() };
            let add = move |worker: &mut Worker| -> Result<Iface, CommandError> {
                let port = make(worker.pool())?;
                let iface = worker.engine().add_port(port, options)?;
                worker.stack().set_up(iface, false);
                Ok(iface)
            };
            match self.host.ask(worker, add).map_err(CommandError::from).and_then(|done| done) {
                Ok(iface) => added.push((worker, iface)),
                Err(error) => {
                    self.take_ports(&added);
                    return Err(error);
                }
            }
        }
        let Some(&(_, iface)) = added.first() else { return Err(clearway_session::Gone.into()) };
        if added.iter().any(|(_, other)| *other != iface) {
            self.take_ports(&added);
            let why = "would have another number on each worker. Start the host anew".into();
            return Err(CommandError::Interface { name: entry.name, why });
        }
        entry.iface = iface;
        let name = entry.name.clone();
        if let Err(error) = crate::outcome::locked(&self.host.interfaces()).add(entry) {
            self.take_ports(&added);
            return Err(error.into());
        }
        self.note(state, iface, line)?;
        self.interfaces_changed(state)?;
        Ok(Output::new(format!("{name}\n"), json!({ "interface": name })))
    }

    /// Notes how an interface was made, and as what.
    fn note(&self, state: &mut State, iface: Iface, line: String) -> Result<(), CommandError> {
        let find =
            move |worker: &mut Worker| worker.stack().interfaces().find(|i| i.iface == iface);
        if let Some(info) = self.host.ask(0, find)? {
            // A loopback's MTU is not in the line: the usual one is what it has without a word.
            let is_loop = info.link == Link::Loopback;
            let mtu = if is_loop { LOOPBACK_MTU } else { info.mtu };
            state.made.interface(iface, line, mtu, mac_of(&info));
        }
        Ok(())
    }

    /// What is sent to an address of ours never leaves the stack: every table with an interface
    /// that leads outside has a loopback of its own for that, which nobody sees or sets.
    fn ensure_local(&self, state: &mut State, iface: Iface) -> Result<(), CommandError> {
        let info = self
            .host
            .ask(0, move |worker| worker.stack().interfaces().find(|i| i.iface == iface))?;
        let Some(info) = info.filter(|info| info.link != Link::Loopback) else { return Ok(()) };
        if state.locals.iter().any(|(table, _)| *table == info.table) {
            return Ok(());
        }
        let (mut added, table) = (Vec::new(), info.table);
        for worker in 0..self.host.workers() {
            let add = move |worker: &mut Worker| -> Result<Iface, CommandError> {
                let port = Port::loopback(worker.pool(), LOOPBACK_MTU as usize);
                let options = PortOptions { name: LOCAL.into(), mtu: Some(LOOPBACK_MTU), table };
                Ok(worker.engine().add_port(port, options)?)
            };
            match self.host.ask(worker, add).map_err(CommandError::from).and_then(|done| done) {
                Ok(iface) => added.push((worker, iface)),
                Err(error) => {
                    self.take_ports(&added);
                    return Err(error);
                }
            }
        }
        let Some(&(_, local)) = added.first() else { return Err(clearway_session::Gone.into()) };
        if added.iter().any(|(_, other)| *other != local) {
            self.take_ports(&added);
            let why = "would have another number on each worker. Start the host anew".into();
            return Err(CommandError::Interface { name: LOCAL.into(), why });
        }
        state.locals.push((table, local));
        self.watch(state)
    }

    /// A table is gone, and with it its loopback for our own addresses.
    pub(super) fn forget_local(&self, state: &mut State, table: Table) -> Result<(), CommandError> {
        let Some(at) = state.locals.iter().position(|(of, _)| *of == table) else { return Ok(()) };
        let (_, iface) = state.locals.remove(at);
        self.host.ask_all(move |worker| drop(worker.engine().remove_port(iface)))?;
        self.watch(state)
    }

    fn take_ports(&self, added: &[(usize, Iface)]) {
        for &(worker, iface) in added {
            let _ = self.host.ask(worker, move |worker| drop(worker.engine().remove_port(iface)));
        }
    }

    pub(super) fn delete_interface(
        &self,
        state: &mut State,
        name: &str,
    ) -> Result<Output, CommandError> {
        let iface = self.iface(name)?;
        for by in Teller::ALL {
            self.configure(state, name, by, false)?;
        }
        self.abort_unreachable(iface, None)?;
        let removed = self.host.ask_all(move |worker| {
            let stack = worker.stack();
            let addresses: Vec<_> =
                stack.addresses().filter(|a| a.iface == iface).map(|a| a.cidr.addr).collect();
            for address in addresses {
                stack.remove_address(iface, address);
            }
            worker.engine().remove_port(iface).is_some()
        })?;
        crate::outcome::locked(&self.host.interfaces()).remove(name);
        state.placements.forget(iface);
        state.made.forget(iface);
        state.baselines.forget(iface);
        self.interfaces_changed(state)?;
        if removed.contains(&true) {
            Ok(Output::done())
        } else {
            Err(CommandError::NoInterface(name.into()))
        }
    }

    pub(super) fn set_state(
        &self,
        state: &mut State,
        name: &str,
        up: bool,
    ) -> Result<Output, CommandError> {
        let iface = self.iface(name)?;
        state.made.want_up(iface, up);
        if state.made.is_lost(iface) {
            let then = if up { "up" } else { "down" };
            return Ok(Output::text(format!(
                "{name} is lost. It will be {then} when its port is there again.\n"
            )));
        }
        self.host.ask_all(move |worker| worker.stack().set_up(iface, up))?;
        if up {
            self.lease_link_is_back(state, name)?;
        }
        self.changed();
        Ok(Output::done())
    }

    pub(super) fn set_address(
        &self,
        state: &mut State,
        name: &str,
        prefix: Option<Cidr>,
        add: bool,
    ) -> Result<Output, CommandError> {
        let iface = self.iface(name)?;
        match (prefix, add) {
            (Some(prefix), true) => {
                self.add_address(name, iface, prefix)?;
                self.ensure_local(state, iface)?;
            }
            (None, true) => return Err(CommandError::Missing("address".into())),
            (prefix, false) => {
                // What routers' prefixes made of themselves goes and comes with them.
                let kept: Vec<Cidr> =
                    state.autoconf.find(name).map(|c| c.addresses.clone()).unwrap_or_default();
                let gone = self
                    .host
                    .ask_all(move |worker| remove_addresses(worker, iface, prefix, &kept))?;
                if let (Some(prefix), false) = (prefix, gone.contains(&true)) {
                    return Err(CommandError::Missing(format!("address {prefix} on {name}")));
                }
            }
        }
        self.changed();
        Ok(Output::done())
    }

    fn add_address(&self, name: &str, iface: Iface, prefix: Cidr) -> Result<(), CommandError> {
        let done = self.host.ask_all(move |worker| {
            let now = worker.time().now;
            worker.stack().add_address(now, iface, prefix)
        })?;
        let undo = move |worker: &mut Worker| {
            let _ = worker.stack().remove_address(iface, prefix.addr);
        };
        self.all_or_none(format!("{prefix} on {name}"), done, undo)
    }

    pub(super) fn set_table(
        &self,
        state: &mut State,
        name: &str,
        number: u32,
    ) -> Result<Output, CommandError> {
        let (iface, table) = (self.iface(name)?, state.tables.find(number)?);
        by_hand_only(state, name)?;
        let before = self.host.ask(0, move |worker| {
            worker.stack().interfaces().find(|i| i.iface == iface).map(|i| i.table)
        })?;
        if before.is_some_and(|before| before != table) {
            self.abort_unreachable(iface, None)?;
        }
        let done =
            self.host.ask_all(move |worker| worker.stack().set_interface_table(iface, table))?;
        let undo = move |worker: &mut Worker| {
            let _ = before.map(|before| worker.stack().set_interface_table(iface, before));
        };
        self.all_or_none(format!("{name} into table {number}"), done, undo)?;
        self.ensure_local(state, iface)?;
        self.changed();
        Ok(Output::done())
    }

    /// Ends the connections that use addresses of an interface, or one of them, which are about to
    /// go elsewhere: what comes for them would find nobody, and both sides would wait for an answer
    /// until they give up.
    pub(super) fn abort_unreachable(
        &self,
        iface: Iface,
        only: Option<Addr>,
    ) -> Result<(), CommandError> {
        self.host.ask_all(move |worker| {
            let stack = worker.stack();
            let table = stack.interfaces().find(|i| i.iface == iface).map(|i| i.table);
            let ours: Vec<_> = stack
                .addresses()
                .filter(|a| a.iface == iface && only.is_none_or(|only| only == a.cidr.addr))
                .map(|a| a.cidr.addr)
                .collect();
            let uses = |c: &ConnSummary| Some(c.table) == table && ours.contains(&c.local.addr);
            let ended: Vec<_> = stack.connections().filter(uses).map(|c| c.conn).collect();
            ended.into_iter().for_each(|conn| stack.abort_unreachable(conn));
        })?;
        // Resets leave at the end of a turn and, on a loopback, arrive in the next one, over the
        // interface as it is. A worker makes a turn before it answers again.
        (0..TURNS).try_for_each(|_| self.host.ask_all(|_| ()).map(drop))?;
        Ok(())
    }

    pub(super) fn set_mtu(
        &self,
        name: &str,
        kind: MtuKind,
        mtu: u32,
    ) -> Result<Output, CommandError> {
        let iface = self.iface(name)?;
        let why = match kind {
            MtuKind::Packet => None,
            MtuKind::Ip4 | MtuKind::Ip6 => {
                Some("has one MTU for IPv4 and IPv6. Set it with `set interface mtu packet`")
            }
            MtuKind::Mpls => Some("carries no MPLS"),
        };
        if let Some(why) = why {
            return Err(CommandError::Interface { name: name.into(), why: why.into() });
        }
        let done = self.host.ask_all(move |worker| {
            let before = worker.stack().interfaces().find(|i| i.iface == iface).map(|i| i.mtu);
            (before, worker.engine().set_mtu(iface, mtu))
        })?;
        let Some(failed) = done.iter().position(|(_, result)| result.is_err()) else {
            return Ok(Output::done());
        };
        let before = done[failed].0;
        for (worker, _) in done.iter().enumerate().filter(|(_, (_, result))| result.is_ok()) {
            let undo = move |worker: &mut Worker| {
                before.map(|before| worker.engine().set_mtu(iface, before))
            };
            let _ = self.host.ask(worker, undo)?;
        }
        done.into_iter().nth(failed).map_or(Ok(Output::done()), |(_, result)| {
            result.map(|()| Output::done()).map_err(CommandError::from)
        })
    }

    pub(super) fn set_mac(
        &self,
        state: &State,
        name: &str,
        mac: Mac,
    ) -> Result<Output, CommandError> {
        let iface = self.iface(name)?;
        by_hand_only(state, name)?;
        let done = self.host.ask_all(move |worker| worker.stack().set_interface_mac(iface, mac))?;
        if done.iter().any(Result::is_err) {
            let why = "has no Ethernet address: it carries IP packets".into();
            return Err(CommandError::Interface { name: name.into(), why });
        }
        Ok(Output::done())
    }

    /// Our kinds of links hand over every frame that is on them; there is nothing to switch.
    pub(super) fn set_promiscuous(&self, name: &str) -> Result<Output, CommandError> {
        self.iface(name)?;
        Ok(Output::text(format!(
            "{name} receives every frame on its link as it is; those for other link addresses are \
             counted as other-link address.\n"
        )))
    }

    /// To be called after interfaces came or went.
    fn interfaces_changed(&self, state: &mut State) -> Result<(), CommandError> {
        self.changed();
        self.watch(state)
    }

    /// The results of all workers as one; when one failed, `undo` is done on those that did not.
    pub(super) fn all_or_none(
        &self,
        what: String,
        done: Vec<Result<(), AddError>>,
        undo: impl FnOnce(&mut Worker) + Clone + Send + 'static,
    ) -> Result<(), CommandError> {
        let Some(why) = done.iter().find_map(|result| result.err()) else { return Ok(()) };
        for (worker, _) in done.iter().enumerate().filter(|(_, result)| result.is_ok()) {
            let _ = self.host.ask(worker, undo.clone());
        }
        Err(CommandError::Add { what, why })
    }

    /// The interface of that name.
    pub(super) fn iface(&self, name: &str) -> Result<Iface, CommandError> {
        self.entry(name).map(|entry| entry.iface)
    }

    pub(super) fn entry(&self, name: &str) -> Result<InterfaceEntry, CommandError> {
        let found = crate::outcome::locked(&self.host.interfaces()).find(name).cloned();
        found.ok_or_else(|| CommandError::NoInterface(name.into()))
    }
}

/// A server knows an interface by its link, and us by our Ethernet address; IPv6 addresses are made
/// of it. Neither changes while something is kept.
fn by_hand_only(state: &State, name: &str) -> Result<(), CommandError> {
    let why = if state.leases.find(name).is_some() {
        "is configured by DHCP. Switch that off first (`set interface dhcp`)"
    } else if state.autoconf.find(name).is_some() {
        "is configured by IPv6 routers. Switch that off first (`set interface slaac`)"
    } else {
        return Ok(());
    };
    Err(CommandError::Interface { name: name.into(), why: why.into() })
}

/// Takes away one address or, without a name, all but `kept`.
fn remove_addresses(
    worker: &mut Worker,
    iface: Iface,
    prefix: Option<Cidr>,
    kept: &[Cidr],
) -> bool {
    let stack = worker.stack();
    // All are those that somebody gave: the link-local address is the interface's own, and IPv6
    // needs it (RFC 4291 2.1).
    let own = stack.own_link_local(iface);
    let matching = |cidr: Cidr| match prefix {
        Some(prefix) => prefix == cidr,
        None => Some(cidr.addr) != own && !kept.contains(&cidr),
    };
    let addresses: Vec<_> = stack
        .addresses()
        .filter(|a| a.iface == iface && matching(a.cidr))
        .map(|a| a.cidr.addr)
        .collect();
    // Every one of them is removed, also when an earlier one was.
    addresses.into_iter().filter(|&address| stack.remove_address(iface, address)).count() > 0
}
