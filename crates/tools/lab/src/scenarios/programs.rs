//! Unmodified servers over a host of ours and over the kernel: redis, nginx, HAProxy, asyncio,
//! memcached and PostgreSQL, asked by redis-benchmark, wrk, memcaslap and pgbench.

mod load;

use anyhow::Context as _;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::iperf3_loopback::chapter;
use crate::machine::CoreTime;
use crate::namespace::Namespace;
use crate::need::Need;
use crate::place::{Host, Place, Tap};
use crate::process::Ready;
use crate::report::{Axis, Better, Metric, Point, SystemNote};
use crate::scenario::{Measured, Scenario, System};
use crate::world::{CABLE_SERVER, MEMIF_SERVER, Options, World};

use load::{ANSWERS, LOADS, Load, QUICK};

/// Over a TAP device: the client is the kernel's. Over loopback: both programs are over the same.
/// Over memif: the client is `clearway bench client`, with a stack of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Ethernet,
    Loopback,
    Memif,
}

/// One of the scenarios.
pub(crate) struct Programs {
    name: &'static str,
    title: &'static str,
    about: &'static str,
    link: Link,
}

/// Over Ethernet.
pub(crate) const PROGRAMS: Programs = Programs {
    name: "programs",
    title: "unmodified servers over Ethernet",
    about: "redis-server, nginx with one worker, HAProxy with one thread before it, a server of \
        Python's asyncio, memcached and PostgreSQL, on the server's core; redis-benchmark, wrk and \
        memcaslap with one thread, and pgbench, over the kernel, on the client's. Clearway's host \
        has a TAP device in the client's namespace and runs on the client's core, or on the \
        server's; with the stack inside, the server has that TAP device itself, and nginx no master \
        process; the kernel's server is at the other end of a veth pair. nginx accepts all \
        connections that wait at once. The letters behind a name are the size of the file, `-1` is \
        one connection and else there are 64, `-close` is a connection for each request; redis has \
        50 clients or 1,000, `-p16` is 16 requests at a time; PostgreSQL has 16, each of which \
        reads one row at a time. p99 is what the clients say; memcaslap's is between powers of two, \
        and pgbench tells none where it connects anew.",
    link: Link::Ethernet,
};

/// Over loopback.
pub(crate) const PROGRAMS_LOOPBACK: Programs = Programs {
    name: "programs-loopback",
    title: "unmodified servers over loopback",
    about: "The same programs with both ends over Clearway's host, in two namespaces joined by two \
        loopback interfaces of MTU 65535, \
            beside both ends over the kernel's loopback of the same MTU. Clearway's host runs on \
            the client's core, or on the server's.",
    link: Link::Loopback,
};

/// Over memif.
pub(crate) const PROGRAMS_MEMIF: Programs = Programs {
    name: "programs-memif",
    title: "unmodified servers over memif",
    about: "The same servers over a host of Clearway's on their core, whose link is memif; `clearway \
        bench client` on the client's core asks, which polls; beside it the kernel's server and \
        `clearway bench client --kernel` at the ends of a veth pair. redis is asked for a key that is \
        not there.",
    link: Link::Memif,
};

/// The device that the host makes, and the addresses of both its ends.
const TAP: Tap = Tap { device: "cwlab2", ours: "10.98.1.2", kernels: "10.98.1.1" };

const RATE: &str = "requests_per_second";
const P99: &str = "p99_us";

/// How busy the cores were while the client ran, whatever ran there: who is full sets the rate.
const SERVER_CORE: &str = "server_core_busy";
const CLIENT_CORE: &str = "client_core_busy";

/// Of both loopbacks.
const MTU: u64 = 65_535;

