use clearway_shm::attach_socket::DnsServer;

use super::*;

const TABLE: Table = Table(0);

fn dns(servers: &[&str], search: &[&str]) -> Dns {
    let servers = servers.iter().map(|addr| DnsServer::of(addr.parse().unwrap())).collect();
    Dns { servers, search: search.iter().map(|domain| (*domain).to_owned()).collect() }
}

#[test]
fn settings_go_before_the_own_interface_and_that_before_others_of_the_table() {
    let mut all = NameServers::default();
    assert_eq!(all.of(Some("tap0"), TABLE), Dns::default());
    assert!(all.say("tap1", TABLE, Teller::Dhcp, dns(&["10.0.1.1"], &["one.test"])));
    assert!(all.say("tap0", TABLE, Teller::Dhcp, dns(&["10.0.0.1"], &["zero.test"])));
    assert_eq!(all.of(Some("tap0"), TABLE), dns(&["10.0.0.1"], &["zero.test"]));
    assert_eq!(all.of(None, TABLE), dns(&["10.0.1.1"], &["one.test"]));
    assert_eq!(all.of(Some("tap2"), TABLE), dns(&["10.0.1.1"], &["one.test"]));
    assert_eq!(all.of(Some("tap2"), Table(1)), Dns::default());
    // Domains of the settings alone go with whatever servers there are, and without any with none.
    all.set(dns(&[], &["own.test"]));
    assert_eq!(all.of(None, TABLE), dns(&["10.0.1.1"], &["own.test"]));
    assert_eq!(all.of(None, Table(1)), Dns::default());
    all.set(dns(&["10.9.9.9"], &[]));
    assert_eq!(all.of(Some("tap0"), TABLE), dns(&["10.9.9.9"], &[]));
}

#[test]
fn what_is_said_again_is_nothing_new_and_keeps_its_place() {
    let mut all = NameServers::default();
    let (first, second) = (dns(&["10.0.0.1"], &[]), dns(&["10.0.1.1"], &[]));
    assert!(all.say("tap0", TABLE, Teller::Dhcp, first.clone()));
    assert!(all.say("tap1", TABLE, Teller::Dhcp, second.clone()));
    assert!(!all.say("tap0", TABLE, Teller::Dhcp, first.clone()));
    assert_eq!(all.of(None, TABLE), first);
    assert!(!all.say("tap0", TABLE, Teller::Router, Dns::default()));
    assert!(all.say("tap0", TABLE, Teller::Dhcp, Dns::default()));
    assert_eq!(all.of(None, TABLE), second);
}

#[test]
fn dhcp_is_asked_first_and_a_router_s_server_has_a_place_beside_it() {
    let mut all = NameServers::default();
    all.say("tap0", TABLE, Teller::Router, dns(&["fd00::1", "fd00::2"], &[]));
    all.say("tap0", TABLE, Teller::Dhcp, dns(&["10.0.0.1", "10.0.0.2", "10.0.0.3"], &["a.test"]));
    let both = dns(&["10.0.0.1", "10.0.0.2", "fd00::1"], &["a.test"]);
    assert_eq!(all.of(None, TABLE), both);
    all.say("tap0", TABLE, Teller::Dhcp, dns(&[], &["a.test"]));
    assert_eq!(all.of(None, TABLE), dns(&["fd00::1", "fd00::2"], &["a.test"]));
}
