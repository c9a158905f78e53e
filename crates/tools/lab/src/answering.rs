//! Servers that answer requests, and the client that asks them: what most scenarios measure.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::links::{Mirror, Shared, reflect};
use crate::machine::{meminfo, resident};
use crate::need::Need;
use crate::process::{Launch, Running, list, pause};
use crate::report::{Point, SystemNote};
use crate::scenario::{Measured, System};
use crate::world::{CABLE_SERVER, External, MEMIF_SERVER, Options, TAP, TAP_SERVER, World};

/// The port that servers of the bench listen on.
const BENCH_PORT: u16 = 10_000;

/// Connections that one source address makes.
const PER_ADDRESS: u64 = 60_000;

/// Connections that the kernel makes without being given addresses.
const PER_KERNEL: u64 = 20_000;

/// Connections that a client opens in a second, at the least.
const OPENED: u64 = 5_000;

/// Bytes of request and answer unless a scenario says otherwise.
pub(crate) const LENGTH: u64 = 64;

/// What goes over the link at one point.
pub(crate) struct Exchange {
    /// Connections at a time.
    pub(crate) connections: u64,
    /// Options of the client besides.
    pub(crate) client: Vec<String>,
    /// Options of the server besides.
    pub(crate) server: Vec<String>,
}

/// What came of it.
pub(crate) struct Outcome {
    /// The client's summary.
    pub(crate) client: Value,
    /// The server's, which those that others started do not give.
    pub(crate) server: Value,
    pub(crate) memory: Memory,
}

/// Memory in bytes, of the server and of the kernel: before the client began, and the most while it
/// ran.
#[derive(Clone, Copy, Default)]
pub(crate) struct Memory {
    pub(crate) server: (u64, u64),
    pub(crate) client: u64,
    pub(crate) kernel: (u64, u64),
}

/// What a scenario asks.
pub(crate) trait Task: Sync {
    /// What goes over the link at this point.
    fn exchange(&self, point: &Point) -> Exchange;

    /// What of the outcome is kept.
    fn keep(&self, system: &Answering, point: &Point, outcome: &Outcome, measured: &mut Measured);

    /// Why a system is not measured at this point, if it is not.
    fn skip(&self, _system: &Answering, _point: &Point) -> Option<String> {
        None
    }
}

/// What answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Server {
    /// `clearway bench server`.
    Bench,
    /// `clearway http`.
    Http,
    /// Another stack's server, which takes the same options as ours.
    Baseline(&'static str),
    /// Nobody: frames are sent back as they are.
    Reflector,
    /// One that somebody else started.
    Outside(SocketAddr),
}

/// What lies between server and client, and whose sockets the client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Link {
    /// Shared memory; our client over our stack.
    Memif,
    /// A cable between two namespaces; our client over the kernel's sockets, and so is the server.
    Veth,
    /// A TAP device; our client over the kernel's sockets.
    Tap,
}

/// A server on a link.
pub(crate) struct Answering {
    note: SystemNote,
    task: &'static dyn Task,
    pub(crate) server: Server,
    pub(crate) link: Link,
    /// How many of the server's cores it has.
    cores: usize,
}

impl Answering {
    pub(crate) fn new(
        task: &'static dyn Task,
        key: &str,
        about: &str,
        server: Server,
        link: Link,
    ) -> Answering {
        let ours = matches!(server, Server::Bench | Server::Http) && link != Link::Veth;
        let floor = server == Server::Reflector;
        let note = SystemNote { key: key.into(), about: about.into(), ours, floor };
        Answering { note, task, server, link, cores: 1 }
    }

    /// The same on so many of the server's cores.
    pub(crate) fn on(mut self, cores: usize) -> Answering {
        if cores > 1 {
            self.note.key += &format!("-{cores}cores");
            self.note.about += &format!(", on {cores} cores");
        }
        self.cores = cores;
        self
    }
}

