//! When routers are told: reports of changes, sent several times; answers to queries, after a
//! random time; and routers that know nothing newer.

use clearway_base::{Duration, Handle, Instant};
use clearway_pkt::Iface;
use clearway_wire::Addr;
use clearway_wire::group::{Query, Version};

use super::{FilterMode, Group, Groups, Querier, Reception, SourceChange, SourceSet};

/// The robustness variable before a router says another (RFC 3376 8.1, RFC 3810 9.1).
const ROBUSTNESS: u8 = 2;
/// How much later a report is repeated at most (RFC 3376 8.11, RFC 3810 9.11), and to a router of
/// version 2 (RFC 2236 8.10).
const REPEAT: Duration = Duration::from_secs(1);
const REPEAT_OLD: Duration = Duration::from_secs(10);
/// How long a router that knows nothing newer is remembered: robustness times the usual interval of
/// its queries, and the time that an answer takes (RFC 3376 8.12; RFC 3810 9.12), and for version 1
/// (RFC 2236 8.11).
const QUERY_INTERVAL: Duration = Duration::from_secs(125);
const QUERY_RESPONSE: Duration = Duration::from_secs(10);
const V1_ROUTER_PRESENT: Duration = Duration::from_secs(400);

impl Querier {
    pub(super) const NONE: Querier =
        Querier { robustness: ROBUSTNESS, v1_until: Instant::ZERO, v2_until: Instant::ZERO };

    /// The version in which the routers of the link understand us.
    fn version(&self, now: Instant) -> Version {
        match () {
            () if now < self.v1_until => Version::V1,
            () if now < self.v2_until => Version::V2,
            () => Version::V3,
        }
    }
}

impl Group {
    /// Whether reports about it may leave: never about all hosts of the link, nor about what stays
    /// in the interface (RFC 3376 5, RFC 3810 6).
    fn is_told(&self) -> bool {
        let scope = self.addr.octets()[1] & 15;
        match self.addr.is_v4() {
            true => self.addr != crate::net::local::ALL_HOSTS,
            false => scope > 1 && self.addr != Addr::ALL_NODES,
        }
    }

    pub(super) fn changes(&self) -> &[SourceChange] {
        &self.changes[..usize::from(self.changes_len)]
    }

    /// Notes that a source is to be told of. False: there is no room.
    fn note_change(&mut self, source: Addr, allow: bool, left: u8) -> bool {
        let len = usize::from(self.changes_len);
        if let Some(known) = self.changes[..len].iter_mut().find(|c| c.source == source) {
            (known.allow, known.left) = (allow, left);
            return true;
        }
        let Some(place) = self.changes.get_mut(len) else { return false };
        *place = SourceChange { source, allow, left };
        self.changes_len += 1;
        true
    }
}

impl Groups {
    pub(super) fn querier(&self, iface: Iface, is_v6: bool) -> Querier {
        self.queriers
            .get(usize::from(iface.0))
            .map_or(Querier::NONE, |both| both[usize::from(is_v6)])
    }

    pub(super) fn version(&self, now: Instant, iface: Iface, is_v6: bool) -> Version {
        self.querier(iface, is_v6).version(now)
    }

    /// The interface takes something else of a group from now on, and routers are to hear of it
    /// (RFC 3376 5.1).
    pub(super) fn receive(&mut self, at: Handle<Group>, takes: Reception) {
        let Some(group) = self.groups.get(at) else { return };
        let robustness = self.querier(group.iface, group.addr.is_v6()).robustness;
        let Some(group) = self.groups.get_mut(at) else { return };
        let before = core::mem::replace(&mut group.takes, takes);
        // Groups that follow from our addresses are told to who asks. That a link hears of them by
        // itself would be a packet for each address of each interface.
        let unsaid = !group.is_told() || (group.by_address > 0 && before.is_none());
        if before == takes || unsaid {
            return self.forget_if_done(at);
        }
        let mut whole = before.mode != takes.mode || group.mode_left > 0;
        let wanted = takes.mode == FilterMode::Include;
        for (from, to, allow) in
            [(before.sources, takes.sources, wanted), (takes.sources, before.sources, !wanted)]
        {
            for source in to.as_slice().iter().filter(|source| !from.contains(source)) {
                whole = whole || !group.note_change(*source, allow, robustness);
            }
        }
        if whole {
            (group.mode_left, group.changes_len) = (robustness, 0);
        }
        self.tell_change(at.index());
    }

    /// All groups of an interface are told anew: it was down.
    pub(crate) fn tell_anew(&mut self, iface: Iface) {
        for index in 0..self.groups.capacity() {
            let Some(group) =
                self.groups.by_index(index).filter(|g| g.iface == iface && g.is_told())
            else {
                continue;
            };
            if !group.takes.is_none() && group.by_address == 0 {
                let robustness = self.querier(iface, group.addr.is_v6()).robustness;
                if let Some(group) = self.groups.by_index_mut(index) {
                    (group.mode_left, group.changes_len) = (robustness, 0);
                }
                self.tell_change(index);
            }
        }
    }

    fn tell_change(&mut self, index: u32) {
        if let Some(group) = self.groups.by_index_mut(index) {
            group.tell_change = true;
            group.change_at = Instant::NEVER;
            self.ready.push_back(&mut self.groups.links(|g| &mut g.ready), index);
        }
    }

