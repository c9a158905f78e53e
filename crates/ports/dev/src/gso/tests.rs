use clearway_pkt::{Buf, Checksum};
use clearway_wire::{eth, ipv4, ipv6};
use proptest::prelude::*;

use super::*;
use crate::pair::{PairConfig, PairEnd, pair};
use crate::test_frames::{addresses, pattern, tcp_frame, udp_frame};
use crate::{FramePool, PoolBudget};

fn pieces(cut: &Cut<'_>) -> Vec<Vec<u8>> {
    let piece = |index| {
        let mut out = vec![0xaa; cut.piece_len(index)];
        assert_eq!(cut.write(index, &mut out), out.len());
        out
    };
    (0..cut.count()).map(piece).collect()
}

/// The transport bytes of a piece, everything about its IP header checked.
fn transport_of(frame: &[u8], v4: bool, ethernet: bool) -> (Option<u16>, Vec<u8>) {
    let packet = if ethernet { eth::check(frame).unwrap().payload() } else { frame };
    if v4 {
        let ip = ipv4::check(packet, true).unwrap();
        assert_eq!(ip.total_len(), packet.len());
        (Some(ip.id()), ip.payload().to_vec())
    } else {
        let ip = ipv6::check(packet).unwrap();
        assert_eq!((ip.total_len(), ip.flow_label()), (packet.len(), 5));
        (None, ip.payload().to_vec())
    }
}

proptest! {
    #[test]
    fn the_pieces_of_a_tcp_packet_are_sound_segments_of_the_same_stream(
        v4: bool, ethernet: bool, len in 1usize..12_000, size in 1u16..3_000, flags in 0u8..=255,
    ) {
        let (src, dst) = addresses(v4);
        let flags = Flags(u16::from(flags)).without(Flags::SYN | Flags::RST | Flags::URG);
        let payload = pattern(len);
        let frame = tcp_frame(v4, ethernet, flags, &payload);
        let pieces = pieces(&Cut::new(&frame, ethernet, size).unwrap());
        prop_assert_eq!(pieces.len(), len.div_ceil(usize::from(size)));
        let mut stream = Vec::new();
        for (index, piece) in pieces.iter().enumerate() {
            let (id, bytes) = transport_of(piece, v4, ethernet);
            prop_assert!(id.is_none_or(|id| id == 0xfffeu16.wrapping_add(index as u16)));
            tcp::verify_checksum(&src, &dst, &bytes).unwrap();
            let segment = tcp::parse(&bytes).unwrap();
            let data = &bytes[usize::from(segment.header_len)..];
            prop_assert_eq!(segment.seq, Seq(0xffff_f000) + stream.len() as u32);
            prop_assert_eq!((segment.ack, segment.wnd, segment.opts.ts),
                (Seq(77), 500, Some((1, 2))));
            let (first, last) = (index == 0, index + 1 == pieces.len());
            prop_assert!(data.len() == usize::from(size) || last);
            let mut expected = flags;
            if !last { expected = expected.without(Flags::PSH | Flags::FIN); }
            if !first { expected = expected.without(Flags::CWR); }
            prop_assert_eq!(segment.flags, expected);
            stream.extend_from_slice(data);
        }
        prop_assert_eq!(stream, payload);
    }

    #[test]
    fn the_pieces_of_a_udp_packet_are_sound_datagrams(
        v4: bool, ethernet: bool, len in 0usize..12_000, size in 1u16..3_000,
    ) {
        let (src, dst) = addresses(v4);
        let payload = pattern(len);
        let frame = udp_frame(v4, ethernet, &payload);
        let mut got = Vec::new();
        for piece in pieces(&Cut::new(&frame, ethernet, size).unwrap()) {
            let (_, bytes) = transport_of(&piece, v4, ethernet);
            let datagram = udp::check(&src, &dst, &bytes, true).unwrap();
            prop_assert_eq!(datagram.payload().len() + udp::HEADER_LEN, bytes.len());
            got.extend_from_slice(datagram.payload());
        }
        prop_assert_eq!(got, payload);
    }

    #[test]
    fn no_frame_makes_cutting_panic(mut frame in prop::collection::vec(any::<u8>(), 0..200),
        ethernet: bool, size: u16, v6: bool) {
        // Most random bytes are no IP packet; these are a little more often.
        let at = if ethernet { 14 } else { 0 };
        if frame.len() > at + 10 {
            if ethernet { frame[12..14].copy_from_slice(&if v6 { [0x86, 0xdd] } else { [8, 0] }); }
            frame[at] = if v6 { 0x60 } else { 0x45 };
            frame[at + if v6 { 6 } else { 9 }] = 6;
        }
        if let Ok(cut) = Cut::new(&frame, ethernet, size) {
            pieces(&cut);
        }
        rewrite_checksum(&mut frame, ethernet);
    }
}

#[test]
fn padding_behind_the_packet_is_no_data() {
    let mut frame = tcp_frame(true, true, Flags::ACK, b"");
    frame.extend_from_slice(&[0; 20]);
    let cut = Cut::new(&frame, true, 1000).unwrap();
    assert_eq!((cut.count(), cut.piece_len(0)), (1, frame.len() - 20));
}

