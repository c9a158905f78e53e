//! The messages to routers: IGMP in IPv4 packets with a router alert, MLD in IPv6 packets with one.

use clearway_base::Handle;
use clearway_pkt::{Iface, Sink};
use clearway_wire::group::{NewRecord, Outgoing, RecordKind, Version};
use clearway_wire::{Addr, EtherType, Mac, Proto, igmp, ipv4, ipv6, mld};

use super::{FilterMode, Group, Groups, SourceSet};
use crate::emit::IpOut;

/// IGMP leaves as internetwork control (RFC 3376 4).
const TOS_CONTROL: u8 = 0xc0;

/// What is to be told of one group, apart from the tables so that they may change meanwhile.
struct Tale {
    at: Handle<Group>,
    iface: Iface,
    group: Addr,
    version: Version,
    is_member: bool,
    change: bool,
    records: [(RecordKind, SourceSet); 3],
    count: usize,
}

impl Tale {
    fn add(&mut self, kind: RecordKind, sources: SourceSet) {
        if let Some(place) = self.records.get_mut(self.count) {
            *place = (kind, sources);
            self.count += 1;
        }
    }
}

impl Groups {
    /// The next group that is to be told of.
    fn next_tale(&self, now: clearway_base::Instant) -> Option<Tale> {
        let at = self.groups.handle_at(self.ready.front()?)?;
        let group = self.groups.get(at)?;
        let mut tale = Tale {
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
            let kind = if includes { RecordKind::ChangeToInclude } else { RecordKind::ChangeToExclude };
            tale.add(kind, group.takes.sources);
        } else if group.tell_change {
            for (kind, allow) in [(RecordKind::AllowNewSources, true), (RecordKind::BlockOldSources, false)] {
                let mut sources = SourceSet::EMPTY;
                for change in group.changes().iter().filter(|change| change.allow == allow) {
                    sources.insert(change.source);
                }
                if sources.len > 0 {
                    tale.add(kind, sources);
                }
            }
        }
        if group.tell_answer && tale.is_member {
            answer(group, includes, &mut tale);
        }
        Some(tale)
    }
}

/// The record that answers a query (RFC 3376 5.2, the table of its third rule).
fn answer(group: &Group, includes: bool, tale: &mut Tale) {
    let mut sources = group.takes.sources;
    if group.asked.len == 0 {
        let kind = if includes { RecordKind::ModeIsInclude } else { RecordKind::ModeIsExclude };
        return tale.add(kind, sources);
    }
    if includes {
        sources.retain(|source| group.asked.contains(source));
    } else {
        let excluded = sources;
        sources = group.asked;
        sources.retain(|source| !excluded.contains(source));
    }
    if sources.len > 0 {
        tale.add(RecordKind::ModeIsInclude, sources);
    }
}

/// Tells routers what is to be told. False: the device takes no more.
pub(crate) fn emit<S: Sink>(out: &mut IpOut<'_, S>) -> bool {
    while let Some(tale) = out.ip.groups.next_tale(out.now) {
        if !emit_tale(out, &tale) {
            return false;
        }
        out.ip.groups.told(out.now, tale.at);
    }
    true
}

fn emit_tale<S: Sink>(out: &mut IpOut<'_, S>, tale: &Tale) -> bool {
    // Nobody but we is on a loopback link.
    if out.ip.interface(tale.iface).is_none_or(|i| i.is_loopback() || !i.up) {
        return true;
    }
    let empty = NewRecord { kind: RecordKind::ModeIsInclude, group: tale.group, sources: &[] };
    let mut records = [empty; 3];
    for (record, (kind, sources)) in records.iter_mut().zip(&tale.records) {
        *record = NewRecord { kind: *kind, group: tale.group, sources: sources.as_slice() };
    }
    let message = match tale.version {
        Version::V3 if tale.count == 0 => return true,
        Version::V3 => Outgoing::Records(&records[..tale.count]),
        version if tale.is_member => Outgoing::Report { version, group: tale.group },
        Version::V2 if tale.change => Outgoing::Leave { group: tale.group },
        _ => return true,
    };
    let sent = if tale.group.is_v4() { emit_igmp(out, tale, &message) } else { emit_mld(out, tale, &message) };
    if sent {
        let counters = &mut out.counters.groups;
        match message {
            Outgoing::Leave { .. } => counters.leaves_out += 1,
            _ => counters.reports_out += 1,
        }
    }
    sent
}

/// RFC 3376 4: TTL 1, router alert; 4.2.13: from the wildcard when the interface has no address yet.
fn emit_igmp<S: Sink>(out: &mut IpOut<'_, S>, tale: &Tale, message: &Outgoing<'_>) -> bool {
    let ours = out.ip.locals.unicast().find(|l| l.iface == tale.iface && l.cidr.addr.is_v4());
    let src = ours.map_or(Addr::ANY_V4, |l| l.cidr.addr);
    let dst = igmp::destination(message);
    let len = igmp::emitted_len(message);
    let id = out.ip.rng.next_u32() as u16;
    let mac = Mac::of_group(&dst).unwrap_or(Mac::BROADCAST);
    out.link_frame(tale.iface, mac, EtherType::IPV4, igmp::IP_HEADER_LEN + len, |b| {
        let header = ipv4::Header {
            src,
            dst,
            proto: Proto::IGMP,
            tos: TOS_CONTROL,
            ttl: igmp::TTL,
            id,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: len as u16,
        };
        let at = ipv4::emit_with_router_alert(&header, b);
        igmp::emit(message, &mut b[at..]);
    })
}

/// RFC 3810 5: from the link-local address, hop limit 1, router alert; 5.2.13: from the unspecified address when there is none yet.
fn emit_mld<S: Sink>(out: &mut IpOut<'_, S>, tale: &Tale, message: &Outgoing<'_>) -> bool {
    let is_it = |l: &&crate::local::Local| l.iface == tale.iface && l.cidr.addr.is_v6() && l.cidr.addr.is_link_local();
    let src = out.ip.locals.unicast().find(is_it).map_or(Addr::ANY_V6, |l| l.cidr.addr);
    let dst = mld::destination(message);
    let len = mld::ROUTER_ALERT.len() + mld::emitted_len(message);
    let mac = Mac::of_group(&dst).unwrap_or(Mac::BROADCAST);
    out.link_frame(tale.iface, mac, EtherType::IPV6, ipv6::HEADER_LEN + len, |b| {
        let header = ipv6::Header {
            src,
            dst,
            next: Proto::HOP_BY_HOP,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: mld::HOP_LIMIT,
            payload_len: len as u16,
        };
        let at = ipv6::emit(&header, b);
        let (alert, rest) = b[at..].split_at_mut(mld::ROUTER_ALERT.len());
        alert.copy_from_slice(&mld::ROUTER_ALERT);
        mld::emit(&src, message, rest);
    })
}
