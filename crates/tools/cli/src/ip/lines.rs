//! Lines of text out of the rows.

use serde_json::Value;

use super::words::Object;

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap_or_default()
}

fn all<'a>(row: &'a Value, key: &str) -> impl Iterator<Item = &'a Value> {
    row[key].as_array().into_iter().flatten()
}

fn joined(row: &Value, key: &str) -> String {
    all(row, key).filter_map(Value::as_str).collect::<Vec<_>>().join(",")
}

fn number(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or(0)
}

/// As with `-br`.
pub(super) fn brief(object: Object, row: &Value) -> String {
    let head = || format!("{:<16} {:<14} ", text(row, "ifname"), text(row, "operstate"));
    match object {
        Object::Address => {
            let addresses = all(row, "addr_info")
                .map(|info| format!("{}/{} ", text(info, "local"), number(info, "prefixlen")));
            format!("{}{}\n", head(), addresses.collect::<String>())
        }
        Object::Link => {
            format!("{}{} <{}> \n", head(), text(row, "address"), joined(row, "flags"))
        }
        Object::Neighbour => {
            format!("{:<39} {:<16} {}\n", text(row, "dst"), text(row, "dev"), text(row, "lladdr"))
        }
        Object::Route => full(object, row),
    }
}

pub(super) fn full(object: Object, row: &Value) -> String {
    match object {
        Object::Address | Object::Link => interface(row),
        Object::Route => route(row),
        Object::Neighbour => {
            let mac = match text(row, "lladdr") {
                "" => String::new(),
                mac => format!("lladdr {mac} "),
            };
            let (dst, dev) = (text(row, "dst"), text(row, "dev"));
            format!("{dst} dev {dev} {mac}{} \n", joined(row, "state"))
        }
    }
}

/// What is left of an address.
fn lifetime(info: &Value, key: &str) -> String {
    let seconds = number(info, key);
    if seconds == u64::from(u32::MAX) { "forever".into() } else { format!("{seconds}sec") }
}

fn interface(row: &Value) -> String {
    let mut lines = format!(
        "{}: {}: <{}> mtu {} state {}\n    link/{}",
        number(row, "ifindex"),
        text(row, "ifname"),
        joined(row, "flags"),
        number(row, "mtu"),
        text(row, "operstate"),
        text(row, "link_type")
    );
    if row["address"].is_string() {
        lines += &format!(" {} brd {}", text(row, "address"), text(row, "broadcast"));
    }
    lines.push('\n');
    for info in all(row, "addr_info") {
        let label = info["label"].as_str().map(|label| format!(" {label}")).unwrap_or_default();
        // In ip(8)'s order.
        let flags = ["dadfailed", "deprecated", "tentative", "dynamic"];
        let flags: String =
            flags.iter().filter(|f| info[**f] == true).map(|flag| format!(" {flag}")).collect();
        lines += &format!(
            "    {} {}/{} scope {}{flags}{}\n       valid_lft {} preferred_lft {}\n",
            text(info, "family"),
            text(info, "local"),
            number(info, "prefixlen"),
            text(info, "scope"),
            if label.is_empty() { " " } else { &label },
            lifetime(info, "valid_life_time"),
            lifetime(info, "preferred_life_time"),
        );
    }
    for (way, name) in [("rx", "RX"), ("tx", "TX")] {
        let stats = &row["stats64"][way];
        if stats.is_object() {
            let (bytes, packets) = (number(stats, "bytes"), number(stats, "packets"));
            lines += &format!(
                "    {name}: {:>12} {:>9} {:>7}\n        {bytes:>12} {packets:>9} {:>7}\n",
                "bytes",
                "packets",
                "dropped",
                number(stats, "dropped")
            );
        }
    }
    lines
}

fn route(row: &Value) -> String {
    let mut line = String::new();
    match (text(row, "type"), text(row, "via")) {
        ("", _) => {}
        ("lookup", _) => {}
        (kind, _) => line += &format!("{kind} "),
    }
    line += &format!("{} ", text(row, "dst"));
    if text(row, "type") == "lookup" {
        line += &format!("{} ", text(row, "via"));
    }
    let words = [
        ("via", "gateway"),
        ("dev", "dev"),
        ("table", "table"),
        ("proto", "protocol"),
        ("scope", "scope"),
        ("src", "prefsrc"),
    ];
    for (word, key) in words {
        if row[key].is_string() {
            line += &format!("{word} {} ", text(row, key));
        }
    }
    line.push('\n');
    line
}
