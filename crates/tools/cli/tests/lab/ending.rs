//! A run that is stopped or killed leaves nobody behind.

use std::fs;
use std::process::Child;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::world::{Folder, eventually, lab, root, text, two_cores};

/// Processes that were started by the run with this number, by what only they have on their command
/// lines or among their variables.
fn started_by(run: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let Ok(pid) = entry.file_name().to_string_lossy().parse::<u32>() else { continue };
        let read = |name: &str| {
            String::from_utf8_lossy(&fs::read(format!("/proc/{pid}/{name}")).unwrap_or_default())
                .replace('\0', " ")
        };
        let (line, environment) = (read("cmdline"), read("environ"));
        if pid != run && environment.contains(&format!("CWLAB_TEST={run} ")) {
            found.push(format!("{pid} {line}"));
        }
    }
    found
}

/// A long run whose server and client, and the processes that hold its namespaces, are up.
fn begin(folder: &Folder) -> Child {
    // What is started inherits the variable, and nobody else has it. The number is known only
    // afterwards, so a shell takes it.
    let lab = lab(
        folder,
        "pingpong --seconds 60 --points 8 --systems kernel,clearway-tap --reference kernel",
    );
    let mut command = std::process::Command::new("sh");
    command
        .arg("-c")
        .arg("export CWLAB_TEST=$$; exec \"$0\" \"$@\"")
        .arg(lab.get_program())
        .args(lab.get_args());
    command
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    let child = command.spawn().unwrap();
    let run = child.id();
    // With the server and who holds the two namespaces. One that is between fork and exec has no
    // command line, and one that is looked at in that moment no variables.
    eventually("a client asks, and all others are there", || {
        let started = started_by(run);
        started.len() >= 4 && started.iter().any(|line| line.contains("bench client"))
    });
    child
}

fn folder_of(run: u32) -> std::path::PathBuf {
    std::env::temp_dir().join(format!("cwlab-{run}-0"))
}

#[test]
fn a_run_that_is_stopped_tells_what_it_has_and_leaves_nothing() {
    if !root() || !two_cores() {
        return;
    }
    let folder = Folder::new();
    let child = begin(&folder);
    let run = child.id();
    assert!(folder_of(run).exists());
    kill(Pid::from_raw(run as i32), Signal::SIGINT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let report = fs::read_to_string(folder.path.join("out/pingpong.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["stopped"], true);
    assert!(text(&output).contains("stopped before the end"), "{}", text(&output));
    assert_eq!(started_by(run), [""; 0]);
    assert!(!folder_of(run).exists());
}

#[test]
fn nobody_survives_a_run_that_is_killed() {
    if !root() || !two_cores() {
        return;
    }
    let folder = Folder::new();
    let mut child = begin(&folder);
    let run = child.id();
    child.kill().unwrap();
    child.wait().unwrap();
    // The kernel kills them, and the namespaces go with those who held them.
    eventually("all are gone", || started_by(run).is_empty());
    fs::remove_dir_all(folder_of(run)).unwrap();
}
