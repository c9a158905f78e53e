//! The crate against etherparse, an independent reader and writer of packets: both must see the
//! same fields and the same checksums.

mod common;

use clearway_wire::eth::{self, Mac};
use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::icmpv6::{self, Icmpv6};
use clearway_wire::{
    Addr, EtherType, Flags, Proto, SackBlocks, Segment, Seq, TcpOptions, ipv4, ipv6, ipv6_ext, tcp,
    udp,
};
use common::segment_with;
use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Extensions, Ipv4Header, Ipv6Extensions, Ipv6FlowLabel,
    Ipv6FragmentHeader, Ipv6Header, NetSlice, PacketBuilder, SlicedPacket, TcpHeader,
    TcpOptionElement, TransportSlice,
};
use proptest::collection::vec;
use proptest::prelude::*;

prop_compose! {
    /// Options with one block at most: etherparse is told of one.
    fn options()(
        ts in any::<Option<(u32, u32)>>(),
        mss in any::<Option<u16>>(),
        wscale in any::<Option<u8>>(),
        sack_permitted in any::<bool>(),
        block in any::<Option<(u32, u32)>>(),
    ) -> TcpOptions {
        let mut opts = TcpOptions { ts, mss, wscale, sack_permitted, ..TcpOptions::NONE };
        if let Some((left, right)) = block {
            opts.sack.push(Seq(left), Seq(right));
        }
        opts
    }
}

fn segment() -> impl Strategy<Value = Segment> {
    segment_with(options())
}

/// Addresses of one family; the first byte keeps IPv6 away from the mapped prefix.
fn ends() -> impl Strategy<Value = (Addr, Addr)> {
    let v6 = || {
        any::<[u8; 16]>().prop_map(|mut octets| {
            octets[0] |= 0x20;
            Addr::v6(octets)
        })
    };
    let v4 = || any::<[u8; 4]>().prop_map(Addr::v4);
    prop_oneof![(v4(), v4()), (v6(), v6())]
}

/// An IP header of ours before `payload`.
fn packet(src: Addr, dst: Addr, proto: Proto, payload: &[u8]) -> Vec<u8> {
    let payload_len = payload.len() as u16;
    let mut bytes = vec![0; 40];
    let len = if src.is_v4() {
        let (tos, ttl, id, dont_fragment) = (0xb9, 61, 0x1234, true);
        let (more_fragments, fragment_offset) = (false, 0);
        let header = ipv4::Header {
            src,
            dst,
            proto,
            tos,
            ttl,
            id,
            dont_fragment,
            more_fragments,
            fragment_offset,
            payload_len,
        };
        ipv4::emit(&header, &mut bytes)
    } else {
        let (traffic_class, flow_label, hop_limit) = (0xb9, 0x54321, 61);
        let header = ipv6::Header {
            src,
            dst,
            next: proto,
            traffic_class,
            flow_label,
            hop_limit,
            payload_len,
        };
        ipv6::emit(&header, &mut bytes)
    };
    bytes.truncate(len);
    bytes.extend(payload);
    bytes
}

/// Holds our IP header against what etherparse reads of it.
fn same_ip(read: &SlicedPacket<'_>, src: Addr, dst: Addr, proto: Proto, payload: &[u8]) {
    match read.net.as_ref().unwrap() {
        NetSlice::Ipv4(ip) => {
            let h = ip.header();
            assert_eq!(
                (Addr::v4(h.source()), Addr::v4(h.destination()), h.protocol().0),
                (src, dst, proto.0)
            );
            assert_eq!(
                (h.ttl(), h.identification(), h.dont_fragment(), h.more_fragments()),
                (61, 0x1234, true, false)
            );
            assert_eq!(
                (h.dcp().value() << 2 | h.ecn().value(), h.fragments_offset().value()),
                (0xb9, 0)
            );
            assert_eq!(h.header_checksum(), h.to_header().calc_header_checksum());
            assert_eq!(ip.payload().payload, payload);
        }
        NetSlice::Ipv6(ip) => {
            let h = ip.header();
            assert_eq!(
                (Addr::v6(h.source()), Addr::v6(h.destination()), h.next_header().0),
                (src, dst, proto.0)
            );
            assert_eq!(
                (h.hop_limit(), h.traffic_class(), h.flow_label().value()),
                (61, 0xb9, 0x54321)
            );
            assert_eq!(ip.payload().payload, payload);
        }
        NetSlice::Arp(_) => panic!("this is no ARP"),
    }
}

