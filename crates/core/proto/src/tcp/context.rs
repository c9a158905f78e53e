//! What the steps of TCP are handed: the surroundings in which a segment or a timer is taken, and
//! the segment with all that came with it.

use core::ops::{Deref, DerefMut};

use clearway_base::{Duration, Instant, Rng, Slab};
use clearway_pkt::{Buf, RxMeta};
use clearway_wire::{Ecn, Flags, Segment, Seq};

use super::fast_open::FastOpen;
use super::loss::sent::Sent;
use super::paced::Paced;
use super::rare_stats::{RareStats, RecordEnds};
use super::reasm::Reasm;
use super::sack::Scoreboard;
use super::sizes::Sizes;
use crate::config::Config;
use crate::counters::Counters;
use crate::flow::{FlowKey, Found};
use crate::net::ip::Ip;
use crate::net::replies::{Replies, ReplyTcp};
use crate::payload::BufferMaker;
use crate::store::Env;

/// How long timers of loss wait at most for what lies unread. A core that was kept from its work
/// for many milliseconds has read what came meanwhile well before that.
const UNREAD_FOR: Duration = Duration::from_millis(4);

/// What TCP needs of the rest of the stack while it takes a segment, a timer or an owner's word.
pub(crate) struct Cx<'a> {
    pub now: Instant,
    pub config: &'a Config,
    pub counters: &'a mut Counters,
    pub replies: &'a mut Replies,
    pub ip: &'a mut Ip,
}

/// What connections share: the stores, and the maps that are taken only while something is missing.
pub(crate) struct Pools<E: Env> {
    pub rx: E::Rx,
    pub tx: E::Tx,
    pub reasm: Slab<Reasm>,
    pub boards: Slab<Scoreboard>,
    pub sent: Slab<Sent>,
    pub rare_stats: Slab<RareStats>,
    pub sizes: Sizes,
    pub record_ends: RecordEnds,
    pub fast_open: FastOpen,
    /// TSecr of the segment with payload that is being taken: what seldom asks for it
    /// ([`super::right_size`]) need not be handed it on the fast path.
    pub ts_echo: u32,
    pub paced: Slab<Paced>,
    /// Makes buffers where one has to become several.
    pub buffers: Option<BufferMaker<E::Buf>>,
    pub rng: Rng,
    /// As in [`crate::TcpConfig`].
    pub clock_step: Duration,
    /// As there, too.
    pub prague_fallback: bool,
    /// Since when frames that have come wait to be read; [`Instant::NEVER`] when none do.
    pub unread_since: Instant,
    /// Tests compare what the instances of the path in and out do.
    #[cfg(test)]
    pub instances: Instances,
}

impl<E: Env> Pools<E> {
    /// Whether the answer to what is in flight may lie unread: then nothing is lost yet because no
    /// answer is known. A core that is always behind does not wait for ever.
    pub(crate) fn may_be_answered(&self, now: Instant) -> bool {
        self.unread_since.is_set() && now.since(self.unread_since) < UNREAD_FOR
    }

    /// A segment with these timestamps is being taken.
    #[inline(always)]
    pub(crate) fn remember_echo(&mut self, ts: Option<(u32, u32)>) {
        if let Some((_, echo)) = ts {
            self.ts_echo = echo;
        }
    }
}

/// Which instances take what arrives and what is written.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Instances {
    /// Whichever suits.
    All,
    /// Not those of the fast path.
    NoFastPath,
    /// Nor header prediction: every segment goes through RFC 9293 3.10.7.4 step by step.
    StepByStep,
}

/// What the work on one connection needs beside its record: the rest of the stack, and what
/// connections share.
pub(crate) struct ConnCx<'a, 'c, E: Env> {
    pub pools: &'a mut Pools<E>,
    pub stack: &'a mut Cx<'c>,
}

impl<'c, E: Env> Deref for ConnCx<'_, 'c, E> {
    type Target = Cx<'c>;

    #[inline(always)]
    fn deref(&self) -> &Cx<'c> {
        self.stack
    }
}

impl<E: Env> DerefMut for ConnCx<'_, '_, E> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.stack
    }
}

/// A segment that has arrived for somebody, checked, with the name of its flow. It is handed down
/// where it lies; whoever keeps the payload takes it out.
pub(crate) struct Arrival<'a, B> {
    pub key: &'a FlowKey,
    /// Where the record of its flow probably lies.
    pub found: Found,
    pub seg: &'a Segment,
    /// What the device said of it: its checksum, and the size of the segments that it joined.
    pub meta: &'a RxMeta,
    /// The ECN bits of its IP header.
    pub mark: Ecn,
    /// Holds the payload and nothing else, until it is taken.
    pub payload: Option<B>,
}

impl<B: Buf> Arrival<'_, B> {
    /// Payload bytes.
    #[inline(always)]
    pub(crate) fn len(&self) -> u32 {
        self.payload.as_ref().map_or(0, |payload| payload.len() as u32)
    }

    /// What ECN is told of it.
    #[inline]
    pub(crate) fn came(&self) -> Came {
        Came { mark: self.mark, len: self.len(), segment_size: self.meta.segment_size }
    }
}

/// What ECN is told of a segment that has arrived.
#[derive(Clone, Copy)]
pub(crate) struct Came {
    /// How it was marked on the way.
    pub mark: Ecn,
    /// Bytes of payload, and the size of the segments that a device has joined into it; 0 when it
    /// has not.
    pub len: u32,
    pub segment_size: u16,
}

impl Cx<'_> {
    /// Plans a segment without connection state.
    pub(super) fn reply(&mut self, key: &FlowKey, seg: Segment, (tos, ttl): (u8, u8)) {
        let seg = Segment { src_port: key.local_port, dst_port: key.remote_port, ..seg };
        if !self.replies.tcp(ReplyTcp { key: *key, seg, tos, ttl }) {
            self.counters.icmp.replies_lost += 1;
        }
    }

    pub(super) fn reply_plain(&mut self, key: &FlowKey, seg: Segment) {
        let defaults = &self.config.tcp.defaults;
        self.reply(key, seg, (defaults.tos, defaults.ttl));
    }

    /// The reset that answers `seg`, unless it is one itself (RFC 9293 3.10.7.1).
    pub(super) fn reset_for(&mut self, key: &FlowKey, seg: &Segment, len: u32) {
        if seg.flags.rst() {
            return;
        }
        let reset = if seg.flags.ack() {
            Segment { seq: seg.ack, flags: Flags::RST, ..Segment::default() }
        } else {
            let ack = seg.seq + seg.seq_len(len as usize);
            Segment { seq: Seq(0), ack, flags: Flags::RST | Flags::ACK, ..Segment::default() }
        };
        self.counters.tcp.resets_out += 1;
        self.reply_plain(key, reset);
    }

    /// The largest TCP payload without options on the link towards a peer.
    #[inline]
    pub(super) fn link_mss(&mut self, key: &FlowKey) -> u16 {
        let (headers, least) = if key.remote.is_v6() { (60, 1280) } else { (40, 576) };
        let mtu = self.ip.known_link_mtu(key).unwrap_or(least);
        mtu.saturating_sub(headers).min(u32::from(u16::MAX)) as u16
    }
}
