//! Reports for tests.

use std::collections::BTreeMap;

use crate::machine::Machine;
use crate::placement::Placement;
use crate::report::{Axis, Better, FORMAT, Metric, Point, Report, Sample, SystemNote};

/// A report of these systems at these points without a measurement, for the metrics `rps` and
/// `cycles`; one that is called `floor` is that.
pub(crate) fn blank(systems: &[&str], points: &[&str]) -> Report {
    let system = |key: &&str| SystemNote {
        key: (*key).into(),
        about: format!("{key}, as it is"),
        ours: key.starts_with("ours"),
        floor: *key == "floor",
    };
    let point = |key: &&str| Point { key: (*key).into(), number: key.parse().unwrap_or(0) };
    Report {
        format: FORMAT,
        scenario: "trial".into(),
        title: "A trial".into(),
        about: "What is measured, and how.".into(),
        started: "2026-01-02T03:04:05Z".into(),
        took_seconds: 75.0,
        seconds: 2.0,
        warmup_seconds: 0.3,
        rounds: 3,
        quick: false,
        stopped: false,
        command: ["clearway", "lab", "trial"].map(str::to_string).to_vec(),
        machine: Machine {
            kernel: "Linux 1.2.3".into(),
            cpu: "A processor".into(),
            cores: 2,
            memory_gib: 8.0,
            ..Machine::default()
        },
        versions: BTreeMap::from([
            ("clearway".into(), "clearway 0.1.0".into()),
            ("iperf3".into(), "3.12".into()),
        ]),
        commit: Some("0123456789ab".into()),
        server_cores: vec![0],
        client_cores: vec![1],
        huge_pages: false,
        axis: Axis { label: "connections".into(), unit: "connections".into(), ordered: true },
        metrics: vec![
            Metric::main("rps", "requests", "requests/s", Better::Higher),
            Metric::main("cycles", "cycles per request", "cycles", Better::Lower),
            Metric::told("busy", "busy", "share", Better::Neither),
        ],
        points: points.iter().map(point).collect(),
        systems: systems.iter().map(system).collect(),
        reference: String::new(),
        left_out: Vec::new(),
        failures: Vec::new(),
        programs: BTreeMap::new(),
        samples: Vec::new(),
        groups: Vec::new(),
        group: None,
        cells: Vec::new(),
    }
}

/// A measurement of `rps`.
pub(crate) fn sample(system: &str, point: &str, round: u32, rps: f64) -> Sample {
    Sample {
        system: system.into(),
        point: point.into(),
        round,
        at_seconds: f64::from(round),
        values: BTreeMap::from([("rps".into(), rps)]),
        placement: Placement::default(),
        steal: 0.0,
        load: 1.0,
        warnings: Vec::new(),
    }
}
