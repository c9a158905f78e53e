use clearway_wire::{Addr, Endpoint, Flags, Mac, Segment, Seq};

use super::Train;
use crate::frame::{Framing, tcp_packet, tcp_view};

fn segment(v6: bool, seq: u32, ack: u32, flags: Flags, payload: &[u8]) -> Vec<u8> {
    let addr = |n| if v6 { Addr::v6([n; 16]) } else { Addr::v4([10, 0, 0, n]) };
    let seg = Segment { seq: Seq(seq), ack: Seq(ack), flags, wnd: 9, ..Segment::default() };
    let packet = tcp_packet(Endpoint::new(addr(1), 1), Endpoint::new(addr(2), 2), &seg, payload);
    Framing::Ethernet.wrap(Mac([2; 6]), Mac([4; 6]), &packet)
}

#[test]
fn segments_that_follow_each_other_become_one() {
    for v6 in [false, true] {
        let start = u32::MAX - 3;
        let mut train =
            Train::begin(Framing::Ethernet, &segment(v6, start, 5, Flags::ACK, b"hello")).unwrap();
        let next = start.wrapping_add(5);
        assert!(
            train.join(Framing::Ethernet, &segment(v6, next, 5, Flags::ACK | Flags::PSH, b"you"))
        );
        let view = tcp_view(Framing::Ethernet.packet(&train.bytes).unwrap()).unwrap();
        assert_eq!((view.payload, view.seg.seq), (&b"helloyou"[..], Seq(start)));
        assert!(view.checksum_is_valid() && view.seg.flags.contains(Flags::PSH));
        assert_eq!(train.segment_size, 5);
        assert!(
            !train.join(Framing::Ethernet, &segment(v6, next.wrapping_add(3), 5, Flags::ACK, b"x")),
            "it was pushed"
        );
    }
}

#[test]
fn what_does_not_follow_is_left_alone() {
    let first = segment(false, 100, 5, Flags::ACK, b"hello");
    for other in [
        segment(false, 106, 5, Flags::ACK, b"later"),
        segment(false, 105, 6, Flags::ACK, b"other"),
        segment(false, 105, 5, Flags::ACK | Flags::FIN, b"ended"),
        segment(false, 105, 5, Flags::ACK, b""),
        segment(false, 105, 5, Flags::ACK, b"longer"),
    ] {
        let mut train = Train::begin(Framing::Ethernet, &first).unwrap();
        assert!(!train.join(Framing::Ethernet, &other));
        assert_eq!(train.bytes, first);
    }
}
