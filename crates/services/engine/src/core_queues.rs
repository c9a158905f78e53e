//! Frames between cores. Cores share nothing on the packet path, but a port with several queues may
//! bring an answer to another core than the one that asked: an ARP reply has no flow, and an ICMP
//! error has another flow than the packet it speaks of. Such frames are rare and small; the core
//! that gets one copies it to the others, and each stack checks it as if its own queue had brought
//! it.
//!
//! Answers to what a core began may come to another as well: the kernel learns which queue of a TAP
//! device a flow belongs to only after it has answered the first packet, and forgets it after three
//! seconds of silence. Cores share out the source ports ([`clearway_proto::Stack::share_ports`]),
//! and hand over what belongs to another one.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use clearway_pkt::{Iface, RxMeta};

use crate::wait::Notifier;

/// Frames that wait for one core at most; more are dropped and counted. All of them answer
/// something that is asked again after a while.
const LIMIT: usize = 256;

/// How many of them may be packets that belong to another core, and their bytes. Strangers can send
/// any number of those, and must not keep out what answers us.
const MISDELIVERED: usize = LIMIT / 2;
const MISDELIVERED_BYTES: usize = 1 << 20;

/// The longest frame that is forwarded, in bytes: ARP and NDP messages and ICMP errors fit (RFC
/// 4443 2.4 c: 1,280 with its IP header), with Ethernet and VLAN headers.
const MAX_FRAME: usize = 1_280 + 18;

/// The protocol number of IGMP (RFC 3376 4).
const IGMP: u8 = 2;

/// The frames of one core.
#[derive(Debug)]
pub(crate) struct CoreQueue {
    // Read once per turn; everything else only when it says so.
    full: AtomicBool,
    frames: Mutex<Frames>,
    lost: AtomicU64,
    /// Frames that this core handed to the one whose they were.
    handed_over: AtomicU64,
    notifier: Notifier,
}

/// A frame for another core.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// What came with it.
    pub(crate) meta: RxMeta,
    pub(crate) frame: Vec<u8>,
}

#[derive(Debug, Default)]
struct Frames {
    list: VecDeque<Frame>,
    misdelivered: usize,
    misdelivered_bytes: usize,
}

/// One core's end of the inter-core queues.
#[derive(Clone, Debug)]
pub(crate) struct CoreQueues {
    boxes: Arc<[CoreQueue]>,
    /// Some core has begun something whose answers may come to another.
    reaching: Arc<AtomicBool>,
    mine: usize,
}

impl CoreQueue {
    fn new(notifier: Notifier) -> CoreQueue {
        CoreQueue {
            full: AtomicBool::new(false),
            frames: Mutex::default(),
            lost: AtomicU64::new(0),
            handed_over: AtomicU64::new(0),
            notifier,
        }
    }

    fn put(&self, frame: Frame, misdelivered: bool) {
        let mut frames = self.frames.lock().unwrap_or_else(PoisonError::into_inner);
        let len = frame.frame.len();
        let many = misdelivered
            && (frames.misdelivered >= MISDELIVERED
                || frames.misdelivered_bytes + len > MISDELIVERED_BYTES);
        if many || frames.list.len() >= LIMIT {
            self.lost.fetch_add(1, Ordering::Relaxed);
            return;
        }
        if misdelivered {
            frames.misdelivered += 1;
            frames.misdelivered_bytes += len;
        }
        frames.list.push_back(frame);
        drop(frames);
        if !self.full.swap(true, Ordering::AcqRel) {
            self.notifier.notify();
        }
    }
}

impl CoreQueues {
    /// The ends for as many cores as there are notifiers.
    pub(crate) fn between(notifiers: Vec<Notifier>) -> Vec<CoreQueues> {
        let boxes: Arc<[CoreQueue]> = notifiers.into_iter().map(CoreQueue::new).collect();
        let reaching = Arc::new(AtomicBool::new(false));
        (0..boxes.len())
            .map(|mine| CoreQueues {
                boxes: Arc::clone(&boxes),
                reaching: Arc::clone(&reaching),
                mine,
            })
            .collect()
    }

    /// How many cores there are.
    pub(crate) fn cores(&self) -> usize {
        self.boxes.len()
    }

    /// This core has begun something whose answers may come to another. To be said before it
    /// leaves.
    #[inline]
    pub(crate) fn reach_out(&self) {
        if !self.is_reaching() {
            self.reaching.store(true, Ordering::Release);
        }
    }

    /// Whether some core has.
    #[inline]
    pub(crate) fn is_reaching(&self) -> bool {
        self.reaching.load(Ordering::Acquire)
    }

