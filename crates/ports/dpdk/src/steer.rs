//! Which core a frame belongs to, where the device does not see to that.
//!
//! A flow lives on one core. Devices made of shared memory bring a flow's frames on any queue, or
//! have fewer queues than there are cores; then the core that receives a frame hands it over to the
//! one that owns its flow. The owner is decided by a hash that is the same in both directions, but
//! for flows that one of our cores began: what it sends is remembered, and the answers come to it.

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use clearway_base::Instant;
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::sys::{Batch, FrameBox};

/// Frames that wait for one core at most.
const SLOTS: usize = 2_048;

/// Flows that began here and belong to another core than their hash says, at most: 65,536 in lines
/// of eight.
const LINES: usize = 8_192;
const LINE: usize = 8;

/// The cores of one port, as far as they have to do with each other.
pub(crate) struct Steer {
    inboxes: Vec<Inbox>,
    flows: Flows,
    seed: u64,
    // The device brings all frames of a flow to the same queue, so what is not remembered stays
    // where it came.
    spread_by_device: bool,
}

/// What other cores have received for one.
pub(crate) struct Inbox {
    frames: FrameBox,
    notifier: EventFd,
    // The owner is about to sleep, and wants to be woken.
    wants_notifier: AtomicBool,
}

impl Inbox {
    /// Takes up to `room` frames out; `batch` is empty before.
    #[inline]
    pub(crate) fn take(&self, batch: &mut Batch, room: usize) {
        self.frames.take(batch, room);
    }

    /// Says whether the owner wants to be woken.
    pub(crate) fn want_notifier(&self, want: bool) {
        self.wants_notifier.store(want, Ordering::SeqCst);
    }

    /// Takes the frames of `batch` as far as there is room; answers how many were lost.
    fn put(&self, batch: &mut Batch) -> usize {
        self.frames.put(batch);
        let lost = batch.len();
        batch.release();
        // The frames are in the box before this is read, and the owner says that it wants the
        // notifier before it looks into the box once more: one of both sees what the other did.
        fence(Ordering::SeqCst);
        if self.wants_notifier.load(Ordering::SeqCst)
            && self.wants_notifier.swap(false, Ordering::SeqCst)
        {
            let _ = self.notifier.write(1);
        }
        lost
    }
}

impl AsFd for Inbox {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.notifier.as_fd()
    }
}

impl Steer {
    /// For `cores` cores that share the port of this number. `spread_by_device` says that the
    /// device brings a flow to one queue.
    pub(crate) fn new(port: u16, cores: usize, spread_by_device: bool) -> io::Result<Steer> {
        let inbox = |core| -> io::Result<Inbox> {
            let notifier = EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)?;
            Ok(Inbox {
                frames: FrameBox::new(port, core, SLOTS)?,
                notifier,
                wants_notifier: AtomicBool::new(false),
            })
        };
        let inboxes = (0..cores).map(inbox).collect::<io::Result<_>>()?;
        Ok(Steer {
            inboxes,
            flows: Flows::new(),
            seed: RandomState::new().hash_one(port),
            spread_by_device,
        })
    }

    /// Whether the device brings all frames of a flow to the same queue.
    pub(crate) fn is_spread_by_device(&self) -> bool {
        self.spread_by_device
    }

    /// What others have received for this core.
    #[inline]
    pub(crate) fn inbox(&self, core: usize) -> Option<&Inbox> {
        self.inboxes.get(core)
    }

    /// Takes the frames out of `batch` that belong to other cores than `core`, which received them;
    /// answers how many of them were lost.
    #[inline]
    pub(crate) fn sort(
        &self,
        core: usize,
        batch: &mut Batch,
        spare: &mut Batch,
        now: Instant,
    ) -> usize {
        let mut owners = [core as u8; crate::sys::BURST];
        let mut foreign = 0u64;
        for (index, owner) in owners.iter_mut().enumerate().take(batch.len()) {
            if let Some(flow) = flow_of(batch.head(index), self.seed) {
                *owner = self.owner(flow, core, now) as u8;
                foreign |= u64::from(usize::from(*owner) != core) << (*owner & 63);
            }
        }
        let mut lost = 0;
        for (other, inbox) in self.inboxes.iter().enumerate() {
            if other != core && foreign & 1 << (other & 63) != 0 {
                batch.split(&mut owners, other as u8, spare);
                lost += inbox.put(spare);
            }
        }
        lost
    }

    #[inline]
    fn owner(&self, flow: u64, core: usize, now: Instant) -> usize {
        match self.flows.find(flow, now) {
            Some(owner) if owner < self.inboxes.len() => owner,
            _ if self.spread_by_device => core,
            _ => self.by_hash(flow),
        }
    }

    #[inline]
    fn by_hash(&self, flow: u64) -> usize {
        // The upper half times the number of cores: an even share without a division.
        (((flow >> 32) * self.inboxes.len() as u64) >> 32) as usize
    }

    /// `core` sends this frame, so what comes back on its flow is for it.
    #[inline]
    pub(crate) fn sent(&self, core: usize, frame: &[u8], now: Instant) {
        let Some(flow) = flow_of(frame, self.seed) else { return };
        let home = if self.spread_by_device { usize::MAX } else { self.by_hash(flow) };
        let found = self.flows.find(flow, now);
        if found.unwrap_or(home) != core {
            self.flows.remember(flow, core, now);
        } else if found.is_some() {
            if let Some(ended) = ends(frame) {
                self.flows.mark(flow, ended);
            }
        }
    }
}

