//! What the core's own tests stand on: packet buffers that are vectors, a sink that keeps what is
//! sent, and short ways to make packets.

extern crate std;

use std::boxed::Box;
use std::collections::{BTreeMap, VecDeque};
use std::vec;
use std::vec::Vec;

use clearway_base::Instant;
use clearway_pkt::{
    Buf, Burst, Checksum, Iface, Offloads, Piece, RxMeta, Segmentation, Sink, TxMeta,
};
use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::icmpv6::{self, Icmpv6};
use clearway_wire::{Addr, Cidr, EtherType, Mac, Proto, Segment, eth, ipv4, ipv6, tcp, udp};

use crate::store::{ChainRx, RingTx};
use crate::{Config, Drop, Env, InterfaceSpec, Link, Stack, Table};

/// A packet buffer of its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct TestBuf(pub(crate) Vec<u8>);

impl Buf for TestBuf {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    fn trim_front(&mut self, n: usize) {
        self.0.drain(..n.min(self.0.len()));
    }

    fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }
}

/// The types that tests run a stack over.
pub(crate) struct TestEnv;

impl Env for TestEnv {
    type Buf = TestBuf;
    type Rx = ChainRx<TestBuf>;
    type Tx = RingTx;
}

/// Keeps what is sent.
#[derive(Default)]
pub(crate) struct TestSink {
    pub(crate) sent: VecDeque<(Iface, Vec<u8>, TxMeta)>,
    /// How many frames are still taken; None: any number.
    pub(crate) room: Option<usize>,
    /// An interface that takes nothing.
    pub(crate) full: Option<Iface>,
    /// It takes frames in pieces, and how many it was given so.
    pub(crate) gathers: bool,
    pub(crate) gathered: usize,
    reserved: BTreeMap<Iface, Vec<u8>>,
}

impl Sink for TestSink {
    fn is_full(&mut self, iface: Iface) -> bool {
        self.room == Some(0) || self.full == Some(iface)
    }

    fn reserve(&mut self, iface: Iface, len: usize) -> Option<&mut [u8]> {
        if self.is_full(iface) {
            return None;
        }
        // What the room holds is nobody's business, so it holds nonsense.
        let room = self.reserved.entry(iface).or_default();
        *room = vec![0xa5; len];
        Some(room)
    }

    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta) {
        let mut frame = self.reserved.remove(&iface).expect("room was asked for before");
        frame.truncate(len);
        self.room = self.room.map(|room| room - 1);
        self.sent.push_back((iface, frame, meta));
    }

    fn gathers(&self, _iface: Iface) -> bool {
        self.gathers
    }

    fn commit_gathered(&mut self, iface: Iface, head: usize, body: &[Piece<'_>], meta: TxMeta) {
        let mut frame = self.reserved.remove(&iface).expect("room was asked for before");
        let len = head + body.iter().map(|piece| piece.len()).sum::<usize>();
        assert!(len <= frame.len(), "room was asked for for all of it");
        frame.truncate(head);
        frame.extend(body.iter().flat_map(Piece::bytes));
        self.room = self.room.map(|room| room - 1);
        self.gathered += 1;
        self.sent.push_back((iface, frame, meta));
    }
}

impl TestSink {
    /// The frames sent since the last look, without what came with them.
    pub(crate) fn take(&mut self) -> Vec<Vec<u8>> {
        self.sent.drain(..).map(|(_, frame, _)| frame).collect()
    }
}

/// Our link address in most tests, and the peer's.
pub(crate) const OUR_MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
pub(crate) const PEER_MAC: Mac = Mac([2, 0, 0, 0, 0, 2]);

pub(crate) fn addr(text: &str) -> Addr {
    text.parse().expect("an address")
}

pub(crate) fn cidr(text: &str) -> Cidr {
    text.parse().expect("an address with a prefix length")
}

pub(crate) fn config() -> Config {
    let mut config = Config::new([42; 32]);
    config.limits.connections = 256;
    config.limits.half_open = 64;
    config.limits.time_wait = 64;
    config.limits.fragments = 16;
    config.tcp.fast_open.server = true;
    config
}

/// A stack without interfaces.
pub(crate) fn bare(config: Config) -> Stack<TestEnv> {
    with_room(config, 1 << 20)
}

/// The same with room for so many bytes of a connection each way.
pub(crate) fn with_room(config: Config, room: u32) -> Stack<TestEnv> {
    Stack::new(config, ChainRx::new(room / 256, room), RingTx::new(room / 2048, 4096, room))
}

pub(crate) fn ethernet(mtu: u32) -> InterfaceSpec {
    InterfaceSpec {
        link: Link::Ethernet(OUR_MAC),
        mtu,
        offloads: Offloads::default(),
        table: Table(0),
    }
}

pub(crate) fn raw(mtu: u32) -> InterfaceSpec {
    InterfaceSpec { link: Link::Raw, mtu, offloads: Offloads::default(), table: Table(0) }
}

