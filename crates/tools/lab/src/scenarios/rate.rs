//! Connections that are opened, used once, and closed.

use crate::answering::{Answering, Exchange, Outcome, Task, boxed, everybody};
use crate::report::{Axis, Better, Metric, Point};
use crate::scenario::{Measured, Scenario, System};
use crate::world::Options;

pub(crate) struct Rate;

/// Connections at a time, and those of a look.
const POINTS: &[u64] = &[1, 16, 64, 256];
const QUICK: &[u64] = &[64];

impl Scenario for Rate {
    fn name(&self) -> &'static str {
        "rate"
    }

    fn title(&self) -> &'static str {
        "Connections per second"
    }

    fn about(&self) -> &'static str {
        "TCP: connect, one request of 64 bytes, its answer, and a reset by the client, which \
         leaves nothing in TIME-WAIT on either side; then \
         the next. So many at a time. The latency is that of request and answer."
    }

    fn axis(&self) -> Axis {
        Axis { label: "connections at a time".into(), unit: "connections".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main("connections_per_second", "connections", "connections/s", Better::Higher),
            Metric::main("server_cycles", "server busy", "cycles/connection", Better::Lower),
            Metric::beside("connect_p50_us", "median to connect", "us", Better::Lower),
            Metric::beside("connect_p99_us", "p99 to connect", "us", Better::Lower),
            Metric::told("failed", "failed", "connections", Better::Lower),
        ]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        points.iter().map(|&number| Point::number(number)).collect()
    }

    fn systems(&self, options: &Options) -> Vec<Box<dyn System>> {
        boxed(everybody(&Rate, options))
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

impl Task for Rate {
    fn exchange(&self, point: &Point) -> Exchange {
        let words = |text: &str| text.split(' ').map(str::to_string).collect();
        Exchange {
            connections: point.number,
            client: words("-l 64 --close-after 1 --reset"),
            server: words("-l 64"),
        }
    }

    fn keep(
        &self,
        _system: &Answering,
        _point: &Point,
        outcome: &Outcome,
        measured: &mut Measured,
    ) {
        let (client, server) = (&outcome.client, &outcome.server);
        // Each has one request, so as many were opened as were answered.
        measured.set("connections_per_second", client["requests_per_second"].as_f64());
        measured.set("server_cycles", server["per_request"]["cycles"].as_f64());
        measured.set("connect_p50_us", client["connect_us"]["p50"].as_f64());
        measured.set("connect_p99_us", client["connect_us"]["p99"].as_f64());
        let count = |key: &str| client[key].as_f64().unwrap_or(0.0);
        measured.set("failed", count("connect_failures") + count("connections_failed"));
    }
}
