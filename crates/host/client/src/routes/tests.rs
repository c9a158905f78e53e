use super::*;

fn routes() -> Routes {
    Routes::new(Prefixes {
        generation: 1,
        local: vec!["172.16.1.1".parse().unwrap(), "2001:db8::1".parse().unwrap()],
        loopback: None,
        routes: vec![
            ("172.16.2.1".parse().unwrap(), 32),
            ("10.0.0.0".parse().unwrap(), 8),
            ("::".parse().unwrap(), 0),
        ],
        more: false,
        dns: Dns::default(),
    })
}

fn remote(config: &AppConfig, address: &str) -> bool {
    routes().serves_remote(config, SocketAddr::new(address.parse().unwrap(), 80))
}

fn local(config: &AppConfig, address: &str) -> bool {
    routes().serves_local(config, SocketAddr::new(address.parse().unwrap(), 80))
}

#[test]
fn destinations_are_ours_by_route() {
    let config = AppConfig::default();
    for address in [
        "172.16.1.1",
        "172.16.2.1",
        "10.255.0.1",
        "2001:db8::1",
        "2001:db8:1::5",
        "::ffff:10.1.2.3",
        // By the default route, as on Linux.
        "ff05::1",
    ] {
        assert!(remote(&config, address), "{address}");
    }
    for address in
        ["172.16.2.2", "192.0.2.1", "127.0.0.1", "::1", "0.0.0.0", "224.0.0.1", "255.255.255.255"]
    {
        assert!(!remote(&config, address), "{address}");
    }
}

#[test]
fn binding_is_ours_by_address() {
    let config = AppConfig::default();
    assert!(local(&config, "172.16.1.1"));
    assert!(local(&config, "0.0.0.0"));
    assert!(local(&config, "::"));
    assert!(!local(&config, "172.16.2.1"), "a route is not an address");
    assert!(!local(&config, "127.0.0.1"));
}

#[test]
fn what_the_configuration_leaves_to_the_kernel_stays_there() {
    let config = AppConfig {
        wildcard: Wildcard::Kernel,
        kernel: vec![("10.1.0.0".parse().unwrap(), 16), ("172.16.1.1".parse().unwrap(), 32)],
        ..AppConfig::default()
    };
    assert!(!local(&config, "0.0.0.0"));
    assert!(!local(&config, "172.16.1.1"));
    assert!(!remote(&config, "10.1.2.3"));
    assert!(remote(&config, "10.2.2.3"));
}

#[test]
fn without_addresses_the_wildcard_is_the_kernels() {
    let routes = Routes::new(Prefixes::default());
    assert!(!routes.serves_local(&AppConfig::default(), "0.0.0.0:80".parse().unwrap()));
}

#[test]
fn a_loopback_address_that_the_namespace_owns_is_ours() {
    let routes =
        Routes::new(Prefixes { local: vec!["127.0.0.5".parse().unwrap()], ..Prefixes::default() });
    assert!(routes.serves_remote(&AppConfig::default(), "127.0.0.5:80".parse().unwrap()));
    assert!(!routes.serves_remote(&AppConfig::default(), "127.0.0.1:80".parse().unwrap()));
}

#[test]
fn all_of_a_loopback_prefix_is_ours_but_where_the_systems_resolver_is() {
    let net = ("127.0.0.1".parse().unwrap(), 8);
    let routes =
        Routes::new(Prefixes { local: vec![net.0], loopback: Some(net), ..Prefixes::default() });
    for (address, ours) in [
        ("127.0.0.1", true),
        ("127.0.1.1", true),
        ("127.255.0.9", true),
        ("127.0.0.53", false),
        ("127.0.0.54", false),
        ("128.0.0.1", false),
    ] {
        let address = SocketAddr::new(address.parse().unwrap(), 53);
        assert_eq!(routes.serves_remote(&AppConfig::default(), address), ours, "{address}");
        assert_eq!(routes.serves_local(&AppConfig::default(), address), ours, "{address}");
    }
}

#[test]
fn no_address_at_all_is_this_machine() {
    for (remote, local, reached) in [
        ("0.0.0.0", "0.0.0.0", "127.0.0.1"),
        ("0.0.0.0", "10.0.0.1", "10.0.0.1"),
        ("::", "::", "::1"),
        ("::", "2001:db8::1", "::1"),
        ("::", "10.0.0.1", "127.0.0.1"),
        ("::ffff:0.0.0.0", "::", "127.0.0.1"),
        ("10.0.0.2", "10.0.0.1", "10.0.0.2"),
        ("2001:db8::2", "::", "2001:db8::2"),
    ] {
        let remote = SocketAddr::new(remote.parse().unwrap(), 80);
        let found = destination(remote, || local.parse().unwrap());
        assert_eq!(found, SocketAddr::new(reached.parse().unwrap(), 80), "{remote} {local}");
    }
}
