//! The state of the host as the commands that make it.

use std::fmt::Write as _;

use clearway_command::{AppLimits, TogetherLimits};
use clearway_pkt::Iface;
use clearway_ports::Port;
use clearway_proto::{AddressInfo, InterfaceInfo, NextHop, Route, Table};
use clearway_session::interfaces::InterfaceEntry;
use clearway_session::worker::Worker;
use serde_json::json;
use zeroize::Zeroizing;

use super::look::Look;
use crate::made::{mac_of, quoted};
use crate::namespaces::{DEFAULT, NamespaceSpec};
use crate::outcome::{CommandError, Output, locked};

/// A command of the script.
struct Line {
    text: Zeroizing<String>,
    /// The same without its secret, if it has one.
    hidden: Option<String>,
}

impl Line {
    fn plain(text: String) -> Line {
        Line { text: Zeroizing::new(text), hidden: None }
    }
}

/// What worker 0 has, which is what all have.
struct Seen {
    entries: Vec<InterfaceEntry>,
    infos: Vec<InterfaceInfo>,
    addresses: Vec<AddressInfo>,
    routes: Vec<Route>,
    /// For each worker, the interfaces of which it has a queue.
    queues: Vec<Vec<Iface>>,
}

/// The first lines of the text.
const HEAD: &str = "\
# What this host has, as commands. Settings such as cores, memory and TCP are no commands: see
# `show settings`.
";

