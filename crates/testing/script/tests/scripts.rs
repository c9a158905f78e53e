//! Every script below tests/scripts, against the core in each family, and against the kernel of
//! this machine where that is allowed.

use std::path::{Path, PathBuf};

use clearway_script::backend::kernel;
use clearway_script::suite::{Job, Options, Outcome, find, run, run_all};
use clearway_script::{IpVersion, Subject};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/scripts").canonicalize().unwrap()
}

fn jobs(subject: Subject, versions: &[IpVersion]) -> Vec<Job> {
    let paths = find(&folder()).unwrap();
    assert!(paths.len() >= 40, "only {} scripts were found", paths.len());
    let all = paths.iter().flat_map(|path| versions.iter().map(|version| (path.clone(), *version)));
    all.map(|(path, version)| Job { path, subject, version }).collect()
}

/// Runs them all, and fails with everything that did not hold.
fn hold(jobs: &[Job], threads: usize, options: Options) {
    let outcomes = run_all(jobs, threads, options, |_, _, _| {});
    let failed = jobs.iter().zip(&outcomes).filter_map(|(job, outcome)| match outcome {
        Outcome::Failed(why) => Some(format!("{}: {why}", job.version.name())),
        _ => None,
    });
    let failed: Vec<String> = failed.collect();
    let held = outcomes.iter().filter(|outcome| **outcome == Outcome::Held).count();
    assert!(
        failed.is_empty(),
        "{} scripts failed, {held} held:\n{}",
        failed.len(),
        failed.join("\n")
    );
    assert!(held > 0, "no script ran at all");
}

#[test]
fn the_core_holds_every_script_over_ipv4() {
    hold(&jobs(Subject::Core, &[IpVersion::V4, IpVersion::V4Mapped]), 1, Options::default());
}

#[test]
fn the_core_holds_every_script_over_ipv6() {
    hold(&jobs(Subject::Core, &[IpVersion::V6]), 1, Options::default());
}

/// The peer's sequence numbers wrap within a few hundred bytes; nothing else may change.
#[test]
fn the_core_holds_every_script_when_sequence_numbers_wrap() {
    let options = Options { remote_shift: u32::MAX - 300, ..Options::default() };
    hold(&jobs(Subject::Core, &[IpVersion::V4]), 1, options);
}

/// Scripts are what both stacks have in common: where Linux disagrees, the script says so and why.
#[test]
fn linux_holds_every_script() {
    if let Err(why) = kernel::may_run() {
        eprintln!("not run: {why}");
        return;
    }
    hold(&jobs(Subject::Kernel, &[IpVersion::V4, IpVersion::V6]), 12, Options::default());
}

fn failure_of(text: &str) -> String {
    let path =
        std::env::temp_dir().join(format!("clearway-script-{}-{:p}.pkt", std::process::id(), text));
    std::fs::write(&path, text).unwrap();
    let job = Job { path: path.clone(), subject: Subject::Core, version: IpVersion::V4 };
    let (outcome, _) = run(&job, Options::default());
    std::fs::remove_file(&path).unwrap();
    match outcome {
        Outcome::Failed(why) => why.replace(&path.display().to_string(), "FILE"),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_difference_is_shown_with_its_place_and_both_packets() {
    let why = failure_of("0 < S 100:100(0) win 1000 <mss 1000>\n+0 > R. 0:0(0) ack 102 win 0\n");
    assert!(why.starts_with("FILE:2:1: it acknowledges 101\n"), "{why}");
    assert!(why.contains("expected +0.0 > R. 0:0(0) ack 102 win 0"), "{why}");
    assert!(why.contains("found    0.0 > R. 0:0(0) ack 101 win 0"), "{why}");
    assert!(why.contains("192.168.0.1:8080 > 192.0.2.1:45001: Flags [R.]"), "{why}");
}

#[test]
fn a_packet_that_does_not_come_fails_the_script() {
    let why = failure_of("0 < R 100:100(0) win 0\n+0 > R 0:0(0)\n");
    assert!(why.starts_with("FILE:2:1: no packet was sent until 0.004"), "{why}");
}

#[test]
fn a_packet_that_is_not_expected_fails_the_script() {
    let why = failure_of("0 < S 100:100(0) win 1000\n+.1 < R 101:101(0) win 0\n");
    assert!(
        why.starts_with("FILE:2:1: a packet that the script does not expect before this"),
        "{why}"
    );
    let why = failure_of("0 < S 100:100(0) win 1000\n");
    assert!(why.starts_with("FILE:1:1: a packet that the script does not expect"), "{why}");
}

#[test]
fn a_packet_at_the_wrong_time_fails_the_script() {
    let why = failure_of("0 < S 100:100(0) win 1000\n+.1 > R. 0:0(0) ack 101\n");
    assert!(why.starts_with("FILE:2:1: it is 0.1 s too early"), "{why}");
}

#[test]
fn a_call_that_blocks_unannounced_fails_the_script() {
    let listen = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n";
    let why = failure_of(&format!("{listen}+0 accept(3, ..., ...) = 4\n"));
    assert!(why.starts_with("FILE:4:1: the call blocks"), "{why}");
    let why = failure_of(&format!("{listen}+0...+1 accept(3, ..., ...) = 4\n"));
    assert!(why.starts_with("FILE:4:1: the call has not returned"), "{why}");
    let why = failure_of(&format!("{listen}+0 listen(3, 1) = 0\n"));
    assert!(
        why.starts_with("FILE:4:1: the call failed\n") && why.contains("returned -1 EINVAL"),
        "{why}"
    );
}

#[test]
fn an_assertion_that_does_not_hold_shows_its_values() {
    let why = failure_of("0 < R 1:1(0) win 0\n3600 %{ assert 1 == 2 }%\n");
    assert!(why.starts_with("FILE:2:6: `1 == 2` does not hold"), "{why}");
}
