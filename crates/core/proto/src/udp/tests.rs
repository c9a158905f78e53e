extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_pkt::Offloads;
use clearway_wire::{Malformed, eth, icmpv4, ipv4, ipv6};

use super::*;
use crate::testing::*;
use crate::{InterfaceSpec, Limits, Link};

fn spec(local: &str, port: u16) -> UdpSpec {
    UdpSpec {
        table: Table(0),
        local: Endpoint::new(addr(local), port),
        token: u64::from(port),
        v6_only: false,
    }
}

const REUSE_ADDRESS: Sharing = Sharing { reuse_address: true, reuse_port: false, owner: 0 };
const REUSE_PORT: Sharing = Sharing { reuse_address: false, reuse_port: true, owner: 0 };

fn end(a: &str, port: u16) -> Endpoint {
    Endpoint::new(addr(a), port)
}

fn bind(net: &mut Net, local: &str, port: u16) -> UdpId {
    net.stack.udp_bind(spec(local, port)).unwrap()
}

fn received(net: &mut Net, socket: UdpId) -> Vec<(Endpoint, Addr, Vec<u8>)> {
    let mut out = Vec::new();
    while let Some(d) = net.stack.udp_recv(socket) {
        out.push((d.from, d.to, d.payload.to_vec()));
    }
    out
}

#[test]
fn a_datagram_goes_there_and_back() {
    for (ours, theirs) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
        let mut net = Net::lan();
        let socket = bind(&mut net, ours, 2000);
        assert_eq!(net.ingest(&ip_frame(&udp_packet((theirs, 1000), (ours, 2000), b"ask"))), None);
        let event = net.stack.next_event();
        assert_eq!(event, Some(Event::Udp { socket, token: 2000, what: UdpEvents::READABLE }));
        assert_eq!(net.stack.next_event(), None);
        assert_eq!(received(&mut net, socket), [(end(theirs, 1000), addr(ours), b"ask".to_vec())]);
        net.stack.udp_send(socket, end(theirs, 1000), None, b"answer").unwrap();
        assert!(net.stack.wants_emit());
        let sent = net.emit();
        let packet = eth::check(&sent[0]).unwrap().payload();
        let l4 = &packet[packet.len() - 14..];
        let read = udp::check(&addr(ours), &addr(theirs), l4, true).unwrap();
        assert_eq!(
            (read.src_port(), read.dst_port(), read.payload()),
            (2000, 1000, &b"answer"[..])
        );
        assert!(!net.stack.wants_emit());
    }
}

#[test]
fn the_most_specific_socket_gets_the_datagram() {
    let mut net = Net::lan();
    net.stack.add_address(net.now, Iface(0), cidr("10.0.0.3/24")).unwrap();
    let any6 = share(&mut net, "::", 7, REUSE_ADDRESS);
    let bound = share(&mut net, "10.0.0.1", 7, REUSE_ADDRESS);
    let other = bind(&mut net, "10.0.0.1", 8);
    net.stack.udp_connect(other, end("10.0.0.2", 9)).unwrap();
    assert_eq!(
        net.stack.udp_bind(spec("10.0.0.1", 8)),
        Err(UdpError::InUse),
        "a connected socket keeps its port"
    );
    net.stack.udp_set_sharing(other, REUSE_ADDRESS).unwrap();
    let again = net.stack.udp_bind_shared(spec("10.0.0.1", 8), REUSE_ADDRESS).unwrap();
    let mut from = |src: (&str, u16), dst: (&str, u16)| {
        net.ingest(&ip_frame(&udp_packet(src, dst, b"x")));
        [any6, bound, other, again].map(|s| net.stack.udp_recv(s).is_some())
    };
    assert_eq!(from(("10.0.0.2", 9), ("10.0.0.1", 7)), [false, true, false, false]);
    assert_eq!(
        from(("10.0.0.2", 9), ("10.0.0.3", 7)),
        [true, false, false, false],
        "an IPv6 wildcard takes IPv4 too"
    );
    assert_eq!(from(("2001:db8::2", 9), ("2001:db8::1", 7)), [true, false, false, false]);
    assert_eq!(from(("10.0.0.2", 9), ("10.0.0.1", 8)), [false, false, true, false]);
    assert_eq!(from(("10.0.0.2", 10), ("10.0.0.1", 8)), [false, false, false, true]);
}

#[test]
fn any_number_may_share_a_port_each_with_a_peer_of_its_own() {
    let mut config = config();
    config.limits.udp_sockets = 1000;
    let mut net = Net::with(config, &[(raw(1500), &["10.0.0.1/24"])]);
    let sockets: Vec<_> = (0..1000u16)
        .map(|peer| {
            let socket = share(&mut net, "10.0.0.1", 7, REUSE_PORT);
            net.stack.udp_connect(socket, end("10.0.0.2", 1000 + peer)).unwrap();
            socket
        })
        .collect();
    for (socket, peer) in sockets.iter().zip(1000..) {
        net.ingest(&udp_packet(("10.0.0.2", peer), ("10.0.0.1", 7), b"x"));
        assert_eq!(received(&mut net, *socket).len(), 1, "of {peer}");
    }
    for socket in sockets {
        net.stack.udp_close(socket);
    }
    bind(&mut net, "10.0.0.1", 7);
}

#[test]
fn an_ipv6_only_wildcard_leaves_ipv4_to_others() {
    let mut net = Net::lan();
    let six = net.stack.udp_bind(UdpSpec { v6_only: true, ..spec("::", 7) }).unwrap();
    assert_eq!(
        net.ingest(&ip_frame(&udp_packet(("10.0.0.2", 9), ("10.0.0.1", 7), b"x"))),
        Some(Drop::UdpPortClosed)
    );
    let four = bind(&mut net, "0.0.0.0", 7);
    net.ingest(&ip_frame(&udp_packet(("10.0.0.2", 9), ("10.0.0.1", 7), b"x")));
    assert_eq!((received(&mut net, six).len(), received(&mut net, four).len()), (0, 1));
}

#[test]
fn ports_are_bound_once() {
    let mut net = Net::lan();
    bind(&mut net, "10.0.0.1", 7);
    assert_eq!(net.stack.udp_bind(spec("10.0.0.1", 7)), Err(UdpError::InUse));
    assert_eq!(net.stack.udp_bind(spec("0.0.0.0", 7)), Err(UdpError::InUse));
    assert_eq!(net.stack.udp_bind(spec("::", 7)), Err(UdpError::InUse), "it would take IPv4 too");
    assert_eq!(net.stack.udp_bind(spec("192.0.2.1", 7)), Err(UdpError::BadAddress));
    let socket = bind(&mut net, "10.0.0.1", 0);
    let port = net.stack.udp_local(socket).unwrap().port;
    assert!((32_768..=60_999).contains(&port));
}

