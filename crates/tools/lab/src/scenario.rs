//! What a scenario is. A new one is a file below `scenarios/` and a line in [`all`].

use std::collections::BTreeMap;

use serde_json::Value;

use crate::need::Need;
use crate::report::{Axis, Metric, Point, Sample, SystemNote};
use crate::scenarios;
use crate::world::{Options, World};

/// Systems that are measured at the same points in the same way.
pub trait Scenario: Sync {
    /// Its name, which the command takes.
    fn name(&self) -> &'static str;

    /// Its name for people.
    fn title(&self) -> &'static str;

    /// What is measured, and how.
    fn about(&self) -> &'static str;

    /// What the points are.
    fn axis(&self) -> Axis;

    /// What is measured.
    fn metrics(&self) -> Vec<Metric>;

    /// At which points; with [`Options::quick`] fewer.
    fn points(&self, options: &Options) -> Vec<Point>;

    /// Who is measured.
    fn systems(&self, options: &Options) -> Vec<Box<dyn System>>;

    /// What the others are compared with.
    fn reference(&self) -> &'static str;

    /// Whether a system that did this at a point needs no measurement at later points of the round,
    /// and why.
    fn enough(&self, _point: &Point, _sample: &Sample) -> Option<&'static str> {
        None
    }

    /// Works out what is known only when several points were measured.
    fn derive(&self, _samples: &mut [Sample]) {}
}

/// What one measurement brought.
#[derive(Default)]
pub struct Measured {
    /// By the metric's name.
    pub(crate) values: BTreeMap<String, f64>,
    /// What the programs complained about.
    pub(crate) warnings: Vec<String>,
    /// Their command lines.
    pub(crate) programs: Vec<String>,
}

impl Measured {
    /// Keeps a value that was measured.
    pub(crate) fn set(&mut self, key: &str, value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.values.insert(key.into(), value);
        }
    }

    /// Keeps what a summary in JSON warns of.
    pub(crate) fn warn(&mut self, summary: &Value) {
        let warnings = summary["warnings"].as_array().into_iter().flatten();
        self.warnings.extend(warnings.filter_map(Value::as_str).map(str::to_string));
    }
}

/// Something that is measured.
pub trait System {
    /// What the report says of it.
    fn note(&self) -> &SystemNote;

    /// What it needs.
    fn needs(&self) -> Vec<Need>;

    /// Why it is not measured at this point, if it is not.
    fn skip(&self, _world: &World<'_>, _point: &Point) -> Option<String> {
        None
    }

    /// Starts it, measures it, and ends it.
    fn measure(&self, world: &World<'_>, point: &Point) -> anyhow::Result<Measured>;
}

/// All scenarios, in the order in which `all` runs them.
pub fn all() -> &'static [&'static dyn Scenario] {
    &[
        &scenarios::pingpong::Pingpong,
        &scenarios::http::Http,
        &scenarios::rate::Rate,
        &scenarios::connections::Connections,
        &scenarios::latency::Latency,
        &scenarios::iperf3_loopback::Iperf3Loopback,
        &scenarios::iperf3_ethernet::Iperf3Ethernet,
        &scenarios::programs::PROGRAMS,
        &scenarios::programs::PROGRAMS_LOOPBACK,
        &scenarios::programs::PROGRAMS_MEMIF,
        &scenarios::udp_flood::UdpFlood,
        &scenarios::vhost::Vhost,
    ]
}

/// The scenario of this name.
pub fn find(name: &str) -> Option<&'static dyn Scenario> {
    all().iter().copied().find(|scenario| scenario.name() == name)
}

/// What any system of a scenario needs, each thing once.
pub fn needs(scenario: &dyn Scenario, options: &Options) -> Vec<Need> {
    let mut needs: Vec<Need> = Vec::new();
    for need in scenario.systems(options).iter().flat_map(|system| system.needs()) {
        if !needs.contains(&need) {
            needs.push(need);
        }
    }
    needs
}