impl Scenario for Programs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn title(&self) -> &'static str {
        self.title
    }

    fn about(&self) -> &'static str {
        self.about
    }

    fn axis(&self) -> Axis {
        Axis { label: "program".into(), unit: String::new(), ordered: false }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main(RATE, "requests", "1/s", Better::Higher),
            Metric::told(P99, "p99", "µs", Better::Lower),
            Metric::told(SERVER_CORE, "server's core busy", "%", Better::Neither),
            Metric::told(CLIENT_CORE, "client's core busy", "%", Better::Neither),
        ]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let loads = LOADS.iter().filter(|load| !options.quick || QUICK.contains(&load.key));
        loads.map(|load| Point::name(load.key)).collect()
    }

    fn systems(&self, _options: &Options) -> Vec<Box<dyn System>> {
        let system = |key: &str, about: &str, host: Over| {
            let note = SystemNote {
                key: key.into(),
                about: about.into(),
                ours: host != Over::Kernel && !host.is_bare(),
                floor: host == Over::Nothing,
            };
            Box::new(Server { note, link: self.link, host }) as Box<dyn System>
        };
        let about = "over a host of Clearway's on the client's core";
        let mut all = vec![
            system("clearway", about, Over::ClientCore),
            system(
                "clearway-shared",
                "over a host of Clearway's on the server's core",
                Over::ServerCore,
            ),
            system("kernel", "over the kernel", Over::Kernel),
        ];
        if self.link == Link::Memif {
            // The client polls: its core has no time for a host.
            all.remove(0);
        }
        if self.link == Link::Ethernet {
            // Two programs with a stack each have no loopback in common.
            let about = "with Clearway's stack inside of the server, on its core";
            all.insert(2, system("clearway-inproc", about, Over::Itself));
            let about = "a bare loop on the server's core that answers each segment from what \
                         stands in it (`clearway reflect --answer`): the link and the client alone";
            all.push(system("floor", about, Over::Nothing));
            let about = "the same loop on the client's core, where a host would be: a host and a \
                         server that cost nothing but the device and the bytes";
            all.push(system("floor-client", about, Over::NothingAtClient));
            let about = "a loop on the client's core, which wakes a thread on the server's \
                         for each request and waits for it: as a host has to";
            all.push(system("hop", about, Over::Hop));
            let about = "the same with both on the server's core";
            all.push(system("hop-shared", about, Over::HopShared));
        }
        all
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

/// What carries the bytes, and on which core that runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Over {
    ClientCore,
    ServerCore,
    /// The stack is inside of the server.
    Itself,
    Kernel,
    /// There is neither a stack nor a server.
    Nothing,
    /// Nor here, and what answers instead runs on the client's core.
    NothingAtClient,
    /// Nor here, but a thread on the server's core that has to be woken by a loop on the client's.
    Hop,
    /// The same with the loop on the server's core.
    HopShared,
}

impl Over {
    /// What answers is a loop without a stack.
    fn is_bare(self) -> bool {
        self.is_loop() || matches!(self, Over::Hop | Over::HopShared)
    }

    /// The loop is all that there is: nobody is woken.
    fn is_loop(self) -> bool {
        matches!(self, Over::Nothing | Over::NothingAtClient)
    }
}

struct Server {
    note: SystemNote,
    link: Link,
    host: Over,
}

/// Where both programs are, and how the server is reached. What carries the bytes goes with it.
struct Scene {
    server: Place,
    client: Place,
    address: &'static str,
    host: Option<Host>,
    _namespace: Option<Namespace>,
}

impl Server {
    /// Sets up what is between the programs.
    fn scene(&self, world: &World<'_>) -> anyhow::Result<Scene> {
        let place = |inside: Option<Pid>, cores: &[usize]| Place {
            inside,
            cores: cores.to_vec(),
            ..Place::default()
        };
        let (near, far) = (&world.options.client_cores, &world.options.server_cores);
        let host_core = match self.host {
            Over::ClientCore | Over::NothingAtClient | Over::Hop => near.first(),
            _ => far.first(),
        };
        let host_core = *host_core.context("no core for the host")?;
        Ok(match (self.link, self.host) {
            (Link::Ethernet | Link::Memif, Over::Kernel) => {
                let ends = world.ends()?;
                let (server, client) = (ends.server.holder(), ends.client.holder());
                Scene {
                    server: place(Some(server), far),
                    client: place(Some(client), near),
                    address: CABLE_SERVER,
                    host: None,
                    _namespace: None,
                }
            }
            (Link::Ethernet, Over::Itself) => Scene {
                server: TAP.for_inproc(world, far)?,
                client: place(Some(world.ends()?.client.holder()), near),
                address: TAP.ours,
                host: None,
                _namespace: None,
            },
            (Link::Ethernet, over) if over.is_bare() => Scene {
                server: TAP.for_answerer(world, &[host_core])?,
                client: place(Some(world.ends()?.client.holder()), near),
                address: TAP.ours,
                host: None,
                _namespace: None,
            },
            (Link::Ethernet, _) => {
                let ends = world.ends()?;
                let (host, server) = Host::with_tap(world, host_core, &TAP, far)?;
                Scene {
                    server,
                    client: place(Some(ends.client.holder()), near),
                    address: TAP.ours,
                    host: Some(host),
                    _namespace: None,
                }
            }
            (Link::Memif, _) => {
                let (host, server) = Host::with_memif(world, host_core, MEMIF_SERVER, far)?;
                Scene {
                    server,
                    client: place(None, near),
                    address: MEMIF_SERVER,
                    host: Some(host),
                    _namespace: None,
                }
            }
            (Link::Loopback, Over::Kernel) => {
                let namespace = Namespace::new(world.stop)?;
                namespace.ip(&format!("link set lo mtu {MTU}"), world.stop)?;
                let inside = Some(namespace.holder());
                Scene {
                    server: place(inside, far),
                    client: place(inside, near),
                    address: "127.0.0.1",
                    host: None,
                    _namespace: Some(namespace),
                }
            }
            (Link::Loopback, _) => {
                let host = Host::up_on(world, host_core, None, &chapter(MTU))?;
                let ours = |namespace, secret| Some((host.socket.clone(), namespace, secret));
                Scene {
                    server: Place { ours: ours("server", "1234"), ..place(None, far) },
                    client: Place { ours: ours("client", "5678"), ..place(None, near) },
                    address: "172.16.1.1",
                    host: Some(host),
                    _namespace: None,
                }
            }
        })
    }
}

