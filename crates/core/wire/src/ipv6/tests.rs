use std::vec;
use std::vec::Vec;

use super::*;

fn header() -> Header {
    Header {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        next: Proto::TCP,
        traffic_class: 0xb9,
        flow_label: 0xabcde,
        hop_limit: 64,
        payload_len: 8,
    }
}

fn packet(header: &Header) -> Vec<u8> {
    let mut bytes = vec![7; HEADER_LEN + usize::from(header.payload_len)];
    emit(header, &mut bytes);
    bytes
}

#[test]
fn a_header_comes_back_as_it_was_written() {
    let (header, bytes) = (header(), packet(&header()));
    let ip = check(&bytes).unwrap();
    assert_eq!(
        (ip.src(), ip.dst(), ip.next(), ip.hop_limit()),
        (header.src, header.dst, Proto::TCP, 64)
    );
    assert_eq!((ip.traffic_class(), ip.ecn(), ip.flow_label()), (0xb9, Ecn::Ect1, 0xabcde));
    assert_eq!((ip.total_len(), ip.payload()), (48, &[7; 8][..]));
}

#[test]
fn link_padding_is_cut_off() {
    let mut bytes = packet(&header());
    bytes.extend([0xee; 18]);
    assert_eq!(check(&bytes).unwrap().payload(), [7; 8]);
}

#[test]
fn a_payload_length_that_lies_is_refused() {
    let mut bytes = packet(&header());
    bytes[5] = 9;
    assert_eq!(check(&bytes).err(), Some(Malformed::Ipv6BadLength));
    assert_eq!(check(&bytes[..39]).err(), Some(Malformed::Ipv6TooShort));
    bytes[0] = 0x40;
    assert_eq!(check(&bytes).err(), Some(Malformed::Ipv6BadVersion));
}

#[test]
fn a_jumbogram_is_refused() {
    let header = Header { next: Proto::HOP_BY_HOP, payload_len: 0, ..header() };
    assert_eq!(check(&packet(&header)).err(), Some(Malformed::Ipv6Jumbo));
    assert!(check(&packet(&Header { next: Proto::NO_NEXT, ..header })).is_ok());
}

#[test]
fn mapped_ipv4_addresses_are_refused_at_both_ends() {
    let mapped = Addr::v4([10, 0, 0, 1]);
    for header in [Header { src: mapped, ..header() }, Header { dst: mapped, ..header() }] {
        assert_eq!(check(&packet(&header)).err(), Some(Malformed::Ipv6MappedAddress));
    }
}

/// A TCP segment of `len` bytes, zeros but for its ports and checksum, behind a header.
fn segment(len: usize) -> Vec<u8> {
    let header = Header {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        next: Proto::TCP,
        traffic_class: 0xb9,
        flow_label: 0xf_ffff,
        hop_limit: 64,
        payload_len: len as u16,
    };
    let mut bytes = std::vec![0; HEADER_LEN + len];
    emit(&header, &mut bytes);
    bytes[40..44].copy_from_slice(&[0, 80, 7, 7]);
    if len >= 20 {
        let sum = checksum::transport(&header.src, &header.dst, Proto::TCP, &bytes[HEADER_LEN..]);
        bytes[56..58].copy_from_slice(&sum.to_be_bytes());
    }
    bytes
}

#[test]
fn a_plain_segment_is_read_as_the_check_reads_it() {
    for len in [20, 21, 32, 96, 1440] {
        let mut bytes = segment(len);
        bytes.extend([0; 6]);
        let (plain, ip) = (plain_tcp(&bytes).unwrap(), check(&bytes).unwrap());
        assert_eq!((plain.src, plain.dst, plain.segment), (ip.src(), ip.dst(), ip.payload()));
        assert_eq!(plain.ports, 80 << 16 | 0x0707);
        assert!(plain.checksum_is_valid());
        bytes[45] ^= 1;
        assert!(!plain_tcp(&bytes).unwrap().checksum_is_valid());
    }
}

#[test]
fn what_is_no_plain_segment_is_left_to_the_check() {
    let good = segment(32);
    for cut in 0..good.len() {
        assert!(plain_tcp(&good[..cut]).is_none(), "{cut} bytes");
    }
    assert!(plain_tcp(&segment(19)).is_none(), "a segment without a whole header");
    // Version, another protocol, and addresses that are IPv4's.
    for (at, value) in [(0, 0x40), (6, 17), (6, 0)] {
        let mut bytes = good.clone();
        bytes[at] = value;
        assert!(plain_tcp(&bytes).is_none(), "{value} at {at}");
    }
    for at in [8, 24] {
        let mut bytes = good.clone();
        bytes[at..at + 12].copy_from_slice(&Addr::ANY_V4.octets()[..12]);
        assert!(plain_tcp(&bytes).is_none(), "a mapped address at {at}");
    }
}
