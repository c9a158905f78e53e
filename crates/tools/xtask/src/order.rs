//! The floors of modules inside the crates whose inner order is settled: the table that
//! `cargo xtask layers` holds the code to.
//!
//! [`crate::floors`] reads the arrows out of the code; this table says where they may point: to a
//! lower floor and nowhere else, so that there is no circle either. A module that is not in the
//! table is refused, so that a new one gets its place on the day it is born.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;

use crate::finding::Finding;
use crate::floors::{Floor, circles, floors};

/// One floor: modules of one folder that do not name each other, unless it is loose.
pub struct Storey {
    /// What they are together, for the drawing.
    pub name: &'static str,
    /// The modules. `mod` is the folder's own file.
    pub modules: &'static [&'static str],
    /// They may name each other, as long as there is no circle.
    pub loose: bool,
}

/// The floors of one folder of modules.
pub struct Order {
    /// The crate, and the folder in it: `proto`, `proto::net`.
    pub scope: &'static str,
    /// The lowest first.
    pub storeys: &'static [Storey],
    /// A module that is in no row is held to «no circle» only, and may stand anywhere.
    pub open: bool,
}

const fn floor(name: &'static str, modules: &'static [&'static str]) -> Storey {
    Storey { name, modules, loose: false }
}

const fn loose(name: &'static str, modules: &'static [&'static str]) -> Storey {
    Storey { name, modules, loose: true }
}

const fn settled(scope: &'static str, storeys: &'static [Storey]) -> Order {
    Order { scope, storeys, open: false }
}

/// The order of what is there is held; what comes new gets its row when it has settled.
const fn open(scope: &'static str, storeys: &'static [Storey]) -> Order {
    Order { scope, storeys, open: true }
}

/// The order of each folder of modules that has one, the lowest floor first.
#[rustfmt::skip]
pub const ORDERS: &[Order] = &[
    settled("proto", &[
        floor("what is told as it happens", &["trace"]),
        floor("words and tools", &["chains", "counters", "error", "hash", "ids", "limits", "payload",
            "ports", "records", "store"]),
        floor("keys and choices", &["bind", "config", "event", "export", "flow"]),
        floor("IP", &["net"]),
        floor("transports", &["tcp", "udp"]),
        floor("the owner's verbs", &["stack"]),
        floor("face", &["mod"]),
    ]),
    settled("proto::net", &[
        floor("tables", &["frag", "iface", "mod", "neigh", "pmtu", "rate", "route"]),
        floor("addresses and paths", &["local", "path_cache"]),
        floor("groups", &["groups"]),
        floor("news of routers", &["routers"]),
        floor("what IP knows", &["ip"]),
        floor("IP output", &["output"]),
        floor("answers", &["group_reports", "replies"]),
        floor("protocols", &["arp", "icmp", "ndp"]),
        floor("what IP itself sends", &["emit"]),
    ]),
    settled("proto::stack", &[
        floor("before and beside", &["classify", "misdelivered"]),
        floor("the stack", &["mod"]),
        floor("verbs", &["binds", "emit", "export", "groups", "ingest", "links", "sharing",
            "survey", "udp"]),
    ]),
    open("proto::tcp", &[
        loose("values", &["ack_info", "api", "cc", "clock", "cookie", "fast_open", "held", "isn",
            "linux_info", "listen_table", "marks", "nagle", "options",
            "ranges", "rate", "rcv", "rtt", "sack", "seldom", "settings", "sizes", "snd", "span", "state",
                "summary", "window"]),
        loose("what is kept of what was sent and received",
            &["cold", "loss", "rare_stats", "reasm", "recovery"]),
        loose("the record and its context", &["conn", "context", "rare"]),
        loose("decisions", &["congestion", "deadlines", "limited", "rack", "records",
            "retries"]),
        loose("steps", &["ack", "active", "established", "open", "output", "payload", "timers",
            "turn"]),
        loose("tables and verbs", &["export", "full", "info", "mod", "passive", "prefetch",
            "shortage", "syn_rcvd", "table", "time_wait", "verbs"]),
    ]),
    settled("session", &[
        floor("words and tools", &["errno", "interfaces", "mailbox", "memory", "traced", "traffic"]),
        floor("limits", &["quota"]),
        floor("programs, and what they hold", &["program", "session_fds"]),
        floor("FIFOs", &["store"]),
        floor("the stack's types", &["env"]),
        floor("sessions", &["sessions"]),
        floor("one worker", &["worker"]),
        floor("face", &["mod"]),
    ]),
    settled("session::store", &[
        floor("memory and limits", &["fifo_blocks", "grant"]),
        floor("what FIFOs are made of", &["fifo_plan", "stamps"]),
        floor("FIFOs", &["rx", "tx"]),
        floor("from one to another", &["pass"]),
        floor("face", &["mod"]),
    ]),
    settled("session::sessions", &[
        floor("values", &["hold", "listening", "membership", "remote", "rounds"]),
        floor("parts of a session", &["datagram_fifos", "queue_pair", "session_options"]),
        floor("the sessions of a worker", &["state"]),
        floor("what is told of times and bytes", &["carried", "stamps"]),
        floor("what happens to them", &["claim", "close", "cut_throughs", "datagram", "drain", "errors",
            "forwarder", "groups", "host_sockets", "info", "messages", "place",
            "reclaim", "stream", "turn"]),
        floor("what processes ask", &["facts", "verbs"]),
        floor("listeners", &["listener", "remote_listener"]),
        floor("face", &["mod"]),
    ]),
    settled("host", &[
        floor("a word", &["teller"]),
        floor("words and tools", &["answer", "autoconf", "descriptors", "error", "leases", "link_mtus", "made", "namespaces",
            "placements", "random", "setup", "sockets", "workers"]),
        floor("settings and answers", &["config", "outcome"]),
        floor("tables and the supervisor", &["supervisor", "tables"]),
        floor("the host", &["host"]),
        floor("beside it", &["by_hand", "capture"]),
        floor("what is shown", &["show"]),
        floor("commands", &["control"]),
        floor("face", &["mod"]),
    ]),
    settled("host::config", &[
        floor("what is said", &["error", "settings"]),
        floor("a value", &["schedule", "value"]),
        floor("every key", &["keys"]),
        floor("reading", &["read"]),
        floor("face", &["mod"]),
    ]),
    settled("host::supervisor", &[
        floor("tokens and strangers", &["key", "waiting"]),
        floor("what the supervisor knows", &["state"]),
        floor("what it does", &["attach", "attach_sockets", "back", "gone", "joined", "questions",
            "strangers"]),
        floor("ahead of need", &["ahead"]),
        floor("its turn", &["turn"]),
        floor("face", &["mod"]),
    ]),
    settled("host::control", &[
        floor("who carries out", &["plane"]),
        floor("commands", &["begin", "clear", "dhcp", "drain", "interfaces", "keeper", "mode", "reload", "routes", "save", "server",
            "dhcpv6", "slaac"]),
        floor("of several interfaces", &["lost", "packets", "taps"]),
        floor("face", &["mod"]),
    ]),
    settled("host::show", &[
        floor("what was seen before", &["last_looks"]),
        floor("where views look", &["grid", "look"]),
        floor("views", &["counters", "dhcp", "drain", "interfaces", "limits", "proc_net", "programs", "routes", "running",
            "sessions", "slaac"]),
        floor("of the host", &["host", "linux", "threads"]),
        floor("all of it, for Prometheus", &["metrics"]),
        floor("face", &["mod"]),
    ]),
];

/// Checks the modules of the workspace at `root`: no circle where there is to be none, no arrow
/// that the table does not allow.
pub fn check(root: &Path) -> Result<Vec<Finding>> {
    let floors = floors(root)?;
    let mut findings = circles(&floors);
    findings.extend(order(&floors, ORDERS));
    Ok(findings)
}

/// Tells every arrow that does not point to a lower floor, and every module without a place.
pub fn order(floors: &[Floor], orders: &[Order]) -> Vec<Finding> {
    let pairs = orders.iter().filter_map(|order| {
        Some((floors.iter().find(|floor| floor.name() == order.scope)?, order))
    });
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
    for module in
        floor.modules.iter().filter(|module| !order.open && !at.contains_key(module.as_str()))
    {
        // The folder's own file has arrows only where it holds more than names.
        let names = floor.arrows.iter().find(|((from, to), _)| from == module || to == module);
        let file =
            names.map(|(_, (file, _))| file.clone()).or_else(|| floor.files.get(module).cloned());
        if module == "mod" && names.is_none() {
            continue;
        }
        let message = format!(
            "`{module}` has no floor in {}: give it one in ORDERS in \
             crates/tools/xtask/src/order.rs",
            order.scope
        );
        findings.push(Finding::new(file.unwrap_or_default(), 1, message));
    }
    for ((from, to), (file, line)) in &floor.arrows {
        let (Some(above), Some(below)) = (at.get(from.as_str()), at.get(to.as_str())) else {
            continue;
        };
        if above > below || (above == below && order.storeys[*above].loose) {
            continue;
        }
        let direction = if above == below { "sideways" } else { "up" };
        let message = format!(
            "{from} → {to}: this arrow points {direction} in {}, from `{}` to `{}`; move what both \
             need to a lower floor, or pass it in as an argument",
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
