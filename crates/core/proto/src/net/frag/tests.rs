extern crate std;

use std::vec;
use std::vec::Vec;

use clearway_wire::{Malformed, Segment};
use proptest::prelude::*;

use super::*;
use crate::testing::*;

/// Cuts an IP packet into fragments of at most `size` payload bytes (a multiple of eight).
pub(crate) fn cut(packet: &[u8], size: usize) -> Vec<Vec<u8>> {
    let header_len = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let data = &packet[header_len..];
    (0..data.len())
        .step_by(size)
        .map(|at| {
            let end = (at + size).min(data.len());
            piece(packet, at, end < data.len(), &data[at..end])
        })
        .collect()
}

/// One fragment of a packet, as somebody might forge it.
pub(crate) fn piece(packet: &[u8], offset: usize, more: bool, data: &[u8]) -> Vec<u8> {
    let offset = offset as u16;
    if packet[0] >> 4 == 4 {
        let v4 = ipv4::check(packet, false).unwrap();
        let header = ipv4::Header {
            src: v4.src(),
            dst: v4.dst(),
            proto: v4.proto(),
            tos: 0,
            ttl: 64,
            id: v4.id(),
            dont_fragment: false,
            more_fragments: more,
            fragment_offset: offset,
            payload_len: data.len() as u16,
        };
        let mut out = vec![0; 20];
        ipv4::emit(&header, &mut out);
        out.extend_from_slice(data);
        return out;
    }
    let v6 = ipv6::check(packet).unwrap();
    let mut l4 = vec![0; 8];
    ipv6_ext::emit_fragment(v6.next(), offset, more, 0x1234_5678, &mut l4);
    l4.extend_from_slice(data);
    let (src, dst) = (std::format!("{}", v6.src()), std::format!("{}", v6.dst()));
    crate::testing::packet(&src, &dst, Proto::FRAGMENT, &l4)
}

/// Puts the payload of fragments together, by their offsets.
pub(crate) fn join(packets: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut ids = std::collections::BTreeSet::new();
    for packet in packets {
        let (offset, more, data) = if packet[0] >> 4 == 4 {
            let v4 = ipv4::check(packet, true).unwrap();
            ids.insert(u32::from(v4.id()));
            (usize::from(v4.fragment_offset()), v4.more_fragments(), v4.payload())
        } else {
            let v6 = ipv6::check(packet).unwrap();
            let chain = ipv6_ext::walk(&v6).unwrap();
            let fragment = chain.fragment.expect("a fragment");
            ids.insert(fragment.id);
            (usize::from(fragment.offset), fragment.more, chain.bytes)
        };
        assert_eq!(out.len(), offset);
        out.extend_from_slice(data);
        assert_eq!(more, packet != packets.last().unwrap());
    }
    assert_eq!(ids.len(), 1, "one datagram has one identification");
    out
}

const PAIRS: [(&str, &str); 2] = [("10.0.0.2", "10.0.0.1"), ("2001:db8::2", "2001:db8::1")];

/// A stack with a UDP socket, and what the socket has received.
struct Udp {
    net: Net,
    sockets: [crate::UdpId; 2],
}

impl Udp {
    fn new() -> Udp {
        let mut net = Net::tun();
        let mut bind = |a: &str| {
            let local = clearway_wire::Endpoint::new(addr(a), 2000);
            net.stack
                .udp_bind(crate::UdpSpec { table: Table(0), local, token: 0, v6_only: true })
                .unwrap()
        };
        let sockets = [bind("10.0.0.1"), bind("2001:db8::1")];
        Udp { net, sockets }
    }

    fn received(&mut self) -> Vec<Vec<u8>> {
        let mut out = Vec::new();
        for socket in self.sockets {
            while let Some(datagram) = self.net.stack.udp_recv(socket) {
                out.push(datagram.payload.to_vec());
            }
        }
        out
    }
}

fn datagram((src, dst): (&str, &str), data: &[u8]) -> Vec<u8> {
    udp_packet((src, 1000), (dst, 2000), data)
}

#[test]
fn fragments_in_any_order_become_the_datagram() {
    let data: Vec<u8> = (0..100u8).collect();
    for pair in PAIRS {
        let pieces = cut(&datagram(pair, &data), 24);
        for rotation in 0..pieces.len() {
            let mut u = Udp::new();
            let mut order = pieces.clone();
            order.rotate_left(rotation);
            order.swap(0, 2);
            for p in &order {
                assert_eq!(u.received(), Vec::<Vec<u8>>::new());
                assert_eq!(u.net.ingest(p), None);
            }
            assert_eq!(u.received(), core::slice::from_ref(&data));
            assert_eq!(u.net.stack.scratch.fragments.held(), 0);
        }
    }
}

