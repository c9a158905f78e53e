//! The device between a stack and its link: it takes frames, fills in checksums, cuts large
//! segments, and says on the way in what it saw.

use clearway_base::Duration;
use clearway_pkt::{Checksum, Iface, Offloads, Piece, Segmentation, Sink, TxMeta};
use clearway_wire::ip::version;
use clearway_wire::{Addr, Flags, Mac, Proto, checksum, ipv4, ipv6, tcp, udp};

use crate::frame::{self, Framing};

/// A host's end of a link.
#[derive(Clone, Copy, Debug)]
pub struct Port {
    /// Which link.
    pub link: usize,
    /// Which end of it.
    pub end: usize,
    /// What frames begin with.
    pub framing: Framing,
    /// Our link address.
    pub mac: Mac,
    /// The largest IP packet.
    pub mtu: u32,
    /// What the device does for the stack on the way out.
    pub offloads: Offloads,
    /// It looks at checksums on the way in.
    pub checks: bool,
    /// Large segments travel whole, as between two virtual machines of one host.
    pub passes_large: bool,
    /// It joins received segments of one flow (LRO, GRO).
    pub joins: bool,
    /// Frames wait this long for others before the stack is told of them (interrupt moderation).
    pub moderation: Duration,
}

/// A frame as the stack handed it over.
pub struct Handed {
    /// Through which interface.
    pub iface: Iface,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// What the device is asked to do.
    pub meta: TxMeta,
}

/// The devices of one host while its stack emits.
pub struct NicSink<'a> {
    /// How many more frames each interface takes.
    pub room: &'a mut [u32],
    /// What was committed.
    pub out: &'a mut Vec<Handed>,
    /// Where the stack writes.
    pub scratch: &'a mut Vec<u8>,
    /// The stack was told that there is no room.
    pub refused: bool,
}

impl Sink for NicSink<'_> {
    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]> {
        if self.room.get(usize::from(iface.0)).is_none_or(|room| *room == 0) {
            self.refused = true;
            return None;
        }
        self.scratch.clear();
        // Old bytes in the room must not matter, so that they are never the ones wished for.
        self.scratch.resize(len, 0xa5);
        Some(&mut self.scratch[..])
    }

    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta) {
        if let Some(room) = self.room.get_mut(usize::from(iface.0)) {
            *room = room.saturating_sub(1);
        }
        self.out.push(Handed { iface, bytes: self.scratch[..len].to_vec(), meta });
    }

    fn gathers(&self, _iface: Iface) -> bool {
        true
    }

    fn commit_gathered(&mut self, iface: Iface, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        // What was not written into the room is nonsense, and stays behind.
        self.scratch.truncate(head);
        for piece in body {
            self.scratch.extend(piece.bytes());
        }
        self.commit(iface, self.scratch.len(), meta);
    }
}

/// Does to a frame what the device was asked for, and returns what goes on the link, with the
/// segment size of each. Err says what is wrong with the request.
pub fn finish(port: &Port, handed: Handed) -> Result<Vec<(Vec<u8>, u16)>, String> {
    let Handed { mut bytes, meta, .. } = handed;
    let header_len = port.framing.header_len();
    if bytes.len() < header_len {
        return Err(format!("a frame of {} bytes", bytes.len()));
    }
    let mss = match meta.segmentation {
        Segmentation::None => 0,
        Segmentation::Tcp(mss) | Segmentation::Udp(mss) => mss,
    };
    if mss == 0 && bytes.len() - header_len > port.mtu as usize {
        return Err(format!(
            "a packet of {} bytes on a link of {}",
            bytes.len() - header_len,
            port.mtu
        ));
    }
    if meta.checksum_start != 0 {
        check_partial(&bytes[header_len..], &meta, header_len)?;
    }
    if mss != 0 && !port.passes_large {
        return cut(port, &bytes, &meta, mss)
            .map(|frames| frames.into_iter().map(|f| (f, 0)).collect());
    }
    if meta.checksum_start != 0 && !port.passes_large {
        fill(&mut bytes, &meta)?;
    }
    Ok(vec![(bytes, mss)])
}

/// The field must hold the sum of the pseudo header, and the offsets must point at it.
fn check_partial(packet: &[u8], meta: &TxMeta, link_len: usize) -> Result<(), String> {
    let up =
        frame::upper(packet).ok_or("a checksum is asked for in a packet that cannot be read")?;
    let at = match up.proto {
        Proto::TCP => 16,
        Proto::UDP => 6,
        other => return Err(format!("a checksum is asked for in a packet of {other}")),
    };
    let start = link_len + up.offset;
    if usize::from(meta.checksum_start) != start || usize::from(meta.checksum_offset) != at {
        let (s, o) = (meta.checksum_start, meta.checksum_offset);
        return Err(format!("the checksum is asked for at {s}+{o}, and belongs to {start}+{at}"));
    }
    let field = u16::from_be_bytes([up.bytes[at], up.bytes[at + 1]]);
    let wanted = checksum::partial(&up.src, &up.dst, up.proto, up.bytes.len() as u32);
    if field != wanted {
        return Err(format!(
            "the checksum field holds {field:04x}, and the sum of the pseudo header is {wanted:04x}"
        ));
    }
    Ok(())
}

