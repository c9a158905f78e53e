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
    assert_eq!((ip.src(), ip.dst(), ip.next(), ip.hop_limit()), (header.src, header.dst, Proto::TCP, 64));
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
