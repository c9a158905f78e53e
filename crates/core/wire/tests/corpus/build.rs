//! One packet of every kind, written with the crate's own emitters.

use clearway_wire::arp::{Arp, Operation};
use clearway_wire::eth::{Mac, Tag};
use clearway_wire::icmpv4::Icmpv4;
use clearway_wire::icmpv6::Icmpv6;
use clearway_wire::ndp::{Advert, Dns, NdOption, Ndp, Options, Preference, Prefix, RouteInfo};
use clearway_wire::{
    Addr, EtherType, Flags, Proto, Segment, Seq, TcpOptions, arp, checksum, eth, icmpv4, icmpv6,
    ipv4, ipv6, ipv6_ext, tcp, udp,
};

use super::read::Seen;

pub(crate) struct Packet {
    pub(crate) name: &'static str,
    pub(crate) frame: Vec<u8>,
    /// What reading it should give.
    pub(crate) seen: Seen,
}

const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);
const ETH: usize = eth::HEADER_LEN;

fn addr(s: &str) -> Addr {
    s.parse().unwrap()
}

fn frame(tags: &[Tag], ethertype: EtherType, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 22];
    let len = eth::emit_tagged(PEER, MAC, tags, ethertype, &mut bytes);
    bytes.truncate(len);
    bytes.extend(payload);
    bytes
}

fn header_v4(proto: Proto, payload_len: usize) -> ipv4::Header {
    ipv4::Header {
        src: addr("10.0.0.1"),
        dst: addr("10.0.0.2"),
        proto,
        tos: 2,
        ttl: 64,
        id: 77,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: payload_len as u16,
    }
}

fn ip_v4(header: &ipv4::Header, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    ipv4::emit(header, &mut bytes);
    bytes.extend(payload);
    bytes
}

fn plain_v4(proto: Proto, payload: &[u8]) -> Vec<u8> {
    ip_v4(&header_v4(proto, payload.len()), payload)
}

/// An IPv4 packet with a record-route option and padding.
fn optioned_v4(proto: Proto, payload: &[u8]) -> Vec<u8> {
    let mut bytes = plain_v4(proto, payload);
    bytes.splice(20..20, [1, 7, 7, 4, 0, 0, 0, 0]);
    bytes[0] = 0x47;
    let total = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[10..12].fill(0);
    let sum = checksum::sum(&bytes[..28]).finish();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn ip_v6(src: &str, dst: &str, next: Proto, payload: &[u8]) -> Vec<u8> {
    let header = ipv6::Header {
        src: addr(src),
        dst: addr(dst),
        next,
        traffic_class: 0,
        flow_label: 0x12345,
        hop_limit: 255,
        payload_len: payload.len() as u16,
    };
    let mut bytes = vec![0; 40];
    ipv6::emit(&header, &mut bytes);
    bytes.extend(payload);
    bytes
}

fn plain_v6(next: Proto, payload: &[u8]) -> Vec<u8> {
    ip_v6("fe80::1", "fe80::2", next, payload)
}

fn ends(v6: bool) -> (Addr, Addr) {
    if v6 { (addr("fe80::1"), addr("fe80::2")) } else { (addr("10.0.0.1"), addr("10.0.0.2")) }
}

fn segment(v6: bool, flags: Flags, opts: TcpOptions, data: &[u8]) -> Vec<u8> {
    let segment = Segment {
        src_port: 80,
        dst_port: 4242,
        seq: Seq(0x8000_0000),
        ack: Seq(5),
        flags,
        wnd: 1000,
        opts,
        ..Segment::default()
    };
    let mut bytes = vec![0; tcp::MAX_HEADER_LEN];
    let len = tcp::emit(&segment, &mut bytes);
    bytes.truncate(len);
    bytes.extend(data);
    let (src, dst) = ends(v6);
    tcp::fill_checksum(&src, &dst, &mut bytes);
    bytes
}

fn datagram(v6: bool, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    udp::emit(4242, 53, data.len() as u16, &mut bytes);
    bytes.extend(data);
    let (src, dst) = ends(v6);
    udp::fill_checksum(&src, &dst, &mut bytes);
    bytes
}

fn icmp_v4(message: &Icmpv4<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.emitted_len()];
    icmpv4::emit(message, &mut bytes);
    plain_v4(Proto::ICMP, &bytes)
}

