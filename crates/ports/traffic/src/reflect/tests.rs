use clearway_dev::{FramePool, Mac, PairConfig, PairEnd, PoolBudget, Receive, Transmit, pair};
use clearway_pkt::{Offloads, PoolBuf, Segmentation};
use clearway_wire::{Addr, ipv4, tcp, udp};
use proptest::prelude::*;

use super::*;
use crate::frame::{Shape, Stamp, Template, Trace};

fn shape(v4: bool, tcp: bool, ethernet: bool) -> Shape {
    let (own, peer): (Addr, Addr) = if v4 {
        ("198.18.0.1".parse().unwrap(), "198.19.0.1".parse().unwrap())
    } else {
        ("2001:2::1".parse().unwrap(), "2001:2:0:8000::1".parse().unwrap())
    };
    let macs = ethernet.then_some((Mac([2, 0, 0, 0, 0, 1]), Mac([2, 0, 0, 0, 0, 2])));
    Shape { macs, own, peer, own_port: 10_000, peer_port: 9, tcp, run: 7 }
}

fn frame(shape: Shape, size: usize) -> Vec<u8> {
    let mut frame = vec![0; size];
    let template = Template::new(shape, size).unwrap();
    template.write(&mut frame, Trace { flow: 5, seq: 1, stamp: Stamp(9) });
    frame
}

fn ends(config: PairConfig) -> (PairEnd, PairEnd) {
    pair(config, &FramePool::new(PoolBudget::of_bytes(1 << 20)))
}

fn put(dev: &mut PairEnd, bytes: &[u8], meta: TxMeta) {
    dev.reserve(bytes.len()).unwrap()[..bytes.len()].copy_from_slice(bytes);
    dev.commit(bytes.len(), meta);
}

fn got(dev: &mut PairEnd) -> Vec<Vec<u8>> {
    let mut burst: Burst<PoolBuf> = Burst::new();
    dev.rx(&mut burst).unwrap();
    (0..burst.len()).map(|index| burst.take(index).unwrap().0.bytes().to_vec()).collect()
}

#[test]
fn frames_go_back_with_macs_exchanged() {
    let (mut near, mut far) = ends(PairConfig::default());
    let sent = frame(shape(true, false, true), 64);
    put(&mut near, &sent, TxMeta::default());
    put(&mut near, &[0xff; 64], TxMeta::default());
    put(&mut near, &[2; 13], TxMeta::default());
    let mut reflector = Reflector::new(Mirror::Macs);
    assert!(reflector.turn(Instant::ZERO, &mut far, &mut Burst::new()).unwrap());
    assert!(!reflector.turn(Instant::ZERO, &mut far, &mut Burst::new()).unwrap());
    let back = got(&mut near);
    assert_eq!(back.len(), 1);
    assert_eq!((&back[0][..6], &back[0][6..12]), (&sent[6..12], &sent[..6]));
    assert_eq!(back[0][12..], sent[12..]);
    let counts = reflector.counts();
    assert_eq!((counts.frames, counts.returned, counts.group, counts.malformed), (3, 1, 1, 1));
    assert_eq!((counts.bytes, counts.returned_bytes), (64 + 64 + 13, 64));
}

#[test]
fn as_is_returns_every_byte_of_every_frame() {
    let (mut near, mut far) = ends(PairConfig::default());
    let all = [vec![0xff; 60], vec![1], frame(shape(false, true, true), 1_500)];
    all.iter().for_each(|frame| put(&mut near, frame, TxMeta::default()));
    Reflector::new(Mirror::AsIs).turn(Instant::ZERO, &mut far, &mut Burst::new()).unwrap();
    assert_eq!(got(&mut near), all);
}

#[test]
fn a_full_link_and_joined_frames_are_counted() {
    let offloads = Offloads { max_segmented_frame: 60_000, tso4: true, ..Offloads::default() };
    let (mut near, mut far) = ends(PairConfig { limit: 2, offloads, ..PairConfig::default() });
    put(
        &mut near,
        &[2; 9_000],
        TxMeta { segmentation: Segmentation::Tcp(1_400), ..TxMeta::default() },
    );
    let mut reflector = Reflector::new(Mirror::AsIs);
    reflector.turn(Instant::ZERO, &mut far, &mut Burst::new()).unwrap();
    for _ in 0..2 {
        put(&mut near, &[2; 60], TxMeta::default());
        put(&mut near, &[2; 60], TxMeta::default());
        reflector.turn(Instant::ZERO, &mut far, &mut Burst::new()).unwrap();
    }
    assert_eq!(
        (reflector.counts().too_long, reflector.counts().returned, reflector.counts().no_room),
        (1, 2, 2)
    );
    let lost: u64 = reflector.counts().lost().iter().map(|(_, count)| count).sum();
    assert_eq!(lost + reflector.counts().returned, reflector.counts().frames);
}