#[test]
fn a_closed_socket_is_gone_and_its_place_is_free() {
    let mut config = config();
    config.limits.udp_sockets = 2;
    let mut net = Net::with(config, &[(raw(1500), &["10.0.0.1/24"])]);
    let (a, _) = (bind(&mut net, "10.0.0.1", 1), bind(&mut net, "10.0.0.1", 2));
    assert_eq!(net.stack.udp_bind(spec("10.0.0.1", 3)), Err(UdpError::TooMany));
    net.stack.udp_send(a, end("10.0.0.2", 9), None, b"x").unwrap();
    net.ingest(&udp_packet(("10.0.0.2", 9), ("10.0.0.1", 1), b"x"));
    net.stack.udp_close(a);
    assert_eq!(net.stack.next_event(), None);
    assert_eq!(net.emit().len(), 1, "what was taken leaves");
    assert_eq!(net.stack.udp_send(a, end("10.0.0.2", 9), None, b"x"), Err(UdpError::Stale));
    assert!(net.stack.udp_recv(a).is_none());
    let b = bind(&mut net, "10.0.0.1", 1);
    assert_ne!(a, b);
}

#[test]
fn queues_are_bounded_and_drops_are_counted_by_socket() {
    let mut config = config();
    config.limits.udp_queue_bytes = 10_000;
    let mut net = Net::with(config, &[(raw(1500), &["10.0.0.1/24"])]);
    let socket = bind(&mut net, "10.0.0.1", 2000);
    for _ in 0..100 {
        net.ingest(&udp_packet(("10.0.0.2", 1), ("10.0.0.1", 2000), &[0; 1000]));
    }
    assert_eq!(net.stack.counters().drops(Drop::UdpQueueFull), 90);
    assert_eq!(net.stack.udp_dropped(socket), Some(90));
    assert_eq!(net.emit().len(), 0, "a full queue is no closed port");
    assert_eq!(received(&mut net, socket).len(), 10);
    let mut taken = 0;
    while net.stack.udp_send(socket, end("10.0.0.2", 1), None, &[0; 1000]).is_ok() {
        taken += 1;
    }
    assert_eq!(taken, 10);
    assert_eq!(
        net.stack.udp_send(socket, end("10.0.0.2", 1), None, &[0; 1000]),
        Err(UdpError::Full)
    );
    while net.stack.next_event().is_some() {}
    assert_eq!(net.emit().len(), 10);
    let event = net.stack.next_event();
    assert_eq!(event, Some(Event::Udp { socket, token: 2000, what: UdpEvents::WRITABLE }));
}

#[test]
fn queues_take_memory_by_use_and_give_it_back_when_they_were_empty_for_a_while() {
    let mut net = Net::tun();
    let socket = bind(&mut net, "10.0.0.1", 2000);
    assert_eq!(net.stack.udp_memory(socket), 0, "nothing went through it");
    assert!(size_of::<Socket>() <= 640, "what it is besides: {}", size_of::<Socket>());
    let look = |net: &mut Net| {
        net.now += Duration::from_secs(1);
        net.stack.expire(net.now);
        net.stack.udp_memory(socket)
    };
    for _ in 0..50 {
        net.ingest(&udp_packet(("10.0.0.2", 1), ("10.0.0.1", 2000), &[0; 1000]));
    }
    net.emit();
    let filled = net.stack.udp_memory(socket);
    assert!((50_000..150_000).contains(&filled), "{filled}");
    assert_eq!((look(&mut net), look(&mut net)), (filled, filled), "they wait for their owner");
    assert_eq!(net.stack.next_deadline(), Instant::NEVER, "and nobody waits for him");
    assert_eq!(received(&mut net, socket).len(), 50);
    net.emit();
    assert_eq!(look(&mut net), filled, "it was in use since the last look");
    assert_eq!(look(&mut net), 0);
    net.stack.udp_send(socket, end("10.0.0.2", 1), None, &[0; 1000]).unwrap();
    assert_eq!(net.emit().len(), 1);
    assert!(net.stack.udp_memory(socket) > 0);
    look(&mut net);
    assert_eq!(look(&mut net), 0, "what is sent takes some, too");
    assert_eq!(net.stack.next_deadline(), Instant::NEVER);
}

#[test]
fn a_device_that_is_full_keeps_datagrams_waiting() {
    let mut net = Net::tun();
    let socket = bind(&mut net, "10.0.0.1", 2000);
    for n in 0..4u8 {
        net.stack.udp_send(socket, end("10.0.0.2", 1), None, &[n]).unwrap();
    }
    net.sink.room = Some(3);
    assert!(net.stack.emit(net.now, &mut net.sink));
    assert_eq!(net.sink.take().len(), 3);
    net.sink.room = None;
    assert_eq!(net.emit().iter().map(|f| f[28]).collect::<Vec<_>>(), [3]);
    assert_eq!(net.stack.counters().udp.datagrams_out, 4);
}

#[test]
fn a_datagram_longer_than_the_link_goes_in_fragments_with_its_checksum() {
    for (ours, theirs) in [("10.0.0.1", "10.0.0.2"), ("2001:db8::1", "2001:db8::2")] {
        let mut net = Net::tun();
        let socket = bind(&mut net, ours, 2000);
        let data: Vec<u8> = (0..9_001u32).map(|n| (n * 7) as u8).collect();
        net.stack.udp_send(socket, end(theirs, 1), None, &data).unwrap();
        let sent = net.emit();
        assert_eq!(sent.len(), 7);
        assert!(sent.iter().all(|p| p.len() <= 1500));
        let whole = crate::net::frag::tests::join(&sent);
        let read = udp::check(&addr(ours), &addr(theirs), &whole, true).unwrap();
        assert_eq!(read.payload(), data);
        assert_eq!(net.stack.counters().ip.fragmented, 1);
    }
}

#[test]
fn what_cannot_be_sent_is_refused_with_the_reason() {
    let mut net = Net::lan();
    let four = bind(&mut net, "0.0.0.0", 1);
    let six = net.stack.udp_bind(UdpSpec { v6_only: true, ..spec("::", 2) }).unwrap();
    let s = &mut net.stack;
    assert_eq!(s.udp_send(four, None, None, b"x"), Err(UdpError::BadAddress), "not connected");
    assert_eq!(s.udp_send(four, end("10.0.0.2", 0), None, b"x"), Err(UdpError::BadAddress));
    assert_eq!(s.udp_send(four, end("2001:db8::2", 9), None, b"x"), Err(UdpError::BadAddress));
    assert_eq!(s.udp_send(six, end("10.0.0.2", 9), None, b"x"), Err(UdpError::BadAddress));
    assert_eq!(s.udp_send(four, end("192.0.2.9", 9), None, b"x"), Err(UdpError::NoRoute));
    assert_eq!(
        s.udp_send(four, end("10.0.0.2", 9), Some(addr("10.0.0.9")), b"x"),
        Err(UdpError::BadAddress)
    );
    assert_eq!(
        s.udp_send(four, end("10.0.0.2", 9), None, &vec![0; 65_508]),
        Err(UdpError::TooLong)
    );
    assert_eq!(s.udp_send(four, end("10.0.0.2", 9), None, &vec![0; 65_507]), Ok(()));
    assert_eq!(s.udp_connect(four, end("10.0.0.255", 9)), Err(UdpError::BadAddress));
    assert_eq!(s.udp_connect(four, end("10.0.0.2", 0)), Ok(()), "which address leads there");
    assert_eq!(s.udp_local(four).map(|at| at.addr), Some(addr("10.0.0.1")), "this one");
}

