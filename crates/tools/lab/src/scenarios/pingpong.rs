//! A request of 64 bytes, an answer of 64 bytes, on each connection one after the other.

use crate::answering::{Answering, Exchange, Outcome, Task, boxed, everybody, floor};
use crate::report::{Axis, Better, Metric, Point};
use crate::scenario::{Measured, Scenario, System};
use crate::world::Options;

pub(crate) struct Pingpong;

/// Connections at a time, and those of a look.
const POINTS: &[u64] = &[1, 8, 16, 32, 64, 128, 512, 1_024];
const QUICK: &[u64] = &[1, 64];

impl Scenario for Pingpong {
    fn name(&self) -> &'static str {
        "pingpong"
    }

    fn title(&self) -> &'static str {
        "Ping-pong: cores and connections"
    }

    fn about(&self) -> &'static str {
        "TCP, requests and answers of 64 bytes, one at a time on each connection, in a closed \
         loop. Clearway's server and client poll. Busy \
         cycles are those of the server's turns that had work, in cycles of the time stamp \
         counter; of kernel servers, processor time of \
         their threads without soft interrupts elsewhere. The floor is what the raw link carries \
         there and back in frames of one request."
    }

    fn axis(&self) -> Axis {
        Axis { label: "connections".into(), unit: "connections".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        exchange_metrics()
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        points.iter().map(|&number| Point::number(number)).collect()
    }

    fn systems(&self, options: &Options) -> Vec<Box<dyn System>> {
        let mut systems = everybody(&Pingpong, options);
        // Those that share nothing between cores are also measured on more of them.
        let more =
            (1..).map(|power| 1 << power).take_while(|&cores| cores <= options.server_cores.len());
        for cores in more.collect::<Vec<usize>>() {
            let all = everybody(&Pingpong, &Options { servers: Vec::new(), ..options.clone() });
            let several = |system: &Answering| {
                ["clearway", "io_uring", "kernel"].contains(&system.note().key.as_str())
            };
            systems.extend(all.into_iter().filter(several).map(|system| system.on(cores)));
        }
        systems.push(floor(&Pingpong));
        boxed(systems)
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

/// Rate, cost and latency, as all scenarios with a closed loop have them.
pub(crate) fn exchange_metrics() -> Vec<Metric> {
    vec![
        Metric::main("requests_per_second", "requests", "requests/s", Better::Higher),
        Metric::main("server_cycles", "server busy", "cycles/request", Better::Lower),
        Metric::beside("p50_us", "median latency", "us", Better::Lower),
        Metric::beside("p99_us", "p99 latency", "us", Better::Lower),
        Metric::told("server_busy", "server busy of time", "share", Better::Neither),
        Metric::told("client_busy", "client busy of time", "share", Better::Neither),
    ]
}

/// Keeps what [`exchange_metrics`] names.
pub(crate) fn keep_exchange(outcome: &Outcome, measured: &mut Measured) {
    let (client, server) = (&outcome.client, &outcome.server);
    measured.set("server_cycles", server["per_request"]["cycles"].as_f64());
    measured.set("server_busy", server["busy_share"].as_f64());
    measured.set("client_busy", client["busy_share"].as_f64());
    for (key, percentile) in [("p50_us", "p50"), ("p99_us", "p99")] {
        measured.set(key, client["latency_us"][percentile].as_f64());
    }
}

impl Task for Pingpong {
    fn exchange(&self, point: &Point) -> Exchange {
        let words = |text: &str| text.split(' ').map(str::to_string).collect();
        Exchange { connections: point.number, client: words("-l 64"), server: words("-l 64") }
    }

    fn keep(
        &self,
        _system: &Answering,
        _point: &Point,
        outcome: &Outcome,
        measured: &mut Measured,
    ) {
        keep_exchange(outcome, measured);
    }
}