fn elements(opts: &TcpOptions) -> Vec<TcpOptionElement> {
    let mut list = Vec::new();
    list.extend(opts.mss.map(TcpOptionElement::MaximumSegmentSize));
    list.extend(opts.sack_permitted.then_some(TcpOptionElement::SelectiveAcknowledgementPermitted));
    list.extend(opts.ts.map(|(val, ecr)| TcpOptionElement::Timestamp(val, ecr)));
    list.extend(opts.wscale.map(TcpOptionElement::WindowScale));
    let blocks: Vec<_> = opts.sack.iter().map(|(l, r)| (l.0, r.0)).collect();
    if let [first] = blocks[..] {
        list.push(TcpOptionElement::SelectiveAcknowledgement(first, [None; 3]));
    }
    list
}

fn ip_headers(src: Addr, dst: Addr) -> IpHeaders {
    if src.is_v4() {
        let header =
            Ipv4Header::new(0, 64, IpNumber::TCP, src.v4_octets(), dst.v4_octets()).unwrap();
        IpHeaders::Ipv4(header, Ipv4Extensions::default())
    } else {
        let header = Ipv6Header {
            source: *src.octets(),
            destination: *dst.octets(),
            hop_limit: 64,
            ..Default::default()
        };
        IpHeaders::Ipv6(header, Ipv6Extensions::default())
    }
}

/// Source, destination, upper protocol and its bytes as we read them.
fn our_ip(bytes: &[u8]) -> (Addr, Addr, Proto, &[u8]) {
    if bytes[0] >> 4 == 4 {
        let ip = ipv4::check(bytes, true).unwrap();
        (ip.src(), ip.dst(), ip.proto(), ip.payload())
    } else {
        let ip = ipv6::check(bytes).unwrap();
        let chain = ipv6_ext::walk(&ip).unwrap();
        (ip.src(), ip.dst(), chain.upper, chain.bytes)
    }
}

