//! Frames exchanged with the kernel.

use std::io::{Read, Write};
use std::net::{TcpListener, UdpSocket};
use std::time::Duration;

use clearway_dev::{Facts, Fault, FramePool, PoolBudget, Receive, RxDrop, Transmit};
use clearway_pkt::{Buf, Checksum, Segmentation, TxMeta};
use clearway_wire::arp::{self, Arp, Operation};
use clearway_wire::icmpv4::{self, Icmpv4};
use clearway_wire::{EtherType, Flags, Mac, Proto, TcpOptions, checksum, eth, udp};
use nix::sys::socket::{setsockopt, sockopt};

use crate::common::{
    self, Connection, Family, Link, datagram, enter_namespace, offload, pattern, tap, transport,
    tun, v4, v6,
};

const MSS: u16 = 1_400;

fn kernel_udp(family: Family, port: u16) -> UdpSocket {
    let socket = UdpSocket::bind(family.kernel_socket(port)).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    socket
}

#[test]
fn the_kernel_resolves_our_address_and_answers_a_ping() {
    let _turn = enter_namespace();
    let spec = tap("arp0");
    let queue = clearway_tap::open(&spec).unwrap().pop().unwrap();
    let mut link = Link::around(queue.into_queue(common::pool()), &spec);
    let (ours, family) = (link.dev.mac().unwrap(), v4());

    let mut icmp = vec![0; 64];
    let len =
        icmpv4::emit(&Icmpv4::EchoRequest { id: 7, seq: 1, data: b"are you there?" }, &mut icmp);
    let frame = link.frame(family, Proto::ICMP, &icmp[..len]);
    link.send(&frame, TxMeta::default());

    // To answer, the kernel has to ask who we are first.
    let asked = link.expect("an ARP request for us", |frame, _| {
        let eth = eth::check(frame).ok()?;
        let arp = (eth.ethertype() == EtherType::ARP).then(|| arp::check(eth.payload()).ok())??;
        (arp.target == family.ours).then_some(arp)
    });
    assert_eq!(
        (asked.operation, asked.sender, asked.sender_mac),
        (Operation::Request, family.kernels, link.kernel_mac)
    );
    let mut answer = vec![0; 60];
    let at = eth::emit(asked.sender_mac, ours, EtherType::ARP, &mut answer);
    let reply = Arp {
        operation: Operation::Reply,
        sender_mac: ours,
        sender: family.ours,
        target_mac: asked.sender_mac,
        target: asked.sender,
    };
    arp::emit(&reply, &mut answer[at..]);
    link.send(&answer, TxMeta::default());

    link.expect("an echo reply", |frame, _| {
        let eth = eth::check(frame).ok()?;
        assert!(eth.dst() == ours || eth.dst().is_multicast());
        let ip = clearway_wire::ipv4::check(eth.payload(), true).ok()?;
        match icmpv4::check(ip.payload(), true).ok()? {
            Icmpv4::EchoReply { id: 7, seq: 1, data } => {
                assert_eq!(data, b"are you there?");
                Some(())
            }
            _ => None,
        }
    });
    assert_ne!(ours, link.kernel_mac);
    assert_ne!(ours, Mac::ZERO);
}

fn udp_both_ways(link: &mut Link, family: Family) {
    let socket = kernel_udp(family, 4000);
    let bytes = datagram(family, 4001, 4000, b"checksum left to the kernel");
    let frame = link.frame(family, Proto::UDP, &bytes);
    link.send(&frame, offload(link, family, udp::HEADER_LEN, 6, Segmentation::None));
    let mut got = [0; 100];
    let (len, from) = socket.recv_from(&mut got).unwrap();
    assert_eq!((&got[..len], from), (&b"checksum left to the kernel"[..], family.our_socket(4001)));

    socket.send_to(b"and back", family.our_socket(4001)).unwrap();
    let link_len = link.link_len();
    let checksum = link.expect("a datagram", |frame, meta| {
        let datagram = transport(family, &frame[link_len..], Proto::UDP)?;
        let payload =
            udp::check(&family.kernels, &family.ours, datagram, meta.checksum != Checksum::Good)
                .ok()?;
        (payload.payload() == b"and back").then_some(meta.checksum)
    });
    let expected = if link.dev.offloads().tx_checksum { Checksum::Good } else { Checksum::Unknown };
    assert_eq!(
        checksum, expected,
        "with offload, the kernel leaves the checksum undone and says so"
    );
}

