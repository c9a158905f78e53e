extern crate std;

use clearway_pkt::Offloads;

use super::*;
use crate::testing::*;
use crate::{AddError, InterfaceSpec, Link};

fn table(n: u16, spec: InterfaceSpec) -> InterfaceSpec {
    InterfaceSpec { table: Table(n), ..spec }
}

fn loopback() -> InterfaceSpec {
    InterfaceSpec {
        link: Link::Loopback,
        mtu: 65_535,
        offloads: Offloads::default(),
        table: Table(0),
    }
}

fn hop(net: &Net, t: u16, local: &str, remote: &str) -> Result<(u16, Next), NoHop> {
    net.stack.ip.hop(Table(t), &addr(local), &addr(remote)).map(|h| (h.iface.0, h.next))
}

#[test]
fn neighbours_routers_and_ourselves_are_found() {
    let mut net = Net::new(&[
        (loopback(), &["127.0.0.1/8", "::1/128"]),
        (ethernet(1500), &["10.0.0.1/24", "2001:db8::1/64"]),
        (raw(1400), &["172.16.0.1/30"]),
    ]);
    net.stack.add_route(Table(0), cidr("0.0.0.0/0"), NextHop::Gateway(addr("10.0.0.254"))).unwrap();
    let router = NextHop::GatewayOn { iface: Iface(1), addr: addr("fe80::254") };
    net.stack.add_route(Table(0), cidr("::/0"), router).unwrap();
    let neighbour = |a| Next::Neighbour(addr(a));
    for (local, remote, expected) in [
        ("10.0.0.1", "10.0.0.7", (1, neighbour("10.0.0.7"))),
        ("10.0.0.1", "192.0.2.1", (1, neighbour("10.0.0.254"))),
        ("172.16.0.1", "172.16.0.2", (2, Next::Bare)),
        ("10.0.0.1", "10.0.0.1", (0, Next::Bare)),
        ("127.0.0.1", "172.16.0.1", (0, Next::Bare)),
        ("2001:db8::1", "2001:db8::7", (1, neighbour("2001:db8::7"))),
        ("2001:db8::1", "2001:4860::8", (1, neighbour("fe80::254"))),
        ("fe80::ff:fe00:1", "fe80::5", (1, neighbour("fe80::5"))),
        ("::1", "::1", (0, Next::Bare)),
        ("10.0.0.1", "10.0.0.255", (1, Next::Known(Mac::BROADCAST))),
        ("10.0.0.1", "255.255.255.255", (1, Next::Known(Mac::BROADCAST))),
        ("10.0.0.1", "224.0.0.251", (1, Next::Known(Mac([1, 0, 0x5e, 0, 0, 251])))),
        ("2001:db8::1", "ff02::fb", (1, Next::Known(Mac([0x33, 0x33, 0, 0, 0, 0xfb])))),
    ] {
        assert_eq!(hop(&net, 0, local, remote), Ok(expected), "{remote}");
    }
}

#[test]
fn loopback_addresses_never_leave_by_a_default_route() {
    let mut net = Net::new(&[(ethernet(1500), &["10.0.0.1/24"])]);
    net.stack.add_route(Table(0), cidr("0.0.0.0/0"), NextHop::Gateway(addr("10.0.0.254"))).unwrap();
    assert_eq!(hop(&net, 0, "10.0.0.1", "127.0.0.1"), Err(NoHop::NoRoute));
    assert_eq!(hop(&net, 0, "10.0.0.1", "::1"), Err(NoHop::NoRoute));
}

#[test]
fn an_interface_that_is_down_takes_nothing() {
    let mut net = Net::lan();
    net.stack.set_up(Iface(0), false);
    assert_eq!(hop(&net, 0, "10.0.0.1", "10.0.0.7"), Err(NoHop::Down));
    net.stack.set_up(Iface(0), true);
    assert!(hop(&net, 0, "10.0.0.1", "10.0.0.7").is_ok());
}

#[test]
fn a_route_may_point_into_another_table_and_loops_end() {
    let mut net = Net::new(&[
        (table(1, ethernet(1500)), &["10.0.0.1/24"]),
        (table(2, raw(1500)), &["10.9.0.1/24"]),
    ]);
    let s = &mut net.stack;
    s.add_route(Table(1), cidr("10.9.0.0/16"), NextHop::Lookup(Table(2))).unwrap();
    s.add_route(Table(1), cidr("10.8.0.0/16"), NextHop::Lookup(Table(3))).unwrap();
    s.add_route(Table(3), cidr("10.8.0.0/16"), NextHop::Lookup(Table(1))).unwrap();
    let itself = s.add_route(Table(1), cidr("10.7.0.0/16"), NextHop::Gateway(addr("10.7.0.1")));
    assert_eq!(itself, Err(AddError::BadGateway), "nothing leads to it yet");
    let ourselves = s.add_route(Table(1), cidr("10.4.0.0/16"), NextHop::Gateway(addr("10.0.0.1")));
    assert_eq!(ourselves, Err(AddError::BadGateway));
    s.add_route(Table(1), cidr("10.6.0.0/16"), NextHop::Blackhole).unwrap();
    s.add_route(Table(1), cidr("10.5.0.0/16"), NextHop::Gateway(addr("10.9.0.9"))).unwrap();
    assert_eq!(hop(&net, 1, "10.0.0.1", "10.9.0.5"), Ok((1, Next::Bare)));
    assert_eq!(
        hop(&net, 1, "10.0.0.1", "10.5.0.5"),
        Ok((1, Next::Bare)),
        "a router behind another table"
    );
    for unreachable in ["10.8.0.1", "10.7.0.9", "10.6.0.1", "192.0.2.1"] {
        assert_eq!(hop(&net, 1, "10.0.0.1", unreachable), Err(NoHop::NoRoute), "{unreachable}");
    }
    assert_eq!(
        hop(&net, 2, "10.9.0.1", "10.0.0.1"),
        Err(NoHop::NoRoute),
        "tables do not see each other by themselves"
    );
}

