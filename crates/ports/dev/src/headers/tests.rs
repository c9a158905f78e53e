use clearway_wire::Flags;
use proptest::prelude::*;

use super::*;
use crate::layout::Layout;
use crate::test_frames::{addresses, ip_frame, pattern, tcp_frame, udp_frame};

/// An IPv6 packet without Ethernet whose payload is these headers.
fn v6(first: Proto, payload: &[u8]) -> Vec<u8> {
    ip_frame(false, false, first, payload)
}

/// A fragment header that names `next`.
fn fragment(next: Proto, offset: u16, more: bool) -> [u8; 8] {
    let field = (offset & !7 | u16::from(more)).to_be_bytes();
    [next.0, 0, field[0], field[1], 0, 0, 0, 9]
}

#[test]
fn ports_and_addresses_are_read_in_both_families_with_and_without_ethernet() {
    for (v4, ethernet) in [(true, true), (true, false), (false, true), (false, false)] {
        let (src, dst) = addresses(v4);
        for (frame, proto, ports) in [
            (tcp_frame(v4, ethernet, Flags::ACK, b"data"), Proto::TCP, (1000, 80)),
            (udp_frame(v4, ethernet, b"data"), Proto::UDP, (1000, 53)),
        ] {
            let expected = Headers {
                src,
                dst,
                proto: Some(proto),
                ports: Some(ports),
                part: Part::Whole,
                frame_len: frame.len(),
            };
            assert_eq!(Headers::of(&frame, ethernet), Some(expected));
            let head = &frame[..frame.len().min(60)];
            assert_eq!(Headers::of(head, ethernet), Some(expected), "the first bytes are enough");
        }
    }
}

#[test]
fn fragments_show_which_part_they_are() {
    for (offset_field, part, ports) in [
        (0x2000, Part::First, Some((1000, 53))),
        (0x2001, Part::Later, None),
        (0x0001, Part::Later, None),
    ] {
        let mut frame = udp_frame(true, false, &pattern(64));
        frame[6..8].copy_from_slice(&u16::to_be_bytes(offset_field));
        let headers = Headers::of(&frame, false).unwrap();
        assert_eq!((headers.part, headers.ports, headers.proto), (part, ports, Some(Proto::UDP)));
    }
    let udp = &udp_frame(false, false, &pattern(64))[40..];
    for (header, part, ports) in [
        (fragment(Proto::UDP, 0, false), Part::Whole, Some((1000, 53))),
        (fragment(Proto::UDP, 0, true), Part::First, Some((1000, 53))),
        (fragment(Proto::UDP, 64, true), Part::Later, None),
    ] {
        let headers =
            Headers::of(&v6(Proto::FRAGMENT, &[&header[..], udp].concat()), false).unwrap();
        assert_eq!((headers.part, headers.ports, headers.proto), (part, ports, Some(Proto::UDP)));
    }
}

#[test]
fn extension_headers_are_followed_as_far_as_they_go() {
    let udp = &udp_frame(false, false, b"data")[40..];
    let options = |next: Proto| [next.0, 0, 1, 4, 0, 0, 0, 0];
    let chain = [&options(Proto::DEST_OPTIONS)[..], &options(Proto::UDP), udp].concat();
    let headers = Headers::of(&v6(Proto::HOP_BY_HOP, &chain), false).unwrap();
    assert_eq!((headers.proto, headers.ports), (Some(Proto::UDP), Some((1000, 53))));
    // A first fragment goes on behind the fragment header, a later one does not show what is there.
    let first = [&fragment(Proto::DEST_OPTIONS, 0, true)[..], &options(Proto::UDP), udp].concat();
    assert_eq!(Headers::of(&v6(Proto::FRAGMENT, &first), false).unwrap().ports, Some((1000, 53)));
    let later = [&fragment(Proto::DEST_OPTIONS, 8, false)[..], udp].concat();
    let headers = Headers::of(&v6(Proto::FRAGMENT, &later), false).unwrap();
    assert_eq!((headers.proto, headers.part), (None, Part::Later));
    let cut_off = &v6(Proto::HOP_BY_HOP, &chain)[..44];
    assert_eq!(Headers::of(cut_off, false).unwrap().proto, None);
}

#[test]
fn what_is_no_ip_packet_has_no_headers() {
    let mut arp = tcp_frame(true, true, Flags::ACK, b"");
    arp[12..14].copy_from_slice(&[8, 6]);
    assert_eq!(Headers::of(&arp, true), None);
    assert_eq!(Headers::of(&[], false), None);
    assert_eq!(Headers::of(&[0x50; 60], false), None);
}

proptest! {
    #[test]
    fn no_bytes_make_reading_panic(bytes in prop::collection::vec(any::<u8>(), 0..120),
        ethernet: bool) {
        let _ = Headers::of(&bytes, ethernet);
    }

    #[test]
    fn whatever_the_strict_reader_takes_reads_the_same(at in 0usize..120, byte: u8, v4: bool,
        len in 0usize..60) {
        let mut frame = udp_frame(v4, true, &pattern(len));
        if let Some(place) = frame.get_mut(at) {
            *place = byte;
        }
        if let Some(layout) = Layout::of(&frame, true) {
            let headers = Headers::of(&frame, true).unwrap();
            prop_assert_eq!((headers.src, headers.dst), (layout.src, layout.dst));
            prop_assert_eq!((headers.proto, headers.part), (Some(layout.proto), Part::Whole));
            prop_assert_eq!(headers.frame_len, layout.end);
        }
    }
}
