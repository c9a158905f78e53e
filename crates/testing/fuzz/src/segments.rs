//! Target `segments`: a peer that says anything at any moment, to connections whose owner does
//! anything at any moment.
//!
//! The bytes of the input are a program: segments with sequence numbers near the interesting ones,
//! pauses, and what the owner does.

use clearway_base::{Duration, Instant};
use clearway_pkt::Iface;
use clearway_proto::{
    Congestion, ConnId, ConnOptions, ConnectSpec, Keepalive, Link, ListenSpec, ListenerId, Table,
};
use clearway_wire::{
    Addr, Cidr, Endpoint, Flags, Proto, SackBlocks, Segment, Seq, TcpOptions, ipv4, tcp,
};

use crate::frame::endpoint;
use crate::rig::Rig;

const PEERS: usize = 4;
const OURS: Endpoint = Endpoint::new(Addr::v4([10, 1, 0, 1]), 80);
const PEER: Addr = Addr::v4([10, 1, 0, 2]);

/// What the peer knows of one four-tuple.
#[derive(Clone, Copy, Default)]
struct Peer {
    // Our next sequence number, and the highest that the stack has sent.
    next: Seq,
    theirs: Seq,
    ours: u16,
    tsval: u32,
    tsecr: u32,
}

/// The bytes of the input, read from the front; zeroes when there are none left.
struct Program<'a>(&'a [u8]);

impl Program<'_> {
    fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    fn word(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    // Usually a small step either way, sometimes half or all of the circle.
    fn step(&mut self) -> u32 {
        let kind = self.byte();
        match kind >> 5 {
            0..=3 => 0,
            4 => u32::from(kind & 31),
            5 => 0u32.wrapping_sub(u32::from(kind & 31)),
            6 => (self.word() as i16) as u32,
            _ => u32::from(self.word()) << 16,
        }
    }
}

struct World {
    rig: Rig,
    listener: ListenerId,
    conns: Vec<ConnId>,
    peers: [Peer; PEERS],
}

/// Runs the program.
pub fn segments(data: &[u8]) {
    let mut program = Program(data);
    let mut world = World::new(program.byte());
    // Long programs only repeat themselves.
    for _ in 0..400 {
        if program.0.is_empty() {
            break;
        }
        let op = program.byte();
        match op & 7 {
            0..=3 => world.segment(&mut program, usize::from(op >> 3) % PEERS),
            4 => world.rig.wait(Duration::from_millis(1 << (op >> 4))),
            5 => world.own(&mut program, op >> 3),
            6 => world.accept(),
            _ => world.connect(&mut program, usize::from(op >> 3) % PEERS),
        }
        world.listen_to_the_stack();
    }
    world.finish();
}

impl World {
    fn new(options: u8) -> World {
        let mut rig = Rig::new(&[Link::Raw]);
        let cidr = Cidr::new(OURS.addr, 24).expect("24 bits are a prefix");
        rig.stack.add_address(Instant::ZERO, Iface(0), cidr).expect("the limits allow one address");
        rig.stack.set_up(Iface(0), true);
        rig.answer();
        rig.sent();
        let keepalive = (options & 2 != 0).then_some(Keepalive::default());
        let listener = rig
            .stack
            .listen(ListenSpec {
                table: Table(0),
                local: endpoint("0.0.0.0:80"),
                v6_only: false,
                backlog: 2,
                token: 0,
                options: ConnOptions {
                    nodelay: options & 1 != 0,
                    keepalive,
                    ..ConnOptions::default()
                },
            })
            .expect("port 80 is free");
        let peers = std::array::from_fn(|n| Peer {
            next: Seq(0xffff_ff00 - n as u32 * 0x2000_0000),
            ours: 80,
            ..Peer::default()
        });
        World { rig, listener, conns: Vec::new(), peers }
    }

    fn segment(&mut self, program: &mut Program<'_>, who: usize) {
        let peer = &mut self.peers[who];
        let flags = Flags(u16::from(program.byte()));
        let seq = peer.next + program.step();
        let ack = peer.theirs + program.step();
        let shape = program.byte();
        let wnd = if shape & 1 == 0 { 65_535 } else { program.word() };
        let mut opts = TcpOptions::NONE;
        if shape & 2 != 0 {
            peer.tsval = peer.tsval.wrapping_add(program.step());
            opts.ts = Some((peer.tsval, peer.tsecr));
        }
        if flags.syn() {
            opts.mss = (shape & 4 != 0).then(|| program.word());
            opts.wscale = (shape & 8 != 0).then(|| program.byte());
            opts.sack_permitted = shape & 16 != 0;
        } else if shape & 16 != 0 {
            opts.sack = SackBlocks::NONE;
            for _ in 0..1 + (shape >> 6) {
                let left = ack + program.step();
                opts.sack.push(left, left + program.step());
            }
        }
        let urg = if flags.contains(Flags::URG) { program.word() } else { 0 };
        let payload = if shape & 32 != 0 { usize::from(program.word() % 1400) } else { 0 };
        let segment = Segment {
            src_port: port(who),
            dst_port: peer.ours,
            seq,
            ack,
            flags,
            wnd,
            urg,
            opts,
            ..Segment::default()
        };
        if program.byte() & 1 == 0 {
            peer.next = seq + segment.seq_len(payload);
        }
        let packet = packet(&segment, payload);
        self.rig.receive(Iface(0), &packet);
    }

