extern crate std;

use super::*;

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

fn locals() -> Locals {
    Locals::new(4)
}

fn kind(l: &Locals, table: u16, iface: u16, a: &str) -> Option<Kind> {
    l.find(Table(table), Iface(iface), &addr(a)).map(|l| l.kind)
}

#[test]
fn an_address_is_ours_in_its_own_table_only() {
    let mut l = locals();
    assert!(l.add(Table(1), Iface(0), cidr("10.0.0.1/24")));
    assert_eq!(kind(&l, 1, 0, "10.0.0.1"), Some(Kind::Unicast));
    assert_eq!(
        kind(&l, 1, 5, "10.0.0.1"),
        Some(Kind::Unicast),
        "a host answers for its addresses on every link of the table"
    );
    assert_eq!(kind(&l, 0, 0, "10.0.0.1"), None);
    assert_eq!(kind(&l, 1, 0, "10.0.0.2"), None);
}

#[test]
fn all_of_a_loopback_prefix_is_ours_and_of_no_other() {
    let mut l = locals();
    l.add(Table(0), Iface(1), cidr("127.0.0.1/8"));
    l.add(Table(0), Iface(1), cidr("10.0.0.1/8"));
    l.add(Table(1), Iface(2), cidr("127.3.0.1/32"));
    let whose =
        |table: u16, a: &str| l.find_anywhere(Table(table), &addr(a)).map(|l| (l.kind, l.iface));
    assert_eq!(whose(0, "127.0.1.1"), Some((Kind::Unicast, Iface(1))));
    assert_eq!(whose(0, "127.255.255.255"), Some((Kind::Broadcast, Iface(1))));
    assert_eq!(whose(0, "10.0.0.2"), None);
    assert_eq!(whose(1, "127.0.1.1"), None);
    assert_eq!(kind(&l, 0, 0, "127.0.1.1"), None, "not on a wire");
}

#[test]
fn a_subnet_has_broadcast_addresses_while_it_has_a_host() {
    let mut l = locals();
    l.add(Table(0), Iface(0), cidr("10.0.0.1/24"));
    l.add(Table(0), Iface(0), cidr("10.0.0.2/24"));
    assert_eq!(kind(&l, 0, 0, "10.0.0.255"), Some(Kind::Broadcast));
    assert_eq!(kind(&l, 0, 0, "10.0.0.0"), Some(Kind::Broadcast));
    assert!(l.remove(Table(0), Iface(0), &addr("10.0.0.1")).is_some());
    assert_eq!(kind(&l, 0, 0, "10.0.0.255"), Some(Kind::Broadcast));
    assert!(l.remove(Table(0), Iface(0), &addr("10.0.0.2")).is_some());
    assert_eq!(kind(&l, 0, 0, "10.0.0.255"), None);
    assert!(l.remove(Table(0), Iface(0), &addr("10.0.0.2")).is_none());
}

#[test]
fn point_to_point_subnets_have_no_broadcast_address() {
    let mut l = locals();
    l.add(Table(0), Iface(0), cidr("10.0.0.0/31"));
    assert_eq!(kind(&l, 0, 0, "10.0.0.0"), Some(Kind::Unicast));
    assert_eq!(kind(&l, 0, 0, "10.0.0.1"), None);
    assert!(may_be_ours(&cidr("10.0.0.0/31")));
    assert!(!may_be_ours(&cidr("10.0.0.0/24")));
    assert!(!may_be_ours(&cidr("10.0.0.255/24")));
    assert!(!may_be_ours(&cidr("224.0.0.1/4")));
    assert!(!may_be_ours(&cidr("::/0")));
}

#[test]
fn the_same_link_local_address_may_be_on_two_links() {
    let mut l = locals();
    assert!(l.add(Table(0), Iface(0), cidr("fe80::1/64")));
    assert_eq!(kind(&l, 0, 1, "fe80::1"), None);
    assert!(l.add(Table(0), Iface(1), cidr("fe80::1/64")));
    assert!(l.remove(Table(0), Iface(0), &addr("fe80::1")).is_some());
    assert_eq!(kind(&l, 0, 1, "fe80::1"), Some(Kind::Unicast));
}

#[test]
fn the_number_of_addresses_is_bounded_and_broadcasts_do_not_count() {
    let mut l = locals();
    for n in 1..=4 {
        assert!(l.add(Table(0), Iface(0), cidr(&std::format!("10.0.{n}.1/24"))));
    }
    assert!(!l.add(Table(0), Iface(0), cidr("10.0.5.1/24")));
}

#[test]
fn groups_follow_from_addresses() {
    let mut l = locals();
    l.add(Table(0), Iface(0), cidr("2001:db8::12:3456/64"));
    assert!(l.in_group(Iface(0), &addr("ff02::1:ff12:3456")));
    assert!(!l.in_group(Iface(1), &addr("ff02::1:ff12:3456")));
    assert!(!l.in_group(Iface(0), &addr("ff02::1:ff12:3457")));
    assert!(l.in_group(Iface(0), &addr("ff02::1")));
    assert!(l.in_group(Iface(0), &addr("224.0.0.1")));
    assert!(!l.in_group(Iface(0), &addr("224.0.0.2")));
}
