//! What Prometheus is told, in the text of OpenMetrics.
//!
//! How many series there are does not depend on what peers and programs do: labels are workers,
//! interfaces, reasons, limits and namespaces, and of those each is bounded.

use std::collections::BTreeMap;
use std::fmt;

use clearway_base::Instant;
use clearway_dev::{DevCounters, RxDrop, TxDrop};
use clearway_engine::{App as _, Stage, StageCycles, TurnTimes};
use clearway_proto::Population;
use clearway_session::worker::Worker;
use clearway_slaac::Phase;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;
use serde_json::json;

use super::counters::Counted;
use super::linux;
use super::look::Look;
use crate::outcome::{CommandError, Output, locked};

/// Namespaces that have series of their own. What is in others is told together.
pub(crate) const MAX_NAMESPACES: usize = 100;

/// The label of what is in other namespaces than those. No namespace can be called so.
const OTHERS: &str = "(others)";

/// A name, what it is for people, and how it is found.
type Described<T> = (&'static str, &'static str, fn(&T) -> u64);

type Labels = Vec<(&'static str, String)>;

/// A value of a series.
#[derive(Debug)]
enum Number {
    Whole(u64),
    Real(f64),
    Histogram { sum: f64, buckets: Vec<(f64, u64)> },
}

/// Series of one name.
#[derive(Debug)]
struct Family {
    name: String,
    help: String,
    kind: MetricType,
    series: Vec<(Labels, Number)>,
}

/// Everything that is told.
#[derive(Debug, Default)]
struct Families(Vec<Family>);

impl Families {
    fn add(
        &mut self,
        kind: MetricType,
        name: impl Into<String>,
        help: impl Into<String>,
        series: Vec<(Labels, Number)>,
    ) {
        self.0.push(Family { name: name.into(), help: help.into(), kind, series });
    }

    fn gauge(&mut self, name: &str, help: &str, value: u64) {
        self.add(MetricType::Gauge, name, help, vec![(Labels::new(), Number::Whole(value))]);
    }

    fn counter(&mut self, name: impl Into<String>, help: impl Into<String>, value: u64) {
        self.add(MetricType::Counter, name, help, vec![(Labels::new(), Number::Whole(value))]);
    }
}

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        for family in &self.0 {
            let mut metric =
                encoder.encode_descriptor(&family.name, &family.help, None, family.kind)?;
            for (labels, number) in &family.series {
                if labels.is_empty() {
                    number.encode(family.kind, &mut metric)?;
                } else {
                    number.encode(family.kind, &mut metric.encode_family(labels)?)?;
                }
            }
        }
        Ok(())
    }
}

