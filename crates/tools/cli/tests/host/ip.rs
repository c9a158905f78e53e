//! `clearway ip` beside ip(8) of the kernel, at the two ends of a TAP device.

use std::process::Command;

use serde_json::{Map, Value};

use crate::netns::{Netns, root};
use crate::world::{Host, answers, eventually};

struct Ends {
    netns: Netns,
    host: Host,
}

impl Ends {
    fn text(&self, args: &str) -> String {
        let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
        let command = command.arg("ip").args(args.split(' '));
        let out = command.env("CLEARWAY_SOCKET", self.host.socket()).output().unwrap();
        assert!(out.status.success(), "{args}: {}", String::from_utf8_lossy(&out.stderr));
        String::from_utf8(out.stdout).unwrap()
    }

    fn ours(&self, args: &str) -> Vec<Value> {
        serde_json::from_str(&self.text(&format!("-j {args}"))).unwrap()
    }

    fn kernels(&self, args: &str) -> Vec<Value> {
        let words: Vec<&str> = args.split(' ').collect();
        serde_json::from_str(&self.netns.text("ip", &[&["-j"][..], &words].concat())).unwrap()
    }
}

/// Every key of ours is one of the kernel's; those that are not named say the same.
fn agree(ours: &Value, kernels: &Value, otherwise: &[&str]) {
    let (ours, kernels) = (object(ours), object(kernels));
    for (key, value) in ours {
        let theirs = kernels.get(key).unwrap_or_else(|| panic!("{key} is no key of {kernels:?}"));
        assert!(otherwise.contains(&&**key) || value == theirs, "{key}: {value} and {theirs}");
    }
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().unwrap_or_else(|| panic!("{value}"))
}

/// The entry whose `key` begins with `with`.
fn with<'a>(all: &'a [Value], key: &str, with: &str) -> &'a Value {
    let found = all.iter().find(|one| one[key].as_str().is_some_and(|text| text.starts_with(with)));
    found.unwrap_or_else(|| panic!("{key} {with}: {all:?}"))
}

#[test]
fn ip_has_the_keys_and_values_of_the_kernels_for_the_same_network() {
    if !root() {
        return;
    }
    let netns = Netns::new("cwip");
    let commands = [
        "create tap id 0 host-if-name cw0",
        "set interface state tap0 up",
        "set interface ip address tap0 10.99.0.2/24",
        "set interface ip address tap0 fd00:99::2/64",
        "ip route add 0.0.0.0/0 via 10.99.0.1",
        "ip route add 10.77.0.0/16 via drop",
    ];
    let host = Host::inside(&netns, &[], &commands);
    netns.text("sysctl", &["-qw", "net.ipv6.conf.cw0.accept_dad=0"]);
    for words in [
        "addr add 10.99.0.1/24 dev cw0",
        "addr add fd00:99::1/64 dev cw0",
        "link set cw0 up",
        "route add default via 10.99.0.2",
        "route add blackhole 10.77.0.0/16",
    ] {
        netns.ip(words);
    }
    let ends = Ends { netns, host };
    let both = ["10.99.0.2", "fd00:99::2"];
    eventually("the host answers to both", || both.iter().all(|to| answers(&ends.netns, to)));

    let (here, there) = (ends.ours("addr show dev tap0"), ends.kernels("addr show dev cw0"));
    let local = ["ifindex", "ifname", "address", "operstate", "addr_info"];
    agree(&here[0], &there[0], &local);
    assert_eq!((here[0]["ifname"].as_str(), here.len()), (Some("tap0"), 1));
    let infos = |all: &[Value]| all[0]["addr_info"].as_array().unwrap().clone();
    for net in ["10.99.0.", "fd00:99::"] {
        let (ours, kernels) = (infos(&here), infos(&there));
        let (ours, kernels) = (with(&ours, "local", net), with(&kernels, "local", net));
        agree(ours, kernels, &["local", "label"]);
        assert_eq!(ours["local"], format!("{net}2"));
    }
    assert_eq!(infos(&ends.ours("-4 addr show tap0")).len(), 1, "IPv4 only");

    for (args, net) in [("route", "10."), ("-6 route", "fd00:")] {
        let (here, there) = (ends.ours(args), ends.kernels(args));
        for ours in here.iter().filter(|route| route["dst"].as_str().unwrap().starts_with(net)) {
            // Link-local prefixes and host routes aside, both have the same.
            let kernels = with(&there, "dst", ours["dst"].as_str().unwrap());
            agree(ours, kernels, &["dev", "prefsrc"]);
        }
    }
    let routes = ends.ours("route");
    let default = with(&routes, "dst", "default");
    agree(default, with(&ends.kernels("route"), "dst", "default"), &["dev", "gateway"]);
    assert_eq!((&default["gateway"], &default["dev"]), (&"10.99.0.1".into(), &"tap0".into()));
    assert_eq!(with(&routes, "dst", "10.99.0.")["prefsrc"], "10.99.0.2");
    assert_eq!(with(&routes, "dst", "10.77.")["type"], "blackhole");
    let got = ends.ours("route get 192.0.2.1");
    assert_eq!((&got[0]["gateway"], &got[0]["dst"]), (&"10.99.0.1".into(), &"192.0.2.1".into()));

    let mac = |all: &[Value]| all[0]["address"].clone();
    for (us, them) in [("10.99.0.2", "10.99.0.1"), ("fd00:99::2", "fd00:99::1")] {
        let (ours, kernels) = (ends.ours("neigh"), ends.kernels("neigh"));
        let (ours, kernels) = (with(&ours, "dst", them), with(&kernels, "dst", us));
        agree(ours, kernels, &["dst", "dev", "lladdr", "state"]);
        assert_eq!(ours["lladdr"], mac(&there), "where the kernel is");
        assert_eq!(kernels["lladdr"], mac(&here), "where we are");
    }

    lines(&ends);
    ends.host.stop();
}

/// Text, where scripts cut words out of it.
fn lines(ends: &Ends) {
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let brief = words(&ends.text("-br -4 addr show tap0"));
    assert_eq!(brief, ["tap0", "UP", "10.99.0.2/24"]);
    let connected = "10.99.0.0/24 dev tap0 proto kernel scope link src 10.99.0.2 \n";
    assert!(ends.text("route").contains(connected), "{}", ends.text("route"));
    assert!(ends.text("route").contains("default via 10.99.0.1 dev tap0 \n"));
    assert!(ends.text("addr").contains("    inet 10.99.0.2/24 scope global tap0\n"));
    let counted = &ends.ours("-s link show tap0")[0]["stats64"];
    assert!(counted["rx"]["packets"].as_u64().unwrap() > 0, "{counted}");
    let wrong = Command::new(env!("CARGO_BIN_EXE_clearway"))
        .args(["ip", "addr", "add", "10.0.0.1/8", "dev", "tap0"])
        .output()
        .unwrap();
    assert_eq!(wrong.status.code(), Some(2), "it only reads");
}
