extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_wire::{Endpoint, EtherType, Mac, Malformed, Segment, eth};

use super::*;
use crate::testing::*;
use crate::{NextHop, UdpEvents, UdpSpec};

/// The IP packet in a frame, cut to its length.
fn inner(frame: &[u8]) -> &[u8] {
    eth::check(frame).unwrap().payload()
}

fn v4_message(frame: &[u8]) -> (Addr, Addr, Icmpv4<'_>) {
    let v4 = ipv4::check(inner(frame), true).unwrap();
    assert_eq!(v4.proto(), Proto::ICMP);
    (v4.src(), v4.dst(), icmpv4::check(v4.payload(), true).unwrap())
}

fn v6_message(frame: &[u8]) -> (Addr, Addr, Icmpv6<'_>) {
    let v6 = ipv6::check(inner(frame)).unwrap();
    let message = icmpv6::check(&v6.src(), &v6.dst(), v6.hop_limit(), v6.payload(), true).unwrap();
    (v6.src(), v6.dst(), message)
}

#[test]
fn echo_requests_are_answered_in_both_families() {
    let mut net = Net::lan();
    let sent = net.exchange(&ip_frame(&ping("10.0.0.2", "10.0.0.1", b"hello world")));
    let (src, dst, message) = v4_message(&sent[0]);
    assert_eq!((src, dst), (addr("10.0.0.1"), addr("10.0.0.2")));
    assert_eq!(message, Icmpv4::EchoReply { id: 1, seq: 2, data: b"hello world" });
    let sent = net.exchange(&ip_frame(&ping("2001:db8::2", "2001:db8::1", b"hello world!")));
    let (src, dst, message) = v6_message(&sent[0]);
    assert_eq!((src, dst), (addr("2001:db8::1"), addr("2001:db8::2")));
    assert_eq!(message, Icmpv6::EchoReply { id: 1, seq: 2, data: b"hello world!" });
    assert_eq!(net.stack.counters().icmp.echo_replies_out, 2);
}

#[test]
fn padding_behind_a_short_packet_is_not_part_of_it() {
    let mut net = Net::lan();
    let mut frame = ip_frame(&ping("10.0.0.2", "10.0.0.1", b""));
    frame.resize(60, 0xee);
    let sent = net.exchange(&frame);
    assert_eq!(v4_message(&sent[0]).2, Icmpv4::EchoReply { id: 1, seq: 2, data: b"" });
}

#[test]
fn echo_requests_to_many_hosts_are_not_answered() {
    let mut net = Net::lan();
    let broadcast = |dst, to| framed(PEER_MAC, to, EtherType::IPV4, &ping("10.0.0.2", dst, b"x"));
    for frame in [
        broadcast("10.0.0.255", Mac::BROADCAST),
        broadcast("10.0.0.0", Mac::BROADCAST),
        broadcast("255.255.255.255", Mac::BROADCAST),
        broadcast("224.0.0.1", Mac([1, 0, 0x5e, 0, 0, 1])),
        // Ours alone by its IP address, but for all by its link address.
        broadcast("10.0.0.1", Mac::BROADCAST),
        framed(
            PEER_MAC,
            Mac([0x33, 0x33, 0, 0, 0, 1]),
            EtherType::IPV6,
            &ping("2001:db8::2", "ff02::1", b"x"),
        ),
    ] {
        assert_eq!(net.ingest(&frame), Some(Drop::IcmpBroadcastEcho));
    }
    assert_eq!(net.emit().len(), 0);
}

#[test]
fn a_wrong_checksum_is_not_answered() {
    let mut net = Net::lan();
    let mut frame = ip_frame(&ping("10.0.0.2", "10.0.0.1", b"hello"));
    *frame.last_mut().unwrap() ^= 1;
    assert_eq!(net.ingest(&frame), Some(Drop::Malformed(Malformed::Icmpv4BadChecksum)));
}

