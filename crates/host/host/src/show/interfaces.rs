//! Interfaces, their addresses and their workers.

use clearway_dev::{DevCounters, DriverBuffers, Facts, RxDrop, TxDrop};
use clearway_engine::Mode;
use clearway_pkt::Iface;
use clearway_proto::{InterfaceInfo, Link};
use clearway_session::interfaces::{InterfaceEntry, InterfaceKind};
use clearway_session::worker::Worker;
use clearway_wire::Cidr;
use serde_json::{Value, json};

use super::grid::Grid;
use super::look::Look;
use crate::outcome::{CommandError, Output};

/// An interface as the workers see it.
struct Seen {
    entry: InterfaceEntry,
    info: InterfaceInfo,
    counters: DevCounters,
    link: bool,
    driver: Vec<(String, u64)>,
    error: Option<String>,
    lost: Option<Gone>,
}

/// How an interface was lost.
struct Gone {
    seconds: u64,
    why: String,
    refused: Option<String>,
}

/// What one worker says of its ports.
struct PortRow {
    iface: Iface,
    is_absent: bool,
    counters: DevCounters,
    link: bool,
    driver: Vec<(String, u64)>,
    error: Option<String>,
    mode: Option<Mode>,
}

fn ports(worker: &mut Worker) -> Vec<PortRow> {
    let engine = worker.engine();
    let row = |port: clearway_engine::PortInfo<'_>| PortRow {
        iface: port.iface,
        is_absent: engine.port(port.iface).is_some_and(clearway_ports::Port::is_absent),
        counters: port.counters,
        link: engine.port(port.iface).is_none_or(Facts::link_up),
        driver: engine.port(port.iface).map(Facts::driver_counters).unwrap_or_default(),
        error: port.error.map(|error| error.to_string()),
        mode: port.mode,
    };
    engine.ports().map(row).collect()
}

/// The counters of every interface, over all workers.
pub(crate) fn counters(
    host: &crate::HostHandle,
) -> Result<Vec<(Iface, DevCounters)>, CommandError> {
    let mut sums: Vec<(Iface, DevCounters)> = Vec::new();
    for row in host.ask_all(ports)?.into_iter().flatten() {
        match sums.iter_mut().find(|(iface, _)| *iface == row.iface) {
            Some((_, sum)) => sum.add(&row.counters),
            None => sums.push((row.iface, row.counters)),
        }
    }
    Ok(sums)
}

