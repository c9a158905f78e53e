//! Interfaces that are configured by IPv6 routers.

use clearway_base::Instant;
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
            for (name, count) in configured.client.drops().filter(|(_, count)| *count > 0) {
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
        leased.chain(made).collect()
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
    if let (true, _) = client.by_dhcp() {
        row("DHCPv6", "wanted by the router".into(), "not done", String::new(), String::new());
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
    let dropped: serde_json::Map<_, _> =
        client.drops().map(|(name, count)| (name.to_owned(), count.into())).collect();
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
        "dropped": dropped,
    })
}
