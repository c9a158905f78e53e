//! Which addresses are Clearway's.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use clearway_shm::attach_socket::{Dns, Prefixes};

use crate::config::{AppConfig, Wildcard};

#[cfg(test)]
mod tests;

/// Where a connection or a datagram for this address goes: one for no address at all (0.0.0.0, ::)
/// goes to this machine, as on Linux. That is the address the socket is bound to, for IPv4, or the
/// loopback's.
pub fn destination(remote: SocketAddr, local: impl FnOnce() -> IpAddr) -> SocketAddr {
    let any = remote.ip().to_canonical();
    if !any.is_unspecified() {
        return remote;
    }
    let here = match (any, local().to_canonical()) {
        (IpAddr::V4(_), IpAddr::V4(own)) if !own.is_unspecified() => IpAddr::V4(own),
        // An IPv6 socket that is bound to an address of IPv4, or to its wildcard, speaks that only.
        (IpAddr::V4(_), _) | (IpAddr::V6(_), IpAddr::V4(_)) => Ipv4Addr::LOCALHOST.into(),
        (IpAddr::V6(_), IpAddr::V6(_)) => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(here, remote.port())
}

/// Where systemd-resolved answers on the machine itself (systemd-resolved.service(8)): programs that
/// ask the system's servers of names would find nobody there. Such an address is the namespace's
/// only when it was given to an interface.
const RESOLVER: [IpAddr; 2] =
    [IpAddr::V4(Ipv4Addr::new(127, 0, 0, 53)), IpAddr::V4(Ipv4Addr::new(127, 0, 0, 54))];

/// What a namespace reaches, as it was when it was asked last.
#[derive(Debug, Default)]
pub(crate) struct Routes(Prefixes);

impl Routes {
    pub(crate) fn new(prefixes: Prefixes) -> Routes {
        Routes(prefixes)
    }

    /// Which state of addresses and routes this is.
    pub(crate) fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Binding to this address is Clearway's.
    pub(crate) fn serves_local(&self, config: &AppConfig, local: SocketAddr) -> bool {
        let address = local.ip().to_canonical();
        match address.is_unspecified() {
            true => config.wildcard == Wildcard::Clearway && !self.0.local.is_empty(),
            false => self.owns(address) && !is_kernels(config, address),
        }
    }

    /// Connecting to this address is Clearway's.
    pub(crate) fn serves_remote(&self, config: &AppConfig, remote: SocketAddr) -> bool {
        let address = remote.ip().to_canonical();
        if is_kernels(config, address) {
            return false;
        }
        if self.owns(address) {
            return true;
        }
        // Loopback addresses and the wildcard are this machine.
        let here = address.is_loopback() || address.is_unspecified();
        let broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
        !here
            && !broadcast
            && self.0.routes.iter().any(|(prefix, len)| contains(*prefix, *len, address))
    }

    /// Whom programs of the namespace ask for names.
    pub(crate) fn dns(&self) -> &Dns {
        &self.0.dns
    }

    pub(crate) fn owns(&self, address: IpAddr) -> bool {
        let around = |(prefix, len): &(IpAddr, u8)| contains(*prefix, *len, address);
        self.0.local.contains(&address)
            || !RESOLVER.contains(&address) && self.0.loopback.as_ref().is_some_and(around)
    }
}

fn is_kernels(config: &AppConfig, address: IpAddr) -> bool {
    config.kernel.iter().any(|(prefix, len)| contains(*prefix, *len, address))
}

/// The first `len` bits are equal.
fn contains(prefix: IpAddr, len: u8, address: IpAddr) -> bool {
    let (prefix, address, bits) = match (prefix, address) {
        (IpAddr::V4(prefix), IpAddr::V4(address)) => {
            (u128::from(prefix.to_bits()) << 96, u128::from(address.to_bits()) << 96, 32)
        }
        (IpAddr::V6(prefix), IpAddr::V6(address)) => (prefix.to_bits(), address.to_bits(), 128),
        _ => return false,
    };
    let len = u32::from(len).min(bits);
    len == 0 || (prefix ^ address) >> (128 - len) == 0
}
