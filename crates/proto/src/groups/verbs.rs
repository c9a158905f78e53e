//! What owners of UDP sockets do about groups.

use clearway_pkt::Iface;
use clearway_wire::Addr;

use super::{FilterMode, Member, SourceSet};
use crate::Table;
use crate::stack::{Stack, UdpId};
use crate::store::Env;

/// How a socket sends to groups, and what it hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastOptions {
    /// TTL or hop limit of datagrams to groups (IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS); 0 keeps them on this host.
    pub ttl: u8,
    /// Members on this host get a copy (IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP).
    pub loop_back: bool,
    /// The interface that they leave by (IP_MULTICAST_IF, IPV6_MULTICAST_IF); None: that of the address that they are sent from, or of the route.
    pub iface: Option<Iface>,
    /// The socket hears groups that only others have joined, as long as it did not join them itself (IP_MULTICAST_ALL).
    pub all: bool,
}

impl Default for MulticastOptions {
    /// As Linux has them.
    fn default() -> MulticastOptions {
        MulticastOptions { ttl: 1, loop_back: true, iface: None, all: true }
    }
}

/// A change of a socket's membership in a group on an interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupChange<'a> {
    /// Joins, for all sources (IP_ADD_MEMBERSHIP, MCAST_JOIN_GROUP).
    Join,
    /// Leaves (IP_DROP_MEMBERSHIP, MCAST_LEAVE_GROUP).
    Leave,
    /// Joins for this source, or for one more (IP_ADD_SOURCE_MEMBERSHIP).
    JoinSource(Addr),
    /// This source is wanted no longer; with the last one the socket leaves (IP_DROP_SOURCE_MEMBERSHIP).
    LeaveSource(Addr),
    /// Hears this source no longer in a group that was joined for all (IP_BLOCK_SOURCE).
    Block(Addr),
    /// Hears it again (IP_UNBLOCK_SOURCE).
    Unblock(Addr),
    /// The whole filter (IP_MSFILTER, MCAST_MSFILTER); including nobody leaves.
    Filter(FilterMode, &'a [Addr]),
}

/// Why a membership was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupError {
    /// The handle names no socket (any more).
    Stale,
    /// Not a group, or one of another family than the socket or the source; a source that is no host.
    BadAddress,
    /// There is no such interface in the socket's table.
    NoInterface,
    /// The socket is a member already.
    AlreadyMember,
    /// The socket is no member, or the source is not in its filter.
    NotMember,
    /// The filter is of the other mode.
    WrongMode,
    /// The socket has all memberships that it may, the tables are full, or the sources are more than [`crate::limits::MAX_GROUP_SOURCES`].
    TooMany,
}

/// What can be seen of a group that an interface is in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupInfo {
    /// The interface.
    pub iface: Iface,
    /// The group.
    pub group: Addr,
    /// Memberships of sockets; 0: it follows from an address of ours.
    pub members: u32,
    /// How the sources are meant.
    pub mode: FilterMode,
    /// How many sources the interface's filter has.
    pub sources: u32,
}

impl<E: Env> Stack<E> {
    /// Changes a socket's membership in `group` on `iface`. Routers are told with the next `emit`. The socket leaves all its groups when it is closed.
    pub fn udp_group(
        &mut self,
        socket: UdpId,
        iface: Iface,
        group: Addr,
        change: GroupChange<'_>,
    ) -> Result<(), GroupError> {
        let Stack { ip, udp, .. } = self;
        let (table, local, joined) = udp.membership(socket).ok_or(GroupError::Stale)?;
        let fits = if group.is_v4() { local.is_v4() || local == Addr::ANY_V6 } else { local.is_v6() };
        if !group.is_multicast() || !fits {
            return Err(GroupError::BadAddress);
        }
        if ip.interface(iface).is_none_or(|i| i.table != table) {
            return Err(GroupError::NoInterface);
        }
        let is_source = |s: &Addr| s.is_v4() == group.is_v4() && !s.is_multicast() && !s.is_unspecified();
        let groups = &mut ip.groups;
        let known = groups.member(*joined, iface, &group);
        let (mode, sources) = match known.and_then(|at| groups.members.by_index(at)) {
            Some(member) => (Some(member.mode), member.sources),
            None => (None, SourceSet::EMPTY),
        };
        let (mode, sources) = match change {
            GroupChange::Filter(_, list) if !list.iter().all(is_source) => return Err(GroupError::BadAddress),
            GroupChange::Filter(mode, list) => (mode, SourceSet::of(list).ok_or(GroupError::TooMany)?),
            change => changed(mode, sources, change, is_source)?,
        };
        match known {
            Some(at) if mode == FilterMode::Include && sources.len == 0 => groups.leave(joined, at),
            Some(at) => {
                if let Some(member) = groups.members.by_index_mut(at) {
                    (member.mode, member.sources) = (mode, sources);
                }
                groups.merge(iface, &group);
            }
            None if mode == FilterMode::Include && sources.len == 0 => return Err(GroupError::NotMember),
            None if !groups.join(joined, Member { iface, group, mode, sources, next: None }) => {
                return Err(GroupError::TooMany);
            }
            None => {}
        }
        Ok(())
    }

