use super::*;

fn error(text: &str) -> (String, String) {
    let error = text.parse::<PortSpec>().unwrap_err();
    (text[error.at()].to_string(), error.message().to_string())
}

#[test]
fn every_kind_of_port_is_read_and_prints_as_it_was_written() {
    for text in [
        "tap:tap001",
        "tun:t",
        "loop",
        "pcap:some/file,with:signs.pcap",
        "tap:x,queues=256,mtu=9000,mac=02:00:00:00:00:ff,offload=off",
        "tap:x,offload=off,netns=blue",
        "tun:x,netns=/proc/7/ns/net",
        "dpdk:net_memif0,role=server,socket=/tmp/m.sock",
        "dpdk:0000:17:00.0",
        "dpdk:net_tap0,iface=dtap0,mac=fixed,mtu=9000,mac=02:00:00:00:00:ff,offload=off",
        "xdp:eth1",
        "xdp:eth1:2",
        "xdp:eth1.7:0-255,mtu=1400,offload=off,mode=generic",
    ] {
        assert_eq!(text.parse::<PortSpec>().unwrap().to_string(), text);
    }
    let PortSpec::Tap(tap) = "tun:t1,offload=on,queues=3".parse().unwrap() else { panic!() };
    assert_eq!(tap, TapSpec { queues: 3, ..TapSpec::new(TapMode::Tun, "t1") });
}

#[test]
fn errors_point_at_the_word() {
    for (text, word) in [
        ("tap:a,queus=2", "queus"),
        ("tap:a,queues=0", "0"),
        ("tap:a,queues=two", "two"),
        ("tap:a,netns=a/b", "a/b"),
        ("tap:a,netns=..", ".."),
        ("tap:a,netns=", "netns="),
        ("tap:a,queues", "queues"),
        ("tap:a,mtu=", "mtu="),
        ("tap:a,mtu=67", "67"),
        ("tap:a,queues=2,offload=maybe", "maybe"),
        ("tap:a,mac=01:00:00:00:00:00", "01:00:00:00:00:00"),
        ("tap:a,mac=02:00:00:00:00", "02:00:00:00:00"),
        ("tap:a,mac=02:00:00:00:00:00:00", "02:00:00:00:00:00:00"),
        ("tap:a,mac=02:00:00:00:00:xy", "02:00:00:00:00:xy"),
        ("tun:a,mac=02:00:00:00:00:01", "mac=02:00:00:00:00:01"),
        ("tap:a,,queues=2", ""),
        ("tap:sixteen-bytes-xx", "sixteen-bytes-xx"),
        ("tap:a/b", "a/b"),
        ("tap:tap%d", "tap%d"),
        ("tap", "tap"),
        ("tap:", "tap:"),
        ("tap,queues=2", "tap"),
        ("loop:x", ":x"),
        ("pcap:", "pcap:"),
        ("veth:x", "veth"),
        ("dpdk", "dpdk"),
        ("dpdk,role=server", "dpdk"),
        ("dpdk:", "dpdk:"),
        ("dpdk:net memif,role=server", "net memif"),
        ("dpdk:net_null0,,a=b", ""),
        ("dpdk:net_null0,mtu=67", "67"),
        ("dpdk:net_null0,mac=01:00:00:00:00:00", "01:00:00:00:00:00"),
        ("dpdk:net_null0,offload=maybe", "maybe"),
        ("xdp", "xdp"),
        ("xdp,mtu=1500", "xdp"),
        ("xdp:", "xdp:"),
        ("xdp::0,mtu=1500", "xdp::0"),
        ("xdp:sixteen-bytes-xx:1", "sixteen-bytes-xx"),
        ("xdp:eth0:", ""),
        ("xdp:eth0:3-1", "3-1"),
        ("xdp:eth0:256,mtu=1500", "256"),
        ("xdp:eth0,queues=2", "queues"),
        ("xdp:eth0,mode=fast", "fast"),
        ("xdp:eth0,mode", "mode"),
        ("", ""),
    ] {
        assert_eq!(error(text).0, word, "{text}");
    }
}

#[test]
fn what_is_not_ours_in_a_dpdk_port_goes_to_the_driver() {
    let PortSpec::Dpdk(spec) =
        "dpdk:net_vhost0,iface=/tmp/v,mtu=2000,queues=2,offload=off".parse().unwrap()
    else {
        panic!()
    };
    assert_eq!((spec.device.as_str(), spec.args.as_str()), ("net_vhost0", "iface=/tmp/v,queues=2"));
    assert_eq!(
        (spec.mtu, spec.mac, spec.offload, spec.is_pci()),
        (Some(2_000), None, false, false)
    );
    assert_eq!(
        (spec.arg("iface"), spec.arg("queues"), spec.arg("socket")),
        (Some("/tmp/v"), Some("2"), None)
    );
    for (device, is_pci) in
        [("0000:17:00.0", true), ("17:00.1", true), ("net_tap0", false), ("a:b:c.d", false)]
    {
        assert_eq!(DpdkSpec::new(device, "").is_pci(), is_pci, "{device}");
    }
}

#[test]
fn the_word_is_underlined() {
    let shown = "tap:ä,queus=2".parse::<PortSpec>().unwrap_err().to_string();
    let lines: Vec<_> = shown.lines().collect();
    assert_eq!(lines[1..], ["  tap:ä,queus=2", "        ^^^^^"]);
}
