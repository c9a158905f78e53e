//! ARP (RFC 826) with the defence of our addresses (RFC 5227).

use clearway_base::Instant;
use clearway_pkt::{Iface, Sink};
use clearway_wire::arp::{self, Arp, Operation};
use clearway_wire::{Addr, EtherType, Mac};

use crate::counters::{Counters, Drop};
use crate::net::ip::Ip;
use crate::net::local::Kind;
use crate::net::neigh::{Claim, Claimed, Request};
use crate::net::output::IpOut;
use crate::net::replies::{LinkWhat, Replies, ReplyLink};

/// Takes an ARP packet in.
pub(crate) fn ingest(
    now: Instant,
    ip: &mut Ip,
    counters: &mut Counters,
    replies: &mut Replies,
    iface: Iface,
    bytes: &[u8],
) -> Result<(), Drop> {
    let arp = arp::check(bytes)?;
    let table = ip.interface(iface).ok_or(Drop::UnknownInterface)?.table;
    // A group is no link address. That the frame comes from another link address proves nothing:
    // bonded links do so, and a liar would not.
    if arp.sender_mac.is_multicast() || arp.sender_mac == Mac::ZERO {
        return Err(Drop::ArpBadSender);
    }
    if arp.sender.is_multicast() || arp.sender.is_limited_broadcast() || arp.sender.is_loopback() {
        return Err(Drop::ArpBadSender);
    }
    // RFC 5227 2.1.1: who sends from the address has it, and who probes for it may get it.
    let wanted = if arp.sender.is_unspecified() { arp.target } else { arp.sender };
    let mac = ip.interface(iface).map_or(Mac::ZERO, |i| i.mac);
    if arp.sender_mac != mac && ip.probes.hear(iface, &wanted, arp.sender_mac) {
        return Ok(());
    }
    if let Some(ours) =
        ip.locals.find_mut(table, iface, &arp.sender).filter(|l| l.kind == Kind::Unicast)
    {
        counters.neighbours.conflicts += 1;
        let announcement = ReplyLink { iface, ours: arp.sender, what: LinkWhat::Announcement };
        replies.defend(now, &mut ours.defended, announcement);
        return Err(Drop::ArpConflict);
    }
    let for_us = ip
        .locals
        .find(table, iface, &arp.target)
        .is_some_and(|l| l.kind == Kind::Unicast && l.iface == iface);
    let probe = arp.sender.is_unspecified();
    // What we did not ask for may change what is known (the link address of a host that moved), but
    // makes no entry.
    let solicited = arp.operation == Operation::Reply && for_us;
    let claim =
        Claim { iface, addr: arp.sender, mac: Some(arp.sender_mac), solicited, override_: true };
    let on_link = ip.locals.unicast().any(|l| l.iface == iface && l.cidr.contains(&arp.sender));
    match arp.operation {
        Operation::Request if for_us => {
            counters.neighbours.requests_in += 1;
            if !probe && on_link {
                ip.neighbours.learn(
                    now,
                    iface,
                    &arp.sender,
                    arp.sender_mac,
                    &mut counters.neighbours,
                );
            }
            let what = LinkWhat::Answer { to: arp.sender, mac: arp.sender_mac };
            let noted = replies.link(ReplyLink { iface, ours: arp.target, what });
            if noted { Ok(()) } else { Err(Drop::RepliesFull) }
        }
        _ if probe => Err(Drop::ArpNotForUs),
        Operation::Reply => match ip.neighbours.claim(now, &claim) {
            Claimed::Taken => {
                counters.neighbours.replies_in += 1;
                Ok(())
            }
            Claimed::Unknown => Err(Drop::ArpUnsolicited),
        },
        Operation::Request => match ip.neighbours.claim(now, &claim) {
            Claimed::Taken => Ok(()),
            Claimed::Unknown => Err(Drop::ArpNotForUs),
        },
    }
}

/// Sends an ARP request. False: the device takes no more.
pub(super) fn emit_request<S: Sink>(out: &mut IpOut<'_, S>, request: &Request) -> bool {
    let Some(interface) = out.ip.interface(request.iface) else { return true };
    let (mac, table) = (interface.mac, interface.table);
    // The address of ours in the neighbour's subnet, else any of this link, else any of this table.
    let score = |iface: Iface, holds: bool| (iface == request.iface, holds);
    let ours = out
        .ip
        .locals
        .unicast()
        .filter(|l| l.table == table && l.cidr.addr.is_v4() && !l.cidr.addr.is_loopback());
    let ours = ours.max_by_key(|l| score(l.iface, l.cidr.contains(&request.addr)));
    let Some(sender) = ours.map(|l| l.cidr.addr) else { return true };
    let arp = Arp {
        operation: Operation::Request,
        sender_mac: mac,
        sender,
        target_mac: request.to.unwrap_or(Mac::ZERO),
        target: request.addr,
    };
    let to = request.to.unwrap_or(Mac::BROADCAST);
    out.link_frame(request.iface, to, EtherType::ARP, arp::LEN, |b| {
        arp::emit(&arp, b);
    })
}

/// Sends an ARP reply or announcement. False: the device takes no more.
pub(crate) fn emit_reply<S: Sink>(out: &mut IpOut<'_, S>, reply: &ReplyLink) -> bool {
    let Some(interface) = out.ip.interface(reply.iface) else { return true };
    let mac = interface.mac;
    let mut sender = reply.ours;
    let (operation, target_mac, target, to) = match reply.what {
        LinkWhat::Answer { to, mac } => (Operation::Reply, mac, to, mac),
        // RFC 5227 2.1.1: a probe names no sender, so that nobody remembers us for it.
        LinkWhat::Probe => {
            sender = Addr::ANY_V4;
            (Operation::Request, Mac::ZERO, reply.ours, Mac::BROADCAST)
        }
        // RFC 5227 2.3: an announcement is a request for the address that it announces.
        LinkWhat::Announcement => (Operation::Request, Mac::ZERO, reply.ours, Mac::BROADCAST),
        // IPv6 alone asks for routers.
        LinkWhat::RouterSolicit => return true,
    };
    let arp = Arp { operation, sender_mac: mac, sender, target_mac, target };
    out.link_frame(reply.iface, to, EtherType::ARP, arp::LEN, |b| {
        arp::emit(&arp, b);
    })
}

#[cfg(test)]
mod tests;
