//! Frames there and back between vhost-user and virtio-user.

use crate::links::{Mirror, Shared, reflect};
use crate::need::Need;
use crate::report::{Axis, Better, Metric, Point, SystemNote};
use crate::scenario::{Measured, Scenario, System};
use crate::world::{Options, World};

pub(crate) struct Vhost;

/// Bytes of a frame, and those of a look.
const POINTS: &[u64] = &[64, 128, 256, 512, 1_024, 1_500];
const QUICK: &[u64] = &[64];

/// Queues.
const QUEUES: &[usize] = &[1, 2];

impl Scenario for Vhost {
    fn name(&self) -> &'static str {
        "vhost"
    }

    fn title(&self) -> &'static str {
        "vhost-user: frame sizes and queues"
    }

    fn about(&self) -> &'static str {
        "clearway pktgen at a virtio-user port sends frames as fast as the link takes them; a \
         reflector at the vhost-user port behind it sends \
         them back. What comes back is counted. The same with DPDK's testpmd for the reflector. \
         Each queue has a core of its own; \
         where there are fewer cores than queues, each serves several."
    }

    fn axis(&self) -> Axis {
        Axis { label: "frame".into(), unit: "bytes".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main("rx_mpps", "frames that came back", "million/s", Better::Higher),
            Metric::beside("rx_mbit", "the same in bits", "Mbit/s", Better::Higher),
            Metric::told("tx_mpps", "sent", "million/s", Better::Higher),
            Metric::told("lost_percent", "lost", "%", Better::Lower),
        ]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        points.iter().map(|&number| Point { key: number.to_string(), number }).collect()
    }

    fn systems(&self, _options: &Options) -> Vec<Box<dyn System>> {
        let mut systems: Vec<Box<dyn System>> = Vec::new();
        for &queues in QUEUES {
            for (name, program, mirror) in [
                ("clearway", "clearway reflect", Mirror::Ours),
                ("testpmd", "dpdk-testpmd, macswap", Mirror::Testpmd),
            ] {
                let key = if queues == 1 { name.into() } else { format!("{name}-{queues}q") };
                let plural = if queues == 1 { "" } else { "s" };
                let about = format!("{program}, {queues} queue{plural}");
                let note = SystemNote { key, about, ours: mirror == Mirror::Ours, floor: false };
                systems.push(Box::new(Reflecting { note, mirror, queues }));
            }
        }
        systems
    }

    fn reference(&self) -> &'static str {
        "testpmd"
    }
}

struct Reflecting {
    note: SystemNote,
    mirror: Mirror,
    queues: usize,
}

impl System for Reflecting {
    fn note(&self) -> &SystemNote {
        &self.note
    }

    fn needs(&self) -> Vec<Need> {
        match self.mirror {
            Mirror::Ours => vec![Need::Dpdk],
            Mirror::Testpmd => vec![Need::Dpdk, Need::Program("dpdk-testpmd", "dpdk-dev")],
        }
    }

    fn measure(&self, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
        let link = Shared::Vhost { socket: world.file("vhost"), queues: self.queues };
        let frames = reflect(world, &link, self.mirror, point.number)?;
        let mut measured = Measured::default();
        for (key, name) in [
            ("rx_mpps", "rx_mpps"),
            ("rx_mbit", "rx_mbit_per_s"),
            ("tx_mpps", "tx_mpps"),
            ("lost_percent", "lost_percent"),
        ] {
            measured.set(key, frames.number(name));
        }
        measured.programs = frames.programs;
        Ok(measured)
    }
}
