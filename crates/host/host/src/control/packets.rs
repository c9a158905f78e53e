//! Commands about captures and rules.

use std::os::unix::net::UnixStream;
use std::sync::Arc;

use clearway_command::{AclRule, PcapTrace};
use clearway_engine::Inspect;
use clearway_pkt::Iface;
use clearway_proto::Link;
use serde_json::json;

use super::plane::{Control, State};
use crate::capture::{Packets, rule_of};
use crate::outcome::{CommandError, Output};

impl Control {
    pub(super) fn pcap_trace(
        &self,
        state: &mut State,
        wanted: &PcapTrace,
    ) -> Result<Output, CommandError> {
        let iface = wanted.interface.as_deref().map(|name| self.iface(name)).transpose()?;
        let names = self.names(state);
        let output = state.packets.begin(wanted, iface, names)?;
        self.watch(state)?;
        Ok(output)
    }

    /// Whether such a stream could begin. It does when the conversation says `go`.
    pub(super) fn pcap_stream(wanted: &PcapTrace) -> Result<Output, CommandError> {
        Packets::check(wanted)?;
        Ok(Output::new("Ready: `go` begins the stream.\n".into(), json!({ "ready": true })))
    }

    /// Begins a stream of packets.
    pub(super) fn begin_stream(
        self: &Arc<Self>,
        wanted: &PcapTrace,
        stream: UnixStream,
    ) -> Result<(), CommandError> {
        let mut state = self.lock();
        let iface = wanted.interface.as_deref().map(|name| self.iface(name)).transpose()?;
        let names = self.names(&state);
        let control = Arc::downgrade(self);
        let ended = move |number| {
            // Nobody is left to tell when the host ends.
            let Some(control) = control.upgrade() else { return };
            let mut state = control.lock();
            state.packets.stream_ended(number);
            if let Err(error) = control.watch(&mut state) {
                tracing::debug!(%error, "a stream of packets ended with the host");
            }
        };
        state.packets.begin_stream(wanted, iface, names, stream, ended)?;
        self.watch(&mut state)
    }

    /// Every interface by its number and its name.
    fn names(&self, state: &State) -> Vec<(Iface, String)> {
        let interfaces = self.host.interfaces();
        let interfaces = crate::outcome::locked(&interfaces);
        let named = interfaces.iter().map(|entry| (entry.iface, entry.name.clone()));
        named
            .chain(
                state.locals.iter().map(|(_, iface)| (*iface, super::interfaces::LOCAL.to_owned())),
            )
            .collect()
    }

    pub(super) fn pcap_off(&self, state: &mut State) -> Result<Output, CommandError> {
        let output = state.packets.end();
        self.watch(state)?;
        output
    }

    pub(super) fn acl_add(
        &self,
        state: &mut State,
        command: &AclRule,
    ) -> Result<Output, CommandError> {
        let iface = command.interface.as_deref().map(|name| self.iface(name)).transpose()?;
        let number = state.packets.add_rule(
            &rule_of(command, iface),
            command.interface.clone(),
            self.host.workers(),
        )?;
        self.watch(state)?;
        Ok(Output::new(format!("Rule {number}\n"), json!({ "rule": number })))
    }

    pub(super) fn acl_delete(
        &self,
        state: &mut State,
        rule: Option<u32>,
    ) -> Result<Output, CommandError> {
        state.packets.remove_rule(rule.map(|number| number as usize))?;
        self.watch(state)?;
        Ok(Output::done())
    }

    /// Gives every worker what it needs to look at its packets, or takes it away. To be called
    /// after anything of that has changed, and after interfaces have.
    pub(super) fn watch(&self, state: &mut State) -> Result<(), CommandError> {
        let names = self.names(state);
        state.packets.interfaces_changed(&names);
        let infos = self.host.ask(0, |worker| worker.stack().interfaces().collect::<Vec<_>>())?;
        let places = infos.iter().map(|info| usize::from(info.iface.0) + 1).max().unwrap_or(0);
        let mut links = vec![Link::Raw; places];
        for info in infos {
            links[usize::from(info.iface.0)] = info.link;
        }
        for worker in 0..self.host.workers() {
            let watcher = state.packets.watcher(worker, &links);
            self.host.ask(worker, move |worker| {
                let inspector = watcher.map(|watcher| Box::new(watcher) as Box<dyn Inspect>);
                drop(worker.engine().set_inspector(inspector));
            })?;
        }
        Ok(())
    }
}
