//! Writes the hand-made part of the corpora: `cargo run -p clearway-fuzz --example seeds`. Each
//! file is one small conversation.

use std::fs;
use std::path::Path;

use clearway_wire::icmpv4::Icmpv4;
use clearway_wire::icmpv6::Icmpv6;
use clearway_wire::ndp::{NdOption, Ndp, Options};
use clearway_wire::{
    Addr, EtherType, Flags, Mac, Proto, Segment, Seq, TcpOptions, arp, eth, icmpv4, icmpv6, ipv4,
    ipv6, ipv6_ext, tcp, udp,
};

const US: Mac = Mac([2, 0, 0, 0, 0, 1]);
const PEER: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn main() -> std::io::Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../fuzz/corpus");
    for (name, frames) in frames() {
        let mut input = Vec::new();
        for (flags, frame) in frames {
            input.push(flags);
            input.extend((frame.len() as u16).to_be_bytes());
            input.extend(frame);
        }
        fs::write(root.join("frame").join(name), input)?;
    }
    for (name, program) in programs() {
        fs::write(root.join("segments").join(name), program)?;
    }
    for (target, name, text) in TEXTS {
        fs::create_dir_all(root.join(target))?;
        fs::write(root.join(target).join(name), text)?;
    }
    fs::create_dir_all(root.join("import"))?;
    for (name, export) in clearway_fuzz::exports() {
        fs::write(root.join("import").join(name), export)?;
    }
    fs::create_dir_all(root.join("peer"))?;
    for (name, program) in peers() {
        fs::write(root.join("peer").join(name), program)?;
    }
    Ok(())
}

/// Texts, each for its target.
const TEXTS: [(&str, &str, &str); 8] = [
    (
        "command",
        "startup",
        "create loopback interface\nset interface state loop0 up\nset interface ip address loop0 \
         172.16.1.1/24\n\
         ip table add 1\nip route add 172.16.2.1/32 table 1 via lookup in table 2\n\
         app ns add id server secret 1234 if loop0 sessions 10\ncomment { a remark\nof two lines }\nshow session verbose --json\n",
    ),
    (
        "command",
        "words",
        "sh int\nset inter state 'loop 0' \"u\\\"p\" # why\npcap trace rx tx max 10 file a.pcapng\nshow ?\n",
    ),
    ("command", "space", "show\u{3000}int\u{a0}\n# \n  \nclear\n"),
    (
        "config",
        "settings",
        "[cores]\nmain = 0\nworkers = \"1-2\"\npolicy = \"other\"\nmode = \"adaptive\"\nspin-us = 50\n[buffers]\nbytes = \"64M\"\n\
         [[ports]]\nport = \"tap:clearway0\"\nname = \"tap0\"\naddresses = [\"172.16.3.1/24\", \"2001:db8:3::1/64\"]\n\
         gateways = [\"172.16.3.254\"]\n[tcp]\ncongestion = \"cubic\"\n[sessions]\nrx-fifo = \"4M\"\n[limits]\nprogram-sessions = 10000\n\
         [[namespaces]]\nid = \"server\"\nsecret = \"1234\"\n",
    ),
    ("config", "wrong", "[cores]\nwokers = 1\n[[ports]]\n[tcp]\ncongestion = \"cubik\"\n"),
    (
        "script",
        "handshake",
        "--ip_version=ipv4\n`true`\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n\
         +0 < S 0:0(0) win 1000 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 7>\n+0 > S. 0:0(0) ack \
             1 <...>\n\
         +.01 < . 1:101(100) ack 1 win 257\n+0 accept(3, ..., ...) = 4\n+0 read(4, ..., 100) = 100\n",
    ),
    (
        "vcl",
        "all",
        "vcl {\n rx-fifo-size 4000000\n tx-fifo-size 4000000 # bytes\n namespace-id server \
         namespace-secret 1234\n\
         app-scope-global app-scope-local app-socket-api /run/x\n wildcard kernel kernel \
             10.0.0.0/8 kernel ::1 }\n",
    ),
    ("vcl", "wrong", "vcl {\n rx-fifo-sice 1\n}\n"),
];