/// A stack, the sink it sends to, and the time.
pub(crate) struct Net {
    pub(crate) stack: Stack<TestEnv>,
    pub(crate) sink: TestSink,
    pub(crate) now: Instant,
    /// What was dropped, in order.
    pub(crate) drops: Vec<Drop>,
    /// Empty but while frames are handed in.
    burst: Box<Burst<TestBuf>>,
}

impl Net {
    /// A stack with interfaces and addresses; the announcements of the addresses are already gone.
    pub(crate) fn new(interfaces: &[(InterfaceSpec, &[&str])]) -> Net {
        Net::with(config(), interfaces)
    }

    pub(crate) fn with(config: Config, interfaces: &[(InterfaceSpec, &[&str])]) -> Net {
        Net::over(bare(config), interfaces)
    }

    /// The same over this stack.
    pub(crate) fn over(mut stack: Stack<TestEnv>, interfaces: &[(InterfaceSpec, &[&str])]) -> Net {
        let now = Instant::from_millis(10_000);
        for (spec, addrs) in interfaces {
            let iface = stack.add_interface(*spec).expect("an interface");
            for a in *addrs {
                stack.add_address(now, iface, cidr(a)).expect("an address");
            }
        }
        let mut net = Net {
            stack,
            sink: TestSink::default(),
            now,
            drops: Vec::new(),
            burst: Box::new(Burst::new()),
        };
        net.emit();
        net
    }

    /// One Ethernet interface with 10.0.0.1/24 and 2001:db8::1/64, whose peers .2 and ::2 are
    /// known.
    pub(crate) fn lan() -> Net {
        let mut net = Net::new(&[(ethernet(1500), &["10.0.0.1/24", "2001:db8::1/64"])]);
        for peer in ["10.0.0.2", "2001:db8::2"] {
            net.stack
                .add_static_neighbour(net.now, Iface(0), addr(peer), PEER_MAC)
                .expect("a neighbour");
        }
        net
    }

    /// One interface without link header, with the same addresses.
    pub(crate) fn tun() -> Net {
        Net::new(&[(raw(1500), &["10.0.0.1/24", "2001:db8::1/64"])])
    }

    /// Hands frames in as one burst.
    pub(crate) fn ingest_all(&mut self, frames: &[(RxMeta, Vec<u8>)]) {
        for (meta, frame) in frames {
            self.burst.push(TestBuf(frame.clone()), *meta).expect("at most one burst");
        }
        self.ingest_burst();
    }

    /// Hands in one frame that nobody needs any more.
    pub(crate) fn ingest_own(&mut self, meta: RxMeta, frame: Vec<u8>) {
        self.burst.push(TestBuf(frame), meta).expect("an empty burst");
        self.ingest_burst();
    }

    fn ingest_burst(&mut self) {
        let drops = &mut self.drops;
        self.stack.ingest_with(self.now, &mut self.burst, &mut |why, _, _| drops.push(why));
        self.burst.clear();
    }

    /// Hands one frame in on the first interface; why it was dropped, if it was.
    pub(crate) fn ingest(&mut self, frame: &[u8]) -> Option<Drop> {
        self.ingest_on(Iface(0), frame)
    }

    pub(crate) fn ingest_on(&mut self, iface: Iface, frame: &[u8]) -> Option<Drop> {
        let before = self.drops.len();
        self.ingest_all(&[(
            RxMeta { iface, checksum: Checksum::Unknown, ..RxMeta::default() },
            frame.to_vec(),
        )]);
        self.drops.get(before).copied()
    }

    /// What is sent over a loopback interface comes back, until nothing is sent any more; how many
    /// packets that were.
    pub(crate) fn loop_back(&mut self) -> usize {
        let mut packets = 0;
        while self.stack.wants_emit() {
            self.stack.emit(self.now, &mut self.sink);
            let sent: Vec<_> = self.sink.sent.drain(..).collect();
            packets += sent.len();
            assert!(packets < 100_000, "two ends talk for ever");
            for frames in sent.chunks(clearway_pkt::BURST) {
                let frames: Vec<_> = frames
                    .iter()
                    .map(|(iface, frame, meta)| (arrival(*iface, meta), frame.clone()))
                    .collect();
                self.ingest_all(&frames);
            }
        }
        packets
    }

    /// What is sent now.
    pub(crate) fn emit(&mut self) -> Vec<Vec<u8>> {
        self.stack.emit(self.now, &mut self.sink);
        self.sink.take()
    }

    /// Hands one frame in and gives what is sent for it.
    pub(crate) fn exchange(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        self.ingest(frame);
        self.emit()
    }

    /// Lets time pass, with timers looked at when they are due; what is sent meanwhile.
    pub(crate) fn pass(&mut self, seconds: u64) -> Vec<Vec<u8>> {
        let end = self.now + clearway_base::Duration::from_secs(seconds);
        let mut sent = Vec::new();
        while self.stack.next_deadline() <= end {
            self.now = self.stack.next_deadline().max(self.now);
            self.stack.expire(self.now);
            sent.extend(self.emit());
        }
        self.now = end;
        sent
    }
}

