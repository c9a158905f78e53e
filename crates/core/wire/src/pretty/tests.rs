use std::format;
use std::string::{String, ToString};
use std::vec;
use std::vec::Vec;

use super::*;
use crate::arp::Arp;
use crate::eth::{Mac, Tag};
use crate::seq::Seq;
use crate::tcp::{Segment, TcpOptions};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

fn addr(s: &str) -> Addr {
    s.parse().unwrap()
}

fn ipv4_packet(proto: Proto, payload: &[u8]) -> Vec<u8> {
    fragment_v4(proto, payload, 0, false)
}

fn fragment_v4(
    proto: Proto,
    payload: &[u8],
    fragment_offset: u16,
    more_fragments: bool,
) -> Vec<u8> {
    let header = ipv4::Header {
        src: addr("10.0.0.1"),
        dst: addr("10.0.0.2"),
        proto,
        tos: 0,
        ttl: 64,
        id: 7,
        dont_fragment: false,
        more_fragments,
        fragment_offset,
        payload_len: payload.len() as u16,
    };
    let mut bytes = vec![0; 20];
    ipv4::emit(&header, &mut bytes);
    bytes.extend(payload);
    bytes
}

fn ipv6_packet(src: &str, dst: &str, next: Proto, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        src: addr(src),
        dst: addr(dst),
        next,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 255,
        payload_len: payload.len() as u16,
    };
    let mut bytes = vec![0; 40];
    ipv6::emit(&header, &mut bytes);
    bytes.extend(payload);
    bytes
}

fn tcp_bytes(segment: &Segment, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 60];
    let len = tcp::emit(segment, &mut bytes);
    bytes.truncate(len);
    bytes.extend(data);
    bytes
}

fn udp_bytes(data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    udp::emit(4242, 53, data.len() as u16, &mut bytes);
    bytes[6] = 1;
    bytes.extend(data);
    bytes
}

fn line(packet: &[u8]) -> String {
    Packet(packet).to_string()
}

#[test]
fn a_syn_ack_reads_as_in_tcpdump() {
    let opts = TcpOptions {
        mss: Some(1460),
        wscale: Some(7),
        sack_permitted: true,
        ts: Some((1, 1)),
        ..TcpOptions::NONE
    };
    let segment = Segment {
        src_port: 80,
        dst_port: 4242,
        seq: Seq(1),
        ack: Seq(2),
        flags: Flags::SYN | Flags::ACK,
        wnd: 65535,
        opts,
        ..Segment::default()
    };
    assert_eq!(
        line(&ipv4_packet(Proto::TCP, &tcp_bytes(&segment, b""))),
        "10.0.0.1:80 > 10.0.0.2:4242: Flags [S.], seq 1, ack 2, win 65535, \
         options [mss 1460,sackOK,TS val 1 ecr 1,nop,wscale 7], length 0"
    );
}

#[test]
fn data_urgent_pointer_and_sack_blocks_are_told() {
    let mut segment = Segment {
        src_port: 1,
        dst_port: 2,
        seq: Seq(u32::MAX),
        flags: Flags::PSH | Flags::ACK | Flags::URG,
        urg: 3,
        ..Segment::default()
    };
    segment.opts.sack.push(Seq(10), Seq(20));
    segment.opts.sack.push(Seq(30), Seq(40));
    assert_eq!(
        line(&ipv6_packet("2001:db8::1", "2001:db8::2", Proto::TCP, &tcp_bytes(&segment, b"abc"))),
        "[2001:db8::1]:1 > [2001:db8::2]:2: Flags [P.U], seq 4294967295:2, ack 0, win 0, urg 3, \
         options [nop,nop,sack 2 {10:20}{30:40}], length 3"
    );
}

#[test]
fn udp_and_unknown_protocols_tell_their_length() {
    assert_eq!(
        line(&ipv4_packet(Proto::UDP, &udp_bytes(b"12345"))),
        "10.0.0.1:4242 > 10.0.0.2:53: UDP, length 5"
    );
    assert_eq!(line(&ipv4_packet(Proto(99), &[0; 9])), "10.0.0.1 > 10.0.0.2: proto-99, length 9");
}

#[test]
fn fragments_tell_their_place() {
    assert_eq!(
        line(&fragment_v4(Proto::UDP, &[0; 512], 1480, true)),
        "10.0.0.1 > 10.0.0.2: udp fragment, id 7, offset 1480, more follow, length 512"
    );
    let mut part = vec![0; 8];
    ipv6_ext::emit_fragment(Proto::UDP, 1232, false, 9, &mut part);
    part.extend([0; 10]);
    assert_eq!(
        line(&ipv6_packet("2001:db8::1", "2001:db8::2", Proto::FRAGMENT, &part)),
        "2001:db8::1 > 2001:db8::2: udp fragment, id 9, offset 1232, length 10"
    );
}

