//! The frames that the generator sends: made once, then only a few fields are patched, and read
//! again when they come back.
//!
//! ```text
//! | Ethernet, if any | IPv4 or IPv6 | UDP or TCP | run 16 | sequence 32 | stamp 32 | filling … |
//! ```
//!
//! The flow stands in the generator's own address and port, so that every device on the way that
//! spreads flows sees them. All that changes from frame to frame is added to sums that were worked
//! out at the start; so checksums cost the same at any size.

use clearway_base::{Duration, Instant};
use clearway_wire::checksum::{self, Sum};
use clearway_wire::{
    Addr, EtherType, Flags, Mac, Proto, Segment, Seq, TcpOptions, eth, ipv4, ipv6, tcp, udp,
};

/// Bytes of run, sequence number and stamp: a 64-byte frame of TCP over IPv4 has room for just
/// these.
pub const TAG_LEN: usize = 10;

/// Flows on one address before the next one is used. A power of two, so that flow and port are
/// found without a division.
pub const FLOWS_PER_ADDR: u32 = 16_384;

/// Flows that one generator has at most.
pub const MAX_FLOWS: u32 = 1 << 20;

/// Frames shorter than this are filled up by some devices (IEEE 802.3 4.2.3.3, without the check
/// sequence).
const MIN_ETHERNET: usize = 60;

/// What all frames of a run have in common.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Shape {
    /// Source and destination on an Ethernet; None where frames begin with the IP header.
    pub macs: Option<(Mac, Mac)>,
    /// The first address that the generator sends from.
    pub own: Addr,
    /// The address that it sends to, of the same family.
    pub peer: Addr,
    /// The first port that the generator sends from; it leaves room for [`FLOWS_PER_ADDR`] ports.
    pub own_port: u16,
    /// The port that it sends to.
    pub peer_port: u16,
    /// Whether the frames look like TCP rather than UDP.
    pub tcp: bool,
    /// Tells this run from others.
    pub run: u16,
}

/// A frame has to be longer for all that it must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("frames of {size} bytes are too short: headers, number and time stamp take {least}")]
pub struct TooShort {
    /// What was asked for.
    pub size: usize,
    /// What it takes.
    pub least: usize,
}

/// What a frame carries for its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Of which flow it is.
    pub flow: u32,
    /// The how manieth of its flow, modulo 2^32.
    pub seq: u32,
    /// When it was sent.
    pub stamp: Stamp,
}

/// A moment in units of 16 ns, modulo 2^32: lengths of up to 34 s can be told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stamp(pub u32);

impl Stamp {
    /// The stamp of this moment.
    #[inline]
    pub fn of(now: Instant) -> Stamp {
        Stamp((now.as_nanos() >> 4) as u32)
    }

    /// How long before `now` that was; no time at all when it is later: a frame may come in with a
    /// burst that began before it was sent, by another thread.
    #[inline]
    pub fn age(self, now: Instant) -> Duration {
        let steps = Stamp::of(now).0.wrapping_sub(self.0);
        if steps > u32::MAX / 2 {
            Duration::ZERO
        } else {
            Duration::from_nanos(u64::from(steps) << 4)
        }
    }
}

/// What a received frame turns out to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Look {
    /// One of this run, unharmed.
    Ours(Trace),
    /// One of ours of another run, which took its time.
    Stale,
    /// One of ours that was changed or cut on its way.
    Damaged,
    /// Somebody else's.
    Foreign,
}

impl Shape {
    fn ip_at(&self) -> usize {
        if self.macs.is_some() { eth::HEADER_LEN } else { 0 }
    }

    fn l4_at(&self) -> usize {
        self.ip_at() + if self.own.is_v4() { ipv4::HEADER_LEN } else { ipv6::HEADER_LEN }
    }

    fn tag_at(&self) -> usize {
        self.l4_at() + if self.tcp { tcp::HEADER_LEN } else { udp::HEADER_LEN }
    }

    /// The shortest frame, from its first header to its last byte without a check sequence.
    pub fn least(&self) -> usize {
        self.tag_at() + TAG_LEN
    }

    fn proto(&self) -> Proto {
        if self.tcp { Proto::TCP } else { Proto::UDP }
    }
}