#[test]
fn checksums_are_looked_at_and_none_is_allowed_over_ipv4_only() {
    let mut net = Net::lan();
    let sockets = [bind(&mut net, "10.0.0.1", 2000), bind(&mut net, "2001:db8::1", 2000)];
    let mut four = udp_packet(("10.0.0.2", 1), ("10.0.0.1", 2000), b"x");
    four[27] ^= 1;
    assert_eq!(net.ingest(&ip_frame(&four)), Some(Drop::Malformed(Malformed::UdpBadChecksum)));
    four[26..28].fill(0);
    assert_eq!(net.ingest(&ip_frame(&four)), None);
    let mut six = udp_packet(("2001:db8::2", 1), ("2001:db8::1", 2000), b"x");
    six[46..48].fill(0);
    assert_eq!(net.ingest(&ip_frame(&six)), Some(Drop::Malformed(Malformed::UdpZeroChecksumV6)));
    assert_eq!(sockets.map(|s| received(&mut net, s).len()), [1, 0]);
}

#[test]
fn lengths_that_lie_are_refused_and_padding_is_cut_off() {
    let mut net = Net::tun();
    let socket = bind(&mut net, "10.0.0.1", 2000);
    for len in [0u16, 7, 14] {
        let mut p = udp_packet(("10.0.0.2", 1), ("10.0.0.1", 2000), b"hello");
        p[24..26].copy_from_slice(&len.to_be_bytes());
        assert_eq!(net.ingest(&p), Some(Drop::Malformed(Malformed::UdpBadLength)), "{len}");
    }
    let mut l4 = udp_datagram(("10.0.0.2", 1), ("10.0.0.1", 2000), b"hello");
    l4.extend_from_slice(b"rubbish");
    assert_eq!(net.ingest(&packet("10.0.0.2", "10.0.0.1", Proto::UDP, &l4)), None);
    assert_eq!(received(&mut net, socket)[0].2, b"hello");
    let zero = udp_packet(("10.0.0.2", 1), ("10.0.0.1", 0), b"x");
    assert_eq!(net.ingest(&zero), Some(Drop::PortZero));
    // Who asked is told that nobody is there.
    let told = net.emit();
    assert_eq!((told.len(), &told[0][20..22]), (1, &[3, 3][..]), "{told:?}");
}

#[test]
fn an_empty_datagram_is_a_datagram() {
    let mut net = Net::tun();
    let socket = bind(&mut net, "10.0.0.1", 2000);
    net.ingest(&udp_packet(("10.0.0.2", 1), ("10.0.0.1", 2000), b""));
    assert_eq!(received(&mut net, socket).len(), 1);
    net.stack.udp_send(socket, end("10.0.0.2", 1), None, b"").unwrap();
    assert_eq!(net.emit()[0].len(), 28);
}

#[test]
fn a_device_that_makes_checksums_gets_the_sum_of_the_pseudo_header() {
    let offloads = Offloads { tx_checksum: true, ..Offloads::default() };
    let mut net = Net::new(&[(InterfaceSpec { offloads, ..raw(1500) }, &["10.0.0.1/24"])]);
    let socket = bind(&mut net, "10.0.0.1", 2000);
    net.stack.udp_send(socket, end("10.0.0.2", 1), None, b"hello").unwrap();
    net.stack.emit(net.now, &mut net.sink);
    let (_, frame, meta) = net.sink.sent.pop_front().unwrap();
    assert_eq!((meta.checksum_start, meta.checksum_offset), (20, 6));
    // What the device does: the sum of everything from the start on, complemented, goes into the
    // field.
    let mut l4 = frame[20..].to_vec();
    let sum = clearway_wire::checksum::sum(&l4).finish();
    l4[6..8].copy_from_slice(&sum.to_be_bytes());
    assert!(udp::check(&addr("10.0.0.1"), &addr("10.0.0.2"), &l4, true).is_ok());
}

#[test]
fn broadcasts_and_multicasts_leave_without_asking_for_neighbours() {
    let mut net = Net::new(&[(ethernet(1500), &["10.0.0.1/24"])]);
    let socket = bind(&mut net, "0.0.0.0", 2000);
    for (to, mac) in [("10.0.0.255", [255; 6]), ("224.0.0.251", [1, 0, 0x5e, 0, 0, 251])] {
        net.stack.udp_send(socket, end(to, 9), None, b"x").unwrap();
        let sent = net.emit();
        assert_eq!(sent.len(), 1);
        assert_eq!(eth::check(&sent[0]).unwrap().dst().0, mac);
    }
    assert_eq!(net.stack.neighbours().count(), 0);
}

#[test]
fn tos_and_hops_are_the_sockets() {
    let mut net = Net::tun();
    let (four, six) = (bind(&mut net, "10.0.0.1", 1), bind(&mut net, "2001:db8::1", 1));
    for (socket, to) in [(four, "10.0.0.2"), (six, "2001:db8::2")] {
        net.stack.udp_set_hops(socket, 0xb8, 7).unwrap();
        net.stack.udp_send(socket, end(to, 9), None, b"x").unwrap();
    }
    let sent = net.emit();
    let v4 = ipv4::check(&sent[0], true).unwrap();
    let v6 = ipv6::check(&sent[1]).unwrap();
    assert_eq!((v4.tos(), v4.ttl(), v4.dont_fragment()), (0xb8, 7, false));
    assert_eq!((v6.traffic_class(), v6.hop_limit()), (0xb8, 7));
}

#[test]
fn identifications_of_datagrams_are_no_counter() {
    let mut net = Net::tun();
    let socket = bind(&mut net, "10.0.0.1", 1);
    let mut ids = Vec::new();
    for _ in 0..16 {
        net.stack.udp_send(socket, end("10.0.0.2", 9), None, b"x").unwrap();
        ids.push(ipv4::check(&net.emit()[0], true).unwrap().id());
    }
    let steps: std::collections::BTreeSet<u16> =
        ids.windows(2).map(|w| w[1].wrapping_sub(w[0])).collect();
    assert!(steps.len() > 12, "{ids:?}");
}

