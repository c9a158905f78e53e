use std::string::ToString;
use std::vec::Vec;

use super::*;

const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
const B: Mac = Mac([2, 0, 0, 0, 0, 2]);

fn tagged(tags: &[Tag]) -> Vec<u8> {
    let mut frame = [0; 64];
    let len = emit_tagged(B, A, tags, EtherType::IPV4, &mut frame);
    frame[len..len + 3].copy_from_slice(b"abc");
    frame[..len + 3].to_vec()
}

#[test]
fn a_header_comes_back_as_it_was_written() {
    let frame = tagged(&[]);
    let eth = check(&frame).unwrap();
    assert_eq!((eth.dst(), eth.src(), eth.ethertype()), (B, A, EtherType::IPV4));
    assert_eq!((eth.payload(), eth.payload_offset(), eth.vlan()), (&b"abc"[..], 14, None));
}

#[test]
fn one_and_two_tags_are_looked_through() {
    for tags in [&[Tag(0x6005)][..], &[Tag(7), Tag(0x6005)]] {
        let frame = tagged(tags);
        let eth = check(&frame).unwrap();
        assert_eq!(eth.tags(), tags);
        assert_eq!(
            (eth.ethertype(), eth.vlan(), eth.payload()),
            (EtherType::IPV4, Some(5), &b"abc"[..])
        );
        assert_eq!(&frame[eth.payload_offset()..], b"abc");
        assert_eq!(eth.tags().last().unwrap().priority(), 3);
    }
}

#[test]
fn a_priority_tag_is_no_vlan() {
    assert_eq!(check(&tagged(&[Tag(0xe000)])).unwrap().vlan(), None);
}

#[test]
fn three_tags_are_too_many() {
    let mut frame = tagged(&[Tag(1), Tag(2)]);
    frame[20..22].copy_from_slice(&[0x81, 0]);
    frame.extend([0; 8]);
    assert_eq!(check(&frame).err(), Some(Malformed::EthTooManyTags));
}

#[test]
fn a_cut_header_or_tag_is_too_short() {
    let frame = tagged(&[Tag(1), Tag(2)]);
    for len in 0..22 {
        assert_eq!(check(&frame[..len]).err(), Some(Malformed::EthTooShort), "{len}");
    }
    assert!(check(&frame[..22]).is_ok());
}

#[test]
fn addresses_read_and_write_as_text() {
    let mac = Mac([0x0a, 0xbc, 0, 1, 2, 0xff]);
    assert_eq!(mac.to_string(), "0a:bc:00:01:02:ff");
    assert_eq!("0a:bc:00:01:02:ff".parse(), Ok(mac));
    assert_eq!("0A-BC-00-01-02-FF".parse(), Ok(mac));
    for bad in [
        "",
        "0a:bc:00:01:02",
        "0a:bc:00:01:02:ff:00",
        "0a:bc:00:01:02:+f",
        "a:bc:00:01:02:ff",
        "0a-bc:00-01-02-ff",
    ] {
        assert_eq!(bad.parse::<Mac>(), Err(MacParseError), "{bad}");
    }
}

#[test]
fn groups_map_to_link_addresses() {
    let of_group = |s: &str| Mac::of_group(&s.parse().unwrap()).map(|m| m.to_string());
    // 239.129.2.3 and 239.1.2.3 share a link address, because only 23 bits fit.
    assert_eq!(of_group("239.129.2.3").as_deref(), Some("01:00:5e:01:02:03"));
    assert_eq!(of_group("ff02::1:ff00:1234").as_deref(), Some("33:33:ff:00:12:34"));
    assert_eq!((of_group("10.0.0.1"), of_group("2001:db8::1")), (None, None));
    assert!(Mac::BROADCAST.is_multicast() && Mac::BROADCAST.is_broadcast() && !A.is_multicast());
}
