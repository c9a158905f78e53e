//! A bad link round any port: loss, duplication, reordering, corruption, delay, jitter, rate and
//! queue limit, the same for the same seed.
//!
//! Faults happen to what is on the wire, segment by segment. So the port with faults takes no large
//! packets and no unfinished checksums from the stack, and cuts what the port below received as one
//! large packet into its segments again. Put [`crate::Gso`] over it when the stack shall have
//! segmentation all the same.
//!
//! A loopback is one wire, on which every frame is first sent and then received.
//! [`Fault::on_loopback`] lets large packets pass into it as they are, cuts them when they come
//! back, and lets the faults happen to each segment once.

use clearway_base::{Instant, Rng};
use clearway_pkt::{BURST, Buf, Burst, Checksum, Offloads, PoolBuf, RxMeta, Segmentation, TxMeta};

use clearway_wire::{Ecn, checksum, ipv4};

use crate::device::{ETHERNET_LEN, max_frame};
use crate::frame_queue::Room;
use crate::gso::{Cut, finish_checksum, rewrite_checksum};
use crate::{Dev, DevCounters, DevError, Facts, FramePool, Receive, RxDrop, Transmit, TxDrop};

mod impair;
mod spec;

pub use impair::FaultCounts;
pub use spec::{FaultSpec, Impairment, JitterShape};

use impair::{Fate, Impair};

/// A port over a bad link.
///
/// Delays and rates pass with the time that [`Facts::set_now`] tells; what falls due is heard of in
/// [`Facts::next_deadline`].
pub struct Fault<D> {
    below: D,
    now: Instant,
    pool: FramePool,
    rx: Impair<(PoolBuf, RxMeta)>,
    tx: Impair<PoolBuf>,
    room: Room,
    // What the port below has received; those before `looked_at` are taken.
    arrived: Burst<PoolBuf>,
    looked_at: usize,
    // Faults happen on the way in only, and the way out is the port's own.
    one_wire: bool,
    counters: DevCounters,
}

impl<D: Dev<Buf = PoolBuf>> Fault<D> {
    /// Puts `spec` round `below`. The same seed with the same frames at the same times gives the
    /// same faults. Frames on their way are kept in `pool`.
    pub fn new(below: D, spec: FaultSpec, seed: u64, pool: FramePool) -> Fault<D> {
        let mut rng = Rng::seed(seed);
        Fault {
            below,
            now: Instant::ZERO,
            pool,
            rx: Impair::new(spec.rx, rng.fork()),
            tx: Impair::new(spec.tx, rng),
            room: Room::default(),
            arrived: Burst::new(),
            looked_at: 0,
            one_wire: false,
            counters: DevCounters::default(),
        }
    }

    /// Puts `impairment` round a loopback; see the head of this file.
    pub fn on_loopback(
        loopback: D,
        impairment: Impairment,
        seed: u64,
        pool: FramePool,
    ) -> Fault<D> {
        let spec = FaultSpec { rx: impairment, tx: Impairment::default() };
        Fault { one_wire: true, ..Fault::new(loopback, spec, seed, pool) }
    }

    /// The port below.
    pub fn below(&self) -> &D {
        &self.below
    }

    /// What has happened to frames towards the stack and from it.
    pub fn fault_counts(&self) -> (FaultCounts, FaultCounts) {
        (self.rx.counts(), self.tx.counts())
    }

    fn ethernet(&self) -> bool {
        self.below.mac().is_some()
    }

    fn receive_one(&mut self, buf: PoolBuf, mut meta: RxMeta) {
        if self.below.offloads().trusted_link && !self.one_wire {
            // That link vouches for everything, but it does not know what happens here.
            meta.checksum = Checksum::Unknown;
        }
        if meta.segment_size == 0 {
            return self.impair_rx(buf, meta);
        }
        let Ok(cut) = Cut::new(buf.bytes(), self.ethernet(), meta.segment_size) else {
            return self.counters.drop_rx(RxDrop::Uncuttable);
        };
        // Pieces have whole checksums, made from what is right so far.
        let meta = RxMeta { segment_size: 0, ..meta };
        for index in 0..cut.count() {
            let len = cut.piece_len(index);
            match self.pool.take(len) {
                Some(mut piece) => {
                    cut.write(index, piece.bytes_mut());
                    piece.truncate(len);
                    self.impair_rx(piece, meta);
                }
                None => self.counters.drop_rx(RxDrop::NoBuffer),
            }
        }
    }

