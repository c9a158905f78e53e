//! Interfaces whose addresses come from DHCP servers.

use std::sync::mpsc::SyncSender;

use clearway_dhcp::Client;
use clearway_pkt::Iface;
use clearway_proto::UdpId;
use clearway_wire::{Addr, Cidr, Mac};

/// What the thread that keeps leases is told.
pub(crate) enum Note {
    /// An interface was added or taken away.
    Look,
    /// A server said something on an interface.
    Said(Iface, Vec<u8>),
    /// A server of DHCPv6 said something on an interface.
    Said6(Iface, Vec<u8>),
    /// A router said something on an interface; None: it does not answer any more.
    Router(Iface, Addr, Option<Vec<u8>>),
    /// The host ends.
    End,
}

/// What is known of an interface that is about to be configured by a server or by routers.
pub(crate) struct Beginning {
    pub(crate) name: String,
    pub(crate) iface: Iface,
    /// The number of its routing table.
    pub(crate) table: u32,
    pub(crate) mac: Mac,
    pub(crate) mtu: u32,
    /// For what is to be different each time.
    pub(crate) seed: u64,
    /// Who keeps what is given.
    pub(crate) keeper: SyncSender<Note>,
}

/// An interface that is configured by DHCP.
pub(crate) struct Leased {
    pub(crate) name: String,
    pub(crate) iface: Iface,
    /// The number of its routing table.
    pub(crate) table: u32,
    pub(crate) client: Client,
    /// Each worker's socket.
    pub(crate) sockets: Vec<UdpId>,
    /// The address that is looked out for.
    pub(crate) watched: Option<Addr>,
    /// What was set, to be taken away again.
    pub(crate) address: Option<Cidr>,
    /// See `address`: where to, and by which router.
    pub(crate) routes: Vec<(Cidr, Addr)>,
}

/// All of them.
#[derive(Default)]
pub(crate) struct Leases {
    pub(crate) list: Vec<Leased>,
    /// The thread that keeps them.
    pub(crate) keeper: Option<SyncSender<Note>>,
}

impl Leases {
    /// The interface of this name.
    pub(crate) fn find(&self, name: &str) -> Option<&Leased> {
        self.list.iter().find(|leased| leased.name == name)
    }

    /// Whether a server gave this route.
    pub(crate) fn gave_route(&self, table: u32, prefix: Cidr) -> bool {
        let gave = |leased: &Leased| leased.routes.iter().any(|(to, _)| *to == prefix);
        self.list.iter().any(|leased| leased.table == table && gave(leased))
    }
}
