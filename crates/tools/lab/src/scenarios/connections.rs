//! What many connections cost: rates and bytes.

use std::collections::BTreeMap;

use nix::sys::resource::{Resource, getrlimit};

use crate::answering::{Answering, Exchange, Link, Outcome, Server, Task, boxed};
use crate::machine::meminfo;
use crate::report::{Axis, Better, Metric, Point, Sample};
use crate::scenario::{Measured, Scenario, System};
use crate::world::{External, Options};

pub(crate) struct Connections;

/// All of them ask.
struct AllAsk;

/// Connections that exist, and those of a look. With 128 a stack has its best figures.
const POINTS: &[u64] = &[10, 128, 1_000, 10_000, 100_000, 1_000_000];
const QUICK: &[u64] = &[10, 1_000];

/// So many of them ask, unless all do.
const ACTIVE: u64 = 10_000;

/// The most that all ask at a time.
const ALL_ASK: u64 = 100_000;

/// The most that a stack has which looks through a list of them for each segment.
const LISTED: u64 = 10_000;

/// Bytes that both ends of a connection take together at the most, to know beforehand what there is
/// no memory for: over our own stack, and over the kernel's.
const OURS: u64 = 4 << 10;
const KERNELS: u64 = 24 << 10;

/// Files that a program opens besides the sockets of its connections.
const SPARE_FILES: u64 = 2_048;

/// Memory that a run leaves to others.
const SPARE: u64 = 1 << 30;

impl Scenario for Connections {
    fn name(&self) -> &'static str {
        "connections"
    }

    fn title(&self) -> &'static str {
        "Many connections: requests per second and bytes"
    }

    fn about(&self) -> &'static str {
        "TCP connections that exist at a time; at most 10,000 of them, evenly spread, ask with 64 \
         bytes in a closed loop (in `…-all`, all \
         of them). Bytes of a connection are what the process has more in memory (RSS) than at the \
         first point of the same round, which has \
         the buffers too; over the kernel's sockets, half of what its slabs grew by is added, for \
         one of the two ends. Other programs on \
         the machine disturb that."
    }

    fn axis(&self) -> Axis {
        Axis { label: "connections".into(), unit: "connections".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main("requests_per_second", "requests", "requests/s", Better::Higher),
            Metric::main(
                "bytes_per_connection",
                "server's memory",
                "bytes/connection",
                Better::Lower,
            ),
            Metric::beside("server_cycles", "server busy", "cycles/request", Better::Lower),
            Metric::told("p50_us", "median latency", "us", Better::Lower),
            Metric::beside("p99_us", "p99 latency", "us", Better::Lower),
            Metric::told("p999_us", "p99.9 latency", "us", Better::Lower),
            Metric::told(
                "client_bytes_per_connection",
                "client's memory",
                "bytes/connection",
                Better::Lower,
            ),
            Metric::told("server_mib", "server in all", "MiB", Better::Lower),
            Metric::told("client_mib", "client in all", "MiB", Better::Lower),
        ]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        points.iter().map(|&number| Point::number(number)).collect()
    }

    fn systems(&self, options: &Options) -> Vec<Box<dyn System>> {
        let system = |key: &str, about: &str, server, link| {
            Answering::new(&Connections, key, about, server, link)
        };
        let kernel = "epoll over veth, client over the kernel";
        let all = "clearway bench server over memif, all connections ask";
        let mut systems = vec![
            system("clearway", "clearway bench server over memif", Server::Bench, Link::Memif),
            Answering::new(&AllAsk, "clearway-all", all, Server::Bench, Link::Memif),
            system("lwip", "lwIP over memif", Server::Baseline("lwip-dpdk"), Link::Memif),
            system("kernel", kernel, Server::Bench, Link::Veth),
        ];
        for External { name, at } in &options.servers {
            systems.push(system(
                name,
                &format!("the server at {at}, client over the kernel"),
                Server::Outside(*at),
                Link::Veth,
            ));
        }
        boxed(systems)
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }

    fn derive(&self, samples: &mut [Sample]) {
        for (whole, each) in
            [("server_mib", "bytes_per_connection"), ("client_mib", "client_bytes_per_connection")]
        {
            per_connection(samples, whole, each);
        }
    }
}

