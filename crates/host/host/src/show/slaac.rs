//! Interfaces that are configured by IPv6 routers.

use clearway_base::Instant;
use clearway_dhcp::v6;
use clearway_slaac::Router;
use clearway_wire::ndp::Preference;
use serde_json::{Value, json};

use super::grid::Grid;
use super::look::Look;
use crate::autoconf::Configured;
use crate::outcome::{CommandError, Output};

impl Look<'_> {
    pub(super) fn slaac(&self) -> Result<Output, CommandError> {
        let now = self.host.ask(0, |worker| worker.time().now)?;
        let list = &self.view.autoconf.list;
        let mut grid = Grid::new(&["Name", "What", "Value", "State", ">Seconds", ">Preferred"]);
        let mut dropped = String::new();
        for configured in list {
            rows(&mut grid, configured, now);
            let drops = configured.client.drops().chain(configured.dhcp.drops());
            for (name, count) in drops.filter(|(_, count)| *count > 0) {
                dropped.push_str(&format!("{}: dropped {count} ({name})\n", configured.name));
            }
        }
        let json: Vec<_> = list.iter().map(|configured| one(configured, now)).collect();
        Ok(Output::new(grid.text() + &dropped, json!({ "interfaces": json })))
    }

    /// Addresses of an interface that a server or router gave and that have their time: with the
    /// length of the prefix, where they stand, and how many seconds are left.
    pub(super) fn given(&self, name: &str, now: Instant) -> Vec<Value> {
        let configured = self.view.autoconf.find(name).into_iter();
        let made = configured.flat_map(|c| c.client.addresses()).map(|address| {
            json!({
                "address": address.cidr.to_string(),
                "state": address.phase.name(),
                "preferred": left(address.preferred, now),
                "valid": left(address.valid, now),
            })
        });
        let leased = self.view.leases.find(name).and_then(|leased| leased.client.lease());
        let leased = leased.into_iter().map(|lease| {
            let seconds = left(lease.end, now);
            json!({
                "address": lease.addr.to_string(),
                "state": "preferred",
                "preferred": seconds,
                "valid": seconds,
            })
        });
        let given = self.view.autoconf.find(name).and_then(|c| c.dhcp.lease());
        let given = given.into_iter().map(|lease| {
            let preferred = left(lease.preferred, now);
            json!({
                "address": format!("{}/128", lease.addr),
                "state": if preferred == Some(0) { "deprecated" } else { "preferred" },
                "preferred": preferred,
                "valid": left(lease.end, now),
            })
        });
        leased.chain(made).chain(given).collect()
    }
}

/// How many seconds are left; None: for ever.
fn left(until: Instant, now: Instant) -> Option<u64> {
    (until != Instant::NEVER).then(|| until.since(now).as_secs())
}

fn text(seconds: Option<u64>) -> String {
    seconds.map_or_else(|| "for ever".into(), |seconds| seconds.to_string())
}

fn rows(grid: &mut Grid, configured: &Configured, now: Instant) {
    let (name, client) = (&configured.name, &configured.client);
    let mut row = |what: &str, value: String, state: &str, valid: String, preferred: String| {
        grid.row([name.clone(), what.into(), value, state.into(), valid, preferred]);
    };
    for address in client.addresses() {
        let (valid, preferred) = (left(address.valid, now), left(address.preferred, now));
        let state = address.phase.name();
        row("address", address.cidr.to_string(), state, text(valid), text(preferred));
    }
    for router in client.routers() {
        let state = match (client.router() == Some(router.addr), router.lost) {
            (true, None) => "in use",
            (true, Some(_)) => "in use, silent",
            (false, None) => "spare",
            (false, Some(_)) => "silent",
        };
        row("router", router.addr.to_string(), state, text(left(router.until, now)), String::new());
    }
    for way in client.ways().iter().filter(|way| way.to.prefix_len > 0) {
        let state =
            way.router.map_or_else(|| "on the link".into(), |router| format!("by {router}"));
        row("route", way.to.to_string(), &state, String::new(), String::new());
    }
    for server in client.servers() {
        row("DNS", server.addr.to_string(), "", text(left(server.until, now)), String::new());
    }
    if let Some(mtu) = client.mtu() {
        row("MTU", mtu.to_string(), "", String::new(), String::new());
    }
    let dhcp = &configured.dhcp;
    if dhcp.phase() == v6::Phase::Idle {
        return;
    }
    let (address, valid, preferred) = match dhcp.lease() {
        Some(lease) => {
            let (valid, preferred) = (left(lease.end, now), left(lease.preferred, now));
            (format!("{}/128", lease.addr), text(valid), text(preferred))
        }
        None => (String::new(), String::new(), String::new()),
    };
    row("DHCPv6", address, dhcp.phase().name(), valid, preferred);
    for server in dhcp.dns() {
        row("DNS", server.to_string(), "by DHCPv6", String::new(), String::new());
    }
    for domain in dhcp.domains() {
        row("domain", domain.clone(), "by DHCPv6", String::new(), String::new());
    }
}

fn preference(of: Preference) -> &'static str {
    match of {
        Preference::Low => "low",
        Preference::Medium => "medium",
        Preference::High => "high",
    }
}

fn one(configured: &Configured, now: Instant) -> Value {
    let client = &configured.client;
    let addresses: Vec<_> = client
        .addresses()
        .iter()
        .map(|address| {
            json!({
                "address": address.cidr.to_string(),
                "state": address.phase.name(),
                "preferred": left(address.preferred, now),
                "valid": left(address.valid, now),
            })
        })
        .collect();
    let router = |router: &Router| {
        json!({
            "address": router.addr.to_string(),
            "seconds": left(router.until, now),
            "preference": preference(router.preference),
            "answers": router.lost.is_none(),
            "used": client.router() == Some(router.addr),
        })
    };
    let routers: Vec<_> = client.routers().iter().map(router).collect();
    let ways: Vec<_> = client
        .ways()
        .iter()
        .map(|way| {
            let router = way.router.map(|router| router.to_string());
            json!({ "to": way.to.to_string(), "router": router })
        })
        .collect();
    let dns: Vec<_> = client
        .servers()
        .iter()
        .map(|s| json!({ "address": s.addr.to_string(), "seconds": left(s.until, now) }))
        .collect();
    let (managed, other) = client.by_dhcp();
    let drops = client.drops().chain(configured.dhcp.drops());
    let dropped: serde_json::Map<_, _> =
        drops.map(|(name, count)| (name.to_owned(), count.into())).collect();
    json!({
        "interface": configured.name,
        "addresses": addresses,
        "routers": routers,
        "routes": ways,
        "dns": dns,
        "mtu": client.mtu(),
        "hop-limit": client.hop_limit(),
        "managed": managed,
        "other": other,
        "dhcpv6": dhcpv6(&configured.dhcp, now),
        "dropped": dropped,
    })
}

fn dhcpv6(client: &v6::Client, now: Instant) -> Value {
    if client.phase() == v6::Phase::Idle {
        return Value::Null;
    }
    let lease = client.lease();
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    json!({
        "phase": client.phase().name(),
        "address": lease.map(|lease| format!("{}/128", lease.addr)),
        "preferred": lease.and_then(|lease| left(lease.preferred, now)),
        "valid": lease.and_then(|lease| left(lease.end, now)),
        "server": lease.map(|lease| hex(&lease.server)),
        "dns": client.dns().iter().map(ToString::to_string).collect::<Vec<_>>(),
        "domains": client.domains(),
    })
}
