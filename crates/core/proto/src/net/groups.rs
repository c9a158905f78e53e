//! Multicast groups: who of our sockets is a member where, what that makes of each interface (RFC
//! 3376 3.2), and what routers are told of it (IGMP, RFC 3376 and 2236; MLD, RFC 3810 and 2710).
//!
//! A socket's membership is a group on an interface and a source filter. The filters of all sockets
//! are merged into one for the interface, which decides what the interface takes; each socket's own
//! decides once more what it gets. When the merged one changes, that is reported, again so often as
//! the robustness variable says; when a router asks, it is answered after a random time. The two
//! protocols differ in nothing but their bytes.

pub(crate) mod change;
pub(crate) mod due;
mod report;

use alloc::vec::Vec;

use clearway_base::{FlowMap, Handle, Instant, Link, List, Rng, Slab};
use clearway_pkt::Iface;
use clearway_wire::Addr;

use crate::config::Config;
use crate::hash::AddrHash;
use crate::limits::MAX_GROUP_SOURCES;

/// How a list of sources is meant (RFC 3376 2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FilterMode {
    /// Only these sources.
    Include,
    /// All but these sources.
    Exclude,
}

/// A few sources, each once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SourceSet {
    list: [Addr; MAX_GROUP_SOURCES],
    len: u8,
}

impl SourceSet {
    pub(crate) const EMPTY: SourceSet =
        SourceSet { list: [Addr::ANY_V6; MAX_GROUP_SOURCES], len: 0 };

    /// All of them; None when they are too many.
    pub(crate) fn of(sources: &[Addr]) -> Option<SourceSet> {
        let mut set = SourceSet::EMPTY;
        sources.iter().all(|source| set.insert(*source)).then_some(set)
    }

    pub(crate) fn as_slice(&self) -> &[Addr] {
        &self.list[..usize::from(self.len)]
    }

    pub(crate) fn contains(&self, source: &Addr) -> bool {
        self.as_slice().contains(source)
    }

    /// False: there is no room.
    pub(crate) fn insert(&mut self, source: Addr) -> bool {
        if self.contains(&source) {
            return true;
        }
        let Some(place) = self.list.get_mut(usize::from(self.len)) else { return false };
        *place = source;
        self.len += 1;
        true
    }

    /// Keeps those of which `keep` says so.
    pub(crate) fn retain(&mut self, keep: impl Fn(&Addr) -> bool) {
        let mut kept = SourceSet::EMPTY;
        for source in self.as_slice().iter().filter(|source| keep(source)) {
            kept.insert(*source);
        }
        *self = kept;
    }
}

/// A socket's membership.
struct Member {
    iface: Iface,
    group: Addr,
    mode: FilterMode,
    sources: SourceSet,
    /// The next one of its socket.
    next: Option<u32>,
}

/// The memberships of a socket.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Joined {
    first: Option<u32>,
    count: u8,
}

/// What an interface takes of a group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reception {
    mode: FilterMode,
    sources: SourceSet,
}

impl Reception {
    /// No member.
    const NONE: Reception = Reception { mode: FilterMode::Include, sources: SourceSet::EMPTY };
    /// All that is sent to the group.
    const ALL: Reception = Reception { mode: FilterMode::Exclude, sources: SourceSet::EMPTY };

    fn is_none(&self) -> bool {
        self.mode == FilterMode::Include && self.sources.len == 0
    }

    fn takes(&self, source: &Addr) -> bool {
        self.sources.contains(source) == (self.mode == FilterMode::Include)
    }
}

/// A source that is to be reported as wanted or not.
#[derive(Clone, Copy)]
struct SourceChange {
    source: Addr,
    allow: bool,
    /// Reports that are still to carry it.
    left: u8,
}

/// A group that an interface is in, or left a moment ago.
pub(crate) struct Group {
    iface: Iface,
    addr: Addr,
    /// Addresses of ours that make us a member: the solicited-node group.
    by_address: u16,
    takes: Reception,
    /// Reports that are still to tell the filter mode with all sources.
    mode_left: u8,
    /// Sources that are still to be told of; those from `changes_len` on mean nothing.
    changes: [SourceChange; MAX_GROUP_SOURCES],
    changes_len: u8,
    /// When the next of those reports is due.
    change_at: Instant,
    /// When the answer to a query is due, and about which sources; none: about all.
    answer_at: Instant,
    asked: SourceSet,
    /// What is to be sent now.
    tell_change: bool,
    tell_answer: bool,
    ready: Link,
}

