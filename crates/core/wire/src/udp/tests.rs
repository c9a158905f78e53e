use std::vec;
use std::vec::Vec;

use super::*;

fn ends_v4() -> (Addr, Addr) {
    ("10.0.0.1".parse().unwrap(), "10.0.0.2".parse().unwrap())
}

fn ends_v6() -> (Addr, Addr) {
    ("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap())
}

fn datagram((src, dst): (Addr, Addr), data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xff; HEADER_LEN];
    emit(4242, 53, data.len() as u16, &mut bytes);
    bytes.extend(data);
    fill_checksum(&src, &dst, &mut bytes);
    bytes
}

#[test]
fn a_datagram_comes_back_as_it_was_written() {
    for (src, dst) in [ends_v4(), ends_v6()] {
        let bytes = datagram((src, dst), b"question");
        let udp = check(&src, &dst, &bytes, true).unwrap();
        assert_eq!((udp.src_port(), udp.dst_port(), udp.payload()), (4242, 53, &b"question"[..]));
    }
}

#[test]
fn all_ways_to_the_checksum_agree() {
    for (src, dst) in [ends_v4(), ends_v6()] {
        let bytes = datagram((src, dst), b"odd");
        let mut header = bytes[..HEADER_LEN].to_vec();
        header[6..].fill(0);
        fill_checksum_with(&src, &dst, &mut header, checksum::sum(b"odd"), 3);
        assert_eq!(header, bytes[..HEADER_LEN]);
        // What a device does: the complement of the sum over the message with the partial sum in
        // place.
        let mut partial = bytes.clone();
        fill_partial_checksum(&src, &dst, 11, &mut partial);
        let done = checksum::sum(&partial).finish();
        assert_eq!(done.to_be_bytes(), bytes[6..8]);
    }
}

#[test]
fn lengths_that_lie_are_refused_and_trailing_bytes_cut_off() {
    let (src, dst) = ends_v4();
    let mut bytes = datagram((src, dst), b"abcd");
    for len in [0u16, 7, 13, 65535] {
        bytes[4..6].copy_from_slice(&len.to_be_bytes());
        assert_eq!(check(&src, &dst, &bytes, false).err(), Some(Malformed::UdpBadLength), "{len}");
    }
    let mut bytes = datagram((src, dst), b"abcd");
    bytes.extend(b"tail");
    assert_eq!(check(&src, &dst, &bytes, true).unwrap().payload(), b"abcd");
    assert_eq!(check(&src, &dst, &bytes[..7], true).err(), Some(Malformed::UdpTooShort));
}

#[test]
fn no_checksum_is_allowed_over_ipv4_only() {
    for ((src, dst), refused) in
        [(ends_v4(), None), (ends_v6(), Some(Malformed::UdpZeroChecksumV6))]
    {
        let mut bytes = datagram((src, dst), b"abcd");
        bytes[6..8].fill(0);
        assert_eq!(check(&src, &dst, &bytes, true).err(), refused);
    }
}

#[test]
fn a_bad_checksum_is_refused_unless_the_device_vouched_for_it() {
    let (src, dst) = ends_v4();
    let mut bytes = datagram((src, dst), b"abcd");
    bytes[9] ^= 1;
    assert_eq!(check(&src, &dst, &bytes, true).err(), Some(Malformed::UdpBadChecksum));
    assert!(check(&src, &dst, &bytes, false).is_ok());
}

#[test]
fn a_sum_of_zero_is_sent_as_all_ones() {
    let (src, dst) = ends_v4();
    // The data is chosen so that the sum of everything else is taken to all ones, which would leave
    // a checksum of zero.
    let rest = datagram((src, dst), &[0, 0]);
    let bytes = datagram((src, dst), &rest[6..8]);
    assert_eq!(bytes[6..8], [0xff, 0xff]);
    assert!(check(&src, &dst, &bytes, true).is_ok());
}