    fn impair_rx(&mut self, mut buf: PoolBuf, mut meta: RxMeta) {
        let len = buf.bytes().len();
        let (flipped_bit, twice) = match self.rx.fate(len) {
            Fate::Lost => return self.counters.drop_rx(RxDrop::FaultLoss),
            Fate::Goes { flipped_bit, twice, marked } => {
                if marked {
                    mark(buf.bytes_mut(), self.ethernet());
                }
                (flipped_bit, twice)
            }
        };
        if let Some(bit) = flipped_bit {
            if self.one_wire {
                // Nothing has a checksum there, and the stack looks at none.
                meta.checksum = Checksum::Bad;
            } else if meta.checksum == Checksum::Good {
                // It may never have been written; now the stack has to find out by it that the
                // frame is damaged.
                rewrite_checksum(buf.bytes_mut(), self.ethernet());
                meta.checksum = Checksum::Unknown;
            }
            flip(buf.bytes_mut(), bit);
        }
        if twice {
            match self.pool.copy_of(buf.bytes()) {
                Some(copy) => self.push_rx(copy, meta),
                None => self.counters.drop_rx(RxDrop::NoBuffer),
            }
        }
        self.push_rx(buf, meta);
    }

    fn push_rx(&mut self, buf: PoolBuf, meta: RxMeta) {
        let len = buf.bytes().len();
        if self.rx.push(self.now, len, (buf, meta)).is_err() {
            self.counters.drop_rx(RxDrop::FaultQueue);
        }
    }

    /// Hands over what has arrived by now.
    fn deliver(&mut self, burst: &mut Burst<PoolBuf>) {
        while burst.room() > 0 {
            let Some((buf, meta)) = self.rx.pop(self.now) else { return };
            self.counters.received(buf.bytes().len());
            // There is room, as was just seen.
            let _ = burst.push(buf, meta);
        }
    }

    fn send(&mut self, len: usize, meta: &TxMeta) -> Result<(), TxDrop> {
        let mut buf = self.room.commit(len, &self.pool).ok_or(TxDrop::BadRequest)?;
        if meta.segmentation != Segmentation::None {
            return Err(TxDrop::BadRequest);
        }
        if meta.checksum_start != 0 && !finish_checksum(buf.bytes_mut(), meta) {
            return Err(TxDrop::BadRequest);
        }
        let (flipped_bit, twice) = match self.tx.fate(len) {
            Fate::Lost => return Err(TxDrop::FaultLoss),
            Fate::Goes { flipped_bit, twice, marked } => {
                if marked {
                    mark(buf.bytes_mut(), self.ethernet());
                }
                (flipped_bit, twice)
            }
        };
        if let Some(bit) = flipped_bit {
            flip(buf.bytes_mut(), bit);
        }
        if twice {
            let copy = self.pool.copy_of(buf.bytes());
            match copy.map(|copy| self.tx.push(self.now, len, copy)) {
                Some(Ok(())) => {}
                Some(Err(_)) => self.counters.drop_tx(TxDrop::FaultQueue),
                None => self.counters.drop_tx(TxDrop::NoBuffer),
            }
        }
        self.tx.push(self.now, len, buf).map_err(|_| TxDrop::FaultQueue)
    }
}

