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

/// All samples put together. Where a group is named and a cell has samples in it, the others are
/// left out; a cell that has none shows what there is, and says so.
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
        let ratio = over(report, &cells, &cells[index], &report.reference, group);
        let of_floor =
            floor.as_ref().and_then(|floor| over(report, &cells, &cells[index], floor, group));
        let cell = &mut cells[index];
        cell.shaky_ratios = [ratio, of_floor].iter().flatten().any(|(_, shaky)| *shaky);
        (cell.ratio, cell.of_floor) =
            (ratio.map(|(ratio, _)| ratio), of_floor.map(|(ratio, _)| ratio));
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
    report
        .samples
        .iter()
        .filter(mine)
        .filter_map(move |sample| Some((sample, *sample.values.get(metric)?)))
}

fn cell(
    report: &Report,
    (system, point, metric): (&str, &str, &Metric),
    group: Option<Group>,
) -> Option<Cell> {
    let all: Vec<(&Sample, f64)> = of(report, system, point, &metric.key).collect();
    let inside = |sample: &Sample| group.is_none_or(|group| group.holds(&sample.placement));
    let good: Vec<f64> =
        all.iter().filter(|(sample, _)| inside(sample)).map(|(_, value)| *value).collect();
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
        shaky_ratios: false,
    })
}

/// A cell over the same cell of another system, and whether that is shaky.
///
/// It is made round by round, since what disturbs a round disturbs both: in the rounds in which
/// both were measured in the group of the table. Without such a round those count in which both
/// were in one other group, and without those the medians; either is shaky.
fn over(
    report: &Report,
    cells: &[Cell],
    cell: &Cell,
    other: &str,
    group: Option<Group>,
) -> Option<(f64, bool)> {
    let theirs = cells
        .iter()
        .find(|c| c.system == other && c.point == cell.point && c.metric == cell.metric)?;
    let group_of =
        |sample: &Sample| report.groups.iter().position(|group| group.holds(&sample.placement));
    let (mut inside, mut elsewhere) = (Vec::new(), Vec::new());
    for (sample, value) in of(report, &cell.system, &cell.point, &cell.metric) {
        let same = |o: &Sample| {
            o.round == sample.round && group_of(o) == group_of(sample) && !o.placement.moved()
        };
        let found = of(report, other, &cell.point, &cell.metric)
            .find(|(o, number)| same(o) && *number != 0.0);
        let Some((_, number)) = found.filter(|_| !sample.placement.moved()) else { continue };
        let here = group.is_none_or(|group| group.holds(&sample.placement));
        if here { &mut inside } else { &mut elsewhere }.push(value / number);
    }
    let medians = || (theirs.median != 0.0).then(|| cell.median / theirs.median);
    let shaky = |ratio| (ratio, true);
    median(&inside)
        .map(|ratio| (ratio, false))
        .or_else(|| median(&elsewhere).or_else(medians).map(shaky))
}

#[cfg(test)]
mod tests;