#[test]
fn tables_keep_sockets_apart() {
    let mut net = Net::new(&[
        (raw(1500), &["10.0.0.1/24"]),
        (InterfaceSpec { table: Table(1), ..raw(1500) }, &["10.0.0.1/24"]),
    ]);
    let zero = bind(&mut net, "10.0.0.1", 7);
    let one = net.stack.udp_bind(UdpSpec { table: Table(1), ..spec("10.0.0.1", 7) }).unwrap();
    net.ingest_on(Iface(1), &udp_packet(("10.0.0.2", 1), ("10.0.0.1", 7), b"x"));
    assert_eq!((received(&mut net, zero).len(), received(&mut net, one).len()), (0, 1));
    net.stack.udp_send(one, end("10.0.0.2", 1), None, b"x").unwrap();
    net.stack.emit(net.now, &mut net.sink);
    assert_eq!(net.sink.sent[0].0, Iface(1));
}

#[test]
fn what_is_sent_to_ourselves_comes_back_over_loopback() {
    let loopback = InterfaceSpec { link: Link::Loopback, mtu: 65_535, ..raw(0) };
    let offloads = Offloads { trusted_link: true, ..Offloads::default() };
    let mut net = Net::new(&[
        (InterfaceSpec { offloads, ..loopback }, &["127.0.0.1/8", "::1/128"]),
        (ethernet(1500), &["10.0.0.1/24", "2001:db8::1/64"]),
    ]);
    for a in ["127.0.0.1", "10.0.0.1", "::1", "2001:db8::1"] {
        let socket = bind(&mut net, a, 7);
        net.stack.udp_send(socket, end(a, 7), None, b"me").unwrap();
        net.stack.emit(net.now, &mut net.sink);
        let (iface, frame, _) = net.sink.sent.pop_front().unwrap();
        assert_eq!(iface, Iface(0));
        assert_eq!(net.ingest_on(iface, &frame), None);
        assert_eq!(received(&mut net, socket), [(end(a, 7), addr(a), b"me".to_vec())]);
    }
}

#[test]
fn a_socket_may_keep_its_packets_shorter_than_the_way_takes() {
    let mut net = Net::new(&[(loopback(65_535, 0), &["10.0.0.1/24", "2001:db8::1/64"])]);
    let socket = bind(&mut net, "2001:db8::1", 7);
    net.stack.udp_set_mtu(socket, 1_280).unwrap();
    let payload = vec![5; 4_000];
    for (mtu, expected) in [(1_280, 4), (0, 1), (100, 4)] {
        net.stack.udp_set_mtu(socket, mtu).unwrap();
        net.stack.udp_send(socket, end("2001:db8::1", 7), None, &payload).unwrap();
        net.stack.emit(net.now, &mut net.sink);
        assert_eq!(net.sink.sent.len(), expected, "{mtu}");
        while let Some((iface, frame, _)) = net.sink.sent.pop_front() {
            assert!(expected == 1 || frame.len() <= 1_280);
            net.ingest_on(iface, &frame);
        }
        assert_eq!(received(&mut net, socket)[0].2, payload);
    }
}

/// What a datagram of `len` bytes did: the lengths and DF bits of the IPv4 packets that left, or
/// why it was refused.
fn sent_as(
    net: &mut Net,
    socket: UdpId,
    to: &str,
    len: usize,
) -> Result<Vec<(usize, bool)>, UdpError> {
    net.stack.udp_send(socket, end(to, 9), None, &vec![7; len])?;
    net.stack.emit(net.now, &mut net.sink);
    let mut packets = Vec::new();
    while let Some((_, frame, _)) = net.sink.sent.pop_front() {
        let df = frame[0] >> 4 == 4 && ipv4::check(&frame, true).unwrap().dont_fragment();
        packets.push((frame.len(), df));
    }
    Ok(packets)
}

#[test]
fn datagrams_are_cut_whole_or_refused_as_the_owner_says() {
    const CUT: UdpFragmenting =
        UdpFragmenting { refused: false, dont_fragment: false, link_mtu_only: false };
    const HERE: UdpFragmenting = UdpFragmenting { dont_fragment: true, ..CUT };
    const NEVER: UdpFragmenting = UdpFragmenting { refused: true, ..HERE };
    const PROBE: UdpFragmenting = UdpFragmenting { link_mtu_only: true, ..NEVER };
    for (ours, theirs, headers) in
        [("10.0.0.1", "10.0.0.2", 28), ("2001:db8::1", "2001:db8::2", 48)]
    {
        let v4 = headers == 28;
        let mut net = Net::new(&[(raw(1500), &["10.0.0.1/24", "2001:db8::1/64"])]);
        let socket = bind(&mut net, ours, 7);
        let (local, remote) = (addr(ours), addr(theirs));
        net.stack
            .ip
            .learn_path_mtu(net.now, Table(0), &local, &remote, 1_400, &mut net.stack.counters)
            .unwrap();
        // Each: of a datagram that fits, of one that is longer than the path takes, and of one that
        // is longer than the link takes.
        let lens = [1_400 - headers, 1_401 - headers, 1_501 - headers];
        for (how, expected) in [
            (CUT, [Ok((1, false)), Ok((2, false)), Ok((2, false))]),
            (HERE, [Ok((1, true)), Ok((2, false)), Ok((2, false))]),
            (NEVER, [Ok((1, true)), Err(UdpError::TooLong), Err(UdpError::TooLong)]),
            (PROBE, [Ok((1, true)), Ok((1, true)), Err(UdpError::TooLong)]),
        ] {
            net.stack.udp_set_fragmenting(socket, how, how).unwrap();
            for (len, expected) in lens.into_iter().zip(expected) {
                let told = net.stack.udp_path_mtu(socket, Some(end(theirs, 9)), len);
                let mtu = if how.link_mtu_only { 1_500 } else { 1_400 };
                assert_eq!(
                    told,
                    if expected.is_err() { Err(UdpError::TooLong) } else { Ok(mtu) },
                    "{how:?} {len}"
                );
                let found =
                    sent_as(&mut net, socket, theirs, len).map(|sent| (sent.len(), sent[0].1));
                assert_eq!(
                    found,
                    expected.map(|(count, df)| (count, df && v4)),
                    "{how:?} {len} {ours}"
                );
            }
        }
    }
}

