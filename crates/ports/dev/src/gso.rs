//! Cutting large packets in software, and finishing checksums, for ports that do neither.
//!
//! A large packet looks like any other TCP or UDP packet, only longer than the link takes. Each
//! piece gets a copy of its headers with what belongs to the piece: lengths, IPv4 identification,
//! sequence number, flags, checksums.

use clearway_base::Instant;
use clearway_pkt::{Burst, Offloads, Segmentation, TxMeta};
use clearway_wire::{Flags, Proto, Seq, checksum, tcp, udp};

use crate::device::{ETHERNET_LEN, MAX_IP_PACKET, max_frame};
use crate::layout::Layout;
use crate::{Dev, DevCounters, DevError, Facts, Receive, Transmit, TxDrop};

/// Why a packet cannot be cut.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CutError {
    /// It is not a whole TCP or UDP packet over IPv4 or IPv6, or its headers are broken.
    NotCuttable,
    /// Pieces of no length were asked for.
    NoSegmentSize,
}

/// A large packet and how it falls into pieces.
pub struct Cut<'a> {
    frame: &'a [u8],
    layout: Layout,
    /// Bytes of all headers.
    header_len: usize,
    /// Bytes of payload in every piece but the last.
    segment_size: usize,
}

impl<'a> Cut<'a> {
    /// Plans to cut `frame` into pieces of `segment_size` bytes of payload. Its transport checksum
    /// field may hold anything.
    pub fn new(frame: &'a [u8], ethernet: bool, segment_size: u16) -> Result<Cut<'a>, CutError> {
        if segment_size == 0 {
            return Err(CutError::NoSegmentSize);
        }
        let layout = Layout::of(frame, ethernet).ok_or(CutError::NotCuttable)?;
        let transport = frame.get(layout.transport_at..layout.end).ok_or(CutError::NotCuttable)?;
        let transport_len = match layout.proto {
            Proto::TCP => {
                let segment = tcp::parse(transport).map_err(|_| CutError::NotCuttable)?;
                // The urgent pointer counts from the sequence number of its own segment, and would
                // mean something else in each piece.
                if segment.flags.intersects(Flags::SYN | Flags::RST | Flags::URG) {
                    return Err(CutError::NotCuttable);
                }
                usize::from(segment.header_len)
            }
            Proto::UDP if transport.len() >= udp::HEADER_LEN => udp::HEADER_LEN,
            _ => return Err(CutError::NotCuttable),
        };
        let header_len = layout.transport_at + transport_len;
        Ok(Cut { frame, layout, header_len, segment_size: usize::from(segment_size) })
    }

    /// How many pieces there are, at least one.
    pub fn count(&self) -> usize {
        (self.layout.end - self.header_len).div_ceil(self.segment_size).max(1)
    }

    fn payload(&self, index: usize) -> &'a [u8] {
        let start = index
            .saturating_mul(self.segment_size)
            .saturating_add(self.header_len)
            .min(self.layout.end);
        let end = start.saturating_add(self.segment_size).min(self.layout.end);
        &self.frame[start..end]
    }

    /// Bytes of the piece at `index` with all headers.
    pub fn piece_len(&self, index: usize) -> usize {
        self.header_len + self.payload(index).len()
    }

