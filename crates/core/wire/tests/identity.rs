//! What is emitted is checked as the same again, for random field values.

mod common;

use clearway_wire::arp::{Arp, Operation};
use clearway_wire::eth::{self, Mac, Tag};
use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::icmpv6::{self, Icmpv6};
use clearway_wire::ndp::{NdOption, Ndp, Options};
use clearway_wire::pretty::Packet;
use clearway_wire::{
    Addr, EtherType, Proto, SackBlocks, Segment, Seq, TcpOptions, arp, checksum, ipv4, ipv6,
    ipv6_ext, tcp, udp,
};
use common::segment_with;
use proptest::collection::vec;
use proptest::prelude::*;

fn v4() -> impl Strategy<Value = Addr> {
    any::<[u8; 4]>().prop_map(Addr::v4)
}

fn v6() -> impl Strategy<Value = Addr> {
    any::<[u8; 16]>().prop_map(Addr::v6).prop_filter("a mapped address is not IPv6", Addr::is_v6)
}

/// Source and destination of one family.
fn ends() -> impl Strategy<Value = (Addr, Addr)> {
    prop_oneof![(v4(), v4()), (v6(), v6())]
}

fn mac() -> impl Strategy<Value = Mac> {
    any::<[u8; 6]>().prop_map(Mac)
}

prop_compose! {
    fn options()(
        ts in any::<Option<(u32, u32)>>(),
        mss in any::<Option<u16>>(),
        wscale in any::<Option<u8>>(),
        sack_permitted in any::<bool>(),
        blocks in vec(any::<(u32, u32)>(), 0..5),
    ) -> TcpOptions {
        let mut opts = TcpOptions { ts, mss, wscale, sack_permitted, ..TcpOptions::NONE };
        let room = (60 - opts.header_len()).saturating_sub(4) / 8;
        for (left, right) in blocks.into_iter().take(room) {
            opts.sack.push(Seq(left), Seq(right));
        }
        opts
    }
}

fn segment() -> impl Strategy<Value = Segment> {
    segment_with(options())
}