#[test]
fn errors_are_reported_one_by_one_when_the_owner_wants_them_so() {
    let mut net = Net::new(&[(raw(1500), &["10.0.0.1/24"])]);
    let socket = bind(&mut net, "0.0.0.0", 7);
    let whole = UdpFragmenting { refused: true, dont_fragment: true, link_mtu_only: false };
    net.stack.udp_set_fragmenting(socket, whole, whole).unwrap();
    let quoted = udp_packet(("10.0.0.1", 7), ("10.0.0.2", 9), b"lost");
    let told = |net: &mut Net, code, mtu| {
        let quoted = &quoted;
        let error = icmpv4::Icmpv4::Unreachable { code, mtu, quoted };
        net.ingest_on(Iface(0), &icmp_v4("10.0.0.254", "10.0.0.1", &error))
    };
    assert_eq!(told(&mut net, icmpv4::UNREACHABLE_PORT, 0), None);
    assert_eq!(net.stack.next_event(), None, "without a peer nothing is told");
    net.stack.udp_set_reports(socket, true).unwrap();
    assert_eq!(told(&mut net, icmpv4::UNREACHABLE_PORT, 0), None);
    let event = net.stack.next_event();
    assert_eq!(event, Some(Event::Udp { socket, token: 7, what: UdpEvents::ERROR }));
    assert_eq!(net.stack.udp_error(socket), Some(Unreachable::Port));
    assert_eq!(
        net.stack.udp_send(socket, end("10.0.0.2", 9), None, &[3; 1_473]),
        Err(UdpError::TooLong)
    );
    assert_eq!(net.stack.udp_reports(socket), 2);
    let to = end("10.0.0.2", 9);
    let offender = Some(addr("10.0.0.254"));
    let port = UdpErrorReport {
        why: Some(Unreachable::Port),
        to,
        offender,
        icmp: (3, 3),
        mtu: 0,
        at: Duration::ZERO,
    };
    assert_eq!(net.stack.udp_next_report(socket), Some(port));
    assert_eq!(net.stack.udp_report(socket), Some((port, &b"lost"[..])));
    let long = UdpErrorReport {
        why: None,
        to,
        offender: None,
        icmp: (0, 0),
        mtu: 1_500,
        at: Duration::ZERO,
    };
    assert_eq!(net.stack.udp_report(socket), Some((long, &b""[..])));
    assert_eq!(net.stack.udp_report(socket), None);
    for _ in 0..100 {
        told(&mut net, icmpv4::UNREACHABLE_PORT, 0);
    }
    assert_eq!(net.stack.udp_reports(socket), 16, "no more than there is room for");
}

/// A stack whose loopback carries everything, with a receiver at port 53 and a sender at port 1000.
fn loops(config: Config, mtu: u32) -> (Net, UdpId, UdpId) {
    let mut net = Net::with(config, &[(loopback(mtu, 0), &["10.0.0.1/24", "2001:db8::1/64"])]);
    let (rx, tx) = (bind(&mut net, "10.0.0.1", 53), bind(&mut net, "10.0.0.1", 1000));
    net.stack.udp_connect(tx, end("10.0.0.1", 53)).unwrap();
    (net, rx, tx)
}

#[test]
fn nothing_is_lost_at_a_rate_that_the_receiver_holds() {
    for (mtu, len) in
        [(1_500, 64), (1_500, 1_400), (65_535, 1_400), (65_535, 65_507), (1_500, 65_507)]
    {
        let (mut net, rx, tx) = loops(config(), mtu);
        let (mut sent, mut got) = (0u32, 0u32);
        while sent < 2_000 {
            let mut payload = vec![7; len];
            payload[..4].copy_from_slice(&sent.to_be_bytes());
            match net.stack.udp_send(tx, None, None, &payload) {
                Ok(()) => sent += 1,
                Err(UdpError::Full) => {
                    net.loop_back();
                    while let Some(d) = net.stack.udp_recv(rx) {
                        assert_eq!(d.payload[..4], got.to_be_bytes(), "in order, none missing");
                        got += 1;
                    }
                    let told = core::iter::from_fn(|| net.stack.next_event()).any(|e| {
                        matches!(e, Event::Udp { socket, what, .. } if socket == tx
                            && what.has(UdpEvents::WRITABLE))
                    });
                    assert!(told, "{mtu} {len}: whoever was refused is told of room");
                }
                Err(why) => panic!("{why:?}"),
            }
        }
        net.loop_back();
        got += received(&mut net, rx).len() as u32;
        assert_eq!((got, net.stack.udp_dropped(rx)), (sent, Some(0)), "{mtu} {len}");
    }
}

#[test]
fn room_is_told_of_when_a_quarter_of_the_queue_is_free() {
    let (mut net, _, tx) = loops(config(), 1_500);
    while net.stack.udp_send(tx, None, None, &[0; 1000]).is_ok() {}
    assert!(net.stack.udp_send_room(tx) < 1000);
    let writable = |net: &mut Net| {
        core::iter::from_fn(|| net.stack.next_event()).any(|e| {
            matches!(e, Event::Udp { socket, what, .. } if socket == tx
                && what.has(UdpEvents::WRITABLE))
        })
    };
    let (mut left, mut turns) = (0, 0);
    while !writable(&mut net) {
        net.sink.room = Some(1);
        net.stack.emit(net.now, &mut net.sink);
        left += 1;
        turns += 1;
        assert!(turns < 1000);
    }
    assert!((65..=70).contains(&left), "{left} of 262 datagrams have left");
    assert_eq!(net.stack.udp_send(tx, None, None, &[0; 1000]), Ok(()));
}

#[test]
fn several_datagrams_in_one_send_leave_as_one_where_the_device_cuts_and_one_by_one_where_not() {
    let data: Vec<u8> = (0..2_500).map(|i| i as u8).collect();
    for uso in [true, false] {
        let spec = InterfaceSpec {
            offloads: Offloads { uso, ..loopback(1_500, 0).offloads },
            ..loopback(1_500, 0)
        };
        let mut net = Net::new(&[(spec, &["10.0.0.1/24"])]);
        let (rx, tx) = (bind(&mut net, "10.0.0.1", 53), bind(&mut net, "10.0.0.1", 1000));
        let how =
            UdpOut { to: Some(end("10.0.0.1", 53)), segment_size: 1_000, ..UdpOut::default() };
        net.stack.udp_send_with(tx, &how, &data).unwrap();
        assert_eq!(net.loop_back(), if uso { 1 } else { 3 });
        let got: Vec<_> = received(&mut net, rx).into_iter().map(|(_, _, bytes)| bytes).collect();
        assert_eq!(got, [&data[..1000], &data[1000..2000], &data[2000..]]);
        assert_eq!(net.stack.counters().udp.datagrams_out, 3);
        assert_eq!(net.stack.counters().udp.datagrams_in, 3);
        net.stack.udp_set_gro(rx, true).unwrap();
        net.stack.udp_send_with(tx, &how, &data).unwrap();
        net.loop_back();
        let first = net.stack.udp_recv(rx).map(|d| (d.segment_size, d.payload.len()));
        assert_eq!(first, Some(if uso { (1_000, 2_500) } else { (0, 1_000) }));
        let bad = |size| UdpOut { segment_size: size, ..how };
        assert_eq!(net.stack.udp_send_with(tx, &bad(1_480), &data), Err(UdpError::BadSegmentSize));
        assert_eq!(net.stack.udp_send_with(tx, &bad(10), &data), Err(UdpError::BadSegmentSize));
    }
}

