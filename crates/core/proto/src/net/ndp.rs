//! Neighbour discovery (RFC 4861) for a host that takes its routes and addresses from its
//! configuration: router messages and redirects are counted and ignored.

use clearway_base::Instant;
use clearway_pkt::{Iface, Sink};
use clearway_wire::icmpv6::{self, Icmpv6};
use clearway_wire::ndp::{HOP_LIMIT, NdOption, Ndp, Options};
use clearway_wire::{Addr, EtherType, Mac, Proto, ipv6};

use crate::counters::{Counters, Drop};
use crate::net::ip::Ip;
use crate::net::local::Kind;
use crate::net::neigh::{Claim, Claimed, Request};
use crate::net::output::IpOut;
use crate::net::replies::{LinkWhat, Replies, ReplyLink};

/// Takes a neighbour-discovery message in; its checksum, hop limit and shape were looked at. `from`
/// is the frame's source, None on a link without addresses.
pub(crate) fn ingest(
    now: Instant,
    ip: &mut Ip,
    counters: &mut Counters,
    replies: &mut Replies,
    (iface, from): (Iface, Option<Mac>),
    (src, message): (Addr, &Ndp<'_>),
) -> Result<(), Drop> {
    let table = ip.interface(iface).ok_or(Drop::UnknownInterface)?.table;
    // A link without addresses has nobody to discover.
    let from = from.ok_or(Drop::NdpUnsolicited)?;
    match *message {
        Ndp::RouterSolicit { .. } | Ndp::RouterAdvert(_) => Err(Drop::RouterMessage),
        Ndp::Redirect { .. } => Err(Drop::Redirect),
        Ndp::NeighborSolicit { target, options } => {
            let Some(ours) = ip.locals.find_mut(table, iface, &target) else {
                return Err(Drop::NdpNotForUs);
            };
            if ours.kind != Kind::Unicast || ours.iface != iface {
                return Err(Drop::NdpNotForUs);
            }
            counters.neighbours.requests_in += 1;
            let told = options.source_link();
            if told.is_some_and(|mac| mac.is_multicast()) {
                return Err(Drop::ArpBadSender);
            }
            if src.is_unspecified() {
                // Somebody checks whether the address is free (RFC 4862 5.4): it is not. The rate
                // is bounded as in defence.
                counters.neighbours.conflicts += 1;
                let what = LinkWhat::Answer { to: src, mac: from };
                replies.defend(now, &mut ours.defended, ReplyLink { iface, ours: target, what });
                return Err(Drop::NdpConflict);
            }
            if let Some(mac) = told {
                ip.neighbours.learn(now, iface, &src, mac, &mut counters.neighbours);
            }
            let what = LinkWhat::Answer { to: src, mac: told.unwrap_or(from) };
            let noted = replies.link(ReplyLink { iface, ours: target, what });
            if noted { Ok(()) } else { Err(Drop::RepliesFull) }
        }
        Ndp::NeighborAdvert { solicited, override_, target, options, .. } => {
            let mac = options.target_link();
            if mac.is_some_and(|mac| mac.is_multicast()) {
                return Err(Drop::ArpBadSender);
            }
            if let Some(ours) =
                ip.locals.find_mut(table, iface, &target).filter(|l| l.kind == Kind::Unicast)
            {
                counters.neighbours.conflicts += 1;
                let what = LinkWhat::Announcement;
                replies.defend(now, &mut ours.defended, ReplyLink { iface, ours: target, what });
                return Err(Drop::NdpConflict);
            }
            match ip
                .neighbours
                .claim(now, &Claim { iface, addr: target, mac, solicited, override_ })
            {
                Claimed::Taken => {
                    counters.neighbours.replies_in += 1;
                    Ok(())
                }
                Claimed::Unknown => Err(Drop::NdpUnsolicited),
            }
        }
    }
}

/// Sends a neighbour solicitation. False: the device takes no more.
pub(crate) fn emit_solicit<S: Sink>(out: &mut IpOut<'_, S>, request: &Request) -> bool {
    let Some(interface) = out.ip.interface(request.iface) else { return true };
    let (mac, iface) = (interface.mac, request.iface);
    // RFC 4861 7.2.2 wants the source of the packet that waits; any address of the link serves, the
    // narrowest one always.
    let ours = out.ip.locals.unicast().filter(|l| l.iface == iface && l.cidr.addr.is_v6());
    let ours = ours.max_by_key(|l| {
        (l.cidr.addr.is_link_local() == request.addr.is_link_local(), l.cidr.addr.is_link_local())
    });
    let Some(src) = ours.map(|l| l.cidr.addr) else { return true };
    let group = request.addr.solicited_node();
    let (dst, to) = match request.to {
        Some(mac) => (request.addr, mac),
        None => (group, Mac::of_group(&group).unwrap_or(Mac::BROADCAST)),
    };
    let mut scratch = [0; 8];
    let options = Options::build(&mut scratch, &[NdOption::SourceLink(mac)]);
    let message = Icmpv6::Ndp(Ndp::NeighborSolicit { target: request.addr, options });
    emit_message(out, iface, to, (src, dst), &message)
}

/// Sends a neighbour advertisement. False: the device takes no more.
pub(crate) fn emit_advert<S: Sink>(out: &mut IpOut<'_, S>, reply: &ReplyLink) -> bool {
    let Some(interface) = out.ip.interface(reply.iface) else { return true };
    let mac = interface.mac;
    let all = (Addr::ALL_NODES, Mac::of_group(&Addr::ALL_NODES).unwrap_or(Mac::BROADCAST));
    // RFC 4861 7.2.4: who has no address yet is answered with the rest of the link.
    let ((dst, to), solicited) = match reply.what {
        LinkWhat::Answer { to, mac } if !to.is_unspecified() => ((to, mac), true),
        LinkWhat::Answer { .. } | LinkWhat::Announcement => (all, false),
        // Only IPv4 addresses are probed (`Stack::probe_address`).
        LinkWhat::Probe => return true,
    };
    let mut scratch = [0; 8];
    let options = Options::build(&mut scratch, &[NdOption::TargetLink(mac)]);
    let advert = Ndp::NeighborAdvert {
        router: false,
        solicited,
        override_: true,
        target: reply.ours,
        options,
    };
    emit_message(out, reply.iface, to, (reply.ours, dst), &Icmpv6::Ndp(advert))
}

fn emit_message<S: Sink>(
    out: &mut IpOut<'_, S>,
    iface: Iface,
    to: Mac,
    (src, dst): (Addr, Addr),
    message: &Icmpv6<'_>,
) -> bool {
    let len = message.emitted_len();
    out.link_frame(iface, to, EtherType::IPV6, ipv6::HEADER_LEN + len, |b| {
        let header = ipv6::Header {
            src,
            dst,
            next: Proto::ICMPV6,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: HOP_LIMIT,
            payload_len: len as u16,
        };
        let at = ipv6::emit(&header, b);
        icmpv6::emit(&src, &dst, message, &mut b[at..]);
    })
}

#[cfg(test)]
mod tests;
