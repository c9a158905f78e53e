//! A report as a table for a terminal.

use std::fmt::Write as _;

use crate::numbers::{measured, ratio, span};
use crate::report::{Cell, Metric, Report};
use crate::runner::left_out_line;
use crate::stats;

/// Marks a figure from rounds that lie in several groups, or in which the cores moved.
const SHAKY: &str = "~";

/// A table whose columns are as wide as what is in them: the first to the left, the others to the
/// right unless told.
pub(crate) struct Grid {
    rows: Vec<Vec<String>>,
    left: usize,
}

impl Grid {
    /// `left` columns stand to the left.
    pub(crate) fn new(left: usize) -> Grid {
        Grid { rows: Vec::new(), left }
    }

    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    pub(crate) fn text(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let of = |row: &Vec<String>| row.get(column).map_or(0, |cell| cell.chars().count());
            self.rows.iter().map(of).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (index, cell) in row.iter().enumerate() {
                let gap = if index > 0 { "  " } else { "" };
                let width = widths[index];
                let _ = if index < self.left {
                    write!(line, "{gap}{cell:<width$}")
                } else {
                    write!(line, "{gap}{cell:>width$}")
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Everything that is worth a look on a terminal.
pub fn table(report: &Report) -> String {
    let mut text = format!("== {}\n{}\n\n", report.title, wrapped(&report.about));
    text += &head(report);
    text += &rows(report, &report.cells);
    for group in report.other_groups() {
        let _ = writeln!(text, "\nrounds with a core-to-core round trip {}:", group.name());
        text += &rows(report, &stats::cells_of_group(report, group));
    }
    text + &foot(report)
}

/// Lines of at most 120 characters.
fn wrapped(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) if line.chars().count() + 1 + word.chars().count() <= 120 => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.into()),
        }
    }
    lines.join("\n")
}

/// What was measured where, a line each.
pub(crate) fn facts(report: &Report) -> Vec<(&'static str, String)> {
    let list = |cores: &[usize]| crate::process::list(cores);
    let memory = if report.huge_pages { "huge pages" } else { "no huge pages" };
    let versions: Vec<String> =
        report.versions.iter().map(|(name, said)| versioned(name, said)).collect();
    let quick = if report.quick { ", quick" } else { "" };
    let mut facts = vec![
        ("machine", report.machine.line()),
        ("programs", versions.join("; ")),
        ("commit", report.commit.clone().unwrap_or_else(|| "unknown".into())),
        (
            "cores",
            format!(
                "server {}, client {}; DPDK with {memory}",
                list(&report.server_cores),
                list(&report.client_cores)
            ),
        ),
        (
            "rounds",
            format!(
                "{} of {} s after {} s{quick}, systems in turn; {}, took {}",
                report.rounds,
                report.seconds,
                report.warmup_seconds,
                report.started,
                span(report.took_seconds)
            ),
        ),
        ("core to core", placement(report)),
    ];
    if report.stopped {
        facts
            .push(("stopped", "before its end: there are fewer rounds than were asked for".into()));
    }
    facts
}

/// A program, which may or may not begin by naming itself.
fn versioned(name: &str, said: &str) -> String {
    if said.to_lowercase().starts_with(&name.to_lowercase()) {
        said.into()
    } else {
        format!("{name} {said}")
    }
}

fn placement(report: &Report) -> String {
    let trips: Vec<f64> = report
        .samples
        .iter()
        .flat_map(|s| [s.placement.before_ns, s.placement.after_ns])
        .flatten()
        .collect();
    let Some(median) = stats::median(&trips) else {
        return "not measured".into();
    };
    let (least, most) =
        trips.iter().fold((f64::INFINITY, 0.0_f64), |(a, b), &ns| (a.min(ns), b.max(ns)));
    let mut groups: Vec<String> = report
        .groups
        .iter()
        .map(|group| format!("{} with one {}", group.count, group.name()))
        .collect();
    if report.moved() > 0 {
        groups.push(format!("{} in which it moved", report.moved()));
    }
    let all = report.samples.len();
    format!(
        "round trip {median:.0} ns ({least:.0}…{most:.0}); of {all} measurements {}",
        groups.join(", ")
    )
}

fn head(report: &Report) -> String {
    let mut grid = Grid::new(2);
    for (name, value) in facts(report) {
        grid.row(vec![format!("{name}:"), value]);
    }
    let mut text = grid.text();
    text += &format!("\nmedian (min…max) and ratio to {}", report.reference);
    if let Some(group) = report.main_group() {
        let _ = write!(text, "; rounds with a core-to-core round trip {}", group.name());
    }
    text + "\n"
}

