//! Two reports of one scenario beside each other.

use std::fmt::Write as _;

use anyhow::bail;
use serde::Serialize;

use crate::numbers::{measured, ratio};
use crate::report::{Better, Metric, Report};
use crate::text::Grid;

/// One cell that both have.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Row {
    /// At which point.
    pub point: String,
    /// Which system.
    pub system: String,
    /// Which metric.
    pub metric: String,
    /// The median before.
    pub before: f64,
    /// The median after.
    pub after: f64,
    /// After over before.
    pub ratio: f64,
    /// The same of both ratios to the reference, when both reports have the same one: what the
    /// machine did differently is left out.
    pub relative: Option<f64>,
    /// How much better: above 1 for better, below for worse; none for what has no better.
    pub gain: Option<f64>,
    /// The gain of the ratios to the reference.
    pub relative_gain: Option<f64>,
    /// It is Clearway's, and one of the main metrics.
    pub counts: bool,
}

/// What differs, and by how much.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Comparison {
    /// Which scenario.
    pub scenario: String,
    /// What both have been compared with.
    pub reference: Option<String>,
    /// What else differs between the two runs, in sentences.
    pub differences: Vec<String>,
    /// What both have measured.
    pub rows: Vec<Row>,
}

/// Compares two runs of one scenario.
pub fn compare(before: &Report, after: &Report) -> anyhow::Result<Comparison> {
    if before.scenario != after.scenario {
        bail!(
            "the first is of {}, and the second of {}: name two of the same scenario.",
            before.scenario,
            after.scenario
        );
    }
    let reference = (before.reference == after.reference).then(|| before.reference.clone());
    let mut rows = Vec::new();
    for old in &before.cells {
        let Some(new) = after.cell(&old.system, &old.point, &old.metric) else { continue };
        let Some(metric) = metric(before, &old.metric) else { continue };
        if old.median == 0.0 {
            continue;
        }
        let ratio = new.median / old.median;
        let relative = reference.as_ref().filter(|reference| **reference != old.system);
        let relative =
            relative.and_then(|_| Some(new.ratio? / old.ratio.filter(|ratio| *ratio != 0.0)?));
        let gain = |ratio: f64| match metric.better {
            Better::Higher => Some(ratio),
            Better::Lower => (ratio != 0.0).then(|| 1.0 / ratio),
            Better::Neither => None,
        };
        let ours = before.systems.iter().any(|system| system.key == old.system && system.ours);
        rows.push(Row {
            point: old.point.clone(),
            system: old.system.clone(),
            metric: old.metric.clone(),
            before: old.median,
            after: new.median,
            ratio,
            relative,
            gain: gain(ratio),
            relative_gain: relative.and_then(gain),
            counts: ours && metric.main,
        });
    }
    if rows.is_empty() {
        bail!(
            "the two have no system and point in common: compare two runs with the same --systems \
             and --points."
        );
    }
    Ok(Comparison {
        scenario: before.scenario.clone(),
        reference,
        differences: differences(before, after),
        rows,
    })
}

fn metric<'a>(report: &'a Report, key: &str) -> Option<&'a Metric> {
    report.metrics.iter().find(|metric| metric.key == key)
}

fn differences(before: &Report, after: &Report) -> Vec<String> {
    let mut found = Vec::new();
    let mut note = |what: &str, a: String, b: String| {
        if a != b {
            found.push(format!("{what}: {a} → {b}"));
        }
    };
    let unknown = || "unknown".to_string();
    note(
        "commit",
        before.commit.clone().unwrap_or_else(unknown),
        after.commit.clone().unwrap_or_else(unknown),
    );
    let (old, new) = (&before.machine, &after.machine);
    note("processor", old.cpu.clone(), new.cpu.clone());
    note("kernel", old.kernel.clone(), new.kernel.clone());
    note("cores of the machine", old.cores.to_string(), new.cores.to_string());
    note("memory in GiB", old.memory_gib.to_string(), new.memory_gib.to_string());
    let cores = |report: &Report| {
        format!(
            "{}/{}",
            crate::process::list(&report.server_cores),
            crate::process::list(&report.client_cores)
        )
    };
    note("cores used", cores(before), cores(after));
    note("huge pages", before.huge_pages.to_string(), after.huge_pages.to_string());
    note("seconds", before.seconds.to_string(), after.seconds.to_string());
    note("rounds", before.rounds.to_string(), after.rounds.to_string());
    note("reference", before.reference.clone(), after.reference.clone());
    let (near, far) = (before.main_group(), after.main_group());
    if let Some((near, far)) = near.zip(far).filter(|(a, b)| !a.like(b)) {
        note("core-to-core round trip", near.name(), far.name());
    }
    for (name, version) in &before.versions {
        if let Some(other) = after.versions.get(name) {
            note(name, version.clone(), other.clone());
        }
    }
    found
}

impl Comparison {
    /// Cells of Clearway that became worse than this: `0.9` is a tenth less. With `relative`, by
    /// their ratios to the reference.
    pub fn below(&self, least: f64, relative: bool) -> Vec<&Row> {
        let gain = |row: &&Row| if relative { row.relative_gain } else { row.gain };
        self.rows
            .iter()
            .filter(|row| row.counts && gain(row).is_some_and(|gain| gain < least))
            .collect()
    }

    /// For a terminal.
    pub fn table(&self, before: &Report) -> String {
        let mut text = format!("== {}: before and after\n", before.title);
        if self.differences.is_empty() {
            text += "same machine, commit, programs and settings\n";
        }
        for difference in &self.differences {
            let _ = writeln!(text, "differs: {difference}");
        }
        text.push('\n');
        let mut grid = Grid::new(3);
        let relative = self
            .reference
            .as_ref()
            .map_or_else(|| "relative".into(), |name| format!("relative to {name}"));
        let words =
            [&before.axis.label, "system", "metric", "before", "after", "ratio", &relative, ""];
        grid.row(words.map(str::to_string).to_vec());
        for row in &self.rows {
            let Some(metric) = metric(before, &row.metric) else { continue };
            let verdict = match row.relative_gain.or(row.gain) {
                Some(gain) if gain >= 1.05 => "better",
                Some(gain) if gain <= 0.95 => "worse",
                _ => "",
            };
            let none = || "–".to_string();
            grid.row(vec![
                row.point.clone(),
                row.system.clone(),
                format!("{} ({})", metric.label, metric.unit),
                measured(row.before, &metric.unit),
                measured(row.after, &metric.unit),
                ratio(row.ratio),
                row.relative.map_or_else(none, ratio),
                verdict.into(),
            ]);
        }
        text + &grid.text()
    }
}

#[cfg(test)]
mod tests;
