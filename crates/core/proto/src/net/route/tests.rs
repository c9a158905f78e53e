extern crate std;

use std::vec::Vec;

use proptest::prelude::*;

use super::*;

fn routes() -> Routes {
    Routes::new(64, 4, AddrHash::new(&[7; 32], 1))
}

fn cidr(text: &str) -> Cidr {
    text.parse().unwrap()
}

fn addr(text: &str) -> Addr {
    text.parse().unwrap()
}

fn iface(route: Option<&Route>) -> Option<u16> {
    match route?.via {
        NextHop::Interface(Iface(n)) => Some(n),
        _ => None,
    }
}

#[test]
fn the_longest_prefix_wins_in_both_families() {
    let mut r = routes();
    for (n, dst) in [
        "0.0.0.0/0",
        "10.0.0.0/8",
        "10.1.0.0/16",
        "10.1.2.3/32",
        "::/0",
        "2001:db8::/32",
        "2001:db8:1::/48",
    ]
    .iter()
    .enumerate()
    {
        r.add(Table(0), cidr(dst), NextHop::Interface(Iface(n as u16))).unwrap();
    }
    for (to, expected) in [
        ("192.0.2.1", 0),
        ("10.2.0.1", 1),
        ("10.1.0.1", 2),
        ("10.1.2.3", 3),
        ("2001:4860::1", 4),
        ("2001:db8:2::1", 5),
        ("2001:db8:1::1", 6),
    ] {
        assert_eq!(iface(r.lookup(Table(0), &addr(to))), Some(expected), "{to}");
    }
    assert!(r.lookup(Table(1), &addr("10.1.2.3")).is_none());
}

#[test]
fn an_ipv6_default_route_does_not_catch_ipv4() {
    let mut r = routes();
    r.add(Table(0), cidr("::/0"), NextHop::Blackhole).unwrap();
    assert!(r.lookup(Table(0), &addr("192.0.2.1")).is_none());
    assert!(r.lookup(Table(0), &addr("2001:db8::1")).is_some());
}

#[test]
fn host_bits_are_cleared_and_a_prefix_is_added_once() {
    let mut r = routes();
    r.add(Table(0), cidr("10.0.0.7/24"), NextHop::Blackhole).unwrap();
    assert_eq!(r.add(Table(0), cidr("10.0.0.9/24"), NextHop::Unreachable), Err(RouteError::Exists));
    assert_eq!(
        r.add(Table(9), cidr("10.0.0.9/24"), NextHop::Unreachable),
        Err(RouteError::NoTable)
    );
    assert!(r.remove(Table(0), cidr("10.0.0.1/24")));
    assert!(!r.remove(Table(0), cidr("10.0.0.1/24")));
    assert!(r.lookup(Table(0), &addr("10.0.0.7")).is_none());
}

#[test]
fn a_full_table_refuses_and_takes_again_after_a_removal() {
    let mut r = Routes::new(2, 1, AddrHash::new(&[7; 32], 1));
    r.add(Table(0), cidr("10.0.0.0/8"), NextHop::Blackhole).unwrap();
    r.add(Table(0), cidr("11.0.0.0/8"), NextHop::Blackhole).unwrap();
    assert_eq!(r.add(Table(0), cidr("12.0.0.0/8"), NextHop::Blackhole), Err(RouteError::Full));
    assert!(r.remove(Table(0), cidr("10.0.0.0/8")));
    r.add(Table(0), cidr("12.0.0.0/8"), NextHop::Blackhole).unwrap();
}

/// Addresses that share many bits, so that prefixes of every length meet.
fn near_addr() -> impl Strategy<Value = Addr> {
    prop_oneof![
        (0u32..16, 0u32..8)
            .prop_map(|(high, low)| Addr::v4((0x0a00_0000 | high << 20 | low).to_be_bytes())),
        (0u128..16, 0u128..8)
            .prop_map(|(high, low)| Addr::v6((0x2001 << 112 | high << 60 | low).to_be_bytes())),
    ]
}

fn near_cidr() -> impl Strategy<Value = Cidr> {
    (near_addr(), 0u8..=128)
        .prop_map(|(addr, len)| masked(addr, if addr.is_v4() { len % 33 } else { len }))
}

proptest! {
    #[test]
    fn lookup_agrees_with_a_walk_over_all_routes(
        steps in proptest::collection::vec((near_cidr(), 0u16..3, any::<bool>()), 1..60),
        asked in proptest::collection::vec((near_addr(), 0u16..3), 1..40),
    ) {
        let mut r = routes();
        let mut model: Vec<Route> = Vec::new();
        for (n, (dst, table, add)) in steps.into_iter().enumerate() {
            let table = Table(table);
            let via = NextHop::Interface(Iface(n as u16));
            let at = model.iter().position(|m| m.table == table && m.dst == dst);
            if add {
                prop_assert_eq!(r.add(table, dst, via).is_ok(), at.is_none());
                if at.is_none() {
                    model.push(Route { table, dst, via });
                }
            } else {
                prop_assert_eq!(r.remove(table, dst), at.is_some());
                at.map(|at| model.remove(at));
            }
        }
        for (addr, table) in asked {
            let expected = model
                .iter()
                .filter(|m| m.table == Table(table) && m.dst.contains(&addr))
                .max_by_key(|m| m.dst.prefix_len);
            prop_assert_eq!(r.lookup(Table(table), &addr), expected);
        }
    }
}
