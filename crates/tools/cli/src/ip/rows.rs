//! What the host tells, with the keys of ip(8).

use std::net::IpAddr;

use serde_json::{Map, Value, json};

use super::Family;
use super::words::{Table, Words};

/// "Forever", as ip(8) writes it in JSON.
const FOREVER: u32 = u32::MAX;

/// An interface.
pub(super) fn link(of: &Value, statistics: bool) -> Value {
    let is_up = of["up"] == true;
    let has_link = of["link"] == true;
    let is_loopback = of["kind"].as_str().is_some_and(|kind| kind.starts_with("loop"));
    let mac = of["mac"].as_str();
    let kind = match (is_loopback, mac) {
        (true, _) => "loopback",
        (false, Some(_)) => "ether",
        (false, None) => "none",
    };
    let mut flags = match kind {
        "loopback" => vec!["LOOPBACK"],
        "ether" => vec!["BROADCAST", "MULTICAST"],
        _ => vec!["POINTOPOINT", "MULTICAST", "NOARP"],
    };
    if is_up {
        flags.push("UP");
        flags.push(if has_link { "LOWER_UP" } else { "NO-CARRIER" });
    }
    // As for the kernel's: of a loopback and a TUN device nobody knows.
    let state = match (is_up, has_link, kind) {
        (false, ..) | (true, false, _) => "DOWN",
        (true, true, "ether") => "UP",
        (true, true, _) => "UNKNOWN",
    };
    let mut row = json!({
        "ifindex": of["index"],
        "ifname": of["name"],
        "flags": flags,
        "mtu": of["mtu"],
        "operstate": state,
        "link_type": kind,
    });
    if kind != "none" {
        let (address, broadcast) = match mac {
            Some(mac) => (mac, "ff:ff:ff:ff:ff:ff"),
            None => ("00:00:00:00:00:00", "00:00:00:00:00:00"),
        };
        row["address"] = address.into();
        row["broadcast"] = broadcast.into();
    }
    if statistics {
        let dropped = |key: &str| -> u64 {
            of[key].as_object().into_iter().flatten().filter_map(|(_, count)| count.as_u64()).sum()
        };
        row["stats64"] = json!({
            "rx": { "bytes": of["rx-bytes"], "packets": of["rx-packets"],
                "dropped": dropped("rx-drops") },
            "tx": { "bytes": of["tx-bytes"], "packets": of["tx-packets"],
                "dropped": dropped("tx-drops") },
        });
    }
    row
}

fn prefix(text: &str) -> Option<(IpAddr, u8)> {
    let (address, len) = text.split_once('/')?;
    Some((address.parse().ok()?, len.parse().ok()?))
}

/// The addresses of `link` among those of all interfaces.
pub(super) fn addresses(link: &Value, all: &[Value], family: Family) -> Value {
    let mine = all.iter().find(|one| one["name"] == link["name"]);
    let given: Vec<&Value> =
        mine.and_then(|one| one["given"].as_array()).into_iter().flatten().collect();
    let texts = mine.and_then(|one| one["addresses"].as_array()).into_iter().flatten();
    let mut found: Vec<(IpAddr, u8)> = texts.filter_map(Value::as_str).filter_map(prefix).collect();
    // Those that are probed for are not used yet, and shown nevertheless.
    for one in given.iter().filter_map(|one| prefix(one["address"].as_str()?)) {
        if !found.contains(&one) {
            found.push(one);
        }
    }
    // As there: IPv4 first.
    found.sort_by_key(|(address, _)| address.is_ipv6());
    let info = |(address, len): (IpAddr, u8)| {
        let mut row = json!({
            "family": if address.is_ipv4() { "inet" } else { "inet6" },
            "local": address.to_string(),
            "prefixlen": len,
            "scope": scope(address),
            "valid_life_time": FOREVER,
            "preferred_life_time": FOREVER,
        });
        if address.is_ipv4() {
            row["label"] = link["name"].clone();
        }
        let text = format!("{address}/{len}");
        if let Some(given) = given.iter().find(|one| one["address"] == text) {
            lifetimes(&mut row, given);
        }
        row
    };
    found.into_iter().filter(|(address, _)| family.has(&address.to_string())).map(info).collect()
}

/// How long an address lasts that a server or router gave.
fn lifetimes(row: &mut Value, given: &Value) {
    let seconds = |key: &str| given[key].as_u64().unwrap_or(FOREVER.into());
    row["valid_life_time"] = seconds("valid").into();
    row["preferred_life_time"] = seconds("preferred").into();
    if given["valid"].is_u64() {
        row["dynamic"] = true.into();
    }
    if let Some(state) = given["state"].as_str().filter(|state| *state != "preferred") {
        row[state] = true.into();
    }
}

fn scope(address: IpAddr) -> &'static str {
    match address {
        _ if address.is_loopback() => "host",
        IpAddr::V6(address) if address.is_unicast_link_local() => "link",
        IpAddr::V4(address) if address.is_link_local() => "link",
        _ => "global",
    }
}