fn with_mark(packet: &[u8], mark: Ecn) -> Vec<u8> {
    let mut out = packet.to_vec();
    if out[0] >> 4 == 4 {
        out[1] |= mark as u8;
        out[10..12].fill(0);
        let sum = clearway_wire::checksum::sum(&out[..20]).finish();
        out[10..12].copy_from_slice(&sum.to_be_bytes());
    } else {
        out[1] |= (mark as u8) << 4;
    }
    out
}

/// The ECN bits with which a datagram arrives whose three fragments have these.
fn reassembled(pair: (&str, &str), marks: [Ecn; 3]) -> Result<Ecn, Drop> {
    let mut u = Udp::new();
    let pieces = cut(&datagram(pair, &[5; 60]), 24);
    for (piece, mark) in pieces.iter().zip(marks) {
        if let Some(why) = u.net.ingest(&with_mark(piece, mark)) {
            return Err(why);
        }
    }
    let tos = u
        .sockets
        .iter()
        .find_map(|socket| u.net.stack.udp_recv(*socket).map(|datagram| datagram.tos));
    Ok(Ecn::of(tos.expect("it is whole")))
}

/// RFC 3168 5.3.
#[test]
fn a_mark_on_any_fragment_is_one_on_the_datagram() {
    for pair in PAIRS {
        for at in 0..3 {
            let mut marks = [Ecn::Ect0; 3];
            assert_eq!(reassembled(pair, marks), Ok(Ecn::Ect0));
            marks[at] = Ecn::Ce;
            assert_eq!(reassembled(pair, marks), Ok(Ecn::Ce));
        }
        assert_eq!(reassembled(pair, [Ecn::NotEct; 3]), Ok(Ecn::NotEct));
        assert_eq!(reassembled(pair, [Ecn::Ect1, Ecn::Ce, Ecn::Ect0]), Ok(Ecn::Ce));
    }
}

#[test]
fn fragments_of_which_some_cannot_be_marked_end_their_datagram() {
    for pair in PAIRS {
        for mark in [Ecn::Ce, Ecn::Ect0, Ecn::Ect1] {
            assert_eq!(reassembled(pair, [Ecn::NotEct, mark, mark]), Err(Drop::FragmentMixedEcn));
            assert_eq!(reassembled(pair, [mark, mark, Ecn::NotEct]), Err(Drop::FragmentMixedEcn));
        }
    }
}

#[test]
fn the_same_fragment_twice_is_dropped_alone() {
    let data = vec![5; 60];
    for pair in PAIRS {
        let mut u = Udp::new();
        let pieces = cut(&datagram(pair, &data), 24);
        assert_eq!(u.net.ingest(&pieces[0]), None);
        assert_eq!(u.net.ingest(&pieces[0]), Some(Drop::FragmentDuplicate));
        for p in &pieces[1..] {
            assert_eq!(u.net.ingest(p), None);
        }
        assert_eq!(u.received(), core::slice::from_ref(&data));
    }
}

#[test]
fn an_overlap_ends_the_datagram_and_all_that_still_comes_of_it() {
    let data: Vec<u8> = (0..88u8).collect();
    for pair in PAIRS {
        let whole = datagram(pair, &data);
        let pieces = cut(&whole, 24);
        // Inside, across the end, around, and the same place with other bytes.
        for (offset, forged) in [
            (8, vec![0; 8]),
            (16, vec![0; 16]),
            (0, vec![0; 32]),
            (0, vec![9; 24]),
            (24, vec![9; 24]),
        ] {
            let mut u = Udp::new();
            u.net.ingest(&pieces[0]);
            u.net.ingest(&pieces[1]);
            let forged = piece(&whole, offset, true, &forged);
            assert_eq!(u.net.ingest(&forged), Some(Drop::FragmentOverlap), "{offset}");
            assert_eq!(u.net.stack.scratch.fragments.held(), 0);
            for p in &pieces {
                assert_eq!(u.net.ingest(p), Some(Drop::FragmentOverlap));
            }
            assert_eq!(u.received().len(), 0);
            // After its time the identification may be used again.
            u.net.pass(61);
            for p in &pieces {
                assert_eq!(u.net.ingest(p), None);
            }
            assert_eq!(u.received(), core::slice::from_ref(&data));
        }
    }
}

