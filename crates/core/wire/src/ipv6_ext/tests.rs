use std::vec;
use std::vec::Vec;

use super::*;
use crate::ipv6::{self, Header};

/// A packet whose first next-header field is `next`, with `payload` behind the fixed header.
fn packet(next: Proto, payload: &[u8]) -> Vec<u8> {
    let header = Header {
        src: "2001:db8::1".parse().unwrap(),
        dst: "2001:db8::2".parse().unwrap(),
        next,
        traffic_class: 0,
        flow_label: 0,
        hop_limit: 64,
        payload_len: payload.len() as u16,
    };
    let mut bytes = vec![0; 40];
    ipv6::emit(&header, &mut bytes);
    bytes.extend(payload);
    bytes
}

fn walked(next: Proto, payload: &[u8]) -> Result<(Proto, usize, usize, Option<Fragment>), Refusal> {
    let bytes = packet(next, payload);
    let chain = walk(&ipv6::check(&bytes).unwrap())?;
    assert_eq!(chain.bytes, &bytes[chain.upper_offset..], "the bytes are those at the offset");
    assert_eq!(bytes[chain.named_at], chain.upper.0, "the field names the upper protocol");
    Ok((chain.upper, chain.upper_offset, chain.named_at, chain.fragment))
}

fn answer(reason: Malformed, code: u8, pointer: u32) -> Refusal {
    Refusal::Answer { reason, code, pointer, even_multicast: false }
}

/// An extension header of `next` with nothing but padding.
fn padding(next: Proto, len: usize) -> Vec<u8> {
    let mut h = vec![0; len];
    h[0] = next.0;
    h[1] = (len / 8 - 1) as u8;
    h
}

fn fragment(next: Proto, offset: u16, more: bool) -> Vec<u8> {
    let mut h = vec![0; FRAGMENT_LEN];
    emit_fragment(next, offset, more, 0xdead_beef, &mut h);
    h
}

#[test]
fn without_extension_headers_the_upper_protocol_is_at_hand() {
    assert_eq!(walked(Proto::TCP, &[9; 20]), Ok((Proto::TCP, 40, 6, None)));
    assert_eq!(walked(Proto::NO_NEXT, &[]), Ok((Proto::NO_NEXT, 40, 6, None)));
    assert_eq!(walked(Proto(200), &[1]), Ok((Proto(200), 40, 6, None)));
}

#[test]
fn a_chain_is_followed_to_its_end() {
    let mut payload = padding(Proto::DEST_OPTIONS, 8);
    payload.extend(padding(Proto::ROUTING, 16));
    payload.extend(padding(Proto::DEST_OPTIONS, 8));
    payload.extend(padding(Proto::UDP, 24));
    payload.extend([5; 9]);
    assert_eq!(walked(Proto::HOP_BY_HOP, &payload), Ok((Proto::UDP, 40 + 56, 40 + 32, None)));
}

#[test]
fn a_truncated_chain_is_dropped() {
    let mut payload = padding(Proto::DEST_OPTIONS, 8);
    payload.extend(padding(Proto::TCP, 16));
    for len in (1..8).chain(8..24) {
        let got = walked(Proto::HOP_BY_HOP, &payload[..len]).map(|_| ());
        assert_eq!(got, Err(Refusal::Drop(Malformed::Ipv6ExtTruncated)), "{len}");
    }
    assert!(walked(Proto::HOP_BY_HOP, &payload).is_ok());
}

#[test]
fn a_chain_is_bounded_in_headers_and_bytes() {
    let chain = |n: usize, len: usize| {
        let mut payload: Vec<u8> = (1..n).flat_map(|_| padding(Proto::DEST_OPTIONS, len)).collect();
        payload.extend(padding(Proto::TCP, len));
        walked(Proto::DEST_OPTIONS, &payload).map(|_| ())
    };
    assert_eq!(chain(MAX_HEADERS, 8), Ok(()));
    assert_eq!(chain(MAX_HEADERS + 1, 8), Err(Refusal::Drop(Malformed::Ipv6ExtTooMany)));
    assert_eq!(chain(1, MAX_BYTES / 8 * 8), Ok(()));
    assert_eq!(chain(1, MAX_BYTES / 8 * 8 + 8), Err(Refusal::Drop(Malformed::Ipv6ExtTooLong)));
}

#[test]
fn hop_by_hop_is_only_taken_first() {
    let mut payload = padding(Proto::HOP_BY_HOP, 8);
    payload.extend(padding(Proto::TCP, 8));
    let refusal = answer(Malformed::Ipv6ExtHopByHopNotFirst, 1, 40);
    assert_eq!(walked(Proto::DEST_OPTIONS, &payload), Err(refusal));
    assert_eq!(walked(Proto::HOP_BY_HOP, &payload), Err(refusal));
}

#[test]
fn routing_headers_with_segments_left_are_answered_type_0_too() {
    for kind in [0, 2, 4, 253] {
        let mut header = padding(Proto::TCP, 24);
        header[2] = kind;
        assert_eq!(
            walked(Proto::ROUTING, &header).map(|w| w.0),
            Ok(Proto::TCP),
            "no segments left"
        );
        header[3] = 1;
        assert_eq!(walked(Proto::ROUTING, &header), Err(answer(Malformed::Ipv6ExtRouting, 0, 42)));
    }
}

