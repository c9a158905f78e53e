//! Memberships in groups, as processes ask for them.

use std::net::IpAddr;

use clearway_pkt::Iface;
use clearway_proto::{GroupChange, GroupError, Table, UdpId};
use clearway_shm::attach_socket;
use clearway_wire::Addr;

use crate::env::HostStack;

/// A membership as a process wants it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Wish {
    /// The interface's number from 1; 0: as the route says.
    pub iface: u32,
    /// The group.
    pub group: IpAddr,
    /// How the membership changes.
    pub change: attach_socket::GroupChange,
}

/// Memberships that wait for a session to be bound at most: as many as Linux lets a socket have
/// (`igmp_max_memberships`).
pub(super) const MAX_WISHES: usize = 20;

impl Wish {
    /// Has a socket's membership changed.
    pub(super) fn apply(
        &self,
        stack: &mut HostStack,
        socket: UdpId,
        table: Table,
    ) -> Result<(), GroupError> {
        let group = Addr::from(self.group.to_canonical());
        let iface = match iface_of(self.iface) {
            Some(iface) => Some(iface),
            None => stack.group_interface(table, None, group),
        };
        let iface = iface.ok_or(GroupError::NoInterface)?;
        let source = |ip: IpAddr| Addr::from(ip.to_canonical());
        let change = match self.change {
            attach_socket::GroupChange::Join => GroupChange::Join,
            attach_socket::GroupChange::Leave => GroupChange::Leave,
            attach_socket::GroupChange::JoinSource(ip) => GroupChange::JoinSource(source(ip)),
            attach_socket::GroupChange::LeaveSource(ip) => GroupChange::LeaveSource(source(ip)),
            attach_socket::GroupChange::Block(ip) => GroupChange::Block(source(ip)),
            attach_socket::GroupChange::Unblock(ip) => GroupChange::Unblock(source(ip)),
        };
        stack.udp_group(socket, iface, group, change)
    }
}

/// Processes count interfaces from 1.
pub(super) fn iface_of(number: u32) -> Option<Iface> {
    Some(Iface(u16::try_from(number.checked_sub(1)?).ok()?))
}
