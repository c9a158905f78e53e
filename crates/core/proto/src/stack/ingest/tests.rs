extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_pkt::{Checksum, Iface, Offloads};
use clearway_wire::{EtherType, Mac, Malformed, Proto, Segment};
use proptest::prelude::*;

use super::*;
use crate::testing::*;
use crate::{InterfaceSpec, Link, Table};

fn seg(src_port: u16, dst_port: u16) -> Segment {
    Segment { src_port, dst_port, flags: clearway_wire::Flags::SYN, ..Segment::default() }
}

fn syn(src: &str, dst: &str) -> Vec<u8> {
    tcp_packet(src, dst, &seg(1000, 2000), b"")
}

/// The reason of a packet that never got to TCP.
fn why(net: &mut Net, frame: &[u8]) -> Drop {
    net.ingest(frame).unwrap_or_else(|| panic!("taken: {frame:?}"))
}

#[test]
fn sources_that_cannot_be_are_refused_in_every_transport() {
    let mut net = Net::tun();
    for (src, dst, reason) in [
        ("224.0.0.1", "10.0.0.1", Drop::SourceMulticast),
        ("255.255.255.255", "10.0.0.1", Drop::SourceBroadcast),
        ("10.0.0.255", "10.0.0.1", Drop::SourceBroadcast),
        ("10.0.0.0", "10.0.0.1", Drop::SourceBroadcast),
        ("10.0.0.1", "10.0.0.1", Drop::SourceOurs),
        ("127.0.0.1", "10.0.0.1", Drop::LoopbackOnWire),
        ("0.0.0.0", "10.0.0.1", Drop::SourceUnspecified),
        ("0.1.2.3", "10.0.0.1", Drop::Martian),
        ("240.0.0.1", "10.0.0.1", Drop::Martian),
        ("10.0.0.2", "127.0.0.1", Drop::LoopbackOnWire),
        ("10.0.0.2", "10.0.0.3", Drop::NotOurs),
        ("10.0.0.2", "224.0.0.9", Drop::NotOurs),
        ("10.0.0.2", "0.0.0.0", Drop::NotOurs),
        ("ff02::1", "2001:db8::1", Drop::SourceMulticast),
        ("::1", "2001:db8::1", Drop::LoopbackOnWire),
        ("2001:db8::1", "2001:db8::1", Drop::SourceOurs),
        ("::", "2001:db8::1", Drop::SourceUnspecified),
        ("2001:db8::2", "2001:db8::3", Drop::NotOurs),
        ("2001:db8::2", "ff02::9", Drop::NotOurs),
    ] {
        assert_eq!(why(&mut net, &syn(src, dst)), reason, "TCP {src}");
        assert_eq!(why(&mut net, &udp_packet((src, 1), (dst, 2), b"x")), reason, "UDP {src}");
        assert_eq!(why(&mut net, &ping(src, dst, b"x")), reason, "ping {src}");
    }
    assert_eq!(net.emit().len(), 0);
}

#[test]
fn land_is_refused_over_loopback_too() {
    let spec = InterfaceSpec { link: Link::Loopback, mtu: 65_535, ..raw(0) };
    let mut net = Net::new(&[(spec, &["127.0.0.1/8"])]);
    let land = tcp_packet("127.0.0.1", "127.0.0.1", &seg(80, 80), b"");
    assert_eq!(why(&mut net, &land), Drop::Land);
}

#[test]
fn tcp_to_more_than_one_host_is_refused() {
    let mut net = Net::lan();
    let frame = |mac, dst| framed(PEER_MAC, mac, EtherType::IPV4, &syn("10.0.0.2", dst));
    for f in [
        frame(Mac::BROADCAST, "10.0.0.255"),
        frame(Mac::BROADCAST, "10.0.0.1"),
        frame(OUR_MAC, "10.0.0.255"),
        frame(OUR_MAC, "224.0.0.1"),
        frame(OUR_MAC, "255.255.255.255"),
    ] {
        assert_eq!(why(&mut net, &f), Drop::TcpNotUnicast);
    }
    assert_eq!(net.emit().len(), 0);
}

