//! Medians, spread and ratios of samples.

use crate::placement::Group;
use crate::report::{Cell, Metric, Report, Sample};

/// The middle of some numbers, or of the two in the middle.
pub fn median(numbers: &[f64]) -> Option<f64> {
    let mut sorted = numbers.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

/// All samples put together. Where a group is named and a cell has samples in it, the others are left out; a cell that has none shows what
/// there is, and says so.
pub(crate) fn cells(report: &Report, group: Option<Group>) -> Vec<Cell> {
    let mut cells = Vec::new();
    for point in &report.points {
        for system in &report.systems {
            for metric in &report.metrics {
                cells.extend(cell(report, (&system.key, &point.key, metric), group));
            }
        }
    }
    let floor = report.systems.iter().find(|system| system.floor).map(|system| system.key.clone());
    for index in 0..cells.len() {
        let ratio = over(report, &cells, &cells[index], &report.reference);
        let of_floor = floor.as_ref().and_then(|floor| over(report, &cells, &cells[index], floor));
        (cells[index].ratio, cells[index].of_floor) = (ratio, of_floor);
    }
    cells
}

/// The cells of one group only; those without samples in it are absent.
pub(crate) fn cells_of_group(report: &Report, group: Group) -> Vec<Cell> {
    let mut only = report.clone();
    only.samples.retain(|sample| group.holds(&sample.placement));
    cells(&only, Some(group))
}

fn of<'a>(
    report: &'a Report,
    system: &'a str,
    point: &'a str,
    metric: &'a str,
) -> impl Iterator<Item = (&'a Sample, f64)> {
    let mine = move |sample: &&Sample| sample.system == system && sample.point == point;
    report.samples.iter().filter(mine).filter_map(move |sample| Some((sample, *sample.values.get(metric)?)))
}

fn cell(report: &Report, (system, point, metric): (&str, &str, &Metric), group: Option<Group>) -> Option<Cell> {
    let all: Vec<(&Sample, f64)> = of(report, system, point, &metric.key).collect();
    let inside = |sample: &Sample| group.is_none_or(|group| group.holds(&sample.placement));
    let good: Vec<f64> = all.iter().filter(|(sample, _)| inside(sample)).map(|(_, value)| *value).collect();
    let shaky = good.is_empty();
    let values = if shaky { all.iter().map(|(_, value)| *value).collect() } else { good };
    Some(Cell {
        system: system.into(),
        point: point.into(),
        metric: metric.key.clone(),
        rounds: values.len() as u32,
        median: median(&values)?,
        min: values.iter().copied().fold(f64::INFINITY, f64::min),
        max: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        ratio: None,
        of_floor: None,
        shaky,
    })
}

/// A cell over the same cell of another system: round by round where both were measured in the same group, since what disturbs one
/// round disturbs both; by the medians where there is no such round.
fn over(report: &Report, cells: &[Cell], cell: &Cell, other: &str) -> Option<f64> {
    let theirs = cells.iter().find(|c| c.system == other && c.point == cell.point && c.metric == cell.metric)?;
    let group = |sample: &Sample| report.groups.iter().position(|group| group.holds(&sample.placement));
    let mut pairs = Vec::new();
    for (sample, value) in of(report, &cell.system, &cell.point, &cell.metric) {
        let mut matching = of(report, other, &cell.point, &cell.metric)
            .filter(|(o, _)| o.round == sample.round && group(o) == group(sample));
        let settled = !sample.placement.moved();
        pairs.extend(matching.next().filter(|(_, other)| settled && *other != 0.0).map(|(_, other)| value / other));
    }
    median(&pairs).or_else(|| (theirs.median != 0.0).then(|| cell.median / theirs.median))
}

#[cfg(test)]
mod tests;