    /// What was to be told of a group has left, or cannot leave.
    pub(crate) fn told(&mut self, now: Instant, at: Handle<Group>) {
        self.ready.remove(&mut self.groups.links(|g| &mut g.ready), at.index());
        let Some(group) = self.groups.get(at) else { return };
        let version = self.version(now, group.iface, group.addr.is_v6());
        let repeat = if version == Version::V3 { REPEAT } else { REPEAT_OLD };
        let later = now + Duration::from_nanos(self.rng.between(1, repeat.as_nanos()));
        let Some(group) = self.groups.get_mut(at) else { return };
        if core::mem::take(&mut group.tell_change) {
            if group.mode_left > 0 {
                group.mode_left -= 1;
            } else {
                let len = usize::from(group.changes_len);
                let mut kept = 0;
                for from in 0..len {
                    let change = group.changes[from];
                    if change.left > 1 {
                        group.changes[kept] = SourceChange { left: change.left - 1, ..change };
                        kept += 1;
                    }
                }
                group.changes_len = kept as u8;
            }
            // A leave of version 2 is sent once, and is of no more use when it is lost than the
            // silence that follows.
            if version != Version::V3 && group.takes.is_none() {
                (group.mode_left, group.changes_len) = (0, 0);
            }
            let more = group.mode_left > 0 || group.changes_len > 0;
            group.change_at = if more { later } else { Instant::NEVER };
            self.next_due = self.next_due.min(group.change_at);
        }
        if core::mem::take(&mut group.tell_answer) {
            (group.answer_at, group.asked) = (Instant::NEVER, SourceSet::EMPTY);
        }
        self.forget_if_done(at);
    }

    /// A router asks (RFC 3376 5.2 and 7.2.1, RFC 3810 6.2 and 8.2.1).
    pub(crate) fn on_query(&mut self, now: Instant, iface: Iface, query: &Query<'_>) {
        let is_v6 = query.group.is_v6();
        let Some(querier) =
            self.queriers.get_mut(usize::from(iface.0)).map(|both| &mut both[usize::from(is_v6)])
        else {
            return;
        };
        match query.version {
            Version::V1 => querier.v1_until = now + V1_ROUTER_PRESENT,
            Version::V2 => {
                let present = QUERY_INTERVAL.as_nanos() * u64::from(querier.robustness)
                    + QUERY_RESPONSE.as_nanos();
                querier.v2_until = now + Duration::from_nanos(present);
            }
            // RFC 3376 4.1.6: 0 says nothing.
            Version::V3 if query.robustness > 0 => querier.robustness = query.robustness,
            Version::V3 => {}
        }
        let longest = Duration::from_millis(query.max_response_ms.into()).as_nanos().max(1);
        for index in 0..self.groups.capacity() {
            let asked_for = |g: &Group| {
                let this = query.group.is_unspecified() || g.addr == query.group;
                g.iface == iface
                    && g.addr.is_v6() == is_v6
                    && this
                    && g.is_told()
                    && !g.takes.is_none()
            };
            if !self.groups.by_index(index).is_some_and(asked_for) {
                continue;
            }
            let due = now + Duration::from_nanos(self.rng.between(1, longest));
            let Some(group) = self.groups.by_index_mut(index) else { continue };
            let waits = group.answer_at != Instant::NEVER;
            // RFC 3376 5.2: who was asked for all answers for all; who was asked for some sources
            // before answers for those too.
            let all_before = waits && group.asked.len == 0;
            let mut asked = group.asked;
            let fits = query.sources.iter().all(|source| asked.insert(source));
            group.asked = if all_before || query.sources.is_empty() || !fits {
                SourceSet::EMPTY
            } else {
                asked
            };
            group.answer_at = group.answer_at.min(due);
            self.next_due = self.next_due.min(group.answer_at);
        }
    }

    /// Another host of the link reports that it is in a group: for a router of version 1 or 2 one
    /// report is enough (RFC 2236 3).
    pub(crate) fn on_report(&mut self, now: Instant, iface: Iface, addr: &Addr) {
        if self.version(now, iface, addr.is_v6()) == Version::V3 {
            return;
        }
        if let Some(group) = self.find(iface, addr).and_then(|at| self.groups.get_mut(at)) {
            (group.answer_at, group.asked) = (Instant::NEVER, SourceSet::EMPTY);
        }
    }

    /// Marks the groups whose report is due.
    pub(crate) fn expire(&mut self, now: Instant) {
        if now < self.next_due {
            return;
        }
        self.next_due = Instant::NEVER;
        for index in 0..self.groups.capacity() {
            let Some(group) = self.groups.by_index_mut(index) else { continue };
            group.tell_change |= group.change_at <= now;
            group.tell_answer |= group.answer_at <= now;
            for at in [&mut group.change_at, &mut group.answer_at] {
                if *at <= now {
                    *at = Instant::NEVER;
                }
                self.next_due = self.next_due.min(*at);
            }
            if group.tell_change || group.tell_answer {
                self.ready.push_back(&mut self.groups.links(|g| &mut g.ready), index);
            }
        }
    }
}