#[test]
fn broken_tcp_headers_are_refused() {
    let mut net = Net::tun();
    for (src, dst, at) in [("10.0.0.2", "10.0.0.1", 20), ("2001:db8::2", "2001:db8::1", 40)] {
        assert_eq!(why(&mut net, &tcp_packet(src, dst, &seg(0, 1), b"")), Drop::PortZero);
        assert_eq!(why(&mut net, &tcp_packet(src, dst, &seg(1, 0), b"")), Drop::PortZero);
        let mut p = syn(src, dst);
        p[at + 16] ^= 1;
        assert_eq!(why(&mut net, &p), Drop::Malformed(Malformed::TcpBadChecksum));
        for offset in [0, 0x40, 0x60, 0xf0] {
            let mut l4 = tcp_segment(src, dst, &seg(1, 2), b"");
            l4[12] = offset;
            l4[16..18].fill(0);
            clearway_wire::tcp::fill_checksum(&addr(src), &addr(dst), &mut l4);
            let p = packet(src, dst, Proto::TCP, &l4);
            assert_eq!(why(&mut net, &p), Drop::Malformed(Malformed::TcpBadOffset), "{offset:x}");
        }
        let p = packet(src, dst, Proto::TCP, &[0; 19]);
        assert_eq!(why(&mut net, &p), Drop::Malformed(Malformed::TcpTooShort));
    }
}

#[test]
fn the_devices_word_on_the_checksum_counts() {
    let mut net = Net::tun();
    let mut p = syn("10.0.0.2", "10.0.0.1");
    p[36] ^= 1;
    let mut with = |checksum| {
        net.drops.clear();
        net.ingest_all(&[(RxMeta { checksum, ..RxMeta::default() }, p.clone())]);
        net.drops.first().copied()
    };
    assert_eq!(with(Checksum::Unknown), Some(Drop::Malformed(Malformed::TcpBadChecksum)));
    assert_eq!(with(Checksum::Bad), Some(Drop::DeviceBadChecksum));
    assert!(!matches!(with(Checksum::Good), Some(Drop::Malformed(_) | Drop::DeviceBadChecksum)));
}

#[test]
fn a_link_inside_the_machine_is_trusted() {
    let offloads = Offloads { trusted_link: true, ..Offloads::default() };
    let mut net = Net::new(&[(InterfaceSpec { offloads, ..raw(1500) }, &["10.0.0.1/24"])]);
    let mut p = syn("10.0.0.2", "10.0.0.1");
    p[36] ^= 1;
    assert!(!matches!(net.ingest(&p), Some(Drop::Malformed(_))));
}

#[test]
fn frames_for_others_and_of_other_kinds_are_refused() {
    let mut net = Net::lan();
    let ip = syn("10.0.0.2", "10.0.0.1");
    let ip6 = syn("2001:db8::2", "2001:db8::1");
    let tagged = |tag: u16| {
        let mut out = vec![0; 18];
        clearway_wire::eth::emit_tagged(
            OUR_MAC,
            PEER_MAC,
            &[clearway_wire::eth::Tag(tag)],
            EtherType::IPV4,
            &mut out,
        );
        out.extend_from_slice(&ip);
        out
    };
    for (f, reason) in [
        (framed(PEER_MAC, Mac([2, 0, 0, 0, 0, 9]), EtherType::IPV4, &ip), Drop::OtherLinkAddr),
        (framed(Mac([1, 0, 0, 0, 0, 9]), OUR_MAC, EtherType::IPV4, &ip), Drop::LinkSourceGroup),
        (frame(EtherType(0x88cc), &ip), Drop::UnknownEtherType),
        (frame(EtherType::IPV6, &ip), Drop::UnknownEtherType),
        (frame(EtherType::IPV4, &ip6), Drop::UnknownEtherType),
        (tagged(5), Drop::VlanTagged),
        (vec![0; 13], Drop::Malformed(Malformed::EthTooShort)),
        (vec![], Drop::Malformed(Malformed::EthTooShort)),
    ] {
        assert_eq!(why(&mut net, &f), reason);
    }
    // A priority tag changes nothing but the priority.
    assert!(!matches!(net.ingest(&tagged(5 << 13)), Some(Drop::VlanTagged)));
}

#[test]
fn an_interface_that_is_down_or_missing_takes_nothing() {
    let mut net = Net::tun();
    let p = syn("10.0.0.2", "10.0.0.1");
    assert_eq!(net.ingest_on(Iface(7), &p), Some(Drop::UnknownInterface));
    net.stack.set_up(Iface(0), false);
    assert_eq!(why(&mut net, &p), Drop::InterfaceDown);
}