/// A frame of one size, ready but for what changes from one to the next.
#[derive(Clone, Debug)]
pub struct Template {
    shape: Shape,
    bytes: Box<[u8]>,
    addrs: Addrs,
    l4_at: usize,
    checksum_at: usize,
    tag_at: usize,
    /// Over the IPv4 header without the generator's address.
    ip_sum: Sum,
    /// Over pseudo header and message without the generator's address and port, and of the tag only
    /// the run.
    l4_sum: Sum,
    own_low: u32,
}

/// Where the addresses stand.
#[derive(Clone, Copy, Debug)]
struct Addrs {
    at: usize,
    len: usize,
}

impl Addrs {
    /// Where the last four bytes of the source address stand, which are the ones that change.
    fn src_low(&self) -> usize {
        self.at + self.len - 4
    }
}

impl Template {
    /// A frame of `size` bytes. `own` and `peer` are of one family: the caller has seen to it.
    pub fn new(shape: Shape, size: usize) -> Result<Template, TooShort> {
        if size < shape.least() {
            return Err(TooShort { size, least: shape.least() });
        }
        let (ip_at, l4_at, tag_at) = (shape.ip_at(), shape.l4_at(), shape.tag_at());
        let v4 = shape.own.is_v4();
        let mut bytes = vec![0; size].into_boxed_slice();
        if let Some((src, dst)) = shape.macs {
            eth::emit(dst, src, if v4 { EtherType::IPV4 } else { EtherType::IPV6 }, &mut bytes);
        }
        for (index, byte) in bytes[tag_at + TAG_LEN..].iter_mut().enumerate() {
            *byte = index as u8;
        }
        let addrs = Addrs { at: ip_at + if v4 { 12 } else { 8 }, len: if v4 { 4 } else { 16 } };
        let (src, dst, payload_len) = (shape.own, shape.peer, (size - l4_at) as u16);
        let mut ip_sum = Sum::ZERO;
        if v4 {
            let header = ipv4::Header {
                src,
                dst,
                proto: shape.proto(),
                tos: 0,
                ttl: 64,
                id: 0,
                dont_fragment: true,
                more_fragments: false,
                fragment_offset: 0,
                payload_len,
            };
            ipv4::emit(&header, &mut bytes[ip_at..]);
            // Checksum and the generator's address are filled in for each frame.
            bytes[ip_at + 10..ip_at + 12].fill(0);
            bytes[addrs.src_low()..addrs.src_low() + 4].fill(0);
            ip_sum = checksum::sum(&bytes[ip_at..l4_at]);
        } else {
            let next = shape.proto();
            let header = ipv6::Header {
                src,
                dst,
                next,
                traffic_class: 0,
                flow_label: 0,
                hop_limit: 64,
                payload_len,
            };
            ipv6::emit(&header, &mut bytes[ip_at..]);
            bytes[addrs.src_low()..addrs.src_low() + 4].fill(0);
        }
        let checksum_at = l4_at + if shape.tcp { tcp::CHECKSUM_AT } else { 6 };
        if shape.tcp {
            let segment = Segment {
                src_port: 0,
                dst_port: shape.peer_port,
                seq: Seq(1),
                ack: Seq(1),
                flags: Flags::ACK.union(Flags::PSH),
                header_len: tcp::HEADER_LEN as u8,
                wnd: u16::MAX,
                urg: 0,
                opts: TcpOptions::default(),
            };
            tcp::emit(&segment, &mut bytes[l4_at..]);
        } else {
            udp::emit(
                0,
                shape.peer_port,
                payload_len - udp::HEADER_LEN as u16,
                &mut bytes[l4_at..],
            );
        }
        // The pseudo header sums the addresses of which the generator's low half is still 0.
        let addresses = checksum::sum(&bytes[addrs.at..addrs.at + 2 * addrs.len]);
        let l4_sum = addresses
            .add16(u16::from(shape.proto().0))
            .add16(payload_len)
            .combine(checksum::sum(&bytes[l4_at..]));
        let l4_sum = l4_sum.add16(shape.run);
        let own_low = u32_at(shape.own.octets(), 12);
        Ok(Template { shape, bytes, addrs, l4_at, checksum_at, tag_at, ip_sum, l4_sum, own_low })
    }

