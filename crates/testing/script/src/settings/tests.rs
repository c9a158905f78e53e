use super::{IpVersion, Settings, knobs, only_knobs};

#[test]
fn knobs_are_found_however_they_are_set() {
    let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(
        knobs("sysctl -q net.ipv4.tcp_sack=0 net.ipv4.tcp_timestamps=1"),
        [pair("net.ipv4.tcp_sack", "0"), pair("net.ipv4.tcp_timestamps", "1")]
    );
    assert_eq!(knobs("/proc/sys/net/ipv4/tcp_sack=0\n"), [pair("net.ipv4.tcp_sack", "0")]);
    assert_eq!(
        knobs("sysctl -q net.ipv4.tcp_rmem=\"1 2 3\""),
        [pair("net.ipv4.tcp_rmem", "1 2 3")]
    );
    assert_eq!(knobs("FOO=1 ip route add default via 1.2.3.4"), []);
}

#[test]
fn only_plain_settings_go_without_a_shell() {
    assert!(only_knobs("sysctl -q net.ipv4.tcp_sack=0\nsysctl -q net.ipv4.tcp_ecn=0"));
    assert!(!only_knobs("sysctl -q net.ipv4.tcp_sack=0 | cat"));
    assert!(!only_knobs("ip link set lo up"));
}

#[test]
fn either_family_has_room_for_the_same_segments() {
    let settings = Settings::default();
    assert_eq!(settings.mtu(IpVersion::V4) - 40, settings.mtu(IpVersion::V6) - 60);
}

#[test]
fn versions_are_named_with_hyphen_or_underscore() {
    assert_eq!(IpVersion::of("ipv4-mapped"), Some(IpVersion::V4Mapped));
    assert_eq!(IpVersion::of("ipv5"), None);
}
