use std::vec;
use std::vec::Vec;

use super::*;
use crate::{ipv4, ipv6};

fn quoted_v4(proto: Proto, fragment_offset: u16, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 20];
    let header = ipv4::Header {
        src: Addr::v4([10, 0, 0, 1]),
        dst: Addr::v4([10, 0, 0, 2]),
        proto,
        tos: 0,
        ttl: 1,
        id: 0,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset,
        payload_len: 1000,
    };
    ipv4::emit(&header, &mut bytes);
    bytes.extend(data);
    bytes
}

fn quoted_v6(next: Proto, data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; 40];
    let header = ipv6::Header {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        next,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 1,
        payload_len: 1000,
    };
    ipv6::emit(&header, &mut bytes);
    bytes.extend(data);
    bytes
}

/// Ports 80 and 4242, sequence number 7.
const TCP_START: [u8; 8] = [0, 80, 0x10, 0x92, 0, 0, 0, 7];

#[test]
fn eight_bytes_of_tcp_tell_ports_and_sequence_number() {
    let bytes = quoted_v4(Proto::TCP, 0, &TCP_START);
    let quote = quote(&bytes).unwrap();
    assert_eq!((quote.src, quote.dst), (Addr::v4([10, 0, 0, 1]), Addr::v4([10, 0, 0, 2])));
    assert_eq!(
        (quote.ports(), quote.tcp_seq(), quote.total_len),
        (Some((80, 4242)), Some(Seq(7)), 1020)
    );
}

#[test]
fn ipv6_is_read_behind_extension_headers() {
    let options = [6, 0, 1, 4, 0, 0, 0, 0];
    let mut bytes = quoted_v6(Proto::DEST_OPTIONS, &options);
    bytes.extend(TCP_START);
    let quote = quote(&bytes).unwrap();
    assert_eq!(
        (quote.proto, quote.ports(), quote.tcp_seq()),
        (Proto::TCP, Some((80, 4242)), Some(Seq(7)))
    );
    assert_eq!(quote.total_len, 1040);
}

#[test]
fn a_later_fragment_tells_no_ports() {
    let bytes = quoted_v4(Proto::TCP, 800, &TCP_START);
    let got = quote(&bytes).unwrap();
    assert_eq!((got.later_fragment, got.ports(), got.tcp_seq()), (true, None, None));
    let mut bytes = quoted_v6(Proto::FRAGMENT, &[6, 0, 3, 0x20, 0, 0, 0, 1]);
    bytes.extend(TCP_START);
    let got = quote(&bytes).unwrap();
    assert_eq!((got.later_fragment, got.proto, got.ports()), (true, Proto::TCP, None));
}

#[test]
fn short_quotes_tell_what_they_hold() {
    let bytes = quoted_v4(Proto::UDP, 0, &TCP_START);
    let cut = |len: usize| quote(&bytes[..len]).map(|q| q.ports());
    assert_eq!(cut(19), Err(Malformed::IcmpBadQuote));
    assert_eq!(cut(23), Ok(None));
    assert_eq!(cut(24), Ok(Some((80, 4242))));
    assert_eq!(quote(&bytes).unwrap().tcp_seq(), None, "this is UDP");
}

#[test]
fn quotes_that_are_no_ip_packet_are_refused() {
    let mut short_header = quoted_v4(Proto::TCP, 0, &TCP_START);
    short_header[0] = 0x44;
    let mut mapped = quoted_v6(Proto::TCP, &TCP_START);
    mapped[8..24].copy_from_slice(Addr::v4([1, 2, 3, 4]).octets());
    let endless =
        quoted_v6(Proto::DEST_OPTIONS, &[Proto::DEST_OPTIONS.0, 0, 1, 4, 0, 0, 0, 0].repeat(9));
    for bytes in [vec![], vec![0x50; 40], short_header, mapped, endless] {
        assert_eq!(quote(&bytes).err(), Some(Malformed::IcmpBadQuote));
    }
}

#[test]
fn ecn_is_the_low_two_bits() {
    assert_eq!([0xfc, 0xfd, 0xfe, 0xff].map(Ecn::of), [Ecn::NotEct, Ecn::Ect1, Ecn::Ect0, Ecn::Ce]);
}