fn icmp_v6(src: &str, dst: &str, message: &Icmpv6<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.emitted_len()];
    icmpv6::emit(&addr(src), &addr(dst), message, &mut bytes);
    ip_v6(src, dst, Proto::ICMPV6, &bytes)
}

fn fragment_header(next: Proto, offset: u16, more: bool) -> Vec<u8> {
    let mut bytes = vec![0; ipv6_ext::FRAGMENT_LEN];
    ipv6_ext::emit_fragment(next, offset, more, 0x0102_0304, &mut bytes);
    bytes
}

fn syn_options() -> TcpOptions {
    TcpOptions {
        mss: Some(1460),
        wscale: Some(7),
        sack_permitted: true,
        ts: Some((1, 0)),
        ..TcpOptions::NONE
    }
}

fn ts_options() -> TcpOptions {
    TcpOptions { ts: Some((0x0a0b_0c0d, 7)), ..TcpOptions::NONE }
}

fn sack_options() -> TcpOptions {
    let mut opts = ts_options();
    for i in 0..3 {
        opts.sack.push(Seq(1000 * i), Seq(1000 * i + 500));
    }
    opts
}

/// Adds a packet of which every byte from `from` on, counted from the start of the IP header, is
/// covered by a checksum.
fn add(
    list: &mut Vec<Packet>,
    name: &'static str,
    kind: &'static str,
    v6: bool,
    packet: Vec<u8>,
    from: usize,
) {
    let len = ETH + packet.len();
    let ethertype = if v6 { EtherType::IPV6 } else { EtherType::IPV4 };
    let seen = Seen { kind, len, covered_from: ETH + from, covered_to: len };
    list.push(Packet { name, frame: frame(&[], ethertype, &packet), seen });
}

pub(crate) fn corpus() -> Vec<Packet> {
    let mut list = Vec::new();
    link(&mut list);
    transport_v4(&mut list);
    transport_v6(&mut list);
    control_v4(&mut list);
    control_v6(&mut list);
    fragments(&mut list);
    list
}

fn link(list: &mut Vec<Packet>) {
    let mut bytes = [0; arp::LEN];
    for (name, operation) in [("arp request", Operation::Request), ("arp reply", Operation::Reply)]
    {
        let (sender, target) = (addr("10.0.0.1"), addr("10.0.0.2"));
        arp::emit(
            &Arp { operation, sender_mac: MAC, sender, target_mac: PEER, target },
            &mut bytes,
        );
        let mut padded = bytes.to_vec();
        padded.resize(46, 0);
        let seen = Seen { kind: "arp", len: ETH + arp::LEN, covered_from: 0, covered_to: 0 };
        list.push(Packet { name, frame: frame(&[], EtherType::ARP, &padded), seen });
    }
    let packet = plain_v4(Proto::TCP, &segment(false, Flags::ACK, TcpOptions::NONE, b""));
    for (name, tags) in [("tagged", &[Tag(5)][..]), ("twice tagged", &[Tag(9), Tag(5)])] {
        let mut frame = frame(tags, EtherType::IPV4, &packet);
        let at = ETH + 4 * tags.len();
        let len = frame.len();
        frame.resize(len.max(64), 0);
        list.push(Packet {
            name,
            frame,
            seen: Seen { kind: "tcp", len, covered_from: at, covered_to: len },
        });
    }
    let seen = Seen { kind: "other", len: ETH, covered_from: 0, covered_to: 0 };
    list.push(Packet {
        name: "a length of old 802.3",
        frame: frame(&[], EtherType(3), b"llc"),
        seen,
    });
}