fn rows(report: &Report, cells: &[Cell]) -> String {
    // A column that nobody filled says nothing.
    let filled = |metric: &&Metric| cells.iter().any(|cell| cell.metric == metric.key);
    let metrics: Vec<&Metric> = report.metrics.iter().filter(filled).collect();
    let floor = |metric: &Metric| {
        cells.iter().any(|cell| cell.metric == metric.key && cell.of_floor.is_some())
    };
    let mut grid = Grid::new(2);
    let mut labels = vec![report.axis.label.clone(), "system".into()];
    let mut units = vec![report.axis.unit.clone(), String::new()];
    for metric in &metrics {
        labels.push(metric.label.clone());
        units.push(metric.unit.clone());
        if metric.main {
            for (name, unit) in [("min…max", ""), ("ratio", "")] {
                labels.push(name.into());
                units.push(unit.into());
            }
            if floor(metric) {
                labels.push("of floor".into());
                units.push(String::new());
            }
        }
    }
    grid.row(labels);
    grid.row(units);
    for point in &report.points {
        let mut first = true;
        for system in &report.systems {
            let find = |metric: &Metric| {
                cells.iter().find(|c| {
                    c.system == system.key && c.point == point.key && c.metric == metric.key
                })
            };
            if !metrics.iter().any(|metric| find(metric).is_some()) {
                continue;
            }
            let name = if std::mem::take(&mut first) { point.key.clone() } else { String::new() };
            let mut row = vec![name, system.key.clone()];
            for metric in &metrics {
                row.extend(columns(metric, find(metric), floor(metric)));
            }
            grid.row(row);
        }
    }
    grid.text()
}

fn columns(metric: &Metric, cell: Option<&Cell>, floor: bool) -> Vec<String> {
    let none = || "–".to_string();
    let unit = &metric.unit;
    let mark = |cell: &Cell| if cell.shaky { SHAKY } else { "" };
    let mut columns =
        vec![cell.map_or_else(none, |cell| mark(cell).to_string() + &measured(cell.median, unit))];
    if metric.main {
        columns.push(cell.map_or_else(none, |cell| {
            format!("({}…{})", measured(cell.min, unit), measured(cell.max, unit))
        }));
        let mark = if cell.is_some_and(|cell| cell.shaky_ratios) { SHAKY } else { "" };
        let marked = |by: f64| mark.to_string() + &ratio(by);
        columns.push(cell.and_then(|cell| cell.ratio).map_or_else(none, marked));
        if floor {
            columns.push(cell.and_then(|cell| cell.of_floor).map_or_else(none, marked));
        }
    }
    columns
}

fn foot(report: &Report) -> String {
    let mut text = String::new();
    if report.cells.iter().any(|cell| cell.shaky || cell.shaky_ratios) {
        let _ = writeln!(
            text,
            "{SHAKY} no round (of both) in that group: these are all rounds, whatever the cores did"
        );
    }
    for left in &report.left_out {
        let _ = writeln!(text, "{}", left_out_line(left));
    }
    for failure in &report.failures {
        let _ = writeln!(
            text,
            "failed: {} at {}, round {}: {}",
            failure.system, failure.point, failure.round, failure.error
        );
    }
    for (warning, count) in warnings(report) {
        let _ = writeln!(text, "warning: {warning} ({count})");
    }
    if report.samples.iter().any(|sample| sample.load > report.machine.cores as f64 + 1.0) {
        let _ = writeln!(
            text,
            "warning: more programs wanted to run than there are cores; measure again when the \
             machine is quiet"
        );
    }
    text
}

/// What the programs complained about, and how often; figures in a complaint make it no other one.
pub(crate) fn warnings(report: &Report) -> Vec<(String, usize)> {
    let mut found: Vec<(String, String, usize)> = Vec::new();
    for sample in &report.samples {
        for warning in &sample.warnings {
            let text = format!("{}: {warning}", sample.system);
            let form: String = text.chars().filter(|c| !c.is_ascii_digit() && *c != ',').collect();
            match found.iter_mut().find(|(known, _, _)| *known == form) {
                Some((_, _, count)) => *count += 1,
                None => found.push((form, text, 1)),
            }
        }
    }
    let times = |count: usize| if count == 1 { String::new() } else { " and the like".into() };
    found.into_iter().map(|(_, text, count)| (text + &times(count), count)).collect()
}

#[cfg(test)]
mod tests;
