//! A small stack and a judge over what it sends.

use clearway_base::{Duration, Instant};
use clearway_pkt::{Burst, Iface, Offloads, Pool, PoolBuf, RxMeta, Sink, TxMeta};
use clearway_proto::store::chain::ChainRx;
use clearway_proto::store::ring::RingTx;
use clearway_proto::{Config, Env, InterfaceSpec, Limits, Link, Stack, Table};
use clearway_wire::{
    EtherType, Mac, Proto, arp, eth, icmpv4, icmpv6, ipv4, ipv6, ipv6_ext, tcp, udp,
};

/// The types of the stack under test.
pub(crate) struct Fuzzed;

impl Env for Fuzzed {
    type Buf = PoolBuf;
    type Rx = ChainRx<PoolBuf>;
    type Tx = RingTx;
}

pub(crate) const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const BUFS: usize = 96;
const BUF_LEN: usize = 2048;

/// A stack, its buffers, and the frames it has sent since somebody last looked.
pub(crate) struct Rig {
    pub(crate) stack: Stack<Fuzzed>,
    pub(crate) now: Instant,
    pool: Pool,
    burst: Burst<PoolBuf>,
    judge: Judge,
}

/// The sink: every frame is checked as a stranger would check it.
pub(crate) struct Judge {
    room: Vec<u8>,
    ethernet: Vec<bool>,
    /// The IP packets sent, without link header.
    pub(crate) sent: Vec<Vec<u8>>,
}

/// Limits so small that every table overflows now and then.
fn limits() -> Limits {
    Limits {
        connections: 8,
        half_open: 4,
        time_wait: 4,
        orphans: 4,
        listeners: 4,
        reassembly_maps: 2,
        sack_maps: 2,
        udp_sockets: 4,
        udp_queue_bytes: 8192,
        neighbours: 8,
        fragments: 4,
        fragment_bytes: 16_384,
        replies: 16,
        ..Limits::default()
    }
}

impl Rig {
    pub(crate) fn new(links: &[Link]) -> Rig {
        Rig::with(limits(), links)
    }

    /// As [`Rig::new`], with room for no other interfaces, and with something to make buffers with.
    pub(crate) fn sealed(links: &[Link]) -> Rig {
        let mut rig = Rig::with(Limits { interfaces: links.len() as u16, ..limits() }, links);
        let pool = rig.pool.clone();
        rig.stack.set_buffer_maker(Box::new(move |bytes| pool.copy_of(bytes)));
        rig
    }

    fn with(limits: Limits, links: &[Link]) -> Rig {
        let mut config = Config { limits, ..Config::new([3; 32]) };
        config.tcp.max_receive_window = 256 * 1024;
        let pool = Pool::new(BUFS, BUF_LEN);
        let mut stack =
            Stack::new(config, ChainRx::new(96, 128 * 1024), RingTx::new(32, 2048, 64 * 1024));
        for link in links {
            let spec = InterfaceSpec {
                link: *link,
                mtu: 1500,
                offloads: Offloads::default(),
                table: Table(0),
            };
            stack.add_interface(spec).expect("the limits allow the interfaces of the rig");
        }
        let ethernet = links.iter().map(|link| matches!(link, Link::Ethernet(_))).collect();
        let judge = Judge { room: vec![0; 70_000], ethernet, sent: Vec::new() };
        Rig { stack, now: Instant::from_millis(1_000), pool, burst: Burst::new(), judge }
    }

    /// Hands one packet in as it came from `iface`, then lets the stack answer.
    pub(crate) fn receive(&mut self, iface: Iface, bytes: &[u8]) {
        if let Some(buf) = self.pool.copy_of(&bytes[..bytes.len().min(BUF_LEN)]) {
            let _ = self.burst.push(buf, RxMeta { iface, ..RxMeta::default() });
        }
        self.stack.ingest(self.now, &mut self.burst);
        self.burst.clear();
        self.answer();
    }

    /// Time passes.
    pub(crate) fn wait(&mut self, d: Duration) {
        self.now += d;
        self.stack.expire(self.now);
        self.answer();
    }

