//! Interfaces that are configured by what IPv6 routers say.

use clearway_pkt::Iface;
use clearway_slaac::{Client, Way};
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
    /// The log has it that a router sends hosts to DHCPv6.
    pub(crate) told_of_dhcp: bool,
}

impl Configured {
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
