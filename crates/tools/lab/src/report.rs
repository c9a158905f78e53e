//! What a run of a scenario leaves: everything that was noted and measured, as it stands in the
//! JSON file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::machine::Machine;
use crate::placement::{Group, Placement};
use crate::stats;

/// The number of this form. A file of another form is refused by name.
pub const FORMAT: u32 = 1;

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
    /// It only says how it was.
    Neither,
}

/// Something that is measured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Metric {
    /// Its name in the file.
    pub key: String,
    /// Its name for people.
    pub label: String,
    /// What one of it is.
    pub unit: String,
    /// Which way is better.
    pub better: Better,
    /// Has spread and ratio in the table, and counts for `--fail-below`.
    pub main: bool,
    /// Has a plot.
    pub plot: bool,
}

impl Metric {
    /// A metric of the table's front row, with a plot.
    pub(crate) fn main(key: &str, label: &str, unit: &str, better: Better) -> Metric {
        Metric {
            key: key.into(),
            label: label.into(),
            unit: unit.into(),
            better,
            main: true,
            plot: true,
        }
    }

    /// One that stands beside the others, with a plot.
    pub(crate) fn beside(key: &str, label: &str, unit: &str, better: Better) -> Metric {
        Metric { main: false, ..Metric::main(key, label, unit, better) }
    }

    /// One that is only told.
    pub(crate) fn told(key: &str, label: &str, unit: &str, better: Better) -> Metric {
        Metric { main: false, plot: false, ..Metric::main(key, label, unit, better) }
    }
}

/// What the points of a scenario are.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Axis {
    /// What the numbers are.
    pub label: String,
    /// What one of it is; empty for names.
    pub unit: String,
    /// Points are in an order, so that lines may join them.
    pub ordered: bool,
}

/// One setting at which every system is measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its name, which `--points` takes.
    pub key: String,
    /// What the scenario's programs are told; 0 for a name.
    pub number: u64,
}

impl Point {
    /// A point that is a number.
    pub(crate) fn number(number: u64) -> Point {
        Point { key: short(number), number }
    }

    /// A point that is a name.
    pub(crate) fn name(key: &str) -> Point {
        Point { key: key.into(), number: 0 }
    }
}

/// `1000` as `1k` and `1000000` as `1M`, where nothing is lost by it.
fn short(number: u64) -> String {
    match number {
        0 => "0".into(),
        n if n % 1_000_000_000 == 0 => format!("{}G", n / 1_000_000_000),
        n if n % 1_000_000 == 0 => format!("{}M", n / 1_000_000),
        n if n % 1_000 == 0 => format!("{}k", n / 1_000),
        n => n.to_string(),
    }
}

/// A system as the report knows it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct SystemNote {
    /// Its name, which `--systems` and `--reference` take.
    pub key: String,
    /// What it is: program, link, cores.
    pub about: String,
    /// It is Clearway, so `--fail-below` looks at it.
    pub ours: bool,
    /// It is the raw link, below which no system comes.
    pub floor: bool,
}

/// A system, or a point of it, that was not measured.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LeftOut {
    /// Which system.
    pub system: String,
    /// At which point; at none when this is absent.
    pub point: Option<String>,
    /// Why, and what to do about it.
    pub why: String,
}

/// A measurement that failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Failure {
    /// Which system.
    pub system: String,
    /// At which point.
    pub point: String,
    /// In which round, counted from 1.
    pub round: u32,
    /// What happened.
    pub error: String,
}

/// One measurement of one system at one point.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Sample {
    /// Which system.
    pub system: String,
    /// At which point.
    pub point: String,
    /// In which round, counted from 1.
    pub round: u32,
    /// Seconds after the run began.
    pub at_seconds: f64,
    /// What was measured, by the metric's name.
    pub values: BTreeMap<String, f64>,
    /// Core-to-core hand-off before and after.
    pub placement: Placement,
    /// Share of the two sides' processor time that the hypervisor gave to others meanwhile.
    pub steal: f64,
    /// Processes that wanted to run, on the average of the last minute.
    pub load: f64,
    /// What the programs complained about.
    pub warnings: Vec<String>,
}