/// Our server and those of others, on the links that they take.
pub(crate) fn everybody(task: &'static dyn Task, options: &Options) -> Vec<Answering> {
    let system =
        |key: &str, about: &str, server, link| Answering::new(task, key, about, server, link);
    let mut all = vec![
        system("clearway", "clearway bench server over memif", Server::Bench, Link::Memif),
        system("lwip", "lwIP over memif", Server::Baseline("lwip-dpdk"), Link::Memif),
        system("smoltcp", "smoltcp over memif", Server::Baseline("smoltcp"), Link::Memif),
        system(
            "clearway-tap",
            "clearway bench server over a TAP device, client over the kernel",
            Server::Bench,
            Link::Tap,
        ),
        system(
            "netstack",
            "gVisor's netstack over a TAP device, client over the kernel",
            Server::Baseline("netstack"),
            Link::Tap,
        ),
        system(
            "io_uring",
            "io_uring over veth, client over the kernel",
            Server::Baseline("kernel-io_uring"),
            Link::Veth,
        ),
        system("kernel", "epoll over veth, client over the kernel", Server::Bench, Link::Veth),
    ];
    for External { name, at } in &options.servers {
        let about = format!("the server at {at}, client over the kernel");
        all.push(system(name, &about, Server::Outside(*at), Link::Veth));
    }
    all
}

/// The raw link: as many frames go there and back as it takes.
pub(crate) fn floor(task: &'static dyn Task) -> Answering {
    Answering::new(
        task,
        "floor",
        "clearway reflect over memif: frames of one request sent back, no stack",
        Server::Reflector,
        Link::Memif,
    )
}

pub(crate) fn boxed(systems: Vec<Answering>) -> Vec<Box<dyn System>> {
    systems.into_iter().map(|system| Box::new(system) as Box<dyn System>).collect()
}

/// Bytes of the frame that one request is.
const REQUEST_FRAME: u64 = 14 + 20 + 32 + LENGTH;

impl System for Answering {
    fn note(&self) -> &SystemNote {
        &self.note
    }

    fn needs(&self) -> Vec<Need> {
        let mut needs = match (self.server, self.link) {
            (Server::Outside(_), _) => vec![],
            (_, Link::Memif) => vec![Need::Dpdk],
            (_, Link::Veth) => vec![Need::Root, Need::Program("ip", "iproute2")],
            (_, Link::Tap) => vec![Need::Root, Need::Tun, Need::Program("ip", "iproute2")],
        };
        if let Server::Baseline(name) = self.server {
            needs.push(Need::Baseline(name));
        }
        needs
    }

    fn skip(&self, _world: &World<'_>, point: &Point) -> Option<String> {
        self.task.skip(self, point)
    }

