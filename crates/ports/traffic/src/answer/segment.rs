//! Segments that are answered, and those that leave.

use clearway_dev::{Facts, Transmit};
use clearway_pkt::{Segmentation, TxMeta};
use clearway_wire::{EtherType, Proto, Segment, Seq, eth, ipv4, tcp};

use crate::reflect::Reflected;

/// The window that is told, and the sequence number that connections begin with.
pub(super) const WINDOW: u16 = u16::MAX;
pub(super) const ISS: Seq = Seq(1);
const TTL: u8 = 64;

/// A segment to be answered.
pub(super) struct Asked<'a> {
    pub(super) to: eth::Eth<'a>,
    pub(super) ip: ipv4::Ipv4<'a>,
    pub(super) segment: Segment,
    pub(super) data: &'a [u8],
}

/// Bytes of a frame with this segment and so much data.
pub(super) fn frame_len(segment: &Segment, data_len: usize) -> usize {
    eth::HEADER_LEN + ipv4::HEADER_LEN + segment.opts.header_len() + data_len
}

/// Fills `place` with the answer over and over, from `at` on.
pub(super) fn fill(place: &mut [u8], answer: &[u8], at: usize) {
    let mut done = 0;
    let mut from = at;
    while done < place.len() {
        let len = (answer.len() - from).min(place.len() - done);
        place[done..done + len].copy_from_slice(&answer[from..from + len]);
        done += len;
        from = (from + len) % answer.len();
    }
}

/// Sends a segment to who asked, with so many bytes that `fill` writes, which the device cuts where
/// they are more than so many; says whether there was room.
pub(super) fn send<D: Transmit + Facts>(
    dev: &mut D,
    counts: &mut Reflected,
    asked: &Asked<'_>,
    segment: &Segment,
    (data_len, cut_at): (usize, usize),
    fill: impl FnOnce(&mut [u8]),
) -> bool {
    let by_device = dev.offloads().tx_checksum;
    let (tcp_header_len, len) = (segment.opts.header_len(), frame_len(segment, data_len));
    let segment_len = tcp_header_len + data_len;
    let Some(room) = dev.reserve(len) else {
        counts.no_room += 1;
        return false;
    };
    let frame = &mut room[..len];
    let (src, dst) = (asked.ip.dst(), asked.ip.src());
    let at = eth::emit(asked.to.src(), asked.to.dst(), EtherType::IPV4, frame);
    let header = ipv4::Header {
        src,
        dst,
        proto: Proto::TCP,
        tos: 0,
        ttl: TTL,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: segment_len as u16,
    };
    let at = at + ipv4::emit(&header, &mut frame[at..]);
    tcp::emit(segment, &mut frame[at..]);
    fill(&mut frame[at + tcp_header_len..]);
    let mut meta = TxMeta::default();
    if by_device {
        tcp::fill_partial_checksum(&src, &dst, segment_len as u32, &mut frame[at..]);
        (meta.checksum_start, meta.checksum_offset) = (at as u16, tcp::CHECKSUM_AT as u16);
    } else {
        tcp::fill_checksum(&src, &dst, &mut frame[at..]);
    }
    if data_len > cut_at {
        meta.segmentation = Segmentation::Tcp(cut_at as u16);
        meta.header_len = (at + tcp_header_len) as u16;
    }
    dev.commit(len, meta);
    counts.returned += 1;
    counts.returned_bytes += len as u64;
    true
}

/// A whole segment of TCP over IPv4 in an Ethernet frame.
pub(super) fn asked(frame: &[u8]) -> Option<Asked<'_>> {
    let to = eth::check(frame).ok().filter(|to| to.ethertype() == EtherType::IPV4)?;
    let ip = ipv4::check(to.payload(), false).ok()?;
    if ip.proto() != Proto::TCP || ip.is_fragment() {
        return None;
    }
    let segment = tcp::parse(ip.payload()).ok()?;
    let data = ip.payload().get(usize::from(segment.header_len)..)?;
    Some(Asked { to, ip, segment, data })
}