#[test]
fn source_routes_are_refused_and_other_options_are_not() {
    let mut net = Net::tun();
    let with_option = |option: &[u8]| {
        let mut p = ping("10.0.0.2", "10.0.0.1", b"x");
        p.splice(20..20, option.iter().copied());
        p[0] = 0x40 | (5 + option.len() / 4) as u8;
        let len = p.len() as u16;
        p[2..4].copy_from_slice(&len.to_be_bytes());
        p[10..12].fill(0);
        let sum = clearway_wire::checksum::sum(&p[..20 + option.len()]).finish();
        p[10..12].copy_from_slice(&sum.to_be_bytes());
        p
    };
    for kind in [131, 137] {
        assert_eq!(why(&mut net, &with_option(&[kind, 7, 4, 10, 0, 0, 9, 0])), Drop::SourceRoute);
    }
    assert_eq!(
        why(&mut net, &with_option(&[7, 0, 0, 0])),
        Drop::Malformed(Malformed::Ipv4BadOption)
    );
    assert_eq!(net.ingest(&with_option(&[148, 4, 0, 0])), None, "router alert is nothing to us");
    assert_eq!(net.emit().len(), 1);
}

#[test]
fn ipv6_headers_that_lie_or_loop_are_refused() {
    let mut net = Net::tun();
    let v6 = |next, l4: &[u8]| packet("2001:db8::2", "2001:db8::1", next, l4);
    let mut chain = Vec::new();
    for _ in 0..9 {
        chain.extend([60, 0, 1, 4, 0, 0, 0, 0]);
    }
    let mut lie = v6(Proto::UDP, &[0; 8]);
    lie[5] = 9;
    for (p, reason) in [
        (v6(Proto::DEST_OPTIONS, &chain), Malformed::Ipv6ExtTooMany),
        (v6(Proto::DEST_OPTIONS, &[6, 5, 1, 4, 0, 0, 0, 0]), Malformed::Ipv6ExtTruncated),
        (v6(Proto::ROUTING, &[6, 0, 0, 1, 0, 0, 0, 0]), Malformed::Ipv6ExtRouting),
        (v6(Proto::HOP_BY_HOP, &[]), Malformed::Ipv6Jumbo),
        (
            v6(Proto::DEST_OPTIONS, &[0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0]),
            Malformed::Ipv6ExtHopByHopNotFirst,
        ),
        (lie, Malformed::Ipv6BadLength),
    ] {
        assert_eq!(why(&mut net, &p), Drop::Malformed(reason));
    }
}

#[test]
fn a_burst_is_taken_in_order_and_every_packet_is_accounted_for() {
    let mut net = Net::lan();
    let meta = RxMeta::default();
    let frames = vec![
        (meta, ip_frame(&ping("10.0.0.2", "10.0.0.1", b"1"))),
        (meta, ip_frame(&syn("10.0.0.2", "10.0.0.1"))),
        (meta, ip_frame(&syn("224.0.0.1", "10.0.0.1"))),
        (meta, vec![1, 2, 3]),
        (meta, ip_frame(&ping("10.0.0.2", "10.0.0.1", b"2"))),
    ];
    net.ingest_all(&frames);
    let c = net.stack.counters();
    assert_eq!(c.ip.packets_in, 5);
    assert_eq!(c.ip.bytes_in, frames.iter().map(|f| f.1.len() as u64).sum::<u64>());
    assert_eq!(c.ip.delivered + c.drops_total(), 5);
    assert_eq!(c.drops_total(), net.drops.len() as u64);
    assert!(net.drops.contains(&Drop::SourceMulticast));
}

#[test]
fn who_asks_hears_of_each_drop_with_its_bytes() {
    let mut net = Net::tun();
    let p = udp_packet(("10.0.0.2", 1), ("10.0.0.1", 2), &[7; 1000]);
    let mut burst = Burst::new();
    let _ = burst.push(TestBuf(p.clone()), RxMeta::default());
    let mut heard = Vec::new();
    net.stack.ingest_with(net.now, &mut burst, &mut |why, meta, bytes| {
        heard.push((why, *meta, bytes.to_vec()))
    });
    assert!(burst.is_empty());
    assert_eq!(heard, [(Drop::UdpPortClosed, RxMeta::default(), p[..SNAP].to_vec())]);
}

