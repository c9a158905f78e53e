use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use super::{Ended, LONGEST, Program, Waited, one, started, waited};
use crate::packages::packages;
use crate::run::workspace_root;

/// A folder for what programs print, removed at the end.
struct Logs(PathBuf);

impl Logs {
    fn new(test: &str) -> Logs {
        let folder = std::env::temp_dir().join(format!("cw-suite-{test}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Logs(folder)
    }
}

impl Drop for Logs {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn shell(text: &str) -> Program {
    let mut command = Command::new("sh");
    command.args(["-c", text]);
    Program { package: "clearway-x".to_owned(), file: "tests/y.rs".to_owned(), command }
}

fn ran(test: &str, text: &str) -> Ended {
    one(shell(text), &Logs::new(test).0)
}

#[test]
fn a_program_that_holds_is_counted() {
    let ended = ran("holds", "echo 'test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured'");
    assert!(ended.held());
    assert_eq!((ended.report.tally.passed, ended.report.tally.skipped), (3, 1));
    assert!(ended.failures().is_empty());
}

#[test]
fn failed_tests_are_named_with_their_program() {
    let ended = ran(
        "fails",
        "printf 'failures:\\n\\n---- a::b stdout ----\\n    no test\\n\\nfailures:\\n    a::b\\n    \
         c\\n\\ntest result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured\\n'; exit 101",
    );
    assert!(!ended.held());
    assert_eq!(ended.failures(), ["a::b (clearway-x tests/y.rs)", "c (clearway-x tests/y.rs)"]);
}

#[test]
fn a_program_that_dies_is_a_failure_without_a_test() {
    let ended = ran("dies", "echo 'running 2 tests'; kill -ABRT $$");
    assert!(!ended.held());
    assert_eq!(ended.failures(), ["clearway-x tests/y.rs"]);
    assert!(ended.broken.unwrap().contains("it died"));
}

#[test]
fn a_program_that_cannot_be_started_is_a_failure() {
    let mut program = shell("");
    program.command = Command::new("/nowhere/at/all");
    let ended = one(program, &Logs::new("absent").0);
    assert!(ended.broken.unwrap().contains("cannot be started"));
}

#[test]
fn a_program_that_hangs_is_ended() {
    let logs = Logs::new("hangs");
    let child = started(&mut shell("exec sleep 600").command, &logs.0.join("log")).unwrap();
    assert!(matches!(waited(child, Duration::from_millis(50)), Waited::Hung));
}

/// A file that was renamed would quietly run last.
#[test]
fn the_longest_programs_exist() {
    let packages = packages(&workspace_root().unwrap()).unwrap();
    for (name, file) in LONGEST {
        let package = packages.iter().find(|package| package.name.as_str() == *name);
        let package = package.unwrap_or_else(|| panic!("there is no {name}"));
        let folder = package.manifest_path.parent().unwrap();
        assert!(
            package.targets.iter().any(|target| target.src_path == folder.join(file)),
            "{name} has no {file}"
        );
    }
}