/// Marks a packet that can be marked (RFC 3168 5): congestion was met on the way.
fn mark(frame: &mut [u8], ethernet: bool) {
    const CE: u8 = Ecn::Ce as u8;
    let Some(packet) = frame.get_mut(if ethernet { ETHERNET_LEN } else { 0 }..) else { return };
    match packet.first().map(|byte| byte >> 4) {
        Some(4) if packet.len() >= ipv4::HEADER_LEN && Ecn::of(packet[1]) != Ecn::NotEct => {
            packet[1] |= CE;
            let header_len = usize::from(packet[0] & 15) * 4;
            packet[10..12].fill(0);
            let sum = checksum::sum(packet.get(..header_len).unwrap_or(&[])).finish();
            packet[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        Some(6) if packet.len() > 1 && Ecn::of(packet[1] >> 4) != Ecn::NotEct => {
            packet[1] |= CE << 4
        }
        _ => {}
    }
}

/// Turns one bit over, counted from the start of the frame.
fn flip(bytes: &mut [u8], bit: usize) {
    if let Some(byte) = bytes.get_mut(bit / 8) {
        *byte ^= 1 << (bit % 8);
    }
}

impl<D: Dev<Buf = PoolBuf>> Receive for Fault<D> {
    type Buf = PoolBuf;

    fn rx(&mut self, burst: &mut Burst<PoolBuf>) -> Result<(), DevError> {
        // What waits from before goes first. Where no queue of this link bounds what is held here,
        // nothing more is taken in while not all of it fits.
        self.deliver(burst);
        if burst.room() == 0 && !self.rx.has_queue() {
            return Ok(());
        }
        let mut result = Ok(());
        if self.looked_at >= self.arrived.len() {
            self.arrived.clear();
            self.looked_at = 0;
            result = self.below.rx(&mut self.arrived);
        }
        // A frame is on its way from when it comes, whatever the stack has still to read: else a
        // stack that is busy would make the link longer by its own lag.
        while self.looked_at < self.arrived.len() && (burst.room() > 0 || self.rx.has_queue()) {
            if let Some((buf, meta)) = self.arrived.take(self.looked_at) {
                self.receive_one(buf, meta);
            }
            self.looked_at += 1;
            self.deliver(burst);
        }
        if self.arrived.may_have_more() {
            burst.leave_more();
        }
        result
    }
}

impl<D: Dev<Buf = PoolBuf>> Transmit for Fault<D> {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        if self.one_wire {
            return self.below.reserve(len);
        }
        if len > max_frame(self.below.mtu(), self.ethernet()) {
            return None;
        }
        self.room.reserve(len, &self.pool)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        if self.one_wire {
            return self.below.commit(len, meta);
        }
        if let Err(why) = self.send(len, &meta) {
            self.counters.drop_tx(why);
        }
    }

    fn reserved(&self) -> &[u8] {
        if self.one_wire { self.below.reserved() } else { self.room.written() }
    }

    // A burst at most, as what is read: were all that is due written in one turn, what comes back
    // for it would lie unread meanwhile, and be on its way later than it came.
    fn flush(&mut self) {
        for _ in 0..BURST {
            let Some(buf) = self.tx.pop(self.now) else { break };
            let bytes = buf.bytes();
            match self.below.reserve(bytes.len()) {
                Some(room) => {
                    room[..bytes.len()].copy_from_slice(bytes);
                    self.below.commit(bytes.len(), TxMeta::default());
                }
                None => self.counters.drop_tx(TxDrop::NoRoom),
            }
        }
        self.below.flush();
    }
}

impl<D: Dev<Buf = PoolBuf>> Facts for Fault<D> {
    /// Nothing, or what a loopback does: see the head of this file.
    fn offloads(&self) -> Offloads {
        if self.one_wire { self.below.offloads() } else { Offloads::default() }
    }

    crate::device::same_link_as_below!();

    /// Received is what the stack got, sent is what the port below sent; what was lost there and
    /// here is added up.
    fn counters(&self) -> DevCounters {
        let below = self.below.counters();
        let sent =
            DevCounters { tx_packets: below.tx_packets, tx_bytes: below.tx_bytes, ..self.counters };
        sent.with_drops_of(&below)
    }

    fn set_now(&mut self, now: Instant) {
        self.now = now;
        self.below.set_now(now);
    }

    fn next_deadline(&self) -> Instant {
        if self.looked_at < self.arrived.len() {
            return Instant::ZERO;
        }
        self.below.next_deadline().min(self.rx.next_deadline()).min(self.tx.next_deadline())
    }
}

#[cfg(test)]
mod tests;