#[test]
fn ports_stay_in_a_later_fragment_and_behind_tags_they_are_found() {
    let plain = frame(shape(true, false, true), 80);
    let mut fragment = plain.clone();
    fragment[14 + 7] = 5;
    turn_round(Mirror::Addresses, true, &mut fragment).unwrap();
    assert_eq!(fragment[34..], plain[34..]);
    assert_eq!((&fragment[26..30], &fragment[30..34]), (&plain[30..34], &plain[26..30]));
    let mut tagged = [&plain[..12], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], &plain[12..]].concat();
    turn_round(Mirror::Addresses, true, &mut tagged).unwrap();
    let ip = ipv4::check(&tagged[22..], true).unwrap();
    assert_eq!((ip.src(), ip.dst()), (shape(true, false, true).peer, shape(true, false, true).own));
    assert_eq!(udp::check(&ip.src(), &ip.dst(), ip.payload(), true).unwrap().src_port(), 9);
}

#[test]
fn a_group_of_ip_gets_no_answer_and_arp_goes_back_by_macs() {
    let mut multicast =
        frame(Shape { peer: "224.0.0.251".parse().unwrap(), ..shape(true, false, false) }, 64);
    assert_eq!(turn_round(Mirror::Addresses, false, &mut multicast), Err(NoWayBack::Group));
    let mut multicast =
        frame(Shape { peer: "ff02::1".parse().unwrap(), ..shape(false, false, false) }, 64);
    assert_eq!(turn_round(Mirror::Addresses, false, &mut multicast), Err(NoWayBack::Group));
    let mut arp = [[2; 12].as_slice(), &[8, 6], &[9; 28]].concat();
    assert_eq!(turn_round(Mirror::Addresses, true, &mut arp), Ok(()));
    assert_eq!(arp[14..], [9; 28]);
}

proptest! {
    #[test]
    fn exchanged_addresses_leave_every_checksum_right(bits in 0..8u32, size in 84..1_500usize) {
        let shape = shape(bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
        let mut frame = frame(shape, size);
        turn_round(Mirror::Addresses, shape.macs.is_some(), &mut frame).unwrap();
        let packet = &frame[if shape.macs.is_some() { 14 } else { 0 }..];
        let (src, dst, payload) = if shape.own.is_v4() {
            let ip = ipv4::check(packet, true).unwrap();
            (ip.src(), ip.dst(), ip.payload())
        } else {
            let ip = ipv6::check(packet).unwrap();
            (ip.src(), ip.dst(), ip.payload())
        };
        prop_assert_eq!((src, dst), (shape.peer, shape.own));
        if shape.tcp {
            tcp::verify_checksum(&src, &dst, payload).unwrap();
        } else {
            udp::check(&src, &dst, payload, true).unwrap();
        }
        let ports = (u16::from_be_bytes([payload[0], payload[1]]),
            u16::from_be_bytes([payload[2], payload[3]]));
        prop_assert_eq!(ports, (9, 10_005));
    }

    #[test]
    fn no_bytes_make_it_panic_and_twice_round_is_the_same_again(
        mirror in 0..3, ethernet: bool, bytes in proptest::collection::vec(any::<u8>(), 0..120),
            version in 0..3,
    ) {
        let mirror = [Mirror::AsIs, Mirror::Macs, Mirror::Addresses][mirror as usize];
        let mut bytes = bytes;
        // Makes IP likely.
        let at = if ethernet { 14 } else { 0 };
        if ethernet && bytes.len() > 14 {
            bytes[12..14].copy_from_slice(if version == 1 { &[8, 0] } else { &[0x86, 0xdd] });
        }
        if let Some(first) = bytes.get_mut(at) {
            *first = [0x33, 0x45, 0x60][version as usize];
        }
        let before = bytes.clone();
        if turn_round(mirror, ethernet, &mut bytes).is_ok()
            && turn_round(mirror, ethernet, &mut bytes).is_ok() {
            prop_assert_eq!(bytes, before);
        }
    }
}
