//! Ports that come, go and change while the engine runs.

use clearway_dev::{BufferSource, Dev, DevCounters, Facts};
use clearway_pkt::Iface;
use clearway_proto::{AddError, Env, InterfaceInfo, InterfaceSpec, Link, NextHop};

use super::Engine;
use crate::error::EngineError;
use crate::ports::{Port, PortInfo, PortOptions, interface_of, link_local};
use crate::wait::MAX_PORTS;
use crate::{App, Mode, Probe};

impl<E: Env, D: Dev<Buf = E::Buf>, A: App<E>, P: Probe, M: BufferSource<Buf = E::Buf>>
    Engine<E, D, A, P, M>
{
    /// Makes a device an interface of the stack, also while the engine runs. The device uses the
    /// engine's pool. An interface of the same kind whose port was removed is used again, so that
    /// ports may come and go for ever; the number of the new one is the same on every engine that
    /// was told the same in the same order.
    ///
    /// # Errors
    /// [`EngineError::TooManyPorts`]; [`EngineError::Interface`] when the stack does not take it;
    /// [`EngineError::InterfaceTaken`] when the stack has an interface that this engine did not
    /// make.
    pub fn add_port(&mut self, dev: D, options: PortOptions) -> Result<Iface, EngineError> {
        if self.ports.count() >= MAX_PORTS {
            return Err(EngineError::TooManyPorts);
        }
        let added =
            interface_of(&dev, &options).and_then(|spec| match self.left_interface(&spec) {
                Some(iface) => self.revive(iface, &spec).map(|()| iface),
                None => self.stack.add_interface(spec),
            });
        let iface =
            added.map_err(|why| EngineError::Interface { name: options.name.clone(), why })?;
        if !self.ports.is_free(iface) {
            return Err(EngineError::InterfaceTaken(iface));
        }
        self.ports.put(iface, Port { dev, name: options.name, mode: None, error: None });
        self.choose_mode();
        Ok(iface)
    }

    /// Takes a port away and gives its device back. Its interface goes down and stays so; its
    /// addresses, the routes that lead out of it and the memberships in groups there go.
    pub fn remove_port(&mut self, iface: Iface) -> Option<D> {
        let port = self.ports.take(iface)?;
        self.stack.set_up(iface, false);
        self.forget_interface(iface);
        self.choose_mode();
        Some(port.dev)
    }

    // What an interface has for good is the kind of its link and what its device does.
    fn left_interface(&self, spec: &InterfaceSpec) -> Option<Iface> {
        let like = |link: Link| std::mem::discriminant(&link) == std::mem::discriminant(&spec.link);
        let left = |info: &InterfaceInfo| {
            !info.up
                && self.ports.is_left(info.iface)
                && like(info.link)
                && info.offloads == spec.offloads
        };
        self.stack.interfaces().find(left).map(|info| info.iface)
    }

    fn revive(&mut self, iface: Iface, spec: &InterfaceSpec) -> Result<(), AddError> {
        self.stack.set_mtu(iface, spec.mtu)?;
        self.stack.set_interface_table(iface, spec.table)?;
        if let Link::Ethernet(mac) = spec.link {
            self.stack.set_interface_mac(iface, mac)?;
            // A new interface has one when its MTU allows IPv6, and none when there is no room.
            let _ = self.stack.add_address(self.ports.time.now, iface, link_local(mac));
        }
        self.stack.set_up(iface, true);
        Ok(())
    }

    fn forget_interface(&mut self, iface: Iface) {
        let addresses: Vec<_> =
            self.stack.addresses().filter(|a| a.iface == iface).map(|a| a.cidr.addr).collect();
        for addr in addresses {
            self.stack.remove_address(iface, addr);
        }
        self.stack.forget_interface(iface);
        let leads_out = |via: NextHop| match via {
            NextHop::Interface(out) | NextHop::GatewayOn { iface: out, .. } => out == iface,
            _ => false,
        };
        let routes: Vec<_> =
            self.stack.routes().filter(|r| leads_out(r.via)).map(|r| (r.table, r.dst)).collect();
        for (table, dst) in routes {
            self.stack.remove_route(table, dst);
        }
    }

    /// Puts another device in the place of an interface's, and gives back the one that was there:
    /// another queue of the same port, since the stack goes on with what it knows of the first.
    ///
    /// # Errors
    /// [`EngineError::NoPort`]; the device is gone then.
    pub fn replace_port(&mut self, iface: Iface, dev: D) -> Result<D, EngineError> {
        let port = self.ports.get_mut(iface).ok_or(EngineError::NoPort(iface))?;
        port.error = None;
        Ok(std::mem::replace(&mut port.dev, dev))
    }

    /// Changes the MTU of an interface, in the stack and on its device; both or neither.
    ///
    /// # Errors
    /// [`EngineError::NoPort`], [`EngineError::Mtu`] from the stack, [`EngineError::Device`] from
    /// the device. Nothing has changed then.
    pub fn set_mtu(&mut self, iface: Iface, mtu: u32) -> Result<(), EngineError> {
        let port = self.ports.get_mut(iface).ok_or(EngineError::NoPort(iface))?;
        let before = self.stack.interfaces().find(|info| info.iface == iface).map(|info| info.mtu);
        self.stack.set_mtu(iface, mtu).map_err(EngineError::Mtu)?;
        if let Err(error) = port.dev.set_mtu(mtu as usize) {
            if let Some(before) = before {
                // It was good until now.
                let _ = self.stack.set_mtu(iface, before);
            }
            return Err(error.into());
        }
        Ok(())
    }

    /// The device of an interface.
    pub fn port(&self, iface: Iface) -> Option<&D> {
        self.ports.get(iface).map(|port| &port.dev)
    }

    /// The same, to be changed.
    pub fn port_mut(&mut self, iface: Iface) -> Option<&mut D> {
        self.ports.get_mut(iface).map(|port| &mut port.dev)
    }

    /// Every port, in the order of the interfaces.
    pub fn ports(&self) -> impl Iterator<Item = PortInfo<'_>> {
        self.ports.iter().map(|(iface, port)| PortInfo {
            iface,
            name: &port.name,
            mode: port.mode,
            counters: port.dev.counters(),
            error: port.error.as_ref(),
        })
    }

    /// What went through the port of an interface.
    pub fn port_counters(&self, iface: Iface) -> Option<DevCounters> {
        self.port(iface).map(Facts::counters)
    }

    /// Gives a port a mode of its own, or takes it away again. An engine has one sleep for all its
    /// ports, so the port that looks longest decides. False when there is no such port.
    pub fn set_port_mode(&mut self, iface: Iface, mode: Option<Mode>) -> bool {
        let Some(port) = self.ports.get_mut(iface) else { return false };
        port.mode = mode;
        self.choose_mode();
        true
    }
}
