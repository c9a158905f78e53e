//! Standard output that nobody reads any more, and one that takes nothing.

use std::fs::File;
use std::process::{Command, Output, Stdio};

/// What says something without a host and without rights.
const COMMANDS: [&[&str]; 9] = [
    &["help", "json"],
    &["help", "errors"],
    &["help", "E0103"],
    &["version"],
    &["completions", "bash"],
    &["man"],
    &["doctor", "--json"],
    &["doctor"],
    &["extcap"],
];

fn said(args: &[&str], to: impl Into<Stdio>) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_clearway"));
    command.args(args).stdin(Stdio::null()).stdout(to).stderr(Stdio::piped());
    command.spawn().unwrap().wait_with_output().unwrap()
}

#[test]
fn a_reader_that_has_gone_ends_a_command_without_a_word() {
    for args in COMMANDS {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = said(args, writer);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && complained.is_empty(), "{args:?}: {complained}");
    }
}

#[test]
fn what_cannot_be_written_is_a_failure_that_is_told() {
    for args in COMMANDS {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = said(args, full);
        let complained = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(complained.starts_with("clearway: "), "{args:?}: {complained}");
        assert!(complained.contains("No space left"), "{args:?}: {complained}");
    }
}
