//! iperf3 between a host of ours that owns a device, and the kernel at its other end.

use anyhow::Context as _;

use crate::iperf::{received, test};
use crate::need::Need;
use crate::place::{Host, Place, Tap};
use crate::report::{Axis, Better, Metric, Point, SystemNote};
use crate::scenario::{Measured, Scenario, System};
use crate::world::{CABLE_SERVER, Options, World};

pub(crate) struct Iperf3Ethernet;

/// The kernel's program sends, or the other one.
const TO: &str = "to-server";
const FROM: &str = "from-server";

impl Scenario for Iperf3Ethernet {
    fn name(&self) -> &'static str {
        "iperf3-ethernet"
    }

    fn title(&self) -> &'static str {
        "iperf3 over Ethernet"
    }

    fn about(&self) -> &'static str {
        "One TCP stream of unmodified iperf3, cubic on both, MTU 1500, between a server on the \
         server's core and a client on the client's. The \
         client is always the kernel's. Clearway's host has a TAP device, and the server is a \
         program of that host; the kernel's server is \
         at the other end of a veth pair in a namespace of its own."
    }

    fn axis(&self) -> Axis {
        Axis { label: "direction".into(), unit: String::new(), ordered: false }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main("gbit_per_second", "received", "Gbit/s", Better::Higher),
            Metric::told("retransmits", "sent again", "segments", Better::Lower),
        ]
    }

    fn points(&self, _options: &Options) -> Vec<Point> {
        [TO, FROM].map(Point::name).to_vec()
    }

    fn systems(&self, _options: &Options) -> Vec<Box<dyn System>> {
        let system = |key: &str, about: &str, ours| {
            let note = SystemNote { key: key.into(), about: about.into(), ours, floor: false };
            Box::new(Ethernet { note }) as Box<dyn System>
        };
        vec![
            system("clearway", "iperf3 over a host of Clearway's with a TAP device", true),
            system("kernel", "iperf3 over the kernel at the other end of a veth pair", false),
        ]
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

struct Ethernet {
    note: SystemNote,
}

/// The device that the host makes, and the addresses of both its ends.
const TAP: Tap = Tap { device: "cwlab1", ours: "10.98.0.2", kernels: "10.98.0.1" };

impl System for Ethernet {
    fn note(&self) -> &SystemNote {
        &self.note
    }

    fn needs(&self) -> Vec<Need> {
        let both = [Need::Root, Need::Program("iperf3", "iperf3"), Need::Program("ip", "iproute2")];
        if self.note.ours {
            both.into_iter().chain([Need::Tun, Need::Preload]).collect()
        } else {
            both.to_vec()
        }
    }

    fn measure(&self, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
        let ends = world.ends()?;
        let inside = ends.client.holder();
        let reverse = if point.key == FROM { "-R" } else { "" };
        let cores = world.options.client_cores.clone();
        let client = Place { inside: Some(inside), cores, ..Place::default() };
        let cores = world.options.server_cores.clone();
        let (report, programs) = if self.note.ours {
            let core = *cores.first().context("no core for the host")?;
            let (host, server) = Host::with_tap(world, core, &TAP, &cores)?;
            let (report, mut programs) =
                test(world, &server, &client, &format!("-c {} -C cubic {reverse}", TAP.ours))?;
            programs.insert(0, host.text.clone());
            host.stop(world)?;
            (report, programs)
        } else {
            let server = Place { inside: Some(ends.server.holder()), cores, ..Place::default() };
            test(world, &server, &client, &format!("-c {CABLE_SERVER} -C cubic {reverse}"))?
        };
        let mut measured = Measured { programs, ..Measured::default() };
        measured.set("gbit_per_second", received(&report)?);
        measured.set("retransmits", report["end"]["sum_sent"]["retransmits"].as_f64());
        Ok(measured)
    }
}