#[test]
fn a_long_echo_is_answered_in_fragments() {
    let mut net = Net::lan();
    let data: Vec<u8> = (0..2800u32).map(|n| n as u8).collect();
    for (src, dst) in [("10.0.0.2", "10.0.0.1"), ("2001:db8::2", "2001:db8::1")] {
        let whole = ping(src, dst, &data);
        let mut sent = Vec::new();
        for piece in crate::net::frag::tests::cut(&whole, 1480) {
            sent.extend(net.exchange(&ip_frame(&piece)));
        }
        assert_eq!(sent.len(), 2, "{src}");
        assert!(sent.iter().all(|f| inner(f).len() <= 1500));
        let whole = crate::net::frag::tests::join(
            &sent.iter().map(|f| inner(f).to_vec()).collect::<Vec<_>>(),
        );
        if addr(src).is_v4() {
            assert_eq!(
                icmpv4::check(&whole, true).unwrap(),
                Icmpv4::EchoReply { id: 1, seq: 2, data: &data }
            );
        } else {
            let message = icmpv6::check(&addr(dst), &addr(src), 64, &whole, true).unwrap();
            assert_eq!(message, Icmpv6::EchoReply { id: 1, seq: 2, data: &data });
        }
    }
    assert_eq!(net.stack.counters().ip.fragments_out, 4);
    assert_eq!(net.drops, []);
}

#[test]
fn a_device_that_is_full_loses_no_part_of_a_fragmented_answer() {
    let mut net = Net::lan();
    let data = vec![7; 4000];
    for piece in crate::net::frag::tests::cut(&ping("10.0.0.2", "10.0.0.1", &data), 1480) {
        net.ingest(&ip_frame(&piece));
    }
    let mut sent = Vec::new();
    for _ in 0..3 {
        net.sink.room = Some(1);
        let left = net.stack.emit(net.now, &mut net.sink);
        sent.extend(net.sink.take());
        assert_eq!(left, sent.len() < 3);
    }
    let whole =
        crate::net::frag::tests::join(&sent.iter().map(|f| inner(f).to_vec()).collect::<Vec<_>>());
    assert!(matches!(icmpv4::check(&whole, true),
            Ok(Icmpv4::EchoReply { data: back, .. }) if back == data));
}

#[test]
fn a_closed_udp_port_is_told_with_the_packet_quoted() {
    let mut net = Net::lan();
    let packet = udp_packet(("10.0.0.2", 1000), ("10.0.0.1", 2000), b"anyone there?");
    let sent = net.exchange(&ip_frame(&packet));
    let (src, dst, message) = v4_message(&sent[0]);
    assert_eq!((src, dst), (addr("10.0.0.1"), addr("10.0.0.2")));
    assert_eq!(message, Icmpv4::Unreachable { code: 3, mtu: 0, quoted: &packet });
    let packet = udp_packet(("2001:db8::2", 1000), ("2001:db8::1", 2000), &[9; 1400]);
    let sent = net.exchange(&ip_frame(&packet));
    let (.., message) = v6_message(&sent[0]);
    assert_eq!(message, Icmpv6::Unreachable { code: 4, quoted: &packet[..1232] });
    assert_eq!(inner(&sent[0]).len(), 1280);
    assert_eq!(net.drops, [Drop::UdpPortClosed; 2]);
}

#[test]
fn an_unknown_protocol_is_told() {
    let mut net = Net::lan();
    let p = packet("10.0.0.2", "10.0.0.1", Proto(253), b"12345678");
    let sent = net.exchange(&ip_frame(&p));
    assert_eq!(v4_message(&sent[0]).2, Icmpv4::Unreachable { code: 2, mtu: 0, quoted: &p });
    let p = packet("2001:db8::2", "2001:db8::1", Proto(253), b"12345678");
    let sent = net.exchange(&ip_frame(&p));
    assert_eq!(v6_message(&sent[0]).2, Icmpv6::ParamProblem { code: 1, pointer: 6, quoted: &p });
}

#[test]
fn an_ipv6_option_that_must_be_known_is_told() {
    let mut net = Net::lan();
    // Destination options with option 0x80 (discard and tell), then UDP.
    let mut l4 = vec![17, 0, 0x80, 4, 0, 0, 0, 0];
    l4.extend(udp_datagram(("2001:db8::2", 1), ("2001:db8::1", 2), b"x"));
    let p = packet("2001:db8::2", "2001:db8::1", Proto::DEST_OPTIONS, &l4);
    let sent = net.exchange(&ip_frame(&p));
    assert_eq!(v6_message(&sent[0]).2, Icmpv6::ParamProblem { code: 2, pointer: 42, quoted: &p });
    assert_eq!(net.drops, [Drop::Malformed(Malformed::Ipv6ExtUnknownOption)]);
}

