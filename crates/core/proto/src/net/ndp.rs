//! Neighbour discovery (RFC 4861) for a host. What routers say waits for whoever configures
//! interfaces by it ([`crate::net::routers`]); redirects are counted and ignored.

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
        Ndp::RouterAdvert(ref advert) if ip.routers.hears(iface) => {
            let Ip { routers, rng, .. } = ip;
            let noted = routers.note(now, rng, (iface, src), advert);
            if noted { Ok(()) } else { Err(Drop::RouterFlood) }
        }
        Ndp::RouterSolicit { .. } | Ndp::RouterAdvert(_) => Err(Drop::RouterMessage),
        Ndp::Redirect { .. } => Err(Drop::Redirect),
        Ndp::NeighborSolicit { target, options } => {
            // RFC 4862 5.4.3: who probes for the address that we probe for may get it; who only
            // looks for its owner proves nothing. Our own probe may come back.
            let probes = src.is_unspecified() && !ip.is_own_mac(iface, from);
            if probes && ip.probes.hear(iface, &target, from) {
                return Ok(());
            }
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
            // RFC 4862 5.4.4: somebody has what we probe for.
            if !ip.is_own_mac(iface, from) && ip.probes.hear(iface, &target, from) {
                return Ok(());
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

/// Sends an advertisement, or a solicitation of another kind than [`emit_solicit`]. False: the
/// device takes no more.
pub(crate) fn emit_reply<S: Sink>(out: &mut IpOut<'_, S>, reply: &ReplyLink) -> bool {
    match reply.what {
        LinkWhat::Probe => emit_probe(out, reply),
        LinkWhat::RouterSolicit => emit_router_solicit(out, reply.iface),
        LinkWhat::Answer { .. } | LinkWhat::Announcement => emit_advert(out, reply),
    }
}

/// Asks whether somebody has an address: from nobody, so that nobody remembers us for it (RFC 4862
/// 5.4.2).
fn emit_probe<S: Sink>(out: &mut IpOut<'_, S>, reply: &ReplyLink) -> bool {
    let group = reply.ours.solicited_node();
    let to = Mac::of_group(&group).unwrap_or(Mac::BROADCAST);
    let message = Ndp::NeighborSolicit { target: reply.ours, options: Options::NONE };
    emit_message(out, reply.iface, to, (Addr::ANY_V6, group), &Icmpv6::Ndp(message))
}

/// RFC 4861 6.3.7: from our link-local address, which routers then know, else from nobody.
fn emit_router_solicit<S: Sink>(out: &mut IpOut<'_, S>, iface: Iface) -> bool {
    let Some(mac) = out.ip.interface(iface).map(|i| i.mac) else { return true };
    let ours = out
        .ip
        .locals
        .unicast()
        .find(|l| l.iface == iface && l.cidr.addr.is_v6() && l.cidr.addr.is_link_local());
    let src = ours.map_or(Addr::ANY_V6, |l| l.cidr.addr);
    let mut scratch = [0; 8];
    // RFC 4861 4.1: who has no address has no link address to tell either.
    let options = match src.is_unspecified() {
        true => Options::NONE,
        false => Options::build(&mut scratch, &[NdOption::SourceLink(mac)]),
    };
    let dst = Addr::ALL_ROUTERS;
    let to = Mac::of_group(&dst).unwrap_or(Mac::BROADCAST);
    let message = Icmpv6::Ndp(Ndp::RouterSolicit { options });
    emit_message(out, iface, to, (src, dst), &message)
}

/// Sends a neighbour advertisement. False: the device takes no more.
fn emit_advert<S: Sink>(out: &mut IpOut<'_, S>, reply: &ReplyLink) -> bool {
    let Some(interface) = out.ip.interface(reply.iface) else { return true };
    let mac = interface.mac;
    let all = (Addr::ALL_NODES, Mac::of_group(&Addr::ALL_NODES).unwrap_or(Mac::BROADCAST));
    // RFC 4861 7.2.4: who has no address yet is answered with the rest of the link.
    let ((dst, to), solicited) = match reply.what {
        LinkWhat::Answer { to, mac } if !to.is_unspecified() => ((to, mac), true),
        _ => (all, false),
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
