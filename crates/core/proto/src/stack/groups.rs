//! The owner's verbs for multicast groups.

use clearway_pkt::Iface;
use clearway_wire::Addr;

use super::Stack;
use crate::ids::{Table, UdpId};
use crate::net::groups::FilterMode;
use crate::net::groups::change::{GroupChange, GroupError, GroupInfo};
use crate::store::Env;

impl<E: Env> Stack<E> {
    /// Changes a socket's membership in `group` on `iface`. Routers are told with the next `emit`.
    /// The socket leaves all its groups when it is closed.
    ///
    /// # Errors
    /// [`GroupError`]: not a group, no such interface, a member already or none, the other filter
    /// mode, or the tables are full.
    pub fn udp_group(
        &mut self,
        socket: UdpId,
        iface: Iface,
        group: Addr,
        change: GroupChange<'_>,
    ) -> Result<(), GroupError> {
        let Stack { ip, udp, .. } = self;
        let (table, local, joined) = udp.membership(socket).ok_or(GroupError::Stale)?;
        let fits =
            if group.is_v4() { local.is_v4() || local == Addr::ANY_V6 } else { local.is_v6() };
        if !group.is_multicast() || !fits {
            return Err(GroupError::BadAddress);
        }
        if ip.interface(iface).is_none_or(|i| i.table != table) {
            return Err(GroupError::NoInterface);
        }
        ip.groups.change(joined, iface, group, change)
    }

    /// A socket's filter for a group on an interface; None when it is no member.
    pub fn udp_group_filter(
        &self,
        socket: UdpId,
        iface: Iface,
        group: Addr,
    ) -> Option<(FilterMode, &[Addr])> {
        self.ip.groups.filter(self.udp.joined(socket)?, iface, &group)
    }

    /// The groups that a socket is in, with their interfaces.
    pub fn udp_groups(&self, socket: UdpId) -> impl Iterator<Item = (Iface, Addr)> + '_ {
        self.ip.groups.of_socket(self.udp.joined(socket).unwrap_or_default())
    }

    /// The interface that a membership or a datagram is meant for when none is named: that of `by`,
    /// an address of ours, else the one that the route to the group leads by, else the first that
    /// is up.
    pub fn group_interface(&self, table: Table, by: Option<Addr>, group: Addr) -> Option<Iface> {
        match by.filter(|by| !by.is_unspecified()) {
            Some(by) => self
                .addresses()
                .find(|a| {
                    let here = self.ip.interface(a.iface).is_some_and(|i| i.table == table);
                    here && a.cidr.addr == by
                })
                .map(|a| a.iface),
            None => self.ip.source_link(table, &group),
        }
    }

    /// Every group that an interface is in.
    pub fn groups(&self) -> impl Iterator<Item = GroupInfo> + '_ {
        self.ip.groups.iter()
    }
}