#[test]
fn datagrams_cut_in_software_go_on_where_a_full_device_stopped_them() {
    let mut net = Net::tun();
    let tx = bind(&mut net, "10.0.0.1", 1000);
    let how = UdpOut { to: Some(end("10.0.0.2", 53)), segment_size: 100, ..UdpOut::default() };
    let data: Vec<u8> = (0..950).map(|i| i as u8).collect();
    net.stack.udp_send_with(tx, &how, &data).unwrap();
    net.sink.room = Some(4);
    assert!(net.stack.emit(net.now, &mut net.sink));
    net.sink.room = None;
    net.stack.emit(net.now, &mut net.sink);
    let all: Vec<u8> = net.sink.take().iter().flat_map(|p| p[28..].to_vec()).collect();
    assert_eq!(all, data);
}

#[test]
fn what_a_datagram_says_of_itself_holds_for_it_alone() {
    let mut net = Net::new(&[(raw(1500), &["10.0.0.1/24", "10.0.0.9/24"])]);
    let tx = bind(&mut net, "0.0.0.0", 1000);
    net.stack.udp_set_hops(tx, 8, 32).unwrap();
    let to = Some(end("10.0.0.2", 53));
    let how = UdpOut {
        to,
        from: Some(addr("10.0.0.9")),
        tos: Some(0x2e),
        ttl: Some(3),
        ..UdpOut::default()
    };
    net.stack.udp_send_with(tx, &how, b"a").unwrap();
    net.stack.udp_send_with(tx, &UdpOut { to, ..UdpOut::default() }, b"b").unwrap();
    let seen: Vec<_> = net
        .emit()
        .iter()
        .map(|p| {
            let ip = ipv4::check(p, true).unwrap();
            (ip.src(), ip.tos(), ip.ttl())
        })
        .collect();
    assert_eq!(seen, [(addr("10.0.0.9"), 0x2e, 3), (addr("10.0.0.1"), 8, 32)]);
}

#[test]
fn a_socket_without_its_peer_hears_everybody_again() {
    let mut net = Net::tun();
    let socket = bind(&mut net, "0.0.0.0", 2000);
    net.stack.udp_connect(socket, end("10.0.0.2", 1000)).unwrap();
    assert_eq!(net.stack.udp_local(socket), Some(end("10.0.0.1", 2000)));
    let stranger = udp_packet(("10.0.0.3", 1000), ("10.0.0.1", 2000), b"hello");
    assert_eq!(net.ingest(&stranger), Some(Drop::UdpPortClosed));
    net.stack.udp_disconnect(socket).unwrap();
    assert_eq!(
        (net.stack.udp_local(socket), net.stack.udp_remote(socket)),
        (Some(end("0.0.0.0", 2000)), None)
    );
    assert_eq!(net.ingest(&stranger), None);
    assert_eq!(received(&mut net, socket).len(), 1);
    assert_eq!(net.stack.udp_disconnect(socket), Ok(()));
}

#[test]
fn one_full_interface_does_not_hold_up_the_sockets_of_another() {
    let mut net = Net::new(&[(raw(1500), &["10.0.0.1/24"]), (raw(1500), &["10.1.0.1/24"])]);
    let (a, b) = (bind(&mut net, "10.0.0.1", 1), bind(&mut net, "10.1.0.1", 1));
    net.stack.udp_send(a, end("10.0.0.2", 1), None, b"stays").unwrap();
    net.stack.udp_send(b, end("10.1.0.2", 1), None, b"goes").unwrap();
    net.sink.full = Some(clearway_pkt::Iface(0));
    assert!(net.stack.emit(net.now, &mut net.sink));
    assert_eq!(net.sink.take().len(), 1);
    net.sink.full = None;
    net.stack.emit(net.now, &mut net.sink);
    assert_eq!(net.sink.take().len(), 1);
}

#[test]
fn who_sends_where_nothing_leads_is_told_at_once() {
    let mut net = Net::tun();
    let socket = bind(&mut net, "10.0.0.1", 1);
    assert_eq!(net.stack.udp_send(socket, end("192.0.2.1", 1), None, b"x"), Err(UdpError::NoRoute));
    net.stack.udp_send(socket, end("10.0.0.2", 1), None, b"x").unwrap();
    net.stack.set_up(clearway_pkt::Iface(0), false);
    assert_eq!(net.stack.udp_send(socket, end("10.0.0.2", 1), None, b"x"), Err(UdpError::NoRoute));
}

/// A socket that shares its port.
fn share(net: &mut Net, local: &str, port: u16, sharing: Sharing) -> UdpId {
    net.stack.udp_bind_shared(spec(local, port), sharing).unwrap()
}

#[test]
fn an_address_is_refused_beside_any_other_that_some_datagram_could_be_for_unless_both_share() {
    const ADDRESSES: [(&str, bool); 6] = [
        ("0.0.0.0", false),
        ("10.0.0.1", false),
        ("10.0.0.3", false),
        ("::", false),
        ("::", true),
        ("2001:db8::1", true),
    ];
    let sharings = [
        Sharing::default(),
        REUSE_ADDRESS,
        REUSE_PORT,
        Sharing { owner: 1, ..REUSE_PORT },
        Sharing { reuse_address: true, ..REUSE_PORT },
    ];
    for (a, a_only) in ADDRESSES {
        for (b, b_only) in ADDRESSES {
            // IPv4 and IPv6 meet in the wildcard of both alone; of one family, equal addresses and
            // wildcards meet.
            let (v4_a, v4_b) = (a.contains('.'), b.contains('.'));
            let meets = match (v4_a, v4_b) {
                (true, true) | (false, false) => {
                    a == b || a == "0.0.0.0" || b == "0.0.0.0" || a == "::" || b == "::"
                }
                (true, false) => b == "::" && !b_only,
                (false, true) => a == "::" && !a_only,
            };
            for first in sharings {
                for second in sharings {
                    let mut net = Net::lan();
                    net.stack.add_address(net.now, Iface(0), cidr("10.0.0.3/24")).unwrap();
                    let one = net
                        .stack
                        .udp_bind_shared(UdpSpec { v6_only: a_only, ..spec(a, 7) }, first)
                        .unwrap();
                    let other = net
                        .stack
                        .udp_bind_shared(UdpSpec { v6_only: b_only, ..spec(b, 7) }, second);
                    let share = first.reuse_address && second.reuse_address
                        || first.reuse_port && second.reuse_port && first.owner == second.owner;
                    assert_eq!(
                        other.is_ok(),
                        share || !meets,
                        "{a} {a_only} {first:?} before {b} {b_only} {second:?}"
                    );
                    net.stack.udp_close(one);
                    if other.is_err() {
                        bind(&mut net, b, 7);
                    }
                }
            }
        }
    }
}