/// Packets of all kinds, to be bent.
fn corpus() -> Vec<Vec<u8>> {
    let quoted = udp_packet(("10.0.0.1", 5), ("10.0.0.2", 6), &[0; 40]);
    let unreachable =
        clearway_wire::icmpv4::Icmpv4::Unreachable { code: 4, mtu: 1300, quoted: &quoted };
    let mut all = vec![icmp_v4("10.0.0.2", "10.0.0.1", &unreachable)];
    for (src, dst) in [("10.0.0.2", "10.0.0.1"), ("2001:db8::2", "2001:db8::1")] {
        all.push(syn(src, dst));
        all.push(udp_packet((src, 1), (dst, 2), b"hello"));
        all.push(ping(src, dst, b"hello"));
        all.extend(crate::net::frag::tests::cut(&udp_packet((src, 1), (dst, 2), &[0; 100]), 48));
    }
    all
}

#[test]
fn every_truncation_and_every_flipped_bit_is_survived_and_accounted_for() {
    let mut ethernet = Net::lan();
    let mut tun = Net::tun();
    for p in corpus() {
        for len in 0..p.len() {
            tun.ingest(&p[..len]);
            ethernet.ingest(&ip_frame(&p)[..14 + len]);
        }
        for bit in 0..p.len() * 8 {
            let mut bent = p.clone();
            bent[bit / 8] ^= 1 << (bit % 8);
            tun.ingest(&bent);
            tun.emit();
            let mut bent = ip_frame(&p);
            bent[bit / 8] ^= 1 << (bit % 8);
            ethernet.ingest(&bent);
            ethernet.emit();
        }
    }
    for net in [ethernet, tun] {
        let c = net.stack.counters();
        assert_eq!(c.ip.packets_in, c.ip.delivered + c.drops_total());
    }
}

proptest! {
    #[test]
    fn random_bytes_are_survived_and_accounted_for(
        frames in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 0..120),
            0u8..4), 1..20),
    ) {
        let mut net = Net::lan();
        for (bytes, kind) in &frames {
            let f = match kind {
                0 => bytes.clone(),
                1 => frame(EtherType::IPV4, bytes),
                2 => frame(EtherType::IPV6, bytes),
                _ => frame(EtherType::ARP, bytes),
            };
            net.ingest(&f);
            net.emit();
        }
        let c = net.stack.counters();
        prop_assert_eq!(c.ip.packets_in, frames.len() as u64);
        prop_assert_eq!(c.ip.packets_in, c.ip.delivered + c.drops_total());
    }

    /// Random bytes behind headers that are sound, so that they come further.
    #[test]
    fn random_payloads_are_survived(
        l4 in proptest::collection::vec(any::<u8>(), 0..100),
        proto in prop_oneof![Just(0u8), Just(1), Just(6), Just(17), Just(43), Just(44), Just(58),
            Just(60), any::<u8>()],
        v6 in any::<bool>(),
    ) {
        let mut net = Net::lan();
        let (src, dst) = if v6 { ("2001:db8::2", "2001:db8::1") } else { ("10.0.0.2", "10.0.0.1") };
        net.ingest(&ip_frame(&packet(src, dst, Proto(proto), &l4)));
        for frame in net.emit() {
            prop_assert!(frame.len() <= 1514);
        }
        let c = net.stack.counters();
        prop_assert_eq!(c.ip.packets_in, c.ip.delivered + c.drops_total());
    }
}

#[test]
fn tables_keep_addresses_apart() {
    let other = InterfaceSpec { table: Table(1), ..raw(1500) };
    let mut net = Net::new(&[(raw(1500), &["10.0.0.1/24"]), (other, &["10.1.0.1/24"])]);
    assert_eq!(net.ingest_on(Iface(1), &ping("10.0.0.2", "10.0.0.1", b"x")), Some(Drop::NotOurs));
    assert_eq!(net.ingest_on(Iface(0), &ping("10.1.0.2", "10.1.0.1", b"x")), Some(Drop::NotOurs));
    assert_eq!(net.ingest_on(Iface(1), &ping("10.1.0.2", "10.1.0.1", b"x")), None);
}