impl Look<'_> {
    /// The buffers of the drivers that have some of their own, by the names of their interfaces.
    pub(super) fn driver_buffers(&self) -> Result<Vec<(String, DriverBuffers)>, CommandError> {
        let rows = self.host.ask_all(|worker| {
            let engine = worker.engine();
            let of = |port: clearway_engine::PortInfo<'_>| {
                Some((port.iface, engine.port(port.iface)?.driver_buffers()?))
            };
            engine.ports().filter_map(of).collect::<Vec<_>>()
        })?;
        let mut sums: Vec<(Iface, DriverBuffers)> = Vec::new();
        for (iface, buffers) in rows.into_iter().flatten() {
            match sums.iter_mut().find(|(other, _)| *other == iface) {
                Some((_, sum)) => {
                    sum.count += buffers.count;
                    sum.free += buffers.free;
                }
                None => sums.push((iface, buffers)),
            }
        }
        Ok(sums.into_iter().map(|(iface, buffers)| (self.name(iface), buffers)).collect())
    }

    fn seen(&self, wanted: Option<&str>) -> Result<Vec<Seen>, CommandError> {
        let entries: Vec<InterfaceEntry> = {
            let interfaces = self.host.interfaces();
            let interfaces = crate::outcome::locked(&interfaces);
            interfaces
                .iter()
                .filter(|entry| wanted.is_none_or(|name| entry.name == name))
                .cloned()
                .collect()
        };
        if let (Some(name), true) = (wanted, entries.is_empty()) {
            return Err(CommandError::NoInterface(name.into()));
        }
        let infos = self.host.ask(0, |worker| worker.stack().interfaces().collect::<Vec<_>>())?;
        let rows: Vec<PortRow> = self.host.ask_all(ports)?.into_iter().flatten().collect();
        let sums = counters(self.host)?;
        let now = self.host.ask(0, |worker| worker.time().now)?;
        let seen = entries.into_iter().filter_map(|entry| {
            let info = *infos.iter().find(|info| info.iface == entry.iface)?;
            let sum = sums
                .iter()
                .find(|(iface, _)| *iface == entry.iface)
                .map(|(_, sum)| *sum)
                .unwrap_or_default();
            let counters = less(sum, &self.view.baselines.interface(entry.iface));
            let error = rows
                .iter()
                .filter(|row| row.iface == entry.iface)
                .find_map(|row| row.error.clone());
            let of_it = || rows.iter().filter(|row| row.iface == entry.iface && !row.is_absent);
            let link = of_it().all(|row| row.link);
            // They are many, so they are told when one interface is asked for.
            let driver =
                of_it().filter(|_| wanted.is_some()).flat_map(|row| row.driver.clone()).collect();
            let lost = self.view.made.find_lost(entry.iface).map(|lost| Gone {
                seconds: now.since(lost.since).as_secs(),
                why: lost.why.clone(),
                refused: lost.refused.clone(),
            });
            Some(Seen { entry, info, counters, link, driver, error, lost })
        });
        Ok(seen.collect())
    }

    pub(super) fn interfaces(&self, wanted: Option<&str>) -> Result<Output, CommandError> {
        let seen = self.seen(wanted)?;
        let mut grid =
            Grid::new(&["Name", ">Idx", "State", ">MTU", ">Table", "Kind", "Counter", ">Count"]);
        for one in &seen {
            let first = [
                one.entry.name.clone(),
                one.entry.iface.0.to_string(),
                state(one).into(),
                one.info.mtu.to_string(),
                self.table(one.info.table).to_string(),
                kind(&one.entry.kind),
            ];
            let mut left = Some(first);
            let mut rows = counted(&one.counters);
            rows.extend(
                one.driver
                    .iter()
                    .map(|(name, count)| (format!("driver: {name}"), count.to_string())),
            );
            if rows.is_empty() {
                rows.push((String::new(), String::new()));
            }
            for (name, count) in rows {
                let cells = left.take().unwrap_or_default();
                grid.row(cells.into_iter().chain([name, count]));
            }
        }
        let mut text =
            grid.text_or("There is no interface. `create loopback interface` makes one.");
        for one in seen.iter().filter(|one| one.error.is_some()) {
            text.push_str(&format!(
                "{}: {}\n",
                one.entry.name,
                one.error.as_deref().unwrap_or_default()
            ));
        }
        for one in &seen {
            text.push_str(&self.losses(one));
        }
        let interfaces: Vec<Value> = seen.iter().map(|one| self.interface_json(one)).collect();
        Ok(Output::new(text, json!({ "interfaces": interfaces })))
    }

    /// That an interface is lost, or was.
    fn losses(&self, one: &Seen) -> String {
        let (name, losses) = (&one.entry.name, self.view.made.losses(one.entry.iface));
        let times = if losses == 1 { "once".into() } else { format!("{losses} times") };
        match &one.lost {
            Some(Gone { seconds, why, refused }) => {
                let refused = refused.as_ref().map(|why| format!("{name}: not back yet: {why}\n"));
                let refused = refused.unwrap_or_default();
                format!("{name}: lost {seconds} s ago ({times} so far): {why}\n{refused}")
            }
            None if losses > 0 => format!("{name}: lost {times} so far\n"),
            None => String::new(),
        }
    }

    fn interface_json(&self, one: &Seen) -> Value {
        let c = &one.counters;
        let drops = |names: Vec<(&str, u64)>| -> Value {
            names
                .into_iter()
                .filter(|(_, n)| *n > 0)
                .map(|(name, n)| (name.to_owned(), Value::from(n)))
                .collect::<serde_json::Map<_, _>>()
                .into()
        };
        json!({
            "name": one.entry.name,
            "index": one.entry.iface.0,
            "up": one.info.up,
            "link": one.link,
            "mtu": one.info.mtu,
            "table": self.table(one.info.table),
            "kind": kind(&one.entry.kind),
            "mac": mac(&one.info),
            "error": one.error,
            "lost": one.lost.as_ref().map(|lost| json!({
                "seconds": lost.seconds, "why": lost.why, "not-back": lost.refused })),
            "losses": self.view.made.losses(one.entry.iface),
            "rx-packets": c.rx_packets,
            "rx-bytes": c.rx_bytes,
            "tx-packets": c.tx_packets,
            "tx-bytes": c.tx_bytes,
            "rx-drops": drops(RxDrop::ALL.iter().map(|why| (why.name(), c.rx_dropped(*why)))
                .collect()),
            "driver": one.driver.iter().map(|(name, n)| (name.clone(), Value::from(*n)))
                .collect::<serde_json::Map<_, _>>(),
            "tx-drops": drops(TxDrop::ALL.iter().map(|why| (why.name(), c.tx_dropped(*why)))
                .collect()),
        })
    }

    pub(super) fn addresses(&self, wanted: Option<&str>) -> Result<Output, CommandError> {
        let seen = self.seen(wanted)?;
        let all = self.host.ask(0, |worker| worker.stack().addresses().collect::<Vec<_>>())?;
        let now = self.host.ask(0, |worker| worker.time().now)?;
        let of = |iface: Iface| -> Vec<Cidr> {
            all.iter().filter(|a| a.iface == iface).map(|a| a.cidr).collect()
        };
        let mut text = String::new();
        let mut json = Vec::new();
        for one in &seen {
            let addresses = of(one.entry.iface);
            let table = self.table(one.info.table);
            let state = if one.info.up { "up" } else { "dn" };
            text.push_str(&format!("{} ({state}):\n", one.entry.name));
            for address in &addresses {
                let in_table = if table == 0 { String::new() } else { format!(" table {table}") };
                text.push_str(&format!("  L3 {address}{in_table}\n"));
            }
            let addresses: Vec<String> = addresses.iter().map(Cidr::to_string).collect();
            json.push(json!({ "name": one.entry.name, "up": one.info.up, "table": table,
                "addresses": addresses, "given": self.given(&one.entry.name, now) }));
        }
        Ok(Output::new(text, json!({ "interfaces": json })))
    }

    pub(super) fn rx_placement(&self) -> Result<Output, CommandError> {
        let workers = self.host.ask_all(|worker| (worker.engine().mode(), ports(worker)))?;
        let mut text = String::new();
        let mut json = Vec::new();
        for (worker, (default, rows)) in workers.iter().enumerate() {
            text.push_str(&format!("Worker {worker}:\n"));
            for row in rows.iter().filter(|row| !row.is_absent && self.is_named(row.iface)) {
                let queue = self.view.placements.queue(row.iface, worker);
                let (name, mode) = (self.name(row.iface), mode_name(row.mode.unwrap_or(*default)));
                text.push_str(&format!("  {name} queue {queue} ({mode})\n"));
                json.push(
                    json!({ "worker": worker, "interface": name, "queue": queue, "mode": mode }),
                );
            }
        }
        Ok(Output::new(text, json!({ "queues": json })))
    }
}