/// Sends datagrams of 64 flows to port 7 and says which of `sockets` each was for.
fn spread(net: &mut Net, sockets: &[UdpId]) -> Vec<usize> {
    let one = |net: &mut Net, port: u16| {
        assert_eq!(
            net.ingest(&ip_frame(&udp_packet(("10.0.0.2", port), ("10.0.0.1", 7), b"x"))),
            None
        );
        let mut took = sockets
            .iter()
            .enumerate()
            .filter(|(_, s)| net.stack.udp_recv(**s).is_some())
            .map(|(at, _)| at);
        let first = took.next().expect("somebody took it");
        assert_eq!(took.next(), None, "a datagram is for one socket");
        first
    };
    (1000..1064).map(|port| one(net, port)).collect()
}

#[test]
fn a_group_shares_datagrams_by_their_flow_and_who_is_connected_comes_before_it() {
    for local in ["10.0.0.1", "0.0.0.0", "::"] {
        let mut net = Net::lan();
        let group: Vec<UdpId> = (0..4).map(|_| share(&mut net, local, 7, REUSE_PORT)).collect();
        let first = spread(&mut net, &group);
        for member in 0..4 {
            let had = first.iter().filter(|at| **at == member).count();
            assert!(had >= 4, "{local}: of 64 flows the socket {member} had {had}: {first:?}");
        }
        assert_eq!(spread(&mut net, &group), first, "{local}: a flow stays with its socket");
        // A member that connects leaves the group, and has its peer's datagrams for itself.
        net.stack.udp_connect(group[2], end("10.0.0.2", 1003)).unwrap();
        let second = spread(&mut net, &group);
        assert_eq!(second.iter().filter(|at| **at == 2).count(), 1, "{local}");
        assert_eq!(second[3], 2, "{local}");
        net.stack.udp_disconnect(group[2]).unwrap();
        assert!(spread(&mut net, &group).iter().filter(|at| **at == 2).count() >= 4, "{local}");
        // Whoever is in the midst of the others may leave.
        for (at, socket) in group.iter().enumerate().take(3) {
            net.stack.udp_close(*socket);
            let left = spread(&mut net, &group);
            assert!(left.iter().all(|had| *had > at), "{local}: {left:?}");
        }
        net.stack.udp_close(group[3]);
        assert_eq!(net.stack.population().udp_sockets, 0);
    }
}

#[test]
fn of_sockets_that_only_reuse_their_address_the_one_bound_last_gets_the_datagrams() {
    let mut net = Net::lan();
    let sockets: Vec<UdpId> =
        (0..3).map(|_| share(&mut net, "10.0.0.1", 7, REUSE_ADDRESS)).collect();
    assert_eq!(spread(&mut net, &sockets), [2; 64]);
    net.stack.udp_close(sockets[2]);
    assert_eq!(spread(&mut net, &sockets), [1; 64]);
    // Who takes IPv6 alone is passed over.
    let mut net = Net::lan();
    let both = share(&mut net, "::", 7, REUSE_ADDRESS);
    let six = net
        .stack
        .udp_bind_shared(UdpSpec { v6_only: true, ..spec("::", 7) }, REUSE_ADDRESS)
        .unwrap();
    assert_eq!(spread(&mut net, &[both, six]), [0; 64]);
}

#[test]
fn what_a_closed_socket_was_given_still_leaves_and_its_port_is_free_at_once() {
    let mut net = Net::lan();
    let socket = bind(&mut net, "10.0.0.1", 7);
    net.emit();
    for number in 0..100u8 {
        net.stack.udp_send(socket, end("10.0.0.2", 9), None, &[number]).unwrap();
    }
    net.stack.udp_close(socket);
    assert_eq!(net.stack.udp_send(socket, end("10.0.0.2", 9), None, b"x"), Err(UdpError::Stale));
    assert_eq!(net.stack.population().udp_sockets, 0);
    assert_eq!(net.stack.udp_sockets().count(), 0);
    let next = bind(&mut net, "10.0.0.1", 7);
    let mut sent = Vec::new();
    while net.stack.wants_emit() {
        sent.extend(net.emit());
    }
    let last_bytes: Vec<u8> = sent.iter().filter_map(|frame| frame.last().copied()).collect();
    assert_eq!(last_bytes, (0..100).collect::<Vec<u8>>());
    assert_eq!(
        (net.stack.counters().udp.datagrams_out, net.stack.counters().udp.lost_after_close),
        (100, 0)
    );
    // The handle of the closed one reaches nobody.
    net.stack.udp_close(socket);
    assert_eq!(net.stack.udp_local(next), Some(end("10.0.0.1", 7)));
}

#[test]
fn what_no_device_takes_from_a_closed_socket_is_counted_in_the_end() {
    let mut net = Net::lan();
    net.sink.room = Some(0);
    let socket = bind(&mut net, "10.0.0.1", 7);
    for number in 0..5u8 {
        net.stack.udp_send(socket, end("10.0.0.2", 9), None, &[number]).unwrap();
    }
    net.stack.udp_close(socket);
    assert!(net.emit().is_empty());
    assert!(net.stack.next_deadline() <= net.now + CLOSED_WAITS);
    net.now += CLOSED_WAITS;
    net.stack.expire(net.now);
    assert_eq!(net.stack.counters().udp.lost_after_close, 5);
    assert!(!net.stack.wants_emit());
    // Closed sockets keep nobody from a place.
    let all = Limits::default().udp_sockets;
    for port in 0..2 * all as u16 {
        let socket = bind(&mut net, "10.0.0.1", 10_000 + port);
        net.stack.udp_send(socket, end("10.0.0.2", 9), None, b"x").unwrap();
        net.stack.udp_close(socket);
    }
    assert_eq!(net.stack.counters().udp.lost_after_close, 5 + u64::from(all));
}