#[test]
fn teardrop_and_a_second_end_are_refused() {
    for pair in PAIRS {
        let whole = datagram(pair, &[1; 100]);
        let mut u = Udp::new();
        assert_eq!(u.net.ingest(&piece(&whole, 0, true, &whole[whole.len() - 40..])), None);
        assert_eq!(u.net.ingest(&piece(&whole, 24, false, &[0; 4])), Some(Drop::FragmentOverlap));
        for (first, second) in [
            ((64, false, 8), (96, false, 8)),
            ((64, false, 8), (72, true, 8)),
            ((64, true, 8), (56, false, 4)),
        ] {
            u.net.pass(61);
            let (at, more, len) = first;
            assert_eq!(u.net.ingest(&piece(&whole, at, more, &vec![0; len])), None);
            let (at, more, len) = second;
            assert_eq!(
                u.net.ingest(&piece(&whole, at, more, &vec![0; len])),
                Some(Drop::FragmentEnd)
            );
        }
    }
}

#[test]
fn the_ping_of_death_is_refused() {
    let mut u = Udp::new();
    let whole = datagram(PAIRS[0], &[1; 100]);
    let last = piece(&whole, 65_528, false, &[0; 100]);
    assert_eq!(u.net.ingest(&last), Some(Drop::Malformed(Malformed::Ipv4BadFragment)));
    // Just short enough alone, but too long with the header of the first.
    let mut data = vec![0; 1480];
    // A UDP header of the longest datagram, without checksum.
    data[..8].copy_from_slice(&[0, 1, 7, 0xd0, 0xff, 0xeb, 0, 0]);
    let mut held = Vec::new();
    let mut at = 0;
    while at + 1480 < 65_535 {
        held.push(piece(&whole, at, true, &data));
        data[..8].fill(0);
        at += 1480;
    }
    held.push(piece(&whole, at, false, &vec![0; 65_515 - at]));
    for p in &held {
        assert_eq!(u.net.ingest(p), None, "65535 bytes in all are allowed");
    }
    assert_eq!(u.received()[0].len(), 65_507);
    u.net.pass(61);
    let mut options = held[0].clone();
    // The first with four bytes of options: the whole is now four bytes too long.
    options.splice(20..20, [1, 1, 1, 1]);
    options[0] = 0x46;
    options[2..4].copy_from_slice(&((1480 + 24) as u16).to_be_bytes());
    options[10..12].fill(0);
    let sum = clearway_wire::checksum::sum(&options[..24]).finish();
    options[10..12].copy_from_slice(&sum.to_be_bytes());
    let mut last = Some(Drop::NotOurs);
    for p in core::iter::once(&options).chain(&held[1..]) {
        last = u.net.ingest(p);
    }
    assert_eq!(last, Some(Drop::FragmentTooLong));
    assert_eq!(u.received().len(), 0);
}

#[test]
fn a_first_fragment_without_the_whole_transport_header_is_refused() {
    let mut net = Net::tun();
    let segment = Segment { src_port: 1, dst_port: 2, ..Segment::default() };
    let whole = tcp_packet("10.0.0.2", "10.0.0.1", &segment, &[0; 64]);
    for (offset, len, why) in [
        (0, 8, Drop::Malformed(Malformed::Ipv4TinyFragment)),
        (8, 16, Drop::Malformed(Malformed::Ipv4TinyFragment)),
        (0, 16, Drop::FragmentTiny),
    ] {
        let p = piece(&whole, offset, true, &whole[20 + offset..20 + offset + len]);
        assert_eq!(net.ingest(&p), Some(why));
    }
    let whole = tcp_packet("2001:db8::2", "2001:db8::1", &segment, &[0; 64]);
    let p = piece(&whole, 0, true, &whole[40..56]);
    assert_eq!(net.ingest(&p), Some(Drop::Malformed(Malformed::Ipv6FirstFragmentIncomplete)));
}

#[test]
fn atomic_fragments_are_datagrams_of_their_own() {
    let mut u = Udp::new();
    let data = vec![3; 40];
    let whole = datagram(PAIRS[1], &data);
    // A piece of another datagram with the same identification is here already.
    u.net.ingest(&piece(&whole, 800, true, &[0; 16]));
    let atomic = piece(&whole, 0, false, &whole[40..]);
    assert_eq!(u.net.ingest(&atomic), None);
    assert_eq!(u.received(), core::slice::from_ref(&data));
}

#[test]
fn no_source_holds_more_than_its_share_and_strangers_get_through() {
    let mut u = Udp::new();
    let flood = |n: u16| {
        let mut whole = datagram(PAIRS[0], &[0; 3000]);
        whole[4..6].copy_from_slice(&(n + 100).to_be_bytes());
        cut(&whole, 1480)[0].clone()
    };
    let share = usize::from(config().limits.fragments) / SHARE;
    for n in 0..100 {
        let expected = (usize::from(n) >= share).then_some(Drop::FragmentSourceShare);
        assert_eq!(u.net.ingest(&flood(n)), expected);
    }
    let data = vec![8; 2000];
    for p in cut(&udp_packet(("10.0.0.9", 1), ("10.0.0.1", 2000), &data), 1480) {
        assert_eq!(u.net.ingest(&p), None);
    }
    assert_eq!(u.received(), [data]);
}