fn fill(bytes: &mut [u8], meta: &TxMeta) -> Result<(), String> {
    let start = usize::from(meta.checksum_start);
    let at = start + usize::from(meta.checksum_offset);
    let sum =
        checksum::sum(bytes.get(start..).ok_or("the checksum starts behind the frame")?).finish();
    let field = bytes.get_mut(at..at + 2).ok_or("the checksum field lies behind the frame")?;
    field.copy_from_slice(&checksum::never_zero(sum).to_be_bytes());
    Ok(())
}

/// Cuts a large packet as a device does (TSO, USO).
fn cut(port: &Port, bytes: &[u8], meta: &TxMeta, mss: u16) -> Result<Vec<Vec<u8>>, String> {
    let link_len = port.framing.header_len();
    let headers = usize::from(meta.header_len);
    let up = frame::upper(&bytes[link_len..]).ok_or("a packet to be cut cannot be read")?;
    let transport_at = link_len + up.offset;
    let wanted = match meta.segmentation {
        Segmentation::Tcp(_) => {
            tcp::parse(up.bytes).map(|s| usize::from(s.header_len)).unwrap_or(0)
        }
        _ => udp::HEADER_LEN,
    };
    if headers != transport_at + wanted {
        return Err(format!(
            "headers of {headers} bytes are announced, and there are {}",
            transport_at + wanted
        ));
    }
    let allowed = match (meta.segmentation, up.src.is_v4()) {
        (Segmentation::Udp(_), _) => port.offloads.uso,
        (_, true) => port.offloads.tso4,
        (_, false) => port.offloads.tso6,
    };
    if !allowed || bytes.len() > port.offloads.max_segmented_frame as usize {
        return Err(format!("the device does not cut such a frame of {} bytes", bytes.len()));
    }
    let payload = &bytes[headers..];
    let mut frames = Vec::new();
    for (i, part) in payload.chunks(usize::from(mss)).enumerate() {
        let mut frame = bytes[..headers].to_vec();
        frame.extend_from_slice(part);
        let last = (i + 1) * usize::from(mss) >= payload.len();
        fix_ip(&mut frame[link_len..], i as u16);
        let (ip, transport) = frame.split_at_mut(transport_at);
        if frame_too_long(ip.len() - link_len + transport.len(), port.mtu) {
            return Err(format!(
                "cut to {mss}, a packet has {} bytes",
                ip.len() - link_len + transport.len()
            ));
        }
        match meta.segmentation {
            Segmentation::Tcp(_) => {
                fix_tcp(&up.src, &up.dst, transport, i as u32 * u32::from(mss), i == 0, last)
            }
            _ => fix_udp(&up.src, &up.dst, transport),
        }
        frames.push(frame);
    }
    Ok(frames)
}

fn frame_too_long(packet_len: usize, mtu: u32) -> bool {
    packet_len > mtu as usize
}

fn fix_ip(packet: &mut [u8], index: u16) {
    let len = packet.len();
    if version(packet) == Some(4) {
        let id = u16::from_be_bytes([packet[4], packet[5]]).wrapping_add(index);
        packet[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        packet[4..6].copy_from_slice(&id.to_be_bytes());
        packet[10..12].copy_from_slice(&[0, 0]);
        let sum = checksum::sum(&packet[..ipv4::HEADER_LEN]).finish();
        packet[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        packet[4..6].copy_from_slice(&((len - ipv6::HEADER_LEN) as u16).to_be_bytes());
    }
}

fn fix_tcp(src: &Addr, dst: &Addr, segment: &mut [u8], offset: u32, first: bool, last: bool) {
    let seq =
        u32::from_be_bytes([segment[4], segment[5], segment[6], segment[7]]).wrapping_add(offset);
    segment[4..8].copy_from_slice(&seq.to_be_bytes());
    let mut flags = Flags(u16::from(segment[13]));
    if !last {
        flags = flags.without(Flags::FIN | Flags::PSH);
    }
    if !first {
        flags = flags.without(Flags::CWR);
    }
    segment[13] = flags.0 as u8;
    segment[16..18].copy_from_slice(&[0, 0]);
    tcp::fill_checksum(src, dst, segment);
}

fn fix_udp(src: &Addr, dst: &Addr, datagram: &mut [u8]) {
    let len = (datagram.len() as u16).to_be_bytes();
    datagram[4..6].copy_from_slice(&len);
    datagram[6..8].copy_from_slice(&[0, 0]);
    udp::fill_checksum(src, dst, datagram);
}

/// What the device says of a frame on the way in.
pub fn verdict(port: &Port, frame: &[u8]) -> Checksum {
    if port.passes_large || port.offloads.trusted_link {
        return Checksum::Good;
    }
    if !port.checks {
        return Checksum::Unknown;
    }
    let Some(up) = port.framing.packet(frame).and_then(frame::upper) else {
        return Checksum::Unknown;
    };
    if up.proto != Proto::TCP && up.proto != Proto::UDP {
        return Checksum::Unknown;
    }
    if up.proto == Proto::UDP && up.bytes.get(6..8) == Some(&[0, 0]) {
        return Checksum::Unknown;
    }
    let valid = checksum::transport_is_valid(&up.src, &up.dst, up.proto, up.bytes);
    if valid { Checksum::Good } else { Checksum::Bad }
}

#[cfg(test)]
mod tests;
