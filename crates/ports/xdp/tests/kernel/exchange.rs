//! Frames between two ends of ours, and between us and the kernel.

use std::net::UdpSocket;
use std::time::Duration;

use clearway_dev::{Facts, Receive, RxDrop, Transmit, TxDrop};
use clearway_pkt::{Buf as _, Burst, Checksum, Segmentation, TxMeta};
use clearway_wire::{Addr, EtherType, Mac, Proto, checksum, eth, ipv4, udp};
use clearway_xdp::XdpQueue;

use crate::common::{frame, ip, offer, open, pool, receive, veth, wait};

/// So many frames that every frame of the memory is used several times.
const MANY: u32 = 30_000;
/// Fewer than the rings have places.
const UNDER_WAY: u32 = 512;

fn lengths(number: u32) -> usize {
    60 + (number as usize * 7) % 1_455
}

/// Sends frames of all lengths, and checks each that comes, by `receive`.
fn exchange(from: &mut XdpQueue, to: &mut XdpQueue) {
    let (mut sent, mut came, mut burst) = (0, 0, Burst::new());
    while came < MANY {
        while sent < MANY && sent - came < UNDER_WAY && offer(from, &frame(sent, lengths(sent))) {
            sent += 1;
        }
        from.flush();
        to.rx(&mut burst).unwrap();
        if burst.is_empty() {
            wait(to);
        }
        for index in 0..burst.len() {
            let (buf, meta) = burst.take(index).unwrap();
            assert!(to.umem().holds(buf.bytes()), "it lies where the kernel put it");
            assert_eq!(buf.bytes(), frame(came, lengths(came)));
            assert_eq!(meta.checksum, Checksum::Unknown);
            came += 1;
        }
        burst.clear();
    }
}

#[test]
fn frames_cross_both_ways_and_none_is_lost_or_changed() {
    let _turn = veth(1);
    for mode in ["", ",mode=generic", ",mode=copy"] {
        let mut ours = open(&format!("xdp:ours{mode}"), 1).remove(0).into_queue();
        let mut theirs = open(&format!("xdp:theirs{mode}"), 1).remove(0).into_queue();
        exchange(&mut ours, &mut theirs);
        exchange(&mut theirs, &mut ours);
        for queue in [&ours, &theirs] {
            let counters = queue.counters();
            assert_eq!((counters.rx_packets, counters.tx_packets), (MANY.into(), MANY.into()));
            assert_eq!(counters.rx_dropped_total() + counters.tx_dropped_total(), 0);
            assert!(!queue.is_zero_copy(), "veth copies");
        }
    }
}

#[test]
fn frames_go_back_in_the_memory_that_they_came_in() {
    let _turn = veth(1);
    let mut mirror = open("xdp:ours", 1).remove(0).into_port(pool());
    let mut theirs = open("xdp:theirs", 1).remove(0).into_port(pool());
    let (mut sent, mut came) = (0, 0);
    while came < 5_000 {
        while sent < 5_000 && sent - came < UNDER_WAY && offer(&mut theirs, &frame(sent, 200)) {
            sent += 1;
        }
        theirs.flush();
        let back = mirror
            .send_back(|len, _, bytes| {
                bytes.unwrap()[0] = 0x11;
                len == 200
            })
            .unwrap();
        mirror.flush();
        if back == Some(0) {
            wait(&mirror);
            continue;
        }
        for (bytes, _) in receive(&mut theirs) {
            let mut wanted = frame(came, 200);
            wanted[0] = 0x11;
            assert_eq!(bytes, wanted);
            came += 1;
        }
    }
    assert_eq!(mirror.counters().tx_packets, 5_000);
}

#[test]
fn one_core_serves_several_queues_and_several_cores_one_each() {
    let _turn = veth(4);
    // What is sent on a queue comes in on that of the same number.
    let mut senders: Vec<_> =
        open("xdp:theirs", 4).into_iter().map(|fd| fd.into_port(pool())).collect();
    let mut cores: Vec<_> =
        open("xdp:ours", 3).into_iter().map(|fd| fd.into_port(pool())).collect();
    assert_eq!((senders.len(), cores.len()), (4, 3));
    for round in 0..50 {
        for (queue, sender) in senders.iter_mut().enumerate() {
            let frame = frame(round * 4 + queue as u32, 90);
            assert!(offer(sender, &frame));
            sender.flush();
            // Queues are dealt out: the first of three cores has the last of four, too.
            let came = receive(&mut cores[queue % 3]);
            assert_eq!(came.iter().map(|(frame, _)| frame).collect::<Vec<_>>(), [&frame]);
        }
    }
    assert_eq!(open_again("xdp:ours:2-3", cores).len(), 2, "no more ends than queues");
}

fn open_again(text: &str, before: Vec<clearway_xdp::XdpPort>) -> Vec<clearway_xdp::XdpFd> {
    drop(before);
    open(text, 8)
}

#[test]
fn what_comes_on_a_queue_that_is_not_taken_stays_with_the_kernel() {
    let _turn = veth(2);
    ip("addr add 10.78.0.1/24 dev ours");
    let socket = UdpSocket::bind("10.78.0.1:4000").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut senders: Vec<_> =
        open("xdp:theirs", 2).into_iter().map(|fd| fd.into_port(pool())).collect();
    let mut taken = open("xdp:ours:1", 1).remove(0).into_port(pool());
    let datagram = datagram(taken.mac().unwrap(), [10, 78, 0, 9], [10, 78, 0, 1], b"hello", true);
    assert!(offer(&mut senders[1], &datagram));
    senders[1].flush();
    assert_eq!(receive(&mut taken)[0].0, datagram);
    assert!(offer(&mut senders[0], &datagram));
    senders[0].flush();
    let mut bytes = [0; 16];
    assert_eq!(socket.recv(&mut bytes).unwrap(), 5);
    assert_eq!(taken.counters().rx_packets, 1);
}

