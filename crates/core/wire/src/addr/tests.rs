use std::string::ToString;

use super::*;

fn addr(s: &str) -> Addr {
    s.parse().unwrap()
}

#[test]
fn text_form_is_kept_in_both_families() {
    for s in ["10.0.0.1", "0.0.0.0", "255.255.255.255", "::", "::1", "fe80::1", "2001:db8::ff"] {
        assert_eq!(addr(s).to_string(), s);
    }
}

#[test]
fn a_family_is_told_by_the_mapped_prefix() {
    assert!(addr("1.2.3.4").is_v4());
    assert!(addr("::1").is_v6());
    // The text form of a mapped address is the IPv4 address itself, in 16 bytes.
    assert!(addr("::ffff:1.2.3.4").is_v4());
    assert_eq!(addr("1.2.3.4").wire_bytes(), [1, 2, 3, 4]);
    assert_eq!(addr("::1").wire_bytes().len(), 16);
}

#[test]
fn kinds_of_addresses_are_told_apart() {
    for (s, multicast, loopback, link_local, unspecified) in [
        ("224.0.0.1", true, false, false, false),
        ("239.255.255.255", true, false, false, false),
        ("240.0.0.1", false, false, false, false),
        ("127.1.2.3", false, true, false, false),
        ("169.254.9.9", false, false, true, false),
        ("0.0.0.0", false, false, false, true),
        ("ff02::1", true, false, false, false),
        ("::1", false, true, false, false),
        ("fe80::1", false, false, true, false),
        ("febf::1", false, false, true, false),
        ("fec0::1", false, false, false, false),
        ("::", false, false, false, true),
    ] {
        let a = addr(s);
        let kinds = (a.is_multicast(), a.is_loopback(), a.is_link_local(), a.is_unspecified());
        assert_eq!(kinds, (multicast, loopback, link_local, unspecified), "{s}");
    }
    assert!(addr("255.255.255.255").is_limited_broadcast());
    assert!(!addr("255.255.255.254").is_limited_broadcast());
}

#[test]
fn prefixes_are_counted_in_the_familys_own_bits() {
    let net: Cidr = "10.1.0.0/16".parse().unwrap();
    assert!(net.contains(&addr("10.1.255.255")));
    assert!(!net.contains(&addr("10.2.0.0")));
    let net: Cidr = "2001:db8::/33".parse().unwrap();
    assert!(net.contains(&addr("2001:db8:7fff::1")));
    assert!(!net.contains(&addr("2001:db8:8000::1")));
}

#[test]
fn a_zero_prefix_holds_its_own_family_only() {
    let v4: Cidr = "0.0.0.0/0".parse().unwrap();
    let v6: Cidr = "::/0".parse().unwrap();
    assert!(v4.contains(&addr("9.9.9.9")) && !v4.contains(&addr("2001:db8::1")));
    assert!(v6.contains(&addr("2001:db8::1")) && !v6.contains(&addr("9.9.9.9")));
}

#[test]
fn prefix_lengths_beyond_the_family_are_refused() {
    for s in ["10.0.0.0/33", "::/129", "10.0.0.0/-1", "10.0.0.0", "10.0.0.0/", "/8", "x/8"] {
        assert_eq!(s.parse::<Cidr>(), Err(CidrParseError), "{s}");
    }
}

#[test]
fn the_broadcast_of_a_subnet_is_its_last_address() {
    let broadcast = |s: &str| s.parse::<Cidr>().unwrap().broadcast();
    assert_eq!(broadcast("10.0.0.7/24"), Some(addr("10.0.0.255")));
    assert_eq!(broadcast("10.0.0.7/30"), Some(addr("10.0.0.7")));
    assert_eq!(broadcast("10.0.0.7/0"), Some(addr("255.255.255.255")));
    assert_eq!(broadcast("10.0.0.7/31"), None);
    assert_eq!(broadcast("10.0.0.7/32"), None);
    assert_eq!(broadcast("2001:db8::/64"), None);
}

#[test]
fn the_solicited_node_group_keeps_the_low_24_bits() {
    assert_eq!(addr("2001:db8::1234:5678").solicited_node(), addr("ff02::1:ff34:5678"));
}

#[test]
fn an_endpoint_reads_as_a_socket_address() {
    assert_eq!(Endpoint::new(addr("10.0.0.1"), 80).to_string(), "10.0.0.1:80");
    assert_eq!(Endpoint::new(addr("::1"), 80).to_string(), "[::1]:80");
}
