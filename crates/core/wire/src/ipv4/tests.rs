use std::vec;
use std::vec::Vec;

use super::*;

const HEADER: Header = Header {
    src: Addr::v4([10, 0, 0, 1]),
    dst: Addr::v4([10, 0, 0, 2]),
    proto: Proto::UDP,
    tos: 0xb9,
    ttl: 64,
    id: 0x1234,
    dont_fragment: true,
    more_fragments: false,
    fragment_offset: 0,
    payload_len: 8,
};

fn packet(header: &Header) -> Vec<u8> {
    let mut bytes = vec![7; HEADER_LEN + usize::from(header.payload_len)];
    emit(header, &mut bytes);
    bytes
}

/// A packet with `options`, padded to words, its checksum right.
fn with_options(options: &[u8]) -> Vec<u8> {
    let mut bytes = packet(&HEADER);
    let padded = options.len().div_ceil(4) * 4;
    let header_len = HEADER_LEN + padded;
    bytes[0] = 0x40 | (header_len / 4) as u8;
    bytes[2..4].copy_from_slice(&((header_len + 8) as u16).to_be_bytes());
    bytes.splice(20..20, options.iter().copied().chain(core::iter::repeat(0)).take(padded));
    fix_checksum(&mut bytes);
    bytes
}

fn fix_checksum(bytes: &mut [u8]) {
    let header_len = usize::from(bytes[0] & 15) * 4;
    bytes[10..12].fill(0);
    let sum = checksum::sum(&bytes[..header_len]).finish();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
}

#[test]
fn a_header_comes_back_as_it_was_written() {
    let bytes = packet(&HEADER);
    let ip = check(&bytes, true).unwrap();
    assert_eq!(
        (ip.src(), ip.dst(), ip.proto(), ip.ttl()),
        (HEADER.src, HEADER.dst, Proto::UDP, 64)
    );
    assert_eq!((ip.tos(), ip.ecn(), ip.id()), (0xb9, Ecn::Ect1, 0x1234));
    assert_eq!((ip.header_len(), ip.total_len(), ip.payload()), (20, 28, &[7; 8][..]));
    assert!(
        ip.dont_fragment() && !ip.more_fragments() && !ip.is_fragment() && ip.options().is_empty()
    );
}

#[test]
fn a_plain_header_is_written_as_any_other() {
    for (tos, ttl, payload_len) in [(0, 64, 20), (0xb9, 1, 1480), (0xff, 0xff, 0xffff), (0, 0, 0)] {
        let (src, dst) = ([10, 0, 0, 1], [192, 0, 2, 200]);
        let header = Header {
            src: Addr::v4(src),
            dst: Addr::v4(dst),
            proto: Proto::TCP,
            tos,
            ttl,
            id: 0,
            payload_len,
            ..HEADER
        };
        let (mut one, mut other) = ([7; HEADER_LEN], [8; HEADER_LEN]);
        emit(&header, &mut one);
        let addresses = emit_plain_tcp(src, dst, tos, ttl, payload_len, &mut other);
        assert_eq!(one, other);
        let pseudo = checksum::pseudo_of(addresses, Proto::TCP, payload_len);
        assert_eq!(pseudo.fold(), checksum::pseudo_v4(src, dst, Proto::TCP, payload_len).fold());
    }
}

#[test]
fn link_padding_is_cut_off() {
    let mut bytes = packet(&HEADER);
    bytes.extend([0xee; 18]);
    assert_eq!(check(&bytes, true).unwrap().payload(), [7; 8]);
}

#[test]
fn a_total_length_that_lies_is_refused() {
    for total in [0u16, 19, 29, 65535] {
        let mut bytes = packet(&HEADER);
        bytes[2..4].copy_from_slice(&total.to_be_bytes());
        fix_checksum(&mut bytes);
        assert_eq!(check(&bytes, true).err(), Some(Malformed::Ipv4BadLength), "{total}");
    }
}

#[test]
fn version_and_header_length_are_looked_at() {
    for (first, reason) in [
        (0x65, Malformed::Ipv4BadVersion),
        (0x05, Malformed::Ipv4BadVersion),
        (0x44, Malformed::Ipv4HeaderTooShort),
        (0x40, Malformed::Ipv4HeaderTooShort),
        (0x4f, Malformed::Ipv4BadLength),
    ] {
        let mut bytes = packet(&HEADER);
        bytes[0] = first;
        assert_eq!(check(&bytes, false).err(), Some(reason), "{first:#x}");
    }
    assert_eq!(check(&packet(&HEADER)[..19], false).err(), Some(Malformed::Ipv4TooShort));
}

#[test]
fn a_bad_checksum_is_refused_unless_the_device_vouched_for_it() {
    for mut bytes in [packet(&HEADER), with_options(&[7, 4, 4, 0])] {
        bytes[8] ^= 1;
        assert_eq!(check(&bytes, true).err(), Some(Malformed::Ipv4BadChecksum));
        assert!(check(&bytes, false).is_ok());
    }
}

#[test]
fn options_are_found_and_source_routes_told() {
    for (options, source_route) in [
        (&[1, 1, 7, 7, 4, 0, 0, 0, 0][..], false),
        (&[148, 4, 0, 0][..], false),
        (&[131, 7, 4, 1, 2, 3, 4][..], true),
        (&[1, 137, 7, 4, 1, 2, 3, 4][..], true),
        // What stands behind the end of the list is no option.
        (&[0, 131, 3, 4][..], false),
    ] {
        let bytes = with_options(options);
        let ip = check(&bytes, true).unwrap();
        assert_eq!(ip.has_source_route(), source_route, "{options:?}");
        assert_eq!((ip.payload(), &ip.options()[..options.len()]), (&[7; 8][..], options));
    }
}