#[test]
fn a_flood_from_many_sources_is_bounded_in_memory_and_the_newest_get_through() {
    let mut config = config();
    config.limits.fragment_bytes = 32 * 1024;
    let mut net = Net::with(config, &[(raw(1500), &["10.0.0.1/24"])]);
    for n in 0..2_000u32 {
        let src = std::format!("10.1.{}.{}", n / 200, n % 200 + 1);
        let whole = udp_packet((&src, 1), ("10.0.0.1", 2000), &[0; 3000]);
        net.ingest(&cut(&whole, 1480)[0]);
        assert!(net.stack.scratch.fragments.held() <= 32 * 1024);
    }
    assert!(net.stack.scratch.fragments.held() > 0);
    net.pass(31);
    assert_eq!(net.stack.scratch.fragments.held(), 0);
}

#[test]
fn a_datagram_in_too_many_pieces_is_refused() {
    let mut u = Udp::new();
    let whole = datagram(PAIRS[0], &[0; 4000]);
    let most = usize::from(config().limits.fragment_pieces);
    let pieces = cut(&whole, 8);
    let outcomes: Vec<_> = pieces.iter().map(|p| u.net.ingest(p)).collect();
    assert!(outcomes[..most].iter().all(Option::is_none));
    assert_eq!(outcomes[most], Some(Drop::FragmentPieces));
    assert_eq!(u.net.stack.scratch.fragments.held(), 0);
}

#[test]
fn fragments_of_different_protocols_or_destinations_do_not_mix() {
    let mut u = Udp::new();
    u.net.stack.add_address(u.net.now, clearway_pkt::Iface(0), cidr("10.0.0.3/24")).unwrap();
    let data = vec![1; 40];
    let a = cut(&datagram(PAIRS[0], &data), 24);
    let b = cut(&udp_packet(("10.0.0.2", 1000), ("10.0.0.3", 2000), &data), 24);
    let c = cut(&packet("10.0.0.2", "10.0.0.1", Proto::ICMP, &[0; 48]), 24);
    for p in [&a[0], &b[1], &c[1]] {
        assert_eq!(u.net.ingest(p), None);
    }
    assert_eq!(u.received().len(), 0);
    assert_eq!(u.net.ingest(&a[1]), None);
    assert_eq!(u.received(), [data]);
}

#[test]
fn fragmented_tcp_needs_buffers_and_is_taken_when_there_are() {
    let segment = Segment { src_port: 1, dst_port: 2, ..Segment::default() };
    for (src, dst) in PAIRS {
        let mut net = Net::tun();
        let pieces = cut(&tcp_packet(src, dst, &segment, &[0; 64]), 40);
        net.ingest(&pieces[0]);
        net.ingest(&pieces[1]);
        assert_eq!(net.ingest(&pieces[2]), Some(Drop::FragmentNoBuffer));
        net.stack.set_buffer_maker(std::boxed::Box::new(|bytes| Some(TestBuf(bytes.to_vec()))));
        net.ingest(&pieces[2]);
        net.ingest(&pieces[0]);
        assert_ne!(net.ingest(&pieces[1]), Some(Drop::FragmentNoBuffer));
        // Nobody listens: whatever TCP answers, it answers the whole segment.
        assert_eq!(net.emit().len(), 1);
    }
}

proptest! {
    #[test]
    fn whatever_comes_nothing_breaks_and_nothing_wrong_is_delivered(
        steps in proptest::collection::vec((0usize..12, 1usize..5, any::<bool>(), 0u8..2), 1..40),
        v6 in any::<bool>(),
    ) {
        let mut u = Udp::new();
        let data: Vec<u8> = (0..88u8).collect();
        let whole = datagram(PAIRS[usize::from(v6)], &data);
        let l4 = whole[whole.len() - 96..].to_vec();
        for (at, units, more, kind) in steps {
            let (start, end) = (at * 8, ((at + units) * 8).min(96));
            // True pieces and forged ones.
            let mut bytes = l4[start.min(end)..end].to_vec();
            if kind == 1 {
                bytes.iter_mut().for_each(|b| *b ^= 0x55);
            }
            if !bytes.is_empty() {
                u.net.ingest(&piece(&whole, start, more && end < 96, &bytes));
            }
            for got in u.received() {
                prop_assert_eq!(&got, &data);
            }
            prop_assert!(u.net.stack.scratch.fragments.held() <= 1024 * 1024);
        }
        let c = u.net.stack.counters();
        prop_assert_eq!(c.ip.packets_in, c.ip.delivered + c.drops_total());
    }
}
