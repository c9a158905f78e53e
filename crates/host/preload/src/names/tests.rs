use std::ffi::CStr;

use clearway_client::{Dns, DnsServer};

use super::{is_asked, resolv_conf};

#[test]
fn numbers_and_this_machine_are_not_asked_for() {
    let asked = |name: &CStr| is_asked(name);
    assert!(asked(c"www.clearway.test") && asked(c"printer"));
    for name in [c"", c"10.0.0.1", c"2001:db8::1", c"fe80::1%tap0", c"localhost"] {
        assert!(!asked(name), "{name:?}");
    }
}

#[test]
fn the_text_of_resolv_conf_has_servers_and_domains() {
    let server = |addr: &str, interface| DnsServer { addr: addr.parse().unwrap(), interface };
    let mut dns = Dns {
        servers: vec![server("10.0.0.53", 0), server("2001:db8::53", 0), server("fe80::1", 2)],
        search: vec!["a.test".into(), "b.test".into()],
    };
    let lines = |dns: &Dns| resolv_conf(dns).lines().skip(1).map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        lines(&dns),
        [
            "nameserver 10.0.0.53",
            "nameserver 2001:db8::53",
            "nameserver fe80::1%1000002",
            "search a.test b.test"
        ]
    );
    dns.search.clear();
    assert_eq!(lines(&dns).len(), 3);
}