/// What is known of the routers of an interface that ask, for one family.
#[derive(Clone, Copy)]
struct Querier {
    robustness: u8,
    /// Until when there is a router that knows nothing newer (RFC 3376 7.2.1, RFC 3810 8.2.1).
    v1_until: Instant,
    v2_until: Instant,
}

/// All memberships.
pub(crate) struct Groups {
    members: Slab<Member>,
    groups: Slab<Group>,
    map: FlowMap,
    hash: AddrHash,
    rng: Rng,
    /// Groups that have something to tell.
    ready: List,
    /// For each interface, for IPv4 and IPv6.
    queriers: Vec<[Querier; 2]>,
    next_due: Instant,
    most_of_socket: u8,
}

impl Groups {
    pub(crate) fn new(config: &Config) -> Groups {
        let limits = &config.limits;
        let hash = AddrHash::new(&config.secret, 6);
        // The groups of our addresses must not be kept out by those of sockets.
        let groups = u32::from(limits.groups) + u32::from(limits.addresses);
        Groups {
            members: Slab::new(limits.memberships),
            groups: Slab::new(groups),
            map: FlowMap::new(groups),
            hash,
            rng: Rng::seed(hash.of(0, &Addr::ALL_NODES)),
            ready: List::new(),
            queriers: alloc::vec![[Querier::NONE; 2]; limits.interfaces.into()],
            next_due: Instant::NEVER,
            most_of_socket: limits.socket_memberships,
        }
    }

    fn find(&self, iface: Iface, addr: &Addr) -> Option<Handle<Group>> {
        if self.map.is_empty() {
            return None;
        }
        let is_it = |index| {
            self.groups.by_index(index).is_some_and(|g| g.iface == iface && g.addr == *addr)
        };
        self.groups.handle_at(self.map.find(self.hash.of(iface.0.into(), addr), is_it)?)
    }

    /// Whether a socket of ours is in the group on this interface.
    pub(crate) fn is_in(&self, iface: Iface, group: &Addr) -> bool {
        self.find(iface, group)
            .and_then(|at| self.groups.get(at))
            .is_some_and(|g| !g.takes.is_none())
    }

    /// Whether some member of a group wants what this source sends; None: there is no member.
    pub(crate) fn takes(&self, iface: Iface, group: &Addr, source: &Addr) -> Option<bool> {
        let group = self.groups.get(self.find(iface, group)?)?;
        (!group.takes.is_none()).then(|| group.takes.takes(source))
    }

    /// The same for one socket, whose memberships these are.
    pub(crate) fn socket_takes(
        &self,
        of: Joined,
        iface: Iface,
        group: &Addr,
        source: &Addr,
    ) -> Option<bool> {
        let member = self.members.by_index(self.member(of, iface, group)?)?;
        Some(member.sources.contains(source) == (member.mode == FilterMode::Include))
    }

    /// A socket's membership.
    fn member(&self, of: Joined, iface: Iface, group: &Addr) -> Option<u32> {
        let mut next = of.first;
        while let Some(index) = next {
            let member = self.members.by_index(index)?;
            if member.iface == iface && member.group == *group {
                return Some(index);
            }
            next = member.next;
        }
        None
    }

    /// Makes a socket a member; false when there is no room.
    fn join(&mut self, of: &mut Joined, member: Member) -> bool {
        let (iface, group) = (member.iface, member.group);
        let room = of.count < self.most_of_socket
            && (self.find(iface, &group).is_some() || !self.groups.is_full());
        let Some(at) =
            room.then(|| self.members.insert(Member { next: of.first, ..member })).flatten()
        else {
            return false;
        };
        (of.first, of.count) = (Some(at.index()), of.count + 1);
        self.merge(iface, &group);
        true
    }

    /// A socket is a member no longer.
    fn leave(&mut self, of: &mut Joined, index: u32) {
        let Some(at) = self.members.handle_at(index) else { return };
        let Some(gone) = self.members.remove(at) else { return };
        of.count = of.count.saturating_sub(1);
        let mut next = of.first;
        if next == Some(index) {
            of.first = gone.next;
        }
        while let Some(other) = next.filter(|other| *other != index) {
            let Some(member) = self.members.by_index_mut(other) else { break };
            if member.next == Some(index) {
                member.next = gone.next;
            }
            next = member.next;
        }
        self.merge(gone.iface, &gone.group);
    }

