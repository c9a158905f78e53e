//! Routing tables, routes and neighbours. Every worker has the same routes; neighbours are learned
//! by each for itself.

use clearway_command::IpVersion;
use clearway_proto::{NeighbourInfo, NeighbourState, NextHop, Route};
use clearway_wire::{Addr, Cidr};
use serde_json::{Value, json};

use super::grid::Grid;
use super::look::Look;
use crate::outcome::{CommandError, Output};

impl Look<'_> {
    pub(super) fn tables(&self) -> Result<Output, CommandError> {
        let routes = self
            .host
            .ask(0, |worker| worker.stack().routes().map(|r| r.table).collect::<Vec<_>>())?;
        let interfaces =
            self.host.ask(0, |worker| worker.stack().interfaces().collect::<Vec<_>>())?;
        let mut grid = Grid::new(&[">Table", ">Routes", "Interfaces"]);
        let mut json = Vec::new();
        for (number, table) in self.view.tables.iter() {
            let count = routes.iter().filter(|of| **of == table).count();
            let names: Vec<String> = interfaces
                .iter()
                .filter(|i| i.table == table && self.is_named(i.iface))
                .map(|i| self.name(i.iface))
                .collect();
            grid.row([number.to_string(), count.to_string(), names.join(" ")]);
            json.push(json!({ "table": number, "routes": count, "interfaces": names }));
        }
        Ok(Output::new(grid.text(), json!({ "tables": json })))
    }

    pub(super) fn fib(
        &self,
        version: IpVersion,
        table: Option<u32>,
        wanted: Option<Cidr>,
    ) -> Result<Output, CommandError> {
        let table = table.map(|number| self.view.tables.find(number)).transpose()?;
        let mut routes = self.host.ask(0, |worker| worker.stack().routes().collect::<Vec<_>>())?;
        routes.retain(|r| {
            table.is_none_or(|table| r.table == table) && of_version(version, &r.dst.addr)
        });
        if let Some(wanted) = wanted {
            routes = best(routes, &wanted);
        }
        routes.sort_by_key(|r| (self.table(r.table), r.dst.addr, r.dst.prefix_len));
        let mut grid = Grid::new(&[">Table", "Prefix", "Way"]);
        for route in &routes {
            grid.row([
                self.table(route.table).to_string(),
                route.dst.to_string(),
                self.way(route.via),
            ]);
        }
        let row = |r: &Route| {
            let (kind, gateway, interface) = self.parts(r.via);
            json!({ "table": self.table(r.table), "prefix": r.dst.to_string(),
                "via": self.way(r.via), "kind": kind, "gateway": gateway,
                "interface": interface })
        };
        let json: Value = routes.iter().map(row).collect();
        Ok(Output::new(grid.text_or("There is no such route."), json!({ "routes": json })))
    }

    fn way(&self, via: NextHop) -> String {
        match via {
            NextHop::Gateway(addr) => format!("via {addr}"),
            NextHop::GatewayOn { iface, addr } => format!("via {addr} {}", self.name(iface)),
            NextHop::Interface(iface) => self.name(iface),
            NextHop::Lookup(table) => format!("lookup in table {}", self.table(table)),
            NextHop::Blackhole => "drop".into(),
            NextHop::Unreachable => "unreachable".into(),
        }
    }

    /// The kind of a route, its router and its interface, as far as it names them.
    fn parts(&self, via: NextHop) -> (&'static str, Option<String>, Option<String>) {
        match via {
            NextHop::Gateway(addr) => ("gateway", Some(addr.to_string()), None),
            NextHop::GatewayOn { iface, addr } => {
                ("gateway", Some(addr.to_string()), Some(self.name(iface)))
            }
            NextHop::Interface(iface) => ("interface", None, Some(self.name(iface))),
            NextHop::Lookup(_) => ("lookup", None, None),
            NextHop::Blackhole => ("drop", None, None),
            NextHop::Unreachable => ("unreachable", None, None),
        }
    }

    pub(super) fn neighbors(&self, version: IpVersion) -> Result<Output, CommandError> {
        let of_workers =
            self.host.ask_all(|worker| worker.stack().neighbours().collect::<Vec<_>>())?;
        let mut grid = Grid::new(&["Address", "Ethernet", "State", "Interface", ">Worker"]);
        let mut json = Vec::new();
        for (worker, neighbours) in of_workers.iter().enumerate() {
            for n in neighbours.iter().filter(|n| of_version(version, &n.addr)) {
                let mac = n.mac.map(|mac| mac.to_string());
                let (state, name) = (state(n), self.name(n.iface));
                grid.row([
                    n.addr.to_string(),
                    mac.clone().unwrap_or_default(),
                    state.into(),
                    name.clone(),
                    worker.to_string(),
                ]);
                json.push(json!({ "address": n.addr.to_string(), "mac": mac, "state": state,
                    "interface": name, "worker": worker }));
            }
        }
        Ok(Output::new(grid.text_or("No neighbour is known."), json!({ "neighbors": json })))
    }
}

fn of_version(version: IpVersion, addr: &Addr) -> bool {
    match version {
        IpVersion::V4 => addr.is_v4(),
        IpVersion::V6 => !addr.is_v4(),
        IpVersion::Any => true,
    }
}

/// For a prefix: the routes within it; for one address: of each table, the route that it takes.
fn best(routes: Vec<Route>, wanted: &Cidr) -> Vec<Route> {
    let whole = if wanted.addr.is_v4() { 32 } else { 128 };
    if wanted.prefix_len < whole {
        return routes
            .into_iter()
            .filter(|r| wanted.contains(&r.dst.addr) && r.dst.prefix_len >= wanted.prefix_len)
            .collect();
    }
    let mut best: Vec<Route> = Vec::new();
    for route in routes.into_iter().filter(|r| r.dst.contains(&wanted.addr)) {
        match best.iter_mut().find(|other| other.table == route.table) {
            Some(other) if other.dst.prefix_len < route.dst.prefix_len => *other = route,
            Some(_) => {}
            None => best.push(route),
        }
    }
    best
}

fn state(neighbour: &NeighbourInfo) -> &'static str {
    match neighbour.state {
        NeighbourState::Incomplete => "incomplete",
        NeighbourState::Reachable => "reachable",
        NeighbourState::Stale => "stale",
        NeighbourState::Delay => "delay",
        NeighbourState::Probe => "probe",
        NeighbourState::Permanent => "permanent",
    }
}