/// All samples of one system at one point, for one metric.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Which system.
    pub system: String,
    /// At which point.
    pub point: String,
    /// Which metric.
    pub metric: String,
    /// How many rounds these figures are from.
    pub rounds: u32,
    /// The middle one.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// This system over the reference: the median over rounds of both, or the ratio of the medians
    /// where there is none.
    pub ratio: Option<f64>,
    /// This system over the raw link.
    pub of_floor: Option<f64>,
    /// No round lies in the group of the table: these are all rounds, whatever the cores did.
    pub shaky: bool,
    /// There is no round of both in the group of the table.
    pub shaky_ratios: bool,
}

/// A run of a scenario.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Its name.
    pub scenario: String,
    /// Its name for people.
    pub title: String,
    /// What is measured, and how.
    pub about: String,
    /// When it began, in UTC.
    pub started: String,
    /// How long it took.
    pub took_seconds: f64,
    /// Seconds of one measurement, and of what is done before it counts.
    pub seconds: f64,
    /// See `seconds`.
    pub warmup_seconds: f64,
    /// Rounds asked for.
    pub rounds: u32,
    /// A look, no measurement.
    pub quick: bool,
    /// It was stopped before its end.
    pub stopped: bool,
    /// The command line.
    pub command: Vec<String>,
    /// Where it ran.
    pub machine: Machine,
    /// Programs, and what they say of themselves.
    pub versions: BTreeMap<String, String>,
    /// The commit of the tree that the program lies in, with `-dirty` when files differ from it.
    pub commit: Option<String>,
    /// Cores of the server's side and of the client's.
    pub server_cores: Vec<usize>,
    /// See `server_cores`.
    pub client_cores: Vec<usize>,
    /// DPDK's memory was in huge pages.
    pub huge_pages: bool,
    /// What the points are.
    pub axis: Axis,
    /// What was measured.
    pub metrics: Vec<Metric>,
    /// At which points.
    pub points: Vec<Point>,
    /// Of which systems.
    pub systems: Vec<SystemNote>,
    /// What the others are compared with.
    pub reference: String,
    /// What was not measured.
    pub left_out: Vec<LeftOut>,
    /// What failed.
    pub failures: Vec<Failure>,
    /// Command lines of the programs that were started, by system.
    pub programs: BTreeMap<String, Vec<String>>,
    /// What was measured, one by one.
    pub samples: Vec<Sample>,
    /// Groups of core-to-core round trips, nearest first.
    pub groups: Vec<Group>,
    /// Which of them most samples lie in; the cells are from it.
    pub group: Option<usize>,
    /// What was measured, put together.
    pub cells: Vec<Cell>,
}

impl Report {
    /// The cell of a system at a point.
    pub fn cell(&self, system: &str, point: &str, metric: &str) -> Option<&Cell> {
        self.cells
            .iter()
            .find(|cell| cell.system == system && cell.point == point && cell.metric == metric)
    }

    /// Takes another system for the reference, and puts the samples together.
    pub fn compute(&mut self, reference: &str) {
        self.reference = reference.into();
        self.groups = crate::placement::groups(self.samples.iter().map(|sample| &sample.placement));
        // The nearest of several that are as large.
        let most = (0..self.groups.len()).rev().max_by_key(|&index| self.groups[index].count);
        self.group = most;
        self.cells = stats::cells(self, self.main_group());
    }

    /// The group that the cells are from; none when the cores' distance was not measured.
    pub fn main_group(&self) -> Option<Group> {
        self.group.and_then(|index| self.groups.get(index)).copied()
    }

    /// The groups that samples lie in beside the one of the cells, the nearest first.
    pub fn other_groups(&self) -> Vec<Group> {
        let others = self.groups.iter().enumerate().filter(|(index, _)| Some(*index) != self.group);
        others.map(|(_, group)| *group).collect()
    }

    /// How many samples the cores moved in.
    pub fn moved(&self) -> usize {
        self.samples.iter().filter(|sample| sample.placement.moved()).count()
    }

    /// The file's text.
    pub fn to_json(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }

    /// Reads a file's text.
    pub fn from_json(text: &str) -> anyhow::Result<Report> {
        let value: serde_json::Value = serde_json::from_str(text)?;
        match value["format"].as_u64() {
            Some(format) if format == u64::from(FORMAT) => Ok(serde_json::from_value(value)?),
            Some(format) => {
                anyhow::bail!(
                    "it has form {format}, and this program reads form {FORMAT}. Run the \
                     scenario again."
                )
            }
            None => anyhow::bail!(
                "it is no report of `clearway lab`. Name a file that it wrote, such as http.json."
            ),
        }
    }
}