    /// Sends all that wants to be sent.
    pub(crate) fn answer(&mut self) {
        // A stack that always has one more packet to send is broken; the bound is far above what
        // the tiny tables can hold.
        for _ in 0..1_000 {
            if !self.stack.emit(self.now, &mut self.judge) && !self.stack.wants_emit() {
                return;
            }
        }
        panic!("the stack does not come to an end of sending");
    }

    /// The IP packets sent since the last call.
    pub(crate) fn sent(&mut self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.judge.sent)
    }

    /// Lets every timer run out, then looks whether all came to rest. The owner must have closed
    /// everything it had.
    pub(crate) fn rest(mut self) {
        for _ in 0..20_000 {
            let next = self.stack.next_deadline();
            if !next.is_set() || next > self.now + Duration::from_secs(100_000) {
                break;
            }
            self.now = next.max(self.now + Duration::from_micros(1));
            self.stack.expire(self.now);
            self.answer();
            self.judge.sent.clear();
            while self.stack.next_event().is_some() {}
        }
        let count = self.pool.count();
        let pool = self.pool.clone();
        drop(self);
        assert_eq!(pool.available(), count, "a packet buffer did not come back");
    }
}

impl Sink for Judge {
    fn reserve(&mut self, _iface: Iface, len: usize) -> Option<&mut [u8]> {
        self.room.get_mut(..len)
    }

    fn commit(&mut self, iface: Iface, len: usize, meta: TxMeta) {
        assert_eq!(meta.checksum_start, 0, "the interface has no checksum offload");
        let frame = &self.room[..len];
        let packet = if self.ethernet[usize::from(iface.0)] {
            let view = eth::check(frame).expect("a sent frame has an Ethernet header");
            match view.ethertype() {
                EtherType::ARP => {
                    arp::check(view.payload()).expect("a sent ARP packet is well-formed");
                    return;
                }
                EtherType::IPV4 | EtherType::IPV6 => view.payload(),
                other => panic!("a frame of type {other:?} was sent"),
            }
        } else {
            frame
        };
        assert!(packet.len() <= 1500, "a packet longer than the link takes was sent");
        judge_packet(packet);
        self.sent.push(packet.to_vec());
    }
}

/// Panics unless `packet` is one that every host would take.
fn judge_packet(packet: &[u8]) {
    match packet[0] >> 4 {
        4 => {
            let ip = ipv4::check(packet, true).expect("a sent IPv4 packet is well-formed");
            if ip.is_fragment() {
                return;
            }
            match ip.proto() {
                Proto::TCP => judge_tcp(&ip.src(), &ip.dst(), ip.payload()),
                Proto::UDP => {
                    udp::check(&ip.src(), &ip.dst(), ip.payload(), true)
                        .expect("a sent datagram is well-formed");
                }
                Proto::ICMP => {
                    icmpv4::check(ip.payload(), true).expect("a sent ICMP message is well-formed");
                }
                other => panic!("a packet of protocol {other:?} was sent"),
            }
        }
        6 => {
            let ip = ipv6::check(packet).expect("a sent IPv6 packet is well-formed");
            let chain = ipv6_ext::walk(&ip)
                .expect("the extension headers of a sent packet are well-formed");
            if chain.fragment.is_some() {
                return;
            }
            let upper = &packet[chain.upper_offset..];
            let (src, dst) = (ip.src(), ip.dst());
            match chain.upper {
                Proto::TCP => judge_tcp(&src, &dst, upper),
                Proto::UDP => {
                    udp::check(&src, &dst, upper, true).expect("a sent datagram is well-formed");
                }
                Proto::ICMPV6 => {
                    icmpv6::check(&src, &dst, ip.hop_limit(), upper, true)
                        .expect("a sent ICMPv6 message is well-formed");
                }
                other => panic!("a packet of protocol {other:?} was sent"),
            }
        }
        other => panic!("a packet of IP version {other} was sent"),
    }
}

fn judge_tcp(src: &clearway_wire::Addr, dst: &clearway_wire::Addr, segment: &[u8]) {
    tcp::verify_checksum(src, dst, segment).expect("a sent segment's checksum is right");
    let parsed = tcp::parse(segment).expect("a sent segment is well-formed");
    assert!(!parsed.opts.broken, "the options of a sent segment are well-formed");
}