fn contains(net: &str, address: IpAddr) -> Option<u8> {
    let bits = |address: IpAddr| match address {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let (net, len) = prefix(net)?;
    let rest = 128 - u32::from(len);
    let mask = u128::MAX.checked_shl(rest).unwrap_or(0);
    let fits = net.is_ipv4() == address.is_ipv4() && (bits(net) ^ bits(address)) & mask == 0;
    fits.then_some(len)
}

/// The interface of the longest route to a router in its table.
fn way_to(gateway: &str, table: &Value, all: &[Value]) -> Option<Value> {
    let gateway: IpAddr = gateway.parse().ok()?;
    let routes =
        all.iter().filter(|route| route["table"] == *table && route["interface"].is_string());
    let best = routes
        .filter_map(|route| Some((contains(route["prefix"].as_str()?, gateway)?, route)))
        .max_by_key(|(len, _)| *len);
    best.map(|(_, route)| route["interface"].clone())
}

/// The address of an interface that is in a prefix.
fn own_address(device: &Value, net: &str, addresses: &[Value]) -> Option<String> {
    let mine = addresses.iter().find(|one| one["name"] == *device)?;
    let texts = mine["addresses"].as_array()?.iter().filter_map(Value::as_str);
    let mut own = texts.filter_map(prefix).map(|(address, _)| address);
    own.find(|address| contains(net, *address).is_some()).map(|address| address.to_string())
}

/// The routes that are asked for. `all` are those among which routers are looked up.
pub(super) fn routes(
    shown: &[Value],
    all: &[Value],
    addresses: &[Value],
    words: &Words,
) -> Vec<Value> {
    let rows = shown.iter().filter_map(|route| {
        let table = route["table"].as_u64()?;
        let prefix_text = route["prefix"].as_str()?;
        let wanted = match words.table {
            Table::All => true,
            Table::Number(number) => number == table,
        };
        let gateway = route["gateway"].as_str();
        let device = match (route["interface"].is_string(), gateway) {
            (true, _) => Some(route["interface"].clone()),
            (false, Some(gateway)) => way_to(gateway, &route["table"], all),
            (false, None) => None,
        };
        let on_it = words
            .device
            .as_deref()
            .is_none_or(|name| device.as_ref().and_then(Value::as_str) == Some(name));
        if !wanted || !on_it {
            return None;
        }
        let mut row = Map::new();
        match route["kind"].as_str() {
            Some("drop") => drop(row.insert("type".into(), "blackhole".into())),
            Some("unreachable") => drop(row.insert("type".into(), "unreachable".into())),
            // The kernel has no such route: it has rules for that.
            Some("lookup") => {
                row.insert("type".into(), "lookup".into());
                row.insert("via".into(), route["via"].clone());
            }
            _ => {}
        }
        row.insert(
            "dst".into(),
            words.get.clone().unwrap_or_else(|| destination(prefix_text)).into(),
        );
        if let Some(gateway) = gateway {
            row.insert("gateway".into(), gateway.into());
        }
        if let Some(device) = &device {
            row.insert("dev".into(), device.clone());
        }
        if words.table == Table::All && table != 0 {
            row.insert("table".into(), table.to_string().into());
        }
        let own = device.as_ref().filter(|_| gateway.is_none());
        if let Some(own) = own.and_then(|device| own_address(device, prefix_text, addresses)) {
            row.insert("protocol".into(), "kernel".into());
            if !own.contains(':') {
                row.insert("scope".into(), "link".into());
                row.insert("prefsrc".into(), own.into());
            }
        }
        row.insert("flags".into(), json!([]));
        Some(Value::Object(row))
    });
    rows.collect()
}

/// `default`, an address without its length, or a prefix.
fn destination(net: &str) -> String {
    match prefix(net) {
        Some((_, 0)) => "default".into(),
        Some((address @ IpAddr::V4(_), 32)) => address.to_string(),
        Some((address @ IpAddr::V6(_), 128)) => address.to_string(),
        _ => net.into(),
    }
}

/// States by the words of ip(8), the best first: workers learn each for itself.
const STATES: &[(&str, &str)] = &[
    ("permanent", "PERMANENT"),
    ("reachable", "REACHABLE"),
    ("probe", "PROBE"),
    ("delay", "DELAY"),
    ("stale", "STALE"),
    ("incomplete", "INCOMPLETE"),
];

/// Neighbours, each once: of what several workers know, the best.
pub(super) fn neighbours<'a>(
    all: impl Iterator<Item = &'a Value>,
    family: Family,
    device: Option<&str>,
) -> Vec<Value> {
    let rank = |state: &Value| STATES.iter().position(|(name, _)| state == name);
    let mut found: Vec<&Value> = Vec::new();
    for one in all {
        let address = one["address"].as_str().unwrap_or_default();
        if !family.has(address) || device.is_some_and(|name| one["interface"] != name) {
            continue;
        }
        let same = |known: &&mut &Value| {
            known["address"] == one["address"] && known["interface"] == one["interface"]
        };
        match found.iter_mut().find(same) {
            Some(known) if rank(&one["state"]) < rank(&known["state"]) => *known = one,
            Some(_) => {}
            None => found.push(one),
        }
    }
    let row = |one: &&Value| {
        let state = STATES.iter().find(|(name, _)| one["state"] == *name).map(|(_, word)| *word);
        let mut row = json!({ "dst": one["address"], "dev": one["interface"] });
        if one["mac"].is_string() {
            row["lladdr"] = one["mac"].clone();
        }
        row["state"] = json!([state.unwrap_or("NONE")]);
        row
    };
    found.iter().map(row).collect()
}