    /// Writes the piece at `index`, counted from 0, with all its checksums, and returns its length,
    /// [`Cut::piece_len`].
    ///
    /// # Panics
    /// When `out` is shorter than that.
    pub fn write(&self, index: usize, out: &mut [u8]) -> usize {
        let Layout { ip_at, transport_at, v4, src, dst, proto, .. } = self.layout;
        let payload = self.payload(index);
        let (head, room) = out.split_at_mut(self.header_len);
        head.copy_from_slice(&self.frame[..self.header_len]);
        let sum = checksum::copy_and_sum(payload, room);
        let (network, transport) = head[ip_at..].split_at_mut(transport_at - ip_at);
        let packet_len = (network.len() + transport.len() + payload.len()) as u16;
        if v4 {
            set16(network, 2, packet_len);
            // Every packet of its own has an identification of its own (RFC 791 2.3); with DF set
            // nobody looks at it (RFC 6864 4).
            set16(network, 4, get16(network, 4).wrapping_add(index as u16));
            set16(network, 10, 0);
            let checksum = checksum::sum(network).finish();
            set16(network, 10, checksum);
        } else {
            // The length field does not count the fixed header of 40 bytes (RFC 8200 3).
            set16(network, 4, packet_len.saturating_sub(40));
        }
        if proto == Proto::TCP {
            self.set_tcp_fields(index, transport);
            set16(transport, 16, 0);
            tcp::fill_checksum_with(&src, &dst, transport, sum, payload.len());
        } else {
            set16(transport, 4, (transport.len() + payload.len()) as u16);
            set16(transport, 6, 0);
            udp::fill_checksum_with(&src, &dst, transport, sum, payload.len());
        }
        self.header_len + payload.len()
    }

    fn set_tcp_fields(&self, index: usize, header: &mut [u8]) {
        let seq = Seq(u32::from_be_bytes([header[4], header[5], header[6], header[7]]));
        header[4..8].copy_from_slice(&(seq + (index * self.segment_size) as u32).0.to_be_bytes());
        let mut flags = Flags(u16::from(header[13]));
        if index + 1 < self.count() {
            // The end of the data, and of the stream, is where the last piece ends.
            flags = flags.without(Flags::PSH | Flags::FIN);
        }
        if index > 0 {
            // CWR tells of one reduction once (RFC 3168 6.1.2).
            flags = flags.without(Flags::CWR);
        }
        header[13] = flags.0 as u8;
    }
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn set16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Finishes the checksum that the stack left to the device: its field holds the sum of the pseudo
/// header, which is why that is not needed here. False when the field lies outside the frame.
pub fn finish_checksum(frame: &mut [u8], meta: &TxMeta) -> bool {
    let start = usize::from(meta.checksum_start);
    let at = start + usize::from(meta.checksum_offset);
    if at + 2 > frame.len() {
        return false;
    }
    let sum = checksum::sum(&frame[start..]).finish();
    set16(frame, at, checksum::never_zero(sum));
    true
}

/// Writes the transport checksum anew, whatever stands there. False when the frame has none: it is
/// neither TCP nor UDP, or a fragment.
pub fn rewrite_checksum(frame: &mut [u8], ethernet: bool) -> bool {
    let Some(layout) = Layout::of(frame, ethernet) else { return false };
    let Some(at) = layout.checksum_at() else { return false };
    set16(frame, at, 0);
    let sum = checksum::transport(
        &layout.src,
        &layout.dst,
        layout.proto,
        &frame[layout.transport_at..layout.end],
    );
    set16(frame, at, checksum::never_zero(sum));
    true
}

/// A port that takes large packets and unfinished checksums, over one that does not. What the port
/// below does itself is left to it.
pub struct Gso<D> {
    below: D,
    /// The frame that the stack writes; it is copied to the port below whole or in pieces.
    frame: Box<[u8]>,
    /// How much of it was reserved; 0 when nothing is.
    reserved: usize,
    counters: DevCounters,
}

impl<D: Dev> Gso<D> {
    /// Puts software segmentation over `below`.
    pub fn new(below: D) -> Gso<D> {
        let longest = max_frame(MAX_IP_PACKET, below.mac().is_some());
        Gso {
            below,
            frame: vec![0; longest].into_boxed_slice(),
            reserved: 0,
            counters: DevCounters::default(),
        }
    }

    /// The port below.
    pub fn below(&self) -> &D {
        &self.below
    }

