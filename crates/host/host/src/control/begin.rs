//! What a host does before it serves anybody: the ports, namespaces and scripts of its settings.

use std::path::PathBuf;

use clearway_command::{AppNamespace, RouteVia};
use clearway_shm::attach_socket::{Dns, DnsServer};
use clearway_wire::{Addr, Cidr};

use super::plane::{Control, State};
use crate::config::{NamespaceSetting, PortSetting, Settings};
use crate::outcome::{CommandError, locked};
use crate::teller::Teller;

impl From<&NamespaceSetting> for AppNamespace {
    fn from(namespace: &NamespaceSetting) -> AppNamespace {
        AppNamespace {
            id: namespace.id.clone(),
            secret: namespace.secret.as_ref().map(|secret| secret.0.clone().into()),
            interface: namespace.interface.clone(),
            table: namespace.table,
            limits: namespace.limits,
        }
    }
}

impl Control {
    /// Makes the ports and namespaces of the settings, and carries out the scripts. The first thing
    /// that cannot be done ends it.
    pub fn begin(&self, settings: &Settings, scripts: &[PathBuf]) -> Result<(), CommandError> {
        let mut state = self.lock();
        self.tell_dns_of_settings(settings);
        for port in &settings.ports {
            self.begin_port(&mut state, port)?;
        }
        for namespace in &settings.namespaces {
            self.begin_table(&mut state, namespace.table.unwrap_or(0))?;
            self.add_namespace(&state, &AppNamespace::from(namespace))?;
        }
        scripts.iter().try_for_each(|script| self.script(&mut state, script).map(drop))
    }

    /// Programs of all namespaces ask the servers of names that the settings say.
    pub(super) fn tell_dns_of_settings(&self, settings: &Settings) {
        let servers = settings.dns.servers.iter().map(|addr| DnsServer::of((*addr).into()));
        let dns = Dns { servers: servers.collect(), search: settings.dns.search.clone() };
        locked(&self.host.namespaces()).dns.set(dns);
    }

    fn begin_port(&self, state: &mut State, port: &PortSetting) -> Result<(), CommandError> {
        let Some(spec) = &port.port else { return Ok(()) };
        let made = self.add_port(state, port.name.clone(), spec, port.fault, None)?;
        let name = made.text.trim();
        self.begin_table(state, port.table)?;
        if port.table != 0 {
            self.set_table(state, name, port.table)?;
        }
        for address in &port.addresses {
            self.set_address(state, name, Some(*address), true)?;
        }
        self.set_state(state, name, true)?;
        if port.dhcp {
            self.configure(state, name, Teller::Dhcp, true)?;
        }
        if port.slaac {
            self.configure(state, name, Teller::Router, true)?;
        }
        for gateway in &port.gateways {
            let any = if gateway.is_v4() { Addr::ANY_V4 } else { Addr::ANY_V6 };
            let Some(everywhere) = Cidr::new(any, 0) else { continue };
            let interface = gateway.is_link_local().then(|| name.to_owned());
            self.add_route(
                state,
                everywhere,
                port.table,
                Some(&RouteVia::Gateway(*gateway, interface)),
            )?;
        }
        Ok(())
    }

    /// A table that the settings name is made by that.
    fn begin_table(&self, state: &mut State, number: u32) -> Result<(), CommandError> {
        if state.tables.find(number).is_err() {
            state.tables.add(number)?;
        }
        Ok(())
    }
}
