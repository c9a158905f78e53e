//! What a device does that joins received segments (LRO, GRO): successive segments of one flow
//! become one large segment.

use clearway_wire::{Flags, checksum, ip, ipv4, ipv6, tcp};

use crate::frame::{self, Framing};

/// The longest IP packet.
const MAX_PACKET: usize = 65_535;

/// A received segment that others may be joined to.
pub struct Train {
    /// The frame, growing.
    pub bytes: Vec<u8>,
    /// Payload bytes of the first segment: all but the last have as many.
    pub segment_size: u16,
    /// The sequence number that the next one must have.
    next: u32,
    /// A shorter one came, or one that wants to be seen at once: the train is full.
    closed: bool,
}

impl Train {
    /// Begins with a frame; None when it is not one that can be joined.
    pub fn begin(framing: Framing, bytes: &[u8]) -> Option<Train> {
        let view = frame::tcp_view(framing.packet(bytes)?)?;
        let plain = Flags::ACK | Flags::PSH | Flags::ACE;
        let joinable = view.seg.flags.without(plain) == Flags::NONE
            && view.seg.flags.ack()
            && !view.payload.is_empty()
            && view.seg.opts.is_ts_at_most()
            && view.checksum_is_valid();
        let next = view.seg.seq.0.wrapping_add(view.payload.len() as u32);
        let closed = view.seg.flags.contains(Flags::PSH);
        let segment_size = view.payload.len() as u16;
        joinable.then(|| Train { bytes: bytes.to_vec(), segment_size, next, closed })
    }

    /// Joins another frame; false, and nothing done, when it does not follow.
    pub fn join(&mut self, framing: Framing, bytes: &[u8]) -> bool {
        let link = framing.header_len();
        let Some(other) = Train::begin(framing, bytes) else { return false };
        let (Some(mine), Some(view)) = (framing.packet(&self.bytes), framing.packet(bytes)) else {
            return false;
        };
        let (Some(mine), Some(view)) = (frame::tcp_view(mine), frame::tcp_view(view)) else {
            return false;
        };
        let header_len = usize::from(mine.seg.header_len);
        // Everything but the number, the push flag and the checksum must be the same: the ECN bits
        // of both headers too.
        let same = mine.src == view.src
            && mine.dst == view.dst
            && mine.seg.ack == view.seg.ack
            && mine.seg.wnd == view.seg.wnd
            && mine.seg.opts == view.seg.opts
            && mine.seg.flags.intersection(Flags::ACE) == view.seg.flags.intersection(Flags::ACE)
            && self.bytes[link + 1] == bytes[link + 1];
        let total = self.bytes.len() - link + view.payload.len();
        let fits = total <= MAX_PACKET && other.segment_size <= self.segment_size;
        if self.closed || !same || !fits || view.seg.seq.0 != self.next {
            return false;
        }
        let flags = mine.seg.flags | view.seg.flags;
        let transport = self.bytes.len() - mine.bytes.len();
        self.closed = other.closed || other.segment_size < self.segment_size;
        self.next = other.next;
        let payload = view.payload.to_vec();
        self.bytes.extend_from_slice(&payload);
        self.bytes[transport + 13] = flags.0 as u8;
        fix_length(&mut self.bytes[link..]);
        let (src, dst) = (view.src.addr, view.dst.addr);
        let segment = &mut self.bytes[transport..];
        segment[16..18].fill(0);
        debug_assert!(segment.len() >= header_len);
        tcp::fill_checksum(&src, &dst, segment);
        true
    }
}

fn fix_length(packet: &mut [u8]) {
    let len = packet.len();
    if ip::version(packet) == Some(4) {
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[10..12].fill(0);
        let sum = checksum::sum(&packet[..ipv4::HEADER_LEN]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&((len - ipv6::HEADER_LEN) as u16).to_be_bytes());
    }
}

#[cfg(test)]
mod tests;
