use std::vec::Vec;

use proptest::prelude::*;

use super::*;

/// RFC 1071 word for word: 16-bit words, carries added at the end.
fn naive(bytes: &[u8]) -> u16 {
    let mut sum = 0u64;
    for word in bytes.chunks(2) {
        sum += u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

#[test]
fn the_example_of_the_rfc_comes_out() {
    // RFC 1071 3.
    let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
    assert_eq!(sum(&bytes).fold(), 0xddf2);
    assert_eq!(sum(&bytes).finish(), !0xddf2);
}

#[test]
fn every_length_and_offset_agrees_with_the_plain_sum() {
    let bytes: Vec<u8> = (0..400u32).map(|i| (i * 151 + i / 7) as u8).collect();
    for start in 0..9 {
        for len in 0..300 {
            let part = &bytes[start..start + len];
            assert_eq!(sum(part).fold(), naive(part), "{start} {len}");
        }
    }
}

#[test]
fn a_sum_is_valid_when_it_folds_to_all_ones() {
    let multiples =
        (0..=0x0001_0001_0001_0001u64).step_by(0x7654_3210_9876).map(|m| m.wrapping_mul(0xffff));
    for multiple in multiples.chain([0, 0xffff, 0x1_fffe, u64::MAX]) {
        for sum in [multiple.wrapping_sub(1), multiple, multiple.wrapping_add(1)] {
            assert_eq!(Sum(sum).is_valid(), Sum(sum).fold() == 0xffff, "{sum:x}");
        }
    }
}

#[test]
fn the_largest_packet_of_ones_does_not_overflow() {
    let ones = std::vec![0xff; 65535];
    assert_eq!(sum(&ones).fold(), naive(&ones));
    assert_eq!(sum(&[0; 100]).fold(), 0, "only zeros sum to zero");
}

#[test]
fn the_pseudo_header_of_both_families_is_that_of_the_rfcs() {
    let (a, b): (Addr, Addr) = ("192.0.2.200".parse().unwrap(), "255.255.0.1".parse().unwrap());
    let bytes = [192, 0, 2, 200, 255, 255, 0, 1, 0, 6, 0x12, 0x34];
    assert_eq!(pseudo(&a, &b, Proto::TCP, 0x1234).fold(), naive(&bytes));
    let (a, b): (Addr, Addr) = ("2001:db8::1".parse().unwrap(), "fe80::ffff".parse().unwrap());
    let mut bytes = [*a.octets(), *b.octets()].concat();
    bytes.extend([0, 1, 0x12, 0x34, 0, 0, 0, 17]);
    assert_eq!(pseudo(&a, &b, Proto::UDP, 0x11234).fold(), naive(&bytes));
    assert_eq!(partial(&a, &b, Proto::UDP, 0x11234), naive(&bytes));
}

proptest! {
    #[test]
    fn random_bytes_agree_with_the_plain_sum(bytes in prop::collection::vec(any::<u8>(), 0..3000),
        skip in 0usize..8) {
        let part = &bytes[skip.min(bytes.len())..];
        prop_assert_eq!(sum(part).fold(), naive(part));
    }

    #[test]
    fn parts_add_up_wherever_they_are_cut(bytes in prop::collection::vec(any::<u8>(), 0..600),
        cuts in [0usize..600, 0usize..600]) {
        let mut cuts = cuts.map(|c| c.min(bytes.len()));
        cuts.sort();
        let (a, b, c) = (&bytes[..cuts[0]], &bytes[cuts[0]..cuts[1]], &bytes[cuts[1]..]);
        let whole = sum(a).then(a.len(), sum(b)).then(a.len() + b.len(), sum(c));
        prop_assert_eq!(whole.fold(), naive(&bytes));
    }

    #[test]
    fn a_copy_is_a_copy_and_its_sum(bytes in prop::collection::vec(any::<u8>(), 0..2000),
        skip in 0usize..8, room in 0usize..40) {
        let part = &bytes[skip.min(bytes.len())..];
        let mut copy = std::vec![0xaa; part.len() + room];
        prop_assert_eq!(copy_and_sum(part, &mut copy).fold(), naive(part));
        prop_assert_eq!(&copy[..part.len()], part);
        prop_assert!(copy[part.len()..].iter().all(|b| *b == 0xaa),
            "nothing behind the copy is touched");
    }

    #[test]
    fn words_can_be_added_by_value(words in prop::collection::vec(any::<u16>(), 0..50),
        long in any::<u32>()) {
        let mut bytes: Vec<u8> = words.iter().flat_map(|w| w.to_be_bytes()).collect();
        let by_value = words.iter().fold(Sum::ZERO, |s, w| s.add16(*w)).add32(long);
        bytes.extend(long.to_be_bytes());
        prop_assert_eq!(by_value.fold(), naive(&bytes));
    }

    #[test]
    fn an_update_in_place_equals_a_sum_anew(mut bytes in prop::collection::vec(any::<u8>(), 8..100),
        new16 in any::<u16>(), new32 in any::<u32>()) {
        // A first byte that stays keeps the data from being all zeros, the one case in which
        // equation 3 may give the other zero.
        bytes[6] = 0x45;
        let old = naive(&bytes);
        let (old16, old32) = (u16::from_be_bytes([bytes[0], bytes[1]]),
            u32::from_be_bytes([bytes[2], bytes[3], bytes[4], bytes[5]]));
        let updated = update32(update16(!old, old16, new16), old32, new32);
        bytes[..2].copy_from_slice(&new16.to_be_bytes());
        bytes[2..6].copy_from_slice(&new32.to_be_bytes());
        prop_assert_eq!(updated, !naive(&bytes));
    }

    #[test]
    fn a_message_with_its_checksum_in_place_is_valid_and_a_flipped_bit_is_seen(
        mut bytes in prop::collection::vec(any::<u8>(), 20..200), v6 in any::<bool>(),
            flip in any::<prop::sample::Index>()
    ) {
        let (a, b) = if v6 { ("2001:db8::1", "2001:db8::2") } else { ("10.0.0.1", "10.0.0.2") };
        let (a, b): (Addr, Addr) = (a.parse().unwrap(), b.parse().unwrap());
        bytes[16..18].fill(0);
        let checksum = transport(&a, &b, Proto::TCP, &bytes);
        bytes[16..18].copy_from_slice(&checksum.to_be_bytes());
        prop_assert!(transport_is_valid(&a, &b, Proto::TCP, &bytes));
        let bit = flip.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(!transport_is_valid(&a, &b, Proto::TCP, &bytes));
    }
}
