//! Groups that datagram sessions are in.

use std::net::IpAddr;
use std::sync::Arc;

use clearway_base::Handle;
use clearway_pkt::Iface;
use clearway_proto::{GroupChange, GroupError, MulticastOptions, Table, UdpId};
use clearway_shm::attach_socket::{self, SessionId, SocketOptions};
use clearway_wire::Addr;
use nix::errno::Errno;

use super::verbs::gone;
use super::{HostStack, Session, Sessions, What};
use crate::errno::{Refusal, refuse};
use crate::program::Program;

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

/// Memberships that wait for a session to be bound at most: as many as Linux lets a socket have (`igmp_max_memberships`).
pub(super) const MAX_WISHES: usize = 20;

impl Wish {
    /// Has a socket's membership changed.
    fn apply(&self, stack: &mut HostStack, socket: UdpId, table: Table) -> Result<(), GroupError> {
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

/// What a process set, as the stack has it.
pub(super) fn multicast_options(set: &SocketOptions) -> MulticastOptions {
    MulticastOptions {
        ttl: set.multicast_ttl,
        loop_back: set.multicast_loop,
        iface: iface_of(set.multicast_iface),
        all: set.multicast_all,
    }
}

fn refusal(why: GroupError) -> Refusal {
    let (errno, why) = match why {
        GroupError::Stale => (Errno::EBADF, "the socket is gone"),
        GroupError::BadAddress => (Errno::EINVAL, "not a group, or not of the socket's family"),
        GroupError::NoInterface => (Errno::ENODEV, "the namespace has no such interface, and no route to the group"),
        GroupError::AlreadyMember => (Errno::EADDRINUSE, "the socket is in the group already"),
        GroupError::NotMember => (Errno::EADDRNOTAVAIL, "the socket is not in the group, or has no such source"),
        GroupError::WrongMode => (Errno::EINVAL, "the membership's filter is of the other mode"),
        GroupError::TooMany => (Errno::ENOBUFS, "all memberships or sources that there may be are taken"),
    };
    refuse(errno, why)
}

impl Sessions {
    /// Changes a datagram session's membership in a group. Before it is bound, that waits.
    pub fn change_group(
        &mut self,
        stack: &mut HostStack,
        program: &Arc<Program>,
        id: SessionId,
        wish: Wish,
    ) -> Result<(), Refusal> {
        let handle = self.session(program, id)?;
        let session = self.table.get_mut(handle).ok_or_else(gone)?;
        let table = session.table;
        let What::Datagrams(datagrams) = &mut session.what else {
            return Err(refuse(Errno::EPROTO, "a stream is in no group"));
        };
        match datagrams.socket {
            Some(socket) => wish.apply(stack, socket, table).map_err(refusal)?,
            None if datagrams.wishes.len() < MAX_WISHES => datagrams.wishes.push(wish),
            None => return Err(refusal(GroupError::TooMany)),
        }
        self.spread(handle, table, wish);
        Ok(())
    }

    /// The session has its socket: what was wished for before is done now. Whether that can be was not known then.
    pub(super) fn grant_wishes(&mut self, stack: &mut HostStack, handle: Handle<Session>) {
        let Some(session) = self.table.get_mut(handle) else { return };
        let table = session.table;
        let What::Datagrams(datagrams) = &mut session.what else { return };
        let (Some(socket), wishes) = (datagrams.socket, std::mem::take(&mut datagrams.wishes)) else { return };
        for wish in wishes {
            if let Err(why) = wish.apply(stack, socket, table) {
                tracing::warn!(group = %wish.group, ?why, "a group was not joined");
            }
            self.spread(handle, table, wish);
        }
    }

    /// Other workers, where datagrams to the group may come too, hear it for the session. Its own worker has said what is wrong.
    fn spread(&self, handle: Handle<Session>, table: Table, wish: Wish) {
        self.at_forwarders(handle, move |stack, socket| {
            let _ = wish.apply(stack, socket, table);
        });
    }
}
