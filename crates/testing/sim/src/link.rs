//! Links: what happens to a frame between two hosts, as rules that a seed draws from and a scenario
//! changes.

use std::collections::VecDeque;

use clearway_base::{Duration, Instant, Rng};
use clearway_wire::{Addr, Ecn, Proto, ipv4, ipv6, tcp};

use crate::frame::{self, Framing};

pub mod codel;
pub mod dual;

use codel::CoDel;
use dual::{DualQueue, Turn, Verdict};

/// What a direction of a link does to frames. Chances are in parts per million.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rules {
    /// The frame is lost.
    pub loss: u32,
    /// Losses that come in bursts, besides.
    pub bursts: Option<Bursts>,
    /// The frame arrives twice.
    pub duplicate: u32,
    /// The frame is held back by up to `reorder_by`, so that later ones overtake it.
    pub reorder: u32,
    /// How long a frame that is held back is held back at most.
    pub reorder_by: Duration,
    /// One bit of the IP packet is flipped.
    pub corrupt: u32,
    /// The frame loses its end.
    pub truncate: u32,
    /// A packet that can be marked is (CE), whatever the queue.
    pub mark: u32,
    /// A packet that can be marked is when it has to wait longer than this in the queue of a link
    /// with a rate.
    pub mark_above: Option<Duration>,
    /// The ECN bits of the IP header are cleared.
    pub bleach: u32,
    /// The ECN bits of the TCP header become others.
    pub turn: u32,
    /// How long the way is.
    pub delay: Duration,
    /// How much longer it is at most; frames keep their order.
    pub jitter: Duration,
    /// Bits per second; 0: no limit.
    pub rate: u64,
    /// Frames that wait for their turn at most, when there is a rate.
    pub queue: u32,
    /// Who manages the queue before a link with a rate. One that is managed does not push back.
    pub managed: Managed,
    /// The device refuses frames while its queue is full, instead of losing them.
    pub backpressure: bool,
    /// Nothing gets through.
    pub blackhole: bool,
    /// A narrow place on the way.
    pub narrow: Option<Narrow>,
}

/// What decides which frames of a queue are marked or dropped before it is full.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Managed {
    /// Nothing but [`Rules::mark_above`].
    #[default]
    No,
    /// Two coupled queues, of [`Rules::queue`] frames together, as [`dual`] says.
    Dual,
    /// One queue, which marks as the classic half of those does (PI2): all that can be marked alike,
    /// as RFC 3168 has it.
    Pi2,
    /// One queue by [`codel`], which marks all that can be marked alike, too.
    CoDel,
}

/// Losses in bursts after Gilbert and Elliott: a link is good or bad, and changes from one to the
/// other by chance, at every frame.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bursts {
    /// Chance that a good link goes bad.
    pub begin: u32,
    /// Chance that a bad link goes good.
    pub end: u32,
    /// Chance that a frame on a bad link is lost.
    pub loss: u32,
}

/// A router on the way whose next link carries smaller packets.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Narrow {
    /// The largest packet that gets through.
    pub mtu: u32,
    /// Longer ones are dropped without a word, also those that might be cut: a black hole.
    pub silent: bool,
    /// Who says so.
    pub router_v4: Addr,
    /// Who says so in IPv6.
    pub router_v6: Addr,
}

impl Rules {
    /// A link without faults, whose way takes `delay`.
    pub const fn clean(delay: Duration) -> Rules {
        Rules {
            loss: 0,
            bursts: None,
            duplicate: 0,
            reorder: 0,
            reorder_by: Duration::ZERO,
            corrupt: 0,
            truncate: 0,
            mark: 0,
            mark_above: None,
            bleach: 0,
            turn: 0,
            delay,
            jitter: Duration::ZERO,
            rate: 0,
            queue: 1000,
            managed: Managed::No,
            backpressure: false,
            blackhole: false,
            narrow: None,
        }
    }

    /// The same link with its faults mended: delay, rate and queue stay, since they are no faults.
    pub fn healed(&self) -> Rules {
        let clean = Rules::clean(self.delay);
        Rules {
            rate: self.rate,
            queue: self.queue,
            managed: self.managed,
            backpressure: self.backpressure,
            narrow: self.narrow,
            ..clean
        }
    }
}

/// What was done to frames.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Tally {
    /// Frames put on the link.
    pub sent: u64,
    /// Frames lost by chance.
    pub lost: u64,
    /// Frames lost because the queue was full.
    pub overflowed: u64,
    /// Frames that who manages a queue has dropped.
    pub dropped: u64,
    /// Frames that went into the black hole.
    pub swallowed: u64,
    /// Packets larger than the narrow place.
    pub too_big: u64,
    /// Frames that arrived twice.
    pub duplicated: u64,
    /// Frames held back.
    pub held_back: u64,
    /// Frames with a flipped bit or without their end.
    pub damaged: u64,
    /// Frames that were to be marked, or whose ECN bits were to be changed, if they have any.
    pub marked: u64,
}

