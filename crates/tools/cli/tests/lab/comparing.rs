//! Two runs beside each other, from files that do not change.

use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::world::{CLEARWAY, Folder, text};

fn lab(args: &[&str]) -> Output {
    let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/lab/files");
    Command::new(CLEARWAY)
        .arg("lab")
        .args(args)
        .current_dir(files)
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

#[test]
fn the_table_of_two_runs_is_the_one_on_file() {
    let output = lab(&["compare", "before.json", "after.json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), include_str!("files/compare.txt"));
}

#[test]
fn the_same_in_json() {
    let output = lab(&["compare", "before.json", "after.json", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let said: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = said["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| {
        row["system"] == "clearway"
            && row["point"] == "64"
            && row["metric"] == "requests_per_second"
    });
    assert_eq!(row.unwrap()["ratio"], 0.8);
    assert!(
        said["differences"]
            .as_array()
            .unwrap()
            .iter()
            .any(|line| line.as_str().unwrap().starts_with("commit: "))
    );
}

#[test]
fn what_became_too_slow_fails() {
    let code = |args: &[&str]| lab(args).status.code();
    // Clearway at 64 connections has 0.8 of what it had; by its ratio to the kernel, which was
    // slower too, all of it.
    assert_eq!(code(&["compare", "before.json", "after.json", "--fail-below", "0.9"]), Some(1));
    assert_eq!(code(&["compare", "before.json", "after.json", "--fail-below", "0.75"]), Some(0));
    assert_eq!(
        code(&["compare", "before.json", "after.json", "--fail-below", "0.9", "--relative"]),
        Some(0)
    );
    let output = lab(&["compare", "before.json", "after.json", "--fail-below", "0.9"]);
    assert!(
        text(&output)
            .contains("worse than 0.9 of what it was: clearway at 64: requests_per_second"),
        "{}",
        text(&output)
    );
}

#[test]
fn a_file_is_shown_again_with_another_reference() {
    let folder = Folder::new();
    let page = folder.path.join("page.html");
    let output =
        lab(&["show", "before.json", "--reference", "clearway", "--html", page.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), include_str!("files/show.txt"));
    assert!(std::fs::read_to_string(page).unwrap().contains("ratio to clearway"));
    let output = lab(&["show", "before.json", "--reference", "nobody"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("it has clearway, kernel, floor"), "{}", text(&output));
}

#[test]
fn files_that_are_no_reports_are_told() {
    for file in ["compare.txt", "nothing.json"] {
        let output = lab(&["compare", file, "after.json"]);
        assert_eq!(output.status.code(), Some(1), "{}", text(&output));
        assert!(text(&output).contains(file), "{}", text(&output));
    }
}
