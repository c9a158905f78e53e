use super::compare;
use crate::report::Report;
use crate::testing::{blank, sample};

fn report(ours: f64, kernel: f64, cycles: f64) -> Report {
    let mut report = blank(&["ours", "kernel"], &["64"]);
    for (system, rps) in [("ours", ours), ("kernel", kernel)] {
        let mut sample = sample(system, "64", 1, rps);
        sample.values.insert("cycles".into(), cycles);
        sample.values.insert("busy".into(), 0.5);
        report.samples.push(sample);
    }
    report.compute("kernel");
    report
}

#[test]
fn ratios_say_which_way_it_went() {
    let comparison =
        compare(&report(1_000.0, 100.0, 500.0), &report(900.0, 50.0, 1_000.0)).unwrap();
    let row = |metric: &str| {
        comparison.rows.iter().find(|row| row.system == "ours" && row.metric == metric).unwrap()
    };
    let rps = row("rps");
    assert_eq!((rps.before, rps.after, rps.ratio, rps.gain), (1_000.0, 900.0, 0.9, Some(0.9)));
    // The machine was half as fast, so this is better by its ratio to the kernel: 18 instead of 10.
    assert!((rps.relative.unwrap() - 1.8).abs() < 1e-9);
    let cycles = row("cycles");
    assert_eq!((cycles.ratio, cycles.gain, cycles.relative_gain), (2.0, Some(0.5), Some(1.0)));
    assert_eq!(row("busy").gain, None);
    assert!(comparison.differences.is_empty());
}

#[test]
fn only_what_is_ours_and_main_can_fail() {
    let comparison = compare(&report(1_000.0, 100.0, 500.0), &report(900.0, 50.0, 500.0)).unwrap();
    let names = |least, relative| {
        comparison.below(least, relative).iter().map(|row| row.metric.clone()).collect::<Vec<_>>()
    };
    assert_eq!(names(0.95, false), ["rps"]);
    assert_eq!(names(0.9, false), [""; 0]);
    assert_eq!(names(0.95, true), [""; 0]);
}

#[test]
fn what_else_differs_is_said() {
    let (before, mut after) = (report(1.0, 1.0, 1.0), report(1.0, 1.0, 1.0));
    after.commit = Some("fedcba987654".into());
    after.machine.cpu = "Another processor".into();
    after.server_cores = vec![0, 2];
    let comparison = compare(&before, &after).unwrap();
    let wanted = [
        "commit: 0123456789ab → fedcba987654",
        "processor: A processor → Another processor",
        "cores used: 0/1 → 0,2/1",
    ];
    assert_eq!(comparison.differences, wanted);
}

#[test]
fn what_has_nothing_in_common_is_refused() {
    let (before, mut after) = (report(1.0, 1.0, 1.0), report(1.0, 1.0, 1.0));
    after.scenario = "other".into();
    assert!(
        compare(&before, &after).unwrap_err().to_string().contains("name two of the same scenario")
    );
    assert!(
        compare(&before, &blank(&["ours"], &["64"])).unwrap_err().to_string().contains("in common")
    );
}

#[test]
fn a_file_of_another_form_is_refused_by_name() {
    let report = report(1.0, 2.0, 3.0);
    let text = report.to_json().unwrap();
    assert_eq!(Report::from_json(&text).unwrap(), report);
    let newer = text.replacen("\"format\": 1", "\"format\": 99", 1);
    assert!(Report::from_json(&newer).unwrap_err().to_string().contains("form 99"));
    assert!(Report::from_json("{}").unwrap_err().to_string().contains("no report"));
}