    /// A socket's filter for a group on an interface; None when it is no member.
    pub fn udp_group_filter(&self, socket: UdpId, iface: Iface, group: Addr) -> Option<(FilterMode, &[Addr])> {
        let groups = &self.ip.groups;
        let member = groups.members.by_index(groups.member(self.udp.joined(socket)?, iface, &group)?)?;
        Some((member.mode, member.sources.as_slice()))
    }

    /// The groups that a socket is in, with their interfaces.
    pub fn udp_groups(&self, socket: UdpId) -> impl Iterator<Item = (Iface, Addr)> + '_ {
        let members = &self.ip.groups.members;
        let mut next = self.udp.joined(socket).unwrap_or_default().first;
        core::iter::from_fn(move || {
            let member = members.by_index(next?)?;
            next = member.next;
            Some((member.iface, member.group))
        })
    }

    /// The interface that a membership or a datagram is meant for when none is named: that of `by`, an address of ours, else the one that the route to the group
    /// leads by, else the first that is up.
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
        let groups = &self.ip.groups;
        groups.groups.iter().map(|(_, g)| g).filter(|g| !g.takes.is_none()).map(|g| GroupInfo {
            iface: g.iface,
            group: g.addr,
            members: groups.members.iter().filter(|(_, m)| m.iface == g.iface && m.group == g.addr).count() as u32,
            mode: g.takes.mode,
            sources: g.takes.sources.len.into(),
        })
    }
}

/// A filter after a change, as Linux has it (`ip_mc_source`).
fn changed(
    mode: Option<FilterMode>,
    mut sources: SourceSet,
    change: GroupChange<'_>,
    is_source: impl Fn(&Addr) -> bool,
) -> Result<(FilterMode, SourceSet), GroupError> {
    use FilterMode::{Exclude, Include};
    let add = |mut sources: SourceSet, source| {
        if sources.contains(&source) {
            return Err(GroupError::NotMember);
        }
        sources.insert(source).then_some(sources).ok_or(GroupError::TooMany)
    };
    // A filter that names nobody yet may change its mode.
    let free = sources.len == 0;
    match change {
        GroupChange::Join if mode.is_some() => Err(GroupError::AlreadyMember),
        GroupChange::Join => Ok((Exclude, SourceSet::EMPTY)),
        GroupChange::Leave if mode.is_none() => Err(GroupError::NotMember),
        GroupChange::Leave => Ok((Include, SourceSet::EMPTY)),
        GroupChange::JoinSource(s) | GroupChange::LeaveSource(s) | GroupChange::Block(s) | GroupChange::Unblock(s)
            if !is_source(&s) =>
        {
            Err(GroupError::BadAddress)
        }
        GroupChange::JoinSource(s) if mode != Some(Exclude) || free => Ok((Include, add(sources, s)?)),
        GroupChange::Block(s) if mode == Some(Exclude) => Ok((Exclude, add(sources, s)?)),
        GroupChange::LeaveSource(_) if mode.is_none() => Err(GroupError::NotMember),
        GroupChange::LeaveSource(s) if mode == Some(Include) => remove(Include, &mut sources, &s),
        GroupChange::Unblock(s) if mode == Some(Exclude) => remove(Exclude, &mut sources, &s),
        _ => Err(GroupError::WrongMode),
    }
}

fn remove(mode: FilterMode, sources: &mut SourceSet, source: &Addr) -> Result<(FilterMode, SourceSet), GroupError> {
    if !sources.contains(source) {
        return Err(GroupError::NotMember);
    }
    sources.retain(|s| s != source);
    Ok((mode, *sources))
}
