use crate::placement::Placement;
use crate::report::{Report, Sample};
use crate::testing::{blank, sample};

fn at(mut sample: Sample, before: f64, after: f64) -> Sample {
    sample.placement = Placement { before_ns: Some(before), after_ns: Some(after) };
    sample
}

fn report(samples: Vec<Sample>) -> Report {
    let mut report = blank(&["ours", "kernel", "floor"], &["1", "64"]);
    report.samples = samples;
    report.compute("kernel");
    report
}

#[test]
fn the_middle_is_that_of_the_sorted_list() {
    let median = super::median;
    assert_eq!(median(&[]), None);
    assert_eq!(median(&[3.0]), Some(3.0));
    assert_eq!(median(&[9.0, 1.0, 2.0]), Some(2.0));
    assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), Some(3.0));
}

#[test]
fn a_cell_has_median_and_spread_of_its_rounds() {
    let rounds = [(1, 30.0), (2, 10.0), (3, 20.0)];
    let report = report(rounds.map(|(round, rps)| sample("ours", "64", round, rps)).to_vec());
    let cell = report.cell("ours", "64", "rps").unwrap();
    assert_eq!(
        (cell.rounds, cell.median, cell.min, cell.max, cell.shaky),
        (3, 20.0, 10.0, 30.0, false)
    );
    assert_eq!(cell.ratio, None);
    assert!(report.cell("ours", "1", "rps").is_none());
}

#[test]
fn ratios_are_made_within_a_round() {
    // The machine became slower from round to round; who is how much faster did not change.
    let mut samples = Vec::new();
    for (round, speed) in [(1, 1.0), (2, 0.5), (3, 0.1)] {
        for (system, rps) in [("ours", 800.0), ("kernel", 100.0), ("floor", 1_600.0)] {
            samples.push(at(sample(system, "64", round, rps * speed), 100.0, 100.0));
        }
    }
    // One of ours is missing where the kernel was fastest.
    samples.remove(0);
    let report = report(samples);
    let cell = report.cell("ours", "64", "rps").unwrap();
    assert!(
        (cell.ratio.unwrap() - 8.0).abs() < 1e-9 && (cell.of_floor.unwrap() - 0.5).abs() < 1e-9,
        "{cell:?}"
    );
}

#[test]
fn rounds_in_another_group_or_on_cores_that_moved_do_not_count() {
    let samples = vec![
        at(sample("ours", "64", 1, 100.0), 110.0, 120.0),
        at(sample("ours", "64", 2, 900.0), 1_000.0, 1_100.0),
        at(sample("ours", "64", 3, 700.0), 110.0, 1_100.0),
        at(sample("ours", "64", 4, 102.0), 130.0, 120.0),
        at(sample("ours", "1", 1, 10.0), 1_000.0, 1_100.0),
    ];
    let report = report(samples);
    assert_eq!(report.main_group().unwrap().name(), "of 115 to 125 ns");
    assert_eq!(report.moved(), 1);
    let others = report.other_groups();
    assert_eq!((others.len(), others[0].count), (1, 2));
    let cell = report.cell("ours", "64", "rps").unwrap();
    assert_eq!((cell.rounds, cell.median, cell.max, cell.shaky), (2, 101.0, 102.0, false));
    // What was never measured in that group is shown all the same, and says so.
    let cell = report.cell("ours", "1", "rps").unwrap();
    assert_eq!((cell.rounds, cell.median, cell.shaky), (1, 10.0, true));
    let others = super::cells_of_group(&report, others[0]);
    let far: Vec<(&str, f64)> =
        others.iter().map(|cell| (cell.point.as_str(), cell.median)).collect();
    assert_eq!(far, [("1", 10.0), ("64", 900.0)]);
}

#[test]
fn on_one_core_all_rounds_count() {
    let report = report(vec![sample("ours", "1", 1, 5.0), sample("kernel", "1", 1, 10.0)]);
    assert_eq!(report.group, None);
    let cell = report.cell("ours", "1", "rps").unwrap();
    assert_eq!((cell.ratio, cell.shaky), (Some(0.5), false));
}

#[test]
fn ratios_are_of_rounds_in_the_tables_group_and_marked_where_there_are_none() {
    let mut samples = Vec::new();
    // The kernel suffers more than we do when the cores are far.
    for (round, ns, ours, kernel) in
        [(1, 100.0, 80.0, 10.0), (2, 100.0, 84.0, 10.0), (3, 900.0, 60.0, 2.0)]
    {
        samples.push(at(sample("ours", "64", round, ours), ns, ns));
        samples.push(at(sample("kernel", "64", round, kernel), ns, ns));
    }
    samples.push(at(sample("ours", "1", 1, 40.0), 100.0, 100.0));
    samples.push(at(sample("kernel", "1", 1, 4.0), 900.0, 900.0));
    let report = report(samples);
    let cell = report.cell("ours", "64", "rps").unwrap();
    assert!((cell.ratio.unwrap() - 8.2).abs() < 1e-9 && !cell.shaky_ratios, "{cell:?}");
    let cell = report.cell("ours", "1", "rps").unwrap();
    assert_eq!((cell.ratio, cell.shaky, cell.shaky_ratios), (Some(10.0), false, true));
}
