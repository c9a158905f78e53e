use clearway_wire::icmpv4::Icmpv4;
use clearway_wire::icmpv6::Icmpv6;
use clearway_wire::{Addr, Endpoint, Flags, Mac, Segment, Seq, icmpv4, icmpv6};

use super::{Framing, tcp_packet, tcp_view, too_big, upper};

fn ends(v6: bool) -> (Endpoint, Endpoint) {
    let (a, b): (Addr, Addr) = if v6 {
        ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
    } else {
        (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2]))
    };
    (Endpoint::new(a, 1000), Endpoint::new(b, 80))
}

#[test]
fn a_segment_made_by_hand_is_read_back() {
    for v6 in [false, true] {
        let (src, dst) = ends(v6);
        let seg = Segment {
            seq: Seq(7),
            ack: Seq(9),
            flags: Flags::ACK | Flags::PSH,
            wnd: 100,
            ..Segment::default()
        };
        let packet = tcp_packet(src, dst, &seg, b"data");
        for framing in [Framing::Ethernet, Framing::Raw] {
            let frame = framing.wrap(Mac([2; 6]), Mac([4; 6]), &packet);
            let view = tcp_view(framing.packet(&frame).unwrap()).unwrap();
            assert_eq!((view.src, view.dst, view.payload), (src, dst, &b"data"[..]));
            assert_eq!((view.seg.seq, view.seg.flags), (Seq(7), Flags::ACK | Flags::PSH));
            assert!(view.checksum_is_valid());
        }
    }
}

#[test]
fn a_router_answers_with_the_mtu_and_the_packet() {
    let (src, dst) = ends(false);
    let packet = tcp_packet(src, dst, &Segment::default(), &[0; 1000]);
    let answer = too_big(Addr::v4([192, 0, 2, 1]), &packet, 600).unwrap();
    let up = upper(&answer).unwrap();
    assert_eq!(up.dst, src.addr);
    assert!(matches!(
        icmpv4::check(up.bytes, true),
        Ok(Icmpv4::Unreachable { code: 4, mtu: 600, .. })
    ));

    let (src, dst) = ends(true);
    let packet = tcp_packet(src, dst, &Segment::default(), &[0; 2000]);
    let answer = too_big("2001:db8:ffff::1".parse().unwrap(), &packet, 1280).unwrap();
    assert!(answer.len() <= 1280);
    let up = upper(&answer).unwrap();
    assert!(matches!(
        icmpv6::check(&up.src, &up.dst, 64, up.bytes, true),
        Ok(Icmpv6::PacketTooBig { mtu: 1280, .. })
    ));
}
