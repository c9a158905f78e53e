//! iperf3 over two loopback interfaces in two tables, beside the kernel's loopback.

use crate::iperf::{received, test};
use crate::namespace::Namespace;
use crate::need::Need;
use crate::place::{Host, Place};
use crate::report::{Axis, Better, Metric, Point, SystemNote};
use crate::scenario::{Measured, Scenario, System};
use crate::world::{Options, World};

pub(crate) struct Iperf3Loopback;

/// MTUs, and those of a look.
const POINTS: &[u64] = &[1_500, 9_000, 65_535];
const QUICK: &[u64] = &[9_000];

impl Scenario for Iperf3Loopback {
    fn name(&self) -> &'static str {
        "iperf3-loopback"
    }

    fn title(&self) -> &'static str {
        "iperf3 over loopback"
    }

    fn about(&self) -> &'static str {
        "One TCP stream of unmodified iperf3, cubic on both. Clearway's host runs on the server's \
         core; the programs are in two namespaces of \
         it, joined by two loopback interfaces in two tables. The kernel's loopback has the same \
         MTU, in a network namespace of its own when \
         this runs as root; its segmentation makes that matter little."
    }

    fn axis(&self) -> Axis {
        Axis { label: "MTU".into(), unit: "bytes".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main("gbit_per_second", "received", "Gbit/s", Better::Higher),
            Metric::told("retransmits", "sent again", "segments", Better::Lower),
        ]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        // Sizes of packets are written out.
        points.iter().map(|&number| Point { key: number.to_string(), number }).collect()
    }

    fn systems(&self, _options: &Options) -> Vec<Box<dyn System>> {
        [Way::Apart, Way::Spread, Way::CutThrough, Way::Kernel]
            .map(|way| way.system(measure))
            .into()
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

/// Who carries the bytes over loopback, and what runs on which core.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Apart,
    Spread,
    CutThrough,
    Kernel,
}

/// What one run of iperf3 over loopback says.
pub(crate) type Measure = fn(Way, &World<'_>, &Point) -> anyhow::Result<Measured>;

struct Loopback {
    note: SystemNote,
    way: Way,
    measure: Measure,
}

impl Way {
    pub(crate) fn system(self, measure: Measure) -> Box<dyn System> {
        let (key, about) = match self {
            Way::Apart => ("clearway", "host on the server's core, both programs on the client's"),
            Way::Spread => (
                "clearway-spread",
                "host and iperf3 server on the server's core, iperf3 client on the client's",
            ),
            Way::CutThrough => {
                ("cut-through", "as clearway-spread, bytes from program to program past the stack")
            }
            Way::Kernel => ("kernel", "iperf3 server on the server's core, client on the client's"),
        };
        let note = SystemNote {
            key: key.into(),
            about: about.into(),
            ours: self != Way::Kernel,
            floor: false,
        };
        Box::new(Loopback { note, way: self, measure })
    }

    /// Runs iperf3's two programs this way; the client's report.
    pub(crate) fn run(
        self,
        world: &World<'_>,
        mtu: u64,
        words: &str,
    ) -> anyhow::Result<(serde_json::Value, Vec<String>)> {
        let (near, far) = (&world.options.client_cores, &world.options.server_cores);
        match self {
            Way::Apart => over_host(world, mtu, (near, false), words),
            Way::Spread => over_host(world, mtu, (far, false), words),
            Way::CutThrough => over_host(world, mtu, (far, true), words),
            Way::Kernel => over_kernel(world, mtu, words),
        }
    }
}

/// The documents' loopback chapter, with an MTU.
pub(crate) fn chapter(mtu: u64) -> Vec<String> {
    let text = format!(
        "create loopback interface\nset interface mtu {mtu} loop0\nset interface state loop0 up\n\
         create loopback interface\nset interface mtu {mtu} loop1\nset interface state loop1 up\n\
         ip table add 1\nset interface ip table loop0 1\nip table add 2\nset interface ip table \
             loop1 2\n\
         set interface ip address loop0 172.16.1.1/24\nset interface ip address loop1 \
             172.16.2.1/24\n\
         app ns add id server secret 1234 if loop0\napp ns add id client secret 5678 if loop1\n\
         ip route add 172.16.1.1/32 table 2 via lookup in table 1\nip route add 172.16.2.1/32 \
             table 1 via lookup in table 2"
    );
    text.lines().map(str::to_string).collect()
}

/// Both programs over a host of ours; the client's report.
fn over_host(
    world: &World<'_>,
    mtu: u64,
    (server_cores, cut_through): (&[usize], bool),
    words: &str,
) -> anyhow::Result<(serde_json::Value, Vec<String>)> {
    let host = Host::up(world, None, &chapter(mtu))?;
    let place = |namespace, secret, cores: &[usize]| Place {
        ours: Some((host.socket.clone(), namespace, secret)),
        cut_through,
        cores: cores.to_vec(),
        ..Place::default()
    };
    let server = place("server", "1234", server_cores);
    let client = place("client", "5678", &world.options.client_cores);
    let (report, mut programs) = test(world, &server, &client, &format!("-c 172.16.1.1 {words}"))?;
    programs.insert(0, host.text.clone());
    host.stop(world)?;
    Ok((report, programs))
}

/// Both programs over the kernel's loopback, which has this MTU where we may say so.
fn over_kernel(
    world: &World<'_>,
    mtu: u64,
    words: &str,
) -> anyhow::Result<(serde_json::Value, Vec<String>)> {
    let namespace = if Need::Root.missing(world.facts).is_none() {
        Some(Namespace::new(world.stop)?)
    } else {
        None
    };
    if let Some(namespace) = &namespace {
        namespace.ip(&format!("link set lo mtu {mtu}"), world.stop)?;
    }
    let inside = namespace.as_ref().map(Namespace::holder);
    let place = |cores: &[usize]| Place { inside, cores: cores.to_vec(), ..Place::default() };
    let (server, client) = (place(&world.options.server_cores), place(&world.options.client_cores));
    test(world, &server, &client, &format!("-c 127.0.0.1 {words}"))
}

impl System for Loopback {
    fn note(&self) -> &SystemNote {
        &self.note
    }

    fn needs(&self) -> Vec<Need> {
        match self.way {
            Way::Kernel => vec![Need::Program("iperf3", "iperf3")],
            _ => vec![Need::Program("iperf3", "iperf3"), Need::Preload],
        }
    }

    fn measure(&self, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
        (self.measure)(self.way, world, point)
    }
}

fn measure(way: Way, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
    let (report, programs) = way.run(world, point.number, "-C cubic")?;
    let mut measured = Measured { programs, ..Measured::default() };
    measured.set("gbit_per_second", received(&report)?);
    measured.set("retransmits", report["end"]["sum_sent"]["retransmits"].as_f64());
    Ok(measured)
}
