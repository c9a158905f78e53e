//! Datagram sockets of the host itself, which are no program's: what comes to them goes to whoever
//! bound them. And what routers say, which is no program's either.

use clearway_pkt::Iface;
use clearway_proto::{AddError, Sharing, UdpError, UdpId, UdpSpec};

use super::state::{HOST_TOKEN, Hears, HearsRouters, Sessions};
use crate::env::HostStack;

impl Sessions {
    /// Binds a socket that `hears` is told of what comes to. Others of the host may have the port
    /// beside it.
    pub fn bind_host_socket(
        &mut self,
        stack: &mut HostStack,
        spec: UdpSpec,
        hears: Hears,
    ) -> Result<UdpId, UdpError> {
        let sharing = Sharing { reuse_address: true, ..Sharing::default() };
        let socket = stack.udp_bind_shared(UdpSpec { token: HOST_TOKEN, ..spec }, sharing)?;
        self.host_sockets.push((socket, hears));
        Ok(socket)
    }

    /// Takes it away again.
    pub fn close_host_socket(&mut self, stack: &mut HostStack, socket: UdpId) {
        self.host_sockets.retain(|(known, _)| *known != socket);
        stack.udp_close(socket);
    }

    /// Has routers of an interface heard from now on, by who hears those of others too, or no more.
    pub fn hear_routers(
        &mut self,
        stack: &mut HostStack,
        iface: Iface,
        hears: Option<HearsRouters>,
    ) -> Result<(), AddError> {
        stack.hear_routers(iface, hears.is_some())?;
        self.hears_routers = hears.or(self.hears_routers.take());
        Ok(())
    }

    /// What routers said is passed on.
    pub(super) fn pass_router_news(&mut self, stack: &mut HostStack) {
        let Some(hears) = &mut self.hears_routers else { return };
        while let Some(news) = stack.next_router_news() {
            hears(&news);
        }
    }

    /// Something has come to one of them.
    pub(super) fn hear_host_socket(&mut self, stack: &mut HostStack, socket: UdpId) {
        let mine = self.host_sockets.iter_mut().find(|(known, _)| *known == socket);
        let Some((_, hears)) = mine else { return };
        while let Some(datagram) = stack.udp_recv(socket) {
            hears(&datagram);
        }
    }
}
