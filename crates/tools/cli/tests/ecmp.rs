//! Hosts that share an address behind a router with BIRD: what breaks when one is added, drained,
//! taken back and killed (`examples/ecmp`, its short form).

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

#[path = "common/preload.rs"]
mod preload;
#[path = "common/skip.rs"]
mod skip;

/// Seconds without packets after which the router may move a bucket.
const IDLE_SECONDS: f64 = 3.0;

fn count(row: &Value, key: &str) -> u64 {
    row[key].as_u64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// The connections that broke, without those that were silent for so long that their bucket
/// counted as idle: on a machine that is busy with other things the client may be.
fn lost(row: &Value) -> Vec<&Value> {
    let kinds = row["lost"].as_object().unwrap().values().flat_map(|kind| kind.as_array().unwrap());
    kinds.filter(|event| event["pause"].as_f64().unwrap() < IDLE_SECONDS / 2.0).collect()
}

#[test]
fn only_the_connections_of_a_host_that_dies_break_behind_a_router() {
    let root = std::fs::metadata("/proc/self").unwrap().uid() == 0;
    if !skip::or_skip(root, "the namespaces of examples/ecmp need root. Run these tests as root.") {
        return;
    }
    let there = Command::new("birdc").arg("-v").stdin(Stdio::null()).output().is_ok();
    if !skip::or_skip(there, "BIRD is not installed: make test brings bird2") {
        return;
    }
    preload::build();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples/ecmp/run");
    let mut command = Command::new(script);
    command.args(["--short", "--json", "--busy", "24", "--rate", "6"]);
    // A machine that other tests keep busy lets a daemon wait for more than half a second.
    command.args(["--bfd", "30"]);
    command.args(["--idle", &format!("{IDLE_SECONDS:.0}")]);
    command.args(["--clearway", env!("CARGO_BIN_EXE_clearway")]);
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    let rows: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["phase"].as_str().unwrap()).collect();
    assert_eq!(
        names,
        ["two hosts", "h3 added", "h1 drained", "h1 taken back", "h2 killed", "after it"]
    );
    for row in &rows {
        let lost = lost(row);
        if ["h2 killed", "after it"].contains(&row["phase"].as_str().unwrap()) {
            // One that was about to be made knows no host yet, and who waits for an answer gives
            // up late.
            let own = lost.iter().all(|event| event["host"] == "h2" || event["kind"] == "short");
            assert!(own, "only its own: {lost:?}");
        } else {
            assert!(lost.is_empty(), "{}: {lost:?}", row["phase"]);
        }
    }
    // Whoever was refused by the host that was drained came to another one.
    assert!(rows.iter().all(|row| count(row, "done") > 0), "{rows:#?}");
    let after = rows.last().unwrap();
    assert_eq!((count(after, "refused"), count(after, "unreachable")), (0, 0), "{after}");
    assert!(after["hosts"].get("h2").is_none() && after["hosts"].get("h1").is_some(), "{after}");
}
