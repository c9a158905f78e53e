//! iperf3 sends datagrams at rates that nobody can hold.

use crate::report::{Axis, Better, Metric, Point};
use crate::scenario::{Measured, Scenario, System};
use crate::scenarios::iperf3_loopback::Way;
use crate::world::{Options, World};

pub(crate) struct UdpFlood;

/// Bits per second that are asked for, and those of a look.
const POINTS: &[u64] = &[1_000_000_000, 10_000_000_000, 40_000_000_000];
const QUICK: &[u64] = &[1_000_000_000];

/// MTU of the loopback: datagrams of iperf3 fit into it.
const MTU: u64 = 9_000;

/// Bytes of a datagram, the same on all.
const DATAGRAM: u64 = 1_448;

impl Scenario for UdpFlood {
    fn name(&self) -> &'static str {
        "udp-flood"
    }

    fn title(&self) -> &'static str {
        "UDP flood over loopback"
    }

    fn about(&self) -> &'static str {
        "Unmodified iperf3 sends datagrams of 1448 bytes over loopback at the rate asked for, or \
         as near to it as it comes, and its server \
         counts what arrives. Placed as in iperf3-loopback."
    }

    fn axis(&self) -> Axis {
        Axis { label: "rate asked for".into(), unit: "bit/s".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main("received_gbit", "received", "Gbit/s", Better::Higher),
            Metric::beside("sent_gbit", "sent", "Gbit/s", Better::Higher),
            Metric::beside("lost_percent", "lost", "%", Better::Lower),
            Metric::told("jitter_us", "jitter", "us", Better::Lower),
        ]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        points.iter().map(|&number| Point::number(number)).collect()
    }

    fn systems(&self, _options: &Options) -> Vec<Box<dyn System>> {
        [Way::Apart, Way::Spread, Way::Kernel].map(|way| way.system(measure)).into()
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

fn measure(way: Way, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
    let (report, programs) =
        way.run(world, MTU, &format!("-u -b {} -l {DATAGRAM}", point.number))?;
    let mut measured = Measured { programs, ..Measured::default() };
    let end = &report["end"];
    // The receiver counts for as long as it receives; what was lost is known to both.
    let (sent, received) = (&end["sum_sent"], &end["sum_received"]);
    measured.set("sent_gbit", sent["bits_per_second"].as_f64().map(|bits| bits / 1e9));
    measured.set("received_gbit", received["bits_per_second"].as_f64().map(|bits| bits / 1e9));
    measured.set("lost_percent", received["lost_percent"].as_f64());
    measured.set("jitter_us", received["jitter_ms"].as_f64().map(|ms| ms * 1e3));
    anyhow::ensure!(
        measured.values.contains_key("received_gbit"),
        "this iperf3 does not say what arrived: take 3.12 or later"
    );
    Ok(measured)
}
