//! ICMP and ICMPv6: echo answered, errors sent at a bounded rate, errors received given to whoever
//! sent the packet they quote.

use clearway_base::Instant;
use clearway_pkt::Iface;
use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::icmpv6::{self, Icmpv6};
use clearway_wire::{Addr, Proto, checksum, ip as wire_ip, ipv4, ipv6};

use crate::counters::{Counters, Drop};
use crate::error::Unreachable;
use crate::ids::Table;
use crate::net::ip::Ip;
use crate::net::replies::{Replies, ReplyIcmp};

/// What an ICMP error says to the sender of the packet that it quotes, or what this host says to
/// itself in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IcmpError {
    /// The packet did not arrive.
    Unreachable(Unreachable),
    /// Of our own making: the packet did not leave, for on our link nobody answers for the address
    /// that it must go to.
    NoNeighbour,
    /// The packet was too long for a link on the way.
    PacketTooBig {
        /// The longest IP packet that passes.
        mtu: u32,
    },
}

/// An error to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Complaint {
    /// Nobody at this port.
    Port,
    /// No such protocol; for IPv6 the offset of the field that named it.
    Protocol { named_at: u32 },
    /// A header that cannot be accepted (IPv6 only).
    Parameter { code: u8, pointer: u32 },
    /// Fragments stayed away.
    Reassembly,
}

/// The packet that is complained about.
#[derive(Clone, Copy)]
pub(crate) struct Cause<'a> {
    pub(crate) table: Table,
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    /// The packet, IP header first, in two parts.
    pub(crate) quoted: [&'a [u8]; 2],
    /// It came over a loopback interface: the error bothers nobody else, and is not held back, as
    /// on Linux.
    pub(crate) inside: bool,
}

/// The longest error over IPv4 in bytes, IP header included (RFC 1812 4.3.2.3).
const MAX_V4: usize = 576;

/// Notes an error to be sent, unless a rule or the rate forbids it. The packet is dropped either
/// way, so nobody waits for the answer.
///
/// The caller has seen to it that source and destination are single hosts and that the frame was
/// for us alone; here it is looked at that errors do not answer errors or later fragments (RFC 1122
/// 3.2.2, RFC 4443 2.4 e).
pub(crate) fn complain(
    now: Instant,
    ip: &mut Ip,
    counters: &mut Counters,
    replies: &mut Replies,
    cause: &Cause<'_>,
    what: Complaint,
) {
    let is_v4 = cause.src.is_v4();
    if !may_be_answered(cause) {
        return;
    }
    // From the address that the packet was for, when it is ours; it is not when it was for a group.
    let from = match ip.is_ours(cause.table, &cause.dst) {
        true => Some(cause.dst),
        false => ip.source_for(cause.table, &cause.src),
    };
    let Some(from) = from else { return };
    if !cause.inside && !ip.error_limit.take(now, &mut ip.rng) {
        counters.icmp.errors_limited += 1;
        return;
    }
    let mut quote = [0; ipv6::MIN_MTU - ipv6::HEADER_LEN - icmpv6::HEADER_LEN];
    let most = if is_v4 { MAX_V4 - ipv4::HEADER_LEN - icmpv4::HEADER_LEN } else { quote.len() };
    let mut len = 0;
    for part in cause.quoted {
        let part = &part[..part.len().min(most - len)];
        quote[len..len + part.len()].copy_from_slice(part);
        len += part.len();
    }
    let quoted = &quote[..len];
    let mut message = [0; ipv6::MIN_MTU - ipv6::HEADER_LEN];
    let len = if is_v4 {
        let Some(error) = complaint_v4(what, quoted) else { return };
        icmpv4::emit(&error, &mut message)
    } else {
        icmpv6::emit(&from, &cause.src, &complaint_v6(what, quoted), &mut message)
    };
    let reply = ReplyIcmp { table: cause.table, from, to: cause.src, tos: 0, is_error: true };
    if !replies.icmp(reply, &[&message[..len]]) {
        counters.icmp.replies_lost += 1;
    }
}

fn complaint_v4(what: Complaint, quoted: &[u8]) -> Option<Icmpv4<'_>> {
    let unreachable = |code| Icmpv4::Unreachable { code, mtu: 0, quoted };
    Some(match what {
        Complaint::Port => unreachable(icmpv4::UNREACHABLE_PORT),
        Complaint::Protocol { .. } => unreachable(icmpv4::UNREACHABLE_PROTOCOL),
        Complaint::Reassembly => {
            Icmpv4::TimeExceeded { code: icmpv4::TIME_EXCEEDED_REASSEMBLY, quoted }
        }
        Complaint::Parameter { .. } => return None,
    })
}

fn complaint_v6(what: Complaint, quoted: &[u8]) -> Icmpv6<'_> {
    match what {
        Complaint::Port => Icmpv6::Unreachable { code: icmpv6::UNREACHABLE_PORT, quoted },
        Complaint::Protocol { named_at } => Icmpv6::ParamProblem {
            code: icmpv6::PARAM_UNKNOWN_NEXT_HEADER,
            pointer: named_at,
            quoted,
        },
        Complaint::Parameter { code, pointer } => Icmpv6::ParamProblem { code, pointer, quoted },
        Complaint::Reassembly => {
            Icmpv6::TimeExceeded { code: icmpv6::TIME_EXCEEDED_REASSEMBLY, quoted }
        }
    }
}

