//! The virtio-net header that stands before every frame (Virtual I/O Device specification 1.2,
//! 5.1.6; Linux `struct virtio_net_hdr`).
//!
//! The form of ten bytes is used: the longer one only adds a count of merged buffers, which a
//! TUN/TAP interface never has, and with ten bytes and an Ethernet header the IP header lies at a
//! multiple of four. Numbers stand in the byte order of the machine, as the kernel does it unless
//! told otherwise.

use clearway_pkt::{Checksum, RxMeta, Segmentation, TxMeta};
use clearway_wire::eth;

/// Bytes of the header.
pub(crate) const HEADER_LEN: usize = 10;

/// The checksum is left to the receiver of this header: `csum_start` and `csum_offset` say where.
const F_NEEDS_CSUM: u8 = 1;
/// The sender of this header has looked at the checksum and found it right.
const F_DATA_VALID: u8 = 2;

const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Added to a TCP kind when the CWR flag is set and belongs to the first segment only (RFC 3168
/// 6.1.2).
const GSO_ECN: u8 = 0x80;

const TCP_FLAGS: usize = 13;
const TCP_CWR: u8 = 0x80;

/// A header that does not go with its frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct BadHeader;

fn word(header: &[u8; HEADER_LEN], at: usize) -> usize {
    usize::from(u16::from_ne_bytes([header[at], header[at + 1]]))
}

/// What the kernel says of a received frame of `frame_len` bytes.
pub(crate) fn parse(header: &[u8; HEADER_LEN], frame_len: usize) -> Result<RxMeta, BadHeader> {
    let (flags, gso_type, gso_size) = (header[0], header[1] & !GSO_ECN, word(header, 4));
    let (csum_start, csum_offset) = (word(header, 6), word(header, 8));
    if flags & F_NEEDS_CSUM != 0 && csum_start + csum_offset + 2 > frame_len {
        return Err(BadHeader);
    }
    // A frame that needs its checksum holds only the pseudo header's sum. It never left this
    // machine, so there is nothing to find out about it.
    let checksum =
        if flags & (F_NEEDS_CSUM | F_DATA_VALID) != 0 { Checksum::Good } else { Checksum::Unknown };
    let segment_size = match gso_type {
        GSO_NONE => 0,
        GSO_TCPV4 | GSO_TCPV6 | GSO_UDP_L4 if (1..frame_len).contains(&gso_size) => gso_size as u16,
        _ => return Err(BadHeader),
    };
    Ok(RxMeta { checksum, segment_size, ..RxMeta::default() })
}

/// The header for a frame of `len` bytes that the stack sends, of which `frame` are the first, its
/// headers at least; without `ethernet` it begins with its IP header.
pub(crate) fn build(
    meta: &TxMeta,
    frame: &[u8],
    len: usize,
    ethernet: bool,
) -> Result<[u8; HEADER_LEN], BadHeader> {
    let mut header = [0; HEADER_LEN];
    if meta.checksum_start == 0 {
        // Whoever cuts a packet makes the checksums of the pieces, and has to be told where they
        // are.
        return if meta.segmentation == Segmentation::None { Ok(header) } else { Err(BadHeader) };
    }
    let start = usize::from(meta.checksum_start);
    if start + usize::from(meta.checksum_offset) + 2 > frame.len() {
        return Err(BadHeader);
    }
    header[0] = F_NEEDS_CSUM;
    header[6..8].copy_from_slice(&meta.checksum_start.to_ne_bytes());
    header[8..10].copy_from_slice(&meta.checksum_offset.to_ne_bytes());
    let (kind, size) = match meta.segmentation {
        Segmentation::None => return Ok(header),
        Segmentation::Tcp(size) => (tcp_kind(frame, start, ethernet)?, size),
        Segmentation::Udp(size) => (GSO_UDP_L4, size),
    };
    let headers = usize::from(meta.header_len);
    if size == 0 || headers < start || headers > frame.len() {
        return Err(BadHeader);
    }
    // The kernel refuses to cut what is one segment already.
    if len.saturating_sub(headers) > usize::from(size) {
        header[1] = kind;
        header[2..4].copy_from_slice(&meta.header_len.to_ne_bytes());
        header[4..6].copy_from_slice(&size.to_ne_bytes());
    }
    Ok(header)
}

fn tcp_kind(frame: &[u8], tcp_at: usize, ethernet: bool) -> Result<u8, BadHeader> {
    let ip_at =
        if ethernet { eth::check(frame).map_err(|_| BadHeader)?.payload_offset() } else { 0 };
    let kind = match frame.get(ip_at).map(|byte| byte >> 4) {
        Some(4) => GSO_TCPV4,
        Some(6) => GSO_TCPV6,
        _ => return Err(BadHeader),
    };
    let flags = frame.get(tcp_at + TCP_FLAGS).ok_or(BadHeader)?;
    Ok(if flags & TCP_CWR != 0 { kind | GSO_ECN } else { kind })
}

#[cfg(test)]
mod tests;