/// Harm done to a frame on the way. The number chooses the place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// None.
    None,
    /// One bit of the IP packet is flipped.
    Flip(u64),
    /// The end is cut off.
    Cut(u64),
    /// A packet that can be marked is.
    Mark,
    /// It cannot be marked any more.
    Bleach,
    /// The ECN bits of its TCP header are these, and its checksum fits.
    Turn(u8),
}

impl Damage {
    /// Does the harm. Link headers and ARP stay whole, because a real link has a checksum of its
    /// own over everything, and ARP none.
    pub fn apply(self, framing: Framing, frame: &mut Vec<u8>) {
        let header_len = framing.header_len();
        if framing.packet(frame).is_none() || frame.len() <= header_len {
            return;
        }
        let body = (frame.len() - header_len) as u64;
        match self {
            Damage::None => {}
            // Bits that are flipped in several fragments of a datagram may leave its sum as it was,
            // and no stack could tell.
            Damage::Flip(_) if is_later_fragment(&frame[header_len..]) => {}
            Damage::Flip(n) => {
                let bit = n % (body * 8);
                frame[header_len + (bit / 8) as usize] ^= 1 << (bit % 8);
            }
            Damage::Cut(n) => frame.truncate(header_len + (n % body) as usize),
            Damage::Mark => change_mark(&mut frame[header_len..], |mark| {
                if mark == Ecn::NotEct { mark } else { Ecn::Ce }
            }),
            Damage::Bleach => change_mark(&mut frame[header_len..], |_| Ecn::NotEct),
            Damage::Turn(ace) => change_ace(&mut frame[header_len..], ace),
        }
    }
}

/// Whether an IP packet is a fragment, and not the first one of its datagram.
fn is_later_fragment(packet: &[u8]) -> bool {
    let half = |at: usize| packet.get(at..at + 2).map_or(0, |b| u16::from_be_bytes([b[0], b[1]]));
    match packet.first().map(|first| first >> 4) {
        Some(4) => half(6) & 0x1fff != 0,
        Some(6) => packet.get(6) == Some(&44) && half(42) >> 3 != 0,
        _ => false,
    }
}

/// Changes the ECN bits of an IP packet.
fn change_mark(packet: &mut [u8], change: impl Fn(Ecn) -> Ecn) {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= ipv4::HEADER_LEN => {
            let before = u16::from_be_bytes([packet[0], packet[1]]);
            packet[1] = packet[1] & !3 | change(Ecn::of(packet[1])) as u8;
            let after = u16::from_be_bytes([packet[0], packet[1]]);
            mend(&mut packet[10..12], before, after);
        }
        Some(6) if packet.len() >= ipv6::HEADER_LEN => {
            packet[1] = packet[1] & !0x30 | (change(Ecn::of(packet[1] >> 4)) as u8) << 4;
        }
        _ => {}
    }
}

/// The ECN bits of an IP packet.
pub fn mark_of(packet: &[u8]) -> Ecn {
    match packet {
        [first, second, ..] if first >> 4 == 4 => Ecn::of(*second),
        [first, second, ..] if first >> 4 == 6 => Ecn::of(*second >> 4),
        _ => Ecn::NotEct,
    }
}

/// Changes the ECN bits of the TCP header in a packet.
fn change_ace(packet: &mut [u8], ace: u8) {
    let Some(at) = frame::upper(packet).filter(|up| up.proto == Proto::TCP).map(|up| up.offset)
    else {
        return;
    };
    let Some(tcp) = packet.get_mut(at..).filter(|tcp| tcp.len() >= tcp::HEADER_LEN) else { return };
    let before = u16::from_be_bytes([tcp[12], tcp[13]]);
    tcp[12] = tcp[12] & !1 | ace >> 2 & 1;
    tcp[13] = tcp[13] & 0x3f | ace << 6;
    let after = u16::from_be_bytes([tcp[12], tcp[13]]);
    mend(&mut tcp[16..18], before, after);
}

/// A checksum over a word that has changed (RFC 1624 3).
fn mend(checksum: &mut [u8], before: u16, after: u16) {
    let old = u16::from_be_bytes([checksum[0], checksum[1]]);
    let mut sum = u32::from(!old) + u32::from(!before) + u32::from(after);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    checksum.copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// One arrival of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    /// When.
    pub at: Instant,
    /// In what condition.
    pub damage: Damage,
}