    /// Its length in bytes.
    #[inline]
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Writes a frame into the beginning of `room`, which has at least [`Template::len`] bytes.
    #[inline(always)]
    pub fn write(&self, room: &mut [u8], trace: Trace) {
        let frame = &mut room[..self.bytes.len()];
        frame.copy_from_slice(&self.bytes);
        let low = self.own_low.wrapping_add(trace.flow / FLOWS_PER_ADDR);
        let port = self.shape.own_port.wrapping_add((trace.flow % FLOWS_PER_ADDR) as u16);
        put32(frame, self.addrs.src_low(), low);
        put16(frame, self.l4_at, port);
        put16(frame, self.tag_at, self.shape.run);
        put32(frame, self.tag_at + 2, trace.seq);
        put32(frame, self.tag_at + 6, trace.stamp.0);
        put16(frame, self.checksum_at, self.l4_checksum(low, port, trace.seq, trace.stamp));
        if self.addrs.len == 4 {
            put16(frame, self.addrs.at - 2, self.ip_sum.add32(low).finish());
        }
    }

    #[inline(always)]
    fn l4_checksum(&self, own_low: u32, own_port: u16, seq: u32, stamp: Stamp) -> u16 {
        let sum = self.l4_sum.add32(own_low).add16(own_port).add32(seq).add32(stamp.0).finish();
        // RFC 768: a checksum of 0 is sent as all ones.
        if sum == 0 && !self.shape.tcp { 0xffff } else { sum }
    }

    /// Reads a frame that came in: as it was sent, or with source and destination exchanged in any
    /// header. `flows` is how many flows there are.
    #[inline]
    pub fn read(&self, frame: &[u8], flows: u32) -> Look {
        self.try_read(frame, flows).unwrap_or(Look::Foreign)
    }

    /// None for somebody else's.
    #[inline]
    fn try_read(&self, frame: &[u8], flows: u32) -> Option<Look> {
        let Addrs { at, len } = self.addrs;
        let ip_at = self.shape.ip_at();
        let head = frame.get(..self.tag_at + 2)?;
        let same = |range: std::ops::Range<usize>| head[range.clone()] == self.bytes[range];
        // Ethertype, version and header length, and the protocol above IP.
        let proto_at = ip_at + if len == 4 { 9 } else { 6 };
        if (ip_at > 0 && !same(12..14))
            || head[ip_at] != self.bytes[ip_at]
            || head[proto_at] != self.bytes[proto_at]
        {
            return None;
        }
        let (src, dst) = (&head[at..at + len], &head[at + len..at + 2 * len]);
        let (src_port, dst_port) = (u16_at(head, self.l4_at), u16_at(head, self.l4_at + 2));
        let peer = &self.bytes[at + len..at + 2 * len];
        let (own, own_port) = if dst == peer && dst_port == self.shape.peer_port {
            (src, src_port)
        } else if src == peer && src_port == self.shape.peer_port {
            (dst, dst_port)
        } else {
            return None;
        };
        if own[..len - 4] != self.bytes[at..at + len - 4] {
            return None;
        }
        let low = u32_at(own, len - 4);
        let of_addr = low.wrapping_sub(self.own_low).checked_mul(FLOWS_PER_ADDR)?;
        let of_port = u32::from(own_port.wrapping_sub(self.shape.own_port));
        let flow = of_addr
            .checked_add(of_port)
            .filter(|&flow| of_port < FLOWS_PER_ADDR && flow < flows)?;
        if u16_at(head, self.tag_at) != self.shape.run {
            return Some(Look::Stale);
        }
        let filling = self.tag_at + TAG_LEN;
        let right_len = frame.len() == self.bytes.len()
            || (self.bytes.len() < MIN_ETHERNET
                && (self.bytes.len()..=MIN_ETHERNET).contains(&frame.len()));
        if !right_len || frame[filling..self.bytes.len()] != self.bytes[filling..] {
            return Some(Look::Damaged);
        }
        let (seq, stamp) = (u32_at(frame, self.tag_at + 2), Stamp(u32_at(frame, self.tag_at + 6)));
        // The same whichever way the frame goes: a sum does not know the order of its words.
        if u16_at(frame, self.checksum_at) != self.l4_checksum(low, own_port, seq, stamp) {
            return Some(Look::Damaged);
        }
        Some(Look::Ours(Trace { flow, seq, stamp }))
    }
}

// The places are inside of every frame that is as long as it was found to be; what is not there
// reads as 0.

#[inline(always)]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    bytes
        .get(at..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u16::from_be_bytes(*bytes))
}

#[inline(always)]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes
        .get(at..)
        .and_then(|bytes| bytes.first_chunk())
        .map_or(0, |bytes| u32::from_be_bytes(*bytes))
}

#[inline(always)]
fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

#[inline(always)]
fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests;