proptest! {
    #[test]
    fn ethernet((dst, src) in (mac(), mac()), tags in vec(any::<u16>(), 0..3), kind in 0x600u16..,
        data in vec(any::<u8>(), 0..50)) {
        prop_assume!(kind != 0x8100 && kind != 0x88a8);
        let tags: Vec<Tag> = tags.into_iter().map(Tag).collect();
        let mut frame = vec![0; 22];
        let len = eth::emit_tagged(dst, src, &tags, EtherType(kind), &mut frame);
        frame.truncate(len);
        frame.extend(&data);
        let got = eth::check(&frame).unwrap();
        prop_assert_eq!((got.dst(), got.src(), got.ethertype()), (dst, src, EtherType(kind)));
        prop_assert_eq!((got.tags(), got.payload(), got.payload_offset()),
            (&tags[..], &data[..], len));
    }

    #[test]
    fn arp_packets(request in any::<bool>(), sender_mac in mac(), sender in v4(),
        target_mac in mac(), target in v4()) {
        let operation = if request { Operation::Request } else { Operation::Reply };
        let arp = Arp { operation, sender_mac, sender, target_mac, target };
        let mut bytes = [0; arp::LEN];
        arp::emit(&arp, &mut bytes);
        prop_assert_eq!(arp::check(&bytes), Ok(arp));
    }

    #[test]
    fn ipv4_headers(
        (src, dst) in (v4(), v4()), proto in any::<u8>(), (tos, ttl) in any::<(u8, u8)>(),
            id in any::<u16>(),
        dont_fragment in any::<bool>(), data in vec(any::<u8>(), 0..100), padding in 0usize..50,
    ) {
        let header = ipv4::Header {
            src, dst, proto: Proto(proto), tos, ttl, id, dont_fragment,
            more_fragments: false, fragment_offset: 0, payload_len: data.len() as u16,
        };
        let mut bytes = vec![0; 20];
        ipv4::emit(&header, &mut bytes);
        bytes.extend(&data);
        bytes.extend(vec![0x55; padding]);
        let ip = ipv4::check(&bytes, true).unwrap();
        prop_assert_eq!((ip.src(), ip.dst(), ip.proto(), ip.tos(), ip.ttl()),
            (src, dst, Proto(proto), tos, ttl));
        prop_assert_eq!((ip.id(), ip.dont_fragment(), ip.is_fragment()),
            (id, dont_fragment, false));
        prop_assert_eq!(ip.payload(), &data[..]);
    }

    #[test]
    fn ipv4_fragments(units in 2u16..8000, more in any::<bool>(), data in vec(any::<u8>(), 1..10)) {
        let data = data.repeat(8);
        let header = ipv4::Header {
            src: Addr::v4([10, 0, 0, 1]), dst: Addr::v4([10, 0, 0, 2]), proto: Proto::TCP, tos: 0,
                ttl: 1, id: 1, dont_fragment: false,
            more_fragments: more, fragment_offset: units * 8, payload_len: data.len() as u16,
        };
        let mut bytes = vec![0; 20];
        ipv4::emit(&header, &mut bytes);
        bytes.extend(&data);
        let ip = ipv4::check(&bytes, true).unwrap();
        prop_assert_eq!((ip.fragment_offset(), ip.more_fragments(), ip.payload()),
            (units * 8, more, &data[..]));
    }

    #[test]
    fn ipv6_headers(
        (src, dst) in (v6(), v6()), traffic_class in any::<u8>(), flow_label in 0u32..1 << 20,
            hop_limit in any::<u8>(),
        data in vec(any::<u8>(), 0..100), fragment in any::<Option<(u16, bool, u32)>>(),
    ) {
        let mut payload = Vec::new();
        let next = match fragment {
            None => Proto::UDP,
            Some((offset, more, id)) => {
                payload.resize(8, 0);
                ipv6_ext::emit_fragment(Proto::UDP, offset, more, id, &mut payload);
                Proto::FRAGMENT
            }
        };
        payload.extend(&data);
        let payload_len = payload.len() as u16;
        let mut bytes = vec![0; 40];
        ipv6::emit(&ipv6::Header { src, dst, next, traffic_class, flow_label, hop_limit,
            payload_len }, &mut bytes);
        bytes.extend(&payload);
        let ip = ipv6::check(&bytes).unwrap();
        prop_assert_eq!((ip.src(), ip.dst(), ip.next(), ip.hop_limit()),
            (src, dst, next, hop_limit));
        prop_assert_eq!((ip.traffic_class(), ip.flow_label(), ip.payload()),
            (traffic_class, flow_label, &payload[..]));
        if let Ok(chain) = ipv6_ext::walk(&ip) {
            prop_assert_eq!((chain.upper, chain.bytes), (Proto::UDP, &data[..]));
            let want = fragment.filter(|(offset, more, _)| offset & !7 != 0 || *more);
            prop_assert_eq!(chain.fragment.map(|f| (f.offset, f.more, f.id)),
                want.map(|(o, m, id)| (o & !7, m, id)));
        } else {
            prop_assert!(fragment.is_some(), "without extension headers nothing can be refused");
        }
    }

    #[test]
    fn tcp_segments((src, dst) in ends(), segment in segment(), data in vec(any::<u8>(), 0..200)) {
        let mut bytes = vec![0xff; 60];
        let len = tcp::emit(&segment, &mut bytes);
        prop_assert_eq!(len, segment.opts.header_len());
        bytes.truncate(len);
        bytes.extend(&data);
        let mut with = bytes[..len].to_vec();
        tcp::fill_checksum(&src, &dst, &mut bytes);
        tcp::fill_checksum_with(&src, &dst, &mut with, checksum::sum(&data), data.len());
        prop_assert_eq!(&with, &bytes[..len]);
        prop_assert_eq!(tcp::verify_checksum(&src, &dst, &bytes), Ok(()));
        prop_assert_eq!(tcp::parse(&bytes), Ok(segment));
    }

    #[test]
    fn tcp_headers_of_any_bytes_are_parsed_to_something_that_parses_back(mut bytes in vec(any::<u8>(), 20..80)) {
        if let Ok(segment) = tcp::parse(&bytes) {
            let mut out = [0; 60];
            let len = tcp::emit(&segment, &mut out);
            let again = tcp::parse(&out[..len]).unwrap();
            let want = TcpOptions { broken: false, ..segment.opts };
            // Options may be written longer than they came, and then SACK blocks are left out.
            if again.opts.sack.len() == want.sack.len() {
                prop_assert_eq!(again.opts, want);
            } else {
                prop_assert_eq!(TcpOptions { sack: SackBlocks::NONE, ..again.opts },
                    TcpOptions { sack: SackBlocks::NONE, ..want });
            }
        }
        bytes[12] = (bytes.len() / 4).min(15) as u8 * 16;
        prop_assert!(tcp::parse(&bytes).is_ok());
    }

    #[test]
    fn udp_datagrams((src, dst) in ends(), ports in any::<(u16, u16)>(),
        data in vec(any::<u8>(), 0..200)) {
        let mut bytes = vec![0xff; 8];
        udp::emit(ports.0, ports.1, data.len() as u16, &mut bytes);
        bytes.extend(&data);
        udp::fill_checksum(&src, &dst, &mut bytes);
        let got = udp::check(&src, &dst, &bytes, true).unwrap();
        prop_assert_eq!(((got.src_port(), got.dst_port()), got.payload()), (ports, &data[..]));
    }

    #[test]
    fn icmpv4_messages(kind in 0u8..7, (a, b) in any::<(u16, u16)>(), code in any::<u8>(),
        data in vec(any::<u8>(), 0..100)) {
        let data = &data[..];
        let message = match kind {
            0 => Icmpv4::EchoRequest { id: a, seq: b, data },
            1 => Icmpv4::EchoReply { id: a, seq: b, data },
            2 => Icmpv4::Unreachable { code, mtu: a, quoted: data },
            3 => Icmpv4::Redirect { code, gateway: Addr::v4([1, 2, a as u8, b as u8]),
                quoted: data },
            4 => Icmpv4::TimeExceeded { code, quoted: data },
            5 => Icmpv4::ParamProblem { code, pointer: a as u8, quoted: data },
            _ => Icmpv4::Other { kind: 40, code, rest: [1, 2, 3, a as u8], data },
        };
        let mut bytes = vec![0xff; message.emitted_len()];
        icmpv4::emit(&message, &mut bytes);
        prop_assert_eq!(icmpv4::check(&bytes, true), Ok(message));
    }

    #[test]
    fn icmpv6_messages(
        (src, dst) in (v6(), v6()), kind in 0u8..7, (a, b) in any::<(u16, u16)>(),
            code in any::<u8>(), word in any::<u32>(),
        data in vec(any::<u8>(), 0..100),
    ) {
        let data = &data[..];
        let message = match kind {
            0 => Icmpv6::EchoRequest { id: a, seq: b, data },
            1 => Icmpv6::EchoReply { id: a, seq: b, data },
            2 => Icmpv6::Unreachable { code, quoted: data },
            3 => Icmpv6::PacketTooBig { mtu: word, quoted: data },
            4 => Icmpv6::TimeExceeded { code, quoted: data },
            5 => Icmpv6::ParamProblem { code, pointer: word, quoted: data },
            _ => Icmpv6::Other { kind: 143, code, rest: word.to_be_bytes(), data },
        };
        let mut bytes = vec![0xff; message.emitted_len()];
        icmpv6::emit(&src, &dst, &message, &mut bytes);
        prop_assert_eq!(icmpv6::check(&src, &dst, 64, &bytes, true), Ok(message));
    }

    #[test]
    fn neighbour_discovery(low in any::<[u8; 8]>(), mac in mac(), flags in any::<[bool; 3]>(),
        mtu in any::<u32>()) {
        let link_local = |last: u8| {
            let mut octets = [0; 16];
            octets[..2].copy_from_slice(&[0xfe, 0x80]);
            octets[8..].copy_from_slice(&low);
            octets[15] = last;
            Addr::v6(octets)
        };
        let (src, dst) = (link_local(1), link_local(2));
        let mut scratch = [0; 16];
        let options = Options::build(&mut scratch,
            &[NdOption::TargetLink(mac), NdOption::Mtu(mtu)]);
        let [router, solicited, override_] = flags;
        let message = Icmpv6::Ndp(Ndp::NeighborAdvert { router, solicited, override_, target: src,
            options });
        let mut bytes = vec![0xff; message.emitted_len()];
        icmpv6::emit(&src, &dst, &message, &mut bytes);
        prop_assert_eq!(icmpv6::check(&src, &dst, 255, &bytes, true), Ok(message));
    }

    #[test]
    fn any_bytes_have_a_line(mut bytes in vec(any::<u8>(), 0..200),
        version in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()]) {
        if let Some(first) = bytes.first_mut() {
            *first = version;
        }
        prop_assert!(!Packet(&bytes).to_string().is_empty());
    }
}