impl Look<'_> {
    pub(super) fn running_config(&self, secrets: bool) -> Result<Output, CommandError> {
        let lines = self.running()?;
        let mut text = HEAD.to_owned();
        let (mut commands, mut hidden) = (Vec::new(), Vec::new());
        for line in &lines {
            match &line.hidden {
                Some(masked) if !secrets => {
                    let _ = writeln!(text, "# {masked}");
                    hidden.push(masked.clone());
                }
                _ => {
                    let _ = writeln!(text, "{}", line.text.as_str());
                    commands.push(line.text.to_string());
                }
            }
        }
        Ok(Output::new(text, json!({ "commands": commands, "hidden": hidden })))
    }

    /// The same as a script with its secrets, and how many commands it has.
    pub(super) fn running_script(&self) -> Result<(Zeroizing<String>, usize), CommandError> {
        let lines = self.running()?;
        let len = HEAD.len() + lines.iter().map(|line| line.text.len() + 1).sum::<usize>();
        // It never grows, so that nothing of it stays behind elsewhere.
        let mut script = Zeroizing::new(String::with_capacity(len));
        script.push_str(HEAD);
        for line in &lines {
            script.push_str(&line.text);
            script.push('\n');
        }
        Ok((script, lines.len()))
    }

    fn running(&self) -> Result<Vec<Line>, CommandError> {
        let (infos, addresses, routes) = self.host.ask(0, |worker| {
            let stack = worker.stack();
            let own = |a: &AddressInfo| stack.own_link_local(a.iface) == Some(a.cidr.addr);
            let addresses: Vec<_> = stack.addresses().filter(|a| !own(a)).collect();
            let infos: Vec<_> = stack.interfaces().collect();
            (infos, addresses, stack.routes().collect::<Vec<_>>())
        })?;
        let mut entries: Vec<InterfaceEntry> =
            locked(&self.host.interfaces()).iter().cloned().collect();
        entries.sort_by_key(|entry| entry.iface.0);
        let queues = self.host.ask_all(queues)?;
        let seen = Seen { entries, infos, addresses, routes, queues };
        let mut lines = Vec::new();
        seen.entries.iter().for_each(|entry| self.created(&seen, entry, &mut lines));
        let tables = self.view.tables.iter().map(|(number, _)| number).filter(|n| *n != 0);
        lines.extend(tables.map(|number| format!("ip table add {number}")));
        for entry in &seen.entries {
            self.configured(&seen, entry, &mut lines);
        }
        self.routed(&seen, &mut lines);
        let rules = self.view.packets.rules();
        lines.extend(rules.iter().map(|rule| match rule.text().as_str() {
            "any" => format!("acl add {}", rule.action()),
            words => format!("acl add {} {}", rule.action(), words.replace(" (not there)", "")),
        }));
        let mut lines: Vec<Line> = lines.into_iter().map(Line::plain).collect();
        let namespaces = self.host.namespaces();
        let namespaces = locked(&namespaces);
        if namespaces.find(DEFAULT).is_none() {
            lines.push(Line::plain(format!("app ns del id {DEFAULT}")));
        }
        let others = namespaces.iter().filter(|namespace| namespace.number != 0);
        lines.extend(others.map(|namespace| self.namespace(&seen, &namespace.spec)));
        Ok(lines)
    }

    fn created(&self, seen: &Seen, entry: &InterfaceEntry, lines: &mut Vec<String>) {
        let Some(recipe) = self.view.made.recipe(entry.iface) else { return };
        let Some(info) = seen.infos.iter().find(|info| info.iface == entry.iface) else { return };
        lines.push(recipe.line.clone());
        let name = quoted(&entry.name);
        // What a DHCP server or a router said is not what somebody set.
        let mtu = self.view.link_mtus.own(entry.iface).unwrap_or(info.mtu);
        if mtu != recipe.mtu {
            lines.push(format!("set interface mtu packet {mtu} {name}"));
        }
        if let Some(mac) = mac_of(info).filter(|mac| Some(*mac) != recipe.mac) {
            lines.push(format!("set interface mac address {name} {mac}"));
        }
    }

    fn configured(&self, seen: &Seen, entry: &InterfaceEntry, lines: &mut Vec<String>) {
        let (iface, name) = (entry.iface, quoted(&entry.name));
        let Some(info) = seen.infos.iter().find(|info| info.iface == iface) else { return };
        let table = self.table(info.table);
        if table != 0 {
            lines.push(format!("set interface ip table {name} {table}"));
        }
        let leased = self.view.leases.find(&entry.name);
        let given = leased.and_then(|leased| leased.address);
        let is_set = |a: &&AddressInfo| {
            a.iface == iface
                && Some(a.cidr) != given
                && !self.view.autoconf.gave_address(iface, a.cidr)
        };
        let addresses = seen.addresses.iter().filter(is_set);
        lines.extend(addresses.map(|a| format!("set interface ip address {name} {}", a.cidr)));
        // One that is lost is down, and up again when it is there.
        let made = self.view.made;
        if info.up || made.is_lost(iface) && made.is_wanted_up(iface) {
            lines.push(format!("set interface state {name} up"));
        }
        if leased.is_some() {
            lines.push(format!("set interface dhcp {name} on"));
        }
        if self.view.autoconf.find(&entry.name).is_some() {
            lines.push(format!("set interface slaac {name} on"));
        }
        for (queue, mode) in self.view.made.modes(iface) {
            let queue = queue.map_or(String::new(), |queue| format!(" queue {queue}"));
            lines.push(format!("set interface rx-mode {name}{queue} {mode}"));
        }
        lines.extend(self.placed(seen, iface).map(|(queue, worker)| {
            format!("set interface rx-placement {name} queue {queue} worker {worker}")
        }));
    }

    /// Which queue goes to which worker, each command as it is with those before it done: two
    /// workers exchange their queues.
    fn placed(&self, seen: &Seen, iface: Iface) -> impl Iterator<Item = (usize, usize)> {
        let workers = seen.queues.len();
        let mut at: Vec<usize> = (0..workers).collect();
        let mut moves = Vec::new();
        for queue in 0..workers {
            let worker = self.view.placements.worker(iface, queue);
            let is_there = seen.queues.get(worker).is_some_and(|queues| queues.contains(&iface));
            if is_there && at[queue] != worker {
                let from = at[queue];
                moves.push((queue, worker));
                if let Some(other) = at.iter().position(|of| *of == worker) {
                    at[other] = from;
                }
                at[queue] = worker;
            }
        }
        moves.into_iter()
    }

    /// Routes that addresses do not bring along, and those of them that are not as these bring them.
    fn routed(&self, seen: &Seen, lines: &mut Vec<String>) {
        let mut brought: Vec<Route> = Vec::new();
        for entry in &seen.entries {
            let Some(info) = seen.infos.iter().find(|info| info.iface == entry.iface) else {
                continue;
            };
            // Of addresses that routers' prefixes made, the routers say what is on the link.
            let brings = |a: &&AddressInfo| {
                a.iface == entry.iface && !self.view.autoconf.gave_address(a.iface, a.cidr)
            };
            for address in seen.addresses.iter().filter(brings) {
                let dst = address.cidr;
                let route = Route { table: info.table, dst, via: NextHop::Interface(entry.iface) };
                let is_known = brought.iter().any(|other| goes_the_same(other, &route));
                let is_of_link = dst.addr.is_v6() && dst.addr.is_link_local();
                if !is_known && !is_of_link {
                    brought.push(route);
                }
            }
        }
        let is_in = |all: &[Route], route: &Route| {
            all.iter().any(|other| goes_the_same(other, route) && other.via == route.via)
        };
        let in_table = |table: Table| match self.table(table) {
            0 => String::new(),
            number => format!(" table {number}"),
        };
        for route in brought.iter().filter(|route| !is_in(&seen.routes, route)) {
            lines.push(format!("ip route del {}{}", route.dst, in_table(route.table)));
        }
        let mut routes: Vec<&Route> = seen
            .routes
            .iter()
            .filter(|r| !is_in(&brought, r) && self.leads_somewhere(r.via))
            .filter(|r| !self.view.leases.gave_route(self.table(r.table), r.dst))
            .filter(|r| !self.view.autoconf.gave_route(self.table(r.table), r.dst))
            .collect();
        routes.sort_by_key(|r| (self.table(r.table), r.dst.addr, r.dst.prefix_len));
        // Routers are found over links, so what leads over a link comes first.
        routes.sort_by_key(|r| matches!(r.via, NextHop::Gateway(_)));
        lines.extend(routes.iter().map(|route| {
            let via = match route.via {
                NextHop::Gateway(addr) => addr.to_string(),
                NextHop::GatewayOn { iface, addr } => {
                    format!("{addr} {}", quoted(&self.name(iface)))
                }
                NextHop::Interface(iface) => quoted(&self.name(iface)),
                NextHop::Lookup(table) => format!("lookup in table {}", self.table(table)),
                NextHop::Blackhole => "drop".into(),
                NextHop::Unreachable => "unreachable".into(),
            };
            format!("ip route add {}{} via {via}", route.dst, in_table(route.table))
        }));
    }

    /// Whether people can name where a route leads.
    fn leads_somewhere(&self, via: NextHop) -> bool {
        match via {
            NextHop::Interface(iface) | NextHop::GatewayOn { iface, .. } => self.is_named(iface),
            _ => true,
        }
    }

    fn namespace(&self, seen: &Seen, spec: &NamespaceSpec) -> Line {
        let mut rest = String::new();
        let mut of_interface = Table(0);
        if let Some(name) = &spec.interface {
            let _ = write!(rest, " if {}", quoted(name));
            let iface = seen.entries.iter().find(|e| e.name == *name).map(|e| e.iface);
            let info = seen.infos.iter().find(|info| Some(info.iface) == iface);
            of_interface = info.map_or(of_interface, |info| info.table);
        }
        if spec.table != of_interface {
            let _ = write!(rest, " table {}", self.table(spec.table));
        }
        let AppLimits { sessions, listeners, processes, udp_sockets, memory, together } =
            spec.limits;
        limits(&mut rest, "", [sessions, listeners, processes, udp_sockets], memory);
        let TogetherLimits { sessions, listeners, processes, udp_sockets, memory } = together;
        limits(&mut rest, "all-", [sessions, listeners, processes, udp_sockets], memory);
        let begin = format!("app ns add id {}", spec.id);
        match &spec.secret {
            None => Line::plain(format!("{begin}{rest}")),
            Some(secret) => {
                let secret = Zeroizing::new(quoted(&secret.0));
                Line {
                    text: Zeroizing::new(format!("{begin} secret {}{rest}", secret.as_str())),
                    hidden: Some(format!("{begin} secret ***{rest}")),
                }
            }
        }
    }
}

/// Whether two routes are for the same packets.
fn goes_the_same(a: &Route, b: &Route) -> bool {
    a.table == b.table && a.dst.prefix_len == b.dst.prefix_len && a.dst.contains(&b.dst.addr)
}

fn limits(line: &mut String, all: &str, counts: [Option<u32>; 4], memory: Option<u64>) {
    let names = ["sessions", "listeners", "processes", "udp-sockets"];
    for (name, count) in names.iter().zip(counts) {
        let _ = count.map(|count| write!(line, " {all}{name} {count}"));
    }
    let _ = memory.map(|memory| write!(line, " {all}memory {memory}"));
}

/// The interfaces of which a worker has a queue.
fn queues(worker: &mut Worker) -> Vec<Iface> {
    let engine = worker.engine();
    let all: Vec<Iface> = engine.ports().map(|port| port.iface).collect();
    all.into_iter().filter(|iface| !engine.port(*iface).is_none_or(Port::is_absent)).collect()
}