/// What a program does to the host: the steps of `crates/testing/fuzz/src/peer/hostile.rs`.
fn peers() -> Vec<(&'static str, Vec<u8>)> {
    // Ways; then a stream socket (step 0, no options) that is bound, listens, and is connected to
    // by another.
    let open = [0, 0, 0];
    let connection =
        [&open[..], &[1, 0, 8], &[2, 0, 4], &open, &[3, 1, 8], &[15, 0, 2], &[4, 0]].concat();
    let join = |ways: u8, parts: &[&[u8]]| [&[ways], &parts.concat()[..]].concat();
    let to_server = [&open[..], &[3, 0, 255], &[15, 0, 2]].concat();
    let datagrams = [&[0, 1, 0][..], &[1, 0, 8], &[3, 0, 8]].concat();
    vec![
        (
            "peer_connection",
            join(0, &[&connection, &[8, 1, 200, 3], &[15, 3], &[9, 2], &[5, 1], &[15, 7]]),
        ),
        (
            "peer_cut_through",
            join(
                3,
                &[
                    &connection,
                    &[8, 1, 255, 8],
                    &[15, 3],
                    &[9, 2],
                    &[8, 2, 9, 0],
                    &[5, 1],
                    &[15, 6],
                ],
            ),
        ),
        (
            "peer_to_server",
            join(
                3,
                &[
                    &to_server,
                    &[8, 0, 100, 4],
                    &[14, 50],
                    &[12, 0, 3, 1, 0, 0, 0, 0],
                    &[10, 0, 0, 0, 0, 0, 3],
                ],
            ),
        ),
        (
            "peer_liar",
            join(2, &[&connection, &[6, 1, 1, 2, 31], &[8, 1, 1, 0], &[15, 3], &[13, 0], &open]),
        ),
        ("peer_ring", join(0, &[&open, &[6, 0, 255, 2, 30], &[10, 0, 1, 0, 0, 0, 0], &[15, 1]])),
        (
            "peer_datagrams",
            join(
                0,
                &[
                    &datagrams,
                    &[7, 0],
                    &[16, 0, 0, 0, 9, 0, 0, 0],
                    &[8, 0, 64, 0],
                    &[15, 3],
                    &[9, 0],
                ],
            ),
        ),
        (
            "peer_heir",
            join(0, &[&open, &[12, 0, 8], &[13, 1], &[12, 0, 0], &[13, 2], &[5, 0], &[15, 7]]),
        ),
        ("peer_nonsense", join(0, &[&[11, 2], &[0xff; 68], &[13, 0], &open])),
    ]
}

fn v4(host: u8) -> Addr {
    Addr::v4([10, 0, 0, host])
}

fn v6(host: u8) -> Addr {
    Addr::v6([0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, host])
}

fn framed(ethertype: EtherType, dst: Mac, payload: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; eth::HEADER_LEN + payload.len()];
    eth::emit(dst, PEER, ethertype, &mut frame);
    frame[eth::HEADER_LEN..].copy_from_slice(payload);
    frame
}

fn ip4(proto: Proto, id: u16, fragment: Option<(u16, bool)>, payload: &[u8]) -> Vec<u8> {
    let (fragment_offset, more_fragments) = fragment.unwrap_or((0, false));
    let mut packet = vec![0; ipv4::HEADER_LEN + payload.len()];
    let header = ipv4::Header {
        src: v4(2),
        dst: v4(1),
        proto,
        tos: 0,
        ttl: 64,
        id,
        dont_fragment: fragment.is_none(),
        more_fragments,
        fragment_offset,
        payload_len: payload.len() as u16,
    };
    ipv4::emit(&header, &mut packet);
    packet[ipv4::HEADER_LEN..].copy_from_slice(payload);
    framed(EtherType::IPV4, US, &packet)
}

fn ip6(next: Proto, hop_limit: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; ipv6::HEADER_LEN + payload.len()];
    let header = ipv6::Header {
        src: v6(2),
        dst: v6(1),
        next,
        traffic_class: 0,
        flow_label: 0,
        hop_limit,
        payload_len: payload.len() as u16,
    };
    ipv6::emit(&header, &mut packet);
    packet[ipv6::HEADER_LEN..].copy_from_slice(payload);
    framed(EtherType::IPV6, US, &packet)
}

fn datagram(src: Addr, dst: Addr, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; udp::HEADER_LEN + payload.len()];
    bytes[udp::HEADER_LEN..].copy_from_slice(payload);
    udp::emit(4000, 53, payload.len() as u16, &mut bytes);
    udp::fill_checksum(&src, &dst, &mut bytes);
    bytes
}

fn segment(
    src: Addr,
    dst: Addr,
    flags: Flags,
    seq: u32,
    opts: TcpOptions,
    payload: &[u8],
) -> Vec<u8> {
    let segment = Segment {
        src_port: 4000,
        dst_port: 80,
        seq: Seq(seq),
        ack: Seq(0),
        flags,
        wnd: 65_535,
        opts,
        ..Segment::default()
    };
    let mut bytes = vec![0; 60 + payload.len()];
    let header_len = tcp::emit(&segment, &mut bytes);
    bytes[header_len..header_len + payload.len()].copy_from_slice(payload);
    bytes.truncate(header_len + payload.len());
    tcp::fill_checksum(&src, &dst, &mut bytes);
    bytes
}

fn icmp4(message: &Icmpv4<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.emitted_len()];
    icmpv4::emit(message, &mut bytes);
    bytes
}

fn icmp6(message: &Icmpv6<'_>) -> Vec<u8> {
    let mut bytes = vec![0; message.emitted_len()];
    icmpv6::emit(&v6(2), &v6(1), message, &mut bytes);
    bytes
}