#[test]
fn unknown_options_do_what_their_action_bits_say() {
    let with_option = |kind: u8| {
        // A Pad1 and the option at offset 3 of the header.
        let mut header = padding(Proto::TCP, 8);
        header[2..].copy_from_slice(&[0, kind, 2, 9, 9, 0]);
        walked(Proto::DEST_OPTIONS, &header).map(|w| w.0)
    };
    let (reason, code, pointer) = (Malformed::Ipv6ExtUnknownOption, 2, 43);
    assert_eq!(with_option(0x1e), Ok(Proto::TCP));
    assert_eq!(with_option(0x05), Ok(Proto::TCP), "router alert");
    assert_eq!(with_option(0x5e), Err(Refusal::Drop(reason)));
    assert_eq!(
        with_option(0x9e),
        Err(Refusal::Answer { reason, code, pointer, even_multicast: true })
    );
    assert_eq!(
        with_option(0xde),
        Err(Refusal::Answer { reason, code, pointer, even_multicast: false })
    );
}

#[test]
fn options_past_their_header_and_too_many_are_dropped() {
    let options = |options: &[u8]| {
        let mut header = padding(Proto::TCP, (options.len() + 2).div_ceil(8) * 8);
        header[2..2 + options.len()].copy_from_slice(options);
        walked(Proto::DEST_OPTIONS, &header).map(|_| ())
    };
    let bad = Err(Refusal::Drop(Malformed::Ipv6ExtBadOption));
    assert_eq!(options(&[1, 5, 0, 0, 0, 0]), bad);
    assert_eq!(options(&[0, 0, 0, 0, 0, 0x1e]), bad, "a type without a length");
    assert_eq!(options(&[0x1e, 0].repeat(MAX_OPTIONS)), Ok(()));
    assert_eq!(options(&[0x1e, 0].repeat(MAX_OPTIONS + 1)), bad);
}

#[test]
fn a_fragment_tells_where_it_stands() {
    let mut payload = padding(Proto::FRAGMENT, 8);
    payload.extend(fragment(Proto::UDP, 1232, true));
    payload.extend([3; 16]);
    let (upper, at, _, part) = walked(Proto::HOP_BY_HOP, &payload).unwrap();
    let part = part.unwrap();
    assert_eq!((upper, at), (Proto::UDP, 56));
    assert_eq!((part.offset, part.more, part.id, part.next), (1232, true, 0xdead_beef, Proto::UDP));
    assert_eq!((part.header_at, part.named_at), (48, 40));
}

#[test]
fn an_atomic_fragment_is_walked_through() {
    let mut payload = fragment(Proto::UDP, 0, false);
    payload.extend([3; 13]);
    assert_eq!(walked(Proto::FRAGMENT, &payload), Ok((Proto::UDP, 48, 40, None)));
}

#[test]
fn two_fragment_headers_are_dropped() {
    let mut payload = fragment(Proto::FRAGMENT, 0, false);
    payload.extend(fragment(Proto::UDP, 8, false));
    payload.extend([3; 8]);
    assert_eq!(walked(Proto::FRAGMENT, &payload), Err(Refusal::Drop(Malformed::Ipv6BadFragment)));
}

#[test]
fn impossible_fragments_are_refused_as_the_rfc_says() {
    let with_data = |offset: u16, more: bool, len: usize| {
        let mut payload = fragment(Proto::UDP, offset, more);
        payload.extend(vec![0; len]);
        walked(Proto::FRAGMENT, &payload).map(|_| ())
    };
    assert_eq!(with_data(8, true, 15), Err(answer(Malformed::Ipv6BadFragment, 0, 4)));
    assert_eq!(with_data(65528, false, 8), Err(answer(Malformed::Ipv6BadFragment, 0, 42)));
    assert_eq!(with_data(65528, false, 7), Ok(()));
    assert_eq!(with_data(8, false, 0), Err(Refusal::Drop(Malformed::Ipv6BadFragment)));
}

#[test]
fn a_first_fragment_must_hold_the_upper_header() {
    let first = |next: Proto, data: &[u8]| {
        let mut payload = fragment(next, 0, true);
        payload.extend(data);
        walked(Proto::FRAGMENT, &payload).map(|_| ())
    };
    let incomplete = Err(answer(Malformed::Ipv6FirstFragmentIncomplete, 3, 0));
    assert_eq!(first(Proto::TCP, &[0; 16]), incomplete);
    assert_eq!(first(Proto::TCP, &[0; 24]), Ok(()));
    assert_eq!(first(Proto::UDP, &[0; 8]), Ok(()));
    let mut behind_options = padding(Proto::UDP, 16);
    assert_eq!(first(Proto::DEST_OPTIONS, &behind_options), incomplete);
    assert_eq!(first(Proto::DEST_OPTIONS, &behind_options[..8]), incomplete);
    behind_options.extend([0; 8]);
    assert_eq!(first(Proto::DEST_OPTIONS, &behind_options), Ok(()));
}