#[test]
fn what_has_no_meaning_in_pieces_is_not_cut() {
    let cut = |frame: &[u8], size| Cut::new(frame, true, size).map(|_| ()).unwrap_err();
    for flag in [Flags::SYN, Flags::RST, Flags::URG] {
        assert_eq!(cut(&tcp_frame(true, true, flag, &[1; 100]), 10), CutError::NotCuttable);
    }
    let good = tcp_frame(true, true, Flags::ACK, &[1; 100]);
    assert_eq!(cut(&good, 0), CutError::NoSegmentSize);
    let mut fragment = good.clone();
    fragment[20] = 0x20;
    assert_eq!(cut(&fragment, 10), CutError::NotCuttable);
    let mut icmp = good;
    icmp[23] = 1;
    assert_eq!(cut(&icmp, 10), CutError::NotCuttable);
}

#[test]
fn an_unfinished_checksum_is_finished_and_a_wrong_one_made_right() {
    for v4 in [true, false] {
        let (src, dst) = addresses(v4);
        let start = if v4 { 34 } else { 54 };
        let mut frame = tcp_frame(v4, true, Flags::ACK, b"hello");
        let meta = TxMeta { checksum_start: start, checksum_offset: 16, ..TxMeta::default() };
        assert!(finish_checksum(&mut frame, &meta));
        tcp::verify_checksum(&src, &dst, &frame[usize::from(start)..]).unwrap();
        frame[usize::from(start) + 16] ^= 0x55;
        assert!(rewrite_checksum(&mut frame, true));
        tcp::verify_checksum(&src, &dst, &frame[usize::from(start)..]).unwrap();
        assert!(!finish_checksum(&mut frame, &TxMeta { checksum_offset: 1000, ..meta }));
    }
}

fn gso_over_a_pair(offloads: Offloads) -> (Gso<PairEnd>, PairEnd) {
    let pool = FramePool::new(PoolBudget {
        small_count: 64,
        small_len: 2048,
        large_count: 4,
        large_len: 66_000,
    });
    let (a, b) = pair(PairConfig { offloads, ..PairConfig::default() }, &pool);
    (Gso::new(a), b)
}

fn send(dev: &mut impl Dev, frame: &[u8], meta: TxMeta) {
    dev.reserve(frame.len()).unwrap()[..frame.len()].copy_from_slice(frame);
    dev.commit(frame.len(), meta);
    dev.flush();
}

const LARGE: TxMeta = TxMeta {
    checksum_start: 34,
    checksum_offset: 16,
    segmentation: Segmentation::Tcp(1400),
    header_len: 66,
    flow_hash: 9,
};

#[test]
fn a_port_that_cuts_nothing_sends_pieces_that_fit_it() {
    let (mut dev, mut other) = gso_over_a_pair(Offloads::default());
    assert!(
        dev.offloads().tso4
            && dev.offloads().tx_checksum
            && dev.offloads().max_segmented_frame > 60_000
    );
    send(&mut dev, &tcp_frame(true, true, Flags::ACK, &pattern(5_000)), LARGE);
    send(
        &mut dev,
        &tcp_frame(true, true, Flags::ACK, b"short"),
        TxMeta { segmentation: Segmentation::None, ..LARGE },
    );
    let mut burst = Burst::new();
    other.rx(&mut burst).unwrap();
    assert_eq!(burst.len(), 5);
    for index in 0..5 {
        let (frame, meta) = burst.take(index).unwrap();
        assert_eq!((meta.checksum, meta.segment_size), (Checksum::Unknown, 0));
        let (src, dst) = addresses(true);
        tcp::verify_checksum(&src, &dst, &frame.bytes()[34..]).unwrap();
    }
    assert_eq!((dev.counters().tx_packets, dev.counters().tx_dropped_total()), (5, 0));
}

#[test]
fn a_port_that_cuts_itself_gets_the_packet_whole() {
    let offloads = Offloads {
        tx_checksum: true,
        tso4: true,
        tso6: true,
        max_segmented_frame: 65_549,
        ..Offloads::default()
    };
    let (mut dev, mut other) = gso_over_a_pair(offloads);
    send(&mut dev, &tcp_frame(true, true, Flags::ACK, &pattern(5_000)), LARGE);
    let mut burst = Burst::new();
    other.rx(&mut burst).unwrap();
    assert_eq!(burst.len(), 1);
    let (_, meta) = burst.take(0).unwrap();
    assert_eq!((meta.checksum, meta.segment_size), (Checksum::Good, 1400));
}

#[test]
fn a_request_that_cannot_be_met_is_counted() {
    let (mut dev, _other) = gso_over_a_pair(Offloads::default());
    send(&mut dev, &[0; 3000], LARGE);
    send(
        &mut dev,
        &[0; 60],
        TxMeta { segmentation: Segmentation::None, checksum_offset: 500, ..LARGE },
    );
    dev.commit(60, TxMeta::default());
    assert_eq!(dev.counters().tx_dropped(TxDrop::BadRequest), 3);
}
