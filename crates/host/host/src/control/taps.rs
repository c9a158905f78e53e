//! Interfaces over ports of the system, and the placement of their queues.

use clearway_command::TapSpec as TapCommand;
use clearway_dev::{FaultSpec, FramePool, PortSpec, SpecError, TapMode, TapSpec};
use clearway_pkt::Iface;
use clearway_ports::{PortError, Wrap};
use clearway_session::interfaces::{InterfaceEntry, InterfaceKind};

use super::interfaces::MakePort;
use super::plane::{Control, State};
use crate::made::quoted;
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
            netns: command.netns.clone(),
        };
        // The words of a port say what a namespace may be called.
        spec.to_string()
            .parse::<PortSpec>()
            .map_err(|error| PortError::Misuse(error.to_string()))?;
        let mut line = format!("create tap id {} host-if-name {host_name}", &name[3..]);
        let mac = command.mac.map(|mac| format!(" hw-addr {mac}"));
        let mtu = command.mtu.map(|mtu| format!(" host-mtu-size {mtu}"));
        let netns = command.netns.as_ref().map(|netns| format!(" host-ns {netns}"));
        let tun = command.tun.then(|| " tun".to_owned());
        [mac, mtu, netns, tun].into_iter().flatten().for_each(|words| line.push_str(&words));
        for prefix in &command.host_addresses {
            let family = if prefix.addr.is_v4() { "host-ip4-addr" } else { "host-ip6-addr" };
            line.push_str(&format!(" {family} {prefix}"));
        }
        let fault = command
            .fault
            .as_deref()
            .map(|spec| spec.parse().map_err(CommandError::Fault))
            .transpose()?;
        let output = self.add_port(state, Some(name), &PortSpec::Tap(spec), fault, Some(line))?;
        let iface = self.iface(output.text.trim())?;
        for address in &command.host_addresses {
            state.made.host_address(iface, *address);
            clearway_ports::within(command.netns.as_deref(), || {
                clearway_ports::add_host_address(&host_name, *address)
            })?;
        }
        Ok(output)
    }

    pub(super) fn create_port(
        &self,
        state: &mut State,
        port: &str,
        name: Option<&str>,
        fault: Option<&str>,
    ) -> Result<Output, CommandError> {
        let spec: PortSpec =
            port.parse().map_err(|error: SpecError| PortError::Misuse(error.to_string()))?;
        let fault = fault.map(|spec| spec.parse().map_err(CommandError::Fault)).transpose()?;
        self.add_port(state, name.map(str::to_owned), &spec, fault, None)
    }

    /// Makes an interface of a port that a user named, with the command that makes it again if it
    /// is not `create port`.
    pub(super) fn add_port(
        &self,
        state: &mut State,
        name: Option<String>,
        spec: &PortSpec,
        fault: Option<FaultSpec>,
        line: Option<String>,
    ) -> Result<Output, CommandError> {
        let (stem, kind) = match spec {
            PortSpec::Loop => return self.add_loopback(state, name, None, fault),
            PortSpec::Tap(tap) => ("tap", InterfaceKind::Tap { host_name: tap.name.clone() }),
            other => ("port", InterfaceKind::Other(other.to_string())),
        };
        let name = self.free_name(name, stem)?;
        let line = line.unwrap_or_else(|| {
            format!("create port {} name {}", quoted(&spec.to_string()), quoted(&name))
        });
        let line = fault.map_or(line.clone(), |fault| format!("{line} fault {fault}"));
        let (fault, force) = (fault.or(self.options.fault), self.options.force);
        let wrap = Wrap { fault, fault_seed: state.next_fault_seed(), pcap: None, force };
        let queues = clearway_ports::open_one(spec, &wrap, self.host.workers())?;
        let makers = queues.into_iter().map(|queue| {
            Box::new(move |pool: &FramePool| queue.into_port(pool).map_err(CommandError::from))
                as MakePort
        });
        let makers = makers.collect();
        let entry = InterfaceEntry { name: name.clone(), iface: Iface(0), kind };
        let output = self.add_everywhere(state, entry, (line, None), makers)?;
        state.made.opened_by(self.iface(&name)?, spec.clone(), wrap.fault);
        Ok(output)
    }
}