/// What a loopback device says of a packet that comes back.
pub(crate) fn arrival(iface: Iface, sent: &TxMeta) -> RxMeta {
    let segment_size = match sent.segmentation {
        Segmentation::None => 0,
        Segmentation::Tcp(size) | Segmentation::Udp(size) => size,
    };
    RxMeta { iface, segment_size, ..RxMeta::default() }
}

/// A loopback interface in a table of its own, which carries large packets whole and without
/// checksums.
pub(crate) fn loopback(mtu: u32, table: u16) -> InterfaceSpec {
    let offloads = Offloads {
        tx_checksum: true,
        trusted_link: true,
        tso4: true,
        tso6: true,
        uso: true,
        max_segmented_frame: 65_535,
    };
    InterfaceSpec { link: Link::Loopback, mtu, offloads, table: Table(table) }
}

/// An Ethernet frame from the peer to us.
pub(crate) fn frame(ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    framed(PEER_MAC, OUR_MAC, ethertype, payload)
}

pub(crate) fn framed(src: Mac, dst: Mac, ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0; eth::HEADER_LEN + payload.len()];
    eth::emit(dst, src, ethertype, &mut out);
    out[eth::HEADER_LEN..].copy_from_slice(payload);
    out
}

/// A frame from the peer to us around an IP packet of either family.
pub(crate) fn ip_frame(packet: &[u8]) -> Vec<u8> {
    frame(if packet[0] >> 4 == 4 { EtherType::IPV4 } else { EtherType::IPV6 }, packet)
}

/// An IP packet of the family of its addresses.
pub(crate) fn packet(src: &str, dst: &str, proto: Proto, l4: &[u8]) -> Vec<u8> {
    let (src, dst) = (addr(src), addr(dst));
    let len = l4.len() as u16;
    let mut out = vec![0; 40];
    let at = if src.is_v4() {
        let header = ipv4::Header {
            src,
            dst,
            proto,
            tos: 0,
            ttl: 64,
            id: 7,
            dont_fragment: false,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: len,
        };
        ipv4::emit(&header, &mut out)
    } else {
        let header = ipv6::Header {
            src,
            dst,
            next: proto,
            traffic_class: 0,
            flow_label: 0,
            hop_limit: 64,
            payload_len: len,
        };
        ipv6::emit(&header, &mut out)
    };
    out.truncate(at);
    out.extend_from_slice(l4);
    out
}

/// A UDP packet.
pub(crate) fn udp_packet(src: (&str, u16), dst: (&str, u16), payload: &[u8]) -> Vec<u8> {
    packet(src.0, dst.0, Proto::UDP, &udp_datagram(src, dst, payload))
}

/// A UDP datagram without IP header.
pub(crate) fn udp_datagram(src: (&str, u16), dst: (&str, u16), payload: &[u8]) -> Vec<u8> {
    let mut l4 = vec![0; udp::HEADER_LEN];
    udp::emit(src.1, dst.1, payload.len() as u16, &mut l4);
    l4.extend_from_slice(payload);
    udp::fill_checksum(&addr(src.0), &addr(dst.0), &mut l4);
    l4
}

/// A TCP packet.
pub(crate) fn tcp_packet(src: &str, dst: &str, segment: &Segment, payload: &[u8]) -> Vec<u8> {
    packet(src, dst, Proto::TCP, &tcp_segment(src, dst, segment, payload))
}

/// A TCP segment without IP header.
pub(crate) fn tcp_segment(src: &str, dst: &str, segment: &Segment, payload: &[u8]) -> Vec<u8> {
    let mut l4 = vec![0; segment.opts.header_len()];
    tcp::emit(segment, &mut l4);
    l4.extend_from_slice(payload);
    tcp::fill_checksum(&addr(src), &addr(dst), &mut l4);
    l4
}

/// An echo request.
pub(crate) fn ping(src: &str, dst: &str, data: &[u8]) -> Vec<u8> {
    let mut l4 = vec![0; 8 + data.len()];
    if addr(src).is_v4() {
        icmpv4::emit(&Icmpv4::EchoRequest { id: 1, seq: 2, data }, &mut l4);
        packet(src, dst, Proto::ICMP, &l4)
    } else {
        icmpv6::emit(&addr(src), &addr(dst), &Icmpv6::EchoRequest { id: 1, seq: 2, data }, &mut l4);
        packet(src, dst, Proto::ICMPV6, &l4)
    }
}

/// An ICMPv4 message in a packet.
pub(crate) fn icmp_v4(src: &str, dst: &str, message: &Icmpv4<'_>) -> Vec<u8> {
    let mut l4 = vec![0; message.emitted_len()];
    icmpv4::emit(message, &mut l4);
    packet(src, dst, Proto::ICMP, &l4)
}

/// An ICMPv6 message in a packet; `hop_limit` as given.
pub(crate) fn icmp_v6(src: &str, dst: &str, hop_limit: u8, message: &Icmpv6<'_>) -> Vec<u8> {
    let mut l4 = vec![0; message.emitted_len()];
    icmpv6::emit(&addr(src), &addr(dst), message, &mut l4);
    let mut out = packet(src, dst, Proto::ICMPV6, &l4);
    out[7] = hop_limit;
    out
}