#[test]
fn nothing_that_could_multiply_is_answered() {
    let mut net = Net::lan();
    let udp = |src, dst| udp_packet((src, 1), (dst, 2), b"x");
    let v4 = |to, p: &[u8]| framed(PEER_MAC, to, EtherType::IPV4, p);
    let quoted = udp("10.0.0.1", "10.0.0.2");
    let error =
        icmp_v4("10.0.0.2", "10.0.0.1", &Icmpv4::Unreachable { code: 3, mtu: 0, quoted: &quoted });
    let unknown_error =
        packet("2001:db8::2", "2001:db8::1", Proto::ICMPV6, &[100, 0, 0, 0, 0, 0, 0, 0]);
    let options = |src, dst, upper: u8| {
        let mut l4 = vec![upper, 0, 0x80, 4, 0, 0, 0, 0];
        // An ICMPv6 error inside: type 1.
        l4.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        packet(src, dst, Proto::DEST_OPTIONS, &l4)
    };
    for frame in [
        v4(Mac::BROADCAST, &udp("10.0.0.2", "10.0.0.255")),
        v4(Mac::BROADCAST, &udp("10.0.0.2", "10.0.0.1")),
        v4(OUR_MAC, &udp("10.0.0.255", "10.0.0.1")),
        v4(OUR_MAC, &udp("0.0.0.0", "10.0.0.1")),
        v4(OUR_MAC, &udp("224.0.0.1", "10.0.0.1")),
        v4(OUR_MAC, &error),
        ip_frame(&unknown_error),
        ip_frame(&options("2001:db8::2", "2001:db8::1", 58)),
        ip_frame(&options("::", "2001:db8::1", 17)),
    ] {
        assert!(net.ingest(&frame).is_some());
        assert_eq!(net.emit().len(), 0, "{frame:?}");
    }
}

#[test]
fn errors_within_the_stack_are_not_held_back() {
    let mut net = Net::new(&[(crate::testing::loopback(1_500, 0), &["127.0.0.1/8"])]);
    let packet = udp_packet(("127.0.0.1", 1000), ("127.0.0.1", 2000), b"x");
    let sent: usize = (0..5_000).map(|_| net.exchange(&packet).len()).sum();
    assert_eq!((sent, net.stack.counters().icmp.errors_limited), (5_000, 0));
}

#[test]
fn errors_are_rate_limited_and_counted() {
    let mut net = Net::lan();
    let frame = ip_frame(&udp_packet(("10.0.0.2", 1000), ("10.0.0.1", 2000), b"x"));
    let mut sent = 0;
    for _ in 0..5_000 {
        sent += net.exchange(&frame).len();
    }
    assert!((50..=100).contains(&sent), "{sent}");
    assert_eq!(net.stack.counters().icmp.errors_limited + sent as u64, 5_000);
    assert_eq!(net.stack.counters().drops(Drop::UdpPortClosed), 5_000);
}

#[test]
fn more_replies_than_fit_are_refused_and_counted() {
    let mut net = Net::lan();
    let frame = ip_frame(&ping("10.0.0.2", "10.0.0.1", b"x"));
    let most = usize::from(config().limits.replies);
    for _ in 0..most + 10 {
        net.ingest(&frame);
    }
    assert_eq!(net.stack.counters().drops(Drop::RepliesFull), 10);
    assert_eq!(net.emit().len(), most);
}

fn socket(net: &mut Net) -> crate::UdpId {
    let local = Endpoint::new(addr("10.0.0.1"), 5000);
    let socket =
        net.stack.udp_bind(UdpSpec { table: Table(0), local, token: 3, v6_only: false }).unwrap();
    net.stack.udp_connect(socket, Endpoint::new(addr("10.0.0.2"), 9)).unwrap();
    socket
}

