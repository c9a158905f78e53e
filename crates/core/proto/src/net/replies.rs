//! Answers that belong to no connection or socket: they are noted while packets are taken in, and
//! sent by `emit`.
//!
//! There is a queue for each kind, so that a flood of pings cannot keep resets, SYN cookies or ARP
//! from going out. A full queue refuses, and the asker asks again.

use clearway_base::{Duration, Instant, Ring};
use clearway_pkt::Iface;
use clearway_wire::{Addr, Mac, Segment};

use crate::config::Config;
use crate::flow::FlowKey;
use crate::ids::Table;
use crate::net::output::Cursor;
use crate::records::Records;

/// An address is defended at most once in this time (RFC 5227 2.4 b, DEFEND_INTERVAL).
pub(crate) const DEFEND_INTERVAL: Duration = Duration::from_secs(10);

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
        /// Its link address.
        mac: Mac,
    },
    /// Tells all.
    Announcement,
    /// Asks all whether somebody has it already, before it is ours (RFC 5227 2.1.1, RFC 4862 5.4.2).
    Probe,
    /// Asks the routers of the link to say who they are (RFC 4861 6.3.7); the address means nothing.
    RouterSolicit,
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

    /// Notes an announcement in defence of an address of ours, unless there was one a short while
    /// ago.
    pub(crate) fn defend(
        &mut self,
        now: Instant,
        defended: &mut Option<Instant>,
        announcement: ReplyLink,
    ) {
        if defended.is_none_or(|last| now.since(last) >= DEFEND_INTERVAL) && self.link(announcement)
        {
            *defended = Some(now);
        }
    }

    /// Whether nothing is to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.tcp.is_empty() && self.link.is_empty() && self.icmp.is_empty()
    }
}

#[cfg(test)]
mod tests;
