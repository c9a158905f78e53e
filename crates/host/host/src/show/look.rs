//! Where the views look, and the names that people know things by.

use std::cell::RefCell;

use clearway_base::Instant;
use clearway_command::DrainMode;
use clearway_dev::DevCounters;
use clearway_pkt::Iface;
use clearway_proto::Table;

use crate::autoconf::Autoconf;
use crate::capture::Packets;
use crate::config::ControlOptions;
use crate::host::HostHandle;
use crate::leases::Leases;
use crate::link_mtus::LinkMtus;
use crate::made::Made;
use crate::placements::Placements;
use crate::tables::Tables;

use super::last_looks::LastLooks;

/// Names with their counts.
pub(crate) type Rows = Vec<(&'static str, u64)>;

/// What counters were when they were cleared. They themselves only grow.
#[derive(Default)]
pub(crate) struct Baselines {
    pub(crate) errors: Rows,
    pub(crate) tcp: Rows,
    pub(crate) interfaces: Vec<(Iface, DevCounters)>,
}

/// Since when a host is drained, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Drain {
    pub(crate) since: Instant,
    pub(crate) mode: DrainMode,
}

impl Drain {
    /// What becomes of new connections, in a word.
    pub(crate) fn mode_name(&self) -> &'static str {
        match self.mode {
            DrainMode::Announce => "announce",
            DrainMode::Refuse => "refuse",
            DrainMode::Silent => "silent",
        }
    }
}

/// What the views of `show` need of the state.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    pub(crate) tables: &'a Tables,
    pub(crate) packets: &'a Packets,
    pub(crate) baselines: &'a Baselines,
    pub(crate) placements: &'a Placements,
    pub(crate) made: &'a Made,
    pub(crate) leases: &'a Leases,
    pub(crate) autoconf: &'a Autoconf,
    pub(crate) link_mtus: &'a LinkMtus,
    pub(crate) drain: Option<&'a Drain>,
    pub(crate) settings: &'a [(String, String)],
    pub(crate) last_looks: &'a RefCell<LastLooks>,
}

/// Where the views look.
pub(crate) struct Look<'a> {
    pub(super) host: &'a HostHandle,
    pub(super) options: &'a ControlOptions,
    pub(super) view: View<'a>,
}

impl Look<'_> {
    /// The number that people gave a table.
    pub(super) fn table(&self, table: Table) -> u32 {
        self.view.tables.number(table)
    }

    /// Whether people know an interface: the loopbacks for our own addresses have no name.
    pub(super) fn is_named(&self, iface: clearway_pkt::Iface) -> bool {
        crate::outcome::locked(&self.host.interfaces()).by_iface(iface).is_some()
    }

    /// The name of an interface.
    pub(super) fn name(&self, iface: clearway_pkt::Iface) -> String {
        let interfaces = self.host.interfaces();
        let interfaces = crate::outcome::locked(&interfaces);
        interfaces.by_iface(iface).map_or_else(|| iface.0.to_string(), |entry| entry.name.clone())
    }
}
