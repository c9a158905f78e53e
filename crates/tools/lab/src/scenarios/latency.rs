//! Percentiles of latency against the load that is offered.

use crate::answering::{Answering, Exchange, Outcome, Task, boxed, everybody};
use crate::report::{Axis, Better, Metric, Point, Sample};
use crate::scenario::{Measured, Scenario, System};
use crate::world::Options;

pub(crate) struct Latency;

/// Requests per second that are offered, and those of a look.
const POINTS: &[u64] = &[10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];
const QUICK: &[u64] = &[10_000];

/// Who answers a smaller share than this of what is offered is beyond its limit.
const SHORT: f64 = 0.8;

impl Scenario for Latency {
    fn name(&self) -> &'static str {
        "latency"
    }

    fn title(&self) -> &'static str {
        "Latency against offered load"
    }

    fn about(&self) -> &'static str {
        "TCP, requests and answers of 64 bytes on 64 connections in an open loop: the n-th request \
         is due at n/rate, and its latency counts \
         from then, whatever became of those before. Where fewer were answered than offered, the \
         system is beyond its limit, and latency \
         says how long the run was; it is offered no more in that round."
    }

    fn axis(&self) -> Axis {
        Axis { label: "offered load".into(), unit: "requests/s".into(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![
            Metric::main("p50_us", "median latency", "us", Better::Lower),
            Metric::main("p99_us", "p99 latency", "us", Better::Lower),
            Metric::beside("p999_us", "p99.9 latency", "us", Better::Lower),
            Metric::told("max_us", "highest latency", "us", Better::Lower),
            Metric::told("requests_per_second", "answered", "requests/s", Better::Higher),
        ]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points = if options.quick { QUICK } else { POINTS };
        points.iter().map(|&number| Point::number(number)).collect()
    }

    fn systems(&self, options: &Options) -> Vec<Box<dyn System>> {
        boxed(everybody(&Latency, options))
    }

    fn enough(&self, point: &Point, sample: &Sample) -> Option<&'static str> {
        let answered = sample.values.get("requests_per_second").copied().unwrap_or(0.0);
        (answered < SHORT * point.number as f64)
            .then_some("it fell short of a lower load in the same round")
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }
}

impl Task for Latency {
    fn exchange(&self, point: &Point) -> Exchange {
        let words = |text: &str| text.split(' ').map(str::to_string).collect();
        Exchange {
            connections: 64,
            client: words(&format!("-l 64 -r {}", point.number)),
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
        let latency = &outcome.client["latency_us"];
        for (key, name) in
            [("p50_us", "p50"), ("p99_us", "p99"), ("p999_us", "p99.9"), ("max_us", "max")]
        {
            measured.set(key, latency[name].as_f64());
        }
    }
}