/// What each connection has more than the few of the same round's smallest point.
fn per_connection(samples: &mut [Sample], whole: &str, each: &str) {
    let count = |sample: &Sample| sample.values.get("connections").copied().unwrap_or(0.0);
    let mut least: BTreeMap<(String, u32), (f64, f64)> = BTreeMap::new();
    for sample in samples.iter() {
        if let Some(mib) = sample.values.get(whole) {
            let entry =
                least.entry((sample.system.clone(), sample.round)).or_insert((f64::INFINITY, 0.0));
            if count(sample) < entry.0 {
                *entry = (count(sample), *mib);
            }
        }
    }
    for sample in samples {
        let Some((few, with_few)) = least.get(&(sample.system.clone(), sample.round)) else {
            continue;
        };
        let (more, mib) = (count(sample) - few, sample.values.get(whole).copied());
        if let Some(mib) = mib.filter(|_| more > 0.0) {
            sample.values.insert(each.into(), (mib - with_few) * f64::from(1 << 20) / more);
        }
    }
}

fn asked(point: &Point, active: u64) -> Exchange {
    let words = |text: &str| text.split(' ').map(str::to_string).collect();
    let client = format!("-l 64 --active {}", point.number.min(active));
    let server = format!("-l 64 --connections {}", point.number + 1_024);
    Exchange { connections: point.number, client: words(&client), server: words(&server) }
}

fn keep(system: &Answering, point: &Point, outcome: &Outcome, measured: &mut Measured) {
    let (client, server, memory) = (&outcome.client, &outcome.server, &outcome.memory);
    measured.set("connections", point.number as f64);
    measured.set("server_cycles", server["per_request"]["cycles"].as_f64());
    for (key, name) in [("p50_us", "p50"), ("p99_us", "p99"), ("p999_us", "p99.9")] {
        measured.set(key, client["latency_us"][name].as_f64());
    }
    let kernel = if system.link == Link::Veth {
        memory.kernel.1.saturating_sub(memory.kernel.0) / 2
    } else {
        0
    };
    let mib = |bytes: u64| bytes as f64 / f64::from(1 << 20);
    measured.set("client_mib", mib(memory.client + kernel));
    if memory.server.1 > 0 {
        measured.set("server_mib", mib(memory.server.1 + kernel));
    }
}

fn too_many(system: &Answering, point: &Point) -> Option<String> {
    if matches!(system.server, Server::Baseline(_)) && point.number > LISTED {
        return Some(
            "it looks through a list of its connections for each segment, and would take very long"
                .into(),
        );
    }
    let files = point.number + SPARE_FILES;
    let allowed = getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard);
    if system.link != Link::Memif && files > allowed {
        return Some(format!(
            "{files} sockets are more than a process may open here, which is {allowed}: ulimit -n \
             {files}"
        ));
    }
    let each = if system.link == Link::Memif { OURS } else { KERNELS };
    let (wanted, free) = (each * point.number + SPARE, meminfo("MemAvailable"));
    let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30);
    (wanted > free).then(|| {
        format!(
            "both ends may take {:.1} GiB, and {:.1} GiB are free: run it on a machine with more \
             memory",
            gib(wanted),
            gib(free)
        )
    })
}

impl Task for Connections {
    fn exchange(&self, point: &Point) -> Exchange {
        asked(point, ACTIVE)
    }

    fn keep(&self, system: &Answering, point: &Point, outcome: &Outcome, measured: &mut Measured) {
        keep(system, point, outcome, measured);
    }

    fn skip(&self, system: &Answering, point: &Point) -> Option<String> {
        too_many(system, point)
    }
}

impl Task for AllAsk {
    fn exchange(&self, point: &Point) -> Exchange {
        asked(point, u64::MAX)
    }

    fn keep(&self, system: &Answering, point: &Point, outcome: &Outcome, measured: &mut Measured) {
        keep(system, point, outcome, measured);
    }

    fn skip(&self, system: &Answering, point: &Point) -> Option<String> {
        let many = point.number > ALL_ASK;
        if many {
            Some(format!("not more than {ALL_ASK} ask at a time"))
        } else {
            too_many(system, point)
        }
    }
}

#[cfg(test)]
mod tests;