    fn measure(&self, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
        if self.server == Server::Reflector {
            let link = Shared::memif(world, 1);
            let frames = reflect(world, &link, Mirror::Ours, REQUEST_FRAME)?;
            let mut measured = Measured::default();
            measured.set("requests_per_second", frames.number("rx_mpps").map(|mpps| mpps * 1e6));
            measured.programs = frames.programs;
            return Ok(measured);
        }
        let exchange = self.task.exchange(point);
        let mut measured = Measured::default();
        let server = self.server(world, &exchange)?;
        let running = match &server {
            Some(launch) => Some(launch.start_until(r#""event":"ready""#, world.stop)?),
            None => None,
        };
        let client = self.client(world, &exchange)?;
        measured.programs = server.iter().chain([&client]).map(Launch::text).collect();
        let outcome = ask(world, &exchange, &client, running)?;
        measured.set("requests_per_second", outcome.client["requests_per_second"].as_f64());
        measured.warn(&outcome.client);
        self.task.keep(self, point, &outcome, &mut measured);
        Ok(measured)
    }
}

/// Lets the client ask, and looks at memory meanwhile.
fn ask(
    world: &World<'_>,
    exchange: &Exchange,
    client: &Launch,
    server: Option<Running>,
) -> anyhow::Result<Outcome> {
    let of_server = || server.as_ref().map_or(0, |server| resident(server.pid()));
    let (before, kernel) = (of_server(), kernel_memory());
    let mut memory = Memory { server: (before, before), client: 0, kernel: (kernel, kernel) };
    let mut asking = client.start()?;
    let deadline = Instant::now() + world.limit(Duration::from_secs(exchange.connections / OPENED));
    while asking.ended()?.is_none() && Instant::now() < deadline {
        memory.server.1 = memory.server.1.max(of_server());
        memory.client = memory.client.max(resident(asking.pid()));
        memory.kernel.1 = memory.kernel.1.max(kernel_memory());
        for _ in 0..10 {
            pause(world.stop)?;
        }
    }
    // It has had its time.
    let asked = asking.succeed(Duration::ZERO, world.stop)?;
    let server = match server {
        Some(server) => server.stop(Signal::SIGINT, world.stop)?.event("summary")?,
        None => Value::Null,
    };
    Ok(Outcome { client: asked.event("summary")?, server, memory })
}

/// What the kernel keeps its sockets in.
fn kernel_memory() -> u64 {
    meminfo("Slab")
}

impl Answering {
    fn port(&self) -> u16 {
        match self.server {
            Server::Http => 80,
            Server::Outside(at) => at.port(),
            _ => BENCH_PORT,
        }
    }

    fn memif(&self, world: &World<'_>) -> Shared {
        Shared::memif(world, self.cores)
    }

    fn server(&self, world: &World<'_>, exchange: &Exchange) -> anyhow::Result<Option<Launch>> {
        let launch = match self.server {
            Server::Outside(_) | Server::Reflector => return Ok(None),
            Server::Http => world.clearway(&format!("http -l {LENGTH}")),
            Server::Bench => world.clearway("bench server").args(&exchange.server),
            Server::Baseline(name) => {
                let launch = Launch::new(world.facts.baselines.join(name));
                let launch = if world.facts.huge_pages {
                    launch
                } else {
                    launch.env("CLEARWAY_DPDK_HUGE", "off")
                };
                launch.args(&exchange.server)
            }
        };
        let cores = world.options.server_cores.len().min(self.cores);
        let launch =
            launch.words(&format!("--json --cores {}", list(&world.options.server_cores[..cores])));
        Ok(Some(match self.link {
            Link::Memif => {
                let port = format!("dpdk:{}", self.memif(world).server());
                launch.words("--poll --port").arg(port).words(&format!("-a {MEMIF_SERVER}/16"))
            }
            Link::Tap => {
                let inside = world.fresh_tap()?;
                launch.words(&format!("--port tap:{TAP} -a {TAP_SERVER}/16")).inside(inside)
            }
            Link::Veth => {
                let inside = world.ends()?.server.holder();
                // The servers of other stacks know no other sockets.
                let kernel =
                    if matches!(self.server, Server::Baseline(_)) { "" } else { "--kernel" };
                launch.words(kernel).inside(inside)
            }
        }))
    }

    fn client(&self, world: &World<'_>, exchange: &Exchange) -> anyhow::Result<Launch> {
        let options = world.options;
        // A thread needs a connection.
        let cores = options.client_cores.len().min(exchange.connections.max(1) as usize);
        let (seconds, warmup) = (options.seconds.as_secs_f64(), options.warmup.as_secs_f64());
        let mut launch = world.clearway(&format!(
            "bench client --json -c {} -t {seconds} --warmup {warmup} -p {}",
            exchange.connections,
            self.port()
        ));
        launch = launch.args(&exchange.client);
        let last = exchange.connections.div_ceil(PER_ADDRESS).clamp(1, 250);
        let many = exchange.connections > PER_KERNEL;
        let (server, net) = match (self.server, self.link) {
            (Server::Outside(at), _) => {
                return Ok(launch.words(&format!(
                    "--kernel --cores {} -s {}",
                    list(&options.client_cores[..cores]),
                    at.ip()
                )));
            }
            (_, Link::Memif) => {
                launch = launch
                    .words("--poll --port")
                    .arg(format!("dpdk:{}", self.memif(world).client()));
                (MEMIF_SERVER, "10.79.1")
            }
            (_, Link::Tap) => {
                launch = launch.words("--kernel").inside(world.ends()?.client.holder());
                (TAP_SERVER, "10.77.1")
            }
            (_, Link::Veth) => {
                launch = launch.words("--kernel").inside(world.ends()?.client.holder());
                (CABLE_SERVER, "10.78.1")
            }
        };
        if self.link == Link::Memif || many {
            launch = launch.words(&format!("-a {net}.1-{net}.{last}/16"));
        }
        // Over shared memory either side has a core for each queue.
        let cores = if self.link == Link::Memif { cores.min(self.cores.max(1)) } else { cores };
        Ok(launch.words(&format!("--cores {} -s {server}", list(&options.client_cores[..cores]))))
    }
}