/// How a mode is called.
pub(super) fn mode_name(mode: Mode) -> &'static str {
    match mode {
        Mode::Polling => "polling",
        Mode::Interrupt => "interrupt",
        Mode::Adaptive(_) => "adaptive",
    }
}

fn state(one: &Seen) -> &'static str {
    match (&one.error, one.info.up, one.link) {
        _ if one.lost.is_some() => "lost",
        (Some(_), _, _) => "failed",
        (None, true, true) => "up",
        (None, true, false) => "no link",
        (None, false, _) => "down",
    }
}

fn kind(kind: &InterfaceKind) -> String {
    match kind {
        InterfaceKind::Loopback => "loopback".into(),
        InterfaceKind::Tap { host_name } => format!("tap:{host_name}"),
        InterfaceKind::Other(what) => what.clone(),
    }
}

fn mac(info: &InterfaceInfo) -> Option<String> {
    match info.link {
        Link::Ethernet(mac) => Some(mac.to_string()),
        Link::Raw | Link::Loopback => None,
    }
}

/// The counters that are not zero, as `show interface` names them.
fn counted(c: &DevCounters) -> Vec<(String, String)> {
    let plain = [
        ("rx packets", c.rx_packets),
        ("rx bytes", c.rx_bytes),
        ("tx packets", c.tx_packets),
        ("tx bytes", c.tx_bytes),
    ];
    let plain = plain.into_iter().map(|(name, n)| (name.to_owned(), n));
    let rx =
        RxDrop::ALL.iter().map(|why| (format!("rx drops: {}", why.name()), c.rx_dropped(*why)));
    let tx =
        TxDrop::ALL.iter().map(|why| (format!("tx drops: {}", why.name()), c.tx_dropped(*why)));
    plain
        .chain(rx)
        .chain(tx)
        .filter(|(_, n)| *n > 0)
        .map(|(name, n)| (name, n.to_string()))
        .collect()
}

/// What was counted since `before`.
fn less(mut now: DevCounters, before: &DevCounters) -> DevCounters {
    now.rx_packets = now.rx_packets.saturating_sub(before.rx_packets);
    now.rx_bytes = now.rx_bytes.saturating_sub(before.rx_bytes);
    now.tx_packets = now.tx_packets.saturating_sub(before.tx_packets);
    now.tx_bytes = now.tx_bytes.saturating_sub(before.tx_bytes);
    now.rx_drops
        .iter_mut()
        .zip(before.rx_drops)
        .for_each(|(now, before)| *now = now.saturating_sub(before));
    now.tx_drops
        .iter_mut()
        .zip(before.tx_drops)
        .for_each(|(now, before)| *now = now.saturating_sub(before));
    now
}