fn transport_v4(list: &mut Vec<Packet>) {
    let tcp = |flags, opts, data: &[u8]| plain_v4(Proto::TCP, &segment(false, flags, opts, data));
    let data_flags = Flags::PSH | Flags::ACK;
    add(list, "tcp syn", "tcp", false, tcp(Flags::SYN, syn_options(), b""), 0);
    add(list, "tcp data", "tcp", false, tcp(data_flags, ts_options(), b"hello, odd"), 0);
    add(list, "tcp sack", "tcp", false, tcp(Flags::ACK, sack_options(), b""), 0);
    add(list, "tcp rst", "tcp", false, tcp(Flags::RST, TcpOptions::NONE, b""), 0);
    let all = tcp(Flags(0xff), TcpOptions { wscale: Some(3), ..TcpOptions::NONE }, b"x");
    add(list, "tcp all flags", "tcp", false, all, 0);
    let optioned = optioned_v4(Proto::TCP, &segment(false, Flags::ACK, TcpOptions::NONE, b"abc"));
    add(list, "tcp behind ip options", "tcp", false, optioned, 0);
    add(list, "udp", "udp", false, plain_v4(Proto::UDP, &datagram(false, b"question")), 0);
    let mut unsummed = datagram(false, b"question");
    unsummed[6..8].fill(0);
    let packet = plain_v4(Proto::UDP, &unsummed);
    let len = ETH + packet.len();
    let seen = Seen { kind: "udp", len, covered_from: ETH, covered_to: ETH + 20 };
    list.push(Packet {
        name: "udp without checksum",
        frame: frame(&[], EtherType::IPV4, &packet),
        seen,
    });
    let packet = plain_v4(Proto(99), b"unknown");
    let len = ETH + packet.len();
    let seen = Seen { kind: "other", len, covered_from: ETH, covered_to: ETH + 20 };
    list.push(Packet {
        name: "unknown protocol",
        frame: frame(&[], EtherType::IPV4, &packet),
        seen,
    });
}

fn transport_v6(list: &mut Vec<Packet>) {
    let syn = segment(true, Flags::SYN, syn_options(), b"");
    add(list, "tcp6 syn", "tcp", true, plain_v6(Proto::TCP, &syn), 40);
    let data = segment(true, Flags::ACK, ts_options(), b"data");
    add(list, "tcp6 data", "tcp", true, plain_v6(Proto::TCP, &data), 40);
    add(list, "udp6", "udp", true, plain_v6(Proto::UDP, &datagram(true, b"question")), 40);
    let mut chain = vec![Proto::DEST_OPTIONS.0, 0, 5, 2, 0, 0, 1, 0];
    chain.extend([Proto::ROUTING.0, 1, 0x1e, 4, 1, 2, 3, 4, 1, 6, 0, 0, 0, 0, 0, 0]);
    chain.extend([Proto::FRAGMENT.0, 0, 4, 0, 0, 0, 0, 0]);
    chain.extend(fragment_header(Proto::UDP, 0, false));
    chain.extend(datagram(true, b"far behind"));
    add(
        list,
        "udp6 behind extension headers",
        "udp",
        true,
        plain_v6(Proto::HOP_BY_HOP, &chain),
        40 + 40,
    );
    let nothing = plain_v6(Proto::NO_NEXT, b"");
    let from = nothing.len();
    add(list, "no next header", "no-next-header", true, nothing, from);
}

fn control_v4(list: &mut Vec<Packet>) {
    let echo = icmp_v4(&Icmpv4::EchoRequest { id: 1, seq: 2, data: b"ping data" });
    add(list, "echo request", "icmpv4", false, echo, 0);
    let reply = icmp_v4(&Icmpv4::EchoReply { id: 1, seq: 2, data: b"" });
    add(list, "echo reply", "icmpv4", false, reply, 0);
    let other = icmp_v4(&Icmpv4::Other { kind: 13, code: 0, rest: [0, 1, 0, 2], data: &[0; 12] });
    add(list, "timestamp request", "icmpv4", false, other, 0);
    let quoted = plain_v4(Proto::TCP, &segment(false, Flags::ACK, TcpOptions::NONE, b""));
    let quoted = &quoted[..28];
    for (name, message) in [
        ("port unreachable", Icmpv4::Unreachable { code: 3, mtu: 0, quoted }),
        ("fragmentation needed", Icmpv4::Unreachable { code: 4, mtu: 1400, quoted }),
        ("redirect", Icmpv4::Redirect { code: 1, gateway: addr("10.0.0.254"), quoted }),
        ("time exceeded", Icmpv4::TimeExceeded { code: 0, quoted }),
        ("parameter problem", Icmpv4::ParamProblem { code: 0, pointer: 20, quoted }),
    ] {
        add(list, name, "icmpv4-error", false, icmp_v4(&message), 0);
    }
}