#[test]
fn checksums_are_left_to_the_other_side_both_ways() {
    let _turn = enter_namespace();
    let mut link = Link::new(&tap("csum0"));
    assert!(link.dev.offloads().tx_checksum);
    udp_both_ways(&mut link, v4());
    udp_both_ways(&mut link, v6());
}

#[test]
fn bare_ip_packets_pass_over_a_tun_interface() {
    let _turn = enter_namespace();
    let mut link = Link::new(&tun("tun0"));
    assert_eq!(link.dev.mac(), None);
    udp_both_ways(&mut link, v4());
    udp_both_ways(&mut link, v6());
    large_segments_both_ways(&mut link, v4());
}

fn large_segments_both_ways(link: &mut Link, family: Family) {
    let listener = TcpListener::bind(family.kernel_socket(5000)).unwrap();
    let mut conn = Connection::open(link, family, 5001, 5000, MSS);
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();

    // The kernel writes more than one segment; what it hands over is one frame of several.
    let sent = pattern(8 * usize::from(MSS));
    stream.write_all(&sent).unwrap();
    let mut got = Vec::new();
    let mut largest = (0, 0, Checksum::Unknown);
    while got.len() < sent.len() {
        let expected = conn.ack + got.len() as u32;
        conn.expect(link, "data from the kernel", |segment, payload, meta| {
            (segment.seq == expected && !payload.is_empty()).then(|| {
                if payload.len() > largest.0 {
                    largest = (payload.len(), meta.segment_size, meta.checksum);
                }
                got.extend_from_slice(payload);
            })
        });
    }
    assert_eq!(got, sent);
    assert_eq!((largest.1, largest.2), (MSS, Checksum::Good), "a frame of {} bytes", largest.0);
    assert!(largest.0 > usize::from(MSS), "the kernel cut the data itself");
    conn.ack += got.len() as u32;
    conn.send(link, Flags::ACK, TcpOptions::NONE, &[], Segmentation::None);

    // And ours: one frame of 30,000 bytes, which is no whole number of segments.
    let sent = pattern(30_000);
    conn.send(link, Flags::ACK | Flags::PSH, TcpOptions::NONE, &sent, Segmentation::Tcp(MSS));
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got, sent);
    let end = conn.seq + sent.len() as u32;
    conn.expect(link, "an acknowledgment of all of it", |segment, _, _| {
        (segment.ack == end).then_some(())
    });

    // The same in pieces, from where they lie.
    conn.seq += sent.len() as u32;
    let sent: Vec<u8> = pattern(60_000).into_iter().rev().collect();
    conn.send_gathered(link, &sent, Segmentation::Tcp(MSS), 4_096);
    let mut got = vec![0; sent.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(got, sent);
}

#[test]
fn tcp_segments_cross_in_one_large_frame_both_ways() {
    let _turn = enter_namespace();
    let mut link = Link::new(&tap("tso0"));
    assert!(link.dev.offloads().tso4 && link.dev.offloads().tso6);
    large_segments_both_ways(&mut link, v4());
    large_segments_both_ways(&mut link, v6());
    assert_eq!(link.dev.counters().rx_dropped_total(), 0);
}

#[test]
fn udp_datagrams_cross_in_one_large_frame_both_ways() {
    let _turn = enter_namespace();
    let mut link = Link::new(&tap("uso0"));
    if !link.dev.offloads().uso {
        eprintln!(
            "this kernel has no UDP segmentation over TUN/TAP (it came with Linux 6.2), so there \
             is nothing to see"
        );
        return;
    }
    for family in [v4(), v6()] {
        let socket = kernel_udp(family, 6000);
        let sent = pattern(5_500);
        let bytes = datagram(family, 6001, 6000, &sent);
        let frame = link.frame(family, Proto::UDP, &bytes);
        let meta = offload(&link, family, udp::HEADER_LEN, 6, Segmentation::Udp(1_000));
        link.send(&frame, meta);
        let mut got = Vec::new();
        for piece in 0..6 {
            let mut datagram = [0; 2_000];
            let len = socket.recv(&mut datagram).unwrap();
            assert_eq!(len, if piece < 5 { 1_000 } else { 500 });
            got.extend_from_slice(&datagram[..len]);
        }
        assert_eq!(got, sent);

        setsockopt(&socket, sockopt::UdpGsoSegment, &1_000).unwrap();
        socket.send_to(&sent, family.our_socket(6001)).unwrap();
        let link_len = link.link_len();
        let (payload, meta) = link.expect("one large frame", |frame, meta| {
            let bytes = transport(family, &frame[link_len..], Proto::UDP)?;
            let large = bytes.len() > 2_000;
            large.then(|| (bytes[udp::HEADER_LEN..].to_vec(), meta))
        });
        assert_eq!(payload, sent);
        assert_eq!((meta.segment_size, meta.checksum), (1_000, Checksum::Good));
    }
}