    fn accept(&mut self) {
        if let Some(conn) = self.rig.stack.accept(self.listener) {
            self.conns.push(conn);
        }
    }

    fn connect(&mut self, program: &mut Program<'_>, who: usize) {
        let local =
            (program.byte() & 1 != 0).then_some(Endpoint::new(OURS.addr, 5000 + who as u16));
        let spec = ConnectSpec {
            table: Table(0),
            local,
            remote: Endpoint::new(PEER, port(who)),
            token: 0,
            options: ConnOptions {
                user_timeout: Duration::from_secs(u64::from(program.byte())),
                ..ConnOptions::default()
            },
        };
        if let Ok(conn) = self.rig.stack.connect(self.rig.now, spec) {
            self.conns.push(conn);
        }
        self.rig.answer();
    }

    fn own(&mut self, program: &mut Program<'_>, what: u8) {
        if self.conns.is_empty() {
            return;
        }
        let at = usize::from(program.byte()) % self.conns.len();
        let conn = self.conns[at];
        let stack = &mut self.rig.stack;
        match what & 7 {
            0 | 1 => drop(stack.send(conn, &[7; 3000][..usize::from(program.word()) % 3000])),
            2 => {
                let n = stack.recv(conn).map_or(0, <[u8]>::len) as u32;
                stack.consumed(conn, n.min(u32::from(program.word())));
            }
            3 => drop(stack.shutdown(conn)),
            4 => {
                stack.close(conn);
                self.conns.swap_remove(at);
            }
            5 => {
                stack.abort(conn);
                self.conns.swap_remove(at);
            }
            6 => drop(stack.send_urgent(conn, b"!")),
            _ => {
                let bits = program.byte();
                let options = ConnOptions {
                    cork: bits & 1 != 0,
                    congestion: match bits & 0xc8 {
                        0x08 => Congestion::Bbr,
                        0x48 => Congestion::Bbr1,
                        0x88 | 0xc8 => Congestion::Prague,
                        _ => Congestion::Cubic,
                    },
                    nodelay: bits & 2 != 0,
                    max_segment: if bits & 4 != 0 { program.word() } else { 0 },
                    user_timeout: Duration::from_secs(u64::from(bits >> 4)),
                    ..ConnOptions::default()
                };
                stack.set_options(conn, options);
            }
        }
        self.rig.answer();
    }

    // What the stack sent tells the peer which numbers are interesting.
    fn listen_to_the_stack(&mut self) {
        while self.rig.stack.next_event().is_some() {}
        for packet in self.rig.sent() {
            let Ok(ip) = ipv4::check(&packet, true) else { continue };
            if ip.proto() != Proto::TCP {
                continue;
            }
            let Ok(segment) = tcp::parse(ip.payload()) else { continue };
            let payload = ip.payload().len() - usize::from(segment.header_len);
            let Some(peer) = self.peers.get_mut(usize::from(segment.dst_port.wrapping_sub(1000)))
            else {
                continue;
            };
            peer.ours = segment.src_port;
            if segment.flags.rst() {
                continue;
            }
            let end = segment.seq + segment.seq_len(payload);
            peer.theirs = if segment.flags.syn() { end } else { peer.theirs.max(end) };
            if let Some((tsval, _)) = segment.opts.ts {
                peer.tsecr = tsval;
            }
        }
    }

    fn finish(mut self) {
        while let Some(conn) = self.rig.stack.accept(self.listener) {
            self.conns.push(conn);
        }
        for conn in self.conns.drain(..) {
            self.rig.stack.close(conn);
        }
        self.rig.stack.unlisten(self.listener);
        self.rig.answer();
        self.rig.rest();
    }
}

fn port(who: usize) -> u16 {
    1000 + who as u16
}

fn packet(segment: &Segment, payload: usize) -> Vec<u8> {
    let header_len = segment.opts.header_len().max(tcp::HEADER_LEN);
    let mut packet = vec![b'p'; ipv4::HEADER_LEN + header_len + payload];
    let emitted = tcp::emit(segment, &mut packet[ipv4::HEADER_LEN..]);
    packet.truncate(ipv4::HEADER_LEN + emitted + payload);
    let header = ipv4::Header {
        src: PEER,
        dst: OURS.addr,
        proto: Proto::TCP,
        tos: 0,
        ttl: 64,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: (emitted + payload) as u16,
    };
    ipv4::emit(&header, &mut packet);
    tcp::fill_checksum(&PEER, &OURS.addr, &mut packet[ipv4::HEADER_LEN..]);
    packet
}