#[test]
fn a_chain_of_tables_longer_than_the_bound_is_no_route() {
    let mut net = Net::new(&[(table(15, raw(1500)), &["10.0.0.1/24"])]);
    for t in 0..15 {
        net.stack.add_route(Table(t), cidr("10.0.0.0/24"), NextHop::Lookup(Table(t + 1))).unwrap();
    }
    assert!(hop(&net, 9, "10.0.0.1", "10.0.0.2").is_ok());
    assert_eq!(hop(&net, 7, "10.0.0.1", "10.0.0.2"), Err(NoHop::NoRoute));
}

#[test]
fn the_source_address_fits_scope_link_and_prefix() {
    let mut net = Net::new(&[
        (ethernet(1500), &["10.0.0.1/24", "10.0.5.1/24", "2001:db8:1::1/64", "2001:db8:2::1/64"]),
        (raw(1500), &["172.16.0.1/30"]),
    ]);
    net.stack.add_route(Table(0), cidr("0.0.0.0/0"), NextHop::Gateway(addr("10.0.0.254"))).unwrap();
    net.stack.add_route(Table(0), cidr("::/0"), NextHop::Gateway(addr("2001:db8:1::fe"))).unwrap();
    for (remote, expected) in [
        ("10.0.0.9", "10.0.0.1"),
        ("10.0.5.9", "10.0.5.1"),
        ("172.16.0.2", "172.16.0.1"),
        ("10.0.5.1", "10.0.5.1"),
        ("2001:db8:2::9", "2001:db8:2::1"),
        ("fe80::9", "fe80::ff:fe00:1"),
        ("ff02::1", "fe80::ff:fe00:1"),
    ] {
        assert_eq!(net.stack.source_for(Table(0), addr(remote)), Some(addr(expected)), "{remote}");
    }
    // The first of a subnet, and that of the router's.
    for more in ["10.0.5.8/24", "10.0.6.1/24"] {
        net.stack.add_address(net.now, Iface(0), cidr(more)).unwrap();
    }
    let route = NextHop::Gateway(addr("10.0.6.254"));
    net.stack.add_route(Table(0), cidr("10.0.128.0/24"), route).unwrap();
    for (remote, expected) in
        [("10.0.5.9", "10.0.5.1"), ("10.0.128.9", "10.0.6.1"), ("192.0.2.1", "10.0.0.1")]
    {
        assert_eq!(net.stack.source_for(Table(0), addr(remote)), Some(addr(expected)), "{remote}");
    }
    // Of one interface alone.
    for (iface, remote, expected) in [
        (0, "10.0.6.9", Some("10.0.6.1")),
        (0, "10.0.128.9", Some("10.0.6.1")),
        (0, "172.16.0.2", Some("10.0.0.1")),
        (0, "2001:db8:2::1", Some("2001:db8:2::1")),
        (0, "fe80::9", Some("fe80::ff:fe00:1")),
        (1, "10.0.0.9", Some("172.16.0.1")),
        (1, "2001:db8:2::9", None),
    ] {
        let found = net.stack.source_of(Iface(iface), addr(remote));
        assert_eq!(found, expected.map(addr), "{iface} {remote}");
    }
    let far = net.stack.source_for(Table(0), addr("2a00::1")).unwrap();
    assert!(!far.is_link_local(), "a link-local source cannot be answered from afar");
    assert_eq!(net.stack.source_for(Table(1), addr("10.0.0.9")), None);
}

