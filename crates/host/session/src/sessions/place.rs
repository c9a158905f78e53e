//! Addresses as sockets and as the stack have them, and what a namespace makes of them.

use std::net::{IpAddr, SocketAddr};

use clearway_pkt::Iface;
use clearway_proto::{Sharing, Table};
use clearway_shm::attach_socket::SocketOptions;
use clearway_wire::{Addr, Endpoint};
use nix::errno::Errno;

use super::state::{HostContext, Session};
use crate::env::HostStack;
use crate::errno::{Refusal, refuse};
use crate::program::Program;

/// A namespace's table, and the interface whose addresses are its own.
pub(super) struct Ground {
    pub(super) table: Table,
    pub(super) interface: Option<Iface>,
}

/// Where a program's sessions stand now: interfaces move between tables, and get and lose
/// addresses.
pub(super) fn ground(context: &dyn HostContext, stack: &HostStack, program: &Program) -> Ground {
    let named = program.interface.as_deref().and_then(|name| {
        let interfaces =
            context.interfaces().lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        interfaces.find(name).map(|entry| entry.iface)
    });
    let own = named.and_then(|iface| stack.interfaces().find(|i| i.iface == iface));
    Ground { table: own.map_or(program.table, |i| i.table), interface: named }
}

impl Session {
    /// The endpoint that a process names; refused when it is of a family that the socket does not
    /// speak.
    pub(super) fn endpoint(&self, address: SocketAddr) -> Result<Endpoint, Refusal> {
        let endpoint = Endpoint::from(address);
        if !self.v6 && address.is_ipv6() {
            return Err(refuse(Errno::EAFNOSUPPORT, "an IPv4 socket takes no IPv6 address"));
        }
        if self.v6 && self.options.v6_only && endpoint.addr.is_v4() {
            return Err(refuse(Errno::ENETUNREACH, "the socket is for IPv6 only (IPV6_V6ONLY)"));
        }
        Ok(endpoint)
    }

    /// The peer that a process names; refused when the socket has an address of the other family.
    pub(super) fn peer(
        &self,
        remote: SocketAddr,
        local: Option<Endpoint>,
    ) -> Result<Endpoint, Refusal> {
        let peer = self.endpoint(remote)?;
        if peer.addr.is_v6() && local.is_some_and(|local| local.addr.is_v4()) {
            return Err(refuse(Errno::EAFNOSUPPORT, "the socket has an address of IPv4"));
        }
        Ok(peer)
    }

    /// An endpoint as the process's socket has it: IPv4 is mapped into IPv6 on an IPv6 socket.
    pub(super) fn shown(&self, endpoint: Endpoint) -> SocketAddr {
        match SocketAddr::from(endpoint) {
            SocketAddr::V4(v4) if self.v6 => {
                SocketAddr::new(IpAddr::V6(v4.ip().to_ipv6_mapped()), v4.port())
            }
            other => other,
        }
    }

    /// Who may have its port beside it.
    pub(super) fn sharing(&self) -> Sharing {
        let SocketOptions { reuse_address, reuse_port, .. } = self.options;
        Sharing { reuse_address, reuse_port, owner: self.program.owner }
    }

    /// The wildcard of the socket's family.
    pub(super) fn any(&self) -> Addr {
        if self.v6 { Addr::ANY_V6 } else { Addr::ANY_V4 }
    }
}