proptest! {
    #[test]
    fn etherparse_reads_our_tcp((src, dst) in ends(), segment in segment(),
        data in vec(any::<u8>(), 0..300)) {
        let mut bytes = vec![0; 60];
        let len = tcp::emit(&segment, &mut bytes);
        bytes.truncate(len);
        bytes.extend(&data);
        tcp::fill_checksum(&src, &dst, &mut bytes);
        let mut frame = vec![0; 14];
        let ethertype = if src.is_v4() { EtherType::IPV4 } else { EtherType::IPV6 };
        eth::emit(Mac([2, 0, 0, 0, 0, 2]), Mac([2, 0, 0, 0, 0, 1]), ethertype, &mut frame);
        frame.extend(packet(src, dst, Proto::TCP, &bytes));
        let read = SlicedPacket::from_ethernet(&frame).unwrap();
        same_ip(&read, src, dst, Proto::TCP, &bytes);
        let Some(TransportSlice::Tcp(h)) = read.transport else { panic!("this is TCP") };
        prop_assert_eq!((h.source_port(), h.destination_port()),
            (segment.src_port, segment.dst_port));
        prop_assert_eq!((h.sequence_number(), h.acknowledgment_number()),
            (segment.seq.0, segment.ack.0));
        prop_assert_eq!((h.window_size(), h.urgent_pointer(), h.payload()),
            (segment.wnd, segment.urg, &data[..]));
        let bits = [h.fin(), h.syn(), h.rst(), h.psh(), h.ack(), h.urg(), h.ece(), h.cwr(), h.ns()];
        let flags = bits.iter().enumerate().fold(0, |f, (i, set)| f | u16::from(*set) << i);
        prop_assert_eq!(flags, segment.flags.0);
        let got: Vec<_> = h.options_iterator().map(Result::unwrap)
            .filter(|o| *o != TcpOptionElement::Noop).collect();
        let mut want = elements(&segment.opts);
        // A block and its four bytes of head behind 36 bytes of other options would be too long: it
        // is left out.
        let others = TcpOptions { sack: SackBlocks::NONE, ..segment.opts }.header_len();
        if !segment.opts.sack.is_empty() && others + 12 > 60 {
            want.pop();
        }
        prop_assert_eq!(got, want);
        let checksum = match src.is_v4() {
            true => h.calc_checksum_ipv4(src.v4_octets(), dst.v4_octets()).unwrap(),
            false => h.calc_checksum_ipv6(*src.octets(), *dst.octets()).unwrap(),
        };
        prop_assert_eq!(h.checksum(), checksum);
    }

    #[test]
    fn we_read_tcp_of_etherparse((src, dst) in ends(), segment in segment(),
        data in vec(any::<u8>(), 0..300)) {
        let mut header = TcpHeader::new(segment.src_port, segment.dst_port, segment.seq.0,
            segment.wnd);
        header.acknowledgment_number = segment.ack.0;
        header.urgent_pointer = segment.urg;
        let set = |flag| segment.flags.contains(flag);
        (header.fin, header.syn, header.rst, header.psh) = (set(Flags::FIN), set(Flags::SYN),
            set(Flags::RST), set(Flags::PSH));
        (header.ack, header.urg, header.ece, header.cwr) = (set(Flags::ACK), set(Flags::URG),
            set(Flags::ECE), set(Flags::CWR));
        // The bit that was once NS is AE (RFC 9768).
        header.ns = set(Flags::AE);
        prop_assume!(header.set_options(&elements(&segment.opts)).is_ok());
        let header_len = header.header_len();
        let mut bytes = Vec::new();
        PacketBuilder::ip(ip_headers(src, dst)).tcp_header(header).write(&mut bytes, &data)
            .unwrap();
        let (got_src, got_dst, proto, upper) = our_ip(&bytes);
        prop_assert_eq!((got_src, got_dst, proto), (src, dst, Proto::TCP));
        prop_assert_eq!(tcp::verify_checksum(&src, &dst, upper), Ok(()));
        let got = tcp::parse(upper).unwrap();
        prop_assert_eq!(got, Segment { header_len: header_len as u8, ..segment });
        prop_assert_eq!(&upper[header_len..], &data[..]);
    }

    #[test]
    fn udp_is_the_same_both_ways((src, dst) in ends(), ports in any::<(u16, u16)>(),
        data in vec(any::<u8>(), 0..300)) {
        let mut theirs = Vec::new();
        PacketBuilder::ip(ip_headers(src, dst)).udp(ports.0, ports.1).write(&mut theirs, &data)
            .unwrap();
        let (got_src, got_dst, proto, upper) = our_ip(&theirs);
        prop_assert_eq!((got_src, got_dst, proto), (src, dst, Proto::UDP));
        let got = udp::check(&src, &dst, upper, true).unwrap();
        prop_assert_eq!(((got.src_port(), got.dst_port()), got.payload()), (ports, &data[..]));
        let mut ours = vec![0; 8];
        udp::emit(ports.0, ports.1, data.len() as u16, &mut ours);
        ours.extend(&data);
        udp::fill_checksum(&src, &dst, &mut ours);
        prop_assert_eq!(&ours[..], upper, "byte for byte, with the checksum");
    }

    #[test]
    fn icmp_echo_is_the_same_both_ways((src, dst) in ends(), (id, seq) in any::<(u16, u16)>(),
        data in vec(any::<u8>(), 0..300)) {
        let mut theirs = Vec::new();
        let mut ours = vec![0; 8 + data.len()];
        if src.is_v4() {
            let builder = PacketBuilder::ipv4(src.v4_octets(), dst.v4_octets(), 64);
            builder.icmpv4_echo_request(id, seq).write(&mut theirs, &data).unwrap();
            let message = Icmpv4::EchoRequest { id, seq, data: &data };
            prop_assert_eq!(icmpv4::check(our_ip(&theirs).3, true), Ok(message));
            icmpv4::emit(&message, &mut ours);
        } else {
            let builder = PacketBuilder::ipv6(*src.octets(), *dst.octets(), 64);
            builder.icmpv6_echo_reply(id, seq).write(&mut theirs, &data).unwrap();
            let message = Icmpv6::EchoReply { id, seq, data: &data };
            prop_assert_eq!(icmpv6::check(&src, &dst, 64, our_ip(&theirs).3, true), Ok(message));
            icmpv6::emit(&src, &dst, &message, &mut ours);
        }
        prop_assert_eq!(&ours[..], our_ip(&theirs).3);
    }

    #[test]
    fn ipv4_options_and_fragments_are_read_as_etherparse_writes_them(
        words in 0usize..11, units in 2u16..1000, more in any::<bool>(),
            dont_fragment in any::<bool>(), id in any::<u16>(), ttl in any::<u8>(),
    ) {
        let data = [7; 64];
        let mut header = Ipv4Header::new(data.len() as u16, ttl, IpNumber::UDP, [10, 0, 0, 1],
            [10, 0, 0, 2]).unwrap();
        header.identification = id;
        (header.more_fragments, header.dont_fragment) = (more, dont_fragment);
        header.fragment_offset = IpFragOffset::try_new(units).unwrap();
        let options = vec![1; words * 4];
        header.options = options[..].try_into().unwrap();
        header.set_payload_len(data.len()).unwrap();
        header.header_checksum = header.calc_header_checksum();
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend(data);
        let ip = ipv4::check(&bytes, true).unwrap();
        prop_assert_eq!((ip.id(), ip.ttl(), ip.options(), ip.payload()),
            (id, ttl, &options[..], &data[..]));
        prop_assert_eq!((ip.fragment_offset(), ip.more_fragments(), ip.dont_fragment()),
            (units * 8, more, dont_fragment));
    }

    #[test]
    fn ipv6_fragment_headers_are_read_as_etherparse_writes_them(units in 1u16..1000,
        more in any::<bool>(), id in any::<u32>(), label in 0u32..1 << 20) {
        let data = [7; 64];
        let fragment = Ipv6FragmentHeader::new(IpNumber::UDP, IpFragOffset::try_new(units).unwrap(),
            more, id);
        let header = Ipv6Header {
            flow_label: Ipv6FlowLabel::try_new(label).unwrap(),
            payload_length: 8 + data.len() as u16,
            next_header: IpNumber::IPV6_FRAGMENTATION_HEADER,
            source: *"2001:db8::1".parse::<Addr>().unwrap().octets(),
            destination: *"2001:db8::2".parse::<Addr>().unwrap().octets(),
            ..Default::default()
        };
        let mut bytes = header.to_bytes().to_vec();
        bytes.extend(fragment.to_bytes());
        bytes.extend(data);
        let ip = ipv6::check(&bytes).unwrap();
        let chain = ipv6_ext::walk(&ip).unwrap();
        let part = chain.fragment.unwrap();
        prop_assert_eq!((part.offset, part.more, part.id, part.next),
            (units * 8, more, id, Proto::UDP));
        prop_assert_eq!((chain.bytes, ip.flow_label()), (&data[..], label));
        let mut ours = [0; 8];
        ipv6_ext::emit_fragment(Proto::UDP, units * 8, more, id, &mut ours);
        prop_assert_eq!(ours, fragment.to_bytes());
    }
}
