//! Interfaces that are configured by what IPv6 routers say.

use clearway_dhcp::v6;
use clearway_pkt::Iface;
use clearway_proto::UdpId;
use clearway_slaac::{Client, Phase, Way};
use clearway_wire::{Addr, Cidr};

/// An interface that is configured so.
pub(crate) struct Configured {
    pub(crate) name: String,
    pub(crate) iface: Iface,
    /// The number of its routing table.
    pub(crate) table: u32,
    pub(crate) client: Client,
    /// Addresses that are looked out for.
    pub(crate) watched: Vec<Addr>,
    /// What was set, to be taken away again.
    pub(crate) addresses: Vec<Cidr>,
    /// See `addresses`.
    pub(crate) ways: Vec<Way>,
    /// What servers of DHCPv6 give besides, where routers say that there are some.
    pub(crate) dhcp: v6::Client,
    /// Each worker's socket for it, once there is something to ask for.
    pub(crate) sockets: Vec<UdpId>,
}

impl Configured {
    /// The address that the interface speaks to servers from; None: it was not probed for yet.
    pub(crate) fn link_local(&self) -> Option<Addr> {
        let own = self.client.addresses().first().filter(|own| own.cidr.addr.is_link_local())?;
        matches!(own.phase, Phase::Preferred | Phase::Deprecated).then_some(own.cidr.addr)
    }

    /// Whether a router gave the way to this prefix.
    pub(crate) fn has_way(&self, prefix: Cidr) -> bool {
        self.ways.iter().any(|way| way.to == prefix)
    }
}

/// All of them.
#[derive(Default)]
pub(crate) struct Autoconf {
    pub(crate) list: Vec<Configured>,
    /// What addresses are made of (RFC 7217 5), once it was asked for.
    pub(crate) secret: Option<[u8; 16]>,
}

impl Autoconf {
    /// The interface of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Configured> {
        self.list.iter().find(|configured| configured.name == name)
    }

    /// Whether an address of an interface was made of what a router gave.
    pub(crate) fn gave_address(&self, iface: Iface, cidr: Cidr) -> bool {
        self.list.iter().any(|c| c.iface == iface && c.addresses.contains(&cidr))
    }

    /// Whether a router gave this route.
    pub(crate) fn gave_route(&self, table: u32, prefix: Cidr) -> bool {
        self.list.iter().any(|c| c.table == table && c.has_way(prefix))
    }
}