#[test]
fn a_host_without_an_address_speaks_to_its_link_from_0_0_0_0_and_hears_what_is_for_all() {
    let mut net = Net::new(&[(ethernet(1500), &[]), (ethernet(1500), &[])]);
    let socket = bind(&mut net, "0.0.0.0", 68);
    net.stack.udp_send_unnumbered(socket, Iface(1), 67, b"who am I?").unwrap();
    net.stack.emit(net.now, &mut net.sink);
    let (iface, frame, _) = net.sink.sent.pop_front().expect("a frame");
    assert_eq!(iface, Iface(1));
    let eth = clearway_wire::eth::check(&frame).unwrap();
    assert_eq!((eth.dst(), eth.src()), (clearway_wire::Mac::BROADCAST, OUR_MAC));
    let ip = ipv4::check(eth.payload(), true).unwrap();
    assert_eq!((ip.src(), ip.dst()), (addr("0.0.0.0"), addr("255.255.255.255")));
    let datagram = udp::check(&ip.src(), &ip.dst(), ip.payload(), true).unwrap();
    assert_eq!((datagram.src_port(), datagram.dst_port()), (68, 67));
    assert_eq!(datagram.payload(), b"who am I?");
    // Nothing else is sent from there, and not by the ordinary verb.
    let out = UdpOut {
        to: Some(end("255.255.255.255", 67)),
        from: Some(addr("0.0.0.0")),
        iface: Some(Iface(1)),
        ..UdpOut::default()
    };
    assert_eq!(net.stack.udp_send_with(socket, &out, b"x"), Err(UdpError::BadAddress));
    let mut send = |iface, port, len| {
        net.stack.udp_send_unnumbered(socket, Iface(iface), port, &std::vec![0; len])
    };
    assert_eq!(send(1, 67, 1473), Err(UdpError::TooLong));
    assert_eq!(send(1, 0, 1), Err(UdpError::BadAddress));
    assert_eq!(send(7, 67, 1), Err(UdpError::NoRoute));
    net.stack.set_up(Iface(1), false);
    assert_eq!(net.stack.udp_send_unnumbered(socket, Iface(1), 67, b"x"), Err(UdpError::NoRoute));
    let named = bind(&mut net, "0.0.0.0", 69);
    net.stack.udp_close(named);
    assert_eq!(net.stack.udp_send_unnumbered(named, Iface(0), 67, b"x"), Err(UdpError::Stale));
}

#[test]
fn a_datagram_has_the_time_at_which_it_was_taken_in_and_not_that_at_which_it_is_read() {
    let mut net = Net::lan();
    let socket = bind(&mut net, "10.0.0.1", 2000);
    let frame = ip_frame(&udp_packet(("10.0.0.2", 1000), ("10.0.0.1", 2000), b"ask"));
    let arrived = |net: &mut Net, came: u64, read: u64| {
        net.stack.set_calendar(Duration::from_secs(came));
        assert_eq!(net.ingest(&frame), None);
        net.stack.set_calendar(Duration::from_secs(read));
        net.stack.udp_recv(socket).map(|datagram| datagram.arrived)
    };
    assert_eq!(arrived(&mut net, 7, 9), Some(Duration::from_secs(7)));
    assert!(!net.stack.wants_calendar(), "nobody has asked for it");
    net.stack.want_calendar(true);
    assert!(net.stack.wants_calendar());
    assert_eq!(arrived(&mut net, 10, 11), Some(Duration::from_secs(10)));
    net.stack.want_calendar(false);
    assert_eq!(net.ingest(&frame), None);
    let datagram = net.stack.udp_recv(socket).unwrap();
    assert_eq!(datagram.arrived, Duration::ZERO, "nobody tells the stack any more");
}

#[test]
fn who_asks_is_told_when_a_datagram_has_left_and_not_when_it_was_written() {
    let mut net = Net::tun();
    let tx = bind(&mut net, "10.0.0.1", 1000);
    let stamp = UdpStamp { key: 5, scheduled: true, sent: true, keeps_payload: true };
    let how = UdpOut {
        to: Some(end("10.0.0.2", 53)),
        ttl: Some(9),
        stamp: Some(stamp),
        ..UdpOut::default()
    };
    net.stack.set_calendar(Duration::from_secs(1));
    net.stack.udp_send_with(tx, &how, b"question").unwrap();
    net.sink.room = Some(0);
    assert!(net.stack.emit(net.now, &mut net.sink));
    assert_eq!((net.stack.next_stamped(), net.stack.udp_stamps(tx)), (None, 0));
    net.sink.room = None;
    net.stack.set_calendar(Duration::from_secs(2));
    net.stack.emit(net.now, &mut net.sink);
    assert_eq!(net.stack.next_stamped(), Some((tx, 1000)));
    assert_eq!((net.stack.next_stamped(), net.stack.udp_stamps(tx)), (None, 2));
    let expected = UdpStamped {
        stamp,
        what: UdpLeft::Scheduled,
        at: Duration::from_secs(2),
        from: end("10.0.0.1", 1000),
        to: end("10.0.0.2", 53),
        tos: 0,
        ttl: 9,
        iface: Some(Iface(0)),
    };
    assert_eq!(net.stack.udp_stamped(tx), Some((expected, &b"question"[..])));
    let expected = UdpStamped { what: UdpLeft::Sent, ..expected };
    assert_eq!(net.stack.udp_stamped(tx), Some((expected, &b"question"[..])));
    assert_eq!(net.stack.udp_stamped(tx), None);
}

#[test]
fn of_several_datagrams_in_one_send_one_time_is_told_and_of_one_that_nobody_asks_of_none() {
    let mut net = Net::tun();
    let tx = bind(&mut net, "10.0.0.1", 1000);
    let to = Some(end("10.0.0.2", 53));
    let stamp = UdpStamp { key: 0, scheduled: false, sent: true, keeps_payload: false };
    let how = UdpOut { to, segment_size: 100, stamp: Some(stamp), ..UdpOut::default() };
    net.stack.udp_send_with(tx, &how, &[0; 950]).unwrap();
    net.stack.udp_send_with(tx, &UdpOut { to, ..UdpOut::default() }, &[0; 10]).unwrap();
    net.stack.emit(net.now, &mut net.sink);
    assert_eq!(net.stack.udp_stamps(tx), 1);
    assert_eq!(net.stack.udp_stamped(tx).map(|(_, payload)| payload.len()), Some(0));
}

#[test]
fn a_socket_is_told_of_once_however_much_has_left_and_not_when_it_has_ended() {
    let mut net = Net::tun();
    let sockets = [bind(&mut net, "10.0.0.1", 1000), bind(&mut net, "10.0.0.1", 1001)];
    let stamp = UdpStamp { key: 0, scheduled: false, sent: true, keeps_payload: false };
    let to = Some(end("10.0.0.2", 53));
    let how = UdpOut { to, stamp: Some(stamp), ..UdpOut::default() };
    for socket in [sockets[0], sockets[1], sockets[0], sockets[1]] {
        net.stack.udp_send_with(socket, &how, b"question").unwrap();
        net.stack.emit(net.now, &mut net.sink);
    }
    net.stack.udp_close(sockets[0]);
    net.stack.emit(net.now, &mut net.sink);
    assert_eq!(net.stack.next_stamped(), Some((sockets[1], 1001)));
    assert_eq!(net.stack.next_stamped(), None);
    assert_eq!(net.stack.udp_stamps(sockets[1]), 2);
    net.stack.udp_send_with(sockets[1], &how, b"question").unwrap();
    net.stack.emit(net.now, &mut net.sink);
    assert_eq!(net.stack.next_stamped(), Some((sockets[1], 1001)));
}
