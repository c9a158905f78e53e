//! Interfaces that are configured by DHCP.

use clearway_base::Instant;
use serde_json::json;

use super::grid::Grid;
use super::look::Look;
use crate::leases::Leased;
use crate::outcome::{CommandError, Output};

impl Look<'_> {
    pub(super) fn dhcp(&self) -> Result<Output, CommandError> {
        let now = self.host.ask(0, |worker| worker.time().now)?;
        let mut grid =
            Grid::new(&["Name", "State", "Address", "Server", ">Seconds", "DNS", "Domain"]);
        let list = &self.view.leases.list;
        let mut dropped = String::new();
        for leased in list {
            let lease = leased.client.lease();
            grid.row([
                leased.name.clone(),
                leased.client.phase().name().into(),
                lease.map_or_else(|| "-".into(), |lease| lease.addr.to_string()),
                lease.map_or_else(|| "-".into(), |lease| lease.server.to_string()),
                lease.map_or_else(|| "-".into(), |lease| left(lease.end, now)),
                lease.map_or_else(String::new, |lease| {
                    let dns: Vec<String> = lease.dns.iter().map(ToString::to_string).collect();
                    dns.join(" ")
                }),
                lease.and_then(|lease| lease.domain.clone()).unwrap_or_default(),
            ]);
            for (name, count) in leased.client.drops().filter(|(_, count)| *count > 0) {
                dropped.push_str(&format!("{}: dropped {count} ({name})\n", leased.name));
            }
        }
        let json: Vec<_> = list.iter().map(|leased| one(leased, now)).collect();
        Ok(Output::new(grid.text() + &dropped, json!({ "interfaces": json })))
    }
}

/// How many seconds are left of a lease.
fn left(end: Instant, now: Instant) -> String {
    if end == Instant::NEVER { "for ever".into() } else { end.since(now).as_secs().to_string() }
}

fn one(leased: &Leased, now: Instant) -> serde_json::Value {
    let drops: serde_json::Map<_, _> =
        leased.client.drops().map(|(name, count)| (name.to_owned(), count.into())).collect();
    let lease = leased.client.lease().map(|lease| {
        let routes: Vec<_> = lease
            .routes
            .iter()
            .map(|(to, router)| json!({ "to": to.to_string(), "router": router.to_string() }))
            .collect();
        let seconds = (lease.end != Instant::NEVER).then(|| lease.end.since(now).as_secs());
        let dns: Vec<String> = lease.dns.iter().map(ToString::to_string).collect();
        json!({
            "address": lease.addr.to_string(),
            "server": lease.server.to_string(),
            "seconds": seconds,
            "routes": routes,
            "dns": dns,
            "domain": lease.domain,
            "mtu": lease.mtu,
        })
    });
    json!({
        "interface": leased.name,
        "state": leased.client.phase().name(),
        "lease": lease,
        "dropped": drops,
    })
}
