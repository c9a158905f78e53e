use serde_json::{Value, json};

use super::words::{Object, Table, Words};
use super::{Family, lines, rows};

fn words(text: &str) -> Result<Words, String> {
    Words::parse(&text.split(' ').map(str::to_owned).collect::<Vec<_>>())
}

#[test]
fn words_may_be_shortened_as_at_ip() {
    let device = |name: &str| Some(name.to_owned());
    for text in ["a", "addr", "address show", "a s", "addr ls"] {
        assert_eq!(words(text).unwrap().object, Object::Address, "{text}");
    }
    assert_eq!(words("a show dev tap0").unwrap().device, device("tap0"));
    assert_eq!(words("addr show tap0").unwrap().device, device("tap0"));
    assert_eq!(words("l").unwrap().object, Object::Link);
    assert_eq!(words("n").unwrap().object, Object::Neighbour);
    assert_eq!(words("neighbor show").unwrap().object, Object::Neighbour);
    assert_eq!(words("r").unwrap().table, Table::Number(0));
    assert_eq!(words("route show table 7").unwrap().table, Table::Number(7));
    assert_eq!(words("ro ls table all dev tap1").unwrap().table, Table::All);
    assert_eq!(words("route get 10.0.0.1").unwrap().get.as_deref(), Some("10.0.0.1"));
}

#[test]
fn what_would_change_something_and_what_is_unknown_is_refused() {
    for text in ["addr add 10.0.0.1/24 dev tap0", "route del default", "neigh flush dev x"] {
        assert!(words(text).unwrap_err().contains("only reads"), "{text}");
    }
    assert!(words("rule").unwrap_err().contains("no object"));
    assert!(words("route get nowhere").unwrap_err().contains("expected an address"));
    assert!(words("route show table").unwrap_err().contains("expected its number"));
    assert!(words("neigh show tap0").unwrap_err().contains("Possible: dev NAME"));
}

fn route(prefix: &str, kind: &str, gateway: Option<&str>, interface: Option<&str>) -> Value {
    json!({ "table": 0, "prefix": prefix, "via": "in words", "kind": kind, "gateway": gateway,
        "interface": interface })
}

#[test]
fn a_router_is_reached_over_the_interface_of_the_longest_route_to_it() {
    let all = [
        route("0.0.0.0/0", "gateway", Some("10.1.2.9"), None),
        route("10.0.0.0/8", "interface", None, Some("tap0")),
        route("10.1.2.0/24", "interface", None, Some("tap1")),
        route("192.0.2.0/24", "drop", None, None),
    ];
    let addresses = [json!({ "name": "tap1", "addresses": ["10.1.2.1/24"] })];
    let shown = rows::routes(&all, &all, &addresses, &words("route").unwrap());
    assert_eq!(
        shown[0],
        json!({ "dst": "default", "gateway": "10.1.2.9", "dev": "tap1", "flags": [] })
    );
    assert_eq!(
        shown[2],
        json!({ "dst": "10.1.2.0/24", "dev": "tap1", "protocol": "kernel", "scope": "link",
            "prefsrc": "10.1.2.1", "flags": [] })
    );
    assert_eq!(shown[3], json!({ "type": "blackhole", "dst": "192.0.2.0/24", "flags": [] }));
    let on_tap1 = rows::routes(&all, &all, &addresses, &words("route show dev tap1").unwrap());
    assert_eq!(on_tap1.len(), 2);
    let line = |row| lines::full(Object::Route, row);
    assert_eq!(line(&shown[0]), "default via 10.1.2.9 dev tap1 \n");
    assert_eq!(line(&shown[2]), "10.1.2.0/24 dev tap1 proto kernel scope link src 10.1.2.1 \n");
    assert_eq!(line(&shown[3]), "blackhole 192.0.2.0/24 \n");
}

#[test]
fn of_what_several_workers_know_of_a_neighbour_the_best_is_shown() {
    let known = |state: &str, mac: Option<&str>, worker: u64| {
        json!({ "address": "10.0.0.9", "mac": mac, "state": state, "interface": "tap0",
            "worker": worker })
    };
    let mac = Some("02:00:00:00:00:09");
    let all = [known("incomplete", None, 0), known("reachable", mac, 1), known("stale", mac, 2)];
    let shown = rows::neighbours(all.iter(), Family::Any, None);
    let expected = json!({ "dst": "10.0.0.9", "dev": "tap0", "lladdr": "02:00:00:00:00:09",
        "state": ["REACHABLE"] });
    assert_eq!(shown, [expected]);
    assert_eq!(
        lines::full(Object::Neighbour, &shown[0]),
        "10.0.0.9 dev tap0 lladdr 02:00:00:00:00:09 REACHABLE \n"
    );
    assert!(rows::neighbours(all.iter(), Family::V6, None).is_empty());
    assert!(rows::neighbours(all.iter(), Family::Any, Some("tap1")).is_empty());
}

#[test]
fn an_interface_has_the_flags_and_the_state_of_its_kind() {
    let of = |kind: &str, mac: Option<&str>, up: bool| {
        let told = json!({ "name": "x", "index": 3, "up": up, "link": true, "mtu": 1500,
            "kind": kind, "mac": mac, "rx-bytes": 10, "rx-packets": 1, "tx-bytes": 0,
            "tx-packets": 0, "rx-drops": { "fault-loss": 2, "no-buffer": 1 }, "tx-drops": {} });
        rows::link(&told, true)
    };
    let tap = of("tap:cw0", Some("02:00:00:00:00:01"), true);
    assert_eq!(tap["flags"], json!(["BROADCAST", "MULTICAST", "UP", "LOWER_UP"]));
    assert_eq!((&tap["operstate"], &tap["link_type"]), (&json!("UP"), &json!("ether")));
    assert_eq!(tap["stats64"]["rx"]["dropped"], 3);
    let down = of("tap:cw0", Some("02:00:00:00:00:01"), false);
    assert_eq!(
        (&down["operstate"], &down["flags"]),
        (&json!("DOWN"), &json!(["BROADCAST", "MULTICAST"]))
    );
    assert_eq!(of("loopback", None, true)["flags"], json!(["LOOPBACK", "UP", "LOWER_UP"]));
    assert_eq!(of("tun:cw0", None, true)["link_type"], "none");
}
