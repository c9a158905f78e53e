//! The messages to routers: IGMP in IPv4 packets with a router alert, MLD in IPv6 packets with one.

use clearway_pkt::Sink;
use clearway_wire::group::{NewRecord, Outgoing, RecordKind, Version};
use clearway_wire::{Addr, EtherType, Mac, Proto, igmp, ipv4, ipv6, mld};

use crate::net::groups::due::DueReport;
use crate::net::local::Local;
use crate::net::output::IpOut;

/// IGMP leaves as internetwork control (RFC 3376 4).
const TOS_CONTROL: u8 = 0xc0;

/// Tells routers what is to be told. False: the device takes no more.
pub(crate) fn emit<S: Sink>(out: &mut IpOut<'_, S>) -> bool {
    while let Some(due) = out.ip.groups.next_report(out.now) {
        if !emit_report(out, &due) {
            return false;
        }
        out.ip.groups.told(out.now, due.at);
    }
    true
}

fn emit_report<S: Sink>(out: &mut IpOut<'_, S>, due: &DueReport) -> bool {
    // Nobody but we is on a loopback link.
    if out.ip.interface(due.iface).is_none_or(|i| i.is_loopback() || !i.up) {
        return true;
    }
    let empty = NewRecord { kind: RecordKind::ModeIsInclude, group: due.group, sources: &[] };
    let mut records = [empty; 3];
    for (record, (kind, sources)) in records.iter_mut().zip(&due.records) {
        *record = NewRecord { kind: *kind, group: due.group, sources: sources.as_slice() };
    }
    let message = match due.version {
        Version::V3 if due.count == 0 => return true,
        Version::V3 => Outgoing::Records(&records[..due.count]),
        version if due.is_member => Outgoing::Report { version, group: due.group },
        Version::V2 if due.change => Outgoing::Leave { group: due.group },
        _ => return true,
    };
    let sent = if due.group.is_v4() {
        emit_igmp(out, due, &message)
    } else {
        emit_mld(out, due, &message)
    };
    if sent {
        let counters = &mut out.counters.groups;
        match message {
            Outgoing::Leave { .. } => counters.leaves_out += 1,
            _ => counters.reports_out += 1,
        }
    }
    sent
}

/// RFC 3376 4: TTL 1, router alert; 4.2.13: from the wildcard when the interface has no address
/// yet.
fn emit_igmp<S: Sink>(out: &mut IpOut<'_, S>, due: &DueReport, message: &Outgoing<'_>) -> bool {
    let ours = out.ip.locals.unicast().find(|l| l.iface == due.iface && l.cidr.addr.is_v4());
    let src = ours.map_or(Addr::ANY_V4, |l| l.cidr.addr);
    let dst = igmp::destination(message);
    let len = igmp::emitted_len(message);
    let id = out.ip.rng.next_u32() as u16;
    let mac = Mac::of_group(&dst).unwrap_or(Mac::BROADCAST);
    out.link_frame(due.iface, mac, EtherType::IPV4, igmp::IP_HEADER_LEN + len, |b| {
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

/// RFC 3810 5: from the link-local address, hop limit 1, router alert; 5.2.13: from the unspecified
/// address when there is none yet.
fn emit_mld<S: Sink>(out: &mut IpOut<'_, S>, due: &DueReport, message: &Outgoing<'_>) -> bool {
    let is_it =
        |l: &&Local| l.iface == due.iface && l.cidr.addr.is_v6() && l.cidr.addr.is_link_local();
    let src = out.ip.locals.unicast().find(is_it).map_or(Addr::ANY_V6, |l| l.cidr.addr);
    let dst = mld::destination(message);
    let len = mld::ROUTER_ALERT.len() + mld::emitted_len(message);
    let mac = Mac::of_group(&dst).unwrap_or(Mac::BROADCAST);
    out.link_frame(due.iface, mac, EtherType::IPV6, ipv6::HEADER_LEN + len, |b| {
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