#[test]
fn an_error_reaches_the_socket_whose_packet_it_quotes() {
    let mut net = Net::lan();
    let socket = socket(&mut net);
    let quoted = udp_packet(("10.0.0.1", 5000), ("10.0.0.2", 9), b"x");
    let error =
        icmp_v4("10.0.0.2", "10.0.0.1", &Icmpv4::Unreachable { code: 3, mtu: 0, quoted: &quoted });
    assert_eq!(net.ingest(&ip_frame(&error)), None);
    let event = net.stack.next_event();
    assert_eq!(event, Some(crate::Event::Udp { socket, token: 3, what: UdpEvents::ERROR }));
    assert_eq!(net.stack.udp_error(socket), Some(Unreachable::Port));
    assert_eq!(net.stack.udp_error(socket), None);
}

#[test]
fn a_parameter_problem_reaches_the_socket_and_a_source_quench_nobody() {
    let mut net = Net::lan();
    let socket = socket(&mut net);
    let quoted = udp_packet(("10.0.0.1", 5000), ("10.0.0.2", 9), b"x");
    let problem = Icmpv4::ParamProblem { code: 0, pointer: 20, quoted: &quoted };
    assert_eq!(net.ingest(&ip_frame(&icmp_v4("10.0.0.2", "10.0.0.1", &problem))), None);
    assert_eq!(net.stack.udp_error(socket), Some(Unreachable::Parameter));
    while net.stack.next_event().is_some() {}
    let quench = Icmpv4::Other { kind: 4, code: 0, rest: [0; 4], data: &quoted };
    net.ingest(&ip_frame(&icmp_v4("10.0.0.2", "10.0.0.1", &quench)));
    assert_eq!((net.stack.udp_error(socket), net.stack.next_event()), (None, None));
    assert_eq!(net.emit().len(), 0, "and it is not answered");
}

#[test]
fn a_redirect_changes_no_route() {
    let mut net = Net::lan();
    socket(&mut net);
    let routes: Vec<_> = net.stack.routes().collect();
    let quoted = udp_packet(("10.0.0.1", 5000), ("10.0.0.2", 9), b"x");
    let redirect = Icmpv4::Redirect { code: 1, gateway: addr("10.0.0.9"), quoted: &quoted };
    assert_eq!(
        net.ingest(&ip_frame(&icmp_v4("10.0.0.2", "10.0.0.1", &redirect))),
        Some(Drop::Redirect)
    );
    assert_eq!(net.stack.routes().collect::<Vec<_>>(), routes);
    assert_eq!(net.emit().len(), 0);
}

#[test]
fn errors_that_quote_no_packet_of_ours_change_nothing() {
    let mut net = Net::lan();
    socket(&mut net);
    let unreachable = |quoted: &[u8]| {
        icmp_v4("10.0.0.2", "10.0.0.1", &Icmpv4::Unreachable { code: 3, mtu: 0, quoted })
    };
    for (quoted, why) in [
        (udp_packet(("10.0.0.1", 5001), ("10.0.0.2", 9), b"x"), Drop::IcmpUnmatched),
        (udp_packet(("10.0.0.9", 5000), ("10.0.0.2", 9), b"x"), Drop::IcmpUnmatched),
        (ping("10.0.0.1", "10.0.0.2", b"x"), Drop::IcmpUnmatched),
        (vec![0x45; 10], Drop::Malformed(Malformed::IcmpBadQuote)),
        (vec![], Drop::Malformed(Malformed::IcmpBadQuote)),
    ] {
        assert_eq!(net.ingest(&ip_frame(&unreachable(&quoted))), Some(why));
    }
    assert_eq!(net.stack.next_event(), None);
}

fn too_big(mtu: u16, quoted: &[u8]) -> Vec<u8> {
    let code = icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED;
    ip_frame(&icmp_v4("10.0.0.254", "10.0.0.1", &Icmpv4::Unreachable { code, mtu, quoted }))
}

fn mtu_to(net: &Net, remote: &str) -> Option<u32> {
    let local = if addr(remote).is_v4() { "10.0.0.1" } else { "2001:db8::1" };
    net.stack.ip.path_mtu(Table(0), &addr(local), &addr(remote))
}

