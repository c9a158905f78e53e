//! Answers that belong to no connection or socket: they are noted while packets are taken in, and sent by `emit`.
//!
//! There is a queue for each kind, so that a flood of pings cannot keep resets, SYN cookies or ARP from going out. A full queue refuses, and the asker asks again.

use clearway_base::Ring;
use clearway_pkt::{Iface, Sink};
use clearway_wire::{Addr, Mac, Proto, Segment, tcp};

use crate::Table;
use crate::config::Config;
use crate::emit::{Cursor, IpOut, OutError, Transport};
use crate::flow::FlowKey;
use crate::records::Records;
use crate::ways::RouteCache;
use crate::{arp, ndp};

/// Hops that an ICMP message may take.
const REPLY_TTL: u8 = 64;

/// Bytes that echo replies and ICMP errors may hold in all; the longest echo reply must fit, once.
const ICMP_BYTES: usize = 192 * 1024;

/// A TCP segment without connection state: a reset, an acknowledgement, a SYN cookie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReplyTcp {
    pub(crate) key: FlowKey,
    /// Everything but the ports, which are the key's.
    pub(crate) seg: Segment,
    pub(crate) tos: u8,
    pub(crate) ttl: u8,
}

/// An ARP or neighbour-discovery packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReplyLink {
    pub(crate) iface: Iface,
    /// The address of ours that it speaks of.
    pub(crate) ours: Addr,
    pub(crate) what: LinkWhat,
}

/// What an ARP or neighbour-discovery packet says of our address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LinkWhat {
    /// Tells the one who asked.
    Answer {
        /// The asker; for IPv6 the unspecified address when it has none yet.
        to: Addr,
        /// Its station.
        mac: Mac,
    },
    /// Tells all.
    Announcement,
}

/// An ICMP or ICMPv6 message; its bytes, checksum included, lie in the queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ReplyIcmp {
    pub(crate) table: Table,
    pub(crate) from: Addr,
    pub(crate) to: Addr,
    pub(crate) tos: u8,
    /// It is an error, and not an echo reply.
    pub(crate) is_error: bool,
}

/// The queues.
pub(crate) struct Replies {
    pub(crate) tcp: Ring<ReplyTcp>,
    pub(crate) link: Ring<ReplyLink>,
    pub(crate) icmp: Records<ReplyIcmp>,
    /// How much of the oldest ICMP message has left in fragments.
    pub(crate) icmp_cursor: Cursor,
}

impl Replies {
    /// Queues of the length that the configuration says.
    pub(crate) fn new(config: &Config) -> Replies {
        let most = usize::from(config.limits.replies);
        Replies {
            tcp: Ring::new(most),
            link: Ring::new(most),
            icmp: Records::new(most, ICMP_BYTES),
            icmp_cursor: Cursor::default(),
        }
    }

    /// Notes a TCP segment; false when the queue is full, and then it will not be sent.
    pub(crate) fn tcp(&mut self, reply: ReplyTcp) -> bool {
        self.tcp.push(reply).is_ok()
    }

    /// Notes an ARP or neighbour-discovery packet; false when the queue is full.
    pub(crate) fn link(&mut self, reply: ReplyLink) -> bool {
        self.link.push(reply).is_ok()
    }

    /// Notes an ICMP message made of `parts`; false when the queue is full.
    pub(crate) fn icmp(&mut self, reply: ReplyIcmp, parts: &[&[u8]]) -> bool {
        self.icmp.push(reply, parts)
    }

    /// Whether nothing is to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.link.is_empty() && self.icmp.is_empty()
    }
}

/// Sends what was noted. False: the device takes no more.
pub(crate) fn emit<S: Sink>(replies: &mut Replies, out: &mut IpOut<'_, S>) -> bool {
    while let Some(reply) = replies.link.front() {
        let sent = if reply.ours.is_v4() { arp::emit_reply(out, reply) } else { ndp::emit_advert(out, reply) };
        if !sent {
            return false;
        }
        match reply.what {
            LinkWhat::Answer { .. } => out.counters.neighbours.replies_out += 1,
            LinkWhat::Announcement => out.counters.neighbours.announcements_out += 1,
        }
        replies.link.pop();
    }
    while let Some(reply) = replies.tcp.front() {
        match emit_tcp(out, reply) {
            Ok(()) => {
                out.counters.tcp.segs_out += 1;
                out.counters.tcp.resets_out += u64::from(reply.seg.flags.rst());
            }
            Err(OutError::Full) => return false,
            Err(_) => out.counters.icmp.replies_lost += 1,
        }
        replies.tcp.pop();
    }
    while let Some((reply, message)) = replies.icmp.front() {
        let key = FlowKey { local: reply.from, remote: reply.to, local_port: 0, remote_port: 0, table: reply.table };
        let proto = if reply.to.is_v4() { Proto::ICMP } else { Proto::ICMPV6 };
        let cursor = &mut replies.icmp_cursor;
        let mut cache = RouteCache::default();
        let whole = Transport::Whole;
        match out.send(&mut cache, &key, proto, (reply.tos, REPLY_TTL), &[], message, whole, cursor) {
            Ok(()) if reply.is_error => out.counters.icmp.errors_out += 1,
            Ok(()) => out.counters.icmp.echo_replies_out += 1,
            Err(OutError::Full) => return false,
            Err(_) => out.counters.icmp.replies_lost += 1,
        }
        *cursor = Cursor::default();
        replies.icmp.pop();
    }
    true
}

fn emit_tcp<S: Sink>(out: &mut IpOut<'_, S>, reply: &ReplyTcp) -> Result<(), OutError> {
    let seg = Segment { src_port: reply.key.local_port, dst_port: reply.key.remote_port, ..reply.seg };
    let len = seg.opts.header_len();
    let mut room = out.begin(&mut RouteCache::default(), &reply.key, Proto::TCP, len, reply.tos, reply.ttl)?;
    let len = tcp::emit(&seg, room.l4());
    let done = room.finish(len, Transport::Tcp { header_len: len as u8, segment_size: 0 });
    out.commit(done);
    Ok(())
}

#[cfg(test)]
mod tests;
