//! Peers made of single segments.

use clearway_wire::tcp::{self, TcpOptions};
use clearway_wire::{Addr, Flags, Proto, Segment, Seq, ipv4};

/// What a peer does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// Asks with this byte, and takes so many bytes, each as it comes.
    Asks(u8, usize),
    /// Asks for much and never opens its window; it answers probes.
    Shut,
    /// Asks for much and acknowledges one byte each second.
    OneByte,
    /// Asks for much, in segments of 48 bytes, and acknowledges what arrives only selectively,
    /// every other one.
    Selective,
    /// Asks for little and is never heard of again.
    Deaf,
    /// Sends bytes behind a hole that it never fills.
    Early,
    /// Sends what the owner does not read.
    Unread,
}

/// One of them.
pub(crate) struct Peer {
    pub(crate) number: u32,
    kind: Kind,
    /// The number of its next byte.
    seq: Seq,
    /// What it expects next, and where the server's bytes begin.
    next: Seq,
    first: Seq,
    acked: Seq,
    got: usize,
    open: bool,
    over: bool,
}

const SERVER: [u8; 4] = [10, 255, 255, 1];
const PIECE: usize = 1_400;

impl Peer {
    pub(crate) fn new(number: u32, kind: Kind) -> Peer {
        let zero = Seq(0);
        Peer {
            number,
            kind,
            seq: Seq(number * 7),
            next: zero,
            first: zero,
            acked: zero,
            got: 0,
            open: false,
            over: false,
        }
    }

    pub(crate) fn is_answered(&self) -> bool {
        matches!(self.kind, Kind::Asks(_, wanted) if self.got == wanted)
    }

    pub(crate) fn syn(&mut self) -> Vec<u8> {
        let selective = self.kind == Kind::Selective;
        let mss = if selective { 48 } else { 1_460 };
        let opts = TcpOptions { mss: Some(mss), sack_permitted: selective, ..TcpOptions::NONE };
        let syn = self.packet(Segment { flags: Flags::SYN, opts, ..Segment::default() }, &[]);
        self.seq += 1;
        syn
    }

    fn window(&self) -> u16 {
        if self.kind == Kind::Shut { 0 } else { 65_000 }
    }

    fn ack(&self, ack: Seq) -> Segment {
        Segment { seq: self.seq, ack, flags: Flags::ACK, wnd: self.window(), ..Segment::default() }
    }

    /// What it sends for a segment with `len` bytes of payload.
    pub(crate) fn take(&mut self, seg: &Segment, len: usize) -> Vec<Vec<u8>> {
        if self.over {
            return Vec::new();
        }
        if seg.flags.rst() {
            self.over = true;
            return Vec::new();
        }
        if seg.flags.syn() {
            return self.begin(seg.seq + 1);
        }
        match self.kind {
            Kind::Asks(..) => {
                if seg.seq == self.next {
                    self.next += len as u32;
                    self.got += len;
                }
                if len > 0 { vec![self.packet(self.ack(self.next), &[])] } else { Vec::new() }
            }
            // A probe lies before what is expected; whatever else comes is not taken.
            Kind::Shut if seg.seq.lt(self.next) => vec![self.packet(self.ack(self.next), &[])],
            Kind::Selective if len > 0 && (seg.seq.since(self.first) / 64) % 2 == 1 => {
                let mut ack = self.ack(self.first);
                ack.opts.sack.push(seg.seq, seg.seq + len as u32);
                vec![self.packet(ack, &[])]
            }
            _ => Vec::new(),
        }
    }

    /// The handshake is done.
    fn begin(&mut self, first: Seq) -> Vec<Vec<u8>> {
        if self.open {
            return Vec::new();
        }
        self.open = true;
        (self.next, self.first, self.acked) = (first, first, first);
        let bare = self.packet(self.ack(first), &[]);
        let piece = [b'u'; PIECE];
        let mut sent = vec![bare];
        match self.kind {
            Kind::Asks(what, _) => sent.push(self.say(&[what])),
            Kind::Shut | Kind::OneByte | Kind::Selective => sent.push(self.say(b"huge")),
            Kind::Deaf => {
                sent.push(self.say(b"s"));
                self.over = true;
            }
            Kind::Early => {
                self.seq += 1;
                sent.extend((0..20).map(|_| self.say(&piece)));
            }
            Kind::Unread => sent.extend((0..20).map(|_| self.say(&piece))),
        }
        sent
    }

    fn say(&mut self, bytes: &[u8]) -> Vec<u8> {
        let packet = self.packet(self.ack(self.next), bytes);
        self.seq += bytes.len() as u32;
        packet
    }

    pub(crate) fn each_second(&mut self) -> Option<Vec<u8>> {
        if self.over || !self.open || self.kind != Kind::OneByte {
            return None;
        }
        self.acked += 1;
        Some(self.packet(self.ack(self.acked), &[]))
    }

    fn packet(&self, seg: Segment, payload: &[u8]) -> Vec<u8> {
        let seg = Segment {
            src_port: 4_000,
            dst_port: 80,
            seq: if seg.flags.syn() { self.seq } else { seg.seq },
            ..seg
        };
        let header_len = seg.opts.header_len();
        let [_, a, b, c] = (self.number + 1).to_be_bytes();
        let header = ipv4::Header {
            src: Addr::v4([10, a, b, c]),
            dst: Addr::v4(SERVER),
            proto: Proto::TCP,
            tos: 0,
            ttl: 64,
            id: 7,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: (header_len + payload.len()) as u16,
        };
        let mut out = vec![0; 20 + header_len];
        ipv4::emit(&header, &mut out);
        tcp::emit(&seg, &mut out[20..]);
        out.extend_from_slice(payload);
        out
    }
}

/// To whom a packet of the server goes, what it says, and the length of its payload.
pub(crate) fn read(packet: &[u8]) -> Option<(usize, Segment, usize)> {
    let to = u32::from_be_bytes([0, packet[17], packet[18], packet[19]]);
    let seg = tcp::parse(packet.get(20..)?).ok()?;
    let len = packet.len() - 20 - usize::from(seg.header_len);
    Some((to as usize - 1, seg, len))
}