#[test]
fn broken_option_lists_are_refused() {
    for options in
        [&[7, 0, 0, 0][..], &[7, 1, 0, 0], &[7, 5, 0, 0], &[1, 1, 1, 7], &[131, 255, 4, 0]]
    {
        assert_eq!(
            check(&with_options(options), true).err(),
            Some(Malformed::Ipv4BadOption),
            "{options:?}"
        );
    }
}

#[test]
fn fragments_tell_their_place() {
    let header =
        Header { dont_fragment: false, more_fragments: true, fragment_offset: 1480, ..HEADER };
    let bytes = packet(&header);
    let ip = check(&bytes, true).unwrap();
    assert!(ip.is_fragment() && ip.more_fragments() && !ip.dont_fragment());
    assert_eq!(ip.fragment_offset(), 1480);
}

#[test]
fn impossible_fragments_are_refused() {
    let fragment = Header { dont_fragment: false, ..HEADER };
    for header in [
        Header { more_fragments: true, payload_len: 7, ..fragment },
        Header { more_fragments: true, payload_len: 0, ..fragment },
        Header { fragment_offset: 800, payload_len: 0, ..fragment },
        // The ping of death: it would end beyond what a length field can say.
        Header { fragment_offset: 65528, payload_len: 8, ..fragment },
    ] {
        assert_eq!(
            check(&packet(&header), true).err(),
            Some(Malformed::Ipv4BadFragment),
            "{header:?}"
        );
    }
    assert!(
        check(&packet(&Header { fragment_offset: 65504, payload_len: 11, ..fragment }), true)
            .is_ok()
    );
}

#[test]
fn tcp_fragments_that_hide_the_flags_are_refused() {
    let tcp = Header { proto: Proto::TCP, dont_fragment: false, ..HEADER };
    let tiny = [
        Header { more_fragments: true, payload_len: 8, ..tcp },
        Header { fragment_offset: 8, payload_len: 100, ..tcp },
    ];
    for header in tiny {
        assert_eq!(check(&packet(&header), true).err(), Some(Malformed::Ipv4TinyFragment));
        assert!(check(&packet(&Header { proto: Proto::UDP, ..header }), true).is_ok());
    }
    assert!(check(&packet(&Header { more_fragments: true, payload_len: 24, ..tcp }), true).is_ok());
}

/// A whole TCP segment of `len` bytes, its checksums right.
fn segment(len: u16) -> Vec<u8> {
    let header = Header { proto: Proto::TCP, payload_len: len, ..HEADER };
    let mut bytes = packet(&header);
    if len >= 20 {
        bytes[36..38].fill(0);
        let sum = checksum::transport(&header.src, &header.dst, Proto::TCP, &bytes[20..]);
        bytes[36..38].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

#[test]
fn a_plain_segment_is_read_as_the_checks_read_it() {
    for len in [20, 21, 32, 96, 1460] {
        let mut bytes = segment(len);
        bytes.extend([0; 6]);
        let (plain, ip) = (plain_tcp(&bytes).unwrap(), check(&bytes, true).unwrap());
        assert_eq!((Addr::v4(plain.src), Addr::v4(plain.dst)), (ip.src(), ip.dst()));
        assert_eq!(plain.segment, ip.payload());
        assert_eq!(
            (plain.src_port(), plain.dst_port()),
            (u16_at(&[bytes[20], bytes[21]], 0), 0x0707)
        );
        assert!(plain.checksum_is_valid());
        bytes[25] ^= 1;
        assert!(!plain_tcp(&bytes).unwrap().checksum_is_valid());
    }
}

#[test]
fn what_is_no_plain_segment_is_left_to_the_checks() {
    let good = segment(32);
    for cut in 0..good.len() {
        assert!(plain_tcp(&good[..cut]).is_none(), "{cut} bytes");
    }
    assert!(plain_tcp(&segment(19)).is_none(), "a segment without a whole header");
    assert!(plain_tcp(&packet(&HEADER)).is_none(), "UDP");
    assert!(plain_tcp(&with_options(&[1, 1, 1, 0])).is_none(), "options");
    // Version, length, more fragments, an offset; each with the header's checksum made right again,
    // and the checksum itself.
    for (at, value) in [(0, 0x65), (0, 0x44), (3, 19), (6, 0x20), (7, 1), (10, good[10] ^ 1)] {
        let mut bytes = good.clone();
        bytes[at] = value;
        if at != 10 {
            bytes[10..12].fill(0);
            let sum = checksum::sum(&bytes[..20]).finish();
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
        assert!(plain_tcp(&bytes).is_none(), "{value} at {at}");
    }
}

#[test]
fn a_header_with_a_router_alert_is_sound() {
    let (src, dst) = ("10.0.0.1".parse().unwrap(), "224.0.0.22".parse().unwrap());
    let header = Header {
        src,
        dst,
        proto: Proto::IGMP,
        tos: 0xc0,
        ttl: 1,
        id: 7,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: 8,
    };
    let mut out = [0xff; 32];
    assert_eq!(emit_with_router_alert(&header, &mut out), 24);
    let read = check(&out, true).unwrap();
    assert_eq!((read.src(), read.dst(), read.proto(), read.ttl()), (src, dst, Proto::IGMP, 1));
    assert_eq!((read.options(), read.payload().len()), (&[148, 4, 0, 0][..], 8));
}