/// Errors do not answer errors, nor fragments other than the first.
fn may_be_answered(cause: &Cause<'_>) -> bool {
    // What cannot be read is not answered either: it might be an error.
    let Ok(quote) = wire_ip::quote(cause.quoted[0]) else { return false };
    if quote.later_fragment || cause.src.is_unspecified() || cause.src.is_multicast() {
        return false;
    }
    let kind = quote.upper.first().or_else(|| cause.quoted[1].first()).copied();
    match (quote.proto, kind) {
        (Proto::ICMP, Some(kind)) => matches!(kind, 0 | 8),
        (Proto::ICMPV6, Some(kind)) => kind >= 128 && kind != 137,
        (Proto::ICMP | Proto::ICMPV6, None) => false,
        _ => true,
    }
}

/// Notes the answer to an echo request: the same message with another type, so that its checksum
/// only has to be moved along (RFC 1624).
pub(crate) fn answer_echo(
    counters: &mut Counters,
    replies: &mut Replies,
    reply: ReplyIcmp,
    request: &[u8],
) -> Result<(), Drop> {
    let Some((head, data)) = request.split_first_chunk::<8>() else {
        return Err(Drop::IcmpUnknownType);
    };
    let mut head = *head;
    let kind = if reply.to.is_v4() { 0 } else { 129 };
    let old = u16::from_be_bytes([head[0], head[1]]);
    let new = u16::from_be_bytes([kind, 0]);
    let sum = checksum::update16(u16::from_be_bytes([head[2], head[3]]), old, new);
    (head[0], head[1]) = (kind, 0);
    head[2..4].copy_from_slice(&sum.to_be_bytes());
    counters.icmp.messages_in += 1;
    if replies.icmp(reply, &[&head, data]) { Ok(()) } else { Err(Drop::RepliesFull) }
}

/// What an ICMP error for IPv4 says, and the packet it quotes. None: it says nothing that concerns
/// a host.
pub(crate) fn meaning_v4<'a>(message: &Icmpv4<'a>) -> Option<(IcmpError, &'a [u8])> {
    let soft = |why, quoted| Some((IcmpError::Unreachable(why), quoted));
    match *message {
        Icmpv4::Unreachable { code: icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED, mtu, quoted } => {
            Some((IcmpError::PacketTooBig { mtu: mtu.into() }, quoted))
        }
        Icmpv4::Unreachable { code, quoted, .. } => {
            let why = match code {
                0 | 6 | 11 => Unreachable::Network,
                icmpv4::UNREACHABLE_PROTOCOL => Unreachable::Protocol,
                icmpv4::UNREACHABLE_PORT => Unreachable::Port,
                9 | 10 | 13 => Unreachable::Prohibited,
                _ => Unreachable::Host,
            };
            soft(why, quoted)
        }
        Icmpv4::TimeExceeded { quoted, .. } => soft(Unreachable::TimeExceeded, quoted),
        Icmpv4::ParamProblem { quoted, .. } => soft(Unreachable::Parameter, quoted),
        _ => None,
    }
}

/// What an ICMPv6 error says, and the packet it quotes. None: it is no error.
pub(crate) fn meaning_v6<'a>(message: &Icmpv6<'a>) -> Option<(IcmpError, &'a [u8])> {
    match *message {
        Icmpv6::PacketTooBig { mtu, quoted } => Some((IcmpError::PacketTooBig { mtu }, quoted)),
        Icmpv6::Unreachable { code, quoted } => {
            let why = match code {
                icmpv6::UNREACHABLE_NO_ROUTE => Unreachable::Network,
                icmpv6::UNREACHABLE_PORT => Unreachable::Port,
                icmpv6::UNREACHABLE_PROHIBITED | 5 | 6 => Unreachable::Prohibited,
                _ => Unreachable::Host,
            };
            Some((IcmpError::Unreachable(why), quoted))
        }
        Icmpv6::TimeExceeded { quoted, .. } => {
            Some((IcmpError::Unreachable(Unreachable::TimeExceeded), quoted))
        }
        Icmpv6::ParamProblem { quoted, .. } => {
            Some((IcmpError::Unreachable(Unreachable::Parameter), quoted))
        }
        _ => None,
    }
}

/// MTUs of links that there were when routers did not tell theirs (RFC 1191 7.1).
const PLATEAUS: [u32; 9] = [65_535, 32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508];

/// The path MTU that an error stands for, when it can be true: not below the family's minimum, and
/// smaller than the packet that it is about (RFC 8201 4, RFC 5927 7.2).
pub(crate) fn believable_mtu(told: u32, quote: &wire_ip::Quote<'_>) -> Option<u32> {
    let is_v4 = quote.src.is_v4();
    let told = match (is_v4, told) {
        // RFC 1191 5: a router that does not say means the next smaller plateau.
        (true, 0) => *PLATEAUS.iter().find(|p| **p < quote.total_len)?,
        _ => told,
    };
    let minimum = if is_v4 { crate::net::pmtu::MIN_V4 } else { crate::net::pmtu::MIN_V6 };
    match (is_v4, told < minimum) {
        (false, true) => None,
        _ => Some(told.max(minimum)).filter(|mtu| *mtu < quote.total_len),
    }
}

/// Where an ICMP message came from and went to.
#[derive(Clone, Copy)]
pub(crate) struct Envelope {
    pub(crate) iface: Iface,
    pub(crate) table: Table,
    pub(crate) src: Addr,
    pub(crate) dst: Addr,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
}

#[cfg(test)]
mod tests;