/// Flows and their cores, shared by all cores without a lock. Two cores that write the same flow at
/// once may leave it there twice; the next frame that is sent on it mends that.
struct Flows {
    lines: Box<[[AtomicU64; LINE]]>,
    any: AtomicBool,
}

// An entry: 32 bits that tell the flow, 8 of its core counted from 1, one that says that it has
// ended, 23 of the time when it was last used.
const CORE_AT: u32 = 24;
const ENDED: u64 = 1 << 23;
const TIME: u64 = ENDED - 1;

fn is_of(entry: u64, tag: u32) -> bool {
    entry >> 32 == u64::from(tag) && entry >> CORE_AT & 0xff != 0
}

impl Flows {
    fn new() -> Flows {
        let lines = (0..LINES).map(|_| [const { AtomicU64::new(0) }; LINE]).collect();
        Flows { lines, any: AtomicBool::new(false) }
    }

    #[inline]
    fn line(&self, flow: u64) -> &[AtomicU64; LINE] {
        &self.lines[(flow >> 51) as usize % LINES]
    }

    #[inline]
    fn find(&self, flow: u64, now: Instant) -> Option<usize> {
        if !self.any.load(Ordering::Relaxed) {
            return None;
        }
        let (tag, time) = (flow as u32, ticks(now));
        for slot in self.line(flow) {
            let entry = slot.load(Ordering::Relaxed);
            if is_of(entry, tag) {
                if entry & TIME != time {
                    // Lost when another core writes meanwhile, which does no harm.
                    let newer = entry & !TIME | time;
                    let _ =
                        slot.compare_exchange(entry, newer, Ordering::Relaxed, Ordering::Relaxed);
                }
                return Some((entry >> CORE_AT & 0xff) as usize - 1);
            }
        }
        None
    }

    fn remember(&self, flow: u64, core: usize, now: Instant) {
        self.any.store(true, Ordering::Relaxed);
        let (tag, time) = (flow as u32, ticks(now));
        let new = u64::from(tag) << 32 | ((core as u64 + 1) & 0xff) << CORE_AT | time;
        // Its own entry, or an empty one, or one of a flow that has ended, or the oldest.
        let worth = |entry: u64| match entry {
            _ if is_of(entry, tag) => u64::MAX,
            0 => u64::MAX - 1,
            _ => (entry & ENDED) << 1 | age(time, entry),
        };
        let line = self.line(flow);
        // Each attempt but the last fails only because another core has written into the line.
        for _ in 0..LINE {
            let entries = line.iter().map(|slot| (slot, slot.load(Ordering::Relaxed)));
            let Some((slot, entry)) = entries.max_by_key(|(_, entry)| worth(*entry)) else {
                return;
            };
            if slot.compare_exchange(entry, new, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
                return;
            }
        }
    }

    /// Says whether a flow has ended. One that has is still found, and gives way before all that
    /// have not: else connections that come and go in great numbers would push out one that stays
    /// and has nothing to say.
    fn mark(&self, flow: u64, ended: bool) {
        for slot in self.line(flow) {
            let entry = slot.load(Ordering::Relaxed);
            if is_of(entry, flow as u32) {
                let marked = if ended { entry | ENDED } else { entry & !ENDED };
                let _ = slot.compare_exchange(entry, marked, Ordering::Relaxed, Ordering::Relaxed);
                return;
            }
        }
    }
}