#[test]
fn without_offload_everything_is_whole_and_fits_the_mtu() {
    let _turn = enter_namespace();
    let mut spec = tap("plain0");
    spec.offload = false;
    let mut link = Link::new(&spec);
    assert_eq!(link.dev.offloads(), clearway_pkt::Offloads::default());
    let family = v4();
    let socket = kernel_udp(family, 4000);
    socket.send_to(b"with its checksum", family.our_socket(4001)).unwrap();
    let link_len = link.link_len();
    link.expect("a datagram", |frame, meta| {
        let bytes = transport(family, &frame[link_len..], Proto::UDP)?;
        if udp::check(&family.kernels, &family.ours, bytes, false).ok()?.payload()
            != b"with its checksum"
        {
            return None;
        }
        assert_eq!((meta.checksum, meta.segment_size), (Checksum::Unknown, 0));
        assert!(checksum::transport_is_valid(&family.kernels, &family.ours, Proto::UDP, bytes));
        Some(())
    });
    assert!(
        link.dev.reserve(2_000).is_none(),
        "nothing beyond the MTU is taken when nothing is cut"
    );
}

#[test]
fn without_a_buffer_frames_are_lost_and_counted_and_the_next_ones_arrive() {
    let _turn = enter_namespace();
    let spec = tap("empty0");
    let queue = clearway_tap::open(&spec).unwrap().pop().unwrap();
    let pool = FramePool::new(PoolBudget {
        small_count: 64,
        small_len: 2_048,
        large_count: 1,
        large_len: 66_000,
    });
    let mut link = Link::around(queue.into_queue(pool.clone()), &spec);
    link.introduce();
    let socket = kernel_udp(v4(), 4000);
    let mut held = Vec::new();
    while let Some(buf) = pool.small().take() {
        held.push(buf);
    }
    for _ in 0..5 {
        socket.send_to(b"lost", v4().our_socket(4001)).unwrap();
    }
    let mut burst = clearway_pkt::Burst::new();
    link.dev.rx(&mut burst).unwrap();
    assert!(burst.is_empty());
    assert!(link.dev.counters().rx_dropped(RxDrop::NoBuffer) >= 5);
    drop((socket, held));
    udp_both_ways(&mut link, v4());
}

/// One direction of a conversation over a bad link, done by hand: every datagram arrives whole, or
/// is counted as lost.
#[test]
fn a_bad_link_over_the_interface_loses_single_segments_of_what_the_kernel_sent_as_one() {
    let _turn = enter_namespace();
    let link = Link::new(&tap("bad0"));
    if !link.dev.offloads().uso {
        eprintln!(
            "this kernel has no UDP segmentation over TUN/TAP (it came with Linux 6.2), so there \
             is nothing to see"
        );
        return;
    }
    let family = v4();
    let link_len = link.link_len();
    let mut dev = Fault::new(link.dev, "rx.loss=30%".parse().unwrap(), 1, common::pool());
    let socket = kernel_udp(family, 6000);
    setsockopt(&socket, sockopt::UdpGsoSegment, &1_000).unwrap();
    let sent = pattern(40_000);
    socket.send_to(&sent, family.our_socket(6001)).unwrap();
    let mut burst = clearway_pkt::Burst::new();
    dev.rx(&mut burst).unwrap();
    let mut pieces = 0;
    for (frame, meta) in (0..burst.len()).filter_map(|index| burst.take(index)) {
        let packet = &frame.bytes()[link_len..];
        let Some(bytes) = transport(family, packet, Proto::UDP) else { continue };
        assert_eq!(meta.segment_size, 0);
        let data = udp::check(&family.kernels, &family.ours, bytes, true).unwrap().payload();
        assert!(sent.chunks(1_000).any(|chunk| chunk == data));
        pieces += 1;
    }
    let lost = dev.counters().rx_dropped(RxDrop::FaultLoss);
    assert!((15..40).contains(&pieces), "{pieces} of 40 arrived");
    // The kernel may have sent a few frames of its own, some of which were lost too.
    assert!(pieces + lost >= 40);
}