impl System for Server {
    fn note(&self) -> &SystemNote {
        &self.note
    }

    fn needs(&self) -> Vec<Need> {
        let mut needs = vec![
            Need::Root,
            Need::Program("ip", "iproute2"),
            Need::Program("redis-server", "redis-server"),
            Need::Program("nginx", "nginx"),
        ];
        if self.link != Link::Memif {
            needs.push(Need::Program("redis-benchmark", "redis-tools"));
            needs.push(Need::Program("wrk", "wrk"));
        }
        match self.host {
            Over::Kernel => {}
            _ if self.link == Link::Memif => needs.extend([Need::Dpdk, Need::Preload]),
            over if over.is_bare() => needs.push(Need::Tun),
            _ => needs.extend([Need::Tun, Need::Preload]),
        }
        if self.host == Over::Itself {
            needs.push(Need::Inproc);
        }
        needs
    }

    fn skip(&self, world: &World<'_>, point: &Point) -> Option<String> {
        let load = Load::find(&point.key)?;
        if let Some(why) = load.missing(world.facts) {
            return Some(why);
        }
        if self.link == Link::Memif {
            return load.why_not_asked_by_bench().map(Into::into);
        }
        if self.host == Over::Itself {
            return load.why_not_inside().map(Into::into);
        }
        if !self.host.is_bare() {
            return None;
        }
        if let Some(why) = load.why_no_loop() {
            return Some(why.into());
        }
        // With more of them a host goes on while the server works, and this loop waits for it.
        (!self.host.is_loop() && !load.is_one_by_one())
            .then(|| "only where there is one request at a time".into())
    }

    fn measure(&self, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
        let load = Load::find(&point.key).context("no such load")?;
        world.begins_sessions(load.begins_sessions());
        let scene = self.scene(world)?;
        let (serving, ready) = match self.host {
            over if over.is_bare() => {
                let far = world.options.server_cores.first().copied();
                let hop = far.filter(|_| !over.is_loop());
                (load.answer(world, &scene.server, TAP.device, hop)?, Ready::Says(ANSWERS))
            }
            _ => {
                (load.serve(world, &scene.server, scene.address)?, load.ready(world, &scene.server))
            }
        };
        let behind = match self.host.is_bare() {
            true => None,
            false => load.serve_behind(world, &scene.server, scene.address)?,
        };
        let behind = match behind {
            Some((launch, ready)) => Some(launch.start_until(ready, world.stop)?),
            None => None,
        };
        let asked = match serving.start_until_ready(&ready, world.stop) {
            Ok(running) => {
                let cores = [&world.options.server_cores, &world.options.client_cores];
                let before = cores.map(|cores| CoreTime::of(cores));
                let mut asked = match self.link {
                    Link::Memif => load.ask_by_bench(world, &scene.client, scene.address),
                    Link::Ethernet | Link::Loopback => {
                        load.ask(world, &scene.client, scene.address)
                    }
                };
                if let Ok(measured) = &mut asked {
                    let busy = |at: usize| CoreTime::of(cores[at]).busy_since(before[at]);
                    measured.set(SERVER_CORE, busy(0).map(|share| share * 100.0));
                    measured.set(CLIENT_CORE, busy(1).map(|share| share * 100.0));
                }
                if let Err(error) = asked {
                    asked = Err(error.context(running.last_words()));
                }
                // The server and the host end also when the client has failed.
                let ended = running.stop(Signal::SIGTERM, world.stop);
                asked.and_then(|measured| ended.map(|_| measured))
            }
            Err(error) => Err(error),
        };
        let asked = match behind {
            Some(running) => {
                let ended = running.stop(Signal::SIGTERM, world.stop);
                asked.and_then(|measured| ended.map(|_| measured))
            }
            None => asked,
        };
        if self.host == Over::Itself || self.host.is_bare() {
            TAP.remove(world)?;
        }
        let mut programs = vec![serving.text()];
        if let Some(host) = scene.host {
            programs.insert(0, host.text.clone());
            host.stop(world)?;
        }
        let mut measured = asked?;
        programs.append(&mut measured.programs);
        measured.programs = programs;
        Ok(measured)
    }
}