fn control_v6(list: &mut Vec<Packet>) {
    let (me, peer) = ("fe80::1", "fe80::2");
    let quoted = plain_v6(Proto::UDP, &datagram(true, b"q"));
    let quoted = &quoted[..];
    for (name, kind, message) in [
        ("echo6 request", "icmpv6", Icmpv6::EchoRequest { id: 1, seq: 2, data: b"ping" }),
        ("echo6 reply", "icmpv6", Icmpv6::EchoReply { id: 1, seq: 2, data: b"" }),
        (
            "multicast report",
            "icmpv6",
            Icmpv6::Other { kind: 143, code: 0, rest: [0, 0, 0, 1], data: &[4; 20] },
        ),
        ("unreachable6", "icmpv6-error", Icmpv6::Unreachable { code: 4, quoted }),
        ("packet too big", "icmpv6-error", Icmpv6::PacketTooBig { mtu: 1280, quoted }),
        ("time exceeded6", "icmpv6-error", Icmpv6::TimeExceeded { code: 1, quoted }),
        (
            "parameter problem6",
            "icmpv6-error",
            Icmpv6::ParamProblem { code: 1, pointer: 6, quoted },
        ),
    ] {
        add(list, name, kind, true, icmp_v6(me, peer, &message), 40);
    }
    let prefix = Prefix {
        prefix: addr("2001:db8::"),
        prefix_len: 64,
        on_link: true,
        autonomous: true,
        valid_s: 86400,
        preferred_s: 3600,
    };
    let route = RouteInfo {
        prefix: addr("2001:db8:5::"),
        prefix_len: 48,
        preference: Some(Preference::Low),
        lifetime_s: 600,
    };
    let servers = [[0x20; 16], [0xfe; 16]].concat();
    let dns = Dns::new(600, &servers).unwrap();
    let (mut a, mut b, mut c) = ([0; 128], [0; 8], [0; 64]);
    let router = Options::build(
        &mut a,
        &[
            NdOption::SourceLink(MAC),
            NdOption::Mtu(1500),
            NdOption::Prefix(prefix),
            NdOption::Route(route),
            NdOption::Dns(dns),
        ],
    );
    let source = Options::build(&mut b, &[NdOption::SourceLink(MAC)]);
    let target_link =
        Options::build(&mut c, &[NdOption::TargetLink(MAC), NdOption::Redirected(&quoted[..48])]);
    let advert = Ndp::RouterAdvert(Advert {
        hop_limit: 64,
        managed: false,
        other: true,
        preference: Preference::High,
        lifetime_s: 1800,
        reachable_ms: 30_000,
        retrans_ms: 1000,
        options: router,
    });
    let target = addr(me);
    let (router, solicited, override_) = (false, true, true);
    let neighbor =
        Ndp::NeighborAdvert { router, solicited, override_, target, options: target_link };
    let redirect = Ndp::Redirect {
        target: addr(peer),
        destination: addr("2001:db8::5"),
        options: target_link,
    };
    let probe = Ndp::NeighborSolicit { target, options: Options::NONE };
    for (name, src, dst, message) in [
        ("router solicitation", me, "ff02::2", Ndp::RouterSolicit { options: source }),
        ("router advertisement", me, "ff02::1", advert),
        (
            "neighbor solicitation",
            me,
            peer,
            Ndp::NeighborSolicit { target: addr(peer), options: source },
        ),
        ("probe for a duplicate", "::", "ff02::1:ff00:1", probe),
        ("neighbor advertisement", me, peer, neighbor),
        ("redirect6", me, peer, redirect),
    ] {
        add(list, name, "ndp", true, icmp_v6(src, dst, &Icmpv6::Ndp(message)), 40);
    }
}

fn fragments(list: &mut Vec<Packet>) {
    let data = [9; 32];
    for (name, fragment_offset, more_fragments) in
        [("first fragment", 0, true), ("last fragment", 1480, false)]
    {
        let header =
            ipv4::Header { fragment_offset, more_fragments, ..header_v4(Proto::UDP, data.len()) };
        let packet = ip_v4(&header, &data);
        let seen = Seen {
            kind: "fragment",
            len: ETH + packet.len(),
            covered_from: ETH,
            covered_to: ETH + 20,
        };
        list.push(Packet { name, frame: frame(&[], EtherType::IPV4, &packet), seen });
    }
    for (name, offset, more) in [("first fragment6", 0, true), ("later fragment6", 1232, true)] {
        let mut payload = fragment_header(Proto::TCP, offset, more);
        payload.extend(data);
        let packet = plain_v6(Proto::FRAGMENT, &payload);
        let seen =
            Seen { kind: "fragment", len: ETH + packet.len(), covered_from: 0, covered_to: 0 };
        list.push(Packet { name, frame: frame(&[], EtherType::IPV6, &packet), seen });
    }
}
