//! What is to be told of a group now: the records of one report, taken from the group's state.

use clearway_base::{Handle, Instant};
use clearway_pkt::Iface;
use clearway_wire::Addr;
use clearway_wire::group::{RecordKind, Version};

use super::{FilterMode, Group, Groups, SourceSet};

/// What is to be told of one group, apart from the tables so that they may change meanwhile.
pub(crate) struct DueReport {
    pub(crate) at: Handle<Group>,
    pub(crate) iface: Iface,
    pub(crate) group: Addr,
    pub(crate) version: Version,
    pub(crate) is_member: bool,
    pub(crate) change: bool,
    pub(crate) records: [(RecordKind, SourceSet); 3],
    pub(crate) count: usize,
}

impl DueReport {
    fn add(&mut self, kind: RecordKind, sources: SourceSet) {
        if let Some(place) = self.records.get_mut(self.count) {
            *place = (kind, sources);
            self.count += 1;
        }
    }
}

impl Groups {
    /// The next group that is to be told of.
    pub(crate) fn next_report(&self, now: Instant) -> Option<DueReport> {
        let at = self.groups.handle_at(self.ready.front()?)?;
        let group = self.groups.get(at)?;
        let mut due = DueReport {
            at,
            iface: group.iface,
            group: group.addr,
            version: self.version(now, group.iface, group.addr.is_v6()),
            is_member: !group.takes.is_none(),
            change: group.tell_change,
            records: [(RecordKind::ModeIsInclude, SourceSet::EMPTY); 3],
            count: 0,
        };
        let includes = group.takes.mode == FilterMode::Include;
        if group.tell_change && group.mode_left > 0 {
            let kind =
                if includes { RecordKind::ChangeToInclude } else { RecordKind::ChangeToExclude };
            due.add(kind, group.takes.sources);
        } else if group.tell_change {
            for (kind, allow) in
                [(RecordKind::AllowNewSources, true), (RecordKind::BlockOldSources, false)]
            {
                let mut sources = SourceSet::EMPTY;
                for change in group.changes().iter().filter(|change| change.allow == allow) {
                    sources.insert(change.source);
                }
                if sources.len > 0 {
                    due.add(kind, sources);
                }
            }
        }
        if group.tell_answer && due.is_member {
            answer(group, includes, &mut due);
        }
        Some(due)
    }
}

/// The record that answers a query (RFC 3376 5.2, the table of its third rule).
fn answer(group: &Group, includes: bool, due: &mut DueReport) {
    let mut sources = group.takes.sources;
    if group.asked.len == 0 {
        let kind = if includes { RecordKind::ModeIsInclude } else { RecordKind::ModeIsExclude };
        return due.add(kind, sources);
    }
    if includes {
        sources.retain(|source| group.asked.contains(source));
    } else {
        let excluded = sources;
        sources = group.asked;
        sources.retain(|source| !excluded.contains(source));
    }
    if sources.len > 0 {
        due.add(RecordKind::ModeIsInclude, sources);
    }
}
