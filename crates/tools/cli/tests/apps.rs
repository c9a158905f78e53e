//! Programs of Debian over the host, compared with the kernel (`tests/apps`): the short form, and
//! the page that tells of all of them.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[path = "common/preload.rs"]
mod preload;
#[path = "common/skip.rs"]
mod skip;

/// `tests/apps/run` with these words, and the programs of this build.
fn run(words: &[&str]) -> Output {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let programs = Path::new(env!("CARGO_BIN_EXE_clearway")).parent().unwrap();
    let mut command = Command::new(root.join("tests/apps/run"));
    command.args(words).arg("--programs").arg(programs).stdin(Stdio::null());
    command.output().unwrap()
}

fn must_succeed(words: &[&str]) -> String {
    let output = run(words);
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "tests/apps/run {words:?}: {}\n{out}{err}", output.status);
    out.into_owned()
}

#[test]
fn programs_of_debian_do_over_clearway_what_they_do_over_the_kernel() {
    // Our own folder of the kernel's belongs to the user that we are.
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !skip::or_skip(root, "the namespaces of tests/apps need root. Run these tests as root.") {
        return;
    }
    preload::build();
    let said = must_succeed(&["--short", "--jobs", "2"]);
    assert!(said.contains(": ok"), "{said}");
}

#[test]
fn the_page_of_programs_has_the_cases_that_exist() {
    let said = must_succeed(&["--check-page"]);
    assert!(said.contains("the page has"), "{said}");
}

#[test]
fn a_name_that_no_case_has_is_said() {
    let output = run(&["--only", "no-such-program"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
}