/// Steps of 17 ms, in 23 bits: 39 hours until they begin anew. Small, because in one step many
/// connections may come and go.
fn ticks(now: Instant) -> u64 {
    now.as_nanos() >> 24 & TIME
}

/// Steps since this entry was used; none when a core whose clock was read later has used it.
fn age(time: u64, entry: u64) -> u64 {
    let age = time.wrapping_sub(entry) & TIME;
    if age > TIME / 2 { 0 } else { age }
}

/// Whether this frame of TCP ends its flow (FIN, RST) or begins one (SYN); None for any other.
fn ends(frame: &[u8]) -> Option<bool> {
    let (ethertype, packet) = behind_tags(frame)?;
    let tcp = match ethertype {
        0x0800 if packet.get(9) == Some(&6) && u16_at(packet, 6)? & 0x1fff == 0 => {
            packet.get(usize::from(packet[0] & 0xf) * 4..)?
        }
        0x86dd if packet.get(6) == Some(&6) => packet.get(40..)?,
        _ => return None,
    };
    // RFC 9293 3.1: FIN 1, SYN 2, RST 4.
    match tcp.get(13)? & 0x07 {
        0 => None,
        2 => Some(false),
        _ => Some(true),
    }
}

/// The type behind VLAN tags, two at most, and what follows.
#[inline]
fn behind_tags(frame: &[u8]) -> Option<(u16, &[u8])> {
    let (mut ethertype, mut at) = (u16_at(frame, 12)?, 14);
    while matches!(ethertype, 0x8100 | 0x88a8) && at < 22 {
        ethertype = u16_at(frame, at + 2)?;
        at += 4;
    }
    Some((ethertype, frame.get(at..)?))
}

/// A number for the flow of a TCP or UDP packet, the same for both directions. All fragments of a
/// datagram have the same, which is that of its addresses; other packets belong to no flow.
#[inline]
pub(crate) fn flow_of(frame: &[u8], seed: u64) -> Option<u64> {
    let (ethertype, packet) = behind_tags(frame)?;
    match ethertype {
        // RFC 791 3.1: the header's length, flags and offset, protocol, addresses.
        0x0800 => {
            let header = packet.first_chunk::<20>()?;
            if header[9] != 6 && header[9] != 17 {
                return None;
            }
            let address = |at: usize| {
                u64::from(u32::from_be_bytes([
                    header[at],
                    header[at + 1],
                    header[at + 2],
                    header[at + 3],
                ]))
            };
            let ports = if u16_at(header, 6)? & 0x3fff != 0 {
                (0, 0)
            } else {
                let transport = packet.get(usize::from(header[0] & 0xf) * 4..)?;
                (u16_at(transport, 0)?, u16_at(transport, 2)?)
            };
            Some(both_ways(seed, (address(12), 0, ports.0), (address(16), 0, ports.1)))
        }
        // RFC 8200 3 and 4.5. Behind extension headers other than that of a fragment neither TCP
        // nor UDP is expected.
        0x86dd => {
            let header = packet.first_chunk::<40>()?;
            let half = |at: usize| {
                header[at..].first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
            };
            let ports = match header[6] {
                6 | 17 => (u16_at(packet, 40)?, u16_at(packet, 42)?),
                44 => (0, 0),
                _ => return None,
            };
            Some(both_ways(seed, (half(8), half(16), ports.0), (half(24), half(32), ports.1)))
        }
        _ => None,
    }
}

#[inline]
fn both_ways(seed: u64, from: (u64, u64, u16), to: (u64, u64, u16)) -> u64 {
    let end = |(a, b, port): (u64, u64, u16)| {
        fold(fold(a ^ seed, b ^ 0x9e37_79b9_7f4a_7c15), u64::from(port) ^ 0xd6e8_feb8_6659_fd93)
    };
    fold(end(from).wrapping_add(end(to)), seed ^ 0xa076_1d64_78bd_642f)
}

/// Both halves of the product of two numbers, mixed.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a ^ 0xe703_7ed1_a0b4_28db) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