#[test]
fn icmp_errors_tell_about_whom() {
    let quoted = ipv4_packet(Proto::UDP, &udp_bytes(b""));
    let mut out = vec![0; 200];
    let message = Icmpv4::Unreachable { code: icmpv4::UNREACHABLE_PORT, mtu: 0, quoted: &quoted };
    let len = icmpv4::emit(&message, &mut out);
    assert_eq!(
        line(&ipv4_packet(Proto::ICMP, &out[..len])),
        "10.0.0.1 > 10.0.0.2: ICMP port unreachable, about 10.0.0.1:4242 > 10.0.0.2:53 udp, \
         length 36"
    );
    let len = icmpv4::emit(&Icmpv4::EchoRequest { id: 1, seq: 2, data: &[0; 56] }, &mut out);
    assert_eq!(
        line(&ipv4_packet(Proto::ICMP, &out[..len])),
        "10.0.0.1 > 10.0.0.2: ICMP echo request, id 1, seq 2, length 64"
    );
}

#[test]
fn neighbour_discovery_is_told_with_its_options() {
    let mut scratch = [0; 8];
    let options = Options::build(&mut scratch, &[NdOption::SourceLink(MAC)]);
    let message = Icmpv6::Ndp(Ndp::NeighborSolicit { target: addr("fe80::2"), options });
    let (src, dst) = ("fe80::1", "ff02::1:ff00:2");
    let mut out = vec![0; 100];
    let len = icmpv6::emit(&addr(src), &addr(dst), &message, &mut out);
    assert_eq!(
        line(&ipv6_packet(src, dst, Proto::ICMPV6, &out[..len])),
        "fe80::1 > ff02::1:ff00:2: ICMP6, neighbor solicitation, who has fe80::2, source link \
         02:00:00:00:00:01, length 32"
    );
    let advert = Ndp::NeighborAdvert {
        router: false,
        solicited: true,
        override_: true,
        target: addr("fe80::2"),
        options: Options::NONE,
    };
    let len = icmpv6::emit(&addr("fe80::2"), &addr(src), &Icmpv6::Ndp(advert), &mut out);
    assert_eq!(
        line(&ipv6_packet("fe80::2", src, Proto::ICMPV6, &out[..len])),
        "fe80::2 > fe80::1: ICMP6, neighbor advertisement, tgt is fe80::2, solicited, override, \
         length 24"
    );
}

#[test]
fn arp_and_tags_are_told() {
    let arp = Arp {
        operation: Operation::Request,
        sender_mac: MAC,
        sender: addr("10.0.0.1"),
        target_mac: Mac::ZERO,
        target: addr("10.0.0.2"),
    };
    let mut frame = vec![0; 64];
    let at = eth::emit_tagged(Mac::BROADCAST, MAC, &[Tag(5)], EtherType::ARP, &mut frame);
    arp::emit(&arp, &mut frame[at..]);
    let text = "vlan 5, arp who-has 10.0.0.2 tell 10.0.0.1 (02:00:00:00:00:01)";
    assert_eq!(Frame(&frame).to_string(), text);
    assert_eq!(
        LinkFrame(&frame).to_string(),
        format!("02:00:00:00:00:01 > ff:ff:ff:ff:ff:ff, {text}")
    );
    arp::emit(&Arp { operation: Operation::Reply, ..arp }, &mut frame[at..]);
    assert_eq!(Frame(&frame).to_string(), "vlan 5, arp reply 10.0.0.1 is-at 02:00:00:00:00:01");
}

#[test]
fn what_cannot_be_read_is_named() {
    assert_eq!(line(&[]), "[not an IP packet], length 0");
    assert_eq!(line(&[0x45; 10]), "[ipv4-too-short], length 10");
    assert_eq!(Frame(&[0; 5]).to_string(), "[eth-too-short], length 5");
    assert_eq!(
        line(&ipv4_packet(Proto::TCP, &[0; 19])),
        "10.0.0.1 > 10.0.0.2: tcp [tcp-too-short], length 19"
    );
    let mut broken =
        tcp_bytes(&Segment { src_port: 1, dst_port: 2, ..Segment::default() }, &[34, 1, 0, 0]);
    broken[12] = 0x60;
    assert_eq!(
        line(&ipv4_packet(Proto::TCP, &broken)),
        "10.0.0.1:1 > 10.0.0.2:2: Flags [none], seq 0, win 0, options [[broken]], length 0"
    );
}
