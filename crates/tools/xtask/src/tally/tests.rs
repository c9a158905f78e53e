use super::{Report, Tally, reason};

#[test]
fn the_last_line_of_a_test_program_is_read() {
    let line = "test result: ok. 12 passed; 0 failed; 1 ignored; 0 measured; 3 filtered out; \
        finished in 0.01s";
    assert_eq!(Tally::from_line(line), Some(Tally { passed: 12, failed: 0, skipped: 1 }));
    let line = "test result: FAILED. 3 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; \
        finished in 1.20s";
    assert_eq!(Tally::from_line(line), Some(Tally { passed: 3, failed: 2, skipped: 0 }));
}

#[test]
fn other_lines_are_not_results() {
    assert_eq!(Tally::from_line("test result_is_kept ... ok"), None);
    assert_eq!(Tally::from_line("running 3 tests"), None);
    assert_eq!(Tally::from_line("test result: "), None);
}

#[test]
fn skipped_tests_are_named_only_when_there_are_some() {
    assert_eq!(Tally { passed: 5, failed: 0, skipped: 0 }.to_string(), "5 passed, 0 failed");
    assert_eq!(
        Tally { passed: 5, failed: 1, skipped: 2 }.to_string(),
        "5 passed, 1 failed, 2 skipped"
    );
}

#[test]
fn counts_add_up() {
    let mut sum = Tally { passed: 1, failed: 2, skipped: 3 };
    sum.add(Tally { passed: 10, failed: 20, skipped: 30 });
    assert_eq!(sum, Tally { passed: 11, failed: 22, skipped: 33 });
}

#[test]
fn failed_tests_are_read_from_the_last_list() {
    let printed = "\
running 3 tests
test a ... ok
test slow has been running for over 60 seconds
test stuck has been running for over 60 seconds
test b::c ... FAILED
test slow ... ok

failures:

---- b::c stdout ----
    this is no name

failures:
    b::c

test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
running 1 test
test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
";
    let report = Report::read(printed);
    assert_eq!(report.tally, Tally { passed: 3, failed: 1, skipped: 0 });
    assert_eq!(report.failed, ["b::c"]);
    assert_eq!(report.under_way, ["stuck"]);
}

#[test]
fn why_a_test_failed_is_told_in_a_line() {
    let printed = "\
failures:

---- b::c stdout ----

thread 'b::c' (1234) panicked at src/b.rs:7:5:
assertion `left == right` failed
  left: 1
 right: 2
stack backtrace:
   0: main
what the host said:

---- long stdout ----

thread 'long' (1235) panicked at src/long.rs:1:1:
xxx

failures:
    b::c
    long
";
    let told = reason(printed, "b::c").unwrap();
    assert_eq!(told, "src/b.rs:7:5: assertion `left == right` failed   left: 1  right: 2");
    let long = printed.replace("xxx", &"é".repeat(1_000));
    let told = reason(&long, "long").unwrap();
    assert!(told.starts_with("src/long.rs:1:1: éé") && told.ends_with("é…"), "{told}");
    assert_eq!((told.chars().count(), reason(printed, "other")), (401, None));
}