/// A frame in a managed queue.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Held {
    /// The frame.
    pub bytes: Vec<u8>,
    /// The payload of the segments that it was cut into, or will be; 0: it is whole.
    pub segment_size: u16,
}

/// What a managed queue has come to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Served {
    /// What leaves, and what becomes of it.
    pub frame: Option<(Held, Passage)>,
    /// When it is to be asked again.
    pub again: Option<Instant>,
}

/// What becomes of a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Passage {
    /// Its arrivals: none, one or two.
    pub arrivals: [Option<Arrival>; 2],
    /// What to say about it; empty when nothing happened.
    pub remark: &'static str,
}

/// One direction of a link.
pub struct Direction {
    /// What it does now.
    pub rules: Rules,
    /// What it did.
    pub tally: Tally,
    /// How long frames have waited, in microseconds, where that decides about marks; in a dual queue
    /// those of its low-latency half.
    pub waits: Vec<u32>,
    dual: DualQueue<Held>,
    codel: CoDel<Held>,
    /// The managed queue will be asked again.
    is_served: bool,
    rng: Rng,
    bad: bool,
    busy_until: Instant,
    last_arrival: Instant,
    departures: VecDeque<Instant>,
}

impl Direction {
    /// A direction with these rules, whose luck comes from `rng`.
    pub fn new(rules: Rules, rng: Rng) -> Direction {
        Direction {
            rules,
            tally: Tally::default(),
            waits: Vec::new(),
            dual: DualQueue::new(Instant::ZERO),
            codel: CoDel::new(),
            is_served: false,
            rng,
            bad: false,
            busy_until: Instant::ZERO,
            last_arrival: Instant::ZERO,
            departures: VecDeque::new(),
        }
    }

    /// Whether frames wait in a queue that somebody manages.
    pub fn is_managed(&self) -> bool {
        self.rules.managed != Managed::No && self.rules.rate > 0
    }

    /// How many frames the sending device takes now.
    pub fn room(&mut self, now: Instant) -> u32 {
        if !self.rules.backpressure || self.rules.rate == 0 || self.is_managed() {
            return u32::MAX;
        }
        self.depart(now);
        self.rules.queue.saturating_sub(self.departures.len() as u32)
    }

    /// When the device takes a frame again, after it had no room.
    pub fn next_room(&self) -> Instant {
        // A large segment that was cut may have overfilled the queue: room is when fewer than the
        // limit are left.
        let over = (self.departures.len() + 1).saturating_sub(self.rules.queue.max(1) as usize);
        let last = over.checked_sub(1).and_then(|at| self.departures.get(at));
        last.copied().unwrap_or(Instant::ZERO)
    }

    fn depart(&mut self, now: Instant) {
        while self.departures.front().is_some_and(|at| *at <= now) {
            self.departures.pop_front();
        }
    }

    /// Puts a frame of `len` bytes on the link.
    pub fn send(&mut self, now: Instant, len: usize) -> Passage {
        self.tally.sent += 1;
        let lost = |remark| Passage { arrivals: [None; 2], remark };
        if self.rules.blackhole {
            self.tally.swallowed += 1;
            return lost("swallowed");
        }
        let Some(left) = self.leave(now, len) else {
            self.tally.overflowed += 1;
            return lost("queue full");
        };
        if self.rules.mark_above.is_some() {
            self.waits.push(micros(left.since(now)));
        }
        self.pass(left, left.since(now), false)
    }