    /// Hands a frame over that belongs to that core.
    pub(crate) fn hand_over(&self, owner: usize, meta: RxMeta, frame: &[u8]) {
        if let Some(other) = self.boxes.get(owner).filter(|_| owner != self.mine) {
            self.boxes[self.mine].handed_over.fetch_add(1, Ordering::Relaxed);
            other.put(Frame { meta, frame: frame.to_vec() }, true);
        }
    }

    /// Whether there is anybody else.
    #[inline]
    pub(crate) fn has_others(&self) -> bool {
        self.boxes.len() > 1
    }

    /// Sends a copy of a frame to all other cores when it is of the kind that they may be waiting
    /// for.
    #[inline]
    pub(crate) fn share(&self, iface: Iface, ethernet: bool, frame: &[u8]) {
        if frame.len() <= MAX_FRAME && concerns_all(ethernet, frame) {
            for (index, other) in self.boxes.iter().enumerate() {
                if index != self.mine {
                    let meta = RxMeta { iface, ..RxMeta::default() };
                    other.put(Frame { meta, frame: frame.to_vec() }, false);
                }
            }
        }
    }

    /// Takes the frames out, if there are any.
    #[inline]
    pub(crate) fn take(&self) -> VecDeque<Frame> {
        let mine = &self.boxes[self.mine];
        if !mine.full.load(Ordering::Acquire) {
            return VecDeque::new();
        }
        mine.full.store(false, Ordering::Release);
        std::mem::take(&mut *mine.frames.lock().unwrap_or_else(PoisonError::into_inner)).list
    }

    /// A frame that this core took out is lost, for there is no buffer for it.
    pub(crate) fn no_buffer(&self) {
        self.boxes[self.mine].lost.fetch_add(1, Ordering::Relaxed);
    }

    /// Frames that this core got and handed to the one whose they were.
    pub(crate) fn handed_over(&self) -> u64 {
        self.boxes[self.mine].handed_over.load(Ordering::Relaxed)
    }

    /// Frames to this core that were lost, because it did not take the others out or had no buffer.
    pub(crate) fn lost(&self) -> u64 {
        self.boxes[self.mine].lost.load(Ordering::Relaxed)
    }
}

/// ARP replies, NDP advertisements, and ICMP errors: what answers or concerns a packet that any
/// core may have sent; and IGMP and MLD, for each core tells of its own memberships. Requests stay
/// with the core that got them, or all would answer. The frame is looked at just far enough to know
/// its kind; a stack checks it afterwards.
fn concerns_all(ethernet: bool, frame: &[u8]) -> bool {
    let Some((ethertype, packet)) = network_layer(ethernet, frame) else { return false };
    match ethertype {
        // RFC 826: the operation is the fourth 16-bit word; 2 is a reply.
        0x0806 => packet.get(6..8) == Some(&[0, 2]),
        0x0800 => {
            let header_len = packet.first().map_or(0, |b| usize::from(b & 0xf) * 4);
            match packet.get(9) {
                // RFC 792: 3 unreachable, 11 time exceeded, 12 parameter problem.
                Some(1) => packet.get(header_len).is_some_and(|kind| matches!(kind, 3 | 11 | 12)),
                Some(&proto) => proto == IGMP,
                None => false,
            }
        }
        // MLD stands behind a hop-by-hop header of eight bytes with a router alert (RFC 3810 5):
        // 130 to 132, and 143.
        0x86dd if packet.get(6) == Some(&0) && packet.get(40) == Some(&58) => {
            packet.get(48).is_some_and(|kind| matches!(kind, 130..=132 | 143))
        }
        // RFC 4443 2.1: errors have a type below 128. RFC 4861 4.4: 136 is an advertisement. Behind
        // extension headers neither is expected.
        0x86dd => {
            packet.get(6) == Some(&58)
                && packet.get(40).is_some_and(|kind| *kind < 128 || *kind == 136)
        }
        _ => false,
    }
}

fn network_layer(ethernet: bool, frame: &[u8]) -> Option<(u16, &[u8])> {
    if !ethernet {
        return match frame.first()? >> 4 {
            4 => Some((0x0800, frame)),
            6 => Some((0x86dd, frame)),
            _ => None,
        };
    }
    let ethertype_at = |at: usize| Some(u16::from_be_bytes([*frame.get(at)?, *frame.get(at + 1)?]));
    match ethertype_at(12)? {
        0x8100 => Some((ethertype_at(16)?, frame.get(18..)?)),
        other => Some((other, frame.get(14..)?)),
    }
}

#[cfg(test)]
mod tests;
