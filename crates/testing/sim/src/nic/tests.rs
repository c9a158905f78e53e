use clearway_base::Duration;
use clearway_pkt::{Checksum, Iface, Offloads, Segmentation, TxMeta};
use clearway_wire::{Addr, Endpoint, Flags, Mac, Segment, Seq, tcp};

use super::{Handed, Port, finish, verdict};
use crate::frame::{Framing, tcp_packet, tcp_view};

fn port(framing: Framing) -> Port {
    let offloads = Offloads {
        tx_checksum: true,
        tso4: true,
        tso6: true,
        max_segmented_frame: 65550,
        ..Offloads::default()
    };
    Port {
        link: 0,
        end: 0,
        framing,
        mac: Mac([2; 6]),
        mtu: 1500,
        offloads,
        checks: true,
        passes_large: false,
        joins: false,
        moderation: Duration::ZERO,
    }
}

fn large(framing: Framing, v6: bool, len: usize) -> Handed {
    let (a, b): (Addr, Addr) = if v6 {
        ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
    } else {
        (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]))
    };
    let seg = Segment {
        seq: Seq(u32::MAX - 1000),
        flags: Flags::ACK | Flags::PSH | Flags::FIN,
        ..Segment::default()
    };
    let packet = tcp_packet(Endpoint::new(a, 1), Endpoint::new(b, 2), &seg, &vec![9; len]);
    let mut bytes = framing.wrap(Mac([4; 6]), Mac([2; 6]), &packet);
    let start = framing.header_len() + if v6 { 40 } else { 20 };
    bytes[start + 16..start + 18].fill(0);
    tcp::fill_partial_checksum(&a, &b, (20 + len) as u32, &mut bytes[start..]);
    let meta = TxMeta {
        checksum_start: start as u16,
        checksum_offset: 16,
        segmentation: Segmentation::Tcp(1000),
        header_len: (start + 20) as u16,
        flow_hash: 0,
    };
    Handed { iface: Iface(0), bytes, meta }
}

#[test]
fn a_large_segment_is_cut_into_valid_ones() {
    for framing in [Framing::Ethernet, Framing::Raw] {
        for v6 in [false, true] {
            let port = port(framing);
            let frames = finish(&port, large(framing, v6, 2500)).unwrap();
            assert_eq!(frames.len(), 3);
            let mut next = Seq(u32::MAX - 1000);
            for (i, (frame, segment_size)) in frames.iter().enumerate() {
                assert_eq!(*segment_size, 0);
                let view = tcp_view(framing.packet(frame).unwrap()).unwrap();
                assert!(view.checksum_is_valid());
                assert_eq!(view.seg.seq, next);
                assert_eq!(view.seg.flags.fin(), i == 2);
                next += view.payload.len() as u32;
                assert_eq!(verdict(&port, frame), Checksum::Good);
            }
            assert_eq!(next, Seq(1499));
        }
    }
}

#[test]
fn a_wrong_partial_checksum_is_refused() {
    let mut handed = large(Framing::Raw, false, 100);
    handed.bytes[37] ^= 1;
    assert!(finish(&port(Framing::Raw), handed).unwrap_err().contains("checksum field"));
}

#[test]
fn a_packet_too_long_for_the_link_is_refused() {
    let mut handed = large(Framing::Raw, true, 1600);
    handed.meta.segmentation = Segmentation::None;
    assert!(finish(&port(Framing::Raw), handed).unwrap_err().contains("on a link of 1500"));
}

#[test]
fn a_flipped_bit_is_seen_by_a_device_that_checks() {
    let port = port(Framing::Ethernet);
    let (mut frame, _) = finish(&port, large(Framing::Ethernet, false, 900)).unwrap().remove(0);
    frame[100] ^= 4;
    assert_eq!(verdict(&port, &frame), Checksum::Bad);
}