#[test]
fn a_deprecated_address_is_a_source_only_when_there_is_no_other_of_its_scope() {
    let both = &["2001:db8:1::1/64", "2001:db8:2::1/64"];
    let mut net = Net::new(&[(ethernet(1500), both)]);
    let (old, new) = (addr("2001:db8:1::1"), addr("2001:db8:2::1"));
    let source = |net: &Net| net.stack.source_for(Table(0), addr("2001:db8:1::9"));
    assert_eq!(source(&net), Some(old));
    assert!(net.stack.deprecate_address(Iface(0), old, true));
    assert_eq!(source(&net), Some(new));
    let shown: Vec<_> = net.stack.addresses().filter(|a| a.deprecated).collect();
    assert_eq!(shown.iter().map(|a| a.cidr.addr).collect::<Vec<_>>(), [old]);
    // One that is deprecated is better than one that cannot be answered from afar.
    assert!(net.stack.deprecate_address(Iface(0), new, true));
    assert_eq!(source(&net), Some(old));
    assert!(net.stack.deprecate_address(Iface(0), old, false));
    assert!(net.stack.deprecate_address(Iface(0), new, false));
    assert_eq!(source(&net), Some(old));
    assert!(!net.stack.deprecate_address(Iface(0), addr("2001:db8:3::1"), true));
    assert!(!net.stack.deprecate_address(Iface(9), old, true));
}

#[test]
fn what_cannot_be_added_is_refused_with_the_reason() {
    let mut net = Net::new(&[(ethernet(1500), &["10.0.0.1/24"]), (raw(576), &[])]);
    let (s, now) = (&mut net.stack, net.now);
    assert_eq!(s.add_interface(InterfaceSpec { mtu: 100, ..raw(0) }), Err(AddError::BadMtu));
    assert_eq!(s.add_interface(table(99, raw(1500))), Err(AddError::NoTable));
    assert_eq!(s.add_address(now, Iface(7), cidr("10.1.0.1/24")), Err(AddError::NoInterface));
    assert_eq!(s.add_address(now, Iface(0), cidr("10.0.0.1/16")), Err(AddError::Exists));
    assert_eq!(s.add_address(now, Iface(0), cidr("10.0.0.255/16")), Err(AddError::BadAddress));
    assert_eq!(s.add_address(now, Iface(0), cidr("224.0.0.1/24")), Err(AddError::BadAddress));
    assert_eq!(s.add_address(now, Iface(0), cidr("127.0.0.1/8")), Err(AddError::BadAddress));
    assert_eq!(s.add_address(now, Iface(1), cidr("2001:db8::1/64")), Err(AddError::BadMtu));
    assert_eq!(s.set_mtu(Iface(0), 1000), Err(AddError::BadMtu), "it has an IPv6 address");
    assert_eq!(
        s.add_route(Table(0), cidr("10.0.0.0/24"), NextHop::Blackhole),
        Err(AddError::Exists)
    );
    assert_eq!(
        s.add_route(Table(0), cidr("11.0.0.0/8"), NextHop::Gateway(addr("::2"))),
        Err(AddError::BadAddress)
    );
    assert_eq!(
        s.add_route(Table(0), cidr("11.0.0.0/8"), NextHop::Lookup(Table(99))),
        Err(AddError::NoTable)
    );
    assert_eq!(
        s.add_route(Table(0), cidr("11.0.0.0/8"), NextHop::Interface(Iface(9))),
        Err(AddError::NoInterface)
    );
}

#[test]
fn an_address_takes_its_route_along_when_it_goes() {
    let mut net = Net::new(&[(raw(1500), &["10.0.0.1/24", "10.0.0.2/24"])]);
    assert!(net.stack.remove_address(Iface(0), addr("10.0.0.1")));
    assert_eq!(hop(&net, 0, "10.0.0.2", "10.0.0.7"), Ok((0, Next::Bare)));
    assert!(net.stack.remove_address(Iface(0), addr("10.0.0.2")));
    assert_eq!(hop(&net, 0, "10.0.0.2", "10.0.0.7"), Err(NoHop::NoRoute));
    assert!(!net.stack.remove_address(Iface(0), addr("10.0.0.2")));
}

#[test]
fn a_path_mtu_holds_for_its_destination_and_never_passes_the_links() {
    let mut net = Net::lan();
    let (local, remote) = (addr("10.0.0.1"), addr("10.0.0.2"));
    let now = net.now;
    let mut counters = Counters::default();
    let ip = &mut net.stack.ip;
    let before = ip.generation();
    assert_eq!(ip.learn_path_mtu(now, Table(0), &local, &remote, 1300, &mut counters), Some(1300));
    assert_ne!(ip.generation(), before, "cached routes hold the old MTU");
    assert_eq!(ip.path_mtu(Table(0), &local, &remote), Some(1300));
    assert_eq!(ip.path_mtu(Table(0), &local, &addr("10.0.0.3")), Some(1500));
    assert_eq!(ip.learn_path_mtu(now, Table(0), &local, &remote, 100, &mut counters), Some(MIN_V4));
    assert_eq!(ip.learn_path_mtu(now, Table(0), &local, &remote, 1500, &mut counters), None);
    let (local, remote) = (addr("2001:db8::1"), addr("2001:db8::2"));
    assert_eq!(ip.learn_path_mtu(now, Table(0), &local, &remote, 1279, &mut counters), None);
    net.pass(601);
    assert_eq!(net.stack.ip.path_mtu(Table(0), &addr("10.0.0.1"), &addr("10.0.0.2")), Some(1500));
}
