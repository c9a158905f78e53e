//! What owners of UDP sockets do about groups.

use clearway_pkt::Iface;
use clearway_wire::Addr;

use super::{FilterMode, Groups, Joined, Member, SourceSet};

/// How a socket sends to groups, and what it hears.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MulticastOptions {
    /// TTL or hop limit of datagrams to groups (IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS); 0 keeps
    /// them on this host.
    pub ttl: u8,
    /// Members on this host get a copy (IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP).
    pub loop_back: bool,
    /// The interface that they leave by (IP_MULTICAST_IF, IPV6_MULTICAST_IF); None: that of the
    /// address that they are sent from, or of the route.
    pub iface: Option<Iface>,
    /// The address that they come from where the socket was bound to none; it is ours, or as good as
    /// none. None: as the interface and the route say.
    pub source: Option<Addr>,
    /// The socket hears groups that only others have joined, as long as it did not join them itself
    /// (IP_MULTICAST_ALL).
    pub all: bool,
}

impl Default for MulticastOptions {
    /// As Linux has them.
    fn default() -> MulticastOptions {
        MulticastOptions { ttl: 1, loop_back: true, iface: None, source: None, all: true }
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
    /// This source is wanted no longer; with the last one the socket leaves
    /// (IP_DROP_SOURCE_MEMBERSHIP).
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
    /// Not a group, or one of another family than the socket or the source; a source that is no
    /// host.
    BadAddress,
    /// There is no such interface in the socket's table.
    NoInterface,
    /// The socket is a member already.
    AlreadyMember,
    /// The socket is no member, or the source is not in its filter.
    NotMember,
    /// The filter is of the other mode.
    WrongMode,
    /// The socket has all memberships that it may, the tables are full, or the sources are more
    /// than [`crate::limits::MAX_GROUP_SOURCES`].
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

impl Groups {
    /// Changes the membership of a socket, whose memberships are `joined`, in `group` on `iface`.
    pub(crate) fn change(
        &mut self,
        joined: &mut Joined,
        iface: Iface,
        group: Addr,
        change: GroupChange<'_>,
    ) -> Result<(), GroupError> {
        let is_source =
            |s: &Addr| s.is_v4() == group.is_v4() && !s.is_multicast() && !s.is_unspecified();
        let known = self.member(*joined, iface, &group);
        let (mode, sources) = match known.and_then(|at| self.members.by_index(at)) {
            Some(member) => (Some(member.mode), member.sources),
            None => (None, SourceSet::EMPTY),
        };
        let (mode, sources) = match change {
            GroupChange::Filter(_, list) if !list.iter().all(is_source) => {
                return Err(GroupError::BadAddress);
            }
            GroupChange::Filter(mode, list) => {
                (mode, SourceSet::of(list).ok_or(GroupError::TooMany)?)
            }
            change => changed(mode, sources, change, is_source)?,
        };
        match known {
            Some(at) if mode == FilterMode::Include && sources.len == 0 => self.leave(joined, at),
            Some(at) => {
                if let Some(member) = self.members.by_index_mut(at) {
                    (member.mode, member.sources) = (mode, sources);
                }
                self.merge(iface, &group);
            }
            None if mode == FilterMode::Include && sources.len == 0 => {
                return Err(GroupError::NotMember);
            }
            None if !self.join(joined, Member { iface, group, mode, sources, next: None }) => {
                return Err(GroupError::TooMany);
            }
            None => {}
        }
        Ok(())
    }

    /// A socket's filter for a group on an interface; None when it is no member.
    pub(crate) fn filter(
        &self,
        of: Joined,
        iface: Iface,
        group: &Addr,
    ) -> Option<(FilterMode, &[Addr])> {
        let member = self.members.by_index(self.member(of, iface, group)?)?;
        Some((member.mode, member.sources.as_slice()))
    }

    /// The groups that a socket is in, with their interfaces.
    pub(crate) fn of_socket(&self, of: Joined) -> impl Iterator<Item = (Iface, Addr)> + '_ {
        let mut next = of.first;
        core::iter::from_fn(move || {
            let member = self.members.by_index(next?)?;
            next = member.next;
            Some((member.iface, member.group))
        })
    }

    /// Every group that an interface is in.
    pub(crate) fn iter(&self) -> impl Iterator<Item = GroupInfo> + '_ {
        self.groups.iter().map(|(_, g)| g).filter(|g| !g.takes.is_none()).map(|g| GroupInfo {
            iface: g.iface,
            group: g.addr,
            members: self
                .members
                .iter()
                .filter(|(_, m)| m.iface == g.iface && m.group == g.addr)
                .count() as u32,
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
        GroupChange::JoinSource(s)
        | GroupChange::LeaveSource(s)
        | GroupChange::Block(s)
        | GroupChange::Unblock(s)
            if !is_source(&s) =>
        {
            Err(GroupError::BadAddress)
        }
        GroupChange::JoinSource(s) if mode != Some(Exclude) || free => {
            Ok((Include, add(sources, s)?))
        }
        GroupChange::Block(s) if mode == Some(Exclude) => Ok((Exclude, add(sources, s)?)),
        GroupChange::LeaveSource(_) if mode.is_none() => Err(GroupError::NotMember),
        GroupChange::LeaveSource(s) if mode == Some(Include) => remove(Include, &mut sources, &s),
        GroupChange::Unblock(s) if mode == Some(Exclude) => remove(Exclude, &mut sources, &s),
        _ => Err(GroupError::WrongMode),
    }
}

fn remove(
    mode: FilterMode,
    sources: &mut SourceSet,
    source: &Addr,
) -> Result<(FilterMode, SourceSet), GroupError> {
    if !sources.contains(source) {
        return Err(GroupError::NotMember);
    }
    sources.retain(|s| s != source);
    Ok((mode, *sources))
}
