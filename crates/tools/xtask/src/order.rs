//! The floors of modules inside the crates whose inner order is settled: the table that `cargo xtask layers` holds the code to.
//!
//! [`crate::floors`] reads the arrows out of the code; this table says where they may point: to a lower floor and nowhere else, so that there is no circle
//! either. A module that is not in the table is refused, so that a new one gets its place on the day it is born.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::finding::Finding;
use crate::floors::{Floor, circles, floors};

/// One floor: modules of one folder that do not name each other.
pub struct Storey {
    /// What they are together, for the drawing.
    pub name: &'static str,
    /// The modules. `mod` is the folder's own file.
    pub modules: &'static [&'static str],
}

/// The floors of one folder of modules.
pub struct Order {
    /// The crate, and the folder in it: `proto`, `proto::net`.
    pub scope: &'static str,
    /// The lowest first.
    pub storeys: &'static [Storey],
}

const fn floor(name: &'static str, modules: &'static [&'static str]) -> Storey {
    Storey { name, modules }
}

/// The order of each folder of modules that has one, the lowest floor first.
#[rustfmt::skip]
pub const ORDERS: &[Order] = &[
    Order { scope: "proto", storeys: &[
        floor("words and tools", &["counters", "error", "hash", "ids", "limits", "payload", "ports", "records", "store"]),
        floor("keys and choices", &["bind", "config", "event", "export", "flow"]),
        floor("IP", &["net"]),
        floor("transports", &["tcp", "udp"]),
        floor("the owner's verbs", &["stack"]),
        floor("face", &["mod"]),
    ] },
    Order { scope: "proto::net", storeys: &[
        floor("tables", &["frag", "iface", "mod", "neigh", "pmtu", "rate", "route"]),
        floor("addresses and paths", &["local", "path_cache"]),
        floor("groups", &["groups"]),
        floor("what IP knows", &["ip"]),
        floor("IP output", &["output"]),
        floor("answers", &["group_reports", "replies"]),
        floor("protocols", &["arp", "icmp", "ndp"]),
        floor("what IP itself sends", &["emit"]),
    ] },
    Order { scope: "proto::stack", storeys: &[
        floor("before and beside", &["classify", "misdelivered"]),
        floor("the stack", &["mod"]),
        floor("verbs", &["binds", "emit", "export", "groups", "ingest", "links", "sharing", "survey", "udp"]),
    ] },
    Order { scope: "session", storeys: &[
        floor("words and tools", &["errno", "interfaces", "mailbox", "memory", "session_fds"]),
        floor("limits", &["quota"]),
        floor("programs", &["program"]),
        floor("FIFOs", &["store"]),
        floor("the stack's types", &["env"]),
        floor("sessions", &["sessions"]),
        floor("one worker", &["worker"]),
        floor("face", &["mod"]),
    ] },
    Order { scope: "session::store", storeys: &[
        floor("memory and limits", &["fifo_blocks", "grant"]),
        floor("what FIFOs are made of", &["fifo_plan"]),
        floor("FIFOs", &["rx", "tx"]),
        floor("from one to another", &["pass"]),
        floor("face", &["mod"]),
    ] },
    Order { scope: "session::sessions", storeys: &[
        floor("values", &["hold", "listening", "membership", "remote", "rounds"]),
        floor("parts of a session", &["datagram_fifos", "queue_pair", "session_options"]),
        floor("the sessions of a worker", &["state"]),
        floor("what happens to them", &["claim", "close", "cut_throughs", "datagram", "errors", "forwarder", "groups", "info", "messages", "place",
            "reclaim", "stream", "turn"]),
        floor("what processes ask", &["facts", "verbs"]),
        floor("listeners", &["listener", "remote_listener"]),
        floor("face", &["mod"]),
    ] },
    Order { scope: "host", storeys: &[
        floor("words and tools", &["answer", "descriptors", "error", "namespaces", "placements", "random", "setup", "workers"]),
        floor("settings and answers", &["config", "outcome"]),
        floor("tables and the supervisor", &["supervisor", "tables"]),
        floor("the host", &["host"]),
        floor("beside it", &["by_hand", "capture"]),
        floor("what is shown", &["show"]),
        floor("commands", &["control"]),
        floor("face", &["mod"]),
    ] },
];

/// Checks the modules of the workspace at `root`: no circle where there is to be none, no arrow that the table does not allow.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let floors = floors(root)?;
    let mut findings = circles(&floors);
    findings.extend(order(&floors, ORDERS));
    Ok(findings)
}

/// Tells every arrow that does not point to a lower floor, and every module without a place.
pub fn order(floors: &[Floor], orders: &[Order]) -> Vec<Finding> {
    let pairs =
        orders.iter().filter_map(|order| Some((floors.iter().find(|floor| floor.name() == order.scope)?, order)));
    pairs.flat_map(|(floor, order)| held_to(floor, order)).collect()
}

fn held_to(floor: &Floor, order: &Order) -> Vec<Finding> {
    let at: BTreeMap<&str, usize> = order
        .storeys
        .iter()
        .enumerate()
        .flat_map(|(height, storey)| storey.modules.iter().map(move |module| (*module, height)))
        .collect();
    let mut findings = Vec::new();
    for module in floor.modules.iter().filter(|module| !at.contains_key(module.as_str())) {
        // The folder's own file has arrows only where it holds more than names.
        let names = floor.arrows.iter().find(|((from, to), _)| from == module || to == module);
        let file = names.map(|(_, (file, _))| file.clone()).or_else(|| floor.files.get(module).cloned());
        if module == "mod" && names.is_none() {
            continue;
        }
        let message = format!(
            "`{module}` has no floor in {}: give it one in ORDERS in crates/tools/xtask/src/order.rs",
            order.scope
        );
        findings.push(Finding::new(file.unwrap_or_default(), 1, message));
    }
    for ((from, to), (file, line)) in &floor.arrows {
        let (Some(above), Some(below)) = (at.get(from.as_str()), at.get(to.as_str())) else { continue };
        if above > below {
            continue;
        }
        let direction = if above == below { "sideways" } else { "up" };
        let message = format!(
            "{from} → {to}: this arrow points {direction} in {}, from `{}` to `{}`; move what both need to a lower floor, or pass it in as an argument",
            order.scope, order.storeys[*above].name, order.storeys[*below].name,
        );
        findings.push(Finding::new(file, *line, message));
    }
    findings
}

/// The modules that the table names and the code does not have, each with its folder.
pub fn gone(floors: &[Floor], orders: &[Order]) -> Vec<String> {
    let mut gone = Vec::new();
    for order in orders {
        let floor = floors.iter().find(|floor| floor.name() == order.scope);
        for module in order.storeys.iter().flat_map(|storey| storey.modules) {
            if floor.is_none_or(|floor| !floor.modules.contains(*module)) {
                gone.push(format!("{}::{module}", order.scope));
            }
        }
    }
    gone
}