    fn does_below_cut(&self, segmentation: Segmentation, len: usize) -> bool {
        let offloads = self.below.offloads();
        let fits = len <= offloads.max_segmented_frame as usize;
        match segmentation {
            Segmentation::None => true,
            // A port that cuts one family only is rare enough to do the other's work here for both.
            Segmentation::Tcp(_) => offloads.tso4 && offloads.tso6 && fits,
            Segmentation::Udp(_) => offloads.uso && fits,
        }
    }

    fn send(&mut self, len: usize, mut meta: TxMeta) -> Result<(), TxDrop> {
        if len > std::mem::take(&mut self.reserved) {
            return Err(TxDrop::BadRequest);
        }
        let segment_size = match meta.segmentation {
            Segmentation::Tcp(size) | Segmentation::Udp(size)
                if !self.does_below_cut(meta.segmentation, len) =>
            {
                size
            }
            _ => {
                if meta.checksum_start != 0 && !self.below.offloads().tx_checksum {
                    if !finish_checksum(&mut self.frame[..len], &meta) {
                        return Err(TxDrop::BadRequest);
                    }
                    meta.checksum_start = 0;
                }
                return self.pass(len, meta);
            }
        };
        let cut = Cut::new(&self.frame[..len], self.below.mac().is_some(), segment_size)
            .map_err(|_| TxDrop::BadRequest)?;
        let plain = TxMeta { flow_hash: meta.flow_hash, ..TxMeta::default() };
        for index in 0..cut.count() {
            let piece_len = cut.piece_len(index);
            match self.below.reserve(piece_len) {
                Some(room) => {
                    cut.write(index, room);
                    self.below.commit(piece_len, plain);
                }
                None => self.counters.drop_tx(TxDrop::NoRoom),
            }
        }
        Ok(())
    }

    fn pass(&mut self, len: usize, meta: TxMeta) -> Result<(), TxDrop> {
        let room = self.below.reserve(len).ok_or(TxDrop::NoRoom)?;
        room[..len].copy_from_slice(&self.frame[..len]);
        self.below.commit(len, meta);
        Ok(())
    }
}

impl<D: Dev> Receive for Gso<D> {
    type Buf = D::Buf;

    fn rx(&mut self, burst: &mut Burst<D::Buf>) -> Result<(), DevError> {
        self.below.rx(burst)
    }
}

impl<D: Dev> Transmit for Gso<D> {
    fn reserve(&mut self, len: usize) -> Option<&mut [u8]> {
        self.reserved = 0;
        // A port that takes nothing now shall be heard before the stack makes a large packet for
        // it.
        let one_frame = max_frame(self.below.mtu(), self.below.mac().is_some());
        if len > self.frame.len() || self.below.reserve(len.min(one_frame)).is_none() {
            return None;
        }
        self.reserved = self.frame.len();
        Some(&mut self.frame)
    }

    fn commit(&mut self, len: usize, meta: TxMeta) {
        if let Err(why) = self.send(len, meta) {
            self.counters.drop_tx(why);
        }
    }

    fn reserved(&self) -> &[u8] {
        &self.frame[..self.reserved]
    }

    fn flush(&mut self) {
        self.below.flush();
    }
}

impl<D: Dev> Facts for Gso<D> {
    fn offloads(&self) -> Offloads {
        let ethernet = if self.below.mac().is_some() { ETHERNET_LEN } else { 0 };
        Offloads {
            tx_checksum: true,
            tso4: true,
            tso6: true,
            uso: true,
            max_segmented_frame: (MAX_IP_PACKET + ethernet) as u32,
            ..self.below.offloads()
        }
    }

    crate::device::same_link_as_below!();

    /// What the port below counts, pieces one by one, and what was lost here.
    fn counters(&self) -> DevCounters {
        self.below.counters().with_drops_of(&self.counters)
    }

    fn set_now(&mut self, now: Instant) {
        self.below.set_now(now);
    }

    fn next_deadline(&self) -> Instant {
        self.below.next_deadline()
    }
}

#[cfg(test)]
mod tests;
