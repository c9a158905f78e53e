//! Interfaces over ports of the system, and the placement of their queues.

use clearway_command::TapSpec as TapCommand;
use clearway_dev::{FaultSpec, FramePool, PortSpec, TapMode, TapSpec};
use clearway_pkt::Iface;
use clearway_ports::Wrap;
use clearway_session::interfaces::{InterfaceEntry, InterfaceKind};

use super::interfaces::MakePort;
use super::plane::{Control, State};
use crate::outcome::{CommandError, Output};

impl Control {
    pub(super) fn create_tap(
        &self,
        state: &mut State,
        command: &TapCommand,
    ) -> Result<Output, CommandError> {
        let name = self.free_name(command.id.map(|id| format!("tap{id}")), "tap")?;
        let host_name = command.host_name.clone().unwrap_or_else(|| name.clone());
        let spec = TapSpec {
            name: host_name.clone(),
            mode: if command.tun { TapMode::Tun } else { TapMode::Tap },
            queues: 1,
            mtu: command.mtu.map(|mtu| mtu as usize),
            mac: command.mac,
            offload: true,
            netns: None,
        };
        let fault = command
            .fault
            .as_deref()
            .map(|spec| spec.parse().map_err(CommandError::Fault))
            .transpose()?;
        let output = self.add_port(state, Some(name), &PortSpec::Tap(spec), fault)?;
        for address in &command.host_addresses {
            clearway_ports::add_host_address(&host_name, *address)?;
        }
        Ok(output)
    }

    /// Makes an interface of a port that a user named.
    pub(super) fn add_port(
        &self,
        state: &mut State,
        name: Option<String>,
        spec: &PortSpec,
        fault: Option<FaultSpec>,
    ) -> Result<Output, CommandError> {
        let (stem, kind) = match spec {
            PortSpec::Loop => return self.add_loopback(state, name, None, fault),
            PortSpec::Tap(tap) => ("tap", InterfaceKind::Tap { host_name: tap.name.clone() }),
            other => ("port", InterfaceKind::Other(other.to_string())),
        };
        let name = self.free_name(name, stem)?;
        let (fault, force) = (fault.or(self.options.fault), self.options.force);
        let wrap = Wrap { fault, fault_seed: state.next_fault_seed(), pcap: None, force };
        let queues = clearway_ports::open_one(spec, &wrap, self.host.workers())?;
        let makers = queues.into_iter().map(|queue| {
            Box::new(move |pool: &FramePool| queue.into_port(pool).map_err(CommandError::from))
                as MakePort
        });
        let makers = makers.collect();
        self.add_everywhere(state, InterfaceEntry { name, iface: Iface(0), kind }, None, makers)
    }
}