#[test]
fn what_nobody_takes_is_counted_as_missed() {
    let _turn = veth(1);
    let ours = open("xdp:ours", 1).remove(0).into_port(pool());
    let mut theirs = open("xdp:theirs", 1).remove(0).into_port(pool());
    let mut sent = 0;
    while ours.counters().rx_dropped(RxDrop::Missed) == 0 {
        if offer(&mut theirs, &frame(sent, 64)) {
            sent += 1;
        }
        theirs.flush();
        assert!(sent < 1_000_000, "{:?}", ours.counters());
    }
    assert!(sent >= 2_048, "a ring of frames waits");
    assert!(!ours.driver_counters().is_empty());
}

/// A datagram in IPv4 and Ethernet; without `finished` its checksum is that of the pseudo header.
fn datagram(to: Mac, src: [u8; 4], dst: [u8; 4], payload: &[u8], finished: bool) -> Vec<u8> {
    let (src, dst) = (Addr::v4(src), Addr::v4(dst));
    let mut message = vec![0; udp::HEADER_LEN + payload.len()];
    udp::emit(5_000, 4_000, payload.len() as u16, &mut message);
    message[udp::HEADER_LEN..].copy_from_slice(payload);
    let len = message.len();
    udp::fill_partial_checksum(&src, &dst, len as u32, &mut message);
    if finished {
        message[6..8].fill(0);
        let sum = checksum::transport(&src, &dst, Proto::UDP, &message);
        message[6..8].copy_from_slice(&sum.to_be_bytes());
    }
    let mut frame = vec![0; 64];
    let mut at = eth::emit(to, Mac([2, 0, 0, 0, 0, 9]), EtherType::IPV4, &mut frame);
    let header = ipv4::Header {
        src,
        dst,
        proto: Proto::UDP,
        tos: 0,
        ttl: 64,
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: len as u16,
    };
    at += ipv4::emit(&header, &mut frame[at..]);
    frame.truncate(at);
    frame.extend(message);
    frame
}

/// The kernel's end of the pair with an address and a socket, which knows us.
fn kernel_end(mac: Mac) -> UdpSocket {
    ip("addr add 10.78.0.1/24 dev theirs");
    ip(&format!("neigh replace 10.78.0.2 lladdr {mac} nud permanent dev theirs"));
    let socket = UdpSocket::bind("10.78.0.1:4000").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    socket
}

fn mac_of(name: &str) -> Mac {
    let text = ip(&format!("-o link show dev {name}"));
    let mut words = text.split_whitespace().skip_while(|word| *word != "link/ether");
    words.nth(1).unwrap().parse().unwrap()
}

#[test]
fn a_checksum_that_the_kernel_left_is_good_unless_it_is_to_be_as_on_the_wire() {
    let _turn = veth(1);
    for (offload, verdict) in [("", Checksum::Good), (",offload=off", Checksum::Unknown)] {
        let mut ours = open(&format!("xdp:ours{offload}"), 1).remove(0).into_port(pool());
        let socket = kernel_end(ours.mac().unwrap());
        socket.send_to(b"from the kernel", "10.78.0.2:5000").unwrap();
        let (frame, meta) = receive(&mut ours).remove(0);
        assert!(frame.ends_with(b"from the kernel"));
        assert_eq!(meta.checksum, verdict);
        drop(socket);
        ip("addr flush dev theirs");
    }
}

#[test]
fn the_kernel_finishes_a_checksum_that_is_left_to_it() {
    let _turn = veth(1);
    let mut ours = open("xdp:ours", 1).remove(0).into_port(pool());
    let socket = kernel_end(ours.mac().unwrap());
    assert!(ours.offloads().tx_checksum, "this kernel reads what stands before a frame");
    // A checksum of the pseudo header that nobody finishes would be wrong.
    let left = datagram(mac_of("theirs"), [10, 78, 0, 2], [10, 78, 0, 1], b"finish this", false);
    let room = ours.reserve(left.len()).unwrap();
    room[..left.len()].copy_from_slice(&left);
    let meta = TxMeta { checksum_start: 34, checksum_offset: 6, ..TxMeta::default() };
    ours.commit(left.len(), meta);
    ours.flush();
    let mut bytes = [0; 64];
    let len = socket.recv(&mut bytes).unwrap();
    assert_eq!(&bytes[..len], b"finish this");
    drop(ours);
    let ours = open("xdp:ours,offload=off", 1).remove(0).into_port(pool());
    assert!(!ours.offloads().tx_checksum);
}

#[test]
fn what_a_frame_does_not_hold_is_refused_and_counted() {
    let _turn = veth(1);
    let mut ours = open("xdp:ours", 1).remove(0).into_port(pool());
    let mut commit = |meta: TxMeta| {
        ours.reserve(64).unwrap()[..64].copy_from_slice(&frame(1, 64));
        ours.commit(64, meta);
        ours.counters().tx_dropped(TxDrop::BadRequest)
    };
    assert_eq!(commit(TxMeta { checksum_start: 60, checksum_offset: 6, ..TxMeta::default() }), 1);
    assert_eq!(commit(TxMeta { segmentation: Segmentation::Tcp(9), ..TxMeta::default() }), 2);
    ours.commit(64, TxMeta::default());
    assert_eq!(ours.counters().tx_dropped(TxDrop::BadRequest), 3, "there was no room");
    assert!(ours.reserve(5_000).is_none());
    assert_eq!(ours.counters().tx_packets, 0);
}