    /// A frame with these ECN bits begins to wait in the managed queue, or says why not. When the queue
    /// is to be asked what leaves, if nobody will do that already.
    pub fn wait(
        &mut self,
        now: Instant,
        held: Held,
        ecn: Ecn,
    ) -> Result<Option<Instant>, &'static str> {
        self.tally.sent += 1;
        if self.rules.blackhole {
            self.tally.swallowed += 1;
            return Err("swallowed");
        }
        if self.waiting() >= self.rules.queue as usize {
            self.tally.overflowed += 1;
            return Err("queue full");
        }
        let len = held.bytes.len();
        match self.rules.managed {
            Managed::CoDel => self.codel.push(now, held, len, ecn),
            Managed::Pi2 => self.dual.push_classic(now, held, len, ecn),
            Managed::No | Managed::Dual => self.dual.push(now, held, len, ecn),
        }
        let is_idle = !std::mem::replace(&mut self.is_served, true);
        Ok(is_idle.then_some(self.busy_until.max(now)))
    }

    /// Frames in the managed queue.
    fn waiting(&self) -> usize {
        self.dual.len() + self.codel.len()
    }

    fn next(&mut self, now: Instant) -> Option<Turn<Held>> {
        self.codel.pop(now).or_else(|| self.dual.pop(now))
    }

    /// What leaves the managed queue now.
    pub fn serve(&mut self, now: Instant) -> Served {
        let mut frame = None;
        while let Some(turn) = self.next(now) {
            if turn.verdict == Verdict::Dropped {
                self.tally.dropped += 1;
                continue;
            }
            self.busy_until = self.busy_until.max(now) + self.time_of(turn.len);
            let (left, waited) = (self.busy_until, self.busy_until.since(turn.since));
            if turn.low_latency || self.rules.managed != Managed::Dual {
                self.waits.push(micros(waited));
            }
            frame = Some((turn.frame, self.pass(left, waited, turn.verdict == Verdict::Marked)));
            break;
        }
        self.is_served = self.waiting() > 0;
        Served { frame, again: self.is_served.then_some(self.busy_until) }
    }

    /// What becomes of a frame that has left then, after it has waited so long.
    fn pass(&mut self, left: Instant, waited: Duration, is_marked: bool) -> Passage {
        if self.chance_loses() {
            self.tally.lost += 1;
            return Passage { arrivals: [None; 2], remark: "lost" };
        }
        let mut remark = "";
        let jitter = Duration::from_nanos(self.rng.between(0, self.rules.jitter.as_nanos()));
        let mut at = left + self.rules.delay + jitter;
        if self.rng.chance(self.rules.reorder) {
            self.tally.held_back += 1;
            remark = "held back";
            at +=
                Duration::from_nanos(self.rng.between(1, self.rules.reorder_by.as_nanos().max(1)));
        } else {
            at = at.max(self.last_arrival);
            self.last_arrival = at;
        }
        let damage = match self.damage() {
            Damage::None if is_marked => {
                self.tally.marked += 1;
                Damage::Mark
            }
            Damage::None => self.change(waited),
            damage => damage,
        };
        if damage != Damage::None {
            remark = "damaged";
        }
        let first = Arrival { at, damage };
        let mut second = None;
        if self.rng.chance(self.rules.duplicate) {
            self.tally.duplicated += 1;
            remark = "doubled";
            let later = Duration::from_nanos(self.rng.between(0, self.rules.reorder_by.as_nanos()));
            second = Some(Arrival { at: at + later, damage: Damage::None });
        }
        Passage { arrivals: [Some(first), second], remark }
    }

    /// When the frame has left the sender's queue; None when it found no place there.
    fn leave(&mut self, now: Instant, len: usize) -> Option<Instant> {
        if self.rules.rate == 0 {
            return Some(now);
        }
        self.depart(now);
        if self.departures.len() as u32 >= self.rules.queue && !self.rules.backpressure {
            return None;
        }
        self.busy_until = self.busy_until.max(now) + self.time_of(len);
        self.departures.push_back(self.busy_until);
        Some(self.busy_until)
    }

    /// How long the link is busy with so many bytes.
    fn time_of(&self, len: usize) -> Duration {
        Duration::from_nanos(len as u64 * 8 * 1_000_000_000 / self.rules.rate.max(1))
    }

    fn chance_loses(&mut self) -> bool {
        let mut lost = self.rng.chance(self.rules.loss);
        if let Some(bursts) = self.rules.bursts {
            self.bad =
                if self.bad { !self.rng.chance(bursts.end) } else { self.rng.chance(bursts.begin) };
            lost |= self.bad && self.rng.chance(bursts.loss);
        }
        lost
    }

    fn damage(&mut self) -> Damage {
        let damage = if self.rng.chance(self.rules.corrupt) {
            Damage::Flip(self.rng.next_u64())
        } else if self.rng.chance(self.rules.truncate) {
            Damage::Cut(self.rng.next_u64())
        } else {
            return Damage::None;
        };
        self.tally.damaged += 1;
        damage
    }

    /// What the way does to the ECN bits of a packet that has waited so long.
    fn change(&mut self, waited: Duration) -> Damage {
        let Rules { mark, mark_above, bleach, turn, .. } = self.rules;
        // No luck is drawn where there is nothing to win, so that other worlds stay as they are.
        let mut happens = |chance: u32| chance != 0 && self.rng.chance(chance);
        let change = if mark_above.is_some_and(|most| waited > most) || happens(mark) {
            Damage::Mark
        } else if happens(bleach) {
            Damage::Bleach
        } else if happens(turn) {
            Damage::Turn(self.rng.below(8) as u8)
        } else {
            return Damage::None;
        };
        self.tally.marked += 1;
        change
    }
}

fn micros(time: Duration) -> u32 {
    (time.as_nanos() / 1_000) as u32
}

#[cfg(test)]
mod tests;
