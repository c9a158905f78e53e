use std::path::Path;

use anyhow::bail;

use super::{Options, Outcome, Ran, Step, chosen, gates};
use crate::tally::Tally;

const HOLDS: Step =
    Step { name: "holds", what: "holds", run: |_| Ok(Outcome::Holds(String::new())) };
const REFUSES: Step = Step {
    name: "refuses",
    what: "refuses",
    run: |_| Ok(Outcome::Refused("2 findings".to_owned())),
};
const ABSENT: Step =
    Step { name: "absent", what: "absent", run: |_| Ok(Outcome::Absent("not here".to_owned())) };
const BREAKS: Step = Step { name: "breaks", what: "breaks", run: |_| bail!("cannot start") };
const TESTS: Step = Step {
    name: "tests",
    what: "tests",
    run: |_| Ok(Outcome::Tested(Tally { passed: 7, failed: 0, skipped: 1 }, None)),
};

fn words(ran: &Ran) -> Vec<&'static str> {
    ran.lines.iter().map(|line| line.word).collect()
}

#[test]
fn gates_that_hold_add_up_their_tests() {
    let ran = gates(Path::new("."), &[&HOLDS, &TESTS, &ABSENT, &TESTS], false);
    assert!(ran.held);
    assert_eq!(words(&ran), ["ok", "ok", "absent", "ok"]);
    assert_eq!(ran.total, Tally { passed: 14, failed: 0, skipped: 2 });
}

#[test]
fn the_first_failure_ends_the_run() {
    let ran = gates(Path::new("."), &[&HOLDS, &REFUSES, &TESTS], false);
    assert!(!ran.held);
    assert_eq!(words(&ran), ["ok", "FAILED", "not run"]);
    assert_eq!(ran.total, Tally { passed: 0, failed: 1, skipped: 0 });
}

#[test]
fn keeping_going_runs_the_rest_and_still_fails() {
    let ran = gates(Path::new("."), &[&REFUSES, &BREAKS, &TESTS], true);
    assert!(!ran.held);
    assert_eq!(words(&ran), ["FAILED", "FAILED", "ok"]);
    assert_eq!(ran.total, Tally { passed: 7, failed: 2, skipped: 1 });
}

#[test]
fn a_test_command_that_fails_without_a_failed_test_counts_as_one() {
    let died = |passed, failed| {
        Ok(Outcome::Tested(Tally { passed, failed, skipped: 0 }, Some("died".to_owned())))
    };
    let mut total = Tally::default();
    assert_eq!(super::judge(died(3, 0), &mut total).0, "FAILED");
    assert_eq!(total, Tally { passed: 3, failed: 1, skipped: 0 });
    assert_eq!(super::judge(died(3, 2), &mut total).0, "FAILED");
    assert_eq!(total, Tally { passed: 6, failed: 3, skipped: 0 });
}

#[test]
fn gates_are_chosen_by_name() {
    let all = [HOLDS, TESTS, ABSENT];
    let names = |options: &Options| -> Vec<&str> {
        chosen(&all, options).unwrap().iter().map(|step| step.name).collect()
    };
    assert_eq!(names(&Options::default()), ["holds", "tests", "absent"]);
    assert_eq!(
        names(&Options { skip: vec!["tests".into()], ..Options::default() }),
        ["holds", "absent"]
    );
    assert_eq!(
        names(&Options { only: vec!["absent".into(), "holds".into()], ..Options::default() }),
        ["holds", "absent"]
    );
}

#[test]
fn a_gate_that_does_not_exist_is_an_error_that_names_those_that_do() {
    let all = [HOLDS, TESTS];
    let error = chosen(&all, &Options { skip: vec!["test".into()], ..Options::default() })
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("`test`") && error.contains("holds tests"), "{error}");
}