/// A name, and the records of one input: flags and a frame each.
type Input = (&'static str, Vec<(u8, Vec<u8>)>);

fn frames() -> Vec<Input> {
    let mut request = vec![0; arp::LEN];
    let question = arp::Arp {
        operation: arp::Operation::Request,
        sender_mac: PEER,
        sender: v4(2),
        target_mac: Mac::ZERO,
        target: v4(1),
    };
    arp::emit(&question, &mut request);
    let ask = framed(EtherType::ARP, Mac::BROADCAST, &request);
    let mut scratch = [0; 64];
    let options = Options::build(&mut scratch, &[NdOption::SourceLink(PEER)]);
    let solicit = ip6(
        Proto::ICMPV6,
        255,
        &icmp6(&Icmpv6::Ndp(Ndp::NeighborSolicit { target: v6(1), options })),
    );
    let ping4 = icmp4(&Icmpv4::EchoRequest { id: 1, seq: 1, data: b"ping" });
    let ping6 = icmp6(&Icmpv6::EchoRequest { id: 1, seq: 1, data: b"ping" });
    let syn_options = TcpOptions {
        mss: Some(1460),
        wscale: Some(7),
        sack_permitted: true,
        ts: Some((1, 0)),
        ..TcpOptions::NONE
    };
    let syn4 = segment(v4(2), v4(1), Flags::SYN, 100, syn_options, &[]);
    let syn6 = segment(v6(2), v6(1), Flags::SYN, 100, syn_options, &[]);
    let question = datagram(v4(2), v4(1), b"who is there?..."); // 24 bytes with its header
    let quoted = ip4(Proto::TCP, 0, None, &syn4)[eth::HEADER_LEN..].to_vec();
    let too_big = icmp4(&Icmpv4::Unreachable {
        code: icmpv4::UNREACHABLE_FRAGMENTATION_NEEDED,
        mtu: 600,
        quoted: &quoted,
    });
    let mut fragment6 = vec![0; ipv6_ext::FRAGMENT_LEN];
    ipv6_ext::emit_fragment(Proto::UDP, 0, true, 7, &mut fragment6);
    fragment6.extend(&datagram(v6(2), v6(1), b"first half")[..16]);
    vec![
        ("arp", vec![(0, ask.clone())]),
        ("ping4", vec![(0, ask.clone()), (0, ip4(Proto::ICMP, 1, None, &ping4))]),
        ("ping6", vec![(0, solicit.clone()), (0, ip6(Proto::ICMPV6, 64, &ping6))]),
        ("syn4", vec![(0, ask.clone()), (0, ip4(Proto::TCP, 2, None, &syn4)), (4, ask.clone())]),
        ("syn6", vec![(0, solicit), (8, ip6(Proto::TCP, 64, &syn6))]),
        (
            "xmas",
            vec![(
                0,
                ip4(Proto::TCP, 2, None, &segment(v4(2), v4(1), Flags(0xff), 1, syn_options, b"x")),
            )],
        ),
        ("udp4", vec![(0, ask.clone()), (16, ip4(Proto::UDP, 3, None, &question))]),
        ("udp6", vec![(16, ip6(Proto::UDP, 64, &datagram(v6(2), v6(1), b"who")))]),
        (
            "fragments4",
            vec![
                (0, ask),
                (0, ip4(Proto::UDP, 9, Some((0, true)), &question[..16])),
                (16, ip4(Proto::UDP, 9, Some((16, false)), &question[16..])),
            ],
        ),
        (
            "overlap4",
            vec![
                (0, ip4(Proto::UDP, 9, Some((0, true)), &question[..16])),
                (0, ip4(Proto::UDP, 9, Some((8, false)), &question[8..])),
            ],
        ),
        ("fragment6", vec![(4, ip6(Proto::FRAGMENT, 64, &fragment6)), (4, vec![])]),
        ("too_big", vec![(0, ip4(Proto::ICMP, 4, None, &too_big))]),
    ]
}

/// Programs for `segments`: options, then operations as `crates/testing/fuzz/src/segments.rs` reads
/// them.
fn programs() -> Vec<(&'static str, Vec<u8>)> {
    const SYN: [u8; 11] = [0, 0x02, 0, 0, 0x1e, 0x05, 0xb4, 7, 0, 0, 0];
    const ACK: [u8; 6] = [0, 0x10, 0, 0, 0, 0];
    const DATA: [u8; 8] = [0, 0x18, 0, 0, 0x20, 0, 100, 0];
    const FIN: [u8; 6] = [0, 0x11, 0, 0, 0, 0];
    const ACCEPT: [u8; 1] = [6];
    const SEND: [u8; 4] = [5, 0, 1, 0];
    const CLOSE: [u8; 2] = [5 | 4 << 3, 0];
    const WAIT: [u8; 1] = [4 | 0xa0];
    let join = |parts: &[&[u8]]| [&[0u8][..], &parts.concat()].concat();
    vec![
        ("handshake", join(&[&SYN, &ACK, &ACCEPT])),
        ("data", join(&[&SYN, &ACK, &ACCEPT, &DATA, &SEND, &ACK, &FIN, &CLOSE, &ACK])),
        ("silence", join(&[&SYN, &ACK, &ACCEPT, &SEND, &WAIT, &WAIT, &WAIT, &CLOSE, &WAIT])),
        ("active", join(&[&[7, 1, 0], &[0, 0x12, 0, 0, 0, 0], &SEND, &FIN, &CLOSE, &ACK])),
        ("both_open", join(&[&[7, 1, 0], &SYN, &ACK, &DATA])),
    ]
}
