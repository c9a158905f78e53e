use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use anyhow::bail;

use super::{Watch, run};
use crate::need::{Facts, Need};
use crate::report::{Axis, Better, Metric, Point, Report, Sample, SystemNote};
use crate::scenario::{Measured, Scenario, System};
use crate::world::{Options, World};

type Calls = Arc<Mutex<Vec<String>>>;

/// A scenario without processes: it writes down who is measured when, and stops the run when it is
/// told to.
#[derive(Default)]
struct Trial {
    systems: Vec<&'static str>,
    calls: Calls,
    stop_after: Option<usize>,
}

struct Named {
    note: SystemNote,
    calls: Calls,
    stop_after: Option<usize>,
}

impl Scenario for Trial {
    fn name(&self) -> &'static str {
        "trial"
    }

    fn title(&self) -> &'static str {
        "A trial"
    }

    fn about(&self) -> &'static str {
        "Nothing is started."
    }

    fn axis(&self) -> Axis {
        Axis { label: "point".into(), unit: String::new(), ordered: true }
    }

    fn metrics(&self) -> Vec<Metric> {
        vec![Metric::main("rps", "requests", "requests/s", Better::Higher)]
    }

    fn points(&self, options: &Options) -> Vec<Point> {
        let points: &[u64] = if options.quick { &[1] } else { &[1, 2] };
        points.iter().map(|&number| Point::number(number)).collect()
    }

    fn systems(&self, _options: &Options) -> Vec<Box<dyn System>> {
        let system = |key: &&str| {
            let note = SystemNote {
                key: (*key).into(),
                about: String::new(),
                ours: *key == "ours",
                floor: false,
            };
            Box::new(Named { note, calls: Arc::clone(&self.calls), stop_after: self.stop_after })
                as Box<dyn System>
        };
        self.systems.iter().map(system).collect()
    }

    fn reference(&self) -> &'static str {
        "kernel"
    }

    fn enough(&self, _point: &Point, sample: &Sample) -> Option<&'static str> {
        (sample.system == "weak").then_some("it has had enough")
    }
}

impl System for Named {
    fn note(&self) -> &SystemNote {
        &self.note
    }

    fn needs(&self) -> Vec<Need> {
        if self.note.key == "absent" {
            vec![Need::Baseline("nothing-of-this-name")]
        } else {
            Vec::new()
        }
    }

    fn measure(&self, world: &World<'_>, point: &Point) -> anyhow::Result<Measured> {
        let mut calls = self.calls.lock().unwrap();
        calls.push(format!("{} {}", self.note.key, point.key));
        if self.stop_after == Some(calls.len()) {
            world.stop.store(true, Ordering::Relaxed);
            return Err(crate::Stopped.into());
        }
        if self.note.key == "broken" {
            bail!("it does not work");
        }
        let mut measured = Measured::default();
        measured.set("rps", 10.0 * point.number as f64);
        Ok(measured)
    }
}

#[derive(Default)]
struct Heard(Vec<String>);

impl Watch for Heard {
    fn begin(&mut self, _scenario: &dyn Scenario, steps: usize) {
        self.0.push(format!("{steps} measurements"));
    }

    fn step(&mut self, _done: usize, _next: &str, _left: Option<Duration>) {}

    fn say(&mut self, line: &str) {
        self.0.push(line.into());
    }

    fn end(&mut self) {
        self.0.push("end".into());
    }
}

fn options(rounds: u32) -> Options {
    Options {
        program: "/bin/true".into(),
        baselines: Some("/nowhere".into()),
        rounds,
        seconds: Duration::from_secs(1),
        warmup: Duration::ZERO,
        quick: false,
        // One core: there is no distance to be measured.
        server_cores: vec![0],
        client_cores: vec![0],
        huge_pages: false,
        servers: Vec::new(),
        systems: Vec::new(),
        points: Vec::new(),
        reference: None,
        command: Vec::new(),
    }
}

fn ran(trial: &Trial, options: &Options) -> (Report, Vec<String>, Vec<String>) {
    let (mut heard, stop) = (Heard::default(), AtomicBool::new(false));
    let report = run(trial, options, &Facts::for_tests("/nowhere"), &mut heard, &stop).unwrap();
    let calls = trial.calls.lock().unwrap().clone();
    (report, calls, heard.0)
}

fn trial(systems: &[&'static str]) -> Trial {
    Trial { systems: systems.to_vec(), ..Trial::default() }
}

#[test]
fn systems_are_measured_in_turn_and_each_round_begins_with_another() {
    let (report, calls, _) = ran(&trial(&["ours", "kernel"]), &options(2));
    let wanted =
        ["ours 1", "kernel 1", "ours 2", "kernel 2", "kernel 1", "ours 1", "kernel 2", "ours 2"];
    assert_eq!(calls, wanted);
    assert_eq!(report.cell("ours", "2", "rps").unwrap().rounds, 2);
    assert_eq!(report.cell("ours", "2", "rps").unwrap().ratio, Some(1.0));
    assert!(!report.stopped);
}

#[test]
fn what_fails_again_and_again_is_given_up_and_the_others_go_on() {
    let (report, calls, heard) = ran(&trial(&["ours", "broken"]), &options(3));
    assert_eq!(calls.iter().filter(|call| call.starts_with("broken")).count(), 3);
    assert_eq!(calls.iter().filter(|call| call.starts_with("ours")).count(), 6);
    assert_eq!(report.failures.len(), 3);
    assert!(
        heard.iter().any(|line| line.ends_with("it does not work; it is not tried any more")),
        "{heard:?}"
    );
}

#[test]
fn who_has_had_enough_is_asked_again_in_the_next_round() {
    let (report, calls, _) = ran(&trial(&["ours", "weak"]), &options(2));
    let weak: Vec<&String> = calls.iter().filter(|call| call.starts_with("weak")).collect();
    assert_eq!(weak, ["weak 1", "weak 1"]);
    // It is told once.
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(report.left_out[0].point.as_deref(), Some("2"));
}

#[test]
fn what_is_missing_is_left_out_and_the_ratios_are_to_somebody_else() {
    let (report, _, heard) = ran(&trial(&["ours", "absent", "other"]), &options(1));
    assert_eq!(report.systems.len(), 2);
    assert_eq!(report.reference, "other");
    assert!(
        heard.contains(&"kernel is not measured: ratios are to other".to_string()),
        "{heard:?}"
    );
    assert!(
        heard.contains(
            &"left out: absent: nothing-of-this-name is not built: make baselines".to_string()
        ),
        "{heard:?}"
    );
}

#[test]
fn a_run_that_is_stopped_keeps_what_it_has() {
    let stopping = Trial { stop_after: Some(3), ..trial(&["ours", "kernel"]) };
    let (report, calls, heard) = ran(&stopping, &options(2));
    assert_eq!((calls.len(), report.samples.len(), report.stopped), (3, 2, true));
    assert!(report.failures.is_empty() && heard.last().unwrap() == "end");
}

#[test]
fn points_that_are_named_are_measured_also_in_a_look() {
    let look = Options { quick: true, ..options(1) };
    assert_eq!(ran(&trial(&["kernel"]), &look).1, ["kernel 1"]);
    let named = Options { points: vec!["2".into()], ..look };
    assert_eq!(ran(&trial(&["kernel"]), &named).1, ["kernel 2"]);
}
