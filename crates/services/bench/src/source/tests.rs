use std::collections::HashSet;

use super::*;

#[test]
fn ranges_are_read_and_written() {
    for (text, count, last) in [
        ("10.0.0.1/24", 1, "10.0.0.1/24"),
        ("10.0.0.250-10.0.1.5/8", 12, "10.0.1.5/8"),
        ("fd00::fffe-fd00::1:1/64", 4, "fd00::1:1/64"),
    ] {
        let range: AddressRange = text.parse().unwrap();
        assert_eq!((range.count(), range.to_string().as_str(), range.port), (count, text, 0));
        assert_eq!(range.cidrs().count() as u32, count);
        assert_eq!(range.cidrs().last().unwrap().to_string(), last);
    }
    assert_eq!("10.0.0.1/24@3".parse::<AddressRange>().unwrap().port, 3);
    assert_eq!("10.0.0.1".parse::<AddressRange>().unwrap().to_string(), "10.0.0.1/32");
}

#[test]
fn what_is_no_range_is_refused_with_a_sentence() {
    for (text, why) in [
        ("10.0.0.5-10.0.0.1/24", "ends before it begins"),
        ("10.0.0.1-fd00::1/64", "one family"),
        ("10.0.0.0-10.1.0.0/8", "more than 16384"),
        ("10.0.0.1/33", "prefix length"),
        ("fd00::1/129", "prefix length"),
        ("10.0.0/24", "no address"),
        ("10.0.0.1/24@x", "number of a port"),
    ] {
        let error = text.parse::<AddressRange>().unwrap_err();
        assert!(error.contains(why), "{text}: {error}");
    }
}

#[test]
fn cores_hand_out_different_endpoints_and_all_of_them_before_one_comes_again() {
    let addresses: Vec<Addr> =
        ["10.0.0.1", "10.0.0.2", "10.0.0.3"].iter().map(|a| a.parse().unwrap()).collect();
    let all = capacity(addresses.len());
    let mut seen = HashSet::new();
    for core in 0..4 {
        let mut sources = Sources::new(addresses.clone(), core, 4, 12_345).unwrap();
        for _ in 0..all / 4 {
            let endpoint = sources.next_endpoint();
            assert!(endpoint.port >= 1_024 && addresses.contains(&endpoint.addr));
            assert_eq!(usize::from(endpoint.port % 4), core, "where an answer finds its way");
            assert!(seen.insert((endpoint.addr, endpoint.port)), "{endpoint} comes twice");
        }
    }
    assert_eq!(seen.len() as u64, all);
    assert!(Sources::new(Vec::new(), 0, 1, 0).is_none());
}