    /// An interface is gone: a socket is a member there no longer.
    pub(crate) fn leave_interface(&mut self, of: &mut Joined, iface: Iface) {
        let mut next = of.first;
        while let Some((index, member)) =
            next.and_then(|index| Some((index, self.members.by_index(index)?)))
        {
            next = member.next;
            if member.iface == iface {
                self.leave(of, index);
            }
        }
    }

    /// A socket goes, and with it all its memberships.
    pub(crate) fn leave_all(&mut self, of: &mut Joined) {
        while let Some(index) = of.first {
            self.leave(of, index);
        }
    }

    /// An address of ours makes us a member of a group, or does no longer.
    pub(crate) fn by_address(&mut self, iface: Iface, group: &Addr, joins: bool) {
        let Some(at) =
            self.find(iface, group).or_else(|| joins.then(|| self.make(iface, group)).flatten())
        else {
            return;
        };
        let Some(entry) = self.groups.get_mut(at) else { return };
        entry.by_address = if joins {
            entry.by_address.saturating_add(1)
        } else {
            entry.by_address.saturating_sub(1)
        };
        self.merge(iface, group);
    }

    /// Merges what the sockets want of a group into what the interface takes (RFC 3376 3.2).
    fn merge(&mut self, iface: Iface, group: &Addr) {
        let Some(at) = self.find(iface, group).or_else(|| self.make(iface, group)) else { return };
        let mut included = SourceSet::EMPTY;
        let mut excluded = None;
        let mut fits = true;
        for (_, member) in
            self.members.iter().filter(|(_, m)| m.iface == iface && m.group == *group)
        {
            match (member.mode, &mut excluded) {
                (FilterMode::Include, _) => {
                    fits &= member.sources.as_slice().iter().all(|source| included.insert(*source));
                }
                (FilterMode::Exclude, None) => excluded = Some(member.sources),
                (FilterMode::Exclude, Some(all)) => {
                    all.retain(|source| member.sources.contains(source))
                }
            }
        }
        let by_address = self.groups.get(at).is_some_and(|g| g.by_address > 0);
        let takes = match excluded {
            // Too many sources to name: all are let in, and each socket's own filter decides.
            _ if by_address || !fits => Reception::ALL,
            Some(mut sources) => {
                sources.retain(|source| !included.contains(source));
                Reception { mode: FilterMode::Exclude, sources }
            }
            None => Reception { mode: FilterMode::Include, sources: included },
        };
        self.receive(at, takes);
    }

    fn make(&mut self, iface: Iface, addr: &Addr) -> Option<Handle<Group>> {
        const NOTHING: SourceChange = SourceChange { source: Addr::ANY_V6, allow: false, left: 0 };
        let at = self.groups.insert(Group {
            iface,
            addr: *addr,
            by_address: 0,
            takes: Reception::NONE,
            mode_left: 0,
            changes: [NOTHING; MAX_GROUP_SOURCES],
            changes_len: 0,
            change_at: Instant::NEVER,
            answer_at: Instant::NEVER,
            asked: SourceSet::EMPTY,
            tell_change: false,
            tell_answer: false,
            ready: Link::OFF,
        })?;
        if self.map.insert(self.hash.of(iface.0.into(), addr), at.index()).is_err() {
            self.groups.remove(at);
            return None;
        }
        Some(at)
    }

    /// Forgets a group that we are not in and that nobody is to be told of.
    fn forget_if_done(&mut self, at: Handle<Group>) {
        let Some(group) = self.groups.get(at) else { return };
        let silent = group.change_at == Instant::NEVER && !group.tell_change && !group.tell_answer;
        if !group.takes.is_none() || !silent {
            return;
        }
        let hash = self.hash.of(group.iface.0.into(), &group.addr);
        self.ready.remove(&mut self.groups.links(|g| &mut g.ready), at.index());
        self.map.remove(hash, |value| value == at.index());
        self.groups.remove(at);
    }

    /// Whether something is to be told.
    pub(crate) fn wants_emit(&self) -> bool {
        !self.ready.is_empty()
    }

    /// When [`Groups::expire`] has something to do.
    pub(crate) fn next_deadline(&self) -> Instant {
        self.next_due
    }
}

#[cfg(test)]
mod tests;