#[test]
fn a_path_mtu_is_learned_from_an_error_about_a_packet_of_ours() {
    let mut net = Net::lan();
    net.stack.add_route(Table(0), cidr("0.0.0.0/0"), NextHop::Gateway(addr("10.0.0.2"))).unwrap();
    socket(&mut net);
    let quoted = udp_packet(("10.0.0.1", 5000), ("10.0.0.2", 9), &[0; 1400]);
    assert_eq!(net.ingest(&too_big(1300, &quoted[..28])), None);
    assert_eq!(mtu_to(&net, "10.0.0.2"), Some(1300));
    assert_eq!(mtu_to(&net, "192.0.2.1"), Some(1500), "other destinations are not concerned");
    // A router that does not tell: the next plateau below the packet's length.
    assert_eq!(net.ingest(&too_big(0, &quoted[..28])), None);
    assert_eq!(mtu_to(&net, "10.0.0.2"), Some(1006));
}

#[test]
fn a_path_mtu_that_cannot_be_true_is_not_believed() {
    let mut net = Net::lan();
    socket(&mut net);
    let long = udp_packet(("10.0.0.1", 5000), ("10.0.0.2", 9), &[0; 1400]);
    let short = udp_packet(("10.0.0.1", 5000), ("10.0.0.2", 9), &[0; 100]);
    let stranger = udp_packet(("10.0.0.1", 5009), ("10.0.0.2", 9), &[0; 1400]);
    for (mtu, quoted, why) in [
        (1500, &long, Drop::IcmpBadMtu),
        (68, &short, Drop::IcmpBadMtu),
        (1300, &short, Drop::IcmpBadMtu),
        (1300, &stranger, Drop::IcmpUnmatched),
    ] {
        assert_eq!(net.ingest(&too_big(mtu, &quoted[..28])), Some(why), "{mtu}");
    }
    assert_eq!(mtu_to(&net, "10.0.0.2"), Some(1500));
    // Believed, but not below the smallest real one.
    assert_eq!(net.ingest(&too_big(68, &long[..28])), None);
    assert_eq!(mtu_to(&net, "10.0.0.2"), Some(552));
    let quoted = udp_packet(("2001:db8::1", 5000), ("2001:db8::2", 9), &[0; 1400]);
    let message = Icmpv6::PacketTooBig { mtu: 1279, quoted: &quoted[..1000] };
    let frame = ip_frame(&icmp_v6("2001:db8::2", "2001:db8::1", 64, &message));
    assert_eq!(net.ingest(&frame), Some(Drop::IcmpBadMtu));
}

#[test]
fn a_tcp_error_must_quote_a_sequence_number_that_tcp_accepts() {
    let mut net = Net::lan();
    let segment = |seq| Segment {
        src_port: 80,
        dst_port: 9,
        seq: clearway_wire::Seq(seq),
        ..Segment::default()
    };
    let quoted = tcp_packet("10.0.0.1", "10.0.0.2", &segment(123), &[0; 1400]);
    assert!(net.ingest(&too_big(1300, &quoted[..28])).is_some(), "there is no such connection");
    assert_eq!(mtu_to(&net, "10.0.0.2"), Some(1500));
    // Without the sequence number there is nothing to believe.
    assert_eq!(net.ingest(&too_big(1300, &quoted[..24])), Some(Drop::IcmpUnmatched));
}

#[test]
fn the_long_wait_for_fragments_is_told_to_the_sender_of_the_first() {
    let mut net = Net::lan();
    let data = vec![7; 2000];
    for (src, dst, seconds) in [("10.0.0.2", "10.0.0.1", 31), ("2001:db8::2", "2001:db8::1", 61)] {
        let pieces = crate::net::frag::tests::cut(&udp_packet((src, 1), (dst, 2), &data), 1480);
        assert_eq!(net.ingest(&ip_frame(&pieces[0])), None);
        let sent = net.pass(seconds);
        assert_eq!(sent.len(), 1);
        if addr(src).is_v4() {
            assert_eq!(
                v4_message(&sent[0]).2,
                Icmpv4::TimeExceeded { code: 1, quoted: &pieces[0][..548] }
            );
        } else {
            assert_eq!(
                v6_message(&sent[0]).2,
                Icmpv6::TimeExceeded { code: 1, quoted: &pieces[0][..1232] }
            );
        }
        // Without the first fragment there is nobody to tell.
        assert_eq!(net.ingest(&ip_frame(&pieces[1])), None);
        assert_eq!(net.pass(seconds).len(), 0);
    }
    assert_eq!(net.stack.counters().ip.reassembly_timeouts, 4);
}