impl Number {
    fn encode(&self, kind: MetricType, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        const NONE: Option<&prometheus_client::metrics::exemplar::Exemplar<NoLabelSet, f64>> = None;
        match (self, kind) {
            (Number::Whole(value), MetricType::Counter) => metric.encode_counter(value, NONE),
            (Number::Real(value), MetricType::Counter) => metric.encode_counter(value, NONE),
            (Number::Whole(value), _) => metric.encode_gauge(value),
            (Number::Real(value), _) => metric.encode_gauge(value),
            (Number::Histogram { sum, buckets }, _) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

/// What one worker says of itself.
struct WorkerFigures {
    turns: u64,
    sleeps: u64,
    stages: StageCycles,
    times: TurnTimes,
    sessions: u32,
    buffers: [(&'static str, usize, usize); 2],
    population: Population,
    cut_off: u64,
}

impl WorkerFigures {
    fn of(worker: &mut Worker) -> WorkerFigures {
        let pool = worker.pool();
        let buffers = [("small", pool.small()), ("large", pool.large())]
            .map(|(size, pool)| (size, pool.count(), pool.available()));
        let (turns, sleeps) = worker.engine().turns_and_sleeps();
        WorkerFigures {
            turns,
            sleeps,
            stages: worker.engine().probe().sample(),
            times: worker.engine().turn_times().clone(),
            sessions: worker.sessions().count(),
            buffers,
            population: worker.stack().population(),
            cut_off: worker.sessions().report().cut_off,
        }
    }
}

fn label(name: &'static str, value: impl ToString) -> Labels {
    vec![(name, value.to_string())]
}

impl Look<'_> {
    pub(super) fn metrics(&self) -> Result<Output, CommandError> {
        let text = self.open_metrics()?;
        let json = json!({ "metrics": text });
        Ok(Output::new(text, json))
    }

    /// The text of OpenMetrics.
    fn open_metrics(&self) -> Result<String, CommandError> {
        let counted = Counted::of(self.host)?;
        let workers = self.host.ask_all(WorkerFigures::of)?;
        let mut all = Families::default();
        netstat(&mut all, &counted);
        self.about_host(&mut all);
        about_workers(&mut all, &workers);
        about_stack(&mut all, &counted, &workers);
        self.about_interfaces(&mut all)?;
        self.about_leases(&mut all)?;
        self.about_programs(&mut all)?;
        let mut registry = Registry::default();
        registry.register_collector(Box::new(all));
        let mut text = String::new();
        // Writing into memory does not fail.
        let _ = encode(&mut text, &registry);
        Ok(text)
    }

    fn about_host(&self, all: &mut Families) {
        all.add(
            MetricType::Gauge,
            "clearway_build_info",
            "The version of the host. The value is always 1.",
            vec![(label("version", &self.options.version), Number::Whole(1))],
        );
        all.gauge(
            "clearway_start_time_seconds",
            "When the host began, in seconds since 1970.",
            self.options.started,
        );
        all.gauge(
            "clearway_draining",
            "1 while the host is drained: new connections shall go to other machines.",
            self.view.drain.is_some().into(),
        );
    }

    fn about_interfaces(&self, all: &mut Families) -> Result<(), CommandError> {
        let counters = super::interfaces::counters(self.host)?;
        let named: Vec<_> = counters
            .iter()
            .filter(|(iface, _)| self.is_named(*iface))
            .map(|(iface, counters)| (self.name(*iface), counters))
            .collect();
        let totals: [Described<DevCounters>; 4] = [
            ("clearway_interface_receive_packets", "Frames received.", |c| c.rx_packets),
            ("clearway_interface_receive_bytes", "Bytes of frames received.", |c| c.rx_bytes),
            ("clearway_interface_transmit_packets", "Frames sent.", |c| c.tx_packets),
            ("clearway_interface_transmit_bytes", "Bytes of frames sent.", |c| c.tx_bytes),
        ];
        for (name, help, value) in totals {
            let series = named
                .iter()
                .map(|(name, counters)| (label("interface", name), Number::Whole(value(counters))));
            all.add(MetricType::Counter, name, help, series.collect());
        }
        let mut series = Vec::new();
        for (name, counters) in &named {
            let rx =
                RxDrop::ALL.iter().map(|why| ("receive", why.name(), counters.rx_dropped(*why)));
            let tx =
                TxDrop::ALL.iter().map(|why| ("transmit", why.name(), counters.tx_dropped(*why)));
            // Reasons are some thirty, and most never happen at one interface.
            for (way, why, count) in rx.chain(tx).filter(|(_, _, count)| *count > 0) {
                let labels = vec![
                    ("interface", name.clone()),
                    ("direction", way.into()),
                    ("reason", why.into()),
                ];
                series.push((labels, Number::Whole(count)));
            }
        }
        let help = "Frames that an interface lost, by reason; only what happened.";
        all.add(MetricType::Counter, "clearway_interface_drops", help, series);
        self.about_losses(all)
    }

    fn about_losses(&self, all: &mut Families) -> Result<(), CommandError> {
        let see = |worker: &mut Worker| {
            (worker.time().now, worker.stack().interfaces().collect::<Vec<_>>())
        };
        let (now, infos) = self.host.ask(0, see)?;
        let (mut up, mut lost, mut losses) = (Vec::new(), Vec::new(), Vec::new());
        for info in infos.iter().filter(|info| self.is_named(info.iface)) {
            let of = || label("interface", self.name(info.iface));
            up.push((of(), Number::Whole(info.up.into())));
            let gone = self.view.made.find_lost(info.iface);
            lost.push((
                of(),
                Number::Whole(gone.map_or(0, |gone| now.since(gone.since).as_secs())),
            ));
            losses.push((of(), Number::Whole(self.view.made.losses(info.iface))));
        }
        let help = "1 while an interface is up.";
        all.add(MetricType::Gauge, "clearway_interface_up", help, up);
        let help = "Since when an interface is lost; 0 while it is there.";
        all.add(MetricType::Gauge, "clearway_interface_lost_seconds", help, lost);
        let help = "How often an interface was lost: removed, or unplugged.";
        all.add(MetricType::Counter, "clearway_interface_losses", help, losses);
        Ok(())
    }

    fn about_leases(&self, all: &mut Families) -> Result<(), CommandError> {
        let now = self.host.ask(0, |worker| worker.time().now)?;
        let (mut left, mut drops) = (Vec::new(), Vec::new());
        for leased in &self.view.leases.list {
            let seconds = match leased.client.lease() {
                Some(lease) if lease.end == Instant::NEVER => f64::INFINITY,
                lease => lease.map_or(0.0, |lease| lease.end.since(now).as_secs() as f64),
            };
            left.push((label("interface", &leased.name), Number::Real(seconds)));
            for (why, count) in leased.client.drops() {
                let labels = vec![("interface", leased.name.clone()), ("reason", why.into())];
                drops.push((labels, Number::Whole(count)));
            }
        }
        let help = "Seconds until the address of an interface that is configured by DHCP is lost; 0 \
                    without an address.";
        all.add(MetricType::Gauge, "clearway_dhcp_lease_seconds", help, left);
        let help = "Messages of DHCP servers that were dropped, by reason (docs/dhcp.md).";
        all.add(MetricType::Counter, "clearway_dhcp_drops", help, drops);
        self.about_routers(all, now);
        Ok(())
    }

    fn about_routers(&self, all: &mut Families, now: Instant) {
        let (mut addresses, mut left, mut drops) = (Vec::new(), Vec::new(), Vec::new());
        for configured in &self.view.autoconf.list {
            let client = &configured.client;
            for phase in [Phase::Tentative, Phase::Preferred, Phase::Deprecated, Phase::Duplicate] {
                let count = client.addresses().iter().filter(|a| a.phase == phase).count();
                let labels =
                    vec![("interface", configured.name.clone()), ("state", phase.name().into())];
                addresses.push((labels, Number::Whole(count as u64)));
            }
            let last = client.routers().iter().map(|router| router.until).max();
            let seconds = match last {
                Some(Instant::NEVER) => f64::INFINITY,
                last => last.map_or(0.0, |last| last.since(now).as_secs() as f64),
            };
            left.push((label("interface", &configured.name), Number::Real(seconds)));
            for (why, count) in client.drops().chain(configured.dhcp.drops()) {
                let labels = vec![("interface", configured.name.clone()), ("reason", why.into())];
                drops.push((labels, Number::Whole(count)));
            }
        }
        let help =
            "IPv6 addresses of an interface that is configured by routers, by where they stand.";
        all.add(MetricType::Gauge, "clearway_slaac_addresses", help, addresses);
        let help = "Seconds until the last default router of such an interface is none any more; 0 \
                    without one.";
        all.add(MetricType::Gauge, "clearway_slaac_router_seconds", help, left);
        let help =
            "What routers and servers of DHCPv6 said and was dropped, by reason (docs/slaac.md).";
        all.add(MetricType::Counter, "clearway_slaac_drops", help, drops);
    }

    fn about_programs(&self, all: &mut Families) -> Result<(), CommandError> {
        let counts = self.host.counts()?;
        all.gauge("clearway_programs", "Programs that are attached.", counts.programs.into());
        all.gauge("clearway_processes", "Processes that are attached.", counts.processes.into());
        all.counter("clearway_attached", "Processes that were let in.", counts.attached);
        let refused = [("secret", counts.refused_secret), ("other", counts.refused_other)];
        let refused = refused.map(|(why, count)| (label("reason", why), Number::Whole(count)));
        let help = "Processes that were not let in.";
        all.add(MetricType::Counter, "clearway_attach_refused", help, refused.into());
        all.counter(
            "clearway_cut_off",
            "Processes and programs that did not keep to the rules and were cut off.",
            counts.cut_off,
        );
        self.by_namespace(all)?;
        let quotas = self.host.quotas()?;
        let rows =
            quotas.iter().filter(|quota| quota.level == "host").flat_map(|quota| &quota.rows);
        let (mut used, mut limits) = (Vec::new(), Vec::new());
        for row in rows {
            used.push((label("thing", row.thing), Number::Whole(row.used)));
            limits.push((label("thing", row.thing), Number::Whole(row.limit)));
        }
        let help = "How many of a thing all programs have; memory in bytes.";
        all.add(MetricType::Gauge, "clearway_used", help, used);
        let help = "How many of a thing all programs may have.";
        all.add(MetricType::Gauge, "clearway_limit", help, limits);
        Ok(())
    }

    fn by_namespace(&self, all: &mut Families) -> Result<(), CommandError> {
        let mut known: Vec<String> = {
            let namespaces = self.host.namespaces();
            let namespaces = locked(&namespaces);
            namespaces.iter().map(|namespace| namespace.spec.id.clone()).collect()
        };
        known.truncate(MAX_NAMESPACES);
        let mut sums: BTreeMap<String, [u64; 4]> =
            known.into_iter().map(|id| (id, [0; 4])).collect();
        for program in self.host.programs()? {
            let is_known = sums.contains_key(&program.namespace);
            let id = if is_known { program.namespace } else { OTHERS.to_owned() };
            let more = [1, program.sessions.into(), program.listeners.into(), program.memory];
            let sum = sums.entry(id).or_default();
            sum.iter_mut().zip(more).for_each(|(sum, more): (&mut u64, u64)| *sum += more);
        }
        let families = [
            ("clearway_namespace_programs", "Programs in a namespace."),
            ("clearway_namespace_sessions", "Sessions of the programs in a namespace."),
            ("clearway_namespace_listeners", "Listeners of the programs in a namespace."),
            (
                "clearway_namespace_memory_bytes",
                "Bytes of shared memory of the programs in a namespace.",
            ),
        ];
        for (at, (name, help)) in families.into_iter().enumerate() {
            let series =
                sums.iter().map(|(id, sums)| (label("namespace", id), Number::Whole(sums[at])));
            all.add(MetricType::Gauge, name, help, series.collect());
        }
        self.traffic_by_namespace(all)
    }

    /// What a worker's sessions have carried is told to their namespaces, some of them between two
    /// turns, and read then.
    fn traffic_by_namespace(&self, all: &mut Families) -> Result<(), CommandError> {
        for worker in 0..self.host.workers() {
            let mut from = 0;
            while let Some(next) = self.host.ask(worker, move |worker| count_some(worker, from))? {
                from = next;
            }
        }
        let mut sums: BTreeMap<String, [u64; 4]> = BTreeMap::new();
        let namespaces = self.host.namespaces();
        for (at, namespace) in locked(&namespaces).iter().enumerate() {
            let id = if at < MAX_NAMESPACES { &namespace.spec.id } else { OTHERS };
            let counts = namespace.traffic.counts();
            let more = [counts.bytes_in, counts.bytes_out, counts.segs_in, counts.segs_out];
            let sum = sums.entry(id.to_owned()).or_default();
            sum.iter_mut().zip(more).for_each(|(sum, more): (&mut u64, u64)| *sum += more);
        }
        let families = [
            (
                "clearway_namespace_receive_bytes",
                "Bytes of payload that came for the programs in a namespace.",
            ),
            (
                "clearway_namespace_transmit_bytes",
                "Bytes of payload that the programs in a namespace sent, repetitions not counted.",
            ),
            (
                "clearway_namespace_receive_segments",
                "Segments of TCP that came for the programs in a namespace.",
            ),
            (
                "clearway_namespace_transmit_segments",
                "Segments of TCP that went out for the programs in a namespace.",
            ),
        ];
        for (at, (name, help)) in families.into_iter().enumerate() {
            let series =
                sums.iter().map(|(id, sums)| (label("namespace", id), Number::Whole(sums[at])));
            all.add(MetricType::Counter, name, help, series.collect());
        }
        Ok(())
    }
}

/// Places that are looked at between two turns.
const PER_TURN: u32 = 2048;

/// Tells what the sessions from this slot on have carried; and the slot where it goes on, if there
/// are more.
fn count_some(worker: &mut Worker, from: u32) -> Option<u32> {
    let (sessions, stack) = worker.both();
    let last = sessions.slots();
    let end = from.saturating_add(PER_TURN).min(last);
    sessions.count_carried(stack, from..end);
    (end < last).then_some(end)
}

/// Counters with the names that node_exporter has for Linux's.
fn netstat(all: &mut Families, counted: &Counted) {
    for (name, value) in linux::values(counted) {
        let group = linux::group(name);
        let rest = name.strip_prefix(group).unwrap_or(name);
        all.add(
            MetricType::Unknown,
            format!("node_netstat_{group}_{rest}"),
            format!("Statistic {name}."),
            vec![(Labels::new(), Number::Whole(value))],
        );
    }
}

fn about_workers(all: &mut Families, workers: &[WorkerFigures]) {
    let each = |value: &dyn Fn(&WorkerFigures) -> Number| -> Vec<(Labels, Number)> {
        let rows = workers.iter().enumerate();
        rows.map(|(index, figures)| (label("worker", index), value(figures))).collect()
    };
    let whole = |value: u64| Number::Whole(value);
    let turns = each(&|figures| whole(figures.turns));
    all.add(MetricType::Counter, "clearway_worker_turns", "Turns of a worker's loop.", turns);
    let sleeps = each(&|figures| whole(figures.sleeps));
    all.add(MetricType::Counter, "clearway_worker_sleeps", "How often a worker slept.", sleeps);
    let busy = each(&|figures| Number::Real(figures.times.sum().as_nanos() as f64 / 1e9));
    let help = "Seconds that a worker's turns with work have taken.";
    all.add(MetricType::Counter, "clearway_worker_busy_seconds", help, busy);
    let times = each(&|figures| Number::Histogram {
        sum: figures.times.sum().as_nanos() as f64 / 1e9,
        buckets: figures.times.buckets().collect(),
    });
    let help = "How long turns with work took.";
    all.add(MetricType::Histogram, "clearway_turn_seconds", help, times);
    let mut stages = Vec::new();
    for (index, figures) in workers.iter().enumerate() {
        for stage in Stage::ALL {
            let name = stage.name().replace(' ', "_");
            let labels = vec![("worker", index.to_string()), ("stage", name)];
            stages.push((labels, whole(figures.stages.of(stage))));
        }
    }
    let help =
        "Cycles of some of a worker's turns with work, by stage: a sample after each reading.";
    all.add(MetricType::Counter, "clearway_worker_stage_cycles", help, stages);
    let sessions = each(&|figures| whole(figures.sessions.into()));
    all.add(MetricType::Gauge, "clearway_worker_sessions", "Sessions of a worker.", sessions);
    let cut_off = each(&|figures| whole(figures.cut_off));
    let help = "Programs that a worker cut off because they wrote something impossible.";
    all.add(MetricType::Counter, "clearway_worker_cut_off", help, cut_off);
    let (mut buffers, mut free) = (Vec::new(), Vec::new());
    for (index, figures) in workers.iter().enumerate() {
        for (size, count, available) in figures.buffers {
            let labels = || vec![("worker", index.to_string()), ("size", size.into())];
            buffers.push((labels(), whole(count as u64)));
            free.push((labels(), whole(available as u64)));
        }
    }
    all.add(MetricType::Gauge, "clearway_buffers", "Packet buffers of a worker.", buffers);
    let help = "Packet buffers of a worker that are free.";
    all.add(MetricType::Gauge, "clearway_buffers_free", help, free);
}

fn about_stack(all: &mut Families, counted: &Counted, workers: &[WorkerFigures]) {
    let drops = counted.rows("drop").iter();
    let drops = drops.map(|(reason, count)| (label("reason", reason), Number::Whole(*count)));
    let help = "Packets that the stack dropped, by reason (docs/drops.md).";
    all.add(MetricType::Counter, "clearway_drops", help, drops.collect());
    for group in ["ip", "icmp", "udp", "tcp"] {
        for (name, count) in counted.rows(group) {
            let shown = name.replace('_', "-");
            all.counter(
                format!("clearway_{group}_{name}"),
                format!("Counter {shown} of {group}."),
                *count,
            );
        }
    }
    let sum = |of: fn(&Population) -> u64| workers.iter().map(|one| of(&one.population)).sum();
    let held: [Described<Population>; 6] = [
        ("clearway_tcp_connections", "Connections of TCP.", |p| p.connections.into()),
        ("clearway_tcp_half_open", "Handshakes that strangers began.", |p| p.half_open.into()),
        ("clearway_tcp_time_wait", "Connections in TIME-WAIT.", |p| p.time_wait.into()),
        ("clearway_tcp_orphans", "Connections whose owner is gone.", |p| p.orphans.into()),
        ("clearway_tcp_listeners", "Listeners of TCP.", |p| p.listeners.into()),
        ("clearway_udp_sockets", "Sockets of UDP.", |p| p.udp_sockets.into()),
    ];
    for (name, help, of) in held {
        all.gauge(name, help, sum(of));
    }
}

/// The older text format of Prometheus, for who cannot read OpenMetrics: node_exporter's textfile
/// collector, `promtool check metrics`.
pub(crate) fn classic(open_metrics: &str) -> String {
    let kinds: BTreeMap<&str, &str> = open_metrics
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '))
        .collect();
    let mut text = String::with_capacity(open_metrics.len());
    for line in open_metrics.lines() {
        let described = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|what| Some((what, line.strip_prefix(what)?.split_once(' ')?)));
        match described {
            // There the suffix of a counter is a part of its name.
            Some((what, (name, rest))) => {
                let kind = kinds.get(name).copied().unwrap_or_default();
                let suffix = if kind == "counter" { "_total" } else { "" };
                let rest = if what == "# TYPE " && rest == "unknown" { "untyped" } else { rest };
                text.extend([what, name, suffix, " ", rest, "\n"]);
            }
            None if line.starts_with('#') => {}
            None => text.extend([line, "\n"]),
        }
    }
    text
}

/// The same without the names of node_exporter, which has those of the kernel itself and refuses a
/// file that has them too: they begin with `clearway_netstat_`.
pub(crate) fn for_textfile(open_metrics: &str) -> String {
    let own = classic(open_metrics);
    own.lines().map(|line| line.replacen("node_netstat_", "clearway_netstat_", 1) + "\n").collect()
}

#[cfg(test)]
mod tests;
